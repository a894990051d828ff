//! Logs against a model of them, under ends of all kinds; and what does not open.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::pending;
use std::net::Ipv4Addr;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use cluster::{ClusterIdentity, MetadataEntry};
use io::sim::{Crash, DiskFaults, SimConfig, Simulation};
use io::{Env, Random};
use openraft::impls::leader_id_std::LeaderId;
use openraft::storage::{IOFlushed, RaftLogStorage, RaftStateMachine};
use openraft::type_config::TypeConfigExt;
use openraft::{EntryPayload, RaftLogReader, RaftSnapshotBuilder};
use uuid::Uuid;

use super::super::journal::JournalError;
use super::super::log::LogError;
use super::super::types::{Entry, LogId, Vote, log_id};
use super::super::{Log, Machine, Metadata, OpenError, open};
use super::journal::Desk;
use super::metadata::Tables;

/// Of so many bytes and some more.
fn entry(id: LogId, bytes: usize) -> Entry {
    let identity = ClusterIdentity {
        id: Uuid::from_u128(id.index.into()),
        name: "x".repeat(bytes),
    };
    Entry {
        log_id: id,
        payload: EntryPayload::Normal(MetadataEntry::Create(identity)),
    }
}

/// Appends entries; the drive has them when this returns.
async fn append(log: &mut Log, entries: Vec<Entry>) -> std::io::Result<()> {
    let (sender, receiver) = Metadata::oneshot();
    log.append(entries, IOFlushed::signal(sender)).await?;
    receiver.await.expect("it is called")
}

/// What is in a log.
#[derive(Clone, Default, Debug, PartialEq)]
struct Model {
    vote: Option<Vote>,
    committed: Option<LogId>,
    purged: Option<LogId>,
    /// Consecutive.
    entries: VecDeque<Entry>,
}

impl Model {
    async fn of(mut log: Log) -> Model {
        let entries = log.try_get_log_entries(..).await.unwrap();
        let state = log.get_log_state().await.unwrap();
        let model = Model {
            vote: log.read_vote().await.unwrap(),
            committed: log.read_committed().await.unwrap(),
            purged: state.last_purged_log_id,
            entries: entries.into(),
        };
        assert_eq!(state.last_log_id, model.last());
        model
    }

    fn last(&self) -> Option<LogId> {
        let last = self.entries.back().map(|entry| entry.log_id);
        last.or(self.purged)
    }

    /// Some entry that is there.
    fn any(&self, env: &Env) -> Option<LogId> {
        let at = env.random_u64().checked_rem(self.entries.len() as u64)?;
        Some(self.entries[at as usize].log_id)
    }
}

/// Models that a log may be found as: the first is acknowledged, of the others nothing is.
type History = Rc<RefCell<VecDeque<Model>>>;

/// Does one thing to a log, with what it makes of the model noted before.
async fn act(env: &Env, log: &mut Log, history: &History) -> std::io::Result<()> {
    let mut model = history.borrow().back().expect("there is one").clone();
    let note = |model: &Model| history.borrow_mut().push_back(model.clone());
    match env.random_u64() % 10 {
        0..5 => {
            let mut entries = Vec::new();
            for _ in 0..=env.random_u64() % 3 {
                let next = model.last().map_or(0, |last| last.index + 1);
                let term = model.vote.map_or(0, |vote| vote.leader_id.term);
                let bytes = (env.random_u64() % 2 * (env.random_u64() % 40_000)) as usize;
                entries.push(entry(log_id(term, next), bytes));
                model.entries.extend(entries.last().cloned());
                note(&model);
            }
            append(log, entries).await
        }
        5 => {
            let term = model.vote.map_or(1, |vote| vote.leader_id.term + 1);
            let leader_id = LeaderId { term, voted_for: 3 };
            let committed = env.random_u64().is_multiple_of(2);
            let vote = Vote {
                leader_id,
                committed,
            };
            model.vote = Some(vote);
            note(&model);
            log.save_vote(&vote).await
        }
        6 => {
            model.committed = model.any(env).or(model.committed);
            note(&model);
            log.save_committed(model.committed).await
        }
        7 => {
            let Some(last) = model.any(env) else {
                return Ok(());
            };
            model.entries.retain(|entry| entry.log_id <= last);
            note(&model);
            log.truncate_after(Some(last)).await
        }
        _ => {
            let last = model.last().unwrap_or(log_id(0, 0));
            let beyond = log_id(last.leader_id.term, last.index + 2);
            let upto = model.any(env).unwrap_or(beyond);
            model.entries.retain(|entry| entry.log_id > upto);
            model.purged = Some(upto);
            note(&model);
            log.purge(upto).await
        }
    }
}

