"""python -m crash.cluster [--nodes N] [--seconds S] [--seed SEED]

A cluster of real processes, RF 3. Each key has one writer, which writes rising numbers at QUORUM under
rising timestamps; readers read at QUORUM; a node is killed (kill -9) again and again and started again a
little later, never two at once. A read must give at least what was acknowledged, or read by anybody,
before it began, and at most what was tried. At last every node says the same at ALL.
"""

import argparse
import random
import shutil
import struct
import sys
import threading
import time

import harness
from harness.protocol import Closed, Connection, Failure

QUORUM, ALL = 4, 5
KEYS, READERS = 24, 4
# How long the nodes may take to find each other again at the end.
SETTLE = 60.0
PROGRESS = 30.0


class Shared:
    """What is known of each key, and what went wrong."""

    def __init__(self, addresses: list[str]):
        self.addresses = addresses
        self.lock = threading.Lock()
        self.tried, self.seen = [0] * KEYS, [0] * KEYS
        self.writes = self.unknown = self.reads = 0
        self.problem = None
        self.stopping = threading.Event()

    def check(self, key: int, before: int, value: int):
        with self.lock:
            self.reads += 1
            if not before <= value <= self.tried[key] and self.problem is None:
                self.problem = f"key {key}: a read gave {value}, {before} was acknowledged or read before, {self.tried[key]} tried"
            self.seen[key] = max(self.seen[key], value)


class Client(threading.Thread):
    """One connection at a time, to any node; another one after an error."""

    def __init__(self, shared: Shared, seed: int, key: int | None = None):
        super().__init__(daemon=True)
        self.shared, self.rng, self.key = shared, random.Random(seed), key
        self.connection = self.failure = None

    def run(self):
        try:
            while not self.shared.stopping.is_set():
                self.write(self.key) if self.key is not None else self.read()
                time.sleep(self.rng.uniform(0, 0.01))
        except Exception as error:  # noqa: BLE001 - the main thread reports it
            self.failure = error
        finally:
            self.close()

    def close(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def query(self, text: str, items: list[bytes], timestamp: int | None = None):
        """The result, or None where nobody knows what became of it."""
        try:
            if self.connection is None:
                self.connection = Connection(self.rng.choice(self.shared.addresses), timeout=15)
            return self.connection.query(text, items, timestamp=timestamp, consistency=QUORUM)
        except Failure as failure:
            # Unavailable, overloaded, timeouts: another node may do better.
            if failure.code not in (0x1000, 0x1001, 0x1100, 0x1200, 0x1300, 0x1500):
                raise
            self.close()
        except (OSError, Closed):
            self.close()
        return None

    def write(self, key: int):
        shared = self.shared
        with shared.lock:
            shared.tried[key] += 1
            value = shared.tried[key]
        text = "INSERT INTO crash.registers (k, v) VALUES (?, ?)"
        done = self.query(text, [struct.pack(">i", key), struct.pack(">q", value)], timestamp=value)
        with shared.lock:
            if done is None:
                shared.unknown += 1
            else:
                shared.writes += 1
                shared.seen[key] = max(shared.seen[key], value)

    def read(self):
        key = self.rng.randrange(KEYS)
        before = self.shared.seen[key]
        result = self.query("SELECT v FROM crash.registers WHERE k = ?", [struct.pack(">i", key)])
        if result is not None:
            self.shared.check(key, before, number(result))


def number(result) -> int:
    return struct.unpack(">q", result.rows[0][0])[0] if result.rows else 0


def create_tables(cluster: harness.Cluster):
    with Connection(cluster.addresses[0]) as connection:
        connection.query("CREATE KEYSPACE crash WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}")
        connection.query("CREATE TABLE crash.registers (k int PRIMARY KEY, v bigint)")


def read_everywhere(cluster: harness.Cluster, shared: Shared):
    end = time.monotonic() + SETTLE
    for key in range(KEYS):
        for address in cluster.addresses:
            while True:
                before = shared.seen[key]
                try:
                    with Connection(address) as connection:
                        result = connection.query("SELECT v FROM crash.registers WHERE k = ?", [struct.pack(">i", key)], consistency=ALL)
                    shared.check(key, before, number(result))
                    break
                except (Failure, OSError, Closed):
                    if time.monotonic() > end:
                        raise
                    time.sleep(0.5)


def main() -> int:
    parser = argparse.ArgumentParser(prog="crash.cluster", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    cluster = harness.Cluster(arguments.nodes)
    shared = Shared(cluster.addresses)
    kills, code, began = 0, 1, time.monotonic()
    try:
        cluster.start()
        create_tables(cluster)
        clients = [Client(shared, rng.randrange(2**60), key) for key in range(KEYS)]
        clients += [Client(shared, rng.randrange(2**60)) for _ in range(READERS)]
        [client.start() for client in clients]
        said = began
        while time.monotonic() - began < arguments.seconds and shared.problem is None:
            time.sleep(rng.uniform(0.2, 4))
            victim = rng.choice(cluster.nodes)
            victim.kill()
            kills += 1
            time.sleep(rng.choice([0, 0.5, 2, 20]) * rng.random())
            victim.start()
            if time.monotonic() - said > PROGRESS:
                said = time.monotonic()
                print(f"crash.cluster: {said - began:.0f} s, {kills} kills, {shared.writes} writes, {shared.reads} reads", flush=True)
        time.sleep(2)
        shared.stopping.set()
        for client in clients:
            client.join(30)
            if client.failure or client.is_alive():
                raise harness.ServerError(f"a client: {client.failure or 'hangs'}")
        read_everywhere(cluster, shared)
        if shared.problem is None and shared.writes > 0:
            code = 0
    except (Failure, OSError, Closed, harness.ServerError) as error:
        shared.problem = shared.problem or str(error)
    finally:
        shared.stopping.set()
        cluster.kill()
    if shared.problem:
        folders = ", ".join(str(node.directory) for node in cluster.nodes)
        print(f"crash.cluster: {shared.problem}\n(seed {arguments.seed}, folders {folders})", file=sys.stderr)
    print(
        f"crash.cluster: {arguments.nodes} nodes, {kills} kills, {shared.writes} writes acknowledged, {shared.unknown} without an "
        f"answer, {shared.reads} reads checked, {time.monotonic() - began:.0f} s, {'all found' if code == 0 else 'FAILED'}"
    )
    if code == 0:
        for node in cluster.nodes:
            shutil.rmtree(node.directory, ignore_errors=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
