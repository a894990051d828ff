//! Every type is written and read back.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use bigdecimal::BigDecimal;
use num_bigint::BigInt;
use scylla::client::session::Session;
use scylla::value::{CqlDate, CqlDuration, CqlTime, CqlTimestamp, CqlTimeuuid};
use scylla::{DeserializeValue, SerializeValue};
use uuid::Uuid;

use crate::session::{exec, one, rows};

/// Writes the value and null into a table of that type, and reads both back.
async fn round_trip<V>(session: &Session, name: &str, value: V)
where
    V: scylla::serialize::value::SerializeValue + PartialEq + std::fmt::Debug,
    V: for<'f, 'm> scylla::deserialize::value::DeserializeValue<'f, 'm>,
{
    exec(
        session,
        &format!("CREATE TABLE native_{name} (k int PRIMARY KEY, v {name})"),
    )
    .await;
    let insert = session
        .prepare(format!("INSERT INTO native_{name} (k, v) VALUES (?, ?)"))
        .await
        .expect("prepared");
    session
        .execute_unpaged(&insert, (1, &value))
        .await
        .expect("written");
    let select = format!("SELECT v FROM native_{name} WHERE k = 1");
    assert_eq!(one::<V>(session, &select).await, value, "{name}");
    session
        .execute_unpaged(&insert, (1, None::<V>))
        .await
        .expect("null written");
    assert_eq!(one::<Option<V>>(session, &select).await, None, "{name}");
}

/// A column of every native type but counter.
pub async fn native_types(session: &Session) {
    round_trip(session, "ascii", "abc".to_owned()).await;
    round_trip(session, "bigint", i64::MIN).await;
    round_trip(session, "blob", vec![0_u8, 255]).await;
    round_trip(session, "boolean", true).await;
    round_trip(session, "date", CqlDate((1 << 31) + 20_778)).await;
    round_trip(
        session,
        "decimal",
        "-12.345".parse::<BigDecimal>().expect("a number"),
    )
    .await;
    round_trip(session, "double", 5e-324_f64).await;
    round_trip(
        session,
        "duration",
        CqlDuration {
            months: 14,
            days: 3,
            nanoseconds: 5,
        },
    )
    .await;
    round_trip(session, "float", -2.5_f32).await;
    round_trip(
        session,
        "inet",
        "2001:db8::1".parse::<IpAddr>().expect("an address"),
    )
    .await;
    round_trip(session, "int", i32::MAX).await;
    round_trip(session, "smallint", i16::MIN).await;
    round_trip(session, "text", "μῆνιν 🐍".to_owned()).await;
    round_trip(session, "time", CqlTime(86_399_999_999_999)).await;
    round_trip(session, "timestamp", CqlTimestamp(-1)).await;
    let timeuuid = "9ff6b340-c6a1-11f0-8de9-0242ac120002"
        .parse::<CqlTimeuuid>()
        .expect("a uuid");
    round_trip(session, "timeuuid", timeuuid).await;
    round_trip(session, "tinyint", -7_i8).await;
    round_trip(session, "uuid", Uuid::new_v4()).await;
    round_trip(session, "varint", BigInt::from(-1) << 200).await;
}

#[derive(Debug, Clone, PartialEq, SerializeValue, DeserializeValue)]
struct Place {
    street: String,
    zip: Option<i32>,
    tags: Vec<String>,
}

/// Collections, tuples and user types, frozen and not.
pub async fn collections(session: &Session) {
    exec(
        session,
        "CREATE TYPE place (street text, zip int, tags frozen<set<text>>)",
    )
    .await;
    exec(
        session,
        "CREATE TABLE gathered (id int PRIMARY KEY, l list<int>, s set<text>, m map<text, int>, \
         fl frozen<list<text>>, t tuple<int, text>, p place, fp frozen<place>)",
    )
    .await;
    let hill = Place {
        street: "Hill".into(),
        zip: Some(7),
        tags: vec!["a".into(), "b".into()],
    };
    let insert = session
        .prepare("INSERT INTO gathered (id, l, s, m, fl, t, p, fp) VALUES (1, ?, ?, ?, ?, ?, ?, ?)")
        .await
        .expect("prepared");
    let entries = BTreeMap::from([("k".to_owned(), 1)]);
    let values = (
        vec![3, 1, 3],
        vec!["x", "y"],
        &entries,
        Vec::<String>::new(),
        (1, None::<String>),
        hill.clone(),
        hill.clone(),
    );
    session
        .execute_unpaged(&insert, values)
        .await
        .expect("written");
    type Gathered = (
        Vec<i32>,
        BTreeSet<String>,
        BTreeMap<String, i32>,
        Vec<String>,
        (i32, Option<String>),
        Place,
        Place,
    );
    let got = rows::<Gathered>(
        session,
        "SELECT l, s, m, fl, t, p, fp FROM gathered WHERE id = 1",
    )
    .await
    .remove(0);
    let set = BTreeSet::from(["x".to_owned(), "y".to_owned()]);
    assert_eq!(
        got,
        (
            vec![3, 1, 3],
            set,
            entries,
            vec![],
            (1, None),
            hill.clone(),
            hill
        )
    );

    exec(
        session,
        "UPDATE gathered SET l = l + [9], s = s - {'x'}, m['z'] = 26, p.zip = null WHERE id = 1",
    )
    .await;
    exec(session, "DELETE m['k'], l[0] FROM gathered WHERE id = 1").await;
    type Changed = (Vec<i32>, Vec<String>, BTreeMap<String, i32>, Place);
    let (l, s, m, p) = rows::<Changed>(session, "SELECT l, s, m, p FROM gathered WHERE id = 1")
        .await
        .remove(0);
    assert_eq!((l, s), (vec![1, 3, 9], vec!["y".to_owned()]));
    assert_eq!((m, p.zip), (BTreeMap::from([("z".to_owned(), 26)]), None));
}
