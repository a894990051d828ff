"""The binary itself: how it starts, refuses to start, stops, and what it says."""

import pathlib
import resource
import subprocess

import pytest

import harness

BINARY = harness.server.BINARY


@pytest.fixture
def node(tmp_path):
    """A Helenus that is not started yet; it is gone after the test."""
    made = []

    def make(shards: int = 2, extra: list[str] | None = None, address: str | None = None, folder: str = "node"):
        server = harness.Helenus(address or harness.free_address(), tmp_path / folder, shards, extra or [])
        made.append(server)
        return server

    yield make
    for server in made:
        server.kill()


@pytest.fixture
def refused(tmp_path):
    """Runs `helenus` with arguments that must make it refuse: its one line."""

    def run(*arguments: str, files: int | None = None, code: int = 1) -> str:
        def limit():
            if files:
                resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

        done = subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True, timeout=30, preexec_fn=limit, cwd=tmp_path)
        assert done.returncode == code, done.stderr
        assert "panicked" not in done.stderr
        return done.stderr

    return run


@pytest.fixture
def data(tmp_path) -> pathlib.Path:
    return tmp_path / "data"
