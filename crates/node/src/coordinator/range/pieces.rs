//! Cutting a range of the ring where replicas change (`ReplicaPlanIterator.getRestrictedRanges`).

use model::{PartitionBound, PartitionSelection, ReadCommand, Token};

/// A part of a range with the same replicas throughout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) start: PartitionBound,
    pub(super) end: PartitionBound,
    /// A token that has these replicas.
    pub(super) token: Token,
}

/// The pieces of the range of a command, in order, from where the page before ended. `ends` are the
/// (inclusive) ends of the ranges of the ring; behind the last one lies what belongs to the first.
pub(super) fn split(command: &ReadCommand, ends: impl Iterator<Item = Token>) -> Vec<Piece> {
    let PartitionSelection::Range { start, end } = &command.partitions else {
        return Vec::new();
    };
    let resumed = command.resume.as_ref().map(|resume| resume.key.token());
    let first = resumed.or(token_of(start)).unwrap_or(Token::MIN);
    let last = token_of(end).unwrap_or(Token::MAX);
    let nothing_of_first = resumed.is_none() && matches!(start, PartitionBound::TokenExclusive(_));
    let mut pieces: Vec<Piece> = Vec::new();
    let mut before = None;
    for piece_end in ends.chain([Token::MAX]) {
        if before == Some(piece_end) {
            break;
        }
        let is_before = match nothing_of_first {
            true => piece_end <= first,
            false => piece_end < first,
        };
        if !is_before {
            let start = match (pieces.is_empty(), before) {
                (false, Some(before)) => PartitionBound::TokenExclusive(before),
                _ => start.clone(),
            };
            let ends_here = piece_end >= last;
            pieces.push(Piece {
                start,
                end: match ends_here {
                    true => end.clone(),
                    false => PartitionBound::TokenInclusive(piece_end),
                },
                token: piece_end,
            });
            if ends_here {
                break;
            }
        }
        before = Some(piece_end);
    }
    pieces
}

/// The token of a bound, if it has one.
fn token_of(bound: &PartitionBound) -> Option<Token> {
    match bound {
        PartitionBound::Unbounded => None,
        PartitionBound::TokenInclusive(token) | PartitionBound::TokenExclusive(token) => {
            Some(*token)
        }
        PartitionBound::KeyInclusive(key) | PartitionBound::KeyExclusive(key) => Some(key.token()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use model::{
        ClusteringSelection, Column, ColumnId, ColumnKind, CqlType, DataLimits, DecoratedKey,
        Order, Resume, Table, TableId, TableOptions,
    };
    use proptest::prelude::*;

    use super::*;

    fn command(start: PartitionBound, end: PartitionBound, resume: Option<u8>) -> ReadCommand {
        let column = Column {
            id: ColumnId(0),
            name: "k".into(),
            ty: CqlType::Blob,
            kind: ColumnKind::PartitionKey,
            position: 0,
            order: Order::Ascending,
        };
        let id = TableId::from_u128(1);
        let table = Table::new(id, "ks", "t", vec![column], TableOptions::default());
        ReadCommand {
            table: Arc::new(table),
            partitions: PartitionSelection::Range { start, end },
            clustering: ClusteringSelection {
                slices: Vec::new(),
                reversed: false,
            },
            columns: Vec::new(),
            filters: Vec::new(),
            limits: DataLimits {
                rows: 1,
                rows_per_partition: 1,
                bytes: 1,
            },
            now_seconds: 0,
            resume: resume.map(|number| Resume {
                key: key(number),
                clustering: None,
                remaining_in_partition: 0,
            }),
            bypass_cache: false,
            packed: false,
        }
    }

    fn key(number: u8) -> DecoratedKey {
        DecoratedKey::new(Bytes::copy_from_slice(&[number]))
    }

    fn within(key: &DecoratedKey, start: &PartitionBound, end: &PartitionBound) -> bool {
        let behind_start = match start {
            PartitionBound::Unbounded => true,
            PartitionBound::TokenInclusive(token) => key.token() >= *token,
            PartitionBound::TokenExclusive(token) => key.token() > *token,
            PartitionBound::KeyInclusive(start) => key >= start,
            PartitionBound::KeyExclusive(start) => key > start,
        };
        behind_start
            && match end {
                PartitionBound::Unbounded => true,
                PartitionBound::TokenInclusive(token) => key.token() <= *token,
                PartitionBound::TokenExclusive(token) => key.token() < *token,
                PartitionBound::KeyInclusive(end) => key <= end,
                PartitionBound::KeyExclusive(end) => key < end,
            }
    }

    fn bound() -> impl Strategy<Value = PartitionBound> {
        prop_oneof![
            2 => Just(PartitionBound::Unbounded),
            1 => any::<u8>().prop_map(|n| PartitionBound::KeyInclusive(key(n))),
            1 => any::<u8>().prop_map(|n| PartitionBound::KeyExclusive(key(n))),
            1 => any::<u8>().prop_map(|n| PartitionBound::TokenInclusive(key(n).token())),
            1 => any::<u8>().prop_map(|n| PartitionBound::TokenExclusive(key(n).token())),
        ]
    }

    proptest! {
        /// Each key of the range is in one piece, one of its replicas, and no other key is in any.
        #[test]
        fn pieces_are_the_range(
            (start, end) in (bound(), bound()),
            resume in prop::option::of(any::<u8>()),
            ends in prop::collection::btree_set(any::<u8>(), 0..20),
        ) {
            let resume = resume.filter(|number| within(&key(*number), &start, &end));
            let command = command(start.clone(), end.clone(), resume);
            let mut ends: Vec<Token> = ends.into_iter().map(|number| key(number).token()).collect();
            ends.sort_unstable();
            let pieces = split(&command, ends.iter().copied());
            let range_of = |token: Token| {
                let at = ends.partition_point(|end| *end < token);
                if at == ends.len() { 0 } else { at }
            };
            for number in 0..=u8::MAX {
                let key = key(number);
                let having = pieces.iter().filter(|p| within(&key, &p.start, &p.end));
                let having: Vec<&Piece> = having.collect();
                let goes_on = resume.is_none_or(|from| key.token() >= self::key(from).token());
                if within(&key, &start, &end) && goes_on {
                    prop_assert_eq!(having.len(), 1, "{:?} of {:?}", key, pieces);
                    prop_assert_eq!(range_of(having[0].token), range_of(key.token()));
                } else if !within(&key, &start, &end) {
                    prop_assert!(having.is_empty());
                }
            }
            let in_order = pieces.windows(2).all(|pair| pair[0].token < pair[1].token);
            prop_assert!(in_order);
        }
    }
}
