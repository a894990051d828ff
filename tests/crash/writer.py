"""One writer: a connection, its partitions, and what the server acknowledged of them."""

import random
import struct
import threading
import time

from harness.protocol import BATCH, ERROR, EXECUTE, QUERY, RESULT, Closed, Connection, Reader, long_string, values

from .model import INSERT, SINGLE, Partition, batch

IN_FLIGHT = 16
QUORUM = 4
TIMESTAMP = 0x20


class Writer(threading.Thread):
    """Sends operations until told to stop or until the connection goes."""

    def __init__(self, number: int, address: str, partitions: dict, seed: int):
        super().__init__(daemon=True)
        self.number, self.address = number, address
        self.partitions = partitions  # key -> Partition as acknowledged
        self.prepared = {}  # text -> what the server knows it by
        self.pending = {}  # stream -> Operation in flight
        self.busy = {}  # key -> Operation in flight
        self.rng = random.Random(seed)
        self.sent = self.acknowledged = self.refused = 0
        self.last_timestamp = 0
        self.stopping = threading.Event()
        self.failure = None

    def run(self):
        try:
            with Connection(self.address, timeout=20) as connection:
                self.prepared = {INSERT: connection.prepare(INSERT)}
                while not self.stopping.is_set():
                    while len(self.pending) < IN_FLIGHT:
                        self.send(connection)
                    self.receive(connection)
                while self.pending:
                    self.receive(connection)
        except (Closed, OSError):
            pass  # killed: what is pending stays pending, for the check
        except Exception as error:  # noqa: BLE001 - the main thread reports it
            self.failure = error

    def draw(self):
        free = [key for key in self.rng.sample(sorted(self.partitions), 40) if key not in self.busy]
        self.sent += 1
        text = f"{self.number}.{time.time_ns()}.{self.sent}." + "x" * self.rng.choice([0, 20, 200, 2000])
        if self.rng.random() < 0.08:
            return batch(free[:3], text, logged=True)
        return self.rng.choice(SINGLE)(self.rng, free[0], text)

    def send(self, connection: Connection):
        operation = self.draw()
        stream = next(s for s in range(IN_FLIGHT) if s not in self.pending)
        self.last_timestamp = max(self.last_timestamp + 1, time.time_ns() // 1000)
        # Known as in flight before the first byte leaves.
        self.pending[stream] = operation
        self.busy.update(dict.fromkeys(operation.effects, operation))
        connection.send(*self.encoded(connection, operation), stream=stream)

    def encoded(self, connection: Connection, operation):
        """The request of an operation: opcode and body (v4)."""
        if operation.logged is None:
            text, items = operation.statements[0]
            # As text now and then, too: that takes another way through the server.
            if text in self.prepared and self.rng.random() < 0.8:
                known = self.prepared[text]
                body = connection.execution(known, items, timestamp=self.last_timestamp, consistency=QUORUM)
                return EXECUTE, body
            parameters = connection.parameters(items, 0, None, self.last_timestamp, QUORUM)
            return QUERY, long_string(text) + parameters
        head = struct.pack(">BH", 0 if operation.logged else 1, len(operation.statements))
        tail = struct.pack(">HBq", QUORUM, TIMESTAMP, self.last_timestamp)
        return BATCH, head + b"".join(b"\0" + long_string(t) + values(v) for t, v in operation.statements) + tail

    def receive(self, connection: Connection):
        _, _, stream, opcode, body = connection.receive()
        operation = self.pending.pop(stream)
        if opcode == ERROR:
            # Refused (overloaded, timed out): it may be applied or not; the check must allow both,
            # so its partitions are left alone until then.
            self.refused += 1
            code = Reader(body).int()
            if code not in (0x1001, 0x1100):
                raise AssertionError(f"the server refused a valid write: {code:#06x} {Reader(body[4:]).string()}")
            return
        assert opcode == RESULT, opcode
        self.acknowledged += 1
        for key in operation.effects:
            self.partitions[key] = operation.applied_to(key, self.partitions[key])
            del self.busy[key]


def new_partitions(number: int, count: int) -> dict:
    return {number * 1_000_000 + i: Partition() for i in range(count)}
