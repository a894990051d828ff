"""python -m harness.relay

Makes a device (TUN) that gives back what is sent into it: some of it not at all, the rest late. Prints the
device's name, then obeys lines of JSON: {"loss": 0.1, "delay": [0.01, 0.1]} (part of all packets; seconds).
Ends with its input. See `network`.
"""

import fcntl
import heapq
import json
import os
import random
import select
import struct
import time

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
NAME = "relay0"
# As many packets may wait; a router has no more room for them either.
ROOM = 20_000


def main():
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", NAME.encode(), IFF_TUN | IFF_NO_PI))
    print(NAME, flush=True)
    loss, delay = 0.0, (0.0, 0.0)
    waiting, number = [], 0
    while True:
        pause = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        ready, _, _ = select.select([device, 0], [], [], pause)
        if 0 in ready:
            # A line is far shorter than what a pipe takes at once, so lines are whole here.
            lines = os.read(0, 4096).splitlines()
            if not lines:
                return
            wanted = json.loads(lines[-1])
            loss, delay = wanted["loss"], wanted["delay"]
        now = time.monotonic()
        if device in ready:
            for packet in packets(device):
                if random.random() >= loss and len(waiting) < ROOM:
                    number += 1
                    heapq.heappush(waiting, (now + random.uniform(*delay), number, packet))
        while waiting and waiting[0][0] <= now:
            try:
                os.write(device, heapq.heappop(waiting)[2])
            except OSError:
                # Nobody can be reached by it any more: lost, as all others may be.
                pass


def packets(device: int):
    """What there is to read, but not without end."""
    for _ in range(64):
        try:
            yield os.read(device, 65536)
        except BlockingIOError:
            return


if __name__ == "__main__":
    main()
