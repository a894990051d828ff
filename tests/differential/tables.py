"""Schemas: a few tables and user types of one sequence, and how they change."""

import dataclasses
import random

from .values import Type, draw_type, native
from .weights import pick

OPTIONS = [
    "gc_grace_seconds = 5000",
    "comment = 'it''s told'",
    "compaction = {'class': 'SizeTieredCompactionStrategy', 'min_threshold': '6'}",
    "compaction = {'class': 'LeveledCompactionStrategy', 'sstable_size_in_mb': 10}",
    "compaction = {'class': 'TimeWindowCompactionStrategy', 'compaction_window_unit': 'HOURS'}",
    "compaction = {'class': 'UnifiedCompactionStrategy', 'scaling_parameters': 'T4'}",
    "compression = {'class': 'ZstdCompressor', 'chunk_length_in_kb': 64}",
    "compression = {'enabled': false}",
    "caching = {'keys': 'NONE', 'rows_per_partition': '10'}",
    "bloom_filter_fp_chance = 0.1",
    "speculative_retry = '50ms'",
    "additional_write_policy = '99p'",
    "memtable_flush_period_in_ms = 3600000",
    "min_index_interval = 64 AND max_index_interval = 512",
    "crc_check_chance = 0.5",
    "read_repair = 'NONE'",
    "cdc = false",
    "default_time_to_live = 864000",
    # Refused ones.
    "bloom_filter_fp_chance = 1.5",
    "gc_grace_seconds = 'x'",
    "compaction = {'class': 'NoSuchStrategy'}",
    "compaction = {'class': 'SizeTieredCompactionStrategy', 'nonsense': 'x'}",
    "compaction = {'min_threshold': '4'}",
    "compression = {'class': 'NoSuchCompressor'}",
    "compression = {'class': 'LZ4Compressor', 'chunk_length_in_kb': 3}",
    "caching = {'keys': 'SOME'}",
    "speculative_retry = 'sometimes'",
    "min_index_interval = 512 AND max_index_interval = 64",
    "no_such_option = 1",
    "default_time_to_live = -1",
]


@dataclasses.dataclass
class Column:
    """A column; kind is partition, clustering, static or regular."""

    name: str
    type: Type
    kind: str
    descending: bool = False


@dataclasses.dataclass
class Table:
    """A table as the generator believes it to be on the servers."""

    name: str
    columns: list
    # Are its columns besides the key counters?
    counters: bool = False

    def of(self, *kinds) -> list:
        return [c for c in self.columns if c.kind in kinds]

    @property
    def key(self):
        return self.of("partition")

    @property
    def clustering(self):
        return self.of("clustering")

    def create(self, rng: random.Random, options: bool) -> str:
        """The statement that creates it."""
        parts = [f"{c.name} {c.type.cql()}{' static' if c.kind == 'static' else ''}" for c in self.columns]
        partition = ", ".join(c.name for c in self.key)
        if len(self.key) == 1 and not self.clustering and rng.random() < 0.5:
            parts[self.columns.index(self.key[0])] += " PRIMARY KEY"
        else:
            partition = f"({partition})" if len(self.key) > 1 or rng.random() < 0.3 else partition
            parts.append("PRIMARY KEY (" + ", ".join([partition, *(c.name for c in self.clustering)]) + ")")
        properties = []
        if any(c.descending for c in self.clustering):
            order = ", ".join(f"{c.name} {'DESC' if c.descending else 'ASC'}" for c in self.clustering)
            properties.append(f"CLUSTERING ORDER BY ({order})")
        if options:
            properties += rng.sample(OPTIONS[:18], rng.randrange(1, 3))
        tail = " WITH " + " AND ".join(properties) if properties else ""
        return f"CREATE TABLE {self.name} ({', '.join(parts)}){tail}"


def draw_table(rng: random.Random, name: str, udts: list) -> Table:
    """A table of one of the usual shapes."""
    counters = pick(rng, "table") == "counters"
    columns = [Column(f"k{i}", draw_key(rng, udts), "partition") for i in range(rng.choice([1, 1, 1, 2, 3]))]
    clusterings = rng.choice([0, 1, 1, 2, 2, 3])
    for i in range(clusterings):
        ty = dataclasses.replace(draw_key(rng, udts), canonical=True)
        columns.append(Column(f"c{i}", ty, "clustering", rng.random() < 0.4))
    if counters:
        statics = [Column("s0", native("counter"), "static")] if clusterings and rng.random() < 0.5 else []
        columns += statics + [Column(f"v{i}", native("counter"), "regular") for i in range(rng.choice([1, 2]))]
        return Table(name, columns, True)
    if clusterings and rng.random() < 0.5:
        columns += [Column(f"s{i}", draw_type(rng, udts), "static") for i in range(rng.randrange(1, 3))]
    columns += [Column(f"v{i}", draw_type(rng, udts), "regular") for i in range(rng.choice([0, 1, 2, 2, 3, 4, 6]))]
    return Table(name, columns)


def draw_key(rng: random.Random, udts: list) -> Type:
    """Mostly plain keys, as they are in life, so that statements meet."""
    return native(rng.choice(["int", "text", "bigint"])) if rng.random() < 0.5 else draw_type(rng, udts, key=True).freeze()


def draw_udt(rng: random.Random, name: str, udts: list) -> Type:
    count = rng.randrange(1, 4)
    parts = tuple(draw_type(rng, udts, 1, key=True).freeze() for _ in range(count))
    return Type("udt", parts, name=name, fields=tuple(f"f{i}" for i in range(count)))


def create_udt(udt: Type) -> str:
    fields = ", ".join(f"{n} {t.cql()}" for n, t in zip(udt.fields, udt.parts))
    return f"CREATE TYPE {udt.name} ({fields})"
