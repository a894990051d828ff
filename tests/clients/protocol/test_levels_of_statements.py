"""Consistency levels where only some statements take them, as Cassandra does."""

import pytest

from harness.protocol import Failure

ANY, SERIAL, NODE_LOCAL = 0, 8, 11
ONE_PARTITION = "SERIAL/LOCAL_SERIAL consistency may only be requested for one partition at a time"


@pytest.fixture
def connection(connect, keyspace):
    connection = connect(version=5)
    connection.query("CREATE TABLE IF NOT EXISTS raw.levels (k int PRIMARY KEY, v int)")
    connection.query("CREATE TABLE IF NOT EXISTS raw.counts (k int PRIMARY KEY, v counter)")
    return connection


def refused(connection, statement, level, **options) -> str:
    with pytest.raises(Failure) as failure:
        connection.query(statement, consistency=level, **options)
    return failure.value.message


def test_batches_are_not_asked_for_their_level(connection):
    insert = "INSERT INTO raw.levels (k, v) VALUES (1, 1)"
    assert refused(connection, insert, SERIAL) == "You must use conditional updates for serializable writes"
    connection.query(f"BEGIN BATCH {insert} APPLY BATCH", consistency=SERIAL)
    connection.query(f"BEGIN UNLOGGED BATCH {insert} APPLY BATCH", consistency=SERIAL)
    connection.batch([(insert, ())], consistency=SERIAL)
    add = "UPDATE raw.counts SET v = v + 1 WHERE k = 1"
    assert refused(connection, add, SERIAL) == "Counter operations are inherently non-serializable"
    assert refused(connection, add, ANY) == "Consistency level ANY is not yet supported for counter table counts"
    connection.query(f"BEGIN COUNTER BATCH {add} APPLY BATCH", consistency=SERIAL)
    connection.query(f"BEGIN COUNTER BATCH {add} APPLY BATCH", consistency=ANY)
    assert connection.query("SELECT v FROM raw.counts").rows == [((2).to_bytes(8, "big"),)]
    connection.query("TRUNCATE raw.counts")


def test_no_request_is_local_to_the_node(connection):
    for statement in ("SELECT * FROM raw.levels", "TRUNCATE raw.levels", "BEGIN BATCH APPLY BATCH"):
        assert refused(connection, statement, NODE_LOCAL).startswith("NODE_LOCAL consistency level is highly dangerous")


def test_several_partitions_are_read_serially_only_in_pages(connection):
    for k in (1, 2):
        connection.query(f"INSERT INTO raw.levels (k, v) VALUES ({k}, 1)")
    select = "SELECT k FROM raw.levels WHERE k IN (1, 2)"
    assert refused(connection, select, SERIAL) == ONE_PARTITION
    assert refused(connection, select + " LIMIT 1", SERIAL) == ONE_PARTITION
    assert refused(connection, select + " LIMIT 2", SERIAL, page=2) == ONE_PARTITION
    assert len(connection.query(select, consistency=SERIAL, page=5000).rows) == 2
    assert len(connection.query(select + " LIMIT 2", consistency=SERIAL, page=1).rows) == 1
    counted = connection.query(select.replace("SELECT k", "SELECT count(*)"), consistency=SERIAL, page=5000)
    assert counted.rows == [((2).to_bytes(8, "big"),)]
