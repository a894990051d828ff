"""Answers of the oracle that are kept, so that sequences are compared with it where it is not at hand.

A file has a line of JSON for each sequence, and is packed: {"name": ..., "steps": [...], "answers": [...]}. Answers are
those of `runner`, with bytes in hexadecimal; there are none for steps behind one over which the oracle tripped.
"""

import json
import lzma
import pathlib
from concurrent.futures import ThreadPoolExecutor

from .runner import Runner, has_tripped


def packed(answer):
    """An answer as JSON can hold it."""
    if answer[0] == "rows":
        rows = [[cell if cell is None else cell.hex() for cell in row] for row in answer[2]]
        return ["rows", answer[1], rows, *answer[3:]]
    return list(answer)


def unpacked(answer):
    if answer[0] == "rows":
        rows = [tuple(cell if cell is None else bytes.fromhex(cell) for cell in row) for row in answer[2]]
        columns, tables = ([tuple(pair) for pair in pairs] for pairs in (answer[1], answer[3]))
        return ("rows", columns, rows, tables, answer[4])
    if answer[0] in ("error", "closed"):
        return tuple(answer)
    return (answer[0], tuple(answer[1]), answer[2])


def asked(address: str, number: int, steps: list) -> dict:
    """A sequence with the oracle's answers."""
    runner, answers = Runner(address), []
    runner.reset(f"recorded{number}")
    for step in steps:
        answers.append(runner.run(step))
        if has_tripped(answers[-1]):
            break
    runner.drop()
    return {"steps": steps[: len(answers)], "answers": [packed(answer) for answer in answers]}


def record(path: pathlib.Path, address: str, sequences: list, workers: int) -> int:
    """Asks the oracle for its answers to (name, steps) and keeps them; how many there are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with lzma.open(path, "wt", preset=9 | lzma.PRESET_EXTREME) as out, ThreadPoolExecutor(workers) as pool:
        numbers = range(len(sequences))
        answered = pool.map(lambda number: asked(address, number, sequences[number][1]), numbers)
        for (name, _), kept in zip(sequences, answered):
            out.write(json.dumps({"name": name, **kept}, ensure_ascii=False, separators=(",", ":")) + "\n")
    return len(sequences)


class Recorded:
    """The oracle of one sequence, as it answered once; has the methods of `Runner`."""

    address = None

    def __init__(self, answers: list):
        self.answers = iter(answers)
        self.trips = 0

    def trip(self, _answer):
        """A sequence is cut short."""
        self.trips += 1

    def reset(self, keyspace: str):
        pass

    def drop(self):
        pass

    def run(self, step: dict):
        return unpacked(next(self.answers))


def recorded(path: pathlib.Path):
    """(name, steps, oracle) of each sequence."""
    with lzma.open(path, "rt") as lines:
        for line in lines:
            kept = json.loads(line)
            yield kept["name"], kept["steps"], Recorded(kept["answers"])
