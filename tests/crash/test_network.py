"""The network of namespaces does to packets what it says."""

import os
import pathlib
import subprocess
import sys
import time

import pytest
from harness import network

PACKETS, PORT = 300, 4000
# What a machine under load may need to run a process, or to pass a packet on.
SLOW = 30.0

# Prints of each packet that arrives its number and how long it took; the clock is the same in all namespaces.
RECEIVE = f"""
import socket, struct, sys, time
with socket.socket(type=socket.SOCK_DGRAM) as receiver:
    receiver.bind((sys.argv[1], {PORT}))
    print("ready", flush=True)
    receiver.settimeout({SLOW})
    while (packet := receiver.recv(100)) != b"end":
        number, sent = struct.unpack("<id", packet)
        print(number, time.monotonic() - sent)
"""

SEND = f"""
import socket, struct, sys, time
with socket.socket(type=socket.SOCK_DGRAM) as sender:
    for number in range({PACKETS}):
        sender.sendto(struct.pack("<id", number, time.monotonic()), (sys.argv[1], {PORT}))
        time.sleep(0.001)
"""

END = f"""
import socket, sys
socket.socket(type=socket.SOCK_DGRAM).sendto(b"end", (sys.argv[1], {PORT}))
"""


def arrivals(net: network.Network, source: int, target: int, before_end=lambda: None) -> list[tuple[int, float]]:
    """What of a row of packets arrives, in that order: numbers and seconds. All trouble is over by `before_end`."""
    address = net.addresses[target]
    receiver = subprocess.Popen([*net.inside(target), sys.executable, "-c", RECEIVE, address], stdout=subprocess.PIPE, text=True)
    assert receiver.stdout.readline() == "ready\n"
    subprocess.run([*net.inside(source), sys.executable, "-c", SEND, address], check=True)
    time.sleep(0.5)
    before_end()
    subprocess.run([*net.inside(source), sys.executable, "-c", END, address], check=True)
    text, _ = receiver.communicate(timeout=SLOW)
    assert receiver.returncode == 0
    return [(int(number), float(took)) for number, took in map(str.split, text.splitlines())]


def check_whole(net: network.Network):
    assert [number for number, _ in arrivals(net, 0, 1)] == list(range(PACKETS))


def check_cut_one_way(net: network.Network):
    rules = net.cut([(0, 1)])
    assert len(arrivals(net, 1, 0)) == PACKETS
    assert len(arrivals(net, 0, 2)) == PACKETS
    assert arrivals(net, 0, 1, lambda: net.heal(rules)) == []
    check_whole(net)


def check_loss(net: network.Network):
    rules = net.trouble([(0, 1)], 0.3, (0.0, 0.0))
    # 210 of them on average; the deviation is 8.
    assert PACKETS / 2 < len(arrivals(net, 0, 1, lambda: net.heal(rules))) < PACKETS * 0.9
    check_whole(net)


def check_delay(net: network.Network):
    rules = net.trouble([(0, 1)], 0.0, (0.05, 0.15))
    seen = arrivals(net, 0, 1, lambda: net.heal(rules))
    assert sorted(number for number, _ in seen) == list(range(PACKETS))
    assert min(took for _, took in seen) >= 0.05
    assert [number for number, _ in seen] != list(range(PACKETS)), "none overtook another"
    check_whole(net)


@pytest.mark.parametrize("check", [check_whole, check_cut_one_way, check_loss, check_delay])
def test_network(check):
    if reason := network.why_not():
        # As for crash.cluster itself: what the machine forbids nobody can change, what is missing can be installed.
        assert os.environ.get("CI") != "true" or not reason.startswith("no "), reason
        pytest.skip(reason)
    command = [*network.unshare(), sys.executable, "-m", "crash.test_network", check.__name__]
    tests = pathlib.Path(__file__).parents[1]
    done = subprocess.run(command, env={**os.environ, network.ENTERED: "1", "PYTHONPATH": str(tests)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def main():
    net = network.Network(3)
    try:
        if net.no_relay is None or sys.argv[1] not in ("check_loss", "check_delay"):
            globals()[sys.argv[1]](net)
    finally:
        net.close()


if __name__ == "__main__":
    main()
