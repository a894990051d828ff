"""nodetool: statistics of tables, and compaction."""

import json
import random
import re

import pytest

from harness.protocol import Connection
from nodetool import Nodetool, make_tables, rows, sstables, write_rows


@pytest.fixture
def served(node):
    """A node of one shard with the tables of `make_tables`, flushed, and its nodetool."""
    server = node(shards=1).start()
    make_tables(server)
    nodetool = Nodetool(server)
    with Connection(server.address) as connection:
        for k in range(20):
            connection.query(f"SELECT * FROM ks.t WHERE k = {k}")
    nodetool("flush", "ks")
    return server, nodetool


# What Cassandra 5.0.6 prints of a table, in its order.
LINES = """Table
SSTable count
Old SSTable count
Max SSTable size
Space used (live)
Space used (total)
Space used by snapshots (total)
Off heap memory used (total)
SSTable Compression Ratio
Number of partitions (estimate)
Memtable cell count
Memtable data size
Memtable off heap memory used
Memtable switch count
Speculative retries
Local read count
Local read latency
Local write count
Local write latency
Local read/write ratio
Pending flushes
Percent repaired
Bytes repaired
Bytes unrepaired
Bytes pending repair
Bloom filter false positives
Bloom filter false ratio
Bloom filter space used
Bloom filter off heap memory used
Index summary off heap memory used
Compression metadata off heap memory used
Compacted partition minimum bytes
Compacted partition maximum bytes
Compacted partition mean bytes
Average live cells per slice (last five minutes)
Maximum live cells per slice (last five minutes)
Average tombstones per slice (last five minutes)
Maximum tombstones per slice (last five minutes)
Droppable tombstone ratio""".splitlines()


def test_tablestats(served):
    server, nodetool = served
    said = nodetool("tablestats", "ks.t").splitlines()
    assert said[:3] == ["Total number of tables: 1", "----------------", "Keyspace: ks"]
    assert said[3] == "\tRead Count: 20" and said[5] == "\tWrite Count: 1000" and said[7] == "\tPending Flushes: 0"
    assert re.fullmatch(r"\tRead Latency: \d+\.\d+ ms", said[4]), said[4]
    table = dict(line.strip().split(": ") for line in said[8:-2])
    assert list(table) == LINES
    assert all(line.startswith("\t\t") for line in said[8:-2]) and said[-2:] == ["", "----------------"]
    expected = {
        "Table": "t",
        "SSTable count": "1",
        "Number of partitions (estimate)": "100",
        "Memtable switch count": "1",
        "Local read count": "20",
        "Local write count": "1000",
        "Local read/write ratio": "0.02000",
        # What Cassandra says of the same rows.
        "Compacted partition minimum bytes": "216",
        "Compacted partition maximum bytes": "258",
        "Compacted partition mean bytes": "258",
        "Droppable tombstone ratio": "0.00000",
    }
    assert {name: table[name] for name in expected} == expected
    assert 0.1 < float(table["SSTable Compression Ratio"]) < 1
    assert float(table["Local read latency"].removesuffix(" ms")) < 1000
    human = nodetool("tablestats", "-H", "ks.t")
    assert re.search(r"Space used \(live\): [\d.]+ KiB\n", human)
    assert re.search(r"Max SSTable size: [\d.]+KiB\n", human)

    value = json.loads(nodetool("tablestats", "-F", "json", "ks.t"))
    assert value["total_number_of_tables"] == 1 and value["ks"]["read_count"] == 20
    of_table = value["ks"]["tables"]["t"]
    assert of_table["sstable_count"] == 1 and of_table["space_used_live"] == table["Space used (live)"]
    yaml = nodetool("tablestats", "-F", "yaml", "ks.t")
    assert f"      space_used_live: '{table['Space used (live)']}'\n" in yaml
    assert "arguments for -F are json,yaml only" in nodetool.run("tablestats", "-F", "xml").stderr


def test_tablestats_of_which_tables(served):
    _, nodetool = served
    found = lambda *arguments: re.findall(r"Table: (\S+)", nodetool("tablestats", *arguments))
    assert found("ks") == ["Mixed", "t", "u"]
    assert found("ks.t", "ks.u") == ["t", "u"]
    assert "local" in found() and "local" in found("-i", "ks") and "t" not in found("-i", "ks")
    assert found("-s", "space_used_live", "-t", "2", "ks")[0] == "ks.t"
    assert "Total number of tables: 3 (showing top 2 by space_used_live)" in nodetool("tablestats", "-s", "space_used_live", "-t", "2", "ks")
    assert nodetool.refused("tablestats", "nope") == "Unknown keyspace: nope"
    assert nodetool.refused("tablestats", "ks.nope") == "Unknown tables: [nope] in keyspace: ks"
    assert "argument for sort must be one of: average_live" in nodetool.refused("tablestats", "-s", "nonsense")
    assert "without specifying a sort key" in nodetool.refused("tablestats", "-t", "2")
    assert found("-s", "local_read_write_ratio", "ks") and found("-s", "twcs_max_duration", "ks") == ["ks.Mixed", "ks.t", "ks.u"]


