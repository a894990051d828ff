"""Requests as the specification has them, in the corners that drivers seldom use."""

import socket
import struct
import time

import pytest

from harness.protocol import (
    ERROR,
    EVENT,
    EXECUTE,
    OPTIONS,
    PREPARE,
    QUERY,
    READY,
    REGISTER,
    RESULT,
    UNSET,
    USE_BETA,
    Connection,
    Failure,
    Reader,
    long_string,
    string,
    value,
)

from test_malformed import resident

VERSIONS = pytest.mark.parametrize("version", [3, 4, 5, 6])


def number(value: int) -> bytes:
    return struct.pack(">i", value)


def flags(version: int, bits: int) -> bytes:
    return struct.pack(">I" if version >= 5 else ">B", bits)


def test_supported(connect, server):
    supported = connect(startup=False).supported()
    assert supported["CQL_VERSION"][0] == "3.4.7"
    assert set(supported["COMPRESSION"]) == {"lz4", "snappy"}
    assert {"3/v3", "4/v4", "5/v5", "6/v6-beta"} <= set(supported["PROTOCOL_VERSIONS"])
    if server.kind == "helenus":
        assert supported["SCYLLA_NR_SHARDS"] == [str(server.shards)]
        assert supported["SCYLLA_SHARDING_ALGORITHM"] == ["biased-token-round-robin"]
        assert supported["SCYLLA_SHARDING_IGNORE_MSB"] == ["12"]
        assert supported["SCYLLA_SHARD_AWARE_PORT"] == ["19042"]
        assert supported["SCYLLA_PARTITIONER"] == ["org.apache.cassandra.dht.Murmur3Partitioner"]
        assert 0 <= int(supported["SCYLLA_SHARD"][0]) < server.shards


def test_a_version_that_is_no_release_is_asked_for(connect):
    connection = connect(version=6, startup=False)
    connection.send_raw(struct.pack(">BBhBi", 6, 0, 1, OPTIONS, 0))
    version, bits, stream, opcode, body = connection.receive()
    assert (version, bits, stream, opcode) == (0x86, USE_BETA, 0, ERROR)
    assert Reader(body[4:]).string() == "Beta version of the protocol used (6/v6-beta), but USE_BETA flag is unset"


def test_shard_aware_port(server):
    """The source port modulo the number of shards chooses the shard."""
    if server.kind != "helenus":
        return
    for wanted in range(server.shards * 3):
        # Any number of shards up to ten divides it.
        for port in range(40_320 + wanted, 60_000, 7 * server.shards):
            if port % server.shards != wanted % server.shards:
                continue
            with socket.socket() as probe:
                try:
                    probe.bind((server.address, port))
                    probe.connect((server.address, 19042))
                except OSError:
                    continue
                connection = Connection.__new__(Connection)
                connection.version, connection.framed, connection.buffer, connection.envelopes = 4, False, b"", b""
                connection.socket = probe
                assert connection.supported()["SCYLLA_SHARD"] == [str(wanted % server.shards)]
                break
        else:
            pytest.fail("no free source port")


@VERSIONS
def test_named_values(connect, keyspace, version):
    connection = connect(version)
    body = long_string("INSERT INTO raw.t (k, c, v) VALUES (:a, :b, :c)") + b"\0\1" + flags(version, 0x41)
    body += struct.pack(">H", 3) + string("c") + value(b"x") + string("a") + value(number(1)) + string("b") + value(number(2))
    connection.result(connection.request(QUERY, body))
    assert connection.query("SELECT v FROM raw.t WHERE k = 1 AND c = 2").rows == [(b"x",)]


@VERSIONS
def test_null_and_unset(connect, keyspace, version):
    connection = connect(version)
    text = "INSERT INTO raw.t (k, c, v) VALUES (?, ?, ?)"
    connection.query(text, [number(3), number(3), b"kept"])
    if version >= 4:
        connection.query(text, [number(3), number(3), UNSET])
        assert connection.query("SELECT v FROM raw.t WHERE k = 3").rows == [(b"kept",)]
        with pytest.raises(Failure) as caught:
            connection.query(text, [UNSET, number(3), b""])
        assert caught.value.code == 0x2200
    connection.query(text, [number(3), number(3), None])
    assert connection.query("SELECT v FROM raw.t WHERE k = 3").rows == [(None,)]


