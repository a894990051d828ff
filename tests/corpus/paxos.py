"""python -m corpus.paxos [FILE]

Writes the golden file of what a Cassandra keeps of lightweight transactions in `system.paxos`: has a real one run
conditional statements, and takes what they left in `most_recent_commit` or `proposal`, with what sstabledump says was
written. The first half is of a Cassandra with its default settings, the second of one without compatibility with 4.0.
Takes about two minutes.

    column TABLE NAME KIND POSITION ORDER TYPE
    table ID TABLE               the tables of that id have these columns
    > STATEMENT
    committed VERSION BYTES      what was learned
    | JSON                       and what that wrote, by sstabledump
    proposed VERSION BYTES       what was accepted and could not be learned (`-` if that was not tried)
"""

import argparse
import json
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import uuid

import harness
from harness.protocol import Connection, Failure

FILE = harness.server.ROOT / "crates/storage/src/sstable/tests/golden/paxos.golden"
TOOL = harness.server.ROOT / "tests" / "cassandra" / "tool.sh"
MODES = ["CASSANDRA_4", "NONE"]
# Writes to the second fail: what is proposed there stays proposed.
KEYSPACES = ["lwt", "refused"]
REPLICATION = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
MARSHAL = "org.apache.cassandra.db.marshal."
USER_TYPE = f"{MARSHAL}UserType(lwt,{b'u'.hex()},{b'f'.hex()}:{MARSHAL}Int32Type,{b'g'.hex()}:{MARSHAL}UTF8Type)"
# What the schema tables say, and Cassandra's class.
TYPES = {
    "ascii": "AsciiType", "bigint": "LongType", "blob": "BytesType", "boolean": "BooleanType", "date": "SimpleDateType",
    "decimal": "DecimalType", "double": "DoubleType", "duration": "DurationType", "float": "FloatType", "inet": "InetAddressType",
    "int": "Int32Type", "smallint": "ShortType", "text": "UTF8Type", "time": "TimeType", "timestamp": "TimestampType",
    "timeuuid": "TimeUUIDType", "tinyint": "ByteType", "uuid": "UUIDType", "varint": "IntegerType",
    "vector<float, 3>": f"VectorType({MARSHAL}FloatType , 3)",
    "list<int>": f"ListType({MARSHAL}Int32Type)",
    "set<text>": f"SetType({MARSHAL}UTF8Type)",
    "map<text, int>": f"MapType({MARSHAL}UTF8Type,{MARSHAL}Int32Type)",
    "frozen<map<text, int>>": f"FrozenType({MARSHAL}MapType({MARSHAL}UTF8Type,{MARSHAL}Int32Type))",
    "frozen<tuple<int, text>>": f"TupleType({MARSHAL}Int32Type,{MARSHAL}UTF8Type)",
    "u": USER_TYPE.removeprefix(MARSHAL),
    "frozen<u>": f"FrozenType({USER_TYPE})",
}  # fmt: skip
TABLES = {
    "plain": "(k int PRIMARY KEY, v int, t text)",
    "keys": "(k int, q text, c text, PRIMARY KEY ((k, q), c))",
    "wide": "(k int, a int, b text, v int, t text, s int static, st text static, PRIMARY KEY (k, a, b)) WITH CLUSTERING ORDER BY (a DESC, b ASC)",
    "types": "(k int PRIMARY KEY, a ascii, b bigint, bl blob, bo boolean, d date, de decimal, dou double, du duration, f float, i inet, "
    "n int, s smallint, t text, ti time, ts timestamp, tu timeuuid, u uuid, tiny tinyint, v varint, vec vector<float, 3>)",
    "deep": "(k int, c int, v int, l list<int>, e set<text>, m map<text, int>, fm frozen<map<text, int>>, t frozen<tuple<int, text>>, "
    "u u, fu frozen<u>, sm map<text, int> static, s int static, PRIMARY KEY (k, c))",
    "many": f"(k int, c int, {', '.join(f'v{n} int' for n in range(70))}, PRIMARY KEY (k, c))",
}
ALL_TYPES = (
    "'ascii', 1, 0xcafe, true, '2024-02-29', 1.50, 2.5, 1mo2d3ns, 0.1, '10.1.2.3', 42, 7, 'größe', '08:12:54.123456789', "
    "'2023-11-14 22:13:20.123+0000', 50554d6e-29bb-11e5-b345-feff819cdc9f, 123e4567-e89b-12d3-a456-426614174000, 3, 12345678901234567890, [1, -2.5, 3]"
)
TYPE_NAMES = "a, b, bl, bo, d, de, dou, du, f, i, n, s, t, ti, ts, tu, u, tiny, v, vec"
# Statements by table; each has a partition of its own, `{k}`. Where the condition is not met, nothing is proposed.
STATEMENTS = {
    "plain": [
        "INSERT INTO plain (k, v, t) VALUES ({k}, 1, 'one') IF NOT EXISTS",
        "INSERT INTO plain (k) VALUES ({k}) IF NOT EXISTS",
        "INSERT INTO plain (k, v, t) VALUES ({k}, 1, null) IF NOT EXISTS",
        "INSERT INTO plain (k, v, t) VALUES ({k}, blob_as_int(0x), '') IF NOT EXISTS",
        "INSERT INTO plain (k, v, t) VALUES ({k}, 1, 'gone') IF NOT EXISTS USING TTL 200000000",
        "UPDATE plain SET v = 2 WHERE k = {k} IF v = null",
        "UPDATE plain USING TTL 200000000 SET v = 2, t = 'two' WHERE k = {k} IF v = null",
        "UPDATE plain SET v = null, t = 'two' WHERE k = {k} IF v = null",
        "UPDATE plain SET v = 2 WHERE k = {k} IF v = 1",
        "UPDATE plain SET v = 2 WHERE k = {k} IF EXISTS",
        "DELETE FROM plain WHERE k = {k} IF v = null",
        "DELETE v FROM plain WHERE k = {k} IF t = null",
        "BEGIN BATCH INSERT INTO plain (k, v) VALUES ({k}, 1) IF NOT EXISTS; UPDATE plain USING TTL 200000000 SET t = 'x' WHERE k = {k}; APPLY BATCH",
    ],
    "keys": [
        "INSERT INTO keys (k, q, c) VALUES ({k}, 'größe', 'c') IF NOT EXISTS",
        "INSERT INTO keys (k, q, c) VALUES ({k}, '', '') IF NOT EXISTS",
        "BEGIN BATCH INSERT INTO keys (k, q, c) VALUES ({k}, 'q', 'a') IF NOT EXISTS; INSERT INTO keys (k, q, c) VALUES ({k}, 'q', 'b') IF NOT EXISTS; APPLY BATCH",
    ],
    "wide": [
        "INSERT INTO wide (k, a, b, v, t) VALUES ({k}, 1, 'x', 1, 't') IF NOT EXISTS",
        "INSERT INTO wide (k, a, b, v, s) VALUES ({k}, 1, 'x', 1, 9) IF NOT EXISTS",
        "INSERT INTO wide (k, s) VALUES ({k}, 9) IF NOT EXISTS",
        "UPDATE wide SET s = 1 WHERE k = {k} IF s = null",
        "UPDATE wide SET s = 1, st = null WHERE k = {k} IF s = null",
        "UPDATE wide SET v = 1 WHERE k = {k} AND a = -1 AND b = '' IF v = null",
        "UPDATE wide SET v = 1 WHERE k = {k} AND a IN (1) AND b = 'x' IF v = null AND s = null",
        "DELETE FROM wide WHERE k = {k} AND a = 1 AND b = 'x' IF v = null",
        "DELETE v, s FROM wide WHERE k = {k} AND a = 1 AND b = 'x' IF v = null",
        "DELETE s FROM wide WHERE k = {k} IF s = null",
        "BEGIN BATCH UPDATE wide SET s = 1 WHERE k = {k} IF s = null; DELETE FROM wide WHERE k = {k} AND a = 3; APPLY BATCH",
        "BEGIN BATCH UPDATE wide SET s = 1 WHERE k = {k} IF s = null; DELETE FROM wide WHERE k = {k} AND a > 3; "
        "DELETE FROM wide WHERE k = {k} AND a <= 3 AND a > 1; INSERT INTO wide (k, a, b, v) VALUES ({k}, 2, 'in', 1); "
        "INSERT INTO wide (k, a, b, v) VALUES ({k}, 7, 'in', 1); INSERT INTO wide (k, a, b, v) VALUES ({k}, 0, 'out', 1); APPLY BATCH",
        "BEGIN BATCH UPDATE wide SET s = 1 WHERE k = {k} IF s = null; DELETE FROM wide WHERE k = {k} AND a = 3 AND b >= 'x' AND b < 'y'; "
        "DELETE FROM wide WHERE k = {k} AND a = 3 AND b = 'y'; DELETE FROM wide WHERE k = {k} AND a < 0; APPLY BATCH",
        "BEGIN BATCH UPDATE wide SET s = 1 WHERE k = {k} IF s = null; DELETE FROM wide WHERE k = {k}; "
        "INSERT INTO wide (k, a, b, v) VALUES ({k}, 1, 'after', 1); APPLY BATCH",
        "BEGIN BATCH INSERT INTO wide (k, a, b, v) VALUES ({k}, 1, 'a', 1) IF NOT EXISTS; INSERT INTO wide (k, a, b, t) VALUES ({k}, 2, 'b', 't') IF NOT EXISTS; "
        "DELETE t FROM wide WHERE k = {k} AND a = 0 AND b = 'c' IF t = null; APPLY BATCH",
    ],
    "types": [
        f"INSERT INTO types (k, {TYPE_NAMES}) VALUES ({{k}}, {ALL_TYPES}) IF NOT EXISTS",
        f"INSERT INTO types (k, {TYPE_NAMES}) VALUES ({{k}}, {ALL_TYPES}) IF NOT EXISTS USING TTL 200000000",
        "INSERT INTO types (k, bl, i, u, v, ts) VALUES ({k}, 0x, '::1', blob_as_uuid(0x), -1, -62167219200000) IF NOT EXISTS",
        "DELETE " + TYPE_NAMES + " FROM types WHERE k = {k} IF n = null",
    ],
    "deep": [
        "INSERT INTO deep (k, c, v, l, e, m, fm, t, u, fu) VALUES ({k}, 1, 1, [1, 2, 3], {'x', ''}, {'a': 1, 'b': 2}, {'f': 1}, (1, 't'), "
        "{f: 1, g: 'g'}, {f: 2, g: null}) IF NOT EXISTS",
        "INSERT INTO deep (k, c, l, m, u) VALUES ({k}, 1, [], {'a': 1}, {g: 'g'}) IF NOT EXISTS USING TTL 200000000",
        "UPDATE deep SET l = l + [1, 2], e = e + {'x'}, m = m + {'a': 1} WHERE k = {k} AND c = 1 IF v = null",
        "UPDATE deep SET l = [0] + l, e = e - {'x'}, m = m - {'a'} WHERE k = {k} AND c = 1 IF v = null",
        "UPDATE deep SET m['a'] = 1, m['b'] = null, u.f = 1, u.g = null WHERE k = {k} AND c = 1 IF v = null",
        "UPDATE deep SET v = 1, l = [1], e = e + {'x'} WHERE k = {k} AND c = 1 IF v = null",
        "UPDATE deep SET sm = {'a': 1}, s = 1 WHERE k = {k} IF s = null",
        "UPDATE deep SET sm['a'] = 1 WHERE k = {k} IF s = null",
        "DELETE m, e['x'], u.f, v FROM deep WHERE k = {k} AND c = 1 IF v = null",
        "DELETE sm FROM deep WHERE k = {k} IF s = null",
    ],
    "many": [
        f"INSERT INTO many (k, c, {', '.join(f'v{n}' for n in range(70))}) VALUES ({{k}}, 1, {', '.join(str(n) for n in range(70))}) IF NOT EXISTS",
        "INSERT INTO many (k, c, v0, v1, v69) VALUES ({k}, 1, 0, 1, 69) IF NOT EXISTS",
        f"BEGIN BATCH INSERT INTO many (k, c, {', '.join(f'v{n}' for n in range(70))}) VALUES ({{k}}, 1, {', '.join(str(n) for n in range(70))}) IF NOT EXISTS; "
        f"INSERT INTO many (k, c, {', '.join(f'v{n}' for n in range(2, 70))}) VALUES ({{k}}, 2, {', '.join(str(n) for n in range(2, 70))}); "
        "UPDATE many SET v3 = 3, v5 = null WHERE k = {k} AND c = 3; APPLY BATCH",
    ],
}  # fmt: skip
# Only where times after 2038 are written.
LATE = {"plain": ["INSERT INTO plain (k, v, t) VALUES ({k}, 1, 'late') IF NOT EXISTS USING TTL 630000000"]}


