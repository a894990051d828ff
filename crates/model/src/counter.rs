//! Counters: the value of a cell of a counter column is a context, one shard for each node that
//! ever added to it (`CounterContext`).
//!
//! | part | form |
//! |---|---|
//! | header | `i16` count, then one `i16` for each shard that is global or local: its index, and the sign bit set if it is global |
//! | shards | sorted by id: 16 bytes id of the node, `i64` clock, `i64` count |
//!
//! A shard is *global* (written whole, by its node alone, under a rising clock; all that Cassandra
//! has written since 2.1), *local* (an addition that has not become a global shard yet: local
//! shards add up) or *remote* (old). Of two shards of one node the global one stays, or the local
//! one; of two global or two remote ones the one with the later clock.
//!
//! An increment travels from the coordinator as a context of its own, an [`update`]; the node that
//! leads it reads its own shard, and writes it as a global one with the sum and a later clock
//! ([`apply`]). What it wrote can be merged any number of times, an update only once.

use std::cmp::Ordering;

use bytes::Bytes;

use crate::{Cell, NO_DELETION_TIME, NO_TTL, ValueError, value::refuse};

const SHARD_LENGTH: usize = 32;
/// The id of the only shard of an update (`CounterContext.UPDATE_CLOCK_ID`): no node has it.
const UPDATE_ID: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0xC0, 0, 0, 0, 0, 0, 0, 0];
/// Set in the index of a global shard.
const GLOBAL: u16 = 0x8000;

/// What a shard says of itself; the later one wins over the earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ShardKind {
    /// The count of another node, written before Cassandra 2.1.
    Remote,
    /// An increment.
    Local,
    /// The count of a node.
    Global,
}

/// What one node has counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterShard {
    /// The node's counter id.
    pub id: [u8; 16],
    /// Rises with every write of the node.
    pub clock: i64,
    /// The node's part of the counter.
    pub count: i64,
    /// How it merges with others of this node.
    pub kind: ShardKind,
}

/// The shards of a context, sorted by id.
pub fn decode(context: &[u8]) -> Result<Vec<CounterShard>, ValueError> {
    let malformed = || ValueError::new("a counter's context is malformed");
    let (marked, rest) = context.split_first_chunk::<2>().ok_or_else(malformed)?;
    let marked = usize::from(i16::from_be_bytes(*marked).unsigned_abs());
    let (header, body) = rest.split_at_checked(2 * marked).ok_or_else(malformed)?;
    let (shards, left) = body.as_chunks::<SHARD_LENGTH>();
    if !left.is_empty() {
        return refuse!("a counter's context is malformed");
    }
    let mut shards: Vec<CounterShard> = shards
        .iter()
        .map(|shard| {
            let (words, _) = shard.as_chunks::<8>();
            let mut id = [0; 16];
            id.copy_from_slice(&shard[..16]);
            CounterShard {
                id,
                clock: i64::from_be_bytes(words[2]),
                count: i64::from_be_bytes(words[3]),
                kind: ShardKind::Remote,
            }
        })
        .collect();
    for index in header.as_chunks::<2>().0 {
        let index = u16::from_be_bytes(*index);
        let shard = shards.get_mut(usize::from(index & !GLOBAL));
        shard.ok_or_else(malformed)?.kind = if index & GLOBAL != 0 {
            ShardKind::Global
        } else {
            ShardKind::Local
        };
    }
    Ok(shards)
}

/// The context of these shards, sorted by id, at most 32 767.
pub fn encode(shards: &[CounterShard]) -> Vec<u8> {
    let marked = || {
        shards
            .iter()
            .enumerate()
            .filter(|(_, shard)| shard.kind != ShardKind::Remote)
    };
    let mut out = (marked().count() as u16).to_be_bytes().to_vec();
    for (i, shard) in marked() {
        let flag = if shard.kind == ShardKind::Global {
            GLOBAL
        } else {
            0
        };
        out.extend_from_slice(&(i as u16 | flag).to_be_bytes());
    }
    for shard in shards {
        out.extend_from_slice(&shard.id);
        out.extend_from_slice(&shard.clock.to_be_bytes());
        out.extend_from_slice(&shard.count.to_be_bytes());
    }
    out
}

/// A context of one local shard of `node`, as Cassandra 2.0 wrote increments
/// (`CounterContext.createLocal`).
pub fn increment(node: [u8; 16], count: i64) -> Vec<u8> {
    encode(&[CounterShard {
        id: node,
        clock: 1,
        count,
        kind: ShardKind::Local,
    }])
}

