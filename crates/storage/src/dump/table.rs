//! The table that an sstable was written for.

use model::{
    Column, ColumnId, ColumnKind, CqlType, MarshalError, Order, Table, TableId, TableOptions,
};

use crate::sstable::SerializationHeader;

/// A header that no table can be made of.
#[derive(Debug, thiserror::Error)]
pub enum HeaderError {
    /// The type of the partition key is none.
    #[error("the type of the partition key: {0}")]
    Key(#[from] MarshalError),
    /// The partition key has no columns.
    #[error("the partition key has no columns")]
    NoKey,
}

/// The table of an sstable with this header, as `tools.Util.metadataFromSSTable` makes it: the
/// header has no names of keys, so those are made up, and ids follow the order of the file.
pub fn table_of_header(
    header: &SerializationHeader,
    keyspace: &str,
    name: &str,
) -> Result<Table, HeaderError> {
    let keys = CqlType::key_types_from_marshal(&header.key_type)?;
    if keys.is_empty() {
        return Err(HeaderError::NoKey);
    }
    let mut columns = Vec::new();
    let mut add = |name: String, ty: &CqlType, kind, position, order| {
        columns.push(Column {
            id: ColumnId(columns.len() as u32),
            name: name.into(),
            ty: ty.clone(),
            kind,
            position,
            order,
        });
    };
    for (i, ty) in keys.iter().enumerate() {
        let kind = ColumnKind::PartitionKey;
        add(numbered("PartitionKey", i), ty, kind, i, Order::Ascending);
    }
    for (i, (ty, order)) in header.clustering.iter().enumerate() {
        add(
            numbered("clustering", i),
            ty,
            ColumnKind::Clustering,
            i,
            *order,
        );
    }
    for (kind, list) in [
        (ColumnKind::Static, &header.statics),
        (ColumnKind::Regular, &header.regulars),
    ] {
        for column in list {
            add(column.name.clone(), &column.ty, kind, 0, Order::Ascending);
        }
    }
    let options = TableOptions::default();
    Ok(Table::new(TableId::nil(), keyspace, name, columns, options))
}

/// `name`, `name1`, `name2`, ….
fn numbered(name: &str, number: usize) -> String {
    match number {
        0 => name.to_owned(),
        n => format!("{name}{n}"),
    }
}
