"""python -m transcripts

Records what the nodetool of a real Cassandra says: two nodes with 700 MB of heap each, three minutes.
"""

import argparse
import pathlib
import re
import subprocess
import tempfile
import time

import harness

from . import KEPT, kept, questions, text

HERE = pathlib.Path(__file__).parent
CASSANDRA = harness.server.ROOT / "tests" / "cassandra"
# In bash, for the flags that Cassandra's tools need.
RUN = """
HERE=$1; . "$HERE/lib.sh"; fetch_jars
exec "$JAVA" -Xmx256M -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Duser.home="$2" "${JPMS[@]}" -Djava.net.preferIPv4Stack=true \
    -Dcassandra.config="file://$3/conf/cassandra.yaml" -Dcassandra.storagedir="$2" \
    -Dcassandra.logdir="$2" -cp "$3/conf:$CASSANDRA_LIB/*" "$4"
"""


class Asker:
    """Cassandra's nodetool, asked about one node."""

    def __init__(self, node: harness.Cassandra, home: str):
        self.address = node.address
        command = ["bash", "-c", RUN, "ask", str(CASSANDRA), home, str(node.directory), str(HERE / "Ask.java")]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def ask(self, words: str) -> tuple[int, str, str]:
        """The exit code, and what is printed on both streams."""
        self.process.stdin.write("\t".join(["-h", self.address, *words.split()]).encode() + b"\n")
        self.process.stdin.flush()
        head = self.process.stdout.readline().split()
        if len(head) != 3:
            raise harness.ServerError(f"nodetool {words}: no answer")
        code, out, err = map(int, head)
        return code, self.process.stdout.read(out).decode(), self.process.stdout.read(err).decode()

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait(30)


def await_down(asker: Asker) -> None:
    """Waits until the other node is down."""
    end = time.monotonic() + 120
    while "\nDN " not in asker.ask("status")[1]:
        if time.monotonic() > end:
            raise harness.ServerError("the second node is not taken to be down")
        time.sleep(0.5)


def await_hints(asker: Asker) -> None:
    """Waits until hints are in a file."""
    end = time.monotonic() + 120
    while "does not have" in asker.ask("listpendinghints")[1]:
        if time.monotonic() > end:
            raise harness.ServerError("no hints are kept for the second node")
        time.sleep(0.5)


def record(scene: str, asker: Asker, asked, addresses) -> None:
    lines = []
    for question in asked:
        lines += text.entry(question, *asker.ask(question.words), addresses)
    kept(scene).write_text("\n".join(lines) + "\n")
    print(f"{kept(scene)}: {len(asked)} questions")


def record_verbs(asker: Asker) -> None:
    """The names of all verbs."""
    listed = asker.ask("help")[1].partition("commands are:")[2].partition("See 'nodetool help")[0]
    names = re.findall(r"^    ([a-z_]+) ", listed, re.M)
    KEPT.mkdir(parents=True, exist_ok=True)
    (KEPT / "verbs.txt").write_text("".join(f"{name}\n" for name in names))


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    addresses = questions.addresses()
    with tempfile.TemporaryDirectory(prefix="transcripts-") as folder:
        options = ["--heap", "700M", "--seeds", ",".join(addresses)]
        options += ["--yaml", "max_hints_file_size: 1MiB", "--yaml", "hints_flush_period: 1s"]
        nodes = [harness.Cassandra(address, pathlib.Path(folder) / address, options) for address in addresses]
        try:
            for node in nodes:
                node.start()
            asker = Asker(nodes[0], folder)
            questions.make_data(addresses[0])
            record_verbs(asker)
            record("together", asker, questions.TOGETHER, addresses)
            nodes[1].kill()
            await_down(asker)
            questions.write_much(addresses[0])
            await_hints(asker)
            record("alone", asker, questions.ALONE, addresses)
            record("drained", asker, questions.DRAINED, addresses)
            asker.close()
        finally:
            for node in nodes:
                node.kill()


main()
