"""python -m sstables_check [--server helenus|cassandra] [--format big|bti]

Writes tables of every shape, stops the server (which flushes everything), and gives the files to
Cassandra: sstableverify, sstabledump and sstablemetadata must accept each, and a Cassandra that
finds them in its data folder must answer every question as the writer did.
"""

import argparse
import concurrent.futures
import json
import pathlib
import shutil
import subprocess
import sys
import time

import harness
from differential.runner import Runner, difference

from .content import KEYSPACE, questions, write

TOOL = str(harness.server.ROOT / "tests" / "cassandra" / "tool.sh")
DUMPED = 6


class Rejected(Exception):
    """A tool refused a file, or an answer differs."""


def answers(address: str, asked: list[str]) -> list:
    runner = Runner(address)
    return [runner.run({"cql": question, "timestamp": 1, "page": 5000}) for question in asked]


def folder(data: pathlib.Path, keyspace: str, table: str) -> pathlib.Path:
    """The table's folder: KEYSPACE/TABLE-ID, the newest if it was created more than once."""
    found = [path for path in (data / keyspace).glob(f"{table}-*") if path.is_dir()]
    if not found:
        raise Rejected(f"no folder {keyspace}/{table}-* in {data}")
    return max(found, key=lambda path: path.stat().st_mtime)


def tables_of(address: str, keyspaces) -> list[tuple[str, str]]:
    connection = Runner(address).connection
    return [
        (keyspace, row[0].decode())
        for keyspace in keyspaces
        for row in connection.query(f"SELECT table_name FROM system_schema.tables WHERE keyspace_name = '{keyspace}'").rows
    ]


def hand_over(source: pathlib.Path, target, tables) -> dict:
    """Copies the files of each table into the stopped Cassandra's folder; table -> Data files."""
    copied = {}
    for keyspace, table in tables:
        files = [path for path in folder(source, keyspace, table).iterdir() if path.is_file()]
        there = folder(target.data, keyspace, table)
        for path in files:
            shutil.copy(path, there / path.name)
        copied[keyspace, table] = [there / path.name for path in files if path.name.endswith("-Data.db")]
    return copied


def tool(*arguments) -> str:
    done = subprocess.run([TOOL, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    # Tools report what they find on either stream and do not always fail.
    noise = done.stdout + done.stderr
    if done.returncode != 0 or "Error" in done.stderr or "Corrupt" in noise or "Exception" in noise:
        raise Rejected(f"{' '.join(map(str, arguments))}: exit {done.returncode}\n{noise[-3000:]}")
    return done.stdout


def verify(target, copied: dict) -> str:
    """Every table through sstableverify, every file through sstablemetadata, some through sstabledump."""
    files = [path for paths in copied.values() for path in paths]
    if not all(copied[KEYSPACE, table] for table in ("natives", "multi", "wide", "ranges")):
        raise Rejected(f"a stopped server left no files of {[t for t, paths in copied.items() if not paths]}")
    jobs = [
        (paths, ("--data", target.directory, "sstableverify", "-f", "-e", "-c", keyspace, table))
        for (keyspace, table), paths in copied.items()
        if paths
    ]
    jobs.append((files, ("--data", target.directory, "sstablemetadata", *files)))
    # It fails on composites, of which there is no JSON.
    dumped = [paths[0] for (_, table), paths in copied.items() if paths and not table.startswith("composite")]
    dumps = [("--data", target.directory, "sstabledump", path) for path in dumped[:DUMPED]]
    rows = 0
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        for (paths, job), said in zip(jobs, pool.map(lambda job: tool(*job[1]), jobs)):
            # A tool that does not speak of a file has not looked at it.
            silent = [path.name for path in paths if path.name.removesuffix("-Data.db") not in said]
            if silent:
                raise Rejected(f"{' '.join(map(str, job[2:5]))}: says nothing of {silent}\n{said[-3000:]}")
        for output in pool.map(lambda job: tool(*job), dumps):
            rows += sum(len(partition.get("rows", [])) for partition in json.loads(output))
    return f"{len(jobs) - 1} tables verified, {len(files)} files, {rows} rows dumped"


def run(kind: str, format: str) -> str:
    target = harness.Cassandra()
    source = harness.make(kind)
    if kind == "helenus":
        source.extra += ["--sstable-format", format]
    source.start()
    try:
        # The schema first: the tools look it up in a node's own folder.
        target.start()
        schema = write(source.address)
        for keyspace, statements in schema.items():
            runner = Runner(target.address)
            runner.reset(keyspace)
            for statement in statements:
                runner.connection.query(statement)
        tables = tables_of(source.address, schema)
        asked = questions(source.address, schema)
        written = answers(source.address, asked)
        if kind == "cassandra":
            subprocess.run([TOOL, "nodetool", "-h", source.address, "flush"], check=True)
        source.stop()
        target.stop()
        data = source.data if kind == "cassandra" else source.data / "data"
        found = verify(target, hand_over(data, target, tables))
        target.start()
        for question, left, right in zip(asked, written, answers(target.address, asked)):
            differs = difference(left, right, slack=900)
            if differs:
                raise Rejected(f"{question}: (written | read by Cassandra) {differs}")
    except BaseException:
        print(f"folders kept: {source.directory} {target.directory}", file=sys.stderr)
        raise
    finally:
        source.kill()
        target.kill()
    for server in (source, target):
        shutil.rmtree(server.directory, ignore_errors=True)
    rows = sum(len(answer[2]) for answer in written if answer[0] == "rows")
    return f"{format}: {found}; {len(asked)} questions, {rows} rows read by Cassandra as they were written"


def main() -> int:
    parser = argparse.ArgumentParser(prog="sstables_check", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--server", default="helenus", choices=["helenus", "cassandra"])
    parser.add_argument("--format", default="both", choices=["big", "bti", "both"])
    options = parser.parse_args()
    for format in ["big", "bti"] if options.format == "both" else [options.format]:
        began = time.monotonic()
        try:
            found = run(options.server, format)
        except (Rejected, harness.ServerError, subprocess.SubprocessError) as rejected:
            print(f"sstables: FAILED: {rejected}", file=sys.stderr)
            return 1
        print(f"sstables: {found}, {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
