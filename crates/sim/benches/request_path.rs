//! The way of a request from its bytes to the answer's, in instructions.
//!
//! A node of one shard, in a world of its own, gets the same requests again and again, 32 in flight on one
//! connection. Run under `valgrind --tool=callgrind` with `--toggle-collect=*measured*` and
//! `--dump-after=*measured*` it leaves a profile for each workload; `cargo xtask bench-check` does that and
//! compares them with what `bench/instructions.txt` has. One seed gives one run, so that the counts are the
//! same on any machine but for a few in ten thousand (addresses seed the hashes). What the simulated
//! network and the client cost is counted, too: it is little, and always the same.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use bytes::BytesMut;
use io::{Env, TaskGroup, TcpStream};
use model::Value;
use sim::cluster::World;
use wire::client::{ClientConnection, QueryResult, Response, ResponseMessage, put_request};
use wire::{Execute, Flags, Prepare, Query, QueryParameters, Request, Startup, Version};

/// As the server has it.
#[global_allocator]
static ALLOCATOR: io::Allocator = io::Allocator;

/// Requests in flight.
const IN_FLIGHT: usize = 32;
/// How often so many are sent while it is counted.
const ROUNDS: usize = 32;
/// Rows of each table.
const ROWS: usize = 1024;
/// Rows of a partition that is read whole.
const LONG: usize = 100;
const VERSION: Version = Version::V4;
const HEADER: usize = 9;
const LIMIT: Duration = Duration::from_secs(60);
/// When the tables are filled, as clients say it, and when it is counted: what is written then takes the place of that. In
/// microseconds since 1970.
const FILLED_AT: Clock = Clock(1_700_000_000_000_000);
const COUNTED_AT: Clock = Clock(1_700_001_000_000_000);

const TABLES: [&str; 5] = [
    "CREATE KEYSPACE b WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TABLE b.ycsb (k text PRIMARY KEY, f0 text, f1 text, f2 text, f3 text, f4 text, f5 text, f6 text, \
     f7 text, f8 text, f9 text)",
    "CREATE TABLE b.one (k text PRIMARY KEY, v text)",
    "CREATE TABLE b.long (k text, c int, v text, PRIMARY KEY (k, c))",
    "CREATE TABLE b.stored (k text PRIMARY KEY, f0 text, f1 text, f2 text, f3 text, f4 text, f5 text, f6 text, \
     f7 text, f8 text, f9 text) WITH memtable_flush_period_in_ms = 1000 \
     AND caching = {'keys': 'ALL', 'rows_per_partition': 'ALL'}",
];

/// Statements that are run again and again with other keys, and how much a request has of values.
#[derive(Clone, Copy)]
struct Workload {
    name: &'static str,
    statement: &'static str,
    /// Values of a hundred bytes behind the key.
    values: usize,
    /// Rows that a key has.
    rows: usize,
}

const fn workload(name: &'static str, statement: &'static str, values: usize) -> Workload {
    Workload {
        name,
        statement,
        values,
        rows: 1,
    }
}

const INSERT_YCSB: &str = "INSERT INTO b.ycsb (k, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9) \
                           VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
const INSERT_STORED: &str = "INSERT INTO b.stored (k, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9) \
                             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
const INSERT_LONG: &str = "INSERT INTO b.long (k, c, v) VALUES (?, ?, ?)";

/// What fills the tables. Not counted.
const LOADS: [Workload; 4] = [
    workload("", INSERT_STORED, 10),
    workload("", INSERT_YCSB, 10),
    workload("", "INSERT INTO b.one (k, v) VALUES (?, ?)", 1),
    Workload {
        rows: LONG,
        ..workload("", INSERT_LONG, 1)
    },
];

