"""Who asks for more copies than there are nodes is told so, in Cassandra's words."""

import os

import pytest

from harness.protocol import Connection, Failure

REPAIR = "When increasing replication factor you need to run a full (-full) repair to distribute the data."
SIMPLE = "{'class': 'SimpleStrategy', 'replication_factor': %s}"
BY_DATACENTER = "{'class': 'NetworkTopologyStrategy', 'replication_factor': %s}"


@pytest.fixture
def connection():
    with Connection(os.environ["CQL_ADDRESS"]) as connection:
        yield connection
        connection.query("DROP KEYSPACE IF EXISTS copies")


def datacenter(connection):
    return connection.query("SELECT data_center FROM system.local").rows[0][0].decode()


def warnings(connection, statement):
    return list(connection.query(statement).warnings)


def too_few(factor, place=""):
    return f"Your replication factor {factor} for keyspace copies is higher than the number of nodes 1{place}"


@pytest.mark.parametrize("replication", [SIMPLE, BY_DATACENTER], ids=["simple", "by datacenter"])
def test_more_copies_than_nodes_are_warned_of(connection, replication):
    place = f" for datacenter {datacenter(connection)}" if replication is BY_DATACENTER else ""
    create = f"CREATE KEYSPACE IF NOT EXISTS copies WITH replication = {replication}"
    assert warnings(connection, create % 3) == [too_few(3, place)]
    assert warnings(connection, create % 3) == []
    alter = f"ALTER KEYSPACE copies WITH replication = {replication}"
    assert warnings(connection, alter % 3) == [too_few(3, place)]
    assert warnings(connection, "ALTER KEYSPACE copies WITH durable_writes = false") == [too_few(3, place)]
    connection.query("DROP KEYSPACE copies")
    assert warnings(connection, create % 1) == []
    if replication is SIMPLE:
        assert warnings(connection, alter % 2) == [too_few(2), REPAIR]
        assert warnings(connection, alter % 1) == []


def test_what_is_the_systems_is_not(connection):
    before = "{'class': 'SimpleStrategy', 'replication_factor': '2'}"
    assert warnings(connection, f"ALTER KEYSPACE system_traces WITH replication = {before}") == []


def test_a_conditional_update_is_committed_in_each_data_centre_only_where_there_are_some(connection):
    each_quorum = 7
    for replication, refused in [(SIMPLE, True), (BY_DATACENTER, False)]:
        connection.query(f"CREATE KEYSPACE copies WITH replication = {replication % 1}")
        connection.query("CREATE TABLE copies.t (k int PRIMARY KEY)")
        insert = "INSERT INTO copies.t (k) VALUES (1)"
        connection.query(insert, consistency=each_quorum)
        if refused:
            with pytest.raises(Failure) as failure:
                connection.query(insert + " IF NOT EXISTS", consistency=each_quorum)
            assert failure.value.message == (
                "consistency level EACH_QUORUM not compatible with replication strategy"
                " (org.apache.cassandra.locator.SimpleStrategy)"
            )
        else:
            assert connection.query(insert + " IF NOT EXISTS", consistency=each_quorum).rows[0][0] == b"\0"
        connection.query("DROP KEYSPACE copies")
