"""Runs a sequence on a server and compares two servers' answers.

Rows are compared as bytes and in order, with the names, types, tables and keyspaces of their columns; errors by
code; warnings by text. Only ttl() may differ, by the seconds between the two runs. A table that Cassandra prints with its
id loses the id.
"""

import collections
import math
import re
import struct

from harness.protocol import UNSET, Closed, Connection, Failure

# Codes of errors.
SYNTAX, INVALID, READ_FAILURE, WRITE_FAILURE = 0x2000, 0x2200, 0x1300, 0x1500
FUNCTION_FAILURE, PROTOCOL = 0x1400, 0x000A
WRITE_TIMEOUT, READ_TIMEOUT, TRUNCATE_ERROR = 0x1100, 0x1200, 0x1003
TTL_SLACK = 30
# Names of columns, as the generator gives them.
CLUSTERING, STATIC = r"\bc\d+\b", r"\bs\d+"
# What Cassandra says once a minute, to whoever comes then.
RARE_WARNINGS = ("`USE <keyspace>` with prepared statements", "SAI ANN indexes on vector columns are experimental")
PAGES = 2000


class Runner:
    """One connection to one server."""

    def __init__(self, address: str):
        self.address = address
        self.connection = Connection(address)
        self.keyspace = "system"
        # How many sequences it has cut short, as the oracle, by exceptions of its own, and by which.
        self.trips = 0
        self.reasons = collections.Counter()

    def trip(self, answer):
        """It cuts a sequence short by this answer."""
        self.trips += 1
        self.reasons[re.sub(r"\d+", "N", shown(answer).replace(self.keyspace, "KEYSPACE"))[:120]] += 1

    def reset(self, keyspace: str):
        """A keyspace of that name with nothing in it."""
        self.keyspace = keyspace
        self.connection.query(f"DROP KEYSPACE IF EXISTS {keyspace}")
        self.connection.query(
            f"CREATE KEYSPACE {keyspace} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
        )
        self.connection.query(f"USE {keyspace}")

    def reconnect(self):
        """A new connection to the server, which may be another process by now."""
        self.connection = Connection(self.address)
        self.connection.query(f"USE {self.keyspace}")

    def drop(self):
        self.connection.query(f"DROP KEYSPACE {self.keyspace}")

    def run(self, step: dict):
        """The answer as something that can be compared: ("error", code, text) or (kind, ...)."""
        try:
            if "batch" in step:
                return self.batch(step)
            return self.statement(step)
        except Failure as failure:
            return error_of(failure)
        except (Closed, OSError) as error:
            # The connection is the server's to keep: losing it is an answer of its own.
            self.reconnect()
            return ("closed", -1, repr(error))

    def batch(self, step):
        children = []
        for text, items, prepare in step["batch"]:
            children.append((self.connection.prepare(text) if prepare else text, unhexed(items)))
        result = self.connection.batch(children, step["kind"], timestamp=step["timestamp"])
        return self.answer(result, result.rows)

    def answer(self, result, rows):
        """What came, without the name of the keyspace."""

        def anywhere(texts):
            return [text.replace(self.keyspace, "{keyspace}") for text in texts]

        warnings = [in_order(text) for text in anywhere(result.warnings) if not text.startswith(RARE_WARNINGS)]
        if result.kind == "rows":
            return ("rows", result.columns, rows, [tuple(anywhere(table)) for table in result.tables], warnings)
        return (result.kind, tuple(anywhere(result.detail)), warnings)

    def statement(self, step):
        text = step["cql"].replace("{keyspace}", self.keyspace)
        items = unhexed(step.get("values", []))
        options = {"items": items, "page": step.get("page", 0), "timestamp": step["timestamp"]}
        prepared = self.connection.prepare(text) if step.get("prepare") else None
        rows, state, result = [], None, None
        for _ in range(PAGES):
            if prepared:
                result = self.connection.execute(prepared, state=state, **options)
            else:
                result = self.connection.query(text, state=state, **options)
            rows += result.rows
            state = result.paging_state
            if state is None:
                break
        if text.startswith("DESCRIBE"):
            rows = [tuple(v and v.replace(self.keyspace.encode(), b"{keyspace}") for v in row) for row in rows]
        return self.answer(result, rows)


