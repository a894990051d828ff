"""What a server has to bear: requests that come to the wrong shard, containers that allow less, clients that say
nothing, too many requests, too many connections, more cores; and how much memory its rows take. More parts, as those
of parts.py."""
import contextlib
import json
import os
import pathlib
import re
import statistics
import subprocess

from cgroup import Cgroup, limit_cores
from measurements import CASSANDRA as PEER
from measurements import cpu, ratios
from parts import ONE_EACH, fill, hold, let_compact, one_column, records_of, warm_up
from servers import ROOT, Limit, Server, fail, say
from turns import Data

IDLE, CONNECTS = 5000, 10_000
# A cgroup's share of two cores, and its memory.
CORES, MEMORY = 1.5, 2 << 30
# Of what is offered in an overload there may be so many operations under way.
MOST_IN_FLIGHT = 8192
# To ask for three times what a server can do, the client needs so many times its cores: a read costs it three times
# what it costs Helenus, and an open loop more.
CLIENT_CORES_FOR_OVERLOAD = 16
# Reads a second that leave enough of one of the client's cores to 10,000 connects.
READS_BESIDE_STORM = 4000
# Times as long as others a server warms up that reads most rows from files at first: behind 15 s of it a seventh of all reads is
# from files yet, behind 31 s a hundredth.
LONG_WARM_UP = 3
# Rows whose memory is measured: as many as memtables have room for, as of what is flushed meanwhile a heap says nothing; and
# many, so that it counts little what else a process takes or gives back meanwhile.
IN_HEAP, IN_MEMTABLE = 100_000, 300_000
# What memtables say is about right. A process that grew by less than this share of it gave back others' memory meanwhile,
# which is no measure of its rows: those are measured again, so many times at most.
OF_MEMTABLES, MEASURED_AT_MOST = 0.8, 3


def variant(bench, name, address, cores, command=(), cgroups=(), shards=None):
    """Another node of the same Helenus, with data of its own, that is started another way."""
    shards = shards or bench.subject.shards
    node = bench.subject.nodes[0].another(name, address, bench.folder / "data" / name.replace(" ", "-"), cores)
    node.prefix, node.cgroups = list(command), list(cgroups)
    node.arguments += ["--shards", str(shards)]
    server = Server(name, [node], shards)
    bench.servers.append(server)
    say(f"{name}: starts on {address}, cores {cores or 'all'}")
    for other in bench.servers:
        if other is not server:
            other.freeze()
    server.start(clean=True)
    return server


def end(bench, server):
    server.stop()
    server.remove_cgroups()
    bench.servers.remove(server)


def direct(bench):
    """The same from a driver that knows nodes and no shards: what a request costs that comes to the wrong shard."""
    server = bench.subject
    if server.shards < 2:
        # The shards have a core each, all the same.
        cores = sorted(os.sched_getaffinity(0))[:2]
        if len(cores) < 2:
            bench.notes.append("direct: left out, as there is one core")
            return
        bench.notes.append("direct: one of the two shards shares its core with the client")
        server = variant(bench, "two shards", "127.0.6.4", ",".join(map(str, cores)), shards=2)
    data = one_column(bench)
    fill(bench, data, [server])
    threads, connections = ONE_EACH
    for workload, one in (("c", "read"), ("w", "write")):
        def measure(server, routing="any-shard"):
            return threads, bench.measure(server, workload, data, threads, bench.options.duration,
                                          connections=connections, more=("--routing", routing))

        values = []
        for turn in range(bench.options.rounds):
            of_routing = {}
            for routing in ("shard", "any-shard"):
                _, figures = measure(server, routing)
                run = bench.keep("direct", f"{one}s, {routing}", "peak", server, turn + 1, threads, figures)
                of_routing[routing] = run
            values.append(cpu(of_routing["any-shard"]) / cpu(of_routing["shard"]))
        hold(bench, "direct", f"CPU of a {one} by any shard beside one by its own", values, 1.3, True,
             again=([server], measure))
    if server is not bench.subject:
        end(bench, server)


