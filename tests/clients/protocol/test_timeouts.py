"""ScyllaDB's USING TIMEOUT: no time at all is never enough, an hour always is."""

import pytest

from harness.protocol import Failure

READ_TIMEOUT, WRITE_TIMEOUT, TRUNCATE_ERROR = 0x1200, 0x1100, 0x1003

STATEMENTS = [
    (READ_TIMEOUT, "SELECT * FROM raw.timed USING TIMEOUT {}"),
    (READ_TIMEOUT, "SELECT * FROM raw.timed WHERE k = 1 BYPASS CACHE USING TIMEOUT {}"),
    (WRITE_TIMEOUT, "INSERT INTO raw.timed (k, v) VALUES (1, 1) USING TIMEOUT {} AND TTL 100"),
    (WRITE_TIMEOUT, "UPDATE raw.timed USING TIMESTAMP 1 AND TIMEOUT {} SET v = 2 WHERE k = 1"),
    (WRITE_TIMEOUT, "DELETE FROM raw.timed USING TIMEOUT {} AND TIMESTAMP 1 WHERE k = 1"),
    (WRITE_TIMEOUT, "UPDATE raw.timed_counts USING TIMEOUT {} SET c = c + 1 WHERE k = 1"),
    (WRITE_TIMEOUT, "INSERT INTO raw.timed (k, v) VALUES (2, 2) IF NOT EXISTS USING TIMEOUT {}"),
    (
        WRITE_TIMEOUT,
        "BEGIN BATCH USING TIMEOUT {} INSERT INTO raw.timed (k, v) VALUES (3, 3); "
        "INSERT INTO raw.timed (k, v) VALUES (4, 4); APPLY BATCH",
    ),
    (TRUNCATE_ERROR, "TRUNCATE TABLE raw.timed USING TIMEOUT {}"),
]


@pytest.fixture(scope="module")
def tables(keyspace, server):
    if server.kind != "helenus":
        pytest.skip("Cassandra has no USING TIMEOUT")
    from harness.protocol import Connection

    with Connection(server.address) as connection:
        connection.query("CREATE TABLE raw.timed (k int PRIMARY KEY, v int)")
        connection.query("CREATE TABLE raw.timed_counts (k int PRIMARY KEY, c counter)")


@pytest.mark.parametrize("code, statement", STATEMENTS)
def test_no_time_is_not_enough(connect, tables, code, statement):
    connection = connect()
    connection.query(statement.format("1h"))
    with pytest.raises(Failure) as failure:
        connection.query(statement.format("0ms"))
    assert failure.value.code == code, failure.value


def test_a_marker_may_stand_for_it(connect, tables):
    connection = connect()
    prepared = connection.prepare("INSERT INTO raw.timed (k, v) VALUES (7, 7) USING TIMEOUT ?")
    hour = bytes([0, 0, 0xFC]) + (2 * 3600 * 10**9).to_bytes(6, "big")
    connection.execute(prepared, [hour])
    with pytest.raises(Failure) as failure:
        connection.execute(prepared, [bytes([0, 0, 0])])
    assert failure.value.code == WRITE_TIMEOUT
    with pytest.raises(Failure) as failure:
        connection.execute(prepared, [None])
    assert failure.value.code == 0x2200
