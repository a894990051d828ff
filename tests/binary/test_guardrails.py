"""Guardrails: what clients are warned of and what is refused, in Cassandra's words.

`guardrails/statements.cql` has a statement a line, before it `@LEVEL` for its consistency and `#N` for the size of its
pages; `closed.cql` has those of `closed.yaml`. With the settings of `warned.yaml` and of `refused.yaml` each has to
have the answers in the file beside them: `!` an error, `~` a warning. `UPDATE_GOLDEN=1
.../pytest tests/binary/test_guardrails.py` has a Cassandra answer; there they are for those who are no superusers alone,
here for everybody.
"""

import os
import pathlib
import re
import time

import pytest

import harness
from harness.protocol import Connection, Failure

FOLDER = pathlib.Path(__file__).parent / "guardrails"
# Of other settings than the usual ones.
STATEMENTS = {"closed": FOLDER / "closed.cql"}
LEVELS = {"ANY": 0, "ONE": 1, "QUORUM": 4, "ALL": 5}
USUAL_PAGE = 5000
# The time from which timestamps are too far away.
TIME = re.compile(r"(threshold )\d{16}\b")
# In the order in which a hash table has them.
LISTED = re.compile(r"\((\w+ values are): \[(.*?)\]\)")


def answers(connection, statements: pathlib.Path) -> str:
    return "".join(answer(connection, line) for line in statements.read_text().splitlines())


def answer(connection, line: str) -> str:
    """A statement, and what a client is told."""
    words, level, page = line, "ONE", USUAL_PAGE
    while words[0] in "@#":
        mark, words = words.split(" ", 1)
        if mark[0] == "@":
            level = mark[1:]
        else:
            page = int(mark[1:])
    told = [line]
    try:
        connection.query(words, page=page, consistency=LEVELS[level])
    except Failure as failure:
        told.append(f"  ! {failure.code:#06x} {failure.message}")
    told += [f"  ~ {warning}" for warning in connection.warnings]
    text = TIME.sub(r"\1NOW", "\n".join(text.rstrip() for text in told))
    return LISTED.sub(lambda found: f"({found[1]}: {sorted(found[2].split(', '))})", text) + "\n"


def login(address) -> Connection:
    """As an operator, who is there a moment after the first clients are taken."""
    for _ in range(60):
        try:
            return Connection(address, credentials=("cassandra", "cassandra"))
        except Failure:
            time.sleep(1)
    return Connection(address, credentials=("cassandra", "cassandra"))


def ask_cassandra(settings: pathlib.Path, statements: pathlib.Path) -> str:
    """What one says to somebody who may do everything, but is no superuser."""
    options = ["--auth", "--test-features"]
    for line in settings.read_text().splitlines():
        options += ["--yaml", line]
    cassandra = harness.Cassandra(options=options).start()
    try:
        with login(cassandra.address) as operator:
            operator.query("CREATE ROLE user1 WITH PASSWORD = 'user1' AND LOGIN = true")
            operator.query("GRANT ALL ON ALL KEYSPACES TO user1")
            operator.query("GRANT ALL ON ALL FUNCTIONS TO user1")
        with Connection(cassandra.address, credentials=("user1", "user1")) as connection:
            return answers(connection, statements)
    finally:
        cassandra.stop()


@pytest.mark.parametrize("name", ["warned", "refused", "closed"])
def test_what_is_warned_of_and_refused(name, tmp_path):
    settings, golden = FOLDER / f"{name}.yaml", FOLDER / f"{name}.txt"
    statements = STATEMENTS.get(name, FOLDER / "statements.cql")
    if "UPDATE_GOLDEN" in os.environ:
        golden.write_text(ask_cassandra(settings, statements))
    server = harness.Helenus(harness.free_address(), tmp_path, extra=["--config", str(settings)]).start()
    try:
        with Connection(server.address) as connection:
            assert answers(connection, statements).splitlines() == golden.read_text().splitlines()
            shown = connection.query("SELECT name, value FROM system_views.settings").rows
    finally:
        server.stop()
    shown = {name.decode(): value and value.decode() for name, value in shown}
    for line in settings.read_text().splitlines():
        name, value = line.split(": ")
        if not value.startswith("["):
            assert shown[name] == value.replace("1h", "3600000ms"), name
