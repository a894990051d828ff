"""The tables of the project's own corpus, and what is written to them: see generate.py.

A definition has a name, the statements that make its types and its table, and *rounds* of statements, after each of
which memtables are flushed. `{ks}` stands for the keyspace. ALTER TABLE statements may stand in the rounds; they
become part of schema.cql. Timestamps are given by the order of the statements.

What CQL cannot write to a table, as rows that are hidden behind COMPACT STORAGE, is written to a *twin*, a table whose
files look the same, and imported.
"""

import dataclasses
import random

OPTIONS = "compaction = {'class': 'SizeTieredCompactionStrategy', 'enabled': 'false'} AND gc_grace_seconds = 315360000"
YEARS = 315360000


@dataclasses.dataclass
class Definition:
    name: str
    table: str
    rounds: list[list[str]]
    types: list[str] = dataclasses.field(default_factory=list)
    options: str = ""
    # The columns of the twin, and what is written to it: `{ks}.<name>_twin`.
    twin: str = ""
    twin_writes: list[str] = dataclasses.field(default_factory=list)


def text(randomness: random.Random, least: int, most: int) -> str:
    letters = "abcdefghijklmnopqrstuvwxyz äöüßéλж"
    return "".join(randomness.choice(letters) for _ in range(randomness.randint(least, most)))


def types() -> Definition:
    columns = {
        "a": "ascii", "b": "bigint", "bl": "blob", "bo": "boolean", "d": "date", "de": "decimal", "dou": "double", "du": "duration",
        "f": "float", "i": "inet", "n": "int", "s": "smallint", "t": "text", "ti": "time", "ts": "timestamp", "tu": "timeuuid",
        "u": "uuid", "tiny": "tinyint", "v": "varint", "vec": "vector<float, 3>",
    }  # fmt: skip
    rows = [
        "1, 'ascii', 1, 0xcafe, true, '2024-02-29', 1.50, 2.5, 1mo2d3ns, 0.1, '10.1.2.3', 42, 7, 'größe', '08:12:54.123456789', "
        "'2023-11-14 22:13:20.123+0000', 50554d6e-29bb-11e5-b345-feff819cdc9f, 123e4567-e89b-12d3-a456-426614174000, 3, 12345678901234567890, [1, -2.5, 3]",
        "2, '', -9223372036854775808, 0x, false, '0001-01-01', -1E-30, -0.0, -89h, -1.5e38, '::1', -2147483648, -32768, '', '00:00:00', "
        "-62167219200000, 50554d6e-29bb-11e5-b345-feff819cdc9f, 00000000-0000-0000-0000-000000000000, -128, -1, [0, 0, 0]",
        "3, 'z', 9223372036854775807, 0x00, true, '9999-12-31', 123456789012345678901234567890.123, NaN, 10y, Infinity, '2001:db8::ff', "
        "2147483647, 32767, '\U0001f600 \"q\" \\', '23:59:59.999999999', 253402300799999, 50554d6e-29bb-11e5-b345-feff819cdc9f, "
        "ffffffff-ffff-ffff-ffff-ffffffffffff, 127, 0, [0.5, 1e-20, -0.0]",
    ]
    writes = [f"INSERT INTO {{ks}}.types (k, {', '.join(columns)}) VALUES ({row})" for row in rows]
    writes += ["INSERT INTO {ks}.types (k) VALUES (4)", "INSERT INTO {ks}.types (k, n, t) VALUES (5, null, 'with null')"]
    table = ", ".join(f"{name} {ty}" for name, ty in columns.items())
    return Definition("types", f"(k int PRIMARY KEY, {table})", [writes])


def empties() -> Definition:
    writes = [
        "INSERT INTO {ks}.empties (k, c, n, t, l) VALUES ('a', '', blob_as_int(0x), '', [])",
        "INSERT INTO {ks}.empties (k, c, n, u) VALUES ('b', 'x', 1, blob_as_uuid(0x))",
    ]
    return Definition("empties", "(k text, c text, n int, t text, u uuid, l frozen<list<int>>, PRIMARY KEY (k, c))", [writes])


