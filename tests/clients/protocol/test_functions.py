"""User-defined functions: results, errors and events, and that nobody holds up others."""

import struct
import threading
import time

import pytest

from harness.protocol import EVENT, REGISTER, Failure, Reader, string

FUNCTION_FAILURE = 0x1400


def number(value: int) -> bytes:
    return struct.pack(">i", value)


def function(name: str, body: str, arguments: str = "a int", returns: str = "int") -> str:
    return f"CREATE OR REPLACE FUNCTION raw.{name}({arguments}) CALLED ON NULL INPUT RETURNS {returns} LANGUAGE lua AS $${body}$$"


@pytest.fixture(scope="module")
def table(keyspace):
    return "raw.t"


def failure(connection, text: str) -> Failure:
    with pytest.raises(Failure) as failed:
        connection.query(text)
    return failed.value


FROZEN = {
    "a frozen<list<set<raw.typ>>>": (0x2200, "Argument 'frozen<list<frozen<set<frozen<raw.typ>>>>>' cannot be frozen"),
    "a frozen<map<int, raw.typ>>": (0x2200, "Argument 'frozen<map<int, frozen<raw.typ>>>' cannot be frozen"),
    "a frozen<raw.typ>": (0x2200, "Argument 'frozen<raw.typ>' cannot be frozen"),
    "a frozen<int>": (0x2000, "frozen<> is only allowed on collections, tuples, and user-defined types (got int)"),
}


def test_arguments_are_not_frozen(connect, table):
    connection = connect()
    connection.query("CREATE TYPE IF NOT EXISTS raw.typ (a int)")
    for arguments, expected in FROZEN.items():
        failed = failure(connection, function("f", "return 1", arguments))
        assert (failed.code, failed.message.split(";")[0]) == expected
    failed = failure(connection, function("f", "return nil", returns="frozen<list<set<int>>>"))
    assert failed.message.startswith("Return type 'frozen<list<frozen<set<int>>>>' cannot be frozen")
    connection.query("DROP TYPE raw.typ")


def test_failures_name_the_function(connect, table):
    connection = connect()
    connection.query(function("boom", "error('bang')", "a int, b text"))
    connection.query(f"INSERT INTO {table} (k, c) VALUES (1, 1)")
    for text in [
        f"SELECT raw.boom(k, 'x') FROM {table} WHERE k = 1",
        f"INSERT INTO {table} (k, c) VALUES (2, raw.boom(1, 'x'))",
        f"DELETE FROM {table} WHERE k = raw.boom(1, 'x')",
    ]:
        error = failure(connection, text)
        assert (error.code, error.message) == (FUNCTION_FAILURE, "boom:1: bang")
        detail = Reader(error.detail)
        assert (detail.string(), detail.string(), detail.string_list()) == ("raw", "boom", ["int", "text"])


def test_drivers_hear_of_functions(connect, table):
    listener, connection = connect(), connect()
    listener.request(REGISTER, struct.pack(">H", 1) + string("SCHEMA_CHANGE"))

    def heard():
        _, _, _, opcode, body = listener.receive()
        assert opcode == EVENT
        event = Reader(body)
        return [event.string() for _ in range(5)] + [event.string_list()]

    connection.query("CREATE FUNCTION raw.plus(s int, v int) CALLED ON NULL INPUT RETURNS int LANGUAGE lua AS 'return s + v'")
    assert heard() == ["SCHEMA_CHANGE", "CREATED", "FUNCTION", "raw", "plus", ["int", "int"]]
    connection.query("CREATE AGGREGATE raw.total(int) SFUNC plus STYPE int INITCOND 0")
    assert heard() == ["SCHEMA_CHANGE", "CREATED", "AGGREGATE", "raw", "total", ["int"]]
    connection.query(function("plus", "return v + s", "s int, v int"))
    assert heard() == ["SCHEMA_CHANGE", "UPDATED", "FUNCTION", "raw", "plus", ["int", "int"]]
    connection.query("DROP AGGREGATE raw.total(int)")
    assert heard() == ["SCHEMA_CHANGE", "DROPPED", "AGGREGATE", "raw", "total", ["int"]]
    # A tuple keeps its frozen, by which drivers find it in system_schema.functions.
    connection.query("CREATE FUNCTION raw.of_tuple(t tuple<int, text>) CALLED ON NULL INPUT RETURNS int LANGUAGE lua AS 'return 1'")
    assert heard() == ["SCHEMA_CHANGE", "CREATED", "FUNCTION", "raw", "of_tuple", ["frozen<tuple<int, text>>"]]
    connection.query("DROP FUNCTION raw.of_tuple")
    assert heard() == ["SCHEMA_CHANGE", "DROPPED", "FUNCTION", "raw", "of_tuple", ["frozen<tuple<int, text>>"]]
    connection.query("DROP FUNCTION raw.plus")
    assert heard() == ["SCHEMA_CHANGE", "DROPPED", "FUNCTION", "raw", "plus", ["int", "int"]]


