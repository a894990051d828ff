//! What other nodes ask of this one. The leading shard accepts their connections and hears their first
//! words; each is served by the shard that it is for.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use io::{Listener, Task, TaskGroup, TcpStream};
use wire::internode::{Hello, MessageHead, MessageKind, Verb};

use crate::coordinator;
use crate::internode::{Reception, Refused, Stream, greet, serve};
use crate::membership::{self, ClusterService};
use crate::message::Message;
use crate::paxos;
use crate::remote;
use crate::shard::Shard;

/// How long accepting pauses after an error such as "too many open files".
const PAUSE: Duration = Duration::from_millis(100);

/// Who was refused last and why, by address: it tries again several times a second, and it is said once.
type Told = Rc<RefCell<BTreeMap<IpAddr, String>>>;
/// How many of them are remembered.
const REMEMBERED: usize = 256;

/// Accepts connections of other nodes for all shards.
pub(crate) fn accept(
    shard: &Rc<Shard>,
    service: &Rc<ClusterService>,
    listener: Listener,
) -> Task<()> {
    let (shard, service) = (shard.clone(), service.clone());
    let env = shard.env.clone();
    let told = Told::default();
    env.spawn(TaskGroup::Foreground, async move {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let welcoming = welcome(shard.clone(), service.clone(), stream, told.clone());
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

async fn welcome(shard: Rc<Shard>, service: Rc<ClusterService>, socket: TcpStream, told: Told) {
    let from = socket.peer_addr().ip();
    let own = service.identity(&shard.local());
    let encryption = shard.state.config.encryption.as_deref();
    let takes_plain = |hello: &Hello| {
        encryption.is_none_or(|encryption| {
            let metadata = shard.metadata();
            let place = metadata.place_of(hello.host_id);
            encryption.takes_plain(&shard.local().place(), place.as_ref())
        })
    };
    let reception = Reception {
        identity: &own,
        encryption,
        takes_plain: &takes_plain,
    };
    let (stream, hello) = match greet(&shard.env, socket, reception).await {
        Ok(heard) => heard,
        Err(Refused::Unheard(error)) => {
            tracing::debug!("a connection of {from}: {error}");
            return;
        }
        Err(Refused::Silent) => {
            tracing::debug!("a connection of {from}: {}", Refused::Silent);
            return;
        }
        Err(refused) => {
            let text = refused.to_string();
            let mut told = told.borrow_mut();
            if told.get(&from) != Some(&text) {
                tracing::warn!("{from}: {text}");
                if told.len() == REMEMBERED {
                    told.clear();
                }
                told.insert(from, text);
            }
            return;
        }
    };
    told.borrow_mut().remove(&from);
    let owner = hello.shard;
    if owner == shard.index() {
        return talk(shard, stream, hello).await;
    }
    // Nobody else has a handle of a stream that was just accepted, and nothing came behind the words.
    if let Ok(link) = stream.detach() {
        let message = Message::AdoptNode(Box::new((link, hello)));
        shard.mesh.send(owner, message).await;
    }
}

/// Answers what comes along a connection of another node.
pub(crate) async fn talk(shard: Rc<Shard>, stream: Stream, hello: Hello) {
    let env = shard.env.clone();
    let metrics = shard.metrics.clone();
    let coordinator = hello.address;
    let handle = move |head, body| answer(shard.clone(), coordinator, head, body);
    serve(&env, &stream, &hello, &metrics, handle).await;
}

/// The body of the answer, or of the failure. A future is as large as the largest that it waits for, and
/// each request takes one of these: all but reads and writes are boxed.
async fn answer(
    shard: Rc<Shard>,
    by: SocketAddr,
    head: MessageHead,
    body: Bytes,
) -> Result<Vec<u8>, Vec<u8>> {
    match head.kind {
        MessageKind::Request(Verb::Ping) => Ok(Vec::new()),
        MessageKind::Request(verb @ (Verb::Membership | Verb::Metadata | Verb::Gossip)) => {
            match shard.cluster_service() {
                Some(service) => Box::pin(membership::answer(service, verb, body)).await,
                None => Err(b"this shard does not lead the node".to_vec()),
            }
        }
        MessageKind::Request(Verb::Mutation) => remote::apply(&shard, head, body, None).await,
        MessageKind::Request(Verb::Hint) => Box::pin(remote::apply_late(&shard, head, body)).await,
        MessageKind::Request(Verb::BatchStore) => {
            Box::pin(remote::keep_batch(&shard, head, body)).await
        }
        MessageKind::Request(Verb::BatchRemove) => {
            Box::pin(remote::forget_batch(&shard, head, body)).await
        }
        MessageKind::Request(Verb::Counter) => {
            Box::pin(coordinator::lead_for(&shard, head, body)).await
        }
        MessageKind::Request(Verb::Paxos) => Box::pin(paxos::answer_for(&shard, head, body)).await,
        MessageKind::Request(Verb::Relay) => Box::pin(coordinator::relay(&shard, head, body)).await,
        MessageKind::Request(Verb::RelayedMutation) => {
            Box::pin(coordinator::apply_relayed(&shard, head, body)).await
        }
        MessageKind::Request(Verb::Relayed) => coordinator::relayed(&shard, body),
        MessageKind::Request(Verb::Read) => remote::read(&shard, head, body, None).await,
        MessageKind::Request(Verb::Traced) => {
            Box::pin(remote::answer_traced(&shard, by, head, body)).await
        }
        MessageKind::Unknown(verb) => {
            Err(format!("this version knows no verb {verb}: upgrade this node").into_bytes())
        }
        MessageKind::Reply | MessageKind::Failure => Err(b"an answer to no question".to_vec()),
    }
}
