//! What is shown without a read, where it lies: in a memtable, in the cache, or in both.

use super::*;

/// Takes steps, and says what `look` sees of a row and all columns of one cell.
fn after<T: Send + 'static>(
    steps: Vec<Step>,
    look: impl FnOnce(&Env, &Store, &ReadCommand) -> T + Send + 'static,
) -> T {
    let folder = TempDir::new();
    let dir = folder.0.clone();
    run(move |env| async move {
        let table = table_with(false);
        let store = open(&env, dir, &table).await;
        store.set_auto_compaction(table.id, false);
        let asked = command(&table, 0, &[V, W], FAR);
        let mut flushes = Vec::new();
        for step in steps {
            match step {
                Step::Write(writes, timestamp) => {
                    let updates = vec![update(&table, &writes, timestamp)];
                    store.apply(Mutation { updates }).await.expect("taken");
                }
                Step::WriteElsewhere => {
                    let updates = vec![elsewhere(&table)];
                    store.apply(Mutation { updates }).await.expect("taken");
                }
                Step::Flush => store.flush(None).await.expect("it can be flushed"),
                Step::WriteBesideFlush(writes, timestamp) => {
                    flushes.push(begin_flush(&env, &store));
                    env.yield_now().await;
                    if writes.is_empty() {
                        continue;
                    }
                    // No waiting, or the flush is over.
                    let active = store.inner.table(table.id).expect("it is there").active();
                    active.apply(update(&table, &writes, timestamp), &table, None);
                }
                Step::Compact => store.compact(table.id).await.expect("it can be compacted"),
                _ => drop(store.read(&asked).await.expect("it can be read")),
            }
        }
        let seen = look(&env, &store, &asked);
        for flush in flushes {
            flush.await;
        }
        seen
    })
}

/// A row that is written, flushed, and asked for twice, so that the cache has it; and then this.
fn cached_and(writes: &[Write], timestamp: i64, then: impl IntoIterator<Item = Step>) -> Vec<Step> {
    let read = || Step::Read(0, Vec::new(), 0);
    let cached = [
        Step::Write(writes.to_vec(), timestamp),
        Step::Flush,
        read(),
        read(),
    ];
    cached.into_iter().chain(then).collect()
}

/// The first row, shown with these values: each byte so many times as it says.
fn shown(values: &[(ColumnId, u8)]) -> Option<Values> {
    let value = |byte: u8| Bytes::from(vec![byte; usize::from(byte)]);
    let values = values.iter().map(|(column, byte)| (*column, value(*byte)));
    Some(Some((vec![int(0)], values.collect())))
}

fn cell(column: ColumnId, byte: u16) -> Vec<Write> {
    vec![Write::Cell(0, column, Some((byte, 0)))]
}

/// Whether a row is shown without a read after steps.
fn is_plain_after(steps: Vec<Step>) -> Option<Values> {
    after(steps, |env, store, asked| shown_plain(env, store, asked, 0))
}

