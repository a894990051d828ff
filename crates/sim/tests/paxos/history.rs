//! What clients asked and were told, and whether one partition could have answered so.

use sim::linearizability::{Event, Model, NotLinearizable, check};

use crate::replica::State;

/// What a client asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// All columns.
    Read,
    /// To set a column to a value that nobody else writes, if one has this value.
    Update {
        condition: (usize, u16),
        column: usize,
        value: u16,
    },
}

/// What it was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// What was read, or that the condition does not hold on it.
    Read(State),
    /// That it is applied to this; also if the commit failed.
    Applied(State),
    /// That it failed before anything of its own was proposed.
    Nothing,
    /// That nobody knows; or its coordinator died.
    Unknown,
}

/// An operation. Times are steps of the world, no two of which are the same.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) asked: Asked,
    pub(crate) called: u64,
    pub(crate) told: Told,
    pub(crate) ended: u64,
}

/// The partition, if there were one copy of it.
struct Partition;

impl Model for Partition {
    type State = State;
    type Operation = (Asked, Told);

    fn initial(&self) -> State {
        State::default()
    }

    fn step(&self, state: &State, (asked, told): &(Asked, Told)) -> Option<State> {
        let after = |state: &State| match asked {
            Asked::Update {
                condition,
                column,
                value,
            } if state[condition.0] == condition.1 => {
                let mut after = *state;
                after[*column] = *value;
                Some(after)
            }
            _ => None,
        };
        match told {
            Told::Applied(read) if read == state => after(state),
            Told::Read(read) if read == state && after(state).is_none() => Some(*state),
            Told::Applied(_) | Told::Read(_) => None,
            // Somebody saw it: its condition held.
            Told::Unknown => after(state),
            Told::Nothing => None,
        }
    }
}

/// Is there an order that explains all answers? What nobody knows of may be done at any time after it
/// was asked, or not at all.
pub(crate) fn linearizable(history: &[Entry]) -> Result<(), NotLinearizable> {
    check(&Partition, &events(history, |_| None)).map(drop)
}

/// The same; and what nobody knows of is settled by the first operation that begins after its coordinator
/// gave up, and that is answered: it is done before that one begins, or never. So a client that was
/// told that nobody knows may look, and trust what it sees (CASSANDRA-12126).
pub(crate) fn settled(history: &[Entry]) -> Result<(), NotLinearizable> {
    let looks = |entry: &&Entry| matches!(entry.told, Told::Read(_) | Told::Applied(_));
    let first_look = |ended: u64| {
        let looks = history.iter().filter(looks).map(|entry| entry.called);
        looks.filter(|called| *called > ended).min()
    };
    check(&Partition, &events(history, first_look)).map(drop)
}

/// The operations that took effect. Of those that nobody knows of these are the ones whose values somebody
/// saw; the others have changed nothing that anybody was told of, and need no place in the order.
/// They were done before what `until` says, given when their coordinator gave up.
fn events(history: &[Entry], until: impl Fn(u64) -> Option<u64>) -> Vec<Event<(Asked, Told)>> {
    let states = history.iter().filter_map(|entry| match entry.told {
        Told::Read(state) | Told::Applied(state) => Some(state),
        Told::Nothing | Told::Unknown => None,
    });
    let seen: Vec<u16> = states.flatten().collect();
    let took_effect = |entry: &&Entry| match (entry.told, entry.asked) {
        (Told::Read(_) | Told::Applied(_), _) => true,
        (Told::Unknown, Asked::Update { value, .. }) => seen.contains(&value),
        _ => false,
    };
    // Twice, so that there is a time between any two.
    let event = |entry: &Entry| Event {
        operation: (entry.asked, entry.told),
        called: 2 * entry.called,
        returned: match entry.told {
            Told::Unknown => until(entry.ended).map(|until| 2 * until - 1),
            _ => Some(2 * entry.ended),
        },
    };
    history.iter().filter(took_effect).map(event).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SET: Asked = Asked::Update {
        condition: (0, 0),
        column: 0,
        value: 7,
    };

    fn entry(asked: Asked, called: u64, told: Told, ended: u64) -> Entry {
        Entry {
            asked,
            called,
            told,
            ended,
        }
    }

    #[test]
    fn what_nobody_knows_of_is_settled_by_who_looks() {
        let read = |value, at| entry(Asked::Read, at, Told::Read([value, 0, 0]), at + 1);
        let lost = entry(SET, 1, Told::Unknown, 2);
        let late = [lost, read(0, 10), read(7, 20)];
        assert!(linearizable(&late).is_ok());
        assert!(settled(&late).is_err());
        let early = [lost, read(7, 10), read(7, 20)];
        assert!(settled(&early).is_ok());
        let never = [lost, read(0, 10), read(0, 20)];
        assert!(settled(&never).is_ok());
        let beside = [entry(SET, 1, Told::Unknown, 15), read(0, 10), read(7, 20)];
        assert!(settled(&beside).is_ok());
    }

    #[test]
    fn an_update_is_applied_to_what_it_has_seen() {
        let set = |told| entry(SET, 1, told, 2);
        assert!(linearizable(&[set(Told::Applied([0, 0, 0]))]).is_ok());
        assert!(linearizable(&[set(Told::Applied([0, 1, 0]))]).is_err());
        assert!(
            linearizable(&[set(Told::Read([0, 0, 0]))]).is_err(),
            "its condition holds"
        );
        let seen = entry(Asked::Read, 3, Told::Read([7, 0, 0]), 4);
        assert!(linearizable(&[set(Told::Nothing), seen]).is_err());
    }
}
