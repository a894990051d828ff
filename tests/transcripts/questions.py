"""What is asked, and of what: two nodes with the same keyspaces, tables and rows."""

import dataclasses
import random

import harness
from harness.protocol import Connection

KEYSPACES = {"shop": 2, "single": 1}
TABLES = [
    "CREATE TABLE shop.orders (k text PRIMARY KEY, v text)",
    "CREATE TABLE shop.lines (k text, c int, v text, PRIMARY KEY (k, c)) WITH compaction = {'class': 'LeveledCompactionStrategy'}",
    "CREATE TABLE single.empty (k int PRIMARY KEY, v text)",
]
# The length of the addresses of nodes: equal ones, so that columns are as wide.
ADDRESS_LENGTH = len("127.100.100.100")
NOWHERE = "127.127.127.127"


@dataclasses.dataclass(frozen=True)
class Question:
    """A command line. Its layout says how numbers stand in lines: `left` and `right` in columns of a fixed width,
    `free` in columns as wide as what is in them, `plain` in no columns, `unordered` in lines whose order means nothing, `json` in JSON."""

    words: str
    layout: str = "free"


def addresses() -> list[str]:
    """Two free addresses of that length."""
    for _ in range(1000):
        found = harness.free_addresses(2, f"127.{random.randrange(100, 127)}.{random.randrange(100, 256)}")
        if all(len(address) == ADDRESS_LENGTH for address in found):
            return found
    raise harness.ServerError("no free addresses of three digits each")


def make_data(address: str) -> None:
    """Keyspaces that are replicated differently, tables with rows and without, reads of all kinds."""
    with Connection(address) as connection:
        for name, factor in KEYSPACES.items():
            connection.query(f"CREATE KEYSPACE {name} WITH replication = {{'class': 'NetworkTopologyStrategy', 'datacenter1': {factor}}}")
        for table in TABLES:
            connection.query(table)
        write(address)
        for number in range(50):
            connection.query(f"SELECT * FROM shop.orders WHERE k = 'k{number}'")
        connection.query("SELECT * FROM shop.orders")
        connection.query("INSERT INTO shop.orders (k, v) VALUES ('new', 'x') IF NOT EXISTS")


def write(address: str) -> None:
    """200 partitions, and 20 of ten rows each."""
    with Connection(address) as connection:
        for number in range(200):
            connection.query(f"INSERT INTO shop.orders (k, v) VALUES ('k{number}', 'value {number}')")
            connection.query(f"INSERT INTO shop.lines (k, c, v) VALUES ('k{number % 20}', {number}, 'value {number}')")


def write_much(address: str) -> None:
    """More than a file of hints holds: only then does Cassandra list it while the other node is down."""
    with Connection(address) as connection:
        for number in range(30):
            connection.query(f"INSERT INTO shop.orders (k, v) VALUES ('k{number}', '{'x' * 100_000}')")


def questions(text: str) -> list[Question]:
    """A question a line; its layout stands in front of a colon, if it has one."""
    found = []
    for line in text.strip().splitlines():
        layout, colon, words = line.partition(": ")
        found.append(Question(words, layout) if colon else Question(line))
    return found


# Both nodes are up.
TOGETHER = questions(f"""
flush
status
status shop
status -r shop
-pp status shop
status nope
plain: info
plain: info -T
left: ring
left: ring shop
left: -pp ring shop
ring nope
unordered: describecluster
unordered: -pp describecluster
describering shop
-pp describering shop
describering nope
describering
unordered: gossipinfo
unordered: -pp gossipinfo
unordered: gossipinfo -r
right: failuredetector
right: -pp failuredetector
right: netstats
right: netstats -H
right: -pp netstats
unordered: tpstats
json: tpstats -F json
unordered: tpstats -F yaml
tpstats -F xml
tablestats shop
tablestats -H shop.orders
tablestats shop.orders shop.lines
json: tablestats -F json shop
json: tablestats -F json single.empty
unordered: tablestats -F yaml shop
unordered: tablestats -F yaml single.empty
tablestats -F xml shop
tablestats nope
tablestats shop.nope
tablestats -i
tablestats -s space_used_live -t 1 shop
tablestats -s nope
tablestats -t 3
json: tablestats -s space_used_live -t 1 -F json shop
tablestats -s full_name shop
tablestats -l shop.orders
tablestats single.empty
right: tablehistograms shop orders
right: tablehistograms shop.orders
right: tablehistograms single empty
tablehistograms shop nope
tablehistograms nope orders
tablehistograms shop
tablehistograms a b c
right: proxyhistograms
getendpoints shop orders k1
-pp getendpoints shop orders k1
getendpoints shop nope k1
getendpoints nope orders k1
getendpoints shop orders
getendpoints single empty word
getsstables shop nope k1
statusbinary
disablebinary
statusbinary
enablebinary
statusbinary
statusgossip
statushandoff
disablehandoff
statushandoff
enablehandoff
setmaxhintwindow 10800001
getmaxhintwindow
setmaxhintwindow x
setmaxhintwindow
pausehandoff
resumehandoff
truncatehints
listpendinghints
truncatehints {NOWHERE}
statusbackup
version
gettimeout read
gettimeout range
gettimeout write
gettimeout counterwrite
gettimeout cascontention
gettimeout truncate
gettimeout internodeconnect
gettimeout
gettimeout nope
settimeout read 6000
gettimeout read
settimeout read -1
settimeout read x
settimeout nope 5
settimeout read
settimeout read 5000
gettraceprobability
settraceprobability 0.5
gettraceprobability
settraceprobability 2
settraceprobability -1
settraceprobability x
settraceprobability
settraceprobability 0
refreshsizeestimates
reloadssl
replaybatchlog
getseeds
reloadseeds
getbatchlogreplaythrottle
setbatchlogreplaythrottle 2048
getbatchlogreplaythrottle
getcompactionthreshold shop orders
getcompactionthroughput
unordered: datapaths shop
unordered: datapaths shop.orders
invalidaterowcache
flush nope
flush shop nope
nope
statusbinary x
""")

# The second node is down, and the first one has hints for it.
ALONE = questions("""
unordered: status shop
unordered: describecluster
right: netstats
listpendinghints
-pp listpendinghints
truncatehints
listpendinghints
getendpoints shop orders k1
""")

# The first node has been drained.
DRAINED = questions("""
drain
statusbinary
statusgossip
right: netstats
plain: info
""")
