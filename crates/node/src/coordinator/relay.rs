//! Writes to another data centre go over the wide way once: one of its replicas gets the write and passes it
//! on to the others, which answer the coordinator themselves (`StorageProxy.sendMessagesToNonlocalDC`,
//! `MutationVerbHandler.forwardToLocalNodes`, `ForwardingInfo`).
//!
//! ```text
//! relay    = reply to, token i64, count u16, (node u32, number u64) × count, mutation
//! relayed  = reply to, number u64, mutation
//! outcome  = number u64, (nothing: done | body of a failure)
//! reply to = node u32, shard u16
//! ```
//!
//! All numbers are big-endian. Who is asked to relay answers for itself, as to any write. If it does not answer
//! at all the coordinator writes to the others itself: a write may be applied twice. What those have not
//! answered when the time is up they have missed, as without it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use cluster::{FailureReason, NodeId};
use io::{Instant, TaskGroup, oneshot};
use model::Token;
use smallvec::SmallVec;
use wire::internode::{MessageHead, Verb};

use super::ask::{Unwritten, Write};
use crate::internode::PeerError;
use crate::metadata::Metadata;
use crate::remote::{self, Refusal};
use crate::shard::Shard;

/// The first version of the protocol between nodes that knows of this.
const SINCE: u16 = 2;
/// Bytes of who is to be answered.
const REPLY_TO: usize = 6;
/// Bytes of a node and its number.
const TARGET: usize = 12;

/// What a replica answers to a write.
type Answer = Result<(), Refusal>;

/// The writes of a shard that others passed on and whose answers are waited for.
#[derive(Default)]
pub(crate) struct Relays {
    waiting: RefCell<BTreeMap<u64, oneshot::Sender<Answer>>>,
    /// The number of the next one: it begins anywhere, so that answers to what this node asked before it was
    /// started again are of no number.
    next: Cell<Option<u64>>,
}

/// A write whose answer is waited for; forgotten when dropped.
struct Waiting {
    shard: Rc<Shard>,
    number: u64,
    receiver: oneshot::Receiver<Answer>,
}

impl Waiting {
    fn new(shard: &Rc<Shard>) -> Waiting {
        let relays = &shard.relays;
        let number = relays.next.get().unwrap_or_else(|| shard.env.random_u64());
        relays.next.set(Some(number.wrapping_add(1)));
        let (sender, receiver) = oneshot();
        relays.waiting.borrow_mut().insert(number, sender);
        Waiting {
            shard: shard.clone(),
            number,
            receiver,
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let forgotten = self.shard.relays.waiting.borrow_mut().remove(&self.number);
        drop(forgotten);
    }
}

/// The nodes that a write goes to: those that get it from this one, and those of other data centres that pass
/// it on among themselves.
pub(super) fn groups(
    shard: &Shard,
    metadata: &Metadata,
    contacts: &[NodeId],
) -> (Vec<NodeId>, Vec<Vec<NodeId>>) {
    let own = &shard.local().data_center;
    let mut direct = Vec::new();
    let mut far: SmallVec<[(&str, Vec<NodeId>); 2]> = SmallVec::new();
    for id in contacts {
        match metadata.node(*id) {
            Some(node) if node.place.datacenter != *own && node.protocol >= SINCE => {
                let place = node.place.datacenter.as_str();
                match far.iter_mut().find(|(other, _)| *other == place) {
                    Some((_, nodes)) => nodes.push(*id),
                    None => far.push((place, vec![*id])),
                }
            }
            _ => direct.push(*id),
        }
    }
    let mut groups = Vec::new();
    for (_, mut nodes) in far {
        if nodes.len() < 2 {
            direct.append(&mut nodes);
        } else {
            // Any of them, so that none of them has all of the work.
            let chosen = shard.env.random_u64() as usize % nodes.len();
            nodes.swap(0, chosen);
            groups.push(nodes);
        }
    }
    (direct, groups)
}

/// A write on its way to the replicas of another data centre.
pub(super) struct Relay {
    shard: Rc<Shard>,
    write: Rc<Write>,
    deadline: Instant,
    /// Nobody passes it on.
    failed: Rc<Cell<bool>>,
}

/// What became of a write at one replica.
type Applied = (NodeId, Result<(), Unwritten>);

impl Relay {
    pub(super) fn new(shard: &Rc<Shard>, write: &Rc<Write>, deadline: Instant) -> Relay {
        Relay {
            shard: shard.clone(),
            write: write.clone(),
            deadline,
            failed: Rc::default(),
        }
    }

