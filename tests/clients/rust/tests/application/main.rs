//! The scenario of ../README.md over the Rust scylla driver (protocol v4), which is shard-aware.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream;
use scylla::client::Compression;
use scylla::client::session::Session;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};
use scylla::response::{PagingState, PagingStateResponse};
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::unprepared::Statement;
use scylla::value::{MaybeUnset, Row};

mod session;
mod types;

use session::{builder, eventually, exec, one, rows, variable};
use types::{collections, native_types};

const KEYSPACE: &str = "rust_v4";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn application() {
    let session = builder().build().await.expect("a session");
    exec(&session, &format!("DROP KEYSPACE IF EXISTS {KEYSPACE}")).await;
    exec(
        &session,
        &format!("CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"),
    )
    .await;
    session
        .use_keyspace(KEYSPACE, false)
        .await
        .expect("the keyspace");

    native_types(&session).await;
    collections(&session).await;
    rows_statics_deletes(&session).await;
    prepared_values(&session).await;
    prepared_after_alter(&session).await;
    time(&session).await;
    batches(&session).await;
    paging(&session).await;
    errors(&session).await;
    schema_events(&session).await;
    compression().await;
    shards(&session).await;
    restart(&session).await;
    exec(&session, &format!("DROP KEYSPACE {KEYSPACE}")).await;
}

async fn rows_statics_deletes(session: &Session) {
    exec(
        session,
        "CREATE TABLE songs (bard text, album int, track int, title text, genre text static, \
         PRIMARY KEY ((bard, album), track)) WITH CLUSTERING ORDER BY (track DESC)",
    )
    .await;
    let insert = session
        .prepare("INSERT INTO songs (bard, album, track, title) VALUES (?, ?, ?, ?)")
        .await
        .expect("prepared");
    for track in 0..10 {
        session
            .execute_unpaged(&insert, ("a", 1, track, "t"))
            .await
            .expect("written");
    }
    exec(
        session,
        "UPDATE songs SET genre = 'epic' WHERE bard = 'a' AND album = 1",
    )
    .await;
    exec(
        session,
        "DELETE FROM songs WHERE bard = 'a' AND album = 1 AND track > 7",
    )
    .await;
    exec(
        session,
        "DELETE FROM songs WHERE bard = 'a' AND album = 1 AND track = 3",
    )
    .await;
    exec(
        session,
        "DELETE title FROM songs WHERE bard = 'a' AND album = 1 AND track = 4",
    )
    .await;
    let got = rows::<(i32, Option<String>, String)>(
        session,
        "SELECT track, title, genre FROM songs WHERE bard = 'a' AND album = 1",
    )
    .await;
    assert_eq!(
        got.iter().map(|row| row.0).collect::<Vec<_>>(),
        [7, 6, 5, 4, 2, 1, 0]
    );
    assert_eq!(got[3], (4, None, "epic".to_owned()));
    assert_eq!(
        one::<i64>(
            session,
            "SELECT count(*) FROM songs WHERE bard = 'a' AND album = 1"
        )
        .await,
        7
    );
}

async fn prepared_values(session: &Session) {
    exec(
        session,
        "CREATE TABLE prepared (k int PRIMARY KEY, a text, b int)",
    )
    .await;
    let insert = session
        .prepare("INSERT INTO prepared (k, a, b) VALUES (:key, :first, :second)")
        .await
        .expect("prepared");
    let named: BTreeMap<&str, i32> = BTreeMap::from([("key", 1), ("b", 3)]);
    let by_name = session
        .prepare("INSERT INTO prepared (k, b) VALUES (:key, :b)")
        .await
        .expect("prepared");
    session
        .execute_unpaged(&by_name, named)
        .await
        .expect("named values");
    session
        .execute_unpaged(&insert, (1, "kept", 3))
        .await
        .expect("written");
    session
        .execute_unpaged(&insert, (1, MaybeUnset::<&str>::Unset, 4))
        .await
        .expect("unset");
    assert_eq!(
        rows::<(String, i32)>(session, "SELECT a, b FROM prepared").await,
        [("kept".to_owned(), 4)]
    );
    session
        .execute_unpaged(&insert, (1, None::<&str>, 5))
        .await
        .expect("null");
    assert_eq!(
        rows::<(Option<String>, i32)>(session, "SELECT a, b FROM prepared").await,
        [(None, 5)]
    );
}

async fn prepared_after_alter(session: &Session) {
    exec(session, "CREATE TABLE altered (k int PRIMARY KEY, a int)").await;
    let insert = session
        .prepare("INSERT INTO altered (k, a) VALUES (?, ?)")
        .await
        .expect("prepared");
    session
        .execute_unpaged(&insert, (1, 10))
        .await
        .expect("written");
    exec(session, "ALTER TABLE altered ADD b text").await;
    session
        .execute_unpaged(&insert, (2, 20))
        .await
        .expect("written after ALTER");
    exec(session, "UPDATE altered SET b = 'new' WHERE k = 2").await;
    assert_eq!(
        rows::<(i32, String)>(session, "SELECT a, b FROM altered WHERE k = 2").await,
        [(20, "new".to_owned())]
    );
}

