"""Events: what one session changes reaches another one's metadata."""

import time

import pytest


def eventually(condition, what: str, seconds: float = 10.0):
    """Waits until the condition holds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError(f"after {seconds} s: {what}")


@pytest.fixture
def watcher(app):
    cluster = app.connect_cluster()
    cluster.connect()
    yield cluster
    cluster.shutdown()


def test_schema_changes_reach_other_sessions(app, watcher):
    keyspaces = watcher.metadata.keyspaces
    app.execute("DROP KEYSPACE IF EXISTS ev")
    app.execute("CREATE KEYSPACE ev WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
    eventually(lambda: "ev" in keyspaces, "the keyspace is seen")
    app.execute("CREATE TYPE ev.ty (a int)")
    eventually(lambda: "ty" in keyspaces["ev"].user_types, "the type is seen")
    app.execute("CREATE TABLE ev.ta (k int PRIMARY KEY)")
    eventually(lambda: "ta" in keyspaces["ev"].tables, "the table is seen")
    app.execute("ALTER TABLE ev.ta ADD v int")
    eventually(lambda: "v" in keyspaces["ev"].tables["ta"].columns, "the column is seen")
    app.execute("ALTER TYPE ev.ty ADD b text")
    eventually(lambda: "b" in keyspaces["ev"].user_types["ty"].field_names, "the field is seen")
    app.execute("ALTER KEYSPACE ev WITH durable_writes = false")
    eventually(lambda: keyspaces["ev"].durable_writes is False, "the option is seen")
    app.execute("DROP TABLE ev.ta")
    eventually(lambda: "ta" not in keyspaces["ev"].tables, "the table is gone")
    app.execute("DROP TYPE ev.ty")
    eventually(lambda: "ty" not in keyspaces["ev"].user_types, "the type is gone")
    app.execute("DROP KEYSPACE ev")
    eventually(lambda: "ev" not in keyspaces, "the keyspace is gone")


def test_schema_agreement_and_topology(app):
    assert app.cluster.control_connection.wait_for_schema_agreement(wait_time=5)
    hosts = app.cluster.metadata.all_hosts()
    assert len(hosts) == 1
    host = hosts[0]
    assert host.is_up and host.datacenter and host.rack and host.host_id
    assert host.release_version.startswith("5.0")
    assert app.cluster.metadata.partitioner.endswith("Murmur3Partitioner")
    assert app.cluster.metadata.token_map.get_replicas(app.keyspace, app.cluster.metadata.token_map.ring[0])


def test_compression(app):
    from cassandra.connection import locally_supported_compressions

    wanted = ["lz4"] if app.version >= 5 else ["lz4", "snappy"]
    for name in wanted:
        assert name in locally_supported_compressions
        cluster = app.connect_cluster(compression=name)
        try:
            session = cluster.connect(app.keyspace)
            session.execute("CREATE TABLE IF NOT EXISTS squeezed (k text PRIMARY KEY, v text)")
            session.execute("INSERT INTO squeezed (k, v) VALUES (%s, %s)", (name, "ab" * 200_000))
            assert session.execute("SELECT v FROM squeezed WHERE k = %s", (name,)).one().v == "ab" * 200_000
        finally:
            cluster.shutdown()
