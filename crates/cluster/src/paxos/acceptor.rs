//! The replica's side: what it has promised, accepted and committed of one partition (`PaxosState`).
//!
//! Every transition is made in memory at once, and names what must be on the drive before it is
//! answered. Until then others may see it: they can only be refused because of it, or finish what
//! was accepted, and both are safe should a crash undo it. A commit is the exception: that a quorum
//! has one is what lets the next round overwrite what was accepted. So it is written first, and
//! then only noted ([`Acceptor::commit`], [`Acceptor::committed`]).

use super::{Answer, Ballot, Columns, Kept, Lifetime, Permitted, Proposal, Row, Write};

/// What a request changes, and the answer to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition<A> {
    /// To be on the drive before the answer leaves. `None`: nothing, the answer may leave.
    pub write: Option<Write>,
    /// The answer.
    pub answer: A,
}

/// What becomes of [`super::Request::Prepare`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prepared {
    /// [`Answer::Rejected`].
    Rejected(Ballot),
    /// Data is to be read now, then there is [`Acceptor::answer`].
    Permitted(Permission),
}

/// A promise, or the permission to read, as it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permission {
    /// The second of the ballot.
    now: i64,
    superseded_by: Option<Ballot>,
    promised_write: Ballot,
    accepted: Option<Proposal>,
    committed: Option<Proposal>,
    stable: bool,
}

/// The state of one partition at one replica. There is only one of each, for as long as anything that
/// it gave to write is not on the drive, or a commit is being written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acceptor {
    /// The last promise of all: nothing below is accepted.
    promised: Ballot,
    /// The last promise to an update; not above `promised`. Reads do not mind each other's.
    promised_write: Ballot,
    /// What was accepted last, if it is above what was committed.
    accepted: Option<Kept>,
    committed: Option<Kept>,
}

impl Acceptor {
    /// The state that is on the drive (`SystemKeyspace.loadPaxosState`).
    pub fn load(row: Row) -> Acceptor {
        let promised_write = row.in_progress_ballot.unwrap_or(Ballot::NONE);
        let read = row.in_progress_read_ballot.unwrap_or(Ballot::NONE);
        let mut acceptor = Acceptor {
            promised: promised_write.latest(read),
            promised_write,
            accepted: row.proposal,
            committed: row.most_recent_commit,
        };
        acceptor.drop_accepted_if_committed();
        acceptor
    }

    /// Promises a ballot, if none that forbids it came before (`PaxosState.promiseIfNewer`).
    ///
    /// What is old counts as forgotten at the time of the ballot, so that all replicas decide alike.
    pub fn prepare(
        &mut self,
        ballot: Ballot,
        for_write: bool,
        lifetime: Lifetime,
    ) -> Transition<Prepared> {
        let now = ballot.seconds();
        let accepted = unexpired(&self.accepted, now);
        let committed = unexpired(&self.committed, now);
        let latest_write = accepted
            .filter(|accepted| accepted.update.is_some())
            .map_or(Ballot::NONE, |accepted| accepted.ballot)
            .latest(ballot_of(committed))
            .latest(self.promised_write);
        let latest = self.promised.latest(latest_write);
        let (is_promise, may_read) = (ballot > latest, ballot > latest_write);
        if !may_read {
            return Transition {
                write: None,
                answer: Prepared::Rejected(latest),
            };
        }
        // An empty proposal that was accepted ended all rounds below it.
        let ended = accepted.filter(|accepted| accepted.update.is_none());
        let stable = ballot_of(ended.or(committed)) >= self.promised_write;
        let (accepted, committed) = (accepted.cloned(), committed.cloned());
        let write = is_promise.then(|| self.promise(ballot, for_write, lifetime));
        Transition {
            write,
            answer: Prepared::Permitted(Permission {
                now,
                superseded_by: (!is_promise).then_some(latest),
                promised_write: self.promised_write,
                accepted,
                committed,
                stable,
            }),
        }
    }

    fn promise(&mut self, ballot: Ballot, for_write: bool, lifetime: Lifetime) -> Write {
        self.promised = ballot;
        if for_write {
            self.promised_write = ballot;
            lifetime.write(ballot, Columns::WritePromise(ballot))
        } else {
            lifetime.write(ballot, Columns::ReadPromise(ballot))
        }
    }

    /// The answer to a prepare, after data was read. If anything happened in between, what was read may be
    /// of before or of after.
    pub fn answer<R>(&self, permission: Permission, read: Option<R>) -> Answer<R> {
        let same = |kept, then: &Option<Proposal>| {
            ballot_of(unexpired(kept, permission.now)) == ballot_of(then.as_ref())
        };
        let unchanged = self.promised_write == permission.promised_write
            && same(&self.committed, &permission.committed)
            && same(&self.accepted, &permission.accepted);
        Answer::Permitted(Permitted {
            superseded_by: permission.superseded_by,
            accepted: permission.accepted,
            committed: permission.committed,
            stable: permission.stable && unchanged,
            read,
        })
    }

