"""Schema and rows: every type, written in every way, read back as it was."""

import datetime
from collections import namedtuple

import pytest
from cassandra.util import Date, SortedSet, Time

from values import KEYS, NATIVE, T, U

Place = namedtuple("place", "street zip tags")
COLLECTIONS = {
    "list<int>": [3, 1, 3, -5],
    "set<text>": {"b", "a", "ά"},
    "map<text, bigint>": {"x": 1, "a": -1},
    "map<timestamp, blob>": {datetime.datetime(2026, 1, 1): b"\x01", datetime.datetime(2025, 1, 1): b""},
    "frozen<list<timeuuid>>": [T, T],
    "frozen<set<inet>>": {"10.0.0.1", "::1"},
    "frozen<map<int, frozen<list<text>>>>": {2: ["z", "a"], 1: []},
    "list<frozen<map<int, double>>>": [{1: 0.5}, {}],
    "tuple<int, text, frozen<set<int>>>": (1, "one", {2, 1}),
    "set<frozen<tuple<int, int>>>": {(1, 2), (1, None)},
    "place": Place("Hill", 7, SortedSet(["a", "b"])),
    "frozen<place>": Place("Shore", None, None),
    "map<int, frozen<place>>": {1: Place("Gate", 9, SortedSet(["q"]))},
}


def plain(value):
    """A value without the driver's own container types, so that both sides compare."""
    if isinstance(value, tuple):
        return tuple(plain(v) for v in value)
    if isinstance(value, list):
        return [plain(v) for v in value]
    if hasattr(value, "items"):
        return {plain(k): plain(v) for k, v in value.items()}
    if isinstance(value, (set, frozenset, SortedSet)):
        return frozenset(plain(v) for v in value)
    return value


@pytest.fixture(scope="module")
def natives(app):
    columns = ", ".join(f"c_{name} {name}" for name in NATIVE)
    app.table("natives", f"id int PRIMARY KEY, {columns}")
    return app


@pytest.mark.parametrize("name", NATIVE)
def test_native_type_bound(natives, name):
    insert = natives.session.prepare(f"INSERT INTO natives (id, c_{name}) VALUES (?, ?)")
    select = natives.session.prepare(f"SELECT c_{name} AS value FROM natives WHERE id = ?")
    values = [*NATIVE[name][0], None]
    for i, value in enumerate(values):
        natives.execute(insert, (i, value))
    for i, value in enumerate(values):
        assert natives.execute(select, (i,)).one().value == value


@pytest.mark.parametrize("name", NATIVE)
def test_native_type_literal(natives, name):
    value, literal = NATIVE[name][0][0], NATIVE[name][1]
    natives.execute(f"INSERT INTO natives (id, c_{name}) VALUES (1000, {literal})")
    assert natives.execute(f"SELECT c_{name} FROM natives WHERE id = 1000").one()[0] == value


@pytest.mark.parametrize("name", KEYS)
def test_native_type_as_key(app, name):
    values = [v for v in KEYS[name] if v not in ("", b"")]
    app.table(f"key_{name}", f"k {name}, c {name}, v int, PRIMARY KEY (k, c)")
    insert = app.session.prepare(f"INSERT INTO key_{name} (k, c, v) VALUES (?, ?, ?)")
    for i, value in enumerate(values):
        app.execute(insert, (values[0], value, i))
        app.execute(insert, (value, values[0], -1))
    got = list(app.execute(app.session.prepare(f"SELECT c, v FROM key_{name} WHERE k = ?"), (values[0],)))
    assert len(got) == len(values)
    assert {row.c for row in got} == set(values)
    point = app.session.prepare(f"SELECT v FROM key_{name} WHERE k = ? AND c = ?")
    for i, value in enumerate(values[1:], 1):
        assert app.execute(point, (values[0], value)).one().v == i
    reverse = app.execute(app.session.prepare(f"SELECT c FROM key_{name} WHERE k = ? ORDER BY c DESC"), (values[0],))
    assert [row.c for row in reverse] == [row.c for row in reversed(got)]
    app.execute(f"DROP TABLE key_{name}")


def test_order_of_clustering_values(app):
    """Integers order by value, text by bytes, a timeuuid by its time."""
    app.table("ordered", "k int, a varint, b text, PRIMARY KEY (k, a, b)")
    insert = app.session.prepare("INSERT INTO ordered (k, a, b) VALUES (0, ?, ?)")
    rows = [(a, b) for a in (-(2**70), -129, -1, 0, 1, 128, 2**70) for b in ("", "Z", "a", "aa", "é", "🐍")]
    for row in reversed(rows):
        app.execute(insert, row)
    assert [tuple(r) for r in app.execute("SELECT a, b FROM ordered WHERE k = 0")] == rows


