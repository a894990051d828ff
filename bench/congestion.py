"""How TCP of the machine holds back, for the scripts beside this file."""
import pathlib

from setting import Setting

CONTROL = pathlib.Path("/proc/sys/net/ipv4/tcp_congestion_control")


class Congestion(Setting):
    """The congestion control of connections that are made from here on, of servers and client alike; the machine has its own
    back afterwards. Some clouds' machines come with BBR, which guesses how much the way between two processes holds: there are
    seconds in which it lets answers wait for 20 to 36 ms on a machine that is otherwise the same (docs/performance.md), and that
    would count as the server's. Where it may not be set it stays as it is, and `note` says so."""

    def __init__(self, wanted, control=CONTROL):
        super().__init__(control)
        self.note = None
        try:
            self.change(wanted)
        except OSError as error:
            self.note = (f"the congestion control of TCP is {self.value()} and could not be set to {wanted} ({error}); what is "
                         "said of latency is of that, too")
