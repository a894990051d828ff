"""Clients that write rows at QUORUM and read them back, and remember everything."""

import random
import threading
import time
from collections import Counter

from cassandra import ConsistencyLevel
from cassandra.concurrent import execute_concurrent_with_args
from cassandra.policies import RetryPolicy

from conftest import until

TABLE = "acknowledged (k int PRIMARY KEY, v int)"
# Each client has the keys from its number times this on.
KEYS = 1_000_000


class NextHost(RetryPolicy):
    """Whatever went wrong: another node, three times at most. For idempotent statements."""

    def decide(self, *_, retry_num: int, **__):
        return (self.RETRY_NEXT_HOST, None) if retry_num < 3 else (self.RETHROW, None)

    on_read_timeout = on_write_timeout = on_unavailable = on_request_error = decide


class Load:
    """Works from `with` on until the end of its block, which raises what went wrong with a client itself."""

    def __init__(self, session, clients: int = 8):
        self.session, self.lock, self.stopping = session, threading.Lock(), threading.Event()
        self.insert = self.prepare("INSERT INTO acknowledged (k, v) VALUES (?, ?)")
        self.select = self.prepare("SELECT v FROM acknowledged WHERE k = ?")
        # How many keys each client has, all of them acknowledged but those in `unknown`.
        self.written, self.unknown = [0] * clients, set()
        self.errors, self.coordinated, self.slowest = [], Counter(), 0.0
        self.requests, self.began = 0, time.monotonic()
        self.threads = [threading.Thread(target=self.run, args=[client], daemon=True) for client in range(clients)]

    def prepare(self, text: str):
        statement = self.session.prepare(text)
        statement.is_idempotent, statement.consistency_level = True, ConsistencyLevel.QUORUM
        return statement

    def __enter__(self):
        [thread.start() for thread in self.threads]
        return self

    def __exit__(self, *_):
        self.stopping.set()
        [thread.join(60) for thread in self.threads]
        assert not any(thread.is_alive() for thread in self.threads), "a client hangs"

    def run(self, client: int):
        rng = random.Random(client)
        while not self.stopping.wait(0.002):
            key = client * KEYS + self.written[client]
            if self.request(self.insert, (key, key // 3)) is None:
                self.unknown.add(key)
            self.written[client] += 1
            key = client * KEYS + rng.randrange(self.written[client])
            found = self.request(self.select, (key,))
            if found is not None and key not in self.unknown:
                self.check(key, found)

    def request(self, statement, values):
        """The rows; None after an error."""
        began, future = time.monotonic(), self.session.execute_async(statement, values)
        try:
            rows = list(future.result())
        except Exception as error:  # noqa: BLE001 - any error is a finding
            rows = None
            self.fail(f"{statement.query_string[:6]} {values}: {error!r}, by way of {future._errors}")
        with self.lock:
            self.requests += 1
            self.slowest = max(self.slowest, time.monotonic() - began)
            if rows is not None:
                self.coordinated[future.coordinator_host.address] += 1
        return rows

    def check(self, key: int, rows: list):
        if [row.v for row in rows] != [key // 3]:
            self.fail(f"key {key} was acknowledged with {key // 3}, and is {rows}")

    def fail(self, what: str):
        with self.lock:
            self.errors.append(f"{time.monotonic() - self.began:.3f} s: {what}")

    def await_more(self, requests: int, address: str | None = None):
        """Waits until so many more requests were answered, by the node there."""
        count = lambda: self.coordinated[address] if address else self.coordinated.total()
        wanted = count() + requests
        until(lambda: count() >= wanted, f"{requests} more requests; {self.errors[:5]}")

    def check_all(self):
        """Every row that was acknowledged is there; no request had an error."""
        assert not self.errors, "\n".join([f"{len(self.errors)} errors", *self.errors[:20]])
        keys = [client * KEYS + n for client, count in enumerate(self.written) for n in range(count)]
        answers = execute_concurrent_with_args(self.session, self.select, [(key,) for key in keys], concurrency=32)
        for key, (_, rows) in zip(keys, answers):
            self.check(key, list(rows))
        assert not self.errors, "\n".join([f"{len(self.errors)} rows are lost", *self.errors[:20]])
        print(f"{self.requests} requests, {len(keys)} writes found again, the slowest request took {self.slowest:.2f} s, by node {dict(self.coordinated)}")