async fn time(session: &Session) {
    exec(session, "CREATE TABLE timed (k int PRIMARY KEY, v int)").await;
    exec(
        session,
        "INSERT INTO timed (k, v) VALUES (1, 1) USING TTL 2",
    )
    .await;
    exec(
        session,
        "INSERT INTO timed (k, v) VALUES (2, 10) USING TIMESTAMP 1000",
    )
    .await;
    exec(
        session,
        "INSERT INTO timed (k, v) VALUES (2, 9) USING TIMESTAMP 999",
    )
    .await;
    let mut statement = Statement::new("INSERT INTO timed (k, v) VALUES (3, 1)");
    statement.set_timestamp(Some(4242));
    session.query_unpaged(statement, ()).await.expect("written");
    assert_eq!(
        rows::<(i32, i64)>(session, "SELECT v, writetime(v) FROM timed WHERE k = 2").await,
        [(10, 1000)]
    );
    assert_eq!(
        one::<i64>(session, "SELECT writetime(v) FROM timed WHERE k = 3").await,
        4242
    );
    assert!((1..=2).contains(&one::<i32>(session, "SELECT ttl(v) FROM timed WHERE k = 1").await));
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(
        rows::<Row>(session, "SELECT v FROM timed WHERE k = 1")
            .await
            .is_empty()
    );
}

async fn batches(session: &Session) {
    exec(
        session,
        "CREATE TABLE batched (k int, c int, v text, PRIMARY KEY (k, c))",
    )
    .await;
    let insert = session
        .prepare("INSERT INTO batched (k, c, v) VALUES (?, ?, 'v')")
        .await
        .expect("prepared");
    for (k, kind) in [(0, BatchType::Logged), (1, BatchType::Unlogged)] {
        let mut batch = Batch::new(kind);
        batch.set_timestamp(Some(50));
        for _ in 0..20 {
            batch.append_statement(insert.clone());
        }
        let values: Vec<(i32, i32)> = (0..20).map(|c| (k, c)).collect();
        session.batch(&batch, values).await.expect("the batch");
        let times = rows::<(i64,)>(
            session,
            &format!("SELECT writetime(v) FROM batched WHERE k = {k}"),
        )
        .await;
        assert_eq!(times, vec![(50,); 20]);
    }
}

async fn paging(session: &Session) {
    exec(
        session,
        "CREATE TABLE wide (k int, c int, v text, PRIMARY KEY (k, c))",
    )
    .await;
    let insert = session
        .prepare("INSERT INTO wide (k, c, v) VALUES (1, ?, 'value')")
        .await
        .expect("prepared");
    stream::iter(0..10_000)
        .for_each_concurrent(200, |c| {
            let insert = &insert;
            async move {
                session
                    .execute_unpaged(insert, (c,))
                    .await
                    .expect("written");
            }
        })
        .await;
    let mut select = session
        .prepare("SELECT c FROM wide WHERE k = 1")
        .await
        .expect("prepared");
    select.set_page_size(777);
    let stream = session
        .execute_iter(select.clone(), ())
        .await
        .expect("pages")
        .rows_stream::<(i32,)>()
        .expect("types");
    let all: Vec<i32> = stream.map(|row| row.expect("a row").0).collect().await;
    assert!(all.iter().copied().eq(0..10_000));

    let (mut state, mut count, mut pages) = (PagingState::start(), 0, 0);
    loop {
        let (page, next) = session
            .execute_single_page(&select, (), state)
            .await
            .expect("a page");
        count += page.into_rows_result().expect("rows").rows_num();
        pages += 1;
        match next {
            PagingStateResponse::HasMorePages { state: next } => state = next,
            PagingStateResponse::NoMorePages => break,
        }
    }
    assert_eq!((count, pages), (10_000, 13));
}

async fn errors(session: &Session) {
    exec(session, "CREATE TABLE twice (k int PRIMARY KEY)").await;
    let cases = [
        ("SELEC", 0x2000),
        ("SELECT * FROM missing", 0x2200),
        ("SELECT nope FROM system.local", 0x2200),
        ("CREATE TABLE twice (k int PRIMARY KEY)", 0x2400),
        (
            "CREATE KEYSPACE x WITH replication = {'class': 'Nowhere'}",
            0x2300,
        ),
    ];
    for (query, code) in cases {
        match session.query_unpaged(query, ()).await {
            Err(ExecutionError::LastAttemptError(RequestAttemptError::DbError(error, _))) => {
                assert_eq!(error.code(&Default::default()), code, "{query}");
                if code == 0x2400 {
                    let exists = DbError::AlreadyExists {
                        keyspace: KEYSPACE.into(),
                        table: "twice".into(),
                    };
                    assert_eq!(error, exists);
                }
            }
            other => panic!("{query}: {other:?}"),
        }
    }
}

