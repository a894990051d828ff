"""What is written: hand-made tables with every shape of data, and generated sequences.

`write` runs it on a server and gives the schema statements that it took; `Question`s are what is
asked of both servers afterwards.
"""

import struct

from differential.generator import sequence
from differential.runner import Runner
from differential.values import NATIVE

KEYSPACE = "written"
SEEDS = range(9001, 9007)
WIDE = 20_000
# Rows with clusterings of so many bytes: enough for the index of their partition to be thinned.
THICK = 400
THICK_BYTES = 60_000
COMPOSITES = 4000


def number(value: int) -> bytes:
    return struct.pack(">i", value)


def statements() -> list:
    """(text, values, timestamp) of the hand-made tables."""
    types = [f"c_{name} {name}" for name in NATIVE]
    made = [
        (f"CREATE TABLE natives (k int PRIMARY KEY, {', '.join(types)})", [], 1),
        ("CREATE TYPE place (street text, zip int)", [], 1),
        ("CREATE TABLE multi (k int, c int, l list<int>, s set<text>, m map<text, blob>, p place, fp frozen<place>, "
         "t tuple<int, text>, st set<int> static, x text static, PRIMARY KEY (k, c))", [], 1),
        ("CREATE TABLE wide (k text, a int, b text, v blob, s int static, PRIMARY KEY (k, a, b)) "
         "WITH CLUSTERING ORDER BY (a DESC, b ASC)", [], 1),
        ("CREATE TABLE thick (k int, c text, v int, PRIMARY KEY (k, c))", [], 1),
        ("CREATE TABLE ranges (k int, a int, b int, c int, v int, PRIMARY KEY (k, a, b, c))", [], 1),
        ("CREATE TABLE composites (k int, c 'CompositeType(UTF8Type, ReversedType(Int32Type))', "
         "d 'DynamicCompositeType(s => UTF8Type, r => ReversedType(Int32Type))', v blob, s set<'CompositeType(Int32Type, UTF8Type)'>, "
         "PRIMARY KEY (k, c, d)) WITH CLUSTERING ORDER BY (c DESC, d ASC)", [], 1),
        ("CREATE TABLE composite_keys (k 'CompositeType(UTF8Type, Int32Type)' PRIMARY KEY, v 'DynamicCompositeType(s => UTF8Type)')", [], 1),
        ("CREATE TABLE fading (k int PRIMARY KEY, v text, w int) WITH default_time_to_live = 1000000", [], 1),
        ("CREATE TABLE plain (k int PRIMARY KEY, v text) WITH compression = {'enabled': false}", [], 1),
        ("CREATE TABLE zstd (k int PRIMARY KEY, v text) WITH compression = {'class': 'ZstdCompressor'}", [], 1),
        ("CREATE TABLE snappy (k int PRIMARY KEY, v text) WITH compression = {'class': 'SnappyCompressor', 'chunk_length_in_kb': 4}", [], 1),
        ("CREATE TABLE deflate (k int PRIMARY KEY, v text) WITH compression = {'class': 'DeflateCompressor'}", [], 1),
    ]  # fmt: skip
    made += natives() + multi_cells() + wide() + thick() + ranges() + composites() + fading()
    for table in ("plain", "zstd", "snappy", "deflate"):
        made += [(f"INSERT INTO {table} (k, v) VALUES (?, ?)", [number(k), b"text %d " % k * (k % 50)], 100) for k in range(300)]
    return made


def natives() -> list:
    made = []
    for column, (name, values) in enumerate(NATIVE.items()):
        for i, (_, data) in enumerate(values):
            made.append((f"INSERT INTO natives (k, c_{name}) VALUES (?, ?)", [number(i), data], 100 + column))
    made.append(("DELETE FROM natives WHERE k = 2", [], 110))
    made.append(("DELETE c_text, c_int FROM natives WHERE k = 0", [], 500))
    return made


