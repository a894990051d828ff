"""Starting, refusing to start, stopping."""

import pathlib
import re
import signal
import socket
import subprocess
import time
import urllib.request

import pytest

import harness
from harness.protocol import Connection

READY = r"helenus ready: CQL (?P<address>[\d.]+):(?P<port>\d+), (?P<shards>\d+) shards?, [\d.]+ [KMGT]iB, (?P<driver>io_uring|epoll \+ linux-aio|epoll)"


def ready_line(server) -> re.Match:
    # Clients may connect a moment before it is said.
    end = time.monotonic() + 10
    while not (found := re.findall(r"helenus ready: .*\n", server.log.read_text())):
        assert time.monotonic() < end, server.tail()
        time.sleep(0.02)
    return re.search(READY, found[-1]) or pytest.fail(found[-1])


def test_ready_line_says_what_runs(node):
    server = node(shards=3).start()
    line = ready_line(server)
    assert (line["address"], line["port"], line["shards"]) == (server.address, "9042", "3")


def test_driver_is_io_uring_where_it_is_allowed(node):
    server = node(extra=["--driver", "io_uring"])
    try:
        server.start()
    except AssertionError:
        # A container may forbid it: then that is said, and epoll does by itself.
        assert "no io_uring" in server.log.read_text(), server.tail()
        server = node().start()
        assert ready_line(server)["driver"] == "epoll + linux-aio"
        assert "no io_uring" in server.log.read_text()
    else:
        assert ready_line(server)["driver"] == "io_uring"


def test_epoll_driver_works_as_well(node):
    server = node(extra=["--driver", "epoll"]).start()
    assert ready_line(server)["driver"] == "epoll + linux-aio"
    with Connection(server.address) as connection:
        connection.query("CREATE KEYSPACE e WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
        connection.query("CREATE TABLE e.t (k int PRIMARY KEY, v text)")
        connection.query("INSERT INTO e.t (k, v) VALUES (1, 'kept')")
    server.kill()
    server.start()
    with Connection(server.address) as connection:
        assert connection.query("SELECT v FROM e.t").rows == [(b"kept",)]


def test_code_stays_in_memory_or_it_is_said_that_it_may_not(node):
    server = node().start()
    status = pathlib.Path(f"/proc/{server.pid()}/status").read_text()
    locked = int(re.search(r"VmLck:\s+(\d+) kB", status)[1])
    refused = "LimitMEMLOCK=" in server.log.read_text()
    assert (locked > 10_000) != refused, (locked, server.tail())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_drain_and_exit_with_0(node, number):
    server = node().start()
    assert server.signal_and_wait(number, 30)
    assert server.process.wait(5) == 0


def test_second_signal_exits_at_once(node):
    server = node().start()
    server.process.send_signal(signal.SIGTERM)
    server.process.send_signal(signal.SIGTERM)
    began = time.monotonic()
    server.process.wait(10)
    assert time.monotonic() - began < 5


def test_killed_node_starts_again_at_once(node):
    server = node().start()
    for _ in range(10):
        with Connection(server.address) as connection:
            connection.query("SELECT key FROM system.local")
            # The kernel closes the sockets of a killed node's io_uring a little later.
            server.kill()
            server.start()


def test_port_in_use(refused, data):
    address = harness.free_address()
    with socket.socket() as taken:
        taken.bind((address, 9042))
        taken.listen()
        said = refused("start", "--data", data, "--address", address)
    assert f"{address}:9042" in said and "in use" in said


def test_folder_locked_by_another_node(node, refused):
    server = node().start()
    said = refused("start", "--data", server.data, "--address", harness.free_address())
    assert str(server.data) in said and len(said.strip().splitlines()) <= 3


def test_folder_that_cannot_be_made(refused):
    said = refused("start", "--data", "/dev/null/data", "--address", harness.free_address())
    assert "/dev/null" in said


def test_too_few_file_descriptors(refused, data):
    said = refused("start", "--data", data, "--address", harness.free_address(), files=48)
    assert re.search("file descriptors|open files|nofile", said, re.I)


def test_unknown_key_of_the_configuration_names_the_nearest(refused, data, tmp_path):
    config = tmp_path / "helenus.yaml"
    config.write_text("adress: 127.0.0.1\n")
    said = refused("start", "--data", data, "--config", config)
    assert "adress" in said and "address" in said.replace("adress", "")


def test_configuration_file_has_the_same_names(node, tmp_path):
    address = harness.free_address()
    config = tmp_path / "helenus.yaml"
    config.write_text(f"address: {address}\nshards: 1\ndata: {tmp_path / 'node' / 'data'}\nmemory: 512M\ncommitlog-sync: batch\n")
    server = node(address=address)
    server.command = lambda: [harness.Helenus.command(server)[0], "start", "--config", str(config)]
    server.start()
    assert ready_line(server)["shards"] == "1"


def test_wrong_arguments(refused):
    for arguments in (["start", "--shards", "none"], ["start", "--memory", "much"], ["start", "--commitlog-sync", "never"], ["begin"]):
        assert refused(*arguments, code=2)


def test_help_and_version():
    from conftest import BINARY

    assert "start" in subprocess.run([BINARY, "--help"], capture_output=True, text=True, check=True).stdout
    assert re.search(r"\d+\.\d+\.\d+", subprocess.run([BINARY, "--version"], capture_output=True, text=True, check=True).stdout)


def fetch(server, path: str) -> str:
    with urllib.request.urlopen(f"http://{server.address}:9180{path}", timeout=5) as answer:
        assert answer.status == 200
        return answer.read().decode()


def test_metrics_health_and_readiness(node):
    server = node().start()
    fetch(server, "/health"), fetch(server, "/ready")
    with Connection(server.address) as connection:
        for _ in range(50):
            connection.query("SELECT key FROM system.local")
    metrics = fetch(server, "/metrics")
    samples = [line for line in metrics.splitlines() if line and not line.startswith("#")]
    assert len(samples) > 30
    for line in samples:
        assert re.fullmatch(r'[a-zA-Z_:][\w:]*(\{[^}]*\})? [-+.eE\dNaInf]+', line), line
    for word in ("request", "connection", "memtable", "commitlog|commit_log", "sstable", "compaction", "latency|duration|seconds", "error", "task"):
        assert re.search(word, metrics), f"no metric of {word}"
    assert 'shard="0"' in metrics and 'shard="1"' in metrics
