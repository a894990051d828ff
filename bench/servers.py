"""The servers that are compared: one node or several, each a process with an address, a folder and, where
they are asked for, a cgroup of its own. For the scripts beside this file."""
import datetime
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import time

from cgroup import Cgroup
from drive_limit import drive_limit
from meanwhile import each

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from harness.protocol import Closed, Connection, Failure  # noqa: E402

# A server is at rest when each of its nodes takes less than this share of a core for so long.
REST_SHARE = 0.1
REST_SECONDS = 10
# That all nodes see each other is to be true so often, with a round of gossip in between.
SEEN_TIMES = 3
GOSSIP_SECONDS = 1
ALL = 5
# With as many replicas as there are nodes, only who sees all of them reads a row of it at ALL.
SIGHT = "helenus_compare"


def fail(message):
    sys.exit(f"error: {message}")


def say(message):
    print(f"[{datetime.datetime.now():%H:%M:%S}] {message}", file=sys.stderr, flush=True)


def memory_limit(name, size):
    """A cgroup whose processes have so many bytes of memory, page cache included."""

    def set_limits(group, unified):
        (group / ("memory.max" if unified else "memory.limit_in_bytes")).write_text(str(size))
        if unified:
            (group / "memory.swap.max").write_text("0")

    try:
        return Cgroup("memory", name, set_limits)
    except OSError as error:
        fail(f"--memory needs memory cgroups, and the right to make one: {error}")


class Node:
    """A process of a server: how to start, freeze and stop it."""

    def __init__(self, name, address, data, cores, memory):
        self.name, self.address, self.data, self.cores = name, address, pathlib.Path(data), cores
        self.cgroups = [memory_limit(name, memory)] if memory else []
        self.pid = None

    def limit_drive(self, limit):
        """From its next start on."""
        self.data.parent.mkdir(parents=True, exist_ok=True)
        try:
            self.cgroups.append(drive_limit(self.name, self.data.parent, limit))
        except OSError as error:
            fail(f"--drive-limit needs cgroups for I/O, and the right to make one: {error}")

    def enter(self):
        """What the process does before it becomes that of the node."""
        return lambda: [cgroup.enter() for cgroup in self.cgroups]

    def connect(self, **options):
        return Connection(self.address, timeout=10, **options)

    def answers(self):
        """Sends OPTIONS, and wants SUPPORTED back."""
        try:
            with Connection(self.address, startup=False, timeout=3) as connection:
                return bool(connection.supported())
        except (OSError, Closed, Failure, ValueError):
            return False

    def sees_all(self):
        """Whether the node knows all replicas of a row to be up, and has their answers."""
        try:
            with self.connect() as connection:
                connection.query(f"SELECT k FROM {SIGHT}.nodes WHERE k = 0", consistency=ALL)
            return True
        except (OSError, Closed, Failure):
            return False

    def claim(self):
        """Nobody else may be there: the wrong server would be measured."""
        if self.answers():
            fail(f"something answers on {self.address}:9042 already: stop it, or choose another "
                 "address (--peer-address, --subject-address)")

    def wait(self, seconds=180):
        """Until it answers clients."""
        deadline = time.monotonic() + seconds
        while not self.answers():
            if not self.alive():
                fail(f"{self.name} ended while it started; see {self.data}")
            if time.monotonic() > deadline:
                fail(f"{self.name} does not answer on {self.address}:9042 after {seconds} s")
            time.sleep(0.1)

    def signal(self, number):
        if self.pid:
            os.kill(self.pid, number)

    def alive(self):
        try:
            state = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            return False
        return state not in "ZX"

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mib(self):
        status = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024


