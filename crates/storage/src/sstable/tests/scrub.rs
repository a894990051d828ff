//! What a scrub makes of sstables with damaged files, and of those whose partitions or rows are not
//! in order.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use io::Env;
use model::{Cell, Clustering, ColumnId, DecoratedKey, Row, Table};
use proptest::prelude::*;

use super::roundtrip::{partitions, table};
use super::support::{Partition, bare_row, options_for, read_all, write_all};
use crate::sstable::salvage::Salvage;
use crate::sstable::scrub::{Scrub, ScrubEvent, ScrubReport};
use crate::sstable::*;
use crate::testing::{TempDir, run};
use crate::{PartitionHead, Unfiltered};

/// Scrubs an sstable into others, the first in this order; what is in them, and what was said.
async fn scrub(
    env: &Env,
    descriptor: &Descriptor,
    table: &Arc<Table>,
    validates: bool,
) -> Result<(Vec<Vec<Partition>>, ScrubReport), SSTableError> {
    let cache = ChunkCache::new(1 << 20);
    let salvage = Salvage::open(env, descriptor, table, &cache, validates).await?;
    let mut scrub = Scrub::new(salvage, None, false);
    let mut outputs = Vec::new();
    let mut pieces = Vec::new();
    while let Some(event) = scrub.next().await? {
        if let ScrubEvent::Piece(piece) = event {
            pieces.push(piece);
        }
    }
    while !pieces.is_empty() {
        let options = options_for(&[]);
        let format = descriptor.version.format();
        let to = Descriptor::new(descriptor.dir.as_path(), format, 10 + outputs.len() as u64);
        let created = Writer::create(env, to.clone(), table, options).await;
        let mut writer = created.expect("it can be written");
        for piece in &pieces {
            scrub
                .write(&mut writer, piece)
                .await
                .expect("it can be written");
        }
        let finished = writer.finish().await.expect("it can be written");
        let written = SSTable::open(env, &finished.expect("there is one"), table, &cache).await;
        let written = written.expect("it is sound");
        written.verify().await.expect("it is sound");
        outputs.push(read_all(&written, ScanOptions::default()).await?);
        pieces = scrub.take_late();
    }
    Ok((outputs, scrub.report()))
}

fn is_bare((head, items): &Partition) -> bool {
    head.deletion.is_live() && head.static_row.is_none() && items.is_empty()
}

async fn write(
    env: &Env,
    dir: &Path,
    (table, partitions): (&Arc<Table>, &[Partition]),
    format: Format,
) -> Descriptor {
    let mut options = options_for(partitions);
    options.column_index_size = Some(200);
    let written = write_all(env, dir, table, partitions, (format, options)).await;
    written.expect("it is written")
}

/// What is done to a file.
#[derive(Clone, Debug)]
enum Damage {
    Flip(usize, u8),
    Cut(usize),
    Remove,
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        6 => (any::<usize>(), 1u8..).prop_map(|(at, bits)| Damage::Flip(at, bits)),
        2 => any::<usize>().prop_map(Damage::Cut),
        2 => Just(Damage::Remove),
    ]
}

fn harm(path: &PathBuf, damage: &Damage) {
    let mut bytes = std::fs::read(path).unwrap_or_default();
    match damage {
        _ if bytes.is_empty() => {}
        Damage::Flip(at, bits) => {
            let at = at % bytes.len();
            bytes[at] ^= bits;
            std::fs::write(path, bytes).expect("it is written");
        }
        Damage::Cut(at) => {
            bytes.truncate(at % bytes.len());
            std::fs::write(path, bytes).expect("it is written");
        }
        Damage::Remove => std::fs::remove_file(path).expect("it is removed"),
    }
}

