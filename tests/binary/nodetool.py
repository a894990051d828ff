"""`helenus nodetool` against a node of the tests."""

import re
import subprocess

from conftest import BINARY

from harness.protocol import Connection


class Nodetool:
    """Runs verbs on one node."""

    def __init__(self, server):
        self.server = server

    def run(self, *arguments) -> subprocess.CompletedProcess:
        command = [BINARY, "nodetool", "-h", self.server.address, *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    def __call__(self, *arguments) -> str:
        """What a verb prints that must succeed."""
        done = self.run(*arguments)
        assert done.returncode == 0, (arguments, done.stderr)
        assert done.stderr == "", (arguments, done.stderr)
        return done.stdout

    def refused(self, *arguments, code: int = 1) -> str:
        """The one line with which a verb is refused, or with which it fails (code 2)."""
        done = self.run(*arguments)
        assert done.returncode == code, (arguments, done.stdout, done.stderr)
        lines = done.stderr.splitlines()
        assert len(lines) == 1 and lines[0].startswith("nodetool: "), done.stderr
        return lines[0].removeprefix("nodetool: ")

    def not_imported(self, *arguments, folders) -> str:
        """Why an import leaves out these folders, which it names in the last lines."""
        done = self.run("import", *arguments)
        assert done.returncode == 1, (arguments, done.stdout, done.stderr)
        head = "Some directories failed to import, check server logs for details:\n"
        reasons, found, named = done.stderr.partition(head)
        assert found and named.splitlines() == [str(folder) for folder in folders], done.stderr
        return reasons


def make_tables(server, rows: int = 100):
    """Keyspace `ks` with the tables `t` (with `rows` partitions of ten rows), `u` and `Mixed`."""
    with Connection(server.address) as connection:
        connection.query("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
        connection.query("CREATE TYPE ks.addr (street text, n int)")
        connection.query("CREATE TABLE ks.t (k int, c int, v text, a frozen<addr>, PRIMARY KEY (k, c)) WITH comment='x'")
        connection.query("CREATE TABLE ks.u (k int PRIMARY KEY, v text)")
        connection.query('CREATE TABLE ks."Mixed" (k int PRIMARY KEY, v text)')
        write_rows(connection, range(rows))


def write_rows(connection, keys):
    """Ten rows in each of these partitions of ks.t."""
    insert = connection.prepare("INSERT INTO ks.t (k, c, v) VALUES (?, ?, ?)")
    for k in keys:
        for c in range(10):
            connection.execute(insert, [k.to_bytes(4, "big"), c.to_bytes(4, "big"), b"value %d" % c])


def sstables(server, table: str, where: str = ""):
    """The data files of ks.TABLE, or of a folder in its folder."""
    found = sorted((server.data / "data" / "ks").glob(f"{table}-*"))
    assert found, f"no folder of ks.{table}"
    return sorted(path for folder in found for path in (folder / where).glob("*-Data.db"))


def rows(server, table: str = "ks.t") -> int:
    """How many rows a table has, read page by page."""
    total, state = 0, None
    with Connection(server.address) as connection:
        while True:
            page = connection.query(f"SELECT * FROM {table}", page=500, state=state)
            total += len(page.rows)
            state = page.paging_state
            if state is None:
                return total


def blanked(text: str) -> str:
    """Text without what differs from run to run: numbers, identities, times."""
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UUID", text)
    return re.sub(r"\d+(\.\d+)?", "N", text)