async fn live(env: Env, history: History) {
    let ready = async {
        env.create_dir_all(Path::new("/metadata")).await?;
        env.sync_dir(Path::new("/")).await
    };
    ready.await.expect("only logs meet a bad drive");
    let mut log = match Log::open(&env, Path::new("/metadata/log")).await {
        Ok(log) => log,
        Err(LogError::Journal(JournalError::Io { .. })) => return,
        Err(error) => panic!("{error}"),
    };
    let found = Model::of(log.clone()).await;
    {
        let history = &mut *history.borrow_mut();
        assert!(history.contains(&found), "{found:#?} of {history:#?}");
        *history = VecDeque::from([found]);
    }
    loop {
        let committed = history.borrow().back().and_then(|model| model.committed);
        if act(&env, &mut log, &history).await.is_err() {
            return;
        }
        let history = &mut *history.borrow_mut();
        // Saving only that is not waited for, so the one before it may be what is there.
        let last = history.back().expect("there is one");
        if last.committed == committed {
            history.drain(..history.len() - 1);
        }
    }
}

#[test]
fn a_log_is_found_as_it_was_acknowledged() {
    let mut longest = 0;
    for seed in 0..25 {
        let mut simulation = Simulation::new(seed, SimConfig::default());
        let mut random = Random::new(seed ^ 0x5eed);
        let node = simulation.add_node(Ipv4Addr::LOCALHOST.into(), 1, 64 << 20);
        let history: History = Rc::new(RefCell::new(VecDeque::from([Model::default()])));
        for _ in 0..4 {
            let share = if random.chance(0.3) { 0.01 } else { 0.0 };
            simulation.start(node, |env| {
                let history = history.clone();
                async move {
                    live(env, history).await;
                    pending().await
                }
            });
            simulation.run_for(Duration::from_millis(5));
            let faults = DiskFaults {
                write_error: share,
                sync_error: share,
                ..DiskFaults::NONE
            };
            simulation.set_disk_faults(node, faults);
            simulation.run_for(Duration::from_millis(random.below(150)));
            simulation.set_disk_faults(node, DiskFaults::NONE);
            let how = match random.chance(0.5) {
                true => Crash::Power,
                false => Crash::Process,
            };
            simulation.crash(node, how);
            let files = simulation.files(node);
            longest = files.iter().map(|(_, len)| *len).fold(longest, u64::max);
        }
    }
    // Less than half of it is of no use, but for the first megabyte.
    println!("the longest file had {longest} bytes");
    assert!(longest < 2 << 20, "{longest} bytes");
}

/// Makes a snapshot and purges what it has.
async fn with_snapshot(env: Env) {
    env.create_dir_all(Path::new("/data")).await.unwrap();
    let opened = open(&env, Path::new("/data"), Tables::default()).await;
    let (mut log, mut machine): (Log, Machine<Tables>) = opened.unwrap();
    let entries: Vec<Entry> = (1..5).map(|index| entry(log_id(1, index), 9)).collect();
    append(&mut log, entries.clone()).await.unwrap();
    let applied = entries.into_iter().map(|entry| Ok((entry, None)));
    let applied = futures_util::stream::iter(applied);
    machine.apply(applied).await.unwrap();
    let mut builder = machine.get_snapshot_builder().await;
    let snapshot = builder.build_snapshot().await.unwrap();
    assert_eq!(snapshot.snapshot.metadata.epoch(), 4);
    log.purge(log_id(1, 4)).await.unwrap();
}

/// Why it does not open, if it does not.
async fn opened(env: Env) -> Result<Option<LogId>, String> {
    let opened = open(&env, Path::new("/data"), Tables::default()).await;
    let told = |error: OpenError| error.to_string();
    opened
        .map(|(_, machine)| machine.snapshot_last())
        .map_err(told)
}

#[test]
fn a_snapshot_that_is_damaged_or_gone_is_told() {
    let mut desk = Desk::new();
    desk.run(with_snapshot);
    assert_eq!(desk.run(opened), Ok(Some(log_id(1, 4))));
    let snapshot = Path::new("/data/metadata/snapshot");
    desk.simulation
        .flip_bit(desk.node, snapshot, 30, 0)
        .unwrap();
    let error = desk.run(opened).expect_err("it is damaged");
    let told = "the snapshot /data/metadata/snapshot of the cluster's metadata: its checksum says";
    assert!(error.starts_with(told), "{error}");
    desk.run(async |env: Env| env.remove_file(snapshot).await.unwrap());
    let error = desk.run(opened).expect_err("it is gone");
    assert!(
        error.starts_with("the log in /data/metadata begins behind entry 4"),
        "{error}"
    );
}
