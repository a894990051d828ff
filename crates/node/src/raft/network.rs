//! How members of the group reach each other: through connections to other nodes.

use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use openraft::errors::{
    NetworkError, RPCError, ReplicationClosed, StreamingError, Timeout, Unreachable,
};
use openraft::network::{RPCOption, RPCTypes, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use openraft::type_config::alias::{SnapshotOf, VoteOf};
use openraft::{OptionalSend, RaftTypeConfig};
use serde::de::DeserializeOwned;
use wire::internode::Verb;

use super::call::{Call, decode_answer};
use crate::internode::{Peer, PeerError};

/// How long a snapshot may be on its way: it is far more than a heartbeat.
const SNAPSHOT: Duration = Duration::from_secs(30);

/// Gives the shard of a member that answers for the group.
type Connect<C> = dyn Fn(&<C as RaftTypeConfig>::NodeId, &<C as RaftTypeConfig>::Node) -> Peer;

/// Finds the connections to other members.
pub struct Dialer<C: RaftTypeConfig> {
    own: C::NodeId,
    connect: Rc<Connect<C>>,
}

impl<C: RaftTypeConfig> Dialer<C> {
    /// For the member `own`.
    pub fn new(
        own: C::NodeId,
        connect: impl Fn(&C::NodeId, &C::Node) -> Peer + 'static,
    ) -> Dialer<C> {
        let connect = Rc::new(connect);
        Dialer { own, connect }
    }
}

impl<C: RaftTypeConfig> RaftNetworkFactory<C> for Dialer<C> {
    type Network = Connection<C>;

    async fn new_client(&mut self, target: C::NodeId, node: &C::Node) -> Connection<C> {
        Connection {
            own: self.own.clone(),
            peer: (self.connect)(&target, node),
            target,
        }
    }
}

/// The way from one member to another.
pub struct Connection<C: RaftTypeConfig> {
    own: C::NodeId,
    target: C::NodeId,
    peer: Peer,
}

impl<C: RaftTypeConfig> Connection<C> {
    async fn ask<R: DeserializeOwned>(
        &self,
        action: RPCTypes,
        time: Duration,
        call: Call<C>,
    ) -> Result<R, RPCError<C>> {
        let unreachable = |error: &dyn ToString| Unreachable::from_string(error.to_string());
        let body = call.encode().map_err(|error| unreachable(&error))?;
        match self.peer.ask(Verb::Metadata, 0, time, body).await {
            Ok(answer) => Ok(decode_answer(&answer).map_err(|error| unreachable(&error))?),
            Err(PeerError::TimedOut(_)) => Err(RPCError::Timeout(Timeout {
                action,
                id: self.own.clone(),
                target: self.target.clone(),
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

impl<C: RaftTypeConfig> RaftNetworkV2<C> for Connection<C> {
    type SnapshotData = Vec<u8>;

    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<C>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<C>, RPCError<C>> {
        let (action, call) = (RPCTypes::AppendEntries, Call::Append(request));
        self.ask(action, option.hard_ttl(), call).await
    }

    async fn vote(
        &mut self,
        request: VoteRequest<C>,
        option: RPCOption,
    ) -> Result<VoteResponse<C>, RPCError<C>> {
        let (action, call) = (RPCTypes::Vote, Call::Vote(request));
        self.ask(action, option.hard_ttl(), call).await
    }

    async fn pre_vote(
        &mut self,
        request: VoteRequest<C>,
        option: RPCOption,
    ) -> Result<VoteResponse<C>, RPCError<C>> {
        let (action, call) = (RPCTypes::Vote, Call::PreVote(request));
        self.ask(action, option.hard_ttl(), call).await
    }

    async fn full_snapshot(
        &mut self,
        vote: VoteOf<C>,
        snapshot: SnapshotOf<C, Vec<u8>>,
        _cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<C>, StreamingError<C>> {
        let (action, call) = (RPCTypes::InstallSnapshot, Call::Snapshot(vote, snapshot));
        let answer = self.ask(action, SNAPSHOT, call).await;
        answer.map_err(StreamingError::from)
    }

    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<C>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<C>, RPCError<C>> {
        let (action, call) = (RPCTypes::TransferLeader, Call::Transfer(request));
        self.ask(action, option.hard_ttl(), call).await
    }
}
