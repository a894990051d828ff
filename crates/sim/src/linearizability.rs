//! Could one copy of the data, doing one operation after the other, have answered so?
//!
//! The algorithm of Wing and Gong with Lowe's memory of what was tried ("Testing for
//! linearizability", 2017), as in porcupine: operations are put in an order, one after the other,
//! that keeps to what had ended before something else began; where the next one's answer cannot be,
//! the last choice is undone. The same operations in another order that lead to the same state need
//! not be tried again.
//!
//! Histories of different keys are checked one by one: linearizability is local.

use std::collections::BTreeSet;

/// What is asked, answered and kept.
pub trait Model {
    /// What the data is.
    type State: Clone + Ord;
    /// What a client asked, and what it was told; that may be that nobody knows.
    type Operation;

    /// What the data is at first.
    fn initial(&self) -> Self::State;

    /// What it is after an operation; `None` if that would have been answered otherwise.
    fn step(&self, state: &Self::State, operation: &Self::Operation) -> Option<Self::State>;
}

/// An operation, and when a client knew of it. Times are any numbers that rise.
#[derive(Clone, Debug)]
pub struct Event<O> {
    /// What.
    pub operation: O,
    /// When it was asked.
    pub called: u64,
    /// When it was answered; `None` if it never was, and may be done at any time, or not at all.
    pub returned: Option<u64>,
}

/// The operations of which no order explains the answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotLinearizable {
    /// The longest order that does, as places in the history.
    pub longest: Vec<usize>,
    /// Those that had been asked then, and none of which can be next.
    pub stuck: BTreeSet<usize>,
}

/// Looks for an order of all operations that explains every answer; gives it as places in `history`.
pub fn check<M: Model>(
    model: &M,
    history: &[Event<M::Operation>],
) -> Result<Vec<usize>, NotLinearizable> {
    Search::new(model, history).run()
}

/// A call or a return.
#[derive(Clone, Copy)]
struct Node {
    operation: usize,
    is_call: bool,
    previous: usize,
    next: usize,
}

struct Search<'h, M: Model> {
    model: &'h M,
    history: &'h [Event<M::Operation>],
    /// In the order of time, linked: what is in the order already has been taken out. The first is
    /// neither.
    nodes: Vec<Node>,
    /// Of each operation, its call and its return.
    places: Vec<(usize, Option<usize>)>,
    /// Which operations are in the order.
    done: Vec<u64>,
    tried: BTreeSet<(Vec<u64>, M::State)>,
    /// The order, with the state before each.
    order: Vec<(usize, M::State)>,
    longest: Option<NotLinearizable>,
}

impl<'h, M: Model> Search<'h, M> {
    fn new(model: &'h M, history: &'h [Event<M::Operation>]) -> Self {
        // At the same time calls come before returns: such operations overlap.
        let mut times: Vec<(u64, bool, usize)> = Vec::new();
        for (operation, event) in history.iter().enumerate() {
            times.push((event.called, false, operation));
            times.extend(event.returned.map(|returned| {
                assert!(
                    returned >= event.called,
                    "an answer comes after its question"
                );
                (returned, true, operation)
            }));
        }
        times.sort_unstable();
        let head = Node {
            operation: usize::MAX,
            is_call: false,
            previous: 0,
            next: usize::from(!times.is_empty()),
        };
        let mut nodes = vec![head];
        let mut places = vec![(0, None); history.len()];
        for (_, is_return, operation) in times {
            let place = nodes.len();
            match is_return {
                true => places[operation].1 = Some(place),
                false => places[operation].0 = place,
            }
            nodes.push(Node {
                operation,
                is_call: !is_return,
                previous: place - 1,
                next: place + 1,
            });
        }
        nodes.last_mut().expect("there is the first").next = 0;
        Search {
            model,
            history,
            nodes,
            places,
            done: vec![0; history.len().div_ceil(64)],
            tried: BTreeSet::new(),
            order: Vec::new(),
            longest: None,
        }
    }

