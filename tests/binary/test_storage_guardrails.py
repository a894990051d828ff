"""Guardrails that look at what nodes hold: partitions that they write, indexes that they read, drives that fill.

What is expected is what a Cassandra 5.0.6 said of the same statements, to somebody who is no superuser.
"""

import concurrent.futures
import itertools
import re
import time

import pytest

import harness
from harness.protocol import Connection, Failure

ONE, ALL = 1, 5
KEYSPACE = "CREATE KEYSPACE k WITH replication={'class':'SimpleStrategy','replication_factor':1}"
STUFFED = "Guardrail replica_disk_usage violated: Replica disk usage exceeds warning threshold"
FULL = "Guardrail replica_disk_usage violated: Write request failed because disk usage exceeds failure threshold"


@pytest.fixture
def start(tmp_path):
    """Starts a Helenus with these guardrails; it is gone after the test."""
    started = []
    # Several may be started at once.
    numbers = itertools.count()

    def run(settings: list[str], address: str | None = None, extra: list[str] | None = None):
        name = f"node{next(numbers)}"
        config = tmp_path / f"{name}.yaml"
        config.write_text("".join(f"{line}\n" for line in settings))
        server = harness.Helenus(address or harness.free_address(), tmp_path / name, 1, ["--config", str(config), *(extra or [])])
        started.append(server)
        return server.start()

    yield run
    for server in started:
        server.kill()


def told(connection, statement: str) -> list[str]:
    """What a client is told of a statement: `!` an error, `~` a warning."""
    found = []
    try:
        connection.query(statement, page=5000)
    except Failure as failure:
        found.append(f"! {failure.message}")
    return found + [f"~ {warning}" for warning in connection.warnings]


def until(true, timeout: float = 30):
    """Waits until something holds."""
    end = time.monotonic() + timeout
    while not true():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_the_log_is_told_of_partitions_that_are_written(start):
    limits = ["partition_size_warn_threshold: 1KiB", "partition_size_fail_threshold: 4KiB"]
    limits += ["partition_tombstones_warn_threshold: 2", "partition_tombstones_fail_threshold: 5"]
    server = start(limits)
    with Connection(server.address) as connection:
        statements = [
            KEYSPACE,
            "CREATE TABLE k.c (a text, b int, c int, v text, PRIMARY KEY((a,b),c))",
            "CREATE INDEX ON k.c(v)",
            "CREATE TABLE k.b (k blob PRIMARY KEY, v text, m map<int,int>, s set<int>)",
            f"INSERT INTO k.c(a,b,c,v) VALUES ('x:y',1,1,'{'z' * 3000}')",
            f"INSERT INTO k.c(a,b,c,v) VALUES ('big',1,1,'{'z' * 9000}')",
            "INSERT INTO k.b(k,v,m,s) VALUES (0xcafe,'a',{1:1},{1})",
            "UPDATE k.b SET m=null, v=null WHERE k=0xcafe",
            *(f"DELETE FROM k.c WHERE a='del' AND b=1 AND c={n}" for n in range(3)),
            "DELETE FROM k.c WHERE a='rng' AND b=1 AND c>1 AND c<5",
            "DELETE FROM k.c WHERE a='rng' AND b=1 AND c>=7",
            *(f"DELETE v FROM k.c WHERE a='cells' AND b=1 AND c={n}" for n in range(7)),
            "INSERT INTO k.c(a,b,c,v) VALUES ('ttl',1,1,'x') USING TTL 1",
            "INSERT INTO k.c(a,b,c,v) VALUES ('ttl',1,2,'x') USING TTL 1",
        ]
        for statement in statements:
            assert told(connection, statement) == []
    time.sleep(2.5)
    server.nodetool("flush", "k")
    expected = {
        (r"k.c:x\:y:1", "WARN", "size", None),
        ("k.c:big:1", "ERROR", "size", None),
        ("k.c:rng:1", "WARN", "tombstones", "4"),
        ("k.c:cells:1", "ERROR", "tombstones", "7"),
        ("k.c:del:1", "WARN", "tombstones", "3"),
        ("k.c:ttl:1", "WARN", "tombstones", "4"),
        ("k.b:cafe", "WARN", "tombstones", "3"),
    }
    log = server.log.read_text()
    line = re.compile(
        r"(WARN|ERROR).*Guardrail partition_(size|tombstones) violated: Partition (k\.\S+) on sstable (\S+-Data\.db) has "
        r"(?:size )?(\d+)(?: tombstones)?, this exceeds the (warning|failure) threshold of (\d+)\. "
        r"(?:Too large partitions|Partitions with too many tombstones) can cause performance problems\."
    )
    found = set()
    for level, what, partition, path, value, kind, threshold in line.findall(log):
        assert f"/k/{partition[2]}-" in path
        assert kind == {"WARN": "warning", "ERROR": "failure"}[level]
        thresholds = {("size", "warning"): 1024, ("size", "failure"): 4096, ("tombstones", "warning"): 2, ("tombstones", "failure"): 5}
        assert int(threshold) == thresholds[what, kind] < int(value)
        found.add((partition, level, what, value if what == "tombstones" else None))
    assert found == expected, log
    # Compactions write them, too.
    server.nodetool("compact", "k", "c")
    again = [match for match in line.findall(server.log.read_text()[len(log) :]) if match[2] == "k.c:big:1"]
    assert len(again) == 1


