"""Types and values: every value is drawn as a CQL literal and as the bytes a driver would bind.

The domains are small, so that statements of one sequence meet in the same cells, and hold the
extremes of each type.
"""

import dataclasses
import datetime
import decimal
import random
import struct
import uuid

from cassandra import cqltypes, util

V4 = 4
UUIDS = [uuid.UUID(int=0x6BA7B8109DAD41D180B400C04FD430C8 + i) for i in (0, 1, 2**64)]
TIMEUUIDS = [uuid.UUID(f"{low}-c6a1-11f0-8de9-0242ac120002") for low in ("9ff6b340", "9ff6b341", "00000000")]
MILLIS = [0, 1, 1795222923456, -2208988800000]


def timestamp(millis: int) -> datetime.datetime:
    return datetime.datetime(1970, 1, 1) + datetime.timedelta(milliseconds=millis)


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


# name -> [(literal, value as the driver's serializer takes it)]
DOMAINS = {
    "ascii": [(quoted(s), s) for s in ("a", "b", "B", "it's", "")],
    "bigint": [(str(i), i) for i in (0, 1, -1, 7, 2**63 - 1, -(2**63))],
    "blob": [("0x" + b.hex(), b) for b in (b"\x00", b"\x01\xff", b"\xff", b"")],
    "boolean": [("true", True), ("FALSE", False)],
    "date": [(quoted(d), util.Date(d)) for d in ("2026-11-21", "1970-01-01", "1899-12-31")],
    "decimal": [(d, decimal.Decimal(d)) for d in ("1.0", "1.00", "-3.25", "0", "1E+20", "-0.000001")],
    "double": [("1.5", 1.5), ("-0.0", -0.0), ("0", 0.0), ("NaN", float("nan")), ("-Infinity", float("-inf")), ("1e300", 1e300)],
    "duration": [("1y2mo", util.Duration(14, 0, 0)), ("-3d4h", util.Duration(0, -3, -14_400_000_000_000)), ("5ns", util.Duration(0, 0, 5))],
    "float": [("2.5", 2.5), ("-1", -1.0), ("Infinity", float("inf")), ("0.1", 0.1)],
    "inet": [(quoted(a), a) for a in ("10.0.0.1", "127.0.0.1", "::1", "2001:db8::ff")],
    "int": [(str(i), i) for i in (0, 1, 2, -1, 2**31 - 1, -(2**31))],
    "smallint": [(str(i), i) for i in (0, 1, -1, 2**15 - 1)],
    "text": [(quoted(s), s) for s in ("a", "ab", "b", "é", "🐍", "", "The run of a B")],
    "time": [(quoted(s), util.Time(s)) for s in ("00:00:00", "12:34:56.789012345", "23:59:59.999999999")],
    "timestamp": [(quoted("2026-11-21T01:02:03.456+0000"), timestamp(1795222923456)), ("0", timestamp(0)), ("-1", timestamp(-1))],
    "timeuuid": [(str(u), u) for u in TIMEUUIDS],
    "tinyint": [(str(i), i) for i in (0, 1, -1, 127, -128)],
    "uuid": [(str(u), u) for u in UUIDS],
    "varint": [(str(i), i) for i in (0, -1, 127, 128, -129, 2**80)],
}
CODECS = {codec.typename: codec for codec in vars(cqltypes).values() if getattr(codec, "typename", None) in DOMAINS}
# name -> [(literal, bytes)]
NATIVE = {
    name: [(literal, bytes(CODECS[name].serialize(value, V4))) for literal, value in domain]
    for name, domain in DOMAINS.items()
}
KEYABLE = [name for name in NATIVE if name != "duration"]


