"""Reads of one row by its key, and of one partition: what is answered where the request was read is what the same statement is answered
as text, which goes the long way; mistakes, too."""

import os
import time

import pytest

from harness.protocol import EXECUTE, ONE, OPTIONS, QUERY, Connection, Failure, long_string, number, text

QUORUM, TWO, SERIAL, EACH_QUORUM = 4, 2, 8, 7


@pytest.fixture(scope="module", params=[3, 4, 5])
def connection(request):
    with Connection(os.environ["CQL_ADDRESS"], version=request.param) as connection:
        replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
        connection.query(f"CREATE KEYSPACE points WITH replication = {replication}")
        connection.query("CREATE TABLE points.one (k text PRIMARY KEY, a text, b int, l list<int>)")
        connection.query("CREATE TABLE points.plain (k text PRIMARY KEY, a text, b int)")
        connection.query(
            "CREATE TABLE points.wide (p int, q text, c int, d decimal, v blob, w text, PRIMARY KEY ((p, q), c, d)) "
            "WITH CLUSTERING ORDER BY (c DESC, d ASC)"
        )
        connection.query("CREATE TABLE points.stat (k int, c int, s int static, v int, PRIMARY KEY (k, c))")
        for row in ("'x', 'one', 1", "'y', null, 2", "'z', '', null"):
            connection.query(f"INSERT INTO points.plain (k, a, b) VALUES ({row})")
        connection.query("INSERT INTO points.plain (k, a) VALUES ('ttl', 'soon gone') USING TTL 1000")
        connection.query("UPDATE points.plain SET b = 7 WHERE k = 'updated'")
        connection.query("DELETE FROM points.plain WHERE k = 'deleted'")
        connection.query("INSERT INTO points.one (k, a, b, l) VALUES ('x', 'one', 1, [1, 2])")
        connection.query("INSERT INTO points.wide (p, q, c, d, v, w) VALUES (1, 'q', 5, 1.0, 0x0102, 'w')")
        connection.query("INSERT INTO points.wide (p, q, c, d) VALUES (1, 'q', 6, 2.50)")
        connection.query("INSERT INTO points.stat (k, c, s, v) VALUES (1, 1, 9, 8)")
        yield connection
        connection.query("DROP KEYSPACE points")


def answer(ask):
    """What a client learns, or what it is refused with."""
    try:
        result = ask()
    except Failure as failure:
        return failure.code, failure.message
    return result.rows, result.columns, result.paging_state, result.warnings


def same(connection, statement: str, values, **options):
    """Asks in both ways, twice, and gives what was answered."""
    prepared = connection.prepare(statement)
    for _ in range(2):
        at_once = answer(lambda: connection.execute(prepared, values, **options))
        assert at_once == answer(lambda: connection.query(statement, values, **options)), (statement, values, options)
    return at_once


KEYS = ["x", "y", "z", "ttl", "updated", "deleted", "nobody"]


@pytest.mark.parametrize("columns", ["*", "a", "b, a, k", "k", "a AS first, a AS second, b", "count(*)", "ttl(a), b", "JSON *"])
def test_rows_of_one_key(connection, columns):
    found = [same(connection, f"SELECT {columns} FROM points.plain WHERE k = ?", [text(key)]) for key in KEYS]
    if columns == "b, a, k":
        assert found[0][0] == [(number(1), b"one", b"x")]
        assert found[1][0] == [(number(2), None, b"y")]
        assert found[2][0] == [(None, b"", b"z")]
        assert found[4][0] == [(number(7), None, b"updated")]
        assert found[5][0] == found[6][0] == []


def test_rows_of_a_whole_clustering(connection):
    statement = "SELECT * FROM points.wide WHERE q = ? AND p = ? AND c = ? AND d = ?"
    one, other = b"\0\0\0\x01\x0a", b"\0\0\0\x02\x64"
    found = same(connection, statement, [text("q"), number(1), number(5), one])
    assert found[0] == [(number(1), b"q", number(5), one, b"\x01\x02", b"w")]
    # The same number in other digits is the same row, shown as it was written.
    assert same(connection, statement, [text("q"), number(1), number(5), other])[0] == found[0]
    assert same(connection, statement, [text("q"), number(1), number(6), b"\0\0\0\x02\0\xfa"])[0] != []
    for nowhere in ([text("p"), number(1)], [text("q"), number(2)]):
        assert same(connection, statement, [*nowhere, number(5), one])[0] == []
    assert same(connection, statement, [text("q"), number(1), number(7), one])[0] == []
    fixed = "SELECT w, v FROM points.wide WHERE q = 'q' AND p = 1 AND c = ? AND d = 1.0"
    assert same(connection, fixed, [number(5)])[0] == [(b"w", b"\x01\x02")]


