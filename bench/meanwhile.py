"""What is done again and again beside something else, for the scripts beside this file."""
import contextlib
import os
import threading


@contextlib.contextmanager
def each(seconds, act, cores=()):
    """Calls `act` so often meanwhile, in a thread of its own, on these cores if some are given."""
    ended = threading.Event()

    def again():
        if cores:
            # Of this thread.
            os.sched_setaffinity(0, cores)
        while not ended.wait(seconds):
            act()

    thread = threading.Thread(target=again, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
