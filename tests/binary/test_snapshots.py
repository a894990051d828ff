"""nodetool: snapshots and incremental backups."""

import json
import os
import re
import shutil

import pytest

from harness.protocol import Connection
from nodetool import Nodetool, make_tables, rows, sstables, write_rows


@pytest.fixture
def served(node):
    """A node that runs with the tables of `make_tables`, and its nodetool."""
    server = node(shards=2).start()
    make_tables(server)
    return server, Nodetool(server)


def snapshot_dir(server, table: str, tag: str):
    (found,) = (server.data / "data" / "ks").glob(f"{table}-*/snapshots/{tag}")
    return found


def test_snapshot_is_links_manifest_and_schema(served):
    server, nodetool = served
    said = nodetool("snapshot", "-t", "s1", "ks").splitlines()
    assert said == [
        "Requested creating snapshot(s) for [ks] with snapshot name [s1] and options {skipFlush=false}",
        "Snapshot directory: s1",
    ]
    made = snapshot_dir(server, "t", "s1")
    live = {path.name: path for path in made.parent.parent.iterdir() if path.is_file()}
    for path in made.iterdir():
        if path.name not in ("manifest.json", "schema.cql"):
            assert os.path.samefile(path, live.pop(path.name))
    assert not live, "all files of all sstables are in it"
    text = (made / "manifest.json").read_text()
    manifest = json.loads(text)
    assert manifest["files"] == [path.name for path in sstables(server, "t")]
    pattern = r'\{\n  "files" : \[ .* \],\n  "created_at" : "2[\dT:.-]+Z",\n  "expires_at" : null,\n  "ephemeral" : false\n\}'
    assert re.fullmatch(pattern, text), text
    schema = (made / "schema.cql").read_text()
    assert schema.startswith("CREATE TYPE IF NOT EXISTS ks.addr (\n    street text,\n    n int\n);\nCREATE TABLE IF NOT EXISTS ks.t (\n")
    assert ") WITH ID = " in schema and schema.endswith("AND speculative_retry = '99p';\n")
    assert json.loads((snapshot_dir(server, "u", "s1") / "manifest.json").read_text())["files"] == []


def test_what_a_snapshot_is_of(served):
    server, nodetool = served
    nodetool("snapshot", "-t", "one", "-cf", "t", "ks")
    nodetool("snapshot", "-t", "two", "-kt", "ks.u,ks.Mixed", "--ttl", "1d", "-sf")
    nodetool("snapshot", "-t", "all")
    listed = nodetool("listsnapshots").splitlines()
    assert listed[0] == "Snapshot Details: "
    assert re.fullmatch(r"Snapshot name +Keyspace name +Column family name +True size +Size on disk +Creation time +Expiration time *", listed[1])
    found = {tuple(line.split()[:3]) for line in listed[2:] if line.strip() and not line.startswith("Total")}
    assert {place for place in found if place[1] == "ks" and place[0] != "all"} == {("one", "ks", "t"), ("two", "ks", "u"), ("two", "ks", "Mixed")}
    assert ("all", "system", "local") in found
    assert re.search(r"^Total TrueDiskSpaceUsed: [\d.]+ \w+$", "\n".join(listed), re.M)
    with_ttl = next(line for line in listed if line.startswith("two"))
    created, expires = re.findall(r"\d{4}-\d\d-\d\dT[\d:.]+Z", with_ttl)
    assert created[:8] <= expires[:8] and created[11:] == expires[11:]
    assert "\ntwo " not in nodetool("listsnapshots", "-nt")
    with_ephemeral = nodetool("listsnapshots", "-e").splitlines()
    assert with_ephemeral[1].split()[-1] == "Ephemeral" and with_ephemeral[2].split()[-1] == "false"

    assert nodetool.refused("snapshot", "-t", "one", "ks") == "Snapshot one already exists."
    assert "must not also specify keyspaces" in nodetool.refused("snapshot", "-kt", "ks.t", "ks")
    assert nodetool.refused("snapshot", "-t", "x", "--ttl", "1s", "ks") == "ttl for snapshot must be at least 60 seconds"
    assert nodetool.refused("snapshot", "-t", "x", "nope") == "Keyspace [nope] does not exist."
    assert nodetool.refused("snapshot", "-t", "x", "-cf", "nope", "ks") == "Unknown keyspace/cf pair (ks.nope)"
    for bad in ("../x", "a/b", ".."):
        assert "name of a snapshot" in nodetool.refused("snapshot", "-t", bad, "ks")
        assert "name of a snapshot" in nodetool.refused("clearsnapshot", "-t", bad)

    assert nodetool.refused("clearsnapshot") == "Specify snapshot name or --all"
    assert nodetool.refused("clearsnapshot", "--all", "-t", "one") == "Specify only one of snapshot name or --all"
    no = "Specifying snapshot name together with --older-than flag is not allowed"
    assert nodetool.refused("clearsnapshot", "-t", "one", "--older-than", "1d") == no
    assert "Invalid duration: 3k" in nodetool.refused("clearsnapshot", "--all", "--older-than", "3k")
    no = "Parameter --older-than-timestamp has to be a valid instant in ISO format."
    assert nodetool.refused("clearsnapshot", "--all", "--older-than-timestamp", "123") == no
    listed_names = lambda: sorted(line.split()[:3] for line in nodetool("listsnapshots").splitlines()[2:-3])
    before = listed_names()
    said = nodetool("clearsnapshot", "--all", "--older-than", "1d")
    assert said == "Requested clearing snapshot(s) for [all keyspaces] with [all snapshots] older than 86400 seconds.\n"
    nodetool("clearsnapshot", "--all", "--older-than-timestamp", "2020-01-01T00:00:00Z")
    assert listed_names() == before
    nodetool("clearsnapshot", "--all", "--older-than-timestamp", "2100-01-01T00:00:00Z", "system")
    assert listed_names() == [name for name in before if name[1] != "system"] != before
    said = nodetool("clearsnapshot", "-t", "one")
    assert said == "Requested clearing snapshot(s) for [all keyspaces] with snapshot name [one]\n"
    nodetool("clearsnapshot", "--all", "ks")
    assert not any(name[1] == "ks" for name in listed_names())
    nodetool("clearsnapshot", "--all")
    assert nodetool("listsnapshots") == "Snapshot Details: \nThere are no snapshots\n"
    assert rows(server) == 1000


