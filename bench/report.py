"""What the runs came to, for people: as a page (html), as Markdown, for a terminal (plain), for the README (summary).

All of them tell the same tables, which are made once. Figures are medians of the rounds with the least and the
most of them; ratios are made round by round. What failed or was not found is said in each of them, always.
"""
import dataclasses
import html as markup
import statistics

import measurements
import plots
from measurements import CASSANDRA, HELENUS, LIMIT
from plots import number

# Columns are in this order: these first, the limit last, what else there is between them as it comes.
FIRST, LAST = (CASSANDRA, HELENUS), (LIMIT,)
NONE = "–"
PROFILED = "Where the time goes of what is missed"
# So many lines of the README's table are cases.
SUMMARY_ROWS = 20


@dataclasses.dataclass
class Table:
    title: str
    # The first of them is the head.
    rows: list[list[str]]
    # Columns of words; the others are of figures.
    words: tuple = (0, 1)
    # {row: "met" or "missed"}
    marks: dict[int, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Section:
    """All that is said of one part."""

    part: str
    faults: list[str]
    tables: list[Table]
    # Whole <svg> elements.
    drawings: list[str]


# --- figures ----------------------------------------------------------------


def items_per_cpu_second(run):
    return measurements.items_per_cpu_second(run) if run.figures["items_per_operation"] > 1 else None


def unless_zero(name):
    return lambda run: run.figures[name] or None


def client_busy(run):
    return run.figures["client_load"] * 100


CPU_NAME = "server CPU, µs/op"
OPS, CPU = ("ops/s", measurements.ops), (CPU_NAME, measurements.cpu)
ITEMS = ("items per CPU second", items_per_cpu_second)
P99, P999 = ("p99, ms", measurements.latency("p99")), ("p99.9, ms", measurements.latency("p999"))
MEMORY = ("server memory, MiB", measurements.memory)
IN_FLIGHT = ("operations in flight", lambda run: run.threads)
CLIENT = ("client's cores busy, %", client_busy)
UNTIL_REST = ("server CPU until at rest, µs/op", lambda run: run.figures["micros_until_rest"])
AT_A_RATE = [OPS, CPU, ITEMS, ("p50, ms", measurements.latency("p50")), P99, P999,
             ("max, ms", measurements.latency("max")), ("due but not done", unless_zero("behind")), MEMORY,
             ("the drive's reads, ms each", lambda run: run.figures["drive_read_ms"]), CLIENT]
# {phase: rows}, and those of a phase that is not among them.
METRICS = {"load": [OPS, CPU, UNTIL_REST, ITEMS],
           "peak": [OPS, CPU, ITEMS, P99, MEMORY, IN_FLIGHT, CLIENT],
           "fixed": AT_A_RATE,
           "sweep": [OPS, CPU, P99, P999]}
EVERYTHING = [("rate, ops/s", lambda run: run.rate), *AT_A_RATE]


def value(run, of):
    """A figure of a run; None if it has none. Of no operation there is nothing to say but that there was none."""
    if run.figures.get("operations") == 0 and of is not measurements.ops:
        return None
    try:
        return of(run)
    except (KeyError, TypeError, ZeroDivisionError):
        # A run without --pid has no server_cpu, one of a load no latency of reads, and so on.
        return None


def measured(runs, server, of):
    """What each round of a server came to, where it came to anything."""
    return list(measurements.by_round([run for run in runs if value(run, of) is not None], server, of).values())


def ratios(runs, above, below, of=measurements.cpu):
    """As `measurements.ratios`, of those runs that have what is compared."""
    return measurements.ratios([run for run in runs if value(run, of) is not None], above, below, of)


def spread(values):
    """(median, least, most), or None."""
    return (statistics.median(values), min(values), max(values)) if values else None


def cell(values, unit=""):
    if not values:
        return NONE
    median, least, most = map(number, spread(values))
    return f"{median}{unit}" + (f" ({least} to {most})" if len(values) > 1 else "")


def median_cell(values):
    return number(statistics.median(values)) if values else NONE


def unique(values):
    return list(dict.fromkeys(values))


def grouped(runs, key):
    """{key: runs}, in the order in which keys first occur."""
    return {wanted: [run for run in runs if key(run) == wanted] for wanted in unique(map(key, runs))}


def servers(runs):
    names = unique(run.server for run in runs)
    between = [name for name in names if name not in FIRST + LAST]
    return [name for name in (*FIRST, *between, *LAST) if name in names]


def point(run):
    """What must be the same of runs that stand in one row: in other phases each server may have its own rate."""
    return (run.case, run.phase, run.rate if run.phase == "fixed" else None,
            run.threads if run.phase == "sweep" else None)


def point_name(found):
    case, phase, rate, threads = found
    return (f"{case}, {phase}" + (f" at {rate:,} ops/s" if rate else "")
            + (f", {threads} in flight" if threads else ""))


# --- tables -----------------------------------------------------------------


def part_table(title, runs):
    """A row for each case and metric that anything is known of, a column for each server."""
    names = servers(runs)
    pairs = [(above, below) for above, below in ((HELENUS, LIMIT), (CASSANDRA, HELENUS))
             if above in names and below in names]
    rows = [["case", "figure", *names, *(f"{above} / {below}" for above, below in pairs)]]
    for found, several in grouped(runs, point).items():
        for name, of in METRICS.get(several[0].phase, EVERYTHING):
            every = [measured(several, server, of) for server in names]
            if any(every):
                of_cpu = [cell(ratios(several, *pair), " x") for pair in pairs]
                rows.append([point_name(found), name, *map(cell, every),
                             *(of_cpu if name == CPU_NAME else [""] * len(pairs))])
    return Table(title, rows)


def target_table(targets):
    table = Table("Targets", [["part", "target", "bound", "median (least to most)", "verdict"]], words=(0, 1, 2, 4))
    for target in targets:
        bound = f"at {'most' if target.at_most else 'least'} {number(target.bound)} {target.unit}"
        table.rows.append([target.part, target.name, bound, cell(target.values, f" {target.unit}"), verdict(target)])
        if target.values:
            table.marks[len(table.rows) - 1] = "met" if target.is_met() else "missed"
    return table


def profile_tables(target, profile):
    """Where the time of a server went, for a target that is missed: as a share, and as microseconds an operation."""
    told = lambda share: [f"{share:.1%}", number(share * profile.micros)]
    title = (f"{target.part}: {target.name}: {profile.server} took {number(profile.micros)} µs of CPU an operation, "
             f"{number(profile.cores)} cores were busy")
    places = [["where", "share", "µs an operation"], *([where, *told(share)] for where, share in profile.places)]
    functions = [["function", "where", "share", "µs an operation"],
                 *([name, where, *told(share)] for name, where, share in profile.functions)]
    return [Table(title, places, words=(0,)), Table("", functions, words=(0, 1))]


def watch_table(target, watch):
    """Who had cores, where a target of latency is missed."""
    title = (f"{target.part}: {target.name}: threads of {watch.server} waited for a core for {number(watch.waited)} ms of a "
             f"second, {number(watch.longest)} ms at most; who else had one for a millisecond or more without a break")
    rows = [[who, *map(number, figures)] for who, *figures in watch.others] or [["nobody", "0", "", ""]]
    return Table(title, [["who", "times a second", "longest, ms", "of a second, ms"], *rows], words=(0,))


def moments_table(target, moments):
    """The worst seconds, where a target is missed that is held over a long time."""
    title = f"{target.part}: {target.name}: the worst seconds of {moments.server}, and what server and drive did in them"
    told = lambda at, moment: [at, f"{moment.ops_per_second:,.0f}", *map(number, (
        moment.p999, moment.cores, moment.writes, moment.write_ms, moment.still_ms, moment.pace))]
    rows = [*(told(f"{moment.at:.0f}", moment) for moment in moments.worst), told("all (medians)", moments.usual)]
    return Table(title, [["second", "operations", "p99.9, ms", "cores busy", "writes of the drive", "ms a write",
                          "drive still for, ms", "same work on the core, µs"], *rows], words=(0,))


def profiled(targets):
    """All that is known of why targets are missed."""
    return [table for target in targets for table in (
        *(table for profile in target.profiles for table in profile_tables(target, profile)),
        *(watch_table(target, watch) for watch in target.watches),
        *(moments_table(target, moments) for moments in target.moments))]


def verdict(target):
    """Whether it is met, and by how much or not; a sign and words, for those who see no colours."""
    if not target.values:
        return "? not measured"
    apart = abs(target.median() - target.bound)
    share = f" ({apart / abs(target.bound):.0%})" if target.bound else ""
    within = [dataclasses.replace(target, values=[one]).is_met() for one in target.values]
    if target.is_met():
        beyond = f"; {within.count(False)} of {len(within)} rounds beyond it" if not all(within) else ""
        return f"✓ met, {number(apart)} {target.unit}{share} to spare{beyond}"
    inside = f"; {within.count(True)} of {len(within)} rounds within it" if any(within) else ""
    return f"✗ missed by {number(apart)} {target.unit}{share}{inside}"


def faults_of(runs):
    """Operations that failed and records that were not found, of all rounds of a server together."""
    found = []
    for (where, server), several in grouped(runs, lambda run: (point(run), run.server)).items():
        counts = {}
        for run in several:
            for error, count in (run.figures.get("errors") or {}).items():
                counts[error] = counts.get(error, 0) + count
        said = [f"{count:,} x {error}" for error, count in counts.items() if count]
        missing = sum(run.figures.get("missing") or 0 for run in several)
        if missing:
            said.append(f"{missing:,} records not found")
        if said:
            found.append(f"{point_name(where)}: {server}: {'; '.join(said)}")
    return found


def clean_or_not(runs):
    """One sentence about all runs, which stands before any figure."""
    failed = [run for run in runs if faults_of([run])]
    if not runs:
        return "Nothing was measured."
    if not failed:
        return f"No operation failed in any of the {len(runs)} runs, and no record was missing."
    whose = ", ".join(servers(failed))
    return f"✗ In {len(failed)} of {len(runs)} runs, of {whose}, operations failed or records were not found."


# --- drawings ---------------------------------------------------------------


def drawings(part, runs, styles):
    found = [*peak_drawing(f"{part}: server CPU for an operation at the peak", "µs", runs, measurements.cpu, styles),
             *peak_drawing(f"{part}: items for a second of server CPU at the peak", "items", runs,
                           items_per_cpu_second, styles)]
    for case, several in grouped([run for run in runs if run.phase == "sweep"], lambda run: run.case).items():
        found += sweep_drawings(f"{part}, {case}", several, styles)
    steady = [run for run in runs if run.phase == "steady" and run.figures.get("intervals")]
    for case, several in grouped(steady, lambda run: run.case).items():
        found.append(steady_drawing(f"{part}, {case}: over time, a line for each round", several, styles))
    return found


def peak_drawing(title, unit, runs, of, styles):
    runs = [run for run in runs if run.phase == "peak" and value(run, of) is not None]
    groups = {case: {server: spread(measured(several, server, of)) for server in servers(several)}
              for case, several in grouped(runs, lambda run: run.case).items()}
    return [plots.bars(title, unit, groups, styles)] if groups else []


def sweep_drawings(title, runs, styles):
    found, by_threads = [], grouped(runs, lambda run: run.threads)
    for name, of, log_y in (("operations a second", measurements.ops, False), ("p99.9, ms", P999[1], True)):
        series = {server: [(threads, *spread(values)) for threads, several in by_threads.items()
                           if (values := measured(several, server, of))]
                  for server in servers(runs)}
        found.append(plots.lines(f"{title}: {name} by operations in flight", "operations in flight", name, series,
                                 log_x=True, log_y=log_y, styles=styles))
    return found


def steady_drawing(title, runs, styles):
    def panel(name, of, log_y):
        curves = {server: [[(interval["at"], of(interval)) for interval in run.figures["intervals"]]
                           for run in runs if run.server == server] for server in servers(runs)}
        return plots.Panel(name, curves, log_y)

    # In an interval without an operation there is no latency.
    latency = lambda percentile: lambda interval: (interval["latency"][percentile] / 1000
                                                   if interval["ops_per_second"] else None)
    panels = [panel("operations a second", lambda interval: interval["ops_per_second"], False),
              *(panel(name, latency(percentile), True) for name, percentile in
                (("p99, ms", "p99"), ("p99.9, ms", "p999"), ("max, ms", "max")))]
    if any(interval["errors"] for run in runs for interval in run.figures["intervals"]):
        panels.append(panel("operations that failed, of the interval", lambda interval: interval["errors"], False))
    return plots.over_time(title, panels, styles)


def sections(runs, draw=False):
    styles = plots.styles_of(unique(run.server for run in runs))
    found = []
    for part, several in grouped(runs, lambda run: run.part).items():
        sweep = [run for run in several if run.phase == "sweep"]
        others = [run for run in several if run.phase != "sweep"]
        tables = [part_table(title, of) for title, of in (("", others), ("By operations in flight", sweep)) if of]
        found.append(Section(part, faults_of(several), tables, drawings(part, several, styles) if draw else []))
    return found


# --- as a page --------------------------------------------------------------

CSS = """
body { font: 15px/1.45 sans-serif; color: #222; background: #fff; max-width: 1080px; margin: 2em auto; padding: 0 1em }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2em 1em } dt { font-weight: bold } dd { margin: 0 }
.wide { overflow-x: auto } table { border-collapse: collapse; font-size: 14px; margin: .8em 0 }
th, td { padding: .25em .7em; border-bottom: 1px solid #e4e4e4; text-align: left; vertical-align: top }
th { border-bottom: 2px solid #999 }
.figure { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
tr.first td { border-top: 1px solid #999 } .met td:last-child { color: #00603f; background: #e3f4ec }
.missed td:last-child, .faults { color: #8a1c00; background: #fdeae3 } .faults { padding: .6em 2em }
svg { display: block; width: 100%; max-width: 860px; height: auto; margin: 1em 0 } nav a { margin-right: 1em }
"""


def escaped(what):
    return markup.escape(str(what))


def html(header, runs, targets, remarks):
    """One file, which needs no other: styles and plots are in it, scripts there are none."""
    found = sections(runs, draw=True)
    title = "Helenus: what was measured"
    links = "".join(f'<a href="#part-{index}">{escaped(section.part)}</a>' for index, section in enumerate(found))
    body = [f"<h1>{title}</h1>", "<dl>", *(f"<dt>{escaped(key)}</dt><dd>{escaped(said)}</dd>"
                                          for key, said in header.items()), "</dl>"]
    body += [f"<p>{escaped(targets_in_words(targets))}</p>", html_table(target_table(targets))] if targets else []
    body += [f"<p>{escaped(clean_or_not(runs))}</p>", f"<nav>{links}</nav>", *html_list("Remarks", remarks)]
    tables = profiled(targets)
    body += [f"<h2>{PROFILED}</h2>", *map(html_table, tables)] if tables else []
    for index, section in enumerate(found):
        body.append(f'<h2 id="part-{index}">{escaped(section.part)}</h2>')
        body += html_list("Faults", section.faults, "faults")
        body += [*map(html_table, section.tables), *section.drawings]
    return (f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/><title>{title}</title>'
            f"<style>{CSS}</style></head><body>\n" + "\n".join(body) + "\n</body></html>\n")


FIGURE = ' class="figure"'


def html_list(title, entries, kind="remarks"):
    if not entries:
        return []
    items = "".join(f"<li>{escaped(entry)}</li>" for entry in entries)
    return [f'<h3>{title}</h3><ul class="{kind}">{items}</ul>']


def html_table(table):
    title = f"<h3>{escaped(table.title)}</h3>" if table.title else ""
    rows, above = [], None
    for number_of_row, row in enumerate(table.rows):
        tag = "td" if number_of_row else "th"
        kinds = [table.marks.get(number_of_row), "first" if row[0] != above else None]
        # What is the same as above is not said again.
        said = ["" if row[0] == above else row[0], *row[1:]]
        cells = "".join(f"<{tag}{'' if column in table.words else FIGURE}>{escaped(what)}</{tag}>"
                        for column, what in enumerate(said))
        rows.append(f'<tr class="{" ".join(filter(None, kinds))}">{cells}</tr>')
        above = row[0]
    return f'{title}<div class="wide"><table>\n' + "\n".join(rows) + "\n</table></div>"


# --- as Markdown and as text ------------------------------------------------


def inline(what):
    """Text that no Markdown takes for a column, an element or a new line."""
    return " ".join(str(what).split()).replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|")


def markdown_table(table):
    head, *rows = [[inline(what) for what in row] for row in table.rows]
    rule = ["---" if column in table.words else "---:" for column in range(len(head))]
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, rule, *rows))


