//! Groups of tasks and their shares.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use io::{Env, TaskGroup};

use crate::harness::{Driver, run_one};

/// Work of always the same amount, which the compiler does not see through.
fn work(env: &Env) {
    let mut value = env.random_u64();
    for _ in 0..20_000 {
        value = std::hint::black_box(
            value
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1),
        );
    }
}

pub(crate) fn groups_share_the_time(driver: Driver) {
    run_one(driver, |env| async move {
        let stop = Rc::new(Cell::new(false));
        let groups = [TaskGroup::Flush, TaskGroup::Compaction];
        let tasks: Vec<_> = groups
            .into_iter()
            .map(|group| {
                let (env2, stop) = (env.clone(), stop.clone());
                env.spawn(group, async move {
                    while !stop.get() {
                        work(&env2);
                        env2.yield_now().await;
                    }
                })
            })
            .collect();
        env.sleep(Duration::from_millis(200)).await;
        let stats = env.group_stats();
        stop.set(true);
        for task in tasks {
            task.await;
        }
        let time = |group| {
            let stats = stats.iter().find(|stats| stats.group == group);
            stats.expect("all groups are there").run_time.as_secs_f64()
        };
        let ratio = time(TaskGroup::Flush) / time(TaskGroup::Compaction);
        // A busy machine takes its time from the one or the other.
        assert!(
            (1.2..3.4).contains(&ratio),
            "twice the shares, {ratio} times the time"
        );
    });
}

pub(crate) fn a_long_loop_gives_way(driver: Driver) {
    run_one(driver, |env| async move {
        let (stop, env2) = (Rc::new(Cell::new(false)), env.clone());
        let stop2 = stop.clone();
        let long = env.spawn(TaskGroup::Compaction, async move {
            while !stop2.get() {
                work(&env2);
                env2.maybe_yield().await;
            }
        });
        for _ in 0..20 {
            let began = env.now();
            env.sleep(Duration::from_millis(1)).await;
            let took = env.now() - began;
            assert!(took < Duration::from_millis(200), "{took:?}");
        }
        stop.set(true);
        long.await;
    });
}
