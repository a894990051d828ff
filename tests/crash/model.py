"""What a partition must hold after the operations sent to it.

A writer owns its partitions and has at most one operation in flight for each, so after a crash a
partition holds either what was acknowledged, or that and the one operation in flight: nothing
else. Operations on one partition are atomic, batches included.
"""

import dataclasses
import struct

TABLE = (
    "CREATE TABLE crash.rows (k int, c int, v text, m map<int, text>, s text static, PRIMARY KEY (k, c)) "
    "WITH gc_grace_seconds = 864000"
)
# The statement that clients prepare.
INSERT = "INSERT INTO crash.rows (k, c, v) VALUES (?, ?, ?)"
CLUSTERINGS = 6


@dataclasses.dataclass
class Partition:
    """Rows by clustering value (text, map) and the static column. Rows always have a marker."""

    rows: dict = dataclasses.field(default_factory=dict)
    static: str | None = None

    def copy(self) -> "Partition":
        return Partition({c: (v, dict(m)) for c, (v, m) in self.rows.items()}, self.static)


def number(value: int) -> bytes:
    return struct.pack(">i", value)


class Operation:
    """One acknowledged-or-not unit: statements with values, and what they do to partitions."""

    def __init__(self, statements: list, effects: dict, logged: bool | None = None):
        self.statements = statements  # [(text, values)]
        self.effects = effects  # partition -> function(Partition) that changes it
        self.logged = logged  # None: not a batch

    def applied_to(self, key: int, state: Partition) -> Partition:
        state = state.copy()
        self.effects[key](state)
        return state


def insert(rng, key: int, text: str) -> Operation:
    c = rng.randrange(CLUSTERINGS)
    # The map is not part of it: a row keeps its map when it is inserted again.
    statement = (INSERT, [number(key), number(c), text.encode()])

    def effect(p):
        p.rows[c] = (text, p.rows.get(c, (None, {}))[1])

    return Operation([statement], {key: effect})


def put(rng, key: int, text: str) -> Operation:
    c, m = rng.randrange(CLUSTERINGS), rng.randrange(4)
    statements = [
        ("INSERT INTO crash.rows (k, c) VALUES (?, ?)", [number(key), number(c)]),
        ("UPDATE crash.rows SET m[?] = ? WHERE k = ? AND c = ?", [number(m), text.encode(), number(key), number(c)]),
    ]

    def effect(p):
        v, old = p.rows.get(c, (None, {}))
        p.rows[c] = (v, {**old, m: text})

    return Operation(statements, {key: effect}, logged=False)


def set_static(rng, key: int, text: str) -> Operation:
    statement = ("UPDATE crash.rows SET s = ? WHERE k = ?", [text.encode(), number(key)])
    return Operation([statement], {key: lambda p: setattr(p, "static", text)})


def delete_row(rng, key: int, text: str) -> Operation:
    c = rng.randrange(CLUSTERINGS)
    statement = ("DELETE FROM crash.rows WHERE k = ? AND c = ?", [number(key), number(c)])
    return Operation([statement], {key: lambda p: p.rows.pop(c, None)})


def delete_range(rng, key: int, text: str) -> Operation:
    low = rng.randrange(CLUSTERINGS)
    statement = ("DELETE FROM crash.rows WHERE k = ? AND c >= ?", [number(key), number(low)])

    def effect(p):
        p.rows = {c: row for c, row in p.rows.items() if c < low}

    return Operation([statement], {key: effect})


def delete_partition(rng, key: int, text: str) -> Operation:
    def effect(p):
        p.rows, p.static = {}, None

    return Operation([("DELETE FROM crash.rows WHERE k = ?", [number(key)])], {key: effect})


def fill(rng, key: int, text: str) -> Operation:
    """A batch on one partition: all of it or nothing of it."""
    return batch([key], text, logged=False)


def batch(keys: list, text: str, logged: bool) -> Operation:
    """A batch that writes every row of these partitions, and their static column."""
    statements = []
    for key in keys:
        for c in range(CLUSTERINGS):
            values = [number(key), number(c), text.encode(), text.encode()]
            statements.append(("INSERT INTO crash.rows (k, c, v, s) VALUES (?, ?, ?, ?)", values))

    def effect(p):
        p.rows = {c: (text, p.rows.get(c, (None, {}))[1]) for c in range(CLUSTERINGS)}
        p.static = text

    return Operation(statements, {key: effect for key in keys}, logged)


SINGLE = [insert] * 6 + [put] * 3 + [set_static, fill, fill, delete_row, delete_row, delete_range, delete_partition]
