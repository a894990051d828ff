"""nodetool: the node as a whole."""

import json
import re
import time
import urllib.error
import urllib.request

import pytest

import harness
from harness.protocol import Closed, Connection, Failure
from nodetool import Nodetool, make_tables, rows, sstables

# The error code of a read that took too long.
READ_TIMEOUT = 0x1200


@pytest.fixture
def served(node):
    """A node that runs, and its nodetool."""
    server = node(shards=2).start()
    return server, Nodetool(server)


def test_flush_writes_sstables(served):
    server, nodetool = served
    make_tables(server)
    assert not sstables(server, "t")
    assert nodetool("flush", "ks", "u", "Mixed") == ""
    assert not sstables(server, "t")
    assert nodetool("flush", "ks") == ""
    assert len(sstables(server, "t")) == 2, "one a shard"
    with Connection(server.address) as connection:
        connection.query("INSERT INTO ks.u (k, v) VALUES (1, 'a')")
    nodetool("flush")
    assert len(sstables(server, "u")) == 1
    assert rows(server) == 1000


def test_what_is_not_there_is_named(served):
    server, nodetool = served
    make_tables(server, 0)
    assert nodetool.refused("flush", "nope") == "Keyspace [nope] does not exist."
    assert nodetool.refused("flush", "ks", "nope", code=2) == "Unknown keyspace/cf pair (ks.nope)"
    assert nodetool.refused("flush", "ks", "a/b?c", code=2) == "Unknown keyspace/cf pair (ks.a/b?c)"
    assert "keyspace nope, does not exist" in nodetool.refused("status", "nope")
    nobody = harness.Helenus(harness.free_address())
    said = Nodetool(nobody).refused("-u", "cassandra", "-pw", "cassandra", "-pp", "flush")
    assert f"'{nobody.address}:10000'" in said and "refused" in said
    for wrong in (["flsh"], ["flush", "--nope"], ["import", "ks"]):
        done = nodetool.run(*wrong)
        assert done.returncode == 1 and done.stderr, wrong


def test_version_info_status(served):
    server, nodetool = served
    assert nodetool("version") == "ReleaseVersion: 5.0.6\n"
    assert re.search(r"^Helenus: \d", nodetool("version", "-v"), re.M)

    info = dict(re.match(r"(.{23}): (.*)", line).groups() for line in nodetool("info").splitlines())
    info = {name.strip(): value for name, value in info.items()}
    assert info["Native Transport active"] == "true"
    assert info["Token"] == "(invoke with -T/--tokens to see all 16 tokens)"
    assert re.fullmatch(r"[\d.]+ (bytes|[KMGT]iB)", info["Load"])
    assert int(info["Uptime (seconds)"]) < 60
    assert len(re.findall(r"^Token +: -?\d+$", nodetool("info", "-T"), re.M)) == 16

    with Connection(server.address) as connection:
        ((host,),) = connection.query("SELECT host_id FROM system.local").rows
    assert info["ID"].replace("-", "") == host.hex()
    status = nodetool("status").splitlines()
    assert status[:4] == ["Datacenter: datacenter1", "=======================", "Status=Up/Down", "|/ State=Normal/Leaving/Joining/Moving"]
    assert status[4].split() == "-- Address Load Tokens Owns (effective) Host ID Rack".split()
    assert re.fullmatch(rf"UN  {re.escape(server.address)}  .*  16 +100\.0% +{info['ID']}  rack1", status[5])


def test_drain_ends_service_and_loses_nothing(served):
    server, nodetool = served
    make_tables(server)
    assert nodetool("statusbinary") == "running\n"
    nodetool("drain")
    assert nodetool("statusbinary") == "not running\n"
    assert sstables(server, "t")
    with pytest.raises(OSError):
        Connection(server.address).query("SELECT * FROM ks.t")
    assert "shutting down" in nodetool.refused("flush", code=2)
    nodetool("drain")
    server.stop()
    assert server.process.wait(5) == 0
    server.start()
    assert rows(server) == 1000


