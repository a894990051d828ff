"""Statements for a table: writes, reads of every form, changes of the schema, mistakes."""

import random
import re

from .expressions import Expressions
from .json_values import draw_json_literal, draw_row
from .tables import OPTIONS, Column, Table
from .values import draw, draw_type
from .weights import happens, pick

COMPARISONS = ["=", ">", ">=", "<", "<="]


class Writer:
    """Writes one statement: values become literals, or bind markers with their bytes beside."""

    def __init__(self, rng: random.Random, bound: bool):
        self.rng, self.bound, self.values = rng, bound, []

    def put(self, literal: str, data) -> str:
        """The literal, or a marker."""
        if not self.bound:
            return literal
        self.values.append(data)
        return "?"

    def value(self, ty, null: float = 0.0) -> str:
        """A value of the type; at times null, unset, or bytes that are no such value."""
        if self.rng.random() < null:
            return self.put("null", None if self.rng.random() < 0.7 or not self.bound else "unset")
        if not self.bound and happens(self.rng, "json value"):
            return f"{self.rng.choice(['from_json', 'fromJson'])}({draw_json_literal(self.rng, ty)})"
        literal, data = draw(self.rng, ty)
        if self.bound and self.rng.random() < 0.003:
            data = self.rng.choice([b"", b"\x01\x02\x03", data + b"\0"])
        return self.put(literal, data)

    def number(self, number: int, size: int = 4) -> str:
        return self.put(str(number), number.to_bytes(size, "big", signed=True))