    /// Accepts a proposal, if no higher ballot was promised, accepted or committed; else the answer is
    /// that ballot (`PaxosState.acceptIfLatest`).
    pub fn propose(
        &mut self,
        proposal: Proposal,
        lifetime: Lifetime,
    ) -> Transition<Option<Ballot>> {
        let latest = self.latest(proposal.ballot.seconds());
        let is_highest = proposal.ballot >= latest;
        if !is_highest {
            return Transition {
                write: None,
                answer: Some(latest),
            };
        }
        if self.has_committed(&proposal, lifetime.now()) {
            return Transition {
                write: None,
                answer: None,
            };
        }
        let columns = Columns::Accepted(proposal.clone());
        let write = lifetime.write(proposal.ballot, columns);
        self.accepted = Some(Kept {
            proposal,
            expires: Some(write.expires),
        });
        Transition {
            write: Some(write),
            answer: None,
        }
    }

    /// What a commit has to write, together with the update; `None`: it is here already
    /// (`PaxosState.commit`). Once that is on the drive, there is [`Acceptor::committed`].
    pub fn commit(&self, proposal: &Proposal, lifetime: Lifetime) -> Option<Write> {
        let columns = || Columns::Committed(proposal.clone());
        let has = self.has_committed(proposal, lifetime.now());
        (!has).then(|| lifetime.write(proposal.ballot, columns()))
    }

    /// The commit is on the drive, and so is its update.
    pub fn committed(&mut self, proposal: Proposal, lifetime: Lifetime) {
        let newest = self.committed.as_ref().map(|kept| &kept.proposal);
        if proposal.ballot >= ballot_of(newest) {
            self.committed = Some(Kept {
                proposal,
                expires: Some(lifetime.expires()),
            });
        }
        self.drop_accepted_if_committed();
    }

    /// Does the promise of a ballot still hold? `Some`: this one has come in its way
    /// (`PaxosPrepareRefresh`, after the commit).
    pub fn confirm(&self, ballot: Ballot) -> Option<Ballot> {
        let latest = self.latest(ballot.seconds());
        (latest > ballot).then_some(latest)
    }

    /// The highest ballot of all that is known at this second (`Snapshot.latestWitnessedOrLowBound`).
    /// Of two with the same time that which was accepted counts: a quorum has promised it.
    fn latest(&self, now: i64) -> Ballot {
        let accepted = ballot_of(unexpired(&self.accepted, now));
        let committed = ballot_of(unexpired(&self.committed, now));
        accepted.latest(committed).latest(self.promised)
    }

    fn has_committed(&self, proposal: &Proposal, now: i64) -> bool {
        let committed = unexpired(&self.committed, now);
        committed.is_some_and(|committed| committed.ballot == proposal.ballot)
    }

    fn drop_accepted_if_committed(&mut self) {
        let committed = ballot_of(self.committed.as_ref().map(|kept| &kept.proposal));
        let open = |kept: &Kept| kept.proposal.ballot > committed;
        self.accepted = self.accepted.take().filter(open);
    }
}

fn unexpired(kept: &Option<Kept>, now: i64) -> Option<&Proposal> {
    kept.as_ref()?.unexpired(now)
}

