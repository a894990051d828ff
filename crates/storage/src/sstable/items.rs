//! Taking the items of a partition from a cursor: the decoder, fed with as much of the file as it
//! needs.

use bytes::Bytes;
use model::{Clustering, DecoratedKey, Row};

use super::cursor::Cursor;
use super::decode::{self, ColumnSelection, Item, MarkerPlace};
use super::error::{DecodeError, SSTableError};
use super::input::Input;
use super::layout::Layout;
use crate::{PartitionHead, RangeTombstoneMarker};

/// Decodes the head of an item, with as much of the file as it takes.
pub(super) async fn read_item(cursor: &mut Cursor, layout: &Layout) -> Result<Item, SSTableError> {
    loop {
        let mut input = cursor.input();
        match decode::item(cursor.window(), &mut input, layout) {
            Ok(item) => {
                let taken = input.position();
                cursor.advance(taken);
                return Ok(item);
            }
            Err(DecodeError::Incomplete) => cursor.extend().await?,
            Err(error) => return Err(cursor.failed(error)),
        }
    }
}

/// Hands the bytes of a body to a decoder.
async fn read_body<T>(
    cursor: &mut Cursor,
    body: usize,
    decode: impl FnOnce(&Bytes, &mut Input<'_>) -> Result<T, DecodeError>,
) -> Result<T, SSTableError> {
    cursor.require(body).await?;
    let mut all = cursor.input();
    let decoded = all.take(body).and_then(|bytes| {
        let mut input = Input::new(bytes);
        decode(cursor.window(), &mut input)
    });
    match decoded {
        Ok(value) => {
            cursor.advance(body);
            Ok(value)
        }
        Err(error) => Err(cursor.failed(error)),
    }
}

/// Decodes the body of a marker.
pub(super) async fn read_marker(
    cursor: &mut Cursor,
    layout: &Layout,
    place: MarkerPlace,
    body: usize,
) -> Result<RangeTombstoneMarker, SSTableError> {
    read_body(cursor, body, |_, input| {
        decode::marker(input, place, layout)
    })
    .await
}

/// Decodes the body of a row: flags, clustering and the length of the body come from its head.
pub(super) async fn read_row(
    cursor: &mut Cursor,
    layout: &Layout,
    (flags, clustering, body): ((u8, u8), Clustering, usize),
    columns: &ColumnSelection,
) -> Result<Row, SSTableError> {
    read_body(cursor, body, |bytes, input| {
        decode::row(bytes, input, flags, clustering, layout, columns)
    })
    .await
}

/// Reads the beginning of a partition, which must be that of `key`.
pub(super) async fn read_head(
    cursor: &mut Cursor,
    layout: &Layout,
    key: DecoratedKey,
    columns: &ColumnSelection,
) -> Result<PartitionHead, SSTableError> {
    let raw = loop {
        let mut input = cursor.input();
        match decode::head(cursor.window(), &mut input, layout) {
            Ok(head) => {
                let taken = input.position();
                cursor.advance(taken);
                break head;
            }
            Err(DecodeError::Incomplete) => cursor.extend().await?,
            Err(error) => return Err(cursor.failed(error)),
        }
    };
    if raw.key != *key.key() {
        return Err(cursor.corrupt("the partition is not the one that the index says"));
    }
    let static_row = if layout.statics.columns.is_empty() {
        None
    } else {
        let item = read_item(cursor, layout).await?;
        let Item::Row {
            flags,
            extension,
            clustering,
            body,
        } = item
        else {
            return Err(cursor.corrupt("the static row is missing"));
        };
        let head = ((flags, extension), clustering, body);
        let row = read_row(cursor, layout, head, columns).await?;
        Some(row).filter(|r| !r.is_empty())
    };
    Ok(PartitionHead {
        key,
        deletion: raw.deletion,
        static_row,
    })
}
