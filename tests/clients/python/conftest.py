"""The driver under test is whichever of cassandra-driver and scylla-driver this Python has."""

import os

import pytest
from cassandra import ProtocolVersion
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import ConstantReconnectionPolicy, RoundRobinPolicy

import harness

# scylla-driver speaks no v5: ScyllaDB has none.
VERSIONS = [3, 4] if hasattr(Cluster, "shard_aware_stats") else [3, 4, 5]
DRIVER = "scylla" if hasattr(Cluster, "shard_aware_stats") else "cassandra"
# cassandra-driver knows no shards.
collect_ignore = [] if DRIVER == "scylla" else ["test_shards.py"]


class App:
    """One protocol version's cluster, session and keyspace."""

    def __init__(self, version: int):
        self.version = version
        self.keyspace = f"app_{DRIVER}_v{version}"
        self.cluster = self.connect_cluster()
        self.session = self.cluster.connect()
        self.session.execute(f"DROP KEYSPACE IF EXISTS {self.keyspace}")
        self.session.execute(
            f"CREATE KEYSPACE {self.keyspace} WITH replication = "
            "{'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        self.session.set_keyspace(self.keyspace)

    def connect_cluster(self, **options) -> Cluster:
        """A cluster object of this protocol version, not connected yet."""
        profile = ExecutionProfile(load_balancing_policy=RoundRobinPolicy(), request_timeout=30)
        options.setdefault("execution_profiles", {EXEC_PROFILE_DEFAULT: profile})
        options.setdefault("reconnection_policy", ConstantReconnectionPolicy(0.2, max_attempts=None))
        return Cluster(
            [os.environ["CQL_ADDRESS"]],
            port=int(os.environ["CQL_PORT"]),
            protocol_version=self.version,
            connect_timeout=20,
            schema_event_refresh_window=0,
            status_event_refresh_window=0,
            topology_event_refresh_window=0,
            **options,
        )

    def execute(self, *arguments, **options):
        """The session's execute."""
        return self.session.execute(*arguments, **options)

    def table(self, name: str, definition: str) -> str:
        """Creates a table of that name from nothing."""
        self.execute(f"DROP TABLE IF EXISTS {name}")
        self.execute(f"CREATE TABLE {name} ({definition})")
        return name


@pytest.fixture(scope="module", params=VERSIONS, ids=lambda version: f"v{version}")
def app(request):
    """The application on one protocol version."""
    application = App(request.param)
    assert application.cluster.protocol_version == request.param
    assert ProtocolVersion.V3 <= request.param <= ProtocolVersion.V5
    yield application
    application.execute(f"DROP KEYSPACE {application.keyspace}")
    application.cluster.shutdown()


@pytest.fixture(scope="session")
def server():
    """The server process, to restart it."""
    return harness.from_environment()


@pytest.fixture(scope="session")
def is_helenus() -> bool:
    """Whether the server is Helenus, for what Cassandra does not have."""
    return os.environ["CQL_SERVER"] == "helenus"
