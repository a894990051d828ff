"""Starts and stops the servers that the tests talk to: Helenus, or a real Apache Cassandra."""

from .server import Cassandra, Helenus, Server, free_address, from_environment, make

__all__ = ["Cassandra", "Helenus", "Server", "free_address", "from_environment", "make"]
