"""`helenus cluster`, and what nodetool shows of a cluster."""

import os
import pathlib
import re
import shlex
import signal
import socket
import struct
import subprocess
import time

import pytest

import harness
from conftest import BINARY
from harness.protocol import EVENT, QUERY, REGISTER, RESULT, Connection, Reader, long_string, string
from harness.server import alive
from nodetool import Nodetool

# A level, and a flag of requests and responses.
ALL, TRACING = 5, 0x02


class LocalCluster:
    """A `helenus cluster` on addresses of its own; known by its process, as its nodes are by theirs."""

    def __init__(self, directory: pathlib.Path, nodes: int = 3, extra: list[str] | None = None):
        self.directory = directory
        self.addresses = harness.free_addresses(nodes)
        self.extra = extra or []
        self.process: subprocess.Popen | None = None
        self.pids: list[int] = []

    @property
    def log(self) -> pathlib.Path:
        return self.directory / "cluster.log"

    def data(self, node: int) -> pathlib.Path:
        return self.directory / "data" / f"node{node + 1}"

    def begin(self) -> "LocalCluster":
        """Starts it, and does not wait."""
        own = ["--nodes", len(self.addresses), "--first", self.addresses[0], "--data", self.directory / "data"]
        small = ["--shards", 1, "--memory", "256M", "--auto-snapshot", "false"]
        self.directory.mkdir(parents=True, exist_ok=True)
        with open(self.log, "wb") as log:
            command = [BINARY, "cluster", *map(str, own + small + self.extra)]
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        return self

    def start(self) -> "LocalCluster":
        """Starts it and returns when all nodes are ready."""
        self.begin().await_line(r"helenus cluster ready: ")
        self.pids = [self.pid(node) for node in range(len(self.addresses))]
        return self

    def pid(self, node: int) -> int:
        """The process that has the node's folder."""
        return int((self.data(node) / "helenus.lock").read_text())

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def await_line(self, pattern: str, timeout: float = 60) -> re.Match:
        """Waits until it says something."""
        return until(lambda: re.search(pattern, self.said(), re.M), timeout, self.said)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Signals it, waits for it, and for its nodes: its exit code."""
        self.process.send_signal(number)
        code = self.process.wait(60)
        for pid in self.pids:
            assert not alive(pid), f"node {pid} outlives its cluster"
        return code

    def kill(self) -> None:
        """Leaves nothing behind: its nodes go with it."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(30)
        for pid in self.pids:
            until(lambda: not alive(pid), 60, self.said)


