"""One server on one loopback address with one data folder.

A server is known by its data folder: `DIR/pid` names the process, and `DIR` on that process's
command line proves that the pid is still ours. So any process may stop, kill or restart a server
that another one started, which is how the Java, Go and Rust clients ask for a restart
(`CQL_RESTART`). Servers listen on 127.0.0.0/8 only.
"""

import os
import pathlib
import random
import shlex
import signal
import socket
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The release binary of this repository, or the one that HELENUS_BINARY names.
BINARY = os.environ.get("HELENUS_BINARY", str(ROOT / "target" / "release" / "helenus"))
CQL_PORT = 9042
SHARD_AWARE_PORT = 19042
# An OPTIONS request of protocol v4, and the start of the SUPPORTED answer to it.
OPTIONS = bytes([4, 0, 0, 0, 5, 0, 0, 0, 0])
SUPPORTED = bytes([0x84, 0, 0, 0, 6])


class ServerError(Exception):
    """A server did not start, stop or answer; the text ends with what it last logged."""


def is_free(address: str) -> bool:
    """Whether nothing listens on any port that a server uses."""
    try:
        for port in (CQL_PORT, SHARD_AWARE_PORT, 9180, 10000, 7000, 7199):
            with socket.socket() as probe:
                probe.bind((address, port))
        return True
    except OSError:
        return False


def free_addresses(count: int, network: str | None = None) -> list[str]:
    """Loopback addresses, one behind the other, on which nothing listens: several test runs share a machine.
    They are of the network with these first three numbers, or of any in 127.64.0.0/10."""
    for _ in range(100):
        chosen = network or f"127.{random.randrange(64, 128)}.{random.randrange(256)}"
        first = random.randrange(1, 255 - count)
        addresses = [f"{chosen}.{first + number}" for number in range(count)]
        if all(map(is_free, addresses)):
            return addresses
    where = f"{network}.0/24" if network else "127.64.0.0/10"
    raise ServerError(f"no {count} free addresses in {where} after 100 attempts")


def free_address() -> str:
    """A loopback address on which nothing listens."""
    return free_addresses(1)[0]


def alive(pid: int) -> bool:
    """Whether the process runs; a zombie that nobody has waited for yet does not. One of which threads are left does:
    it holds its locks and ports."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
        threads = len(list(pathlib.Path(f"/proc/{pid}/task").iterdir()))
    except OSError:
        return False
    return threads > 1 or stat.rsplit(")", 1)[1].split()[0] not in "ZX"


def answers(address: str, port: int = CQL_PORT) -> bool:
    """Whether CQL answers OPTIONS there."""
    try:
        with socket.create_connection((address, port), timeout=2) as connection:
            connection.settimeout(2)
            connection.sendall(OPTIONS)
            head = b""
            while len(head) < len(SUPPORTED):
                part = connection.recv(64)
                if not part:
                    return False
                head += part
            return head.startswith(SUPPORTED)
    except OSError:
        return False


class Server:
    """What Helenus and Cassandra have in common; see `Helenus` and `Cassandra`."""

    kind = ""

    def __init__(self, address: str | None = None, directory: str | pathlib.Path | None = None):
        self.address = address or free_address()
        default = ROOT / ".cache" / "servers" / f"{self.kind}-{self.address}"
        self.directory = pathlib.Path(directory or default).resolve()
        self.process: subprocess.Popen | None = None

    @property
    def log(self) -> pathlib.Path:
        """Where the server's standard output and error go."""
        return self.directory / "server.log"

    def command(self) -> list[str]:
        """The command line that starts the server in the foreground."""
        raise NotImplementedError

    def ready(self) -> bool:
        """Whether clients can connect."""
        return answers(self.address)

    def pid(self) -> int | None:
        """The process, if it runs."""
        if self.process is not None and self.process.poll() is None:
            return self.process.pid
        try:
            pid = int((self.directory / "pid").read_text())
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except (OSError, ValueError):
            return None
        ours = any(str(self.directory).encode() in word for word in words)
        return pid if ours and alive(pid) else None

    def start(self, timeout: float = 120.0) -> "Server":
        """Starts the server and returns when clients can connect."""
        self.launch()
        return self.await_ready(timeout)

    def launch(self) -> None:
        """Starts the server's process."""
        if self.pid():
            raise ServerError(f"{self.kind} already runs on {self.address}: pid {self.pid()}")
        self.directory.mkdir(parents=True, exist_ok=True)
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        (self.directory / "pid").write_text(str(self.process.pid))

    def await_ready(self, timeout: float = 120.0) -> "Server":
        """Returns when clients can connect to the server that was launched."""
        end = time.monotonic() + timeout
        while not self.ready():
            if self.process.poll() is not None:
                raise ServerError(f"{self.kind} exited with {self.process.returncode} while starting:\n{self.tail()}")
            if time.monotonic() > end:
                self.kill()
                raise ServerError(f"{self.kind} is not ready on {self.address} after {timeout} s:\n{self.tail()}")
            time.sleep(0.02)
        return self

    def signal_and_wait(self, number: int, timeout: float) -> bool:
        """Signals the process, if it runs; whether it is gone in time."""
        pid = self.pid()
        if pid is None:
            return True
        os.kill(pid, number)
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            if self.process is not None and self.process.pid == pid:
                self.process.poll()
            if not alive(pid):
                return True
            time.sleep(0.01)
        return False

    def stop(self, timeout: float = 60.0) -> None:
        """SIGTERM: the server drains and exits."""
        if not self.signal_and_wait(signal.SIGTERM, timeout):
            self.kill()
            raise ServerError(f"{self.kind} ignored SIGTERM for {timeout} s:\n{self.tail()}")

    def kill(self) -> None:
        """SIGKILL: nothing is drained."""
        if not self.signal_and_wait(signal.SIGKILL, 30):
            raise ServerError(f"{self.kind} survives SIGKILL")

    def restart(self) -> None:
        """Stops and starts, with the same address and data."""
        self.stop()
        self.start()

    def tail(self, lines: int = 30) -> str:
        """The last lines the server logged."""
        try:
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        except OSError:
            return "(no log)"

    def arguments(self) -> list[str]:
        """The harness's own arguments that name this server again from another process."""
        return ["--server", self.kind, "--address", self.address, "--data", str(self.directory)]

    def environment(self) -> dict[str, str]:
        """What the clients read: where the server is and how to have it restarted."""
        restart = [sys.executable, "-m", "harness", *self.arguments(), "restart"]
        path = shlex.quote(str(ROOT / "tests"))
        return {
            "CQL_SERVER": self.kind,
            "CQL_ADDRESS": self.address,
            "CQL_PORT": str(CQL_PORT),
            "CQL_DATA": str(self.directory),
            "CQL_RESTART": f"PYTHONPATH={path} {shlex.join(restart)}",
        }


