"""What a server that has too much to do refuses: at once if the client wants to be told, and what nobody waits for."""

import time

import pytest

from harness.protocol import ERROR, QUERY, RESULT, Connection, Reader, long_string

OVERLOADED = 0x1001
ROWS = 20_000
# A statement counts as 64 bytes a character: two of these are as much as a shard of this memory has for requests.
LONG = "/*" + "x" * (260 << 10) + "*/"


@pytest.fixture(scope="module")
def table(server):
    if server.kind != "helenus":
        pytest.skip("limits of Helenus")
    with Connection(server.address) as connection:
        connection.query("DROP KEYSPACE IF EXISTS overload")
        connection.query("CREATE KEYSPACE overload WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
        connection.query("CREATE TABLE overload.t (k int, c int, v text, PRIMARY KEY (k, c))")
        for first in range(0, ROWS, 250):
            rows = (f"INSERT INTO overload.t (k, c, v) VALUES (1, {c}, 'v')" for c in range(first, first + 250))
            connection.query(f"BEGIN UNLOGGED BATCH {';'.join(rows)} APPLY BATCH")
        connection.query(f"INSERT INTO overload.t (k, c, v) VALUES (2, 1, '{'v' * 10_000}')")
        yield
        connection.query("DROP KEYSPACE overload")


def question(connection: Connection, text: str) -> tuple[int, bytes]:
    return QUERY, long_string(text) + connection.parameters((), 0, None, None, 1)


def refusal(body: bytes) -> tuple[int, str]:
    reader = Reader(body)
    return reader.int(), reader.string()


@pytest.mark.parametrize("throws", ["1", "0"])
def test_who_wants_to_be_told_is_told(server, table, bystander, throws):
    with Connection(server.address, startup=False) as connection:
        connection.startup({"THROW_ON_OVERLOAD": throws})
        counting = question(connection, f"SELECT count(*) {LONG} FROM overload.t WHERE k = 1 AND v > 'a' ALLOW FILTERING")
        answers = connection.together([counting] * 40)
        refused = [refusal(body) for _, opcode, body in answers if opcode == ERROR]
        counted = [body for _, opcode, body in answers if opcode == RESULT]
        assert len(refused) + len(counted) == 40 and len(counted) >= 1
        assert all(ROWS.to_bytes(8, "big") in body for body in counted)
        assert bool(refused) == (throws == "1")
        assert all(code == OVERLOADED and "bytes in flight" in message for code, message in refused)
        # There is room again.
        assert connection.query("SELECT count(*) FROM overload.t WHERE k = 1").rows == [(ROWS.to_bytes(8, "big"),)]


def test_what_waited_for_too_long_is_not_begun(server, table, bystander):
    """A client that reads no answers is not read from. What it sent meanwhile it has long given up."""
    with Connection(server.address) as connection:
        asked = 3_000
        large = question(connection, "SELECT v FROM overload.t WHERE k = 2 AND c = 1")
        requests = [connection.frame(*large, stream) for stream in range(asked)]
        connection.send_raw(b"".join(requests))
        time.sleep(12.5)
        answers = [connection.receive() for _ in range(asked)]
        assert sorted(stream for _, _, stream, _, _ in answers) == list(range(asked))
        refused = [refusal(body) for _, _, _, opcode, body in answers if opcode == ERROR]
        assert 0 < len(refused) < asked
        assert set(refused) == {(OVERLOADED, "Query timed out before it could start")}
        assert answers[0][3] == RESULT and answers[-1][3] == ERROR
        assert len(connection.query("SELECT v FROM overload.t WHERE k = 2 AND c = 1").rows) == 1
