"""Who has cores meanwhile, by `perf sched`: what there is to say of latency, which mostly is no work but waiting."""
import collections
import contextlib
import re
import shutil
import signal
import subprocess

from measurements import Watch
from profiles import PATIENCE, NoProfile

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


@contextlib.contextmanager
def watched(file):
    """Notes who has which core for some seconds of what is done meanwhile."""
    if not shutil.which("perf"):
        raise NoProfile("there is no perf: make perf")
    running = subprocess.Popen(["perf", "sched", "record", "--quiet", "--all-cpus", "--delay", str(FIRST_MILLIS),
                                "--output", str(file), "--", "sleep", str(FIRST_MILLIS / 1000 + SECONDS)],
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        yield
    finally:
        running.send_signal(signal.SIGINT)
        try:
            _, said = running.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            running.kill()
            _, said = running.communicate()
    if not file.exists():
        raise NoProfile(" ".join(said.decode(errors="replace").split()) or "perf wrote nothing")


def read(file, server, pids, client):
    """What was noted while a server of these processes was asked by a client of this name."""
    command = ["perf", "sched", "timehist", "--input", str(file)]
    try:
        told = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, errors="replace", timeout=PATIENCE)
    except subprocess.TimeoutExpired as expired:
        raise NoProfile(f"perf sched timehist took more than {PATIENCE} s") from expired
    try:
        return watch_of(told.stdout, server, pids, client)
    except NoProfile as error:
        raise NoProfile(" ".join([f"{error}.", *told.stderr.split()])) from error


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
