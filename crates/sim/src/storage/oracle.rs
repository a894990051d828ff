//! What the storage workload knows of its writes: the judge of every read.
//!
//! Writes that were acknowledged are merged by the rules of `model`, without memtables, files or
//! streams. Of a write that was not, because it is under way, failed or was cut off by a crash,
//! nobody knows: a read must show it wholly or not at all. So a read is right if some of these
//! writes can be chosen such that what was acknowledged and the chosen ones give what was read.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use model::{ColumnId, DecoratedKey, Mutation, PartitionUpdate, Row, Slice, TableId};

/// More undecided writes to a key than this are not tried in all combinations.
const MAX_UNDECIDED: usize = 12;

/// All that is known.
#[derive(Default)]
pub(crate) struct Oracle {
    keys: BTreeMap<DecoratedKey, KeyState>,
    next_write: u64,
    /// Writes acknowledged in all.
    pub(crate) acknowledged: u64,
    /// Reads that were checked.
    pub(crate) checked: u64,
}

#[derive(Default)]
struct KeyState {
    /// Acknowledged.
    known: BTreeMap<TableId, PartitionUpdate>,
    /// Neither acknowledged nor refused.
    undecided: Vec<(u64, Mutation)>,
    /// Reads under way, which may or may not see what is written meanwhile.
    observers: Vec<Rc<RefCell<Vec<Mutation>>>>,
}

/// What a read of a key shows of a table: the live static row and the live rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Shown {
    /// The static row.
    pub(crate) static_row: Option<Row>,
    /// In the order of the table.
    pub(crate) rows: Vec<Row>,
}

impl Shown {
    /// What a read of these columns (sorted) shows of it.
    pub(crate) fn only(mut self, columns: &[ColumnId]) -> Shown {
        for row in self.static_row.iter_mut().chain(&mut self.rows) {
            row.retain_columns(columns);
        }
        self.static_row.take_if(|row| row.is_empty());
        self
    }

    /// Where what was read differs from this, a line each.
    pub(crate) fn difference(&self, read: &Shown) -> String {
        let mut lines = String::new();
        if self.static_row != read.static_row {
            lines += &format!(
                "  static: expected {:?}\n               read {:?}\n",
                self.static_row, read.static_row
            );
        }
        let find = |shown: &Shown, row: &Row| {
            let mut rows = shown.rows.iter();
            rows.find(|r| r.clustering == row.clustering).cloned()
        };
        for row in &self.rows {
            let found = find(read, row);
            if found.as_ref() != Some(row) {
                lines += &format!("  row: expected {row:?}\n            read {found:?}\n");
            }
        }
        for row in read.rows.iter().filter(|row| find(self, row).is_none()) {
            lines += &format!("  row: expected nothing\n            read {row:?}\n");
        }
        if lines.is_empty() && self != read {
            lines = "  the rows are the same, but not their order\n".to_owned();
        }
        lines
    }
}

/// A read under way: what was known when it began, and what may have come since.
pub(crate) struct Observation {
    key: DecoratedKey,
    known: BTreeMap<TableId, PartitionUpdate>,
    undecided: Rc<RefCell<Vec<Mutation>>>,
}

impl Observation {
    /// Of which key.
    pub(crate) fn key(&self) -> &DecoratedKey {
        &self.key
    }
}

impl Oracle {
    /// A write begins.
    pub(crate) fn begin(&mut self, mutation: &Mutation) -> u64 {
        self.next_write += 1;
        let state = self.keys.entry(mutation.key().clone()).or_default();
        state.undecided.push((self.next_write, mutation.clone()));
        for observer in &state.observers {
            observer.borrow_mut().push(mutation.clone());
        }
        self.next_write
    }

    /// It was acknowledged.
    pub(crate) fn acknowledged(&mut self, key: &DecoratedKey, write: u64) {
        self.acknowledged += 1;
        let state = self.keys.entry(key.clone()).or_default();
        if let Some(at) = state.undecided.iter().position(|(id, _)| *id == write) {
            let (_, mutation) = state.undecided.remove(at);
            add(&mut state.known, mutation);
        }
    }

    /// It was refused: nothing of it may ever be seen.
    pub(crate) fn refused(&mut self, key: &DecoratedKey, write: u64) {
        if let Some(state) = self.keys.get_mut(key) {
            state.undecided.retain(|(id, _)| *id != write);
        }
    }

    /// Is any write to the key undecided?
    pub(crate) fn is_undecided(&self, key: &DecoratedKey) -> bool {
        self.keys
            .get(key)
            .is_some_and(|state| !state.undecided.is_empty())
    }

    /// The keys that were ever written to.
    pub(crate) fn keys(&self) -> Vec<DecoratedKey> {
        self.keys.keys().cloned().collect()
    }

    /// A read begins.
    pub(crate) fn observe(&mut self, key: &DecoratedKey) -> Observation {
        let state = self.keys.entry(key.clone()).or_default();
        let undecided = state.undecided.iter().map(|(_, m)| m.clone()).collect();
        let undecided = Rc::new(RefCell::new(undecided));
        state.observers.push(undecided.clone());
        Observation {
            key: key.clone(),
            known: state.known.clone(),
            undecided,
        }
    }