/// What is counted.
const WORKLOADS: [Workload; 8] = [
    workload("read_one", "SELECT v FROM b.one WHERE k = ?", 0),
    workload("read_ycsb", "SELECT * FROM b.ycsb WHERE k = ?", 0),
    workload("read_cached", "SELECT * FROM b.stored WHERE k = ?", 0),
    workload("read_long", "SELECT * FROM b.long WHERE k = ?", 0),
    workload(
        "scan_50",
        "SELECT * FROM b.ycsb WHERE token(k) >= token(?) LIMIT 50",
        0,
    ),
    workload("write_one", "INSERT INTO b.one (k, v) VALUES (?, ?)", 1),
    workload("write_ycsb", INSERT_YCSB, 10),
    workload("update_ycsb", "UPDATE b.ycsb SET f3 = ? WHERE k = ?", 1),
];

/// A connection whose requests are made before they are sent.
struct Connection {
    stream: TcpStream,
    input: BytesMut,
}

impl Connection {
    async fn connect(env: &Env, address: std::net::SocketAddr) -> Connection {
        let stream = env.connect(address).await.expect("the node listens");
        let mut connection = Connection {
            stream,
            input: BytesMut::new(),
        };
        let startup = Startup {
            options: vec![("CQL_VERSION", "3.0.0")],
        };
        connection.ask(&Request::Startup(startup), |_| ()).await;
        connection
    }

    /// One request, and what is made of its answer.
    async fn ask<T>(&mut self, request: &Request<'_>, made: impl FnOnce(Response<'_>) -> T) -> T {
        let mut bytes = Vec::new();
        put_request(&mut bytes, VERSION, 0, Flags::default(), request);
        self.send(bytes).await;
        let mut connection = ClientConnection::new(VERSION, None);
        loop {
            if let Some(envelope) = connection.receive(&mut self.input).expect("an envelope") {
                let message = ResponseMessage::decode(&envelope).expect("an answer");
                if let Response::Error(error) = &message.response {
                    panic!("{request:?}: {error:?}");
                }
                return made(message.response);
            }
            self.receive().await;
        }
    }

    async fn send(&mut self, bytes: Vec<u8>) {
        let (sent, _) = self.stream.write_all(bytes).await;
        sent.expect("the node reads");
    }

    async fn receive(&mut self) {
        let (read, bytes) = self.stream.read(Vec::with_capacity(64 << 10)).await;
        assert!(
            read.expect("the node answers") > 0,
            "the node closed the connection"
        );
        self.input.extend_from_slice(&bytes);
    }

    /// Sends what is there of requests, and waits for so many answers.
    async fn exchange(&mut self, requests: Vec<u8>, count: usize) {
        self.send(requests).await;
        let mut answers = 0;
        while answers < count {
            while self.input.len() >= HEADER {
                let length: [u8; 4] = self.input[5..HEADER].try_into().expect("four bytes");
                let end = HEADER + u32::from_be_bytes(length) as usize;
                if self.input.len() < end {
                    break;
                }
                assert_ne!(self.input[4], 0, "{:?}", &self.input[HEADER..end]);
                let _ = self.input.split_to(end);
                answers += 1;
            }
            if answers < count {
                self.receive().await;
            }
        }
    }
}

/// What clients say what time it is, in microseconds since 1970: later with each request.
struct Clock(i64);

impl Clock {
    fn next(&mut self) -> i64 {
        self.0 += 1;
        self.0
    }
}

/// The bytes of requests of a workload with the keys of these rows.
fn requests(
    id: &[u8],
    workload: Workload,
    rows: impl Iterator<Item = usize>,
    clock: &mut Clock,
) -> Vec<u8> {
    let value = [b'v'; 100];
    let mut bytes = Vec::new();
    for (stream, row) in rows.enumerate() {
        let key = format!("user{:08}", row / workload.rows % ROWS);
        let clustering = ((row % workload.rows) as i32).to_be_bytes();
        let mut values = vec![Value::Bytes(key.as_bytes())];
        if workload.rows > 1 {
            values.push(Value::Bytes(&clustering));
        }
        values.extend(std::iter::repeat_n(Value::Bytes(&value), workload.values));
        if workload.statement.starts_with("UPDATE") {
            values.reverse();
        }
        let parameters = QueryParameters {
            values: values.into(),
            skip_metadata: true,
            page_size: Some(5000),
            timestamp: Some(clock.next()),
            ..QueryParameters::default()
        };
        let execute = Execute {
            id,
            result_metadata_id: None,
            parameters,
        };
        put_request(
            &mut bytes,
            VERSION,
            stream as i16,
            Flags::default(),
            &Request::Execute(execute),
        );
    }
    bytes
}

