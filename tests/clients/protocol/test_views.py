"""Materialized views: what may be made and changed, what they show, and what is refused, by a script.

`UPDATE_GOLDEN=1 make protocol SERVER=cassandra` records the answers anew. Names of Java objects in messages and ids are
left out.
"""

import os
import pathlib
import re
import time

import pytest

from harness.protocol import Failure

HERE = pathlib.Path(__file__).parent
SCRIPT = HERE / "views.cql"
ANSWERS = HERE / "golden" / "views.txt"
# Objects of Java, whose names follow a selector that is refused.
UNSAID = re.compile(r"\(got [^()]*(\(.*?\))?\)$")
BUILT = "SELECT view_name FROM system.built_views WHERE keyspace_name = 'views'"
VIEWS = "SELECT view_name FROM system_schema.views WHERE keyspace_name = 'views'"


def shown(cell) -> str:
    return "null" if cell is None else cell.hex() or "''"


def wait_until_built(connection):
    deadline = time.monotonic() + 60
    while len(connection.query(BUILT).rows) < len(connection.query(VIEWS).rows):
        assert time.monotonic() < deadline, "views are not built"
        time.sleep(0.1)


def answer(connection, statement: str) -> list[str]:
    try:
        result = connection.query(statement)
    except Failure as failure:
        message = UNSAID.sub("(got …)", failure.message) if "defining a materialized view" in failure.message else failure.message
        return [f"! {failure.code:04x} {message}"]
    if statement.startswith("CREATE MATERIALIZED"):
        wait_until_built(connection)
    lines = [f"w {warning}" for warning in result.warnings]
    if result.columns:
        lines.append("= " + ", ".join(f"{name} {ty}" for name, ty in result.columns))
    if statement.startswith("DESCRIBE"):
        return lines + [f"| {row[-1].decode()}" for row in result.rows]
    return lines + ["| " + " ".join(map(shown, row)) for row in result.rows]


def test_views_answer_as_cassandras(connect):
    connection = connect(version=4)
    lines = []
    for statement in SCRIPT.read_text().splitlines():
        if statement and not statement.startswith("--"):
            lines += [statement, *answer(connection, statement)]
    text = "\n".join(lines) + "\n"
    if os.environ.get("UPDATE_GOLDEN") and os.environ["CQL_SERVER"] == "cassandra":
        ANSWERS.write_text(text)
    assert text == ANSWERS.read_text()


@pytest.mark.skipif(os.environ.get("CQL_SERVER") == "cassandra", reason="Cassandra trips over the empty key")
def test_a_page_ends_with_an_empty_key(connect):
    connection = connect()
    connection.query("DROP KEYSPACE IF EXISTS paged")
    connection.query("CREATE KEYSPACE paged WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
    connection.query("CREATE TABLE paged.t (k int PRIMARY KEY, c text)")
    connection.query("CREATE MATERIALIZED VIEW paged.v AS SELECT * FROM paged.t WHERE k IS NOT NULL AND c IS NOT NULL PRIMARY KEY (c, k)")
    wanted = [("", 1), ("", 2), ("a", 3)]
    for c, k in wanted:
        connection.query(f"INSERT INTO paged.t (k, c) VALUES ({k}, '{c}')")
    found, state = [], None
    for _ in range(5):
        result = connection.query("SELECT c, k FROM paged.v", page=1, state=state)
        found += [(c.decode(), int.from_bytes(k, "big")) for c, k in result.rows]
        state = result.paging_state
        if state is None:
            break
    connection.query("DROP KEYSPACE paged")
    assert found == wanted


@pytest.mark.parametrize("version", [3, 4, 5])
def test_a_view_is_a_table_to_those_who_listen(connect, version):
    connection, listener = connect(), connect(version=version)
    connection.query("DROP KEYSPACE IF EXISTS heard")
    connection.query("CREATE KEYSPACE heard WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
    connection.query("CREATE TABLE heard.t (k int PRIMARY KEY, v int)")
    text = "CREATE MATERIALIZED VIEW heard.v AS SELECT * FROM heard.t WHERE k IS NOT NULL AND v IS NOT NULL PRIMARY KEY (v, k)"
    assert listener.query(text).detail == ("CREATED", "TABLE", "heard", "v")
    assert listener.query("ALTER MATERIALIZED VIEW heard.v WITH comment = 'c'").detail == ("UPDATED", "TABLE", "heard", "v")
    assert listener.query("DROP MATERIALIZED VIEW heard.v").detail == ("DROPPED", "TABLE", "heard", "v")
    connection.query("DROP KEYSPACE heard")
