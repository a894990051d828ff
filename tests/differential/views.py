"""Materialized views of the tables of a sequence."""

import dataclasses
import random

from .tables import OPTIONS, Column, Table
from .values import draw
from .weights import pick

# What may become a key beside those of the table: equal values of these have equal bytes.
PLAIN = ("ascii", "bigint", "blob", "boolean", "date", "int", "smallint", "text", "time", "timestamp", "tinyint", "uuid", "varint")


def draw_view(rng: random.Random, name: str, table: Table) -> Table | None:
    """A view as the generator believes it to be on the servers: the keys of the table in any order, at most one other
    column among them, and some of the rest. None where it could not be held against Cassandra's, which forgets the order
    of what descends in the table and is a partition key in the view, but only when it starts again."""
    keys = table.key + table.clustering
    more = [c for c in table.of("regular") if c.type.kind in PLAIN]
    if more and rng.random() < 0.7:
        keys.append(rng.choice(more))
    rng.shuffle(keys)
    keys.sort(key=lambda c: c.descending)
    ascending = sum(not c.descending for c in keys)
    partition = rng.randrange(1, ascending + 1) if rng.random() < 0.3 else 1
    if any(c.type.kind == "decimal" for c in table.key):
        # 1.0 and 1.00 are two partitions of the table and would be one row of the view.
        if ascending < len(keys):
            return None
        partition = len(keys)
    columns = []
    for i, c in enumerate(keys):
        kind = "partition" if i < partition else "clustering"
        ty = dataclasses.replace(c.type, canonical=True) if kind == "clustering" else c.type
        columns.append(Column(c.name, ty, kind, kind == "clustering" and rng.random() < 0.4))
    names = {c.name for c in keys}
    rest = [c for c in table.of("regular") if c.name not in names]
    share = rng.choice([1, 1, 0.5])
    columns += [Column(c.name, c.type, "regular") for c in rest if rng.random() < share]
    return Table(name, columns)


def create_view(rng: random.Random, view: Table, table: Table) -> str:
    """The statement that creates it; at times with a mistake."""
    mistake = pick(rng, "view")
    keys = view.key + view.clustering
    shown = [c.name for c in view.columns]
    is_all = len(shown) == len(table.columns)
    if mistake == "a static column" and table.of("static"):
        shown.append(table.of("static")[0].name)
    if mistake == "another function":
        shown.append(f"writetime({table.columns[-1].name})")
    where = [f"{c.name} IS NOT NULL" for c in keys]
    if mistake == "null keys":
        where.pop()
    if rng.random() < 0.15:
        # Rows that the view leaves out.
        c = rng.choice(table.key + table.clustering)
        operator = rng.choice(["=", ">", "<="]) if c.kind == "clustering" else "="
        value = draw(rng, c.type)[0]
        # Cassandra takes an empty key, and from then on refuses all writes of the table.
        if operator != "=" or value not in ("''", "0x"):
            where.append(f"{c.name} {operator} {value}")
    if mistake == "a key left out":
        keys = keys[:-1]
    partition = ", ".join(c.name for c in view.key if c in keys)
    clustering = [c.name for c in view.clustering if c in keys]
    primary = ", ".join([f"({partition})" if len(view.key) > 1 else partition, *clustering])
    order = ", ".join(f"{c.name} {'DESC' if c.descending else 'ASC'}" for c in view.clustering)
    properties = [f"CLUSTERING ORDER BY ({order})"] if any(c.descending for c in view.clustering) else []
    if rng.random() < 0.3:
        properties.append(rng.choice(OPTIONS))
    tail = " WITH " + " AND ".join(properties) if properties else ""
    selection = "*" if is_all and rng.random() < 0.5 else ", ".join(shown)
    return (
        f"CREATE MATERIALIZED VIEW {rng.choice(['', '', 'IF NOT EXISTS '])}{view.name} AS SELECT {selection} FROM {table.name} "
        f"WHERE {' AND '.join(where)} PRIMARY KEY ({primary}){tail}"
    )


def alter_view(rng: random.Random, view: Table) -> str:
    """ALTER MATERIALIZED VIEW with an option, which may be a wrong one."""
    return f"ALTER MATERIALIZED VIEW {rng.choice(['', 'IF EXISTS '])}{view.name} WITH {rng.choice(OPTIONS)}"