def test_tablehistograms(served):
    _, nodetool = served
    said = nodetool("tablehistograms", "ks", "t").splitlines()
    assert said[0] == "ks/t histograms"
    assert said[1] == "Percentile      Read Latency     Write Latency          SSTables    Partition Size        Cell Count"
    assert said[2] == "                    (micros)          (micros)                             (bytes)                  "
    table = {line.split()[0]: line.split()[1:] for line in said[3:-1]}
    assert list(table) == ["50%", "75%", "95%", "98%", "99%", "Min", "Max"]
    assert table["50%"][2:] == ["0.00", "258", "10"] and table["Min"][3:] == ["216", "9"] and table["Max"][3:] == ["258", "10"]
    assert 0 < float(table["50%"][0]) <= float(table["Max"][0])
    assert nodetool("tablehistograms", "ks.t").startswith("ks/t histograms\n")
    empty = nodetool("tablehistograms", "ks.u").splitlines()
    assert empty[0] == "No SSTables exists, unable to calculate 'Partition Size' and 'Cell Count' percentiles"
    assert empty[4].split() == ["50%", "0.00", "0.00", "0.00", "NaN", "NaN"]
    assert nodetool.refused("tablehistograms", "ks") == "tablehistograms requires keyspace and table name arguments"


def test_getsstables(served):
    server, nodetool = served
    (data,) = sstables(server, "t")
    assert nodetool("getsstables", "ks", "t", "5") == f"{data}\n"
    assert nodetool("getsstables", "-hf", "ks", "t", "00000005") == f"{data}\n"
    assert nodetool("getsstables", "ks", "t", "5000") == ""
    assert nodetool("getsstables", "ks", "t", "-5") == ""
    assert "five" in nodetool.refused("getsstables", "ks", "t", "five")
    assert nodetool.refused("getsstables", "ks", "nope", "5") == "ColumnFamilyStore for ks/nope not found."


def test_compact(served):
    server, nodetool = served
    nodetool("disableautocompaction", "ks", "t")
    for first in (0, 100, 200):
        with Connection(server.address) as connection:
            write_rows(connection, range(first, first + 100))
        nodetool("flush", "ks", "t")
    assert len(sstables(server, "t")) == 4
    nodetool("compact", "--user-defined", *sstables(server, "t")[:2])
    assert len(sstables(server, "t")) == 3
    assert "nb-99-big-Data.db" in nodetool.refused("compact", "--user-defined", sstables(server, "t")[0].parent / "nb-99-big-Data.db")
    assert "not the data file" in nodetool.refused("compact", "--user-defined", "/etc/passwd")
    no = "Invalid option combination: Can not provide tokens when using user-defined"
    for partial in (["-st", "1"], ["-et", "1"], ["--partition", "7"]):
        assert nodetool.refused("compact", "--user-defined", *partial, "/etc/passwd", code=2) == no
        said = nodetool.refused("compact", "-s", *partial, "ks", "t", code=2)
        assert said == "Invalid option combination: Can not use split-output here"
    nodetool("compact", "ks", "t")
    (data,) = sstables(server, "t")
    assert rows(server) == 3000
    assert re.search(r"^compactions completed +[2-9]", nodetool("compactionstats"), re.M)
    rate = re.search(r"^15 minute rate +([\d.]+)/minute *$", nodetool("compactionstats", "-V"), re.M)
    assert float(rate.group(1)) > 0
    history = nodetool("compactionhistory").splitlines()
    assert history[0] == "Compaction History: "
    assert history[1].split() == "id keyspace_name columnfamily_name compacted_at bytes_in bytes_out rows_merged compaction_properties".split()
    assert re.search(r" ks +t +2\d{3}-[\dT:.-]+ +\d+ +\d+ +\{1:300\} +\{compaction_type:Major compaction\}", history[2]), history[2]
    as_json = json.loads(nodetool("compactionhistory", "-F", "json"))["CompactionHistory"]
    assert len(as_json) == len(history) - 2 and as_json[0]["columnfamily_name"] == "t"
    assert nodetool("compactionhistory", "-F", "yaml").startswith("CompactionHistory:\n- bytes_in: ")
    for arguments in (["-st", "-100", "-et", "100"], ["--partition", "7"], ["-s"]):
        nodetool("compact", *arguments, "ks", "t")
    for verb in (["garbagecollect"], ["garbagecollect", "-g", "CELL"], ["cleanup", "-j", "2"], ["upgradesstables"], ["upgradesstables", "-a"]):
        nodetool(*verb, "ks", "t")
        assert rows(server) == 3000, verb
    assert data not in sstables(server, "t"), "it was rewritten"
    before = sstables(server, "t")
    nodetool("upgradesstables", "-a", "-t", "1", "ks", "t")
    assert sstables(server, "t") == before, "all are later"
    nodetool("upgradesstables", "-a", "-t", str(2**62), "ks", "t")
    assert not set(before) & set(sstables(server, "t"))
    for kind in ("COMPACTION", "SCRUB", "VALIDATION", "TOMBSTONE_COMPACTION", "INDEX_SUMMARY"):
        assert nodetool("stop", kind) == ""
    assert nodetool.refused("stop", "FOO") == 'compaction_type: can not convert "FOO" to a OperationType'
    assert nodetool.refused("compact", "nope") == "Keyspace [nope] does not exist."
    assert nodetool.refused("compact", "ks", "nope", code=2) == "Unknown keyspace/cf pair (ks.nope)"
    known = [line.split()[0] for line in nodetool("compactionhistory").splitlines()[2:]]
    server.stop()
    server.start()
    kept = [line.split()[0] for line in nodetool("compactionhistory").splitlines()[2:]]
    assert set(known) <= set(kept), "a restart forgets nothing"
    with Connection(server.address) as connection:
        answer = connection.query("SELECT id FROM system.compaction_history")
        assert len(answer.rows) >= len(known)


