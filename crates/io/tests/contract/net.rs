//! Listeners and streams.

use std::net::SocketAddr;
use std::time::Duration;

use io::{DetachedStream, Env, Listener, TaskGroup, TcpStream};

use crate::harness::{Driver, Seats, pattern, run, run_one};

const MILLI: Duration = Duration::from_millis(1);

fn any_port(env: &Env) -> SocketAddr {
    let _ = env;
    "127.0.0.1:0".parse().expect("an address")
}

async fn listen(env: &Env) -> Listener {
    env.listen(any_port(env), 1024).await.unwrap()
}

/// Both ends of one connection.
async fn pair(env: &Env) -> (TcpStream, TcpStream) {
    let listener = listen(env).await;
    let (address, env2) = (listener.local_addr(), env.clone());
    let connecting = env.spawn(TaskGroup::Foreground, async move {
        env2.connect(address).await.unwrap()
    });
    let (accepted, peer) = listener.accept().await.unwrap();
    let connected = connecting.await;
    assert_eq!(connected.peer_addr(), address);
    assert_eq!(connected.local_addr(), peer);
    assert_eq!(accepted.peer_addr(), peer);
    assert_eq!(accepted.local_addr(), address);
    (accepted, connected)
}

async fn read_to_end(stream: &TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let (count, bytes) = stream.read(all).await;
        all = bytes;
        if count.unwrap() == 0 {
            return all;
        }
    }
}

async fn read_exact(stream: &TcpStream, len: usize) -> Vec<u8> {
    let mut all = Vec::with_capacity(len);
    while all.len() < len {
        let (count, bytes) = stream.read(all).await;
        assert!(count.unwrap() > 0, "the stream ended early");
        all = bytes;
    }
    all
}

pub(crate) fn what_is_sent_is_acknowledged_though_nobody_reads(driver: Driver) {
    run_one(driver, move |env| async move {
        let (_server, client) = pair(&env).await;
        env.sleep(Duration::from_millis(300)).await;
        let silent = client.acknowledged();
        client.write_all(vec![7]).await.0.unwrap();
        env.sleep(Duration::from_millis(20)).await;
        match (silent, client.acknowledged()) {
            (Some(silent), Some(after)) => assert!(after < silent, "{after:?} after {silent:?}"),
            known => assert!(
                driver == Driver::Simulated && known == (None, None),
                "{known:?}"
            ),
        }
    });
}

pub(crate) fn bytes_arrive_in_order(driver: Driver) {
    run_one(driver, |env| async move {
        let (server, client) = pair(&env).await;
        let bytes = pattern(5_000_000, 1);
        let sent = bytes.clone();
        let writing = env.spawn(TaskGroup::Foreground, async move {
            let (result, back) = client.write_all(sent).await;
            result.unwrap();
            client.shutdown().await.unwrap();
            (client, back.len())
        });
        let read = read_to_end(&server).await;
        assert!(read == bytes);
        assert_eq!(writing.await.1, 5_000_000);
    });
}

pub(crate) fn one_side_may_finish_first(driver: Driver) {
    run_one(driver, |env| async move {
        let (server, client) = pair(&env).await;
        client.write_all(b"question".to_vec()).await.0.unwrap();
        client.shutdown().await.unwrap();
        assert_eq!(read_to_end(&server).await, b"question");
        env.sleep(MILLI).await;
        server.write_all(b"answer".to_vec()).await.0.unwrap();
        server.shutdown().await.unwrap();
        assert_eq!(read_to_end(&client).await, b"answer");
        assert!(client.write_all(vec![1]).await.0.is_err());
    });
}

pub(crate) fn a_slow_reader_slows_the_writer(driver: Driver) {
    run_one(driver, |env| async move {
        let (server, client) = pair(&env).await;
        let bytes = pattern(64 << 20, 2);
        let sent = bytes.clone();
        let writing = env.spawn(TaskGroup::Foreground, async move {
            client.write_all(sent).await.0.unwrap();
            client
        });
        // It starts to read, so that whatever reads ahead does.
        let mut read = read_exact(&server, 10).await;
        env.sleep(MILLI * 50).await;
        assert!(
            !writing.is_finished(),
            "64 MiB went somewhere while nobody read"
        );
        while read.len() < bytes.len() {
            let (count, more) = server.read(Vec::with_capacity(1 << 20)).await;
            assert!(count.unwrap() > 0);
            read.extend_from_slice(&more);
        }
        writing.await;
        assert!(read == bytes);
    });
}

pub(crate) fn many_connections_at_once(driver: Driver) {
    run_one(driver, |env| async move {
        let listener = listen(&env).await;
        let address = listener.local_addr();
        let env2 = env.clone();
        let serving = env.spawn(TaskGroup::Foreground, async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                drop(env2.spawn(TaskGroup::Foreground, async move {
                    let mut buffer = Vec::with_capacity(1024);
                    loop {
                        let (count, bytes) = stream.read(buffer).await;
                        if count.unwrap() == 0 {
                            return;
                        }
                        let (result, bytes) = stream.write_all(bytes).await;
                        result.unwrap();
                        buffer = bytes;
                        buffer.clear();
                    }
                }));
            }
        });
        let clients: Vec<_> = (0..200u64)
            .map(|number| {
                let env2 = env.clone();
                env.spawn(TaskGroup::Foreground, async move {
                    let stream = env2.connect(address).await.unwrap();
                    for round in 0..20 {
                        let request = pattern(100, number * 100 + round);
                        stream.write_all(request.clone()).await.0.unwrap();
                        assert_eq!(read_exact(&stream, 100).await, request);
                    }
                })
            })
            .collect();
        for client in clients {
            client.await;
        }
        serving.cancel().await;
    });
}

