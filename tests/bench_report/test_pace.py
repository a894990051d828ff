"""How fast a core is."""

import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))

import pace  # noqa: E402


def test_a_core_does_the_same_work_again_and_again(monkeypatch):
    monkeypatch.setattr(pace, "PAUSE", 0.01)
    cores, begun = os.sched_getaffinity(0), time.time()
    with pace.watched({min(cores)}) as paces:
        time.sleep(0.5)
    known = len(paces)
    assert known > 3 and all(begun < at < time.time() and 0 < seconds < 1 for at, seconds in paces)
    assert os.sched_getaffinity(0) == cores, "of its own thread alone"
    time.sleep(0.05)
    assert len(paces) == known


def test_to_wait_for_a_core_is_no_work(monkeypatch):
    monkeypatch.setattr(pace, "range", lambda _: [time.sleep(0.2)], raising=False)
    assert pace.work(1) < 0.1


def test_without_cores_nobody_looks():
    with pace.watched(set()) as paces:
        time.sleep(0.05)
    assert paces == []
