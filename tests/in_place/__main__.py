"""python -m in_place [--format big|bti|both] [--ends stopped|killed|both]

A real Cassandra writes tables of every shape and is stopped, or killed with part of it only in its
commit log. Helenus starts on its data folder, answers every question as Cassandra did, and leaves
the files as they are. It writes more, stops, and Cassandra starts on the folder again and answers
as Helenus did.
"""

import argparse
import collections
import itertools
import pathlib
import shutil
import sys
import time

import harness
from differential.runner import Runner, difference
from sstables_check.content import KEYSPACE, questions, write

MORE = 50
# From so many sstables of a table on, the default strategy of compaction has something to do.
MIN_THRESHOLD = 4


class Rejected(Exception):
    """A server does not start, an answer differs, or a file was changed."""


def answers(address: str, asked: list[str]) -> list:
    runner = Runner(address)
    return [runner.run({"cql": question, "timestamp": 1, "page": 5000}) for question in asked]


def compare(what: str, asked: list[str], left: list, right: list) -> None:
    for question, one, other in zip(asked, left, right):
        differs = difference(one, other, slack=900)
        if differs:
            raise Rejected(f"{what}: {question}: {differs}")


def files(folder: pathlib.Path, keyspaces) -> dict:
    """The sstables of these keyspaces, with length and time of the last change."""
    found = {}
    for keyspace in keyspaces:
        for path in (folder / keyspace).glob("*/*-*-*-*.*"):
            stat = path.stat()
            found[str(path.relative_to(folder))] = (stat.st_size, stat.st_mtime_ns)
    return found


def settled(found: dict) -> dict:
    """Without the tables that have so many sstables that whoever opens them compacts them."""
    folders = collections.Counter(str(pathlib.Path(path).parent) for path in found if path.endswith("-Data.db"))
    return {path: stat for path, stat in found.items() if folders[str(pathlib.Path(path).parent)] < MIN_THRESHOLD}


def write_more(address: str) -> None:
    """Over what is there, beside it, and deletions of it."""
    connection = Runner(address).connection
    for k in range(MORE):
        connection.query(f"INSERT INTO {KEYSPACE}.plain (k, v) VALUES ({k * 7}, 'again {k}')")
        connection.query(f"UPDATE {KEYSPACE}.multi SET l = l + [{k}], s = s + {{'more'}} WHERE k = {k % 6} AND c = {k}")
        connection.query(f"DELETE FROM {KEYSPACE}.wide WHERE k = 'wide' AND a = {k * 30}")
        connection.query(f"INSERT INTO {KEYSPACE}.wide (k, a, b, v) VALUES ('wide', {k * 31}, 'more', 0x0102)")
    for i in range(2000):
        connection.query(f"INSERT INTO {KEYSPACE}.composites (k, c, d, v) VALUES (1, 'n{i % 5}:{i}', 's@{i % 7}:r@{i}', 0x{'07' * (i % 100)})")
    connection.query(f"DELETE FROM {KEYSPACE}.composites WHERE k = 1 AND c > 'n0:1500' AND c < 'n1:1900'")
    connection.query(f"INSERT INTO {KEYSPACE}.composite_keys (k, v) VALUES ('more', 's@x')")
    connection.query(f"CREATE TABLE {KEYSPACE}.added (k int PRIMARY KEY, v text)")
    connection.query(f"INSERT INTO {KEYSPACE}.added (k, v) VALUES (1, 'by Helenus')")


def run(format: str, ends: str) -> str:
    cassandra = harness.Cassandra().start()
    helenus = harness.Helenus(cassandra.address, cassandra.directory, extra=["--sstable-format", format])
    try:
        schema = write(cassandra.address)
        asked = questions(cassandra.address, schema)
        written = answers(cassandra.address, asked)
        if ends == "killed":
            cassandra.kill()
        else:
            cassandra.stop()
        before = settled(files(cassandra.data, schema))
        began = time.monotonic()
        helenus.start()
        ready = time.monotonic() - began
        compare("Cassandra | Helenus", asked, written, answers(helenus.address, asked))
        after = files(cassandra.data, schema)
        folders = {str(pathlib.Path(path).parent) for path in before}
        after = {path: stat for path, stat in after.items() if str(pathlib.Path(path).parent) in folders}
        if ends == "stopped" and after != before:
            raise Rejected("opening changed the files of tables")
        write_more(helenus.address)
        asked += [f"SELECT * FROM {KEYSPACE}.added"]
        later = answers(helenus.address, asked)
        helenus.restart()
        compare("Helenus | Helenus, restarted", asked, later, answers(helenus.address, asked))
        helenus.stop()
        cassandra.start()
        compare("Helenus | Cassandra, going back", asked, later, answers(cassandra.address, asked))
    except BaseException:
        print(f"folder kept: {cassandra.directory}", file=sys.stderr)
        raise
    finally:
        helenus.kill()
        cassandra.kill()
    shutil.rmtree(cassandra.directory, ignore_errors=True)
    rows = sum(len(answer[2]) for answer in later if answer[0] == "rows")
    return f"{format}, Cassandra {ends}: {len(before)} files, ready in {ready:.1f} s, {len(asked)} questions, {rows} rows there and back"


def main() -> int:
    parser = argparse.ArgumentParser(prog="in_place", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--format", default="both", choices=["big", "bti", "both"])
    parser.add_argument("--ends", default="both", choices=["stopped", "killed", "both"])
    options = parser.parse_args()
    formats = ["big", "bti"] if options.format == "both" else [options.format]
    ends = ["stopped", "killed"] if options.ends == "both" else [options.ends]
    # Each format and each end once, not each with each.
    for format, end in itertools.islice(zip(itertools.cycle(formats), itertools.cycle(ends)), max(len(formats), len(ends))):
        began = time.monotonic()
        try:
            found = run(format, end)
        except (Rejected, harness.ServerError) as rejected:
            print(f"in place: FAILED: {rejected}", file=sys.stderr)
            return 1
        print(f"in place: {found}, {time.monotonic() - began:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
