"""Drives for what is compared: one that is made of memory, and what the one under a folder does. For the
scripts beside this file."""
import mmap
import os
import pathlib
import subprocess
import time

from servers import fail
from setting import Setting


class MemoryDrive:
    """A drive whose sectors are in memory: a file of a tmpfs as a loop device, with ext4 on it. For
    machines whose own drive answers now in 50 µs and now in 100 ms, as those of clouds do. It is
    allocated whole at the start, so that no server's cgroup pays for it."""

    def __init__(self, folder, size):
        self.size, self.folder = size, folder / "drive"
        self.backing, self.mounted, self.device = folder / "memory", [], None
        for made in (self.backing, self.folder):
            made.mkdir(parents=True, exist_ok=True)
        image = self.backing / "image"
        try:
            # The file system of the tmpfs itself needs a little.
            self.mount("-t", "tmpfs", "-o", f"size={size + (size >> 6)}", "tmpfs", self.backing)
            command("fallocate", "--length", size, image)
            self.device = command("losetup", "--find", "--show", image)
            # Without nodiscard it would give the memory back.
            command("mkfs.ext4", "-q", "-E", "nodiscard", self.device)
            self.mount(self.device, self.folder)
        except (OSError, subprocess.CalledProcessError) as error:
            self.remove()
            fail(f"--memory-drive needs {size >> 20} MiB of free memory and the right to mount: {error}")

    def mount(self, *arguments):
        command("mount", *arguments)
        self.mounted.append(arguments[-1])

    def remove(self):
        for folder in reversed(self.mounted):
            if folder == self.backing and self.device:
                subprocess.run(["losetup", "--detach", self.device], check=False)
            subprocess.run(["umount", str(folder)], check=False)


def command(*words):
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip()


class Drive:
    """The drive under a folder: how long it takes to read, and what the kernel reads of it beyond
    what a mapped page needs. Cassandra maps its data, and with more than a few KiB a read of one row
    costs it megabytes: its own startup checks ask for 8 KiB or less on a drive of flash. The drive
    is as it was afterwards."""

    def __init__(self, folder, kib):
        device = os.stat(folder).st_dev
        block = pathlib.Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve()
        # A partition has the queue of its drive.
        folders = [block / "queue", block.parent / "queue"]
        self.folder = folder
        self.file = next((f / "read_ahead_kb" for f in folders if f.is_dir()), None)
        self.read_ahead, self.note = Setting(self.file), None
        try:
            self.read_ahead.change(str(kib), lambda before, wanted: int(before) <= int(wanted))
        except (OSError, AttributeError, ValueError) as error:
            self.note = (f"the drive's read-ahead could not be set to {kib} KiB ({error}); with more "
                         "than that Cassandra reads too much for each row")

    def reads(self):
        """How many reads the drive has done, and the milliseconds that they took together."""
        if not self.file:
            return 0, 0
        fields = self.counts()
        return fields[0], fields[3]

    def work(self):
        """How many writes the drive has done, the milliseconds that they took together, how much it has done in all, and has
        still to do."""
        if not self.file:
            return 0, 0, 0, 0
        fields = self.counts()
        return fields[4], fields[7], fields[0] + fields[4], fields[8]

    def counts(self):
        """As in Documentation/block/stat.rst."""
        return [int(field) for field in (self.file.parent.parent / "stat").read_text().split()]

    def synced_writes(self, seconds):
        """Writes 8 KiB after 8 KiB, each until the drive has it, over what was written before and past the page cache, as a
        commit log does. The seconds that each took."""
        length, size = 8 << 10, 32 << 20
        # Anonymous memory is aligned to pages.
        block = mmap.mmap(-1, length)
        block.write(os.urandom(length))
        path, took = self.folder / "synced", []
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_DIRECT | os.O_DSYNC)
        try:
            for place in range(0, size, length):
                os.pwrite(file, block, place)
            end = time.monotonic() + seconds
            while (begun := time.monotonic()) < end:
                os.pwrite(file, block, len(took) * length % size)
                took.append(time.monotonic() - begun)
        finally:
            os.close(file)
            path.unlink()
        return took
