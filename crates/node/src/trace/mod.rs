//! Tracing one request, because its client asked for it or by chance (`settraceprobability`): what is done, and when, goes into
//! `system_traces` once the response is on its way.
//!
//! Activities have Cassandra's words, as people, drivers and tests look for them; what is said is what was done.
//! They are told from where they are done: [`reads`], [`writes`], [`paxos`]. Other nodes that are asked something for a traced
//! request keep their part of it themselves.

mod paxos;
mod reads;
mod writes;

pub(crate) use reads::messages;

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;

use cluster::NodeId;
use cql::{ColumnSpec, Value, Values};
use io::{Instant, TaskGroup};
use model::Mutation;
use uuid::Uuid;
use wire::{Consistency, QueryParameters, WriteType};

use crate::clients::Client;
use crate::coordinator;
use crate::shard::Shard;
use crate::system::{TracedEvents, TracedSession, time_uuid};

/// A trace has no more events than this: a batch may have any number of statements.
const MAX_EVENTS: usize = 1000;
/// Of a value so many characters are shown.
const MAX_SHOWN: usize = 1000;

/// The trace of a request under way.
pub(crate) struct Trace {
    /// The id of its session.
    id: Uuid,
    /// Did the client ask for it?
    asked_for: bool,
    /// The node that asks this one, where that is the coordinator.
    asked_by: Option<SocketAddr>,
    shard: Rc<Shard>,
    began: Instant,
    started_at: i64,
    about: RefCell<About>,
}

/// The trace of a request, if it is traced.
pub(crate) type Traced<'t> = Option<&'t Rc<Trace>>;

#[derive(Default)]
struct About {
    request: &'static str,
    parameters: Vec<(String, String)>,
    events: Vec<(u64, String, String)>,
}

impl Trace {
    /// Begins one if the client asks for it, or if chance wants it.
    pub(crate) fn begin_if(shard: &Rc<Shard>, asked_for: bool) -> Option<Rc<Trace>> {
        let chosen = || {
            let probability = shard.trace_probability.get();
            // The 53 bits that a number below 1 has.
            let random = (shard.env.random_u64() >> 11) as f64 / (1u64 << 53) as f64;
            random < probability
        };
        // Where nothing is left to chance, none is drawn.
        let traced = asked_for || (shard.trace_probability.get() > 0.0 && chosen());
        traced.then(|| Rc::new(Trace::begin(shard, asked_for)))
    }

    fn begin(shard: &Rc<Shard>, asked_for: bool) -> Trace {
        let id = time_uuid(shard.env.wall_micros(), 0, shard.env.random_u64());
        Trace::new(shard, id, asked_for)
    }

    fn new(shard: &Rc<Shard>, id: Uuid, asked_for: bool) -> Trace {
        Trace {
            id,
            asked_for,
            asked_by: None,
            began: shard.env.now(),
            shard: shard.clone(),
            started_at: shard.env.wall_micros(),
            about: RefCell::default(),
        }
    }

    /// Begins this node's part of a session whose coordinator is another one, which asks it something.
    pub(crate) fn of_other(shard: &Rc<Shard>, session: Uuid, asked_by: SocketAddr) -> Rc<Trace> {
        Rc::new(Trace {
            asked_by: Some(asked_by),
            ..Trace::new(shard, session, false)
        })
    }

    /// The id of its session.
    pub(crate) fn id(&self) -> Uuid {
        self.id
    }

    /// What the client is told of it: nothing if it did not ask.
    pub(crate) fn told_id(&self) -> Option<Uuid> {
        self.asked_for.then_some(self.id)
    }

    /// What is asked, in Cassandra's words, and the statement.
    pub(crate) fn request(&self, request: &'static str, statement: Option<&str>) {
        self.about.borrow_mut().request = request;
        if let Some(statement) = statement {
            self.parameter("query", statement);
        }
    }

    /// With which parameters (`QueryMessage.traceQuery`).
    pub(crate) fn parameters(&self, parameters: &QueryParameters<'_>) {
        self.parameter("consistency_level", parameters.consistency.to_string());
        self.parameter("serial_consistency_level", parameters.serial().name());
        if let Some(size) = parameters.page_size.filter(|size| *size > 0) {
            self.parameter("page_size", size.to_string());
        }
    }