class Cassandra(Node):
    RUN, TOOL = ROOT / "tests/cassandra/run.sh", ROOT / "tests/cassandra/tool.sh"
    # A node that is to join asks those that are there, one node at a time.
    STARTS_TOGETHER = False
    HINTS = "data/hints"

    def __init__(self, name, address, data, cores, memory, arguments):
        super().__init__(name, address, data, cores, memory)
        self.arguments, self.settings = arguments, []

    @staticmethod
    def heap_of(memory):
        """cassandra-env.sh's calculate_heap_sizes, with the cgroup as the machine."""
        return max(min(memory // 2, 1 << 30), min(memory // 4, 8 << 30))

    def start(self, clean, seeds):
        command = [self.RUN, "start", "--address", self.address, "--data", self.data, "--seeds", seeds[0],
                   "--quick", "--wait", *self.arguments, *self.settings]
        if self.cores:
            command += ["--cpus", self.cores]
        if clean:
            command.append("--clean")
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, preexec_fn=self.enter())
        if done.returncode:
            fail(f"{self.name} did not start")
        self.pid = int(done.stdout.split()[-1])

    def write_as(self, durability, group_window):
        """When the server acknowledges a write, from its next start on."""
        self.settings = {
            None: [],
            "periodic": ["--yaml", "commitlog_sync: periodic",
                         "--yaml", "commitlog_sync_period: 10000ms"],
            "group": ["--yaml", "commitlog_sync: group",
                      "--yaml", f"commitlog_sync_group_window: {group_window}"],
        }[durability]

    def flush(self):
        """Has all its memtables written to files."""
        if subprocess.run([self.TOOL, "nodetool", "-h", self.address, "flush"], stdout=subprocess.DEVNULL).returncode:
            fail(f"{self.name} could not be told to flush; see {self.data}")

    def stop(self):
        subprocess.run([self.RUN, "stop", "--address", self.address, "--data", self.data],
                       stdout=subprocess.DEVNULL)
        self.pid = None

    @staticmethod
    def version():
        return "Apache Cassandra " + os.environ.get("CASSANDRA_VERSION", "5.0.6")


class Helenus(Node):
    STARTS_TOGETHER = True
    HINTS = "hints"

    def __init__(self, name, address, data, cores, memory, binary, command, arguments):
        super().__init__(name, address, data, cores, memory)
        self.binary, self.command, self.arguments, self.process = binary, command, arguments, None
        # What becomes the server, after it has done something to its process.
        self.settings, self.prefix = [], []

    def another(self, name, address, data, cores):
        """A node of the same binary."""
        return Helenus(name, address, data, cores, None, self.binary, self.command, [])

    def start(self, clean, seeds):
        if clean:
            subprocess.run(["rm", "-rf", "--", self.data], check=True)
        self.data.mkdir(parents=True, exist_ok=True)
        words = [word.format(binary=self.binary, address=self.address, data=self.data)
                 for word in shlex.split(self.command)] + self.arguments + self.settings
        if len(seeds) > 1:
            words += ["--seeds", ",".join(seeds)]
        words = [*self.prefix, *words]
        if self.cores:
            words = ["taskset", "-c", self.cores, *words]
        log = open(self.data.with_suffix(".log"), "ab")
        self.process = subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True,
                                        preexec_fn=self.enter())
        # taskset becomes the server: the process stays the same.
        self.pid = self.process.pid

    def alive(self):
        return self.process.poll() is None

    def write_as(self, durability, _group_window):
        """When the server acknowledges a write, from its next start on."""
        self.settings = ["--commitlog-sync", durability] if durability else []

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            say(f"{self.name} ignored SIGTERM for 60 s: SIGKILL")
            self.process.kill()
            self.process.wait()
        self.pid = None

    def told_by(self, *words):
        """What its nodetool says."""
        command = [self.binary, "nodetool", "-h", self.address, *words]
        told = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if told.returncode:
            fail(f"{' '.join(map(str, command))} failed")
        return told.stdout

    def flush(self):
        """Has all its memtables written to files."""
        self.told_by("flush")

    def flushed_each(self, seconds, keyspace):
        """Has the memtables of a keyspace flushed so often meanwhile."""
        return each(seconds, lambda: self.told_by("flush", keyspace))

    @staticmethod
    def version():
        commit = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"],
                                stdout=subprocess.PIPE, text=True).stdout.strip()
        return f"Helenus {commit}"


class Limit(Node):
    """`helenus-limit`: it answers as the server that it learned from, and does nothing but its I/O."""

    STARTS_TOGETHER = True
    HINTS = "none"

    def __init__(self, name, address, data, cores, binary, upstream, shards):
        super().__init__(name, address, data, cores, None)
        self.binary, self.upstream, self.shards, self.process = binary, upstream, shards, None
        self.arguments = []

    def start(self, clean, seeds):
        words = [self.binary, "--upstream", f"{self.upstream}:9042", "--listen", f"{self.address}:9042",
                 "--shards", str(self.shards), *self.arguments]
        if self.cores:
            words = ["taskset", "-c", self.cores, *words]
        self.data.parent.mkdir(parents=True, exist_ok=True)
        log = open(self.data.with_suffix(".log"), "ab")
        self.process = subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True)
        self.pid = self.process.pid

    def alive(self):
        return self.process.poll() is None

    def write_as(self, durability, _group_window):
        """It writes nothing."""

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.pid = None

    @staticmethod
    def version():
        return "the limit of the same commit"


