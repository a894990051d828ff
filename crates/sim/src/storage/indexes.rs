//! Indexes are held against their tables: what is found by an index is what a scan of the partition
//! finds, whatever was written, deleted, flushed, compacted and replayed before.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use io::Env;
use model::{
    Clustering, ColumnKind, DecoratedKey, FilterOperator, PartitionBound, PartitionSelection,
    ReadPage, Resume, Row, RowFilter, Slice, Table,
};
use storage::{ReadError, Store};

use super::client::command;
use super::tables::COLUMNS;
use super::world::World;
use crate::Random;

/// How long an index may take to be built after a start.
const BUILT_WITHIN: u32 = 10_000;

/// What a partition shows: its static row is shown without others, and its rows.
type Seen = (bool, Vec<Clustering>);

/// Looks for something by each index of each table, once they are built.
pub(crate) async fn check_all(
    env: &Env,
    store: &Store,
    world: &World,
    random: &mut Random,
    (key, now): (&DecoratedKey, u32),
) -> Result<(), String> {
    for _ in 0..BUILT_WITHIN {
        if check(store, world, random, key, now).await? {
            return Ok(());
        }
        env.sleep(Duration::from_millis(1)).await;
    }
    match world.may_writing_fail() {
        true => Ok(()),
        false => Err("an index is not built".to_owned()),
    }
}

/// Looks for something in a partition, to which nobody writes, by an index. `false`: there is one that is not
/// built yet.
pub(crate) async fn check(
    store: &Store,
    world: &World,
    random: &mut Random,
    key: &DecoratedKey,
    now: u32,
) -> Result<bool, String> {
    let tables = world.tables();
    let table = random.pick(&tables).clone();
    let whole = PartitionSelection::Key(key.clone());
    let page = store
        .read(&command(&table, whole, &Slice::ALL, false, now))
        .await;
    let page = match page {
        Ok(page) => page,
        Err(_) if world.has_disk_faults() => return Ok(true),
        Err(error) => return Err(format!("a read failed: {error}")),
    };
    let filters = filters(&table, &page, random);
    let expected = filtered(&table, &page, &filters);
    let found = found(store, (&table, key), &filters, (random, now)).await;
    match found {
        Ok(found) if found == expected => Ok(true),
        Ok(found) => Err(format!(
            "by an index of {}, {filters:?} finds {found:?} in {key:?}, and a scan {expected:?}",
            table.name
        )),
        Err(ReadError::IndexNotAvailable(_)) => Ok(false),
        Err(_) if world.has_disk_faults() => Ok(true),
        Err(error) => Err(format!("a read by an index failed: {error}")),
    }
}

/// What is looked for: something that is there, mostly.
fn filters(table: &Table, page: &ReadPage, random: &mut Random) -> Vec<RowFilter> {
    let index = random.pick(&table.indexes).clone();
    let column = index.column_of(table).expect("its column").clone();
    let partition = page.partitions.first();
    let rows: &[Row] = partition.map_or(&[], |partition| &partition.rows);
    let row = (!rows.is_empty()).then(|| random.pick(rows).clone());
    let number =
        |random: &mut Random| Bytes::copy_from_slice(&(random.below(24) as u32).to_be_bytes());
    let of_cell = |row: Option<&Row>| row?.cells_of(column.id).first().cloned();
    let filter = |operator, value| RowFilter {
        column: column.id,
        operator,
        values: vec![value],
    };
    let value = match column.kind {
        ColumnKind::Clustering => row.and_then(|row| row.clustering.0.first().cloned()),
        ColumnKind::Static => {
            let row = partition.and_then(|partition| partition.static_row.as_ref());
            of_cell(row).map(|cell| cell.value)
        }
        _ if column.id == COLUMNS.set => of_cell(row.as_ref()).and_then(|cell| cell.path),
        _ => of_cell(row.as_ref()).map(|cell| cell.value),
    };
    let value = value.unwrap_or_else(|| number(random));
    if column.id == COLUMNS.set {
        return vec![filter(FilterOperator::Contains, value)];
    }
    if index.is_sasi() {
        return vec![like(filter, &value, random)];
    }
    if index.is_storage_attached() && random.chance(60) {
        let other = number(random);
        return match random.below(3) {
            0 => vec![filter(FilterOperator::Greater, value)],
            1 => vec![filter(FilterOperator::LessOrEqual, value)],
            _ => vec![
                filter(FilterOperator::GreaterOrEqual, value),
                filter(FilterOperator::Less, other),
            ],
        };
    }
    vec![filter(FilterOperator::Equal, value)]
}

