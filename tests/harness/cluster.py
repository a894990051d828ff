"""Nodes of Helenus that form a cluster, each a process of its own."""

import concurrent.futures
import pathlib
import re
import time

from .network import Network
from .server import Helenus, ServerError, free_addresses


class Cluster:
    """Nodes with these addresses, or with ones behind each other in `network`: its first three numbers (see
    `free_addresses`), or one of namespaces."""

    def __init__(
        self,
        nodes: int,
        directory: pathlib.Path | None = None,
        shards: int | None = None,
        network: str | Network | None = None,
        addresses: list[str] | None = None,
    ):
        private = isinstance(network, Network)
        self.addresses = addresses or (network.addresses if private else free_addresses(nodes, network))
        prefixes = [network.inside(node) if private else [] for node in range(nodes)]
        options = ["--seeds", ",".join(self.addresses[:2])]
        folders = [directory / address if directory else None for address in self.addresses]
        self.nodes = [Helenus(*each) for each in zip(self.addresses, folders, [shards] * nodes, [options] * nodes, prefixes)]

    def start(self) -> "Cluster":
        """Starts all at once; the first time they form the cluster."""
        with concurrent.futures.ThreadPoolExecutor(len(self.nodes)) as pool:
            list(pool.map(Helenus.start, self.nodes))
        return self

    def kill(self) -> None:
        """SIGKILL for each that runs."""
        for node in self.nodes:
            node.kill()

    def await_up(self) -> None:
        """Waits until each node says that all are up."""
        self.await_states({address: "UN" for address in self.addresses})

    def await_down(self, node: Helenus) -> None:
        """Waits until all others say that this one is down; failure detection takes its time."""
        self.await_states({address: "DN" if address == node.address else "UN" for address in self.addresses})

    def await_states(self, expected: dict[str, str], timeout: float = 60.0) -> None:
        """Waits until all nodes that should be up have these states in their `nodetool status`."""
        end = time.monotonic() + timeout
        for node in self.nodes:
            while expected[node.address] == "UN" and states(node) != expected:
                if time.monotonic() > end:
                    raise ServerError(f"after {timeout} s for {node.address}: {states(node)}, not {expected}")
                time.sleep(0.05)


def states(node: Helenus) -> dict[str, str]:
    """What `nodetool status` says of each node, by address: UN, DN …; nothing as long as the node says that it starts,
    which may be a moment longer than clients have to wait."""
    try:
        status = node.nodetool("status")
    except ServerError as error:
        if "the node is starting" in str(error):
            return {}
        raise
    return {address: state for state, address in re.findall(r"^([UD?][NLJM]) +(\S+)", status, re.M)}