def plain_table(table):
    widths = [max(len(row[column]) for row in table.rows) for column in range(len(table.rows[0]))]
    return "\n".join("  ".join(what.ljust(width) if column in table.words else what.rjust(width)
                               for column, (what, width) in enumerate(zip(row, widths))).rstrip()
                     for row in table.rows)


def blocks(header, runs, targets, remarks, said, table_of, headed):
    """The report as paragraphs: `said` makes text fit for the format, `headed(level, text)` a heading."""
    listed = lambda entries: "\n".join(f"- {said(entry)}" for entry in entries)
    found = [headed(1, "Helenus: what was measured"), listed(f"{key}: {what}" for key, what in header.items())]
    if targets:
        found += [headed(2, "Targets"), said(targets_in_words(targets)), table_of(target_table(targets))]
    found.append(said(clean_or_not(runs)))
    found += [headed(2, "Remarks"), listed(remarks)] if remarks else []
    tables = profiled(targets)
    found += [headed(2, PROFILED)] if tables else []
    for table in tables:
        found += [headed(3, said(table.title)), table_of(table)] if table.title else [table_of(table)]
    for section in sections(runs):
        found.append(headed(2, said(section.part)))
        found += ["Faults:", listed(section.faults)] if section.faults else []
        for table in section.tables:
            found += [headed(3, table.title)] if table.title else []
            found.append(table_of(table))
    return "\n\n".join(filter(None, found)) + "\n"


