"""Consistency levels that one node cannot reach, or that a statement cannot have: as Cassandra 5.0.6 answers."""

import pytest

from harness.protocol import ONE, Failure

ANY, TWO, EACH_QUORUM, SERIAL, LOCAL_SERIAL, NODE_LOCAL = 0, 2, 7, 8, 9, 11
UNAVAILABLE, INVALID = 0x1000, 0x2200
ONE_PARTITION = "SERIAL/LOCAL_SERIAL consistency may only be requested for one partition at a time"


@pytest.fixture(scope="module")
def connection():
    import os

    from harness.protocol import Connection

    with Connection(os.environ["CQL_ADDRESS"]) as connection:
        for copies in (1, 3):
            replication = f"{{'class': 'SimpleStrategy', 'replication_factor': {copies}}}"
            connection.query(f"CREATE KEYSPACE levels{copies} WITH replication = {replication}")
            connection.query(f"CREATE TABLE levels{copies}.t (k int PRIMARY KEY, v int)")
            connection.query(f"CREATE TABLE levels{copies}.c (k int PRIMARY KEY, n counter)")
        yield connection
        for copies in (1, 3):
            connection.query(f"DROP KEYSPACE levels{copies}")


def refused(connection, statement, level, **options) -> Failure:
    with pytest.raises(Failure) as caught:
        connection.query(statement, consistency=level, **options)
    return caught.value


def test_conditions_need_as_many_nodes_as_a_quorum(connection):
    insert = "INSERT INTO levels3.t (k, v) VALUES (1, 1) IF NOT EXISTS"
    read = "SELECT v FROM levels3.t WHERE k = 1"
    for statement, level, name in [(insert, ONE, "QUORUM"), (read, SERIAL, "QUORUM"), (read, LOCAL_SERIAL, "LOCAL_QUORUM")]:
        failure = refused(connection, statement, level)
        assert failure.code == UNAVAILABLE
        assert failure.message == f"Cannot achieve consistency level {name}"
    assert connection.query(read).rows == []


def test_conditions_are_committed_at_a_level_that_can_be_reached(connection):
    insert = "INSERT INTO levels1.t (k, v) VALUES (2, 1) IF NOT EXISTS"
    failure = refused(connection, insert, TWO)
    assert (failure.code, failure.message) == (UNAVAILABLE, "Cannot achieve consistency level TWO")
    failure = refused(connection, insert, EACH_QUORUM)
    assert failure.code == INVALID
    assert failure.message.startswith("consistency level EACH_QUORUM not compatible with replication strategy")
    assert connection.query("SELECT v FROM levels1.t WHERE k = 2").rows == []


def test_batches_are_not_asked_for_their_level(connection):
    update = "UPDATE levels1.c SET n = n + 1 WHERE k = 1"
    assert refused(connection, update, ANY).message == "Consistency level ANY is not yet supported for counter table c"
    assert refused(connection, update, SERIAL).message == "Counter operations are inherently non-serializable"
    insert = "INSERT INTO levels1.t (k, v) VALUES (3, 1)"
    assert refused(connection, insert, SERIAL).message == "You must use conditional updates for serializable writes"
    for level in (ANY, SERIAL, LOCAL_SERIAL):
        connection.query(f"BEGIN COUNTER BATCH {update}; APPLY BATCH", consistency=level)
        connection.query(f"BEGIN BATCH {insert}; APPLY BATCH", consistency=level)
        connection.query(f"BEGIN UNLOGGED BATCH {insert}; APPLY BATCH", consistency=level)
        connection.batch([(insert, ())], consistency=level)
    assert connection.query("SELECT n FROM levels1.c").rows == [((3).to_bytes(8, "big"),)]
    insert = "INSERT INTO levels3.t (k, v) VALUES (3, 1)"
    assert refused(connection, f"BEGIN BATCH {insert}; APPLY BATCH", SERIAL).code == UNAVAILABLE


def test_no_request_is_local_to_the_node(connection):
    for statement in ("SELECT * FROM levels1.t", "TRUNCATE levels1.t", "BEGIN BATCH APPLY BATCH"):
        message = refused(connection, statement, NODE_LOCAL).message
        assert message.startswith("NODE_LOCAL consistency level is highly dangerous")


def test_several_partitions_are_read_serially_only_in_pages(connection):
    for k in (1, 2):
        connection.query(f"INSERT INTO levels1.t (k, v) VALUES ({k}, 1)")
    select = "SELECT k FROM levels1.t WHERE k IN (1, 2)"
    for statement, options in [(select, {}), (select + " LIMIT 1", {}), (select + " LIMIT 2", {"page": 2})]:
        assert refused(connection, statement, SERIAL, **options).message == ONE_PARTITION
    assert len(connection.query(select, consistency=SERIAL, page=5000).rows) == 2
    assert len(connection.query(select + " LIMIT 2", consistency=SERIAL, page=1).rows) == 1
    counted = connection.query(select.replace("SELECT k", "SELECT count(*)"), consistency=SERIAL, page=5000)
    assert counted.rows == [((2).to_bytes(8, "big"),)]


def test_virtual_tables_have_no_replicas(connection):
    assert connection.query("SELECT * FROM system_views.caches", consistency=TWO).rows
