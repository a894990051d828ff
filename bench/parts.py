"""What is measured, part by part; each says what it is held to. `PARTS` has them in their order."""
import contextlib
import statistics

import moments
from measurements import CASSANDRA as PEER
from measurements import LIMIT, Target, by_round, cpu, items_per_cpu_second, latency, ops, ratios
from servers import say
from turns import Data

# As many as most have who have several nodes.
REPLICAS = 3
# Before the first workload, of which the load and a start know nothing: the compiled code of reads
# and the caches are to be warm. So long for each node: they share the cores, and each compiles for itself.
REWARM_SECONDS = 60

# Operations in flight, and the connections that they are on.
ONE_EACH, MANY_EACH = (64, 64), (1024, 32)
# Clients of Yahoo! Japan's mixes.
CLIENTS = (8, 16, 36, 72, 140, 260)
# As many as a rate may come to need: with fewer, an operation that is due waits for others to end once these take a few
# milliseconds, and all behind it.
IN_FLIGHT_STEADY = 2048
# Seconds. Helenus's memtables have room for ten minutes and more on most machines; Cassandra's have not.
FLUSH_STEADY = 60
# Seconds, one flush at least and what follows it.
PEAK_STEADY = 90
# Seconds for which it is looked at what the server does.
EXPLAIN_STEADY = 20
# Seconds that a server has to compact what other parts left.
COMPACTED_AFTER = 300
# Points in time that an insert has.
POINTS = (1, 60, 360, 3600)
# Seconds for which a server writes to memory that is new to it.
TAKE_MEMORY = 20


def records_of(bench):
    """YCSB's: ten fields of 100 bytes."""
    return Data("records of 1 KB", "ycsb", bench.options.records)


def one_column(bench):
    return Data("rows of one column of 100 bytes", "one", bench.options.records, ("--fields", 1))


def fill(bench, data, servers):
    """Has the data in all servers, at rest."""
    options = bench.options
    for server in servers:
        if (server.name, data) in bench.filled:
            continue
        bench.filled.add((server.name, data))
        if server.name in options.loaded:
            say(f"{server.name}: {data.name} is there from a comparison before")
            continue
        say(f"{server.name}: loads {data.records:,} of {data.name}")
        bench.turn(server)
        before = server.cpu_seconds()
        figures = bench.load(server, data, max(options.threads), "--replication-factor",
                             min(REPLICAS, options.nodes))
        bench.keep("load", data.name, "load", server, 1, max(options.threads), figures)
        took = server.settle(options.settle)
        say(f"{server.name}: " + (f"at rest after {took:.0f} s" if took is not None else
                                  f"still busy after {options.settle} s, {len(server.hints())} files of hints"))
        # What one of them compacts while it loads, the other does afterwards.
        figures["micros_until_rest"] = (server.cpu_seconds() - before) * 1e6 / data.records


def clear(bench, part, servers):
    """Has what the parts before wrote flushed and compacted, as that is no work of this one's. What this one writes is flushed
    as it comes."""
    for server in servers:
        bench.turn(server)
        say(f"{server.name}: flushes what the parts before wrote")
        server.flush()
        let_compact(bench, part, server)


def let_compact(bench, part, server):
    """Gives a server the time to compact what other parts left."""
    if server.settle(COMPACTED_AFTER) is None:
        bench.notes.append(f"{part}: {server.name} was still busy after {COMPACTED_AFTER} s")


def hold(bench, part, name, values, bound, at_most, unit="x", again=None, waits=False):
    """What a part is held to, which it gives; nothing if a server was not there. `again` is of which servers, and how, it is
    measured: what is missed is looked at more closely, and if it is about waiting (`waits`) at who had the cores, too."""
    if not values:
        return None
    target = Target(part, name, values, bound, at_most, unit)
    bench.targets.append(target)
    if again and not target.is_met():
        bench.explain(target, *again, waits)
    return target