    /// The read is over: is what it showed of `columns` of `table` in `slice` right?
    pub(crate) fn check(
        &mut self,
        observation: Observation,
        (table, columns): (TableId, &[ColumnId]),
        slice: &Slice,
        now_seconds: u32,
        shown: &Shown,
    ) -> Result<(), String> {
        self.checked += 1;
        if let Some(state) = self.keys.get_mut(&observation.key) {
            state
                .observers
                .retain(|o| !Rc::ptr_eq(o, &observation.undecided));
        }
        let undecided = observation.undecided.borrow();
        if undecided.len() > MAX_UNDECIDED {
            return Ok(());
        }
        let shows = |state: &BTreeMap<TableId, PartitionUpdate>| {
            expected(state.get(&table), slice, now_seconds).only(columns)
        };
        let fits = |state: &BTreeMap<TableId, PartitionUpdate>| shows(state) == *shown;
        if !choices(&observation.known, &undecided, fits).is_empty() {
            return Ok(());
        }
        let difference = shows(&observation.known).difference(shown);
        Err(format!(
            "key {:?} of {columns:?} of table {table} in {slice:?} at {now_seconds}:\n{difference}with perhaps some of \
             {undecided:?}",
            observation.key
        ))
    }

    /// What is written from now on does not concern an observation any more.
    pub(crate) fn freeze(&mut self, observation: Observation) -> Observation {
        let Observation {
            key,
            known,
            undecided,
        } = observation;
        if let Some(state) = self.keys.get_mut(&key) {
            state.observers.retain(|o| !Rc::ptr_eq(o, &undecided));
        }
        Observation {
            key,
            known,
            undecided,
        }
    }

    /// Is it right what something shows that was made at the time of an observation?
    pub(crate) fn check_frozen(
        &mut self,
        observation: &Observation,
        table: TableId,
        now_seconds: u32,
        shown: &Shown,
    ) -> Result<(), String> {
        let again = Observation {
            key: observation.key.clone(),
            known: observation.known.clone(),
            undecided: observation.undecided.clone(),
        };
        self.check(
            again,
            (table, &super::tables::all_columns()),
            &Slice::ALL,
            now_seconds,
            shown,
        )
    }

    /// After a restart, with nothing under way: decides by what was read of all tables which of
    /// the undecided writes to a key are there. Says whether all are decided: of a write that
    /// changes nothing that is seen, such as an older deletion, one cannot know, though it would
    /// change what is written later with an earlier time.
    pub(crate) fn settle(
        &mut self,
        key: &DecoratedKey,
        now_seconds: u32,
        shown: &BTreeMap<TableId, Shown>,
    ) -> Result<bool, String> {
        self.checked += 1;
        let state = self.keys.entry(key.clone()).or_default();
        state.observers.clear();
        let undecided: Vec<Mutation> = state.undecided.iter().map(|(_, m)| m.clone()).collect();
        let fits = |state: &BTreeMap<TableId, PartitionUpdate>| {
            shown.iter().all(|(table, shown)| {
                expected(state.get(table), &Slice::ALL, now_seconds) == *shown
            })
        };
        let fitting = choices(&state.known, &undecided, fits);
        let Some(first) = fitting.first() else {
            let mut differences = String::new();
            for (table, shown) in shown {
                let known = state.known.get(table);
                let difference = expected(known, &Slice::ALL, now_seconds).difference(shown);
                if !difference.is_empty() {
                    differences += &format!("table {table}:\n{difference}");
                }
            }
            return Err(format!(
                "key {key:?} after the restart at {now_seconds}:\n{differences}and perhaps some \
                 of {undecided:?}"
            ));
        };
        let in_all = fitting.iter().fold(*first, |a, b| a & b);
        let in_any = fitting.iter().fold(*first, |a, b| a | b);
        let mut left = Vec::new();
        for (at, write) in std::mem::take(&mut state.undecided).into_iter().enumerate() {
            if in_all & (1 << at) != 0 {
                add(&mut state.known, write.1);
            } else if in_any & (1 << at) != 0 {
                left.push(write);
            }
        }
        state.undecided = left;
        Ok(state.undecided.is_empty())
    }

    /// A deletion of the partition in all tables was acknowledged that is later than everything
    /// written to the key: nothing is undecided any more.
    pub(crate) fn wiped(&mut self, key: &DecoratedKey) {
        if let Some(state) = self.keys.get_mut(key) {
            state.undecided.clear();
        }
    }
}

/// The choices of `undecided` writes, as sets of bits, with which, added to what is known, `fits`
/// holds.
fn choices(
    known: &BTreeMap<TableId, PartitionUpdate>,
    undecided: &[Mutation],
    fits: impl Fn(&BTreeMap<TableId, PartitionUpdate>) -> bool,
) -> Vec<u64> {
    let all = 1u64 << undecided.len().min(MAX_UNDECIDED);
    let fits = |chosen: &u64| {
        let mut state = known.clone();
        for (at, mutation) in undecided.iter().enumerate() {
            if chosen & (1 << at) != 0 {
                add(&mut state, mutation.clone());
            }
        }
        fits(&state)
    };
    (0..all).filter(fits).collect()
}

fn add(state: &mut BTreeMap<TableId, PartitionUpdate>, mutation: Mutation) {
    for mut update in mutation.updates {
        update.drop_shadowed();
        match state.get_mut(&update.table.id) {
            Some(known) => known.merge(update),
            None => {
                state.insert(update.table.id, update);
            }
        }
    }
}

/// What a client sees of a partition.
fn expected(update: Option<&PartitionUpdate>, slice: &Slice, now_seconds: u32) -> Shown {
    let Some(update) = update else {
        return Shown::default();
    };
    let live = |row: &Row| {
        let mut row = row.clone();
        row.retain_live(now_seconds);
        (!row.is_empty()).then_some(row)
    };
    let comparator = update.table.comparator();
    let in_slice = |row: &&Row| slice.contains(comparator, &row.clustering);
    Shown {
        static_row: update.static_row.as_ref().and_then(live),
        rows: update
            .rows
            .iter()
            .filter(in_slice)
            .filter_map(live)
            .collect(),
    }
}
