//! Queues between shards.

use std::time::Duration;

use io::Full;

use crate::harness::{Driver, Seats, run};

pub(crate) fn messages_keep_their_order(driver: Driver) {
    let seats: Seats<u64> = Seats::new(2, 64);
    run(driver, 2, move |env| {
        let seats = seats.clone();
        async move {
            let mesh = seats.join(&env);
            if env.shard().0 == 0 {
                for number in 0..100_000 {
                    mesh.send(1, number).await;
                }
                assert_eq!(mesh.recv().await, (1, 100_000));
            } else {
                for number in 0..100_000 {
                    assert_eq!(mesh.recv().await, (0, number));
                }
                mesh.send(0, 100_000).await;
            }
        }
    });
}

pub(crate) fn a_full_ring_refuses_and_waits(driver: Driver) {
    let seats: Seats<u32> = Seats::new(2, 8);
    run(driver, 2, move |env| {
        let seats = seats.clone();
        async move {
            let mesh = seats.join(&env);
            if env.shard().0 == 0 {
                for number in 0..8 {
                    mesh.try_send(1, number).expect("there is room");
                }
                assert_eq!(mesh.try_send(1, 8), Err(Full(8)));
                // A message to oneself has a ring of its own.
                mesh.try_send(0, 77).expect("there is room");
                assert_eq!(mesh.recv().await, (0, 77));
                mesh.send(1, 8).await;
            } else {
                env.sleep(Duration::from_millis(20)).await;
                for number in 0..9 {
                    assert_eq!(mesh.recv().await, (0, number));
                }
            }
        }
    });
}

pub(crate) fn a_sleeping_shard_is_woken(driver: Driver) {
    let seats: Seats<u32> = Seats::new(2, 8);
    run(driver, 2, move |env| {
        let seats = seats.clone();
        async move {
            let mesh = seats.join(&env);
            for round in 0..20 {
                if env.shard().0 == 0 {
                    env.sleep(Duration::from_millis(5)).await;
                    mesh.send(1, round).await;
                    assert_eq!(mesh.recv().await, (1, round));
                } else {
                    let received = env.timeout(Duration::from_secs(5), mesh.recv()).await;
                    assert_eq!(received, Ok((0, round)));
                    mesh.send(0, round).await;
                }
            }
        }
    });
}

pub(crate) fn all_shards_talk_to_all(driver: Driver) {
    const SHARDS: u16 = 5;
    const MESSAGES: u64 = 2000;
    let seats: Seats<u64> = Seats::new(SHARDS, 16);
    run(driver, SHARDS, move |env| {
        let seats = seats.clone();
        async move {
            let mesh = seats.join(&env);
            let sender = mesh.clone();
            let sending = env.spawn(io::TaskGroup::Foreground, async move {
                for number in 0..MESSAGES {
                    for to in 0..SHARDS {
                        sender.send(to, number).await;
                    }
                }
            });
            let mut next = [0; SHARDS as usize];
            for _ in 0..MESSAGES * u64::from(SHARDS) {
                let (from, number) = mesh.recv().await;
                assert_eq!(number, next[usize::from(from)]);
                next[usize::from(from)] += 1;
            }
            sending.await;
        }
    });
}
