"""python -m corpus [--only PREFIX] [--reverse big|bti] [FOLDER]

Opens sstables that Cassandra wrote, each in the folder of its table, and compares what `SELECT JSON *` and
`helenus sstable dump` give with what Cassandra gives. Prints a line a case; exits with 1 if anything differs.
With --reverse Helenus compacts them in that format, and Cassandra reads the result (see reverse.py).
FOLDER holds the cases (see case.py); without it, the project's own in tests/data/sstables.
"""

import argparse
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import harness

from . import reverse
from .case import Case, cases
from .node import Node
from .verdict import Verdict, judge

OWN = harness.server.ROOT / "tests" / "data" / "sstables"


def main() -> int:
    parser = argparse.ArgumentParser(prog="corpus", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=OWN)
    parser.add_argument("--only", default="", help="cases whose names begin so")
    parser.add_argument("--quiet", action="store_true", help="only the cases that fail")
    parser.add_argument("--reverse", choices=reverse.VERSION, help="the format in which Helenus rewrites the cases")
    parser.add_argument("--no-tools", action="store_true", help="with --reverse: without Cassandra's offline tools, five seconds a case")
    arguments = parser.parse_args()
    chosen = [case for case in cases(arguments.folder) if case.name.startswith(arguments.only)]
    if not chosen:
        print(f"corpus: no cases in {arguments.folder}", file=sys.stderr)
        return 1
    if arguments.reverse:
        return back(chosen, arguments)
    began = time.monotonic()
    verdicts = run(chosen)
    width = max(len(verdict.case) for verdict in verdicts)
    for verdict in verdicts:
        if verdict.ok and arguments.quiet:
            continue
        said = "; ".join(verdict.remarks) if verdict.ok else "FAILED: " + "; ".join(verdict.faults)
        print(f"{verdict.case:{width}}  rows {verdict.rows:22} dump {verdict.dump:8} {'ok ' if verdict.ok else ''}{said}".rstrip())
    failed = sum(not verdict.ok for verdict in verdicts)
    print(f"corpus: {len(verdicts)} cases, {len(verdicts) - failed} as they should be, {failed} not; {time.monotonic() - began:.0f} s")
    return 1 if failed else 0


def back(chosen: list[Case], arguments) -> int:
    """The way back in one format; what there is to look at is kept if it fails."""
    began = time.monotonic()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="helenus-corpus-"))
    try:
        results = reverse.run(chosen, arguments.reverse, folder, not arguments.no_tools)
    except (harness.ServerError, subprocess.SubprocessError) as error:
        print(f"corpus: the way back in {arguments.reverse}: {error}\nfolder kept: {folder}", file=sys.stderr)
        return 1
    width = max(len(result.case) for result in results)
    for result in results:
        if not (result.ok and arguments.quiet):
            print(result.line(width))
    failed, out = (sum(map(of, results)) for of in (lambda r: not r.ok, lambda r: bool(r.left_out)))
    if failed:
        print(f"folder kept: {folder}", file=sys.stderr)
    else:
        shutil.rmtree(folder, ignore_errors=True)
    print(
        f"corpus: the way back in {arguments.reverse}: {len(results) - failed - out} cases read by Cassandra as they were, {failed} not, "
        f"{out} left out; {time.monotonic() - began:.0f} s"
    )
    return 1 if failed else 0


def run(chosen: list[Case]) -> list[Verdict]:
    """A node for each version; if one does not start, its cases one by one."""
    verdicts = []
    with tempfile.TemporaryDirectory(prefix="helenus-corpus-") as folder:
        for version in sorted({case.version for case in chosen}):
            group = [case for case in chosen if case.version == version]
            try:
                verdicts += together(pathlib.Path(folder) / version, group)
            except harness.ServerError as error:
                print(f"corpus: with all of {version} the node does not start: {last(error)}", file=sys.stderr)
                for case in group:
                    verdicts += alone(pathlib.Path(folder) / case.name, case)
    return sorted(verdicts, key=lambda verdict: verdict.case)


def together(folder: pathlib.Path, group: list[Case]) -> list[Verdict]:
    node = Node(folder, group)
    try:
        node.prepare()
        node.start()
        verdicts = [judge(node, case) for case in group]
        if node.server.pid() is None:
            raise harness.ServerError(f"the node is gone:\n{node.server.tail()}")
    finally:
        node.server.kill()
        shutil.rmtree(folder, ignore_errors=True)
    return verdicts


def alone(folder: pathlib.Path, case: Case) -> list[Verdict]:
    """A case that keeps a node from starting fails, whatever else it does."""
    try:
        return together(folder, [case])
    except harness.ServerError as error:
        return [Verdict(case.name, faults=[f"the node does not run: {last(error)}"])]


def last(error: Exception) -> str:
    return str(error).strip().splitlines()[-1][-300:]


if __name__ == "__main__":
    sys.exit(main())
