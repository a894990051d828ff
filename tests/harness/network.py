"""A network of its own for a cluster: a namespace for each node, and between them whatever trouble is wanted.

The process that runs the test has itself started again in a new network namespace (`enter`). That one is
the router: each node has a namespace and a pair of veth devices to it, and all that nodes say to each
other is forwarded there. When the last process ends the kernel takes everything away; the machine's own
network sees nothing of it.

Nodes keep to 127.0.0.0/8 here, too: a namespace gives back the route by which all of it is its own
(`127.0.0.1/8 dev lo`), has its one address, and `route_localnet` lets the others' pass.

What is cut off is dropped by rules of routing (`ip rule … blackhole`), so nobody is told, as with a cable
that was pulled. For loss and delay packets take a way round through a process (`relay`): not all kernels
have netem. All of it needs `ip` (iproute2), `unshare` and `nsenter`, and root or user namespaces.
"""

import itertools
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys

from .server import ROOT, ServerError

ENTERED = "HELENUS_TEST_NETWORK"
TABLE = 100
# Rules: what is cut off comes before what goes round, and that before the usual way (32766).
CUT, ROUND = 1000, 2000


def why_not() -> str | None:
    """Why there can be no network of namespaces here, if there is a reason."""
    missing = [tool for tool in ("ip", "unshare", "nsenter") if shutil.which(tool) is None]
    if missing:
        return f"no {', '.join(missing)}: install iproute2 and util-linux"
    probe = "mount -t tmpfs none /run && mkdir /run/netns && ip netns add probe && ip link add probe type veth peer name eth0 netns probe"
    done = subprocess.run([*unshare(), "sh", "-c", probe], capture_output=True, text=True)
    return None if done.returncode == 0 else f"namespaces are not allowed here ({' '.join(done.stderr.split())})"


def unshare() -> list[str]:
    """The command that runs another one with a network and mounts of its own."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", *user, "--net", "--mount"]


def entered() -> bool:
    """Whether this process has been started by `enter`."""
    return ENTERED in os.environ


def enter() -> None:
    """Starts this program (`python -m …`) again in a network of its own; does not return."""
    module = sys.modules["__main__"].__spec__.name
    command = [*unshare(), sys.executable, "-m", module, *sys.argv[1:]]
    os.execvpe(command[0], command, {**os.environ, ENTERED: "1"})


def environment() -> dict[str, str]:
    """For processes that are to find these modules."""
    return {**os.environ, "PYTHONPATH": str(ROOT / "tests")}


def run(*command: str, given: str | None = None) -> str:
    done = subprocess.run(command, input=given, capture_output=True, text=True, env=environment())
    if done.returncode:
        raise ServerError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


class Network:
    """The network of this many nodes, in a process that has `entered`."""

    def __init__(self, nodes: int):
        base = f"127.{random.randrange(64, 128)}.{random.randrange(256)}"
        self.client = f"{base}.254"
        self.addresses = [f"{base}.{number + 1}" for number in range(nodes)]
        self.rules = itertools.count()
        self.relay: subprocess.Popen | None = None
        # Why there is neither loss nor delay, if there is a reason.
        self.no_relay: str | None = None
        self.make()
        self.start_relay()

    def make(self):
        # `ip netns` keeps names in /run/netns: a place that nobody else sees.
        run("mount", "-t", "tmpfs", "none", "/run")
        pathlib.Path("/run/netns").mkdir()
        own(self.client)
        pathlib.Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        for node, address in enumerate(self.addresses):
            self.connect(node, address)

    def connect(self, node: int, address: str):
        """The namespace of a node and its way to the router."""
        name, inside = f"n{node}", self.inside(node)
        run("ip", "netns", "add", name)
        run("ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
        run("ip", "link", "set", name, "up")
        run("ip", "route", "add", address, "dev", name, "src", self.client)
        run(*inside, sys.executable, "-c", f"from harness.network import own; own('{address}')")
        run(*inside, "ip", "link", "set", "eth0", "up")
        # Nobody asks for hardware addresses: that fails for what is cut off, and so the node would be told of it.
        theirs = hardware(run(*inside, "ip", "-json", "link", "show", "eth0"))
        run("ip", "neighbor", "add", address, "lladdr", theirs, "dev", name, "nud", "permanent")
        ours = hardware(run("ip", "-json", "link", "show", name))
        run(*inside, "ip", "neighbor", "add", self.client, "lladdr", ours, "dev", "eth0", "nud", "permanent")
        run(*inside, "ip", "route", "add", "default", "via", self.client, "dev", "eth0", "onlink", "src", address)

    def start_relay(self):
        device = pathlib.Path("/dev/net/tun")
        if not os.access(device, os.R_OK | os.W_OK):
            self.no_relay = f"{device} may not be opened"
            return
        self.relay = subprocess.Popen(
            [sys.executable, "-m", "harness.relay"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        name = self.relay.stdout.readline().strip()
        if not name:
            self.no_relay, self.relay = "the relay of packets did not start", None
            return
        pathlib.Path(f"/proc/sys/net/ipv4/conf/{name}/rp_filter").write_text("0")
        run("ip", "link", "set", name, "up", "txqueuelen", "10000")
        run("ip", "route", "add", "default", "dev", name, "table", str(TABLE))

    def close(self):
        if self.relay is not None:
            self.relay.stdin.close()
            self.relay.wait(10)
            self.relay = None

    def inside(self, node: int) -> list[str]:
        """What a command starts with that is to run on a node."""
        return ["nsenter", f"--net=/run/netns/n{node}", "--"]

    def cut(self, ways) -> list[int]:
        """Drops what passes these ways, (from, to): nodes by their number, None is the client. The rules' numbers.

        The client's own packets always leave: the kernel would tell it that they do not. Cut the way back."""
        return self.add_rules(CUT, [f"from {self.of(source)} to {self.of(target)} blackhole" for source, target in ways if source is not None])

    def trouble(self, ways, loss: float, delay: tuple[float, float]) -> list[int]:
        """Of what passes these ways a part (0 to 1) is lost; the rest is late by seconds between these two, each packet on its own, so many overtake others."""
        if self.relay is None:
            return []
        self.relay.stdin.write(json.dumps({"loss": loss, "delay": delay}) + "\n")
        self.relay.stdin.flush()
        between = [(source, target) for source, target in ways if source is not None and target is not None]
        return self.add_rules(ROUND, [f"iif n{source} to {self.of(target)} lookup {TABLE}" for source, target in between])

    def heal(self, rules: list[int]):
        """Takes rules away."""
        run("ip", "-batch", "-", given="".join(f"rule del pref {rule}\n" for rule in rules))

    def of(self, node: int | None) -> str:
        return self.client if node is None else self.addresses[node]

    def add_rules(self, first: int, texts: list[str]) -> list[int]:
        numbers = [first + next(self.rules) % 1000 for _ in texts]
        run("ip", "-batch", "-", given="".join(f"rule add pref {number} {text}\n" for number, text in zip(numbers, texts)))
        return numbers


def hardware(shown: str) -> str:
    """The hardware address of the device that `ip -json link show` shows."""
    return json.loads(shown)[0]["address"]


def own(address: str):
    """Gives the namespace of this process one loopback address, and passage to all others."""
    run("ip", "link", "set", "lo", "up")
    run("ip", "address", "del", "127.0.0.1/8", "dev", "lo")
    run("ip", "address", "add", address, "dev", "lo")
    for device in pathlib.Path("/proc/sys/net/ipv4/conf").iterdir():
        (device / "route_localnet").write_text("1")
        (device / "rp_filter").write_text("0")