async fn schema_events(session: &Session) {
    let other = builder()
        .use_keyspace(KEYSPACE, false)
        .build()
        .await
        .expect("another session");
    exec(&other, "CREATE TABLE events (k int PRIMARY KEY)").await;
    let seen = async || {
        session.refresh_metadata().await.expect("metadata");
        let state = session.get_cluster_state();
        state
            .get_keyspace(KEYSPACE)
            .is_some_and(|keyspace| keyspace.tables.contains_key("events"))
    };
    eventually("the table is seen", seen).await;
    exec(&other, "DROP TABLE events").await;
    eventually("the table is gone", async || !seen().await).await;
    session.await_schema_agreement().await.expect("agreement");
    let state = session.get_cluster_state();
    assert_eq!(state.get_nodes_info().len(), 1);
    let place = &state
        .get_keyspace(KEYSPACE)
        .expect("the keyspace")
        .user_defined_types["place"];
    assert_eq!(
        place
            .field_types
            .iter()
            .map(|(name, _)| &**name)
            .collect::<Vec<_>>(),
        ["street", "zip", "tags"]
    );
}

async fn compression() {
    for (k, algorithm) in [(1, Compression::Lz4), (2, Compression::Snappy)] {
        let session = builder()
            .compression(Some(algorithm))
            .use_keyspace(KEYSPACE, false)
            .build()
            .await
            .expect("compressed");
        exec(
            &session,
            "CREATE TABLE IF NOT EXISTS squeezed (k int PRIMARY KEY, v text)",
        )
        .await;
        let text = "ab".repeat(150_000);
        session
            .query_unpaged("INSERT INTO squeezed (k, v) VALUES (?, ?)", (k, &text))
            .await
            .expect("written");
        assert!(
            one::<String>(&session, &format!("SELECT v FROM squeezed WHERE k = {k}")).await == text
        );
    }
}

/// The driver finds Helenus's shards in SUPPORTED and sends each key to its own; Cassandra has none.
async fn shards(session: &Session) {
    let state = session.get_cluster_state();
    let sharder = state.get_nodes_info()[0].sharder();
    if variable("CQL_SERVER") != "helenus" {
        assert!(sharder.is_none());
        return;
    }
    let sharder = sharder.expect("the server says how it is sharded");
    assert_eq!(sharder.msb_ignore, 12);
    exec(session, "CREATE TABLE sharded (k int PRIMARY KEY, v int)").await;
    let insert = Arc::new(
        session
            .prepare("INSERT INTO sharded (k, v) VALUES (?, ?)")
            .await
            .expect("prepared"),
    );
    let mut reached = BTreeSet::new();
    for k in 0..200 {
        session
            .execute_unpaged(&insert, (k, k))
            .await
            .expect("written");
        let token = insert
            .calculate_token(&(k, k))
            .expect("a key")
            .expect("a token");
        reached.insert(sharder.shard_of(token));
    }
    assert_eq!(reached.len(), usize::from(sharder.nr_shards.get()));
    assert_eq!(
        one::<i64>(session, "SELECT count(*) FROM sharded").await,
        200
    );
}

async fn restart(session: &Session) {
    exec(session, "CREATE TABLE lasting (k int PRIMARY KEY, v text)").await;
    let insert = session
        .prepare("INSERT INTO lasting (k, v) VALUES (?, ?)")
        .await
        .expect("prepared");
    let select = session
        .prepare("SELECT v FROM lasting WHERE k = ?")
        .await
        .expect("prepared");
    for k in 0..300 {
        session
            .execute_unpaged(&insert, (k, format!("before {k}")))
            .await
            .expect("written");
    }
    let status = tokio::process::Command::new("sh")
        .args(["-c", &variable("CQL_RESTART")])
        .status()
        .await;
    assert!(
        status.expect("the harness").success(),
        "the server did not restart"
    );
    eventually("a row is read again", async || {
        session.execute_unpaged(&select, (1,)).await.is_ok()
    })
    .await;
    for k in 0..300 {
        let result = session
            .execute_unpaged(&select, (k,))
            .await
            .expect("read")
            .into_rows_result()
            .expect("rows");
        assert_eq!(
            result.single_row::<(String,)>().expect("a row").0,
            format!("before {k}")
        );
    }
    session
        .execute_unpaged(&insert, (1, "after"))
        .await
        .expect("written again");
    assert_eq!(
        one::<String>(session, "SELECT v FROM lasting WHERE k = 1").await,
        "after"
    );
}