def multi_cells() -> list:
    made = []
    for k in range(5):
        for c in range(20):
            made.append(("INSERT INTO multi (k, c, l, s, m, p, fp, t) VALUES (?, ?, [3, 1, 2], {'a', 'b'}, {'x': 0x01, 'y': 0x}, "
                         "{street: 'Hill', zip: 1}, {street: null, zip: 2}, (1, null))", [number(k), number(c)], 100 + c))  # fmt: skip
        made.append(("UPDATE multi SET st = st + {1, 2}, x = 'static' WHERE k = ?", [number(k)], 90))
    made += [
        ("UPDATE multi SET l = l + [9], s = s - {'a'}, m['x'] = 0xff, p.zip = 7 WHERE k = 1 AND c = 1", [], 200),
        ("UPDATE multi SET m = {'only': 0x02}, s = {} WHERE k = 1 AND c = 2", [], 200),
        ("DELETE m['y'], p.street FROM multi WHERE k = 1 AND c = 3", [], 200),
        ("DELETE FROM multi WHERE k = 2 AND c >= 5 AND c < 15", [], 200),
        ("DELETE FROM multi WHERE k = 3", [], 110),
        ("DELETE st FROM multi WHERE k = 4", [], 200),
        ("UPDATE multi USING TTL 500000 SET s = s + {'ttl'} WHERE k = 0 AND c = 0", [], 300),
    ]
    return made