    fn run(mut self) -> Result<Vec<usize>, NotLinearizable> {
        let mut state = self.model.initial();
        let mut at = self.nodes[0].next;
        loop {
            if at == 0 {
                // Whatever is left was never answered: nothing says that it was done.
                return Ok(self
                    .order
                    .into_iter()
                    .map(|(operation, _)| operation)
                    .collect());
            }
            let node = self.nodes[at];
            if node.is_call {
                match self.try_next(node.operation, &state) {
                    Some(after) => {
                        self.order
                            .push((node.operation, std::mem::replace(&mut state, after)));
                        self.take_out(node.operation);
                        at = self.nodes[0].next;
                    }
                    None => at = node.next,
                }
                continue;
            }
            // Something was answered before anything else can be next.
            self.note_longest(at);
            let Some((operation, before)) = self.order.pop() else {
                return Err(self.longest.expect("it was just noted"));
            };
            state = before;
            self.put_back(operation);
            at = self.nodes[self.places[operation].0].next;
        }
    }

    /// The state after an operation, if it can be next and that was not tried.
    fn try_next(&mut self, operation: usize, state: &M::State) -> Option<M::State> {
        let after = self.model.step(state, &self.history[operation].operation)?;
        self.done[operation / 64] |= 1 << (operation % 64);
        if self.tried.insert((self.done.clone(), after.clone())) {
            return Some(after);
        }
        self.done[operation / 64] &= !(1 << (operation % 64));
        None
    }

    fn take_out(&mut self, operation: usize) {
        let (call, returned) = self.places[operation];
        for place in [Some(call), returned].into_iter().flatten() {
            let Node { previous, next, .. } = self.nodes[place];
            self.nodes[previous].next = next;
            if next != 0 {
                self.nodes[next].previous = previous;
            }
        }
    }

    fn put_back(&mut self, operation: usize) {
        let (call, returned) = self.places[operation];
        for place in [returned, Some(call)].into_iter().flatten() {
            let Node { previous, next, .. } = self.nodes[place];
            self.nodes[previous].next = place;
            if next != 0 {
                self.nodes[next].previous = place;
            }
        }
        self.done[operation / 64] &= !(1 << (operation % 64));
    }

