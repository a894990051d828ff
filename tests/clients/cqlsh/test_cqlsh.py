"""cqlsh from PyPI: what an operator types. DESCRIBE is compared with Cassandra's own output.

`UPDATE_GOLDEN=1 make cqlsh SERVER=cassandra` records `golden/` anew.
"""

import csv
import os
import pathlib
import re
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
GOLDEN = HERE / "golden"
CQLSH = pathlib.Path(sys.executable).parent / "cqlsh"


def cqlsh(*arguments: str, script: str | None = None, check: bool = True) -> str:
    """Runs cqlsh; its standard output. Errors of statements go to standard error and fail the test."""
    command = [str(CQLSH), os.environ["CQL_ADDRESS"], os.environ["CQL_PORT"], *arguments]
    environment = {**os.environ, "TERM": "dumb", "HOME": str(HERE), "CQL_HISTORY": "/dev/null"}
    done = subprocess.run(command, input=script, capture_output=True, text=True, timeout=240, env=environment)
    output, errors = without_warnings(done.stdout), without_warnings(done.stderr)
    if check:
        assert done.returncode == 0 and not errors, f"exit {done.returncode}\n{errors}\n{output}"
        return output
    return output + errors


def without_warnings(text: str) -> str:
    """What cqlsh printed, less its own remarks (it was built for 5.0.0 and says so)."""
    kept = [line for line in text.splitlines(keepends=True) if not re.search("WARNING|cqlsh was built|Warning:|warnings.warn", line)]
    return "".join(kept) if "".join(kept).strip() else ""


@pytest.fixture(scope="module", autouse=True)
def schema():
    cqlsh("-f", str(HERE / "schema.cql"))
    yield
    cqlsh("-e", "DROP KEYSPACE shell")


def test_connects_and_says_where():
    assert "5.0" in cqlsh("-e", "SHOW VERSION")
    assert os.environ["CQL_ADDRESS"] in cqlsh("-e", "SHOW HOST")


@pytest.mark.parametrize("version", [3, 4, 5])
def test_protocol_versions(version):
    assert "local" in cqlsh("--protocol-version", str(version), "-e", "SELECT key FROM system.local")


DESCRIBES = {
    "keyspace": "DESCRIBE KEYSPACE shell",
    "table": "DESCRIBE TABLE shell.gathered",
    "everything": "DESCRIBE TABLE shell.everything",
    "type": "DESCRIBE TYPE shell.visit",
    "types": "USE shell; DESCRIBE TYPES",
    "tables": "USE shell; DESCRIBE TABLES",
    "local": "DESCRIBE TABLE system.local",
    "peers": "DESCRIBE TABLE system.peers_v2",
    "columns": "DESCRIBE TABLE system_schema.columns",
    "missing": "DESCRIBE TABLE shell.nosuch",
}


@pytest.mark.parametrize("name", DESCRIBES)
def test_describe_is_as_cassandras(name):
    output = cqlsh("-e", DESCRIBES[name], check=name != "missing")
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN") and os.environ["CQL_SERVER"] == "cassandra":
        path.write_text(output)
    assert output == path.read_text()


def test_describe_cluster_and_schema():
    cluster = cqlsh("-e", "DESCRIBE CLUSTER")
    assert "Murmur3Partitioner" in cluster and "Cluster:" in cluster
    names = cqlsh("-e", "DESCRIBE KEYSPACES").split()
    assert {"shell", "system", "system_schema", "system_auth", "system_distributed", "system_traces", "system_views", "system_virtual_schema"} <= set(names)
    assert "CREATE TABLE shell.pairs" in cqlsh("-e", "DESCRIBE SCHEMA")


def test_described_schema_creates_itself():
    """What DESCRIBE prints runs, and gives the same again."""
    described = cqlsh("-e", "DESCRIBE KEYSPACE shell")
    cqlsh("-e", "DROP KEYSPACE shell")
    cqlsh(script=described)
    assert cqlsh("-e", "DESCRIBE KEYSPACE shell") == described


