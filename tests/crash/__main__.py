"""python -m crash [--rounds N] [--seed SEED] [--server helenus|cassandra]

Writers over several connections, kill -9 at a random moment (at times another one while the server
recovers), restart, then every partition is read back: it must hold what was acknowledged, with or
without the one operation that was in flight; a table created or dropped with an answer stays so.
"""

import argparse
import random
import shutil
import struct
import sys
import time

import harness
from harness.protocol import Connection, Failure, Reader

from .model import TABLE, Partition
from .writer import Writer, new_partitions

PARTITIONS = 400
# Rounds between two lines of progress.
PROGRESS = 10


class Damage(Exception):
    """An acknowledged write is missing, or there is something that was never written."""


class Loop:
    """The rounds on one data folder."""

    def __init__(self, server, seed: int, writers: int):
        self.server, self.seed = server, seed
        self.rng = random.Random(seed)
        self.partitions = [new_partitions(number, PARTITIONS) for number in range(writers)]
        self.tables = {}  # name -> True (there), False (not there), None (in flight)
        self.acknowledged = self.kills = self.batches = 0
        self.recovery = []

    def prepare(self):
        with Connection(self.server.address) as connection:
            connection.query("CREATE KEYSPACE crash WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
            connection.query(TABLE)

    def round(self, number: int):
        writers = [
            Writer(i, self.server.address, partitions, self.rng.randrange(2**60))
            for i, partitions in enumerate(self.partitions)
        ]
        for writer in writers:
            writer.start()
        self.load(number, self.rng.uniform(0.05, 1.5))
        self.server.kill()
        self.kills += 1
        for writer in writers:
            writer.stopping.set()
            writer.join(30)
            if writer.failure or writer.is_alive():
                raise Damage(f"writer {writer.number}: {writer.failure or 'hangs after the kill'}")
            self.acknowledged += writer.acknowledged
        self.recover()
        self.check(writers)
        self.check_tables()

    def load(self, number: int, seconds: float):
        """Lets the writers work, and changes the schema beside them."""
        end = time.monotonic() + seconds
        name = f"extra_{number}"
        try:
            with Connection(self.server.address) as connection:
                self.tables[name] = None
                connection.query(f"CREATE TABLE crash.{name} (k int PRIMARY KEY)")
                self.tables[name] = True
                old = [n for n, there in self.tables.items() if there and n != name]
                if len(old) > 3:
                    self.tables[old[0]] = None
                    connection.query(f"DROP TABLE crash.{old[0]}")
                    self.tables[old[0]] = False
        finally:
            time.sleep(max(0.0, end - time.monotonic()))

    def recover(self):
        if self.rng.random() < 0.25:
            # Killed again while it recovers.
            try:
                self.server.start(timeout=self.rng.uniform(0.01, 0.4))
            except harness.ServerError as error:
                if "exited" in str(error):
                    raise
            self.server.kill()
            self.kills += 1
        began = time.monotonic()
        self.server.start()
        self.recovery.append(time.monotonic() - began)

    def check(self, writers: list):
        found = read_everything(self.server.address)
        applied = {}  # logged batch in flight -> partition -> is it applied there?
        for writer in writers:
            for key, acknowledged in writer.partitions.items():
                actual = found.pop(key, Partition())
                operation = writer.busy.get(key)
                allowed = [acknowledged] + ([operation.applied_to(key, acknowledged)] if operation else [])
                if actual not in allowed:
                    raise Damage(f"partition {key} holds\n  {shown(actual)}\nbut must hold\n  " + "\n  or ".join(map(shown, allowed)))
                if operation and operation.logged and allowed[0] != allowed[1]:
                    applied.setdefault(id(operation), {})[key] = actual == allowed[1]
                writer.partitions[key] = actual
        for partitions in applied.values():
            # Cassandra applies what is left of a batch a minute after its start.
            if self.server.kind == "helenus" and len(set(partitions.values())) > 1:
                raise Damage(f"a part of a logged batch: applied to partitions {partitions}")
            self.batches += 1
        if found:
            raise Damage(f"partitions never written: {sorted(found)[:10]}")

    def check_tables(self):
        with Connection(self.server.address) as connection:
            there = {
                row[0].decode()
                for row in connection.query("SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'crash'").rows
            }
            for name, expected in self.tables.items():
                if expected is not None and (name in there) != expected:
                    raise Damage(f"table {name}: {'lost' if expected else 'came back'}")
                self.tables[name] = name in there
                if name in there:
                    connection.query(f"SELECT * FROM crash.{name}")


def read_everything(address: str) -> dict:
    """Every partition, by a paged scan; then a sample by key, which must agree."""
    found = {}
    with Connection(address) as connection:
        state = None
        while True:
            result = connection.query("SELECT k, c, v, m, s FROM crash.rows", page=5000, state=state)
            collect(result.rows, found)
            state = result.paging_state
            if state is None:
                break
        for key in random.Random(0).sample(sorted(found), min(100, len(found))):
            single = {}
            collect(connection.query("SELECT k, c, v, m, s FROM crash.rows WHERE k = ?", [struct.pack(">i", key)]).rows, single)
            if single.get(key) != found[key]:
                raise Damage(f"partition {key}: a scan gives {shown(found[key])}, a read by key {shown(single.get(key))}")
    return found


def collect(rows, found: dict):
    for k, c, v, m, s in rows:
        partition = found.setdefault(struct.unpack(">i", k)[0], Partition())
        partition.static = s.decode() if s is not None else None
        if c is not None:
            partition.rows[struct.unpack(">i", c)[0]] = (v.decode() if v is not None else None, map_of(m))


def map_of(data) -> dict:
    if data is None:
        return {}
    reader = Reader(data)
    return {struct.unpack(">i", reader.bytes())[0]: reader.bytes().decode() for _ in range(reader.int())}


def shown(partition) -> str:
    if partition is None:
        return "nothing"
    short = {c: (v and v[:40], {k: x[:40] for k, x in m.items()}) for c, (v, m) in sorted(partition.rows.items())}
    return f"static {partition.static and partition.static[:40]}, rows {short}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="crash", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--writers", type=int, default=4)
    parser.add_argument("--server", default="helenus", choices=["helenus", "cassandra"])
    arguments = parser.parse_args()
    # Cassandra's default acknowledges writes that kill -9 loses; it is here to prove the test only.
    oracle = harness.Cassandra(options=["--yaml", "commitlog_sync: batch"])
    server = (harness.Helenus() if arguments.server == "helenus" else oracle).start()
    loop = Loop(server, arguments.seed, arguments.writers)
    code, began = 1, time.monotonic()
    try:
        loop.prepare()
        for number in range(arguments.rounds):
            loop.round(number)
            if (number + 1) % PROGRESS == 0:
                print(f"crash: {number + 1} of {arguments.rounds} rounds, {time.monotonic() - began:.0f} s", flush=True)
        code = 0
    except (Damage, Failure, harness.ServerError) as damage:
        print(f"crash: {damage}\n(seed {arguments.seed}, folder {server.directory})", file=sys.stderr)
    finally:
        server.kill()
    slowest = max(loop.recovery, default=0)
    print(
        f"crash: {len(loop.recovery)} of {arguments.rounds} rounds, {loop.kills} kills, {loop.acknowledged} acknowledged writes, "
        f"{loop.batches} logged batches cut off, "
        f"slowest recovery {slowest:.2f} s, {time.monotonic() - began:.0f} s, {'all found' if code == 0 else 'FAILED'}"
    )
    if code == 0:
        shutil.rmtree(server.directory, ignore_errors=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
