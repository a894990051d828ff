"""A setting of the kernel, for the scripts beside this file."""


class Setting:
    """A file of the kernel whose value is changed for a time: it has its own back afterwards."""

    def __init__(self, file):
        """`None` is a file that there is not."""
        self.file, self.before = file, None

    def value(self):
        """What it is now."""
        try:
            return self.file.read_text().strip() if self.file else "unknown"
        except OSError:
            return "unknown"

    def change(self, wanted, unless=str.__eq__):
        """Changes it, unless what it is will do: by itself, only what is the same. Raises OSError where it may not."""
        before = self.file.read_text().strip()
        if not unless(before, wanted):
            self.file.write_text(wanted)
            self.before = before

    def restore(self):
        if self.before:
            self.file.write_text(self.before)