@VERSIONS
def test_timestamp_and_wrong_number_of_values(connect, keyspace, version):
    connection = connect(version)
    connection.query("INSERT INTO raw.t (k, c, v) VALUES (4, 4, 0x01)", timestamp=77)
    assert connection.query("SELECT writetime(v) FROM raw.t WHERE k = 4").rows == [(struct.pack(">q", 77),)]
    with pytest.raises(Failure) as caught:
        connection.query("SELECT v FROM raw.t WHERE k = ?", [number(1), number(2)])
    assert caught.value.code == 0x2200
    connection.query("TRUNCATE raw.t")


@VERSIONS
def test_values_are_counted_before_a_statement_runs(connect, keyspace, version):
    """Each kind of request has its own words for it."""
    connection = connect(version=version)
    one, two = value(number(1)), value(number(2))

    def refusal(opcode, body) -> str:
        with pytest.raises(Failure) as error:
            connection.request(opcode, body)
        assert error.value.code == 0x2200
        return error.value.message

    def parameters(bits: int, tail: bytes) -> bytes:
        return struct.pack(">H", 1) + flags(version, bits) + tail

    named = "SELECT v FROM raw.t WHERE k = :k AND c = :c"
    missing = struct.pack(">H", 2) + string("k") + one + string("z") + two
    for text, bits, tail in [
        ("SELECT v FROM raw.t WHERE k = ?", 0, b""),
        ("SELECT v FROM raw.t WHERE k = ?", 1, struct.pack(">H", 2) + one + two),
        ("SELECT v FROM raw.t WHERE k = 1", 1, struct.pack(">H", 1) + one),
        (named, 0x41, missing),
    ]:
        assert refusal(QUERY, long_string(text) + parameters(bits, tail)) == "Invalid amount of bind variables"
    prepared = connection.prepare(named)
    ids = [part for part in prepared.detail if part]
    head = b"".join(struct.pack(">H", len(part)) + part for part in ids)
    text = "there were 2 markers(?) in CQL but 1 bound variables"
    assert refusal(EXECUTE, head + parameters(0x41, missing)) == text
    with pytest.raises(Failure, match="There were 2 markers.* in CQL but 1 bound variables"):
        connection.batch([("INSERT INTO raw.t (k, c) VALUES (?, ?)", [number(1)])])


@VERSIONS
def test_a_page_has_rows(connect, keyspace, version):
    connection = connect(version=version)
    body = struct.pack(">H", 1) + flags(version, 4) + struct.pack(">i", 0)
    for text in ["SELECT v FROM raw.t WHERE k = 1", "INSERT INTO raw.t (k, c) VALUES (1, 1)", "no CQL"]:
        with pytest.raises(Failure, match="The page size cannot be 0") as error:
            connection.request(QUERY, long_string(text) + body)
        assert error.value.code == 0x0A


def test_v5_keyspace_of_the_request_exists(connect, keyspace):
    connection = connect(version=5)
    body = struct.pack(">HI", 1, 0x80) + string("nowhere")
    for text in ["SELECT v FROM raw.t WHERE k = 1", "SELECT v FROM t WHERE k = 1", "no CQL"]:
        with pytest.raises(Failure, match="Keyspace 'nowhere' does not exist") as error:
            connection.request(QUERY, long_string(text) + body)
        assert error.value.code == 0x2200


def test_use_and_describe_are_prepared(connect, keyspace):
    """USE without the keyspace, DESCRIBE without its columns: both are known when it is executed."""
    connection = connect()
    missing = connection.prepare("USE nowhere")
    with pytest.raises(Failure, match="Keyspace 'nowhere' does not exist"):
        connection.execute(missing)
    connection.execute(connection.prepare("USE raw"))
    connection.send(PREPARE, long_string("DESCRIBE TABLE t"))
    body = Reader(connection.receive()[4])
    assert body.int() == 4 and body.short_bytes()
    assert [body.int() for _ in range(5)] == [0, 0, 0, 4, 0], "no markers, no metadata of the result"
    described = connection.execute(connection.prepare("DESCRIBE TABLE t"))
    assert [name for name, _ in described.columns] == ["keyspace_name", "type", "name", "create_statement"]


