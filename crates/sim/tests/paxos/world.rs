//! A world of nodes, each a replica and a coordinator, with a network between them that loses,
//! delays, reorders and doubles, clocks that are seconds apart, and clients.

use std::collections::BTreeMap;
use std::time::Duration;

use cluster::paxos::{Answer, Moment, Proposal, Request, RequestId};
use cluster::{FailureReason, NodeId};
use sim::Random;

use crate::conditions::{Fault, LAYOUTS, Layout, Weather};
use crate::coordinator::{Client, Run};
use crate::history::{Asked, Entry, Told};
use crate::replica::{Cells, Effects, Replica, State, Waits};

/// What happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) steps: u64,
    /// Operations, by what clients were told.
    pub(crate) applied: u64,
    pub(crate) read: u64,
    pub(crate) unknown: u64,
    pub(crate) nothing: u64,
    pub(crate) crashes: u64,
    /// Prepares that a commit went ahead of.
    pub(crate) finished: u64,
    pub(crate) refreshed: u64,
    /// Requests to accept an empty proposal.
    pub(crate) empty: u64,
    /// Reads that needed nothing but promises.
    pub(crate) fast: u64,
    /// A hash of everything: the same seed gives the same.
    pub(crate) trace: u64,
}

impl Report {
    pub(crate) fn add(&mut self, other: &Report) {
        self.steps += other.steps;
        self.applied += other.applied;
        self.read += other.read;
        self.unknown += other.unknown;
        self.nothing += other.nothing;
        self.crashes += other.crashes;
        self.finished += other.finished;
        self.refreshed += other.refreshed;
        self.empty += other.empty;
        self.fast += other.fast;
    }
}

/// What happens.
pub(crate) enum Event {
    Request {
        to: usize,
        operation: usize,
        request: Request,
    },
    Reply {
        operation: usize,
        from: usize,
        id: RequestId,
        answer: Option<Answer<Cells>>,
    },
    Resume {
        at: usize,
        life: u32,
        task: u64,
        waits: Waits,
    },
    Hint {
        to: usize,
        commit: Proposal,
    },
    Wake {
        operation: usize,
    },
    Client {
        client: usize,
    },
    Crash,
    Restart {
        node: usize,
    },
    Cut,
    Heal,
}

impl Event {
    /// A request finds nobody.
    pub(crate) fn failure(operation: usize, from: usize, id: RequestId) -> Event {
        Event::Reply {
            operation,
            from,
            id,
            answer: None,
        }
    }
}

pub(crate) struct World {
    pub(crate) random: Random,
    /// In microseconds.
    pub(crate) now: u64,
    order: u64,
    queue: BTreeMap<(u64, u64), Event>,
    pub(crate) layout: Layout,
    pub(crate) weather: Weather,
    pub(crate) fault: Fault,
    pub(crate) replicas: Vec<Replica>,
    /// By how much clocks are wrong, in microseconds; and the last timestamp that each gave.
    clocks: Vec<(i64, i64)>,
    /// On this side of a cut.
    cut: Vec<bool>,
    pub(crate) runs: Vec<Run>,
    pub(crate) clients: Vec<Client>,
    pub(crate) next_value: u16,
    /// Only looked at any more.
    pub(crate) ends: bool,
    pub(crate) history: Vec<Entry>,
    pub(crate) report: Report,
}

/// 2023-11-14.
const EPOCH: i64 = 1_700_000_000_000_000;
/// For how long the world is wild.
const WILD: u64 = 4_000_000;

impl World {
    /// The one of this seed.
    pub(crate) fn new(seed: u64, fault: Fault) -> World {
        let mut random = Random::new(seed);
        let weather = Weather::wild(&mut random);
        World::under(weather, fault, random)
    }

    /// One in which nothing goes wrong.
    pub(crate) fn calm(seed: u64) -> World {
        let mut random = Random::new(seed);
        let weather = Weather::calm(&mut random);
        World::under(weather, Fault::None, random)
    }

    fn under(weather: Weather, fault: Fault, mut random: Random) -> World {
        let layout = *random.pick(&LAYOUTS);
        let nodes = (layout.local + layout.remote) as usize;
        let clock = |random: &mut Random| (random.below(weather.skew) as i64, 0);
        let client = |random: &mut Random| Client {
            left: 3 + random.below(6) as u32,
            seen: State::default(),
        };
        let clients = 2 + random.below(4);
        let mut world = World {
            now: 0,
            order: 0,
            queue: BTreeMap::new(),
            layout,
            weather,
            fault,
            replicas: (0..nodes).map(|_| Replica::new(fault)).collect(),
            clocks: (0..nodes).map(|_| clock(&mut random)).collect(),
            cut: vec![false; nodes],
            runs: Vec::new(),
            clients: (0..clients).map(|_| client(&mut random)).collect(),
            next_value: 0,
            ends: false,
            history: Vec::new(),
            report: Report::default(),
            random,
        };
        for client in 0..world.clients.len() {
            world.after(weather.think, Event::Client { client });
        }
        if let Some(crash) = weather.crash {
            world.after(crash, Event::Crash);
        }
        if let Some(cut) = weather.cut {
            world.after(cut, Event::Cut);
        }
        world
    }

