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
        let mut ratios = Vec::new();
        for _ in 0..SAMPLES {
            env.sleep(Duration::from_millis(100)).await;
            ratios.push(ratio(&env));
            if are_fair(&ratios) {
                break;
            }
        }
        stop.set(true);
        for task in tasks {
            task.await;
        }
        assert!(
            are_fair(&ratios),
            "twice the shares, but times of {ratios:?}"
        );
    });
}

/// How often times are compared at most, 100 ms apart.
const SAMPLES: usize = 100;
/// How many comparisons in a row have to be right.
const IN_A_ROW: usize = 3;

/// How many times the time of compactions flushes had since the start. When the machine takes a
/// core away, one of them pays for it, as the clock goes on; the other one gets its share later, so
/// that this comes back to 2 on a busy machine too. It does not where shares are not kept.
fn ratio(env: &Env) -> f64 {
    let stats = env.group_stats();
    let time = |group| {
        let stats = stats.iter().find(|stats| stats.group == group);
        stats.expect("all groups are there").run_time.as_secs_f64()
    };
    time(TaskGroup::Flush) / time(TaskGroup::Compaction)
}

/// Are the last of them what twice the shares should give?
fn are_fair(ratios: &[f64]) -> bool {
    let last = ratios.last_chunk::<IN_A_ROW>();
    last.is_some_and(|last| last.iter().all(|ratio| (1.7..2.4).contains(ratio)))
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
