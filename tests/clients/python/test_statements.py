"""Rows, prepared statements, time, batches: what an application does all day."""

import time

import pytest
from cassandra import ConsistencyLevel
from cassandra.query import UNSET_VALUE, BatchStatement, BatchType, SimpleStatement


@pytest.fixture(scope="module")
def songs(app):
    app.table(
        "songs",
        "bard text, album int, track int, title text, length int, genre text static, "
        "PRIMARY KEY ((bard, album), track)",
    )
    return app


def rows(app, query, *arguments):
    """The rows as plain tuples."""
    return [tuple(row) for row in app.execute(query, *arguments)]


def test_update_and_delete(songs):
    app = songs
    for track in range(10):
        app.execute("INSERT INTO songs (bard, album, track, title) VALUES (%s, 1, %s, 't')", ("a", track))
    app.execute("UPDATE songs SET title = 'new', length = 5 WHERE bard = 'a' AND album = 1 AND track = 3")
    app.execute("DELETE title FROM songs WHERE bard = 'a' AND album = 1 AND track = 3")
    app.execute("DELETE FROM songs WHERE bard = 'a' AND album = 1 AND track = 5")
    app.execute("DELETE FROM songs WHERE bard = 'a' AND album = 1 AND track > 7")
    app.execute("DELETE FROM songs WHERE bard = 'a' AND album = 1 AND track >= 0 AND track < 2")
    where = "WHERE bard = 'a' AND album = 1"
    assert rows(app, f"SELECT track, title, length FROM songs {where}") == [
        (2, "t", None), (3, None, 5), (4, "t", None), (6, "t", None), (7, "t", None),
    ]
    assert rows(app, f"SELECT track FROM songs {where} AND track IN (7, 2, 9)") == [(2,), (7,)]
    assert rows(app, f"SELECT track FROM songs {where} AND (track) > (3) ORDER BY track DESC LIMIT 2") == [(7,), (6,)]
    assert rows(app, f"SELECT count(*) FROM songs {where}") == [(5,)]
    app.execute(f"DELETE FROM songs {where}")
    assert rows(app, f"SELECT * FROM songs {where}") == []


def test_insert_makes_a_row_without_columns_and_update_does_not(songs):
    app = songs
    app.execute("INSERT INTO songs (bard, album, track) VALUES ('m', 1, 1)")
    app.execute("UPDATE songs SET title = 'x' WHERE bard = 'm' AND album = 1 AND track = 2")
    app.execute("DELETE title FROM songs WHERE bard = 'm' AND album = 1 AND track = 1")
    app.execute("DELETE title FROM songs WHERE bard = 'm' AND album = 1 AND track = 2")
    assert rows(app, "SELECT track FROM songs WHERE bard = 'm' AND album = 1") == [(1,)]


def test_static_column_is_one_a_partition(songs):
    app = songs
    app.execute("INSERT INTO songs (bard, album, genre) VALUES ('s', 1, 'epic')")
    assert rows(app, "SELECT bard, track, genre FROM songs WHERE bard = 's' AND album = 1") == [("s", None, "epic")]
    app.execute("INSERT INTO songs (bard, album, track, title) VALUES ('s', 1, 1, 'one')")
    app.execute("INSERT INTO songs (bard, album, track, title, genre) VALUES ('s', 1, 2, 'two', 'hymn')")
    assert rows(app, "SELECT track, genre FROM songs WHERE bard = 's' AND album = 1") == [(1, "hymn"), (2, "hymn")]
    assert ("s", 1, "hymn") in rows(app, "SELECT DISTINCT bard, album, genre FROM songs")


def test_in_on_the_partition_key(songs):
    app = songs
    for album in (1, 2, 3):
        app.execute("INSERT INTO songs (bard, album, track) VALUES ('in', %s, 1)", (album,))
    got = rows(app, "SELECT album FROM songs WHERE bard = 'in' AND album IN (3, 1, 2, 1, 9)")
    assert sorted(got) == [(1,), (2,), (3,)]


