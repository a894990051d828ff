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
from .views import alter_view, create_view, draw_view
from .weights import happens, pick


def hexed(values):
    return [v if v is None or v == "unset" else v.hex() for v in values]


class Sequence:
    """Draws the steps of one seed."""

    def __init__(self, seed: int, conditional: bool = False):
        self.rng = random.Random(seed)
        # Does it write on conditions?
        self.conditional = conditional
        self.statements = Statements(self.rng, self.conditional)
        self.steps, self.tables, self.udts, self.views = [], [], [], []
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
            while happens(self.rng, "indexed from the start"):
                self.step(cql=self.index(table))
            while happens(self.rng, "viewed from the start"):
                self.view(table)
        while len(self.steps) < length:
            self.draw()
        for table in self.tables + self.views:
            self.step(cql=f"SELECT * FROM {table.name}")
            if happens(self.rng, "described at the end"):
                self.step(cql=f"DESCRIBE TABLE {table.name}")
        return self.steps

    def draw(self):
        table, kind = self.rng.choice(self.tables), pick(self.rng, "step")
        if kind == "schema change":
            return self.schema_change(table)
        if kind == "batch":
            return self.batch()
        if kind == "read" and self.views and happens(self.rng, "read of a view"):
            table = self.rng.choice(self.views)
        w = Writer(self.rng, happens(self.rng, "bound"))
        text = self.statements.write(table, w) if kind == "write" else self.statements.select(table, w)
        if happens(self.rng, "spoiled") and not w.bound and not table.counters:
            text = spoil(self.rng, text)
        step = {"cql": text}
        if w.values:
            step["values"] = hexed(w.values)
            step["prepare"] = happens(self.rng, "prepared")
        if kind == "read" and happens(self.rng, "paged"):
            step["page"] = self.rng.choice([1, 2, 3, 5, 100])
        self.step(**step)

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
            body = "; ".join(self.statements.write(self.rng.choice(self.tables), w) for _ in range(self.rng.randrange(1, 5)))
            self.step(cql=f"BEGIN {kind}BATCH{using} {body}; APPLY BATCH")
            return
        children = []
        for _ in range(self.rng.randrange(1, 6)):
            w = Writer(self.rng, self.rng.random() < 0.7)
            text = self.statements.write(self.rng.choice(self.tables), w)
            children.append([text, hexed(w.values), bool(w.values) and self.rng.random() < 0.5])
        self.step(batch=children, kind=self.rng.choice([0, 1]))

    def schema_change(self, table):
        kind = pick(self.rng, "schema change")
        self.spare += 1
        if kind in ("add", "drop", "rename", "option", "mask"):
            return self.alter(table, kind)
        if kind == "describe":
            return self.step(cql=self.describe(table))
        if kind == "index":
            # One that is there when its statement returns, on either server.
            self.step(cql=f"TRUNCATE {table.name}")
            return self.step(cql=self.index(table))
        if kind == "view":
            self.step(cql=f"TRUNCATE {table.name}")
            return self.view(table)
        if kind in ("drop view", "alter view") and self.views:
            view = self.rng.choice(self.views)
            if kind == "alter view":
                return self.step(cql=alter_view(self.rng, view))
            self.views.remove(view)
            return self.step(cql=f"DROP MATERIALIZED VIEW {self.rng.choice(['', 'IF EXISTS '])}{view.name}")
        if kind == "drop index":
            name = self.rng.choice([f"{table.name}_{self.rng.choice(table.columns).name}_idx", f"i{self.spare}"])
            return self.step(cql=f"DROP INDEX {self.rng.choice(['', 'IF EXISTS '])}{name}")
        if kind == "spoiled":
            fresh = draw_table(self.rng, f"x{self.spare}", self.udts)
            return self.step(cql=spoil(self.rng, fresh.create(self.rng, True)))
        if kind in ("drop type", "alter type") and not self.udts:
            kind = "drop nothing"
        udt = self.rng.choice(self.udts).name if self.udts else ""
        texts = {
            "truncate": lambda: f"TRUNCATE {self.rng.choice(['', 'TABLE '])}{table.name}",
            "exists": lambda: table.create(self.rng, False).replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS"),
            "create again": lambda: table.create(self.rng, True),
            "drop type": lambda: f"DROP TYPE {udt}",
            "alter type": lambda: self.rng.choice([
                f"ALTER TYPE {udt} ADD g{self.spare} int", f"ALTER TYPE {udt} ADD IF NOT EXISTS f0 text",
                f"ALTER TYPE {udt} RENAME nosuch TO g{self.spare}", f"ALTER TYPE {udt} ALTER f0 TYPE text",
            ]),
            "read schema": lambda: "SELECT column_name, kind, position, type, clustering_order FROM "
            f"system_schema.columns WHERE keyspace_name = '{{keyspace}}' AND table_name = '{table.name}'",
            "drop nothing": lambda: self.rng.choice([
                f"DROP TABLE IF EXISTS nosuch{self.spare}", f"DROP TABLE nosuch{self.spare}", "DROP TYPE IF EXISTS nosuch",
                "DROP TYPE nosuch", "DROP KEYSPACE IF EXISTS nosuch", "DROP KEYSPACE nosuch",
            ]),
            "alter nothing": lambda: self.rng.choice([
                "ALTER TABLE nosuch ADD x int", "ALTER TABLE IF EXISTS nosuch ADD x int", "ALTER TYPE nosuch ADD x int",
                "ALTER TYPE IF EXISTS nosuch ADD x int", "ALTER KEYSPACE IF EXISTS nosuch WITH durable_writes = false",
                f"ALTER TABLE {table.name} DROP IF EXISTS nosuch", f"ALTER TABLE {table.name} RENAME IF EXISTS nosuch TO x",
                f"ALTER TABLE {table.name} ALTER k0 TYPE text",
            ]),
            "drop view": lambda: f"DROP MATERIALIZED VIEW {self.rng.choice(['', 'IF EXISTS '])}{table.name}",
            "alter view": lambda: f"ALTER MATERIALIZED VIEW {self.rng.choice(['', 'IF EXISTS '])}nosuch WITH comment = 'x'",
            "trigger": lambda: f"CREATE TRIGGER tr ON {table.name} USING 'nosuch'",
        }
        self.step(cql=texts[kind]())

    def alter(self, table, kind):
        if table.counters and kind == "add":
            kind = "option"
        text, effect = self.statements.alter(table, kind, self.udts, self.spare)
        self.step(cql=text)
        # Only what servers accept: the key stays, and only key columns are renamed.
        keys = {c.name for c in table.key + table.clustering}
        subject = text.split()[4] if kind in ("drop", "rename") else ""
        if not (kind == "drop" and subject in keys) and not (kind == "rename" and subject not in keys):
            effect()
        if table.counters and not table.of("regular"):
            table.counters = False

    def index(self, table) -> str:
        """CREATE INDEX on a column; what it is mostly can be one."""
        column, kind = self.rng.choice(table.columns), pick(self.rng, "index")
        target = column.name
        if kind == "part" or column.type.kind in ("list", "set", "map") and self.rng.random() < 0.5:
            target = f"{self.rng.choice(['keys', 'values', 'entries', 'full'])}({target})"
        if kind == "nonsense":
            target = self.rng.choice(["nosuch", f"full(nosuch)", f"{target}, {target}"])
        using = " USING 'sai'" if kind == "attached" else ""
        if kind == "search":
            using = f" USING 'org.apache.cassandra.index.sasi.SASIIndex'{search_options(self.rng)}"
        self.spare += 1
        name = self.rng.choice(["", "", f"i{self.spare} "])
        return f"CREATE {'CUSTOM ' if kind == 'search' else ''}INDEX {self.rng.choice(['', '', 'IF NOT EXISTS '])}{name}ON {table.name} ({target}){using}"

    def view(self, table):
        """CREATE MATERIALIZED VIEW of a table, which is empty: it is there when its statement returns."""
        self.spare += 1
        view = draw_view(self.rng, f"m{self.spare}", table)
        if not view:
            return
        self.step(cql=create_view(self.rng, view, table))
        self.views.append(view)

    def describe(self, table) -> str:
        kind = pick(self.rng, "describe")
        udt = self.rng.choice(self.udts).name if self.udts else "nosuch"
        return "DESCRIBE " + {
            "table": f"TABLE {table.name}", "keyspace": "KEYSPACE {keyspace}", "only keyspace": "ONLY KEYSPACE {keyspace}",
            "type": f"TYPE {udt}", "name": table.name, "nothing": "TABLE nosuch",
            "view": f"MATERIALIZED VIEW {self.rng.choice(self.views).name if self.views else 'nosuch'}",
            "index": f"INDEX {table.name}_{self.rng.choice(table.columns).name}_idx",
        }[kind]


