"""The comparison's report, of made-up runs: figures, verdicts, and that nothing breaks it or is hidden by it."""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import time
import types
import xml.etree.ElementTree

import pytest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))

import cores  # noqa: E402
import parts  # noqa: E402
import plots  # noqa: E402
import profiles  # noqa: E402
import report  # noqa: E402
from measurements import Run, Target  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"
NASTY = """<script>"a" & 'b' | c"""


def figures(cpu, ops=1000.0, p99=2000.0, **more):
    latency = {name: p99 for name in ("mean", "p50", "p90", "p99", "p999", "max")} | {"operations": 1000}
    return {"items_per_operation": 1, "operations": 1000, "ops_per_second": ops, "behind": 0, "errors": {},
            "missing": 0, "latency": latency, "client_load": 0.5, "memory_mib": 100, "drive_read_ms": 0.1,
            "server_cpu": {"micros_per_operation": cpu}, "intervals": [], **more}


def rounds(part, case, phase, server, cpus, rate=None, threads=64, **more):
    return [Run(part, case, phase, server, index, threads, rate, figures(cpu, **more))
            for index, cpu in enumerate(cpus, 1)]


def ycsb():
    """Helenus needs 10, 11 and 12 µs, Cassandra 80, 99 and 120, and the limit 5."""
    return [*rounds("ycsb", "a", "peak", "Helenus", [10.5, 11, 12]),
            *rounds("ycsb", "a", "peak", "Cassandra", [84, 99, 120]),
            *rounds("ycsb", "a", "peak", "limit", [5, 5, 5]),
            *rounds("ycsb", "a", "fixed", "Helenus", [20, 21, 22], rate=15000, p99=4887.0),
            *rounds("ycsb", "a", "fixed", "Cassandra", [100, 110, 120], rate=15000, p99=34210.0)]


def targets():
    return [Target("ycsb", "CPU beside limit", [2.1, 2.2, 2.4], 2.0, True),
            Target("ycsb", "CPU of Cassandra", [8, 9, 10], 8.5, False)]


def sweep_and_steady():
    interval = lambda at, ops: {"at": at, "ops_per_second": ops, "errors": 0, "latency": figures(1)["latency"]}
    return [*(run for threads in (8, 36, 260) for server in ("Cassandra", "Helenus")
              for run in rounds("texts", "reads", "sweep", server, [10, 11], threads=threads, ops=threads * 100.0)),
            *rounds("steady", "a", "steady", "Helenus", [10], rate=700,
                    intervals=[interval(1.0, 700), interval(2.0, 0), interval(3.0, 700), interval(4.0, 700)]),
            *rounds("steady", "a", "steady", "Cassandra", [90], rate=100, intervals=[interval(1.0, 100)])]


def with_other(run, **more):
    return Run.from_json(run.to_json() | more)


def row(text, *words):
    """The one line that has all the words."""
    found = [line for line in text.splitlines() if all(word in line for word in words)]
    assert len(found) == 1, found
    return found[0]


def cells(line):
    return [cell.strip() for cell in line.strip("|").split(" | ")]


def drawings(page):
    return [xml.etree.ElementTree.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL)]


def words_of(svg):
    return [element.text for element in svg.iter(f"{SVG}text")]


# --- figures ----------------------------------------------------------------


def test_medians_spreads_and_ratios_of_each_round():
    text = report.markdown({}, ycsb(), [], [])
    assert cells(row(text, "case", "figure")) == ["case", "figure", "Cassandra", "Helenus", "limit",
                                                  "Helenus / limit", "Cassandra / Helenus"]
    assert cells(row(text, "a, peak", report.CPU_NAME)) == [
        "a, peak", report.CPU_NAME, "99 (84 to 120)", "11 (10.5 to 12)", "5 (5 to 5)",
        "2.20 x (2.10 to 2.40)", "9 x (8 to 10)"]
    assert cells(row(text, "a, fixed at 15,000 ops/s", "p99.9")) == [
        "a, fixed at 15,000 ops/s", "p99.9, ms", "34.2 (34.2 to 34.2)", "4.89 (4.89 to 4.89)", "–", "", ""]