def test_clients_are_told_of_indexes_of_many_sstables(start):
    server = start(["sai_sstable_indexes_per_query_warn_threshold: 1", "sai_sstable_indexes_per_query_fail_threshold: 2"])

    def ask(statement: str) -> list[str]:
        with Connection(server.address) as connection:
            return told(connection, statement)

    def write(number: int):
        for key in range(5):
            assert ask(f"INSERT INTO k.t(k,c,v) VALUES ({key},{number},{number if key else 7})") == []
        # What drains flushes indexes, too.
        server.restart()

    def warning(query: str, tokens: str) -> list[str]:
        return [
            "~ 1 nodes referenced more than allowed number of indexes without restrictions on partition key, maximum on a node being "
            f"2 indexes, and issued warnings for query {query} (see sai_sstable_indexes_per_query_warn_threshold) with token range: {tokens}"
        ]

    for statement in [KEYSPACE, "CREATE TABLE k.t (k int, c int, v int, w int, PRIMARY KEY(k,c))", "CREATE CUSTOM INDEX iv ON k.t(v) USING 'sai'"]:
        assert ask(statement) == []
    write(1)
    assert ask("SELECT * FROM k.t WHERE v=7") == []
    write(2)
    ring = "(-9223372036854775808, -9223372036854775808]"
    assert ask("SELECT * FROM k.t WHERE v=7") == warning("SELECT * FROM k.t WHERE v = 7 LIMIT 5000 ALLOW FILTERING", ring)
    few = warning("SELECT * FROM k.t WHERE v >= 1 AND v < 3 LIMIT 2 ALLOW FILTERING", ring)
    assert ask("SELECT * FROM k.t WHERE v>=1 AND v<3 LIMIT 2") == few
    half = warning("SELECT * FROM k.t WHERE token(k) > 0 AND v = 7 LIMIT 5000 ALLOW FILTERING", "(0, -9223372036854775808]")
    assert ask("SELECT * FROM k.t WHERE token(k) > 0 AND v=7") == half
    # That is in the first alone.
    assert ask("SELECT * FROM k.t WHERE v=1") == []
    # A partition is filtered, without looking into the index.
    assert ask("SELECT * FROM k.t WHERE k=0 AND v=7") == []
    write(3)
    assert ask("SELECT * FROM k.t WHERE v=1") == []
    with Connection(server.address, version=5) as connection:
        with pytest.raises(Failure) as failed:
            connection.query("SELECT * FROM k.t WHERE v=7")
        # READ_FAILURE of one node, whose reason is READ_TOO_MANY_INDEXES.
        assert failed.value.code == 0x1300
        assert failed.value.detail[-3:-1] == b"\x00\x07", failed.value.detail
        shown = connection.query("SELECT name, value FROM system_views.settings").rows
    shown = {name.decode(): value and value.decode() for name, value in shown}
    assert shown["sai_sstable_indexes_per_query_fail_threshold"] == "2"
    assert shown["partition_size_warn_threshold"] is None
    assert shown["partition_tombstones_warn_threshold"] == "-1"
    assert shown["data_disk_usage_percentage_warn_threshold"] == "-1"
    assert shown["data_disk_usage_max_disk_size"] is None


def test_32_sstables_of_an_index_are_enough(start):
    server = start([])
    with Connection(server.address) as connection:
        shown = connection.query("SELECT value FROM system_views.settings WHERE name='sai_sstable_indexes_per_query_warn_threshold'").rows
        assert shown == [(b"32",)]


def test_all_replicas_that_look_into_many_sstables_are_counted(start):
    addresses = harness.free_addresses(2)
    seeds = ["--seeds", ",".join(addresses)]
    limits = ["sai_sstable_indexes_per_query_warn_threshold: 1"]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        servers = list(pool.map(lambda address: start(limits, address, seeds), addresses))
    with Connection(addresses[0]) as connection:
        connection.query(KEYSPACE.replace("1}", "2}"))
        connection.query("CREATE TABLE k.t (k int PRIMARY KEY, v int)")
        connection.query("CREATE CUSTOM INDEX iv ON k.t(v) USING 'sai'")
    for number in range(2):
        with Connection(addresses[0]) as connection:
            for key in range(5):
                connection.query(f"INSERT INTO k.t(k,v) VALUES ({10 * number + key},7)", consistency=ALL)
        for server in servers:
            server.restart()
    until(lambda: servers[0].nodetool("status").count("UN") == 2)
    for level, nodes in [(ONE, 1), (ALL, 2)]:
        with Connection(addresses[0]) as connection:
            assert len(connection.query("SELECT * FROM k.t WHERE v=7", consistency=level).rows) == 10
            assert [warning.split(",")[0] for warning in connection.warnings] == [
                f"{nodes} nodes referenced more than allowed number of indexes without restrictions on partition key"
            ]
            assert ", maximum on a node being 2 indexes, " in connection.warnings[0]


