"""What the clients of `crash.cluster` do, and what they may see.

* A register has one writer, which writes rising versions under rising timestamps, each DELETE_EVERYth of them a
  deletion. Who reads it sees at least the version that was acknowledged, or read by anybody, before the read
  began, and at most the one that was tried.
* A journal is a partition with one writer, which adds row behind row and deletes some. What was acknowledged, or
  seen, is there until its deletion is tried, and gone when that is acknowledged.
* An agreement is a number that several clients raise by one with `IF v = …`. No two of them are told to have made
  the same step, and who reads it (at SERIAL, or by an update that was not applied) sees no less than what was known.
* A counter is added to, one by one, by several clients. Who reads it sees at least as many additions as were
  acknowledged, and at most as many as were tried.
"""

import random
import struct
import threading
import time
from collections import Counter

from harness.protocol import Closed, Connection, Failure

QUORUM, ALL, SERIAL = 4, 5, 8
REGISTERS, JOURNALS, AGREEMENTS, COUNTERS = 12, 6, 4, 3
READERS, AGREEING, ADDERS = 6, 4, 3
DELETE_EVERY = 7
# Of rows of a journal: tried or under way, acknowledged, their deletion tried, that acknowledged.
TRIED, THERE, DELETING, GONE = range(4)
# How many rows of a journal a reader looks at.
SLICE = 50
# Not executed: UNAVAILABLE, OVERLOADED, IS_BOOTSTRAPPING.
REFUSED = (0x1000, 0x1001, 0x1002)
# Nobody knows: timeouts and failures of writes and reads, CAS_WRITE_UNKNOWN.
UNKNOWN = (0x1100, 0x1200, 0x1300, 0x1500, 0x1700)
# Longer than any request takes that a node answers.
PATIENCE = 12.0
TABLES = [
    "CREATE KEYSPACE crash WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}",
    "CREATE TABLE crash.registers (k int PRIMARY KEY, v bigint)",
    "CREATE TABLE crash.journals (k int, n int, PRIMARY KEY (k, n))",
    "CREATE TABLE crash.agreements (k int PRIMARY KEY, v bigint)",
    "CREATE TABLE crash.counters (k int PRIMARY KEY, v counter)",
]