    /// Has the first of the nodes apply the write and pass it on to the others: what becomes of it at each.
    /// They are polled by one task: those of the others look whether it failed whenever that was found out.
    pub(super) fn begin(
        self,
        nodes: &[NodeId],
    ) -> Option<(
        impl Future<Output = Applied> + use<>,
        Vec<impl Future<Output = Applied> + use<>>,
    )> {
        let (first, others) = nodes.split_first()?;
        let waiting: Vec<_> = others
            .iter()
            .map(|node| (*node, Waiting::new(&self.shard)))
            .collect();
        let token = self.write.mutation.key().token();
        let mutation = self.write.bytes();
        let mut body = Vec::with_capacity(REPLY_TO + 10 + waiting.len() * TARGET + mutation.len());
        body.put_u32(self.shard.metadata().own().0);
        body.put_u16(self.shard.index());
        body.put_i64(token.0);
        body.put_u16(waiting.len() as u16);
        for (node, waiting) in &waiting {
            body.put_u32(node.0);
            body.put_u64(waiting.number);
        }
        body.put_slice(&mutation);
        let relay = Rc::new(self);
        let others = waiting.into_iter().map(|(node, waiting)| {
            let relay = relay.clone();
            async move { (node, relay.hear(node, waiting).await) }
        });
        let others = others.collect();
        let first = *first;
        let asking = async move { (first, relay.ask(first, token, Bytes::from(body)).await) };
        Some((asking, others))
    }

    async fn ask(&self, node: NodeId, token: Token, body: Bytes) -> Result<(), Unwritten> {
        let shard = &self.shard;
        let late = Unwritten::Refused(Refusal::Failed(FailureReason::Timeout));
        let Some(peer) = shard.peer(node, token) else {
            self.failed.set(true);
            return Err(late);
        };
        let left = self.deadline.saturating_duration_since(shard.env.now());
        let epoch = shard.metadata().epoch();
        match peer.ask(Verb::Relay, epoch, left, body).await {
            Ok(_) => Ok(()),
            Err(PeerError::Failed(body)) => match Refusal::decode(&body) {
                // It wants the names of columns; so will the others say.
                Refusal::OtherColumns => self.write.apply_at(shard, node, self.deadline).await,
                refusal => Err(Unwritten::Refused(refusal)),
            },
            Err(_) => {
                self.failed.set(true);
                Err(late)
            }
        }
    }

    async fn hear(&self, node: NodeId, mut waiting: Waiting) -> Result<(), Unwritten> {
        let heard = poll_fn(|context| {
            let receiver = std::pin::Pin::new(&mut waiting.receiver);
            match receiver.poll(context) {
                Poll::Ready(answer) => Poll::Ready(answer.ok()),
                Poll::Pending if self.failed.get() => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            }
        });
        match heard.await {
            Some(Err(Refusal::OtherColumns)) | None => {
                self.write.apply_at(&self.shard, node, self.deadline).await
            }
            Some(answer) => answer.map_err(Unwritten::Refused),
        }
    }
}

/// Who is to be told what became of a write.
#[derive(Clone, Copy)]
struct ReplyTo {
    node: NodeId,
    shard: u16,
}

impl ReplyTo {
    fn take(body: &mut Bytes) -> Option<ReplyTo> {
        Some(ReplyTo {
            node: NodeId(body.try_get_u32().ok()?),
            shard: body.try_get_u16().ok()?,
        })
    }

