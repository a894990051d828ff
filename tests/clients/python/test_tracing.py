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


def activities(app, statement, values=None):
    trace = app.execute(statement, values, trace=True).get_query_trace(max_wait_sec=10)
    assert {str(event.source) for event in trace.events} == {app.cluster.contact_points[0]}
    return [event.description for event in trace.events]


def test_activities_have_cassandras_words(traced):
    read = "SELECT v FROM traced WHERE k = 1"
    assert activities(traced, "INSERT INTO traced (k, v) VALUES (1, 'one')") == [
        "Parsing INSERT INTO traced (k, v) VALUES (1, 'one')",
        "Preparing statement",
        "Determining replicas for mutation",
        "Appending to commitlog",
        "Adding to traced memtable",
    ]
    assert activities(traced, read) == [
        f"Parsing {read}",
        "Preparing statement",
        "Executing single-partition query on traced",
        "Acquiring sstable references",
        "Merging memtable contents",
        "Read 1 live rows and 0 tombstone cells",
    ]
    scan = activities(traced, "SELECT v FROM traced")
    assert "Computing ranges to query" in scan
    assert any(activity.startswith("Executing seq scan across ") for activity in scan), scan
    conditional = activities(traced, "UPDATE traced SET v = 'two' WHERE k = 1 IF v = 'one'")
    assert conditional[-1] == "CAS applied successfully"
    assert_agreed(conditional[2:-1])
    traced.execute("DELETE v FROM traced WHERE k = 1")
    assert activities(traced, read)[-1] == "Read 1 live rows and 1 tombstone cells"


def assert_agreed(events):
    """One round, whose ballot all of its steps name."""
    ballot = next(event for event in events if event.startswith("Preparing ")).removeprefix("Preparing ")
    assert uuid.UUID(ballot).version == 1
    steps = [
        "Reading existing values for CAS precondition",
        f"Promising ballot {ballot}",
        f"CAS precondition is met; proposing client-requested updates for {ballot}",
        f"Accepting proposal {ballot}",
        f"Committing proposal {ballot}",
        "Appending to commitlog",
        "Adding to traced memtable",
    ]
    assert [event for event in events if event in steps] == steps, events


def test_truncating_is_told(traced):
    assert activities(traced, "TRUNCATE traced")[2:] == [f"Applying truncation of {traced.keyspace}.traced"]


def test_an_index_is_named(traced):
    traced.execute("CREATE INDEX traced_v ON traced (v)")
    read = activities(traced, "SELECT k FROM traced WHERE v = 'nothing'")
    assert any(activity.startswith("Index mean cardinalities are traced_v:") for activity in read), read
    assert any(activity.endswith("using index traced_v") for activity in read), read


def test_parameters_are_those_of_the_request(traced):
    insert = traced.session.prepare("INSERT INTO traced (k, v) VALUES (?, ?)")
    trace = traced.execute(insert, (7, "seven"), trace=True).get_query_trace(max_wait_sec=10)
    assert dict(trace.parameters) == {
        "query": "INSERT INTO traced (k, v) VALUES (?, ?)",
        "consistency_level": "LOCAL_ONE",
        "serial_consistency_level": "SERIAL",
        "page_size": "5000",
        "bound_var_0_k": "7",
        "bound_var_1_v": "'seven'",
    }


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