def knobs(bench):
    """Without io_uring; in a cgroup of 1.5 cores and 2 GiB; among 5,000 connections that say nothing."""
    subject, data = bench.subject, one_column(bench)
    fill(bench, data, [subject])
    cores = subject.nodes[0].cores
    refusing = [str(ROOT / "bench/without_io_uring.py")]
    free = variant(bench, "free", "127.0.5.1", cores)
    held = [free, variant(bench, "without io_uring", "127.0.5.2", cores, refusing)]
    try:
        held.append(variant(bench, "in a cgroup", "127.0.5.3", cores, cgroups=cgroups("knobs")))
    except OSError as error:
        bench.notes.append(f"knobs: left out the cgroup, which needs the right to make one: {error}")
    threads, connections = ONE_EACH
    for server in held:
        fill(bench, data, [server])
    # With 2 GiB most rows are in files when they are loaded, and in the cache when they were asked for. Some are asked for seldom.
    warm_up(bench, data, servers=held, times=LONG_WARM_UP)
    for workload, case in (("c", "reads"), ("w", "writes")):

        def measure(server):
            return threads, bench.measure(server, workload, data, threads, bench.options.duration,
                                          connections=connections)

        runs = bench.rounds("knobs", case, "peak", held, measure)
        for server in held[1:]:
            bound = 0.8
            if server.name == "without io_uring":
                # What epoll costs where nothing else is done is not the server's; a twentieth is noise.
                bound = 0.95 * statistics.median(limit_by_drivers(bench, data, case, workload))
            hold(bench, "knobs", f"{case} for CPU {server.name} beside the free run",
                 ratios(runs, "free", server.name, cpu), bound, False, again=([server], measure))
        idle_clients(bench, free, case, measure)
    for server in held:
        end(bench, server)


def limit_by_drivers(bench, data, case, workload):
    """What the limit does for its CPU by epoll, beside what it does by io_uring, in each round."""
    of_driver = {}
    for driver, address in (("io_uring", "127.0.5.4"), ("epoll", "127.0.5.5")):
        cores, name = bench.subject.nodes[0].cores, f"limit by {driver}"
        learns_from = (bench.options.limit, bench.subject.addresses()[0], bench.subject.shards)
        node = Limit(name, address, bench.folder / "data" / name.replace(" ", "-"), cores, *learns_from)
        node.arguments = ["--driver", driver]
        of_driver[driver] = Server(name, [node], upstream=bench.subject)
    bench.servers += of_driver.values()
    threads, connections = ONE_EACH

    def measure(server):
        return threads, bench.measure(server, workload, data, threads, bench.options.duration,
                                      connections=connections)

    runs = bench.rounds("knobs", f"{case}, the limit", "peak", of_driver.values(), measure)
    for server in of_driver.values():
        end(bench, server)
    return ratios(runs, "limit by io_uring", "limit by epoll", cpu)


def idle_clients(bench, free, case, measure):
    """The same with and without connections on which nothing is asked."""

    def among_idle(server):
        bench.turn(server)
        with bench.beside(server, "idle", "--connections-held", IDLE, "--duration", "600s"):
            return measure(server)

    values = []
    for turn in range(bench.options.rounds):
        _, alone = measure(free)
        threads, among = among_idle(free)
        bench.keep("knobs", f"{case} among {IDLE:,} idle connections", "peak", free, turn + 1, threads, among)
        values.append(alone["server_cpu"]["micros_per_operation"] / among["server_cpu"]["micros_per_operation"])
    hold(bench, "knobs", f"{case} for CPU among {IDLE:,} idle connections beside the free run", values, 0.8, False,
         again=([free], among_idle))


def cgroups(name):
    """A share of two cores, and memory, page cache included."""

    def set_cores(group, unified):
        limit_cores(group, unified, CORES, 100_000)

    def set_memory(group, unified):
        (group / ("memory.max" if unified else "memory.limit_in_bytes")).write_text(str(MEMORY))

    return [Cgroup("cpu", name, set_cores), Cgroup("memory", name, set_memory)]


def overload(bench):
    """Three times as much as the server can do: what is done of it, what others see, and how soon it is over."""
    subject, data = bench.subject, one_column(bench)
    fill(bench, data, [subject])
    # What is left to compact from other parts would take most of the little that a weakened server has.
    bench.turn(subject)
    subject.settle(bench.options.settle)
    with weakened(bench, subject):
        ask_for_thrice(bench, subject, data)


