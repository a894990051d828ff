"""What a SELECT can ask for: selectors of every kind, over the columns of a table."""

import random

from .tables import Column, Table
from .values import NATIVE, draw
from .weights import happens, pick

INTEGERS = ("tinyint", "smallint", "int", "bigint", "varint")
NUMBERS = (*INTEGERS, "float", "double", "decimal")
TEXTS = ("ascii", "text")
MOMENTS = ("timestamp", "date")
CASTS = ["text", "ascii", "bigint", "double", "int", "decimal", "varint", "float", "smallint", "date", "timestamp"]
DURATIONS = ["1d", "2h", "1mo", "-1d", "1y2mo3d", "36h", "10ms"]
SPANS = ["1d", "2h", "1mo", "7d", "1y"]
# type -> functions of one argument of it
FUNCTIONS = {
    "timeuuid": ["toDate", "toTimestamp", "toUnixTimestamp", "to_date", "to_timestamp", "to_unix_timestamp"],
    "timestamp": ["toDate", "toUnixTimestamp", "minTimeuuid", "maxTimeuuid", "min_timeuuid", "to_date"],
    "date": ["toTimestamp", "toUnixTimestamp", "to_unix_timestamp", "to_timestamp"],
    "list": ["collection_count", "collection_min", "collection_max", "collection_sum", "collection_avg"],
    "set": ["collection_count", "collection_min", "collection_max", "collection_sum", "collection_avg"],
    "map": ["map_keys", "map_values", "collection_count", "collection_min"],
    **{number: ["abs", "round"] for number in NUMBERS},
}


def has_fields(ty) -> bool:
    """Whether literals of the type have names of fields: in names of columns they are in the order of a hash table."""
    return ty.kind == "udt" or any(map(has_fields, ty.parts))