/// A part of a value, mostly.
fn like(
    filter: impl Fn(FilterOperator, Bytes) -> RowFilter,
    value: &Bytes,
    random: &mut Random,
) -> RowFilter {
    use FilterOperator::{LikeContains, LikeMatches, LikePrefix, LikeSuffix};
    let mut cut = || random.below(value.len() as u64 + 1) as usize;
    let (start, end) = (cut(), cut());
    let (start, end) = (start.min(end), start.max(end));
    match random.below(4) {
        0 => filter(LikePrefix, value.slice(..end)),
        1 => filter(LikeSuffix, value.slice(start..)),
        2 => filter(LikeContains, value.slice(start..end)),
        _ => filter(LikeMatches, value.clone()),
    }
}

/// What of a partition fulfils all filters.
fn filtered(table: &Table, page: &ReadPage, filters: &[RowFilter]) -> Seen {
    let Some(partition) = page.partitions.first() else {
        return (false, Vec::new());
    };
    let passes = |row: &Row| {
        let mut filters = filters.iter();
        filters.all(|filter| {
            let column = table.column(filter.column).expect("its column");
            let row = match column.kind {
                ColumnKind::Static => partition.static_row.as_ref(),
                _ => Some(row),
            };
            row.is_some_and(|row| fulfils(row, column, filter))
        })
    };
    let rows = partition.rows.iter().filter(|row| passes(row));
    let rows: Vec<Clustering> = rows.map(|row| row.clustering.clone()).collect();
    let none = Row::new(Clustering::EMPTY);
    let of_static = filters.iter().all(|filter| {
        let column = table.column(filter.column).expect("its column");
        column.kind == ColumnKind::Static
    });
    let alone = partition.rows.is_empty() && of_static && passes(&none);
    (alone, rows)
}

fn fulfils(row: &Row, column: &model::Column, filter: &RowFilter) -> bool {
    let wanted = &filter.values[0];
    if filter.operator == FilterOperator::Contains {
        let mut cells = row.cells_of(column.id).iter();
        return cells.any(|cell| cell.path.as_ref() == Some(wanted));
    }
    let value = match column.kind {
        ColumnKind::Clustering => row.clustering.0.first().cloned(),
        _ => row
            .cells_of(column.id)
            .first()
            .map(|cell| cell.value.clone()),
    };
    value.is_some_and(|value| {
        let order = column.ty.compare(&value, wanted);
        match filter.operator {
            FilterOperator::Greater => order.is_gt(),
            FilterOperator::GreaterOrEqual => order.is_ge(),
            FilterOperator::Less => order.is_lt(),
            FilterOperator::LessOrEqual => order.is_le(),
            FilterOperator::Equal => order.is_eq(),
            operator => operator.is_like(&value, wanted),
        }
    })
}

/// What is found by an index, in pages of some rows.
async fn found(
    store: &Store,
    (table, key): (&Arc<Table>, &DecoratedKey),
    filters: &[RowFilter],
    (random, now): (&mut Random, u32),
) -> Result<Seen, ReadError> {
    let range = PartitionSelection::Range {
        start: PartitionBound::KeyInclusive(key.clone()),
        end: PartitionBound::KeyInclusive(key.clone()),
    };
    let mut command = command(table, range, &Slice::ALL, false, now);
    command.filters = filters.to_vec();
    if random.chance(60) {
        command.limits.rows = 1 + random.below(5) as u32;
    }
    let mut seen = (false, Vec::new());
    loop {
        let page = store.read(&command).await?;
        let Some(partition) = page.partitions.into_iter().next() else {
            return Ok(seen);
        };
        seen.0 |= partition.rows.is_empty();
        let last = partition.rows.last().map(|row| row.clustering.clone());
        seen.1
            .extend(partition.rows.into_iter().map(|row| row.clustering));
        if !page.more {
            return Ok(seen);
        }
        command.resume = Some(Resume {
            key: key.clone(),
            clustering: last,
            remaining_in_partition: u32::MAX,
        });
    }
}
