"""What indexes are asked for, and what they find, as Cassandra answers.

`UPDATE_GOLDEN=1 make protocol SERVER=cassandra` records the answers in `golden/indexes.txt`, `attached.txt`, `addresses.txt`
and `sasi.txt` anew.
"""

import os
import pathlib
import struct
import time

import pytest

from harness.protocol import Failure

GOLDEN = pathlib.Path(__file__).parent / "golden"
READ_FAILURE, WRITE_FAILURE = 0x1300, 0x1500


def shown(cell) -> str:
    return "null" if cell is None else cell.hex() or "''"


def answer(connection, statement: str) -> list[str]:
    """The lines that say what became of a statement; an index is waited for."""
    last = time.monotonic() + 20
    while True:
        try:
            result = connection.query(statement)
        except Failure as failure:
            if failure.code != READ_FAILURE or time.monotonic() > last:
                return [f"! {failure.code:#06x} {failure.message}"]
            time.sleep(0.1)
            continue
        return ["| " + " ".join(map(shown, row)) for row in result.rows or []]


@pytest.mark.parametrize("name", ["indexes.txt", "attached.txt", "addresses.txt", "sasi.txt"])
def test_answers_are_cassandras(connect, name):
    lines = (GOLDEN / name).read_text().splitlines()
    connection, heard = connect(version=5), []
    for line in lines:
        if line.startswith("--"):
            heard.append(line)
        elif not line.startswith(("!", "|")):
            heard += [line, *answer(connection, line)]
    connection.query("DROP KEYSPACE indexed")
    if os.environ.get("UPDATE_GOLDEN") and os.environ["CQL_SERVER"] == "cassandra":
        (GOLDEN / name).write_text("\n".join(heard) + "\n")
        return
    assert heard == lines


@pytest.fixture
def vectors(connect):
    """A connection, and a table with an index of vectors."""
    connection = connect(version=5)
    connection.query("DROP KEYSPACE IF EXISTS nearest")
    connection.query("CREATE KEYSPACE nearest WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
    connection.query("CREATE TABLE nearest.t (k int PRIMARY KEY, v vector<float, 2>)")
    connection.query("CREATE INDEX ON nearest.t (v) USING 'sai'")
    yield connection
    connection.query("DROP KEYSPACE nearest")


@pytest.mark.parametrize("vector", [(0.0, 0.0), (float("nan"), 1.0), (1.0, float("inf"))], ids=["zero", "NaN", "infinite"])
def test_vectors_that_an_index_does_not_take_are_not_written(vectors, vector):
    value = struct.pack(">2f", *vector)
    insert = vectors.prepare("INSERT INTO nearest.t (k, v) VALUES (1, ?)")
    conditional = vectors.prepare("INSERT INTO nearest.t (k, v) VALUES (1, ?) IF NOT EXISTS")
    for write in (
        lambda: vectors.execute(insert, items=(value,)),
        lambda: vectors.execute(conditional, items=(value,)),
        lambda: vectors.batch([(insert, (value,)), ("INSERT INTO nearest.t (k) VALUES (2)", ())], kind=1),
    ):
        with pytest.raises(Failure) as failure:
            write()
        assert failure.value.code == WRITE_FAILURE
    rows = [row[0] for row in vectors.query("SELECT k FROM nearest.t").rows]
    assert b"\0\0\0\1" not in rows
    vectors.query("DROP INDEX nearest.t_v_idx")
    vectors.execute(vectors.prepare("INSERT INTO nearest.t (k, v) VALUES (1, ?)"), items=(value,))


def test_whoever_indexes_a_table_with_vectors_is_warned(vectors):
    def warned(statement: str) -> bool:
        warnings = vectors.query(statement).warnings
        return [text.splitlines()[0] for text in warnings] == [
            "SAI ANN indexes on vector columns are experimental and are not recommended for production use."
        ]

    assert not warned("CREATE INDEX IF NOT EXISTS ON nearest.t (v) USING 'sai'")
    assert not warned("CREATE TABLE nearest.u (k int PRIMARY KEY, c int, d int, v vector<float, 2>)")
    assert not warned("CREATE INDEX ON nearest.u (c) USING 'sai'")
    assert warned("CREATE CUSTOM INDEX ON nearest.u (v) USING 'StorageAttachedIndex'")
    assert warned("CREATE INDEX ON nearest.u (d)")
    assert not warned("ALTER TABLE nearest.u ADD e int")
    assert not warned("DROP INDEX nearest.u_d_idx")


def test_the_nearest_rows_are_read_of_one_replica_on_one_page(vectors):
    for k in range(3):
        vectors.query(f"INSERT INTO nearest.t (k, v) VALUES ({k}, [1.0, {k}.0])")
    select = "SELECT k FROM nearest.t ORDER BY v ANN OF [1.0, 0.0] LIMIT 3"

    def warnings(**options):
        return [text for text in vectors.query(select, **options).warnings if text.startswith("Top-K")]

    assert warnings() == warnings(page=3) == []
    lowered = (
        "Top-K queries can only be run with consistency level ONE / LOCAL_ONE / NODE_LOCAL. Consistency level {}"
        " was requested. Downgrading the consistency level to {}."
    )
    two, local_quorum, serial = 2, 6, 8
    assert warnings(consistency=two) == [lowered.format("TWO", "ONE")]
    assert warnings(consistency=local_quorum) == [lowered.format("LOCAL_QUORUM", "LOCAL_ONE")]
    assert warnings(page=2) == [
        "Top-K queries do not support paging and the page size is set to 2, which is less than LIMIT 3. The page"
        " size has been set to 3 to match the LIMIT."
    ]
    with pytest.raises(Failure) as failure:
        warnings(consistency=serial)
    assert failure.value.message.endswith("Consistency level SERIAL was used.")


def test_storage_attached_indexes_are_listed(vectors):
    vectors.query("CREATE TABLE nearest.u (k int, c text, n int, t text, m map<text, int>, PRIMARY KEY (k, c))")
    for name, target in [("c", "c"), ("e", "entries(m)"), ("k", "keys(m)"), ("n", "n"), ("v", "m")]:
        vectors.query(f"CREATE INDEX {name} ON nearest.u ({target}) USING 'sai'")
    vectors.query("CREATE INDEX t ON nearest.u (t) USING 'sai' WITH OPTIONS = {'normalize': 'true'}")
    select = "SELECT index_name, analyzer, column_name, is_building, is_queryable, is_string, table_name FROM system_views.sai_column_indexes WHERE keyspace_name = 'nearest'"
    last = time.monotonic() + 20
    while any(row[3] == b"\1" for row in vectors.query(select).rows) and time.monotonic() < last:
        time.sleep(0.1)
    told = {row[0].decode(): (row[1].decode(), row[2].decode(), row[5] == b"\1", row[6].decode()) for row in vectors.query(select).rows}
    nothing = "NoOpAnalyzer"
    assert told == {
        "c": (nothing, "c", True, "u"),
        "e": (nothing, "m", True, "u"),
        "k": (nothing, "m", True, "u"),
        "n": (nothing, "n", False, "u"),
        "v": (nothing, "m", False, "u"),
        "t": ("NonTokenizingAnalyzer{caseSensitive=true, normalized=true, ascii=false}", "t", True, "u"),
        "t_v_idx": (nothing, "v", True, "t"),
    }