    /// Lives until all clients are done, and then looks once from every node.
    pub(crate) fn run(mut self) -> (Vec<Entry>, Report) {
        self.drain();
        self.ends = true;
        self.now = self.now.max(WILD);
        for node in 0..self.replicas.len() {
            if !self.replicas[node].up {
                self.replicas[node].restart();
            }
            self.cut[node] = false;
        }
        for node in 0..self.layout.local as usize {
            self.begin(0, node, Asked::Read);
            self.drain();
        }
        assert!(self.runs.iter().all(|run| run.told), "all have an end");
        (self.history, self.report)
    }

    fn drain(&mut self) {
        while let Some(((at, order), event)) = self.queue.pop_first() {
            self.now = at;
            self.report.steps += 1;
            self.trace(at ^ order << 32);
            self.happen(event);
        }
    }

    pub(crate) fn trace(&mut self, what: u64) {
        let mixed = (self.report.trace ^ what).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.report.trace = mixed ^ mixed >> 29;
    }

    pub(crate) fn at(&mut self, time: u64, event: Event) {
        self.order += 1;
        self.queue.insert((time, self.order), event);
    }

    /// Within this time.
    pub(crate) fn after(&mut self, longest: u64, event: Event) {
        let time = self.now + 1 + self.random.below(longest);
        self.at(time, event);
    }

    /// A time of its own for the history.
    pub(crate) fn tick(&mut self) -> u64 {
        self.order += 1;
        self.order
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Request {
                to,
                operation,
                request,
            } => {
                let id = request.id();
                if self.replicas[to].up {
                    let now = self.seconds(to);
                    let effects = self.replicas[to].receive(operation, request, now);
                    self.effects(to, effects);
                } else if self.random.chance(50) {
                    self.after(1_000, Event::failure(operation, to, id));
                }
            }
            Event::Resume {
                at,
                life,
                task,
                waits,
            } => {
                if self.replicas[at].up && self.replicas[at].life == life {
                    let now = self.seconds(at);
                    let effects = self.replicas[at].resume(task, waits, now);
                    self.effects(at, effects);
                }
            }
            Event::Reply {
                operation,
                from,
                id,
                answer,
            } => {
                self.tell(operation, |proposer, moment| {
                    let from = NodeId(from as u32);
                    match answer {
                        Some(answer) => proposer.answer(moment, from, id, answer),
                        None => proposer.fail(moment, from, id, FailureReason::Timeout),
                    }
                });
            }
            Event::Wake { operation } => {
                self.tell(operation, |proposer, moment| proposer.wake(moment));
            }
            Event::Hint { to, commit } => match self.replicas[to].up {
                true => self.replicas[to].apply(&commit),
                false => self.after(300_000, Event::Hint { to, commit }),
            },
            Event::Client { client } => self.client(client),
            Event::Crash => self.crash(),
            Event::Restart { node } => self.replicas[node].restart(),
            Event::Cut => {
                for node in 0..self.cut.len() {
                    self.cut[node] = self.random.chance(30);
                }
                self.after(300_000, Event::Heal);
            }
            Event::Heal => {
                self.cut.fill(false);
                if let Some(cut) = self.weather.cut.filter(|_| self.now < WILD) {
                    self.after(cut, Event::Cut);
                }
            }
        }
    }

    fn crash(&mut self) {
        if self.now > WILD {
            return;
        }
        let node = self.random.below(self.replicas.len() as u64) as usize;
        if self.replicas[node].up {
            self.report.crashes += 1;
            self.replicas[node].crash(&mut self.random);
            self.after(self.weather.down, Event::Restart { node });
            for operation in 0..self.runs.len() {
                let run = &mut self.runs[operation];
                if run.node == node && run.proposer.take().is_some() && !run.told {
                    self.end(operation, Told::Unknown);
                }
            }
        }
        if let Some(crash) = self.weather.crash {
            self.after(crash, Event::Crash);
        }
    }

    fn seconds(&self, node: usize) -> i64 {
        (EPOCH + self.now as i64 + self.clocks[node].0) / 1_000_000
    }

    pub(crate) fn moment(&mut self, node: usize) -> Moment {
        let (skew, last) = &mut self.clocks[node];
        *last = (EPOCH + self.now as i64 + *skew).max(*last + 1);
        Moment {
            now: Duration::from_micros(self.now),
            micros: *last,
            random: self.random.next_u64(),
        }
    }

    fn effects(&mut self, at: usize, effects: Effects) {
        let life = self.replicas[at].life;
        for (task, waits) in effects.waits {
            let longest = match waits {
                Waits::Read => 1_000,
                Waits::Late => 300_000,
                _ => self.weather.drive,
            };
            let event = Event::Resume {
                at,
                life,
                task,
                waits,
            };
            self.after(longest, event);
        }
        if let Some(reply) = effects.reply {
            let to = self.runs[reply.operation].node;
            for _ in 0..self.copies(at, to) {
                let event = Event::Reply {
                    operation: reply.operation,
                    from: at,
                    id: reply.id,
                    answer: Some(reply.answer.clone()),
                };
                self.travel(at, to, event);
            }
        }
    }

    /// How often a message arrives.
    pub(crate) fn copies(&mut self, from: usize, to: usize) -> u32 {
        if from == to || self.ends {
            return 1;
        }
        if self.cut[from] != self.cut[to] || self.random.chance(self.weather.lost) {
            return 0;
        }
        1 + u32::from(self.random.chance(self.weather.doubled))
    }

    pub(crate) fn travel(&mut self, from: usize, to: usize, event: Event) {
        let longest = match from == to {
            true => 10,
            false if !self.ends && self.random.chance(self.weather.slow) => {
                self.weather.slow_latency
            }
            false => self.weather.latency,
        };
        self.after(longest, event);
    }
}
