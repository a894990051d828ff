"""Shard-aware drivers reach the shard of a row: Helenus has shards, Cassandra has none."""

from test_restart import wait_for


def test_one_connection_to_each_shard(app, server, is_helenus):
    if not is_helenus:
        assert not app.cluster.is_shard_aware()
        return
    assert app.cluster.is_shard_aware()
    def complete():
        statistics = app.cluster.shard_aware_stats()
        return [s for s in statistics.values() if s["shards_count"] == s["connected"] == server.shards]

    wait_for(complete)
    pool = next(iter(app.session._pools.values()))
    assert sorted(pool._connections) == list(range(server.shards))
    assert pool.host.sharding_info.sharding_algorithm == "biased-token-round-robin"


def test_requests_go_to_the_shard_of_their_key(app, is_helenus):
    if not is_helenus:
        return
    app.table("sharded", "k int PRIMARY KEY, v int")
    insert = app.session.prepare("INSERT INTO sharded (k, v) VALUES (?, ?)")
    for k in range(200):
        app.execute(insert, (k, k))
    assert app.execute("SELECT count(*) FROM sharded").one()[0] == 200
