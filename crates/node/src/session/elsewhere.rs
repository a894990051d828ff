//! Requests that another shard of the node may answer, as it has their rows: reads of what is in memory, and writes.
//!
//! Drivers that know of nodes and not of shards send most requests to a shard that has not their rows. To read or write
//! these there and answer here takes a command, a page, and a task on both sides; to have them answered there takes the
//! request and the answer. What the other shard leaves, as it has to wait for a drive to read or as something is
//! unusual, goes the way of all requests, and whose requests are left so is asked for more rarely.

use std::rc::Rc;

use io::{Instant, Permit, TaskGroup};
use smallvec::SmallVec;
use wire::Envelope;

use super::{UnderWay, answer};
use crate::clients::Client;
use crate::execute::{self, Answered, Owners, TOGETHER};
use crate::metrics::RequestKind;
use crate::request_memory::memory_of;
use crate::shard::Shard;

/// Brings requests together whose rows the same shard has, and those of the own one behind the others, who have time to
/// answer meanwhile. Of those of a shard the order stays.
pub(super) fn bring_together(requests: &mut [Envelope], owners: &Owners, own: u16) {
    let requests = &mut requests[..owners.len()];
    let mut order: SmallVec<[usize; TOGETHER]> = (0..owners.len()).collect();
    order.sort_by_key(|place| (owners[*place] == own, owners[*place]));
    let mut sorted: SmallVec<[Envelope; TOGETHER]> =
        order.iter().map(|place| requests[*place].clone()).collect();
    requests.swap_with_slice(&mut sorted);
}

/// Executions of a statement that were read together, of rows of the same shard.
pub(super) struct Elsewhere {
    shard: Rc<Shard>,
    client: Rc<Client>,
    kind: RequestKind,
    began: Instant,
    requests: Vec<(UnderWay, Envelope)>,
}

impl Elsewhere {
    /// Begins requests of a kind that were read then. `None`: nothing has happened, as there is no memory for them, or
    /// no hope.
    pub(super) fn begin(
        shard: &Rc<Shard>,
        client: &Rc<Client>,
        (kind, envelopes): (RequestKind, &[Envelope]),
        began: Instant,
    ) -> Option<Elsewhere> {
        if !client.elsewhere(kind).tries() {
            return None;
        }
        let memory = envelopes.iter().map(|envelope| {
            let needed = memory_of(envelope, shard.most_memory_of_request);
            shard.request_memory.try_acquire(needed)
        });
        let memory = memory.collect::<Option<Vec<Permit>>>()?;
        let begun = memory
            .into_iter()
            .map(|memory| UnderWay::begin(shard, client, (began, memory)));
        Some(Elsewhere {
            shard: shard.clone(),
            client: client.clone(),
            kind,
            began,
            requests: begun.zip(envelopes.iter().cloned()).collect(),
        })
    }

    /// Has the shard that owns their rows answer them, and answers what that leaves. No time is set for it: reads wait
    /// for no drive there, and writes have theirs.
    pub(super) async fn answer(mut self, owner: u16) {
        let envelopes = self.requests.iter().map(|(_, envelope)| envelope.clone());
        let answered = self.shard.have_answered(owner, envelopes.collect()).await;
        let left = self.requests.split_off(answered.count);
        self.client.elsewhere(self.kind).tried(left.is_empty());
        if answered.count > 0 {
            self.send(answered);
        }
        for (under_way, envelope) in left {
            let answering = answer(under_way, envelope);
            self.shard
                .env
                .spawn(TaskGroup::Foreground, answering)
                .detach();
        }
    }

    /// Sends the answers to the requests that are not left.
    fn send(&mut self, answered: Answered) {
        let Answered { count, mut out } = answered;
        debug_assert_eq!(count, self.requests.len());
        self.client.window.answered(out.len() / count);
        self.client
            .output
            .with(|connection| connection.send(&mut out));
        self.shard.response_buffers.give_back(out);
        let answered = (self.kind, count as u64);
        execute::have_answered(&self.shard, answered, self.began, self.shard.env.now());
        self.requests.clear();
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use wire::{Flags, Header, Opcode, Version};

    use super::*;

    #[test]
    fn requests_of_a_shard_come_together_in_their_order() {
        let request = |stream: i16| {
            let header = Header {
                version: Version::V4,
                flags: Flags::default(),
                stream,
                opcode: Opcode::Execute,
            };
            let body = Bytes::new();
            Envelope { header, body }
        };
        let mut requests: Vec<Envelope> = (0..8).map(request).collect();
        let owners = Owners::from_slice(&[1, 0, 2, 0, 1, 2, 2]);
        bring_together(&mut requests, &owners, 1);
        let streams = requests.iter().map(|request| request.header.stream);
        assert_eq!(streams.collect::<Vec<i16>>(), [1, 3, 2, 5, 6, 0, 4, 7]);
    }
}
