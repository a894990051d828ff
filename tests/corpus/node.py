"""A Helenus with the sstables of cases in its data folder."""

import decimal
import json
import pathlib
import shutil

import harness
from harness.protocol import Closed, Connection, Failure

PAGE = 500


class Node:
    """Made with the schemas of the cases, then stopped and given their files, then started again."""

    def __init__(self, folder: pathlib.Path, cases: list, arguments: list[str] | None = None):
        self.cases = cases
        self.server = harness.Helenus(harness.free_address(), folder)
        self.server.extra += arguments or []
        # What was refused of the schemas, by case.
        self.refused: dict[str, str] = {}
        self.remarks: dict[str, str] = {}
        self.log_start = 0

    def prepare(self) -> None:
        """Runs the schemas and puts the files where they belong."""
        shutil.rmtree(self.server.directory, ignore_errors=True)
        self.server.start()
        try:
            with Connection(self.server.address) as connection:
                for case in self.cases:
                    self.create(connection, case)
        finally:
            self.server.stop()
        for case in self.cases:
            if case.name not in self.refused:
                shutil.copytree(case.sstables, self.table_folder(case), dirs_exist_ok=True)

    def create(self, connection, case) -> None:
        try:
            if not run_schema(connection, case):
                self.remarks[case.name] = "without its index"
        except Refused as refused:
            self.refused[case.name] = str(refused)

    def table_folder(self, case) -> pathlib.Path:
        return table_folder(self.server.data / "data", case)

    def start(self) -> None:
        """Starts with the files; raises harness.ServerError if it does not."""
        self.log_start = self.server.log.stat().st_size
        self.server.start(60)

    def stop(self) -> None:
        self.server.stop()

    def logged(self, case) -> list[str]:
        """What was logged since the start about the case's files."""
        with open(self.server.log, "rb") as log:
            log.seek(self.log_start)
            lines = log.read().decode(errors="replace").splitlines()
        folder = self.table_folder(case).name
        return [line for line in lines if folder in line]

    def types(self, case) -> dict[str, str]:
        return column_types(self.server.address, case)

    def partition_key(self, case) -> list[str]:
        with Connection(self.server.address) as connection:
            rows = connection.query(
                f"SELECT column_name, kind, position FROM system_schema.columns WHERE keyspace_name = '{case.keyspace}' "
                f"AND table_name = '{case.table}'"
            ).rows
        return [name.decode() for name, kind, _ in sorted(rows, key=lambda row: row[2]) if kind == b"partition_key"]

    def select(self, case, where: str = "") -> tuple[list, str]:
        """The rows that could be read, and the error that ended it, if one did."""
        return select(self.server.address, case, where)


class Refused(Exception):
    """A statement of a schema was not taken; says which and why."""


def run_schema(connection: Connection, case) -> bool:
    """Creates the table of a case; whether with its indexes. Raises Refused."""
    whole = True
    for statement in case.statements:
        try:
            connection.query(statement)
        except Failure as failure:
            # Indexes are beside the sstables: without them the table is the same.
            if statement.upper().startswith(("CREATE INDEX", "CREATE CUSTOM INDEX")) and "not supported" in failure.message:
                whole = False
                continue
            raise Refused(f"{' '.join(statement.split())[:60]}...: {failure.message}") from None
    return whole


def table_folder(data: pathlib.Path, case) -> pathlib.Path:
    """The folder of the case's table in the folder of all sstables."""
    (folder,) = (data / case.keyspace).glob(f"{case.table}-*")
    return folder


def column_types(address: str, case) -> dict[str, str]:
    with Connection(address) as connection:
        rows = connection.query(
            f"SELECT column_name, type FROM system_schema.columns WHERE keyspace_name = '{case.keyspace}' "
            f"AND table_name = '{case.table}'"
        ).rows
    return {name.decode(): ty.decode() for name, ty in rows}


def select(address: str, case, where: str = "") -> tuple[list, str]:
    """The rows that could be read, and the error that ended it, if one did."""
    rows, state = [], None
    text = f'SELECT JSON * FROM "{case.keyspace}"."{case.table}"{where}'
    try:
        with Connection(address) as connection:
            while True:
                result = connection.query(text, page=PAGE, state=state)
                rows += [json.loads(row[0], parse_float=decimal.Decimal) for row in result.rows]
                state = result.paging_state
                if state is None:
                    return rows, ""
    except (Failure, Closed, OSError) as failure:
        return rows, str(failure) or type(failure).__name__