def markdown(header, runs, targets, remarks):
    return blocks(header, runs, targets, remarks, inline, markdown_table, lambda level, what: f"{'#' * level} {what}")


def plain(header, runs, targets, remarks):
    underlined = lambda level, what: f"{what}\n{'=-'[level > 1] * len(what)}" if level < 3 else f"{what}:"
    return blocks(header, runs, targets, remarks, lambda what: " ".join(str(what).split()), plain_table, underlined)


# --- for the README ---------------------------------------------------------


def summary(runs, targets):
    """A line for each case in which two of the three were measured at their peaks; of too many, each part's first ones.
    Then the targets that are missed, and faults."""
    cases = grouped([run for run in runs if run.phase in ("peak", "fixed")], lambda run: (run.part, run.case))
    # Who is alone is compared with nobody here.
    at_peak = lambda several: set(servers([run for run in several if run.phase == "peak"])) & {CASSANDRA, HELENUS, LIMIT}
    cases = {case: several for case, several in cases.items() if len(at_peak(several)) > 1} or cases
    kept = first_of_each_part(list(cases), SUMMARY_ROWS)
    paragraphs = [markdown_table(summary_table({case: cases[case] for case in kept}))]
    below = [f"{len(cases) - len(kept)} more cases are in the whole report."] if len(cases) > len(kept) else []
    below += [clean_or_not(runs)] if not runs or faults_of(runs) else []
    paragraphs += [inline(" ".join(below))] if below else []
    if targets:
        missed = [target for target in targets if target.values and not target.is_met()]
        paragraphs.append(inline(targets_counted(targets) + ("; missed:" if missed else ".")))
        paragraphs += [markdown_table(target_table(missed))] if missed else []
    return "\n\n".join(paragraphs) + "\n"


