"""What no driver sends: each gets the answer that Cassandra gives, and no other connection notices."""

import os
import socket
import struct
import time

import pytest

from harness.protocol import (
    BATCH,
    ERROR,
    EXECUTE,
    OPTIONS,
    PREPARE,
    QUERY,
    READY,
    REGISTER,
    RESULT,
    STARTUP,
    SUPPORTED,
    Closed,
    Failure,
    envelope,
    long_string,
    segment,
    string,
)

SERVER_ERROR = 0x0000
PROTOCOL_ERROR = 0x000A
INVALID = 0x2200
SELECT = long_string("SELECT key FROM system.local") + b"\0\1\0"
MAX_FRAME = 16 << 20

pytestmark = pytest.mark.usefixtures("bystander")


def startup(options: dict) -> bytes:
    return struct.pack(">H", len(options)) + b"".join(string(k) + string(v) for k, v in options.items())


def error(connection) -> tuple[int, str]:
    """The error that comes next: its code and text."""
    *_, opcode, body = connection.receive()
    assert opcode == ERROR
    code, length = struct.unpack(">iH", body[:6])
    return code, body[6 : 6 + length].decode()


def is_closed(connection, seconds: float = 5) -> bool:
    """Whether the server closes the connection, after an error frame or without one."""
    connection.socket.settimeout(seconds)
    try:
        while connection.socket.recv(1 << 16):
            pass
        return True
    except (ConnectionResetError, BrokenPipeError):
        return True
    except socket.timeout:
        return False


@pytest.mark.parametrize("version", [0, 7, 66, 127])
def test_unsupported_version(connect, version):
    connection = connect(startup=False)
    connection.send_raw(envelope(version, OPTIONS))
    code, text = error(connection)
    assert code == PROTOCOL_ERROR
    # Drivers match on this text to negotiate a version downwards.
    assert text.startswith(f"Invalid or unsupported protocol version ({version}); supported versions are (3/v3, 4/v4, 5/v5")


def test_beta_version_needs_its_flag(connect):
    connection = connect(startup=False)
    connection.send_raw(envelope(6, OPTIONS))
    code, text = error(connection)
    assert code == PROTOCOL_ERROR and ("beta" in text.lower() or "unsupported protocol version" in text)


