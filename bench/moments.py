"""The worst seconds of a long measurement, and what the server and its drive did in them."""
import bisect
import contextlib
import dataclasses
import statistics
import time

import pace
import profiles
from meanwhile import each
from measurements import Moment, Moments
from perf import NoProfile

# Whether the drive stands still is looked at so often, in seconds; and the server's CPU time, which is counted in hundredths of
# a second, that much more seldom.
PAUSE = 0.005
LOOKS_A_LOOK_AT_CPU = 20
WORST = 10
# Seconds; and samples of each core in one, which are few, as it is long.
BEFORE = 10
SAMPLES_A_SECOND = 199
# Milliseconds for which a drive that stands still is why a second is bad.
STILL = 20.0


@dataclasses.dataclass
class Look:
    """What was found at one moment."""

    # Seconds since 1970.
    at: float
    # CPU time of the server so far, in seconds, if it was asked for.
    cpu: float | None
    # Writes that the drive has done so far, milliseconds that they took, all that it has done, and what it has to do.
    writes: int
    millis: int
    done: int
    in_flight: int


@contextlib.contextmanager
def watched(drive, server, cores):
    """Looks at the drive and the server meanwhile, from these cores if some are given. What it gives has the looks."""
    looks = []

    def look():
        cpu = server.cpu_seconds() if len(looks) % LOOKS_A_LOOK_AT_CPU == 0 else None
        looks.append(Look(time.time(), cpu, *drive.work()))

    with each(PAUSE, look, cores):
        yield looks


def moment(interval, looks, took):
    """What there is to say of an interval: these are the looks within it, and how long the core took for the same work."""
    known = [look for look in looks if look.cpu is not None]
    first, last = looks[0], looks[-1]
    cores = (known[-1].cpu - known[0].cpu) / (known[-1].at - known[0].at) if len(known) > 1 else 0.0
    writes = last.writes - first.writes
    return Moment(interval["at"], interval["ops_per_second"], interval["latency"]["p999"] / 1000, cores,
                  writes / (last.at - first.at), (last.millis - first.millis) / max(1, writes), 1000 * longest_still(looks),
                  1e6 * took)


def longest_still(looks):
    """The longest time, in seconds, for which the drive had something to do and ended nothing."""
    longest, since = 0.0, None
    for before, look in zip(looks, looks[1:]):
        if not before.in_flight or look.done != before.done:
            since = None
        else:
            since = before.at if since is None else since
            longest = max(longest, look.at - since)
    return longest


def during(interval, noted, at):
    """What of all that was noted, in the order of time, was noted in the second of an interval; `at` says when."""
    # The interval before has ended a second before, or so.
    first, behind = (bisect.bisect(noted, moment, key=at) for moment in (interval["ended"] - 1.0, interval["ended"]))
    return noted[first:behind]


def moments(intervals, looks, paces):
    """Those of all intervals that were looked at, each with its own."""
    found = []
    for interval in intervals:
        within = during(interval, looks, lambda look: look.at)
        if len(within) > 1:
            took = [seconds for _, seconds in during(interval, paces, lambda pace: pace[0])]
            found.append(moment(interval, within, statistics.mean(took) if took else 0.0))
    return found


def worst_of(server, found):
    """The worst of them, in their order, and what each figure is in the median of all."""
    worst = sorted(found, key=lambda moment: -moment.p999)[:WORST]
    median = lambda name: statistics.median(getattr(moment, name) for moment in found)
    usual = Moment(*(median(field.name) for field in dataclasses.fields(Moment)))
    return Moments(server, sorted(worst, key=lambda moment: moment.at), usual)


def beside_the_drive(server, found):
    """A remark: how bad seconds are in which the drive stood still, and how bad the others."""
    still = [moment.p999 for moment in found if moment.still_ms >= STILL]
    others = [moment.p999 for moment in found if moment.still_ms < STILL]
    told = [f"{statistics.median(some):.1f} ms, {max(some):.0f} at most" if some else "not known" for some in (still, others)]
    return (f"steady: the drive had something to do and ended nothing for {STILL:.0f} ms or more in {len(still)} of {len(found)} "
            f"seconds; p99.9 of such a second of {server} is {told[0]}, and of the others {told[1]} (medians)")


def measured(bench, server, *arguments):
    """As `bench.measure` does it: the figures, the moments, and the profile of the time up to the worst of them, if there is one."""
    file, figures, profile = bench.folder / "perf.data", None, None
    try:
        with contextlib.ExitStack() as stack:
            looks = stack.enter_context(watched(bench.drive, server, bench.numbers(bench.client_cores)))
            paces = stack.enter_context(pace.watched(bench.numbers(server.nodes[0].cores)))
            try:
                stack.enter_context(profiles.recorded(file, bench.client_cores, SAMPLES_A_SECOND))
            except NoProfile:
                # It is said where it is looked for.
                pass
            figures = bench.measure(server, *arguments)
        profile = up_to_the_worst(file, server, figures["intervals"], looks)
    except (NoProfile, OSError) as error:
        if figures is None:
            raise
        bench.notes.append(f"What {server.name} did in its worst seconds is not known: {error}")
    finally:
        file.unlink(missing_ok=True)
    return figures, moments(figures["intervals"], looks, paces), profile


def up_to_the_worst(file, server, intervals, looks):
    """Where the time of the server went in the seconds before the worst one ended: what a queue comes from is before it."""
    worst = max(intervals, key=lambda interval: interval["latency"]["p999"])
    begun, ended = worst["ended"] - BEFORE, worst["ended"]
    known = [look for look in looks if look.cpu is not None and begun <= look.at <= ended]
    operations = sum(interval["ops_per_second"] for interval in intervals if begun < interval["ended"] <= ended)
    spent = known[-1].cpu - known[0].cpu if known else 0.0
    cpu = {"micros_per_operation": 1e6 * spent / max(1, operations), "cores": spent / BEFORE}
    name = f"{server.name}, in the {BEFORE} s up to the worst, the {worst['at']:.0f}th,"
    return profiles.read(file, server.pids(), name, {"server_cpu": cpu}, (begun, ended))
