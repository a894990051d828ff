//! The table that an sstable was written for.

use model::{
    Column, ColumnId, ColumnKind, CqlType, MarshalError, Order, Table, TableId, TableOptions,
};

use crate::sstable::{HeaderColumn, SerializationHeader};

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
    let mut add = |name: String, ty: CqlType, kind, position, order| {
        columns.push(Column {
            id: ColumnId(columns.len() as u32),
            name: name.into(),
            ty,
            kind,
            position,
            order,
        });
    };
    for (i, ty) in keys.iter().enumerate() {
        let kind = ColumnKind::PartitionKey;
        let name = numbered("PartitionKey", i);
        add(name, ty.freeze(), kind, i, Order::Ascending);
    }
    for (i, (ty, order)) in header.clustering.iter().enumerate() {
        add(
            numbered("clustering", i),
            ty.freeze(),
            ColumnKind::Clustering,
            i,
            *order,
        );
    }
    for (kind, list) in [
        (ColumnKind::Static, &header.statics),
        (ColumnKind::Regular, &header.regulars),
    ] {
        for (i, column) in list.iter().enumerate() {
            let ty = match cells(list, i) {
                Cells::One => column.ty.freeze(),
                Cells::Several | Cells::Unclear => column.ty.clone(),
            };
            add(column.name.clone(), ty, kind, 0, Order::Ascending);
        }
    }
    let options = TableOptions::default();
    Ok(Table::new(TableId::nil(), keyspace, name, columns, options))
}

/// Over how many cells the values of a column are spread.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Cells {
    One,
    Several,
    /// The header does not tell.
    Unclear,
}

/// How the values of a column of a header are kept. Cassandra 3.0, whose user types were all frozen,
/// did not write that they are, and files of 3.0 and 3.11 have the same versions. But columns of one
/// cell come first, each group by name (`ColumnMetadata.compareTo`), so that others may tell.
fn cells(columns: &[HeaderColumn], at: usize) -> Cells {
    let column = &columns[at];
    if !column.ty.is_multi_cell() {
        return Cells::One;
    }
    if column.ty.is_collection() {
        return Cells::Several;
    }
    let is_collection = |c: &HeaderColumn| c.ty.is_multi_cell() && c.ty.is_collection();
    let (before, after) = (&columns[..at], &columns[at + 1..]);
    let is_first_group =
        |c: &HeaderColumn| !c.ty.is_multi_cell() || is_collection(c) && c.name < column.name;
    if before.iter().any(is_collection) {
        Cells::Several
    } else if after.iter().any(is_first_group) {
        Cells::One
    } else {
        Cells::Unclear
    }
}

/// The columns of user types that may be frozen or not, if Cassandra 3 wrote the header:
/// [`table_of_header`] takes them as the header has them, not frozen.
pub fn unclear_user_types(header: &SerializationHeader) -> Vec<&str> {
    let unclear = |list: &'_ [HeaderColumn]| -> Vec<usize> {
        let all = 0..list.len();
        all.filter(|i| cells(list, *i) == Cells::Unclear).collect()
    };
    [&header.statics, &header.regulars]
        .into_iter()
        .flat_map(|list| unclear(list).into_iter().map(|i| &*list[i].name))
        .collect()
}

/// `name`, `name1`, `name2`, ….
fn numbered(name: &str, number: usize) -> String {
    match number {
        0 => name.to_owned(),
        n => format!("{name}{n}"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::UserType;

    use super::*;
    use crate::sstable::EncodingStats;

    fn user_type() -> CqlType {
        CqlType::Udt {
            definition: Arc::new(UserType {
                keyspace: "ks".into(),
                name: "u".into(),
                fields: vec![("f".into(), CqlType::Int)],
            }),
            frozen: false,
        }
    }

    fn header(columns: &[(&str, CqlType)]) -> SerializationHeader {
        let column = |(name, ty): &(&str, CqlType)| HeaderColumn {
            name: (*name).to_owned(),
            ty: ty.clone(),
        };
        SerializationHeader {
            encoding: EncodingStats::default(),
            key_type: user_type().to_marshal(),
            clustering: vec![(user_type(), Order::Ascending)],
            statics: Vec::new(),
            regulars: columns.iter().map(column).collect(),
        }
    }

    /// Is the user type of column `u` taken for one that is not frozen?
    fn is_free(header: &SerializationHeader) -> bool {
        let table = table_of_header(header, "ks", "t").expect("a table");
        table
            .column_named("u")
            .expect("a column")
            .ty
            .is_multi_cell()
    }

    #[test]
    fn the_order_of_the_columns_tells_of_user_types() {
        let list = || CqlType::List {
            element: Box::new(CqlType::Int),
            frozen: false,
        };
        let before_a_simple_one = header(&[("u", user_type()), ("v", CqlType::Int)]);
        assert!(!is_free(&before_a_simple_one));
        assert!(unclear_user_types(&before_a_simple_one).is_empty());
        let not_by_name = header(&[("u", user_type()), ("l", list())]);
        assert!(!is_free(&not_by_name));
        let behind_a_list = header(&[("l", list()), ("u", user_type())]);
        assert!(is_free(&behind_a_list));
        assert!(unclear_user_types(&behind_a_list).is_empty());
        let unclear = header(&[("a", CqlType::Int), ("u", user_type())]);
        assert!(is_free(&unclear));
        assert_eq!(unclear_user_types(&unclear), ["u"]);
    }

    #[test]
    fn keys_are_frozen() {
        let table = table_of_header(&header(&[]), "ks", "t").expect("a table");
        assert!(table.columns().all(|column| !column.ty.is_multi_cell()));
    }
}