def collections() -> Definition:
    table = (
        "(k int PRIMARY KEY, l list<int>, s set<text>, m map<text, int>, fl frozen<list<text>>, fm frozen<map<int, frozen<set<int>>>>, "
        "n map<int, frozen<list<text>>>)"
    )
    first = [
        "INSERT INTO {ks}.collections (k, l, s, m, fl, fm, n) VALUES (1, [3, 1, 2], {'b', 'a'}, {'x': 1, 'y': 2}, ['p', 'q'], {1: {2, 3}}, {1: ['a'], 2: []})",
        "INSERT INTO {ks}.collections (k, l, s, m) VALUES (2, [], {}, {})",
        "UPDATE {ks}.collections SET l = l + [4], s = s + {'c'}, m['z'] = 3 WHERE k = 1",
        "UPDATE {ks}.collections USING TTL %d SET s = s + {'expiring'}, m['later'] = 9 WHERE k = 3" % YEARS,
    ]
    second = [
        "UPDATE {ks}.collections SET l = [0] + l, m = m - {'x'} WHERE k = 1",
        "DELETE s['a'], m['y'] FROM {ks}.collections WHERE k = 1",
        "UPDATE {ks}.collections SET s = {'whole'}, n = {7: ['new']} WHERE k = 2",
        "DELETE l FROM {ks}.collections WHERE k = 3",
    ]
    return Definition("collections", table, [first, second])


def user_types() -> Definition:
    made = [
        "CREATE TYPE {ks}.street (name text, number int)",
        "CREATE TYPE {ks}.person (name text, home frozen<street>, born date, tags frozen<set<text>>)",
    ]
    table = "(k int, c int, p person, fp frozen<person>, people list<frozen<person>>, t tuple<int, text, frozen<street>>, s street static, PRIMARY KEY (k, c))"
    home = "{name: 'Elm', number: 3}"
    first = [
        f"INSERT INTO {{ks}}.user_types (k, c, p, fp, people, t) VALUES (1, 1, {{name: 'ada', home: {home}}}, {{name: 'ada', born: '1815-12-10'}}, "
        f"[{{name: 'x'}}, {{tags: {{'a', 'b'}}}}], (1, null, {home}))",
        f"INSERT INTO {{ks}}.user_types (k, c, p) VALUES (1, 2, {{name: 'bob', home: {home}, tags: {{'q'}}}})",
        "UPDATE {ks}.user_types SET s = {name: 'static', number: 1} WHERE k = 1",
    ]
    second = [
        "UPDATE {ks}.user_types SET p.born = '1900-01-01' WHERE k = 1 AND c = 2",
        "UPDATE {ks}.user_types SET p.home = null, s.number = 2 WHERE k = 1 AND c = 2",
        "UPDATE {ks}.user_types SET p = {name: 'new'} WHERE k = 1 AND c = 1",
    ]
    return Definition("user_types", table, [first, second], made)


def deletions() -> Definition:
    table = "(k int, a int, b text, v text, s int static, PRIMARY KEY (k, a, b))"
    rows = [
        f"INSERT INTO {{ks}}.deletions (k, a, b, v) VALUES ({k}, {a}, '{b}', 'v{k}{a}{b}')" for k in range(6) for a in range(5) for b in "xyz"
    ]
    rows += [f"UPDATE {{ks}}.deletions SET s = {k} WHERE k = {k}" for k in range(0, 6, 2)]
    gone = [
        "DELETE FROM {ks}.deletions WHERE k = 0",
        "INSERT INTO {ks}.deletions (k, a, b, v) VALUES (0, 2, 'y', 'again')",
        "DELETE FROM {ks}.deletions WHERE k = 1 AND a = 2",
        "DELETE FROM {ks}.deletions WHERE k = 1 AND a >= 3",
        "DELETE FROM {ks}.deletions WHERE k = 2 AND a > 0 AND a < 3",
        "DELETE FROM {ks}.deletions WHERE k = 2 AND a = 4 AND b > 'x'",
        "DELETE v FROM {ks}.deletions WHERE k = 3 AND a = 1 AND b = 'x'",
        "DELETE FROM {ks}.deletions WHERE k = 3 AND a = 1 AND b = 'y'",
        "DELETE s FROM {ks}.deletions WHERE k = 4",
        "DELETE FROM {ks}.deletions WHERE k = 4 AND a < 1",
        "DELETE FROM {ks}.deletions WHERE k = 4 AND a >= 1 AND a <= 2",
        "UPDATE {ks}.deletions SET v = null WHERE k = 5 AND a = 0 AND b = 'z'",
        "DELETE FROM {ks}.deletions WHERE k = 9",
    ]
    return Definition("deletions", table, [rows, gone, ["DELETE FROM {ks}.deletions WHERE k = 5 AND a = 3"]])


