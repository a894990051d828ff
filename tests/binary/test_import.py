"""nodetool: import and refresh."""

import json
import os
import pathlib
import shutil
import time

import pytest

from harness.protocol import Connection
from nodetool import Nodetool, make_tables, rows, sstables, write_rows

CORPUS = pathlib.Path(__file__).parent.parent / "data/sstables"


@pytest.fixture
def source(node, tmp_path, request):
    """A folder with the sstables of ks.t of a node of three shards that has stopped: 1000 rows."""
    written_as = ["--sstable-format", getattr(request, "param", "big")]
    server = node(shards=3, folder="source", extra=written_as).start()
    make_tables(server)
    Nodetool(server)("flush")
    server.stop()
    folder = tmp_path / "upload"
    shutil.copytree(sstables(server, "t")[0].parent, folder)
    server.kill()
    return folder


@pytest.fixture
def target(node):
    """A node with the same tables, without rows, and its nodetool."""
    server = node(shards=2, folder="target").start()
    make_tables(server, 0)
    return server, Nodetool(server)


def names(folder):
    return sorted(path.name for path in folder.iterdir() if path.is_file())


@pytest.mark.parametrize("source", ["big", "bti"], indirect=True)
def test_import_moves_and_shows_at_once(source, target):
    server, nodetool = target
    with Connection(server.address) as connection:
        write_rows(connection, range(100, 150))
    nodetool("flush")
    assert nodetool("import", "ks", "t", source) == ""
    assert rows(server) == 1500
    assert names(source) == []
    server.kill()
    server.start()
    assert rows(server) == 1500
    server.stop()
    server.shards = 3
    server.start()
    assert rows(server) == 1500


@pytest.mark.parametrize("case", ["nb-plain", "oa-plain", "da-plain"])
def test_import_takes_what_cassandra_wrote(case, target, tmp_path):
    server, nodetool = target
    folder = tmp_path / "upload"
    shutil.copytree(CORPUS / case / "sstables", folder)
    expected = json.loads((CORPUS / case / "rows.json").read_text())
    with Connection(server.address) as connection:
        for statement in (CORPUS / case / "schema.cql").read_text().split(";\n"):
            if statement.strip():
                connection.query(statement)
        keyspace = f"own_{case.partition('-')[0]}"
        assert nodetool("import", keyspace, "plain", folder) == ""
        found = connection.query(f"SELECT JSON * FROM {keyspace}.plain").rows
    assert [json.loads(row) for (row,) in found] == expected
    assert names(folder) == []


def test_import_copies_and_takes_the_same_again(source, target):
    server, nodetool = target
    before = names(source)
    for _ in range(2):
        nodetool("import", "-p", "-l", "-r", "ks", "t", source)
        assert rows(server) == 1000
        assert names(source) == before
    said = nodetool("import", "-q", "--copy-data", "ks", "t", source)
    assert said == "Doing a quick import - skipping sstable verification and row cache invalidation\n"
    with Connection(server.address) as connection:
        connection.query("TRUNCATE ks.t")
    # A compaction that ran meanwhile sees that it was in vain, and removes what it has written.
    end = time.monotonic() + 20
    while left := sstables(server, "t"):
        assert time.monotonic() < end, left
        time.sleep(0.02)
    assert names(source) == before, "what was linked stays"
    server.kill()
    server.start()
    assert rows(server) == 0
    nodetool("import", "ks", "t", source)
    server.kill()
    server.start()
    assert rows(server) == 1000, "an earlier truncation does not cover it"


def test_what_is_not_good_is_named_and_left(source, target, tmp_path):
    server, nodetool = target
    before = names(source)
    assert nodetool.refused("import", "ks", "t", "/nonexistent") == "Directory /nonexistent does not exist"
    assert "relative" in nodetool.refused("import", "ks", "t", "relative")
    assert nodetool.refused("import", "ks", "nope", source) == "Unknown keyspace/cf pair (ks.nope)"
    said = nodetool.not_imported("ks", "u", source, folders=[source])
    assert str(source) in said and ".db " in said and "ks.u" in said
    with Connection(server.address) as connection:
        connection.query("CREATE TABLE ks.x (k int, c int, w text, PRIMARY KEY (k, c))")
    said = nodetool.not_imported("ks", "x", source, folders=[source])
    assert str(source) in said and "-Data.db is not of ks.x: it has a column `a`, which the table has not" in said
    good = tmp_path / "good"
    shutil.copytree(source, good)
    damaged = next(path for path in sorted(source.iterdir()) if path.name.endswith("-Data.db"))
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 0x40
    damaged.write_bytes(content)
    missing = nodetool.refused("import", "ks", "t", good, "/nonexistent")
    assert missing == "Directory /nonexistent does not exist"
    assert rows(server) == 0, "no folder is taken before all are there"
    said = nodetool.not_imported("ks", "t", source, good, folders=[source])
    assert str(damaged) in said
    assert names(source) == before
    assert rows(server) == 1000, "the good folder is in"
    assert names(good) == []
    (source / "zz-1-big-Data.db").write_bytes(b"")
    assert "zz-1-big-Data.db" in nodetool.not_imported("ks", "t", source, folders=[source])


