"""Idle cores that do not halt, for the scripts beside this file."""
import os
import struct


class Awake:
    """Keeps the cores awake until it is ended. To wake a core that has halted is the hypervisor's work on a virtual
    machine: 20 µs here, now and then milliseconds, on both sides of each request that comes alone, which would all
    count as the server's. What is asked for is what tuned's profile `latency-performance` asks for, and any user
    may who is root: Documentation/power/pm_qos_interface.rst of Linux."""

    def __init__(self):
        """Raises OSError without the right to ask for it."""
        self.asked = os.open("/dev/cpu_dma_latency", os.O_WRONLY)
        # Microseconds that a wake-up may take. It holds as long as the file is open.
        os.write(self.asked, struct.pack("i", 0))

    def end(self):
        os.close(self.asked)