    /// What the markers of a prepared statement are bound to, as literals (`ExecuteMessage.traceQuery`).
    pub(crate) fn bound(&self, variables: &[ColumnSpec], values: &Values<'_>) {
        for (number, (variable, value)) in variables.iter().zip(values.as_slice()).enumerate() {
            let literal = match value {
                Value::Null => "null".to_owned(),
                Value::Unset => "<unset>".to_owned(),
                Value::Bytes(bytes) => variable.ty.format_literal(bytes),
            };
            let name = format!("bound_var_{number}_{}", variable.name);
            self.parameter(&name, shown_value(literal));
        }
    }

    fn parameter(&self, name: &str, value: impl Into<String>) {
        let mut about = self.about.borrow_mut();
        about.parameters.push((name.to_owned(), value.into()));
    }

    /// Something was done.
    pub(crate) fn event(&self, activity: impl Into<String>) {
        let elapsed = self.elapsed();
        let events = &mut self.about.borrow_mut().events;
        if events.len() < MAX_EVENTS {
            let thread = format!("shard-{}", self.shard.index());
            events.push((elapsed, activity.into(), thread));
        }
    }

    /// Another node is sent a message of this name (`Verb`).
    pub(crate) fn sending(&self, message: &str, to: NodeId) {
        if let Some(address) = self.address_of(to) {
            self.event(format!("Sending {message} message to /{address}"));
        }
    }

    /// Another node has answered with one.
    pub(crate) fn received(&self, message: &str, from: NodeId) {
        if let Some(address) = self.address_of(from) {
            self.event(format!("{message} message received from /{address}"));
        }
    }

    /// The coordinator asks this node with a message of this name.
    pub(crate) fn asked(&self, message: &str) {
        if let Some(coordinator) = self.asked_by {
            self.event(format!("{message} message received from /{coordinator}"));
        }
    }

    /// And is answered with one.
    pub(crate) fn answering(&self, message: &str) {
        if let Some(coordinator) = self.asked_by {
            self.event(format!("Enqueuing response to /{coordinator}"));
            self.event(format!("Sending {message} message to /{coordinator}"));
        }
    }

    fn address_of(&self, node: NodeId) -> Option<SocketAddr> {
        let metadata = self.shard.metadata();
        metadata.node(node).map(|node| node.address)
    }

    fn elapsed(&self) -> u64 {
        let elapsed = self.shard.env.now().saturating_duration_since(self.began);
        u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX)
    }

    /// The response is on its way: keeps the trace, without anybody waiting.
    pub(crate) fn save(&self, client: &Client) {
        let duration = self.elapsed();
        let local = self.shard.local();
        let events = self.take_events();
        let about = self.about.take();
        let session = TracedSession {
            id: self.id,
            client: client.peer,
            coordinator: (local.listen_address, local.listen_port),
            started_at: self.started_at,
            duration,
            request: about.request,
            parameters: about.parameters,
        };
        let metadata = self.shard.metadata();
        let schema = &metadata.schema;
        self.keep([events.mutation(schema), session.mutation(schema)]);
    }

    /// The answer to another node is on its way: keeps what was done for it.
    pub(crate) fn save_events(&self) {
        let events = self.take_events();
        self.keep([events.mutation(&self.shard.metadata().schema), None]);
    }

    fn take_events(&self) -> TracedEvents {
        let local = self.shard.local();
        TracedEvents {
            session: self.id,
            source: (local.listen_address, local.listen_port),
            started_at: self.started_at,
            random: self.shard.env.random_u64(),
            events: std::mem::take(&mut self.about.borrow_mut().events),
        }
    }

    /// Writes one after another, on whichever nodes have the trace (`Tracing.TraceKeyspace`).
    fn keep(&self, mutations: [Option<Mutation>; 2]) {
        let shard = self.shard.clone();
        let Some(turn) = self.shard.traces.try_acquire(1) else {
            shard.metrics.lost_traces.add(1);
            return;
        };
        let id = self.id;
        let saving = async move {
            let _turn = turn;
            for mutation in mutations.into_iter().flatten() {
                let level = (Consistency::Any, WriteType::Simple);
                let writing = coordinator::write(&shard, vec![mutation], level, None, None);
                if let Err(error) = writing.await {
                    shard.metrics.lost_traces.add(1);
                    tracing::warn!("trace {id} is lost: {error}");
                    return;
                }
            }
        };
        self.shard.env.spawn(TaskGroup::Foreground, saving).detach();
    }
}

/// A value, or its beginning.
fn shown_value(literal: String) -> String {
    match literal.char_indices().nth(MAX_SHOWN) {
        None => literal,
        Some((end, _)) => format!("{}...'", &literal[..end]),
    }
}
