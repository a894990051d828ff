"""A plain client of the native protocol, v3 to v5: what a driver hides, tests must see.

Values are bytes and stay bytes, errors keep their code, and anything may be sent, wrong things
too. Formats: native_protocol_v3.spec to native_protocol_v5.spec of Apache Cassandra.
"""

import dataclasses
import socket
import struct
import zlib

ERROR, STARTUP, READY, AUTHENTICATE, OPTIONS, SUPPORTED = 0, 1, 2, 3, 5, 6
AUTH_RESPONSE, AUTH_SUCCESS = 15, 16
QUERY, RESULT, PREPARE, EXECUTE, REGISTER, EVENT, BATCH = 7, 8, 9, 10, 11, 12, 13
ONE = 1
# A flag of the header: the client takes versions that are not finished.
USE_BETA = 0x10
UNSET = object()
NATIVE_TYPES = {
    1: "ascii", 2: "bigint", 3: "blob", 4: "boolean", 5: "counter", 6: "decimal", 7: "double", 8: "float",
    9: "int", 11: "timestamp", 12: "uuid", 13: "text", 14: "varint", 15: "timeuuid", 16: "inet", 17: "date",
    18: "time", 19: "smallint", 20: "tinyint", 21: "duration",
}  # fmt: skip


class Closed(Exception):
    """The server closed the connection."""


@dataclasses.dataclass
class Failure(Exception):
    """An ERROR frame."""

    code: int
    message: str
    detail: bytes = b""

    def __str__(self):
        return f"{self.code:#06x} {self.message}"


@dataclasses.dataclass
class Result:
    """A RESULT frame. Of rows: columns are (name, type), each of a (keyspace, table) of `tables`; values are bytes
    or None."""

    kind: str
    columns: list = dataclasses.field(default_factory=list)
    tables: list = dataclasses.field(default_factory=list)
    rows: list = dataclasses.field(default_factory=list)
    paging_state: bytes | None = None
    detail: tuple = ()
    warnings: list = dataclasses.field(default_factory=list)


class Reader:
    """Cuts protocol notation out of a body."""

    def __init__(self, data: bytes):
        self.data, self.at = data, 0

    def take(self, length: int) -> bytes:
        if length < 0 or self.at + length > len(self.data):
            raise ValueError(f"{length} bytes wanted at {self.at} of {len(self.data)}")
        self.at += length
        return self.data[self.at - length : self.at]

    def byte(self):
        return self.take(1)[0]

    def short(self):
        return struct.unpack(">H", self.take(2))[0]

    def int(self):
        return struct.unpack(">i", self.take(4))[0]

    def string(self):
        return self.take(self.short()).decode()

    def string_list(self):
        return [self.string() for _ in range(self.short())]

    def string_multimap(self):
        return {self.string(): self.string_list() for _ in range(self.short())}

    def bytes(self):
        length = self.int()
        return None if length < 0 else self.take(length)

    def short_bytes(self):
        return self.take(self.short())

    def type(self) -> str:
        number = self.short()
        if number == 0:
            return "'" + self.string() + "'"
        if number == 0x20:
            return f"list<{self.type()}>"
        if number == 0x21:
            return f"map<{self.type()}, {self.type()}>"
        if number == 0x22:
            return f"set<{self.type()}>"
        if number == 0x30:
            self.string()
            name = self.string()
            fields = [f"{self.string()} {self.type()}" for _ in range(self.short())]
            return f"{name}({', '.join(fields)})"
        if number == 0x31:
            return f"tuple<{', '.join(self.type() for _ in range(self.short()))}>"
        return NATIVE_TYPES[number]


def string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">H", len(data)) + data


def long_string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">i", len(data)) + data


def text(word: str) -> bytes:
    """What a value of text has."""
    return word.encode()


def number(value: int) -> bytes:
    """What a value of int has."""
    return value.to_bytes(4, "big", signed=True)


def value(data) -> bytes:
    """[value]: bytes, None for null, UNSET."""
    if data is UNSET:
        return struct.pack(">i", -2)
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def values(items) -> bytes:
    return struct.pack(">H", len(items)) + b"".join(value(item) for item in items)


def crc24(data: bytes) -> int:
    """CRC24 of a segment's header: native_protocol_v5.spec 2.2, Cassandra's net/Crc.java."""
    crc = 0x875060
    for byte in data:
        crc ^= byte << 16
        for _ in range(8):
            crc <<= 1
            if crc & 0x1000000:
                crc ^= 0x1974F0B
    return crc & 0xFFFFFF