def in_order(warning: str) -> str:
    """A warning with the tables of a batch in order: Cassandra has them as a hash table of their names has."""
    return re.sub(r"(?<=\[)\{keyspace\}[^]]*", lambda tables: ", ".join(sorted(tables[0].split(", "))), warning)


def error_of(failure: Failure):
    """A refusal, as an answer."""
    return ("error", failure.code, failure.message)


def unhexed(items):
    return [None if i is None else UNSET if i == "unset" else bytes.fromhex(i) for i in items]


def difference(a, b, slack: int = TTL_SLACK) -> str:
    """What differs between two answers; empty if nothing does. TTLs may differ by `slack` seconds."""
    if has_tripped(b) and a[0] != "closed":
        return ""
    if a[0] == b[0] == "error" and a[1] == SYNTAX and "Duplicate column" in b[2]:
        # Its parser goes on behind a mistake and complains of what it took the rest for.
        return ""
    if a[0] == b[0] == "error" and b[1] == SYNTAX and re.search("Unable to find abstract-type class|NullPointerException null", b[2]):
        # It looks for classes while it parses, before other mistakes, and may trip over what it finds.
        return ""
    if condition_is_bad(a) and was_not_applied(b):
        return ""
    if is_first_row_of_statics(a, b):
        return ""
    if a[0] == "rows" and b[0] == "error" and b[2].startswith("Invalid call to function system.cast_as_"):
        # It takes a column that is in descending order for another type than its own, and knows no such cast.
        return ""
    if has_calculated(a) and b[0] == "error" and re.search(r"^Function system\.\S+ requires a .* but found argument \w+ of type", b[2]):
        # The same of collections and vectors.
        return ""
    if a[0] == "rows" and b[0] == "error" and re.search(r"^Type error: .* cannot be passed as argument \d+ of function system\.", b[2]):
        # And of user types and tuples.
        return ""
    if a[0] == "rows" and b[0] == "error" and b[2].startswith("Use of ANN OF in an ORDER BY clause requires a LIMIT"):
        # It takes CONTAINS of a vector, by an index, for a search of what is nearest to it.
        return ""
    if a[0] == "void" and b[0] == "schema change" and b[1][:2] == ("UPDATED", "TYPE"):
        # Tables with the type, in descending order, are others to it although nothing has changed.
        return ""
    if (has_calculated(a) or a[1] == INVALID) and b[0] == "error" and b[1:] == (PROTOCOL, "Invalid value for the paging state"):
        # It gave that state itself, with a page of groups.
        return ""
    if a[0] != b[0]:
        return f"{shown(a)} | {shown(b)}"
    if a[0] in ("error", "closed"):
        return "" if a[1] == b[1] else f"{shown(a)} | {shown(b)}"
    if a[0] != "rows":
        return "" if a == b else f"{a} | {b}"
    if known_columns(a[1]) != known_columns(b[1]):
        return f"columns {a[1]} | {b[1]}"
    if a[3:] != b[3:]:
        return f"tables and warnings {a[3:]} | {b[3:]}"
    if len(a[2]) != len(b[2]):
        return f"{len(a[2])} rows | {len(b[2])} rows: {shown(a)} | {shown(b)}"
    for i, (left, right) in enumerate(zip(a[2], b[2])):
        for (name, _), x, y in zip(a[1], left, right):
            if name == "[json]" and x and y:
                x, y = (text.replace(b"to_json(", b"tojson(") for text in (x, y))
                x, y = without_ttls(x, y, slack)
            if x != y and not (name.startswith("ttl(") and close(x, y, slack)) and not same_description(name, x, y) and not both_nan(x, y):
                return f"row {i}, column {name}: {x!r} | {y!r}"
    return ""


