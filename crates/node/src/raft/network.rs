//! How members of the group reach each other: through connections to other nodes.

use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use openraft::OptionalSend;
use openraft::errors::{
    NetworkError, RPCError, ReplicationClosed, StreamingError, Timeout, Unreachable,
};
use openraft::network::{RPCOption, RPCTypes, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse,
};
use wire::internode::Verb;

use super::call::{Answered, Call};
use super::snapshot::Contents;
use super::types::{Member, Metadata, Snapshot, Vote};
use crate::internode::{Peer, PeerError};

/// How long a snapshot may be on its way: it is far more than a heartbeat.
const SNAPSHOT: Duration = Duration::from_secs(30);

/// Gives the shard of a member that answers for the group, as it is reached at this moment; `None`
/// where the node is about to end.
type Connect = dyn Fn(u64, &Member) -> Option<Peer>;

/// Finds the connections to other members.
pub struct Dialer {
    own: u64,
    connect: Rc<Connect>,
}

impl Dialer {
    /// For the member `own`.
    pub fn new(own: u64, connect: impl Fn(u64, &Member) -> Option<Peer> + 'static) -> Dialer {
        let connect = Rc::new(connect);
        Dialer { own, connect }
    }
}

impl RaftNetworkFactory<Metadata> for Dialer {
    type Network = Connection;

    async fn new_client(&mut self, target: u64, member: &Member) -> Connection {
        Connection {
            own: self.own,
            target,
            member: member.clone(),
            connect: self.connect.clone(),
        }
    }
}

/// The way from one member to another.
pub struct Connection {
    own: u64,
    target: u64,
    member: Member,
    connect: Rc<Connect>,
}

impl Connection {
    async fn ask<R: Answered>(
        &self,
        action: RPCTypes,
        time: Duration,
        call: Call,
    ) -> Result<R, RPCError<Metadata>> {
        let unreachable = |error: &dyn ToString| Unreachable::from_string(error.to_string());
        let Some(peer) = (self.connect)(self.target, &self.member) else {
            return Err(unreachable(&"this node is about to end").into());
        };
        match peer.ask(Verb::Metadata, 0, time, call.encode()).await {
            Ok(answer) => Ok(R::decode(&answer).map_err(|error| unreachable(&error))?),
            Err(PeerError::TimedOut(_)) => Err(RPCError::Timeout(Timeout {
                action,
                id: self.own,
                target: self.target,
                timeout: time,
            })),
            // It may be there again at once.
            Err(PeerError::Lost { reason, .. }) => {
                let lost = std::io::Error::other(reason);
                Err(RPCError::Network(NetworkError::new(&lost)))
            }
            Err(PeerError::Failed(words)) => {
                Err(unreachable(&String::from_utf8_lossy(&words)).into())
            }
            Err(error) => Err(unreachable(&error).into()),
        }
    }
}

impl RaftNetworkV2<Metadata> for Connection {
    type SnapshotData = Contents;

    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<Metadata>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<Metadata>, RPCError<Metadata>> {
        let (action, call) = (RPCTypes::AppendEntries, Call::Append(request));
        self.ask(action, option.hard_ttl(), call).await
    }

    async fn vote(
        &mut self,
        request: VoteRequest<Metadata>,
        option: RPCOption,
    ) -> Result<VoteResponse<Metadata>, RPCError<Metadata>> {
        let (action, call) = (RPCTypes::Vote, Call::Vote(request));
        self.ask(action, option.hard_ttl(), call).await
    }

    async fn pre_vote(
        &mut self,
        request: VoteRequest<Metadata>,
        option: RPCOption,
    ) -> Result<VoteResponse<Metadata>, RPCError<Metadata>> {
        let (action, call) = (RPCTypes::Vote, Call::PreVote(request));
        self.ask(action, option.hard_ttl(), call).await
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot,
        _cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<Metadata>, StreamingError<Metadata>> {
        let (action, call) = (RPCTypes::InstallSnapshot, Call::Snapshot(vote, snapshot));
        let answer = self.ask(action, SNAPSHOT, call).await;
        answer.map_err(StreamingError::from)
    }
}
