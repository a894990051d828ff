//! What the fuzz target does with an input; `cargo test` does the same with the kept corpus.
//!
//! The first byte says what the rest is taken for, and which version of the table is known to who
//! reads it.

use std::sync::Arc;

use bytes::Bytes;
use model::record::message::{
    Numbering, decode_batch, decode_late, decode_mutation, decode_page, decode_read,
    decode_versions, encode_batch, encode_late, encode_mutation, encode_read, encode_versions,
};
use model::{
    Column, ColumnId, ColumnKind, CqlType, DroppedColumn, Order, Table, TableId, TableOptions,
};

/// Reads the input as what its first byte says. What is read is written and read again: it stays as it
/// is then, if perhaps not as it came (a marker may be said to expire that is not there).
pub(super) fn run(data: &[u8]) {
    let [choice, data @ ..] = data else {
        return;
    };
    let table = table(choice >> 4 & 1 != 0);
    let find = |id: TableId| (id == table.id).then(|| table.clone());
    let bytes = Bytes::copy_from_slice(data);
    if choice & 0x20 != 0 {
        if let Ok(batch) = decode_batch(bytes) {
            let again = Bytes::from(encode_batch(&batch));
            assert_eq!(decode_batch(again), Ok(batch));
        }
        return;
    }
    if choice & 0x40 != 0 {
        let again = |(mutation, written_at)| {
            let bytes = encode_late(&mutation, written_at, choice & 8 != 0);
            decode_late(bytes.into(), find).expect("it is sound")
        };
        if let Ok(late) = decode_late(bytes, find) {
            let late = again(late);
            assert_eq!(again(late.clone()), late);
        }
        return;
    }
    match choice & 3 {
        0 => {
            let again = |mutation| {
                let bytes = Bytes::from(encode_mutation(&mutation, choice & 8 != 0));
                decode_mutation(bytes, find).expect("it is sound")
            };
            if let Ok(mutation) = decode_mutation(bytes, find) {
                let mutation = again(mutation);
                assert_eq!(again(mutation.clone()), mutation);
            }
        }
        1 => {
            if let Ok((kind, command, _)) = decode_read(bytes, find) {
                let again = Bytes::from(encode_read(kind, &command, choice & 8 != 0));
                let (kind_again, command_again, _) = decode_read(again, find).expect("it is sound");
                assert_eq!((kind_again, command_again), (kind, command));
            }
        }
        _ => {
            let (columns, reversed) = (Numbering::own(table.clone()), choice & 1 != 0);
            let _ = decode_page(bytes.clone(), &columns, reversed);
            let again = |page| {
                let bytes = Bytes::from(encode_versions(&page, &columns));
                decode_versions(bytes, &columns, reversed).expect("it is sound")
            };
            if let Ok(page) = decode_versions(bytes, &columns, reversed) {
                let page = again(page);
                assert_eq!(again(page.clone()), page);
            }
        }
    }
}

/// The table of the tests of messages; `changed`, as a node knows it that has dropped `s` and added
/// `x`, and gave the columns other ids.
fn table(changed: bool) -> Arc<Table> {
    let column = |id: u32, name: &str, ty, kind, position, order| Column {
        id: ColumnId(if changed { 20 - id } else { id }),
        name: name.into(),
        ty,
        kind,
        position,
        order,
    };
    let set = CqlType::Set {
        element: Box::new(CqlType::Int),
        frozen: false,
    };
    use {ColumnKind::*, Order::*};
    let mut columns = vec![
        column(0, "k", CqlType::Int, PartitionKey, 0, Ascending),
        column(1, "a", CqlType::Int, Clustering, 0, Ascending),
        column(2, "b", CqlType::Tinyint, Clustering, 1, Descending),
        column(4, "v", CqlType::Blob, Regular, 0, Ascending),
        column(5, "w", set, Regular, 0, Ascending),
    ];
    columns.push(match changed {
        false => column(3, "s", CqlType::Int, Static, 0, Ascending),
        true => column(6, "x", CqlType::Int, Regular, 0, Ascending),
    });
    let mut table = Table::new(TableId::nil(), "ks", "t", columns, TableOptions::default());
    if changed {
        table.dropped.push(DroppedColumn {
            name: "s".into(),
            ty: CqlType::Int,
            is_static: true,
            dropped_at: 2,
        });
    }
    Arc::new(table)
}