@pytest.fixture(scope="module")
def collections(app):
    app.execute("DROP TABLE IF EXISTS gathered")
    app.execute("DROP TYPE IF EXISTS place")
    app.execute("CREATE TYPE place (street text, zip int, tags frozen<set<text>>)")
    app.cluster.register_user_type(app.keyspace, "place", Place)
    columns = ", ".join(f"c{i} {name}" for i, name in enumerate(COLLECTIONS))
    app.table("gathered", f"id int PRIMARY KEY, {columns}")
    return app


@pytest.mark.parametrize("index,name", list(enumerate(COLLECTIONS)), ids=list(COLLECTIONS))
def test_collections(collections, index, name):
    app = collections
    insert = app.session.prepare(f"INSERT INTO gathered (id, c{index}) VALUES (?, ?)")
    select = app.session.prepare(f"SELECT c{index} FROM gathered WHERE id = ?")
    app.execute(insert, (1, COLLECTIONS[name]))
    assert plain(app.execute(select, (1,)).one()[0]) == plain(COLLECTIONS[name])
    app.execute(insert, (1, None))
    assert not app.execute(select, (1,)).one()[0]


def test_empty_collection_is_null_unless_frozen(collections):
    app = collections
    app.execute("INSERT INTO gathered (id, c0, c4) VALUES (2, [], [])")
    row = app.execute("SELECT c0, c4 FROM gathered WHERE id = 2").one()
    assert row.c0 is None and row.c4 == []


def test_collection_elements(collections):
    app = collections
    app.execute("INSERT INTO gathered (id, c0, c1, c2) VALUES (3, [1, 2, 3], {'a', 'b'}, {'a': 1, 'b': 2})")
    app.execute("UPDATE gathered SET c0 = c0 + [4], c1 = c1 + {'c'}, c2 = c2 + {'c': 3} WHERE id = 3")
    app.execute("UPDATE gathered SET c0 = [0] + c0, c1 = c1 - {'a'}, c2 = c2 - {'a'} WHERE id = 3")
    app.execute("UPDATE gathered SET c0[1] = 10, c2['b'] = 20 WHERE id = 3")
    app.execute("DELETE c0[2], c2['c'] FROM gathered WHERE id = 3")
    row = app.execute("SELECT c0, c1, c2 FROM gathered WHERE id = 3").one()
    assert row.c0 == [0, 10, 3, 4]
    assert set(row.c1) == {"b", "c"}
    assert dict(row.c2) == {"b": 20}
    app.execute("UPDATE gathered SET c0 = c0 - [10, 4] WHERE id = 3")
    assert app.execute("SELECT c0 FROM gathered WHERE id = 3").one().c0 == [0, 3]


def test_user_type_fields(collections):
    app = collections
    app.execute("INSERT INTO gathered (id, c10) VALUES (4, {street: 'Hill', zip: 7})")
    app.execute("UPDATE gathered SET c10.zip = 8 WHERE id = 4")
    assert tuple(app.execute("SELECT c10 FROM gathered WHERE id = 4").one().c10)[:2] == ("Hill", 8)
    assert app.execute("SELECT c10.street FROM gathered WHERE id = 4").one()[0] == "Hill"


def test_user_type_gains_and_renames_a_field(app):
    app.execute("DROP TABLE IF EXISTS growing")
    app.execute("DROP TYPE IF EXISTS seed")
    app.execute("CREATE TYPE seed (a int)")
    app.table("growing", "k int PRIMARY KEY, loose seed, tight frozen<seed>")
    app.execute("INSERT INTO growing (k, loose, tight) VALUES (1, {a: 1}, {a: 2})")
    app.execute("ALTER TYPE seed ADD b text")
    app.execute("ALTER TYPE seed RENAME a TO first")
    app.execute("INSERT INTO growing (k, loose, tight) VALUES (2, {first: 1, b: 'x'}, {first: 2, b: 'y'})")
    row = app.execute("SELECT loose.b, tight.b, loose.first FROM growing WHERE k = 2").one()
    assert tuple(row) == ("x", "y", 1)
    row = app.execute("SELECT loose.b, tight.b, loose.first FROM growing WHERE k = 1").one()
    assert tuple(row) == (None, None, 1)


def test_metadata_describes_what_was_created(collections):
    app = collections
    app.cluster.refresh_schema_metadata()
    keyspace = app.cluster.metadata.keyspaces[app.keyspace]
    assert keyspace.replication_strategy.name == "SimpleStrategy"
    table = keyspace.tables["gathered"]
    assert [c.name for c in table.partition_key] == ["id"]
    assert [table.columns[f"c{i}"].cql_type for i in range(len(COLLECTIONS))] == [
        "frozen<tuple<int, text, frozen<set<int>>>>" if name.startswith("tuple") else name for name in COLLECTIONS
    ]
    assert keyspace.user_types["place"].field_names == ["street", "zip", "tags"]
    assert "CREATE TABLE" in table.export_as_string()


def test_key_value_helpers_agree():
    """The helper values are what the driver itself makes of them."""
    assert Date("2026-11-21") == NATIVE["date"][0][0]
    assert Time("01:02:03.000000004") == NATIVE["time"][0][0]
    assert U.version == 4 and T.version == 1
