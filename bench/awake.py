"""Idle cores that do not halt, for the scripts beside this file."""
import contextlib
import os
import struct


@contextlib.contextmanager
def awake():
    """Keeps the cores awake meanwhile. To wake a core that has halted is the hypervisor's work on a virtual machine:
    20 µs here, now and then milliseconds, on both sides of each request that comes alone, which would all count as the
    server's. What is asked for is what tuned's profile `latency-performance` asks for, and any user may who is root:
    Documentation/power/pm_qos_interface.rst of Linux. Raises OSError without the right to ask for it."""
    asked = os.open("/dev/cpu_dma_latency", os.O_WRONLY)
    try:
        # Microseconds that a wake-up may take. It holds as long as the file is open.
        os.write(asked, struct.pack("i", 0))
        yield
    finally:
        os.close(asked)
