//! Damaged files give errors or, where nothing can notice, other values; never a panic.

use std::rc::Rc;

use bytes::Bytes;
use model::{DecoratedKey, DeletionTime, Slice};
use proptest::prelude::*;

use super::roundtrip::{partitions, table};
use super::support::{hashed, options_for, read_all, write_all};
use crate::PartitionHead;
use crate::sstable::*;
use crate::testing::{TempDir, run};

const COMPONENTS: [Component; 9] = [
    Component::Data,
    Component::Index,
    Component::Partitions,
    Component::Rows,
    Component::Summary,
    Component::Filter,
    Component::Statistics,
    Component::CompressionInfo,
    Component::Crc,
];

/// What is done to a file.
#[derive(Clone, Debug)]
enum Damage {
    Flip(usize, u8),
    Cut(usize),
    Remove,
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        8 => (any::<usize>(), 1u8..).prop_map(|(at, bits)| Damage::Flip(at, bits)),
        2 => any::<usize>().prop_map(Damage::Cut),
        1 => Just(Damage::Remove),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn damaged_files_never_panic_and_chunks_are_checked(
        partitions in partitions(),
        compressed: bool,
        tries: bool,
        component in 0..COMPONENTS.len(),
        damage in damage(),
    ) {
        let component = COMPONENTS[component];
        run(move |env| async move {
            let table = table(if compressed { "LZ4Compressor" } else { "" });
            let dir = TempDir::new();
            let mut options = options_for(&partitions);
            options.column_index_size = Some(200);
            let format = if tries { Format::Bti } else { Format::Big };
            let descriptor = write_all(&env, &dir.0, &table, &partitions, (format, options))
                .await
                .expect("writes");
            let path = descriptor.path(component);
            let mut bytes = std::fs::read(&path).unwrap_or_default();
            if bytes.is_empty() {
                return;
            }
            match damage {
                Damage::Flip(at, bits) => {
                    let at = at % bytes.len();
                    bytes[at] ^= bits;
                }
                Damage::Cut(at) => bytes.truncate(at % bytes.len()),
                Damage::Remove => {}
            }
            match damage {
                Damage::Remove => std::fs::remove_file(&path).expect("removes"),
                _ => std::fs::write(&path, bytes).expect("writes"),
            }
            let cache = ChunkCache::new(1 << 20);
            let Ok(sstable) = SSTable::open(&env, &descriptor, &table, &cache).await else {
                return;
            };
            let all = read_all(&sstable, ScanOptions::default()).await;
            for (head, _) in &partitions {
                for reversed in [false, true] {
                    let slices: Rc<[Slice]> = Rc::new([Slice::ALL]);
                    let got = sstable
                        .get(hashed(&head.key), slices, reversed, &ColumnSelection::All)
                        .await;
                    if let Ok(Some(mut reader)) = got {
                        while let Ok(Some(_)) = reader.next().await {}
                    }
                }
            }
            // Data, filter and summary cannot change what a scan gives without being noticed.
            let checked = matches!(
                component,
                Component::Data | Component::Statistics | Component::Crc
            );
            if checked && let Ok(all) = all {
                assert_eq!(all, partitions, "{component:?}");
            }
            let _ = sstable.verify().await;
        });
    }
}

/// Writes an sstable, does something to a component, and says what verification finds.
fn verified(component: Component, change: fn(&mut Vec<u8>)) -> Result<bool, SSTableError> {
    run(move |env| async move {
        let (table, dir) = (table("LZ4Compressor"), TempDir::new());
        let written = some_partitions();
        let options = options_for(&written);
        let descriptor = write_all(&env, &dir.0, &table, &written, (Format::Big, options));
        let descriptor = descriptor.await.expect("writes");
        // Without it, damage has no checksums to be found by.
        std::fs::remove_file(descriptor.path(Component::Helenus)).expect("removes");
        let path = descriptor.path(component);
        let mut bytes = std::fs::read(&path).expect("reads");
        change(&mut bytes);
        match bytes.is_empty() {
            true => std::fs::remove_file(&path).expect("removes"),
            false => std::fs::write(&path, bytes).expect("writes"),
        }
        let cache = ChunkCache::new(1 << 20);
        let opened = SSTable::open(&env, &descriptor, &table, &cache).await;
        let sstable = opened.expect("what is damaged is made anew");
        sstable.verify().await.expect("the data is whole");
        let is_whole = sstable.verify_derived().await?;
        sstable.verify_with_filter().await?;
        Ok(is_whole)
    })
}

fn some_partitions() -> Vec<super::support::Partition> {
    let mut partitions: Vec<super::support::Partition> = (0..20u8)
        .map(|n| {
            let key = DecoratedKey::new(Bytes::copy_from_slice(&[0, 0, 0, n]));
            let head = PartitionHead {
                key,
                deletion: DeletionTime {
                    timestamp: 1,
                    local_deletion_time: 1,
                },
                static_row: None,
            };
            (head, Vec::new())
        })
        .collect();
    partitions.sort_by(|(a, _), (b, _)| a.key.cmp(&b.key));
    partitions
}

#[test]
fn verification_finds_a_damaged_summary_and_a_damaged_filter() {
    assert!(verified(Component::Summary, |_| {}).expect("it is whole"));
    assert!(!verified(Component::Summary, Vec::clear).expect("it has no summary"));
    assert!(verified(Component::Filter, Vec::clear).expect("a filter may be missing"));
    for component in [Component::Summary, Component::Filter] {
        let error = verified(component, |bytes| bytes.truncate(6)).expect_err("it is cut");
        assert!(error.to_string().contains(component.name()), "{error}");
    }
    let error = verified(Component::Filter, |bytes| bytes[8..].fill(0));
    let error = error.expect_err("no key is in it").to_string();
    assert!(error.contains("Filter.db"), "{error}");
}
