"""A limit of what processes may read from and write to a drive, kept by the kernel: direct I/O of each
process in the cgroup, reads and writes each for themselves. For the scripts beside this file."""
import argparse
import os
import pathlib
import re
import time


def limit_of(text):
    """MBPS,IOPS, as an argument."""
    found = re.fullmatch(r"(\d+),(\d+)", text)
    if not found or "0" in found.groups():
        raise argparse.ArgumentTypeError(f"{text} is no limit; give MB and operations a second, as 125,3000")
    return int(found[1]), int(found[2])


class DriveLimit:
    """A cgroup, of version 1 or 2, whose processes together may move so many MB, and do so many
    operations, a second on the drive under a folder."""

    def __init__(self, name, folder, limit):
        """Raises OSError without the right to make it, or without the controller."""
        megabytes, operations = limit
        self.drive = drive_of(folder)
        unified = pathlib.Path("/sys/fs/cgroup/cgroup.controllers").exists()
        root = pathlib.Path("/sys/fs/cgroup" if unified else "/sys/fs/cgroup/blkio")
        self.folder = root / f"helenus-{os.getpid()}-{name.lower()}-drive"
        if unified:
            (root / "cgroup.subtree_control").write_text("+io")
        self.folder.mkdir()
        try:
            self.set(unified, megabytes * 1_000_000, operations)
        except OSError:
            self.remove()
            raise

    def set(self, unified, size, operations):
        if unified:
            line = f"{self.drive} rbps={size} wbps={size} riops={operations} wiops={operations}"
            (self.folder / "io.max").write_text(line)
            return
        for way in ("read", "write"):
            for unit, value in (("bps", size), ("iops", operations)):
                file = self.folder / f"blkio.throttle.{way}_{unit}_device"
                file.write_text(f"{self.drive} {value}")

    def enter(self):
        """Makes the process that calls it a member."""
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def remove(self):
        """When its processes have ended."""
        for _ in range(50):
            try:
                return self.folder.rmdir()
            except OSError:
                time.sleep(0.1)


def drive_of(folder):
    """The numbers of the whole drive: a partition cannot be limited."""
    device = os.stat(folder).st_dev
    block = pathlib.Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve()
    if (block / "partition").exists():
        block = block.parent
    return (block / "dev").read_text().strip()
