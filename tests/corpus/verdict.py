"""What a case has to give, and whether it did.

A sound case gives the rows that Cassandra gives, and the dump that `sstabledump` prints. A damaged one gives what
its kind of damage allows; in no case are there fewer rows without an error that names a file.
"""

import dataclasses
import json
import os
import re
import subprocess
from decimal import Decimal

from .compare import difference, difference_of_rows

# What can be made from the other files: nobody notices.
DERIVABLE = {"missing_digest", "missing_filter", "missing_summary", "missing_toc", "unknown_component", "wrong_digest"}
# What cannot: the sstable is refused with an error that names the file.
REFUSED = {
    "flip_statistics": "Statistics.db",
    "missing_statistics": "Statistics.db",
    "missing_compressioninfo": "CompressionInfo.db",
    "missing_partitions": "Partitions.db",
}
# The data is not what was written: an error with file and offset, all that is sound is read.
DATA = {"flip_data", "flip_data_uncompressed", "truncated_data", "truncated_data_uncompressed"}
# What verification has to find though reads may not.
VERIFIED = {
    "flip_data": "Data.db",
    "flip_data_uncompressed": "Data.db",
    "truncated_data": "Data.db",
    "truncated_data_uncompressed": "Data.db",
    "wrong_digest": "Digest.crc32",
}


@dataclasses.dataclass
class Verdict:
    """The lines of the table that is printed."""

    case: str
    rows: str = "-"
    dump: str = "-"
    faults: list = dataclasses.field(default_factory=list)
    remarks: list = dataclasses.field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.faults


def binary() -> str:
    from harness.server import ROOT

    return os.environ.get("HELENUS_BINARY", str(ROOT / "target" / "release" / "helenus"))


def tool(*arguments) -> subprocess.CompletedProcess:
    return subprocess.run([binary(), "sstable", *map(str, arguments)], capture_output=True, text=True, timeout=300)


def judge(node, case) -> Verdict:
    verdict = Verdict(case.name)
    if case.name in node.remarks:
        verdict.remarks.append(node.remarks[case.name])
    if case.name in node.refused:
        verdict.faults.append(f"schema: {node.refused[case.name]}")
    else:
        judge_rows(node, case, verdict)
    judge_dump(case, verdict)
    if case.damage in VERIFIED:
        judge_verification(case, verdict)
    return verdict


def judge_rows(node, case, verdict: Verdict) -> None:
    expected = case.rows()
    actual, error = node.select(case)
    if expected is None:
        judge_unknown(node, case, verdict, actual, error)
        return
    types = node.types(case)
    different = f"read: {error}" if error else difference_of_rows(actual, expected, types)
    whole = case.undamaged_rows() if case.damage else None
    if case.damage and case.damage not in DERIVABLE:
        # All the rows there were is the best answer there is.
        if whole is not None and not error and difference_of_rows(actual, whole, types) is None:
            verdict.rows = f"{len(actual)} same"
        elif error:
            judge_error(node, case, verdict, error)
            judge_partitions(node, case, verdict, expected, types)
        elif different is None and may_be_silent(case, actual, whole):
            verdict.rows = f"{len(actual)} as Cassandra"
        else:
            verdict.faults.append(f"{len(actual)} rows and no error")
        return
    if different is None:
        verdict.rows = f"{len(actual)} same"
    elif error and not expected and case.note:
        # Cassandra left the sstable out, which the note says; a refusal is clearer.
        judge_error(node, case, verdict, error)
    else:
        verdict.faults.append(different + told(node, case))


def may_be_silent(case, actual: list, whole: list | None) -> bool:
    """Whether rows as Cassandra gives them need no error: none are missing, as far as anybody knows.

    Cassandra does not look at CRC.db when it reads, so that it gives changed rows of data that is not compressed.
    """
    if case.damage in REFUSED or case.damage in DATA - {"flip_data_uncompressed"}:
        return False
    return bool(actual) and (whole is None or len(actual) >= len(whole))


def told(node, case) -> str:
    """The last thing that was logged about the case."""
    lines = [strip(line) for line in node.logged(case)]
    return f" ({lines[-1][-160:]})" if lines else ""