@contextlib.contextmanager
def weakened(bench, server):
    """A server that has a part of its cores only, where the client has too few to ask for more than all of them do."""
    has = bench.count(bench.client_cores) if bench.client_cores else os.cpu_count()
    cores = has / CLIENT_CORES_FOR_OVERLOAD
    if cores >= bench.count(server.nodes[0].cores or "0"):
        yield
        return
    try:
        # Of the shortest period that a quota of a millisecond, the least there is, leaves room for.
        group = Cgroup("cpu", "weakened", lambda *group: limit_cores(*group, cores, 20_000))
    except OSError as error:
        bench.notes.append(f"overload: the client has too few cores to ask for three times the peak, and the server "
                           f"could not be given less, which needs the right to make a cgroup: {error}")
        yield
        return
    bench.notes.append(f"overload: the server may use {cores:.3g} of a core, so that the client, which has {has}, can "
                       "ask for three times the peak")
    bench.turn(server)
    try:
        for pid in server.pids():
            group.enter(pid)
        yield
    finally:
        for pid in server.pids():
            group.leave(pid)
        group.remove()


def ask_for_thrice(bench, subject, data):
    """Three times the peak, of reads, and of reads and updates."""
    for workload, case in (("c", "reads"), ("a", "half and half")):
        threads = bench.find_peak(subject, workload, data)
        goodput, waits, recovered = [], [], []

        def flooded(server):
            return MOST_IN_FLIGHT, bench.measure(server, workload, data, MOST_IN_FLIGHT, bench.options.duration, rate)

        for turn in range(bench.options.rounds):
            peak = bench.measure(subject, workload, data, threads, bench.options.duration)
            bench.keep("overload", case, "peak", subject, turn + 1, threads, peak)
            rate = int(peak["ops_per_second"] * 3)
            # Another client, that asks little, whatever becomes of what it asked before.
            other = bench.asking(subject, workload, data, 64, bench.options.duration, 100)
            with bench.beside(subject, *other) as little:
                _, flood = flooded(subject)
            bench.keep("overload", f"{case}, three times the peak", "flood", subject, turn + 1, MOST_IN_FLIGHT, flood)
            bench.keep("overload", f"{case}, another client meanwhile", "flood", subject, turn + 1, 64, little)
            after = bench.measure(subject, workload, data, threads, 5, int(peak["ops_per_second"] * 0.5), warmup=0)
            bench.keep("overload", f"{case}, right after it", "fixed", subject, turn + 1, threads, after)
            goodput.append(flood["ops_per_second"] / peak["ops_per_second"])
            waits.append(little["latency"]["max"] / 1000)
            recovered.append(seconds_until_calm(after))
        hold(bench, "overload", f"{case} done at three times the peak beside the peak", goodput, 0.9, False,
             again=([subject], flooded))
        hold(bench, "overload", f"{case}: longest wait of another client", waits, 1000, True, "ms",
             again=([subject], flooded), waits=True)
        hold(bench, "overload", f"{case}: until all is done again as it comes", recovered, 1, True, "s",
             again=([subject], flooded))


def seconds_until_calm(figures, least=0.95):
    """When the first second began in which as much was done as was asked, without an error."""
    asked, begun = figures["rate"], 0
    for interval in figures["intervals"]:
        if interval["ops_per_second"] >= least * asked and not interval["errors"]:
            return begun
        begun = interval["at"]
    return figures["seconds"]


