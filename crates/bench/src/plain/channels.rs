//! The connections to all nodes and shards, and which of them a request goes to.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use scylla::client::session::Session;
use scylla::cluster::ClusterState;
use scylla::routing::Sharder;
use scylla::serialize::row::{RowSerializationContext, SerializeRow};
use scylla::serialize::writers::RowWriter;
use scylla::statement::Consistency;
use scylla::statement::prepared::PreparedStatement;

use super::channel::Channel;
use crate::options::{Common, Routing};
use crate::raw;

/// Version 4, without flags, and EXECUTE.
const VERSION: u8 = 0x04;
const EXECUTE: u8 = 0x0A;
/// Where the length of the body is in a frame's header, and where the body is, in bytes.
const LENGTH: usize = 5;
const BODY: usize = 9;
/// The bit of the parameters' flags that says that there are values.
const VALUES: u8 = 0x01;
/// How many connections are opened at most to have one of a certain shard, for each shard.
const ATTEMPTS: usize = 32;

/// Connections to all nodes.
pub(crate) struct Channels {
    nodes: Vec<Node>,
    cluster: Arc<ClusterState>,
    routing: Routing,
    consistency: Consistency,
    /// What goes to any of several goes to each in its turn.
    turn: Cell<usize>,
}

struct Node {
    address: SocketAddr,
    sharder: Option<Sharder>,
    /// Of each shard; a node without shards is one.
    shards: Vec<Vec<Rc<Channel>>>,
}

impl Channels {
    /// Connects to each node of the session, and to each of its shards. The tasks of connections run on the `LocalSet`
    /// of who calls.
    ///
    /// # Errors
    ///
    /// A node, or one of its shards, is not reached.
    pub(crate) async fn open(session: &Session, options: &Common) -> Result<Channels, String> {
        if options.user.is_some() {
            return Err("--client plain tells nobody who it is: leave out --user".to_owned());
        }
        let cluster = session.get_cluster_state();
        let mut nodes = Vec::new();
        for node in cluster.get_nodes_info() {
            let address = address_of(node);
            let sharder = node.sharder();
            let shards = sharder
                .as_ref()
                .map_or(1, |sharder| sharder.nr_shards.get().into());
            let shards = connect(address, shards, options.connections.max(1)).await;
            nodes.push(Node {
                address,
                sharder,
                shards: shards.map_err(|error| format!("{address}: {error}"))?,
            });
        }
        match nodes.is_empty() {
            true => Err("no node is known".to_owned()),
            false => Ok(Channels {
                nodes,
                cluster,
                routing: options.routing,
                consistency: options.consistency,
                turn: Cell::default(),
            }),
        }
    }

    /// Executes a statement; the number of rows of its result. They are received, but not taken apart.
    ///
    /// # Errors
    ///
    /// What the server says, or why it says nothing.
    pub(crate) async fn execute(
        &self,
        statement: &PreparedStatement,
        values: &impl SerializeRow,
    ) -> Result<usize, String> {
        let channel = self.choose(statement, values)?;
        let write = |output: &mut Vec<u8>, stream| {
            write_execution(output, stream, statement, self.consistency, values)
        };
        channel.ask(write).await
    }