/// The value of the cell by which a client adds `delta` to a counter
/// (`CounterContext.createUpdate`). Two of them merge into the update of both.
pub fn update(delta: i64) -> Vec<u8> {
    increment(UPDATE_ID, delta)
}

/// What an [`update`] adds; `None` if the context is none (`CounterContext.isUpdate`).
pub fn delta(context: &[u8]) -> Option<i64> {
    match &*decode(context).ok()? {
        [shard] if shard.id == UPDATE_ID => Some(shard.count),
        _ => None,
    }
}

/// The context by which the node `leader` adds `delta` to a counter: its own shard alone, with all
/// that it has counted (`CounterMutation.updateWithCurrentValue`).
///
/// `current` is what the leader itself holds of the counter, if anything. Nobody else may add to
/// the counter through this leader between the reading of it and the writing of what is returned.
/// The clock is the time, in microseconds since 1970, or later if that has been written already.
///
/// Errors: the current context cannot be read. Nothing can be added to it then.
pub fn apply(
    current: Option<&[u8]>,
    leader: [u8; 16],
    now_micros: i64,
    delta: i64,
) -> Result<Vec<u8>, ValueError> {
    let shards = current.map(decode).transpose()?.unwrap_or_default();
    let own = shards.iter().find(|shard| shard.id == leader);
    Ok(encode(&[CounterShard {
        id: leader,
        clock: own.map_or(now_micros, |own| {
            now_micros.max(own.clock.saturating_add(1))
        }),
        count: own.map_or(0, |own| own.count).wrapping_add(delta),
        kind: ShardKind::Global,
    }]))
}

/// What the counter stands at; 0 where the context cannot be read.
pub fn total(context: &[u8]) -> i64 {
    let shards = decode(context).unwrap_or_default();
    shards
        .iter()
        .fold(0i64, |sum, shard| sum.wrapping_add(shard.count))
}

/// Two contexts in one.
pub fn merge(a: &[u8], b: &[u8]) -> Vec<u8> {
    let (Ok(a_shards), Ok(b_shards)) = (decode(a), decode(b)) else {
        // What cannot be read cannot be added to: one of them stays, always the same.
        return a.max(b).to_vec();
    };
    let mut merged = Vec::with_capacity(a_shards.len() + b_shards.len());
    let (mut a, mut b) = (
        a_shards.into_iter().peekable(),
        b_shards.into_iter().peekable(),
    );
    while let (Some(x), Some(y)) = (a.peek(), b.peek()) {
        match x.id.cmp(&y.id) {
            Ordering::Less => merged.extend(a.next()),
            Ordering::Greater => merged.extend(b.next()),
            Ordering::Equal => {
                merged.push(merge_shards(*x, *y));
                a.next();
                b.next();
            }
        }
    }
    merged.extend(a);
    merged.extend(b);
    encode(&merged)
}

fn merge_shards(a: CounterShard, b: CounterShard) -> CounterShard {
    match a.kind.cmp(&b.kind) {
        Ordering::Greater => a,
        Ordering::Less => b,
        Ordering::Equal if a.kind == ShardKind::Local => CounterShard {
            clock: a.clock.wrapping_add(b.clock),
            count: a.count.wrapping_add(b.count),
            ..a
        },
        Ordering::Equal if (a.clock, a.count) >= (b.clock, b.count) => a,
        Ordering::Equal => b,
    }
}

/// Which of two cells of a counter stays, or what they add up to (`Cells.resolveCounter`): a
/// tombstone always wins, whatever its timestamp, so that a deleted counter stays deleted.
pub(crate) fn reconcile(a: Cell, b: Cell) -> Cell {
    match (a.is_tombstone(), b.is_tombstone()) {
        (true, false) => return a,
        (false, true) => return b,
        (true, true) => return a.reconcile(b),
        (false, false) => {}
    }
    let value = match (a.value.is_empty(), b.value.is_empty()) {
        // A read that did not ask for the column leaves its value out.
        (true, _) | (_, true) => Bytes::new(),
        (false, false) if a.value == b.value && !has_local(&a.value) => a.value,
        (false, false) => Bytes::from(merge(&a.value, &b.value)),
    };
    Cell {
        timestamp: a.timestamp.max(b.timestamp),
        ttl: NO_TTL,
        local_deletion_time: NO_DELETION_TIME,
        value,
        ..a
    }
}