/// What helps to find something in the data, and the checksums of that.
const HELPERS: [Component; 6] = [
    Component::Index,
    Component::Partitions,
    Component::Rows,
    Component::Summary,
    Component::Filter,
    Component::Helenus,
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn without_damage_to_the_data_nothing_is_lost(
        partitions in partitions(),
        compressed: bool,
        tries: bool,
        damages in prop::collection::vec((0..HELPERS.len(), damage()), 0..4),
    ) {
        run(move |env| async move {
            let table = table(if compressed { "LZ4Compressor" } else { "" });
            let dir = TempDir::new();
            let format = if tries { Format::Bti } else { Format::Big };
            let descriptor = write(&env, &dir.0, (&table, &partitions), format).await;
            for (component, damage) in &damages {
                harm(&descriptor.path(HELPERS[*component]), damage);
            }
            let scrubbed = scrub(&env, &descriptor, &table, false).await;
            let (outputs, report) = scrubbed.expect("data and statistics are there");
            let empty = partitions.iter().filter(|p| is_bare(p)).count() as u64;
            let all: Vec<Partition> = partitions.into_iter().filter(|p| !is_bare(p)).collect();
            let kept = all.len() as u64;
            assert_eq!(report, ScrubReport { kept, empty, ..ScrubReport::default() });
            assert_eq!(outputs.concat(), all);
        });
    }

    #[test]
    fn what_is_kept_of_damaged_data_was_in_it(
        partitions in partitions(),
        tries: bool,
        data in damage(),
        index in prop::option::of((0..HELPERS.len() - 1, damage())),
    ) {
        if let Damage::Remove = data {
            return Ok(());
        }
        run(move |env| async move {
            let mut table = Table::clone(&table("LZ4Compressor"));
            // Small chunks, so that there is something beside the damaged one.
            table.options.compression.insert("chunk_length_in_kb".to_owned(), "1".to_owned());
            let table = Arc::new(table);
            let dir = TempDir::new();
            let format = if tries { Format::Bti } else { Format::Big };
            let descriptor = write(&env, &dir.0, (&table, &partitions), format).await;
            harm(&descriptor.path(Component::Data), &data);
            if let Some((component, damage)) = &index {
                harm(&descriptor.path(HELPERS[*component]), damage);
            }
            let scrubbed = scrub(&env, &descriptor, &table, false).await;
            let (outputs, report) = scrubbed.expect("data and statistics are there");
            let kept: Vec<Partition> = outputs.concat();
            assert_eq!(kept.len() as u64, report.kept);
            let mut cut = 0;
            for (head, items) in &kept {
                let original = partitions.iter().find(|(o, _)| o.key == head.key);
                let (original, all) = original.expect("it was written");
                assert_eq!(head, original);
                if items == all {
                    continue;
                }
                cut += 1;
                let rows = |items: &[Unfiltered]| -> Vec<Unfiltered> {
                    let is_row = |item: &&Unfiltered| matches!(item, Unfiltered::Row(_));
                    items.iter().filter(is_row).cloned().collect()
                };
                assert!(rows(all).starts_with(&rows(items)));
            }
            assert!(cut <= report.cut, "what is not whole is said to be cut");
            if index.is_none() {
                let all = report.kept + report.empty + report.lost;
                assert_eq!(all, partitions.len() as u64, "the index knows of all: {report}");
            }
        });
    }
}

fn partition(number: i32, rows: std::ops::Range<i32>) -> Partition {
    let int = |number: i32| Bytes::copy_from_slice(&number.to_be_bytes());
    let row = |c: i32| {
        let text = Bytes::from(format!("{c:05}"));
        let mut row = Row::new(Clustering([text, int(c)].into_iter().collect()));
        row.cells.push(Cell {
            column: ColumnId(5),
            path: None,
            timestamp: 7,
            ttl: model::NO_TTL,
            local_deletion_time: model::NO_DELETION_TIME,
            value: int(c),
        });
        Unfiltered::Row(row)
    };
    let head = PartitionHead {
        key: DecoratedKey::new(int(number)),
        deletion: model::DeletionTime::LIVE,
        static_row: None,
    };
    (head, rows.map(row).collect())
}