@VERSIONS
def test_unprepared_names_the_id(connect, keyspace, version):
    connection = connect(version)
    prepared = connection.prepare("SELECT v FROM raw.t WHERE k = ?")
    prepared.detail = (b"z" * 16, prepared.detail[1])
    with pytest.raises(Failure) as caught:
        connection.execute(prepared, [number(1)])
    assert caught.value.code == 0x2500
    assert caught.value.detail == b"\0\x10" + b"z" * 16


def test_prepared_id_is_the_same_on_every_connection(connect, keyspace):
    """Drivers prepare on one connection and execute on another."""
    first, second = connect(), connect()
    a, b = first.prepare("SELECT v FROM raw.t WHERE k = ?"), second.prepare("SELECT v FROM raw.t WHERE k = ?")
    assert a.detail[0] == b.detail[0]
    for _ in range(8):
        assert connect().execute(a, [number(99)]).rows == []


def test_v5_metadata_id_tells_of_changed_columns(connect, keyspace):
    connection = connect(5)
    connection.query("DROP TABLE IF EXISTS raw.changing")
    connection.query("CREATE TABLE raw.changing (k int PRIMARY KEY, a int)")
    prepared = connection.prepare("SELECT * FROM raw.changing WHERE k = ?")
    connection.query("INSERT INTO raw.changing (k, a) VALUES (1, 2)")

    def execute():
        identity, metadata_id = prepared.detail
        body = b"\0" + bytes([len(identity)]) + identity + b"\0" + bytes([len(metadata_id)]) + metadata_id
        body += b"\0\1" + flags(5, 0x01 | 0x02) + b"\0\1" + value(number(1))
        return Reader(connection.request(EXECUTE, body)[1])

    reader = execute()
    assert (reader.int(), reader.int() & 0x0C) == (2, 0x04)  # rows, no metadata, not changed
    connection.query("ALTER TABLE raw.changing ADD b int")
    try:
        reader = execute()
    except Failure as failure:
        # Cassandra forgets statements of a table that changed: drivers prepare them again.
        assert failure.code == 0x2500
        again = connection.prepare("SELECT * FROM raw.changing WHERE k = ?")
        assert again.detail[0] == prepared.detail[0] and again.detail[1] != prepared.detail[1]
        reader = execute()
    assert (reader.int(), reader.int() & 0x0C) == (2, 0x08)  # the metadata has changed and is sent
    assert reader.int() == 3
    assert reader.short_bytes() != prepared.detail[1]


@VERSIONS
def test_skip_metadata(connect, keyspace, version):
    connection = connect(version)
    prepared = connection.prepare("SELECT key FROM system.local")
    identity, metadata_id = prepared.detail
    body = struct.pack(">H", len(identity)) + identity
    if version >= 5:
        body += struct.pack(">H", len(metadata_id)) + metadata_id
    result = connection.result(connection.request(EXECUTE, body + b"\0\1" + flags(version, 0x02)))
    assert result.columns == [] and result.rows == [(b"local",)]


def test_v5_keyspace_of_the_request(connect, keyspace):
    connection = connect(5)
    body = long_string("SELECT v FROM t WHERE k = 12345") + b"\0\1" + flags(5, 0x80) + string("raw")
    assert connection.result(connection.request(QUERY, body)).rows == []
    with pytest.raises(Failure) as caught:
        connection.query("SELECT v FROM t WHERE k = 12345")
    assert caught.value.code == 0x2200


def test_v5_now_of_the_request(connect, keyspace):
    connection = connect(5)
    connection.query("INSERT INTO raw.t (k, c, v) VALUES (5, 5, 0x05) USING TTL 100")
    text = long_string("SELECT v FROM raw.t WHERE k = 5") + b"\0\1" + flags(5, 0x100)
    now = int(time.time())
    assert len(connection.result(connection.request(QUERY, text + number(now))).rows) == 1
    assert connection.result(connection.request(QUERY, text + number(now + 200))).rows == []


@VERSIONS
def test_tracing_is_answered(connect, version):
    connection = connect(version)
    body = long_string("SELECT key FROM system.local") + b"\0\1" + flags(version, 0)
    connection.send(QUERY, body, flags=0x02)
    _, head, _, opcode, answer = connection.receive()
    assert opcode == RESULT
    if head & 0x02:
        session = answer[:16]
        # The sessions table answers, whether or not it has the session already.
        assert len(connection.query("SELECT * FROM system_traces.sessions WHERE session_id = ?", [session]).rows) <= 1


