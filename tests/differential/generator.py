"""A seed makes a sequence: a schema, then writes and reads, with changes and mistakes between.

A step is a dictionary, so that JSON can hold it:

    {"cql": text}                                   QUERY with the text
    {"cql": text, "values": [hex | null | "unset"]} QUERY with values, or EXECUTE if "prepare"
    {"batch": [[text, [values]]...], "kind": 0 | 1} BATCH
    "timestamp": the request's timestamp; "page": rows a page
"""

import random

from .statements import Statements, Writer, spoil
from .tables import create_udt, draw_table, draw_udt


def hexed(values):
    return [v if v is None or v == "unset" else v.hex() for v in values]


class Sequence:
    """Draws the steps of one seed."""

    def __init__(self, seed: int, conditional: bool = False):
        self.rng = random.Random(seed)
        # Does it write on conditions?
        self.conditional = conditional
        self.statements = Statements(self.rng, self.conditional)
        self.steps, self.tables, self.udts = [], [], []
        self.spare = 0

    def step(self, **step):
        # What is agreed upon has the servers' time, and so has all else beside it.
        step["timestamp"] = None if self.conditional else self.rng.randrange(1, 30)
        self.steps.append(step)

    def build(self, length: int) -> list[dict]:
        for i in range(self.rng.choice([0, 0, 1, 2])):
            udt = draw_udt(self.rng, f"u{i}", self.udts)
            self.udts.append(udt)
            self.step(cql=create_udt(udt))
        for i in range(self.rng.choice([1, 1, 2])):
            table = draw_table(self.rng, f"t{i}", self.udts)
            self.tables.append(table)
            self.step(cql=table.create(self.rng, self.rng.random() < 0.4))
        while len(self.steps) < length:
            self.draw()
        for table in self.tables:
            self.step(cql=f"SELECT * FROM {table.name}")
            if self.rng.random() < 0.3:
                self.step(cql=f"DESCRIBE TABLE {table.name}")
        return self.steps

    def draw(self):
        table, roll = self.rng.choice(self.tables), self.rng.random()
        if roll < 0.035:
            return self.schema_change(table)
        if roll < 0.08:
            return self.batch()
        w = Writer(self.rng, self.rng.random() < 0.5)
        text = self.write(table, w) if roll < 0.55 else self.statements.select(table, w)
        if self.rng.random() < 0.06 and not w.bound:
            text = spoil(self.rng, text)
        step = {"cql": text}
        if w.values:
            step["values"] = hexed(w.values)
            step["prepare"] = self.rng.random() < 0.6
        if roll >= 0.55 and self.rng.random() < 0.4:
            step["page"] = self.rng.choice([1, 2, 3, 5, 100])
        self.step(**step)

    def write(self, table, w) -> str:
        roll = self.rng.random()
        if roll < 0.5:
            return self.statements.insert(table, w)
        return self.statements.update(table, w) if roll < 0.75 else self.statements.delete(table, w)

    def batch(self):
        """A batch; one with conditions mostly of one partition."""
        if self.conditional and self.rng.random() < 0.8:
            self.statements.key = {}
            tables, self.tables = self.tables, [self.rng.choice(self.tables)]
            self.batch_of_any()
            self.statements.key, self.tables = None, tables
            return
        self.batch_of_any()

    def batch_of_any(self):
        if self.rng.random() < 0.3:
            w = Writer(self.rng, False)
            kind = self.rng.choice(["", "UNLOGGED "])
            using = self.rng.choice(["", f" USING TIMESTAMP {self.rng.randrange(1, 30)}"])
            body = "; ".join(self.write(self.rng.choice(self.tables), w) for _ in range(self.rng.randrange(1, 5)))
            self.step(cql=f"BEGIN {kind}BATCH{using} {body}; APPLY BATCH")
            return
        children = []
        for _ in range(self.rng.randrange(1, 6)):
            w = Writer(self.rng, self.rng.random() < 0.7)
            text = self.write(self.rng.choice(self.tables), w)
            children.append([text, hexed(w.values), bool(w.values) and self.rng.random() < 0.5])
        self.step(batch=children, kind=self.rng.choice([0, 1]))

    def schema_change(self, table):
        roll = self.rng.random()
        self.spare += 1
        if roll < 0.5:
            text, effect = self.statements.alter(table, self.udts, self.spare)
            self.step(cql=text)
            # Only what servers accept: the key stays, and only key columns are renamed.
            column_gone = " DROP " in text
            renamed = " RENAME " in text
            keys = {c.name for c in table.key + table.clustering}
            subject = text.split()[4] if column_gone or renamed else ""
            if not (column_gone and subject in keys) and not (renamed and subject not in keys):
                effect()
        elif roll < 0.6:
            self.step(cql=f"TRUNCATE {table.name}")
        elif roll < 0.7:
            self.step(cql=table.create(self.rng, False).replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS"))
        elif roll < 0.78:
            self.step(cql=table.create(self.rng, True))
        elif roll < 0.84:
            fresh = draw_table(self.rng, f"x{self.spare}", self.udts)
            self.step(cql=spoil(self.rng, fresh.create(self.rng, True)))
        elif roll < 0.9 and self.udts:
            self.step(cql=f"DROP TYPE {self.rng.choice(self.udts).name}")
        elif roll < 0.95:
            self.step(cql="SELECT column_name, kind, position, type, clustering_order FROM system_schema.columns "
                          f"WHERE keyspace_name = '{{keyspace}}' AND table_name = '{table.name}'")
        else:
            self.step(cql=f"DROP TABLE IF EXISTS nosuch{self.spare}")


def sequence(seed: int, length: int = 60, conditional: bool = False) -> list[dict]:
    """The steps of a seed."""
    return Sequence(seed, conditional).build(length)


def compared(seed: int, length: int) -> list[dict]:
    """Those that are compared with the oracle's: one sequence of four writes on conditions."""
    return sequence(seed, length, seed % 4 == 3)
