"""python -m corpus.generate [--only VERSION] [--table NAME ...] [FOLDER]

Writes the project's own corpus (tests/data/sstables) with a real Cassandra: the tables of definitions.py in nb, oa and
da, what Cassandra reads back from them, what its sstabledump prints, and damaged copies. Takes about five minutes.
"""

import argparse
import gzip
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import harness
from harness.protocol import Connection

from .definitions import OPTIONS, Definition, all_definitions

OWN = harness.server.ROOT / "tests" / "data" / "sstables"
TOOL = harness.server.ROOT / "tests" / "cassandra" / "tool.sh"
COMMON = ["flush_compression: table", "column_index_size: 4KiB"]
VERSIONS = {
    "nb": ["storage_compatibility_mode: CASSANDRA_4"],
    "oa": ["storage_compatibility_mode: NONE", "sstable:\n  selected_format: big"],
    "da": ["storage_compatibility_mode: NONE", "sstable:\n  selected_format: bti"],
}
# Microseconds; each statement is a millisecond later than the one before.
START = 1_700_000_000_000_000
# JSON above so many bytes is compressed.
LARGE = 40_000
LARGEST_CORPUS = 5_000_000


class Maker:
    """One version."""

    def __init__(self, version: str, folder: pathlib.Path, out: pathlib.Path, tables: list[str]):
        self.definitions = [definition for definition in all_definitions() if not tables or definition.name in tables]
        self.version, self.out, self.keyspace = version, out, f"own_{version}"
        options = ["--test-features"]
        for setting in COMMON + VERSIONS[version]:
            options += ["--yaml", setting]
        self.server = harness.Cassandra(harness.free_address(), folder, options)
        self.time = START
        self.schemas: dict[str, list[str]] = {}

    def make(self) -> None:
        definitions = self.definitions
        self.server.start()
        try:
            with Connection(self.server.address, timeout=120) as connection:
                create = f"CREATE KEYSPACE IF NOT EXISTS {self.keyspace} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': '1'}}"
                connection.query(create)
                for definition in definitions:
                    self.schemas[definition.name] = [create]
                    self.create(connection, definition)
                for number in range(max(len(definition.rounds) for definition in definitions)):
                    for definition in definitions:
                        for statement in definition.rounds[number] if number < len(definition.rounds) else []:
                            self.write(connection, definition, statement)
                    self.nodetool("flush", self.keyspace)
                for definition in definitions:
                    self.take_twin(connection, definition)
                    self.keep(connection, definition)
        finally:
            self.server.stop()
        for definition in definitions:
            self.dump(definition)
        if any(definition.name == "plain" for definition in definitions):
            self.damage()

    def create(self, connection: Connection, definition: Definition) -> None:
        table = f"CREATE TABLE {{ks}}.{definition.name} {definition.table}"
        table += " AND " if " WITH " in definition.table else " WITH "
        table += " AND ".join(filter(None, [definition.options, OPTIONS]))
        for statement in [*definition.types, table]:
            self.schema(connection, definition, statement)

    def schema(self, connection: Connection, definition: Definition, statement: str) -> None:
        statement = statement.replace("{ks}", self.keyspace)
        connection.query(statement)
        self.schemas[definition.name].append(statement)

    def write(self, connection: Connection, definition: Definition, statement: str) -> None:
        self.time += 1000
        if statement.startswith("ALTER"):
            self.schema(connection, definition, statement.replace("{now}", str(self.time)))
            return
        # Counters take no timestamps.
        time = None if definition.name == "counters" else self.time
        connection.query(statement.replace("{ks}", self.keyspace), timestamp=time)

    def take_twin(self, connection: Connection, definition: Definition) -> None:
        """Imports what is written to the twin."""
        if not definition.twin:
            return
        name = f"{definition.name}_twin"
        connection.query(f"CREATE TABLE {self.keyspace}.{name} {definition.twin} WITH {OPTIONS}")
        for statement in definition.twin_writes:
            self.write(connection, definition, statement)
        self.nodetool("flush", self.keyspace)
        (folder,) = (self.server.data / self.keyspace).glob(f"{name}-*")
        self.nodetool("import", "--copy-data", self.keyspace, definition.name, str(folder))

    def nodetool(self, *arguments: str) -> None:
        subprocess.run([str(TOOL), "nodetool", "-h", self.server.address, *arguments], check=True, capture_output=True)

    def case(self, definition: Definition) -> pathlib.Path:
        return self.out / f"{self.version}-{definition.name}"

    def keep(self, connection: Connection, definition: Definition) -> None:
        """Keeps the files of a table and the rows that Cassandra reads in them."""
        case = self.case(definition)
        shutil.rmtree(case, ignore_errors=True)
        (case / "sstables").mkdir(parents=True)
        (folder,) = (self.server.data / self.keyspace).glob(f"{definition.name}-*")
        for path in sorted(folder.iterdir()):
            if path.is_file():
                shutil.copyfile(path, case / "sstables" / path.name)
        schema = self.schemas[definition.name]
        (case / "schema.cql").write_text("".join(f"{statement};\n" for statement in schema), encoding="utf-8")
        rows, state = [], None
        while True:
            result = connection.query(f"SELECT JSON * FROM {self.keyspace}.{definition.name}", page=500, state=state)
            rows += [row[0].decode() for row in result.rows]
            state = result.paging_state
            if state is None:
                break
        save(case / "rows.json", "[\n" + ",\n".join(rows) + "\n]\n")

    def dump(self, definition: Definition) -> None:
        case = self.case(definition)
        printed = {}
        for path in sorted((case / "sstables").glob("*-Data.db")):
            # With the node's own settings: others make it refuse the newer formats.
            command = [str(TOOL), "--data", str(self.server.directory), "sstabledump", str(path)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            printed[path.name] = done.stdout
        save(case / "expected.json", "{\n" + ",\n".join(f"{json.dumps(name)}: {text}" for name, text in printed.items()) + "\n}\n")

    def damage(self) -> None:
        """Copies of sound cases with what the notes say."""
        plain = self.out / f"{self.version}-plain"
        for component in ("Statistics.db", "CompressionInfo.db", "Filter.db", "TOC.txt", "Digest.crc32"):
            kind = "missing_" + component.split(".")[0].lower()
            case, path = self.copy(plain, kind, component)
            path.unlink()
            derivable = component in ("Filter.db", "TOC.txt", "Digest.crc32")
            self.note(case, plain, f"{path.name} removed.", derivable)
        case, path = self.copy(plain, "flip_statistics", "Statistics.db")
        flip(path, path.stat().st_size // 2)
        self.note(case, plain, f"One byte of {path.name} flipped: its checksum does not match.", False)
        case, path = self.copy(plain, "wrong_digest", "Digest.crc32")
        path.write_text("1")
        self.note(case, plain, f"{path.name} is not the checksum of the data: verification must say so.", True)
        case, path = self.copy(plain, "truncated_data", "Data.db")
        path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])
        self.note(case, plain, f"{path.name} cut to two thirds.", False)
        for left in case.glob("expected.json*"):
            left.unlink()

    def copy(self, plain: pathlib.Path, kind: str, component: str) -> tuple[pathlib.Path, pathlib.Path]:
        case = plain.with_name(f"{self.version}-damaged_{kind}")
        shutil.rmtree(case, ignore_errors=True)
        shutil.copytree(plain, case)
        schema = (case / "schema.cql").read_text(encoding="utf-8")
        (case / "schema.cql").write_text(schema.replace(f"{self.keyspace}.plain ", f"{self.keyspace}.damaged_{kind} "), encoding="utf-8")
        (path,) = (case / "sstables").glob(f"*-{component}")
        return case, path

    def note(self, case: pathlib.Path, plain: pathlib.Path, what: str, derivable: bool) -> None:
        answer = "All rows are read." if derivable else "The sstable is refused with an error that names the file; never fewer rows in silence."
        (case / "note.txt").write_text(f"{what} {answer}\nMade from the case {plain.name}.\n", encoding="utf-8")
        if not derivable:
            for left in case.glob("rows.json*"):
                left.unlink()
            save(case / "rows.json", "[]\n")


def flip(path: pathlib.Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 0x55
    path.write_bytes(content)


def save(path: pathlib.Path, text: str) -> None:
    """Compressed if it is large; always with the same bytes for the same text."""
    json.loads(text)
    if len(text) < LARGE:
        path.write_text(text, encoding="utf-8")
    else:
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(text.encode(), mtime=0))


def main() -> int:
    parser = argparse.ArgumentParser(prog="corpus.generate", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=OWN)
    parser.add_argument("--only", choices=VERSIONS, help="one version")
    parser.add_argument("--table", action="append", default=[], help="one of definitions.py; all, if none is given")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for version in [arguments.only] if arguments.only else VERSIONS:
        with tempfile.TemporaryDirectory(prefix="helenus-corpus-") as folder:
            Maker(version, pathlib.Path(folder), arguments.folder.resolve(), arguments.table).make()
        print(f"{version}: written")
    size = sum(path.stat().st_size for path in arguments.folder.rglob("*") if path.is_file())
    print(f"{size / 1e6:.1f} MB in {arguments.folder}")
    return 0 if size <= LARGEST_CORPUS else 1


if __name__ == "__main__":
    sys.exit(main())
