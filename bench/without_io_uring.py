#!/usr/bin/env python3
"""Becomes a command that the kernel gives no io_uring, as the default seccomp profiles of containers do:

    bench/without_io_uring.py helenus start --data DIR
"""
import ctypes
import os
import struct
import sys

# prctl(2), seccomp(2)
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO = 0x7FFF0000, 0x00050000
EPERM = 1
# bpf(4): load a word of what the kernel gives; jump if equal; return.
LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
# io_uring_setup, io_uring_enter, io_uring_register: the same numbers on all architectures.
REFUSED = (425, 426, 427)


def refuse():
    """From now on for this process and what it becomes."""
    code = [(LOAD, 0, 0, 0)]
    for place, number in enumerate(REFUSED):
        # To the last line, which refuses.
        code.append((JUMP_IF_EQUAL, len(REFUSED) - place, 0, number))
    code += [(RETURN, 0, 0, SECCOMP_RET_ALLOW), (RETURN, 0, 0, SECCOMP_RET_ERRNO | EPERM)]
    lines = b"".join(struct.pack("HBBI", *line) for line in code)
    buffer = ctypes.create_string_buffer(lines)
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code), ctypes.addressof(buffer)))
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in ((PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0)):
        if libc.prctl(*arguments):
            sys.exit(f"error: no filter can be set: {os.strerror(ctypes.get_errno())}")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    refuse()
    os.execvp(sys.argv[1], sys.argv[1:])