def test_a_replaced_function_is_prepared_anew(connect, table):
    connection = connect()
    connection.query(function("one", "return 1"))
    connection.query(f"INSERT INTO {table} (k, c) VALUES (3, 1)")
    text = f"SELECT raw.one(k) FROM {table} WHERE k = 3"
    prepared = connection.prepare(text)
    assert connection.execute(prepared).rows == [(number(1),)]
    connection.query(function("one", "return 2"))
    with pytest.raises(Failure) as unprepared:
        connection.execute(prepared)
    assert unprepared.value.code == 0x2500
    assert connection.execute(connection.prepare(text)).rows == [(number(2),)]


def test_what_describe_prints_makes_it_again(connect, table):
    connection = connect()
    bodies = ["return 1", "return '$$' and 2", "return 3 -- $", "return \"'\" and 4\n"]
    for i, body in enumerate(bodies):
        quoted = body.replace("'", "''")
        connection.query(f"CREATE FUNCTION raw.\"F{i}\"(s tuple<int, text>, v int) CALLED ON NULL INPUT RETURNS tuple<int, text> LANGUAGE lua AS '{quoted}'")
        connection.query(f"CREATE AGGREGATE raw.\"A{i}\"(int) SFUNC \"F{i}\" STYPE tuple<int, text> INITCOND (1, 'it''s')")
        described = [f'DESCRIBE FUNCTION raw."F{i}"', f'DESCRIBE AGGREGATE raw."A{i}"']
        before = [connection.query(text).rows for text in described]
        connection.query(f'DROP AGGREGATE raw."A{i}"')
        connection.query(f'DROP FUNCTION raw."F{i}"')
        for [row] in before:
            connection.query(row[3].decode())
        assert [connection.query(text).rows for text in described] == before


def test_aggregates_go_on_from_row_to_row(connect, table):
    """Of more rows than a function may hold its shard for, with pages of one group."""
    connection = connect()
    connection.query(function("adding", "for i = 1, 200 do end return (s or 0) + (v or 1000)", "s int, v int"))
    connection.query("CREATE OR REPLACE AGGREGATE raw.added(int) SFUNC adding STYPE int")
    for k in (10, 11):
        for c in range(300):
            connection.query(f"INSERT INTO {table} (k, c) VALUES ({k}, {c})")
    total = number(sum(range(300)))
    text = f"SELECT raw.added(c), count(*), raw.added(k) FROM {table} WHERE k IN (10, 11) GROUP BY k"
    found, state = [], None
    while True:
        result = connection.query(text, page=1, state=state)
        found += result.rows
        state = result.paging_state
        if state is None:
            break
    count = struct.pack(">q", 300)
    assert found == [(total, count, number(3000)), (total, count, number(3300))]
    rows = connection.query(f"SELECT c, raw.adding(c, k) FROM {table} WHERE k = 10").rows
    assert rows == [(number(c), number(c + 10)) for c in range(300)]


@pytest.mark.parametrize("body", ["while true do end", "local t = {} while true do t[#t + 1] = {} end", "while true do pcall(function() while true do end end) end"])
def test_others_go_on_while_one_is_stopped(connect, bystander, table, body):
    connection = connect()
    connection.query(function("hog", body))
    connection.query(f"INSERT INTO {table} (k, c) VALUES (4, 1)")
    # As many connections as there are shards and more: one at least is on the shard of the other.
    others = [connect() for _ in range(4)]
    # A machine may stand still for a moment, but hardly each time; who is held up by a function is, each time.
    assert any(slowest_beside_hog(connection, others, table) < 0.5 for _ in range(3))


def slowest_beside_hog(connection, others, table) -> float:
    """The longest that any of these waits for an answer until the function is stopped."""
    errors = []
    thread = threading.Thread(target=lambda: errors.append(failure(connection, f"SELECT raw.hog(k) FROM {table} WHERE k = 4")))
    thread.start()
    slowest = 0.0
    while thread.is_alive():
        for other in others:
            began = time.monotonic()
            other.query(f"SELECT k FROM {table} WHERE k = 4")
            slowest = max(slowest, time.monotonic() - began)
    thread.join()
    [error] = errors
    assert error.code == FUNCTION_FAILURE
    assert "ran longer than 1500ms" in error.message or error.message == "not enough memory"
    return slowest
