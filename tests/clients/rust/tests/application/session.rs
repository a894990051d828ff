//! A session with the server of the environment, and the shortest ways to ask it something.

use std::time::Duration;

use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;

/// A variable that the harness sets.
pub fn variable(name: &str) -> String {
    std::env::var(name)
        .unwrap_or_else(|_| panic!("{name} is not set: run this through the harness"))
}

/// How to connect.
pub fn builder() -> SessionBuilder {
    SessionBuilder::new()
        .known_node(format!(
            "{}:{}",
            variable("CQL_ADDRESS"),
            variable("CQL_PORT")
        ))
        .connection_timeout(Duration::from_secs(20))
}

/// Runs a statement that must succeed.
pub async fn exec(session: &Session, query: &str) {
    session
        .query_unpaged(query, ())
        .await
        .unwrap_or_else(|error| panic!("{query}: {error}"));
}

/// The rows of a query.
pub async fn rows<R>(session: &Session, query: &str) -> Vec<R>
where
    R: for<'f, 'm> scylla::deserialize::row::DeserializeRow<'f, 'm>,
{
    let result = session
        .query_unpaged(query, ())
        .await
        .unwrap_or_else(|error| panic!("{query}: {error}"));
    let result = result.into_rows_result().expect("rows");
    result
        .rows::<R>()
        .expect("types of the columns")
        .map(|row| row.expect("a row"))
        .collect()
}

/// The only column of the only row.
pub async fn one<V>(session: &Session, query: &str) -> V
where
    V: for<'f, 'm> scylla::deserialize::value::DeserializeValue<'f, 'm>,
{
    let mut all = rows::<(V,)>(session, query).await;
    assert_eq!(all.len(), 1, "{query}");
    all.remove(0).0
}

/// Waits until the condition holds.
pub async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    for _ in 0..600 {
        if condition().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("after 60 s: {what}");
}
