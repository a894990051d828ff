"""Values of every type, at their extremes, as the driver gives them back."""

import datetime
import decimal
import uuid

from cassandra.util import Date, Duration, Time

U = uuid.UUID("6ba7b810-9dad-41d1-80b4-00c04fd430c8")
T = uuid.UUID("9ff6b340-c6a1-11f0-8de9-0242ac120002")
DAY = datetime.date(2026, 11, 21)
MOMENT = datetime.datetime(2026, 11, 21, 1, 2, 3, 456000)

# type -> (values, a CQL literal of the first value)
NATIVE = {
    "ascii": (["abc", "", "~" * 300], "'abc'"),
    "bigint": ([42, 0, -1, 2**63 - 1, -(2**63)], "42"),
    "blob": ([b"\x00\xff\x10", b"", bytes(range(256)) * 40], "0x00ff10"),
    "boolean": ([True, False], "true"),
    "date": ([Date(DAY), Date(0), Date(-(2**31)), Date(2**31 - 1)], "'2026-11-21'"),
    "decimal": (
        [decimal.Decimal("-12.345"), decimal.Decimal("0"), decimal.Decimal("1E+30"), decimal.Decimal("1." + "3" * 60)],
        "-12.345",
    ),
    "double": ([1.5, 0.0, -1e308, 5e-324, float("inf"), float("-inf")], "1.5"),
    "duration": ([Duration(14, 3, 5_000_000_000), Duration(0, 0, 0), Duration(-1, -2, -3)], "1y2mo3d5s"),
    "float": ([-2.5, 0.0, float("inf")], "-2.5"),
    "inet": (["127.0.0.1", "0.0.0.0", "2001:db8::1"], "'127.0.0.1'"),
    "int": ([7, 0, -1, 2**31 - 1, -(2**31)], "7"),
    "smallint": ([-300, 0, 2**15 - 1, -(2**15)], "-300"),
    "text": (["prophetés ἔλεγε 🐍", "", "a'b\"c\n\0"], "'prophetés ἔλεγε 🐍'"),
    "time": ([Time(3_723_000_000_004), Time(0), Time(86_399_999_999_999)], "'01:02:03.000000004'"),
    "timestamp": ([MOMENT, datetime.datetime(1970, 1, 1), datetime.datetime(1899, 12, 31, 23)], "'2026-11-21 01:02:03.456+0000'"),
    "timeuuid": ([T], str(T)),
    "tinyint": ([-7, 0, 127, -128], "-7"),
    "uuid": ([U, uuid.UUID(int=0)], str(U)),
    "varchar": (["wide", ""], "'wide'"),
    "varint": ([-129, 0, 2**200, -(2**200), 127, 128], "-129"),
}

# What cannot be a key: duration has no order.
KEYS = {name: values for name, (values, _) in NATIVE.items() if name != "duration"}