class Maker:
    """One Cassandra, and what is taken of it."""

    def __init__(self, mode: str, folder: pathlib.Path):
        options = ["--yaml", f"storage_compatibility_mode: {mode}", "--jvm", f"-Dcassandra.test.fail_writes_ks={KEYSPACES[1]}"]
        self.server = harness.Cassandra(harness.free_address(), folder, options)
        self.mode = mode
        self.lines: list[str] = []

    def make(self) -> list[str]:
        self.server.start()
        try:
            with Connection(self.server.address, timeout=120) as connection:
                self.create(connection)
                cases = self.run(connection)
                dumps = self.dumps()
                for (table, k), (statement, committed, proposed) in cases.items():
                    self.lines += ["", f"> {statement}"]
                    if committed:
                        self.lines += ["committed " + committed, "| " + dumps[table, k]]
                    self.lines.append("proposed " + proposed)
        finally:
            self.server.stop()
        return self.lines

    def create(self, connection: Connection) -> None:
        for keyspace in KEYSPACES:
            connection.query(f"CREATE KEYSPACE {keyspace} WITH replication = {REPLICATION}")
            connection.query(f"CREATE TYPE {keyspace}.u (f int, g text)")
            for table, columns in TABLES.items():
                connection.query(f"CREATE TABLE {keyspace}.{table} {columns}")
                if keyspace == KEYSPACES[0] and self.mode == MODES[0]:
                    self.columns(connection, keyspace, table)
        for keyspace in KEYSPACES:
            rows = connection.query(f"SELECT id, table_name FROM system_schema.tables WHERE keyspace_name = '{keyspace}'").rows
            self.lines += [f"table {uuid.UUID(bytes=id)} {table.decode()}" for id, table in rows]

    def columns(self, connection: Connection, keyspace: str, table: str) -> None:
        rows = connection.query(
            "SELECT column_name, kind, position, clustering_order, type FROM system_schema.columns "
            f"WHERE keyspace_name = '{keyspace}' AND table_name = '{table}'"
        ).rows
        for name, kind, position, order, ty in rows:
            position = max(0, struct.unpack(">i", position)[0])
            ty = MARSHAL + TYPES[ty.decode()]
            self.lines.append(f"column {table} {name.decode()} {kind.decode()} {position} {order.decode()} {ty}")

    def run(self, connection: Connection) -> dict:
        """By table and key: the statement, what was learned, what was proposed."""
        cases, k = {}, 0
        for table, statements in STATEMENTS.items():
            for statement in statements + (LATE.get(table, []) if self.mode == "NONE" else []):
                k += 1
                text = statement.replace("{k}", str(k))
                applied = self.execute(connection, KEYSPACES[0], text)
                committed = self.taken(connection, KEYSPACES[0], table, k, "most_recent_commit") if applied else None
                if applied:
                    try:
                        self.execute(connection, KEYSPACES[1], text)
                        raise SystemExit(f"nothing stays proposed: {text}")
                    except Failure:
                        pass
                proposed = self.taken(connection, KEYSPACES[applied], table, k, "proposal")
                cases[table, str(k)] = text, committed, proposed
        return cases

    def execute(self, connection: Connection, keyspace: str, text: str) -> bool:
        """Was the condition met?"""
        text = re.sub(r"\b(INTO|UPDATE|FROM) (\w+)", rf"\1 {keyspace}.\2", text)
        return connection.query(text).rows[0][0] == b"\1"

    def taken(self, connection: Connection, keyspace: str, table: str, k: int, column: str) -> str:
        """The version and bytes that the row of a partition has."""
        rows = connection.query(f"SELECT row_key, cf_id, {column}, {column}_version FROM system.paxos").rows
        (id,) = connection.query(f"SELECT id FROM system_schema.tables WHERE keyspace_name = '{keyspace}' AND table_name = '{table}'").rows[0]
        k = struct.pack(">i", k)
        for key, table_id, content, version in rows:
            # A key of two columns has the length of the first before it.
            if table_id == id and (key == k or key.startswith(b"\0\4" + k)):
                return f"{struct.unpack('>i', version)[0]} {content.hex()}" if content else "-"
        return "-"

    def dumps(self) -> dict:
        """What sstabledump prints of a partition, by table and key."""
        subprocess.run([str(TOOL), "nodetool", "-h", self.server.address, "flush", KEYSPACES[0]], check=True, capture_output=True)
        found = {}
        for table in TABLES:
            (folder,) = (self.server.data / KEYSPACES[0]).glob(f"{table}-*")
            for path in folder.glob("*-Data.db"):
                command = [str(TOOL), "--data", str(self.server.directory), "sstabledump", str(path), "-l", "-t"]
                done = subprocess.run(command, check=True, capture_output=True, text=True)
                for line in done.stdout.splitlines():
                    found[table, json.loads(line)["partition"]["key"][0]] = line
        return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="corpus.paxos", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("file", nargs="?", type=pathlib.Path, default=FILE)
    arguments = parser.parse_args()
    lines = []
    for mode in MODES:
        with tempfile.TemporaryDirectory(prefix="helenus-paxos-") as folder:
            lines += Maker(mode, pathlib.Path(folder)).make()
    arguments.file.parent.mkdir(parents=True, exist_ok=True)
    arguments.file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(lines)} lines in {arguments.file}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