def warm_up(bench, data, workload="c", servers=None, times=1):
    for server in bench.servers if servers is None else servers:
        say(f"{server.name}: warms up")
        seconds = times * bench.options.rewarm * bench.options.nodes
        bench.measure(server, workload, data, max(bench.options.threads), seconds)


# --- the parts --------------------------------------------------------------


def path(bench):
    """Reads of a row by its key, from memory, beside the limit: what a request costs beyond its I/O."""
    subject = bench.subject.name
    compared = [server for server in bench.servers if server.name in (subject, LIMIT)]
    one, ycsb = one_column(bench), records_of(bench)
    fill(bench, one, bench.databases)
    fill(bench, ycsb, bench.databases)
    warm_up(bench, one)
    for name, data, bound in (("one column", one, 1.6), ("YCSB C", ycsb, 2.0)):
        for (threads, connections), shape in ((ONE_EACH, "64 x 1"), (MANY_EACH, "32 x 32")):
            case = f"{name}, {shape}"
            bench.level_seeds()

            def measure(server):
                return threads, bench.measure(server, "c", data, threads, bench.options.duration,
                                              connections=connections)

            runs = bench.rounds("path", case, "peak", bench.servers, measure)
            hold(bench, "path", f"CPU of {subject} beside the limit, {case}",
                 ratios(runs, subject, LIMIT, cpu), bound, True, again=(compared, measure))
            hold(bench, "path", f"CPU of {PEER} beside {subject}, {case}",
                 ratios(runs, PEER, subject, cpu), 5, False, again=([bench.subject], measure))


def ycsb(bench):
    """YCSB's workloads: each server at its peak, and all at one rate, 70 % of Cassandra's peak."""
    data = records_of(bench)
    options = bench.options
    servers = bench.databases
    fill(bench, data, servers)
    for server in servers:
        server.read_all()
    for durability in options.durability:
        for server in servers:
            if durability != options.durability[0]:
                server.stop()
                server.write_as(durability, options.group_window)
        warm_up(bench, data, options.workloads[0])
        for workload in options.workloads:
            name = f"{workload}, {durability}" if len(options.durability) > 1 else workload
            compare_workload(bench, name, workload, data)


def compare_workload(bench, name, workload, data):
    options, servers = bench.options, bench.databases
    in_flight = {server.name: bench.find_peak(server, workload, data) for server in servers}
    bench.level_seeds()

    def peak(server):
        threads = in_flight[server.name]
        return threads, bench.measure(server, workload, data, threads, options.duration)

    runs = bench.rounds("ycsb", name, "peak", servers, peak)
    reference = PEER if PEER in in_flight else servers[0].name
    rate = max(1, int(statistics.median(ops(run) for run in runs if run.server == reference) * options.share))
    threads = max(max(options.threads), max(in_flight.values()))

    def fixed(server):
        return threads, bench.measure(server, workload, data, threads, options.duration, rate)

    bench.rounds("ycsb", name, "fixed", servers, fixed)
    if workload == "e":
        subject = bench.subject.name
        hold(bench, "ycsb", f"work for CPU of {subject} beside {PEER}, scans",
             ratios(runs, PEER, subject, cpu), 8, False, again=([bench.subject], peak))


