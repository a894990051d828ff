"""`system_views` and `system.prepared_statements` say what the server does: values move with work."""

import struct

import pytest

TABLE = "WHERE keyspace_name = 'raw' AND table_name = 'measured'"


@pytest.fixture
def measured(connect, keyspace):
    connection = connect()
    connection.query(f"CREATE TABLE IF NOT EXISTS {keyspace}.measured (k int, c int, v text, PRIMARY KEY (k, c))")
    yield connection
    connection.query(f"DROP TABLE {keyspace}.measured")


def bigint(data: bytes) -> int:
    return struct.unpack(">q", data)[0]


def double(data: bytes) -> float:
    return struct.unpack(">d", data)[0]


def one(connection, columns: str, table: str, where: str = TABLE):
    (row,) = connection.query(f"SELECT {columns} FROM system_views.{table} {where}").rows
    return row


def test_reads_and_writes_are_counted_and_timed(measured):
    def counts():
        tables = ["local_read_latency", "local_write_latency", "coordinator_read_latency", "rows_per_read"]
        return [bigint(one(measured, "count", table)[0]) for table in tables]

    before = counts()
    for c in range(20):
        measured.query(f"INSERT INTO raw.measured (k, c, v) VALUES (1, {c}, 'v')")
    for _ in range(5):
        measured.query("SELECT * FROM raw.measured WHERE k = 1")
    assert [after - earlier for earlier, after in zip(before, counts())] == [5, 20, 5, 5]
    assert double(one(measured, "max_ms", "local_write_latency")[0]) > 0
    # As near as the buckets of a histogram are.
    assert 19 <= double(one(measured, "max", "rows_per_read")[0]) <= 24
    measured.query("SELECT * FROM raw.measured")
    assert bigint(one(measured, "count", "local_scan_latency")[0]) >= 1


def test_tombstones_are_counted(measured):
    for c in range(10):
        measured.query(f"DELETE v FROM raw.measured WHERE k = 2 AND c = {c}")
    measured.query("SELECT * FROM raw.measured WHERE k = 2")
    assert 9 <= double(one(measured, "max", "tombstones_per_read")[0]) <= 12


def test_partitions_of_batches_are_counted(measured):
    where = "WHERE name = 'partitions_per_unlogged_batch'"
    inserts = [(f"INSERT INTO raw.measured (k, c) VALUES ({k}, 1)", ()) for k in range(7)]
    measured.batch(inserts, kind=1)
    assert bigint(one(measured, "max", "batch_metrics", where)[0]) >= 7


def test_kinds_of_work_have_cassandras_names(measured):
    rows = dict(measured.query("SELECT name, completed_tasks FROM system_views.thread_pools").rows)
    for name in [b"MutationStage", b"ReadStage", b"Native-Transport-Requests"]:
        assert bigint(rows[name]) > 0, name
    for name in [b"CompactionExecutor", b"MemtableFlushWriter"]:
        assert name in rows
    caches = {name for (name,) in measured.query("SELECT name FROM system_views.caches").rows}
    assert {b"keys", b"rows", b"counters"} <= caches


def test_storage_attached_indexes_are_shown(measured):
    measured.query("CREATE INDEX measured_v ON raw.measured (v) USING 'sai' WITH OPTIONS = {'case_sensitive': 'false'}")
    columns = "column_name, is_queryable, is_building, is_string, analyzer"
    row = one(measured, columns, "sai_column_indexes", "WHERE keyspace_name = 'raw' AND index_name = 'measured_v'")
    analyzer = b"NonTokenizingAnalyzer{caseSensitive=false, normalized=false, ascii=false}"
    assert row == (b"v", b"\1", b"\0", b"\1", analyzer)


def test_settings_have_cassandras_names(measured):
    settings = dict(measured.query("SELECT name, value FROM system_views.settings").rows)
    for name, value in {
        "authenticator.class_name": "AllowAllAuthenticator",
        "cdc_enabled": "false",
        "partitioner": "org.apache.cassandra.dht.Murmur3Partitioner",
        "native_transport_port": "9042",
        "native_transport_max_frame_size": "16MiB",
        "native_transport_max_frame_size_in_mb": "16",
        "commitlog_segment_size_in_mb": "32",
        "sstable.selected_format": "big",
        "trace_type_query_ttl": "1d",
    }.items():
        assert settings[name.encode()] == value.encode(), name
    assert settings[b"native_transport_port_ssl"] is None


def test_prepared_statements_are_written_down_until_they_are_stale(measured):
    def texts():
        rows = measured.query("SELECT query_string, prepared_id FROM system.prepared_statements").rows
        return {text.decode(): identity for text, identity in rows}

    statement = "SELECT v FROM raw.measured WHERE k = ? AND c = 77"
    prepared = measured.prepare(statement)
    assert texts()[statement] in prepared.detail
    measured.query("ALTER TABLE raw.measured ADD w int")
    measured.query("SELECT * FROM raw.measured")
    assert statement not in texts()
    measured.prepare(statement)
    assert statement in texts()
