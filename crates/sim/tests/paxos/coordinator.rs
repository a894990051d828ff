//! Clients, and their operations at coordinators.

use std::time::Duration;

use cluster::paxos::{
    Action, Answer, Decision, Latencies, Moment, Operation, Participants, Phase, Proposer, Request,
    Step, Timing, Verdict,
};
use cluster::{Consistency, NodeId, Replica as Member, ReplicationStrategy};

use crate::conditions::{COMMITS, Fault, Layout};
use crate::history::{Asked, Entry, Told};
use crate::replica::{self, COLUMNS, Cells, State};
use crate::world::{Event, World};

/// How long operations may take, in microseconds; their commits have as long again.
const DEADLINE: u64 = 1_000_000;

/// An operation at its coordinator.
pub(crate) struct Run {
    pub(crate) client: usize,
    pub(crate) node: usize,
    pub(crate) asked: Asked,
    pub(crate) called: u64,
    /// What the last decision was made on.
    pub(crate) read: State,
    /// How many proposals it made, of its own or of others.
    pub(crate) proposals: u64,
    pub(crate) proposer: Option<Proposer<Cells>>,
    pub(crate) told: bool,
}

/// A client that does one thing after the other.
pub(crate) struct Client {
    pub(crate) left: u32,
    /// What it saw last: its conditions mostly hold.
    pub(crate) seen: State,
}

impl World {
    fn participants(&mut self) -> Option<Participants> {
        let Layout {
            local,
            pending,
            remote,
        } = self.layout;
        let mut members = Vec::new();
        for node in 0..local + remote {
            // Nobody knows at once who is down.
            let errs = self.weather.crash.is_some() && !self.ends && self.random.chance(5);
            members.push(Member {
                node: NodeId(node),
                datacenter: if node < local { "dc1" } else { "dc2" },
                alive: self.replicas[node as usize].up != errs,
                pending: pending && node == local - 1,
            });
        }
        let factors = [("dc1", local - u32::from(pending)), ("dc2", remote)];
        let factors = factors.into_iter().filter(|(_, factor)| *factor > 0);
        let strategy = ReplicationStrategy::network_topology(factors);
        let level = match remote {
            0 => Consistency::Serial,
            _ => Consistency::LocalSerial,
        };
        let found = Participants::new(level, &strategy, "dc1", &members);
        let mut participants = found.ok()?;
        participants.votes -= u32::from(self.fault == Fault::SmallQuorum);
        Some(participants)
    }

    pub(crate) fn client(&mut self, client: usize) {
        if self.clients[client].left == 0 {
            return;
        }
        let node = self.random.below(u64::from(self.layout.local)) as usize;
        if !self.replicas[node].up {
            self.after(50_000, Event::Client { client });
            return;
        }
        self.clients[client].left -= 1;
        let seen = self.clients[client].seen;
        let asked = match self.random.chance(35) {
            true => Asked::Read,
            false => {
                self.next_value += 1;
                let condition = self.random.below(COLUMNS as u64) as usize;
                Asked::Update {
                    condition: (condition, seen[condition]),
                    column: self.random.below(COLUMNS as u64) as usize,
                    value: self.next_value,
                }
            }
        };
        if !self.begin(client, node, asked) {
            self.after(50_000, Event::Client { client });
        }
    }

    /// Is it possible?
    pub(crate) fn begin(&mut self, client: usize, node: usize, asked: Asked) -> bool {
        let Some(participants) = self.participants() else {
            return false;
        };
        let operation = match asked {
            Asked::Read => Operation::Read,
            Asked::Update { .. } => Operation::Update {
                commit: *self.random.pick(&COMMITS),
            },
        };
        let now = Duration::from_micros(self.now);
        let timing = Timing {
            deadline: now + Duration::from_micros(DEADLINE),
            commit_deadline: now + Duration::from_micros(2 * DEADLINE),
            latencies: Latencies {
                p50: Duration::from_millis(3),
                p95: Duration::from_millis(8),
            },
        };
        let called = self.tick();
        let moment = self.moment(node);
        let (proposer, actions) = Proposer::start(operation, participants, timing, moment);
        let wake = proposer.wake_at();
        self.runs.push(Run {
            client,
            node,
            asked,
            called,
            read: State::default(),
            proposals: 0,
            proposer: Some(proposer),
            told: false,
        });
        let operation = self.runs.len() - 1;
        self.at(wake.as_micros() as u64 + 1, Event::Wake { operation });
        self.perform(operation, actions);
        true
    }

