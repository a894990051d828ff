"""python -m describe [--left ADDRESS] [--right ADDRESS]

Makes a keyspace with every kind of element on Helenus and has Cassandra make what DESCRIBE prints of it, and the
other way round; both have to describe what they made in the same words. Starts both servers unless their
addresses are given. Exits with 1 at the first difference.

Functions are left out: those of Helenus are in Lua, which Cassandra has not, and masks if Cassandra does not have
`dynamic_data_masking_enabled`.
"""

import argparse
import sys

import harness
from harness.protocol import Connection, Failure

KEYSPACE = """CREATE KEYSPACE "Described" WITH replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 1} AND
durable_writes = false"""

STATEMENTS = [
    'CREATE TYPE "Described".inner (a int, "B" text)',
    'CREATE TYPE "Described"."Outer" (i frozen<inner>, l frozen<list<frozen<inner>>>, t tuple<int, text>)',
    'CREATE TABLE "Described".simple (k int PRIMARY KEY, v text)',
    """CREATE TABLE "Described"."AllOptions" ("K" int, "select" text, c timeuuid, d decimal, s text STATIC, v int,
    "o""p" blob, PRIMARY KEY (("K", "select"), c, d)) WITH CLUSTERING ORDER BY (c DESC, d ASC) AND
    additional_write_policy = '95p' AND allow_auto_snapshot = false AND bloom_filter_fp_chance = 0.05 AND
    caching = {'keys': 'NONE', 'rows_per_partition': '10'} AND cdc = true AND comment = 'it''s one' AND
    compaction = {'class': 'LeveledCompactionStrategy', 'sstable_size_in_mb': '50'} AND
    compression = {'class': 'ZstdCompressor', 'chunk_length_in_kb': '64', 'compression_level': '5'} AND
    crc_check_chance = 0.5 AND default_time_to_live = 3600 AND gc_grace_seconds = 60 AND incremental_backups = false
    AND max_index_interval = 1024 AND memtable_flush_period_in_ms = 60000 AND min_index_interval = 64 AND
    read_repair = 'NONE' AND speculative_retry = '10ms' AND extensions = {'note': 0xcafe}""",
    """CREATE TABLE "Described".types (k frozen<inner>, a ascii, bi bigint, bl blob, bo boolean, da date, de decimal,
    d double, du duration, f float, i inet, n int, sm smallint, te text, ti time, ts timestamp, tu timeuuid,
    t tinyint, u uuid, v varint, l list<int>, fl frozen<list<frozen<set<int>>>>, s set<text>,
    m map<text, frozen<map<int, frozen<inner>>>>, tup tuple<int, tuple<text, inner>>, o "Outer",
    ve vector<float, 3>, PRIMARY KEY (k))""",
    'CREATE TABLE "Described".counters (k int, c int, n counter, PRIMARY KEY (k, c)) WITH CLUSTERING ORDER BY (c DESC)',
    """CREATE TABLE "Described".windows (k int PRIMARY KEY) WITH compaction = {'class': 'TimeWindowCompactionStrategy',
    'compaction_window_unit': 'HOURS', 'compaction_window_size': '3'} AND compression = {'enabled': false}""",
    """CREATE TABLE "Described".unified (k int PRIMARY KEY) WITH compaction = {'class': 'UnifiedCompactionStrategy',
    'scaling_parameters': 'L4, T8'}""",
    'ALTER TABLE "Described".simple ADD w list<int>',
    'ALTER TABLE "Described".simple DROP v',
]
MASKS = [
    """CREATE TABLE "Described".masked (k int MASKED WITH mask_default() PRIMARY KEY, t text MASKED WITH mask_inner(1, null,
    '#'), n int MASKED WITH mask_replace(-7), o tuple<int, text> MASKED WITH mask_replace((1, 'x')))""",
]


def described(connection: Connection) -> list[str]:
    """The statements that DESCRIBE prints of the keyspace."""
    return [row[3].decode() for row in connection.query('DESCRIBE KEYSPACE "Described"').rows]


def pass_on(maker: Connection, other: Connection, statements: list[str]) -> str | None:
    """What differs, if anything does."""
    for connection in (maker, other):
        connection.query('DROP KEYSPACE IF EXISTS "Described"')
    maker.query(KEYSPACE)
    for statement in statements:
        maker.query(statement)
    first = described(maker)
    for statement in first:
        try:
            other.query(statement)
        except Failure as failure:
            return f"{statement}\n{failure}"
    second = described(other)
    for connection in (maker, other):
        connection.query('DROP KEYSPACE "Described"')
    if len(first) != len(second):
        return f"{len(first)} elements became {len(second)}"
    for a, b in zip(first, second):
        if a != b:
            return f"{a}\nbecame\n{b}"
    return None


def allows_masks(connection: Connection) -> bool:
    rows = connection.query("SELECT value FROM system_views.settings WHERE name = 'dynamic_data_masking_enabled'").rows
    return rows == [(b"true",)]


def main() -> int:
    parser = argparse.ArgumentParser(prog="describe", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--left", help="address of Helenus (default: starts it)")
    parser.add_argument("--right", help="address of Cassandra (default: starts it)")
    arguments = parser.parse_args()
    started = []
    try:
        addresses = []
        for kind, address in (("helenus", arguments.left), ("cassandra", arguments.right)):
            if not address:
                started.append(harness.make(kind).start())
                address = started[-1].address
            addresses.append(address)
        left, right = (Connection(address) for address in addresses)
        statements = STATEMENTS + (MASKS if allows_masks(left) and allows_masks(right) else [])
        for maker, other, direction in ((left, right, "to Cassandra"), (right, left, "from Cassandra")):
            difference = pass_on(maker, other, statements)
            if difference:
                print(f"{direction}: {difference}")
                return 1
            print(f"{direction}: {len(statements)} statements came through DESCRIBE unchanged")
        return 0
    finally:
        for server in started:
            server.stop()


if __name__ == "__main__":
    sys.exit(main())
