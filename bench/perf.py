"""How `perf` is run, and read, for the scripts beside this file."""
import contextlib
import shutil
import signal
import subprocess

# Seconds that `perf` may take to write what it has, and to read it.
PATIENCE = 60


class NoProfile(Exception):
    """Why there is none."""


@contextlib.contextmanager
def beside(file, arguments, cores=None):
    """Has `perf`, told so, write to that file what it notes meanwhile, from these cores if some are given."""
    if not shutil.which("perf"):
        raise NoProfile("there is no perf: make perf")
    command = [*(["taskset", "-c", cores] if cores else []), "perf", *arguments]
    running = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        yield
    finally:
        running.send_signal(signal.SIGINT)
        try:
            _, said = running.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            running.kill()
            _, said = running.communicate()
    if not file.exists() or not file.stat().st_size:
        raise NoProfile(in_a_line(file, said.decode(errors="replace")) or "perf wrote nothing")


def made_of(file, arguments, make):
    """What `make` makes of what `perf`, told so, says of that file."""
    try:
        told = subprocess.run(["perf", *arguments, "--input", str(file)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, errors="replace", timeout=PATIENCE)
    except subprocess.TimeoutExpired as expired:
        raise NoProfile(f"perf {arguments[0]} took more than {PATIENCE} s") from expired
    try:
        return make(told.stdout)
    except NoProfile as error:
        raise NoProfile(f"{error}. {in_a_line(file, told.stderr)}".strip()) from error


def in_a_line(file, said):
    """What `perf` said, for a report: that is kept, and read where there is no such folder."""
    return " ".join(said.replace(str(file), file.name).split())
