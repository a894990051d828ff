//! Those who read, and hold what they are shown to what is known: alike for all that is written.

use std::time::Duration;

use bytes::Bytes;
use cluster::Consistency;

use super::super::session::Session;
use super::super::world::World;
use super::Shared;
use crate::Random;

/// The rows of an answer.
pub(super) type Rows = Vec<Vec<Option<Bytes>>>;

/// What is known of things of a kind, each of which one statement reads.
pub(super) trait Known {
    /// Which of them.
    type Place: Copy;
    /// What is known when a read begins.
    type Before;
    /// How long who reads them rests between two requests, at most, in milliseconds.
    const REST: u64;

    /// Where it is.
    fn of(shared: &Shared) -> &Self;

    /// Any of them.
    fn choose(random: &mut Random) -> Self::Place;

    /// The statement that reads it.
    fn question(place: Self::Place) -> String;

    /// What is known of it now.
    fn before(&self, place: Self::Place) -> Self::Before;

    /// Holds an answer to what was known before the question, and is now.
    ///
    /// # Errors
    /// It cannot be; in words.
    fn check(&self, place: Self::Place, before: &Self::Before, rows: Rows) -> Result<(), String>;
}

/// Reads at QUORUM until clients shall end.
pub(super) async fn read<K: Known>(shared: &Shared, mut session: Session) {
    let known = K::of(shared);
    while !shared.clients.shall_end() {
        let place = K::choose(session.random());
        let before = known.before(place);
        let answer = session.run(&K::question(place), Consistency::Quorum).await;
        if let Ok(answer) = answer {
            shared.report.borrow_mut().reads += 1;
            let checked = known.check(place, &before, answer.rows);
            checked.unwrap_or_else(|problem| shared.clients.blame(problem));
        }
        session.rest(K::REST).await;
    }
}

/// At last every node gives, at ALL, what there is at these places.
pub(super) fn read_everywhere<K: Known>(
    world: &mut World,
    shared: &Shared,
    places: impl IntoIterator<Item = K::Place>,
    recovery: Duration,
) -> Result<(), String> {
    let known = K::of(shared);
    let limit = world.simulation.now() + recovery;
    for place in places {
        for node in 0..world.len() {
            let before = known.before(place);
            let rows = world.ask_until(limit, node, &K::question(place), Consistency::All)?;
            known.check(place, &before, rows)?;
        }
    }
    Ok(())
}