def storm(bench):
    """10,000 connects a second: what those see that are connected, of Helenus and of the limit."""
    subject, data = bench.subject, one_column(bench)
    fill(bench, data, [subject])
    threads, first = 64, before_others(bench)
    figures = bench.measure(subject, "c", data, threads, bench.options.duration)
    rate = min(int(figures["ops_per_second"] * 0.3), READS_BESIDE_STORM * bench.client_threads())
    servers = [server for server in bench.servers if server.name != PEER]
    ratios_of = {server.name: [] for server in servers}
    windy_p99 = {server.name: [] for server in servers}

    def among_connects(server):
        seconds = bench.options.duration + bench.options.warmup
        with bench.beside(server, "storm", "--rate", CONNECTS, "--duration", f"{seconds}s") as connects:
            return connects, bench.measure(server, "c", data, threads, bench.options.duration, rate, prefix=first)

    def calm_and_windy(server, turn):
        calm = bench.measure(server, "c", data, threads, bench.options.duration, rate, prefix=first)
        bench.keep("storm", "calm", "fixed", server, turn, threads, calm)
        connects, windy = among_connects(server)
        bench.keep("storm", f"among {CONNECTS:,} connects a second", "fixed", server, turn, threads, windy)
        say(f"storm: {connects['ops_per_second']:,.0f} connects a second were answered by {server.name}")
        if connects["ops_per_second"] < 0.95 * CONNECTS:
            bench.notes.append(f"storm: {connects['ops_per_second']:,.0f} connects a second, not {CONNECTS:,}, with {server.name}")
        windy_p99[server.name].append(windy["latency"]["p99"])
        return windy["ops_per_second"] / calm["ops_per_second"], windy["latency"]["p99"] / calm["latency"]["p99"]

    for turn in range(bench.options.rounds):
        for server in servers:
            ratios_of[server.name].append(calm_and_windy(server, turn + 1))
    done, slower = zip(*ratios_of.pop(subject.name))
    again = [subject], lambda server: (threads, among_connects(server)[1])
    hold(bench, "storm", "reads done among connects beside calm ones", list(done), 0.99, False, again=again)
    hold(bench, "storm", "p99 of reads among connects beside calm ones", list(slower), 2, True, again=again, waits=True)
    # What the kernel and the client take for a connect disturbs with any server: the limit's ratio was over 2 itself.
    for name, of_limit in windy_p99.items():
        if name != subject.name:
            beside = [ours / theirs for ours, theirs in zip(windy_p99[subject.name], of_limit)]
            hold(bench, "storm", f"p99 of reads among connects beside those of {name}", beside, 2, True,
                 again=again, waits=True)
    for name, of_limit in ratios_of.items():
        ratio = statistics.median(slower for _, slower in of_limit)
        bench.notes.append(f"storm: p99 of reads among connects beside calm ones is {ratio:.2f} with {name}")


def before_others(bench):
    """What a command begins with that runs before all others on its cores: the reader that is connected must not wait
    for the client that connects."""
    words = ("chrt", "--fifo", "1")
    if subprocess.run([*words, "true"], stderr=subprocess.DEVNULL).returncode == 0:
        return words
    bench.notes.append("storm: both clients share the client's cores, and one waits for the other, as chrt may not")
    return ()


def scaling(bench):
    """One, two and three shards, each with a core and the same work."""
    cores = sorted(os.sched_getaffinity(0))
    counts = [count for count in (1, 2, 3) if count < len(cores)]
    shares = len(cores) == 2
    if shares:
        counts = [1, 2]
        bench.notes.append("scaling: one of two shards shares its core with the client, so nothing is held to the target")
    if len(counts) < 3:
        bench.notes.append(f"scaling: there are {len(cores)} cores, so only up to {len(counts)} shards were measured")
    servers, clients = [], bench.client_cores
    for count in counts:
        of_server = ",".join(map(str, cores[:count]))
        servers.append(variant(bench, f"{count} shards", f"127.0.6.{count}", of_server, shards=count))
    # The client has the same cores each time.
    others = cores[counts[-1]:] if counts else []
    bench.client_cores = ",".join(map(str, others)) or clients
    data = one_column(bench)
    for server in servers:
        fill(bench, data, [server])

    def measure(server):
        threads = 64 * server.shards
        return threads, bench.measure(server, "c", data, threads, bench.options.duration, connections=threads)

    runs = bench.rounds("scaling", "one column", "peak", servers, measure)
    for server in [] if shares else servers[1:]:
        hold(bench, "scaling", f"work for CPU of {server.name} beside one",
             ratios(runs, servers[0].name, server.name, cpu), 0.95, False, again=([servers[0], server], measure))
    for server in servers:
        end(bench, server)
    bench.client_cores = clients


