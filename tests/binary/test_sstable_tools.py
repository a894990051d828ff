"""helenus sstable: what the tools do to files, and that a node serves what they leave."""

import json
import os
import shutil
import subprocess

import pytest

from conftest import BINARY
from harness.protocol import Connection
from test_data import files, flip

ROWS = 300


def tool(*arguments) -> subprocess.CompletedProcess:
    done = subprocess.run([BINARY, "sstable", *map(str, arguments)], capture_output=True, text=True, timeout=60)
    assert "panicked" not in done.stderr
    return done


def data_files(server) -> list:
    return [path for path in files(server, "*-Data.db") if path.parent.name.startswith("t-")]


@pytest.fixture
def filled(node):
    """A node with a table of values that do not compress, 3 MiB in one sstable."""
    server = node(shards=1).start()
    with Connection(server.address) as connection:
        connection.query("CREATE KEYSPACE d WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
        connection.query("CREATE TABLE d.t (k text PRIMARY KEY, v blob) WITH compaction = {'class': 'SizeTieredCompactionStrategy', 'enabled': 'false'}")
        insert = connection.prepare("INSERT INTO d.t (k, v) VALUES (?, ?)")
        for k in range(ROWS):
            connection.execute(insert, [b"k%d" % k, os.urandom(10_000)])
    return server


def rows(server) -> dict:
    found, state = {}, None
    with Connection(server.address) as connection:
        while True:
            page = connection.query("SELECT k, v FROM d.t", page=50, state=state)
            found.update(page.rows)
            state = page.paging_state
            if state is None:
                return found


def test_split_sstables_have_the_same_rows(filled):
    before = rows(filled)
    filled.stop()
    (whole,) = data_files(filled)
    done = tool("split", "-s", 1, whole)
    assert done.returncode == 0, done.stderr
    parts = data_files(filled)
    assert len([path for path in parts if "snapshots" not in path.parts]) > 2
    assert all(path.stat().st_size < 1.2 * 2**20 for path in parts if "snapshots" not in path.parts)
    assert not whole.exists() and list(whole.parent.glob(f"snapshots/pre-split-*/{whole.name}"))
    assert tool("verify", *[path for path in parts if "snapshots" not in path.parts]).returncode == 0
    filled.start()
    assert rows(filled) == before


def test_small_sstables_are_not_split(filled):
    filled.stop()
    (whole,) = data_files(filled)
    done = tool("split", whole)
    assert done.returncode == 0 and "No sstables needed splitting" in done.stdout
    assert whole.exists()


def test_scrub_keeps_what_can_be_read(filled):
    before = rows(filled)
    filled.stop()
    (damaged,) = data_files(filled)
    original = damaged.read_bytes()
    flip(damaged, len(original) // 2)
    found = tool("verify", damaged)
    assert found.returncode == 1 and damaged.name in found.stderr and "offset" in found.stderr
    done = tool("scrub", damaged)
    assert done.returncode == 0, done.stderr
    assert "lost" in done.stdout and "offset" in done.stderr
    (kept,) = damaged.parent.glob(f"snapshots/pre-scrub-*/{damaged.name}")
    assert len(kept.read_bytes()) == len(original)
    filled.start()
    after = rows(filled)
    assert ROWS - 5 < len(after) < ROWS
    assert all(before[key] == value for key, value in after.items())


def test_a_running_node_is_left_alone(filled):
    with Connection(filled.address) as connection:
        connection.query("TRUNCATE d.t")
    filled.restart()
    for system in files(filled, "*-Data.db")[:1]:
        for verb in ("scrub", "split"):
            done = tool(verb, system)
            assert done.returncode == 1 and "locked by another node" in done.stderr
            assert system.exists()


def test_dump_and_metadata_of_a_file(filled):
    filled.stop()
    (whole,) = data_files(filled)
    partitions = json.loads(tool("dump", whole).stdout)
    assert len(partitions) == ROWS
    keys = [partition["partition"]["key"][0] for partition in partitions]
    (one,) = json.loads(tool("dump", whole, "-k", keys[7]).stdout)
    assert one == partitions[7] and one["rows"][0]["cells"][0]["name"] == "v"
    assert len(json.loads(tool("dump", whole, "-x", *keys[:10]).stdout)) == ROWS - 10
    assert [json.loads(line) for line in tool("dump", whole, "-l").stdout.splitlines()] == partitions
    assert [key for (key,) in json.loads(tool("dump", whole, "-e").stdout)] == keys
    said = tool("metadata", whole).stdout
    assert f"totalRows: {ROWS}" in said and "Partitioner: org.apache.cassandra.dht.Murmur3Partitioner" in said
    assert f"Partitions: {ROWS}" in tool("metadata", "-s", whole).stdout


@pytest.mark.parametrize("verb", ["dump", "metadata", "verify", "scrub", "split"])
def test_what_is_no_sstable_is_named(verb, tmp_path):
    missing, other = tmp_path / "nb-1-big-Data.db", tmp_path / "notes.txt"
    other.write_text("x")
    for path in (missing, other):
        done = tool(verb, path)
        assert done.returncode == 1
        assert str(path) in done.stderr and len(done.stderr.strip().splitlines()) == 1
    assert tool(verb).returncode == 1
    assert tool(verb, "--help").returncode == 0


def test_load_into_a_running_node(filled, tmp_path):
    """The rows of one node's files, taken by another table of it, files and folders."""
    before = rows(filled)
    filled.stop()
    (whole,) = data_files(filled)
    backup = tmp_path / "d" / "t"
    shutil.copytree(whole.parent, backup)
    filled.start()
    with Connection(filled.address) as connection:
        connection.query("TRUNCATE d.t")
    assert rows(filled) == {}
    done = tool("load", "-d", filled.address, backup / whole.name)
    assert done.returncode == 0, done.stderr
    assert rows(filled) == before
    assert (backup / whole.name).exists() and not list(backup.glob(".load-*"))
    with Connection(filled.address) as connection:
        connection.query("CREATE TABLE d.u (k text PRIMARY KEY, v blob)")
    done = tool("load", "-d", filled.address, "--target-table", "u", backup)
    assert done.returncode == 0, done.stderr
    with Connection(filled.address) as connection:
        assert connection.query("SELECT count(*) FROM d.u").rows == [(ROWS.to_bytes(8, "big"),)]
    done = tool("load", "-d", filled.address, "--target-table", "none", backup)
    assert done.returncode == 1 and "none" in done.stderr and len(done.stderr.strip().splitlines()) == 1


def test_load_into_no_node(filled):
    filled.stop()
    (whole,) = data_files(filled)
    done = tool("load", "-d", filled.address, whole)
    assert done.returncode == 1 and filled.address in done.stderr
