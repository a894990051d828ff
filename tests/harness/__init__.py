"""Starts and stops the servers that the tests talk to: Helenus, or a real Apache Cassandra."""

from .cluster import Cluster
from .server import Cassandra, Helenus, Server, ServerError, free_address, free_addresses, from_environment, make

__all__ = ["Cassandra", "Cluster", "Helenus", "Server", "ServerError", "free_address", "free_addresses", "from_environment", "make"]
