"""How the client has its turns, for the scripts beside this file."""
import ctypes
import os
import struct

# sched_setattr(2) and sched_getattr(2) by machine: Python has no functions for them.
SET, GET = 0, 1
NUMBERS = {"x86_64": (314, 315), "aarch64": (274, 275)}
# struct sched_attr as it was at first: size, policy, flags, nice, priority, runtime (the slice), deadline, period.
ATTRIBUTES = struct.Struct("=IIQiIQQQ")
RUNTIME = 5
SYSTEM = ctypes.CDLL(None)
# How many times as long as others' the client's slice is.
LONGER = 16


def give_way():
    """Gives the calling process, and all that it makes, a longer slice than others have. Then what wakes on its processor has
    its turn at once (`PREEMPT_SHORT` of Linux 6.12): the kernel's workers that end a write, where the drive's interrupt comes
    to the client's core. They would wait until the client has used up its slice, up to 4 ms for each step of a write, which
    would count as the server's. To be called between fork and exec. Where the kernel knows no slices of single threads, or
    does not allow it, nothing is changed."""
    attributes = list(turns() or ())
    if attributes and attributes[RUNTIME]:
        attributes[RUNTIME] *= LONGER
        system_call(SET, ATTRIBUTES.pack(*attributes), 0)


def turns():
    """The attributes of the calling thread, if one may know them. Its slice is in nanoseconds, 0 where the kernel knows none
    of single threads."""
    known = ctypes.create_string_buffer(ATTRIBUTES.size)
    return ATTRIBUTES.unpack(known.raw) if system_call(GET, known, ATTRIBUTES.size, 0) else None


def system_call(which, *arguments):
    """Calls it for the calling thread. Could it be done?"""
    numbers = NUMBERS.get(os.uname().machine)
    return bool(numbers) and SYSTEM.syscall(numbers[which], 0, *arguments) == 0
