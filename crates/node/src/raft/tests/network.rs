//! What carries openraft's calls between the members of a test: the calls themselves, late or lost.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, pending};
use std::rc::Rc;
use std::time::Duration;

use io::{Env, TaskGroup};
use openraft::errors::{RPCError, ReplicationClosed, StreamingError, Timeout, Unreachable};
use openraft::network::{RPCOption, RPCTypes, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse,
};
use openraft::type_config::alias::{SnapshotOf, VoteOf};
use openraft::{EmptyNode, OptionalSend, Raft};

use super::super::within;
use super::store::{List, Numbers};

/// A member of a test's cluster, as others reach it.
#[derive(Clone)]
pub(super) struct Member {
    /// The shard that it lives on.
    pub(super) env: Env,
    pub(super) raft: Raft<Numbers, List>,
    pub(super) list: List,
}

/// The network of a test. Clones are the same one.
#[derive(Clone, Default)]
pub(super) struct Network {
    state: Rc<NetworkState>,
}

#[derive(Default)]
struct NetworkState {
    members: RefCell<BTreeMap<u64, Member>>,
    /// Who neither hears nor is heard.
    cut_off: RefCell<BTreeSet<u64>>,
    /// How many calls of openraft were sent.
    calls: Cell<u64>,
}

/// How long a message takes at most, in microseconds.
const LATENCY: u64 = 5_000;
/// One message of so many is lost.
const LOSS: u64 = 100;

impl Network {
    /// A member can be reached from now on.
    pub(super) fn join(&self, id: u64, member: Member) {
        self.state.members.borrow_mut().insert(id, member);
    }

    /// All members that have joined.
    pub(super) fn members(&self) -> BTreeMap<u64, Member> {
        self.state.members.borrow().clone()
    }

    /// Nobody can be reached any more.
    pub(super) fn clear(&self) {
        let members = self.state.members.take();
        drop(members);
    }

    /// Nothing gets to a member or away from it, until [`Network::heal`].
    pub(super) fn cut_off(&self, id: u64) {
        self.state.cut_off.borrow_mut().insert(id);
    }

    /// Everybody reaches everybody again.
    pub(super) fn heal(&self) {
        self.state.cut_off.borrow_mut().clear();
    }

    /// How many calls of openraft were sent.
    pub(super) fn calls(&self) -> u64 {
        self.state.calls.get()
    }

    /// The way of a message; it never ends for one that is lost.
    async fn travel(&self, env: &Env, from: u64, to: u64) {
        env.sleep(Duration::from_micros(env.random_u64() % LATENCY))
            .await;
        let cut = {
            let cut_off = self.state.cut_off.borrow();
            cut_off.contains(&from) || cut_off.contains(&to)
        };
        if cut || env.random_u64().is_multiple_of(LOSS) {
            pending::<()>().await;
        }
    }

    /// Has `to` answer: `ask` runs there, on the shard that it lives on.
    pub(super) async fn call<A: 'static, F: Future<Output = A> + 'static>(
        &self,
        env: &Env,
        (from, to): (u64, u64),
        ask: impl FnOnce(Raft<Numbers, List>) -> F,
    ) -> Option<A> {
        self.travel(env, from, to).await;
        let Member {
            env: there, raft, ..
        } = self.state.members.borrow().get(&to)?.clone();
        let (sender, receiver) = io::oneshot();
        let answering = within(&there, ask(raft));
        there.spawn(TaskGroup::Foreground, async move {
            let _ = sender.send(answering.await);
        });
        let answer = receiver.await.ok()?;
        self.travel(env, to, from).await;
        Some(answer)
    }
}

/// What a member makes its connections with.
pub(super) struct Dialer {
    pub(super) network: Network,
    pub(super) env: Env,
    pub(super) id: u64,
}

impl RaftNetworkFactory<Numbers> for Dialer {
    type Network = Connection;

    async fn new_client(&mut self, target: u64, _node: &EmptyNode) -> Connection {
        Connection {
            network: self.network.clone(),
            env: self.env.clone(),
            from: self.id,
            to: target,
        }
    }
}

/// The way from one member to another.
pub(super) struct Connection {
    network: Network,
    env: Env,
    from: u64,
    to: u64,
}

impl Connection {
    async fn call<A: 'static, E: ToString + 'static, F>(
        &self,
        action: RPCTypes,
        option: RPCOption,
        ask: impl FnOnce(Raft<Numbers, List>) -> F,
    ) -> Result<A, RPCError<Numbers>>
    where
        F: Future<Output = Result<A, E>> + 'static,
    {
        let calls = &self.network.state.calls;
        calls.set(calls.get() + 1);
        let timeout = option.hard_ttl();
        let calling = self.network.call(&self.env, (self.from, self.to), ask);
        match self.env.timeout(timeout, calling).await {
            Ok(Some(Ok(answer))) => Ok(answer),
            Ok(Some(Err(error))) => Err(Unreachable::from_string(error.to_string()).into()),
            Ok(None) => Err(Unreachable::from_string("nobody there").into()),
            Err(io::Elapsed) => Err(RPCError::Timeout(Timeout {
                action,
                id: self.from,
                target: self.to,
                timeout,
            })),
        }
    }
}

impl RaftNetworkV2<Numbers> for Connection {
    type SnapshotData = Vec<u64>;

    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<Numbers>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<Numbers>, RPCError<Numbers>> {
        let ask = |raft: Raft<Numbers, List>| async move { raft.append_entries(request).await };
        self.call(RPCTypes::AppendEntries, option, ask).await
    }

    async fn vote(
        &mut self,
        request: VoteRequest<Numbers>,
        option: RPCOption,
    ) -> Result<VoteResponse<Numbers>, RPCError<Numbers>> {
        let ask = |raft: Raft<Numbers, List>| async move { raft.vote(request).await };
        self.call(RPCTypes::Vote, option, ask).await
    }

    async fn pre_vote(
        &mut self,
        request: VoteRequest<Numbers>,
        option: RPCOption,
    ) -> Result<VoteResponse<Numbers>, RPCError<Numbers>> {
        let ask = |raft: Raft<Numbers, List>| async move { raft.pre_vote(request).await };
        self.call(RPCTypes::Vote, option, ask).await
    }

    async fn full_snapshot(
        &mut self,
        vote: VoteOf<Numbers>,
        snapshot: SnapshotOf<Numbers, Vec<u64>>,
        _cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        option: RPCOption,
    ) -> Result<SnapshotResponse<Numbers>, StreamingError<Numbers>> {
        let ask = |raft: Raft<Numbers, List>| async move {
            raft.install_full_snapshot(vote, snapshot).await
        };
        let answer = self.call(RPCTypes::InstallSnapshot, option, ask).await;
        answer.map_err(StreamingError::from)
    }
}
