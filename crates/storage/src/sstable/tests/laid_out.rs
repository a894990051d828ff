//! Rows that are laid out in memory are written as any others are.

use std::path::Path;
use std::sync::Arc;

use io::Env;
use model::{PackedRow, Table};
use proptest::prelude::*;

use super::roundtrip::{partitions, table};
use super::support::{Partition, options_for, write_all};
use crate::Unfiltered;
use crate::sstable::*;
use crate::testing::{TempDir, run};

/// Writes partitions, rows as memtables have them.
async fn write_packed(
    env: &Env,
    dir: &Path,
    table: &Arc<Table>,
    partitions: &[Partition],
    (format, options): (Format, WriterOptions),
) -> Descriptor {
    let descriptor = Descriptor::new(dir, format, 1);
    let mut writer = Writer::create(env, descriptor, table, options)
        .await
        .expect("creates");
    for (head, items) in partitions {
        writer.begin_partition(head).await.expect("begins");
        for item in items {
            let written = match item {
                Unfiltered::Row(row) => {
                    let packed = PackedRow::new(row, &mut Vec::new());
                    writer.append_packed(&packed).await
                }
                Unfiltered::Marker(_) => writer.append(item).await,
            };
            written.expect("writes");
        }
        writer.end_partition().await.expect("ends");
    }
    let finished = writer.finish().await.expect("finishes");
    finished.expect("there are partitions")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_row_that_is_laid_out_is_written_as_any(
        partitions in partitions(),
        column_index_size in 1u64..6000,
        tries: bool,
    ) {
        run(move |env| async move {
            let (table, dirs) = (table("LZ4Compressor"), [TempDir::new(), TempDir::new()]);
            let format = if tries { Format::Bti } else { Format::Big };
            let mut options = options_for(&partitions);
            options.column_index_size = Some(column_index_size);
            let written = (format, options.clone());
            let one = write_all(&env, &dirs[0].0, &table, &partitions, written).await.expect("writes");
            let other = write_packed(&env, &dirs[1].0, &table, &partitions, (format, options)).await;
            for component in Component::ALL {
                let [one, other] = [&one, &other].map(|files| std::fs::read(files.path(component)).ok());
                assert_eq!(one, other, "{component:?}");
            }
        });
    }
}