def partitions(bench):
    """Partitions of a hundred rows of 100 bytes, read whole."""
    data = Data("partitions of 100 rows", "partitions", bench.options.records // 100, ("--table", "partitions"))
    fill(bench, data, bench.databases)
    warm_up(bench, data)
    bench.level_seeds()

    def measure(server):
        return 64, bench.measure(server, "c", data, 64, bench.options.duration)

    runs = bench.rounds("partitions", "read of 100 rows", "peak", bench.servers, measure)
    subject = bench.subject.name
    hold(bench, "partitions", f"work for CPU of {subject} beside {PEER}",
         ratios(runs, PEER, subject, cpu), 8, False, again=([bench.subject], measure))


def metrics(bench):
    """Mogujie's table: points in time in a map, so many to an insert."""
    subject = bench.subject.name
    servers = bench.databases
    inserts = [Inserts(bench, points) for points in POINTS]
    for insert in inserts:
        fill(bench, insert.data, servers)
    for server in servers:
        # Memory that nobody has touched yet costs a virtual machine more than all else that an insert does. Cassandra touches
        # its heap as it starts, Helenus what it comes to need; behind this neither has to.
        say(f"{server.name}: takes the memory that inserts do")
        inserts[1].run(server, TAKE_MEMORY)
    clear(bench, "metrics", servers)
    for insert in inserts:
        bench.level_seeds()

        def measure(server):
            return insert.in_flight, insert.run(server, bench.options.duration)

        points = insert.points
        runs = bench.rounds("metrics", f"{points} points", "peak", servers, measure)
        hold(bench, "metrics", f"points for CPU of {subject} beside {PEER}, {points} an insert",
             ratios(runs, subject, PEER, items_per_cpu_second), 10, False, again=([bench.subject], measure))


class Inserts:
    """Inserts of so many points each, into a table of such rows."""

    def __init__(self, bench, points):
        self.bench, self.points = bench, points
        # About as much data each time.
        records = max(1000, bench.options.records // points // 4)
        more = ("--table", "metrics", "--points", points)
        self.data = Data(f"rows of {points} points", f"metrics{points}", records, more)
        self.in_flight = max(8, min(128, 4096 // points))

    def run(self, server, seconds):
        return self.bench.measure(server, "i", self.data, self.in_flight, seconds)


def texts(bench):
    """Yahoo! Japan's mixes on rows of text of 1 to 2 KB, with more and more clients."""
    subject = bench.subject.name
    servers = bench.databases
    more = ("--fields", 1, "--field-length", "1000-2000")
    data = Data("rows of text of 1 to 2 KB", "texts", bench.options.records // 2, more)
    clear(bench, "texts", servers)
    fill(bench, data, servers)
    for workload, name in (("c", "reads"), ("w", "writes"), ("a", "half and half")):
        bench.level_seeds()

        def with_clients(threads):
            return lambda server: (threads, bench.measure(server, workload, data, threads, bench.options.probe))

        runs = bench.rounds("texts", name, "sweep", servers, *map(with_clients, CLIENTS))
        for threads in filter(lambda threads: threads >= 36, CLIENTS):
            of_threads = [run for run in runs if run.threads == threads]
            hold(bench, "texts", f"p99.9 of {subject} beside {PEER}, {name}, {threads} clients",
                 ratios(of_threads, subject, PEER, latency("p999")), 0.1, True,
                 again=([bench.subject], with_clients(threads)), waits=True)
        rises(bench, name, runs, with_clients)


def rises(bench, case, runs, with_clients):
    """Throughput rises with threads, and never falls (by more than the noise of 3 %): from each number of clients to the next
    one in the same round, as a machine is not as fast in one minute as in another. Of all steps it is the worst that counts."""
    subject = bench.subject
    speeds = [by_round([run for run in runs if run.threads == threads], subject.name, ops) for threads in CLIENTS]
    # By how many clients it leads to.
    steps = {threads: [after[turn] / before[turn] for turn in sorted(before.keys() & after.keys())]
             for threads, before, after in zip(CLIENTS[1:], speeds, speeds[1:])}
    steps = {threads: step for threads, step in steps.items() if step}
    if steps:
        worst = min(steps, key=lambda threads: statistics.median(steps[threads]))
        hold(bench, "texts", f"throughput of {subject.name} from one number of clients to the next, {case}",
             steps[worst], 0.97, False, again=([subject], with_clients(worst)))


def steady(bench):
    """Ten minutes at 70 % of the peak, half reads and half updates, while flushes and compactions run: Cassandra's own, and
    those that Helenus is told."""
    data = records_of(bench)
    servers = bench.databases
    fill(bench, data, servers)
    for server in servers:
        threads = bench.find_peak(server, "a", data)
        is_subject = server is bench.subject
        flushes = contextlib.nullcontext()
        if is_subject:
            flushes = server.nodes[0].flushed_each(FLUSH_STEADY, data.keyspace)
        with flushes:
            # A peak that is held: what is done at once and left for the background has to be done within it.
            figures = bench.measure(server, "a", data, threads, min(PEAK_STEADY, bench.options.steady))
            bench.keep("steady", "A, as much as comes", "peak", server, 1, threads, figures)
            rate = max(1, int(figures["ops_per_second"] * bench.options.share))
            figures, seconds, profile = moments.measured(bench, server, "a", data, IN_FLIGHT_STEADY, bench.options.steady, rate)
        bench.keep("steady", f"A at {bench.options.share:.0%} of its own peak", "steady", server, 1, IN_FLIGHT_STEADY, figures)
        if is_subject:
            p999 = figures["latency"]["p999"] / 1000
            again = [server], lambda server: (IN_FLIGHT_STEADY, bench.measure(
                server, "a", data, IN_FLIGHT_STEADY, min(EXPLAIN_STEADY, bench.options.steady), rate))
            target = hold(bench, "steady", f"p99.9 of {server.name} over {bench.options.steady} s", [p999], 5, True, "ms", again,
                          waits=True)
            if seconds and not target.is_met():
                target.moments.append(moments.worst_of(server.name, seconds))
                target.profiles[:0] = [profile] if profile else []
                bench.notes.append(moments.beside_the_drive(server.name, seconds))
            beside_the_hypervisor(bench, server, figures)
            beside_the_limit(bench, data, IN_FLIGHT_STEADY, rate)
            beside_the_drive(bench)


def beside_the_hypervisor(bench, server, figures):
    """What is left of latency where the machine itself never stood still."""
    calm, others = [], []
    for interval in figures["intervals"]:
        (others if interval.get("stolen") else calm).append(interval)
    if not others:
        return
    p999 = [f"{statistics.median(interval['latency']['p999'] for interval in some) / 1000:.1f} ms" if some else "not known"
            for some in (calm, others)]
    bench.notes.append(f"steady: a hypervisor let the machine wait in {len(others)} of {len(calm) + len(others)} seconds, "
                       f"{figures['stolen']:.1%} of all time; p99.9 of a second of {server.name} is {p999[0]} without, and "
                       f"{p999[1]} with (medians)")


def beside_the_drive(bench):
    """What the drive takes by itself: a server that says a write is done when the drive has it is not faster."""
    bench.rest()
    try:
        took = sorted(bench.drive.synced_writes(min(60, bench.options.steady)))
    except OSError as error:
        bench.notes.append(f"steady: how long the drive by itself takes is not known: {error}")
        return
    late = sum(seconds for seconds in took if seconds > 0.005) / sum(took)
    bench.notes.append(f"steady: the drive by itself takes {1000 * took[len(took) // 2]:.2f} ms for 8 KiB that are synced (median), "
                       f"{1000 * took[-1 - len(took) // 1000]:.1f} (p99.9), {1000 * took[-1]:.0f} (at most); {late:.1%} of the "
                       "time it was busy with writes of more than 5 ms")


def beside_the_limit(bench, data, threads, rate):
    """What the client itself, and the machine, take at that rate: nothing else is done by the limit."""
    for server in bench.servers:
        if server not in bench.databases:
            figures = bench.measure(server, "a", data, threads, min(60, bench.options.steady), rate)
            bench.keep("steady", "A at the same rate", "steady", server, 1, threads, figures)
            p999 = figures["latency"]["p999"] / 1000
            bench.notes.append(f"steady: at {rate:,} operations a second p99.9 of {server.name} is {p999:.1f} ms")


PARTS = {part.__name__: part for part in (path, ycsb, partitions, metrics, texts, steady)}
