"""How the client has its turns."""

import json
import pathlib
import subprocess
import sys

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))

import scheduling  # noqa: E402


def turns_of_a_child(**more):
    code = "import json, scheduling; print(json.dumps(scheduling.turns()))"
    told = subprocess.run([sys.executable, "-c", code], cwd=BENCH, stdout=subprocess.PIPE, check=True, **more)
    return json.loads(told.stdout)


def test_the_client_has_a_longer_slice_and_nothing_else():
    usual, after = turns_of_a_child(), turns_of_a_child(preexec_fn=scheduling.give_way)
    assert after[scheduling.RUNTIME] == usual[scheduling.RUNTIME] * scheduling.LONGER
    del usual[scheduling.RUNTIME], after[scheduling.RUNTIME]
    assert usual == after


def test_a_machine_whose_calls_are_not_known_is_left_as_it_is(monkeypatch):
    monkeypatch.setattr(scheduling, "NUMBERS", {})
    assert scheduling.turns() is None
    scheduling.give_way()
