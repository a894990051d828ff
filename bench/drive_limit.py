"""A limit of what processes may read from and write to a drive, kept by the kernel: direct I/O of each
process in the cgroup, reads and writes each for themselves. For the scripts beside this file."""
import argparse
import os
import pathlib
import re

from cgroup import Cgroup


def limit_of(text):
    """MBPS,IOPS, as an argument."""
    found = re.fullmatch(r"(\d+),(\d+)", text)
    if not found or "0" in found.groups():
        raise argparse.ArgumentTypeError(f"{text} is no limit; give MB and operations a second, as 125,3000")
    return int(found[1]), int(found[2])


def drive_limit(name, folder, limit):
    """A cgroup whose processes together may move so many MB, and do so many operations, a second on the drive
    under a folder. Raises OSError as Cgroup does."""
    megabytes, operations = limit
    drive, size = drive_of(folder), megabytes * 1_000_000

    def set_limits(group, unified):
        if unified:
            line = f"{drive} rbps={size} wbps={size} riops={operations} wiops={operations}"
            (group / "io.max").write_text(line)
            return
        for way in ("read", "write"):
            for unit, value in (("bps", size), ("iops", operations)):
                (group / f"blkio.throttle.{way}_{unit}_device").write_text(f"{drive} {value}")

    return Cgroup("io", name, set_limits, legacy="blkio")


def drive_of(folder):
    """The numbers of the whole drive: a partition cannot be limited."""
    device = os.stat(folder).st_dev
    block = pathlib.Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve()
    if (block / "partition").exists():
        block = block.parent
    return (block / "dev").read_text().strip()
