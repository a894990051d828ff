//! How fast replicas and reads have been of late: whom to ask first, and when to ask one more.

mod latencies;
mod policy;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use crate::timeouts::TimeoutKind;
use cluster::NodeId;
use hashbrown::HashMap;
use io::Instant;
use model::{Table, TableId};

use latencies::Latencies;
use policy::Policy;

/// How much of what is known of a node each new latency replaces: one part in so many.
const WEIGHT: u32 = 8;
/// After so long nothing is known of a node that was not asked: it gets another chance
/// (`dynamic_snitch_reset_interval` is longer, but there a slow node is asked by nobody).
const FORGOTTEN: Duration = Duration::from_secs(10);
/// How often the time is worked out after which one more is asked
/// (`ColumnFamilyStore.updateSpeculationThreshold`).
const SAMPLE: Duration = Duration::from_secs(1);

/// What a shard has seen as a coordinator.
#[derive(Default)]
pub(crate) struct Observed {
    nodes: RefCell<BTreeMap<NodeId, Recent>>,
    tables: RefCell<HashMap<TableId, TableObserved>>,
    /// Of conditional updates and serial reads.
    serial: RefCell<Latencies>,
}

/// The mean of a node's latencies, the recent ones weighing more.
struct Recent {
    mean: Duration,
    at: Instant,
}

#[derive(Default)]
struct TableObserved {
    reads: Sampled,
    writes: Sampled,
}

/// Latencies of a table's requests, and the time that follows from them for now.
#[derive(Default)]
struct Sampled {
    latencies: Latencies,
    threshold: Option<(Instant, Duration)>,
}

/// When a read asks one more replica than has to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speculation {
    /// Never.
    Never,
    /// From the beginning.
    Always,
    /// If there is no answer after so long.
    After(Duration),
}

impl Observed {
    /// A node answered a read after so long.
    pub(super) fn answered(&self, node: NodeId, latency: Duration, now: Instant) {
        let mut nodes = self.nodes.borrow_mut();
        let known = nodes.get(&node).filter(|recent| recent.is_known(now));
        let mean = known.map_or(latency, |recent| {
            (recent.mean * (WEIGHT - 1) + latency) / WEIGHT
        });
        nodes.insert(node, Recent { mean, at: now });
    }

    /// A node had not answered after so long, when nobody waited for it any more.
    pub(super) fn unanswered(&self, node: NodeId, waited: Duration, now: Instant) {
        let known = self.latency(node, now).unwrap_or_default();
        if waited > known {
            self.answered(node, waited, now);
        }
    }

    fn latency(&self, node: NodeId, now: Instant) -> Option<Duration> {
        let nodes = self.nodes.borrow();
        let known = nodes.get(&node).filter(|recent| recent.is_known(now));
        known.map(|recent| recent.mean)
    }

    /// How slow a node is, as far as that matters: one that takes twice as long is one step slower. Of
    /// whom nothing is known is fast.
    pub(super) fn slowness(&self, node: NodeId, now: Instant) -> u32 {
        let micros = self.latency(node, now).map_or(0, |mean| mean.as_micros());
        u128::BITS - micros.leading_zeros()
    }

    /// A read of a table took so long.
    pub(super) fn have_read(&self, table: TableId, took: Duration, now: Instant) {
        let mut tables = self.tables.borrow_mut();
        let observed = tables.entry(table).or_default();
        observed.reads.latencies.add(took, now);
    }

    /// A write to a table took so long.
    pub(super) fn have_written(&self, table: TableId, took: Duration, now: Instant) {
        let mut tables = self.tables.borrow_mut();
        let observed = tables.entry(table).or_default();
        observed.writes.latencies.add(took, now);
    }

    /// When a read of a table asks one more replica (`speculative_retry`).
    pub(super) fn speculation(&self, table: &Table, now: Instant) -> Speculation {
        let policy = Policy::parse(&table.options.speculative_retry);
        match policy {
            Policy::Never => Speculation::Never,
            Policy::Always => Speculation::Always,
            policy => {
                let mut tables = self.tables.borrow_mut();
                let reads = &mut tables.entry(table.id).or_default().reads;
                Speculation::After(reads.threshold(policy, TimeoutKind::Read.usual() / 2, now))
            }
        }
    }