fn ballot_of(proposal: Option<&Proposal>) -> Ballot {
    proposal.map_or(Ballot::NONE, |proposal| proposal.ballot)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::paxos::{Scope, Update};

    const NOW: i64 = 1_000;

    fn ballot(micros: i64) -> Ballot {
        Ballot::at(micros, Scope::Global, micros.cast_unsigned())
    }

    fn proposal(micros: i64) -> Proposal {
        let update = Update {
            timestamp: micros,
            version: 1,
            bytes: Bytes::new(),
        };
        Proposal {
            ballot: ballot(micros),
            update: Some(update),
        }
    }

    fn empty(micros: i64) -> Proposal {
        Proposal {
            update: None,
            ..proposal(micros)
        }
    }

    fn lifetime() -> Lifetime {
        Lifetime::new(NOW, 0)
    }

    fn new() -> Acceptor {
        Acceptor::load(Row::default())
    }

    fn prepare(acceptor: &mut Acceptor, micros: i64, for_write: bool) -> Answer<()> {
        let prepared = acceptor.prepare(ballot(micros), for_write, lifetime());
        match prepared.answer {
            Prepared::Rejected(by) => Answer::Rejected(by),
            Prepared::Permitted(permission) => acceptor.answer(permission, Some(())),
        }
    }

    /// Is it promised, only permitted, or neither? And is what was read stable?
    fn outcome(answer: Answer<()>) -> (&'static str, bool) {
        match answer {
            Answer::Permitted(permitted) => match permitted.superseded_by {
                None => ("promised", permitted.stable),
                Some(_) => ("permitted", permitted.stable),
            },
            _ => ("rejected", false),
        }
    }

    fn commit(acceptor: &mut Acceptor, proposal: Proposal) -> Option<Write> {
        let write = acceptor.commit(&proposal, lifetime());
        acceptor.committed(proposal, lifetime());
        write
    }

    #[test]
    fn reads_do_not_disturb_reads_and_updates_disturb_all() {
        let mut acceptor = new();
        assert_eq!(
            outcome(prepare(&mut acceptor, 20, false)),
            ("promised", true)
        );
        assert_eq!(
            outcome(prepare(&mut acceptor, 10, false)),
            ("permitted", true)
        );
        assert_eq!(
            outcome(prepare(&mut acceptor, 10, true)),
            ("permitted", true)
        );
        assert_eq!(
            outcome(prepare(&mut acceptor, 30, true)),
            ("promised", true)
        );
        assert_eq!(
            outcome(prepare(&mut acceptor, 25, false)),
            ("rejected", false)
        );
        // An update is under way now.
        assert_eq!(
            outcome(prepare(&mut acceptor, 40, false)),
            ("promised", false)
        );
        assert_eq!(
            outcome(prepare(&mut acceptor, 35, true)),
            ("permitted", false)
        );
    }

    #[test]
    fn an_update_is_over_when_it_is_committed_or_ended() {
        for ended in [false, true] {
            let mut acceptor = new();
            prepare(&mut acceptor, 10, true);
            acceptor.propose(proposal(10), lifetime());
            assert_eq!(
                outcome(prepare(&mut acceptor, 20, false)),
                ("promised", false)
            );
            match ended {
                false => drop(commit(&mut acceptor, proposal(10))),
                true => drop(acceptor.propose(empty(20), lifetime())),
            }
            assert_eq!(
                outcome(prepare(&mut acceptor, 30, false)),
                ("promised", true)
            );
        }
    }

    #[test]
    fn nothing_below_what_is_known_is_accepted() {
        let mut acceptor = new();
        prepare(&mut acceptor, 20, false);
        assert_eq!(
            acceptor.propose(proposal(10), lifetime()).answer,
            Some(ballot(20))
        );
        assert_eq!(acceptor.propose(proposal(20), lifetime()).answer, None);
        // Also without a promise.
        assert_eq!(acceptor.propose(proposal(30), lifetime()).answer, None);
        assert_eq!(
            acceptor.propose(proposal(20), lifetime()).answer,
            Some(ballot(30))
        );
        assert_eq!(
            outcome(prepare(&mut acceptor, 25, true)),
            ("rejected", false)
        );
        commit(&mut acceptor, proposal(40));
        assert_eq!(acceptor.accepted, None);
        assert_eq!(
            acceptor.propose(proposal(35), lifetime()).answer,
            Some(ballot(40))
        );
        assert_eq!(acceptor.confirm(ballot(35)), Some(ballot(40)));
        assert_eq!(acceptor.confirm(ballot(45)), None);
        // A ballot of the same time is another one.
        let twin = Ballot::at(40, Scope::Global, 9);
        let prepared = acceptor.prepare(twin, true, lifetime());
        assert_eq!(prepared.answer, Prepared::Rejected(ballot(40)));
    }

    #[test]
    fn what_is_answered_is_written_first() {
        let mut acceptor = new();
        let columns = |write: Option<Write>| write.map(|write| write.columns);
        let mut prepare = |micros, for_write| {
            let prepared = acceptor.prepare(ballot(micros), for_write, lifetime());
            columns(prepared.write)
        };
        assert_eq!(prepare(10, true), Some(Columns::WritePromise(ballot(10))));
        assert_eq!(prepare(20, false), Some(Columns::ReadPromise(ballot(20))));
        assert_eq!(prepare(15, false), None);
        assert_eq!(prepare(5, false), None);
        let accepted = acceptor.propose(proposal(20), lifetime()).write.unwrap();
        assert_eq!(accepted.timestamp, 20);
        assert_eq!(accepted.ttl, 3 * 60 * 60);
        assert_eq!(accepted.expires, NOW + 3 * 60 * 60);
        assert_eq!(accepted.columns, Columns::Accepted(proposal(20)));
        let committed = Some(Columns::Committed(proposal(20)));
        assert_eq!(columns(commit(&mut acceptor, proposal(20))), committed);
        assert_eq!(commit(&mut acceptor, proposal(20)), None, "it is there");
        // An older one may have been missed here: its update is needed too.
        let older = Some(Columns::Committed(proposal(10)));
        assert_eq!(columns(commit(&mut acceptor, proposal(10))), older);
    }

    #[test]
    fn a_commit_is_not_seen_before_it_is_written() {
        let mut acceptor = new();
        acceptor.propose(proposal(10), lifetime());
        acceptor.commit(&proposal(10), lifetime());
        let Answer::Permitted(permitted) = prepare(&mut acceptor, 20, false) else {
            panic!("20 is above all");
        };
        assert_eq!(permitted.accepted, Some(proposal(10)));
        assert_eq!(permitted.committed, None);
    }

    #[test]
    fn what_changes_while_data_is_read_is_not_stable() {
        let happenings: [fn(&mut Acceptor); 3] = [
            |acceptor| drop(commit(acceptor, proposal(5))),
            |acceptor| drop(acceptor.propose(proposal(20), lifetime())),
            |acceptor| drop(acceptor.prepare(ballot(20), true, lifetime())),
        ];
        for happening in happenings {
            let mut acceptor = new();
            let prepared = acceptor.prepare(ballot(10), false, lifetime());
            let Prepared::Permitted(permission) = prepared.answer else {
                panic!("10 is above all");
            };
            let quiet = acceptor.answer(permission.clone(), Some(()));
            assert_eq!(outcome(quiet), ("promised", true));
            happening(&mut acceptor);
            let disturbed = acceptor.answer(permission, Some(()));
            assert_eq!(outcome(disturbed), ("promised", false));
        }
    }

    #[test]
    fn what_nobody_touched_for_long_is_forgotten() {
        assert_eq!(Lifetime::new(7, 864_000).expires(), 864_007);
        let mut acceptor = new();
        commit(&mut acceptor, proposal(10));
        acceptor.propose(proposal(20), lifetime());
        let expiry = lifetime().expires() * 1_000_000;
        let seen = |acceptor: &mut Acceptor, micros| match prepare(acceptor, micros, false) {
            Answer::Permitted(permitted) => {
                (permitted.accepted.is_some(), permitted.committed.is_some())
            }
            other => panic!("{other:?}"),
        };
        // By the clock of the ballot.
        assert_eq!(seen(&mut acceptor, expiry - 1), (true, true));
        assert_eq!(seen(&mut acceptor, expiry), (false, false));
        let later = Lifetime::new(NOW + 3 * 60 * 60, 0);
        let again = acceptor.commit(&proposal(10), later);
        assert!(again.is_some(), "it is written anew");
    }

    #[derive(Clone, Debug)]
    enum Step {
        Prepare(i64, bool),
        Propose(i64, bool),
        Commit(i64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            (1i64..40, any::<bool>()).prop_map(|(micros, write)| Step::Prepare(micros, write)),
            (1i64..40, any::<bool>()).prop_map(|(micros, empty)| Step::Propose(micros, empty)),
            (1i64..40).prop_map(Step::Commit),
        ];
        prop::collection::vec(step, 0..40)
    }

    /// As a store does it: later timestamps win.
    fn store(row: &mut Row, write: &Write) {
        let later = |kept: &Option<Kept>| {
            let kept = kept.as_ref().map(|kept| &kept.proposal);
            write.timestamp >= ballot_of(kept).micros()
        };
        let keep = |proposal: &Proposal| {
            Some(Kept {
                proposal: proposal.clone(),
                expires: Some(write.expires),
            })
        };
        match &write.columns {
            Columns::WritePromise(ballot) => row.in_progress_ballot = Some(*ballot),
            Columns::ReadPromise(ballot) => row.in_progress_read_ballot = Some(*ballot),
            Columns::Accepted(proposal) => row.proposal = keep(proposal),
            Columns::Committed(proposal) => {
                if later(&row.proposal) {
                    row.proposal = None;
                }
                if later(&row.most_recent_commit) {
                    row.most_recent_commit = keep(proposal);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_on_the_drive_is_what_it_was(steps in steps()) {
            let (mut acceptor, mut row) = (new(), Row::default());
            for step in steps {
                let write = match step {
                    Step::Prepare(micros, for_write) => {
                        acceptor.prepare(ballot(micros), for_write, lifetime()).write
                    }
                    Step::Propose(micros, true) => {
                        acceptor.propose(empty(micros), lifetime()).write
                    }
                    Step::Propose(micros, false) => {
                        acceptor.propose(proposal(micros), lifetime()).write
                    }
                    Step::Commit(micros) => commit(&mut acceptor, proposal(micros)),
                };
                write.iter().for_each(|write| store(&mut row, write));
                prop_assert_eq!(&acceptor, &Acceptor::load(row.clone()));
                prop_assert!(acceptor.promised >= acceptor.promised_write);
            }
        }
    }
}
