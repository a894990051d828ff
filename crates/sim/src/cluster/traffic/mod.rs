//! Counters, sets, logged batches and changes of the schema, side by side in one cluster, while nodes die, are
//! cut off, are slow and have wrong clocks.
//!
//! Clients of each kind hold what they read, at QUORUM, against what may be there: [`counters`], [`sets`],
//! [`batches`], [`schema`]. A statement without an answer may be done, then or later, or never; nobody tries it
//! again. Where statements have timestamps, clients give them, so that what must win is known; the clocks of
//! nodes, which are wrong by seconds, decide on nothing then.

mod batches;
mod counters;
mod readers;
mod schema;
mod sets;

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use cluster::Consistency;
use io::TaskGroup;

use self::batches::Batches;
use self::counters::Counters;
use self::schema::Schemas;
use self::sets::Sets;
use super::client::Failure;
use super::clients::Clients;
use super::session::Session;
use super::trouble::{self, Trouble};
use super::world::World;
use crate::Random;

/// How many clients there are of each kind that writes, and of each that reads.
const WRITERS: u64 = 3;
const READERS: u64 = 1;
/// How many change the schema.
const CHANGERS: u64 = 2;
/// How long clients are at work.
const WORK: Duration = Duration::from_secs(15);
/// How long the nodes may take to be ready once nothing is wrong any more.
const SETTLE: Duration = Duration::from_secs(120);
/// How long nodes may take to find out, when all is well again, which connections are broken.
const RECOVERY: Duration = Duration::from_secs(20);
/// How long clients go on when all is well.
const WELL: Duration = Duration::from_secs(5);

/// What a run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What went wrong around it.
    pub trouble: Trouble,
    /// Additions to counters that were acknowledged.
    pub added: u64,
    /// Changes of sets that were acknowledged.
    pub sets: u64,
    /// Batches that were acknowledged.
    pub batches: u64,
    /// Changes of the schema that were acknowledged.
    pub changes: u64,
    /// Statements of which nobody knows.
    pub unknown: u64,
    /// Reads that were checked.
    pub reads: u64,
    /// The trace of the run.
    pub trace: u64,
}

impl Report {
    /// Adds what another world did.
    pub fn add(&mut self, other: &Report) {
        self.trouble.add(&other.trouble);
        self.added += other.added;
        self.sets += other.sets;
        self.batches += other.batches;
        self.changes += other.changes;
        self.unknown += other.unknown;
        self.reads += other.reads;
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}, acknowledged: {} additions to counters, {} changes of sets, {} batches, {} changes of the \
             schema; {} without an answer, {} reads checked",
            self.trouble,
            self.added,
            self.sets,
            self.batches,
            self.changes,
            self.unknown,
            self.reads
        )
    }
}

/// What all clients share.
struct Shared {
    addresses: Vec<SocketAddr>,
    clients: Clients,
    /// Counts statements: their timestamps, and the names of what they make.
    clock: Cell<i64>,
    report: RefCell<Report>,
    counters: Counters,
    sets: Sets,
    batches: Batches,
    schemas: Schemas,
}

impl Shared {
    /// A time that no other statement has, later than those of all that were made before.
    fn tick(&self) -> i64 {
        self.clock.set(self.clock.get() + 1);
        self.clock.get()
    }

    /// A statement has no answer, or one that does not say that nothing was done.
    fn unknown(&self, failure: &Failure) {
        self.report.borrow_mut().unknown += 1;
        tracing::debug!("without an answer: {failure:?}");
    }
}

/// A value as a number.
fn number(bytes: &[u8]) -> Option<i64> {
    Some(i64::from_be_bytes(bytes.try_into().ok()?))
}

/// The first values of rows, those that are numbers.
fn numbers(rows: Vec<Vec<Option<Bytes>>>) -> Vec<i64> {
    let rows = rows.iter();
    rows.filter_map(|row| number(row.first()?.as_deref()?))
        .collect()
}

