//! Whatever is put, the cache stays within its memory and gives back what was put there.

use std::collections::BTreeMap;

use bytes::Bytes;
use model::{Cell, Clustering, DecoratedKey, DeletionTime, Liveness, NO_DELETION_TIME, NO_TTL};
use proptest::prelude::*;

use super::*;

const SHARED: usize = 64 << 10;
const COLUMN: ColumnId = ColumnId(2);

fn cache() -> RowCache {
    RowCache::new(SHARED, ChunkCache::new(SHARED), 17)
}

fn key(number: u32) -> DecoratedKey {
    DecoratedKey::new(Bytes::copy_from_slice(&number.to_be_bytes()))
}

fn clustering(values: &[&'static [u8]]) -> Clustering {
    Clustering(values.iter().map(|v| Bytes::from_static(v)).collect())
}

fn row(clustering: Clustering, timestamp: i64, length: usize) -> Row {
    let mut row = Row::new(clustering);
    row.liveness.timestamp = timestamp;
    row.cells.push(Cell {
        column: COLUMN,
        path: None,
        timestamp,
        ttl: NO_TTL,
        local_deletion_time: NO_DELETION_TIME,
        value: Bytes::from(vec![length as u8; length]),
    });
    row
}

/// Puts a row, if it is not too large.
fn put(cache: &RowCache, (table, key): (u64, &DecoratedKey), row: &Row, covers: u64) -> bool {
    let of = (row, DeletionTime::LIVE);
    let place = PlaceOf {
        table,
        key,
        clustering: &row.clustering,
    };
    let cached = CachedRow::new(cache, place, of, &[COLUMN], covers, 0);
    let fits = cached.is_some();
    if let Some(cached) = cached {
        cache.put(place, cached);
    }
    fits
}

fn get(cache: &RowCache, table: u64, key: &DecoratedKey, clustering: &Clustering) -> Option<Row> {
    let place = PlaceOf {
        table,
        key,
        clustering,
    };
    cache.get(place, |cached| cached.row.unpack())
}

/// Rows and chunks together never have more than they share.
fn check_bounds(cache: &RowCache) -> Result<(), TestCaseError> {
    let stats = cache.stats();
    prop_assert!(stats.size <= stats.capacity, "{stats:?}");
    let chunks = cache.chunks.stats().capacity;
    prop_assert!(stats.size + chunks <= SHARED, "{stats:?} and {chunks}");
    prop_assert!(chunks >= SHARED / 4, "{chunks}");
    Ok(())
}

#[derive(Clone, Debug)]
enum Step {
    Put {
        table: u64,
        key: u32,
        length: usize,
        covers: u64,
    },
    Get {
        table: u64,
        key: u32,
    },
    Remove {
        table: u64,
        key: u32,
    },
    Chunk(usize),
    Forget,
}

fn step() -> impl Strategy<Value = Step> {
    let place = || (1u64..3, 0u32..200);
    prop_oneof![
        60 => (place(), 0usize..2000, 1u64..9).prop_map(|((table, key), length, covers)| {
            Step::Put { table, key, length, covers }
        }),
        60 => place().prop_map(|(table, key)| Step::Get { table, key }),
        10 => place().prop_map(|(table, key)| Step::Remove { table, key }),
        20 => (0usize..8000).prop_map(Step::Chunk),
        1 => Just(Step::Forget),
    ]
}

proptest! {
    #[test]
    fn it_gives_back_what_was_put_within_its_memory(
        steps in prop::collection::vec(step(), 1..800),
    ) {
        let cache = cache();
        let mut model: BTreeMap<(u64, u32), (u64, Row)> = BTreeMap::new();
        for (at, step) in steps.into_iter().enumerate() {
            match step {
                Step::Put { table, key: number, length, covers } => {
                    let row = row(Clustering::EMPTY, at as i64, length);
                    let fits = put(&cache, (table, &key(number)), &row, covers);
                    prop_assert_eq!(fits, length + 4 <= cache.largest());
                    // Whether a row of before is still there, only the cache knows.
                    let known = model.get(&(table, number));
                    let found = get(&cache, table, &key(number), &Clustering::EMPTY);
                    let is_later = known.is_none_or(|(before, _)| *before <= covers);
                    if fits && (is_later || found.as_ref() == Some(&row)) {
                        model.insert((table, number), (covers, row));
                    }
                }
                Step::Get { table, key: number } => {
                    let found = get(&cache, table, &key(number), &Clustering::EMPTY);
                    if let Some(found) = found {
                        prop_assert_eq!(Some(&found), model.get(&(table, number)).map(|m| &m.1));
                    }
                }
                Step::Remove { table, key: number } => {
                    let (key, clustering) = (key(number), Clustering::EMPTY);
                    cache.remove(PlaceOf { table, key: &key, clustering: &clustering });
                    model.remove(&(table, number));
                }
                Step::Chunk(length) => {
                    cache.chunks.insert(1, at as u64, Bytes::from(vec![0; length]));
                }
                Step::Forget => {
                    cache.forget_all().drops().for_each(drop);
                    model.clear();
                    prop_assert_eq!(cache.stats().entries, 0);
                }
            }
            check_bounds(&cache)?;
        }
    }
}

#[test]
fn many_parts_are_one_cache() {
    let shared = 64 << 20;
    let cache = RowCache::new(shared, ChunkCache::new(shared), 7);
    let row = row(Clustering::EMPTY, 1, 100);
    let rows = 0..10_000u32;
    for number in rows.clone() {
        assert!(put(&cache, (1, &key(number)), &row, 1));
    }
    let stats = cache.stats();
    assert_eq!(stats.entries, rows.len());
    assert!(stats.size >= rows.len() * 100 && stats.size <= stats.capacity);
    let found = |number: &u32| get(&cache, 1, &key(*number), &Clustering::EMPTY).is_some();
    assert_eq!(rows.clone().filter(found).count(), rows.len());
    // With little room most go, of all parts alike, and what slots take stays.
    cache.set_shared(shared / 32);
    let left = rows.clone().filter(found).count();
    assert!((500..5_000).contains(&left), "{left} are left");
    assert!(cache.stats().size <= cache.stats().capacity);
    assert_eq!(cache.forget_all().drops().count(), left);
    assert_eq!((cache.stats().entries, rows.filter(found).count()), (0, 0));
}

#[test]
fn rows_that_are_read_again_stay_when_many_pass_by() {
    let cache = cache();
    let hot = 0..20u32;
    let row = row(Clustering::EMPTY, 1, 100);
    let mut found = 0;
    for passing in 0..20_000u32 {
        put(&cache, (1, &key(1000 + passing)), &row, 1);
        let number = passing % hot.end;
        match get(&cache, 1, &key(number), &Clustering::EMPTY) {
            Some(_) => found += 1,
            None => drop(put(&cache, (1, &key(number)), &row, 1)),
        }
    }
    assert!(found > 19_500, "{found} of 20000");
    check_bounds(&cache).expect("it is within its memory");
    let stats = cache.stats();
    assert!(
        stats.size > stats.capacity / 4 * 3,
        "it uses its memory: {stats:?}"
    );
}

#[test]
fn places_do_not_mix() {
    let cache = cache();
    let key = |bytes: &'static [u8]| DecoratedKey::new(Bytes::from_static(bytes));
    // The last three are the same bytes, cut in other places.
    let places: [(&'static [u8], &[&'static [u8]]); 6] = [
        (b"k", &[]),
        (b"k", &[b"ab"]),
        (b"k", &[b"a", b"b"]),
        (b"k", &[b"", b"ab"]),
        (b"k\0\0\0\x02ab", &[]),
        (b"k\0\0\0\x01a", &[b"b"]),
    ];
    for (at, (bytes, values)) in places.iter().enumerate() {
        put(
            &cache,
            (1, &key(bytes)),
            &row(clustering(values), at as i64, at),
            1,
        );
    }
    for (at, (bytes, values)) in places.iter().enumerate() {
        let clustering = clustering(values);
        let found = get(&cache, 1, &key(bytes), &clustering);
        assert_eq!(found, Some(row(clustering.clone(), at as i64, at)));
        assert_eq!(get(&cache, 2, &key(bytes), &clustering), None);
    }
    assert_eq!(get(&cache, 1, &key(b"k"), &clustering(&[b"abc"])), None);
}

