//! What other nodes ask of this one. The leading shard accepts their connections and hears their first
//! words; each is served by the shard that it is for.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use io::{Listener, Task, TaskGroup, TcpStream};
use wire::internode::{Hello, MessageHead, MessageKind, Verb};

use crate::coordinator;
use crate::internode::{Refused, greet, serve};
use crate::membership::{self, ClusterService};
use crate::message::Message;
use crate::paxos;
use crate::remote;
use crate::shard::Shard;

/// How long accepting pauses after an error such as "too many open files".
const PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections of other nodes for all shards.
pub(crate) fn accept(
    shard: &Rc<Shard>,
    service: &Rc<ClusterService>,
    listener: Listener,
) -> Task<()> {
    let (shard, service) = (shard.clone(), service.clone());
    let env = shard.env.clone();
    env.spawn(TaskGroup::Foreground, async move {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let welcoming = welcome(shard.clone(), service.clone(), stream);
                    shard.env.spawn(TaskGroup::Foreground, welcoming).detach();
                }
                Err(error) => {
                    tracing::warn!("accepting a connection of another node: {error}");
                    shard.env.sleep(PAUSE).await;
                }
            }
        }
    })
}

async fn welcome(shard: Rc<Shard>, service: Rc<ClusterService>, stream: TcpStream) {
    let peer = stream.peer_addr();
    let own = service.identity(&shard.local());
    let hello = match greet(&shard.env, &stream, &own).await {
        Ok(hello) => hello,
        Err(refused @ Refused::Unfit { .. }) => {
            tracing::warn!("{}: {refused}", peer.ip());
            return;
        }
        Err(error) => {
            tracing::debug!("a connection of {peer}: {error}");
            return;
        }
    };
    let owner = hello.shard;
    if owner == shard.index() {
        return talk(shard, stream, hello).await;
    }
    // Nobody else has a handle of a stream that was just accepted, and nothing came behind the words.
    if let Ok(stream) = stream.detach() {
        let message = Message::AdoptNode(stream, Box::new(hello));
        shard.mesh.send(owner, message).await;
    }
}

/// Answers what comes along a connection of another node.
pub(crate) async fn talk(shard: Rc<Shard>, stream: TcpStream, hello: Hello) {
    let env = shard.env.clone();
    let handle = |head, body| answer(shard.clone(), head, body);
    serve(&env, &stream, &hello, handle).await;
}

async fn answer(shard: Rc<Shard>, head: MessageHead, body: Bytes) -> Result<Vec<u8>, Vec<u8>> {
    match head.kind {
        MessageKind::Request(Verb::Ping) => Ok(Vec::new()),
        MessageKind::Request(verb @ (Verb::Membership | Verb::Metadata | Verb::Gossip)) => {
            match shard.cluster_service() {
                Some(service) => membership::answer(service, verb, body).await,
                None => Err(b"this shard does not lead the node".to_vec()),
            }
        }
        MessageKind::Request(Verb::Mutation) => remote::apply(&shard, head, body).await,
        MessageKind::Request(Verb::Hint) => remote::apply_late(&shard, head, body).await,
        MessageKind::Request(Verb::BatchStore) => remote::keep_batch(&shard, head, body).await,
        MessageKind::Request(Verb::BatchRemove) => remote::forget_batch(&shard, head, body).await,
        MessageKind::Request(Verb::Counter) => coordinator::lead_for(&shard, head, body).await,
        MessageKind::Request(Verb::Paxos) => paxos::answer_for(&shard, head, body).await,
        MessageKind::Request(Verb::Read) => remote::read(&shard, head, body).await,
        MessageKind::Unknown(verb) => {
            Err(format!("this version knows no verb {verb}: upgrade this node").into_bytes())
        }
        MessageKind::Reply | MessageKind::Failure => Err(b"an answer to no question".to_vec()),
    }
}