pub(crate) fn nobody_listens(driver: Driver) {
    run_one(driver, |env| async move {
        let listener = listen(&env).await;
        let address = listener.local_addr();
        assert!(
            env.listen(address, 1).await.is_err(),
            "two cannot listen at one address"
        );
        drop(listener);
        env.sleep(MILLI * 10).await;
        let error = env.connect(address).await.err().expect("nobody is there");
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
        let error = env.timeout(MILLI, listen(&env).await.accept()).await;
        assert!(error.is_err(), "nobody connects");
    });
}

pub(crate) fn a_closed_connection_ends_reading(driver: Driver) {
    run_one(driver, |env| async move {
        let (server, client) = pair(&env).await;
        let reader = server.clone();
        let reading = env.spawn(
            TaskGroup::Foreground,
            async move { read_to_end(&reader).await },
        );
        env.sleep(MILLI * 5).await;
        drop(client);
        assert_eq!(reading.await, b"");
        // Sooner or later the kernel says that nobody is there.
        let mut failed = false;
        for _ in 0..100 {
            failed |= server.write_all(vec![1; 100]).await.0.is_err();
            env.sleep(MILLI).await;
        }
        assert!(failed);

        // A reader that was abandoned does not keep the connection open.
        let (server, client) = pair(&env).await;
        assert!(env.timeout(MILLI, client.read(Vec::new())).await.is_err());
        drop(client);
        let ended = env.timeout(MILLI * 1000, read_to_end(&server)).await;
        assert_eq!(ended.expect("the end arrives"), b"");
    });
}

pub(crate) fn an_abandoned_read_loses_nothing(driver: Driver) {
    run_one(driver, |env| async move {
        let (server, client) = pair(&env).await;
        let sending = client.clone();
        let env2 = env.clone();
        let writing = env.spawn(TaskGroup::Foreground, async move {
            for number in 0..100u8 {
                sending.write_all(vec![number]).await.0.unwrap();
                env2.sleep(MILLI / 10).await;
            }
            sending.shutdown().await.unwrap();
        });
        let mut read = Vec::new();
        loop {
            match env.timeout(MILLI / 20, server.read(Vec::new())).await {
                Err(_) => {}
                Ok((count, bytes)) => {
                    if count.unwrap() == 0 {
                        break;
                    }
                    read.extend_from_slice(&bytes);
                }
            }
        }
        writing.await;
        assert_eq!(read, (0..100).collect::<Vec<u8>>());
    });
}

pub(crate) fn a_connection_moves_to_another_shard(driver: Driver) {
    let seats: Seats<DetachedStream> = Seats::new(2, 16);
    run(driver, 2, move |env| {
        let seats = seats.clone();
        async move {
            let mesh = seats.join(&env);
            if env.shard().0 == 1 {
                for unread in [false, true] {
                    let (_, stream) = mesh.recv().await;
                    let stream = env.adopt(stream);
                    if unread {
                        assert_eq!(read_exact(&stream, 6).await, b"behind");
                    }
                    assert_eq!(read_exact(&stream, 5).await, b"hello");
                    stream.write_all(b"there".to_vec()).await.0.unwrap();
                }
                return;
            }
            let (server, client) = pair(&env).await;
            mesh.send(1, server.detach().ok().expect("no clones")).await;
            client.write_all(b"hello".to_vec()).await.0.unwrap();
            assert_eq!(read_exact(&client, 5).await, b"there");

            // One that was read from already, and has more.
            let (server, client) = pair(&env).await;
            client.write_all(b"before".to_vec()).await.0.unwrap();
            assert_eq!(read_exact(&server, 6).await, b"before");
            client.write_all(b"behind".to_vec()).await.0.unwrap();
            env.sleep(MILLI * 10).await;
            mesh.send(1, server.detach().ok().expect("no clones")).await;
            client.write_all(b"hello".to_vec()).await.0.unwrap();
            assert_eq!(read_exact(&client, 5).await, b"there");
        }
    });
}

pub(crate) fn both_sides_write_much_at_once(driver: Driver) {
    run_one(driver, |env| async move {
        let (server, client) = pair(&env).await;
        let ends: Vec<_> = [(server, 1, 2), (client, 2, 1)]
            .into_iter()
            .map(|(stream, mine, theirs)| {
                let (writer, reader) = (stream.clone(), stream);
                let writing = env.spawn(TaskGroup::Foreground, async move {
                    for _ in 0..20 {
                        writer.write_all(pattern(1 << 20, mine)).await.0.unwrap();
                    }
                });
                let reading = env.spawn(TaskGroup::Foreground, async move {
                    for _ in 0..20 {
                        assert!(read_exact(&reader, 1 << 20).await == pattern(1 << 20, theirs));
                    }
                });
                (writing, reading)
            })
            .collect();
        for (writing, reading) in ends {
            writing.await;
            reading.await;
        }
    });
}