@pytest.mark.parametrize("limit", ["", " LIMIT 1", " LIMIT ?", " PER PARTITION LIMIT 1", " ALLOW FILTERING", " BYPASS CACHE", " USING TIMEOUT 1s"])
@pytest.mark.parametrize("page", [0, 1, 2, 5000])
def test_pages_and_limits(connection, limit, page):
    more = [number(1)] if "?" in limit else []
    same(connection, f"SELECT * FROM points.plain WHERE k = ?{limit}", [text("x"), *more], page=page)
    values = [number(1), text("q"), number(5), b"\0\0\0\x01\x0a", *more]
    same(connection, f"SELECT * FROM points.wide WHERE p = ? AND q = ? AND c = ? AND d = ?{limit}", values, page=page)


@pytest.mark.parametrize("level", [ONE, QUORUM, TWO, SERIAL, EACH_QUORUM, 0])
def test_levels(connection, level):
    same(connection, "SELECT a FROM points.plain WHERE k = ?", [text("x")], consistency=level)


@pytest.mark.parametrize("key", [None, b"", b"\xff", b"k" * 65535, b"k" * 65536])
def test_keys_that_are_none(connection, key):
    same(connection, "SELECT a FROM points.plain WHERE k = ?", [key])
    place = [number(1), number(5), b"\0\0\0\x01\x0a"]
    same(connection, "SELECT w FROM points.wide WHERE q = ? AND p = ? AND c = ? AND d = ?", [key, *place])


@pytest.mark.parametrize("value", [None, b"", b"\1", b"\0\0\0\1\0"])
def test_clusterings_that_are_none(connection, value):
    statement = "SELECT w FROM points.wide WHERE p = ? AND q = 'q' AND c = ? AND d = ?"
    same(connection, statement, [number(1), value, b"\0\0\0\x01\x0a"])
    same(connection, statement, [value, number(5), b"\0\0\0\x01\x0a"])
    same(connection, statement, [number(1), number(5), value])


@pytest.fixture(scope="module")
def parts(connection):
    """Partitions of few rows and many, small ones and large ones, with and without what is deleted or expires."""
    connection.query("CREATE TABLE points.parts (k int, l text, c int, v text, w blob, PRIMARY KEY ((k, l), c)) "
                     "WITH CLUSTERING ORDER BY (c DESC)")
    insert = connection.prepare("INSERT INTO points.parts (k, l, c, v, w) VALUES (?, 'l', ?, ?, ?)")
    sizes = {1: 1, 2: 3, 3: 100, 4: 128, 5: 129, 6: 300}
    for key, rows in sizes.items():
        for row in range(rows):
            connection.execute(insert, [number(key), number(row), str(row).encode(), None if row % 3 else b"w"])
    for row in range(7):
        connection.execute(insert, [number(7), number(row), b"large", b"x" * 10_000])
    for key in (8, 9, 10, 11, 12):
        for row in range(5):
            connection.execute(insert, [number(key), number(row), b"some", b""])
    connection.query("DELETE FROM points.parts WHERE k = 8 AND l = 'l' AND c = 2")
    connection.query("DELETE FROM points.parts WHERE k = 9 AND l = 'l' AND c > 1 AND c < 4")
    connection.query("DELETE v FROM points.parts WHERE k = 10 AND l = 'l' AND c = 2")
    connection.query("UPDATE points.parts USING TTL 1000 SET v = 'soon gone' WHERE k = 11 AND l = 'l' AND c = 2")
    connection.query("DELETE FROM points.parts WHERE k = 12 AND l = 'l'")
    connection.query("UPDATE points.parts SET v = 'unmarked' WHERE k = 13 AND l = 'l' AND c = 2")
    return {**sizes, 7: 7, 8: 4, 9: 3, 10: 5, 11: 5, 12: 0, 13: 1, 14: 0}


