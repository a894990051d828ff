"""The commit log and the drives: archiving, what a Cassandra left, failure policies."""

import shutil
import time
import urllib.error
import urllib.request

import pytest

import harness
from harness.protocol import Connection, Failure

from test_data import ROWS, count, files, fill, flip


def properties(path, **values):
    path.write_text("# as Cassandra has it\n" + "".join(f"{name}={value}\n" for name, value in values.items()))
    return str(path)


def test_segments_are_archived_and_restored(node, tmp_path):
    """A node made anew from the segments alone."""
    backup = tmp_path / "backup"
    backup.mkdir()
    archive = properties(tmp_path / "archive.properties", archive_command=f"/bin/cp -f %path {backup}/%name")
    server = node(extra=["--commitlog-segment-size", "1MiB", "--commitlog-archiving", archive]).start()
    fill(server, ROWS)
    with Connection(server.address) as connection:
        connection.query("CREATE TABLE d.ballast (k int PRIMARY KEY, v blob)")
        for k in range(60):
            connection.query(f"INSERT INTO d.ballast (k, v) VALUES ({k}, 0x{'ab' * 100_000})")
    deadline = time.monotonic() + 10
    while len(list(backup.iterdir())) < 4:
        assert time.monotonic() < deadline, "nothing is archived"
        time.sleep(0.1)
    server.kill()
    folders = f"{backup},{server.data / 'commitlog'}"
    restore = properties(tmp_path / "restore.properties", restore_command="/bin/cp -f %from %to", restore_directories=folders)
    restored = node(shards=3, extra=["--commitlog-archiving", restore], folder="restored").start()
    assert count(restored) == ROWS


def test_a_damaged_log_can_be_passed_over(node):
    server = node(shards=1).start()
    fill(server, 500)
    server.kill()
    newest = max(files(server, "helenus-*.log"), key=lambda path: len(path.read_bytes().rstrip(b"\0")))
    content = newest.read_bytes().rstrip(b"\0")
    flip(newest, next(at for at in range(len(content) // 2, len(content)) if content[at]))
    with pytest.raises(harness.ServerError) as caught:
        server.start()
    assert "--commitlog-ignore-replay-errors" in str(caught.value)
    server.extra = ["--commitlog-ignore-replay-errors", "true"]
    server.start()
    # A row a group, as the rows were written one after the other.
    assert count(server) == 499


@pytest.mark.parametrize("policy, serves", [("stop", True), ("ignore", True), ("best_effort", True), ("stop_paranoid", False), ("die", None)])
def test_disk_failure_policies(node, policy, serves):
    """What a single damaged sstable does to the node: nothing, no more clients, or its end."""
    server = node(shards=1, extra=["--disk-failure-policy", policy]).start()
    fill(server)
    server.stop()
    (damaged,) = [path for path in files(server, "nb-*-big-Data.db") if path.parent.parent.name == "d"]
    flip(damaged, damaged.stat().st_size // 2)
    server.start()
    with Connection(server.address) as connection, pytest.raises(Failure):
        connection.query("SELECT * FROM d.t")
    time.sleep(1)
    if serves is None:
        with pytest.raises((urllib.error.URLError, OSError)):
            ready(server)
        return
    assert ready(server) == (200 if serves else 503)
    if serves:
        Connection(server.address).close()
    else:
        with pytest.raises(OSError):
            Connection(server.address)
    assert damaged.name in server.log.read_text()


def ready(server) -> int:
    try:
        return urllib.request.urlopen(f"http://{server.address}:9180/ready", timeout=5).status
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.parametrize("compression", [None, "LZ4Compressor"])
def test_what_a_killed_cassandra_acknowledged_is_there(node, tmp_path, compression):
    """Its folder, as it lies, with writes that are in its commit log alone."""
    settings = ["--yaml", "commitlog_sync: batch"]
    if compression:
        settings += ["--yaml", f"commitlog_compression: [{{class_name: {compression}}}]"]
    cassandra = harness.Cassandra(directory=tmp_path / "cassandra", options=settings)
    try:
        cassandra.start()
        fill(cassandra, 300)
    finally:
        cassandra.kill()
    server = node(shards=3)
    shutil.copytree(cassandra.data, server.data / "data")
    shutil.copytree(cassandra.data.parent / "commitlog", server.data / "commitlog")
    server.extra = ["--cluster-name", cluster_name(cassandra)]
    server.start()
    assert count(server) == 300
    server.stop()
    assert not files(server, "CommitLog-*"), "flushed, so that Cassandra has nothing to replay"
    server.start()
    assert count(server) == 300


def cluster_name(cassandra) -> str:
    lines = (cassandra.directory / "conf" / "cassandra.yaml").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith("cluster_name:")]
    return line.split(":", 1)[1].strip().strip("'\"")
