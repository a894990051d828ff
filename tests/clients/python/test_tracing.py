"""A request with `trace=True`: the response carries an id, and `system_traces` what was done."""

import uuid

import pytest
from cassandra import ConsistencyLevel, InvalidRequest
from cassandra.query import BatchStatement, SimpleStatement


@pytest.fixture
def traced(app):
    app.table("traced", "k int PRIMARY KEY, v text")
    return app


def test_a_query_is_traced(traced):
    traced.execute("INSERT INTO traced (k, v) VALUES (1, 'one')")
    result = traced.execute("SELECT v FROM traced WHERE k = 1", trace=True)
    assert [row.v for row in result] == ["one"]
    trace = result.get_query_trace(max_wait_sec=10)
    assert trace.request_type == "Execute CQL3 query"
    assert trace.parameters["query"] == "SELECT v FROM traced WHERE k = 1"
    assert trace.parameters["consistency_level"] == "LOCAL_ONE"
    assert trace.duration.total_seconds() < 5
    assert trace.started_at is not None
    assert str(trace.coordinator) == traced.cluster.contact_points[0]
    activities = [event.description for event in trace.events]
    assert any(activity.startswith("Parsing SELECT") for activity in activities), activities
    assert any("single-partition query on traced" in activity for activity in activities), activities
    elapsed = [event.source_elapsed for event in trace.events]
    assert elapsed == sorted(elapsed)


def test_prepared_statements_and_batches_are_traced(traced):
    insert = traced.session.prepare("INSERT INTO traced (k, v) VALUES (?, ?)")
    trace = traced.execute(insert, (2, "two"), trace=True).get_query_trace(max_wait_sec=10)
    assert trace.request_type == "Execute CQL3 prepared query"
    assert (trace.parameters["bound_var_0_k"], trace.parameters["bound_var_1_v"]) == ("2", "'two'")
    trace = traced.execute(insert, (2, None), trace=True).get_query_trace(max_wait_sec=10)
    assert trace.parameters["bound_var_1_v"] == "null"
    trace = traced.execute(insert, (2, "v" * 2000), trace=True).get_query_trace(max_wait_sec=10)
    assert trace.parameters["bound_var_1_v"] == "'" + "v" * 999 + "...'"
    batch = BatchStatement()
    batch.add(insert, (3, "three"))
    batch.add(insert, (4, "four"))
    trace = traced.execute(batch, trace=True).get_query_trace(max_wait_sec=10)
    assert trace.request_type == "Execute batch of CQL3 queries"
    assert trace.events


def test_the_serial_level_is_traced(traced):
    for level, name in [(None, "SERIAL"), (ConsistencyLevel.LOCAL_SERIAL, "LOCAL_SERIAL")]:
        statement = SimpleStatement("INSERT INTO traced (k) VALUES (5) IF NOT EXISTS", serial_consistency_level=level)
        trace = traced.execute(statement, trace=True).get_query_trace(max_wait_sec=10)
        assert trace.parameters["serial_consistency_level"] == name


def test_a_session_row_has_a_time_to_live(traced):
    result = traced.execute("SELECT v FROM traced WHERE k = 1", trace=True)
    trace = result.get_query_trace(max_wait_sec=10)
    rows = traced.execute("SELECT ttl(duration) AS t FROM system_traces.sessions WHERE session_id = %s", (trace.trace_id,))
    assert 86000 < rows.one().t <= 86400


def test_untraced_requests_have_no_trace_and_errors_may_have(traced):
    assert traced.execute("SELECT v FROM traced").get_query_trace() is None
    with pytest.raises(InvalidRequest):
        traced.execute("SELECT nothing FROM traced", trace=True)
    assert traced.execute("SELECT session_id FROM system_traces.sessions WHERE session_id = %s", (uuid.uuid4(),)).one() is None