    /// Tells a proposer of something, if it lives.
    pub(crate) fn tell(
        &mut self,
        operation: usize,
        what: impl FnOnce(&mut Proposer<Cells>, Moment) -> Vec<Action<Cells>>,
    ) {
        let moment = self.moment(self.runs[operation].node);
        let Some(proposer) = &mut self.runs[operation].proposer else {
            return;
        };
        let before = proposer.wake_at();
        let actions = what(proposer, moment);
        let wake = proposer.wake_at();
        if proposer.is_over() {
            self.runs[operation].proposer = None;
        } else if wake != before {
            self.at(wake.as_micros() as u64 + 1, Event::Wake { operation });
        }
        self.perform(operation, actions);
    }

    fn perform(&mut self, operation: usize, actions: Vec<Action<Cells>>) {
        for action in actions {
            match action {
                Action::Send { to, request } => self.send(operation, to.0 as usize, request),
                Action::Hint { to, commit } => {
                    let to = to.0 as usize;
                    self.after(300_000, Event::Hint { to, commit });
                }
                Action::Decide { ballot, reads } => self.decide(operation, ballot.micros(), &reads),
                Action::Done(verdict) => self.done(operation, verdict),
            }
        }
    }

    fn send(&mut self, operation: usize, to: usize, request: Request) {
        let node = self.runs[operation].node;
        let id = request.id();
        self.trace(id.ballot.micros() as u64 ^ to as u64);
        match &request {
            Request::Refresh { .. } => self.report.refreshed += 1,
            Request::Prepare {
                commit: Some(_), ..
            } => self.report.finished += 1,
            Request::Propose(proposal) => {
                self.runs[operation].proposals += 1;
                self.report.empty += u64::from(proposal.update.is_none());
            }
            _ => {}
        }
        if self.fault == Fault::SkipsRefresh && id.step == Step::Refresh {
            let event = Event::Reply {
                operation,
                from: to,
                id,
                answer: Some(Answer::Refreshed(None)),
            };
            return self.after(10, event);
        }
        let mut copies = self.copies(node, to);
        if id.step == Step::Propose {
            let doubled = self.fault == Fault::DoublesProposals;
            copies = copies.min(1) * (1 + u32::from(doubled));
        }
        for _ in 0..copies {
            let event = Event::Request {
                to,
                operation,
                request: request.clone(),
            };
            self.travel(node, to, event);
        }
        if copies == 0 && self.random.chance(50) {
            self.after(200_000, Event::failure(operation, to, id));
        }
    }

    fn decide(&mut self, operation: usize, timestamp: i64, reads: &[(NodeId, Cells)]) {
        let mut merged = Cells::default();
        for (_, cells) in reads {
            for (cell, other) in merged.iter_mut().zip(cells) {
                *cell = (*cell).max(*other);
            }
        }
        let run = &mut self.runs[operation];
        run.read = merged.map(|(_, value)| value);
        let decision = match run.asked {
            Asked::Update {
                condition,
                column,
                value,
            } if run.read[condition.0] == condition.1 => {
                Decision::Propose(Some(replica::update(timestamp, column, value)))
            }
            _ => Decision::Answer,
        };
        let short_read = self.random.chance(3);
        self.tell(operation, |proposer, moment| {
            proposer.decide(moment, decision, short_read)
        });
    }

    fn done(&mut self, operation: usize, verdict: Verdict) {
        let run = &self.runs[operation];
        let told = match verdict {
            Verdict::Applied => Told::Applied(run.read),
            Verdict::AsRead => Told::Read(run.read),
            Verdict::Failed(failure) => match failure.phase {
                Phase::Prepare => Told::Nothing,
                Phase::Propose => Told::Unknown,
                Phase::Commit => Told::Applied(run.read),
            },
        };
        self.end(operation, told);
    }

    pub(crate) fn end(&mut self, operation: usize, told: Told) {
        let ended = self.tick();
        let run = &mut self.runs[operation];
        assert!(!run.told, "a client is told once");
        run.told = true;
        let fast = run.proposals == 0;
        let client = run.client;
        self.history.push(Entry {
            asked: run.asked,
            called: run.called,
            told,
            ended,
        });
        match told {
            Told::Read(state) => {
                self.clients[client].seen = state;
                self.report.read += 1;
                self.report.fast += u64::from(fast);
            }
            Told::Applied(_) => self.report.applied += 1,
            Told::Unknown => self.report.unknown += 1,
            Told::Nothing => self.report.nothing += 1,
        }
        if let (Told::Applied(state), Asked::Update { column, value, .. }) =
            (told, self.runs[operation].asked)
        {
            self.clients[client].seen = state;
            self.clients[client].seen[column] = value;
        }
        self.trace(u64::from(ended as u32) ^ u64::from(client as u32));
        if !self.ends {
            self.after(self.weather.think, Event::Client { client });
        }
    }
}