def strip(line: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", line)


def judge_error(node, case, verdict: Verdict, error: str) -> None:
    """The error names a file of the case, and where the data is wrong, the place: to the client or in the log."""
    component = REFUSED.get(case.damage, "Data.db" if case.damage in DATA else "")
    lines = [error] + [strip(line) for line in node.logged(case)]
    naming = [line for line in lines if any(name in line for name in names(case, component))]
    if case.damage in DATA:
        naming = [line for line in naming if re.search(r"offset \d+", line)]
    if not naming:
        verdict.faults.append(f"the error names no file{' and offset' if case.damage in DATA else ''}: {error}")
        return
    if "RandomPartitioner" in case.note and not any("RandomPartitioner" in l and "Murmur3Partitioner" in l for l in naming):
        verdict.faults.append(f"the error does not name both partitioners: {naming[0]}")
    verdict.rows = "refused"


def names(case, component: str) -> list[str]:
    prefixes = {name.removesuffix("Data.db") for name in case.data_files()}
    if component:
        return [prefix + component for prefix in prefixes]
    return sorted(prefixes)


def judge_partitions(node, case, verdict: Verdict, expected: list, types: dict) -> None:
    """The partitions that Cassandra could read one by one: each is the same, or refused if the whole file is."""
    key = node.partition_key(case)
    by_key: dict = {}
    for row in expected:
        by_key.setdefault(tuple(literal(row[name]) for name in key), []).append(row)
    read = 0
    for values, rows in by_key.items():
        where = " AND ".join(f'"{name}" = {value}' for name, value in zip(key, values))
        actual, error = node.select(case, f" WHERE {where}")
        if error:
            continue
        different = difference_of_rows(actual, rows, types)
        if different:
            verdict.faults.append(f"partition {values}: {different}")
            return
        read += 1
    if by_key:
        verdict.rows = f"{read} of {len(by_key)} partitions"
    if case.damage == "flip_data" and read < len(by_key):
        verdict.faults.append(f"{len(by_key) - read} partitions that are sound cannot be read")


def literal(value) -> str:
    return str(value) if isinstance(value, (int, Decimal)) else "'" + str(value).replace("'", "''") + "'"


def judge_unknown(node, case, verdict: Verdict, actual: list, error: str) -> None:
    """Cassandra could not read it: whatever is read, or an error that names the file."""
    if error:
        judge_error(node, case, verdict, error)
    else:
        verdict.rows = f"{len(actual)} read"
        verdict.remarks.append("Cassandra cannot read it")


def judge_dump(case, verdict: Verdict) -> None:
    expected = case.expected() or {}
    same = 0
    for name, content in sorted(expected.items()):
        done = tool("dump", case.sstables / name)
        if done.returncode:
            component = REFUSED.get(case.damage, "")
            damaged = case.damage and case.damage not in DERIVABLE
            if damaged and any(name in done.stderr for name in names(case, component)):
                verdict.dump = "refused"
            else:
                verdict.faults.append(f"dump: {done.stderr.strip()}")
            continue
        different = difference(json.loads(done.stdout, parse_float=Decimal), content, "", name, ignored=("expired",))
        if different:
            verdict.faults.append(f"dump: {different}")
        else:
            same += 1
    if same:
        verdict.dump = f"{same} same"
    if not expected:
        for name in case.data_files():
            done = tool("dump", case.sstables / name)
            if done.returncode and not any(word in done.stderr for word in names(case, "")):
                verdict.faults.append(f"dump: an error that names no file: {done.stderr.strip()}")
            verdict.dump = "refused" if done.returncode else "read"


def judge_verification(case, verdict: Verdict) -> None:
    component = VERIFIED[case.damage]
    done = tool("verify", *(case.sstables / name for name in case.data_files()))
    said = done.stdout + done.stderr
    if done.returncode == 0 or not any(name in said for name in names(case, component)):
        verdict.faults.append(f"verify does not find the damage: {said.strip()[-200:]}")
    elif component == "Data.db" and not re.search(r"offset \d+", said):
        verdict.faults.append(f"verify names no offset: {said.strip()[-200:]}")