class Expressions:
    """Draws selectors. `conditional`: nobody may ask when something was written."""

    def __init__(self, rng: random.Random, conditional: bool):
        self.rng, self.conditional = rng, conditional

    def column(self, t: Table, kinds=None) -> Column:
        """A column of one of the types, or any where there is none."""
        fit = [c for c in t.columns if kinds is None or c.type.kind in kinds]
        return self.rng.choice(fit or t.columns)

    def literal(self, ty) -> str:
        return draw(self.rng, ty)[0]

    def selector(self, t: Table) -> str:
        kind = pick(self.rng, "selector")
        return getattr(self, kind.replace(" ", "_"))(t)

    # One method for each construct of "selector" in `weights`; `column` is the plain one.

    def written(self, t: Table) -> str:
        pool = t.of("static", "regular")
        if self.conditional or not pool:
            return self.column(t).name
        kind = pick(self.rng, "written")
        c = self.rng.choice(pool)
        function = kind if not kind.startswith("of") else self.rng.choice(["writetime", "ttl"])
        if kind == "of an element" and c.type.kind in ("set", "map") and not has_fields(c.type.parts[0]):
            return f"{function}({c.name}[{self.literal(c.type.parts[0])}])"
        if kind == "of a field" and c.type.kind == "udt":
            return f"{function}({c.name}.{self.rng.choice(c.type.fields)})"
        return f"{function}({c.name})"

    def token(self, t: Table) -> str:
        return f"token({', '.join(x.name for x in t.key)})"

    def field(self, t: Table) -> str:
        c = self.column(t, ("udt",))
        if c.type.kind != "udt":
            return c.name
        i = self.rng.randrange(len(c.type.fields))
        inner = c.type.parts[i]
        name = f"{c.name}.{c.type.fields[i]}"
        return name if inner.kind != "udt" else f"{name}.{self.rng.choice(inner.fields)}"

    def element(self, t: Table) -> str:
        c = self.column(t, ("set", "map"))
        if c.type.kind not in ("set", "map") or has_fields(c.type.parts[0]):
            return f"{c.name}[0]"
        return f"{c.name}[{self.literal(c.type.parts[0])}]"

    def slice(self, t: Table) -> str:
        c = self.column(t, ("set", "map"))
        if c.type.kind not in ("set", "map") or has_fields(c.type.parts[0]):
            return f"{c.name}[0..1]"
        ends = [self.literal(c.type.parts[0]) if self.rng.random() < 0.7 else "" for _ in range(2)]
        return f"{c.name}[{ends[0]}..{ends[1]}]" if any(ends) else c.name

    def function(self, t: Table) -> str:
        c = self.column(t)
        names = FUNCTIONS.get(c.type.kind)
        if c.type.kind == "timestamp" and self.rng.random() < 0.3:
            return f"floor({c.name}, {self.rng.choice(SPANS)})"
        if names:
            return f"{self.rng.choice(names)}({c.name})"
        if c.type.kind in NATIVE:
            return f"{self.rng.choice([c.type.kind + 'AsBlob', c.type.kind + '_as_blob'])}({c.name})"
        return c.name

    def cast(self, t: Table) -> str:
        return f"CAST({self.column(t, NUMBERS + MOMENTS + ('timeuuid', 'uuid')).name} AS {self.rng.choice(CASTS)})"

    def arithmetic(self, t: Table) -> str:
        if self.rng.random() < 0.3:
            c = self.column(t, MOMENTS)
            if c.type.kind in MOMENTS:
                return f"{c.name} {self.rng.choice('+-')} {self.rng.choice(DURATIONS)}"
        left, right = (self.column(t, NUMBERS) for _ in range(2))
        operator = self.rng.choice("+-*/%")
        if left.type.kind == "decimal" or right.type.kind == "decimal":
            # Quotients of decimals have as many digits as their operands say: 1E+20 makes long ones.
            operator = self.rng.choice("+-*")
        other = right.name if self.rng.random() < 0.6 else self.rng.choice(["1", "2", "-3", "1.5", "0"])
        if self.rng.random() < 0.2:
            return f"({left.name} {operator} {other}) * 2"
        return f"{left.name} {operator} {other}"

    def negation(self, t: Table) -> str:
        return f"- {self.column(t, NUMBERS).name}"

    def to_json(self, t: Table) -> str:
        return f"{self.rng.choice(['to_json', 'toJson'])}({self.column(t).name})"

    def mask(self, t: Table) -> str:
        function = pick(self.rng, "mask")
        if function in ("mask_inner", "mask_outer"):
            c = self.column(t, TEXTS)
            arguments = [c.name, *self.rng.choice([["1", "1"], ["0", "2"], ["null", "1"], ["1", "null", "'#'"], ["9", "0"]])]
        else:
            c = self.column(t)
            arguments = [c.name]
            if function == "mask_replace" and not has_fields(c.type):
                arguments.append(self.literal(c.type))
            if function == "mask_hash" and self.rng.random() < 0.5:
                arguments.append(self.rng.choice(["'MD5'", "'SHA-1'", "'SHA-512'", "null"]))
        return f"{function}({', '.join(arguments)})"

    def hint(self, t: Table) -> str:
        c = self.column(t, (*NATIVE, "tuple", "vector"))
        if c.type.multi_cell or c.type.frozen or has_fields(c.type):
            return f"({c.type.cql()})nosuch"
        return f"({c.type.cql()}){self.literal(c.type) if self.rng.random() < 0.6 else c.name}"

    def gathered(self, t: Table) -> str:
        kind, c = pick(self.rng, "gathered"), self.column(t)
        if kind == "tuple":
            return f"({c.name}, {self.column(t).name})"
        key = self.rng.choice(t.key).name
        return {"list": f"[{c.name}]", "set": f"{{{key}}}", "map": f"(map<int, int>){{1: {key}}}"}[kind]

    def similarity(self, t: Table) -> str:
        c = self.column(t, ("vector",))
        function = self.rng.choice(["similarity_cosine", "similarity_euclidean", "similarity_dot_product"])
        return f"{function}({c.name}, [1.5, 2.5, {self.rng.choice([0, 1])}])"

    def constant(self, t: Table) -> str:
        return self.rng.choice(["to_json(1)", "(int)5", "(text)'x'", "max(1)", "count(1)", "count('a')", "1", "null", "(tuple<int, text>)(1, 'a')"])

    def nested(self, t: Table) -> str:
        c = self.column(t, NUMBERS)
        return self.rng.choice([f"abs(abs({c.name}))", f"to_json(abs({c.name}))", f"CAST(CAST({c.name} AS text) AS ascii)", f"max(abs({c.name}))"])

    def nonsense(self, t: Table) -> str:
        c = self.column(t)
        return self.rng.choice([f"nosuch({c.name})", f"{c.name}.nosuch", "nosuch", f"sum({c.name})", f"abs({c.name}, 1)", f"CAST({c.name} AS blob)", f"from_json({c.name})", f"{c.name}[0]", "max(count(*))"])

    # --- more than one selector

    def selectors(self, t: Table) -> str:
        picks = []
        for _ in range(self.rng.randrange(1, 5)):
            kind = pick(self.rng, "selector")
            if kind == "column":
                picks.append(self.column(t).name + (f" AS alias{len(picks)}" if self.rng.random() < 0.1 else ""))
            else:
                picks.append(getattr(self, kind)(t))
        return ", ".join(picks)

    def aggregates(self, t: Table) -> str:
        picks = []
        for _ in range(self.rng.randrange(1, 4)):
            c = self.column(t)
            functions = ["count", "min", "max"] + (["sum", "avg"] if c.type.kind in INTEGERS else [])
            picks.append(f"{self.rng.choice(functions)}({c.name})")
        return ", ".join(picks)

    def selection(self, t: Table) -> str:
        """What comes between SELECT and FROM."""
        kind = pick(self.rng, "selection")
        if kind == "count":
            return self.rng.choice(["count(*)", "COUNT(1)", "count(*) AS n", f"count({self.column(t).name})"])
        if kind == "extreme":
            return f"{self.rng.choice(['min', 'max', 'count'])}({self.column(t).name})"
        return {
            "everything": lambda: "*",
            "json": lambda: "JSON *",
            "distinct": lambda: self.distinct(t),
            "json distinct": lambda: "JSON " + self.distinct(t),
            "selectors": lambda: self.selectors(t),
            "json selectors": lambda: "JSON " + self.selectors(t),
            "aggregates": lambda: self.aggregates(t),
        }[kind]()

    def distinct(self, t: Table) -> str:
        names = [c.name for c in t.key] + [c.name for c in t.of("static") if self.rng.random() < 0.7]
        return "DISTINCT " + ", ".join(names)

    def group_by(self, t: Table) -> str:
        """GROUP BY, or nothing."""
        if not happens(self.rng, "group by"):
            return ""
        kind = pick(self.rng, "group")
        names = [c.name for c in t.key]
        if kind == "nonsense":
            names = [self.column(t).name]
        elif kind != "partition" and t.clustering:
            names += [c.name for c in t.clustering[: self.rng.randrange(1, len(t.clustering) + 1)]]
            last = t.clustering[len(names) - len(t.key) - 1]
            if kind == "time" and last.type.kind == "timestamp":
                names[-1] = f"floor({last.name}, {self.rng.choice(SPANS)})"
        return " GROUP BY " + ", ".join(names)