TABLES = [KEYSPACE, "CREATE TABLE k.t (k int, c int, v int, PRIMARY KEY(k,c))", "CREATE TABLE k.n (k int PRIMARY KEY, n counter)"]
INSERT = "INSERT INTO k.t(k,c) VALUES (1,1)"


def without_room(start, threshold: str, state: str, line: str):
    """A node whose drive is used beyond a threshold, of which gossip and the log have been told, with tables."""
    server = start([f"data_disk_usage_percentage_{threshold}_threshold: 50", "data_disk_usage_max_disk_size: 1KiB"])
    until(lambda: "DISK_USAGE" in server.nodetool("gossipinfo"))
    assert re.search(rf"^  DISK_USAGE:\d+:{state}$", server.nodetool("gossipinfo"), re.M)
    assert re.search(line, server.log.read_text())
    with Connection(server.address) as connection:
        for statement in TABLES:
            assert told(connection, statement) == []
    return server


def test_writes_are_warned_of_where_a_drive_is_stuffed(start):
    line = r"WARN.*Guardrail local_data_disk_usage violated: Local data disk usage \d+%\(Stuffed\) exceeds warning threshold of 50%"
    server = without_room(start, "warn", "STUFFED", line)
    with Connection(server.address) as connection:
        assert told(connection, INSERT) == [f"~ {STUFFED}"]
        # Once in half an hour.
        assert told(connection, INSERT) == []
        assert told(connection, "SELECT * FROM k.t") == []


def test_writes_are_refused_where_a_drive_is_full(start):
    line = r"ERROR.*Guardrail local_data_disk_usage violated: Local data disk usage \d+%\(Full\) exceeds failure threshold of 50%, will stop"
    server = without_room(start, "fail", "FULL", line)
    with Connection(server.address) as connection:
        assert told(connection, INSERT) == [f"! {FULL}", f"~ {FULL}"]
        refused = [
            INSERT,
            "INSERT INTO k.t JSON '{\"k\":1,\"c\":1}'",
            f"BEGIN BATCH {INSERT} APPLY BATCH",
            f"BEGIN BATCH {INSERT} IF NOT EXISTS APPLY BATCH",
            "UPDATE k.n SET n=n+1 WHERE k=1",
            "DELETE FROM k.t WHERE k=1",
            "UPDATE k.t SET v=1 WHERE k IN (1,2,3,4) AND c=1",
        ]
        for statement in refused:
            assert told(connection, statement) == [f"! {FULL}"], statement
        for statement in [f"{INSERT} IF NOT EXISTS", "TRUNCATE k.n", "SELECT * FROM k.t", "CREATE TABLE k.t2 (k int PRIMARY KEY)"]:
            assert told(connection, statement) == [], statement


def test_all_nodes_know_of_a_full_drive(start):
    addresses = harness.free_addresses(2)
    seeds = ["--seeds", ",".join(addresses)]
    full = ["data_disk_usage_percentage_fail_threshold: 50", "data_disk_usage_max_disk_size: 1KiB"]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        first = pool.submit(start, [], addresses[0], seeds)
        time.sleep(0.2)
        second = pool.submit(start, full, addresses[1], seeds)
        first, second = first.result(), second.result()
    until(lambda: re.search(r"^  DISK_USAGE:\d+:FULL$", first.nodetool("gossipinfo"), re.M))
    with Connection(first.address) as connection:
        for statement in TABLES:
            connection.query(statement)
        answers = [told(connection, f"INSERT INTO k.t(k,c) VALUES ({key},1)") for key in range(40)]
    # Those of which the other node has the partition.
    assert {line for answer in answers for line in answer} == {f"! {FULL}", f"~ {FULL}"}
    assert 0 < sum(bool(answer) for answer in answers) < 40
    # It starts again without a guardrail: what it told is over.
    (second.directory.parent / "node1.yaml").write_text("")
    second.restart()
    until(lambda: "DISK_USAGE" not in first.nodetool("gossipinfo"))
    with Connection(first.address) as connection:
        until(lambda: not any(told(connection, f"INSERT INTO k.t(k,c) VALUES ({key},1)") for key in range(40)))


def test_a_drive_is_not_taken_to_be_larger_than_it_is(tmp_path):
    config = tmp_path / "h.yaml"
    config.write_text("data_disk_usage_max_disk_size: 100000TiB\n")
    server = harness.Helenus(harness.free_address(), tmp_path / "node", 1, ["--config", str(config)])
    with pytest.raises(harness.ServerError) as refused:
        server.start()
    assert "Invalid value for data_disk_usage_max_disk_size: " in str(refused.value)