def until(true, timeout: float, why):
    """Waits until something holds; what it is then."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        if found := true():
            return found
        time.sleep(0.1)
    pytest.fail(f"not within {timeout} s:\n{why()}")


def nodetool(address: str) -> Nodetool:
    return Nodetool(harness.Helenus(address))


def states(address: str) -> dict[str, str]:
    """What `nodetool status` says of each node: UN, DN …"""
    lines = nodetool(address)("status").splitlines()[5:]
    return {line.split()[1]: line.split()[0] for line in lines if line.strip()}


def await_states(address: str, expected: dict[str, str]) -> None:
    until(lambda: states(address) == expected, 60, lambda: nodetool(address)("status"))


class Watcher:
    """A client that hears which nodes go up and down, as drivers do."""

    def __init__(self, address: str):
        self.connection = Connection(address, timeout=5)
        self.connection.request(REGISTER, b"\x00\x01" + string("STATUS_CHANGE"))

    def await_change(self, change: str, node: str) -> None:
        """Waits until it hears that a node is `UP` or `DOWN`; nothing else may it hear but who is up since the start."""
        while True:
            *_, opcode, body = self.connection.receive()
            reader = Reader(body)
            assert (opcode, reader.string()) == (EVENT, "STATUS_CHANGE")
            heard = reader.string(), ".".join(map(str, reader.take(reader.byte())))
            if heard == (change, node):
                return
            assert heard[0] == "UP", heard


@pytest.fixture
def cluster(tmp_path):
    made = []

    def make(**options) -> LocalCluster:
        made.append(LocalCluster(tmp_path / f"cluster{len(made)}", **options))
        return made[-1]

    yield make
    for cluster in made:
        cluster.kill()


def test_cluster_is_seen_loses_a_node_and_goes_on(cluster):
    three = cluster(extra=["--racks", "2"]).start()
    first, second, third = three.addresses
    assert f"  cqlsh {first} " in three.said()
    up = dict.fromkeys(three.addresses, "UN")
    for address in three.addresses:
        await_states(address, up)

    with Connection(second) as connection:
        connection.query("CREATE KEYSPACE shop WITH replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 2}")
        connection.query("CREATE TABLE shop.orders (customer text, n int, PRIMARY KEY (customer, n))")
        hostnames = connection.query("SELECT hostname, rack FROM system_views.gossip_info").rows
        assert set(hostnames) == {(first.encode(), b"rack1"), (second.encode(), b"rack2"), (third.encode(), b"rack1")}
        connection.query("USE shop")
        ((name, _, _, owners),) = connection.query("DESCRIBE CLUSTER").rows
        assert name == b"Helenus" and all(f"/{address}:7000".encode() in owners for address in three.addresses)

    tell = nodetool(third)
    rows = [line.split() for line in tell("status", "shop").splitlines()[5:] if line]
    assert [row[1] for row in rows] == three.addresses and [row[-1] for row in rows] == ["rack1", "rack2", "rack1"]
    assert abs(sum(float(row[5].rstrip("%")) for row in rows) - 200) < 0.2
    # The only node of its rack has a replica of everything.
    assert rows[1][5] == "100.0%"
    hosts = {row[1]: row[6] for row in rows}
    assert f"UN  {first}:7000  " in tell("-pp", "status")

    ring = [line.split() for line in tell("ring", "shop").splitlines() if line.startswith("127.")]
    tokens = [int(row[-1]) for row in ring]
    assert len(tokens) == 48 and tokens == sorted(tokens) and {row[0] for row in ring} == set(three.addresses)
    described = tell("describecluster")
    assert re.search(rf"\t\t[0-9a-f-]{{36}}: \[{first}, {second}, {third}\]\n", described), described
    assert "\tLive: 3\n" in described and "\tdatacenter1 #Nodes: 3 #Down: 0\n" in described
    assert "\tshop -> Replication class: NetworkTopologyStrategy {datacenter1=2}\n" in described

    endpoints = {key: tell("getendpoints", "shop", "orders", key).split() for key in ("ada", "grace", "joan")}
    for key, found in endpoints.items():
        assert len(set(found)) == 2 and second in found, (key, found)
        assert nodetool(first)("getendpoints", "shop", "orders", key).split() == found
    ranges = re.findall(r"start_token:(-?\d+), end_token:(-?\d+), endpoints:\[(.*?)\]", tell("describering", "shop"))
    assert sorted(int(end) for _, end, _ in ranges) == tokens
    assert all(len(nodes.split(", ")) == 2 for _, _, nodes in ranges)
    assert "no ring" in tell.refused("describering", "system", code=2)
    gossip = tell("gossipinfo")
    assert all(f"/{address}\n" in gossip and host in gossip for address, host in hosts.items())
    assert re.search(r"^Small messages +n/a +\d+ +[1-9]\d* +n/a$", tell("netstats"), re.M)

    os.kill(three.pids[2], signal.SIGKILL)
    restart = three.await_line(r"^node3 has ended: signal: 9 .*\n  helenus (start .*)$")
    down = {**up, third: "DN"}
    for address in (first, second):
        await_states(address, down)
    described = nodetool(first)("describecluster")
    assert f"\t\tUNREACHABLE: [{third}]\n" in described and "\tUnreachable: 1\n" in described
    assert re.search(rf"^DN +{third} +\? ", nodetool(first)("status"), re.M)

    command = [BINARY, *shlex.split(restart.group(1))]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True) as again:
        try:
            await_states(first, up)
        finally:
            again.terminate()
            assert again.wait(60) == 0
    await_states(first, down)
    assert three.stop(signal.SIGINT) == 0

    three.start()
    await_states(first, up)
    rows = [line.split() for line in nodetool(first)("status", "shop").splitlines()[5:] if line]
    assert {row[1]: row[6] for row in rows} == hosts, "they are who they were"
    assert nodetool(second)("getendpoints", "shop", "orders", "ada").split() == endpoints["ada"]
    assert three.stop(signal.SIGTERM) == 0


def phi(address: str) -> dict[str, float]:
    """What `nodetool failuredetector` says of each node."""
    head, *lines = nodetool(address)("failuredetector").splitlines()
    assert head == "  Endpoint,             Phi"
    return {endpoint.strip().lstrip("/"): float(value) for endpoint, value in (line.split(",") for line in lines)}


def write(address: str, keys) -> None:
    with Connection(address) as connection:
        for key in keys:
            connection.query(f"INSERT INTO shop.orders (customer, n) VALUES ('{address}', {key})", consistency=4)


def test_trace_has_what_all_nodes_did_and_is_found_at_each(cluster):
    three = cluster().start()
    for address in three.addresses:
        await_states(address, dict.fromkeys(three.addresses, "UN"))
    first = Connection(three.addresses[0], version=4)
    first.query("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}")
    first.query("CREATE TABLE k.t (a int PRIMARY KEY, b int)")
    for statement, asked, done in [
        ("INSERT INTO k.t (a, b) VALUES (1, 2)", b"MUTATION_REQ", b"Adding to t memtable"),
        ("SELECT * FROM k.t WHERE a = 1", b"READ_REQ", b"Executing single-partition query on t"),
        ("SELECT * FROM k.t", b"RANGE_REQ", b"Read 1 live rows and 0 tombstone cells"),
    ]:
        first.send(QUERY, long_string(statement) + struct.pack(">HB", ALL, 0), flags=TRACING)
        _, flags, _, opcode, body = first.receive()
        assert (flags, opcode) == (TRACING, RESULT)
        for address in three.addresses:
            with Connection(address) as connection:
                await_trace(connection, body[:16], three.addresses, asked, done)


def await_trace(connection: Connection, session: bytes, nodes: list[str], asked: bytes, done: bytes) -> None:
    """Waits until a trace is found, in which the first of the nodes asks the others, and all of them do something."""
    select = "SELECT source, activity FROM system_traces.events WHERE session_id = ?"
    events = []

    def is_complete() -> bool:
        events[:] = [(socket.inet_ntoa(source), activity) for source, activity in connection.query(select, [session]).rows]
        sent = {activity.split(b"/")[1].split(b":")[0].decode() for source, activity in events if source == nodes[0] and activity.startswith(b"Sending " + asked)}
        received = {source for source, activity in events if activity.startswith(asked + b" message received from /" + nodes[0].encode())}
        did = {source for source, activity in events if activity == done}
        return sent == received == set(nodes[1:]) and did == set(nodes)

    until(is_complete, 30, lambda: "\n".join(map(str, events)))
    # The session comes behind its events.
    select_session = "SELECT coordinator FROM system_traces.sessions WHERE session_id = ?"
    until(lambda: connection.query(select_session, [session]).rows == [(socket.inet_aton(nodes[0]),)], 30, lambda: "no session")


def test_node_that_does_not_gossip_is_down_for_others_and_serves(cluster):
    three = cluster().start()
    first, second, third = three.addresses
    up = dict.fromkeys(three.addresses, "UN")
    for address in three.addresses:
        await_states(address, up)
    with Connection(first) as connection:
        connection.query("CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}")
        connection.query("CREATE TABLE shop.orders (customer text, n int, PRIMARY KEY (customer, n))")
    assert phi(first) == {second: 0, third: 0} and phi(third) == {first: 0, second: 0}
    watcher, tell = Watcher(first), nodetool(third)

    assert tell("disablegossip") == ""
    watcher.await_change("DOWN", third)
    assert states(first) == {**up, third: "DN"} == states(second)
    assert tell("statusgossip") == "not running\n" and tell("statusbinary") == "running\n"
    said = tell("info")
    assert re.search(r"^Gossip active +: false$", said, re.M) and re.search(r"^Generation No +: 0$", said, re.M)
    assert tell("disablegossip") == ""
    write(third, range(10))
    write(first, range(10))
    assert states(third) == up, "it knows what it knew"
    until(lambda: phi(first)[third] > 1, 10, lambda: phi(first))
    assert phi(first)[second] == 0
    keeps = nodetool(first)
    head, line = until(lambda: len(found := keeps("listpendinghints").splitlines()) == 2 and found, 5, lambda: keeps("listpendinghints"))
    assert head.split() == "Host ID Address Rack DC Status Total files Newest Oldest".split()
    time_of_day = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}"
    assert re.fullmatch(rf"[0-9a-f-]{{36}} +{third}:7000 +rack1 +datacenter1 +DOWN +1 +{time_of_day} {time_of_day}", line.strip()), line
    assert nodetool(second)("listpendinghints") == "This node does not have any pending hints\n"
    assert nodetool(second)("truncatehints", first) == nodetool(second)("truncatehints") == ""
    assert keeps.refused("truncatehints", "127.0.0.99") == "Can't delete hints for unknown address /127.0.0.99:7000"
    assert keeps("pausehandoff") == keeps("disablehandoff") == ""
    assert keeps("statushandoff") == "Hinted handoff is not running\n"
    write(first, range(10, 20))
    assert keeps("enablehandoff") == keeps("setmaxhintwindow", 5000) == ""
    assert keeps("statushandoff") == "Hinted handoff is running\n"
    assert keeps("getmaxhintwindow") == "Current max hint window: 5000 ms\n"

    assert tell("enablegossip") == "" and tell("enablegossip") == ""
    watcher.await_change("UP", third)
    assert states(first) == up and tell("statusgossip") == "running\n"
    until(lambda: phi(first)[third] == 0, 5, lambda: phi(first))
    # What it missed meanwhile others have kept for it, and not what they were told not to keep.
    with Connection(third) as connection:
        read = lambda: len(connection.query("SELECT n FROM shop.orders").rows)
        assert read() == 10
        assert keeps("resumehandoff") == ""
        until(lambda: read() == 20, 30, read)
        until(lambda: "not have any" in keeps("listpendinghints"), 10, lambda: keeps("listpendinghints"))
        assert read() == 20
    assert three.stop() == 0


def test_node_that_is_drained_or_stopped_says_farewell(cluster):
    three = cluster().start()
    first, second, third = three.addresses
    up = dict.fromkeys(three.addresses, "UN")
    for address in three.addresses:
        await_states(address, up)
    watcher = Watcher(first)
    assert nodetool(third)("drain") == ""
    watcher.await_change("DOWN", third)
    assert states(first) == {**up, third: "DN"} == states(second)
    with pytest.raises(OSError):
        Connection(third)
    for service, verb in (("gossip", "enablegossip"), ("native transport", "enablebinary")):
        assert nodetool(third).refused(verb).startswith(f"Unable to start {service} because the node was drained")
    assert "Mode: DRAINED" in nodetool(third)("netstats") and nodetool(third)("statusgossip") == "not running\n"
    assert nodetool(third)("drain") == ""

    began = time.monotonic()
    os.kill(three.pids[1], signal.SIGTERM)
    watcher.await_change("DOWN", second)
    assert time.monotonic() - began < 2, "nobody had to find out"
    assert states(first) == {first: "UN", second: "DN", third: "DN"}
    three.await_line("^node2 has ended: exit status: 0")
    assert three.stop() == 0
    three.start()
    await_states(first, up)
    assert three.stop() == 0


def test_nodes_do_not_outlive_their_cluster(cluster):
    two = cluster(nodes=2).start()
    two.process.kill()
    two.process.wait(30)
    for pid in two.pids:
        until(lambda: not alive(pid), 60, two.said)


def test_node_that_cannot_start_is_reported_and_the_others_serve(cluster):
    two = cluster(nodes=2)
    two.data(1).parent.mkdir(parents=True)
    two.data(1).write_text("no folder")
    two.begin()
    two.await_line(r"^node2 has ended: exit status: 1; its last line: helenus: cannot use the data folder .*node2")
    two.await_line(r"^helenus cluster ready: 1 of 2 nodes")
    two.pids = [two.pid(0)]
    assert set(states(two.addresses[0]).values()) == {"UN"}
    assert two.stop() == 0


def test_taken_port_is_one_line(refused, tmp_path):
    first, second = harness.free_addresses(2)
    with socket.socket() as taken:
        taken.bind((second, 7000))
        taken.listen()
        said = refused("cluster", "--nodes", 2, "--first", first, "--data", tmp_path / "data")
    assert len(said.splitlines()) == 1 and f"node2: cannot listen on {second}:7000" in said
    assert not (tmp_path / "data").exists()


def test_wrong_arguments(refused):
    for arguments in (["--nodes", "0"], ["--first", "10.0.0.1"], ["--address", "127.0.0.1"], ["--shards", "none"]):
        refused("cluster", *arguments, code=2)
    assert "run out" in refused("cluster", "--first", "127.255.255.254")