def test_snapshot_outlives_its_table_and_brings_it_back(served):
    server, nodetool = served
    nodetool("snapshot", "-t", "kept", "-cf", "t", "ks")
    with Connection(server.address) as connection:
        write_rows(connection, range(100, 200))
        connection.query("TRUNCATE ks.t")
        kept = snapshot_dir(server, "t", "kept")
        connection.query("DROP TABLE ks.t")
        assert not sstables(server, "t")
        assert [path.name for path in kept.parent.parent.iterdir()] == ["snapshots"]
        assert "kept" in nodetool("listsnapshots")
        statements = (kept / "schema.cql").read_text().split(";\n")
        for statement in filter(str.strip, statements):
            connection.query(statement)
    server.stop()
    for path in kept.iterdir():
        if path.suffix not in (".cql", ".json"):
            shutil.copy(path, kept.parent.parent)
    server.start()
    assert rows(server) == 1000


def test_incremental_backups(served):
    server, nodetool = served
    assert nodetool("statusbackup") == "not running\n"
    nodetool("flush", "ks")
    assert not sstables(server, "t", "backups")
    nodetool("enablebackup")
    assert nodetool("statusbackup") == "running\n"
    with Connection(server.address) as connection:
        write_rows(connection, range(100, 120))
    nodetool("flush", "ks")
    backed_up = sstables(server, "t", "backups")
    assert len(backed_up) == 2
    for path in backed_up:
        for component in path.parent.glob(path.name.replace("Data.db", "*")):
            assert os.path.samefile(component, component.parent.parent / component.name)
    nodetool("disablebackup")
    assert nodetool("statusbackup") == "not running\n"
    with Connection(server.address) as connection:
        write_rows(connection, range(120, 140))
    nodetool("flush", "ks")
    assert sstables(server, "t", "backups") == backed_up
    with Connection(server.address) as connection:
        connection.query("TRUNCATE ks.t")
    assert sstables(server, "t", "backups") == backed_up


def test_incremental_backups_from_the_start(node):
    server = node(extra=["--incremental-backups", "true"]).start()
    nodetool = Nodetool(server)
    assert nodetool("statusbackup") == "running\n"
    make_tables(server)
    nodetool("flush", "ks")
    live = [path.name for path in sstables(server, "t")]
    assert live and [path.name for path in sstables(server, "t", "backups")] == live


def test_truncated_and_dropped_tables_can_come_back(node):
    server = node(shards=2, extra=["--auto-snapshot", "true"]).start()
    make_tables(server)
    nodetool = Nodetool(server)
    listed = lambda: re.findall(r"^((?:truncated|dropped)-\d+-\S+) +ks +(\S+)", nodetool("listsnapshots"), re.M)
    with Connection(server.address) as connection:
        connection.query("TRUNCATE ks.u")
        assert listed() == [], "there was nothing in it"
        connection.query("TRUNCATE ks.t")
        ((truncated, table),) = listed()
        assert truncated.startswith("truncated-") and truncated.endswith("-t") and table == "t"
        assert rows(server) == 0
    for path in snapshot_dir(server, "t", truncated).glob("*-big-*"):
        os.link(path, path.parent.parent.parent / path.name)
    nodetool("refresh", "ks", "t")
    assert rows(server) == 1000
    with Connection(server.address) as connection:
        connection.query('INSERT INTO ks."Mixed" (k, v) VALUES (1, \'a\')')
        connection.query('ALTER TABLE ks."Mixed" WITH allow_auto_snapshot = false')
        connection.query("DROP KEYSPACE ks")
    (dropped,) = [tag for tag, _ in listed() if tag.startswith("dropped-")]
    assert dropped.endswith("-t")
    assert "CREATE TABLE IF NOT EXISTS ks.t" in (snapshot_dir(server, "t", dropped) / "schema.cql").read_text()
    nodetool("clearsnapshot", "--all")
    assert listed() == []
