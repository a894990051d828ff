"""How fast a core is from second to second, for the scripts beside this file."""
import contextlib
import time

from meanwhile import each

# A fifth of a millisecond, so often (in seconds): a 5,000th of the core's time.
STEPS = 10_000
PAUSE = 1.0


@contextlib.contextmanager
def watched(cores):
    """Has one of these cores do the same work again and again meanwhile. What it gives has, of each time, when that was in
    seconds since 1970, and the CPU time that it took, in seconds; nothing without cores to look at. On a virtual machine the
    other half of a core is somebody else's: if that has to do, what takes 0.15 ms of CPU takes 0.27."""
    paces = []

    def look():
        # What it needs is in the core's caches then.
        work(STEPS // 10)
        paces.append((time.time(), work(STEPS)))

    with each(PAUSE, look, {min(cores)}) if cores else contextlib.nullcontext():
        yield paces


def work(steps):
    """The CPU time of so many steps, in seconds: to wait for the core is no part of it."""
    begun = time.thread_time()
    for _ in range(steps):
        pass
    return time.thread_time() - begun
