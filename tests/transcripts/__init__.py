"""What nodetool says: transcripts of a real Apache Cassandra 5.0.6, with which Helenus is compared.

`python -m transcripts` starts a cluster of two Cassandras, asks its nodetool everything in `questions`, and
writes what it says to tests/data/nodetool, numbers masked. tests/binary/test_transcripts.py asks a cluster of
two Helenuses the same and needs no Cassandra.
"""

import pathlib

import harness

# Where transcripts are kept, a file for each scene.
KEPT = harness.server.ROOT / "tests" / "data" / "nodetool"


def kept(scene: str) -> pathlib.Path:
    """The file of a scene."""
    return KEPT / f"{scene}.txt"
