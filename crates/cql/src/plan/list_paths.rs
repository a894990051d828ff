//! The paths of list cells: time uuids, ascending for what is appended, from before all that for what
//! is prepended (`TimeUUID`, `Lists.PrecisionTime`). What one request adds lies in the order in which
//! it adds it, however many statements it has.

use bytes::Bytes;

use crate::functions::FunctionContext;

/// From 1582-10-15, where the clock of uuids starts, to 1970, in ticks of 100 ns.
const EPOCH_TICKS: i64 = 0x01B2_1DD2_1381_4000;
/// 2010-01-01: prepended elements lie as far before it as the moment lies behind it.
const REFERENCE_MICROS: i64 = 1_262_304_000_000_000;

/// The paths of elements that are added together.
pub(crate) struct ListPaths {
    ticks: u64,
    low: u64,
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

    fn at(ticks: i64, context: &FunctionContext) -> ListPaths {
        ListPaths {
            ticks: ticks.max(0) as u64,
            // The variant of RFC 4122, and a node that is no hardware address.
            low: (context.next_random() & 0x3fff_ffff_ffff_ffff) | 0x8000_0100_0000_0000,
        }
    }

    /// The path of the next element.
    pub(crate) fn next_path(&mut self) -> Bytes {
        let ticks = self.ticks;
        self.ticks += 1;
        let high = (ticks << 32) | ((ticks >> 16) & 0xffff_0000) | (ticks >> 48) & 0x0fff | 0x1000;
        let mut path = Vec::with_capacity(16);
        path.extend(high.to_be_bytes());
        path.extend(self.low.to_be_bytes());
        path.into()
    }
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
}