@VERSIONS
def test_streams_are_answered_each_once(connect, keyspace, version):
    connection = connect(version)
    body = long_string("SELECT key FROM system.local") + b"\0\1" + flags(version, 0)
    streams = list(range(0, 32768, 41))
    for stream in streams:
        connection.send(QUERY, body, stream=stream)
    answered = [connection.receive() for _ in streams]
    assert sorted(a[2] for a in answered) == streams
    assert {a[3] for a in answered} == {RESULT}


@VERSIONS
def test_schema_events(connect, keyspace, version):
    watcher, other = connect(version), connect(4)
    names = ["SCHEMA_CHANGE", "STATUS_CHANGE", "TOPOLOGY_CHANGE"]
    opcode, _ = watcher.request(REGISTER, struct.pack(">H", 3) + b"".join(map(string, names)))
    assert opcode == READY
    table = f"event{version}"
    changed = []
    for change in (f"CREATE TABLE raw.{table} (k int PRIMARY KEY)", f"ALTER TABLE raw.{table} ADD v int", f"DROP TABLE raw.{table}"):
        result = other.query(change)
        _, _, stream, opcode, body = watcher.receive()
        assert (stream, opcode) == (-1, EVENT)
        reader = Reader(body)
        assert reader.string() == "SCHEMA_CHANGE"
        changed.append(tuple(reader.string() for _ in range(4)))
        assert result.detail == changed[-1]
    assert changed == [(what, "TABLE", "raw", table) for what in ("CREATED", "UPDATED", "DROPPED")]


def test_events_of_what_a_change_changes_elsewhere(connect):
    watcher, other = connect(), connect()
    watcher.request(REGISTER, struct.pack(">H", 1) + string("SCHEMA_CHANGE"))

    def heard(statement: str, count: int) -> list:
        other.query(statement)
        told = []
        for _ in range(count):
            reader = Reader(watcher.receive()[4])
            _, kind, target, keyspace = (reader.string() for _ in range(4))
            assert keyspace == "elsewhere"
            told.append((kind, target, reader.string() if target != "KEYSPACE" else ""))
        return told

    heard("CREATE KEYSPACE elsewhere WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}", 1)
    heard("CREATE TYPE elsewhere.pair (a int)", 1)
    heard("CREATE TABLE elsewhere.t (k int PRIMARY KEY, v int, p frozen<pair>)", 1)
    keys = "k IS NOT NULL AND v IS NOT NULL PRIMARY KEY (v, k)"
    heard(f"CREATE MATERIALIZED VIEW elsewhere.seen AS SELECT k, v FROM elsewhere.t WHERE {keys}", 1)
    heard(f"CREATE MATERIALIZED VIEW elsewhere.whole AS SELECT * FROM elsewhere.t WHERE {keys}", 1)
    added = heard("ALTER TABLE elsewhere.t ADD w int", 2)
    assert added == [("UPDATED", "TABLE", "t"), ("UPDATED", "TABLE", "whole")]
    heard("DROP MATERIALIZED VIEW elsewhere.whole", 1)
    typed = heard("ALTER TYPE elsewhere.pair ADD b int", 2)
    assert typed == [("UPDATED", "TYPE", "pair"), ("UPDATED", "TABLE", "t")]
    assert heard("DROP KEYSPACE elsewhere", 4) == [
        ("DROPPED", "TABLE", "seen"),
        ("DROPPED", "TABLE", "t"),
        ("DROPPED", "TYPE", "pair"),
        ("DROPPED", "KEYSPACE", ""),
    ]


def test_unregistered_connections_hear_nothing(connect, keyspace):
    quiet, other = connect(), connect()
    other.query("CREATE TABLE raw.quiet (k int PRIMARY KEY)")
    other.query("DROP TABLE raw.quiet")
    assert quiet.query("SELECT key FROM system.local").rows == [(b"local",)]