def crc32(data: bytes) -> int:
    """CRC32 of a segment's payload, started with four fixed bytes."""
    return zlib.crc32(data, zlib.crc32(b"\xfa\x2d\x55\xca"))


def segment(payload: bytes, self_contained: bool = True) -> bytes:
    """An uncompressed v5 segment; the payload is at most 128 KiB - 1."""
    head = (len(payload) | (1 << 17 if self_contained else 0)).to_bytes(3, "little")
    # The spec's CRC24 goes over the header's bytes in the order they are sent.
    return head + crc24(head).to_bytes(3, "little") + payload + crc32(payload).to_bytes(4, "little")


def envelope(version: int, opcode: int, body: bytes = b"", stream: int = 0, flags: int = 0) -> bytes:
    """A frame (v3, v4) or an envelope (v5) of a request."""
    return struct.pack(">BBhBi", version, flags, stream, opcode, len(body)) + body


class Connection:
    """One connection; one request at a time unless `send` and `receive` are used by hand."""

    def __init__(
        self,
        address: str,
        port: int = 9042,
        version: int = 4,
        startup: bool = True,
        timeout: float = 30,
        credentials: tuple[str, str] | None = None,
    ):
        self.version = version
        self.credentials = credentials
        self.framed = False
        self.buffer = b""
        self.envelopes = b""
        self.socket = socket.create_connection((address, port), timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if startup:
            self.startup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def startup(self, options: dict | None = None):
        options = {"CQL_VERSION": "3.0.0", **(options or {})}
        body = struct.pack(">H", len(options)) + b"".join(string(k) + string(v) for k, v in options.items())
        opcode, _ = self.request(STARTUP, body)
        if opcode == AUTHENTICATE and self.credentials:
            token = "".join(f"\0{word}" for word in self.credentials).encode()
            opcode, _ = self.request(AUTH_RESPONSE, value(token))
            assert opcode == AUTH_SUCCESS, opcode
        else:
            assert opcode == READY, opcode
        self.framed = self.version >= 5

    def send_raw(self, data: bytes):
        self.socket.sendall(data)

    def send(self, opcode: int, body: bytes = b"", stream: int = 0, flags: int = 0):
        self.send_raw(self.frame(opcode, body, stream, flags))

    def frame(self, opcode: int, body: bytes, stream: int, flags: int = 0) -> bytes:
        """A request as it is sent."""
        if self.version == 6:
            flags |= USE_BETA
        data = envelope(self.version, opcode, body, stream, flags)
        if not self.framed:
            return data
        most = 128 * 1024 - 1
        parts = [data[i : i + most] for i in range(0, len(data), most)]
        return b"".join(segment(part, len(parts) == 1) for part in parts)

    def together(self, requests: list[tuple[int, bytes]]) -> list[tuple[int, int, bytes]]:
        """Sends requests at once; flags, opcode and body of the response to each."""
        self.send_raw(b"".join(self.frame(opcode, body, stream) for stream, (opcode, body) in enumerate(requests)))
        answers = {}
        for _ in requests:
            _, flags, stream, opcode, body = self.receive()
            assert stream not in answers, f"stream {stream} is answered twice"
            answers[stream] = flags, opcode, body
        return [answers[stream] for stream in range(len(requests))]

    def read_exactly(self, length: int) -> bytes:
        while len(self.buffer) < length:
            try:
                part = self.socket.recv(1 << 16)
            except (ConnectionResetError, BrokenPipeError):
                raise Closed from None
            if not part:
                raise Closed
            self.buffer += part
        head, self.buffer = self.buffer[:length], self.buffer[length:]
        return head

    def read_envelope_bytes(self, length: int) -> bytes:
        if not self.framed:
            return self.read_exactly(length)
        while len(self.envelopes) < length:
            head = self.read_exactly(6)
            assert crc24(head[:3]) == int.from_bytes(head[3:], "little"), "CRC24 of a segment's header"
            payload = self.read_exactly(int.from_bytes(head[:3], "little") & 0x1FFFF)
            assert crc32(payload) == int.from_bytes(self.read_exactly(4), "little"), "CRC32 of a segment"
            self.envelopes += payload
        head, self.envelopes = self.envelopes[:length], self.envelopes[length:]
        return head

    def receive(self):
        """(version byte, flags, stream, opcode, body) of the next frame."""
        version, flags, stream, opcode, length = struct.unpack(">BBhBi", self.read_envelope_bytes(9))
        return version, flags, stream, opcode, self.read_envelope_bytes(length)

    def request(self, opcode: int, body: bytes = b"") -> tuple[int, bytes]:
        """Sends a request; its response's opcode and body, or Failure."""
        self.send(opcode, body)
        _, flags, _, opcode, body = self.receive()
        self.warnings = []
        reader = Reader(body)
        if flags & 0x08:
            self.warnings = reader.string_list()
        if opcode == ERROR:
            code = reader.int()
            message = reader.string()
            raise Failure(code, message, reader.data[reader.at :])
        return opcode, reader.data[reader.at :]

    def parameters(self, items, page, state, timestamp, consistency) -> bytes:
        flags = 0
        tail = b""
        if items:
            flags |= 0x01
            tail += values(items)
        if page:
            flags |= 0x04
            tail += struct.pack(">i", page)
        if state is not None:
            flags |= 0x08
            tail += value(state)
        if timestamp is not None:
            flags |= 0x20
            tail += struct.pack(">q", timestamp)
        return struct.pack(">H", consistency) + struct.pack(">I" if self.version >= 5 else ">B", flags) + tail

    def query(self, text, items=(), page=0, state=None, timestamp=None, consistency=ONE) -> Result:
        body = long_string(text) + self.parameters(items, page, state, timestamp, consistency)
        return self.result(self.request(QUERY, body))

    def prepare(self, text) -> Result:
        body = long_string(text) + (struct.pack(">I", 0) if self.version >= 5 else b"")
        return self.result(self.request(PREPARE, body))

    def execute(self, prepared: Result, items=(), page=0, state=None, timestamp=None, consistency=ONE) -> Result:
        body = self.execution(prepared, items, page, state, timestamp, consistency)
        return self.result(self.request(EXECUTE, body))

    def execution(self, prepared: Result, items=(), page=0, state=None, timestamp=None, consistency=ONE) -> bytes:
        """The body of an EXECUTE."""
        identity, metadata_id = prepared.detail
        body = struct.pack(">H", len(identity)) + identity
        if self.version >= 5:
            body += struct.pack(">H", len(metadata_id)) + metadata_id
        return body + self.parameters(items, page, state, timestamp, consistency)

    def batch(self, statements, kind=0, timestamp=None, consistency=ONE) -> Result:
        """statements: (text or prepared Result, values)."""
        body = struct.pack(">BH", kind, len(statements))
        for statement, items in statements:
            if isinstance(statement, str):
                body += b"\0" + long_string(statement)
            else:
                body += b"\1" + struct.pack(">H", len(statement.detail[0])) + statement.detail[0]
            body += values(items)
        flags = 0x20 if timestamp is not None else 0
        body += struct.pack(">H", consistency) + struct.pack(">I" if self.version >= 5 else ">B", flags)
        if timestamp is not None:
            body += struct.pack(">q", timestamp)
        return self.result(self.request(BATCH, body))

    def supported(self) -> dict:
        _, body = self.request(OPTIONS)
        return Reader(body).string_multimap()

    def result(self, response) -> Result:
        opcode, body = response
        assert opcode == RESULT, opcode
        reader = Reader(body)
        kind = reader.int()
        if kind == 1:
            result = Result("void")
        elif kind == 2:
            result = self.rows(reader)
        elif kind == 3:
            result = Result("set keyspace", detail=(reader.string(),))
        elif kind == 4:
            identity = reader.short_bytes()
            metadata_id = reader.short_bytes() if self.version >= 5 else b""
            result = Result("prepared", detail=(identity, metadata_id))
        elif kind == 5:
            change, target = reader.string(), reader.string()
            names = [reader.string() for _ in range(1 if target == "KEYSPACE" else 2)]
            result = Result("schema change", detail=(change, target, *names))
        else:
            raise ValueError(f"result kind {kind}")
        result.warnings = self.warnings
        return result

    def rows(self, reader: Reader) -> Result:
        flags, count = reader.int(), reader.int()
        result = Result("rows")
        if flags & 0x02:
            result.paging_state = reader.bytes()
        if flags & 0x08:
            reader.short_bytes()
        if not flags & 0x04:
            of_all = (reader.string(), reader.string()) if flags & 0x01 else None
            for _ in range(count):
                result.tables.append(of_all or (reader.string(), reader.string()))
                result.columns.append((reader.string(), reader.type()))
        result.rows = [tuple(reader.bytes() for _ in range(count)) for _ in range(reader.int())]
        return result
