//! The paths of list cells: time uuids, ascending for what is appended, from before all that for what
//! is prepended (`TimeUUID`, `Lists.PrecisionTime`). What one request adds lies in the order in which
//! it adds it, however many statements it has. What conditional writes append has the time of their
//! ballot (`CASUpdateParameters.nextTimeUUIDAsBytes`).

use bytes::Bytes;

use crate::functions::FunctionContext;

/// From 1582-10-15, where the clock of uuids starts, to 1970, in ticks of 100 ns.
const EPOCH_TICKS: i64 = 0x01B2_1DD2_1381_4000;
/// 2010-01-01: prepended elements lie as far before it as the moment lies behind it.
const REFERENCE_MICROS: i64 = 1_262_304_000_000_000;

/// The lower half of a time uuid is compared byte by byte, and its bytes have signs, but for the
/// first: with these bits turned numbers compare as such (`TimeUUIDType.signedBytesToNativeLong`).
const SIGNS: u64 = 0x0080_8080_8080_8080;

/// The paths of elements that are added together.
pub(crate) enum ListPaths {
    /// Each a tick later than the one before.
    Moments { ticks: u64, low: u64 },
    /// All of one time, and numbered.
    Numbers { high: u64, next: u64 },
}

impl ListPaths {
    /// For `count` elements that are appended at the moment of the request.
    pub(crate) fn after(context: &FunctionContext, count: usize) -> ListPaths {
        let before = context.next_timeuuids(count as i64);
        ListPaths::at(ticks(context.now_micros).saturating_add(before), context)
    }

    /// For `count` elements that are prepended at the moment of the request.
    pub(crate) fn before(context: &FunctionContext, count: usize) -> ListPaths {
        let mirrored = REFERENCE_MICROS
            .saturating_mul(2)
            .saturating_sub(context.now_micros);
        let behind = context.prepend(count as i64);
        ListPaths::at(ticks(mirrored).saturating_sub(behind), context)
    }

    /// For elements that are appended by a conditional write whose ballot is of this time
    /// (microseconds since 1970): from the `first`th on.
    pub(crate) fn of_ballot(timestamp_micros: i64, first: u64) -> ListPaths {
        ListPaths::Numbers {
            high: high_of(ticks(timestamp_micros).max(0) as u64),
            next: first,
        }
    }

    fn at(ticks: i64, context: &FunctionContext) -> ListPaths {
        ListPaths::Moments {
            ticks: ticks.max(0) as u64,
            // The variant of RFC 4122, and a node that is no hardware address.
            low: (context.next_random() & 0x3fff_ffff_ffff_ffff) | 0x8000_0100_0000_0000,
        }
    }

    /// The path of the next element.
    pub(crate) fn next_path(&mut self) -> Bytes {
        let (high, low) = match self {
            ListPaths::Moments { ticks, low } => {
                let at = *ticks;
                *ticks += 1;
                (high_of(at), *low)
            }
            ListPaths::Numbers { high, next } => {
                let number = *next;
                *next += 1;
                (*high, number ^ SIGNS)
            }
        };
        let mut path = Vec::with_capacity(16);
        path.extend(high.to_be_bytes());
        path.extend(low.to_be_bytes());
        path.into()
    }
}

/// The upper half of the time uuids of a tick.
fn high_of(ticks: u64) -> u64 {
    (ticks << 32) | ((ticks >> 16) & 0xffff_0000) | (ticks >> 48) & 0x0fff | 0x1000
}

fn ticks(micros: i64) -> i64 {
    micros.saturating_mul(10).saturating_add(EPOCH_TICKS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::CqlType;

    #[test]
    fn list_paths_are_time_uuids_in_order() {
        let timeuuid = CqlType::Timeuuid;
        let now = 1_700_000_000_000_000;
        let [early, late] = [now, now + 5].map(|now| FunctionContext::new(now, 7));
        let take = |mut paths: ListPaths| [(); 30].map(|()| paths.next_path());
        // More than there are ticks in a microsecond, twice for each request.
        let prepended = [&early, &early, &late, &late].map(|c| take(ListPaths::before(c, 30)));
        let appended = [&early, &early, &late, &late].map(|c| take(ListPaths::after(c, 30)));
        for path in prepended.iter().chain(&appended).flatten() {
            timeuuid.validate(path).expect("a time uuid");
        }
        let ascend = |a: &Bytes, b: &Bytes| timeuuid.compare(a, b).is_lt();
        assert!(appended[..2].concat().is_sorted_by(ascend));
        let [first, second, ..] = &prepended;
        assert!(
            [second.clone(), first.clone()]
                .concat()
                .is_sorted_by(ascend)
        );
        // Of two requests, the later one lies further out on either side.
        let outwards = [
            &prepended[2][29],
            &prepended[0][0],
            &appended[0][0],
            &appended[2][0],
        ];
        assert!(outwards.is_sorted_by(|a, b| ascend(a, b)));
    }

    #[test]
    fn paths_of_a_ballot_are_numbered() {
        let timeuuid = CqlType::Timeuuid;
        let now = 1_700_000_000_000_000;
        let take = |at, first| {
            let mut some = ListPaths::of_ballot(at, first);
            [(); 300].map(|()| some.next_path())
        };
        let paths = [
            take(now, 0),
            take(now, 300),
            take(now, 1 << 32),
            take(now + 1, 0),
        ]
        .concat();
        for path in &paths {
            timeuuid.validate(path).expect("a time uuid");
        }
        assert!(paths.is_sorted_by(|a, b| timeuuid.compare(a, b).is_lt()));
        // `Ballot.atUnixMicrosWithLsb(now, …).msb()`.
        assert_eq!(paths[0][..8], 0x04af_c000_833b_11ee_u64.to_be_bytes());
        // `signedBytesToNativeLong(0)` and `(1)`.
        assert_eq!(paths[0][8..], 0x0080_8080_8080_8080u64.to_be_bytes());
        assert_eq!(paths[1][8..], 0x0080_8080_8080_8081u64.to_be_bytes());
    }
}