def wide(randomness: random.Random) -> Definition:
    table = "(k text, a int, b timestamp, v text, s text static, PRIMARY KEY (k, a, b)) WITH CLUSTERING ORDER BY (a DESC, b ASC)"
    rows = [
        f"INSERT INTO {{ks}}.wide (k, a, b, v) VALUES ('wide', {i // 3}, {1_700_000_000_000 + i}, '{text(randomness, 60, 200)}')" for i in range(700)
    ]
    rows += ["UPDATE {ks}.wide SET s = 'static' WHERE k = 'wide'", "DELETE FROM {ks}.wide WHERE k = 'wide' AND a > 40 AND a < 90"]
    rows += ["INSERT INTO {ks}.wide (k, a, b, v) VALUES ('narrow', 1, 1, 'one')"]
    more = ["DELETE FROM {ks}.wide WHERE k = 'wide' AND a >= 200", "DELETE FROM {ks}.wide WHERE k = 'wide' AND a = 100 AND b > 0"]
    return Definition("wide", table, [rows, more])


def counters() -> Definition:
    rounds = [[f"UPDATE {{ks}}.counters SET n = n + {k + 1}, m = m - 1 WHERE k = {k} AND c = {c}" for k in range(4) for c in range(3)] for _ in range(2)]
    rounds[1] += ["DELETE n FROM {ks}.counters WHERE k = 1 AND c = 1", "DELETE FROM {ks}.counters WHERE k = 2"]
    return Definition("counters", "(k int, c int, n counter, m counter, PRIMARY KEY (k, c))", rounds)


def expiring() -> Definition:
    writes = [f"INSERT INTO {{ks}}.expiring (k, v, w) VALUES ({k}, 'v{k}', {k}) USING TTL {YEARS - k}" for k in range(8)]
    writes += [f"UPDATE {{ks}}.expiring USING TTL {YEARS + 9} SET w = 100 WHERE k = {k}" for k in range(0, 8, 3)]
    writes += ["INSERT INTO {ks}.expiring (k, v) VALUES (20, 'for ever')", "UPDATE {ks}.expiring USING TTL 0 SET v = 'stays' WHERE k = 1"]
    return Definition("expiring", "(k int PRIMARY KEY, v text, w int)", [writes])


def dropped() -> Definition:
    first = [f"INSERT INTO {{ks}}.dropped (k, keep, gone, back, l) VALUES ({k}, {k}, 'gone{k}', 'old{k}', [1, 2]) " for k in range(10)]
    second = ["ALTER TABLE {ks}.dropped DROP gone USING TIMESTAMP {now}", "ALTER TABLE {ks}.dropped DROP back USING TIMESTAMP {now}"]
    second += ["ALTER TABLE {ks}.dropped DROP l USING TIMESTAMP {now}", "ALTER TABLE {ks}.dropped ADD back text", "ALTER TABLE {ks}.dropped ADD fresh int"]
    second += [f"INSERT INTO {{ks}}.dropped (k, keep, back, fresh) VALUES ({k}, {k}, 'new{k}', {k})" for k in range(5, 15)]
    return Definition("dropped", "(k int PRIMARY KEY, keep int, gone text, back text, l list<int>)", [first, second])


def keys() -> Definition:
    table = "(a int, b text, c decimal, d inet, v int, PRIMARY KEY ((a, b), c, d)) WITH CLUSTERING ORDER BY (c DESC, d ASC)"
    writes = [
        f"INSERT INTO {{ks}}.keys (a, b, c, d, v) VALUES ({i % 7}, 'b:{i % 3}', {i % 11 - 5}.{i % 10}, '10.0.0.{i % 5}', {i})" for i in range(120)
    ]
    return Definition("keys", table, [writes])


def keys_only() -> Definition:
    return Definition("keys_only", "(k text PRIMARY KEY)", [[f"INSERT INTO {{ks}}.keys_only (k) VALUES ('key {k}')" for k in range(30)]])


def dense() -> Definition:
    writes = [f"INSERT INTO {{ks}}.dense (k, c1, c2, v) VALUES ('{k}', {c}, 'x{c}', 'value {k}{c}')" for k in "abc" for c in range(4)]
    writes += ["DELETE FROM {ks}.dense WHERE k = 'a' AND c1 = 1 AND c2 = 'x1'"]
    return Definition("dense", "(k text, c1 int, c2 text, v text, PRIMARY KEY (k, c1, c2)) WITH COMPACT STORAGE", [writes])


