"""Cgroups, of version 1 or 2, for the scripts beside this file."""
import os
import pathlib
import time


def limit_cores(group, unified, cores, period):
    """`cores` of them, as a number that may be less than one, in each `period` of so many microseconds."""
    quota = int(cores * period)
    if unified:
        (group / "cpu.max").write_text(f"{quota} {period}")
    else:
        (group / "cpu.cfs_period_us").write_text(str(period))
        (group / "cpu.cfs_quota_us").write_text(str(quota))


class Cgroup:
    """A group of processes that together may have no more of something than was set."""

    def __init__(self, controller, name, set_limits, legacy=None):
        """`legacy` is what version 1 calls the controller, if that is another name; `set_limits` is called with the
        group's folder and whether it is of version 2. Raises OSError without the right to make a group, or without
        the controller."""
        unified = pathlib.Path("/sys/fs/cgroup/cgroup.controllers").exists()
        root = pathlib.Path("/sys/fs/cgroup" if unified else f"/sys/fs/cgroup/{legacy or controller}")
        if unified:
            (root / "cgroup.subtree_control").write_text(f"+{controller}")
        self.folder = root / f"helenus-{os.getpid()}-{name.lower()}-{controller}"
        self.folder.mkdir()
        try:
            set_limits(self.folder, unified)
        except OSError:
            self.remove()
            raise

    def enter(self, pid=None):
        """Makes a process a member, by default the one that calls it."""
        (self.folder / "cgroup.procs").write_text(str(pid or os.getpid()))

    def leave(self, pid):
        """A process that is a member is one of the group above again."""
        (self.folder.parent / "cgroup.procs").write_text(str(pid))

    def remove(self):
        """When its processes have ended; whether it is gone."""
        for _ in range(50):
            try:
                self.folder.rmdir()
                return True
            except OSError:
                time.sleep(0.1)
        return False
