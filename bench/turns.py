"""Whose turn it is: one server runs, the client loads it, and the others are frozen."""
import contextlib
import dataclasses
import itertools
import json
import os
import subprocess

import cores
import profiles
from measurements import Run
from perf import NoProfile
from scheduling import give_way
from servers import fail, say


class Bench:
    """The servers, the client that loads the one whose turn it is, and all that was measured."""

    def __init__(self, options, servers, client_cores, folder, drive):
        self.options, self.servers, self.drive = options, servers, drive
        self.client_cores, self.folder = client_cores, folder
        self.turns = 0
        # The last seed of each server.
        self.seeds = {server.name: 0 for server in servers}
        self.runs, self.targets, self.notes = [], [], []
        # Which server has which data.
        self.filled = set()
        # Whose turn it was last.
        self.last = None
        # What requests are made with: a driver, or frames alone.
        self.client = "driver"

    @property
    def subject(self):
        return self.servers[1]

    @property
    def databases(self):
        """All that keep what is written: the limit does not."""
        return [server for server in self.servers if not server.upstream]

    def turn(self, server):
        """Lets `server` run, and only it and whom it needs."""
        for other in self.servers:
            if other is not server and other is not server.upstream:
                if self.options.alternate:
                    other.stop()
                else:
                    other.freeze()
        if self.last not in (None, server):
            # What the one before left to the operating system to be written is not to be waited for by this one.
            os.sync()
        self.last = server
        for one in (server.upstream, server):
            if one and not one.running:
                one.start(clean=False)
            if one:
                one.thaw()
                one.meet()

    def rest(self):
        """Lets no server run, until it is somebody's turn."""
        for server in self.servers:
            server.freeze()
        os.sync()

    def run(self, server, *arguments, prefix=()):
        """Runs the client against `server`; gives its figures."""
        self.turn(server)
        command, out = self.command(server, arguments, prefix)
        reads, millis = self.drive.reads()
        with open(self.log, "ab") as output:
            if subprocess.run(command, stdout=output, stderr=output, preexec_fn=give_way).returncode:
                fail(f"the client failed; see {self.log}")
        reads_after, millis_after = self.drive.reads()
        return self.figures(server, out, (millis_after - millis) / max(1, reads_after - reads))

    @contextlib.contextmanager
    def beside(self, server, *arguments):
        """Another client of `server`, at work meanwhile. What it gives has its figures afterwards."""
        command, out = self.command(server, arguments)
        found = {}
        holds = arguments[0] == "idle"
        with open(self.log, "ab") as output:
            running = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=output,
                                       stdout=subprocess.PIPE if holds else output, preexec_fn=give_way)
        try:
            if holds:
                # It says when they are there, and holds them as long as somebody may write to it.
                running.stdout.readline()
            yield found
            if holds:
                running.stdin.close()
            if running.wait():
                fail(f"the client failed; see {self.log}")
            if not holds:
                found |= self.figures(server, out, 0)
        finally:
            running.stdin.close()
            if running.poll() is None:
                running.kill()
            running.wait()

    def command(self, server, arguments, prefix=()):
        """The client's command, behind the words of another one that starts it, and the file that its figures are in
        afterwards."""
        self.turns += 1
        # Every turn draws anew: a seed that came back would ask for what the turn before has brought
        # into the caches.
        seed = self.seeds[server.name] = self.seeds.get(server.name, 0) + 1
        out = self.folder / f"{self.turns:03}-{server.name.lower().replace(' ', '-')}-{arguments[0]}.json"
        command = [self.options.client, *map(str, arguments), "--hosts", ",".join(server.addresses())]
        if arguments[0] != "idle":
            command += ["--pids", ",".join(map(str, server.pids())), "--progress", "1s", "--out", str(out)]
        if arguments[0] in ("load", "run"):
            command += ["--consistency", self.options.consistency, "--seed", str(seed), "--client", self.client]
        if self.client_cores:
            command = ["taskset", "-c", self.client_cores, *command]
        command = [*prefix, *command]
        with open(self.log, "ab") as output:
            output.write((" ".join(map(str, command)) + "\n").encode())
        return command, out

    @property
    def log(self):
        return self.folder / "client.log"

    @staticmethod
    def figures(server, out, drive_read_ms):
        """What the client wrote, and what is known of the server beside it."""
        figures = json.loads(out.read_text())
        figures["drive_read_ms"] = drive_read_ms
        figures["memory_mib"] = server.memory_mib()
        errors = sum(figures["errors"].values())
        if errors:
            say(f"{server.name}: {errors} errors, as {next(iter(figures['errors']))}")
        return figures

    def load(self, server, data, threads, *arguments):
        """Makes what `data` says, and fills it."""
        return self.run(server, "load", *data.arguments(), "--drop", "--threads", threads, *arguments)

    def measure(self, server, *arguments, prefix=(), **more):
        """As `asking` says it."""
        return self.run(server, *self.asking(server, *arguments, **more), prefix=prefix)

    def asking(self, server, workload, data, threads, seconds, rate=None, connections=None, more=(), warmup=None):
        """A workload on loaded data, for so long, with so many operations in flight on so many connections."""
        warmup = self.options.warmup if warmup is None else warmup
        arguments = ["run", workload, *data.arguments(), "--threads", threads, "--duration", f"{seconds}s",
                     "--warmup", f"{warmup}s", *more]
        if rate:
            arguments += ["--rate", rate]
        if connections:
            arguments += ["--connections", max(1, connections // (server.shards * self.client_threads()))]
        return arguments

    def client_threads(self):
        """As many as the client has cores."""
        return self.count(self.client_cores) if self.client_cores else os.cpu_count()

    @staticmethod
    def count(cores):
        """How many "0-1,3" are."""
        return len(Bench.numbers(cores))

    @staticmethod
    def numbers(cores):
        """Those of "0-1,3"; none where all may be had."""
        parts = [part.split("-") for part in cores.split(",")] if cores else []
        return {core for part in parts for core in range(int(part[0]), int(part[-1]) + 1)}

    def keep(self, part, case, phase, server, turn, threads, figures):
        """What was measured, for the report; whoever waits for that is told of it."""
        run = Run(part, case, phase, server.name, turn, threads, figures["rate"], figures)
        self.runs.append(run)
        told = [f"{server.name}, {threads} in flight", f"{figures['ops_per_second']:,.0f} ops/s"]
        # Who runs beside another is not asked for the server's.
        if spent := figures.get("server_cpu"):
            told.append(f"{spent['micros_per_operation']:.2f} µs of CPU each")
        if latency := figures.get("latency"):
            told.append(f"p99.9 {latency['p999'] / 1000:.2f} ms")
        say(f"{part}, {case}, {phase}, round {turn}: " + ", ".join(told))
        return run

    def rounds(self, part, case, phase, servers, *measures):
        """Measures the servers one after the other, in as many rounds as are wanted: whatever is compared is measured within
        the same minutes. A measure, of which there may be several, gives the operations in flight, and the figures, of a
        server."""
        for turn in range(self.options.rounds):
            for measure, server in itertools.product(measures, servers):
                threads, figures = measure(server)
                self.keep(part, case, phase, server, turn + 1, threads, figures)
        return [run for run in self.runs if (run.part, run.case, run.phase) == (part, case, phase)]

    def explain(self, target, servers, measure, waits):
        """Measures once more what missed its target: for what the CPU time of each server goes to, and, where it is one of
        latency (`waits`), for who has cores meanwhile."""
        say(f"{target.part}: {target.name} is missed: it is measured once more, for why")
        file = self.folder / "perf.data"

        def profiled(server):
            with profiles.recorded(file, self.client_cores):
                _, figures = measure(server)
            target.profiles.append(profiles.read(file, server.pids(), server.name, figures))

        def watched(server):
            with cores.watched(file):
                measure(server)
            target.watches.append(cores.read(file, server.name, server.pids(), os.path.basename(self.options.client)))

        for server, look in itertools.product(servers, (profiled, watched) if waits else (profiled,)):
            self.turn(server)
            try:
                look(server)
            except NoProfile as error:
                note = f"Where the time of {server.name} goes is not known: {error}"
                if note not in self.notes:
                    self.notes.append(note)
            finally:
                file.unlink(missing_ok=True)

    def find_peak(self, server, workload, data):
        """The number of operations in flight with which `server` does most of them."""
        if len(self.options.threads) == 1:
            return self.options.threads[0]
        best = None
        for threads in self.options.threads:
            figures = self.measure(server, workload, data, threads, self.options.probe)
            speed = figures["ops_per_second"]
            say(f"{server.name} {workload}: {speed:,.0f} ops/s with {threads} in flight")
            if best and speed < best[0] * 1.03:
                break
            best = max(best or (0, 0), (speed, threads))
        return best[1]

    def level_seeds(self):
        """From here on all servers draw the same, however often each was asked so far."""
        self.seeds = dict.fromkeys(self.seeds, max(self.seeds.values()))


@dataclasses.dataclass(frozen=True)
class Data:
    """A table and what is in it, as arguments of the client."""

    # For people.
    name: str
    keyspace: str
    records: int
    more: tuple = ()

    def arguments(self):
        return ["--keyspace", self.keyspace, "--records", self.records, *self.more]
