"""python -m crash.cluster [--nodes N] [--seconds S] [--seed SEED] [--network auto|none]

A cluster of real processes, RF 3, under load (see `checks`) and in trouble (see `nemesis`): nodes are killed
(kill -9), one, two or all, halted and restarted; each is in a network namespace of its own, and the network between
them parts, loses and delays. Whatever was acknowledged at QUORUM is read at QUORUM, meanwhile and afterwards;
what was deleted stays so. At last all is healed: all nodes see each other up, no hints are left, and every
node says the same at ALL.
"""

import argparse
import os
import random
import shutil
import sys
import time

import harness
from harness import network
from harness.protocol import Closed, Failure

from . import checks
from .nemesis import SETTLE, Nemesis

PROGRESS = 10.0
# What a client waits between two requests on average: the nodes are to have time left on a small machine.
PAUSE = 0.02
# The longest time, in seconds, until hints are delivered when all nodes are up.
DELIVERED = 120.0
NO_HINTS = "This node does not have any pending hints"


class Run:
    """One run, and what is known at its end."""

    def __init__(self, arguments, net: network.Network | None, missing: str | None):
        self.arguments, self.network = arguments, net
        # What trouble there can not be here, and why.
        self.missing = missing
        rng = random.Random(arguments.seed)
        self.cluster = harness.Cluster(arguments.nodes, network=net or arguments.addresses)
        self.known = checks.Known(self.cluster.addresses)
        self.began = time.monotonic()
        self.log = harness.server.ROOT / ".cache" / "servers" / f"crash-cluster-{self.cluster.addresses[0]}.log"
        self.log.parent.mkdir(parents=True, exist_ok=True)
        end = self.began + arguments.seconds
        self.nemesis = Nemesis(self.cluster, net, random.Random(rng.random()), self.log, end, self.tick)
        self.clients = checks.clients(self.known, rng, PAUSE)
        self.said = self.began

    def run(self) -> bool:
        """Whether all went well."""
        try:
            self.cluster.start()
            checks.create_tables(self.cluster.addresses[0])
            [client.start() for client in self.clients]
            while time.monotonic() < self.nemesis.end and self.known.problem is None:
                self.nemesis.episode()
                self.failed_clients()
            self.finish()
        except (Failure, OSError, Closed, harness.ServerError) as error:
            self.known.problem = self.known.problem or str(error)
        finally:
            self.known.stopping.set()
            self.cluster.kill()
        return self.known.problem is None

    def tick(self) -> bool:
        """Says how far it is; whether all is well until now."""
        if time.monotonic() - self.said > PROGRESS:
            self.said = time.monotonic()
            print(f"crash.cluster: {self.said - self.began:.0f} s, {self.figures()}", flush=True)
        return self.known.problem is None and not any(client.failure for client in self.clients)

    def failed_clients(self):
        for client in self.clients:
            if client.failure:
                raise harness.ServerError(f"a client: {client.failure!r}")

    def finish(self):
        """Everything is healed, and all must be found."""
        self.cluster.await_up()
        time.sleep(2)
        self.known.stopping.set()
        for client in self.clients:
            client.join(2 * checks.PATIENCE)
            if client.is_alive():
                raise harness.ServerError("a client hangs")
        self.failed_clients()
        if self.known.problem is None:
            undelivered = self.undelivered_hints()
            checks.read_everywhere(self.known, time.monotonic() + SETTLE)
            self.cluster.await_up()
            self.known.problem = self.known.problem or undelivered
        if not self.known.counts["acknowledged"] and self.known.problem is None:
            raise harness.ServerError("nothing was acknowledged")

    def undelivered_hints(self) -> str | None:
        """Waits until no node has hints any more; those of a node that still has some then."""
        end = time.monotonic() + DELIVERED
        for node in self.cluster.nodes:
            while NO_HINTS not in (left := node.nodetool("listpendinghints")):
                if time.monotonic() > end:
                    return f"{node.address} has hints {DELIVERED:.0f} s after all nodes are up:\n{left}"
                time.sleep(0.1)
        return None

    def figures(self) -> str:
        clients, trouble = self.known.counts, self.nemesis.counts
        text = (
            f"{clients['acknowledged']} writes acknowledged, {clients['refused']} requests refused, {clients['unknown']} without "
            f"an answer, {clients['reads']} reads checked; {trouble['kills']} kills, {trouble['terminations']} restarts, {trouble['pauses']} pauses"
        )
        if self.network is None:
            return text
        return text + f", {trouble['partitions']} partitions ({trouble['one-way']} one way), {trouble['loss']} times loss, {trouble['delay']} delay"

    def report(self, good: bool):
        if not good:
            kept = ", ".join(str(path) for path in [self.log, *(node.directory for node in self.cluster.nodes)])
            print(f"crash.cluster: {self.known.problem}\n(seed {self.arguments.seed}, kept: {kept})", file=sys.stderr)
        without = f" WITHOUT {self.missing}" if self.missing else ""
        verdict = "all found" if good else "FAILED"
        print(f"crash.cluster: {verdict}{without}, {self.arguments.nodes} nodes, {time.monotonic() - self.began:.0f} s, {self.figures()}")
        if good and not self.arguments.keep:
            self.log.unlink()
            for node in self.cluster.nodes:
                shutil.rmtree(node.directory, ignore_errors=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="crash.cluster", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--network", choices=["auto", "none"], default="auto", help="none: nodes share the machine's loopback network")
    parser.add_argument("--addresses", help="the first three numbers of the nodes' addresses, without namespaces")
    parser.add_argument("--keep", action="store_true", help="keeps folders and logs though all went well")
    arguments = parser.parse_args()
    missing = "trouble in the network (--network none)" if arguments.network == "none" else None
    if arguments.network == "auto" and not network.entered():
        if (reason := network.why_not()) is None:
            network.enter()
        missing = f"trouble in the network: {reason}"
        # What can be installed must be there; what the machine forbids nobody can change.
        if os.environ.get("CI") == "true" and reason.startswith("no "):
            print(f"crash.cluster: {missing}; nothing may be skipped when CI=true", file=sys.stderr)
            return 1
    net = network.Network(arguments.nodes) if network.entered() else None
    if net is not None and net.no_relay:
        missing = f"loss and delay in the network: {net.no_relay}"
    if missing:
        print(f"crash.cluster: WITHOUT {missing}", file=sys.stderr, flush=True)
    try:
        run = Run(arguments, net, missing)
        good = run.run()
        run.report(good)
    finally:
        if net is not None:
            net.close()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