def test_a_round_is_divided_by_the_same_round():
    runs = [run for run in ycsb() if (run.server, run.round) != ("Cassandra", 1)]
    peak = [run for run in runs if run.phase == "peak"]
    assert report.ratios(peak, "Cassandra", "Helenus") == [9, 10]


def test_items_are_told_where_there_are_several():
    runs = rounds("metrics", "360 points", "peak", "Helenus", [100], items_per_operation=360)
    assert "3,600,000" in row(report.markdown({}, runs, [], []), "items per CPU second")
    assert "items per CPU second" not in report.markdown({}, ycsb(), [], [])
    assert "3.60M" in words_of(drawings(report.html({}, runs, [], []))[1])


def test_each_server_at_a_rate_of_its_own_is_in_one_row():
    text = report.plain({}, sweep_and_steady(), [], [])
    assert row(text, "a, steady", "rate, ops/s").split()[-2:] == ["100", "700"]


@pytest.mark.parametrize("target, said", [
    (targets()[0], "✗ missed by 0.200 x (10%)"),
    (targets()[1], "✓ met, 0.500 x (6%) to spare; 1 of 3 rounds beyond it"),
    (Target("p", "n", [1.9, 2.5, 2.6], 2.0, True), "✗ missed by 0.500 x (25%); 1 of 3 rounds within it"),
    (Target("p", "n", [4], 5, True, "ms"), "✓ met, 1 ms (20%) to spare"),
    (Target("p", "n", [], 5, True), "? not measured")])
def test_verdicts(target, said):
    assert report.verdict(target) == said


@pytest.mark.parametrize("value, said", [
    (0, "0"), (0.0123, "0.0123"), (0.00012, "0.00012"), (0.5, "0.500"), (1.944, "1.94"), (12.34, "12.3"),
    (122.24, "122.2"), (64.0, "64"), (15783.4, "15,783"), (-1.944, "-1.94")])
def test_numbers(value, said):
    assert plots.number(value) == said


# --- profiles ---------------------------------------------------------------

# As `perf report` 6.1 writes it: columns are padded, and there may be more of them.
PERF = """# Samples: 7K of event 'cpu-clock:ppp'
#
# Overhead|Shared Object    |Symbol                    |IPC   [IPC Coverage]
 41.50% |[kernel.kallsyms]|[k] tcp_ack               |-      -
 30.00% |helenus          |[.] storage::memtable::token_map::TokenMap<V>::guess|-      -
 10.00% |helenus          |[.] <io::executor::Counted<F> as core::future::future::Future>::poll
  8.00% |libc.so.6        |[.] __memmove_avx512_unaligned_erms|-      -
  5.00% |helenus          |[.] _mi_page_malloc_zero  |-      -
  4.60% |helenus          |[.] storage::store::flush::<impl storage::store::Inner>::flush_memtable
  0.50% |[vdso]           |[.] __vdso_clock_gettime
  0.40% |helenus          |[.] main
"""
SPENT = {"server_cpu": {"micros_per_operation": 2.0, "cores": 0.5}}


def profiled():
    return Target("path", NASTY, [2.1], 2.0, True, profiles=[
        profiles.profile_of(PERF, name, SPENT) for name in ("Helenus", "limit")])


def test_time_goes_to_the_kernel_libraries_and_crates():
    profile, _ = profiled().profiles
    assert profile.places == [
        ("the kernel", 0.415), ("storage", 0.346), ("io", 0.1), ("libc", 0.08), ("mimalloc", 0.05), ("others", 0.009)]
    assert profile.functions[0] == ("tcp_ack", "the kernel", 0.415)
    assert profile.functions[1][0] == "storage::memtable::token_map::TokenMap<V>::guess"


@pytest.mark.parametrize("told", ["", "# Samples: 0", "perf: no such file"])
def test_of_no_samples_there_is_no_profile(told):
    with pytest.raises(profiles.NoProfile):
        profiles.profile_of(told, "Helenus", SPENT)


@pytest.mark.parametrize("name, crate", [
    ("<&mut T as storage::Reader>::read", "helenus"), ("<&wire::Frame as core::fmt::Debug>::fmt", "wire"),
    ("<dyn node::Task>::run", "node"), ("core::ptr::drop_in_place<io::File>", "core"), ("memcpy", "helenus")])
