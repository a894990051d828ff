"""Three nodes, each a process of its own, and whichever of cassandra-driver and scylla-driver this Python has."""

import os
import time

import pytest
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import ConstantReconnectionPolicy

import harness

os.environ.setdefault("HELENUS_MEMORY", "256M")
NETWORK = "127.0.7"


@pytest.fixture(scope="session")
def started(tmp_path_factory):
    cluster = harness.Cluster(3, tmp_path_factory.mktemp("nodes"), shards=1, network=NETWORK)
    try:
        yield cluster.start()
    finally:
        cluster.kill()


@pytest.fixture
def nodes(started) -> harness.Cluster:
    """The nodes, all of them up whatever the test before did to them."""
    for node in started.nodes:
        if node.pid() is None:
            node.start()
    started.await_up()
    return started


@pytest.fixture
def connect(nodes):
    """Makes sessions of the driver as it is by default (token-aware), but for what is given of its profile."""
    made = []

    def make(**profile):
        profiles = {EXEC_PROFILE_DEFAULT: ExecutionProfile(**{"request_timeout": 20, **profile})}
        cluster = Cluster(
            nodes.addresses,
            execution_profiles=profiles,
            connect_timeout=20,
            reconnection_policy=ConstantReconnectionPolicy(0.2, max_attempts=None),
            schema_event_refresh_window=0,
            status_event_refresh_window=0,
            topology_event_refresh_window=0,
        )
        made.append(cluster)
        session = cluster.connect()
        until(lambda: all(is_up(session, address) for address in nodes.addresses), "the driver has connected to all nodes")
        return session

    yield make
    for cluster in made:
        cluster.shutdown()


@pytest.fixture
def keyspace(connect):
    """Makes a keyspace from nothing, and a session that uses it."""

    def make(name: str, replication: dict, *tables: str, **profile):
        session = connect(**profile)
        session.execute(f"DROP KEYSPACE IF EXISTS {name}")
        session.execute(f"CREATE KEYSPACE {name} WITH replication = {replication}")
        session.set_keyspace(name)
        for table in tables:
            session.execute(f"CREATE TABLE {table}")
        return session

    return make


def host_of(session, address: str):
    """The driver's idea of the node there."""
    return next((host for host in session.cluster.metadata.all_hosts() if host.address == address), None)


def is_up(session, address: str) -> bool:
    """Whether the driver takes the node to be up, and has a connection to it."""
    host = host_of(session, address)
    return host is not None and bool(host.is_up) and host in session.get_pool_state()


def until(true, what: str, seconds: float = 60.0):
    """Waits until something holds."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.02)