def test_clients_are_kept_away_for_a_while(served):
    server, nodetool = served
    make_tables(server)

    def ready() -> bytes:
        try:
            with urllib.request.urlopen(f"http://{server.address}:9180/ready", timeout=5) as answer:
                return answer.read()
        except urllib.error.HTTPError as error:
            assert error.code == 503
            return error.read()

    with Connection(server.address) as connection:
        assert nodetool("disablebinary") == ""
        with pytest.raises((OSError, Closed)):
            connection.query("SELECT * FROM ks.t")
    for _ in range(3):
        assert nodetool("disablebinary") == ""
        for port in (9042, 19042):
            with pytest.raises(OSError):
                Connection(server.address, port)
        assert nodetool("statusbinary") == "not running\n" and b"enablebinary" in ready()
        assert nodetool("statusgossip") == "running\n"
        assert nodetool("enablebinary") == "" and nodetool("enablebinary") == ""
        assert nodetool("statusbinary") == "running\n" and ready() == b"ready\n"
        assert rows(server) == 1000
        with Connection(server.address, 19042) as connection:
            connection.query("SELECT key FROM system.local")
    nodetool("disablebinary")
    nodetool("drain")
    assert "start it again" in nodetool.refused("enablebinary")
    assert nodetool("statusgossip") == "not running\n"
    assert "Mode: DRAINED" in nodetool("netstats")


def test_what_clients_did_is_counted(served):
    server, nodetool = served
    make_tables(server)
    rows(server)
    with Connection(server.address) as connection:
        for k in range(10):
            connection.query(f"SELECT * FROM ks.t WHERE k = {k}")
    latencies = [line.split() for line in nodetool("proxyhistograms").splitlines()[3:10]]
    assert [row[0] for row in latencies] == ["50%", "75%", "95%", "98%", "99%", "Min", "Max"]
    assert all(float(row[column]) > 0 for row in latencies for column in (1, 2)), latencies
    assert all(float(row[3]) > 0 for row in latencies), "rows() reads a range"
    assert all(row[4:] == ["0.00"] * 3 for row in latencies)
    with Connection(server.address) as connection:
        for k in range(10):
            connection.query(f"UPDATE ks.u SET v = 'a' WHERE k = {k} IF v = null")
    (conditional,) = [line.split()[5] for line in nodetool("proxyhistograms").splitlines() if line.startswith("50%")]
    assert float(conditional) > 0
    pools = json.loads(nodetool("tpstats", "-F", "json"))["ThreadPools"]
    assert pools["MutationStage"]["CompletedTasks"] >= 1000
    assert pools["Native-Transport-Requests"]["CompletedTasks"] >= 1000
    assert nodetool("tpstats").startswith("Pool Name ")


def test_timeouts_take_effect(served):
    server, nodetool = served
    make_tables(server)
    nodetool("flush")
    with Connection(server.address) as connection:
        nodetool("settimeout", "read", 0)
        with pytest.raises(Failure) as caught:
            connection.query("SELECT * FROM ks.t WHERE k = 5")
        assert caught.value.code == READ_TIMEOUT
        nodetool("settimeout", "read", 5000)
        assert len(connection.query("SELECT * FROM ks.t WHERE k = 5").rows) == 10
    assert nodetool("gettimeout", "read") == "Current timeout for type read: 5000 ms\n"
    assert "nothing is streamed" in nodetool.refused("gettimeout", "internodestreaminguser")


def test_settings_are_shown_as_they_are_set(served):
    server, nodetool = served
    query = "SELECT value FROM system_views.settings WHERE name = '{}'"
    with Connection(server.address) as connection:
        for verb, back, name, before, after in [
            (("setmaxhintwindow", 5000), ("setmaxhintwindow", 3 * 60 * 60 * 1000), "max_hint_window", b"3h", b"5000ms"),
            (("disablehandoff",), ("enablehandoff",), "hinted_handoff_enabled", b"true", b"false"),
        ]:
            assert connection.query(query.format(name)).rows == [(before,)]
            nodetool(*verb)
            assert connection.query(query.format(name)).rows == [(after,)]
            nodetool(*back)
            assert connection.query(query.format(name)).rows == [(before,)]


def test_requests_are_traced_by_chance(served):
    server, nodetool = served
    make_tables(server, 1)
    with Connection(server.address) as connection:
        count = "SELECT count(*) FROM system_traces.sessions"
        assert connection.query(count).rows == [(bytes(8),)]
        nodetool("settraceprobability", 1)
        connection.query("SELECT * FROM ks.t WHERE k = 0")
        nodetool("settraceprobability", 0)
        end = time.monotonic() + 10
        while connection.query(count).rows == [(bytes(8),)]:
            assert time.monotonic() < end, "no trace"
            time.sleep(0.02)
        statements = "SELECT parameters FROM system_traces.sessions"
        assert any(b"SELECT * FROM ks.t WHERE k = 0" in row[0] for row in connection.query(statements).rows)


