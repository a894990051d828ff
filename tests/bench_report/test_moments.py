"""The worst seconds of a long measurement: what is noted of them, and what the report makes of it."""

import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import time
import types

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))

import moments  # noqa: E402
import profiles  # noqa: E402
import report  # noqa: E402
import turns  # noqa: E402
from measurements import Moment, Target  # noqa: E402


def look(at, cpu=None, writes=0, millis=0, in_flight=0):
    return moments.Look(at, cpu, writes, millis, writes, in_flight)


def interval(at, ended, p999=1000):
    return {"at": at, "ended": ended, "ops_per_second": 100.0, "latency": {"p999": p999}}


def test_a_second_has_what_was_seen_within_it():
    looks = [look(9.5, 1.0), look(10.1, 2.0, 100, 10), look(10.3, None, 200, 40, 1), look(10.9, 2.4, 500, 50), look(11.2, 9.0)]
    paces = [(9.9, 0.9), (10.2, 0.0002), (10.8, 0.0004), (11.1, 0.9)]
    assert moments.moments([interval(1, 11.0, 7000), interval(2, 12.0)], looks, paces) == [
        Moment(1, 100.0, 7.0, pytest.approx(0.5), pytest.approx(500), pytest.approx(0.1), 0.0, pytest.approx(300))]


def test_a_drive_stands_still_while_it_has_to_do_and_ends_nothing():
    ends = [look(0.0, None, 1, 0, 1), look(0.1, None, 2, 0, 1), look(0.2, None, 3, 0, 1)]
    assert moments.longest_still(ends) == 0.0
    idles = [look(0.0), look(5.0), look(9.0, None, 1)]
    assert moments.longest_still(idles) == 0.0
    stands = [look(0.0, None, 1, 0, 1), look(0.1, None, 1, 0, 2), look(0.4, None, 1, 0, 2), look(0.5, None, 2)]
    assert moments.longest_still(stands) == pytest.approx(0.4)


def test_the_worst_seconds_are_told_beside_the_others():
    found = [Moment(at, 100, 50.0 if at in (3, 7) else at / 10, 0.5, 10, 0.1, 30.0 if at == 7 else 0.0) for at in range(1, 20)]
    worst = moments.worst_of("Helenus", found)
    assert len(worst.worst) == moments.WORST and [moment.at for moment in worst.worst][:2] == [3, 7]
    assert worst.usual.p999 == 1.2 and worst.usual.still_ms == 0.0
    remark = moments.beside_the_drive("Helenus", found)
    assert "in 1 of 19 seconds" in remark and "50.0 ms, 50 at most, and of the others 1.1 ms, 50 at most" in remark
    target = Target("steady", "p99.9", [50.0], 5, True, "ms", moments=[worst])
    assert Target.from_json(target.to_json()) == target
    table, = report.profiled([target])
    assert table.rows[2] == ["7", "100", "50", "0.500", "10", "0.100", "30", "0"]
    assert table.rows[-1][0] == "all (medians)" and len(table.rows) == moments.WORST + 2
    assert all(len(row) == len(table.rows[0]) for row in table.rows)


def test_no_second_was_looked_at():
    assert moments.moments([interval(1, 11.0)], [], []) == []


def test_it_is_looked_at_meanwhile():
    server = types.SimpleNamespace(cpu_seconds=lambda: 1.0)
    drive = types.SimpleNamespace(work=lambda: (1, 2, 3, 0))
    with moments.watched(drive, server, set()) as looks:
        time.sleep(0.3)
    known = len(looks)
    assert known > 5 and looks[0].cpu == 1.0 and looks[1].cpu is None and looks[0].done == 3
    time.sleep(0.05)
    assert len(looks) == known


def test_a_measure_without_perf_has_its_figures(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    figures = {"intervals": [interval(1, time.time() + 1)]}

    def measure(server, *_):
        time.sleep(0.3)
        return figures

    bench = types.SimpleNamespace(
        folder=tmp_path, client_cores=None, numbers=turns.Bench.numbers, notes=[], measure=measure,
        drive=types.SimpleNamespace(work=lambda: (1, 2, 3, 0)))
    node = types.SimpleNamespace(cores=None)
    server = types.SimpleNamespace(name="Helenus", pids=lambda: [1], cpu_seconds=lambda: 1.0, nodes=[node])
    measured, seconds, profile = moments.measured(bench, server)
    assert measured is figures and len(seconds) == 1 and profile is None
    assert "is not known" in bench.notes[0]


@pytest.mark.skipif(not shutil.which("perf"), reason="there is no perf")
def test_a_profile_is_of_a_part_of_the_time(tmp_path):
    # It works until it is stopped: on a busy machine `perf` may need seconds to begin.
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    file, begun = tmp_path / "perf.data", time.time()
    figures = {"server_cpu": {"micros_per_operation": 1.0, "cores": 1.0}}
    try:
        with profiles.recorded(file, None, 199):
            for _ in range(600):
                if file.exists() and file.stat().st_size:
                    break
                time.sleep(0.05)
            time.sleep(1.5)
            process.send_signal(signal.SIGSTOP)
            os.waitpid(process.pid, os.WUNTRACED)
            stopped = time.time()
            time.sleep(0.5)
    except profiles.NoProfile as error:
        pytest.skip(f"perf may not: {error}")
    finally:
        process.kill()
        process.wait()
    assert profiles.read(file, [process.pid], "it", figures, (begun, stopped)).places
    with pytest.raises(profiles.NoProfile):
        profiles.read(file, [process.pid], "it", figures, (stopped, stopped + 0.4))


@pytest.mark.skipif(not shutil.which("perf"), reason="there is no perf")
def test_who_records_takes_no_core_when_a_thread_has_ended(tmp_path):
    # perf 6.1 takes two thirds of one, if it is told of a process.
    code = "import threading, time; threading.Thread(target=time.sleep, args=[1]).start(); time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", code])
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        with profiles.recorded(tmp_path / "perf.data", None, 199):
            time.sleep(4)
    except profiles.NoProfile as error:
        pytest.skip(f"perf may not: {error}")
    finally:
        # What ended and was waited for counts: perf, and not yet the process.
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        process.kill()
        process.wait()
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1