PARTS = "SELECT {} FROM points.parts WHERE k = ? AND l = ?"


@pytest.mark.parametrize("columns", ["*", "w", "c, v, c AS again", "k", "count(*)", "ttl(v), c", "JSON *"])
@pytest.mark.parametrize("page", [0, 1, 3, 4, 100, 101, 128, 5000])
def test_partitions(connection, parts, columns, page):
    for key, count in parts.items():
        found = same(connection, PARTS.format(columns), [number(key), text("l")], page=page)
        if page == 5000 and "count" not in columns:
            assert len(found[0]) == count
    if page == 5000 and columns == "w":
        assert same(connection, PARTS.format(columns), [number(2), text("l")], page=page)[0] == [(None,), (None,), (b"w",)]
    assert same(connection, PARTS.format(columns), [number(1), text("m")], page=page)[3] == []


@pytest.mark.parametrize("more", ["LIMIT 2", "LIMIT ?", "PER PARTITION LIMIT 2", "ORDER BY c", "ORDER BY c DESC", "ALLOW FILTERING"])
def test_partitions_with_limits_and_orders(connection, parts, more):
    values = [number(2), text("l")] + ([number(1)] if "?" in more else [])
    assert len(same(connection, f"{PARTS.format('c, v')} {more}", values)[0]) > 0


@pytest.mark.parametrize("level", [ONE, QUORUM, TWO, SERIAL, EACH_QUORUM, 0])
def test_levels_of_partitions(connection, parts, level):
    same(connection, PARTS.format("*"), [number(2), text("l")], consistency=level)


@pytest.mark.parametrize("key", [None, b"", b"\xff", b"k" * 65535, b"k" * 65536])
def test_partitions_of_keys_that_are_none(connection, parts, key):
    same(connection, PARTS.format("*"), [number(1), key])
    same(connection, PARTS.format("*"), [key, text("l")])


def test_partitions_that_are_read_together(connection, parts):
    """Small and large ones, of several pages, and mistakes: each is answered as it is alone."""
    prepared = connection.prepare(PARTS.format("c, v, w"))
    execute = lambda *arguments, **options: (EXECUTE, connection.execution(*arguments, **options))
    reads = [execute(prepared, [number(key), text("l")]) for key in parts]
    reads += [execute(prepared, [number(2), text("l")], page=2), execute(prepared, [number(2), None]), execute(prepared, [])]
    alone = {request: connection.together([request])[0] for request in reads}
    for first in range(len(reads)):
        requests = reads[first:] + reads[:first] + reads[2:4] * 12
        assert connection.together(requests) == [alone[request] for request in requests], first


def test_a_partition_that_changes(connection, parts):
    insert = connection.prepare("INSERT INTO points.parts (k, l, c, v) VALUES (?, ?, ?, ?)")
    key = [number(20), text("l")]
    for row in range(20):
        connection.execute(insert, [*key, number(row), str(row).encode()])
        assert len(same(connection, PARTS.format("c, v"), key)[0]) == row + 1
    connection.query("DELETE FROM points.parts WHERE k = 20 AND l = 'l' AND c = 7")
    assert len(same(connection, PARTS.format("c, v"), key)[0]) == 19


def test_what_is_more_than_plain(connection):
    assert same(connection, "SELECT * FROM points.one WHERE k = ?", [text("x")])[0][0][0] == b"x"
    assert same(connection, "SELECT l FROM points.one WHERE k = ?", [text("x")])[0] != []
    assert same(connection, "SELECT s, v FROM points.stat WHERE k = ? AND c = ?", [number(1), number(1)])[0] == [(number(9), number(8))]
    same(connection, "SELECT s, v FROM points.stat WHERE k = ? AND c = ?", [number(1), number(2)])
    same(connection, "SELECT DISTINCT k FROM points.stat WHERE k = ?", [number(1)])


def test_a_statement_with_too_few_or_too_many_values(connection):
    prepared = connection.prepare("SELECT a FROM points.plain WHERE k = ?")
    for values in ([], [text("x"), text("y")]):
        with pytest.raises(Failure) as refused:
            connection.execute(prepared, values)
        assert refused.value.code == 0x2200


