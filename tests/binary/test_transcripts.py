"""nodetool says what Cassandra's says (see tests/transcripts): the same lines in the same order, columns as wide.

What differs by nature is named here, with why; a rule that nothing needs any more fails.
"""

import difflib
import re

import pytest

import harness
from nodetool import Nodetool
from transcripts import kept, questions, text

# Of what a question's words begin with: what Cassandra says that Helenus does not (-), what only Helenus says (+),
# and what it says in other words (a pair).
NATURE = {
    "": [],
}
