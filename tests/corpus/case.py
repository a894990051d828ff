"""One case of a corpus: a folder `<version>-<name>` with a table's sstables and what Cassandra reads in them.

    schema.cql                 the keyspace, types and the table, with the steps of its history
    sstables/                  the files of the table's folder
    expected.json, .json.gz    for each Data.db the output of `sstabledump`
    rows.json, .json.gz        the rows of `SELECT JSON * FROM table`, in order
    note.txt                   what is special about it

`expected` or `rows` are missing where Cassandra could not read the files.
"""

import decimal
import gzip
import json
import pathlib
import re

NAME = r'(?:"(?:[^"]|"")+"|\w+)'
TABLE = re.compile(rf"CREATE\s+TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?({NAME})\.({NAME})", re.I)


def bare(name: str) -> str:
    """A name as the schema tables have it."""
    return name[1:-1].replace('""', '"') if name.startswith('"') else name.lower()


def load(path: pathlib.Path):
    """JSON, gzipped or not, numbers exact; None if there is none."""
    for found, opener in ((path, open), (path.with_name(path.name + ".gz"), gzip.open)):
        if found.exists():
            with opener(found, "rt", encoding="utf-8") as file:
                return json.load(file, parse_float=decimal.Decimal)
    return None


class Case:
    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.name = folder.name
        self.version = folder.name.split("-")[0]
        self.statements = self.read_schema()
        made = [found for found in map(TABLE.search, self.statements) if found]
        self.keyspace, self.table = bare(made[-1][1]), bare(made[-1][2])

    def read_schema(self) -> list[str]:
        text = (self.folder / "schema.cql").read_text(encoding="utf-8")
        return [part.strip().removesuffix(";") for part in re.split(r";[ \t]*\n", text.strip() + "\n") if part.strip()]

    @property
    def damage(self) -> str:
        """What was done to the files: `damaged_<kind>` in the name says it; empty if nothing was."""
        found = re.search(r"-damaged_(\w+)", self.name)
        return found[1] if found else ""

    @property
    def note(self) -> str:
        path = self.folder / "note.txt"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    @property
    def sstables(self) -> pathlib.Path:
        return self.folder / "sstables"

    def files(self) -> list[str]:
        return sorted(path.name for path in self.sstables.iterdir() if path.is_file())

    def data_files(self) -> list[str]:
        return [name for name in self.files() if name.endswith("-Data.db")]

    def rows(self):
        return load(self.folder / "rows.json")

    def expected(self):
        return load(self.folder / "expected.json")

    def undamaged_rows(self):
        """The rows of the case that this one was made from, if the note says which and it is there."""
        found = re.search(r"Made from the case ([\w-]+)", self.note)
        origin = self.folder.with_name(found[1]) if found else None
        return load(origin / "rows.json") if origin else None


def cases(corpus: pathlib.Path) -> list[Case]:
    return [Case(folder) for folder in sorted(corpus.iterdir()) if (folder / "schema.cql").exists()]