def test_sizes_of_ranges_are_estimated(served):
    server, nodetool = served
    make_tables(server)
    nodetool("flush")
    with Connection(server.address) as connection:
        asked = "SELECT table_name, range_start, partitions_count, mean_partition_size FROM {} WHERE keyspace_name = 'ks'"
        for _ in range(2):
            nodetool("refreshsizeestimates")
            found = connection.query(asked.format("system.size_estimates")).rows
            of_t = [row for row in found if row[0] == b"t"]
            assert len(of_t) == 17, "a range for each token, and one goes over the end"
            assert 80 <= sum(int.from_bytes(row[2], "big") for row in of_t) <= 100
            assert all(int.from_bytes(row[3], "big") > 100 for row in of_t)
            assert len(connection.query(asked.format("system.table_estimates")).rows) == 2 * len(found)
        connection.query("DROP KEYSPACE ks")
        nodetool("refreshsizeestimates")
        assert connection.query(asked.format("system.size_estimates")).rows == []


def test_what_is_logged_can_be_changed(served):
    server, nodetool = served
    assert re.search(r"^ROOT {46,}INFO$", nodetool("getlogginglevels"), re.M)
    nodetool("setlogginglevel", "storage", "trace")
    assert re.search(r"^storage +TRACE$", nodetool("getlogginglevels"), re.M)
    nodetool("setlogginglevel")
    assert "storage" not in nodetool("getlogginglevels")
    assert "there are TRACE" in nodetool.refused("setlogginglevel", "storage", "LOUD")
    assert "no part of Helenus" in nodetool.refused("setlogginglevel", "org.apache.cassandra", "DEBUG")


def test_verbs_that_are_not_here_say_why(served):
    _, nodetool = served
    assert nodetool.refused("repair", "-pr", "ks") == "repair: Helenus does not move data between nodes yet"
    assert "SIGTERM" in nodetool.refused("stopdaemon")
    assert nodetool.refused("statsu") == "Found unexpected parameters: [statsu]; is it status?"
    for verb in ("reloadssl", "replaybatchlog"):
        assert nodetool(verb) == ""


def ask(server, method: str, path: str, headers: dict | None = None):
    request = urllib.request.Request(f"http://{server.address}:10000{path}", method=method, headers=headers or {})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def test_api_is_described_and_answers_without_nodetool(served):
    server, _ = served
    make_tables(server, 1)
    described = ask(server, "GET", "/api-doc")
    assert described["openapi"].startswith("3.")
    assert "post" in described["paths"]["/storage_service/keyspace_flush/{keyspace}"]
    assert ask(server, "GET", "/storage_service/release_version") == "5.0.6"
    assert "ks" in ask(server, "GET", "/storage_service/keyspaces?type=user")
    assert ask(server, "POST", "/storage_service/keyspace_flush/ks?cf=t,u") is None
    for method, path, code, word in [
        ("POST", "/storage_service/keyspace_flush/nope", 404, "nope"),
        ("POST", "/storage_service/keyspace_flush/ks?table=t", 400, "cf"),
        ("GET", "/storage_service/keyspaces?type=x", 400, "type"),
    ]:
        with pytest.raises(urllib.error.HTTPError) as caught:
            ask(server, method, path)
        assert caught.value.code == code
        assert word in json.load(caught.value)["message"]


def test_api_is_not_for_web_pages(served):
    server, _ = served
    with pytest.raises(urllib.error.HTTPError) as caught:
        ask(server, "POST", "/storage_service/drain", {"Origin": "http://example.org"})
    assert caught.value.code == 403
    rows(server, "system.local")


def test_api_can_be_elsewhere_or_nowhere(node):
    server = node(extra=["--api-port", "0"]).start()
    assert "refused" in Nodetool(server).refused("version")
    server.stop()
    server.extra = ["--api-port", "10001"]
    server.start()
    assert Nodetool(server)("-p", "10001", "version") == "ReleaseVersion: 5.0.6\n"


def test_every_verb_has_an_example(node):
    nodetool = Nodetool(harness.Helenus("127.0.0.1"))
    listed = re.search(r"Verbs:\n(.*?)\n\n", nodetool("--help"), re.S).group(1)
    verbs = [line.split()[0] for line in listed.splitlines() if re.match(r"  \S", line)]
    assert {"flush", "drain", "help"} <= set(verbs)
    for verb in verbs:
        if verb != "help":
            assert f"  helenus nodetool {verb}" in nodetool("help", verb), verb
