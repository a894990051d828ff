"""The server goes and comes back; the session recovers by itself."""

import time

from cassandra import OperationTimedOut
from cassandra.cluster import NoHostAvailable


def test_session_recovers_after_a_restart(app, server):
    app.table("lasting", "k int PRIMARY KEY, v text")
    insert = app.session.prepare("INSERT INTO lasting (k, v) VALUES (?, ?)")
    select = app.session.prepare("SELECT v FROM lasting WHERE k = ?")
    for k in range(500):
        app.execute(insert, (k, f"before {k}"))
    server.restart()
    wait_for(lambda: app.execute(select, (1,)).one())
    for k in range(500):
        assert app.execute(select, (k,)).one().v == f"before {k}"
    app.execute(insert, (1, "after"))
    assert app.execute(select, (1,)).one().v == "after"
    host = app.cluster.metadata.all_hosts()[0]
    wait_for(lambda: host.is_up)
    app.execute("CREATE TABLE IF NOT EXISTS afterwards (k int PRIMARY KEY)")
    wait_for(lambda: "afterwards" in app.cluster.metadata.keyspaces[app.keyspace].tables)


def wait_for(attempt, seconds: float = 60.0):
    """Repeats until the attempt gives something true; the driver may have no connection yet."""
    end = time.monotonic() + seconds
    while True:
        try:
            result = attempt()
            if result:
                return result
        except (NoHostAvailable, OperationTimedOut, ConnectionError):
            pass
        if time.monotonic() > end:
            raise AssertionError(f"not recovered after {seconds} s")
        time.sleep(0.1)