def has_calculated(answer) -> bool:
    """Whether it has rows, or failed where it calculated one."""
    return answer[0] == "rows" or answer[0] == "error" and answer[1] == FUNCTION_FAILURE


def both_nan(x, y) -> bool:
    """Whether both are a float or a double that is not a number, with a sign or without."""
    kinds = {4: ">f", 8: ">d"}
    return x is not None and y is not None and len(x) == len(y) in kinds and all(math.isnan(*struct.unpack(kinds[len(n)], n)) for n in (x, y))


def condition_is_bad(answer) -> bool:
    """Whether a value of a condition is refused. Cassandra looks at conditions in the order of a hash table and
    stops at the first that does not hold: whether it comes to that value is chance."""
    refused = ("Invalid comparison with null for operator", "Invalid comparison with an empty", "Invalid 'unset' value in condition")
    return answer[0] == "error" and answer[2].startswith(refused)


def was_not_applied(answer) -> bool:
    return answer[0] == "rows" and answer[1][:1] == [("[applied]", "boolean")] and answer[2][0][0] == b"\0"


def is_first_row_of_statics(a, b) -> bool:
    """Whether a statement with conditions on static columns alone was not applied, and shows another row of the
    partition, or none: Cassandra goes on to the first that an INSERT wrote."""
    if not (was_not_applied(a) and was_not_applied(b)) or a[1] != b[1] or len(a[2]) != 1 or len(b[2]) != 1:
        return False
    return all(x == y or x is None for x, y in zip(a[2][0], b[2][0]))


def has_tripped(answer) -> bool:
    """Whether the oracle tripped over its own bug, an exception nobody caught, maybe where it reads or
    writes, and who asked may have waited in vain: then it has no answer."""
    return answer[0] == "error" and answer[1] in (0, READ_FAILURE, WRITE_FAILURE, READ_TIMEOUT, WRITE_TIMEOUT, TRUNCATE_ERROR)


def has_refused_vector(step: dict, before: list, a, b) -> bool:
    """Whether a write had a vector that its index refuses, and nothing after it can be compared: of one that Cassandra
    refuses, too, its views have the row. It takes one that is older than what it has in memory, so that it was
    written to before."""
    refused = ("non-finite value at vector", "Zero and near-zero vectors")
    if not (a[0] == "error" and a[1] == WRITE_FAILURE and a[2].startswith(refused)):
        return False
    return has_tripped(b) or b[0] == "void" and any(written(step) & written(earlier) for earlier in before)


def statements_of(step: dict) -> list[str]:
    """The texts of a step: of the statement, or of those of a batch."""
    return [step["cql"]] if "cql" in step else [child[0] for child in step["batch"]]


def written(step: dict) -> set[str]:
    """The tables that a step writes to."""
    return {table for text in statements_of(step) for table in re.findall(r"\b(?:INTO|UPDATE|DELETE\b.*? FROM) (\S+)", text)}


def known_columns(columns):
    """The columns, without the class that Cassandra names by mistake for what some functions give of timeuuids: no
    driver knows it. Of to_json and tojson it shows the one that its process met first for the type."""
    legacy = "'org.apache.cassandra.db.marshal.LegacyTimeUUIDType'"
    return [(name.replace("to_json(", "tojson("), type_.replace(legacy, "timeuuid")) for name, type_ in columns]


def close(x, y, slack: int) -> bool:
    """Whether two TTLs, or two lists of TTLs, differ by no more than the run took."""
    if x is None or y is None or len(x) != len(y) or len(x) % 4:
        return False
    return all(abs(a - b) <= slack for a, b in zip(ints(x), ints(y)))


