//! A partition in memory as a stream of items.

use model::{PartitionUpdate, RangeTombstone};

use crate::{RangeTombstoneMarker, Unfiltered};

/// The rows and markers of an update in the order of the table. Range tombstones that meet share
/// a marker.
pub(super) fn items(update: &PartitionUpdate) -> Vec<Unfiltered> {
    let comparator = update.table.comparator();
    let mut markers: Vec<RangeTombstoneMarker> = Vec::new();
    for RangeTombstone { slice, deletion } in &update.range_tombstones {
        let meets = markers
            .last()
            .is_some_and(|last| comparator.compare_bounds(&last.bound, &slice.start).is_eq());
        match markers.pop() {
            Some(last) if meets => markers.extend(RangeTombstoneMarker::between(
                slice.start.clone(),
                last.closes,
                Some(*deletion),
            )),
            last => {
                markers.extend(last);
                markers.push(RangeTombstoneMarker::open(slice.start.clone(), *deletion));
            }
        }
        markers.push(RangeTombstoneMarker::close(slice.end.clone(), *deletion));
    }
    let mut items = Vec::with_capacity(update.rows.len() + markers.len());
    let mut markers = markers.into_iter().peekable();
    for row in &update.rows {
        while let Some(marker) = markers.next_if(|m| {
            comparator
                .compare_to_bound(&row.clustering, &m.bound)
                .is_gt()
        }) {
            items.push(Unfiltered::Marker(marker));
        }
        items.push(Unfiltered::Row(row.clone()));
    }
    items.extend(markers.map(Unfiltered::Marker));
    items
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use model::{
        Bound, BoundKind, Clustering, ColumnKind, CqlType, DecoratedKey, DeletionTime, Order, Row,
        Slice,
    };
    use smallvec::smallvec;

    use super::*;
    use crate::sstable::tests::support::table_of;

    #[test]
    fn ranges_that_meet_share_a_marker() {
        let column = |name: &str, kind| (name.to_owned(), CqlType::Int, kind, Order::Ascending);
        let table = table_of(vec![
            column("pk", ColumnKind::PartitionKey),
            column("c", ColumnKind::Clustering),
        ]);
        let prefix = |i: i32| Clustering(smallvec![Bytes::copy_from_slice(&i.to_be_bytes())]);
        let bound = |i, kind| Bound {
            prefix: prefix(i),
            kind,
        };
        let range = |start, end, timestamp| RangeTombstone {
            slice: Slice { start, end },
            deletion: DeletionTime {
                timestamp,
                local_deletion_time: 1,
            },
        };
        let key = DecoratedKey::new(Bytes::from_static(&[0; 4]));
        let mut update = PartitionUpdate::new(Arc::new(table), key);
        update.rows = vec![
            Row::new(prefix(1)),
            Row::new(prefix(2)),
            Row::new(prefix(3)),
        ];
        update.range_tombstones = vec![
            range(
                bound(1, BoundKind::ExclusiveStart),
                bound(2, BoundKind::InclusiveEnd),
                10,
            ),
            range(
                bound(2, BoundKind::ExclusiveStart),
                bound(3, BoundKind::ExclusiveEnd),
                20,
            ),
        ];
        let items = items(&update);
        let markers: Vec<_> = items
            .iter()
            .enumerate()
            .filter_map(|(i, item)| match item {
                Unfiltered::Marker(m) => Some((i, m.is_boundary())),
                Unfiltered::Row(_) => None,
            })
            .collect();
        assert_eq!(markers, [(1, false), (3, true), (4, false)]);
        assert_eq!(items.len(), 6);
    }
}
