"""10,000 rows, page by page."""

import time

import pytest
from cassandra.concurrent import execute_concurrent_with_args
from cassandra.protocol import ErrorMessage
from cassandra.query import SimpleStatement

ROWS = 10_000


@pytest.fixture(scope="module")
def filled(app):
    app.table("wide", "k int, c int, v text, PRIMARY KEY (k, c)")
    app.table("narrow", "k int PRIMARY KEY, v text")
    wide = app.session.prepare("INSERT INTO wide (k, c, v) VALUES (1, ?, ?)")
    narrow = app.session.prepare("INSERT INTO narrow (k, v) VALUES (?, ?)")
    execute_concurrent_with_args(app.session, wide, ((c, f"value {c}") for c in range(ROWS)), concurrency=200)
    execute_concurrent_with_args(app.session, narrow, ((k, f"value {k}") for k in range(ROWS)), concurrency=200)
    return app


def pages(app, query, size, arguments=None):
    """The pages of a query as lists of rows, asked for by paging state."""
    statement = SimpleStatement(query, fetch_size=size)
    result = app.execute(statement, arguments)
    while True:
        yield [tuple(row) for row in result.current_rows]
        if not result.paging_state:
            return
        result = app.execute(statement, arguments, paging_state=result.paging_state)


@pytest.mark.parametrize("size", [1, 7, 1000, 5000, ROWS, ROWS + 1])
def test_pages_of_a_wide_partition(filled, size):
    limit = min(ROWS, 200 * size)
    got = list(pages(filled, f"SELECT c, v FROM wide WHERE k = 1 LIMIT {limit}", size))
    assert [row for page in got for row in page] == [(c, f"value {c}") for c in range(limit)]
    assert all(len(page) <= size for page in got)


def test_pages_backwards(filled):
    got = list(pages(filled, "SELECT c FROM wide WHERE k = 1 ORDER BY c DESC", 999))
    assert [row[0] for page in got for row in page] == list(reversed(range(ROWS)))


def test_pages_of_a_slice_with_limit(filled):
    got = list(pages(filled, "SELECT c FROM wide WHERE k = 1 AND c >= 100 AND c < 5100 LIMIT 4321", 500))
    assert [row[0] for page in got for row in page] == list(range(100, 4421))
    assert [len(page) for page in got][:-1] == [500] * 8


@pytest.mark.parametrize("size", [100, 3333])
def test_pages_over_partitions(filled, size):
    got = [row for page in pages(filled, "SELECT k, v, token(k) FROM narrow", size) for row in page]
    assert sorted(row[0] for row in got) == list(range(ROWS))
    assert [row[2] for row in got] == sorted(row[2] for row in got)
    assert all(row[1] == f"value {row[0]}" for row in got)


def test_pages_of_distinct_and_per_partition_limit(filled):
    got = [row[0] for page in pages(filled, "SELECT DISTINCT k FROM narrow", 1000) for row in page]
    assert sorted(got) == list(range(ROWS))
    got = [row for page in pages(filled, "SELECT k, c FROM wide PER PARTITION LIMIT 10", 3) for row in page]
    assert got == [(1, c) for c in range(10)]


def test_pages_of_in(filled):
    keys = tuple(range(0, 3000, 10))
    statement = SimpleStatement("SELECT k FROM narrow WHERE k IN (%s)" % ", ".join("%s" for _ in keys), fetch_size=37)
    assert sorted(row.k for row in filled.execute(statement, keys)) == list(keys)


def test_the_driver_pages_by_itself(filled):
    statement = SimpleStatement("SELECT c FROM wide WHERE k = 1", fetch_size=123)
    assert [row.c for row in filled.execute(statement)] == list(range(ROWS))


def test_count_over_everything(filled):
    assert filled.execute(SimpleStatement("SELECT count(*) FROM narrow", fetch_size=100)).one()[0] == ROWS
    assert filled.execute("SELECT count(*) FROM wide").one()[0] == ROWS


def settle(session):
    """Waits until the driver opens no more connections: scylla-driver has its event loop wait for itself, for ever, if
    one that it closes meets others that it opens to shards."""
    counts = []
    for _ in range(100):
        counts.append([pool.get_state()["open_count"] for pool in session.get_pools()])
        if len(counts) > 5 and counts[-1] == counts[-5]:
            return
        time.sleep(0.1)
    raise AssertionError(f"the driver goes on opening connections: {counts[-5:]}")


def test_garbage_as_paging_state_is_a_protocol_error(filled):
    # The driver closes a connection that saw a protocol error, so this has one of its own.
    cluster = filled.connect_cluster()
    try:
        session = cluster.connect(filled.keyspace)
        settle(session)
        statement = SimpleStatement("SELECT c FROM wide WHERE k = 1", fetch_size=10)
        with pytest.raises(ErrorMessage) as caught:
            session.execute(statement, paging_state=b"\x01garbage\xff")
        assert caught.value.code == 0x000A
    finally:
        cluster.shutdown()