def test_a_function_is_of_the_crate_that_its_name_begins_with(name, crate):
    assert profiles.place("helenus", ".", name) == crate


def test_a_profile_is_told_where_there_is_one():
    kept = Target.from_json(json.loads(json.dumps(profiled().to_json())))
    for tell in (report.html, report.markdown, report.plain):
        told = tell({}, ycsb(), [kept], [])
        assert report.PROFILED in told
        for server in ("Helenus", "limit"):
            assert f"{server} took 2 µs of CPU an operation, 0.500 cores were busy" in told
        assert report.PROFILED not in tell({}, ycsb(), targets(), [])
    kept.profiles.pop()
    assert row(report.plain({}, [], [kept], []), "storage  ", "34.6%").split() == ["storage", "34.6%", "0.692"]
    assert "<script>" not in report.html({}, [], [kept], [])


def test_targets_of_comparisons_before_have_no_profile():
    entry = targets()[0].to_json()
    del entry["profiles"], entry["watches"], entry["moments"]
    kept = Target.from_json(entry)
    assert kept.profiles == kept.watches == kept.moments == []


# As `perf sched timehist` 6.1 writes it.
TURNS = """Samples do not have callchains.
           time    cpu  task name                       wait time  sch delay   run time
                        [tid/pid]                          (msec)     (msec)     (msec)
--------------- ------  ------------------------------  ---------  ---------  ---------
   44855.182096 [0000]  perf[10110]                         0.000      0.000      4.000 
   44855.282096 [0001]  helenus-bench[900]                  0.000      0.000      9.000 
   44855.282096 [0001]  client-0[901/900]                   0.000      0.000      9.000 
   44855.382096 [0000]  <idle>                              0.000      0.000      9.000 
   44855.482096 [0000]  shard-0[801/800]                    1.000      0.125      9.000 
   44855.582096 [0001]  kworker/1:0-dio[37]                 0.000      0.000      0.900 
   44856.082096 [0000]  kdamond.0[77]                     500.000      0.000      2.500 
   44856.582096 [0000]  kdamond.0[77]                     500.000      0.000     33.500 
   44856.982096 [0001]  C2 CompilerThre[71/70]              0.000      0.000      5.000 
   44857.182096 [0000]  helenus[800]                        0.000     33.375      0.010 
"""


def test_who_has_a_core_for_long_is_told_of():
    watch = cores.watch_of(TURNS, "Helenus", [800], "helenus-bench")
    assert (watch.server, watch.seconds, watch.waited, watch.longest) == (
        "Helenus", pytest.approx(2), pytest.approx(16.75), 33.375)
    assert watch.others == [
        ("kdamond.0", pytest.approx(1), 33.5, pytest.approx(18)), ("C2 CompilerThre", pytest.approx(0.5), 5, pytest.approx(2.5))]
    kept = Target.from_json(json.loads(json.dumps(Target("texts", NASTY, [0.3], 0.1, True, watches=[watch]).to_json())))
    for tell in (report.html, report.markdown, report.plain):
        told = tell({}, [], [kept], [])
        assert "threads of Helenus waited for a core for 16.8 ms of a second, 33.4 ms at most" in told
    assert row(report.plain({}, [], [kept], []), "kdamond").split() == ["kdamond.0", "1", "33.5", "18"]
    alone = cores.watch_of(TURNS.replace("kdamond.0[77]", "shard-1[802/800]").replace("[71/70]", "[902/900]"), "Helenus", [800],
                           "helenus-bench")
    assert "nobody" in report.plain({}, [], [Target("texts", "p", [0.3], 0.1, True, watches=[alone])], [])


@pytest.mark.skipif(not shutil.which("perf"), reason="there is no perf")
def test_who_has_cores_is_noted(tmp_path, monkeypatch):
    monkeypatch.setattr(cores, "FIRST_MILLIS", 100)
    busy = subprocess.Popen([sys.executable, "-c", "import time\nwhile True: time.sleep(0.001)"])
    try:
        with cores.watched(tmp_path / "perf.data"):
            time.sleep(1)
        watch = cores.read(tmp_path / "perf.data", "python", [busy.pid], "helenus-bench")
    except profiles.NoProfile as error:
        pytest.skip(f"perf may not: {error}")
    finally:
        busy.kill()
        busy.wait()
    assert 0 <= watch.waited and 0 < watch.seconds < 5


