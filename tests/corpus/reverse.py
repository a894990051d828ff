"""The way back: Helenus compacts the tables of the cases, and Cassandra reads what it wrote.

A node of Helenus opens the files of all the cases and `nodetool compact` rewrites every table in the given format.
Then the new files, and no others, are put into the table folders of a Cassandra with the same schemas. Its
sstableverify must accept every table, its sstabledump must print of every file what `helenus sstable dump` prints,
and its `SELECT JSON *` must give the rows of the case again, by value and in order.
"""

import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
from decimal import Decimal

import harness
from harness.protocol import Connection

from .case import Case
from .compare import difference, difference_of_rows
from .node import Node, Refused, column_types, run_schema, select, table_folder
from .verdict import DERIVABLE, binary, tool

TOOL = harness.server.ROOT / "tests" / "cassandra" / "tool.sh"
# What makes Cassandra's offline tools take a format for the newest: they refuse others. The server reads both anyhow.
TOOL_SETTINGS = {
    "big": "",
    "bti": "storage_compatibility_mode: NONE\nsstable:\n  selected_format: bti\n",
}
# The versions that Helenus writes: nb is also read by Cassandra 4.
VERSION = {"big": "nb-", "bti": "da-"}
TOOLS_AT_ONCE = 2
TIMEOUT = 600


@dataclasses.dataclass
class Returned:
    """The line of a case in the table that is printed; `left_out` says why if it is not sent this way."""

    case: str
    before: int = 0
    after: int = 0
    rows: str = "-"
    verified: str = "-"
    dumped: str = "-"
    left_out: str = ""
    faults: list = dataclasses.field(default_factory=list)
    remarks: list = dataclasses.field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.faults

    def line(self, width: int) -> str:
        if self.left_out:
            return f"{self.case:{width}}  left out: {self.left_out}"
        said = "; ".join(self.remarks) if self.ok else "FAILED: " + "; ".join(self.faults)
        files = f"{self.before} -> {self.after}"
        return f"{self.case:{width}}  sstables {files:8} verify {self.verified:9} dump {self.dumped:9} rows {self.rows:12} {said}".rstrip()


def reason_to_leave_out(case: Case) -> str:
    """Why a case cannot go this way; empty if it can."""
    if case.damage and case.damage not in DERIVABLE:
        return f"damaged ({case.damage}): there is nothing sound to compact"
    if "RandomPartitioner" in case.note:
        return "written with another partitioner"
    if case.rows() is None:
        return "Cassandra cannot read the files that it was made from"
    if "chunk checksums do not match" in case.note:
        return "damaged: the checksums do not match the data"
    return ""


def run(chosen: list[Case], format: str, folder: pathlib.Path, tools: bool = True) -> list[Returned]:
    """All the cases through one node of Helenus and one of Cassandra."""
    results = {case.name: Returned(case.name, left_out=reason_to_leave_out(case)) for case in chosen}
    sent = [case for case in chosen if not results[case.name].left_out]
    node = Node(folder / "helenus", sent, ["--sstable-format", format])
    target = harness.Cassandra(harness.free_address(), folder / "cassandra", ["--test-features"])
    try:
        compact_all(node, sent, format, results)
        target.start()
        created = create_all(target, sent, results)
        target.stop()
        files = {case.name: hand_over(node, target, case, results[case.name]) for case in created}
        if tools:
            run_tools(target, format, created, files, results)
        target.start()
        for case in created:
            compare_rows(target, case, results[case.name])
    finally:
        node.server.kill()
        target.kill()
    return list(results.values())


def compact_all(node: Node, sent: list[Case], format: str, results: dict) -> None:
    """A major compaction of every table, after which none of the files there were is left."""
    node.prepare()
    node.start()
    for case in sent:
        result = results[case.name]
        if case.name in node.refused:
            result.faults.append(f"schema: {node.refused[case.name]}")
            continue
        before = data_files(node.table_folder(case))
        command = [binary(), "nodetool", "-h", node.server.address, "compact", case.keyspace, case.table]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
        if done.returncode:
            result.faults.append(f"compact: {done.stderr.strip()}")
            continue
        after = data_files(node.table_folder(case))
        result.before, result.after = len(before), len(after)
        if set(before) & set(after):
            result.faults.append(f"not rewritten: {sorted(set(before) & set(after))}")
        others = [name for name in after if not name.startswith(VERSION[format])]
        stay = format == "big" and all(name.startswith(VERSION["bti"]) for name in others)
        if others and not (stay and outlives_nb(case)):
            result.faults.append(f"not of the format {VERSION[format]}*: {others}")
    node.stop()


