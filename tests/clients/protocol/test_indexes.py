"""What indexes are asked for, and what they find, as Cassandra answers.

`UPDATE_GOLDEN=1 make protocol SERVER=cassandra` records the answers in `golden/indexes.txt`, `attached.txt` and `sasi.txt` anew.
"""

import os
import pathlib
import time

import pytest

from harness.protocol import Failure

GOLDEN = pathlib.Path(__file__).parent / "golden"
READ_FAILURE = 0x1300


def shown(cell) -> str:
    return "null" if cell is None else cell.hex() or "''"


def answer(connection, statement: str) -> list[str]:
    """The lines that say what became of a statement; an index is waited for."""
    last = time.monotonic() + 20
    while True:
        try:
            result = connection.query(statement)
        except Failure as failure:
            if failure.code != READ_FAILURE or time.monotonic() > last:
                return [f"! {failure.code:#06x} {failure.message}"]
            time.sleep(0.1)
            continue
        return ["| " + " ".join(map(shown, row)) for row in result.rows or []]


@pytest.mark.parametrize("name", ["indexes.txt", "attached.txt", "sasi.txt"])
def test_answers_are_cassandras(connect, name):
    lines = (GOLDEN / name).read_text().splitlines()
    connection, heard = connect(version=5), []
    for line in lines:
        if line.startswith("--"):
            heard.append(line)
        elif not line.startswith(("!", "|")):
            heard += [line, *answer(connection, line)]
    connection.query("DROP KEYSPACE indexed")
    if os.environ.get("UPDATE_GOLDEN") and os.environ["CQL_SERVER"] == "cassandra":
        (GOLDEN / name).write_text("\n".join(heard) + "\n")
        return
    assert heard == lines
