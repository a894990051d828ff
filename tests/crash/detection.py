"""python -m crash.detection [--rounds N]

What clients see when a node goes: a cluster of three in a network of namespaces, readers and writers at QUORUM
at each node that stays, and in each round one that is killed (kill -9), cut off without a word, or halted, and
two at once that are killed or cut off, so that there is no quorum. Tells how long requests took (median, 99th
percentile, the longest), for how long some were late, how many failed, and when the others' `nodetool status`
said DN.
"""

import argparse
import random
import shutil
import signal
import statistics
import sys
import threading
import time
from collections import Counter

import harness
from harness import network
from harness.protocol import Closed, Connection, Failure

from .checks import QUORUM, int4, int8

# How long a round is watched, in seconds, before and after its node goes.
BEFORE, AFTER = 3.0, 20.0
# For so long the others surely take the node to be up, in seconds.
UNNOTICED = 8.0
# A request that takes as many seconds is late.
LATE = 0.1
KEYS = 200


class Client(threading.Thread):
    """Requests of one kind to one node, one after another, each with when it began, its time and its error."""

    def __init__(self, address: str, kind: str, number: int):
        super().__init__(daemon=True)
        self.address, self.kind, self.rng = address, kind, random.Random(number)
        self.seen = []
        self.stopping = threading.Event()

    def run(self):
        connection = Connection(self.address, timeout=15)
        while not self.stopping.is_set():
            began, error = time.monotonic(), None
            try:
                self.request(connection)
            except Failure as failure:
                error = f"{failure.code:#06x}"
            except (OSError, Closed) as failure:
                error = type(failure).__name__
                connection.close()
                connection = Connection(self.address, timeout=15)
            self.seen.append((began, time.monotonic() - began, error))
            time.sleep(self.rng.uniform(0, 0.02))
        connection.close()

    def request(self, connection: Connection):
        key = int4(self.rng.randrange(KEYS))
        if self.kind == "reads":
            connection.query("SELECT v FROM crash.detection WHERE k = ?", [key], consistency=QUORUM)
        else:
            connection.query("INSERT INTO crash.detection (k, v) VALUES (?, ?)", [key, int8(1)], consistency=QUORUM)


def watch(cluster: harness.Cluster, victims: list[int], fault) -> str:
    """One round: what `fault`, by which these go, did to the clients of the others."""
    staying = [node for number, node in enumerate(cluster.nodes) if number not in victims]
    expected = {cluster.addresses[victim]: "DN" for victim in victims}
    clients = [Client(node.address, kind, n) for node in staying for kind in ("reads", "writes") for n in range(3)]
    [client.start() for client in clients]
    time.sleep(BEFORE)
    gone = time.monotonic()
    fault()
    down = {}
    while time.monotonic() < gone + AFTER:
        for node in staying:
            if node.address not in down and expected.items() <= harness.cluster.states(node).items():
                down[node.address] = time.monotonic() - gone
        time.sleep(0.1)
    for client in clients:
        client.stopping.set()
        client.join(30)
    parts = [kind_of(kind, [seen for client in clients if client.kind == kind for seen in client.seen], gone) for kind in ("reads", "writes")]
    noticed = ", ".join(f"{down[node.address]:.1f}" if node.address in down else "never" for node in staying)
    return f"{'; '.join(parts)}; DN after {noticed} s"


def kind_of(kind: str, seen: list, gone: float) -> str:
    before = [took for began, took, _ in seen if began + took < gone]
    # While nobody has noticed yet.
    unnoticed = [took for began, took, _ in seen if gone <= began + took < gone + UNNOTICED]
    after = [each for each in seen if each[0] + each[1] >= gone]
    late = [(began, took) for began, took, _ in after if took > LATE]
    errors = Counter(error for _, _, error in after if error)
    told = ", ".join(f"{number} {error}" for error, number in sorted(errors.items())) or "no errors"
    until = max((began + took - gone for began, took in late), default=0)
    return (
        f"{kind}: before {times(before)}; unnoticed {times(unnoticed)}; of all {len(after)} since {len(late)} later than "
        f"{LATE * 1e3:.0f} ms, until {until:.1f} s; {told}"
    )


def times(took: list[float]) -> str:
    """Median, 99th percentile and the longest."""
    parts = statistics.quantiles(took, n=100, method="inclusive")
    return f"{parts[49] * 1e3:.1f}/{parts[98] * 1e3:.0f}/{max(took) * 1e3:.0f} ms"


def one_round(cluster: harness.Cluster, net: network.Network, victim: int, second: int):
    """Each way of going once, by this node, and by both."""
    node, other = cluster.nodes[victim], cluster.nodes[second]
    print(f"kill -9: {watch(cluster, [victim], node.kill)}", flush=True)
    node.start()
    cluster.await_up()
    for victims in ([victim], [victim, second]):
        rules = []
        ways = [(one, to) for one in range(3) for to in range(3) if one != to and (one in victims or to in victims)]
        ways += [(gone, None) for gone in victims]
        print(f"cut off{' of two' * (len(victims) - 1)}: {watch(cluster, victims, lambda: rules.extend(net.cut(ways)))}", flush=True)
        net.heal(rules)
        cluster.await_up()
    print(f"halted: {watch(cluster, [victim], lambda: node.process.send_signal(signal.SIGSTOP))}", flush=True)
    node.process.send_signal(signal.SIGCONT)
    cluster.await_up()
    print(f"kill -9 of two: {watch(cluster, [victim, second], lambda: [each.kill() for each in (node, other)])}", flush=True)
    for each in (node, other):
        each.launch()
    for each in (node, other):
        each.await_ready()
    cluster.await_up()


def main() -> int:
    parser = argparse.ArgumentParser(prog="crash.detection", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="of each kind")
    arguments = parser.parse_args()
    if not network.entered():
        if reason := network.why_not():
            print(f"crash.detection: {reason}", file=sys.stderr)
            return 1
        network.enter()
    net = network.Network(3)
    cluster = harness.Cluster(3, network=net)
    try:
        cluster.start()
        with Connection(cluster.addresses[0]) as connection:
            connection.query("CREATE KEYSPACE crash WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}")
            connection.query("CREATE TABLE crash.detection (k int PRIMARY KEY, v bigint)")
        for number in range(arguments.rounds):
            one_round(cluster, net, number % 3, (number + 1) % 3)
    finally:
        cluster.kill()
        net.close()
    for node in cluster.nodes:
        shutil.rmtree(node.directory, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