@pytest.mark.parametrize("garbage", [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\xff" * 64, b"\x16\x03\x01" + b"\0" * 61])
def test_garbage_gets_a_protocol_error(connect, garbage):
    connection = connect(startup=False)
    connection.send_raw(garbage)
    code, text = error(connection)
    assert code == PROTOCOL_ERROR and "unsupported protocol version" in text


@pytest.mark.parametrize("seed", range(20))
def test_random_bytes_after_startup(connect, seed):
    import random

    connection = connect(version=(3, 4, 5)[seed % 3], timeout=2)
    rng = random.Random(seed)
    try:
        for _ in range(20):
            connection.send_raw(bytes([rng.randrange(256) for _ in range(rng.randrange(1, 200))]))
        while True:
            connection.receive()
    except (Closed, OSError):
        pass  # closed, refused or waiting for more: the bystander says whether the server lives


@pytest.mark.parametrize(
    "name,opcode,body,text",
    [
        ("query before startup", QUERY, SELECT, "expecting STARTUP or OPTIONS"),
        ("credentials of v1", 4, b"", ""),
        ("opcode of a response", RESULT, b"", "Wrong protocol direction"),
        ("unknown opcode", 0x55, b"", "Unknown opcode 85"),
        ("startup without a CQL version", STARTUP, startup({}), "Missing value CQL_VERSION"),
        ("startup with no version", STARTUP, startup({"CQL_VERSION": "x"}), ""),
        ("startup with CQL 2", STARTUP, startup({"CQL_VERSION": "2.0.0"}), "CQL version 2.0.0 is not supported"),
        ("unknown compression", STARTUP, startup({"CQL_VERSION": "3.0.0", "COMPRESSION": "zzz"}), "Unknown compression algorithm: zzz"),
        ("startup cut short", STARTUP, b"\0\5\0", "Not enough bytes"),
    ],
)
def test_before_startup(connect, name, opcode, body, text):
    connection = connect(startup=False)
    connection.send_raw(envelope(4, opcode, body))
    code, message = error(connection)
    assert code == PROTOCOL_ERROR and text in message


def test_snappy_is_refused_in_v5(connect):
    connection = connect(version=5, startup=False)
    connection.send_raw(envelope(5, STARTUP, startup({"CQL_VERSION": "3.0.0", "COMPRESSION": "snappy"})))
    assert error(connection) == (PROTOCOL_ERROR, "Snappy compression is not supported in protocol V5")


@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize(
    "name,opcode,body,text",
    [
        ("startup again", STARTUP, startup({"CQL_VERSION": "3.0.0"}), "already initialized"),
        ("text longer than the body", QUERY, b"\0\0\0\xffabc", "Not enough bytes"),
        ("negative length", QUERY, b"\xff\0\0\xffabc", ""),
        ("consistency unknown", QUERY, long_string("SELECT key FROM system.local") + b"\0\x55\0\0\0\0\0", "consistency level"),
        ("text is no UTF-8", QUERY, struct.pack(">i", 4) + b"\xff\xfe\xfd\xfc\0\1\0\0\0\0\0", ""),
        ("event unknown", REGISTER, b"\0\1" + string("NOPE"), "NOPE"),
        ("empty prepare", PREPARE, b"", ""),
        ("empty execute", EXECUTE, b"", ""),
        ("empty batch", BATCH, b"", ""),
        ("batch of a kind unknown", BATCH, b"\x09\0\0\0\1\0", ""),
    ],
)
def test_malformed_request_leaves_the_connection_usable(connect, version, name, opcode, body, text):
    connection = connect(version)
    with pytest.raises(Failure) as caught:
        connection.request(opcode, body)
    # Cassandra answers some of them with a server error: it reads beyond the body's end.
    assert caught.value.code in (PROTOCOL_ERROR, SERVER_ERROR) and text in caught.value.message
    # Cassandra keeps the connection after an error in one envelope.
    assert connection.query("SELECT key FROM system.local").rows == [(b"local",)]


def test_another_version_on_the_same_connection(connect):
    connection = connect(4)
    connection.send_raw(envelope(3, OPTIONS))
    code, text = error(connection)
    assert code == PROTOCOL_ERROR and "Invalid message version" in text


@pytest.mark.parametrize("cut", [1, 5, 8, 9, 20])
def test_half_a_frame_waits_for_the_rest(connect, bystander, cut):
    data = envelope(4, QUERY, SELECT, stream=7)
    connection = connect()
    connection.send_raw(data[:cut])
    time.sleep(0.05)
    assert bystander.query("SELECT key FROM system.local").rows
    connection.send_raw(data[cut:])
    _, _, stream, opcode, _ = connection.receive()
    assert (stream, opcode) == (7, RESULT)


def test_half_a_frame_and_goodbye(connect):
    for cut in range(1, 30):
        connection = connect()
        connection.send_raw(envelope(4, QUERY, SELECT)[:cut])
        connection.close()


def test_frame_one_byte_at_a_time(connect):
    connection = connect()
    for byte in envelope(4, QUERY, SELECT, stream=9):
        connection.send_raw(bytes([byte]))
    assert connection.receive()[2:4] == (9, RESULT)


@pytest.mark.parametrize("version", [3, 4])
def test_request_too_big_is_refused_and_skipped(connect, version):
    """As Cassandra: Invalid, the body is read over, and the next request is answered."""
    connection = connect(version)
    body = long_string("SELECT key FROM system.local WHERE key = '" + "x" * (MAX_FRAME + 1) + "'") + b"\0\1\0"
    connection.send_raw(envelope(version, QUERY, body, stream=3))
    _, _, stream, opcode, answer = connection.receive()
    assert (stream, opcode) == (3, ERROR)
    assert struct.unpack(">i", answer[:4])[0] == INVALID
    assert b"exceeds maximum allowed length" in answer
    assert connection.query("SELECT key FROM system.local").rows


@pytest.mark.parametrize("length", [300 << 20, 2**31 - 1])
def test_huge_length_reserves_no_memory(connect, server, length):
    before = resident(server)
    connections = [connect() for _ in range(20)]
    for connection in connections:
        connection.send_raw(struct.pack(">BBhBi", 4, 0, 0, QUERY, length) + b"x" * 1000)
    time.sleep(0.3)
    if server.kind == "helenus":
        assert resident(server) - before < 64 << 20


def resident(server) -> int:
    """The server's resident memory in bytes."""
    with open(f"/proc/{server.pid()}/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("position", [0, 1, 4, 7, -1])
def test_damaged_v5_segment_closes_the_connection(connect, position):
    """The spec: a frame whose CRC does not match, header or payload, ends the connection."""
    connection = connect(5)
    data = bytearray(segment(envelope(5, OPTIONS)))
    data[position] ^= 1
    connection.send_raw(bytes(data) + b"\0" * (1 << 18))
    assert is_closed(connection)


def test_v5_request_without_a_segment(connect):
    connection = connect(5)
    connection.send_raw(envelope(5, OPTIONS))
    assert is_closed(connection)


def test_v5_envelopes_share_a_segment(connect):
    connection = connect(5)
    connection.send_raw(segment(b"".join(envelope(5, OPTIONS, stream=s) for s in range(5))))
    assert {connection.receive()[2:4] for _ in range(5)} == {(s, SUPPORTED) for s in range(5)}


@pytest.mark.parametrize("size", [10, 1000, 131_071])
def test_v5_envelope_over_many_segments(connect, size):
    connection = connect(5)
    text = "SELECT key FROM system.local WHERE key = '" + "x" * 200_000 + "'"
    data = envelope(5, QUERY, long_string(text) + b"\0\1\0\0\0\0", stream=4)
    for i in range(0, len(data), size):
        connection.send_raw(segment(data[i : i + size], self_contained=False))
    assert connection.receive()[2] == 4


def test_v5_empty_segments(connect):
    connection = connect(5)
    connection.send_raw(segment(b"") + segment(envelope(5, OPTIONS)))
    assert connection.receive()[3] == SUPPORTED


def test_many_connections_that_say_nothing(connect):
    for _ in range(300):
        connect(startup=False)
    assert connect().request(OPTIONS)[0] == SUPPORTED


def test_startup_of_every_version(connect):
    for version in (3, 4, 5):
        connection = connect(version, startup=False)
        opcode, _ = connection.request(STARTUP, startup({"CQL_VERSION": "3.4.5", "DRIVER_NAME": "sockets", "THROW_ON_OVERLOAD": "1"}))
        assert opcode == READY