def test_requests_that_are_read_together(connection):
    """More than are looked up at once, for several statements, with writes, texts and mistakes among them: each is answered
    as it is alone."""
    by_key = connection.prepare("SELECT a, b FROM points.plain WHERE k = ?")
    wide = connection.prepare("SELECT w, v FROM points.wide WHERE p = 1 AND q = 'q' AND c = ? AND d = 1.0")
    insert = connection.prepare("INSERT INTO points.plain (k, a, b) VALUES (?, ?, ?)")
    execute = lambda *arguments, **options: (EXECUTE, connection.execution(*arguments, **options))
    one = execute(by_key, [text("x")])
    unknown = one[1].replace(by_key.detail[0], b"?" * len(by_key.detail[0]))
    others = [
        execute(wide, [number(5)]),
        execute(insert, [text("together"), text("written"), number(1)]),
        execute(by_key, []),
        execute(by_key, [text("x")], page=1),
        execute(by_key, [text("x")], consistency=TWO),
        execute(by_key, [None]),
        execute(by_key, [text("x")], state=b"garbage"),
        (EXECUTE, unknown),
        (EXECUTE, one[1][:-3]),
        (QUERY, long_string("SELECT a FROM points.plain WHERE k = 'x'") + connection.parameters((), 0, None, None, ONE)),
        (OPTIONS, b""),
    ]
    reads = [execute(by_key, [text(key)]) for key in KEYS * 6]
    alone = {request: connection.together([request])[0] for request in {*reads, *others}}
    assert len(reads) > 40
    # Where they are cut into those that are looked up together differs with each beginning.
    for first in range(0, 18):
        for other in others:
            requests = reads[first:20] + [other] + reads + others
            assert connection.together(requests) == [alone[request] for request in requests], (first, other)


def test_what_was_written_is_read_at_once(connection):
    """Rows that change between reads, are deleted, and come back."""
    insert = connection.prepare("INSERT INTO points.plain (k, a, b) VALUES (?, ?, ?)")
    delete = connection.prepare("DELETE FROM points.plain WHERE k = ?")
    for turn in range(20):
        connection.execute(insert, [text("turn"), str(turn).encode(), number(turn)])
        found = same(connection, "SELECT b FROM points.plain WHERE k = ?", [text("turn")])
        assert found[0] == [(number(turn),)]
        if turn % 3 == 0:
            connection.execute(delete, [text("turn")])
            assert same(connection, "SELECT b FROM points.plain WHERE k = ?", [text("turn")])[0] == []


def test_what_expires_is_seen_until_then(connection):
    insert = connection.prepare("INSERT INTO points.plain (k, a, b) VALUES (?, ?, ?) USING TTL ?")
    update = connection.prepare("UPDATE points.plain USING TTL ? SET b = ? WHERE k = ?")
    row, part = text("brief"), text("in part")
    connection.execute(insert, [row, text("a"), number(1), number(2)])
    connection.execute(insert, [part, text("a"), number(1), number(0)])
    connection.execute(update, [number(2), number(7), part])
    read = "SELECT a, b FROM points.plain WHERE k = ?"
    select, began = connection.prepare(read), time.monotonic()
    assert connection.execute(select, [row]).rows == [(b"a", number(1))]
    assert connection.execute(select, [part]).rows == [(b"a", number(7))]
    while time.monotonic() < began + 10 and connection.execute(select, [row]).rows:
        time.sleep(0.05)
    assert 0.9 < time.monotonic() - began < 5
    time.sleep(1)
    assert same(connection, read, [row])[0] == []
    assert same(connection, read, [part])[0] == [(b"a", None)]


def test_an_altered_table(connection):
    prepared = connection.prepare("SELECT * FROM points.one WHERE k = ?")
    connection.execute(prepared, [text("x")])
    connection.query("ALTER TABLE points.one DROP a")
    connection.query("ALTER TABLE points.one ADD z int")
    with pytest.raises(Failure) as refused:
        connection.execute(prepared, [text("x")])
    assert refused.value.code == 0x2500
    assert same(connection, "SELECT z, b FROM points.one WHERE k = ?", [text("x")])[0] == [(None, number(1))]