def without_ttls(x: bytes, y: bytes, slack: int) -> tuple[bytes, bytes]:
    """The two rows of JSON, without TTLs that differ by no more than the run took."""
    if x == y or b'"ttl(' not in x:
        return x, y
    ttls = rb'"ttl\((?:[^"\\]|\\.)*": (\d+)'
    found = [list(map(int, re.findall(ttls, text))) for text in (x, y)]
    if len(found[0]) != len(found[1]) or any(abs(a - b) > slack for a, b in zip(*found)):
        return x, y
    return re.sub(ttls, b"", x), re.sub(ttls, b"", y)


def ints(data: bytes):
    """Its 32-bit numbers: of a list, its count and lengths too."""
    return struct.unpack(f">{len(data) // 4}i", data)


def is_known(step: dict, before: list, a, b) -> bool:
    """Whether the two answers to the step differ in a way of docs/differences.md that only the statements tell."""
    ways = (sorts_texts, shows_row_of_statics, finds_deleted, takes_half, compares_as_keys)
    ways_of_indexes = (misses_frozen, finds_any_vector, ends_early, misses_decimals, misses_statics, forgets_filters, finds_empty)
    return any(way(step, a, b) for way in ways) or any(way(step, before, a, b) for way in ways_of_indexes)


def sorts_texts(step: dict, a, b) -> bool:
    """Whether Cassandra has sorted the rows of several partitions by the bytes of their JSON, as it does."""
    text = step.get("cql", "")
    if not ("SELECT JSON *" in text and " IN (" in text and "ORDER BY" in text and a[0] == b[0] == "rows"):
        return False
    return "LIMIT" in text or sorted(a[2]) == sorted(b[2])


def shows_row_of_statics(step: dict, a, b) -> bool:
    """Whether conditions on static columns alone were not met, and Cassandra shows a row of the partition although
    the first was written by UPDATE alone: it goes on to the first that an INSERT wrote."""
    of_statics = not any(re.search(CLUSTERING, text) for text in statements_of(step))
    return of_statics and was_not_applied(a) and was_not_applied(b) and a[1] == b[1][:1]


def finds_deleted(step: dict, a, b) -> bool:
    """Whether Cassandra has found, in a static collection, what was deleted: it looks at the tombstones, too."""
    return a[0] == b[0] == "rows" and re.search(rf"{STATIC} CONTAINS", step.get("cql", "")) is not None


def takes_half(step: dict, a, b) -> bool:
    """Whether a part of a collection is wanted twice from the same element on, as element and slice, or as two slices:
    Cassandra forgets one of the two, and has no values for its elements."""
    starts = re.findall(r"\b(\w+)\[(.*?)(?:\.\.|\])", step.get("cql", "").split(" FROM ")[0])
    return a[0] == b[0] == "rows" and len(a[2]) == len(b[2]) and len(set(starts)) < len(starts)


def compares_as_keys(step: dict, a, b) -> bool:
    """Whether a condition on an entry of a map was met by only one of the two: Cassandra compares values of entries as
    if they were keys."""
    return any(re.search(r"\bIF\b.*\w\[", text) for text in statements_of(step)) and has_applied(a) is not None and has_applied(a) != has_applied(b)


def has_applied(answer) -> bool | None:
    """Whether a statement with conditions was applied; None if the answer is of no such statement."""
    is_of_one = answer[0] == "rows" and answer[1][:1] == [("[applied]", "boolean")]
    return answer[2][0][0] == b"\1" if is_of_one else None


def has_attached_index(schema: list[str]) -> bool:
    """Whether one of the statements makes a storage-attached index."""
    return any("'sai'" in text or "StorageAttachedIndex" in text for text in schema)


def asks_sasi(step: dict, before: list) -> bool:
    """Whether the step compares a column that a SASI index may be on."""
    made = [re.search(r"\((\w+)\) USING '\S+\.SASIIndex'", earlier.get("cql", "")) for earlier in before]
    compared = step.get("cql", "").partition(" WHERE ")[2]
    # Keys may have been renamed since, to rN.
    return any(index and re.search(rf"\b(?:{index[1]}|r\d+) ", compared) for index in made)


