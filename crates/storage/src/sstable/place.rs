//! Where an item of a partition is among the others: what indexes of rows are made of.

use std::cmp::Ordering;

use bytes::Bytes;
use model::{Bound, Clustering, ClusteringComparator};

use super::decode;
use super::encode::kind;
use super::error::DecodeError;
use super::input::Input;
use crate::unfiltered::ItemPlace;

/// The place of the first or last item of a block.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Place {
    /// A row.
    Clustering(Clustering),
    /// A marker.
    Bound(Bound),
}

impl Place {
    /// Its order, compared with a bound.
    pub(super) fn compare_to_bound(
        &self,
        comparator: &ClusteringComparator,
        bound: &Bound,
    ) -> Ordering {
        match self {
            Place::Clustering(clustering) => comparator.compare_to_bound(clustering, bound),
            Place::Bound(own) => comparator.compare_bounds(own, bound),
        }
    }

    /// Takes one from an index of the BIG format.
    pub(super) fn decode(
        bytes: &Bytes,
        input: &mut Input<'_>,
        lengths: &[Option<usize>],
    ) -> Result<Place, DecodeError> {
        let code = input.u8()?;
        if code == kind::CLUSTERING {
            return decode::clustering(bytes, input, lengths).map(Place::Clustering);
        }
        decode::bound(bytes, input, lengths, code).map(|place| Place::Bound(place.bound))
    }

    /// Of a row or marker.
    pub(super) fn of(item: ItemPlace<'_>) -> Place {
        match item {
            ItemPlace::Row(clustering) => Place::Clustering(clustering.clone()),
            ItemPlace::Marker(marker) => Place::Bound(marker.bound.clone()),
        }
    }

    /// As bytes that sort as places do.
    pub(super) fn byte_comparable(&self, comparator: &ClusteringComparator) -> Vec<u8> {
        match self {
            Place::Clustering(clustering) => comparator.byte_comparable(clustering),
            Place::Bound(bound) => comparator.byte_comparable_bound(bound),
        }
    }
}