#[test]
fn plain_rows_are_shown_where_they_lie() {
    let write = |writes: Vec<Write>, timestamp| Step::Write(writes, timestamp);
    let read = || Step::Read(0, Vec::new(), 0);
    let whole = || vec![Write::Marker(0, 0), Write::Cell(0, V, Some((3, 0)))];
    let shown = Some((vec![int(0)], vec![(V, Bytes::from_static(&[3; 3]))]));
    let cases = [
        (vec![], Some(None)),
        (vec![write(whole(), 1)], Some(shown.clone())),
        // Another row of the partition.
        (vec![write(vec![Write::Marker(1, 0)], 1)], Some(None)),
        // An sstable has it, and the cache does once it was asked for twice.
        (vec![write(whole(), 1), Step::Flush], None),
        (cached_and(&whole(), 1, []), Some(shown.clone())),
        // Whatever is flushed then, unless it may be of its partition.
        (
            cached_and(&whole(), 1, [Step::WriteElsewhere, Step::Flush]),
            Some(shown.clone()),
        ),
        (
            cached_and(
                &whole(),
                1,
                [Step::WriteElsewhere, Step::WriteBesideFlush(vec![], 2)],
            ),
            Some(shown.clone()),
        ),
        (
            cached_and(
                &whole(),
                1,
                [write(vec![Write::Marker(1, 0)], 2), Step::Flush],
            ),
            None,
        ),
        // Or compacted with it.
        (
            cached_and(
                &whole(),
                1,
                [Step::WriteElsewhere, Step::Flush, Step::Compact],
            ),
            Some(shown.clone()),
        ),
        (
            cached_and(
                &whole(),
                1,
                [
                    write(vec![Write::Marker(1, 0)], 2),
                    Step::Flush,
                    Step::WriteElsewhere,
                    Step::Flush,
                    Step::Compact,
                ],
            ),
            None,
        ),
        // Or it was asked for twice while it was in the memtable, and that had all of it.
        (vec![write(whole(), 1), read(), Step::Flush], None),
        (
            vec![write(whole(), 1), read(), read(), Step::Flush],
            Some(shown),
        ),
        (
            vec![
                write(vec![Write::Cell(0, W, Some((2, 0)))], 1),
                Step::Flush,
                write(whole(), 2),
                Step::Flush,
            ],
            None,
        ),
        // A memtable knows something around it.
        (
            vec![write(whole(), 1), write(vec![Write::RangeDeleted(1, 2)], 2)],
            None,
        ),
        (
            vec![write(whole(), 1), write(vec![Write::PartitionDeleted], 2)],
            None,
        ),
        // It has a tombstone.
        (
            vec![write(vec![Write::Marker(0, 0), Write::Cell(0, V, None)], 1)],
            None,
        ),
        (vec![write(vec![Write::RowDeleted(0)], 1)], None),
        (
            cached_and(&[Write::Marker(0, 0), Write::Cell(0, V, None)], 1, []),
            None,
        ),
    ];
    for (steps, expected) in cases {
        let told = format!("{steps:?}");
        assert_eq!(is_plain_after(steps), expected, "{told}");
    }
}

#[test]
fn what_expires_is_shown_until_then() {
    let at = |steps: &[Step], now: u32| {
        after(steps.to_vec(), move |env, store, asked| {
            let mut asked = asked.clone();
            asked.now_seconds = FAR + now;
            shown_plain(env, store, &asked, 0)
        })
    };
    let write = |writes: &[Write], timestamp| Step::Write(writes.to_vec(), timestamp);
    let (there, three) = ([Write::Marker(0, 0)], [Write::Cell(0, V, Some((3, 5)))]);
    let brief = [Write::Marker(0, 5), Write::Cell(0, V, Some((3, 7)))];
    for steps in [
        vec![write(&brief, 1)],
        cached_and(&brief, 1, []),
        // Where the first of it does, whichever of the versions that is.
        vec![write(&there, 1), write(&three, 2)],
        cached_and(&there, 1, [write(&three, 2)]),
        cached_and(&there, 1, [write(&three, 2), Step::Flush]),
        // It went over to the cache with the memtable.
        vec![
            write(&brief, 1),
            Step::Read(0, Vec::new(), 0),
            Step::Read(0, Vec::new(), 0),
            Step::Flush,
        ],
    ] {
        let told = format!("{steps:?}");
        assert_eq!(at(&steps, 4), shown(&[(V, 3)]), "{told}");
        assert_eq!(at(&steps, 5), None, "{told}");
    }
}

#[test]
fn what_a_memtable_adds_to_a_cached_row_is_shown_with_it() {
    // Before the memtable is flushed, within that, and behind it.
    let after_write = |writes: Vec<Write>, timestamp| {
        let whole = vec![Write::Marker(0, 0), Write::Cell(0, V, Some((3, 0)))];
        let steps = cached_and(&whole, 5, [Step::Write(writes, timestamp)]);
        let then = |step| is_plain_after(steps.iter().cloned().chain(step).collect());
        let within = Step::WriteBesideFlush(Vec::new(), 7);
        [None, Some(within), Some(Step::Flush)].map(then)
    };
    // Later, earlier, at the same time, and in another column.
    for (write, timestamp, expected) in [
        (cell(V, 4), 6, &[(V, 4)][..]),
        (cell(V, 4), 4, &[(V, 3)]),
        (cell(V, 4), 5, &[(V, 4)]),
        (cell(V, 2), 5, &[(V, 3)]),
        (cell(W, 2), 6, &[(V, 3), (W, 2)]),
    ] {
        let expected = shown(expected);
        let always = [(); 3].map(|()| expected.clone());
        assert_eq!(after_write(write, timestamp), always);
    }
    // Of another row of the partition, of which an sstable may know anything.
    let other = vec![Write::Cell(1, V, Some((4, 0)))];
    let unchanged = shown(&[(V, 3)]);
    assert_eq!(after_write(other, 6), [unchanged.clone(), unchanged, None]);
    // What ends some time is shown until then.
    let brief = [
        (Write::Cell(0, W, Some((1, 5))), shown(&[(V, 3), (W, 1)])),
        (Write::Marker(0, 5), shown(&[(V, 3)])),
    ];
    for (write, expected) in brief {
        let always = [(); 3].map(|()| expected.clone());
        assert_eq!(after_write(vec![write], 6), always);
    }
    // Something is deleted.
    for write in [
        Write::Cell(0, V, None),
        Write::RowDeleted(0),
        Write::RangeDeleted(1, 2),
        Write::PartitionDeleted,
    ] {
        assert_eq!(after_write(vec![write], 6), [None, None, None]);
    }
}