def test_import_of_the_own_folder_leaves_what_is_in_use(source, target, tmp_path):
    server, nodetool = target
    nodetool("disableautocompaction", "ks", "t")  # a round after the import may take the live ones
    with Connection(server.address) as connection:
        write_rows(connection, range(200, 210))
    nodetool("flush")
    live = sstables(server, "t")
    folder = live[0].parent
    other_name = tmp_path / "link"
    other_name.symlink_to(folder)
    for path in (folder, f"{folder}/", other_name):
        nodetool("import", "ks", "t", path)
        nodetool("import", "-p", "ks", "t", path)
        assert sstables(server, "t") == live
    assert rows(server) == 100
    for path in source.iterdir():
        if path.is_file():
            version, generation, rest = path.name.split("-", 2)
            shutil.copy(path, folder / f"{version}-{int(generation) + 1000}-{rest}")
    nodetool("import", "-l", "-r", "ks", "t", folder)
    assert rows(server) == 1100
    assert set(live) < set(sstables(server, "t"))
    server.kill()
    server.start()
    assert rows(server) == 1100


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_can_be_copied(source, target):
    server, nodetool = target
    source.chmod(0o555)
    try:
        said = nodetool.refused("import", "ks", "t", source)
        assert said == f"Insufficient permissions on directory {source}"
        assert rows(server) == 0
        nodetool("import", "-p", "ks", "t", source)
        assert rows(server) == 1000
    finally:
        source.chmod(0o755)


def test_refresh_takes_what_lies_in_the_folder(source, target):
    server, nodetool = target
    with Connection(server.address) as connection:
        write_rows(connection, range(100, 110))
    nodetool("flush")
    folder = sstables(server, "t")[0].parent
    assert nodetool("refresh", "ks", "t") == ""
    assert rows(server) == 100
    # The names may be those of sstables that are there: 1000 more.
    for path in source.iterdir():
        if path.is_file():
            version, generation, rest = path.name.split("-", 2)
            shutil.copy(path, folder / f"{version}-{int(generation) + 1000}-{rest}")
    nodetool("refresh", "ks", "t")
    assert rows(server) == 1100
    nodetool("refresh", "ks", "t")
    assert rows(server) == 1100
    # Back from a snapshot: the names that they had before.
    nodetool("snapshot", "-t", "s", "-cf", "t", "ks")
    with Connection(server.address) as connection:
        connection.query("TRUNCATE ks.t")
    for path in (folder / "snapshots" / "s").glob("*-big-*"):
        os.link(path, folder / path.name)
    nodetool("refresh", "ks", "t")
    assert rows(server) == 1100
    server.kill()
    server.start()
    assert rows(server) == 1100
    assert nodetool.refused("refresh", "ks", "nope") == "Unknown keyspace/cf pair (ks.nope)"


@pytest.mark.parametrize("put", [os.link, shutil.copy], ids=["linked", "copied"])
@pytest.mark.parametrize("shards", [1, 3])
def test_a_dropped_table_comes_back_from_its_snapshot(node, shards, put):
    server = node(shards=shards).start()
    make_tables(server)
    nodetool = Nodetool(server)
    nodetool("disableautocompaction", "ks", "t")
    with Connection(server.address) as connection:
        for first in (100, 200, 300):
            nodetool("flush")
            write_rows(connection, range(first, first + 100))
        nodetool("snapshot", "-t", "s", "-cf", "t", "ks")
        folder = sstables(server, "t")[0].parent
        kept = folder / "snapshots" / "s"
        content = {path: path.read_bytes() for path in kept.iterdir()}
        connection.query("DROP TABLE ks.t")
        for statement in filter(str.strip, (kept / "schema.cql").read_text().split(";\n")):
            connection.query(statement)
        # The names that they had: a table that was made anew has given none of them.
        for path in kept.glob("*-big-*"):
            put(path, folder / path.name)
        write_rows(connection, range(400, 410))
    nodetool("flush", "ks", "t")
    nodetool("refresh", "ks", "t")
    assert rows(server) == 4100
    server.kill()
    server.start()
    assert rows(server) == 4100
    assert {path: path.read_bytes() for path in kept.iterdir()} == content
    nodetool("refresh", "ks", "t")
    assert rows(server) == 4100
