"""The system tables have Cassandra's columns, and say what drivers need.

`UPDATE_GOLDEN=1 make protocol SERVER=cassandra` records `golden/` anew.
"""

import os
import pathlib

import pytest

from harness.protocol import Failure

GOLDEN = pathlib.Path(__file__).parent / "golden"
KEYSPACES = ["system", "system_schema", "system_auth", "system_distributed", "system_traces"]
# What drivers, cqlsh and Spark read (the rest is Cassandra's inner life).
READ_BY_CLIENTS = [
    "system.local", "system.peers", "system.peers_v2", "system.size_estimates", "system.table_estimates",
    "system.built_views", '"system"."IndexInfo"', "system_schema.keyspaces", "system_schema.tables", "system_schema.columns",
    "system_schema.types", "system_schema.indexes", "system_schema.triggers", "system_schema.functions",
    "system_schema.aggregates", "system_schema.views", "system_schema.dropped_columns", "system_schema.column_masks",
    "system_traces.sessions", "system_traces.events", "system_virtual_schema.keyspaces",
    "system_virtual_schema.tables", "system_virtual_schema.columns", "system_auth.roles",
]  # fmt: skip


def golden(name: str, text: str):
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN") and os.environ["CQL_SERVER"] == "cassandra":
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.parametrize("keyspace", KEYSPACES)
def test_columns_are_cassandras(connect, keyspace):
    rows = connect().query(
        "SELECT table_name, column_name, kind, position, clustering_order, type FROM system_schema.columns "
        f"WHERE keyspace_name = '{keyspace}'"
    ).rows
    shown = [f"{t.decode()} {c.decode()} {k.decode()} {int.from_bytes(p, signed=True)} {o.decode()} {ty.decode()}" for t, c, k, p, o, ty in rows]
    golden(keyspace, "\n".join(shown) + "\n")


@pytest.mark.parametrize("table", READ_BY_CLIENTS)
def test_metadata_of_select_is_cassandras(connect, table):
    result = connect().query(f"SELECT * FROM {table}")
    columns = "\n".join(f"{name} {ty}" for name, ty in result.columns) + "\n"
    golden("select-" + table.replace('"', ""), columns)


def test_local_says_who_the_server_is(connect, server):
    result = connect().query("SELECT * FROM system.local")
    row = dict(zip([name for name, _ in result.columns], result.rows[0]))
    assert len(result.rows) == 1
    assert row["key"] == b"local" and row["bootstrapped"] == b"COMPLETED"
    assert row["cql_version"] == b"3.4.7" and row["native_protocol_version"] == b"5"
    assert row["release_version"].startswith(b"5.0.")
    assert row["partitioner"] == b"org.apache.cassandra.dht.Murmur3Partitioner"
    address = bytes(map(int, server.address.split(".")))
    assert row["rpc_address"] == row["listen_address"] == row["broadcast_address"] == address
    assert int.from_bytes(row["rpc_port"]) == 9042
    for name in ("cluster_name", "data_center", "rack", "host_id", "schema_version", "tokens", "gossip_generation"):
        assert row[name], name


def test_no_peers(connect):
    connection = connect()
    assert connection.query("SELECT * FROM system.peers").rows == []
    assert connection.query("SELECT * FROM system.peers_v2").rows == []


def test_schema_version_changes_with_the_schema(connect, keyspace):
    connection = connect()

    def version():
        return connection.query("SELECT schema_version FROM system.local WHERE key = 'local'").rows

    before = version()
    connection.query("CREATE TABLE raw.versioned (k int PRIMARY KEY)")
    between = version()
    connection.query("DROP TABLE raw.versioned")
    assert before != between and between != version()


def test_system_tables_are_not_for_writing(connect):
    for statement in (
        "DROP KEYSPACE system",
        "DROP TABLE system.local",
        "CREATE TABLE system.mine (k int PRIMARY KEY)",
        "ALTER TABLE system_schema.tables ADD mine int",
        "TRUNCATE system_virtual_schema.tables",
    ):
        with pytest.raises(Failure) as caught:
            connect().query(statement)
        assert caught.value.code in (0x2100, 0x2200), statement


def pages(connection, statement: str, size: int) -> list:
    """All rows, read page by page."""
    rows, state = [], None
    while True:
        result = connection.query(statement, page=size, state=state)
        rows += result.rows
        state = result.paging_state
        if state is None:
            return rows


@pytest.mark.parametrize("size", [1, 3, 100_000])
@pytest.mark.parametrize(
    "statement",
    [
        "SELECT name FROM system_views.settings",
        "SELECT name FROM system_views.cql_metrics",
        "SELECT keyspace_name, table_name FROM system_views.disk_usage",
        "SELECT keyspace_name, table_name, column_name FROM system_virtual_schema.columns",
    ],
)
def test_virtual_tables_are_in_the_order_of_their_keys(connect, statement, size):
    if size == 1 and "columns" in statement:
        pytest.skip("thousands of pages")
    rows = [row[:2] for row in pages(connect(), statement, size)]
    assert len(rows) > 3
    assert rows == sorted(rows)