#[test]
fn a_row_is_used_as_long_as_none_of_its_deletions_may_be_purged() {
    let until = |row: &Row, around: DeletionTime| {
        let place = PlaceOf {
            table: 1,
            key: &key(1),
            clustering: &row.clustering,
        };
        let cached = CachedRow::new(&cache(), place, (row, around), &[COLUMN], 1, 50);
        cached.expect("it is small").until
    };
    let live = row(Clustering::EMPTY, 1, 1);
    assert_eq!(until(&live, DeletionTime::LIVE), u32::MAX);
    let deletion = DeletionTime {
        timestamp: 1,
        local_deletion_time: 1000,
    };
    assert_eq!(until(&live, deletion), 1050);
    let mut deleted = live.clone();
    deleted.deletion = deletion;
    assert_eq!(until(&deleted, DeletionTime::LIVE), 1050);
    let mut tombstone = live.clone();
    tombstone.cells[0].local_deletion_time = 900;
    assert_eq!(until(&tombstone, deletion), 950);
    // Written at 870, with 30 seconds to live: a tombstone of 870 once it has expired.
    tombstone.cells[0].ttl = 30;
    assert_eq!(until(&tombstone, deletion), 920);
    tombstone.cells[0].ttl = 100;
    assert_eq!(
        until(&tombstone, deletion),
        900,
        "not before it has expired"
    );
    let mut marked = live;
    marked.liveness = Liveness {
        timestamp: 1,
        ttl: 30,
        expires_at: 900,
    };
    assert_eq!(until(&marked, DeletionTime::LIVE), 920);
}