    async fn tell(self, shard: &Shard, number: u64, answer: Answer, time: Duration) {
        let (metadata, local) = (shard.metadata(), shard.local());
        let peers = &shard.peers;
        let Some(peer) = peers.shard_of(&shard.env, &metadata, &local, self.node, self.shard)
        else {
            return;
        };
        let mut body = number.to_be_bytes().to_vec();
        if let Err(refusal) = answer {
            body.extend(refusal.encode());
        }
        // Who does not hear it takes the write to be missed.
        let _ = peer.ask(Verb::Relayed, metadata.epoch(), time, body).await;
    }
}

/// Passes a write on to other replicas of this data centre, and applies it: the body of the answer, or of the
/// failure.
pub(crate) async fn relay(
    shard: &Rc<Shard>,
    head: MessageHead,
    mut body: Bytes,
) -> Result<Vec<u8>, Vec<u8>> {
    let reply_to = ReplyTo::take(&mut body).ok_or_else(remote::unsound)?;
    let token = Token(body.try_get_i64().map_err(|_| remote::unsound())?);
    let count = usize::from(body.try_get_u16().map_err(|_| remote::unsound())?);
    if body.len() < count * TARGET {
        return Err(remote::unsound());
    }
    let mut targets = body.split_to(count * TARGET);
    let time = head.time_left.unwrap_or(shard.timeouts.write());
    while targets.has_remaining() {
        let (target, number) = (NodeId(targets.get_u32()), targets.get_u64());
        let mut passed = Vec::with_capacity(REPLY_TO + 8 + body.len());
        passed.put_u32(reply_to.node.0);
        passed.put_u16(reply_to.shard);
        passed.put_u64(number);
        passed.put_slice(&body);
        let (shard_of_task, epoch) = (shard.clone(), head.epoch);
        let passing = async move {
            let shard = shard_of_task;
            let asked = match shard.peer(target, token) {
                Some(peer) => peer.ask(Verb::RelayedMutation, epoch, time, passed).await,
                None => return,
            };
            // What it has heard it answers itself.
            let refusal = match asked {
                Ok(_) => return,
                Err(PeerError::Overloaded(_)) => Refusal::Overloaded,
                Err(_) => Refusal::Failed(FailureReason::Timeout),
            };
            reply_to.tell(&shard, number, Err(refusal), time).await;
        };
        shard.env.spawn(TaskGroup::Foreground, passing).detach();
    }
    remote::apply(shard, head, body, None).await
}

/// Applies a write that another replica passed on, and tells its coordinator.
pub(crate) async fn apply_relayed(
    shard: &Rc<Shard>,
    head: MessageHead,
    mut body: Bytes,
) -> Result<Vec<u8>, Vec<u8>> {
    let reply_to = ReplyTo::take(&mut body).ok_or_else(remote::unsound)?;
    let number = body.try_get_u64().map_err(|_| remote::unsound())?;
    let applied = remote::apply(shard, head, body, None).await;
    let answer = applied
        .map(drop)
        .map_err(|refusal| Refusal::decode(&refusal));
    let time = head.time_left.unwrap_or(shard.timeouts.write());
    let shard_of_task = shard.clone();
    let telling = async move { reply_to.tell(&shard_of_task, number, answer, time).await };
    shard.env.spawn(TaskGroup::Foreground, telling).detach();
    Ok(Vec::new())
}

/// A replica says what became of a write of this shard that was passed on to it.
pub(crate) fn relayed(shard: &Shard, mut body: Bytes) -> Result<Vec<u8>, Vec<u8>> {
    let number = body.try_get_u64().map_err(|_| remote::unsound())?;
    let answer = match body.is_empty() {
        true => Ok(()),
        false => Err(Refusal::decode(&body)),
    };
    let waiting = shard.relays.waiting.borrow_mut().remove(&number);
    // Who asked may have given up meanwhile.
    if let Some(sender) = waiting {
        let _ = sender.send(answer);
    }
    Ok(Vec::new())
}