def compact_static() -> Definition:
    table = "(k text PRIMARY KEY, a int, b text, c frozen<list<int>>) WITH COMPACT STORAGE"
    first = [f"INSERT INTO {{ks}}.compact_static (k, a, b, c) VALUES ('key {k}', {k}, 'text {k}', [{k}])" for k in range(12)]
    first += [
        "INSERT INTO {ks}.compact_static (k, a) VALUES ('one column', 1)",
        "INSERT INTO {ks}.compact_static (k, b) VALUES ('null only', null)",
        "INSERT INTO {ks}.compact_static (k, a, b) VALUES ('expires', 1, 'late') USING TTL %d" % YEARS,
    ]
    second = [
        "UPDATE {ks}.compact_static SET b = '', c = null WHERE k = 'key 1'",
        "DELETE a FROM {ks}.compact_static WHERE k IN ('key 2', 'one column')",
        "DELETE FROM {ks}.compact_static WHERE k = 'key 3'",
        "DELETE FROM {ks}.compact_static WHERE k = 'key 4'",
        "INSERT INTO {ks}.compact_static (k, b) VALUES ('key 4', 'again')",
    ]
    twin = "(k text, column1 text, value blob, a int static, b text static, c frozen<list<int>> static, PRIMARY KEY (k, column1))"
    hidden = [
        f"UPDATE {{ks}}.compact_static_twin SET value = 0x0{c} WHERE k = '{k}' AND column1 = 'hidden {c}'"
        for k in ("key 5", "hidden", "key 6")
        for c in range(3)
    ]
    hidden += [
        "UPDATE {ks}.compact_static_twin SET a = 66 WHERE k = 'key 6'",
        "DELETE value FROM {ks}.compact_static_twin WHERE k = 'key 6' AND column1 = 'hidden 1'",
    ]
    return Definition("compact_static", table, [first, second], twin=twin, twin_writes=hidden)


def compact_no_value() -> Definition:
    writes = [f"INSERT INTO {{ks}}.compact_no_value (k, c1, c2) VALUES ('{k}', {c}, 'x{c}')" for k in "abc" for c in range(5)]
    writes += ["INSERT INTO {ks}.compact_no_value (k, c1, c2) VALUES ('d', 1, 'late') USING TTL %d" % YEARS]
    gone = [
        "DELETE FROM {ks}.compact_no_value WHERE k = 'a' AND c1 = 1 AND c2 = 'x1'",
        "DELETE FROM {ks}.compact_no_value WHERE k = 'a' AND c1 > 3",
        "DELETE FROM {ks}.compact_no_value WHERE k = 'c'",
    ]
    table = "(k text, c1 int, c2 text, PRIMARY KEY (k, c1, c2)) WITH COMPACT STORAGE"
    # Not without c2, which is allowed: Cassandra's sstabledump fails on such a row.
    return Definition("compact_no_value", table, [writes, gone])


def many() -> Definition:
    writes = [f"INSERT INTO {{ks}}.many (k, v) VALUES ({k}, {k * k})" for k in range(900)]
    return Definition("many", "(k int PRIMARY KEY, v bigint)", [writes])


def plain(randomness: random.Random, name: str, options: str) -> Definition:
    writes = [
        f"INSERT INTO {{ks}}.{name} (k, c, v) VALUES ({k}, {c}, '{text(randomness, 20, 90)}')" for k in range(60) for c in range(3)
    ]
    return Definition(name, "(k int, c int, v text, PRIMARY KEY (k, c))", [writes], options=options)


def all_definitions() -> list[Definition]:
    randomness = random.Random(1)
    compressed = {
        "plain": "{'class': 'LZ4Compressor', 'chunk_length_in_kb': '4'}",
        "plain_none": "{'enabled': 'false'}",
        "zstd": "{'class': 'ZstdCompressor', 'chunk_length_in_kb': '16'}",
        "snappy": "{'class': 'SnappyCompressor', 'chunk_length_in_kb': '4'}",
        "deflate": "{'class': 'DeflateCompressor', 'chunk_length_in_kb': '64'}",
    }
    plains = [plain(randomness, name, f"compression = {options}") for name, options in compressed.items()]
    no_filter = plain(randomness, "no_filter", "bloom_filter_fp_chance = 1")
    made = [types(), empties(), collections(), user_types(), deletions(), wide(randomness), counters(), expiring(), dropped()]
    return made + [keys(), keys_only(), dense(), compact_static(), compact_no_value(), many(), no_filter, *plains]
