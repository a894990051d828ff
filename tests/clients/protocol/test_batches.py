"""What clients are warned of and refused in batches: texts and figures are Cassandra's."""

import os

import pytest

from harness.protocol import Connection, Failure

BIG = "x" * 3000
UNLOGGED = (
    "Unlogged batch covering {} partitions detected against table [raw.batched]. You should use a logged batch "
    "for atomicity, or asynchronous writes for performance."
)
NO_GRACE = (
    "Executing a LOGGED BATCH on table [raw.graceless], configured with a gc_grace_seconds of 0. The "
    "gc_grace_seconds is used to TTL batchlog entries, so setting gc_grace_seconds too low on tables involved in an "
    "atomic batch might cause batchlog entries to expire before being replayed."
)


@pytest.fixture(scope="module")
def tables(keyspace):
    with Connection(os.environ["CQL_ADDRESS"]) as connection:
        for definition in (
            "batched (k int, c int, s int static, v text, m map<int, text>, l list<int>, PRIMARY KEY (k, c))",
            "graceless (k int PRIMARY KEY, v int) WITH gc_grace_seconds = 0",
            "counted (k int PRIMARY KEY, v counter)",
        ):
            connection.query(f"CREATE TABLE raw.{definition}")


def batch(kind, *statements):
    return f"BEGIN {kind} BATCH {'; '.join(statements)} APPLY BATCH"


def size(of, bytes):
    return f"Batch for [{of}] is of size {bytes}, exceeding specified threshold of 5120 by {bytes - 5120}."


def inserts(count, rest=""):
    return [f"INSERT INTO raw.batched (k, c, v) VALUES ({k}, 1, '{BIG}'){rest}" for k in range(count)]


def updates(count):
    return [f"UPDATE raw.batched SET v = '{BIG}' WHERE k = {k} AND c = 2" for k in range(count)]


COLLECTIONS = [
    f"INSERT INTO raw.batched (k, c, v, m, l) VALUES ({k}, 1, '{BIG}', {{1: 'a', 2: 'bcd'}}, [1, 2, 3])"
    for k in range(11)
]
ADDED = [
    f"UPDATE raw.batched SET v = '{BIG}', m[3] = 'x', s = 5, l = l + [4] WHERE k = {k} AND c = 2" for k in range(3)
]
COUNTED = [f"UPDATE raw.counted SET v = v + 1 WHERE k = {k}" for k in range(200)]
GRACELESS = [f"INSERT INTO raw.graceless (k, v) VALUES ({k}, 1)" for k in range(11)]


@pytest.mark.parametrize(
    "statement, warnings",
    [
        (batch("", *inserts(1)), []),
        (batch("", *inserts(2)), [size("raw.batched", 6148)]),
        (batch("UNLOGGED", *inserts(12, " USING TTL 100")), [size("raw.batched", 37032), UNLOGGED.format(12)]),
        (batch("UNLOGGED", *COLLECTIONS), [size("raw.batched", 35970), UNLOGGED.format(11)]),
        (batch("UNLOGGED", *ADDED), [size("raw.batched", 9561)]),
        (
            batch("UNLOGGED", *updates(3), "DELETE FROM raw.batched WHERE k = 2 AND c > 10 AND c < 20"),
            [size("raw.batched", 9246)],
        ),
        (batch("", *GRACELESS[:2]), [NO_GRACE]),
        (
            batch("", GRACELESS[1], *inserts(4)[2:]),
            [NO_GRACE, size("raw.batched, raw.graceless", 6222)],
        ),
        (batch("COUNTER", *COUNTED), [size("raw.counted", 21200), UNLOGGED.format(200).replace("batched", "counted")]),
        (batch("UNLOGGED", *GRACELESS), [UNLOGGED.format(11).replace("batched", "graceless")]),
        (batch("UNLOGGED", *GRACELESS[:10]), []),
        (batch("", f"{inserts(1)[0]} IF NOT EXISTS", f"INSERT INTO raw.batched (k, c, v) VALUES (0, 3, '{BIG}')"), []),
    ],
)
def test_large_batches_are_warned_of(connect, tables, statement, warnings):
    assert list(connect().query(statement).warnings) == warnings


def test_too_large_batches_are_refused(connect, tables):
    connection = connect()
    connection.query("TRUNCATE raw.batched")
    with pytest.raises(Failure, match="Batch too large"):
        connection.query(batch("", *inserts(18)))
    assert connection.query("SELECT k FROM raw.batched").rows == []