/// Of a data file that was cut off, what is left is read, and what is not is an error.
#[test]
fn what_a_cut_leaves_is_read_and_kept() {
    run(move |env| async move {
        for algorithm in ["LZ4Compressor", ""] {
            let table = table(algorithm);
            let dir = TempDir::new();
            let mut all: Vec<Partition> = (0..40).map(|n| partition(n, 0..400)).collect();
            all.sort_by(|(a, _), (b, _)| a.key.cmp(&b.key));
            let descriptor = write(&env, &dir.0, (&table, &all), Format::Big).await;
            let data = descriptor.path(Component::Data);
            let length = std::fs::metadata(&data).expect("it is there").len();
            harm(&data, &Damage::Cut(length as usize / 2));

            let cache = ChunkCache::new(1 << 20);
            let sstable = SSTable::open(&env, &descriptor, &table, &cache).await;
            let sstable = sstable.expect("it can be read as far as it goes");
            let mut scanner = sstable.scan(ScanOptions::default());
            let mut whole = 0;
            let error = loop {
                match scanner.next_partition().await {
                    Ok(Some(_)) => whole += 1,
                    Ok(None) => panic!("what is missing is not noticed"),
                    Err(error) => break error,
                }
            };
            assert!(error.to_string().contains("Data.db"), "{error}");
            assert!(
                (10..30).contains(&whole),
                "{whole} of 40 begin before the cut"
            );
            let (outputs, report) = scrub(&env, &descriptor, &table, false)
                .await
                .expect("scrubbed");
            assert!(report.kept >= 10, "{report}");
            assert_eq!(outputs.concat()[..10], all[..10]);
        }
    });
}

/// Without checksums only the index knows that partitions are missing behind the last one.
#[test]
fn a_cut_between_partitions_is_noticed_without_checksums() {
    run(|env| async move {
        for format in [Format::Big, Format::Bti] {
            let (table, dir) = (table(""), TempDir::new());
            let all = sorted(0..40);
            let part = dir.0.join("part");
            std::fs::create_dir_all(&part).expect("a folder");
            let part = write(&env, &part, (&table, &all[..20]), format).await;
            let descriptor = write(&env, &dir.0, (&table, &all), format).await;
            let length = std::fs::metadata(part.path(Component::Data)).expect("it is there");
            harm(
                &descriptor.path(Component::Data),
                &Damage::Cut(length.len() as usize),
            );
            for component in [Component::Crc, Component::Helenus] {
                std::fs::remove_file(descriptor.path(component)).expect("it is removed");
            }
            let cache = ChunkCache::new(1 << 20);
            let sstable = SSTable::open(&env, &descriptor, &table, &cache).await;
            let mut scanner = sstable.expect("it opens").scan(ScanOptions::default());
            for _ in 0..20 {
                let head = scanner.next_partition().await.expect("it is readable");
                assert!(head.is_some());
            }
            let error = scanner.next_partition().await.expect_err("it is missing");
            assert!(error.to_string().contains("Data.db"), "{error}");
        }
    });
}

/// Sorted as on the ring.
fn sorted(numbers: std::ops::Range<i32>) -> Vec<Partition> {
    let mut all: Vec<Partition> = numbers.map(|number| partition(number, 0..3)).collect();
    all.sort_by(|a, b| a.0.key.cmp(&b.0.key));
    all
}

/// An sstable whose data is that of several, one behind the other, without checksums and index.
async fn joined(env: &Env, dir: &Path, table: &Arc<Table>, parts: &[&[Partition]]) -> Descriptor {
    let mut data = Vec::new();
    let mut last = None;
    for (number, part) in parts.iter().enumerate() {
        let dir = dir.join(number.to_string());
        std::fs::create_dir_all(&dir).expect("a folder");
        let descriptor = write(env, &dir, (table, part), Format::Big).await;
        data.extend(std::fs::read(descriptor.path(Component::Data)).expect("it is there"));
        last = Some(descriptor);
    }
    let descriptor = last.expect("there is one");
    std::fs::write(descriptor.path(Component::Data), data).expect("it is written");
    for component in [Component::Crc, Component::Index, Component::Helenus] {
        let removed = std::fs::remove_file(descriptor.path(component));
        removed.expect("it is removed");
    }
    descriptor
}

#[test]
fn partitions_out_of_order_get_sstables_of_their_own() {
    run(|env| async move {
        let (table, dir) = (table(""), TempDir::new());
        let (first, second) = (sorted(0..40), sorted(30..70));
        let descriptor = joined(&env, &dir.0, &table, &[&first, &second, &first]).await;
        let scrubbed = scrub(&env, &descriptor, &table, true).await;
        let (outputs, report) = scrubbed.expect("it is readable");
        assert_eq!((report.kept, report.lost, report.cut), (120, 0, 0));
        assert_eq!(report.late as usize, 120 - outputs[0].len());
        assert!(outputs.len() >= 3, "keys are there three times");
        let mut found: Vec<Partition> = outputs.concat();
        let mut all = [first.clone(), second, first].concat();
        let order = |partition: &Partition| partition.0.key.clone();
        found.sort_by_key(order);
        all.sort_by_key(order);
        assert_eq!(found, all);
        // Those in order are as many as can be without going back.
        let keys = outputs[0]
            .windows(2)
            .all(|pair| pair[0].0.key < pair[1].0.key);
        assert!(keys && outputs[0].starts_with(&sorted(0..40)));
    });
}

