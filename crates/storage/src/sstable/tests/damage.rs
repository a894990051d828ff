//! Damaged files give errors or, where nothing can notice, other values; never a panic.

use std::rc::Rc;

use model::Slice;
use proptest::prelude::*;

use super::roundtrip::{partitions, table};
use super::support::{hashed, options_for, read_all, write_all};
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