def first_of_each_part(cases, most):
    """At most so many: the first of each part, then the second of each, in the order in which they came."""
    turn = {case: [other for other in cases if other[0] == case[0]].index(case) for case in cases}
    kept = sorted(cases, key=turn.get)[:most]
    return [case for case in cases if case in kept]


def summary_table(cases):
    everything = [run for runs in cases.values() for run in runs]
    names = [name for name in (CASSANDRA, HELENUS, LIMIT) if name in servers(everything)]
    pairs = [pair for pair in ((CASSANDRA, HELENUS), (HELENUS, LIMIT)) if set(pair) <= set(names)]
    timed = [name for name in names if name != LIMIT]
    table = Table("", [["workload", *(f"{name}: CPU µs/op" for name in names), *(" / ".join(pair) for pair in pairs),
                        "fixed rate, ops/s", *(f"{name}: p99, p99.9 ms" for name in timed)]], words=(0,))
    for (part, case), runs in cases.items():
        peak = [run for run in runs if run.phase == "peak"]
        fixed = at_one_rate([run for run in runs if run.phase == "fixed"])
        latencies = [", ".join(median_cell(measured(fixed, name, of)) for _, of in (P99, P999)) if fixed else NONE
                     for name in timed]
        table.rows.append([f"{part} {case}", *(median_cell(measured(peak, name, measurements.cpu)) for name in names),
                           *(cell(ratios(peak, *pair), " x") for pair in pairs),
                           f"{fixed[0].rate:,}" if fixed and fixed[0].rate else NONE, *latencies])
    return table


def at_one_rate(runs):
    """Of several rates that which most servers were measured at; of those the highest."""
    rates = grouped(runs, lambda run: run.rate)
    return max(rates.values(), key=lambda several: (len(servers(several)), several[0].rate or 0), default=[])


def targets_counted(targets):
    known = [target for target in targets if target.values]
    unknown = len(targets) - len(known)
    return (f"Of {len(targets)} targets {sum(target.is_met() for target in known)} are met"
            + (f", {unknown} not measured" if unknown else ""))


def targets_in_words(targets):
    missed = [f"{target.part}: {target.name}: {number(target.median())} {target.unit}, bound {number(target.bound)}"
              for target in targets if target.values and not target.is_met()]
    return targets_counted(targets) + (f"; missed: {'; '.join(missed)}" if missed else "") + "."