def forgets_filters(step: dict, before: list, a, b) -> bool:
    """Whether Cassandra, asking a SASI index, has not looked at another filter, or finds nothing by it."""
    has_others = " AND " in step.get("cql", "").partition(" WHERE ")[2]
    return a[0] == b[0] == "rows" and has_others and asks_sasi(step, before)


def finds_empty(step: dict, before: list, a, b) -> bool:
    """Whether Cassandra, asking a SASI index, has found what is empty: in a partition of which it found another row; or
    has not found a partition of static columns alone."""
    if not (a[0] == b[0] == "rows" and asks_sasi(step, before)):
        return False
    more, fewer = ([row for row in x[2] if row not in y[2]] for x, y in ((b, a), (a, b)))
    is_known = all(b"" in row for row in more) and all(None in row for row in fewer)
    return aggregates(step) or bool(more or fewer) and is_known


def misses_frozen(step: dict, before: list, a, b) -> bool:
    """Whether Cassandra, asking a storage-attached index, takes CONTAINS of a frozen collection for an equality."""
    schema = [earlier.get("cql", "") for earlier in before]
    column = re.search(r"(\w+) CONTAINS ", step.get("cql", ""))
    if not (column and a[0] == b[0] == "rows" and has_attached_index(schema)):
        return False
    return any(re.search(rf"\b{column[1]} frozen<", text) for text in schema if text.startswith(("CREATE TABLE", "ALTER TABLE")))


def finds_any_vector(step: dict, before: list, a, b) -> bool:
    """Whether Cassandra, asking a storage-attached index, does not look at what a vector is compared with: in one
    partition, or one of the partition key."""
    schema = [earlier.get("cql", "") for earlier in before]
    if not (a[0] == b[0] == "rows" and has_attached_index(schema)):
        return False

    def is_vector(name):
        return any(re.search(rf"\b{name} vector<", text) for text in schema)

    compared = re.findall(r"\b(\w+) [<>=]", step.get("cql", "").split(" WHERE ")[-1])
    # Keys may have been renamed since, to rN.
    is_renamed = any(re.match(r"r\d", name) for name in compared) and is_vector(r"k\d+")
    finds_more = aggregates(step) or len(a[2]) <= len(b[2])
    return finds_more and (is_renamed or any(map(is_vector, compared)))


def ends_early(step: dict, before: list, a, b) -> bool:
    """Whether Cassandra, asking a storage-attached index, has ended at a page of which rows were not in a range of
    addresses, or not what a vector is compared with: it looks at those when it has cut the page."""
    schema = [earlier.get("cql", "") for earlier in before]
    if not (a[0] == b[0] == "rows" and has_attached_index(schema) and step.get("page")):
        return False
    names = re.findall(r"\b(\w+) [<>=]", step.get("cql", ""))
    compared = [name for name in names if any(re.search(rf"\b{name} (?:inet\b|vector<)", text) for text in schema)]
    return bool(compared) and (a[2][: len(b[2])] == b[2] or aggregates(step))


def misses_decimals(step: dict, before: list, a, b) -> bool:
    """Whether Cassandra, asking an index, misses decimals of other digits than those that are asked for."""
    schema = [earlier.get("cql", "") for earlier in before]

    def has_indexed_decimals(name):
        # Keys may have been renamed since, to rN.
        column = re.sub(r"^r\d+$", r"(?:[kcr]\\d+)", name)
        is_indexed = any(re.search(rf"^CREATE .*INDEX .*\((?:\w+\()?{column}\)", text) for text in schema)
        of_decimals = rf"\b{column} (?:\w+<(?:[^<>]|<[^<>]*>)*?)?decimal"
        return is_indexed and any(re.search(of_decimals, text) for text in schema)

    if not a[0] == b[0] == "rows":
        return False
    names = re.findall(r"\b(\w+) (?:=|CONTAINS)", step.get("cql", "").split(" WHERE ")[-1])
    fewer = len(b[2]) < len(a[2]) and all(row in a[2] for row in b[2])
    return (fewer or aggregates(step)) and any(map(has_indexed_decimals, names))


