//! `helenus-limit` before a server that counts what it is asked.

// Real processes and real time.
#![allow(clippy::disallowed_methods)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

const QUERY: u8 = 0x07;
const RESULT: u8 = 0x08;
const EXECUTE: u8 = 0x0A;

fn frame(stream: u8, opcode: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![4, 0, 0, stream, opcode, 0, 0, 0, body.len() as u8];
    bytes.extend_from_slice(body);
    bytes
}

/// One frame of a connection; nothing at its end.
fn receive(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut bytes = vec![0; 9];
    stream.read_exact(&mut bytes).ok()?;
    let length = usize::from(bytes[8]);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    bytes.extend_from_slice(&body);
    Some(bytes)
}

/// A server that answers each frame with the number of those before it.
fn counting_server() -> (String, Arc<AtomicU8>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound").to_string();
    let asked = Arc::new(AtomicU8::new(0));
    let counter = asked.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (mut stream, counter) = (stream, counter.clone());
            std::thread::spawn(move || {
                while let Some(question) = receive(&mut stream) {
                    let number = counter.fetch_add(1, Ordering::SeqCst);
                    let _ = stream.write_all(&frame(question[3], RESULT, &[number]));
                }
            });
        }
    });
    (address, asked)
}

struct Limit(Child);

impl Drop for Limit {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(upstream: &str, driver: &str) -> (Limit, String) {
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let listen = free.local_addr().expect("bound").to_string();
    drop(free);
    let mut command = Command::new(env!("CARGO_BIN_EXE_helenus-limit"));
    command.args(["--upstream", upstream, "--listen", &listen, "--shards", "2"]);
    command.args(["--driver", driver]).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut first = String::new();
    let mut lines = BufReader::new(child.stderr.take().expect("piped"));
    lines.read_line(&mut first).expect("a line");
    assert!(first.contains("learning from"), "{first}");
    (Limit(child), listen)
}

fn connect(address: &str) -> TcpStream {
    for _ in 0..100 {
        if let Ok(stream) = TcpStream::connect(address) {
            return stream;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("nobody listens at {address}");
}

fn ask(stream: &mut TcpStream, question: &[u8]) -> Vec<u8> {
    stream.write_all(question).expect("sent");
    receive(stream).expect("answered")
}

#[test]
fn each_shard_asks_once_and_answers_from_then_on() {
    let (upstream, asked) = counting_server();
    let (_limit, address) = start(&upstream, "epoll");
    // Connections go to the shards in turn.
    let mut streams = [connect(&address), connect(&address)];
    for (shard, stream) in streams.iter_mut().enumerate() {
        let number = shard as u8 * 2;
        let first = ask(stream, &frame(1, EXECUTE, &[0, 1, 7, 1]));
        assert_eq!(first, frame(1, RESULT, &[number]));
        assert_eq!(
            ask(stream, &frame(2, QUERY, b"q")),
            frame(2, RESULT, &[number + 1])
        );
        for i in 3..100 {
            let execution = ask(stream, &frame(i, EXECUTE, &[0, 1, 7, i]));
            assert_eq!(execution, frame(i, RESULT, &[number]));
            assert_eq!(
                ask(stream, &frame(i, QUERY, b"q")),
                frame(i, RESULT, &[number + 1])
            );
        }
    }
    assert_eq!(asked.load(Ordering::SeqCst), 4);
}

#[test]
fn frames_that_come_together_are_answered_in_order() {
    let (upstream, asked) = counting_server();
    let (_limit, address) = start(&upstream, "epoll");
    let mut stream = connect(&address);
    let questions: Vec<u8> = (0..50).flat_map(|i| frame(i, QUERY, &[i % 5])).collect();
    let (early, late) = questions.split_at(123);
    stream.write_all(early).expect("sent");
    std::thread::sleep(Duration::from_millis(20));
    stream.write_all(late).expect("sent");
    for i in 0..50 {
        assert_eq!(receive(&mut stream), Some(frame(i, RESULT, &[i % 5])));
    }
    assert_eq!(asked.load(Ordering::SeqCst), 5);
}

#[test]
fn another_version_ends_the_connection() {
    let (upstream, _) = counting_server();
    let (_limit, address) = start(&upstream, "epoll");
    let mut stream = connect(&address);
    let mut question = frame(1, QUERY, b"q");
    question[0] = 5;
    stream.write_all(&question).expect("sent");
    assert_eq!(receive(&mut stream), None);
}
