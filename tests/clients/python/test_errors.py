"""Every mistake gets its error, by code."""

import pytest
from cassandra import AlreadyExists, InvalidRequest
from cassandra.protocol import ConfigurationException, ErrorMessage, SyntaxException

INVALID = 0x2200
SYNTAX = 0x2000
CONFIG = 0x2300

CASES = [
    ("SELEC * FROM t", SYNTAX, "line 1:0"),
    ("SELECT * FROM t WHERE", SYNTAX, "no viable alternative at input"),
    ("SELECT * FROM t;; SELECT * FROM t", SYNTAX, ""),
    ("SELECT * FROM missing", INVALID, "table missing does not exist"),
    ("SELECT * FROM nowhere.t", INVALID, "keyspace nowhere does not exist"),
    ("SELECT nope FROM t", INVALID, "Undefined column name nope"),
    ("SELECT * FROM t WHERE v = 1", INVALID, "ALLOW FILTERING"),
    ("SELECT * FROM t WHERE k > 1", INVALID, "ALLOW FILTERING"),
    ("SELECT * FROM t WHERE k = 1 AND k = 2", INVALID, "more than one relation"),
    ("SELECT * FROM t WHERE k = 1 ORDER BY v", INVALID, "Order by"),
    ("SELECT * FROM t WHERE k = 1 LIMIT 0", INVALID, "LIMIT must be strictly positive"),
    ("INSERT INTO t (k, v) VALUES (1, 1)", INVALID, "Some clustering keys are missing: c"),
    ("INSERT INTO t (c, v) VALUES (1, 1)", INVALID, "Some partition key parts are missing: k"),
    ("INSERT INTO t (k, c, v) VALUES (1, 1)", INVALID, "Unmatched column names/values"),
    ("INSERT INTO t (k, c, v) VALUES ('a', 1, 1)", INVALID, "Invalid STRING constant (a) for \"k\" of type int"),
    ("INSERT INTO t (k, c, v) VALUES (99999999999, 1, 1)", INVALID, "Unable to make int from '99999999999'"),
    ("INSERT INTO t (k, c, v) VALUES (null, 1, 1)", INVALID, "Invalid null value in condition for column k"),
    ("INSERT INTO t (k, c, v) VALUES (1, 1, 1) USING TTL -1", INVALID, "TTL must be greater"),
    ("INSERT INTO t (k, c, v) VALUES (1, 1, 1) USING TTL 999999999", INVALID, "ttl is too large"),
    ("UPDATE t SET k = 1 WHERE k = 1 AND c = 1", INVALID, "PRIMARY KEY part k found in SET part"),
    ("UPDATE t SET v = 1 WHERE k = 1", INVALID, "Some clustering keys are missing: c"),
    ("DELETE v FROM t WHERE k = 1 AND c > 1", INVALID, "Range deletions are not supported for specific columns"),
    ("UPDATE t SET l = l + 1 WHERE k = 1 AND c = 1", INVALID, ""),
    ("CREATE TABLE t2 (k int)", INVALID, "PRIMARY KEY"),
    ("CREATE TABLE t2 (k int PRIMARY KEY, k text)", INVALID, "Duplicate column 'k'"),
    ("CREATE TABLE t2 (k duration PRIMARY KEY)", INVALID, "duration"),
    ("CREATE TABLE t2 (k list<int> PRIMARY KEY)", INVALID, "Invalid non-frozen collection type"),
    ("CREATE TABLE t2 (k int PRIMARY KEY, v nosuchtype)", INVALID, "Unknown type"),
    ("CREATE TABLE t2 (k int PRIMARY KEY) WITH nonsense = 1", SYNTAX, "Unknown property 'nonsense'"),
    ("CREATE TABLE t2 (k int PRIMARY KEY) WITH gc_grace_seconds = -1", CONFIG, "gc_grace_seconds"),
    ("CREATE TABLE t2 (k int PRIMARY KEY) WITH compaction = {'class': 'Nope'}", CONFIG, ""),
    ("CREATE KEYSPACE x WITH replication = {'class': 'Nowhere'}", CONFIG, "Unable to find replication strategy class"),
    ("ALTER TABLE t ADD v int", INVALID, "Column with name 'v' already exists"),
    ("ALTER TABLE t DROP k", INVALID, "Cannot drop PRIMARY KEY column k"),
    ("ALTER TABLE missing ADD v int", INVALID, "doesn't exist"),
    ("DROP TABLE missing", INVALID, "doesn't exist"),
    ("DROP KEYSPACE nowhere", INVALID, "doesn't exist"),
    ("USE nowhere", INVALID, "Keyspace 'nowhere' does not exist"),
    ("TRUNCATE missing", INVALID, "does not exist"),
    ("BEGIN BATCH SELECT * FROM t; APPLY BATCH", SYNTAX, ""),
]


@pytest.fixture(scope="module")
def table(app):
    app.table("t", "k int, c int, v int, l list<int>, PRIMARY KEY (k, c)")
    return app


@pytest.mark.parametrize("query,code,text", CASES, ids=[case[0] for case in CASES])
def test_error(table, query, code, text):
    with pytest.raises((ErrorMessage, InvalidRequest)) as caught:
        table.execute(query)
    assert code_of(caught.value) == code
    assert text in str(caught.value)


def code_of(error) -> int:
    """The code of the error frame, from whichever class the driver made of it."""
    if isinstance(error, InvalidRequest):
        return INVALID
    return error.code


def test_syntax_and_configuration_have_their_classes(table):
    with pytest.raises(SyntaxException):
        table.execute("SELECT")
    with pytest.raises(ConfigurationException):
        table.execute("CREATE KEYSPACE x WITH replication = {'replication_factor': 1}")


def test_already_exists_names_what_exists(table):
    with pytest.raises(AlreadyExists) as caught:
        table.execute("CREATE TABLE t (k int PRIMARY KEY)")
    assert (caught.value.keyspace, caught.value.table) == (table.keyspace, "t")
    with pytest.raises(AlreadyExists) as caught:
        table.execute(
            f"CREATE KEYSPACE {table.keyspace} WITH replication = "
            "{'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
    assert (caught.value.keyspace, caught.value.table) == (table.keyspace, "")
    table.execute("CREATE TABLE IF NOT EXISTS t (k int PRIMARY KEY)")


def test_wrong_number_and_size_of_values(table):
    prepared = table.session.prepare("INSERT INTO t (k, c, v) VALUES (?, ?, ?)")
    with pytest.raises(ValueError):
        table.execute(prepared, (1, 2, 3, 4))
    with pytest.raises(InvalidRequest) as caught:
        table.execute("INSERT INTO t (k, c, v) VALUES (%s, 1, 0x)", (1,))
    assert "int" in str(caught.value)


def test_session_lives_on_after_errors(table):
    for query, _, _ in CASES[:10]:
        with pytest.raises(Exception):
            table.execute(query)
    assert table.execute("SELECT key FROM system.local").one().key == "local"