    /// After how long a repair is sent to one more replica (`additional_write_policy`).
    pub(super) fn additional_write(&self, table: &Table, now: Instant) -> Duration {
        match Policy::parse(&table.options.additional_write_policy) {
            Policy::Never => Duration::MAX,
            Policy::Always => Duration::ZERO,
            policy => {
                let mut tables = self.tables.borrow_mut();
                let writes = &mut tables.entry(table.id).or_default().writes;
                writes.threshold(policy, TimeoutKind::Write.usual() / 2, now)
            }
        }
    }

    /// A conditional update or a serial read took so long.
    pub(super) fn have_agreed(&self, took: Duration, now: Instant) {
        self.serial.borrow_mut().add(took, now);
    }

    /// How long those took of late.
    pub(super) fn serial_latencies(&self, now: Instant) -> cluster::paxos::Latencies {
        let mut serial = self.serial.borrow_mut();
        let mut percentile = |part| serial.percentile(part, now).unwrap_or_default();
        cluster::paxos::Latencies {
            p50: percentile(0.5),
            p95: percentile(0.95),
        }
    }

    /// Forgets tables that are gone.
    pub(crate) fn retain(&self, is_there: impl Fn(TableId) -> bool) {
        self.tables.borrow_mut().retain(|id, _| is_there(*id));
    }
}

impl Recent {
    fn is_known(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) < FORGOTTEN
    }
}

impl Sampled {
    /// What follows from the latencies, worked out now and then; at `first` as long as there are none.
    fn threshold(&mut self, policy: Policy, first: Duration, now: Instant) -> Duration {
        if let Some((at, known)) = self.threshold
            && now.saturating_duration_since(at) < SAMPLE
        {
            return known;
        }
        let before = self.threshold.map_or(first, |(_, known)| known);
        let percentile = |part| self.latencies.percentile(part, now);
        let threshold = policy.threshold(percentile).unwrap_or(before);
        self.threshold = Some((now, threshold));
        threshold
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Column, ColumnId, ColumnKind, CqlType, Order, TableOptions};

    const MS: Duration = Duration::from_millis(1);

    fn table(speculative_retry: &str) -> Table {
        let column = Column {
            id: ColumnId(0),
            name: "k".into(),
            ty: CqlType::Int,
            kind: ColumnKind::PartitionKey,
            position: 0,
            order: Order::Ascending,
        };
        let options = TableOptions {
            speculative_retry: speculative_retry.to_owned(),
            ..TableOptions::default()
        };
        Table::new(TableId::from_u128(1), "ks", "t", vec![column], options)
    }

    #[test]
    fn slow_nodes_are_known_for_a_while() {
        let observed = Observed::default();
        let begin = Instant::from_nanos(1_000_000_000);
        let (fast, slow) = (NodeId(1), NodeId(2));
        for _ in 0..50 {
            observed.answered(fast, MS, begin);
            observed.answered(slow, 20 * MS, begin);
        }
        let order = |at| (observed.slowness(fast, at), observed.slowness(slow, at));
        assert!(order(begin).0 < order(begin).1);
        // A little slower is not slower.
        observed.answered(fast, 2 * MS, begin);
        let little = observed.slowness(fast, begin);
        assert_eq!(little, order(begin).0);
        observed.unanswered(fast, 5000 * MS, begin);
        assert!(order(begin).0 > order(begin).1);
        assert_eq!(order(begin + FORGOTTEN), (0, 0));
    }

    #[test]
    fn one_more_is_asked_as_the_table_wants_it() {
        let observed = Observed::default();
        let mut now = Instant::from_nanos(1_000_000_000);
        assert_eq!(
            observed.speculation(&table("NEVER"), now),
            Speculation::Never
        );
        assert_eq!(
            observed.speculation(&table("ALWAYS"), now),
            Speculation::Always
        );
        let fixed = observed.speculation(&table("50ms"), now);
        assert_eq!(fixed, Speculation::After(50 * MS));
        now += SAMPLE;
        let after = |speculation| match speculation {
            Speculation::After(time) => time,
            other => panic!("{other:?}"),
        };
        // As long as nothing is known, as before.
        let time = after(observed.speculation(&table("99p"), now));
        assert_eq!(time, 50 * MS);
        for n in 1..=100 {
            observed.have_read(TableId::from_u128(1), n * MS, now);
        }
        assert_eq!(
            after(observed.speculation(&table("50p"), now)),
            time,
            "for a while"
        );
        now += SAMPLE;
        let time = after(observed.speculation(&table("50p"), now));
        assert!((45 * MS..=65 * MS).contains(&time), "{time:?}");
        let first = Observed::default();
        let unknown = after(first.speculation(&table("99p"), now));
        assert_eq!(unknown, TimeoutKind::Read.usual() / 2);
    }
}
