"""Values as JSON, as INSERT JSON and from_json take them."""

import json
import random

from .values import NATIVE, Type, quoted

# Their literals are JSON as they are, unless they are no finite numbers.
PLAIN = {"bigint", "boolean", "double", "float", "int", "smallint", "tinyint", "varint"}


def draw_json(rng: random.Random, ty: Type) -> str:
    """A value of the type."""
    if ty.kind == "counter":
        return "1"
    if ty.kind in NATIVE:
        # What Jackson reads of a decimal is a double: only such as it gives back.
        literal, _ = rng.choice([v for v in NATIVE[ty.kind] if v[0] not in ("1.00", "-0.000001")])
        return native(ty.kind, literal)
    if ty.kind in ("list", "set"):
        items = [draw_json(rng, ty.parts[0]) for _ in range(rng.randrange(0, 4))]
        return "[" + ", ".join(items) + "]"
    if ty.kind == "vector":
        return "[" + ", ".join(draw_json(rng, ty.parts[0]) for _ in range(3)) + "]"
    if ty.kind == "tuple":
        return "[" + ", ".join(draw_json(rng, part) for part in ty.parts) + "]"
    if ty.kind == "udt":
        return "{" + ", ".join(f'"{n}": {draw_json(rng, part)}' for n, part in zip(ty.fields, ty.parts)) + "}"
    entries = {}
    for _ in range(rng.randrange(0, 3)):
        key = draw_json(rng, ty.parts[0])
        entries[key if key.startswith('"') else json.dumps(key)] = draw_json(rng, ty.parts[1])
        if "set<" in ty.parts[0].cql() or "map<" in ty.parts[0].cql():
            # The same key may be written in several orders; which of them counts is chance in Cassandra.
            break
    return "{" + ", ".join(f"{k}: {v}" for k, v in entries.items()) + "}"


def native(kind: str, literal: str) -> str:
    if kind in PLAIN and literal[-1].isalnum() and "n" not in literal.lower() or literal.lower() in ("true", "false"):
        return literal.lower()
    text = literal[1:-1].replace("''", "'") if literal.startswith("'") else literal
    return json.dumps(text, ensure_ascii=False)


def draw_json_literal(rng: random.Random, ty: Type) -> str:
    """The same as a CQL string."""
    return quoted(draw_json(rng, ty))


def draw_row(rng: random.Random, columns: list) -> str:
    """An object with these columns, as a CQL string."""
    return quoted("{" + ", ".join(f'"{c.name}": {draw_json(rng, c.type)}' for c in columns) + "}")