    /// The connection for an execution.
    fn choose(
        &self,
        statement: &PreparedStatement,
        values: &impl SerializeRow,
    ) -> Result<&Rc<Channel>, String> {
        let turn = self.turn.get();
        self.turn.set(turn.wrapping_add(1));
        let any = || in_turn(&self.nodes, turn).any(turn / self.nodes.len());
        let has_choice = self.nodes.len() > 1 || self.nodes[0].shards.len() > 1;
        if !has_choice || self.routing == Routing::RandomNode {
            return Ok(any());
        }
        let token = statement.calculate_token(values);
        let token = token.map_err(|error| error.to_string())?;
        let replicas = match (token, statement.get_table_spec()) {
            (Some(token), Some(table)) => {
                self.cluster
                    .get_token_endpoints(table.ks_name(), table.table_name(), token)
            }
            _ => Vec::new(),
        };
        let known = |replica| {
            let address = address_of(replica);
            self.nodes.iter().find(|node| node.address == address)
        };
        let replicas: Vec<_> = replicas
            .iter()
            .filter_map(|(replica, shard)| Some((known(replica)?, *shard)))
            .collect();
        if replicas.is_empty() {
            return Ok(any());
        }
        let (node, shard) = *in_turn(&replicas, turn);
        let turn = turn / replicas.len();
        Ok(match (self.routing, &node.sharder) {
            (Routing::Shard, Some(_)) => in_turn(&node.shards[shard as usize], turn),
            _ => node.any(turn),
        })
    }
}

impl Node {
    /// One of all its connections.
    fn any(&self, turn: usize) -> &Rc<Channel> {
        let shard = in_turn(&self.shards, turn);
        in_turn(shard, turn / self.shards.len())
    }
}

fn address_of(node: &scylla::cluster::Node) -> SocketAddr {
    SocketAddr::new(node.address.ip(), node.address.port())
}

fn in_turn<T>(all: &[T], turn: usize) -> &T {
    &all[turn % all.len()]
}

/// So many connections to each of so many shards. Which shard one comes to is the server's choice: those beyond what is
/// wanted are closed again.
async fn connect(
    address: SocketAddr,
    shards: usize,
    each: usize,
) -> Result<Vec<Vec<Rc<Channel>>>, String> {
    let mut channels: Vec<Vec<Rc<Channel>>> = (0..shards).map(|_| Vec::new()).collect();
    let (mut surplus, mut attempts) = (Vec::new(), ATTEMPTS * shards * each);
    while let Some(missing) = channels.iter().position(|channels| channels.len() < each) {
        if attempts == 0 {
            return Err(format!("no connection came to shard {missing} of {shards}"));
        }
        attempts -= 1;
        let opened = raw::open_on_shard(address).await;
        let (stream, shard) = opened.map_err(|error| format!("{error}: {}", error.remedy()))?;
        let shard = match shards {
            1 => 0,
            _ => shard.ok_or("the node does not say to which shard a connection comes")?,
        };
        match channels.get_mut(shard) {
            Some(channels) if channels.len() < each => channels.push(Channel::new(stream)),
            // Held for now, or the server might count it off, and choose the same shard again.
            Some(_) => surplus.push(stream),
            None => {
                return Err(format!(
                    "shard {shard} of {shards}, as shard {missing} is looked for"
                ));
            }
        }
    }
    Ok(channels)
}

/// Appends an EXECUTE, as the driver sends it.
fn write_execution(
    output: &mut Vec<u8>,
    stream: u16,
    statement: &PreparedStatement,
    consistency: Consistency,
    values: &impl SerializeRow,
) -> Result<(), String> {
    let from = output.len();
    let [high, low] = stream.to_be_bytes();
    output.extend_from_slice(&[VERSION, 0, high, low, EXECUTE, 0, 0, 0, 0]);
    let id = statement.get_id();
    output.extend_from_slice(&(id.len() as u16).to_be_bytes());
    output.extend_from_slice(id);
    output.extend_from_slice(&(consistency as u16).to_be_bytes());
    output.push(VALUES);
    let count_at = output.len();
    output.extend_from_slice(&[0, 0]);
    let columns = statement.get_variable_col_specs();
    let context = RowSerializationContext::from_specs(columns.as_slice());
    let mut writer = RowWriter::new(output);
    let written = values.serialize(&context, &mut writer);
    let count = writer.value_count() as u16;
    written.map_err(|error| error.to_string())?;
    output[count_at..count_at + 2].copy_from_slice(&count.to_be_bytes());
    let length = (output.len() - from - BODY) as u32;
    output[from + LENGTH..from + BODY].copy_from_slice(&length.to_be_bytes());
    Ok(())
}
