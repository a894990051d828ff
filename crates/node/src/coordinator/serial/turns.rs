//! One operation of a partition at a time (`PaxosState.lock`): those of one coordinator would only come
//! in each other's way.

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use hashbrown::HashMap;
use io::{Permit, Semaphore};
use model::TableId;

use crate::shard::Shard;

/// Whose turn it is, by table and key. As many as operations are under way or wait.
#[derive(Default)]
pub(crate) struct SerialTurns(RefCell<HashMap<(TableId, Bytes), Rc<Semaphore>>>);

impl SerialTurns {
    /// Is nothing under way?
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }
}

/// A place in the line, or at its head.
pub(super) struct Turn {
    shard: Rc<Shard>,
    place: (TableId, Bytes),
    line: Rc<Semaphore>,
    /// At its head.
    permit: Option<Permit>,
}

/// Waits for the turn of an operation on a partition; it lasts until what is returned is dropped.
pub(super) async fn take(shard: &Rc<Shard>, table: TableId, key: &Bytes) -> Turn {
    let place = (table, key.clone());
    let line = {
        let mut lines = shard.serial_turns.0.borrow_mut();
        let line = lines.entry(place.clone());
        line.or_insert_with(|| Rc::new(Semaphore::new(1))).clone()
    };
    let mut turn = Turn {
        shard: shard.clone(),
        place,
        line,
        permit: None,
    };
    turn.permit = Some(turn.line.acquire(1).await);
    turn
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.permit = None;
        // The map's and this one.
        if Rc::strong_count(&self.line) == 2 {
            self.shard.serial_turns.0.borrow_mut().remove(&self.place);
        }
    }
}
