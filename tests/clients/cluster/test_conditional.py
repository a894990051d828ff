"""Lightweight transactions of clients that compete by way of all nodes, one of which dies meanwhile."""

import threading
import time
import uuid
from collections import Counter

import pytest
from cassandra import ConsistencyLevel, ReadTimeout, WriteTimeout
from cassandra.connection import ConnectionException
from cassandra.policies import FallthroughRetryPolicy, RoundRobinPolicy

from conftest import is_up, until

CLIENTS, KEYS, ADDITIONS = 4, 60, 25
REPLICATED = {"class": "NetworkTopologyStrategy", "datacenter1": 3}
# Nobody knows what became of an update: another one came in its way when some replicas had accepted it, or the
# time was up (to the protocol both are a timeout).
UNKNOWN = (WriteTimeout, ReadTimeout)
KILLS = pytest.mark.parametrize("kill", [False, True], ids=["calm", "kill"])


class Race:
    """Clients that run at once; what one of them raises, `join` raises."""

    def __init__(self, session, client, kill: bool):
        self.session, self.lock = session, threading.Lock()
        # A node that is killed takes its connections with it.
        self.unknown = (*UNKNOWN, ConnectionException) if kill else UNKNOWN
        self.steps, self.problems = 0, []
        self.end = time.monotonic() + 120
        self.threads = [threading.Thread(target=self.run, args=[client, number], daemon=True) for number in range(CLIENTS)]
        [thread.start() for thread in self.threads]

    def run(self, client, number: int):
        try:
            client(self, number)
        except BaseException as error:  # noqa: BLE001 - the test raises it
            with self.lock:
                self.problems.append(error)

    def conditional(self, statement, values):
        """The row of the answer; None if nobody knows what became of it."""
        assert time.monotonic() < self.end, "two minutes are not enough"
        try:
            row = self.session.execute(statement, values).one()
        except self.unknown as error:
            print(f"unknown: {error!r}")
            return None
        with self.lock:
            self.steps += 1
        return row

    def await_step(self, step: int):
        until(lambda: self.steps >= step or self.problems, f"step {step} of {self.steps}")

    def join(self):
        [thread.join(120) for thread in self.threads]
        if self.problems:
            raise self.problems[0]
        assert not any(thread.is_alive() for thread in self.threads), "a client hangs"


def disturb(race: Race, nodes, steps: int):
    """Kills the second node after a third of the steps, starts it again after two."""
    victim = nodes.nodes[1]
    race.await_step(steps // 3)
    victim.kill()
    race.await_step(2 * steps // 3)
    victim.start()
    race.join()
    nodes.await_up()
    until(lambda: is_up(race.session, victim.address), "the driver knows that the node is up")


def prepare(session, text: str, consistency=ConsistencyLevel.QUORUM):
    statement = session.prepare(text)
    statement.consistency_level, statement.serial_consistency_level = consistency, ConsistencyLevel.SERIAL
    return statement


def competing(keyspace, name: str, table: str):
    """A session that goes to one node after the other, and tries nothing twice by itself."""
    return keyspace(name, REPLICATED, table, load_balancing_policy=RoundRobinPolicy(), retry_policy=FallthroughRetryPolicy())


@KILLS
def test_exactly_one_inserts_each_row(nodes, keyspace, kill):
    session = competing(keyspace, "claims", "claims (k int PRIMARY KEY, owner int)")
    insert = prepare(session, "INSERT INTO claims (k, owner) VALUES (?, ?) IF NOT EXISTS")
    told, winners, in_doubt = [set() for _ in range(KEYS)], [[] for _ in range(KEYS)], set()

    def claim(race: Race, client: int):
        for key in range(KEYS):
            while (row := race.conditional(insert, (key, client))) is None:
                in_doubt.add(key)
            if row.applied:
                winners[key].append(client)
            told[key].add(client if row.applied else row.owner)

    race = Race(session, claim, kill)
    if kill:
        disturb(race, nodes, CLIENTS * KEYS)
    race.join()
    assert all(len(owners) == 1 for owners in told), told
    # Who does not know whether it has won hears at its next attempt that the row is its own.
    assert all(len(won) == 1 or not won and key in in_doubt for key, won in enumerate(winners)), (winners, in_doubt)
    for text, consistency in (("SERIAL", ConsistencyLevel.SERIAL), ("QUORUM", ConsistencyLevel.QUORUM)):
        select = prepare(session, "SELECT owner FROM claims WHERE k = ?", consistency)
        for key in range(KEYS):
            for _ in nodes.nodes:
                assert {session.execute(select, (key,)).one().owner} == told[key], (text, key)
    owners = Counter(owner for (owner,) in told)
    print(f"{KEYS} rows, by client {dict(owners)}, {len(in_doubt)} in doubt meanwhile")


@KILLS
def test_counter_is_the_number_of_applied_updates(nodes, keyspace, kill):
    session = competing(keyspace, "tally", "tally (k int PRIMARY KEY, v int, log set<uuid>)")
    update = prepare(session, "UPDATE tally SET v = ?, log = log + ? WHERE k = 0 IF v = ?")
    select = prepare(session, "SELECT v FROM tally WHERE k = 0", ConsistencyLevel.SERIAL)
    session.execute("INSERT INTO tally (k, v) VALUES (0, 0) IF NOT EXISTS")
    applied, in_doubt, refused = set(), set(), Counter()

    def read(race: Race) -> int:
        least = len(applied)
        while (row := race.conditional(select, ())) is None:
            pass
        assert row.v >= least, f"a SERIAL read gave {row.v} after {least} updates"
        return row.v

    def count(race: Race, client: int):
        mine, v = 0, read(race)
        while mine < ADDITIONS:
            mark = uuid.uuid4()
            row = race.conditional(update, (v + 1, {mark}, v))
            if row is None:
                in_doubt.add(mark)
                v = read(race)
            elif row.applied:
                applied.add(mark)
                mine, v = mine + 1, v + 1
            else:
                refused[client] += 1
                assert row.v != v, "refused, though it is as the condition says"
                v = row.v

    race = Race(session, count, kill)
    if kill:
        disturb(race, nodes, 2 * CLIENTS * ADDITIONS)
    race.join()
    row = session.execute(prepare(session, "SELECT v, log FROM tally WHERE k = 0", ConsistencyLevel.SERIAL)).one()
    log = set(row.log)
    assert row.v == len(log) and len(applied) == CLIENTS * ADDITIONS
    assert applied <= log <= applied | in_doubt
    print(f"{row.v} updates, {refused.total()} refused, {len(in_doubt)} in doubt, {len(log) - len(applied)} of them applied")
