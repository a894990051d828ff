//! Events, and the description of a schema change that events share with results.

use std::net::SocketAddr;

use crate::notation::{BodyReader, BodyWriter, DecodeError};

/// What a client can register for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// `TOPOLOGY_CHANGE`
    Topology,
    /// `STATUS_CHANGE`
    Status,
    /// `SCHEMA_CHANGE`
    Schema,
}

impl EventKind {
    const ALL: [EventKind; 3] = [EventKind::Topology, EventKind::Status, EventKind::Schema];

    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            EventKind::Topology => "TOPOLOGY_CHANGE",
            EventKind::Status => "STATUS_CHANGE",
            EventKind::Schema => "SCHEMA_CHANGE",
        }
    }

    /// The kind of this name, any case.
    pub fn from_name(name: &str) -> Result<EventKind, DecodeError> {
        EventKind::ALL
            .into_iter()
            .find(|kind| kind.name().eq_ignore_ascii_case(name))
            .ok_or_else(|| DecodeError::new(format!("Invalid value '{name}' for Type")))
    }
}

/// How the set of nodes changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopologyChange {
    /// `NEW_NODE`
    NewNode,
    /// `REMOVED_NODE`
    RemovedNode,
}

/// How the state of a node changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusChange {
    /// `UP`
    Up,
    /// `DOWN`
    Down,
}

/// What was done to a part of the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// `CREATED`
    Created,
    /// `UPDATED`
    Updated,
    /// `DROPPED`
    Dropped,
}

impl ChangeKind {
    fn name(self) -> &'static str {
        match self {
            ChangeKind::Created => "CREATED",
            ChangeKind::Updated => "UPDATED",
            ChangeKind::Dropped => "DROPPED",
        }
    }
}

/// The part of the schema that changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeTarget {
    /// A keyspace itself.
    Keyspace,
    /// A table, or an index or view of it.
    Table(String),
    /// A user-defined type.
    Type(String),
    /// A user-defined function.
    Function {
        /// Its name.
        name: String,
        /// Its argument types, in CQL.
        argument_types: Vec<String>,
    },
    /// A user-defined aggregate.
    Aggregate {
        /// Its name.
        name: String,
        /// Its argument types, in CQL.
        argument_types: Vec<String>,
    },
}

/// A change of the schema, as clients learn of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaChange {
    /// What was done.
    pub kind: ChangeKind,
    /// The keyspace.
    pub keyspace: String,
    /// To which part.
    pub target: ChangeTarget,
}

impl SchemaChange {
    /// Appends `<change_type><target><options>`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_string(self.kind.name());
        match &self.target {
            ChangeTarget::Keyspace => {
                out.put_string("KEYSPACE");
                out.put_string(&self.keyspace);
            }
            ChangeTarget::Table(name) => {
                out.put_string("TABLE");
                out.put_string(&self.keyspace);
                out.put_string(name);
            }
            ChangeTarget::Type(name) => {
                out.put_string("TYPE");
                out.put_string(&self.keyspace);
                out.put_string(name);
            }
            ChangeTarget::Function {
                name,
                argument_types,
            } => {
                out.put_string("FUNCTION");
                out.put_string(&self.keyspace);
                out.put_string(name);
                out.put_string_list(argument_types);
            }
            ChangeTarget::Aggregate {
                name,
                argument_types,
            } => {
                out.put_string("AGGREGATE");
                out.put_string(&self.keyspace);
                out.put_string(name);
                out.put_string_list(argument_types);
            }
        }
    }

    /// Reads `<change_type><target><options>`.
    pub fn decode(body: &mut BodyReader<'_>) -> Result<SchemaChange, DecodeError> {
        let kind = match body.string()? {
            "CREATED" => ChangeKind::Created,
            "UPDATED" => ChangeKind::Updated,
            "DROPPED" => ChangeKind::Dropped,
            other => return Err(DecodeError::new(format!("Unknown schema change {other}"))),
        };
        let target = body.string()?;
        let keyspace = body.string()?.to_owned();
        let target = match target {
            "KEYSPACE" => ChangeTarget::Keyspace,
            "TABLE" => ChangeTarget::Table(body.string()?.to_owned()),
            "TYPE" => ChangeTarget::Type(body.string()?.to_owned()),
            "FUNCTION" => ChangeTarget::Function {
                name: body.string()?.to_owned(),
                argument_types: strings(body)?,
            },
            "AGGREGATE" => ChangeTarget::Aggregate {
                name: body.string()?.to_owned(),
                argument_types: strings(body)?,
            },
            other => return Err(DecodeError::new(format!("Unknown target {other}"))),
        };
        Ok(SchemaChange {
            kind,
            keyspace,
            target,
        })
    }
}

fn strings(body: &mut BodyReader<'_>) -> Result<Vec<String>, DecodeError> {
    Ok(body.string_list()?.into_iter().map(str::to_owned).collect())
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A node came or went for good.
    Topology(TopologyChange, SocketAddr),
    /// A node can or cannot be reached.
    Status(StatusChange, SocketAddr),
    /// The schema changed.
    Schema(SchemaChange),
}

impl Event {
    /// What a client must have registered for.
    pub fn kind(&self) -> EventKind {
        match self {
            Event::Topology(..) => EventKind::Topology,
            Event::Status(..) => EventKind::Status,
            Event::Schema(..) => EventKind::Schema,
        }
    }

    /// Appends the body of the EVENT message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_string(self.kind().name());
        match self {
            Event::Topology(change, node) => {
                out.put_string(match change {
                    TopologyChange::NewNode => "NEW_NODE",
                    TopologyChange::RemovedNode => "REMOVED_NODE",
                });
                out.put_inet(*node);
            }
            Event::Status(change, node) => {
                out.put_string(match change {
                    StatusChange::Up => "UP",
                    StatusChange::Down => "DOWN",
                });
                out.put_inet(*node);
            }
            Event::Schema(change) => change.encode(out),
        }
    }

    /// Reads the body of an EVENT message.
    pub fn decode(body: &[u8]) -> Result<Event, DecodeError> {
        let mut body = BodyReader::new(body);
        match EventKind::from_name(body.string()?)? {
            EventKind::Topology => {
                let change = match body.string()? {
                    "NEW_NODE" => TopologyChange::NewNode,
                    "REMOVED_NODE" => TopologyChange::RemovedNode,
                    other => return Err(DecodeError::new(format!("Unknown change {other}"))),
                };
                Ok(Event::Topology(change, body.inet()?))
            }
            EventKind::Status => {
                let change = match body.string()? {
                    "UP" => StatusChange::Up,
                    "DOWN" => StatusChange::Down,
                    other => return Err(DecodeError::new(format!("Unknown change {other}"))),
                };
                Ok(Event::Status(change, body.inet()?))
            }
            EventKind::Schema => SchemaChange::decode(&mut body).map(Event::Schema),
        }
    }
}
