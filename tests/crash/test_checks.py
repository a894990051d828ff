"""The checks of `crash.cluster` see what is wrong, and pass what is not."""

import pytest

from crash.checks import DELETE_EVERY, DELETING, GONE, THERE, TRIED, Known


@pytest.fixture
def known():
    return Known(["127.0.0.1"])


def write(known: Known, kind: str, version: int):
    known.trying(kind, 0, version)
    known.written(kind, 0, version)


def test_a_read_gives_what_was_acknowledged_or_is_under_way(known):
    write(known, "register", 3)
    known.trying("register", 0, 4)
    known.read("register", 0, 3, 3)
    known.read("register", 0, 3, 4)
    assert known.problem is None
    known.read("register", 0, known.reading("register", 0), 3)
    assert "a read gave 3, 4 was acknowledged or read before" in known.problem


def test_a_read_gives_nothing_that_nobody_wrote(known):
    write(known, "register", 3)
    known.read("register", 0, 3, 5)
    assert "a read gave 5" in known.problem


def test_an_acknowledged_write_is_there(known):
    write(known, "register", 3)
    known.read("register", 0, 3, None)
    assert "a read gave None, 3 was acknowledged" in known.problem


def test_what_was_deleted_stays_so(known):
    write(known, "register", DELETE_EVERY)
    known.read("register", 0, DELETE_EVERY, None)
    assert known.problem is None
    known.read("register", 0, DELETE_EVERY, DELETE_EVERY - 1)
    assert known.problem


def test_a_deletion_that_was_read_stays_so(known):
    write(known, "register", DELETE_EVERY - 1)
    known.trying("register", 0, DELETE_EVERY)
    known.read("register", 0, DELETE_EVERY - 1, None)
    assert known.problem is None
    known.read("register", 0, known.reading("register", 0), DELETE_EVERY - 1)
    assert known.problem


def test_additions_are_neither_lost_nor_made_twice(known):
    write(known, "counter", 5)
    known.read("counter", 0, 5, 5)
    assert known.problem is None
    known.read("counter", 0, 5, 6)
    assert known.problem


def test_a_counter_that_is_gone_is_seen(known):
    write(known, "counter", 5)
    known.read("counter", 0, 5, None)
    assert known.problem


def test_a_step_is_made_once(known):
    known.trying("agreement", 0, 1)
    known.stepped(0, 1)
    assert known.problem is None
    known.stepped(0, 1)
    assert "two clients were told" in known.problem


@pytest.mark.parametrize("state, found, wrong", [
    (THERE, True, False), (THERE, False, True), (GONE, False, False), (GONE, True, True),
    (TRIED, True, False), (TRIED, False, False), (DELETING, True, False), (DELETING, False, False),
])  # fmt: skip
def test_rows_of_a_journal(known, state, found, wrong):
    known.rows[0] = [state]
    known.listed(0, 0, [state], {0} if found else set())
    assert (known.problem is not None) == wrong


def test_a_row_that_was_seen_is_there(known):
    known.rows[0] = [THERE, TRIED]
    known.listed(0, 1, [TRIED], {1})
    known.listed(0, 1, list(known.rows[0][1:]), set())
    assert "row 1 was acknowledged or read before" in known.problem


def test_a_row_whose_deletion_began_meanwhile_may_be_gone(known):
    known.rows[0] = [DELETING]
    known.listed(0, 0, [THERE], set())
    assert known.problem is None