def test_select_prints_every_type():
    cqlsh(
        script="""
        INSERT INTO shell.everything (id, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t) VALUES
        (1, 'ascii', 9223372036854775807, 0xcafe, true, '2026-11-21', 1.250, 1.5, 1y2mo3d4h5m6s7ms8us9ns, -2.5,
         '::1', 7, -3, 'ἄνδρα', '01:02:03.000000004', '2026-11-21T01:02:03.456Z',
         9ff6b340-c6a1-11f0-8de9-0242ac120002, -7, 6ba7b810-9dad-41d1-80b4-00c04fd430c8, 'var', 123456789012345678901234567890);
        INSERT INTO shell.everything (id) VALUES (2);
        """
    )
    printed = cqlsh("-e", "EXPAND ON; SELECT * FROM shell.everything WHERE id = 1; EXPAND OFF")
    path = GOLDEN / "row.txt"
    if os.environ.get("UPDATE_GOLDEN") and os.environ["CQL_SERVER"] == "cassandra":
        path.write_text(printed)
    assert printed == path.read_text()
    assert "null" in cqlsh("-e", "SELECT a, t FROM shell.everything WHERE id = 2")


def test_insert_page_and_count():
    inserts = "\n".join(f"INSERT INTO shell.pairs (k, v) VALUES ({k}, 'v{k}');" for k in range(250))
    cqlsh(script=inserts)
    paged = cqlsh(script="PAGING 20\nSELECT k FROM shell.pairs;\n")
    assert len(re.findall(r"^\s+\d+$", paged, re.M)) == 250
    assert re.search(r"\s250\s", cqlsh("-e", "SELECT count(*) FROM shell.pairs"))


# COPY escapes with a backslash.
CSV = {"doublequote": False, "escapechar": "\\"}


def test_copy_to_and_from(tmp_path):
    rows = [(k, f"text, with \"quotes\" and 'more' {k}", k / 8, f"{{{k}, {k + 1}}}") for k in range(1000)]
    source = tmp_path / "in.csv"
    with open(source, "w", newline="") as file:
        csv.writer(file, **CSV).writerows(rows)
    cqlsh("-e", "TRUNCATE shell.pairs")
    out = cqlsh("-e", f"COPY shell.pairs (k, v, n, s) FROM '{source}' WITH NUMPROCESSES = 2")
    assert "1000 rows imported" in out
    target = tmp_path / "out.csv"
    out = cqlsh("-e", f"COPY shell.pairs (k, v, n, s) TO '{target}' WITH HEADER = true AND NUMPROCESSES = 2")
    assert "1000 rows exported" in out
    with open(target, newline="") as file:
        head, *back = list(csv.reader(file, **CSV))
    assert head == ["k", "v", "n", "s"]
    assert sorted((int(k), v, float(n), s) for k, v, n, s in back) == rows
    cqlsh("-e", "TRUNCATE shell.pairs")
    cqlsh("-e", f"COPY shell.pairs (k, v, n, s) FROM '{target}' WITH HEADER = true AND NUMPROCESSES = 2")
    assert re.search(r"\s1000\s", cqlsh("-e", "SELECT count(*) FROM shell.pairs"))


def test_source_and_capture(tmp_path):
    script = tmp_path / "more.cql"
    script.write_text("INSERT INTO shell.pairs (k, v) VALUES (-1, 'sourced');\n")
    out = cqlsh("-e", f"SOURCE '{script}'; SELECT v FROM shell.pairs WHERE k = -1")
    assert "sourced" in out


def test_consistency_tracing_and_serial():
    out = cqlsh(
        script="CONSISTENCY QUORUM\nSERIAL CONSISTENCY LOCAL_SERIAL\nTRACING OFF\n"
        "SELECT key FROM system.local;\nCONSISTENCY ALL\nSELECT key FROM system.local;\n"
    )
    assert out.count("local") >= 2
    assert "local" in cqlsh(script="TRACING ON\nSELECT key FROM system.local;\nTRACING OFF\n", check=False)


def test_errors_are_shown():
    out = cqlsh("-e", "SELECT * FROM shell.nosuch", check=False)
    assert 'InvalidRequest: Error from server: code=2200 [Invalid query] message="table nosuch does not exist"' in out
    out = cqlsh("-e", "SELEKT 1", check=False)
    assert "SyntaxException: line 1:0 no viable alternative at input 'SELEKT' ([SELEKT]" in out


def test_batch_and_ttl_and_json_free_forms():
    out = cqlsh(
        script="""
        BEGIN BATCH
          INSERT INTO shell.pairs (k, v) VALUES (-2, 'a');
          UPDATE shell.pairs SET s = s + {1} WHERE k = -2;
        APPLY BATCH;
        SELECT v, s FROM shell.pairs WHERE k = -2;
        """
    )
    assert re.search(r"a \|\s+\{1\}", out)


def test_tracing_shows_what_was_done():
    output = cqlsh("-e", "TRACING ON; SELECT key FROM system.local;")
    assert "Tracing session: " in output
    assert "Request complete" in output