@pytest.mark.skipif(not shutil.which("perf"), reason="there is no perf")
def test_what_perf_says_of_a_file_names_no_folder(tmp_path):
    with pytest.raises(profiles.NoProfile) as error:
        profiles.read(tmp_path / "perf.data", [1], "Helenus", {})
    assert "perf.data" in str(error.value) and str(tmp_path) not in str(error.value)


@pytest.mark.parametrize("told, pids", [("", [800]), (TURNS, [5]), ("perf: no such file", [800])])
def test_of_no_turns_nothing_is_known(told, pids):
    with pytest.raises(profiles.NoProfile):
        cores.watch_of(told, "Helenus", pids, "helenus-bench")


@pytest.mark.skipif(not shutil.which("perf"), reason="there is no perf")
def test_what_a_process_does_is_recorded(tmp_path):
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        with profiles.recorded(tmp_path / "perf.data", None):
            time.sleep(0.5)
    except profiles.NoProfile as error:
        pytest.skip(f"perf may not: {error}")
    finally:
        busy.kill()
        busy.wait()
    profile = profiles.read(tmp_path / "perf.data", [busy.pid], "python", SPENT)
    assert sum(share for _, share in profile.places) == pytest.approx(1, abs=0.05)


# --- nothing is hidden, and nothing breaks it -------------------------------


@pytest.mark.parametrize("tell", [report.html, report.markdown, report.plain])
def test_errors_and_missing_records_are_told(tell):
    runs = ycsb() + rounds("ycsb", "b", "peak", "Cassandra", [9, 9], errors={"timed out": 7}, missing=3)
    told = tell({}, runs, [], [])
    assert "b, peak: Cassandra: 14 x timed out; 6 records not found" in told
    assert "In 2 of 17 runs" in told
    assert "in any of the 15 runs" in tell({}, ycsb(), [], [])


def test_errors_are_told_in_the_readme():
    runs = ycsb() + rounds("ycsb", "b", "load", "Cassandra", [9], missing=3)
    assert "In 1 of 16 runs" in report.summary(runs, [])


def test_of_no_operation_there_is_no_latency():
    nothing = {"operations": 0, "errors": {"refused": 5}, "latency": dict.fromkeys(("p50", "p99", "p999", "max"), 0)}
    runs = ycsb() + rounds("ycsb", "b", "fixed", "Cassandra", [0], ops=0.0, **nothing)
    text = report.markdown({}, runs, [], [])
    assert not any("b, fixed" in line and "p99" in line for line in text.splitlines())
    assert "5 x refused" in text


@pytest.mark.parametrize("runs", [[], ycsb()[:3], rounds("limit", "a", "peak", "limit", [1, 2]),
                                  rounds("p", "a", "peak", "Helenus", [1], server_cpu=None),
                                  [Run("p", "a", "steady", "Helenus", 1, 1, None, {"ops_per_second": 1})]])
def test_what_is_missing_breaks_nothing(runs):
    for tell in (report.html, report.markdown, report.plain):
        assert tell({}, runs, [Target("p", "n", [], 1, True)], [])
    assert report.summary(runs, [])


def test_the_page_is_well_formed_and_escapes_names():
    runs = [with_other(run, part=NASTY, case=NASTY, server=NASTY) for run in ycsb() + sweep_and_steady()]
    runs[0].figures["errors"] = {NASTY: 1}
    page = report.html({NASTY: NASTY}, runs, [Target(NASTY, NASTY, [1], 2, True, NASTY)], [NASTY])
    assert "<script" not in page
    xml.etree.ElementTree.fromstring(page)
    assert any(word and NASTY in word for svg in drawings(page) for word in words_of(svg))
    assert "src=" not in page and "url(" not in page and "@import" not in page


def test_markdown_keeps_its_columns():
    runs = [with_other(run, case="a|b\n<i>") for run in ycsb()]
    text = report.markdown({}, runs, [], [])
    assert "a\\|b &lt;i>, peak" in text


# --- the page ---------------------------------------------------------------