    fn note_longest(&mut self, end: usize) {
        let longest = self.longest.as_ref().map(|found| found.longest.len());
        if longest.is_some_and(|longest| longest >= self.order.len()) {
            return;
        }
        let mut stuck = BTreeSet::new();
        let mut at = self.nodes[0].next;
        while at != end {
            stuck.insert(self.nodes[at].operation);
            at = self.nodes[at].next;
        }
        self.longest = Some(NotLinearizable {
            longest: self.order.iter().map(|(operation, _)| *operation).collect(),
            stuck,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// A register that can be read, written, and written if it has a value.
    struct Register;

    #[derive(Clone, Copy, Debug)]
    enum Operation {
        Read(u8),
        Write(u8),
        /// If it is the first, then the second; was it? `None`: nobody knows.
        CompareAndSet(u8, u8, Option<bool>),
    }
    use Operation::{CompareAndSet, Read, Write};

    impl Model for Register {
        type State = u8;
        type Operation = Operation;

        fn initial(&self) -> u8 {
            0
        }

        fn step(&self, state: &u8, operation: &Operation) -> Option<u8> {
            match operation {
                Read(value) => (value == state).then_some(*state),
                Write(value) => Some(*value),
                CompareAndSet(from, to, answer) => {
                    let is = from == state;
                    let fits = answer.is_none_or(|answer| answer == is);
                    fits.then_some(if is { *to } else { *state })
                }
            }
        }
    }

    fn event(operation: Operation, called: u64, returned: u64) -> Event<Operation> {
        Event {
            operation,
            called,
            returned: (returned > 0).then_some(returned),
        }
    }

    fn linearizable(history: &[Event<Operation>]) -> bool {
        check(&Register, history).is_ok()
    }

    #[test]
    fn what_one_copy_could_have_answered_is_linearizable() {
        assert!(linearizable(&[]));
        assert_eq!(
            check(&Register, &[event(Write(1), 1, 2), event(Read(1), 3, 4)]),
            Ok(vec![0, 1])
        );
        // Reads beside a write see it or not, but not first the one and then the other.
        let write = event(Write(1), 1, 10);
        let read = |value, called, returned| event(Read(value), called, returned);
        assert!(linearizable(&[write.clone(), read(0, 2, 3), read(1, 4, 5)]));
        assert!(!linearizable(&[
            write.clone(),
            read(1, 2, 3),
            read(0, 4, 5)
        ]));
        // What was written before is seen.
        assert!(!linearizable(&[event(Write(1), 1, 2), read(0, 3, 4)]));
        assert!(
            linearizable(&[event(Write(1), 1, 3), read(0, 3, 4)]),
            "at the same time"
        );
    }

    #[test]
    fn one_of_two_that_compare_wins() {
        let set = |to, answer, returned| event(CompareAndSet(0, to, answer), 1, returned);
        let both = [set(1, Some(true), 5), set(2, Some(true), 5)];
        assert!(!linearizable(&both));
        let one = [set(1, Some(true), 5), set(2, Some(false), 5)];
        assert!(linearizable(&one));
    }

    #[test]
    fn what_was_never_answered_may_be_done_late_or_not_at_all() {
        let lost = event(Write(7), 1, 0);
        let read = |value, at| event(Read(value), at, at + 1);
        assert!(linearizable(&[lost.clone(), read(0, 10), read(7, 20)]));
        assert!(linearizable(&[lost.clone(), read(0, 10), read(0, 20)]));
        assert!(!linearizable(&[lost.clone(), read(7, 10), read(0, 20)]));
        let unknown = event(CompareAndSet(0, 3, None), 1, 0);
        assert!(linearizable(&[unknown.clone(), read(0, 10), read(3, 20)]));
        assert!(!linearizable(&[
            event(Write(1), 0, 1),
            unknown,
            read(3, 20)
        ]));
    }

    #[test]
    fn who_is_wrong_is_told_where_it_ends() {
        let history = [
            event(Write(1), 1, 2),
            event(Write(2), 3, 4),
            event(Read(1), 5, 6),
        ];
        let error = check(&Register, &history).unwrap_err();
        assert_eq!(error.longest, [0, 1]);
        assert_eq!(error.stuck, BTreeSet::from([2]));
    }

    /// Every order of some of the operations, all of those that were answered.
    fn by_hand(history: &[Event<Operation>], state: u8, done: &mut Vec<usize>) -> bool {
        let open = |i: &usize| !done.contains(i);
        let left: Vec<usize> = (0..history.len()).filter(open).collect();
        if left.iter().all(|i| history[*i].returned.is_none()) {
            return true;
        }
        for next in &left {
            let comes_after = |other: &usize| {
                let ended = history[*other].returned;
                ended.is_some_and(|ended| ended < history[*next].called)
            };
            let Some(after) = Register.step(&state, &history[*next].operation) else {
                continue;
            };
            if left.iter().any(comes_after) {
                continue;
            }
            done.push(*next);
            if by_hand(history, after, done) {
                return true;
            }
            done.pop();
        }
        false
    }

    /// The law: it says what trying every order says.
    #[test]
    fn it_says_what_trying_every_order_says() {
        let mut counts = [0, 0];
        for seed in 0..20_000 {
            let mut random = Random::new(seed);
            let mut history = Vec::new();
            for _ in 0..=random.below(6) {
                let value = |random: &mut Random| random.below(3) as u8;
                let operation = match random.below(3) {
                    0 => Read(value(&mut random)),
                    1 => Write(value(&mut random)),
                    _ => {
                        let answer = [None, Some(false), Some(true)][random.below(3) as usize];
                        CompareAndSet(value(&mut random), value(&mut random), answer)
                    }
                };
                let called = 1 + random.below(12);
                let answered = !random.chance(20);
                let returned = if answered {
                    called + random.below(6)
                } else {
                    0
                };
                history.push(event(operation, called, returned));
            }
            let expected = by_hand(&history, 0, &mut Vec::new());
            let found = check(&Register, &history);
            assert_eq!(found.is_ok(), expected, "seed {seed}: {history:?}");
            counts[usize::from(expected)] += 1;
            let Ok(order) = found else { continue };
            let mut state = 0;
            for operation in order {
                let step = Register.step(&state, &history[operation].operation);
                state = step.expect("the order explains the answers");
            }
        }
        assert!(counts.iter().all(|count| *count > 2_000), "{counts:?}");
    }

    /// Many clients at once on one register, as a simulated world has them.
    #[test]
    fn long_histories_of_many_clients_take_no_time() {
        let mut random = Random::new(1);
        let (mut state, mut history) = (0, Vec::new());
        for at in 0..2_000u64 {
            let operation = match random.below(2) {
                0 => Read(state),
                _ => {
                    state = random.below(200) as u8;
                    Write(state)
                }
            };
            // Each is done at `at`, and asked and answered up to ten others away from it.
            let called = (at * 10).saturating_sub(random.below(100));
            history.push(event(operation, called, at * 10 + 1 + random.below(100)));
        }
        assert!(linearizable(&history));
    }
}