def outlives_nb(case: Case) -> bool:
    """Does something in it expire after January 2038, for which nb has no room? Then it stays in the format da."""
    dumps = (
        subprocess.run([binary(), "sstable", "dump", case.sstables / name], capture_output=True, text=True, timeout=TIMEOUT)
        for name in case.data_files()
    )
    years = (int(year) for dump in dumps for year in re.findall(r'"expires_at" : "(\d+)-', dump.stdout))
    return any(year > 2038 for year in years)


def data_files(folder: pathlib.Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*-Data.db"))


def create_all(target, sent: list[Case], results: dict) -> list[Case]:
    """The schemas in Cassandra; the cases that have come so far."""
    created = []
    with Connection(target.address, timeout=120) as connection:
        for case in sent:
            if results[case.name].faults:
                continue
            try:
                run_schema(connection, case)
                created.append(case)
            except Refused as refused:
                results[case.name].faults.append(f"schema in Cassandra: {refused}")
    return created


def hand_over(node: Node, target, case: Case, result: Returned) -> list[pathlib.Path]:
    """Copies the files of the table into the folder that the stopped Cassandra has for it; its Data.db files there."""
    there = table_folder(target.data, case)
    for path in node.table_folder(case).iterdir():
        if path.is_file():
            shutil.copyfile(path, there / path.name)
    found = data_files(there)
    if not found and case.rows():
        result.faults.append("no sstable is left")
    return [there / name for name in found]


def run_tools(target, format: str, created: list[Case], files: dict, results: dict) -> None:
    settings = tool_settings(target, format)
    with concurrent.futures.ThreadPoolExecutor(TOOLS_AT_ONCE) as pool:
        waiting = [pool.submit(check_files, settings, case, files[case.name], results[case.name]) for case in created if files[case.name]]
        for future in waiting:
            future.result()


def tool_settings(target, format: str) -> pathlib.Path:
    """The folder of the server's settings, made such that its tools take the files of the format."""
    folder = target.directory / "conf-tools"
    shutil.copytree(target.directory / "conf", folder)
    if TOOL_SETTINGS[format]:
        path = folder / "cassandra.yaml"
        kept = [line for line in path.read_text().splitlines(True) if not line.startswith("storage_compatibility_mode:")]
        path.write_text("".join(kept) + TOOL_SETTINGS[format])
    return folder


def check_files(settings: pathlib.Path, case: Case, files: list[pathlib.Path], result: Returned) -> None:
    """sstableverify of the table and sstabledump of each file."""
    said, fault = cassandra_tool(settings, "sstableverify", "-f", "-e", "-c", case.keyspace, case.table)
    missing = [path.name for path in files if path.name not in said]
    if fault or missing:
        result.faults.append(f"sstableverify: {fault or f'does not speak of {missing}'}")
    else:
        result.verified = f"{len(files)} good"
    same = 0
    for path in files:
        said, fault = cassandra_tool(settings, "sstabledump", str(path))
        if fault and case.expected() is None:
            # It has no notion of a null in a clustering, for one.
            result.remarks.append("Cassandra's sstabledump fails for the case's own files too")
            continue
        if fault:
            result.faults.append(f"sstabledump: {fault}")
            continue
        ours = tool("dump", path)
        if ours.returncode:
            result.faults.append(f"helenus sstable dump: {ours.stderr.strip()}")
            continue
        different = difference(parsed(ours.stdout), parsed(said), "", path.name, ignored=("expired",))
        if different:
            result.faults.append(f"dump (of Helenus, expected that of Cassandra): {different}")
        else:
            same += 1
    if same == len(files):
        result.dumped = f"{same} same"


def cassandra_tool(settings: pathlib.Path, *arguments: str) -> tuple[str, str]:
    """What a tool printed, and what is wrong with that: tools report on either stream and do not always fail."""
    environment = {**os.environ, "CASSANDRA_CONF": str(settings)}
    done = subprocess.run([str(TOOL), *arguments], capture_output=True, text=True, timeout=TIMEOUT, env=environment)
    # The dump itself may hold any word.
    words = done.stderr if arguments[0] == "sstabledump" else done.stdout + done.stderr
    bad = [line for line in words.splitlines() if any(word in line for word in ("Error", "Corrupt", "Exception"))]
    if done.returncode or bad:
        return done.stdout, f"exit {done.returncode}: {(bad or words.splitlines() or ['(silent)'])[0][:300]}"
    return done.stdout, ""


def parsed(text: str):
    return json.loads(text, parse_float=Decimal)


def compare_rows(target, case: Case, result: Returned) -> None:
    actual, error = select(target.address, case)
    different = f"read: {error}" if error else difference_of_rows(actual, case.rows(), column_types(target.address, case))
    if different:
        result.faults.append(f"Cassandra reads: {different}")
    else:
        result.rows = f"{len(actual)} same"
