//! What guardrails say of the terms of storage-attached indexes (`StorageAttachedIndex.validate`,
//! `validateTermSizeForRow`).

use bytes::Bytes;
use model::{
    Cell, Column, ColumnKind, CqlType, Index, IndexPart, Indexed, PartitionUpdate, Row, decode_key,
};

use crate::CqlError;

use super::{Guardrails, Limit, Setting};

impl Guardrails {
    /// The terms that the storage-attached indexes of its table have of an update.
    pub(super) fn check_terms(
        &self,
        update: &PartitionUpdate,
        warnings: &mut Vec<String>,
    ) -> Result<(), CqlError> {
        let table = &update.table;
        let indexes = table.indexes.iter();
        for index in indexes.filter(|index| index.is_storage_attached()) {
            if let Some(column) = index.column_of(table) {
                for value in values(index, column, update) {
                    self.check_value(index, column, &value, warnings)?;
                }
            }
        }
        Ok(())
    }

    /// A value of an index. Its terms are looked at if it is longer than what is warned of.
    fn check_value(
        &self,
        index: &Index,
        column: &Column,
        value: &[u8],
        warnings: &mut Vec<String>,
    ) -> Result<(), CqlError> {
        let limit = limit_of(index, column);
        let length = value.len() as u64;
        let warns = self.threshold(Setting::Warn(limit));
        if warns.is_none_or(|threshold| length <= threshold) {
            return Ok(());
        }
        for term in index.analyzer().terms(value) {
            self.guard(limit, &column.name, term.len() as u64, warnings)?;
        }
        Ok(())
    }
}

/// Which limit an index has, by the type of its values. Entries of maps are no collections to it.
fn limit_of(index: &Index, column: &Column) -> Limit {
    let ty = match index.part() {
        IndexPart::Entries => None,
        _ => index.value_type(column),
    };
    match ty {
        Some(CqlType::Vector { .. }) => Limit::SaiVectorTermSize,
        Some(
            CqlType::List { .. }
            | CqlType::Set { .. }
            | CqlType::Map { .. }
            | CqlType::Tuple(_)
            | CqlType::Udt { .. }
            | CqlType::Composite(_),
        ) => Limit::SaiFrozenTermSize,
        _ => Limit::SaiStringTermSize,
    }
}

/// What an index has of an update. Of keys it has what each row has, a deleted one too.
fn values(index: &Index, column: &Column, update: &PartitionUpdate) -> Vec<Bytes> {
    let of_cells = |rows: &[&Row]| {
        let cells = rows.iter().flat_map(|row| row.cells_of(column.id));
        let cells = cells.filter(|cell| !cell.is_tombstone());
        cells
            .filter_map(|cell| value(index, column, cell))
            .collect()
    };
    let rows: Vec<&Row> = update.rows.iter().collect();
    match column.kind {
        ColumnKind::Static => of_cells(&update.static_row.iter().collect::<Vec<_>>()),
        ColumnKind::Regular => of_cells(&rows),
        ColumnKind::Clustering => {
            let values = rows.iter();
            let values = values.filter_map(|row| row.clustering.0.get(column.position).cloned());
            values.collect()
        }
        ColumnKind::PartitionKey => {
            let columns = update.table.partition_key().len();
            let key = decode_key(update.key.key(), columns).ok();
            let value = key.and_then(|key| key.get(column.position).cloned());
            value.map_or_else(Vec::new, |value| vec![value; rows.len()])
        }
    }
}

fn value(index: &Index, column: &Column, cell: &Cell) -> Option<Bytes> {
    Some(match index.part_of(column, cell)? {
        Indexed::Value(value) => value.clone(),
        Indexed::Entry(key, value) => composite([key, value]),
    })
}

/// The components with their lengths and ends (`CompositeType.build`).
fn composite(components: [&Bytes; 2]) -> Bytes {
    let mut out = Vec::new();
    for component in components {
        // What is longer can be no key or value of a map in an index.
        let length = u16::try_from(component.len()).unwrap_or(u16::MAX);
        out.extend(length.to_be_bytes());
        out.extend_from_slice(component);
        out.push(0);
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_of_a_map_is_two_components() {
        let (key, value) = (Bytes::from_static(b"a"), Bytes::from_static(b"bc"));
        assert_eq!(&composite([&key, &value])[..], b"\0\x01a\0\0\x02bc\0");
    }
}