def wide() -> list:
    """One partition of many index blocks, with tombstones that cross them."""
    made = [
        ("INSERT INTO wide (k, a, b, v) VALUES ('wide', ?, ?, ?)", [number(i // 10), b"b%d" % (i % 10), b"v" * (i % 200)], 100)
        for i in range(WIDE)
    ]
    made += [("INSERT INTO wide (k, a, b, v) VALUES (?, ?, 'b', 0x00)", [b"narrow %d" % i, number(i)], 100) for i in range(500)]
    made += [
        ("UPDATE wide SET s = 5 WHERE k = 'wide'", [], 100),
        ("DELETE FROM wide WHERE k = 'wide' AND a > 100 AND a < 600", [], 90),
        ("DELETE FROM wide WHERE k = 'wide' AND a >= 700 AND a <= 1200", [], 150),
        ("DELETE FROM wide WHERE k = 'wide' AND a = 50", [], 150),
        ("INSERT INTO wide (k, a, b, v) VALUES ('wide', 800, 'again', 0x01)", [], 200),
    ]
    return made


def thick_clustering(i: int) -> bytes:
    return (b"%04d" % i).ljust(THICK_BYTES, b".")


def thick() -> list:
    """One partition whose index would be as large as its data."""
    made = [("INSERT INTO thick (k, c, v) VALUES (1, ?, ?)", [thick_clustering(i), number(i)], 100) for i in range(THICK)]
    made.append(("DELETE FROM thick WHERE k = 1 AND c >= '0100' AND c < '0120'", [], 150))
    return made


def ranges() -> list:
    made = []
    for a in range(8):
        for b in range(8):
            made += [("INSERT INTO ranges (k, a, b, c, v) VALUES (1, ?, ?, ?, 1)", [number(a), number(b), number(c)], 100) for c in range(4)]
    made += [
        ("DELETE FROM ranges WHERE k = 1 AND a = 1", [], 200),
        ("DELETE FROM ranges WHERE k = 1 AND a >= 3 AND a <= 5", [], 50),
        ("DELETE FROM ranges WHERE k = 1 AND (a, b) > (4, 2) AND (a, b, c) <= (5, 3, 1)", [], 200),
        ("DELETE FROM ranges WHERE k = 1 AND a = 6 AND b < 4", [], 200),
        ("DELETE FROM ranges WHERE k = 1 AND a = 6 AND b >= 4 AND b < 6", [], 300),
        ("INSERT INTO ranges (k, a, b, c, v) VALUES (1, 6, 2, 2, 9)", [], 250),
        ("DELETE FROM ranges WHERE k = 2 AND a > 1", [], 200),
    ]
    return made


def composites() -> list:
    """Clusterings of components, some with fewer than others, in a partition of many index blocks."""
    made = []
    for i in range(COMPOSITES):
        first = f"n{i % 9}" if i % 13 == 0 else f"n{i % 9}:{i % 50 - 25}"
        second = (f"s@{i}", f"r@{i}", f"s@a:r@{i}", f"LongType@{i}:UTF8Type@x", f"ReversedType(UTF8Type)@{i}")[i % 5]
        made.append((f"INSERT INTO composites (k, c, d, v) VALUES (1, '{first}', '{second}', ?)", [b"v" * (i % 200)], 100))
    made += [(f"INSERT INTO composite_keys (k, v) VALUES ('k{i % 7}:{i}', 's@{i}:UTF8Type@')", [], 100) for i in range(50)]
    made += [
        ("INSERT INTO composite_keys (k, v) VALUES ('one', '')", [], 100),
        ("INSERT INTO composites (k, c, d) VALUES (1, '', '')", [], 100),
        ("INSERT INTO composites (k, c, d) VALUES (1, 'n2:3:!', 's@a:_')", [], 100),
        ("UPDATE composites SET s = {'2:a', '-1:b', '2'} WHERE k = 1 AND c = 'n1:7' AND d = 's@x'", [], 100),
        ("DELETE FROM composites WHERE k = 1 AND c > 'n3:4' AND c <= 'n4:4'", [], 150),
        ("DELETE FROM composites WHERE k = 1 AND c = 'n6:9' AND d >= 'r@300'", [], 150),
    ]
    return made


def fading() -> list:
    made = [("INSERT INTO fading (k, v, w) VALUES (?, 'v', 1)", [number(k)], 100) for k in range(50)]
    made += [("UPDATE fading USING TTL 0 SET w = 2 WHERE k = ?", [number(k)], 200) for k in range(0, 50, 5)]
    made += [("UPDATE fading USING TTL 2000000 SET v = 'longer' WHERE k = ?", [number(k)], 200) for k in range(0, 50, 7)]
    return made


def write(address: str) -> dict:
    """Writes everything; keyspace -> the schema statements that the server took."""
    schema = {}
    runner = Runner(address)
    runner.reset(KEYSPACE)
    schema[KEYSPACE] = []
    for text, values, timestamp in statements():
        result = runner.connection.query(text, values, timestamp=timestamp)
        if result.kind == "schema change":
            schema[KEYSPACE].append(text)
    for seed in SEEDS:
        keyspace = f"seed_{seed}"
        runner.reset(keyspace)
        schema[keyspace] = []
        for step in sequence(seed, 150):
            if runner.run(step)[0] == "schema change" and "cql" in step and not step["cql"].startswith("TRUNCATE"):
                schema[keyspace].append(step["cql"])
    return schema


def questions(address: str, keyspaces) -> list[str]:
    """Every row of every table, with the time of every plain column; slices of the wide partitions."""
    runner = Runner(address)
    asked = []
    for keyspace in keyspaces:
        tables = runner.connection.query(f"SELECT table_name FROM system_schema.tables WHERE keyspace_name = '{keyspace}'")
        for (table,) in tables.rows:
            table = table.decode()
            asked.append(f"SELECT * FROM {keyspace}.{table}")
            columns = runner.connection.query(
                f"SELECT column_name, kind FROM system_schema.columns WHERE keyspace_name = '{keyspace}' AND table_name = '{table}'"
            )
            for column, kind in columns.rows:
                if kind in (b"regular", b"static"):
                    name = column.decode()
                    asked.append(f"SELECT writetime({name}), ttl({name}) FROM {keyspace}.{table}")
    for where in ("a = 777", "a > 95 AND a < 105", "a >= 690 AND a <= 710", "a < 60 AND a > 40", "(a, b) >= (1199, 'b5')"):
        for order in ("", " ORDER BY a ASC, b DESC"):
            asked.append(f"SELECT a, b, s FROM {KEYSPACE}.wide WHERE k = 'wide' AND {where}{order}")
    for where in ("c >= '0390'", "c >= '0098' AND c < '0122'", "c < '0003'"):
        for order in ("ASC", "DESC"):
            asked.append(f"SELECT v FROM {KEYSPACE}.thick WHERE k = 1 AND {where} ORDER BY c {order}")
    for where in ("c > 'n2:3' AND c < 'n3'", "c = 'n1:7'", "c IN ('n5', 'n7:1')", "(c, d) >= ('n8:3', 'r@500')", "c = 'n6:9' AND d < 's@5'"):
        for order in ("", " ORDER BY c ASC, d DESC"):
            asked.append(f"SELECT c, d, v FROM {KEYSPACE}.composites WHERE k = 1 AND {where}{order}")
    asked.append(f"SELECT v, token(k) FROM {KEYSPACE}.composite_keys WHERE k = 'k3:3'")
    asked.append(f"SELECT DISTINCT k, s FROM {KEYSPACE}.wide")
    asked += [f"SELECT v FROM {KEYSPACE}.wide WHERE k = 'narrow {i}'" for i in range(0, 500, 50)]
    return asked
