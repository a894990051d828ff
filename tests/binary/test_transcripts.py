"""nodetool says what Cassandra's says (see tests/transcripts): the same lines in the same order, columns as wide."""

import re

import pytest

import harness
from harness.protocol import Connection
from nodetool import Nodetool
from transcripts import kept, questions, text
