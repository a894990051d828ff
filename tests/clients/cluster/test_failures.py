"""Nodes die and restart under load, and clients do not notice."""

from conftest import is_up, until
from load import TABLE, Load, NextHost

REPLICATED = {"class": "NetworkTopologyStrategy", "datacenter1": 3}


def test_death_of_each_node_gives_no_error(nodes, keyspace):
    session = keyspace("death", REPLICATED, TABLE, retry_policy=NextHost())
    load = Load(session)
    with load:
        for victim in nodes.nodes:
            load.await_more(300)
            victim.kill()
            load.await_more(300)
            until(lambda: not is_up(session, victim.address), "the driver knows that the node is down")
            # The others are back before the rest of the cluster has noticed.
            if victim is nodes.nodes[0]:
                nodes.await_down(victim)
            load.await_more(300)
            victim.start()
            nodes.await_up()
            until(lambda: is_up(session, victim.address), "the driver knows that the node is up")
            load.await_more(100, victim.address)
    load.check_all()


def test_rolling_restart_gives_no_error(nodes, keyspace):
    session = keyspace("rolling", REPLICATED, TABLE)
    load = Load(session)
    with load:
        for node in nodes.nodes:
            load.await_more(300)
            node.stop()
            load.await_more(300)
            node.start()
            nodes.await_up()
            until(lambda: is_up(session, node.address), "the driver knows that the node is up")
            load.await_more(100, node.address)
    load.check_all()


def test_restart_at_once_gives_no_error(nodes, keyspace):
    session = keyspace("quick", REPLICATED, TABLE)
    load = Load(session)
    with load:
        for node in nodes.nodes:
            load.await_more(100)
            node.restart()
            nodes.await_up()
            load.await_more(100, node.address)
    load.check_all()
