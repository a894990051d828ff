//! Dropped columns of which there may be cells that are newer than the drop: a compaction keeps them,
//! as they belong to the column that may be added again under that name (`SerializationHeader.make`,
//! `DeserializationHelper.isDropped`).

use std::sync::Arc;

use model::{Column, ColumnId, ColumnKind, DroppedColumn, Order, Table};

use super::super::Inner;
use crate::error::CompactionError;
use crate::sstable::{HeaderColumn, SSTable};

/// How far the numbers of kept columns are from those of the table: columns that are added while a
/// compaction runs must not get them.
const APART: u32 = 1024;

impl Inner {
    /// What a compaction of these sstables works with: the table with the dropped columns that have
    /// to be kept, if there are any, and the sstables as they are seen with them.
    pub(super) async fn with_dropped(
        &self,
        table: Arc<Table>,
        inputs: Vec<SSTable>,
    ) -> Result<(Arc<Table>, Vec<SSTable>), CompactionError> {
        let kept = kept(&table, &inputs);
        if kept.is_empty() {
            return Ok((table, inputs));
        }
        let seen = Arc::new(with_columns(&table, &kept));
        let mut all = Vec::with_capacity(inputs.len());
        for input in inputs {
            all.push(match kept.iter().any(|(d, _)| holds(&input, d).is_some()) {
                // Reads go on with what they know.
                true => SSTable::open(&self.env, input.descriptor(), &seen, &self.cache).await?,
                false => input,
            });
        }
        Ok((seen, all))
    }
}

/// The dropped columns that the sstables may hold newer cells of.
fn kept<'t>(table: &'t Table, inputs: &[SSTable]) -> Vec<(&'t DroppedColumn, ColumnKind)> {
    let dropped = table.dropped.iter();
    let gone = dropped.filter(|dropped| table.column_named(&dropped.name).is_none());
    gone.filter_map(|dropped| {
        let kind = inputs.iter().find_map(|input| holds(input, dropped))?;
        Some((dropped, kind))
    })
    .collect()
}

/// As what an sstable may hold cells of a column that are newer than its drop, if it may.
fn holds(sstable: &SSTable, dropped: &DroppedColumn) -> Option<ColumnKind> {
    if sstable.stats().max_timestamp <= dropped.dropped_at {
        return None;
    }
    let header = &sstable.statistics().header;
    let has = |columns: &[HeaderColumn]| {
        let mut columns = columns.iter();
        columns.any(|column| *column.name == *dropped.name && can_be_kept(column, dropped))
    };
    if has(&header.regulars) {
        return Some(ColumnKind::Regular);
    }
    has(&header.statics).then_some(ColumnKind::Static)
}

/// Can cells of the one be written as those of the other? What a drop leaves of a type is not always
/// all of it.
fn can_be_kept(column: &HeaderColumn, dropped: &DroppedColumn) -> bool {
    let (theirs, own) = (&column.ty, &dropped.ty);
    theirs.is_multi_cell() == own.is_multi_cell()
        && theirs.fixed_length() == own.fixed_length()
        && own.path_type().is_none_or(|path| path.has_known_order())
}

/// The table with these columns.
fn with_columns(table: &Table, kept: &[(&DroppedColumn, ColumnKind)]) -> Table {
    let first = table.next_column_id().0 + APART;
    let kept = (first..).zip(kept).map(|(id, (dropped, kind))| Column {
        id: ColumnId(id),
        name: dropped.name.clone(),
        ty: dropped.ty.clone(),
        kind: *kind,
        position: 0,
        order: Order::Ascending,
    });
    let columns = table.columns().cloned().chain(kept).collect();
    let (keyspace, name) = (table.keyspace.clone(), table.name.clone());
    let mut seen = Table::new(table.id, keyspace, name, columns, table.options.clone());
    seen.dropped.clone_from(&table.dropped);
    seen.compact = table.compact;
    seen
}