def search_options(rng) -> str:
    """What a SASI is told, if anything."""
    kind, package = pick(rng, "search"), "org.apache.cassandra.index.sasi.analyzer."
    words = {"analyzer_class": package + "StandardAnalyzer"}
    options = {
        "none": {},
        "contains": {},
        "sparse": {"mode": "SPARSE"},
        "letters": {
            "analyzer_class": package + "NonTokenizingAnalyzer",
            **rng.choice([{"case_sensitive": "false"}, {"normalize_lowercase": "true"}, {"normalize_uppercase": "true"}]),
        },
        "words": words | rng.choice([{}, {"tokenization_normalize_lowercase": "true"}]),
        "stems": words
        | {"tokenization_locale": rng.choice(["en", "en", "de_AT", "xx"])}
        | rng.choice([{"tokenization_enable_stemming": "true"}, {"tokenization_skip_stop_words": "true"}]),
        "parts": {"analyzer_class": package + "DelimiterAnalyzer", "delimiter": " "},
        "nonsense": rng.choice([{"mode": "nosuch"}, {"analyzer_class": "nosuch"}, {"nosuch": "1"}]),
    }[kind]
    if kind == "contains" or "analyzer_class" in options and rng.random() < 0.5:
        options = {"mode": "CONTAINS"} | options
    texts = ", ".join(f"'{name}': '{value}'" for name, value in options.items())
    return f" WITH OPTIONS = {{{texts}}}" if texts else ""


def sequence(seed: int, length: int = 60, conditional: bool = False) -> list[dict]:
    """The steps of a seed."""
    return Sequence(seed, conditional).build(length)


def compared(seed: int, length: int) -> list[dict]:
    """Those that are compared with the oracle's: one sequence of four writes on conditions."""
    return sequence(seed, length, seed % 4 == 3)