def test_parts_come_in_their_order_with_their_plots():
    page = report.html({"machine": "four cores"}, ycsb() + sweep_and_steady(), targets(), ["one remark"])
    assert re.findall(r"<h2[^>]*>(.*?)</h2>", page) == ["ycsb", "texts", "steady"]
    titles = [svg.get("aria-label") for svg in drawings(page)]
    assert titles == ["ycsb: server CPU for an operation at the peak",
                      "texts, reads: operations a second by operations in flight",
                      "texts, reads: p99.9, ms by operations in flight",
                      "steady, a: over time, a line for each round"]
    assert "<dt>machine</dt><dd>four cores</dd>" in page and "one remark" in page
    assert '<tr class="missed first">' in page and '<tr class="met"' in page


def test_bars_are_as_high_as_their_values():
    svg = xml.etree.ElementTree.fromstring(plots.bars("t", "µs", {"a": {"Cassandra": (100, 90, 120),
                                                                        "Helenus": (25, 25, 25)}}))
    heights = {element.get("fill"): float(element.get("height")) for element in svg.iter(f"{SVG}rect")
               if element.get("fill") != "white"}
    assert heights[plots.KNOWN["Cassandra"].colour] == pytest.approx(4 * heights[plots.KNOWN["Helenus"].colour], 0.01)
    assert "100" in words_of(svg) and "25" in words_of(svg)


def test_it_is_told_when_the_machine_stood_still():
    bench, server = types.SimpleNamespace(notes=[]), types.SimpleNamespace(name="Helenus")
    second = lambda p999, stolen: {"latency": {"p999": p999}, "stolen": stolen}
    run = {"stolen": 0.025, "intervals": [second(2000, 0), second(3000, 0), second(2500, 0), second(21000, 0.1)]}
    parts.beside_the_hypervisor(bench, server, run)
    assert bench.notes == ["steady: a hypervisor let the machine wait in 1 of 4 seconds, 2.5% of all time; "
                           "p99.9 of a second of Helenus is 2.5 ms without, and 21.0 ms with (medians)"]
    parts.beside_the_hypervisor(bench, server, {"stolen": 1.0, "intervals": [second(21000, 1.0)]})
    assert "is not known without, and 21.0 ms with" in bench.notes[1]
    # What was measured before it was counted says nothing of it.
    parts.beside_the_hypervisor(bench, server, {"intervals": [{"latency": {"p999": 1}}]})
    assert len(bench.notes) == 2


def test_many_bars_take_several_rows_inside_the_drawing():
    groups = {f"case {n}": {server: (n, n, n) for server in ("a", "b", "c")} for n in range(1, 21)}
    svg = xml.etree.ElementTree.fromstring(plots.bars("t", "µs", groups))
    bars = [element for element in svg.iter(f"{SVG}rect") if element.get("fill") != "white"]
    assert len(bars) == 60
    assert all(float(bar.get("x")) + float(bar.get("width")) <= plots.WIDTH for bar in bars)
    assert all(float(bar.get("width")) >= 36 for bar in bars)


def test_a_curve_has_a_gap_where_nothing_was_measured():
    curve = [(1, 5.0), (2, None), (3, 5.0), (4, 6.0)]
    svg = xml.etree.ElementTree.fromstring(plots.over_time("t", [("ms", {"Helenus": [curve]}, True)]))
    assert [len(line.get("points").split()) for line in svg.iter(f"{SVG}polyline")] == [1, 2]


@pytest.mark.parametrize("drawn", [
    plots.lines("t", "x", "y", {}), plots.lines("t", "x", "y", {"a": [(1, None, None, None)]}),
    plots.lines("t", "x", "y", {"a": [(0, 1, 1, 1)]}, log_x=True), plots.bars("t", "y", {}),
    plots.bars("t", "y", {"a": {}}), plots.over_time("t", []), plots.over_time("t", [("y", {"a": [[]]})])])
def test_nothing_measured(drawn):
    assert "nothing measured" in words_of(xml.etree.ElementTree.fromstring(drawn))


def test_one_point_is_drawn():
    for log in (False, True):
        svg = plots.lines("t", "x", "y", {"a": [(8, 5, 5, 5)]}, log_x=log, log_y=log)
        assert "nan" not in svg and "8" in words_of(xml.etree.ElementTree.fromstring(svg))


