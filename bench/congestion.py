"""How TCP of the machine holds back, for the scripts beside this file."""
import pathlib

CONTROL = pathlib.Path("/proc/sys/net/ipv4/tcp_congestion_control")


class Congestion:
    """The congestion control of connections that are made from here on, of servers and client alike; the machine has its own
    back afterwards. Some clouds' machines come with BBR, which guesses how much the way between two processes holds: there are
    seconds in which it lets answers wait for 20 to 36 ms on a machine that is otherwise the same (docs/performance.md), and that
    would count as the server's. Where it may not be set it stays as it is, and `note` says so."""

    def __init__(self, wanted, control=CONTROL):
        self.control, self.before, self.note = control, None, None
        try:
            before = control.read_text().strip()
            if before != wanted:
                control.write_text(wanted)
                self.before = before
        except OSError as error:
            self.note = (f"the congestion control of TCP is {self.name()} and could not be set to {wanted} ({error}); what is "
                         "said of latency is of that, too")

    def name(self):
        try:
            return self.control.read_text().strip()
        except OSError:
            return "unknown"

    def restore(self):
        if self.before:
            self.control.write_text(self.before)
