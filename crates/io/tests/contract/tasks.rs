//! Tasks, timers, and what tasks wait with for each other.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use io::{Elapsed, Env, Notify, TaskGroup, TrySendError, channel};

use crate::harness::{Driver, Notes, run_one};

const MILLI: Duration = Duration::from_millis(1);

pub(crate) fn sleeping_tasks_wake_in_order(driver: Driver) {
    run_one(driver, |env| async move {
        let notes = Notes::default();
        let began = env.now();
        let tasks: Vec<_> = [30u32, 10, 20]
            .into_iter()
            .map(|millis| {
                let (env2, notes) = (env.clone(), notes.clone());
                env.spawn(TaskGroup::Foreground, async move {
                    env2.sleep(MILLI * millis).await;
                    notes.add(millis.to_string());
                })
            })
            .collect();
        for task in tasks {
            task.await;
        }
        assert_eq!(notes.all(), ["10", "20", "30"]);
        let took = env.now() - began;
        assert!(took >= MILLI * 30, "{took:?}");
    });
}

pub(crate) fn a_timeout_ends_what_takes_too_long(driver: Driver) {
    run_one(driver, |env| async move {
        let slow = env.sleep(Duration::from_secs(3600));
        assert_eq!(env.timeout(MILLI, slow).await, Err(Elapsed));
        let quick = env.timeout(Duration::from_secs(3600), async { 7 }).await;
        assert_eq!(quick, Ok(7));
    });
}

pub(crate) fn a_task_gives_its_result(driver: Driver) {
    run_one(driver, |env| async move {
        let env2 = env.clone();
        let task = env.spawn(TaskGroup::Maintenance, async move {
            env2.yield_now().await;
            Rc::new(5)
        });
        assert_eq!(*task.await, 5);
    });
}

/// Answers must not wait for all that is ready already: who waits for them does nothing meanwhile.
pub(crate) fn what_runs_last_does_not_wait_for_all_others(driver: Driver) {
    /// More than run in one turn.
    const BUSY: usize = 2_000;
    run_one(driver, |env| async move {
        let (polls, stop) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(false)));
        let made = Rc::new(Notify::new());
        let (polls2, made2) = (polls.clone(), made.clone());
        let gatherer = env.spawn_last(async move {
            made2.notified().await;
            polls2.get()
        });
        let busy: Vec<_> = (0..BUSY)
            .map(|_| {
                let (env, polls, stop) = (env.clone(), polls.clone(), stop.clone());
                env.clone().spawn(TaskGroup::Foreground, async move {
                    while !stop.get() {
                        polls.set(polls.get() + 1);
                        env.yield_now().await;
                    }
                })
            })
            .collect();
        // All of them, and who gathers, have begun once.
        while polls.get() < BUSY {
            env.yield_now().await;
        }
        let before = polls.get();
        made.notify_one();
        let meanwhile = gatherer.await - before;
        stop.set(true);
        for task in busy {
            task.await;
        }
        assert!(meanwhile < BUSY / 2, "{meanwhile} of {BUSY} ran before it");
    });
}

struct OnDrop(Rc<Cell<bool>>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.set(true);
    }
}

pub(crate) fn a_cancelled_task_runs_no_more(driver: Driver) {
    run_one(driver, |env| async move {
        let (dropped, ran) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(0)));
        let (on_drop, ran2, env2) = (OnDrop(dropped.clone()), ran.clone(), env.clone());
        let task = env.spawn(TaskGroup::Foreground, async move {
            let _on_drop = on_drop;
            loop {
                ran2.set(ran2.get() + 1);
                env2.sleep(MILLI).await;
            }
        });
        env.sleep(MILLI * 5).await;
        let cancelled: Option<()> = task.cancel().await;
        assert!(cancelled.is_none());
        assert!(dropped.get());
        let until_then = ran.get();
        assert!(until_then >= 1);
        env.sleep(MILLI * 5).await;
        assert_eq!(ran.get(), until_then);

        let done = env.spawn(TaskGroup::Foreground, async { 3 });
        env.sleep(MILLI).await;
        assert_eq!(done.cancel().await, Some(3));
    });
}