def aggregates(step: dict) -> bool:
    """Whether the step puts rows together."""
    return re.search(r"\b(count|min|max|sum|avg)\(", step.get("cql", "").split(" FROM ")[0]) is not None


def misses_statics(step: dict, before: list, a, b) -> bool:
    """Whether Cassandra, asking an index on a column of the partition key, misses a partition of static columns alone
    of which some had been deleted before they were written."""
    schema = [earlier.get("cql", "") for earlier in before]
    deleted = any(re.search(rf"DELETE .*{STATIC}.* FROM", text) for earlier in before for text in statements_of(earlier))
    if not (a[0] == b[0] == "rows" and deleted and re.search(r"\b[kr]\d+ = ", step.get("cql", ""))):
        return False
    fewer = len(b[2]) < len(a[2]) and all(row in a[2] for row in b[2])
    return (fewer or aggregates(step)) and any(re.search(r"CREATE INDEX .*\([kr]\d+\)$", text) for text in schema)


def same_description(name, x, y) -> bool:
    def plain(data):
        data = re.sub(rb"ID = [0-9a-f-]+\s+AND ", b"", data)
        if not data.startswith(b"CREATE MATERIALIZED VIEW"):
            return data
        # In what the rows of a view fulfil, Cassandra forgets to double quotes, and has the fields of user types in
        # the order of a hash table.
        return re.sub(rb"\{([^{}]*)\}", sorted_fields, data.replace(b"''", b"'"))

    def sorted_fields(found):
        return b"{" + b", ".join(sorted(found[1].split(b", "))) + b"}"

    return name == "create_statement" and x is not None and y is not None and plain(x) == plain(y)


def shown(answer) -> str:
    if answer[0] == "rows":
        return f"{len(answer[2])} rows {answer[2][:20]}"
    return f"error {answer[1]:#06x} {answer[2]!r}" if answer[0] == "error" else str(answer)


def compare(left: Runner, right: Runner, steps: list, keyspace: str, restart=None) -> tuple[int, str] | None:
    """Runs the steps on both; the first step whose answers differ, and how.

    `restart()` restarts the left server, twice on the way: what was in memory is then on disk.
    """
    left.reset(keyspace)
    # One server may be compared with itself, which proves the generator's determinism.
    right.reset(keyspace + "_again" if left.address == right.address else keyspace)
    try:
        for i, step in enumerate(steps):
            if restart and i in (len(steps) // 3, len(steps) * 2 // 3):
                # Who stays connected and silent is waited for by a server that stops.
                left.connection.close()
                restart()
                left.reconnect()
            ours, theirs = left.run(step), right.run(step)
            if has_refused_vector(step, steps[:i], ours, theirs):
                right.trip(ours)
                return None
            found = difference(ours, theirs)
            if found and not is_known(step, steps[:i], ours, theirs):
                return i, found
            is_write = not step.get("cql", "").startswith(("SELECT", "DESCRIBE"))
            if is_write and (has_tripped(theirs) and ours[0] != "error" or bool(has_applied(ours)) != bool(has_applied(theirs))):
                # A write that only one of them took: nothing after it can be compared.
                right.trip(theirs)
                return None
        return None
    finally:
        left.drop()
        drop_oracles(right)


def drop_oracles(right: Runner):
    """Drops the oracle's keyspace. It may trip over a table there that it made and cannot write any more, so that the
    keyspace stays."""
    try:
        right.drop()
    except Failure as failure:
        answer = error_of(failure)
        if not has_tripped(answer):
            raise
        right.trip(answer)
