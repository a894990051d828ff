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
use openraft::storage::RaftStateMachine;
use openraft::type_config::alias::{SnapshotOf, VoteOf};
use openraft::{OptionalSend, Raft, RaftTypeConfig};

use super::super::{ShardRuntime, within};
use super::store::{List, Numbers};

/// What members may be of: the same in all tests, but for what they decide on.
pub(super) trait Group: RaftTypeConfig<NodeId = u64, AsyncRuntime = ShardRuntime> {}

impl<G: RaftTypeConfig<NodeId = u64, AsyncRuntime = ShardRuntime>> Group for G {}

/// A state machine that snapshots are sent to.
pub(super) trait Taker<G: Group>: RaftStateMachine<G> + Clone {
    /// Gives Raft a snapshot that came over the network.
    fn take(
        raft: Raft<G, Self>,
        vote: VoteOf<G>,
        snapshot: SnapshotOf<G, Self::SnapshotData>,
    ) -> impl Future<Output = Result<SnapshotResponse<G>, String>>;
}

impl Taker<Numbers> for List {
    async fn take(
        raft: Raft<Numbers, List>,
        vote: VoteOf<Numbers>,
        snapshot: SnapshotOf<Numbers, Vec<u64>>,
    ) -> Result<SnapshotResponse<Numbers>, String> {
        let taken = raft.install_full_snapshot(vote, snapshot).await;
        taken.map_err(|error| error.to_string())
    }
}

/// A member of a test's cluster, as others reach it.
#[derive(Clone)]
pub(super) struct Member<G: Group = Numbers, M: Taker<G> = List> {
    /// The shard that it lives on.
    pub(super) env: Env,
    pub(super) raft: Raft<G, M>,
    pub(super) list: M,
}

/// The network of a test. Clones are the same one.
pub(super) struct Network<G: Group = Numbers, M: Taker<G> = List> {
    state: Rc<NetworkState<G, M>>,
}

impl<G: Group, M: Taker<G>> Clone for Network<G, M> {
    fn clone(&self) -> Network<G, M> {
        let state = self.state.clone();
        Network { state }
    }
}

impl<G: Group, M: Taker<G>> Default for Network<G, M> {
    fn default() -> Network<G, M> {
        let state = NetworkState {
            members: RefCell::default(),
            cut_off: RefCell::default(),
            calls: Cell::default(),
        };
        let state = Rc::new(state);
        Network { state }
    }
}

struct NetworkState<G: Group, M: Taker<G>> {
    members: RefCell<BTreeMap<u64, Member<G, M>>>,
    /// Who neither hears nor is heard.
    cut_off: RefCell<BTreeSet<u64>>,
    /// How many calls of openraft were sent.
    calls: Cell<u64>,
}

/// How long a message takes at most, in microseconds.
const LATENCY: u64 = 5_000;
/// One message of so many is lost.
const LOSS: u64 = 100;

impl<G: Group, M: Taker<G>> Network<G, M> {
    /// A member can be reached from now on.
    pub(super) fn join(&self, id: u64, member: Member<G, M>) {
        self.state.members.borrow_mut().insert(id, member);
    }

    /// All members that have joined.
    pub(super) fn members(&self) -> BTreeMap<u64, Member<G, M>> {
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
        ask: impl FnOnce(Raft<G, M>) -> F,
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
pub(super) struct Dialer<G: Group = Numbers, M: Taker<G> = List> {
    pub(super) network: Network<G, M>,
    pub(super) env: Env,
    pub(super) id: u64,
}

impl<G: Group, M: Taker<G>> RaftNetworkFactory<G> for Dialer<G, M> {
    type Network = Connection<G, M>;

    async fn new_client(&mut self, target: u64, _node: &G::Node) -> Connection<G, M> {
        Connection {
            network: self.network.clone(),
            env: self.env.clone(),
            from: self.id,
            to: target,
        }
    }
}

/// The way from one member to another.
pub(super) struct Connection<G: Group, M: Taker<G>> {
    network: Network<G, M>,
    env: Env,
    from: u64,
    to: u64,
}

impl<G: Group, M: Taker<G>> Connection<G, M> {
    async fn call<A: 'static, E: ToString + 'static, F>(
        &self,
        action: RPCTypes,
        option: RPCOption,
        ask: impl FnOnce(Raft<G, M>) -> F,
    ) -> Result<A, RPCError<G>>
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

impl<G: Group, M: Taker<G>> RaftNetworkV2<G> for Connection<G, M> {
    type SnapshotData = M::SnapshotData;

    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<G>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<G>, RPCError<G>> {
        let ask = |raft: Raft<G, M>| async move { raft.append_entries(request).await };
        self.call(RPCTypes::AppendEntries, option, ask).await
    }

    async fn vote(
        &mut self,
        request: VoteRequest<G>,
        option: RPCOption,
    ) -> Result<VoteResponse<G>, RPCError<G>> {
        let ask = |raft: Raft<G, M>| async move { raft.vote(request).await };
        self.call(RPCTypes::Vote, option, ask).await
    }

    async fn pre_vote(
        &mut self,
        request: VoteRequest<G>,
        option: RPCOption,
    ) -> Result<VoteResponse<G>, RPCError<G>> {
        let ask = |raft: Raft<G, M>| async move { raft.pre_vote(request).await };
        self.call(RPCTypes::Vote, option, ask).await
    }

    async fn full_snapshot(
        &mut self,
        vote: VoteOf<G>,
        snapshot: SnapshotOf<G, M::SnapshotData>,
        _cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        option: RPCOption,
    ) -> Result<SnapshotResponse<G>, StreamingError<G>> {
        let ask = |raft: Raft<G, M>| M::take(raft, vote, snapshot);
        let answer = self.call(RPCTypes::InstallSnapshot, option, ask).await;
        answer.map_err(StreamingError::from)
    }
}