@dataclasses.dataclass(frozen=True)
class Type:
    """A CQL type. `kind` is a native name, list, set, map, tuple, vector or udt."""

    kind: str
    parts: tuple = ()
    frozen: bool = False
    name: str = ""
    fields: tuple = ()
    # Equal values have equal bytes. Which of two equal clusterings (1.0 and 1.00) a row shows
    # depends on when the server flushes, and Cassandra flushes at ALTER.
    canonical: bool = False

    def cql(self) -> str:
        if self.kind in NATIVE or self.kind == "counter":
            return self.kind
        if self.kind == "vector":
            return f"vector<{self.parts[0].cql()}, 3>"
        inner = self.name if self.kind == "udt" else f"{self.kind}<{', '.join(p.cql() for p in self.parts)}>"
        return f"frozen<{inner}>" if self.frozen else inner

    def freeze(self) -> "Type":
        return dataclasses.replace(self, frozen=self.kind in ("list", "set", "map", "udt"))

    @property
    def multi_cell(self) -> bool:
        return self.kind in ("list", "set", "map", "udt") and not self.frozen


def native(name: str) -> Type:
    return Type(name)


def draw_type(rng: random.Random, udts: list, depth: int = 0, key: bool = False) -> Type:
    """Any type; of a key: one that has an order and is frozen."""
    roll = rng.random()
    if depth >= 2 or roll < (0.85 if key else 0.5):
        return native(rng.choice(KEYABLE if key or depth else list(NATIVE)))
    kind = rng.choice(["list", "set", "map", "tuple", "udt" if udts else "list", "vector"])
    if kind == "udt":
        udt = rng.choice(udts)
        return dataclasses.replace(udt, frozen=key or depth > 0 or rng.random() < 0.5)
    if kind == "vector":
        return Type("vector", (native("float"),))
    parts = {"list": 1, "set": 1, "map": 2, "tuple": rng.randrange(1, 4)}[kind]
    inner = tuple(draw_type(rng, udts, depth + 1, key or i == 0).freeze() for i in range(parts))
    frozen = kind != "tuple" and (key or depth > 0 or rng.random() < 0.3)
    return Type(kind, inner, frozen)


def draw(rng: random.Random, ty: Type, nested: bool = False) -> tuple[str, bytes]:
    """A value of the type: its literal and its bytes."""
    if ty.kind == "counter":
        ty = native("bigint")
    if ty.kind in NATIVE:
        # 1.0 and 1.00 are one element of a set: which of them stays is not defined.
        canonical = nested or ty.canonical
        return rng.choice([v for v in NATIVE[ty.kind] if not canonical or v[0] != "1.00"])
    if ty.kind in ("list", "set"):
        items = [draw(rng, ty.parts[0], True) for _ in range(rng.randrange(0, 4))]
        if ty.kind == "set":
            items = distinct(items, nested)
        brackets = "[]" if ty.kind == "list" else "{}"
        return brackets[0] + ", ".join(i[0] for i in items) + brackets[1], pack([i[1] for i in items])
    if ty.kind == "map":
        keys = distinct([draw(rng, ty.parts[0], True) for _ in range(rng.randrange(0, 4))], nested)
        pairs = [(k, draw(rng, ty.parts[1], True)) for k in keys]
        literal = "{" + ", ".join(f"{k[0]}: {v[0]}" for k, v in pairs) + "}"
        return literal, struct.pack(">i", len(pairs)) + b"".join(sized(k[1]) + sized(v[1]) for k, v in pairs)
    if ty.kind == "vector":
        items = [draw(rng, ty.parts[0], True) for _ in range(3)]
        return "[" + ", ".join(i[0] for i in items) + "]", b"".join(i[1] for i in items)
    if ty.kind == "tuple":
        items = [draw_or_null(rng, part) for part in ty.parts]
        return "(" + ", ".join(i[0] for i in items) + ")", b"".join(sized(i[1]) for i in items)
    items = [(name, *draw_or_null(rng, part)) for name, part in zip(ty.fields, ty.parts)]
    literal = "{" + ", ".join(f"{n}: {literal}" for n, literal, _ in items) + "}"
    return literal, b"".join(sized(data) for _, _, data in items)


def draw_or_null(rng, ty):
    return ("null", None) if rng.random() < 0.15 else draw(rng, ty, True)


def distinct(items, nested: bool):
    """Without repeated values. Nested ones in one order, so that equal values have equal bytes."""
    unique = {data: (literal, data) for literal, data in items}
    return [unique[data] for data in sorted(unique)] if nested else [*unique.values()]


def sized(data) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def pack(items) -> bytes:
    """A list or set: the count, then each element with its length."""
    return struct.pack(">i", len(items)) + b"".join(map(sized, items))