def test_settings_say_what_holds(connect, server):
    names = ["tombstone_warn_threshold", "batch_size_warn_threshold", "read_request_timeout", "auto_snapshot", "max_hint_window", "hinted_handoff_enabled"]
    older = ["batch_size_warn_threshold_in_kb", "read_request_timeout_in_ms", "enable_sasi_indexes"]
    listed = ", ".join(f"'{name}'" for name in names + older)
    rows = connect().query(f"SELECT name, value FROM system_views.settings WHERE name IN ({listed})").rows
    assert rows == [
        (b"auto_snapshot", b"false"),
        (b"batch_size_warn_threshold", b"5KiB"),
        (b"batch_size_warn_threshold_in_kb", b"5"),
        (b"enable_sasi_indexes", b"true"),
        (b"hinted_handoff_enabled", b"true"),
        (b"max_hint_window", b"3h"),
        (b"read_request_timeout", b"5000ms"),
        (b"read_request_timeout_in_ms", b"5000"),
        (b"tombstone_warn_threshold", b"1000"),
    ]


def test_virtual_tables_are_filtered_without_being_told_to(connect):
    query = "SELECT name FROM system_views.settings WHERE value = 'Murmur3Partitioner'"
    unsaid = connect().query(query)
    assert unsaid.rows == connect().query(query + " ALLOW FILTERING").rows
    named = connect().query("SELECT name FROM system_views.settings WHERE name > 'a' AND name < 'b'")
    assert (b"auto_snapshot",) in named.rows


@pytest.mark.parametrize(
    "statement, message",
    [
        ("INSERT INTO system_views.settings (name) VALUES ('a')", "Modification is not supported by table system_views.settings"),
        ("INSERT INTO system_views.settings (name) VALUES ('a') IF NOT EXISTS", "Conditional updates are not supported by virtual tables"),
        ("DELETE FROM system_views.settings WHERE name = 'a' IF EXISTS", "Conditional updates are not supported by virtual tables"),
        ("UPDATE system_views.settings USING TTL 1 SET value = 'a' WHERE name = 'a'", "Expiring columns are not supported by virtual tables"),
        ("DELETE FROM system_views.settings USING TIMESTAMP 1 WHERE name = 'a'", "Custom timestamp is not supported by virtual tables"),
        ("UPDATE system_views.settings SET nosuch = 'x' WHERE name = 'a'", "Undefined column name nosuch in table system_views.settings"),
        ("TRUNCATE system_views.settings", "Truncation is not supported by table system_views.settings"),
        (
            "INSERT INTO system_views.roles_cache_keys (role) VALUES ('x')",
            "Column modification is not supported by table system_views.roles_cache_keys",
        ),
        ("DELETE FROM system_views.permissions_cache_keys WHERE role = 'x'", "Some partition key parts are missing: resource"),
        (
            "BEGIN BATCH DELETE FROM system_views.roles_cache_keys WHERE role = 'x' APPLY BATCH",
            "Cannot include a virtual table statement in a logged batch",
        ),
        (
            "BEGIN UNLOGGED BATCH DELETE FROM system_views.roles_cache_keys WHERE role = 'x'; "
            "DELETE FROM system.batches WHERE id = 00000000-0000-1000-8000-000000000000 APPLY BATCH",
            "Mutations for virtual and regular tables cannot exist in the same batch",
        ),
        (
            "BEGIN UNLOGGED BATCH INSERT INTO system_views.settings (name) VALUES ('x') APPLY BATCH",
            "Modification is not supported by table system_views.settings",
        ),
    ],
)
def test_virtual_tables_say_why_they_are_not_written(connect, statement, message):
    with pytest.raises(Failure) as failure:
        connect().query(statement)
    assert (failure.value.code, failure.value.message) == (0x2200, message)


def test_keys_of_caches_can_be_forgotten(connect):
    for name in ("credentials", "jmx_permissions", "network_permissions", "roles"):
        for statement in (
            f"DELETE FROM system_views.{name}_cache_keys WHERE role IN ('x', 'y')",
            f"BEGIN UNLOGGED BATCH DELETE FROM system_views.{name}_cache_keys WHERE role = 'x'; APPLY BATCH",
            f"TRUNCATE system_views.{name}_cache_keys",
        ):
            assert connect().query(statement).kind == "void"
    assert connect().query("DELETE FROM system_views.permissions_cache_keys WHERE role = 'x' AND resource = 'data'").kind == "void"
