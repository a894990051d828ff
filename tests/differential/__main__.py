"""python -m differential [--seeds N] [--first SEED] [--workers N] [--restarts N] [--save]

Runs the saved cases and then the seeds on Helenus and on Cassandra, and compares; then --restarts
more seeds, during which Helenus is stopped or killed and started again. The two servers are started
for it unless --left and --right give addresses. Exits with 1 if anything differs;
failing sequences are shrunk and printed, and saved as cases with --save.

With --record the seeds are run on Cassandra alone, and its answers are kept in tests/data/differential;
with --replay Helenus is compared with those, without a Cassandra.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import sys
import time

import harness
from harness.protocol import Failure

from .generator import compared
from .record import record, recorded
from .runner import Runner, compare
from .shrink import shrink

CASES = pathlib.Path(__file__).parent / "cases"
RECORDED = harness.server.ROOT / "tests" / "data" / "differential" / "answers.jsonl.xz"
# A process that finds as many gives up.
MOST_FAILURES = 50
# After how many sequences a process says how far it is.
PROGRESS = 200
# Schemas come and go by the hundred a minute; with a heap of 1 GB it slows down after some thousands.
ORACLE = ["--test-features", "--volatile-schema", "--heap", "3G"]
# Seeds of the sequences with restarts begin here.
RESTART_SEEDS = 1_000_000


def saved_cases() -> list[tuple[str, list]]:
    return [(path.stem, json.loads(path.read_text())["steps"]) for path in sorted(CASES.glob("*.json"))]


class Worker:
    """Runs sequences one after another over its own pair of connections."""

    def __init__(self, number: int, left: str, right: str, restart=None):
        self.number, self.generation = number, 0
        self.left, self.right = Runner(left), Runner(right)
        self.restart = restart

    def compare(self, steps: list):
        """As `runner.compare`; where the oracle has tripped it may be left with a keyspace that is broken for good, so
        that the next is another one."""
        trips = self.right.trips
        try:
            return compare(self.left, self.right, steps, f"d{self.number}_{self.generation}", self.restart)
        finally:
            self.generation += self.right.trips - trips

    def replace(self):
        """New connections and another keyspace: something went wrong with the old ones."""
        trips, reasons = self.right.trips, self.right.reasons
        self.left, self.right = Runner(self.left.address), Runner(self.right.address)
        self.right.trips, self.right.reasons = trips, reasons
        self.generation += 1

    def check(self, name: str, steps: list, small: bool):
        """(name, steps, index, difference) of a failure, or None."""
        found = self.compare(steps)
        if not found:
            return None
        if not self.restart:
            steps = steps[: found[0] + 1]
        if small:
            steps = shrink(steps, self.compare, 300 if not self.restart else 60)
            found = self.compare(steps) or found
        return name, steps, found[0], found[1]


def main() -> int:
    parser = argparse.ArgumentParser(prog="differential", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--length", type=int, default=60)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--restarts", type=int, default=30, help="sequences during which Helenus restarts twice")
    parser.add_argument("--left", help="address of the server under test (default: starts Helenus)")
    parser.add_argument("--right", help="address of the oracle (default: starts Cassandra)")
    parser.add_argument("--save", action="store_true", help="keep shrunk failures in tests/differential/cases")
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--record", action="store_true", help="keep Cassandra's answers to the seeds")
    parser.add_argument("--replay", action="store_true", help="compare with the answers that were kept")
    arguments = parser.parse_args()
    started = []
    try:
        left, right = arguments.left, arguments.right
        if arguments.replay:
            if not left:
                started.append(harness.make("helenus").start())
                left = started[-1].address
            return replay(left)
        if not right:
            started.append(harness.Cassandra(options=ORACLE).start())
            right = started[-1].address
        if arguments.record:
            return keep(arguments, right)
        if left:
            return run(arguments, left, right)
        helenus = harness.make("helenus").start()
        started.append(helenus)
        code = run(arguments, helenus.address, right)
        return run_with_restarts(arguments, helenus, right) or code
    finally:
        for server in started:
            server.stop()


def keep(arguments, right: str) -> int:
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    sequences = [(f"seed {seed}", compared(seed, arguments.length)) for seed in seeds]
    count = record(RECORDED, right, sequences, arguments.workers)
    print(f"differential: {count} sequences recorded, {RECORDED.stat().st_size} bytes")
    return 0


def replay(left: str) -> int:
    began, failures, count = time.monotonic(), 0, 0
    runner = Runner(left)
    for name, steps, oracle in recorded(RECORDED):
        count += 1
        found = compare(runner, oracle, steps, "replayed")
        if found:
            failures += 1
            report((name, steps[: found[0] + 1], *found), False)
    print(f"differential: {count} recorded sequences, {failures} differ, {time.monotonic() - began:.0f} s")
    return 1 if failures or not count else 0


def run(arguments, left: str, right: str) -> int:
    """The saved cases and the seeds, by processes: the comparing is work, too."""
    began = time.monotonic()
    work = saved_cases() if arguments.first == 1 else []
    cases = len(work)
    work += [(f"seed {seed}", None) for seed in range(arguments.first, arguments.first + arguments.seeds)]
    jobs = [(arguments, left, right, number, work[number :: arguments.workers], os.getpid()) for number in range(arguments.workers)]
    with concurrent.futures.ProcessPoolExecutor(arguments.workers) as pool:
        results = list(pool.map(run_some, jobs))
    done, failures, trips = (sum(counts) for counts in zip(*results))
    seconds = time.monotonic() - began
    print(f"differential: {done} sequences ({cases} saved cases), {failures} differ, {trips} cut short where the oracle tripped, {seconds:.0f} s")
    return 1 if failures or done < len(work) else 0


def run_some(job) -> tuple[int, int, int]:
    """How many sequences were run by one process, how many of them differ, and how often the oracle tripped."""
    arguments, left, right, number, work, parent = job
    worker, done, failures = Worker(number, left, right), 0, 0
    for name, steps in work:
        # Whoever ends the command by its pid does not mean the others to go on.
        if failures >= MOST_FAILURES or os.getppid() != parent:
            break
        steps = steps or compared(int(name.split()[1]), arguments.length)
        try:
            failure = worker.check(name, steps, not arguments.no_shrink)
        except (Failure, OSError) as error:
            failure = (name, steps, 0, f"the sequence could not run: {error!r}")
            worker.replace()
        done += 1
        if done % PROGRESS == 0:
            print(f"differential: process {number}: {done} of {len(work)} sequences, {failures} differ, {worker.right.trips} cut short", flush=True)
        if failure:
            failures += 1
            report(failure, arguments.save)
    for reason, count in worker.right.reasons.most_common(3):
        print(f"differential: process {number}: {count} cut short by {reason}", flush=True)
    return done, failures, worker.right.trips


def run_with_restarts(arguments, helenus, right: str) -> int:
    """Sequences one by one, Helenus going and coming between their steps: drained or killed."""
    rng = random.Random(arguments.first)
    restarts = 0

    def restart():
        nonlocal restarts
        restarts += 1
        rng.choice([helenus.stop, helenus.kill])()
        helenus.start()

    began = time.monotonic()
    worker = Worker(99, helenus.address, right, restart)
    failures = 0
    seeds = range(arguments.first + RESTART_SEEDS, arguments.first + RESTART_SEEDS + arguments.restarts)
    for seed in seeds:
        failure = worker.check(f"seed {seed} with restarts", compared(seed, arguments.length), not arguments.no_shrink)
        if failure:
            failures += 1
            report(failure, False)
    seconds = time.monotonic() - began
    print(f"differential: {len(seeds)} sequences with {restarts} restarts, {failures} differ, {seconds:.0f} s")
    return 1 if failures else 0


def report(failure, save: bool):
    name, steps, index, text = failure
    print(f"--- {name} differs at step {index + 1} of {len(steps)} (under test | oracle): {text}")
    for step in steps:
        print("   ", json.dumps(step, ensure_ascii=False))
    sys.stdout.flush()
    if save:
        CASES.mkdir(exist_ok=True)
        path = CASES / (name.replace(" ", "-") + ".json")
        path.write_text(json.dumps({"found": text, "steps": steps}, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
