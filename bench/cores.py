"""Who has cores meanwhile, by `perf sched`: what there is to say of latency, which mostly is no work but waiting."""
import collections
import re

from measurements import Watch
from perf import NoProfile, beside, made_of

# Who has a core for so many milliseconds at a time lets others wait that long.
LONG = 1.0
# A second of a busy server is some 25,000 changes of who has a core, which are 2 MB.
SECONDS = 4
# Until then the client connects.
FIRST_MILLIS = 1500
# What watches, and who does nothing.
LEFT_OUT = {"perf", "perf-exec", "sleep", "<idle>"}

# A line of `perf sched timehist`: when it lost the core, which one, whose thread, and in milliseconds how long it had slept,
# had waited for the core, and had it. A process is behind the thread's number if it is another one.
LINE = re.compile(r"\s*([\d.]+)\s+\[\d+\]\s+(.+?)\[(\d+)(?:/(\d+))?\]\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)\s*$")


def watched(file):
    """Notes who has which core for some seconds of what is done meanwhile."""
    seconds = FIRST_MILLIS / 1000 + SECONDS
    return beside(file, ["sched", "record", "--quiet", "--all-cpus", "--delay", str(FIRST_MILLIS), "--output", str(file),
                         "--", "sleep", str(seconds)])


def read(file, server, pids, client):
    """What was noted while a server of these processes was asked by a client of this name."""
    return made_of(file, ["sched", "timehist"], lambda told: watch_of(told, server, pids, client))


def watch_of(told, server, pids, client):
    """What `perf sched timehist` told."""
    turns = [found for found in map(LINE.match, told.splitlines()) if found]
    if not turns:
        raise NoProfile("perf noted no change of who has a core")
    times = [float(turn[1]) for turn in turns]
    seconds = max(times) - min(times)
    clients = {int(turn[4] or turn[3]) for turn in turns if turn[2] == client[:15]}
    waits, others = [], collections.defaultdict(list)
    for turn in turns:
        name, process = turn[2], int(turn[4] or turn[3])
        waited, had = float(turn[6]), float(turn[7])
        if process in pids:
            waits.append(waited)
        elif process not in clients and name not in LEFT_OUT and had >= LONG:
            others[name].append(had)
    if not seconds or not waits:
        raise NoProfile("perf noted nothing of the server")
    found = sorted(others.items(), key=lambda other: -sum(other[1]))
    return Watch(server, seconds, sum(waits) / seconds, max(waits),
                 [(name, len(times) / seconds, max(times), sum(times) / seconds) for name, times in found])
