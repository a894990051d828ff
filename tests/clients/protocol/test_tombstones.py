"""Reads that meet many tombstones are warned of, and fail: figures and texts are Cassandra's."""

import os

import pytest

from harness.protocol import Connection, Failure

READ_FAILURE = 0x1300


@pytest.fixture(scope="module")
def table(keyspace):
    with Connection(os.environ["CQL_ADDRESS"]) as connection:
        connection.query(
            "CREATE TABLE raw.dead (k int, c int, v text, w text, m map<int, text>, PRIMARY KEY (k, c))"
        )
        connection.query("CREATE TABLE raw.keys (k int PRIMARY KEY, v text)")
        for k, statement in [
            (1, "DELETE FROM raw.dead WHERE k = ? AND c = ?"),
            (2, "DELETE v FROM raw.dead WHERE k = ? AND c = ?"),
            (4, "INSERT INTO raw.dead (k, c, m) VALUES (?, ?, {1: 'a'})"),
            (5, "INSERT INTO raw.dead (k, c, v) VALUES (?, ?, null)"),
        ]:
            write_all(connection, statement, ((k, c) for c in range(1010)))
        write_all(connection, "UPDATE raw.dead SET w = 'a' WHERE k = ? AND c = ?", ((2, c) for c in range(1010)))
        ranges = "DELETE FROM raw.dead WHERE k = ? AND c >= ? AND c < ?"
        write_all(connection, ranges, ((3, 2 * i, 2 * i + 1) for i in range(600)))
        write_all(connection, "DELETE FROM raw.keys WHERE k = ?", ((k,) for k in range(1100)))
        write_all(connection, "DELETE v FROM raw.keys WHERE k = ?", ((k,) for k in range(1100, 2300)))


def write_all(connection, statement, rows):
    prepared = connection.prepare(statement)
    packed = [[value.to_bytes(4, "big", signed=True) for value in row] for row in rows]
    for at in range(0, len(packed), 100):
        connection.batch([(prepared, row) for row in packed[at : at + 100]], kind=1)


def met(live, dead, rest, token):
    return [
        f"Read {live} live rows and {dead} tombstone cells for query SELECT {rest} ALLOW FILTERING; token {token} "
        "(see tombstone_warn_threshold)"
    ]


TOKENS = {1: -4069959284402364209, 2: -3248873570005575792, 3: 9010454139840013625, 5: -7509452495886106294}


def of(k, live, dead, rest=""):
    return met(live, dead, f"* FROM raw.dead WHERE k = {k}{rest} LIMIT 5000", TOKENS[k])


@pytest.mark.parametrize(
    "statement, warnings",
    [
        ("dead WHERE k = 1", of(1, 0, 1010)),
        ("dead WHERE k = 1 AND c < 1000", []),
        ("dead WHERE k = 1 AND c >= 1 AND c < 1005", of(1, 0, 1004, " AND c >= 1 AND c < 1005")),
        ("dead WHERE k = 1 AND c IN (1, 2)", []),
        (
            "dead WHERE k = 1 ORDER BY c DESC LIMIT 10",
            met(0, 1010, "* FROM raw.dead WHERE k = 1 ORDER BY c DESC LIMIT 10", TOKENS[1]),
        ),
        ("dead WHERE k = 2", of(2, 1010, 1010)),
        ("dead WHERE k = 2 AND w = 'b' ALLOW FILTERING", of(2, 1010, 1010, " AND w = 'b'")),
        ("dead WHERE k = 3", of(3, 0, 1200)),
        ("dead WHERE k = 4", []),
        ("dead WHERE k = 5", of(5, 1010, 1010)),
        ("keys", met(0, 1200, "* FROM raw.keys LIMIT 5000", 9215045062550449386)),
    ],
)
def test_many_tombstones_are_warned_of(connect, table, statement, warnings):
    assert list(connect().query(f"SELECT * FROM raw.{statement}", page=5000).warnings) == warnings


def test_pages_count_by_themselves(connect, table):
    first = connect().query("SELECT * FROM raw.dead WHERE k = 5", page=100)
    assert (len(first.rows), list(first.warnings)) == (100, [])


def test_too_many_tombstones_fail_the_read(connect, table):
    connection = connect()
    write_all(connection, "DELETE FROM raw.dead WHERE k = ? AND c = ?", ((9, c) for c in range(100_001)))
    for statement in ("SELECT * FROM raw.dead WHERE k = 9 LIMIT 5", "SELECT count(*) FROM raw.dead WHERE k = 9"):
        with pytest.raises(Failure, match="1 failures: READ_TOO_MANY_TOMBSTONES from /127") as failed:
            connection.query(statement)
        assert failed.value.code == READ_FAILURE
    read = connection.query("SELECT * FROM raw.dead WHERE k = 9 AND c < 1000")
    assert (read.rows, list(read.warnings)) == ([], [])