pub(crate) fn a_dropped_handle_lets_the_task_go_on(driver: Driver) {
    run_one(driver, |env| async move {
        let (done, env2) = (Rc::new(Cell::new(false)), env.clone());
        let done2 = done.clone();
        drop(env.spawn(TaskGroup::Foreground, async move {
            env2.sleep(MILLI).await;
            done2.set(true);
        }));
        env.sleep(MILLI * 20).await;
        assert!(done.get());
    });
}

pub(crate) fn a_panic_ends_one_task_only(driver: Driver) {
    run_one(driver, |env| async move {
        let silent = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        let env2 = env.clone();
        drop(env.spawn(TaskGroup::Foreground, async move {
            env2.sleep(MILLI).await;
            panic!("as it should be");
        }));
        env.sleep(MILLI * 5).await;
        std::panic::set_hook(silent);
        assert_eq!(env.task_panics(), 1);
        let after = env.spawn(TaskGroup::Foreground, async { 1 });
        assert_eq!(after.await, 1);
    });
}

pub(crate) fn tasks_that_are_left_are_dropped(driver: Driver) {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    struct Flag(Arc<AtomicBool>);
    impl Drop for Flag {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let dropped = Arc::new(AtomicBool::new(false));
    let seen = dropped.clone();
    run_one(driver, move |env: Env| {
        let flag = Flag(dropped.clone());
        async move {
            let env2 = env.clone();
            drop(env.spawn(TaskGroup::Compaction, async move {
                let _flag = flag;
                env2.sleep(Duration::from_secs(3600)).await;
            }));
            env.sleep(MILLI).await;
        }
    });
    assert!(seen.load(Ordering::SeqCst));
}

pub(crate) fn local_channels_keep_order_and_bounds(driver: Driver) {
    run_one(driver, |env| async move {
        let (sender, mut receiver) = channel(2);
        sender.try_send(0).expect("there is room");
        sender.try_send(1).expect("there is room");
        assert_eq!(sender.try_send(9), Err(TrySendError::Full(9)));
        let sending = env.spawn(TaskGroup::Foreground, async move {
            for number in 2..100 {
                sender.send(number).await.expect("somebody receives");
            }
        });
        for number in 0..100 {
            assert!(receiver.len() <= 2);
            assert_eq!(receiver.receive().await, Some(number));
        }
        sending.await;
        assert_eq!(receiver.receive().await, None);

        let (sender, receiver) = channel(1);
        sender.try_send(1).expect("there is room");
        let waiting = env.spawn(TaskGroup::Foreground, async move { sender.send(2).await });
        env.sleep(MILLI).await;
        drop(receiver);
        assert!(waiting.await.is_err());
    });
}

pub(crate) fn a_channel_ends_with_its_last_strong_sender(driver: Driver) {
    run_one(driver, |env| async move {
        let (sender, mut receiver) = channel(2);
        let weak = sender.downgrade();
        let second = weak.clone().upgrade().expect("there is a sender");
        drop(sender);
        second.try_send(1).expect("there is room");
        assert!(!receiver.is_closed());
        let waiting = env.spawn(TaskGroup::Foreground, async move {
            assert_eq!(receiver.receive().await, Some(1));
            assert_eq!(receiver.receive().await, None);
            receiver.is_closed()
        });
        env.sleep(MILLI).await;
        drop(second);
        assert!(waiting.await);
        assert!(weak.upgrade().is_none());
    });
}

pub(crate) fn a_notification_is_not_lost_with_who_waited(driver: Driver) {
    run_one(driver, |env| async move {
        let notify = Rc::new(Notify::new());
        let (first, second) = (notify.clone(), notify.clone());
        let first = env.spawn(TaskGroup::Foreground, async move { first.notified().await });
        env.yield_now().await;
        let second = env.spawn(
            TaskGroup::Foreground,
            async move { second.notified().await },
        );
        env.sleep(MILLI).await;
        notify.notify_one();
        // It was woken but has not run yet.
        drop(first.cancel());
        env.timeout(Duration::from_secs(1), second)
            .await
            .expect("the notification goes to the next");
        notify.notify_one();
        env.timeout(MILLI, notify.notified())
            .await
            .expect("a notification waits for who comes");
        assert_eq!(env.timeout(MILLI, notify.notified()).await, Err(Elapsed));
    });
}