class Server:
    """What is measured: the nodes of one cluster. All of them run, or all are frozen."""

    def __init__(self, name, nodes, shards=1, upstream=None):
        self.name, self.nodes = name, nodes
        # What a client that knows shards sees of a node; the server without which this one does not run.
        self.shards, self.upstream = shards, upstream
        self.running, self.frozen = False, False

    def addresses(self):
        return [node.address for node in self.nodes]

    def pids(self):
        return [node.pid for node in self.nodes]

    def start(self, clean):
        """Until all nodes see each other."""
        for node in self.nodes:
            node.claim()
        self.running = True
        for node in self.nodes:
            node.start(clean, self.addresses())
            if not node.STARTS_TOGETHER:
                node.wait()
        for node in self.nodes:
            node.wait()
        if len(self.nodes) > 1:
            self.make_sight()
        self.meet()

    def make_sight(self):
        """A row that all nodes have, for `Node.sees_all`."""
        replication = f"{{'class': 'SimpleStrategy', 'replication_factor': {len(self.nodes)}}}"
        with self.nodes[0].connect() as connection:
            connection.query(f"CREATE KEYSPACE IF NOT EXISTS {SIGHT} WITH replication = {replication}")
            connection.query(f"CREATE TABLE IF NOT EXISTS {SIGHT}.nodes (k int PRIMARY KEY)")

    def meet(self, seconds=180):
        """Waits until all nodes answer and see each other: after a start, and after a time in which all
        were frozen, it takes them some rounds of gossip. What lasts only for a moment does not count."""
        deadline = time.monotonic() + seconds
        for node in self.nodes:
            node.wait(seconds)
        seen = 0
        while len(self.nodes) > 1 and seen < SEEN_TIMES:
            blind = [node for node in self.nodes if not node.sees_all()]
            seen = 0 if blind else seen + 1
            dead = [node.name for node in self.nodes if not node.alive()]
            if dead:
                fail(f"{', '.join(dead)} ended; see {self.nodes[0].data.parent}")
            if time.monotonic() > deadline:
                fail(f"{', '.join(node.name for node in blind)} does not see all other nodes after "
                     f"{seconds} s; see {self.nodes[0].data.parent}")
            if seen < SEEN_TIMES:
                time.sleep(GOSSIP_SECONDS)

    def thaw(self):
        if self.frozen:
            for node in self.nodes:
                node.signal(signal.SIGCONT)
            self.frozen = False

    def freeze(self):
        if self.running and not self.frozen:
            for node in self.nodes:
                node.signal(signal.SIGSTOP)
            self.frozen = True

    def stop(self):
        """Also what has not come up whole."""
        self.thaw()
        for node in self.nodes:
            if node.pid or (self.running and not node.STARTS_TOGETHER):
                node.stop()
        self.running = False

    def write_as(self, durability, group_window):
        for node in self.nodes:
            node.write_as(durability, group_window)

    def limit_drive(self, limit):
        for node in self.nodes:
            node.limit_drive(limit)

    def remove_cgroups(self):
        for node in self.nodes:
            for cgroup in node.cgroups:
                if not cgroup.remove():
                    say(f"{cgroup.folder} is still in use")

    def read_all(self):
        """Reads all of the server's files once, past the page cache. Behind a cloud's drive is a cache
        of its own: the server that was loaded last would have it to itself."""
        say(f"{self.name}: its files are read once")
        for node in self.nodes:
            for file in sorted(node.data.rglob("*")):
                if file.is_file() and file.stat().st_size >= 1 << 20:
                    subprocess.run(["dd", f"if={file}", "of=/dev/null", "bs=1M", "iflag=direct"],
                                   stderr=subprocess.DEVNULL, check=False)

    def cpu_seconds(self):
        return sum(node.cpu_seconds() for node in self.nodes)

    def memory_mib(self):
        return sum(node.memory_mib() for node in self.nodes)

    def hints(self):
        """Files of writes that a node of the server keeps for another."""
        return [file for node in self.nodes for file in (node.data / node.HINTS).glob("*.hints")]

    def flush(self):
        """Has all memtables of its nodes written to files."""
        for node in self.nodes:
            node.flush()

    def settle(self, most):
        """Waits, `most` seconds, until the server is at rest; gives the time that took, if it is."""
        began = time.monotonic()
        while time.monotonic() - began < most:
            before = [node.cpu_seconds() for node in self.nodes]
            time.sleep(REST_SECONDS)
            busy = [node for node, cpu in zip(self.nodes, before)
                    if node.cpu_seconds() - cpu >= REST_SHARE * REST_SECONDS]
            if not busy and not self.hints():
                return time.monotonic() - began
        return None

    def version(self):
        return self.nodes[0].version()
