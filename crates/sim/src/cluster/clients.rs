//! The clients of a world, together: until when they go on, and whether one has seen something wrong.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use super::world::World;

/// How long clients may take to end.
const END: Duration = Duration::from_secs(60);

/// So many clients that are at work.
pub(super) struct Clients {
    ends: Cell<bool>,
    running: Cell<u64>,
    problem: RefCell<Option<String>>,
}

impl Clients {
    pub(super) fn new(count: u64) -> Clients {
        Clients {
            ends: Cell::new(false),
            running: Cell::new(count),
            problem: RefCell::default(),
        }
    }

    /// Shall they end?
    pub(super) fn shall_end(&self) -> bool {
        self.ends.get()
    }

    /// One of them has ended.
    pub(super) fn one_has_ended(&self) {
        self.running.set(self.running.get() - 1);
    }

    /// One has seen something wrong: the first counts.
    pub(super) fn blame(&self, problem: String) {
        self.problem.borrow_mut().get_or_insert(problem);
    }

    /// Has nobody seen anything wrong so far?
    pub(super) fn is_well(&self) -> bool {
        self.problem.borrow().is_none()
    }

    /// What was seen wrong.
    pub(super) fn result(&self) -> Result<(), String> {
        self.problem.take().map_or(Ok(()), Err)
    }

    /// Lets them go on for a while, and then end.
    ///
    /// # Errors
    /// What they have seen wrong, or that they do not end.
    pub(super) fn end(&self, world: &mut World, after: Duration) -> Result<(), String> {
        world.simulation.run_for(after);
        self.ends.set(true);
        let simulation = &mut world.simulation;
        simulation.run_until(END, |_| self.running.get() == 0);
        self.result()?;
        match self.running.get() {
            0 => Ok(()),
            _ => Err("clients wait for ever".to_owned()),
        }
    }
}