fn has_local(context: &[u8]) -> bool {
    decode(context).is_ok_and(|shards| shards.iter().any(|s| s.kind == ShardKind::Local))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shard(id: u8, clock: i64, count: i64, kind: ShardKind) -> CounterShard {
        CounterShard {
            id: [id; 16],
            clock,
            count,
            kind,
        }
    }

    #[test]
    fn a_context_is_laid_out_as_cassandra_does() {
        let shards = [
            shard(1, 2, 3, ShardKind::Global),
            shard(2, 4, 5, ShardKind::Remote),
            shard(3, 6, -7, ShardKind::Local),
        ];
        let context = encode(&shards);
        assert_eq!(context[..6], [0, 2, 0x80, 0, 0, 2]);
        assert_eq!(decode(&context), Ok(shards.to_vec()));
        assert_eq!(total(&context), 1);
        assert!(decode(&context[..40]).is_err());
        assert!(decode(&[0, 1, 0, 0]).is_err(), "an index of no shard");
    }

    #[test]
    fn shards_of_one_node_become_one() {
        use ShardKind::{Global, Local, Remote};
        let one = |a: CounterShard, b: CounterShard| {
            let merged = merge(&encode(&[a]), &encode(&[b]));
            assert_eq!(merged, merge(&encode(&[b]), &encode(&[a])));
            decode(&merged).unwrap()[0]
        };
        let sum = one(shard(1, 1, 5, Local), shard(1, 1, 6, Local));
        assert_eq!((sum.clock, sum.count), (2, 11));
        assert_eq!(one(shard(1, 9, 5, Global), shard(1, 8, 6, Global)).count, 5);
        assert_eq!(one(shard(1, 9, 5, Global), shard(1, 9, 6, Global)).count, 6);
        assert_eq!(one(shard(1, 1, 5, Global), shard(1, 9, 6, Remote)).count, 5);
        assert_eq!(one(shard(1, 1, 5, Local), shard(1, 9, 6, Remote)).count, 5);
        assert_eq!(one(shard(1, 9, 5, Local), shard(1, 1, 6, Global)).count, 6);
    }

    #[test]
    fn an_update_is_told_from_other_contexts() {
        let plus_five = update(5);
        // `CounterContext.createUpdate(5)`.
        let mut expected = vec![0, 1, 0, 0];
        expected.extend([0; 8]);
        expected.extend([0xC0, 0, 0, 0, 0, 0, 0, 0]);
        expected.extend(1i64.to_be_bytes());
        expected.extend(5i64.to_be_bytes());
        assert_eq!(plus_five, expected);
        assert_eq!(delta(&plus_five), Some(5));
        assert_eq!(delta(&merge(&plus_five, &update(-7))), Some(-2));
        assert_eq!(delta(&encode(&[shard(1, 1, 5, ShardKind::Global)])), None);
        assert_eq!(delta(&increment([1; 16], 5)), None);
        assert_eq!(delta(&[]), None);
        assert_eq!(delta(&encode(&[])), None);
    }

    #[test]
    fn a_leader_adds_to_its_own_shard() {
        use ShardKind::{Global, Local, Remote};
        let added = |current: Option<&[u8]>, now, delta| {
            let context = apply(current, [2; 16], now, delta).unwrap();
            let shards = decode(&context).unwrap();
            assert_eq!(shards.len(), 1, "nothing but its own shard");
            shards[0]
        };
        assert_eq!(added(None, 100, 5), shard(2, 100, 5, Global));
        let others = encode(&[shard(1, 7, 70, Global), shard(3, 8, 80, Remote)]);
        assert_eq!(added(Some(&others), 100, 5), shard(2, 100, 5, Global));
        for kind in [Global, Local, Remote] {
            let all = encode(&[shard(1, 7, 70, Global), shard(2, 50, 4, kind)]);
            assert_eq!(added(Some(&all), 100, 5), shard(2, 100, 9, Global));
            // The clock of the machine may go back, the counter's may not.
            assert_eq!(added(Some(&all), 20, 5), shard(2, 51, 9, Global));
        }
        let full = encode(&[shard(2, i64::MAX, i64::MAX, Global)]);
        let over = added(Some(&full), 100, 1);
        assert_eq!(over, shard(2, i64::MAX, i64::MIN, Global));
        assert!(apply(Some(&[1]), [2; 16], 100, 5).is_err());
    }
}
