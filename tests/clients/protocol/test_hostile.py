"""Statements that nobody writes: each is answered or refused in bounded time, and the server goes on."""

import time

import pytest

from harness.protocol import Connection, Failure

DEEP = 100_000
# Of a server that is not optimized, on a machine that has other things to do.
SECONDS = 30


def calls(name: str, depth: int) -> str:
    return f"{name}(" * depth + "v" + ")" * depth


def inserts(count: int) -> str:
    return ";".join(f"INSERT INTO hostile.t (k, v) VALUES ({i}, 1)" for i in range(count))


def numbers(count: int) -> str:
    return ",".join(map(str, range(count)))


STATEMENTS = {
    "nested lists": f"SELECT * FROM hostile.t WHERE k = {'[' * DEEP}{']' * DEEP}",
    "nested parentheses": f"SELECT {'(' * DEEP}1{')' * DEEP} FROM hostile.t",
    "nested functions": f"SELECT {calls('abs', DEEP)} FROM hostile.t",
    "functions nested as deep as may be": f"SELECT {calls('abs', 49)} FROM hostile.t",
    "nested casts": f"SELECT {'(int)' * DEEP}v FROM hostile.t",
    "signs": f"SELECT {'- ' * DEEP}v FROM hostile.t",
    "additions": f"SELECT {'v + ' * DEEP}v FROM hostile.t",
    "as many additions as may be": f"SELECT {'v + ' * 200}v FROM hostile.t",
    "products that grow": f"SELECT {'*'.join(['(varint)' + '9' * 5000] * 150)} FROM hostile.t",
    "additions in functions": f"SELECT {'abs(' * 49}{'v + ' * 200}v{')' * 49} FROM hostile.t",
    "nested types": f"CREATE TABLE hostile.z (k int PRIMARY KEY, v {'list<' * DEEP}int{'>' * DEEP})",
    "nested tuples": f"CREATE TABLE hostile.z (k int PRIMARY KEY, v {'tuple<' * 129}int{'>' * 129})",
    "a text of 10 MB": f"INSERT INTO hostile.t (k, x) VALUES (1, '{'a' * 10_000_000}')",
    "a blob of 5 MB": f"INSERT INTO hostile.t (k, b) VALUES (1, 0x{'ab' * 5_000_000})",
    "a number of 10 MB": f"INSERT INTO hostile.t (k, v) VALUES (1, {'9' * 10_000_000})",
    "a name of 10 MB": f"SELECT {'a' * 10_000_000} FROM hostile.t",
    "a comment of 10 MB": f"SELECT k /*{'a' * 10_000_000}*/ FROM hostile.t",
    "JSON that nests": "INSERT INTO hostile.t JSON '{\"k\": " + "[" * 1_000_000 + "}'",
    "a key IN many": f"SELECT * FROM hostile.t WHERE k IN ({numbers(200_000)})",
    "a list of a million": f"INSERT INTO hostile.t (k, l) VALUES (1, [{numbers(1_000_000)}])",
    "a batch of many": f"BEGIN UNLOGGED BATCH {inserts(50_000)} APPLY BATCH",
    "a column often": f"SELECT {','.join(['k'] * 100_000)} FROM hostile.t",
    "many relations": "SELECT * FROM hostile.t WHERE " + " AND ".join(["v > 1"] * 10_000) + " ALLOW FILTERING",
    "many conditions": "UPDATE hostile.t SET v = 1 WHERE k = 1 IF " + " AND ".join(["v = 2"] * 10_000),
    "e to the power of much": "SELECT exp((decimal)999999999), exp((decimal)-999999999) FROM hostile.t",
    "e to the power of too much": "SELECT exp((varint)999999999) FROM hostile.t",
}


@pytest.fixture(scope="module")
def table(server):
    with Connection(server.address) as connection:
        connection.query("DROP KEYSPACE IF EXISTS hostile")
        connection.query("CREATE KEYSPACE hostile WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
        connection.query("CREATE TABLE hostile.t (k int PRIMARY KEY, v int, b blob, x text, l list<int>)")
        connection.query("INSERT INTO hostile.t (k, v) VALUES (1, 1)")
        yield
        connection.query("DROP KEYSPACE hostile")


@pytest.mark.parametrize("statement", STATEMENTS.values(), ids=STATEMENTS.keys())
def test_is_answered_or_refused(server, table, bystander, statement):
    if server.kind != "helenus":
        pytest.skip("nothing that Cassandra promises")
    with Connection(server.address, timeout=SECONDS) as connection:
        begin = time.monotonic()
        try:
            connection.query(statement)
        except Failure as failure:
            # The server's own mistakes have the code 0.
            assert failure.code != 0, failure
        assert time.monotonic() - begin < SECONDS


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE hostile.t ADD {name} int",
        "CREATE TABLE hostile.z (k int PRIMARY KEY, {name} int)",
        "CREATE FUNCTION hostile.{name} (a int) CALLED ON NULL INPUT RETURNS int LANGUAGE lua AS 'return a'",
    ],
)
def test_names_that_no_node_can_write_down_are_refused(server, table, change):
    """Before the nodes agree on them: what was decided cannot be refused any more."""
    if server.kind != "helenus":
        pytest.skip("Cassandra fails where it writes its schema")
    with Connection(server.address, timeout=SECONDS) as connection:
        for length in (65_536, 100_000):
            with pytest.raises(Failure) as failed:
                connection.query(change.format(name="a" * length))
            assert failed.value.code == 0x2200 and "65535" in failed.value.message
        connection.query("CREATE TABLE hostile.after (k int PRIMARY KEY)")
        connection.query("DROP TABLE hostile.after")


@pytest.mark.parametrize("count", [65_535, 65_536, 200_000])
def test_bind_markers_have_a_number(server, table, bystander, count):
    if server.kind != "helenus":
        pytest.skip("Cassandra fails with a server error")
    statement = f"SELECT * FROM hostile.t WHERE k IN ({','.join('?' * count)})"
    with Connection(server.address, timeout=SECONDS) as connection:
        if count <= 65_535:
            connection.prepare(statement)
        else:
            with pytest.raises(Failure, match="65535"):
                connection.prepare(statement)