class Known:
    """What is known of all that was written, and what went wrong."""

    def __init__(self, addresses: list[str]):
        self.addresses = addresses
        self.lock = threading.Lock()
        self.problem: str | None = None
        self.stopping = threading.Event()
        self.counts = Counter()
        # The highest version tried, and the highest acknowledged or read; of counters the number of additions.
        numbers = {"register": REGISTERS, "agreement": AGREEMENTS, "counter": COUNTERS}
        self.tried = {kind: [0] * number for kind, number in numbers.items()}
        self.seen = {kind: [0] * number for kind, number in numbers.items()}
        self.steps = set()
        self.added = [0] * COUNTERS
        self.rows = [[] for _ in range(JOURNALS)]

    def wrong(self, what: str):
        """The first thing that went wrong is kept. With the lock."""
        self.problem = self.problem or what

    def reading(self, kind: str, key: int) -> int:
        """What a read that begins now must see at least."""
        with self.lock:
            return self.seen[kind][key]

    def trying(self, kind: str, key: int, version: int):
        with self.lock:
            self.tried[kind][key] = max(self.tried[kind][key], version)

    def written(self, kind: str, key: int, version: int):
        with self.lock:
            self.counts["acknowledged"] += 1
            self.seen[kind][key] = max(self.seen[kind][key], version)

    def read(self, kind: str, key: int, before: int, value: int | None):
        """A read that began when `before` was known gave this."""
        with self.lock:
            self.counts["reads"] += 1
            tried = self.tried[kind][key]
            version = value or 0
            if value is None and kind == "register":
                # The first deletion that it may have been; before the first write there is nothing either.
                version = -(-before // DELETE_EVERY) * DELETE_EVERY
            if not before <= version <= tried:
                self.wrong(f"{kind} {key}: a read gave {value}, {before} was acknowledged or read before, {tried} tried")
            self.seen[kind][key] = max(self.seen[kind][key], version)

    def stepped(self, key: int, version: int):
        """An update was applied that made this of an agreement."""
        with self.lock:
            if (key, version) in self.steps:
                self.wrong(f"agreement {key}: two clients were told that theirs was the step to {version}")
            self.steps.add((key, version))
        self.written("agreement", key, version)

    def listed(self, key: int, first: int, states: list[int], found: set[int]):
        """A read of a journal's rows, which were in these states when it began, found these numbers."""
        rows = self.rows[key]
        with self.lock:
            self.counts["reads"] += 1
            for number, state in enumerate(states, first):
                if state == THERE and rows[number] == THERE and number not in found:
                    self.wrong(f"journal {key}: row {number} was acknowledged or read before, and a read did not find it")
                if state == GONE and number in found:
                    self.wrong(f"journal {key}: row {number} was deleted, and a read found it")
                if number in found and rows[number] == TRIED:
                    rows[number] = THERE


class Client(threading.Thread):
    """One connection at a time, to any node; another one after an error."""

    def __init__(self, known: Known, seed: int, pause: float):
        super().__init__(daemon=True)
        self.known, self.rng, self.pause = known, random.Random(seed), pause
        self.connection = self.failure = None

    def run(self):
        try:
            while not self.known.stopping.is_set():
                self.turn()
                time.sleep(self.rng.uniform(0, 2 * self.pause))
        except Exception as error:  # noqa: BLE001 - the main thread reports it
            self.failure = error
        finally:
            self.close()

    def turn(self):
        """One of what this client does."""
        raise NotImplementedError

    def close(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def query(self, text: str, items: list[bytes], timestamp: int | None = None, consistency: int = QUORUM):
        """The result, or None where it was refused or nobody knows what became of it."""
        outcome = "unknown"
        try:
            if self.connection is None:
                outcome = "unreachable"
                self.connection = Connection(self.rng.choice(self.known.addresses), timeout=PATIENCE)
                outcome = "unknown"
            return self.connection.query(text, items, timestamp=timestamp, consistency=consistency)
        except Failure as failure:
            # Another node may do better.
            if failure.code not in REFUSED + UNKNOWN:
                raise
            if failure.code in REFUSED:
                outcome = "refused"
        except (OSError, Closed):
            pass
        self.close()
        with self.known.lock:
            self.known.counts[outcome] += 1
        return None


class RegisterWriter(Client):
    """The one writer of a register."""

    def __init__(self, known, seed, pause, key):
        super().__init__(known, seed, pause)
        self.key, self.version = key, 0

    def turn(self):
        self.version += 1
        self.known.trying("register", self.key, self.version)
        if self.version % DELETE_EVERY == 0:
            done = self.query("DELETE FROM crash.registers WHERE k = ?", [int4(self.key)], timestamp=self.version)
        else:
            text = "INSERT INTO crash.registers (k, v) VALUES (?, ?)"
            done = self.query(text, [int4(self.key), int8(self.version)], timestamp=self.version)
        if done is not None:
            self.known.written("register", self.key, self.version)


class JournalWriter(Client):
    """The one writer of a journal."""

    def __init__(self, known, seed, pause, key):
        super().__init__(known, seed, pause)
        self.key = key

    def turn(self):
        rows = self.known.rows[self.key]
        if rows and self.rng.random() < 0.2:
            number = self.rng.randrange(max(0, len(rows) - 500), len(rows))
            if rows[number] != GONE:
                return self.change(number, "DELETE FROM crash.journals WHERE k = ? AND n = ?", 2, DELETING, GONE)
        with self.known.lock:
            rows.append(TRIED)
        self.change(len(rows) - 1, "INSERT INTO crash.journals (k, n) VALUES (?, ?)", 1, TRIED, THERE)

    def change(self, number: int, text: str, timestamp: int, trying: int, done: int):
        rows = self.known.rows[self.key]
        with self.known.lock:
            rows[number] = trying
        if self.query(text, [int4(self.key), int4(number)], timestamp=timestamp) is not None:
            with self.known.lock:
                self.known.counts["acknowledged"] += 1
                rows[number] = done


class Reader(Client):
    """Reads registers, counters and journals."""

    def turn(self):
        kind = self.rng.choices(["register", "counter", "journal"], [6, 1, 3])[0]
        if kind == "journal":
            return self.read_journal()
        key = self.rng.randrange(len(self.known.seen[kind]))
        before = self.known.reading(kind, key)
        result = self.query(f"SELECT v FROM crash.{kind}s WHERE k = ?", [int4(key)])
        if result is not None:
            self.known.read(kind, key, before, number_of(result))

    def read_journal(self):
        key = self.rng.randrange(JOURNALS)
        with self.known.lock:
            length = len(self.known.rows[key])
            # The newest rows are the ones that nodes may differ in.
            first = max(0, length - SLICE) if self.rng.random() < 0.5 else self.rng.randrange(max(1, length))
            states = self.known.rows[key][first : first + SLICE]
        text = "SELECT n FROM crash.journals WHERE k = ? AND n >= ? AND n < ?"
        result = self.query(text, [int4(key), int4(first), int4(first + len(states))])
        if result is not None:
            self.known.listed(key, first, states, {struct.unpack(">i", row[0])[0] for row in result.rows})


class Agreeing(Client):
    """Raises agreements by one."""

    def turn(self):
        key = self.rng.randrange(AGREEMENTS)
        before = self.known.reading("agreement", key)
        result = self.query("SELECT v FROM crash.agreements WHERE k = ?", [int4(key)], consistency=SERIAL)
        if result is None:
            return
        value = number_of(result)
        self.known.read("agreement", key, before, value)
        self.known.trying("agreement", key, value + 1)
        before = self.known.reading("agreement", key)
        text = "UPDATE crash.agreements SET v = ? WHERE k = ? IF v = ?"
        result = self.query(text, [int8(value + 1), int4(key), int8(value)])
        if result is None:
            return
        if result.rows[0][0] == b"\x01":
            self.known.stepped(key, value + 1)
        else:
            self.known.read("agreement", key, before, struct.unpack(">q", result.rows[0][1])[0])


class Adder(Client):
    """Adds to counters."""

    def turn(self):
        key = self.rng.randrange(COUNTERS)
        with self.known.lock:
            self.known.tried["counter"][key] += 1
        done = self.query("UPDATE crash.counters SET v = v + 1 WHERE k = ?", [int4(key)])
        if done is not None:
            with self.known.lock:
                self.known.added[key] += 1
                added = self.known.added[key]
            self.known.written("counter", key, added)


def int4(number: int) -> bytes:
    return struct.pack(">i", number)


def int8(number: int) -> bytes:
    return struct.pack(">q", number)


def number_of(result) -> int | None:
    return struct.unpack(">q", result.rows[0][0])[0] if result.rows else None


def create_tables(address: str):
    """The tables, and each agreement at 0."""
    with Connection(address) as connection:
        for text in TABLES:
            connection.query(text)
        for key in range(AGREEMENTS):
            connection.query("INSERT INTO crash.agreements (k, v) VALUES (?, 0) IF NOT EXISTS", [int4(key)], consistency=QUORUM)


def clients(known: Known, rng: random.Random, pause: float) -> list[Client]:
    """All clients; each waits so many seconds between two requests, on average."""

    def seed():
        return rng.randrange(2**60)

    made = [RegisterWriter(known, seed(), pause, key) for key in range(REGISTERS)]
    made += [JournalWriter(known, seed(), pause, key) for key in range(JOURNALS)]
    made += [Reader(known, seed(), pause) for _ in range(READERS)]
    made += [Adder(known, seed(), pause) for _ in range(ADDERS)]
    return made + [Agreeing(known, seed(), pause) for _ in range(AGREEING)]


def single_values():
    """What is read at the end, and how: the kind, the key and the consistency. SERIAL completes what ALL shall see."""
    everything = [("register", REGISTERS, ALL), ("counter", COUNTERS, ALL), ("agreement", AGREEMENTS, SERIAL), ("agreement", AGREEMENTS, ALL)]
    for kind, number, consistency in everything:
        for key in range(number):
            yield kind, key, consistency


def read_everywhere(known: Known, deadline: float):
    """Asks each node for everything at ALL, and for agreements at SERIAL; nobody writes any more."""
    for address in known.addresses:
        for kind, key, consistency in single_values():
            before = known.reading(kind, key)
            result = insist(address, f"SELECT v FROM crash.{kind}s WHERE k = ?", [int4(key)], consistency, deadline)
            known.read(kind, key, before, number_of(result))
        for key, rows in enumerate(known.rows):
            for first in range(0, len(rows), 5000):
                states = rows[first : first + 5000]
                text = "SELECT n FROM crash.journals WHERE k = ? AND n >= ? AND n < ?"
                result = insist(address, text, [int4(key), int4(first), int4(first + len(states))], ALL, deadline)
                known.listed(key, first, states, {struct.unpack(">i", row[0])[0] for row in result.rows})


def insist(address: str, text: str, items: list[bytes], consistency: int, deadline: float):
    """The result, after as many attempts as there is time for."""
    while True:
        try:
            with Connection(address) as connection:
                return connection.query(text, items, consistency=consistency)
        except (Failure, OSError, Closed):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)
