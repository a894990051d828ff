//! Sets, which clients add members to, remove members from, empty and replace.
//!
//! A member is the time at which it was added, and no two statements have the same: so a removal, or whatever
//! empties a set, is later than all that it removes ([`Elements`]).

use std::cell::RefCell;
use std::collections::BTreeSet;

use bytes::Bytes;
use cluster::Consistency;

use super::super::elements::Elements;
use super::super::session::Session;
use super::readers::{Known, Rows};
use super::{Shared, number};
use crate::Random;

/// How many there are.
const KEYS: u64 = 3;
/// How long a client rests between two requests, at most, in milliseconds.
const REST: u64 = 120;

/// The table that they are in.
pub(super) const TABLE: &str = "CREATE TABLE k.sets (key bigint PRIMARY KEY, members set<bigint>)";

/// All of them.
pub(super) struct Sets(RefCell<Vec<Elements>>);

/// What a client does to a set.
enum Change {
    Add,
    Remove(i64),
    /// DELETE of the row, or of the column.
    Empty(&'static str),
    Replace,
}

impl Change {
    fn choose(session: &mut Session, members: &Elements) -> Change {
        let there = members.certain();
        let random = session.random();
        match random.below(20) {
            0 if random.chance(50) => Change::Empty(""),
            0 => Change::Empty("members"),
            1 => Change::Replace,
            2..8 if !there.is_empty() => Change::Remove(*random.pick(&there)),
            _ => Change::Add,
        }
    }

    fn text(&self, key: usize, time: i64) -> String {
        let using = format!("USING TIMESTAMP {time}");
        let update = |set: String| format!("UPDATE k.sets {using} SET {set} WHERE key = {key}");
        match self {
            Change::Add => update(format!("members = members + {{{time}}}")),
            Change::Remove(member) => update(format!("members = members - {{{member}}}")),
            Change::Replace => update(format!("members = {{{time}}}")),
            Change::Empty(what) => format!("DELETE {what} FROM k.sets {using} WHERE key = {key}"),
        }
    }

    /// Does it add a member?
    fn adds(&self) -> bool {
        matches!(self, Change::Add | Change::Replace)
    }

    /// The members that it removes.
    fn removes(&self, members: &Elements) -> Vec<i64> {
        match self {
            Change::Add => Vec::new(),
            Change::Remove(member) => vec![*member],
            Change::Empty(_) | Change::Replace => members.possible(),
        }
    }
}

impl Sets {
    pub(super) fn new() -> Sets {
        Sets(RefCell::new(vec![Elements::default(); KEYS as usize]))
    }

    fn change<T>(&self, key: usize, change: impl FnOnce(&mut Elements) -> T) -> T {
        change(&mut self.0.borrow_mut()[key])
    }

    /// The places of all of them.
    pub(super) fn places() -> std::ops::Range<usize> {
        0..KEYS as usize
    }
}

impl Known for Sets {
    type Place = usize;
    type Before = Elements;
    const REST: u64 = REST;

    fn of(shared: &Shared) -> &Sets {
        &shared.sets
    }

    fn choose(random: &mut Random) -> usize {
        random.below(KEYS) as usize
    }

    fn question(key: usize) -> String {
        format!("SELECT members FROM k.sets WHERE key = {key}")
    }

    fn before(&self, key: usize) -> Elements {
        self.0.borrow()[key].clone()
    }

    fn check(&self, key: usize, before: &Elements, rows: Rows) -> Result<(), String> {
        let shown = members(&rows);
        let checked = self.change(key, |known| known.check(before, &shown));
        checked.map_err(|problem| format!("set {key}: {problem}"))
    }
}

/// The members that an answer shows: the number of them, and each behind its length.
fn members(rows: &[Vec<Option<Bytes>>]) -> BTreeSet<i64> {
    let set = rows.first().and_then(|row| row.first()?.as_deref());
    let members = set.and_then(|set| set.get(4..)).unwrap_or_default();
    let members = members.chunks(4 + 8);
    members
        .filter_map(|member| number(member.get(4..)?))
        .collect()
}

pub(super) async fn change(shared: &Shared, mut session: Session) {
    while !shared.clients.shall_end() {
        let key = session.random().below(KEYS) as usize;
        let known = shared.sets.before(key);
        let change = Change::choose(&mut session, &known);
        let time = shared.tick();
        let removes = change.removes(&known);
        shared.sets.change(key, |known| {
            known.removing(&removes);
            if change.adds() {
                known.adding(time);
            }
        });
        let text = change.text(key, time);
        match session.run(&text, Consistency::Quorum).await {
            Ok(_) => {
                shared.sets.change(key, |known| {
                    known.removed(&removes);
                    if change.adds() {
                        known.added(time);
                    }
                });
                shared.report.borrow_mut().sets += 1;
            }
            Err(failure) => shared.unknown(&failure),
        }
        session.rest(REST).await;
    }
}