#[test]
fn rows_out_of_order_and_values_of_other_types_are_damage() {
    run(|env| async move {
        let table = table("LZ4Compressor");
        let mut unsorted = partition(1, 0..10);
        unsorted.1.swap(6, 7);
        // As if the column had been of another type.
        let mut other = Table::clone(&table);
        let mut columns: Vec<model::Column> = other.columns().cloned().collect();
        columns[5].ty = model::CqlType::Text;
        other = Table::new(other.id, "ks", "t", columns, other.options.clone());
        let mut wrong = partition(2, 0..10);
        if let Unfiltered::Row(row) = &mut wrong.1[4] {
            row.cells[0].value = Bytes::from_static(&[0xff, 0xfe]);
        }
        let other = Arc::new(other);
        for (table, bad, validates, kept) in [
            (&table, unsorted, false, 7),
            (&other, wrong.clone(), true, 4),
            (&other, wrong, false, 10),
        ] {
            let dir = TempDir::new();
            let mut all = vec![bad.clone(), partition(3, 0..10), partition(4, 0..10)];
            all.sort_by(|a, b| a.0.key.cmp(&b.0.key));
            let descriptor = write(&env, &dir.0, (table, &all), Format::Big).await;
            let scrubbed = scrub(&env, &descriptor, table, validates).await;
            let (outputs, report) = scrubbed.expect("it is readable");
            assert_eq!((report.kept, report.cut), (3, u64::from(kept < 10)));
            let of_bad = outputs[0].iter().find(|p| p.0.key == bad.0.key);
            assert_eq!(of_bad.expect("its beginning is kept").1, bad.1[..kept]);
        }
    });
}

#[test]
fn expiries_that_overflowed_are_made_good() {
    let mut row = Row::new(Clustering::EMPTY);
    row.liveness = model::Liveness {
        timestamp: 5,
        ttl: 630_720_000,
        expires_at: (i32::MIN + 100) as u32,
    };
    let mut fixed = row.clone();
    assert!(super::super::salvage::reinsert_overflowed(&mut fixed));
    assert_eq!(
        (fixed.liveness.timestamp, fixed.liveness.expires_at),
        (6, i32::MAX as u32 - 1)
    );
    assert!(
        !super::super::salvage::reinsert_overflowed(&mut fixed),
        "once is enough"
    );
    row.liveness.expires_at = 1_700_000_000;
    assert!(!super::super::salvage::reinsert_overflowed(&mut row));
}

#[test]
fn rows_that_are_not_in_order_have_no_index_of_tries() {
    run(|env| async move {
        let table = table("LZ4Compressor");
        for (order, fits) in [
            (&[1u8, 2, 3, 4][..], true),
            // What is there twice is found in one block.
            (&[1, 2, 2, 3, 3, 3][..], true),
            (&[1, 1, 1][..], true),
            (&[1, 3, 2, 4][..], false),
            (&[0xff, 0xfe][..], false),
        ] {
            let dir = TempDir::new();
            let (head, row) = bare_row(&table);
            let rows = order.iter().map(|n| {
                let mut row = row.clone();
                row.clustering.0[0] = Bytes::copy_from_slice(&[*n; 300]);
                Unfiltered::Row(row)
            });
            let partitions = [(head, rows.collect())];
            let mut options = options_for(&partitions);
            options.column_index_size = Some(200);
            let written =
                write_all(&env, &dir.0, &table, &partitions, (Format::Bti, options)).await;
            match written {
                Ok(descriptor) => {
                    assert!(fits, "{order:?}");
                    let cache = ChunkCache::new(1 << 20);
                    let sstable = SSTable::open(&env, &descriptor, &table, &cache).await;
                    let sstable = sstable.expect("it opens");
                    let read = read_all(&sstable, ScanOptions::default()).await;
                    assert_eq!(read.expect("it is readable"), partitions);
                }
                Err(error) => {
                    assert!(!fits, "{order:?}");
                    assert!(error.to_string().contains("not in order"), "{error}");
                }
            }
        }
    });
}
