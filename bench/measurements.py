"""What was measured, as it is kept in comparison.json and told by the report: runs, and what they are held to."""
import dataclasses
import statistics

# The servers that are compared.
CASSANDRA, HELENUS, LIMIT = "Cassandra", "Helenus", "limit"


@dataclasses.dataclass
class Run:
    """One turn of one server."""

    # What it belongs to, as "ycsb", and which one of that, as "a" or "360 points".
    part: str
    case: str
    # "load", "peak" (as many operations as come), "fixed" (at a rate), or another phase of the part's own.
    phase: str
    # "Helenus", "Cassandra", "limit"; or a way of running Helenus, as "Helenus without io_uring".
    server: str
    round: int
    # Operations in flight; the rate that was asked for, if one was.
    threads: int
    rate: int | None
    # What helenus-bench --out wrote, with memory_mib and drive_read_ms of the server beside it.
    figures: dict

    def to_json(self):
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, entry):
        return cls(**entry)


@dataclasses.dataclass
class Profile:
    """Where a server's CPU time went while what missed its target was measured once more."""

    server: str
    # Of its CPU time for an operation, and how many cores it kept busy.
    micros: float
    cores: float
    # (where, share): the kernel, libraries, and crates of the server, the largest first.
    places: list
    # (function, where, share): those that took most.
    functions: list


@dataclasses.dataclass
class Watch:
    """Who had cores while what missed its target was measured once more."""

    server: str
    seconds: float
    # Milliseconds for which threads of the server that could have run waited for a core: of a second, and the longest.
    waited: float
    longest: float
    # (who, times a second, longest, of a second), in milliseconds: who is neither server nor client, and had a core for one at
    # least without a break.
    others: list


@dataclasses.dataclass
class Moment:
    """A second of something long, and what the server and its drive did in it."""

    # Seconds since it began.
    at: float
    ops_per_second: float
    # Milliseconds.
    p999: float
    # That the server kept busy.
    cores: float
    # That the drive did, in a second, and the milliseconds that each took.
    writes: float
    write_ms: float
    # The longest time for which it had something to do, and ended nothing.
    still_ms: float
    # CPU microseconds that the server's core took for the same work (see `pace`); 0 where nobody looked.
    pace: float = 0.0


@dataclasses.dataclass
class Moments:
    """The worst seconds of a server, in their order, and beside them the median of each figure over all seconds."""

    server: str
    worst: list[Moment]
    usual: Moment

    @classmethod
    def from_json(cls, entry):
        return cls(entry["server"], [Moment(**moment) for moment in entry["worst"]], Moment(**entry["usual"]))


@dataclasses.dataclass
class Target:
    """A ratio, or a figure, and what it is to be: at most or at least `bound`."""

    part: str
    # As "CPU of Helenus beside limit, one column, 64 x 1".
    name: str
    # Of each round, so that the spread is shown; their median is what is held to the bound.
    values: list[float]
    bound: float
    at_most: bool
    unit: str = "x"
    # Of one that is missed: of whoever was measured for it once more, where there are any.
    profiles: list[Profile] = dataclasses.field(default_factory=list)
    watches: list[Watch] = dataclasses.field(default_factory=list)
    # Of one that is held over a long time.
    moments: list[Moments] = dataclasses.field(default_factory=list)

    def median(self):
        return statistics.median(self.values)

    def is_met(self):
        return self.median() <= self.bound if self.at_most else self.median() >= self.bound

    def to_json(self):
        return {**dataclasses.asdict(self), "median": self.median(), "met": self.is_met()}

    @classmethod
    def from_json(cls, entry):
        known = {field.name: entry[field.name] for field in dataclasses.fields(cls) if field.name in entry}
        # Comparisons before have none.
        known["profiles"] = [Profile(**profile) for profile in entry.get("profiles", [])]
        known["watches"] = [Watch(**watch) for watch in entry.get("watches", [])]
        known["moments"] = [Moments.from_json(moments) for moments in entry.get("moments", [])]
        return cls(**known)


# From this share of the time on in which a hypervisor let the machine wait, latencies are said to be of that, too.
STOLEN = 0.005


def ops(run):
    return run.figures["ops_per_second"]


def cpu(run):
    """Microseconds of the server's CPU time for an operation."""
    return run.figures["server_cpu"]["micros_per_operation"]


def items_per_cpu_second(run):
    """Rows that were read, or points that were written, in a second of the server's CPU time."""
    return run.figures["items_per_operation"] * 1e6 / cpu(run)


def latency(name):
    """A percentile in milliseconds."""
    return lambda run: run.figures["latency"][name] / 1000


def memory(run):
    return run.figures["memory_mib"]


def by_round(runs, server, metric):
    """What each round of a server came to."""
    return {run.round: metric(run) for run in runs if run.server == server}


def ratios(runs, above, below, metric):
    """The ratio of two servers in each round that both had: they are measured within the same minutes."""
    of_above, of_below = by_round(runs, above, metric), by_round(runs, below, metric)
    both = sorted(of_above.keys() & of_below.keys())
    return [of_above[turn] / of_below[turn] for turn in both if of_below[turn]]
