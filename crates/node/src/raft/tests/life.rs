//! What a member costs, how it ends, and that all of it runs on a real shard too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use io::{Env, Runtime, RuntimeConfig, TaskGroup};
use openraft::async_runtime::WatchReceiver;
use openraft::errors::Fatal;

use super::super::within;
use super::cluster::{Client, Cluster, Drive, MEMBERS, Trace, live};
use super::network::{Member, Network};

/// How many tasks the shard has, and how often one was run.
fn tasks(env: &Env) -> (usize, u64) {
    let groups = env.group_stats();
    let tasks = groups.iter().map(|group| group.tasks).sum();
    (tasks, groups.iter().map(|group| group.polls).sum())
}

/// Three members on one shard: they decide, and leave nothing when they are shut down.
async fn live_together(env: Env) {
    let (before, _) = tasks(&env);
    let network = Network::default();
    let lives: Vec<_> = MEMBERS
        .into_iter()
        .map(|id| {
            let life = live(
                env.clone(),
                id,
                Drive::default(),
                network.clone(),
                Trace::default(),
            );
            env.spawn(TaskGroup::Foreground, within(&env, life))
        })
        .collect();
    let mut client = Client {
        env: env.clone(),
        network: network.clone(),
        to: 0,
    };
    for number in 0..20 {
        client.write(number).await;
    }
    drop(client);
    let members = network.members();
    while members.values().any(|m| !m.list.numbers().contains(&19)) {
        env.sleep(Duration::from_millis(10)).await;
    }
    // Whose handles are all dropped ends as well: the last one is not shut down.
    for (id, Member { env, raft, .. }) in members {
        if id != MEMBERS[2] {
            within(&env, raft.shutdown()).await.expect("it stops");
        }
    }
    network.clear();
    for life in lives {
        life.await;
    }
    // What was under way gives up.
    env.sleep(Duration::from_secs(2)).await;
    assert_eq!(tasks(&env).0, before, "tasks are left");
    assert_eq!(env.task_panics(), 0);
}

#[test]
fn a_cluster_lives_and_ends_on_a_real_shard() {
    let ended = Arc::new(AtomicBool::new(false));
    let told = ended.clone();
    let runtime = Runtime::start(RuntimeConfig::default(), move |env| {
        let told = told.clone();
        async move {
            live_together(env).await;
            told.store(true, Ordering::SeqCst);
        }
    });
    runtime.expect("it starts").join().expect("it ends well");
    assert!(ended.load(Ordering::SeqCst));
}

#[test]
fn an_idle_cluster_is_quiet() {
    const SECONDS: u64 = 60;
    let mut cluster = Cluster::new(1);
    cluster.wait("a leader", |network| Cluster::leader(network).is_some());
    let members = cluster.network.members();
    let polls = || members.values().map(|m| tasks(&m.env).1).sum::<u64>();
    let before = (polls(), cluster.network.calls());
    cluster.run_for(Duration::from_secs(SECONDS));
    let polls = (polls() - before.0) / SECONDS;
    let calls = (cluster.network.calls() - before.1) / SECONDS;
    println!("a second, three members together: {polls} turns of tasks, {calls} calls");
    assert!(polls < 3_000, "{polls} turns a second");
    assert!(calls < 100, "{calls} calls a second");
}

#[test]
fn a_member_whose_drive_fails_stops_without_a_panic() {
    let mut cluster = Cluster::new(2);
    cluster.wait("a leader", |network| Cluster::leader(network).is_some());
    let first = Cluster::leader(&cluster.network).expect("somebody leads");
    cluster.drives[&first].log.fail();
    cluster.write(0..10);
    let Member { env, raft, .. } = cluster.network.members()[&first].clone();
    let state = raft.metrics().borrow_watched().running_state.clone();
    assert!(matches!(state, Err(Fatal::StorageError(_))), "{state:?}");
    assert_ne!(Cluster::leader(&cluster.network), Some(first));
    assert_eq!(env.task_panics(), 0);
}