def memory(bench):
    """What a row takes: of the process in a memtable and in the cache, and of Cassandra's heap."""
    for data, values in ((one_column(bench), 100), (records_of(bench), 1000)):
        name, taken = data.name, {}
        for server in bench.databases:
            records = min(bench.options.records, IN_HEAP if server.name == PEER else IN_MEMTABLE)
            for turn in range(1, MEASURED_AT_MOST + 1):
                own = Data(f"{name}, for their memory", f"memory_{data.keyspace}_{turn}", records, data.more)
                bytes_, told = memory_of(bench, server, own)
                least = max(OF_MEMTABLES * told, values)
                say(f"memory: {server.name} takes {bytes_:,.0f} bytes for a row, {name}, and at least {least:,.0f}")
                if bytes_ >= least:
                    taken[server.name] = bytes_
                    break
                bench.notes.append(f"memory, {name}: {server.name} took {bytes_:,.0f} bytes more for a row that takes "
                                   f"{least:,.0f} at least, as it gave back others meanwhile: no measure")
            if server is bench.subject:
                cached(bench, own, name)
        bench.notes.append(f"memory, {name}: " + ", ".join(f"{who} {bytes_:,.0f}" for who, bytes_ in taken.items())
                           + " bytes a row right after they were written")
        if {PEER, bench.subject.name} <= taken.keys():
            hold(bench, "memory", f"heap of {PEER} beside memory of {bench.subject.name} for a row, {name}",
                 [taken[PEER] / taken[bench.subject.name]], 1, False)


def memory_of(bench, server, own):
    """Bytes that a server takes for each of these rows, right after they were written, and those that its memtables say
    they take."""
    # What others wrote would be flushed meanwhile, and count.
    server.stop()
    bench.turn(server)
    # So would be what a server needs for any rows once it has the first of them, and a JVM is to be warm.
    first = Data(f"{own.name}, the first", f"{own.keyspace}_first", min(own.records, IN_HEAP), own.more)
    fill(bench, first, [server])
    # And what it takes to compact what other parts left.
    let_compact(bench, own.name, server)
    before = held_by(server)
    fill(bench, own, [server])
    taken = held_by(server) - before
    return taken / own.records, in_memtables(server, own) / own.records


def in_memtables(server, data):
    """Bytes: what the memtables of Helenus say that a keyspace takes there; of others nothing is known."""
    if server.name == PEER:
        return 0
    told = json.loads(server.nodes[0].told_by("tablestats", "-F", "json", data.keyspace))
    return sum(int(table["memtable_data_size"]) for table in told[data.keyspace]["tables"].values())


def cached(bench, data, name):
    """What rows take that are on the drive, and in the cache: Cassandra has none unless a table asks for it."""
    subject = bench.subject
    others, of_others = row_cache(subject)
    subject.flush()
    # Rows are kept when they are asked for the second time.
    bench.run(subject, "run", "c", *data.arguments(), "--distribution", "uniform", "--threads", 64, "--warmup", "0s",
              "--operations", 5 * data.records)
    rows, size = row_cache(subject)
    rows, size = max(1, rows - others), size - of_others
    bench.notes.append(f"memory, {name}: flushed and read, {rows:,} of {data.records:,} rows are in {subject.name}'s cache "
                       f"and take {size / rows:,.0f} bytes each there")


def row_cache(server):
    """How many rows are in Helenus's cache, and the bytes that they take."""
    told = re.search(r"Row Cache *: entries (\d+), size ([\d.]+) (\w+)", server.nodes[0].told_by("info"))
    if not told:
        fail("nodetool info says nothing of the row cache")
    return int(told[1]), float(told[2]) * {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[told[3]]


def held_by(server):
    """Bytes: of a Java process those of its heap that are alive, of another one its resident memory."""
    node = server.nodes[0]
    if server.name != PEER:
        # At rest it has made as much memory ready ahead of its use as before.
        return server.memory_mib() * (1 << 20)
    jcmd = pathlib.Path(os.readlink(f"/proc/{node.pid}/exe")).with_name("jcmd")
    for command in ("GC.run", "GC.heap_info"):
        told = subprocess.run([jcmd, str(node.pid), command], stdout=subprocess.PIPE, text=True)
        if told.returncode:
            fail(f"{jcmd} {node.pid} {command} failed: the JDK's own jcmd is needed to see Cassandra's heap")
    used = re.search(r"used (\d+)K", told.stdout)
    return int(used[1]) << 10 if used else 0


HARDSHIPS = {part.__name__: part for part in (direct, knobs, overload, storm, scaling, memory)}