def test_token_ranges_cover_each_row_once(songs):
    app = songs
    for album in range(200):
        app.execute("INSERT INTO songs (bard, album, track) VALUES ('ring', %s, 1)", (album,))
    every = rows(app, "SELECT bard, album, track, token(bard, album) FROM songs")
    assert [row[3] for row in every] == sorted(row[3] for row in every)
    middle = every[len(every) // 2][3]
    low = rows(app, "SELECT bard, album, track, token(bard, album) FROM songs WHERE token(bard, album) <= %s", (middle,))
    high = rows(app, "SELECT bard, album, track, token(bard, album) FROM songs WHERE token(bard, album) > %s", (middle,))
    assert low + high == every


def test_per_partition_limit(songs):
    app = songs
    for album in (1, 2):
        for track in range(5):
            app.execute("INSERT INTO songs (bard, album, track) VALUES ('ppl', %s, %s)", (album, track))
    got = rows(app, "SELECT album, track FROM songs WHERE bard = 'ppl' AND album IN (1, 2) PER PARTITION LIMIT 2")
    assert sorted(got) == [(1, 0), (1, 1), (2, 0), (2, 1)]


def test_prepared_positional_and_named(songs):
    app = songs
    insert = app.session.prepare("INSERT INTO songs (bard, album, track, title) VALUES (?, ?, ?, ?)")
    app.execute(insert, ("p", 1, 1, "positional"))
    app.execute(insert, {"title": "named", "track": 2, "album": 1, "bard": "p"})
    named = app.session.prepare("SELECT title FROM songs WHERE bard = :who AND album = :al AND track = :tr")
    assert app.execute(named, {"tr": 2, "who": "p", "al": 1}).one().title == "named"
    assert app.execute(named, ("p", 1, 1)).one().title == "positional"
    limited = app.session.prepare("SELECT track FROM songs WHERE bard = ? AND album = ? LIMIT ?")
    assert rows(app, limited, ("p", 1, 1)) == [(1,)]


def test_unset_leaves_and_null_deletes(songs):
    app = songs
    insert = app.session.prepare("INSERT INTO songs (bard, album, track, title, length) VALUES (?, ?, ?, ?, ?)")
    select = app.session.prepare("SELECT title, length FROM songs WHERE bard = 'u' AND album = 1 AND track = 1")
    app.execute(insert, ("u", 1, 1, "kept", 3))
    if app.version >= 4:
        app.execute(insert, ("u", 1, 1, UNSET_VALUE, 4))
        assert rows(app, select) == [("kept", 4)]
        app.execute(insert, ("u", 1, 1))
        assert rows(app, select) == [("kept", 4)]
    else:
        with pytest.raises(ValueError):
            app.execute(insert, ("u", 1, 1, UNSET_VALUE, 4))
    app.execute(insert, ("u", 1, 1, None, 5))
    assert rows(app, select) == [(None, 5)]


def test_prepared_statement_survives_alter_table(app):
    app.table("altered", "k int PRIMARY KEY, a int")
    insert = app.session.prepare("INSERT INTO altered (k, a) VALUES (?, ?)")
    select = app.session.prepare("SELECT * FROM altered WHERE k = ?")
    app.execute(insert, (1, 10))
    assert rows(app, select, (1,)) == [(1, 10)]
    app.execute("ALTER TABLE altered ADD b text")
    app.execute(insert, (2, 20))
    app.execute("UPDATE altered SET b = 'two' WHERE k = 2")
    if app.version >= 5:
        # The result metadata id tells the driver that the columns changed.
        assert rows(app, select, (2,)) == [(2, 20, "two")]
    again = app.session.prepare("SELECT k, a, b FROM altered WHERE k = ?")
    assert rows(app, again, (2,)) == [(2, 20, "two")]
    app.execute("ALTER TABLE altered DROP a")
    assert [c for c in app.execute("SELECT * FROM altered WHERE k = 2").column_names] == ["k", "b"]


def test_dropped_and_recreated_table(app):
    app.table("recreated", "k int PRIMARY KEY, a int")
    insert = app.session.prepare("INSERT INTO recreated (k, a) VALUES (?, ?)")
    app.execute(insert, (1, 1))
    app.table("recreated", "k int PRIMARY KEY, a int")
    assert rows(app, "SELECT * FROM recreated") == []
    app.execute(insert, (2, 2))
    assert rows(app, "SELECT * FROM recreated") == [(2, 2)]


def test_column_that_comes_back(app):
    """What is as old as the drop of a column is of that one, whenever it is written."""
    app.table("returned", "k int PRIMARY KEY, v int, m map<int, int>")
    insert = "INSERT INTO returned (k, v, m) VALUES (%s, 1, {1: 1}) USING TIMESTAMP %s"
    app.execute(insert, (1, 300000))
    for column in ["v", "m"]:
        app.execute(f"ALTER TABLE returned DROP {column} USING TIMESTAMP 200000")
    app.execute("ALTER TABLE returned ADD (v int, m map<int, int>)")
    app.execute(insert, (2, 150000))
    app.execute(insert, (3, 250000))
    app.execute("UPDATE returned USING TIMESTAMP 200000 SET v = 1, m[1] = 1 WHERE k = 4")
    app.execute("UPDATE returned USING TIMESTAMP 200000 SET v = 2, m[1] = 2, m[2] = 2 WHERE k = 3")
    found = {k: (v, m) for k, v, m in rows(app, "SELECT k, v, m FROM returned")}
    assert found == {1: (1, {1: 1}), 2: (None, None), 3: (1, {1: 1})}
    assert rows(app, "SELECT k FROM returned WHERE v = 1 AND k = 2 ALLOW FILTERING") == []


def test_truncate(app):
    app.table("emptied", "k int PRIMARY KEY, v int")
    for k in range(50):
        app.execute("INSERT INTO emptied (k, v) VALUES (%s, 1)", (k,))
    app.execute("TRUNCATE emptied")
    assert rows(app, "SELECT * FROM emptied") == []
    app.execute("INSERT INTO emptied (k, v) VALUES (1, 2)")
    assert rows(app, "SELECT * FROM emptied") == [(1, 2)]


def test_ttl(app):
    app.table("fading", "k int PRIMARY KEY, a int, b int")
    app.execute("INSERT INTO fading (k, a) VALUES (1, 1) USING TTL 2")
    app.execute("INSERT INTO fading (k, a) VALUES (2, 1)")
    app.execute("UPDATE fading USING TTL 2 SET b = 1 WHERE k = 2")
    app.execute("INSERT INTO fading (k, a) VALUES (3, 1) USING TTL 5000")
    assert 0 < app.execute("SELECT ttl(a) FROM fading WHERE k = 1").one()[0] <= 2
    assert 4990 < app.execute("SELECT ttl(a) FROM fading WHERE k = 3").one()[0] <= 5000
    assert app.execute("SELECT ttl(a) FROM fading WHERE k = 2").one()[0] is None
    time.sleep(3)
    assert sorted(rows(app, "SELECT k, a, b FROM fading")) == [(2, 1, None), (3, 1, None)]


def test_default_ttl_of_the_table(app):
    app.execute("DROP TABLE IF EXISTS mortal")
    app.execute("CREATE TABLE mortal (k int PRIMARY KEY, a int) WITH default_time_to_live = 1000")
    app.execute("INSERT INTO mortal (k, a) VALUES (1, 1)")
    app.execute("INSERT INTO mortal (k, a) VALUES (2, 1) USING TTL 0")
    assert 990 < app.execute("SELECT ttl(a) FROM mortal WHERE k = 1").one()[0] <= 1000
    assert app.execute("SELECT ttl(a) FROM mortal WHERE k = 2").one()[0] is None


def test_timestamps(app):
    app.table("timed", "k int PRIMARY KEY, a int")
    app.execute("INSERT INTO timed (k, a) VALUES (1, 10) USING TIMESTAMP 1000")
    app.execute("INSERT INTO timed (k, a) VALUES (1, 9) USING TIMESTAMP 999")
    assert rows(app, "SELECT a, writetime(a) FROM timed WHERE k = 1") == [(10, 1000)]
    app.execute("DELETE FROM timed USING TIMESTAMP 999 WHERE k = 1")
    assert rows(app, "SELECT a FROM timed WHERE k = 1") == [(10,)]
    app.execute("DELETE FROM timed USING TIMESTAMP 1000 WHERE k = 1")
    assert rows(app, "SELECT a FROM timed WHERE k = 1") == []
    app.execute("UPDATE timed USING TIMESTAMP %s SET a = 3 WHERE k = 2", (5000,))
    app.execute("UPDATE timed USING TIMESTAMP %s SET a = 2 WHERE k = 2", (5000,))
    assert rows(app, "SELECT a FROM timed WHERE k = 2") == [(3,)]  # of equal timestamps the greater value


def test_timestamp_of_the_request(app):
    """The driver sends its own clock with every request: it is what writetime() gives."""
    app.table("clocked", "k int PRIMARY KEY, a int")
    given = []

    def clock():
        given.append(int(time.time() * 1_000_000) - 3_600_000_000)
        return given[-1]

    cluster = app.connect_cluster()
    cluster.timestamp_generator = clock
    try:
        session = cluster.connect(app.keyspace)
        session.execute("INSERT INTO clocked (k, a) VALUES (1, 1)")
        assert session.execute("SELECT writetime(a) FROM clocked WHERE k = 1").one()[0] in given
    finally:
        cluster.shutdown()


@pytest.mark.parametrize("kind", [BatchType.LOGGED, BatchType.UNLOGGED], ids=["logged", "unlogged"])
def test_batch(songs, kind):
    app = songs
    prepared = app.session.prepare("INSERT INTO songs (bard, album, track, title) VALUES (?, ?, ?, ?)")
    batch = BatchStatement(batch_type=kind, consistency_level=ConsistencyLevel.QUORUM)
    for track in range(20):
        batch.add(prepared, (f"b{kind}", 1, track, "t"))
    batch.add(SimpleStatement("UPDATE songs SET genre = 'chorus' WHERE bard = %s AND album = 2"), (f"b{kind}",))
    batch.add(SimpleStatement("DELETE FROM songs WHERE bard = %s AND album = 1 AND track = 99"), (f"b{kind}",))
    app.execute(batch)
    assert rows(app, "SELECT count(*) FROM songs WHERE bard = %s AND album = 1", (f"b{kind}",)) == [(20,)]
    assert rows(app, "SELECT genre FROM songs WHERE bard = %s AND album = 2", (f"b{kind}",)) == [("chorus",)]


def test_batch_text_with_timestamp(songs):
    app = songs
    app.execute(
        "BEGIN BATCH USING TIMESTAMP 77 "
        "INSERT INTO songs (bard, album, track, title) VALUES ('bt', 1, 1, 'a'); "
        "UPDATE songs SET title = 'b' WHERE bard = 'bt' AND album = 1 AND track = 2; "
        "APPLY BATCH"
    )
    got = rows(app, "SELECT track, title, writetime(title) FROM songs WHERE bard = 'bt' AND album = 1")
    assert got == [(1, "a", 77), (2, "b", 77)]


def test_functions(app):
    app.table("moments", "k int PRIMARY KEY, t timeuuid")
    app.execute("INSERT INTO moments (k, t) VALUES (1, now())")
    row = app.execute("SELECT t, toTimestamp(t) AS at, toDate(t) AS day, toUnixTimestamp(t) AS ms, now() AS now, uuid() AS id FROM moments").one()
    assert row.t.version == 1 and row.now.version == 1 and row.id.version == 4
    assert abs(row.ms / 1000 - time.time()) < 60
    assert row.at.year == row.day.date().year


def test_the_server_says_what_it_is(app):
    row = app.execute("SELECT release_version, cql_version AS cql FROM system.local").one()
    assert row.release_version.startswith("5.0") and row.cql == "3.4.7"


def test_concurrent_requests_on_one_connection(app):
    app.table("many", "k int PRIMARY KEY, v int")
    insert = app.session.prepare("INSERT INTO many (k, v) VALUES (?, ?)")
    select = app.session.prepare("SELECT v FROM many WHERE k = ?")
    for future in [app.session.execute_async(insert, (k, k * k)) for k in range(2000)]:
        future.result()
    futures = [app.session.execute_async(select, (k,)) for k in range(2000)]
    assert [future.result().one().v for future in futures] == [k * k for k in range(2000)]
