"""The data folder: other numbers of shards, other commit log modes, damage."""

import re
import time

import pytest

import harness
from harness.protocol import Connection, Failure

ROWS = 2000
UNPREPARED = 0x2500


def fill(server, rows: int = ROWS):
    with Connection(server.address) as connection:
        connection.query("CREATE KEYSPACE d WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
        connection.query("CREATE TABLE d.t (k text PRIMARY KEY, v text)")
        insert = connection.prepare("INSERT INTO d.t (k, v) VALUES (?, ?)")
        for k in range(rows):
            connection.execute(insert, [b"k%d" % k, b"v%d" % k * 20])


def count(server) -> int:
    rows, state = set(), None
    with Connection(server.address) as connection:
        while True:
            page = connection.query("SELECT k, v FROM d.t", page=500, state=state)
            for k, v in page.rows:
                assert v == (b"v" + k[1:]) * 20
                assert k not in rows
                rows.add(k)
            state = page.paging_state
            if state is None:
                return len(rows)


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_another_number_of_shards(node, how):
    """The folder serves any number of shards, from sstables (stop) and from the commit log (kill)."""
    server = node(shards=1).start()
    fill(server)
    for shards in (3, 2, 1, 4):
        getattr(server, how)()
        server.shards = shards
        server.start()
        assert count(server) == ROWS
        with Connection(server.address) as connection:
            for k in range(0, ROWS, 97):
                assert connection.query("SELECT v FROM d.t WHERE k = 'k%d'" % k).rows == [(b"v%d" % k * 20,)]


@pytest.mark.parametrize("mode", ["group", "batch", "periodic"])
def test_commit_log_modes(node, mode):
    server = node(extra=["--commitlog-sync", mode]).start()
    fill(server, 300)
    server.kill()
    server.start()
    # Periodic may lose what the system held when the power fails, never what a process held.
    assert count(server) == 300


def files(server, pattern: str):
    return sorted(path for path in server.data.rglob(pattern) if path.is_file())


def flip(path, position: int):
    with open(path, "r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ 0x5A]))


def test_damaged_sstable_is_named_and_harms_nothing_else(node):
    server = node(shards=1).start()
    fill(server)
    with Connection(server.address) as connection:
        connection.query("CREATE TABLE d.sound (k int PRIMARY KEY, v text)")
        connection.query("INSERT INTO d.sound (k, v) VALUES (1, 'sound')")
    server.stop()
    (damaged,) = [path for path in files(server, "nb-*-big-Data.db") if path.parent.name.startswith("t-") and path.parent.parent.name == "d"]
    flip(damaged, damaged.stat().st_size // 2)
    server.start()
    with Connection(server.address) as connection:
        with pytest.raises(Failure) as caught:
            connection.query("SELECT * FROM d.t")
        assert caught.value.code in (0x0000, 0x1300)
        assert connection.query("SELECT v FROM d.sound WHERE k = 1").rows == [(b"sound",)]
        connection.query("INSERT INTO d.t (k, v) VALUES ('new', 'row')")
    assert server.pid()
    log = server.log.read_text()
    assert damaged.name in log and re.search(r"(offset|position|at|byte) \d+", log[log.index(damaged.name) :]), "file and offset"


def segments(server):
    found = [path for path in files(server, "*") if "commitlog" in path.relative_to(server.data).parts]
    assert found, "no commit log segments"
    return found


def test_torn_tail_of_the_commit_log_is_no_damage(node):
    """A crash in the middle of a write: what was acknowledged before is there."""
    server = node(shards=1).start()
    fill(server, 500)
    server.kill()
    newest = max(segments(server), key=lambda path: path.stat().st_mtime)
    content = newest.read_bytes()
    used = len(content.rstrip(b"\0"))
    newest.write_bytes(content[: used - 3] + b"\0" * (len(content) - used + 3))
    server.start()
    assert count(server) in (499, 500)


def test_damage_in_the_middle_of_the_commit_log_is_refused(node):
    server = node(shards=1).start()
    fill(server, 500)
    server.kill()
    newest = max(segments(server), key=lambda path: len(path.read_bytes().rstrip(b"\0")))
    content = newest.read_bytes().rstrip(b"\0")
    # Zeros may be padding, which nobody misses.
    flip(newest, next(at for at in range(len(content) // 2, len(content)) if content[at]))
    with pytest.raises(harness.ServerError) as caught:
        server.start()
    said = str(caught.value)
    assert "exited with 1" in said and newest.name in said and re.search(r"\d{2,}", said.split(newest.name)[1]), said


def test_prepared_statements_are_there_after_a_restart(node):
    """Until the schema makes them stale; drivers need not prepare them again, on whatever shard they are."""
    server = node(shards=2).start()
    fill(server, 10)
    with Connection(server.address) as connection:
        select = connection.prepare("SELECT v FROM d.t WHERE k = ?")
        stale = connection.prepare("SELECT k FROM d.t WHERE v = ? ALLOW FILTERING")
        connection.query("USE d")
        unqualified = connection.prepare("SELECT k FROM t WHERE k = ?")
    server.stop()
    server.start()
    for _ in range(4):
        with Connection(server.address) as connection:
            assert connection.execute(select, [b"k3"]).rows == [(b"v3" * 20,)]
            assert connection.execute(unqualified, [b"k3"]).rows == [(b"k3",)]
    with Connection(server.address) as connection:
        connection.query("ALTER TABLE d.t DROP v")
        # What is stale is taken out behind the answer, as nothing depends on it.
        until_none_is_written_down(connection)
    server.kill()
    server.start()
    with Connection(server.address) as connection:
        with pytest.raises(Failure) as failure:
            connection.execute(stale, [b"v"])
        assert failure.value.code == UNPREPARED
        assert connection.query("SELECT query_string FROM system.prepared_statements").rows == []


def until_none_is_written_down(connection, seconds: float = 10.0):
    deadline = time.monotonic() + seconds
    while rows := connection.query("SELECT query_string FROM system.prepared_statements").rows:
        assert time.monotonic() < deadline, rows
        time.sleep(0.01)