/// Lives a world.
///
/// # Errors
/// What is wrong, in words.
pub fn run(seed: u64) -> Result<Report, String> {
    let mut random = Random::new(seed ^ 0x072a_ff1c);
    let nodes = 3 + random.below(5) as usize;
    let mut world = World::new(seed, nodes, &mut random);
    (0..nodes).for_each(|number| world.start(number));
    world.wait_until_ready(SETTLE)?;
    make_tables(&mut world)?;
    let shared = begin(&world, &mut random);
    let until = world.simulation.now() + WORK;
    let mut trouble = Trouble::default();
    while world.simulation.now() < until && shared.clients.is_well() {
        trouble.make(&mut world, &mut random)?;
    }
    trouble::end(&mut world, SETTLE)?;
    shared.clients.end(&mut world, WELL)?;
    readers::read_everywhere::<Counters>(&mut world, &shared, Counters::places(), RECOVERY)?;
    readers::read_everywhere::<Sets>(&mut world, &shared, Sets::places(), RECOVERY)?;
    batches::are_whole(&mut world, &shared, RECOVERY)?;
    schema::agree(&mut world, &shared, RECOVERY)?;
    schema::is_known_at_once(&mut world, &shared, &mut random, RECOVERY)?;
    let mut report = *shared.report.borrow();
    report.trouble = trouble;
    report.trace = world.simulation.trace_hash();
    Ok(report)
}

fn make_tables(world: &mut World) -> Result<(), String> {
    let keyspace = "CREATE KEYSPACE k WITH replication = {'class': 'NetworkTopologyStrategy', \
                    'datacenter1': 3}";
    let tables = [counters::TABLE, sets::TABLE];
    let tables = tables.into_iter().chain(batches::TABLES);
    for text in std::iter::once(keyspace).chain(tables) {
        world.ask(0, text, Consistency::One)?;
    }
    Ok(())
}

/// The work of a client.
type Work = Pin<Box<dyn Future<Output = ()>>>;

fn begin(world: &World, random: &mut Random) -> Rc<Shared> {
    let env = world.clients();
    let shared = Rc::new(Shared {
        addresses: (0..world.len()).map(|number| world.cql(number)).collect(),
        clients: Clients::new(2 * (WRITERS + READERS) + batches::WRITERS + READERS + CHANGERS),
        clock: Cell::new(0),
        report: RefCell::default(),
        counters: Counters::new(),
        sets: Sets::new(),
        batches: Batches::new(),
        schemas: Schemas::new(),
    });
    let mut employ = |work: &dyn Fn(Rc<Shared>, Session) -> Work| {
        let random = Random::new(random.next_u64());
        let session = Session::new(&env, &shared.addresses, random);
        let working = work(shared.clone(), session);
        let shared = shared.clone();
        let working = async move {
            working.await;
            shared.clients.one_has_ended();
        };
        env.spawn(TaskGroup::Foreground, working).detach();
    };
    for _ in 0..WRITERS {
        employ(&|shared, session| Box::pin(async move { counters::add(&shared, session).await }));
        employ(&|shared, session| Box::pin(async move { sets::change(&shared, session).await }));
    }
    for writer in 0..batches::WRITERS as usize {
        employ(&|shared, session| {
            Box::pin(async move { batches::write(&shared, session, writer).await })
        });
    }
    for _ in 0..READERS {
        employ(&|shared, session| {
            Box::pin(async move { readers::read::<Counters>(&shared, session).await })
        });
        employ(&|shared, session| {
            Box::pin(async move { readers::read::<Sets>(&shared, session).await })
        });
        employ(&|shared, session| {
            Box::pin(async move { readers::read::<Batches>(&shared, session).await })
        });
    }
    for _ in 0..CHANGERS {
        employ(&|shared, session| Box::pin(async move { schema::change(&shared, session).await }));
    }
    shared
}