def test_autocompaction_is_switched(served):
    _, nodetool = served
    assert nodetool("statusautocompaction") == "running\n"
    nodetool("disableautocompaction", "ks", "t")
    assert nodetool("statusautocompaction", "ks", "t") == "not running\n"
    assert nodetool("statusautocompaction") == "partially running\n"
    assert nodetool("statusautocompaction", "-a", "ks").splitlines() == [
        "Keyspace Table Status     ",
        "ks       Mixed running    ",
        "ks       t     not running",
        "ks       u     running    ",
    ]
    nodetool("enableautocompaction", "ks")
    assert nodetool("statusautocompaction", "ks") == "running\n"


def test_compaction_has_no_throughput_to_set(served):
    _, nodetool = served
    assert nodetool("getcompactionthroughput") == "Current compaction throughput: 0 MB/s\n"
    assert nodetool("setcompactionthroughput", "0") == ""
    assert "Nothing was set" in nodetool("setcompactionthroughput", "64")
    assert re.search(r"^compaction throughput \(MiB/s\) +throttling disabled \(0\)", nodetool("compactionstats", "-H"), re.M)


def test_verify_names_what_is_damaged_and_scrub_leaves_it_out(served):
    server, nodetool = served
    with Connection(server.address) as connection:
        insert = connection.prepare("INSERT INTO ks.u (k, v) VALUES (?, ?)")
        for k in range(100):
            connection.execute(insert, [k.to_bytes(4, "big"), random.Random(k).randbytes(1000).hex().encode()])
    nodetool("flush", "ks")
    assert nodetool("verify", "ks", "u") == ""
    assert nodetool("verify", "-e", "-f", "-c", "-r", "-t") == ""
    assert nodetool.refused("verify", "-t") == "Token verification requires --extended-verify"
    assert nodetool("scrub", "-ns", "ks") == ""
    assert rows(server, "ks.u") == 100
    server.stop()
    (data,) = sstables(server, "u")
    with open(data, "r+b") as file:
        file.seek(data.stat().st_size // 2)
        file.write(b"damage")
    server.start()
    assert str(data) in nodetool.refused("verify", "ks", code=2)
    assert nodetool("verify", "ks", "t") == ""
    assert nodetool("verify", "-q", "ks") == "", "it does not read the data"
    said = nodetool("scrub", "ks", "u")
    pattern = r"(\d+) partitions could not be read and were left out(?:, \d+ only up to where they are damaged)?; the sstables as they were are in the snapshot (pre-scrub-\d+)\n"
    lost, tag = re.fullmatch(pattern, said).groups()
    assert 0 < int(lost) < 30
    assert rows(server, "ks.u") == 100 - int(lost)
    assert nodetool("verify", "ks") == ""
    assert tag in nodetool("listsnapshots")
    assert (sstables(server, "u")[0].parent / "snapshots" / tag / data.name).exists()
