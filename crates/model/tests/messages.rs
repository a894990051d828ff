//! What nodes send each other: read as it was written, also by a node with another version of the table,
//! and never a panic.

#![allow(clippy::unwrap_used)] // tests, with their helpers

mod written;

use std::sync::Arc;

use bytes::Bytes;
use model::record::RecordError;
use model::record::message::{
    Batch, MessageError, Numbering, ReadKind, decode_batch, decode_late, decode_mutation,
    decode_page, decode_read, decode_versions, digest, digest_versions, encode_batch, encode_late,
    encode_mutation, encode_page, encode_read, encode_versions,
};
use model::{
    Bound, ClusteringSelection, Column, ColumnId, ColumnKind, DataLimits, DecoratedKey,
    DroppedColumn, FilterOperator, Mutation, Partition, PartitionBound, PartitionSelection,
    PartitionUpdate, PartitionVersion, ReadCommand, ReadPage, Resume, RowFilter, Table, Token,
    VersionPage,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use written::{bound, clustering, table, update};

/// The same table on a node where the columns have other ids, in another order.
fn renumbered() -> Arc<Table> {
    changed(|columns| {
        for column in columns {
            column.id = ColumnId(20 - column.id.0);
        }
    })
}

fn changed(change: impl Fn(&mut Vec<Column>)) -> Arc<Table> {
    let known = table();
    let mut columns: Vec<Column> = known.columns().cloned().collect();
    change(&mut columns);
    let (keyspace, name) = (known.keyspace.clone(), known.name.clone());
    let options = known.options.clone();
    Arc::new(Table::new(known.id, keyspace, name, columns, options))
}

/// What an update says, in the ids of another version of its table.
fn translated(update: &PartitionUpdate, to: &Arc<Table>) -> PartitionUpdate {
    let id = |id: ColumnId| {
        let name = &update.table.column(id).unwrap().name;
        to.column_named(name).map(|column| column.id)
    };
    let mut update = PartitionUpdate {
        table: to.clone(),
        ..update.clone()
    };
    for row in update.static_row.iter_mut().chain(&mut update.rows) {
        row.complex_deletions.retain(|c| id(c.column).is_some());
        row.cells.retain(|c| id(c.column).is_some());
        for complex in &mut row.complex_deletions {
            complex.column = id(complex.column).unwrap();
        }
        for cell in &mut row.cells {
            cell.column = id(cell.column).unwrap();
        }
        row.complex_deletions.sort_by_key(|c| c.column);
        row.cells.sort_by_key(|c| c.column);
    }
    update
}

fn mutation(update: PartitionUpdate) -> Mutation {
    Mutation {
        updates: vec![update],
    }
}

fn version(update: PartitionUpdate, end: Option<Bound>) -> PartitionVersion {
    PartitionVersion {
        partition: Partition::from(update),
        end,
    }
}

fn key(number: u8) -> DecoratedKey {
    DecoratedKey::new(Bytes::copy_from_slice(&[0, 0, 0, number]))
}

fn page(reversed: bool) -> impl Strategy<Value = VersionPage> {
    let partition = (update(), option::of(bound(true)));
    (vec(partition, 0..4), any::<bool>()).prop_map(move |(partitions, more)| {
        let numbered = partitions.into_iter().zip(0u8..);
        let mut partitions: Vec<PartitionVersion> = numbered
            .map(|((mut update, end), number)| {
                update.key = key(number);
                if reversed {
                    update.rows.reverse();
                }
                version(update, end)
            })
            .collect();
        partitions.sort_by(|a, b| a.partition.key.cmp(&b.partition.key));
        let more = more && !partitions.is_empty();
        VersionPage {
            partitions,
            more,
            ..VersionPage::default()
        }
    })
}

fn partition_bound() -> impl Strategy<Value = PartitionBound> {
    prop_oneof![
        Just(PartitionBound::Unbounded),
        any::<i64>().prop_map(|t| PartitionBound::TokenInclusive(Token(t))),
        any::<i64>().prop_map(|t| PartitionBound::TokenExclusive(Token(t))),
        any::<u8>().prop_map(|n| PartitionBound::KeyInclusive(key(n))),
        any::<u8>().prop_map(|n| PartitionBound::KeyExclusive(key(n))),
    ]
}

fn filter() -> impl Strategy<Value = RowFilter> {
    use FilterOperator::*;
    let operators = vec![
        Equal,
        Less,
        LessOrEqual,
        Greater,
        GreaterOrEqual,
        Contains,
        ContainsKey,
        ContainsEntry,
    ];
    let values = vec(vec(any::<u8>(), 0..5).prop_map(Bytes::from), 0..3);
    (0..6u32, prop::sample::select(operators), values).prop_map(|(id, operator, values)| {
        let column = ColumnId(id);
        RowFilter {
            column,
            operator,
            values,
        }
    })
}

fn command() -> impl Strategy<Value = ReadCommand> {
    let partitions = prop_oneof![
        any::<u8>().prop_map(|n| PartitionSelection::Key(key(n))),
        (partition_bound(), partition_bound())
            .prop_map(|(start, end)| PartitionSelection::Range { start, end }),
    ];
    let slices = vec((bound(true), bound(false)), 0..3);
    let resume = (any::<u8>(), option::of(clustering()), any::<u32>());
    let resume = option::of(resume.prop_map(|(n, clustering, remaining)| Resume {
        key: key(n),
        clustering,
        remaining_in_partition: remaining,
    }));
    let columns = prop::sample::subsequence(vec![3, 4, 5], 0..=3);
    (
        (partitions, slices, any::<bool>()),
        (columns, vec(filter(), 0..3), any::<bool>()),
        (any::<[u32; 3]>(), any::<u32>(), resume),
    )
        .prop_map(
            |(
                (partitions, slices, reversed),
                (columns, filters, bypass_cache),
                (limits, now, resume),
            )| {
                let slices = slices
                    .into_iter()
                    .map(|(start, end)| model::Slice { start, end });
                let [rows, rows_per_partition, bytes] = limits;
                ReadCommand {
                    table: table(),
                    partitions,
                    clustering: ClusteringSelection {
                        slices: slices.collect(),
                        reversed,
                    },
                    columns: columns.into_iter().map(ColumnId).collect(),
                    filters,
                    limits: DataLimits {
                        rows,
                        rows_per_partition,
                        bytes,
                    },
                    now_seconds: now,
                    resume,
                    bypass_cache,
                    packed: false,
                }
            },
        )
}

#[test]
fn columns_have_the_same_numbers_on_all_nodes() {
    let (one, other) = (table(), renumbered());
    assert_eq!(one.form(), other.form());
    for column in one.columns() {
        let there = other.column_named(&column.name).unwrap();
        let number = one.number_of(column.id);
        assert_eq!(number, other.number_of(there.id));
        assert_eq!(number.and_then(|n| one.numbered(n)), Some(column.id));
    }
    assert_eq!(one.numbered(6), None);
    assert_eq!(one.number_of(ColumnId(6)), None);
    assert!(one.numbers_rise() && !other.numbers_rise());
    let more = changed(|columns| {
        columns.push(Column {
            id: ColumnId(6),
            name: "a1".into(),
            ..columns[4].clone()
        });
    });
    assert_ne!(one.form(), more.form());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn a_mutation_is_read_as_written(update in update(), named in any::<bool>()) {
        let written = mutation(update.clone());
        let bytes = Bytes::from(encode_mutation(&written, named));
        prop_assert_eq!(decode_mutation(bytes.clone(), |_| Some(table())), Ok(written));
        // By whoever has other ids for the same columns, too.
        let other = renumbered();
        let there = mutation(translated(&update, &other));
        prop_assert_eq!(decode_mutation(bytes.clone(), |_| Some(other.clone())), Ok(there.clone()));
        prop_assert_eq!(Bytes::from(encode_mutation(&there, named)), bytes.clone());
        let unknown = MessageError::UnknownTable(table().id);
        prop_assert_eq!(decode_mutation(bytes, |_| None), Err(unknown));
    }

    #[test]
    fn a_node_with_other_columns_wants_their_names(update in update()) {
        let later = changed(|columns| {
            columns.push(Column { id: ColumnId(6), name: "a1".into(), ..columns[4].clone() });
        });
        let written = mutation(update.clone());
        let find = |_| Some(later.clone());
        let unnamed = decode_mutation(Bytes::from(encode_mutation(&written, false)), find);
        prop_assert_eq!(unnamed, Err(MessageError::OtherColumns(later.id)));
        let named = Bytes::from(encode_mutation(&written, true));
        let read = decode_mutation(named.clone(), find);
        prop_assert_eq!(read, Ok(mutation(translated(&update, &later))));

        // A column that is not known is more than can be taken, one that was dropped is left out.
        let earlier = changed(|columns| columns.retain(|column| column.kind != ColumnKind::Static));
        let has_static = update.static_row.iter().any(|row| !row.cells.is_empty());
        let read = decode_mutation(named.clone(), |_| Some(earlier.clone()));
        match has_static {
            true => prop_assert_eq!(read, Err(RecordError::UnknownColumn.into())),
            false => prop_assert_eq!(read, Ok(mutation(translated(&update, &earlier)))),
        }
        let mut dropped = Table::clone(&earlier);
        dropped.dropped.push(DroppedColumn {
            name: "s".into(),
            ty: model::CqlType::Int,
            is_static: true,
            dropped_at: 0,
        });
        let dropped = Arc::new(dropped);
        let read = decode_mutation(named, |_| Some(dropped.clone()));
        prop_assert_eq!(read, Ok(mutation(translated(&update, &dropped))));
    }

    #[test]
    fn a_page_is_read_as_written(
        (page, reversed) in any::<bool>().prop_flat_map(|r| (page(r), Just(r))),
    ) {
        let own = Numbering::own(table());
        let bytes = Bytes::from(encode_versions(&page, &own));
        prop_assert_eq!(decode_versions(bytes.clone(), &own, reversed), Ok(page.clone()));
        // Equal pages have equal digests, whatever ids columns have where they were made.
        let other = renumbered();
        let there = VersionPage {
            partitions: page.partitions.iter().map(|known| {
                let partition = known.partition.clone();
                let update = PartitionUpdate {
                    table: table(),
                    key: partition.key,
                    deletion: partition.deletion,
                    static_row: partition.static_row,
                    rows: partition.rows,
                    range_tombstones: partition.range_tombstones,
                };
                version(translated(&update, &other), known.end.clone())
            }).collect(),
            more: page.more,
            ..VersionPage::default()
        };
        let other = Numbering::own(other);
        prop_assert_eq!(digest(&encode_versions(&there, &other)), digest(&bytes));
        prop_assert_eq!(digest_versions(&there, &other), digest(&bytes));

        let live = ReadPage {
            partitions: page.partitions.into_iter().map(|known| known.partition).collect(),
            more: page.more,
            ..ReadPage::default()
        };
        let bytes = Bytes::from(encode_page(&live, &own));
        prop_assert_eq!(decode_page(bytes, &own, reversed), Ok(live.clone()));

        // Whoever asked is told of what clients are warned of.
        let mut warned = live;
        warned.scanned.index_sstables = 33;
        let bytes = Bytes::from(encode_page(&warned, &own));
        let read = decode_page(bytes, &own, reversed).unwrap();
        prop_assert_eq!(read.scanned.index_sstables, 33);
        prop_assert_eq!(read, warned);
    }

    #[test]
    fn a_read_is_read_as_written(command in command(), named in any::<bool>(), kind in 0..3usize) {
        let kind = [ReadKind::Live, ReadKind::Versions, ReadKind::Digest][kind];
        let bytes = Bytes::from(encode_read(kind, &command, named));
        let (read_kind, read, _) = decode_read(bytes, |_| Some(table())).unwrap();
        prop_assert_eq!((read_kind, read), (kind, command));
    }

    /// What a node with more columns answers has the numbers of the one that asked.
    #[test]
    fn a_write_of_before_is_read_as_written(
        update in update(),
        written_at: i64,
        named in any::<bool>(),
    ) {
        let mutation = mutation(update);
        let bytes = Bytes::from(encode_late(&mutation, written_at, named));
        let read = decode_late(bytes.clone(), |_| Some(table()));
        prop_assert_eq!(read.unwrap(), (mutation, written_at));
        prop_assert!(decode_late(bytes.slice(..7), |_| Some(table())).is_err());
    }

    #[test]
    fn a_batch_is_read_as_written(
        ticks in 0..1u64 << 60,
        random: [u8; 6],
        mutations in vec(vec(any::<u8>(), 0..20), 0..6),
    ) {
        let id = uuid::Builder::from_gregorian_timestamp(ticks, 7, &random).into_uuid();
        let mutations = mutations.into_iter().map(Bytes::from).collect();
        let batch = Batch { id, mutations };
        let bytes = Bytes::from(encode_batch(&batch));
        prop_assert_eq!(decode_batch(bytes.clone()), Ok(batch));
        prop_assert!(decode_batch(bytes.slice(..bytes.len() - 1)).is_err());
        let other = uuid::Builder::from_random_bytes([3; 16]).into_uuid();
        let timeless = Batch { id: other, mutations: Vec::new() };
        prop_assert!(decode_batch(encode_batch(&timeless).into()).is_err());
    }

    #[test]
    fn an_answer_has_the_numbers_of_who_asked(command in command(), update in update()) {
        let later = changed(|columns| {
            columns.push(Column { id: ColumnId(6), name: "a1".into(), ..columns[4].clone() });
        });
        let bytes = Bytes::from(encode_read(ReadKind::Versions, &command, true));
        let (_, _, numbering) = decode_read(bytes, |_| Some(later.clone())).unwrap();
        let page = VersionPage { partitions: vec![version(update, None)], more: false, ..VersionPage::default() };
        // The ids of what both know are the same here.
        let answer = encode_versions(&page, &numbering);
        let own = encode_versions(&page, &Numbering::own(table()));
        prop_assert_eq!(Bytes::from(answer), Bytes::from(own));
    }

    #[test]
    fn no_bytes_make_it_panic(
        (update, page, command) in (update(), page(false), command()),
        named in any::<bool>(),
        flips in vec((any::<prop::sample::Index>(), any::<u8>()), 0..5),
        cut in option::of(any::<prop::sample::Index>()),
    ) {
        let own = Numbering::own(table());
        let find = |_| Some(table());
        for bytes in [
            encode_mutation(&mutation(update), named),
            encode_versions(&page, &own),
            encode_read(ReadKind::Versions, &command, named),
        ] {
            let mut bytes = bytes;
            for (at, value) in &flips {
                let at = at.index(bytes.len());
                bytes[at] = *value;
            }
            if let Some(cut) = cut {
                bytes.truncate(cut.index(bytes.len()));
            }
            let bytes = Bytes::from(bytes);
            let _ = decode_mutation(bytes.clone(), find);
            let _ = decode_mutation(bytes.clone(), |_| Some(renumbered()));
            let _ = decode_read(bytes.clone(), find);
            for reversed in [false, true] {
                let _ = decode_versions(bytes.clone(), &own, reversed);
            }
        }
    }
}
