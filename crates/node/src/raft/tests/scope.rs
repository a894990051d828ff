//! Which shard is the current one, and when none is.

use std::future::pending;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use io::sim::{SimConfig, Simulation};
use io::{Env, TaskGroup};
use openraft::AsyncRuntime;

use super::super::current::current;
use super::super::{ShardRuntime, within};

/// A simulated node with two shards.
fn two_shards() -> (Simulation, Vec<Env>) {
    let mut simulation = Simulation::new(7, SimConfig::default());
    let node = simulation.add_node(Ipv4Addr::LOCALHOST.into(), 2, 1 << 20);
    let envs = std::cell::RefCell::new(Vec::new());
    simulation.start(node, |env| {
        envs.borrow_mut().push(env);
        pending()
    });
    (simulation, envs.into_inner())
}

fn poll<F: Future + Unpin>(mut future: F) -> Poll<F::Output> {
    Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn nested_polls_restore_the_outer_shard() {
    let (_simulation, envs) = two_shards();
    let inner = within(&envs[1], async { current().shard() });
    let outer = within(&envs[0], async move {
        let before = current().shard();
        let inner = inner.await;
        (before, inner, current().shard())
    });
    let (zero, one) = (envs[0].shard(), envs[1].shard());
    assert_eq!(poll(outer), Poll::Ready((zero, one, zero)));
}

#[test]
fn a_panic_restores_the_outer_shard_too() {
    let (_simulation, envs) = two_shards();
    let outer = within(&envs[0], async {
        let inner = within(&envs[1], async { panic!("on purpose") });
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| poll(inner)));
        assert!(caught.is_err());
        current().shard()
    });
    assert_eq!(poll(outer), Poll::Ready(envs[0].shard()));
}

#[test]
fn a_future_is_dropped_within_its_shard() {
    struct Asks;
    impl Drop for Asks {
        fn drop(&mut self) {
            current();
        }
    }
    let (_simulation, envs) = two_shards();
    let asks = Asks;
    drop(within(&envs[0], async move {
        let _asks = asks;
    }));
}

#[test]
#[should_panic = "openraft is called through raft::within"]
fn outside_there_is_no_shard() {
    let (_simulation, envs) = two_shards();
    let _ = poll(within(&envs[0], async { current().shard() }));
    drop(ShardRuntime::sleep(Duration::ZERO));
}

#[test]
fn a_task_is_of_the_shard_that_spawned_it_and_goes_on_without_its_handle() {
    let (mut simulation, envs) = two_shards();
    let (sender, mut receiver) = io::oneshot();
    let spawning = within(&envs[1], async move {
        let handle = ShardRuntime::spawn(async move {
            ShardRuntime::sleep(Duration::from_millis(1)).await;
            let _ = sender.send(current().shard());
        });
        drop(handle);
    });
    // Polled by a task of the other shard.
    envs[0].spawn(TaskGroup::Foreground, spawning).detach();
    simulation.run_for(Duration::from_millis(5));
    assert_eq!(receiver.try_receive(), Some(envs[1].shard()));
}

#[test]
fn a_panic_of_a_task_is_told_to_who_joins_it() {
    let told = ShardRuntime::run(async {
        let joining = ShardRuntime::spawn(async { panic!("on purpose") });
        joining.await.map(|()| "the end").expect_err("it panicked")
    });
    assert!(ShardRuntime::is_panic(&told));
    assert_eq!(told.to_string(), "a task of openraft panicked: on purpose");
}