async fn prepare(connection: &mut Connection, statement: &str) -> Vec<u8> {
    let prepare = Prepare {
        text: statement,
        keyspace: None,
    };
    let id = |response: Response<'_>| match response {
        Response::Result(QueryResult::Prepared(prepared)) => prepared.id.to_vec(),
        other => panic!("{statement}: {other:?}"),
    };
    connection.ask(&Request::Prepare(prepare), id).await
}

/// Runs what clients do to its end.
fn run<F: Future<Output = ()> + 'static>(world: &mut World, task: impl FnOnce(Env) -> F) {
    let done = Rc::new(Cell::new(false));
    let told = done.clone();
    let env = world.clients();
    let future = task(env.clone());
    let whole = async move {
        future.await;
        told.set(true);
    };
    env.spawn(TaskGroup::Foreground, whole).detach();
    let in_time = world.simulation.run_until(LIMIT, |_| done.get());
    assert!(in_time, "no answer in {LIMIT:?}");
}

/// What is counted, by its name: nothing else has `measured` in it.
#[inline(never)]
fn measured(world: &mut World, connection: Rc<RefCell<Option<Connection>>>, rounds: Vec<Vec<u8>>) {
    send_all(world, connection, rounds);
}

fn send_all(world: &mut World, connection: Rc<RefCell<Option<Connection>>>, rounds: Vec<Vec<u8>>) {
    run(world, |_| async move {
        let mut own = connection.take().expect("nobody else sends");
        for round in rounds {
            own.exchange(round, IN_FLIGHT).await;
        }
        connection.replace(Some(own));
    });
}

/// The ids of statements, and the connection that they were prepared on.
fn set_up(world: &mut World) -> (Rc<RefCell<Option<Connection>>>, Vec<Vec<u8>>) {
    let kept = Rc::new(RefCell::new(None));
    let ids = Rc::new(RefCell::new(Vec::new()));
    let (address, to_keep, to_fill) = (world.cql(0), kept.clone(), ids.clone());
    run(world, |env| async move {
        let mut connection = Connection::connect(&env, address).await;
        let mut clock = FILLED_AT;
        for text in TABLES {
            let parameters = QueryParameters::default();
            connection
                .ask(&Request::Query(Query { text, parameters }), |_| ())
                .await;
        }
        for load in LOADS {
            let id = prepare(&mut connection, load.statement).await;
            for first in (0..ROWS * load.rows).step_by(IN_FLIGHT) {
                let rows = first..first + IN_FLIGHT;
                connection
                    .exchange(requests(&id, load, rows, &mut clock), IN_FLIGHT)
                    .await;
            }
        }
        for workload in WORKLOADS {
            let id = prepare(&mut connection, workload.statement).await;
            to_fill.borrow_mut().push(id);
        }
        to_keep.replace(Some(connection));
    });
    // Its rows are on the drive afterwards.
    world.simulation.run_for(Duration::from_secs(5));
    (kept, ids.take())
}

fn main() {
    let mut world = World::alone(1);
    world.start(0);
    world.wait_until_ready(LIMIT).expect("it starts");
    let (connection, ids) = set_up(&mut world);
    let mut clock = COUNTED_AT;
    for (workload, id) in WORKLOADS.into_iter().zip(&ids) {
        let mut rounds = || {
            let rows = |round| {
                (0..IN_FLIGHT).map(move |n| (round * IN_FLIGHT + n) * 7 * LONG % (ROWS * LONG))
            };
            let of_round = |round| requests(id, workload, rows(round), &mut clock);
            (0..ROUNDS).map(of_round).collect::<Vec<_>>()
        };
        // Caches are filled, and what is allocated once is.
        send_all(&mut world, connection.clone(), rounds());
        measured(&mut world, connection.clone(), rounds());
        println!("{} {}", workload.name, ROUNDS * IN_FLIGHT);
    }
}
