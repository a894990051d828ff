"""nodetool says what Cassandra's says (see tests/transcripts): the same lines in the same order, columns as wide.

What differs by nature is named in `NATURE`, with why; a rule that nothing needs any more fails.
"""

import dataclasses
import difflib
import re

import pytest

import harness
from nodetool import Nodetool
from transcripts import kept, questions, text


@dataclasses.dataclass(frozen=True)
class Rule:
    """How what Cassandra says to questions of this pattern becomes what Helenus says: lines that match `line` are
    left out, or have `becomes` in place of what matches."""

    asked: str
    line: str
    becomes: str | None = None


NATURE = [
    # Names of clusters differ, and nodes say themselves where they are.
    Rule("describecluster", "Name: Peer Cluster", "Name: Helenus"),
    Rule("describecluster", "SimpleSnitch", "GossipingPropertyFileSnitch"),
    Rule("describecluster", "DynamicEndPointSnitch: enabled", "DynamicEndPointSnitch: disabled"),
    # The versions of Cassandra's protocol and of its sstables mean nothing between nodes of Helenus.
    Rule("gossipinfo", "  (NET_VERSION|SSTABLE_VERSIONS):.*"),
    # It shows the chunk cache only if it has been enabled; here there always is one.
    Rule("info", "Network Cache  ", "Chunk Cache            : entries N, size N, capacity N, N misses, N requests, "
         "N recent hit rate, N microseconds miss latency\nNetwork Cache  "),
    # In 5.0 it says Unknown of all nodes.
    Rule("listpendinghints", "Status  Total", "Status Total"),
    Rule("listpendinghints", "Unknown", "DOWN "),
    # Live cells and tombstones of a slice are not counted.
    Rule("tablestats -F json|json shop", r'(average_\w+": )N$', r'\1"N"'),
    Rule("tablestats -F yaml shop", r" *average_\w+: N$"),
    # Java's words.
    Rule("getendpoints single empty word", "For input string: N?\"word\"", "Unable to make int from 'word'"),
]
# Of these Helenus says less: pools and messages of which nothing is counted are left out.
PARTIAL = "tpstats"


def expected(words: str, lines: list[str], used: set[Rule]) -> list[str]:
    """What Helenus has to say where Cassandra says these lines."""
    for rule in NATURE:
        if not re.search(rf"(^|\s){rule.asked}($|\s)", words):
            continue
        found = [re.search(rule.line, line) for line in lines]
        if any(found):
            used.add(rule)
        if rule.becomes is None:
            lines = [line for line, is_found in zip(lines, found) if not is_found]
        else:
            lines = "\n".join(re.sub(rule.line, rule.becomes, line) for line in lines).split("\n")
    return lines


def names(lines: list[str]) -> set[tuple[str, ...]]:
    """The words of lines without their numbers, whichever come first: what is not counted is a text in JSON."""
    words = (re.findall(r"[A-Za-z_][\w-]*", line) for line in lines)
    return {tuple(word for word in line if word != "N") for line in words}


class Compared:
    """A cluster of Helenus that is asked what Cassandra was."""

    def __init__(self, cluster: harness.Cluster):
        self.cluster = cluster
        self.asked = Nodetool(cluster.nodes[0])
        self.used: set[Rule] = set()
        self.wrong: list[str] = []

    def scene(self, name: str, asked: list[questions.Question]) -> None:
        answers = text.read(kept(name).read_text())
        assert [question.words for question in asked] == [words for words, _ in answers], "record them anew"
        for question, (words, lines) in zip(asked, answers):
            done = self.asked.run(*words.split())
            said = text.entry(question, done.returncode, done.stdout, done.stderr, self.cluster.addresses)[1:]
            wanted = expected(words, lines, self.used)
            if PARTIAL in words and not done.returncode:
                said, wanted = (names(part) for part in (said, wanted))
                said, wanted = sorted(said), sorted(wanted & said)
            if said != wanted:
                difference = difflib.unified_diff(wanted, said, "Cassandra", "Helenus", lineterm="", n=1)
                self.wrong += [f"{name}: nodetool {words}", *difference, ""]


@pytest.fixture
def compared(tmp_path):
    cluster = harness.Cluster(2, tmp_path, shards=1, addresses=questions.addresses())
    yield Compared(cluster)
    cluster.kill()


def test_nodetool_says_what_cassandras_says(compared):
    first, second = compared.cluster.start().nodes
    compared.cluster.await_up()
    questions.make_data(first.address)
    compared.scene("together", questions.TOGETHER)
    second.kill()
    compared.cluster.await_down(second)
    questions.write(first.address)
    compared.scene("alone", questions.ALONE)
    compared.scene("drained", questions.DRAINED)
    assert not compared.wrong, "\n".join(compared.wrong)
    unused = set(NATURE) - compared.used
    assert not unused, unused
