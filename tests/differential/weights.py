"""How often the generator takes which construct: all weights are here.

A choice is made with `pick(rng, point)`, a yes or no with `happens(rng, name)`.
"""

# point of choice -> construct -> weight
WEIGHTS = {
    # What a step of a sequence is.
    "step": {"schema change": 4, "batch": 5, "write": 45, "read": 46},
    "write": {"insert": 45, "insert json": 6, "update": 27, "delete": 22},
    "table": {"rows": 12, "counters": 1},
    "schema change": {
        "add": 20, "drop": 10, "rename": 8, "option": 12, "truncate": 8, "create again": 10, "exists": 8,
        "spoiled": 6, "drop type": 3, "alter type": 8, "read schema": 5, "drop nothing": 4, "alter nothing": 4,
        "describe": 12, "mask": 2, "trigger": 1, "index": 14, "drop index": 5,
        "view": 3, "drop view": 2, "alter view": 1,
    },
    "index": {"column": 20, "part": 8, "attached": 14, "search": 7, "nonsense": 2},
    # Options of an index that texts are searched by (SASI).
    "search": {"none": 5, "contains": 6, "sparse": 1, "letters": 4, "words": 4, "stems": 3, "parts": 2, "nonsense": 1},
    "describe": {"table": 6, "keyspace": 2, "only keyspace": 1, "type": 4, "name": 2, "nothing": 1, "index": 2, "view": 2},
    # What a view is made wrong by.
    "view": {"as it must be": 30, "a key left out": 1, "null keys": 1, "a static column": 1, "another function": 1},
    "delete": {"columns": 35, "row": 25, "slice": 25, "partition": 15},
    # What comes between SELECT and FROM.
    "selection": {
        "everything": 28, "count": 8, "distinct": 7, "extreme": 6, "selectors": 38, "json": 8, "aggregates": 7,
        "json selectors": 4, "json distinct": 1,
    },
    "selector": {
        "column": 30, "written": 12, "token": 6, "field": 7, "element": 6, "slice": 5, "function": 12, "cast": 5,
        "arithmetic": 7, "negation": 2, "to_json": 5, "mask": 6, "hint": 4, "gathered": 5, "similarity": 3,
        "constant": 2, "nested": 3, "nonsense": 2,
    },
    "written": {"writetime": 4, "ttl": 4, "maxwritetime": 2, "of an element": 3, "of a field": 3},
    "mask": {"mask_default": 3, "mask_null": 2, "mask_hash": 3, "mask_replace": 2, "mask_inner": 3, "mask_outer": 2},
    "gathered": {"list": 3, "set": 2, "tuple": 3, "map": 1},
    # WHERE of a SELECT.
    "where": {"nothing": 14, "token": 10, "in": 15, "key": 46, "filter": 15, "index": 12},
    "clustering": {"tuple": 30, "tuples": 10, "in": 10, "comparison": 50},
    "filter": {"comparison": 6, "in": 2, "contains": 4, "contains key": 3, "entry": 4, "like": 2, "not": 1},
    "assignment": {"whole": 25, "part": 75},
    "group": {"partition": 3, "clustering": 5, "time": 1, "nonsense": 1},
}

# name -> chance
CHANCES = {
    "indexed from the start": 0.5,
    "viewed from the start": 0.12,
    # Of the reads, in a sequence with views.
    "read of a view": 0.4,
    "bound": 0.5,
    "spoiled": 0.06,
    "prepared": 0.6,
    "paged": 0.4,
    "described at the end": 0.3,
    "json value": 0.04,
    "group by": 0.3,
    "allow filtering": 0.9,
    "filter beside a key": 0.08,
    "order of a partition": 0.3,
    "order of others": 0.04,
    "per partition limit": 0.15,
    "limit": 0.25,
    "relations shuffled": 0.1,
    "static insert": 0.15,
    "static update": 0.2,
    "default unset": 0.3,
}


def pick(rng, point: str) -> str:
    """One of the constructs of a point of choice."""
    weights = WEIGHTS[point]
    return rng.choices(list(weights), list(weights.values()))[0]


def happens(rng, name: str) -> bool:
    """Whether something happens."""
    return rng.random() < CHANCES[name]