@pytest.mark.parametrize("low, high, ticks", [
    (0, 103, [0, 25, 50, 75, 100, 125]), (0, 0.9, [0, 0.2, 0.4, 0.6, 0.8, 1]),
    (0, 150000, [0, 50000, 100000, 150000]), (0, 0, [0, 0.2, 0.4, 0.6, 0.8, 1])])
def test_ticks_are_round(low, high, ticks):
    assert plots.round_ticks(low, high) == ticks


def test_ticks_of_logarithms():
    assert plots.log_ticks(3, 60) == [2, 5, 10, 20, 50, 100]
    assert plots.log_ticks(0.002, 9000) == [0.001, 0.01, 0.1, 1, 10, 100, 1000, 10000]


def test_servers_differ_and_keep_their_colours():
    names = ["Helenus", "Cassandra", "limit", "Helenus without io_uring", "Itself"]
    styles = plots.styles_of(names)
    assert len(set(styles.values())) == len(names)
    assert styles["Helenus"] == plots.styles_of(["Helenus"])["Helenus"]


# --- the README -------------------------------------------------------------


def test_the_summary_has_a_row_for_a_case():
    text = report.summary(ycsb(), targets())
    assert cells(text.splitlines()[2]) == ["ycsb a", "99", "11", "5", "9 x (8 to 10)", "2.20 x (2.10 to 2.40)",
                                           "15,000", "34.2, 34.2", "4.89, 4.89"]
    assert "Of 2 targets 1 are met; missed:" in text
    assert cells(text.splitlines()[-1])[:4] == ["ycsb", "CPU beside limit", "at most 2 x", "2.20 x (2.10 to 2.40)"]


def test_the_summary_leaves_out_what_is_not_compared():
    runs = [*ycsb(), *rounds("knobs", "reads", "peak", "free", [5]), *rounds("knobs", "reads", "peak", "in a cgroup", [6])]
    assert report.summary(runs, targets()) == report.summary(ycsb(), targets())


def test_the_summary_is_short_and_has_each_part():
    runs = [run for part in ("path", "ycsb", "metrics") for case in "abcdefgh" for server in ("Helenus", "Cassandra")
            for run in rounds(part, case, "peak", server, [1, 2])]
    text = report.summary(runs, [])
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len(lines) == report.SUMMARY_ROWS + 2
    assert [line.split()[1] + line.split()[2] for line in lines[2:]] == [
        "patha", "pathb", "pathc", "pathd", "pathe", "pathf", "pathg", "ycsba", "ycsbb", "ycsbc", "ycsbd", "ycsbe",
        "ycsbf", "ycsbg", "metricsa", "metricsb", "metricsc", "metricsd", "metricse", "metricsf"]
    assert "4 more cases" in text


@pytest.fixture
def readme(tmp_path):
    """Runs bench/readme on a README of its own."""
    comparison, path = tmp_path / "comparison.json", tmp_path / "README.md"
    comparison.write_text(json.dumps({"header": {"machine": "four cores"}, "remarks": [],
                                      "targets": [target.to_json() for target in targets()],
                                      "runs": [run.to_json() for run in ycsb()]}))
    path.write_text("before\n<!-- performance: made by bench/readme -->\nold\n<!-- end -->\nafter\n<!-- end -->\n")

    def run(*more):
        command = [sys.executable, "-B", str(BENCH / "readme"), str(comparison), "--readme", str(path), *more]
        return subprocess.run(command, capture_output=True, text=True).returncode

    return run, path, comparison


def test_the_readme_gets_what_is_between_its_markers(readme):
    run, path, _ = readme
    assert run("--check") == 1
    assert "old" in path.read_text()
    assert run() == 0
    text = path.read_text()
    assert text.startswith("before\n<!--") and text.endswith("<!-- end -->\nafter\n<!-- end -->\n")
    assert "old" not in text and "| ycsb a | 99 |" in text and "machine: four cores" in text
    assert run("--check") == 0
    assert run() == 0 and path.read_text() == text


def test_a_readme_without_markers_or_a_comparison_without_runs_is_refused(readme):
    run, path, comparison = readme
    comparison.write_text("{}")
    assert run() == 2
    path.write_text("no place\n")
    assert run() == 2 and path.read_text() == "no place\n"
