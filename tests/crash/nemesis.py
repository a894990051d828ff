"""What happens to the nodes of `crash.cluster`, and to the network between them.

Trouble comes in episodes: to processes, to the network, or to both at once; then all is healed, nodes that
were ended are back, and there is calm for a while. The seed decides what comes; when it takes effect is up to
the machine, so a seed gives the same plan and not the same run.
"""

import pathlib
import random
import signal
import time
from collections import Counter

import harness
from harness.network import Network

# The longest time, in seconds, for nodes to find each other again when all is healed.
SETTLE = 60.0


class Nemesis:
    """Without a network there is only trouble with processes."""

    def __init__(self, cluster: harness.Cluster, network: Network | None, rng: random.Random, log: pathlib.Path, end: float, tick):
        self.cluster, self.network, self.rng, self.end = cluster, network, rng, end
        # Called each second or so; says whether to go on.
        self.tick = tick
        # Trouble that lasts for longer than nodes need to see that one is down is for long runs.
        self.longest = 40 if end - time.monotonic() > 300 else 12
        self.counts = Counter()
        self.log, self.began = open(log, "w"), time.monotonic()
        self.nodes = range(len(cluster.nodes))
        # The kinds of the first episodes, that a short run has each.
        self.first = ["both", "network", "processes"] if network else []

    def say(self, text: str):
        """Writes what happens to the log, to be compared with those of the nodes."""
        now = time.time()
        stamp = time.strftime("%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1000):03}"
        print(f"{stamp} {time.monotonic() - self.began:8.2f} {text}", file=self.log, flush=True)

    def sleep(self, seconds: float):
        """Not beyond the end of the run, or once something is wrong."""
        end = min(self.end, time.monotonic() + seconds)
        while (left := end - time.monotonic()) > 0 and self.tick():
            time.sleep(min(left, 1))

    def episode(self):
        """One episode, and the calm behind it."""
        kind = "processes"
        if self.network:
            kind = self.first.pop() if self.first else self.rng.choices(["processes", "network", "both"], [3, 3, 4])[0]
        self.say(f"episode: {kind}")
        self.counts["episodes"] += 1
        rules = self.network_trouble() if kind != "processes" else []
        if kind != "processes":
            self.sleep(self.rng.choice([0.2, 2, self.longest]) * self.rng.random())
        if kind != "network":
            self.process_trouble()
            self.sleep(self.rng.choice([0, 2, 8]) * self.rng.random())
        self.heal(rules)
        self.sleep(self.rng.uniform(0.2, 4))
        if self.rng.random() < 0.3:
            self.cluster.await_up()
            self.say("all up")

    def heal(self, rules: list[int]):
        """The network is whole, and each node takes clients."""
        if rules:
            self.network.heal(rules)
        self.say("healed")
        for node in self.cluster.nodes:
            node.await_ready()
        self.say("all ready")

    def network_trouble(self) -> list[int]:
        """One or two things; the rules that take them back."""
        rules = self.partition() if self.rng.random() < 0.6 else self.weather()
        if self.rng.random() < 0.3:
            rules += self.weather() if self.network.relay is not None and self.rng.random() < 0.5 else self.partition()
        return rules

    def partition(self) -> list[int]:
        """Nodes do not hear each other."""
        victim = self.rng.choice(self.nodes)
        others = [node for node in self.nodes if node != victim]
        kind = self.rng.choices(["alone", "unreachable", "deaf", "mute", "pair", "pair one way", "all apart"], [4, 2, 2, 2, 2, 1, 1])[0]
        hears, heard = [(node, victim) for node in others], [(victim, node) for node in others]
        other = self.rng.choice(others)
        ways = {
            "alone": hears + heard,
            "unreachable": hears + heard + [(victim, None)],
            "deaf": hears,
            "mute": heard,
            "pair": [(victim, other), (other, victim)],
            "pair one way": [(victim, other)],
            "all apart": self.all_ways(),
        }[kind]
        self.say(f"partition: node {victim} {kind}")
        self.counts["partitions"] += 1
        self.counts["one-way"] += kind in ("deaf", "mute", "pair one way")
        return self.network.cut(ways)

    def weather(self) -> list[int]:
        """Packets are lost and late, from and to one node or everywhere."""
        if self.network.relay is None:
            return self.partition()
        victim = self.rng.choice(self.nodes)
        everywhere = self.rng.random() < 0.5
        ways = [way for way in self.all_ways() if everywhere or victim in way]
        loss = self.rng.choice([0, 0, 0.05, 0.1, 0.3])
        least = self.rng.choice([0, 0.002, 0.02])
        delay = (least, least + self.rng.choice([0.0, 0.005, 0.05, 0.3]))
        if not loss and not delay[1]:
            loss = 0.15
        self.say(f"weather: {'everywhere' if everywhere else f'node {victim}'}, loss {loss:.0%}, delay {delay[0] * 1e3:.0f} to {delay[1] * 1e3:.0f} ms")
        self.counts["loss"] += loss > 0
        self.counts["delay"] += delay[1] > 0
        return self.network.trouble(ways, loss, delay)

    def all_ways(self) -> list[tuple[int, int]]:
        return [(one, other) for one in self.nodes for other in self.nodes if one != other]

    def process_trouble(self):
        """One node, some or all are killed, stopped or halted, and are back or about to be when this returns."""
        kind = self.rng.choices(["kill", "kill two", "kill all", "terminate", "pause", "kill again"], [6, 2, 1, 3, 3, 1])[0]
        number = {"kill two": 2, "kill all": len(self.nodes)}.get(kind, 1)
        victims = [self.cluster.nodes[node] for node in self.rng.sample(self.nodes, number)]
        self.say(f"processes: {kind}: {', '.join(node.address for node in victims)}")
        if kind == "pause":
            return self.pause(victims[0])
        if kind == "terminate":
            victims[0].stop()
            if victims[0].process.returncode:
                raise harness.ServerError(f"{victims[0].address}: exit code {victims[0].process.returncode} after SIGTERM:\n{victims[0].tail()}")
            self.counts["terminations"] += 1
        else:
            self.kill(victims)
        self.sleep(self.rng.choice([0, 0.5, 2, self.longest]) * self.rng.random())
        for node in victims:
            node.launch()
        if kind == "kill again":
            # While it starts: the log is being replayed.
            time.sleep(self.rng.uniform(0, 1))
            self.kill(victims)
            victims[0].launch()

    def kill(self, victims: list[harness.Helenus]):
        for node in victims:
            if node.process.poll() is not None:
                raise harness.ServerError(f"{node.address} ended by itself, with {node.process.returncode}:\n{node.tail()}")
            node.kill()
            self.counts["kills"] += 1

    def pause(self, victim: harness.Helenus):
        victim.process.send_signal(signal.SIGSTOP)
        try:
            self.sleep(self.rng.choice([0.5, 3, self.longest]) * self.rng.random())
        finally:
            victim.process.send_signal(signal.SIGCONT)
        self.counts["pauses"] += 1