#[test]
fn what_is_written_within_a_flush_is_shown_with_what_is_flushed() {
    let whole = vec![Write::Marker(0, 0), Write::Cell(0, V, Some((1, 0)))];
    // In two memtables, and nowhere else.
    let first = Step::Write(whole.clone(), 1);
    let two =
        |writes, time| is_plain_after(vec![first.clone(), Step::WriteBesideFlush(writes, time)]);
    assert_eq!(two(cell(W, 2), 2), shown(&[(V, 1), (W, 2)]));
    assert_eq!(two(cell(V, 2), 2), shown(&[(V, 2)]));
    assert_eq!(two(cell(V, 2), 0), shown(&[(V, 1)]));
    assert_eq!(two(vec![Write::RowDeleted(0)], 2), None);
    assert_eq!(two(vec![Write::Cell(0, V, None)], 2), None);
    // The cache has what was flushed before.
    let three = |(second, then), (third, last)| {
        let later = [
            Step::Write(second, then),
            Step::WriteBesideFlush(third, last),
        ];
        is_plain_after(cached_and(&whole, 1, later))
    };
    let both = shown(&[(V, 3), (W, 2)]);
    assert_eq!(three((cell(W, 2), 2), (cell(V, 3), 3)), both);
    assert_eq!(three((cell(V, 3), 3), (cell(W, 2), 2)), both);
    assert_eq!(three((cell(V, 3), 3), (cell(V, 2), 2)), shown(&[(V, 3)]));
    assert_eq!(three((cell(V, 2), 2), (cell(V, 3), 3)), shown(&[(V, 3)]));
    assert_eq!(three((cell(V, 4), 0), (cell(V, 3), 0)), shown(&[(V, 1)]));
    assert_eq!(
        three((vec![Write::RowDeleted(0)], 2), (cell(V, 3), 3)),
        None
    );
}

#[test]
fn plain_partitions_are_shown_where_they_lie() {
    let rows = |count: u8| {
        let row = |row| [Write::Marker(row, 0), Write::Cell(row, V, Some((3, 0)))];
        (0..count).flat_map(row).collect::<Vec<Write>>()
    };
    let values = |row| (vec![int(row)], vec![(V, Bytes::from_static(&[3; 3]))]);
    let shown = |count| (0..count).map(|row| Some(values(row))).collect::<Vec<_>>();
    let write = |writes| Step::Write(writes, 1);
    let partition_after = |steps| after(steps, shown_whole);
    assert_eq!(partition_after(vec![]), Some(vec![]));
    assert_eq!(partition_after(vec![write(rows(3))]), Some(shown(3)));
    assert_eq!(partition_after(vec![write(rows(128))]), Some(shown(128)));
    // Too many, or in an sstable.
    assert_eq!(partition_after(vec![write(rows(129))]), None);
    assert_eq!(partition_after(vec![write(rows(3)), Step::Flush]), None);
    // Something of it, or around it, is deleted.
    for more in [
        Write::PartitionDeleted,
        Write::RangeDeleted(1, 2),
        Write::RowDeleted(1),
        Write::Cell(2, W, None),
    ] {
        let steps = vec![write(rows(3)), Step::Write(vec![more], 2)];
        assert_eq!(partition_after(steps), None);
    }
    // Or ends some time: until then it is shown.
    let brief = Step::Write(vec![Write::Cell(2, V, Some((3, 5)))], 2);
    let steps = vec![write(rows(3)), brief];
    let at = |now| {
        after(steps.clone(), move |env, store, asked| {
            let mut asked = asked.clone();
            asked.now_seconds = FAR + now;
            shown_whole(env, store, &asked)
        })
    };
    assert_eq!(at(4), Some(shown(3)));
    assert_eq!(at(5), None);
}