@VERSIONS
def test_batch_kinds(connect, keyspace, version):
    connection = connect(version)
    prepared = connection.prepare("INSERT INTO raw.t (k, c, v) VALUES (?, ?, ?)")
    for kind in (0, 1):
        items = [(prepared, [number(20 + kind), number(c), b"p"]) for c in range(5)]
        items.append(("DELETE FROM raw.t WHERE k = ? AND c = 4", [number(20 + kind)]))
        connection.batch(items, kind, timestamp=50)
        rows = connection.query("SELECT c FROM raw.t WHERE k = ?", [number(20 + kind)]).rows
        assert rows == [(number(c),) for c in range(4)]
    with pytest.raises(Failure) as caught:
        connection.batch([("SELECT * FROM raw.t", [])], 0)
    assert caught.value.code == 0x2200
    with pytest.raises(Failure) as caught:
        connection.batch([("INSERT INTO raw.t (k, c) VALUES (1, 1)", [])], 2)
    assert caught.value.code == 0x2200
    connection.query("TRUNCATE raw.t")


def test_slow_reader_harms_nobody(connect, keyspace, server):
    """A client that asks for much and reads nothing: it waits; others do not, memory stays."""
    filler = connect()
    for c in range(40):
        filler.query("INSERT INTO raw.t (k, c, v) VALUES (30, ?, ?)", [number(c), b"v" * 50_000])
    slow = [connect(timeout=5) for _ in range(4)]
    before = resident(server)
    body = long_string("SELECT v FROM raw.t WHERE k = 30") + b"\0\1\0"
    for connection in slow:
        connection.socket.setblocking(False)
    asked = 0
    # Cassandra runs out of memory and exits long before that, so it is asked for little.
    most = 4000 if server.kind == "helenus" else 40
    end = time.monotonic() + 3
    while time.monotonic() < end and asked < most:
        for connection in slow:
            try:
                connection.send(QUERY, body, stream=asked % 30_000)
                asked += 1
            except BlockingIOError:
                pass
        if asked % 100 < 4:
            began = time.monotonic()
            assert filler.query("SELECT key FROM system.local").rows
            assert time.monotonic() - began < 2
    time.sleep(0.5)
    if server.kind == "helenus":
        # 4,000 answers of 2 MB are asked for; buffers for four connections are what it may take.
        assert resident(server) - before < 300 << 20
    latencies = []
    for _ in range(50):
        began = time.monotonic()
        filler.query("SELECT v FROM raw.t WHERE k = 30 LIMIT 1")
        latencies.append(time.monotonic() - began)
    assert sorted(latencies)[45] < 0.5
    for connection in slow:
        connection.close()
    filler.query("TRUNCATE raw.t")


def test_slow_reader_gets_everything_in_the_end(connect, keyspace):
    connection = connect()
    connection.query("INSERT INTO raw.t (k, c, v) VALUES (31, 1, ?)", [b"w" * 100_000])
    body = long_string("SELECT v FROM raw.t WHERE k = 31") + b"\0\1\0"
    for stream in range(200):
        connection.send(QUERY, body, stream=stream)
    time.sleep(1)
    answers = [connection.receive() for _ in range(200)]
    # Cassandra may refuse some as overloaded; nobody waits for ever and no answer is cut.
    for _, _, _, opcode, answer in answers:
        assert opcode == RESULT and len(answer) > 100_000 or opcode == ERROR and answer[:4] == number(0x1001)
    assert sorted(a[2] for a in answers) == list(range(200))
    connection.query("TRUNCATE raw.t")


def test_overlapping_connections_come_and_go(connect):
    for _ in range(200):
        with Connection(connect().socket.getpeername()[0]) as connection:
            assert connection.query("SELECT key FROM system.local").rows


def test_a_query_without_its_values(connect):
    with connect() as connection, pytest.raises(Failure) as failure:
        connection.query("SELECT key FROM system.local WHERE key = ?")
    assert (failure.value.code, failure.value.message) == (0x2200, "Invalid amount of bind variables")


def test_tables_are_told_of_as_they_are_written(connect, keyspace):
    with connect() as connection:
        connection.query(f"USE {keyspace}")
        for name in ["unnamed", f"{keyspace}.named"]:
            with pytest.raises(Failure) as failure:
                connection.query(f"CREATE TABLE {name} (k int, v int)")
            assert failure.value.message == f"No PRIMARY KEY specifed for table '{name}' (exactly one required)"