class Statements:
    """Draws statements for the tables of a sequence."""

    def __init__(self, rng: random.Random, conditional: bool = False):
        self.rng = rng
        self.expressions = Expressions(rng, conditional)
        self.ttl = 10_000
        # Half of the writes have conditions, and nobody asks when something was written: that is the
        # time of a ballot then, and each server has its own.
        self.conditional = conditional
        # The key that all statements of a batch have, by column.
        self.key: dict[str, tuple] | None = None

    # --- writes

    def key_value(self, c: Column, w: Writer, null: float = 0.0) -> str:
        """A value of a partition key column; that of the batch, if it has one for all."""
        if self.key is None:
            return w.value(c.type, null)
        if c.name not in self.key:
            self.key[c.name] = draw(self.rng, c.type)
        return w.put(*self.key[c.name])

    def conditions(self, t: Table, w: Writer, static_only: bool = False) -> str:
        """IF ..., in a sequence with conditions."""
        if not self.conditional or self.rng.random() < 0.4:
            return ""
        pool = t.of("static") if static_only and self.rng.random() < 0.9 else t.of("static", "regular")
        if not pool or self.rng.random() < 0.3:
            return " IF EXISTS"
        count = self.rng.choice([1, 1, 1, 2, 3])
        return " IF " + " AND ".join(self.condition(self.rng.choice(pool), w) for _ in range(count))

    def condition(self, c: Column, w: Writer) -> str:
        ty, name = c.type, c.name
        if ty.multi_cell and self.rng.random() < 0.5:
            if ty.kind == "udt":
                i = self.rng.randrange(len(ty.fields))
                name, ty = f"{name}.{ty.fields[i]}", ty.parts[i]
            elif ty.kind == "list":
                name, ty = f"{name}[{w.number(self.rng.randrange(0, 3))}]", ty.parts[0]
            elif ty.kind == "map":
                name, ty = f"{name}[{w.value(ty.parts[0])}]", ty.parts[1]
        if self.rng.random() < 0.15:
            return f"{name} IN ({', '.join(w.value(ty, 0.1) for _ in range(self.rng.randrange(1, 4)))})"
        operator = self.rng.choice(["=", "=", "=", "!=", "!=", "<", "<=", ">", ">="])
        return f"{name} {operator} {w.value(ty, 0.3)}"

    def using(self, w: Writer, ttl: bool) -> str:
        """USING ...: timestamps from a small range, so that writes tie; every TTL its own."""
        wanted = ["TIMESTAMP"] if self.rng.random() < (0.02 if self.conditional else 0.4) else []
        wanted += ["TTL"] if ttl and self.rng.random() < 0.15 else []
        self.rng.shuffle(wanted)
        parts = []
        for name in wanted:
            self.ttl += 100
            number = self.rng.randrange(1, 30) if name == "TIMESTAMP" else self.rng.choice([self.ttl] * 3 + [0])
            parts.append(f"{name} {w.number(number, 8 if name == 'TIMESTAMP' else 4)}")
        return " USING " + " AND ".join(parts) if parts else ""

    def write(self, t: Table, w: Writer) -> str:
        """Any write; of a table with counters additions."""
        if t.counters:
            return self.add(t, w)
        kind = pick(self.rng, "write")
        if kind == "insert json" and self.key is None:
            return self.insert_json(t, w)
        return {"update": self.update, "delete": self.delete}.get(kind, self.insert)(t, w)

    def insert_json(self, t: Table, w: Writer) -> str:
        chosen = t.key + t.clustering + [c for c in t.of("static", "regular") if self.rng.random() < 0.7]
        self.rng.shuffle(chosen)
        text = f"INSERT INTO {t.name} JSON {draw_row(self.rng, chosen)}"
        text += self.rng.choice([" DEFAULT UNSET", " DEFAULT NULL"]) if happens(self.rng, "default unset") else ""
        if self.conditional and self.rng.random() < 0.5:
            text += " IF NOT EXISTS"
        return text + self.using(w, True)

    def add(self, t: Table, w: Writer) -> str:
        """Adds to counters."""
        statics, regulars = t.of("static"), t.of("regular")
        static_only = bool(statics) and self.rng.random() < 0.3
        c = self.rng.choice(statics if static_only else regulars)
        number = w.number(self.rng.choice([1, 2, -3, 1000]), 8)
        form = self.rng.choice([f"{c.name} = {c.name} + {number}", f"{c.name} = {c.name} - {number}", f"{c.name} += {number}"])
        where = self.key_equals(t, w) if static_only else self.row_equals(t, w)
        return f"UPDATE {t.name} SET {form} WHERE {' AND '.join(where)}"

    def insert(self, t: Table, w: Writer) -> str:
        static_only = bool(t.of("static")) and happens(self.rng, "static insert")
        keys = t.key if static_only else t.key + t.clustering
        others = t.of("static") if static_only else t.of("static", "regular")
        chosen = [c for c in others if self.rng.random() < 0.7]
        columns = keys + chosen
        self.rng.shuffle(columns)
        values = [self.key_value(c, w, 0.005) if c in t.key else w.value(c.type, 0.1 if c in chosen else 0.005) for c in columns]
        text = f"INSERT INTO {t.name} ({', '.join(c.name for c in columns)}) VALUES ({', '.join(values)})"
        if self.conditional and self.rng.random() < 0.5:
            text += " IF NOT EXISTS"
        return text + self.using(w, True)

    def key_equals(self, t: Table, w: Writer) -> list[str]:
        relations = []
        for c in t.key:
            if self.key is None and self.rng.random() < 0.06:
                relations.append(f"{c.name} IN ({', '.join(w.value(c.type) for _ in range(2))})")
            else:
                relations.append(f"{c.name} = {self.key_value(c, w, 0.003)}")
        return relations

    def row_equals(self, t: Table, w: Writer) -> list[str]:
        relations = self.key_equals(t, w)
        for c in t.clustering:
            if self.rng.random() < 0.05:
                relations.append(f"{c.name} IN ({w.value(c.type)}, {w.value(c.type)})")
            else:
                relations.append(f"{c.name} = {w.value(c.type)}")
        return relations

    def update(self, t: Table, w: Writer) -> str:
        statics, regulars = t.of("static"), t.of("regular")
        static_only = bool(statics) and (not regulars or happens(self.rng, "static update"))
        pool = statics if static_only else regulars + [c for c in statics if self.rng.random() < 0.3]
        if not pool:
            return self.insert(t, w)
        using = self.using(w, True)
        chosen = self.rng.sample(pool, self.rng.randrange(1, min(3, len(pool)) + 1))
        sets = ", ".join(self.assignment(c, w) for c in chosen)
        where = self.key_equals(t, w) if static_only else self.row_equals(t, w)
        text = f"UPDATE {t.name}{using} SET {sets} WHERE {' AND '.join(where)}"
        return text + self.conditions(t, w, static_only)

    def assignment(self, c: Column, w: Writer) -> str:
        ty, roll = c.type, self.rng.random()
        if not ty.multi_cell or pick(self.rng, "assignment") == "whole":
            return f"{c.name} = {w.value(ty, 0.1)}"
        if ty.kind == "udt":
            i = self.rng.randrange(len(ty.fields))
            return f"{c.name}.{ty.fields[i]} = {w.value(ty.parts[i], 0.2)}"
        if ty.kind == "list":
            form = self.rng.randrange(5)
            if form == 0:
                return f"{c.name} = {w.value(ty)} + {c.name}"
            if form == 1:
                return f"{c.name}[{w.number(self.rng.randrange(0, 3))}] = {w.value(ty.parts[0], 0.2)}"
            return f"{c.name} = {c.name} {'+' if form < 4 else '-'} {w.value(ty)}"
        if ty.kind == "map":
            if roll < 0.4:
                return f"{c.name}[{w.value(ty.parts[0])}] = {w.value(ty.parts[1], 0.2)}"
            if roll < 0.7:
                as_set = type(ty)("set", (ty.parts[0],))
                return f"{c.name} = {c.name} - {w.value(as_set)}"
        return f"{c.name} {self.rng.choice(['+=', '-=']) if ty.kind == 'set' else '+='} {w.value(ty)}"

    def delete(self, t: Table, w: Writer) -> str:
        kind = pick(self.rng, "delete")
        statics, regulars = t.of("static"), t.of("regular")
        what, where, static_only = "", None, False
        if kind == "columns" and regulars + statics:
            static_only = bool(statics) and (not regulars or self.rng.random() < 0.25)
            pool = statics if static_only else regulars
            chosen = self.rng.sample(pool, self.rng.randrange(1, min(2, len(pool)) + 1))
            what = " " + ", ".join(self.deleted(c, w) for c in chosen)
            using = self.using(w, False)
            where = self.key_equals(t, w) if static_only else self.row_equals(t, w)
        else:
            using = self.using(w, False)
            if kind == "row":
                where = self.row_equals(t, w)
            elif kind == "slice" and t.clustering:
                where = self.key_equals(t, w) + self.slice(t, w)
            else:
                where = self.key_equals(t, w)
        return f"DELETE{what} FROM {t.name}{using} WHERE {' AND '.join(where)}" + self.conditions(t, w, static_only)

    def deleted(self, c: Column, w: Writer) -> str:
        if c.type.multi_cell and self.rng.random() < 0.6:
            if c.type.kind == "udt":
                return f"{c.name}.{self.rng.choice(c.type.fields)}"
            if c.type.kind == "list":
                return f"{c.name}[{w.number(self.rng.randrange(0, 3))}]"
            return f"{c.name}[{w.value(c.type.parts[0])}]"
        return c.name

    # --- reads

    def slice(self, t: Table, w: Writer) -> list[str]:
        """Relations on a prefix of the clustering columns."""
        relations = []
        prefix = self.rng.randrange(len(t.clustering))
        for c in t.clustering[:prefix]:
            relations.append(f"{c.name} = {w.value(c.type)}")
        rest = t.clustering[prefix:]
        kind = pick(self.rng, "clustering")
        if kind == "tuple" and len(rest) > 1:
            count = self.rng.randrange(1, len(rest) + 1)
            names = ", ".join(c.name for c in rest[:count])
            low = self.rng.choice([">", ">=", "<", "<=", "="])
            relations.append(f"({names}) {low} {self.components(rest[:count], w)}")
            if low[0] == ">" and self.rng.random() < 0.5:
                again = self.rng.randrange(1, len(rest) + 1)
                names = ", ".join(c.name for c in rest[:again])
                relations.append(f"({names}) {self.rng.choice(['<', '<='])} {self.components(rest[:again], w)}")
        elif kind == "tuples" and len(rest) > 1:
            names = ", ".join(c.name for c in rest)
            relations.append(f"({names}) IN ({self.components(rest, w)}, {self.components(rest, w)})")
        elif kind == "in":
            items = ", ".join(w.value(rest[0].type) for _ in range(self.rng.randrange(0, 4)))
            relations.append(f"{rest[0].name} IN ({items})")
        else:
            c = rest[0]
            low = self.rng.choice(COMPARISONS)
            relations.append(f"{c.name} {low} {w.value(c.type)}")
            if low[0] == ">" and self.rng.random() < 0.5:
                relations.append(f"{c.name} {self.rng.choice(['<', '<='])} {w.value(c.type)}")
        return relations

    def components(self, columns, w: Writer) -> str:
        return "(" + ", ".join(w.value(c.type) for c in columns) + ")"

    def select(self, t: Table, w: Writer) -> str:
        selection = self.expressions.selection(t)
        kind = pick(self.rng, "where")
        relations, filtering = [], False
        if kind == "token":
            relations = self.token_range(t, w)
        elif kind == "in":
            i = self.rng.randrange(len(t.key))
            for j, c in enumerate(t.key):
                if j == i:
                    items = ", ".join(w.value(c.type) for _ in range(self.rng.randrange(1, 5)))
                    relations.append(f"{c.name} IN ({items})")
                else:
                    relations.append(f"{c.name} = {w.value(c.type)}")
        elif kind == "key":
            relations = [f"{c.name} = {w.value(c.type, 0.003)}" for c in t.key]
        distinct = "DISTINCT" in selection
        if kind == "index":
            # What an index may decide, and so without leave to filter.
            relations = [self.filter(self.rng.choice(t.columns), w) for _ in range(self.rng.choice([1, 1, 1, 2]))]
        if kind == "filter" or happens(self.rng, "filter beside a key"):
            filtering = happens(self.rng, "allow filtering")
            relations += [self.filter(self.rng.choice(t.columns), w) for _ in range(self.rng.choice([1, 1, 2]))]
        elif t.clustering and relations and not distinct and kind != "token" and self.rng.random() < 0.6:
            relations += self.slice(t, w)
        text = f"SELECT {selection} FROM {t.name}"
        if relations:
            if not w.bound and happens(self.rng, "relations shuffled"):
                self.rng.shuffle(relations)
            text += " WHERE " + " AND ".join(relations)
        text += self.expressions.group_by(t) if "(" in selection or self.rng.random() < 0.1 else ""
        ordered = happens(self.rng, "order of a partition" if kind == "key" else "order of others")
        if t.clustering and not distinct and ordered:
            text += " ORDER BY " + self.order(t)
        if happens(self.rng, "per partition limit"):
            text += " PER PARTITION LIMIT " + w.number(self.rng.choice([1, 2, 3, 100]))
        if happens(self.rng, "limit"):
            text += " LIMIT " + w.number(self.rng.choice([1, 2, 3, 5, 100]))
        return text + (" ALLOW FILTERING" if filtering else "")

    def filter(self, c: Column, w: Writer) -> str:
        """A relation on any column."""
        kind, ty, name = pick(self.rng, "filter"), c.type, c.name
        if kind == "contains" and ty.kind in ("list", "set", "map"):
            return f"{name} CONTAINS {w.value(ty.parts[-1], 0.02)}"
        if kind == "contains key" and ty.kind == "map":
            return f"{name} CONTAINS KEY {w.value(ty.parts[0], 0.02)}"
        if kind == "entry" and ty.kind in ("map", "list"):
            key = w.value(ty.parts[0], 0.02) if ty.kind == "map" else "0"
            return f"{name}[{key}] {self.rng.choice(['=', '=', '=', '>'])} {w.value(ty.parts[-1], 0.02)}"
        if kind == "in":
            return f"{name} IN ({w.value(ty)}, {w.value(ty)})"
        if kind == "like":
            return f"{name} LIKE {self.pattern(c, w)}"
        if kind == "not":
            return self.rng.choice([f"{name} != {w.value(ty)}", f"{name} IS NOT NULL"])
        return f"{name} {self.rng.choice(COMPARISONS)} {w.value(ty, 0.02)}"

    def pattern(self, c: Column, w: Writer) -> str:
        """What texts are like: one, what they begin or end with, or have in them; at times no text."""
        if c.type.kind not in ("text", "ascii") or self.rng.random() < 0.1:
            return w.value(c.type)
        before, behind = self.rng.choice([("", ""), ("", "%"), ("", "%"), ("%", ""), ("%", "%"), ("%", "%")])
        text = before + self.rng.choice(["a", "a", "ab", "b", "A", "the", "runs", "x", ""]) + behind
        return w.put(f"'{text}'", text.encode())

    def order(self, t: Table) -> str:
        """ORDER BY: mostly the table's order or its reverse, at times neither."""
        reverse = self.rng.random() < 0.6
        count = self.rng.randrange(1, len(t.clustering) + 1)
        parts = []
        for c in t.clustering[:count]:
            descending = c.descending != reverse
            if self.rng.random() < 0.05:
                descending = not descending
            parts.append(f"{c.name} {'DESC' if descending else self.rng.choice(['ASC', ''])}".strip())
        return ", ".join(parts)

    def token_range(self, t: Table, w: Writer) -> list[str]:
        names = ", ".join(c.name for c in t.key)

        def bound():
            if self.rng.random() < 0.5:
                return f"token({', '.join(w.value(c.type) for c in t.key)})"
            return w.number(self.rng.choice([0, -(2**62), 2**62, -(2**63), 2**63 - 1]), 8)

        low = self.rng.choice([">", ">="])
        relations = [f"token({names}) {low} {bound()}"]
        if self.rng.random() < 0.5:
            relations.append(f"token({names}) {self.rng.choice(['<', '<='])} {bound()}")
        return relations

    # --- schema

    def alter(self, t: Table, kind: str, udts: list, spare: int) -> tuple[str, object]:
        """ALTER TABLE, and what it does to the table if the server accepts it."""
        if kind == "add":
            static = bool(t.clustering) and self.rng.random() < 0.2
            column = Column(f"w{spare}", draw_type(self.rng, udts), "static" if static else "regular")
            exists = self.rng.choice(["", "", "IF NOT EXISTS "])
            add = f"ALTER TABLE {t.name} ADD {exists}{column.name} {column.type.cql()}{' static' if static else ''}"
            return add, lambda: t.columns.append(column)
        column = self.rng.choice(t.columns)
        if kind == "drop":
            return f"ALTER TABLE {t.name} DROP {column.name}", lambda: t.columns.remove(column)
        if kind == "rename":
            new = f"r{spare}"
            return f"ALTER TABLE {t.name} RENAME {column.name} TO {new}", lambda: setattr(column, "name", new)
        if kind == "mask":
            return f"ALTER TABLE {t.name} ALTER {column.name} MASKED WITH DEFAULT", lambda: None
        return f"ALTER TABLE {t.name} WITH {self.rng.choice(OPTIONS)}", lambda: None


# A minus stays with its number: `- 1` is a calculation, whose int Cassandra puts into a tuple of
# varints as it is, four bytes long.
TOKENS = re.compile(r"'(?:[^']|'')*'|-?\w+|[^\s\w]")


def spoil(rng: random.Random, text: str) -> str:
    """A statement with a mistake: a token missing, doubled, swapped or foreign."""
    tokens = TOKENS.findall(text)
    i = rng.randrange(len(tokens))
    roll = rng.randrange(4)
    if roll == 0:
        del tokens[i]
    elif roll == 1:
        tokens.insert(i, tokens[i])
    elif roll == 2:
        j = rng.randrange(len(tokens))
        tokens[i], tokens[j] = tokens[j], tokens[i]
    else:
        tokens[i] = rng.choice(["nosuch", "'text'", "12", "(", ")", ",", "null", "true", "0xff", "[1]", "{}", "1.5", "k0", "c0", "v0"])
    return " ".join(tokens)
