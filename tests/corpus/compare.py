"""Comparing JSON by value: numbers exactly, but those of floating-point columns as such numbers."""

import decimal
import struct

NUMBERS = (int, decimal.Decimal)


def same_number(a, b, ty: str) -> bool:
    if a == b:
        return True
    try:
        if "double" in ty:
            return float(a) == float(b)
        if "float" in ty:
            return struct.pack(">f", float(a)) == struct.pack(">f", float(b))
    except OverflowError:
        pass
    return False


def difference(actual, expected, ty: str = "", where: str = "", ignored=()) -> str | None:
    """The first place where they differ; `ty` is the CQL type if numbers may be floating-point ones."""
    if isinstance(actual, dict) and isinstance(expected, dict):
        a, e = ([key for key in side if key not in ignored] for side in (actual, expected))
        if set(a) != set(e):
            return f"{where}: members {a}, expected {e}"
        for key in e:
            found = difference(actual[key], expected[key], ty, f"{where}/{key}", ignored)
            if found:
                return found
        return None
    if isinstance(actual, list) and isinstance(expected, list):
        for at, (x, y) in enumerate(zip(actual, expected)):
            found = difference(x, y, ty, f"{where}/{at}", ignored)
            if found:
                return found
        if len(actual) != len(expected):
            return f"{where}: {len(actual)}, expected {len(expected)}"
        return None
    if isinstance(actual, bool) or isinstance(expected, bool):
        return None if actual is expected else f"{where}: {shown(actual)}, expected {shown(expected)}"
    if isinstance(actual, NUMBERS) and isinstance(expected, NUMBERS) and same_number(actual, expected, ty):
        return None
    return None if actual == expected else f"{where}: {shown(actual)}, expected {shown(expected)}"


def shown(value) -> str:
    text = repr(value)
    return text if len(text) < 80 else text[:77] + "..."


def difference_of_rows(actual: list, expected: list, types: dict[str, str]) -> str | None:
    """The first row that differs, in order; `types` are those of the columns."""
    for at, (x, y) in enumerate(zip(actual, expected)):
        if set(x) != set(y):
            return f"row {at}: columns {sorted(x)}, expected {sorted(y)}"
        for name in y:
            found = difference(x[name], y[name], types.get(name.strip('"'), ""), f"row {at}/{name}")
            if found:
                return found
    if len(actual) != len(expected):
        return f"{len(actual)} rows, expected {len(expected)}"
    return None
