"""Sockets against the server of the environment."""

import os

import pytest

import harness
from harness.protocol import Connection

ADDRESS = os.environ["CQL_ADDRESS"]


@pytest.fixture
def connect():
    """Opens connections that are closed after the test."""
    opened = []

    def open_one(version: int = 4, **options):
        opened.append(Connection(ADDRESS, version=version, **options))
        return opened[-1]

    yield open_one
    for connection in opened:
        connection.close()


@pytest.fixture
def bystander(connect):
    """A connection that another one's misbehaviour must not harm: checked after the test."""
    connection = connect()
    yield connection
    assert connection.query("SELECT key FROM system.local").rows == [(b"local",)]


@pytest.fixture(scope="session")
def server():
    return harness.from_environment()


@pytest.fixture(scope="module")
def keyspace():
    """A keyspace of this module."""
    with Connection(ADDRESS) as connection:
        connection.query("DROP KEYSPACE IF EXISTS raw")
        connection.query("CREATE KEYSPACE raw WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
        connection.query("CREATE TABLE raw.t (k int, c int, v blob, PRIMARY KEY (k, c))")
        yield "raw"
        connection.query("DROP KEYSPACE raw")