class Helenus(Server):
    """The release binary of this repository (`HELENUS_BINARY` names another one)."""

    kind = "helenus"

    def __init__(self, address=None, directory=None, shards: int | None = None, extra: list[str] | None = None, prefix: list[str] | None = None):
        super().__init__(address, directory)
        # What has the command line run elsewhere: see `network.Network.inside`.
        self.prefix = prefix or []
        self.shards = shards or int(os.environ.get("HELENUS_SHARDS", "2"))
        self.extra = extra if extra is not None else shlex.split(os.environ.get("HELENUS_ARGUMENTS", ""))

    @property
    def data(self) -> pathlib.Path:
        """The folder given as --data."""
        return self.directory / "data"

    def command(self) -> list[str]:
        arguments = ["--data", str(self.data), "--address", self.address, "--shards", str(self.shards)]
        memory = os.environ.get("HELENUS_MEMORY", "1G")
        # Snapshots of every dropped table would only cost time here.
        snapshots = [] if "--auto-snapshot" in self.extra else ["--auto-snapshot", "false"]
        features = ["user-defined-functions", "materialized-views", "sasi-indexes"]
        enabled = [word for feature in features for word in (f"--{feature}-enabled", "true")]
        return [*self.prefix, BINARY, "start", *arguments, "--memory", memory, *snapshots, *enabled, *self.extra]

    def nodetool(self, *arguments) -> str:
        """What a verb prints that must succeed."""
        command = [BINARY, "nodetool", "-h", self.address, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        if done.returncode:
            raise ServerError(f"nodetool {arguments} on {self.address}: {done.stderr}")
        return done.stdout


class Cassandra(Server):
    """A real Apache Cassandra 5.0.6, started by tests/cassandra/run.sh."""

    kind = "cassandra"

    def __init__(self, address=None, directory=None, options: list[str] | None = None):
        super().__init__(address, directory)
        self.options = options or []

    @property
    def log(self) -> pathlib.Path:
        return self.directory / "logs" / "stdout.log"

    @property
    def data(self) -> pathlib.Path:
        """The folder of sstables: KEYSPACE/TABLE-ID/."""
        return self.directory / "data" / "sstables"

    def command(self) -> list[str]:
        # Snapshots of every dropped table would only cost time here.
        settings = ["--heap", "1G", "--quick", "--yaml", "auto_snapshot: false", "--yaml", "materialized_views_enabled: true", "--yaml", "sasi_indexes_enabled: true"]
        where = ["--address", self.address, "--data", str(self.directory)]
        return [str(ROOT / "tests/cassandra/run.sh"), "start", "--foreground", *where, *settings, *self.options]

    def start(self, timeout: float = 240.0) -> "Server":
        (self.directory / "logs").mkdir(parents=True, exist_ok=True)
        return super().start(timeout)


def make(kind: str, address: str | None = None, directory: str | None = None) -> Server:
    """A server of that kind: "helenus" or "cassandra"."""
    if kind == "helenus":
        return Helenus(address, directory)
    if kind == "cassandra":
        return Cassandra(address, directory)
    raise ServerError(f"unknown server {kind!r}: helenus or cassandra")


def from_environment() -> Server:
    """The server that this test run was started against (see `Server.environment`)."""
    try:
        return make(os.environ["CQL_SERVER"], os.environ["CQL_ADDRESS"], os.environ["CQL_DATA"])
    except KeyError as missing:
        raise ServerError(f"{missing} is not set: run this through `python -m harness run -- COMMAND`") from None
