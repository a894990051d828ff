"""Requests go to replicas: what the driver knows of tokens is what the nodes know."""

from cassandra import ConsistencyLevel

REQUESTS = 300


def test_each_request_is_coordinated_by_the_only_replica(nodes, keyspace):
    session = keyspace("single", {"class": "SimpleStrategy", "replication_factor": 1}, "t (k text PRIMARY KEY, v int)")
    statements = [session.prepare("INSERT INTO t (k, v) VALUES (?, ?)"), session.prepare("SELECT v FROM t WHERE k = ?")]
    coordinators = {}
    for n in range(REQUESTS):
        key = f"key {n}"
        for statement, values in zip(statements, [(key, n), (key,)]):
            bound = statement.bind(values)
            bound.consistency_level = ConsistencyLevel.ONE
            (replica,) = session.cluster.metadata.get_replicas("single", bound.routing_key)
            future = session.execute_async(bound)
            rows = list(future.result())
            assert future.coordinator_host == replica, key
        assert rows[0].v == n
        coordinators[key] = replica.address
    assert set(coordinators.values()) == set(nodes.addresses)
    for n, key in enumerate(list(coordinators)[:: REQUESTS // 12]):
        said = nodes.nodes[n % 3].nodetool("getendpoints", "single", "t", key).split()
        assert said == [coordinators[key]], key


def test_replicas_of_a_data_center(nodes, keyspace):
    for copies in (3, 2):
        name = f"copies{copies}"
        session = keyspace(name, {"class": "NetworkTopologyStrategy", "datacenter1": copies}, "t (k text PRIMARY KEY, v int)")
        insert = session.prepare("INSERT INTO t (k, v) VALUES (?, ?)")
        for n in range(REQUESTS):
            bound = insert.bind((f"key {n}", n))
            replicas = {host.address for host in session.cluster.metadata.get_replicas(name, bound.routing_key)}
            future = session.execute_async(bound)
            future.result()
            assert len(replicas) == copies and future.coordinator_host.address in replicas
            if n % (REQUESTS // 6) == 0:
                assert set(nodes.nodes[n % 3].nodetool("getendpoints", name, "t", f"key {n}").split()) == replicas
