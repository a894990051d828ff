//! Those who write to the store (see [`writes`](super::writes)) and read from it, and hold its answers against the
//! oracle.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use io::Env;
use model::{
    ClusteringSelection, DataLimits, DecoratedKey, PartitionBound, PartitionSelection, ReadCommand,
    ReadPage, Resume, Slice, Table, TableId, Token,
};
use storage::{CompactionError, CompactionScope, Granularity, ReadError, ScrubOptions, Store};

use super::indexes;
use super::operation;
use super::oracle::Shown;
use super::snapshots;
use super::tables::{self, COLUMNS};
use super::world::World;
use crate::Random;

/// One client of one shard.
pub(crate) struct Client {
    pub(crate) env: Env,
    pub(crate) store: Store,
    pub(crate) world: Rc<World>,
    /// How many of the alterations of tables this shard knows of.
    pub(crate) alterations: u64,
    pub(crate) random: Random,
    /// Rows that it reads again and again, so that the cache has them.
    pub(crate) favourites: Vec<(DecoratedKey, usize, Slice)>,
}

/// How many rows a client reads again and again.
const FAVOURITES: usize = 3;

/// The limits of a read that nothing limits.
const UNLIMITED: DataLimits = DataLimits {
    rows: u32::MAX,
    rows_per_partition: u32::MAX,
    bytes: u32::MAX,
};

impl Client {
    /// Works until there is nothing left to do or something is wrong.
    pub(crate) async fn run(mut self) {
        while self.world.goes_on() {
            self.learn_schema().await;
            let stats = self.store.stats();
            if stats.memtable_bytes > stats.memtable_limit {
                let (bytes, limit) = (stats.memtable_bytes, stats.memtable_limit);
                self.world
                    .fail(format!("memtables take {bytes} bytes of {limit}"));
            }
            let result = match self.random.below(1000) {
                0..400 => self.write().await,
                400..550 => self.write_together().await,
                550..800 => self.read_row().await,
                800..900 => self.read().await,
                900..940 => self.read_pages().await,
                940..960 => self.read_by_index().await,
                960..975 => self.flush().await,
                975..980 => self.compact().await,
                980..984 => {
                    self.world.alter(&mut self.random);
                    Ok(())
                }
                984 => self.snapshot().await,
                985..986 => {
                    self.store.stop_compactions(None);
                    let table = self.random.pick(&self.world.tables()).id;
                    let enabled = self.random.chance(80);
                    self.store.set_auto_compaction(table, enabled);
                    Ok(())
                }
                _ => {
                    let pause = self.random.below(20_000);
                    self.env.sleep(Duration::from_micros(pause)).await;
                    Ok(())
                }
            };
            if let Err(problem) = result {
                self.world.fail(problem);
            }
        }
    }

    async fn read(&mut self) -> Result<(), String> {
        let Some(key) = self.world.pick_key(&self.env, &mut self.random) else {
            self.env.yield_now().await;
            return Ok(());
        };
        let all = self.world.tables();
        let table = self.random.pick(&all).clone();
        let slice = match self.random.chance(50) {
            true => Slice::ALL,
            false => operation::slice(&mut self.random, &table),
        };
        let reversed = self.random.chance(30);
        let now = self.env.wall_seconds();
        let selection = PartitionSelection::Key(key.clone());
        let command = command(&table, selection, &slice, reversed, now);
        self.read_checked(&key, command).await
    }

    /// Reads some columns of one of its favourite rows.
    async fn read_row(&mut self) -> Result<(), String> {
        if self.favourites.len() >= FAVOURITES && self.random.chance(3) {
            let at = self.random.below(FAVOURITES as u64) as usize;
            self.favourites.swap_remove(at);
        }
        if self.favourites.len() < FAVOURITES {
            let Some(key) = self.world.pick_key(&self.env, &mut self.random) else {
                self.env.yield_now().await;
                return Ok(());
            };
            let slice = operation::row_slice(&mut self.random);
            let table = self.random.below(3) as usize;
            self.favourites.push((key, table, slice));
        }
        let (key, table, slice) = self.random.pick(&self.favourites).clone();
        let table = self.world.tables()[table].clone();
        let now = self.env.wall_seconds();
        let selection = PartitionSelection::Key(key.clone());
        let mut command = command(&table, selection, &slice, false, now);
        let simple = [COLUMNS.number, COLUMNS.blob];
        command.columns = match self.random.below(4) {
            0 => simple[..1].to_vec(),
            1 => simple[1..].to_vec(),
            _ => simple.to_vec(),
        };
        self.read_checked(&key, command).await
    }

    async fn read_checked(
        &mut self,
        key: &DecoratedKey,
        command: ReadCommand,
    ) -> Result<(), String> {
        let observation = self.world.oracle.borrow_mut().observe(key);
        let (now, table) = (command.now_seconds, command.table.clone());
        let (slice, reversed) = (&command.clustering.slices[0], command.clustering.reversed);
        let page = read(&self.store, &command).await;
        let page = match page {
            Ok(page) => page,
            Err(error) if self.world.has_disk_faults() => {
                tracing::debug!("a read failed: {error}");
                return Ok(());
            }
            Err(error) => return Err(format!("a read failed: {error}")),
        };
        if page.more {
            return Err("a page without limits says that there is more".to_owned());
        }
        let shown = self::shown(page, reversed);
        let checked = {
            let mut oracle = self.world.oracle.borrow_mut();
            let seen = (table.id, &command.columns[..]);
            oracle.check(observation, seen, slice, now, &shown)
        };
        match checked {
            Ok(()) => Ok(()),
            Err(problem) => Err(problem + &self.look_again(&command).await),
        }
    }

    /// What a read of the whole partition shows where a read of a part of it was wrong: is the
    /// content wrong, or the way to it?
    async fn look_again(&self, command: &ReadCommand) -> String {
        let mut command = command.clone();
        command.clustering.slices = vec![Slice::ALL];
        command.resume = None;
        command.limits = UNLIMITED;
        let clusterings = |page: ReadPage| {
            let rows = page.partitions.into_iter().flat_map(|p| p.rows);
            rows.map(|row| row.clustering).collect::<Vec<_>>()
        };
        match read(&self.store, &command).await {
            Ok(page) => format!("\na read of all of it shows {:?}", clusterings(page)),
            Err(error) => format!("\na read of all of it fails: {error}"),
        }
    }

    /// Reads a partition in small pages, while nobody writes to it.
    async fn read_pages(&mut self) -> Result<(), String> {
        let Some(key) = self.world.pick_key(&self.env, &mut self.random) else {
            self.env.yield_now().await;
            return Ok(());
        };
        if self.world.oracle.borrow().is_undecided(&key) {
            return Ok(());
        }
        self.world.lock(&key);
        let result = self.read_locked(&key).await;
        self.world.unlock(&key);
        result
    }

    async fn read_locked(&mut self, key: &DecoratedKey) -> Result<(), String> {
        let all = self.world.tables();
        let table = self.random.pick(&all).clone();
        let slice = operation::slice(&mut self.random, &table);
        let reversed = self.random.chance(50);
        let now = self.env.wall_seconds();
        let observation = self.world.oracle.borrow_mut().observe(key);
        let selection = PartitionSelection::Key(key.clone());
        let mut command = command(&table, selection, &slice, reversed, now);
        command.limits.rows = 1 + self.random.below(5) as u32;
        let mut all = Shown::default();
        loop {
            let page = match read(&self.store, &command).await {
                Ok(page) => page,
                Err(_) if self.world.has_disk_faults() => return Ok(()),
                Err(error) => return Err(format!("a paged read failed: {error}")),
            };
            let more = page.more;
            let last = page.partitions.last().cloned();
            let part = shown(page, false);
            all.static_row = all.static_row.or(part.static_row);
            all.rows.extend(part.rows);
            let Some(last) = last.filter(|_| more) else {
                break;
            };
            command.resume = Some(Resume {
                key: last.key,
                clustering: last.rows.last().map(|row| row.clustering.clone()),
                remaining_in_partition: u32::MAX,
            });
        }
        if reversed {
            all.rows.reverse();
        }
        let checked = {
            let mut oracle = self.world.oracle.borrow_mut();
            let seen = (table.id, &command.columns[..]);
            oracle.check(observation, seen, &slice, now, &all)
        };
        match checked {
            Ok(()) => Ok(()),
            Err(problem) => Err(format!(
                "in pages of {} rows, reversed: {reversed}, the last from {:?}: {problem}{}",
                command.limits.rows,
                command.resume.as_ref().map(|resume| &resume.clustering),
                self.look_again(&command).await
            )),
        }
    }

    /// Reads a partition by an index, while nobody writes to it.
    async fn read_by_index(&mut self) -> Result<(), String> {
        let Some(key) = self.world.pick_key(&self.env, &mut self.random) else {
            self.env.yield_now().await;
            return Ok(());
        };
        self.world.lock(&key);
        let under_way = self.world.oracle.borrow().is_undecided(&key);
        let result = match under_way {
            true => Ok(true),
            false => {
                let (store, world) = (&self.store, &self.world);
                let now = self.env.wall_seconds();
                indexes::check(store, world, &mut self.random, &key, now).await
            }
        };
        self.world.unlock(&key);
        result.map(drop)
    }

    async fn flush(&mut self) -> Result<(), String> {
        match self.store.flush(None).await {
            Err(error) if !self.world.may_writing_fail() => Err(format!("a flush failed: {error}")),
            _ => Ok(()),
        }
    }

    /// Makes a snapshot, removes one, or imports what is in one.
    async fn snapshot(&mut self) -> Result<(), String> {
        let (env, store, world) = (&self.env, &self.store, &self.world);
        let random = &mut self.random;
        match random.below(6) {
            0..3 => snapshots::take(env, store, world, random).await,
            3 => snapshots::clear(store, world, random).await,
            _ => snapshots::import(env, store, world, random).await,
        }
    }

    /// Goes over to the tables as they are now.
    async fn learn_schema(&mut self) {
        let now = self.world.alterations();
        if self.alterations == now {
            return;
        }
        self.alterations = now;
        let schema = tables::schema(&self.world.tables());
        if let Err(error) = self.store.set_schema(&schema).await {
            self.world
                .fail(format!("tables cannot be altered: {error}"));
        }
    }

    /// One of the things that people ask of compaction.
    async fn compact(&mut self) -> Result<(), String> {
        let table = self.random.pick(&self.world.tables()).id;
        let store = &self.store;
        let done = match self.random.below(10) {
            0..3 => {
                let split_output = self.random.chance(50);
                let scope = CompactionScope::All { split_output };
                store.compact_scope(table, scope).await
            }
            3 => {
                let mut token = || Token(self.random.next_u64() as i64);
                let scope = CompactionScope::Ranges(vec![(token(), token())]);
                store.compact_scope(table, scope).await
            }
            4 => store.garbage_collect(table, Granularity::Row).await,
            5 => store.garbage_collect(table, Granularity::Cell).await,
            6 => store.cleanup(table).await,
            7..9 => match store.scrub(table, ScrubOptions::default()).await {
                Ok(scrubbed) if scrubbed.report.is_loss() || scrubbed.report.late > 0 => {
                    return Err(format!("a scrub: {}", scrubbed.report));
                }
                done => done.map(|scrubbed| scrubbed.sstables),
            },
            _ => store.upgrade_sstables(table, true, i64::MAX).await,
        };
        match done {
            Ok(_) | Err(CompactionError::Cancelled) => Ok(()),
            Err(_) if self.world.may_writing_fail() => Ok(()),
            Err(error) => Err(format!("a compaction failed: {error}")),
        }
    }
}

/// A read of all columns.
pub(super) fn command(
    table: &Arc<Table>,
    partitions: PartitionSelection,
    slice: &Slice,
    reversed: bool,
    now_seconds: u32,
) -> ReadCommand {
    ReadCommand {
        table: table.clone(),
        partitions,
        clustering: ClusteringSelection {
            slices: vec![slice.clone()],
            reversed,
        },
        columns: tables::all_columns(),
        filters: Vec::new(),
        limits: UNLIMITED,
        now_seconds,
        resume: None,
        bypass_cache: false,
        packed: false,
    }
}

/// Asks a store; whether rows come packed, as a memtable has them, depends on the time.
pub(super) async fn read(store: &Store, command: &ReadCommand) -> Result<ReadPage, ReadError> {
    let mut command = Cow::Borrowed(command);
    if command.now_seconds % 2 == 0 {
        command.to_mut().packed = true;
    }
    let mut page = store.read(&command).await?;
    for partition in &mut page.partitions {
        partition.unpack();
        let rows = partition.rows.iter_mut();
        rows.for_each(|row| row.retain_columns(&command.columns));
    }
    Ok(page)
}

/// What a page of one partition shows, in the order of the table.
pub(super) fn shown(page: ReadPage, reversed: bool) -> Shown {
    let mut shown = Shown::default();
    for partition in page.partitions {
        shown.static_row = partition.static_row;
        shown.rows.extend(partition.rows);
    }
    if reversed {
        shown.rows.reverse();
    }
    shown
}

/// Reads every key of a shard, with nothing under way, and settles what is undecided; then reads
/// all of it once more in pages of ranges.
pub(crate) async fn settle(
    env: &Env,
    store: &Store,
    world: &World,
    random: &mut Random,
) -> Result<(), String> {
    let now = env.wall_seconds();
    let mut all: BTreeMap<TableId, BTreeMap<DecoratedKey, Shown>> = BTreeMap::new();
    for key in world.keys_of(env) {
        let mut of_key = BTreeMap::new();
        for table in world.tables() {
            let selection = PartitionSelection::Key(key.clone());
            let command = command(&table, selection, &Slice::ALL, false, now);
            let page = read(store, &command).await;
            let page = page.map_err(|error| format!("a read after a restart failed: {error}"))?;
            let shown = shown(page, false);
            if shown != Shown::default() {
                let of_table = all.entry(table.id).or_default();
                of_table.insert(key.clone(), shown.clone());
            }
            of_key.insert(table.id, shown);
        }
        let settled = world.oracle.borrow_mut().settle(&key, now, &of_key)?;
        if !settled {
            wipe(env, store, world, &key).await?;
            for shown in all.values_mut() {
                shown.remove(&key);
            }
        }
    }
    for key in world.keys_of(env) {
        indexes::check_all(env, store, world, random, (&key, now)).await?;
    }
    for table in world.tables() {
        let scanned = scan(store, &table, now, random).await?;
        let expected = all.remove(&table.id).unwrap_or_default();
        if scanned != expected {
            let differing = |key: &&DecoratedKey| scanned.get(*key) != expected.get(*key);
            let key = scanned.keys().chain(expected.keys()).find(differing);
            let shown = |all: &BTreeMap<DecoratedKey, Shown>| {
                key.and_then(|key| all.get(key))
                    .cloned()
                    .unwrap_or_default()
            };
            return Err(format!(
                "a scan of {} differs from reads of its keys at {key:?}:\n{}",
                table.name,
                shown(&expected).difference(&shown(&scanned)),
            ));
        }
    }
    Ok(())
}

/// Deletes all of a key, later than everything written to it.
async fn wipe(env: &Env, store: &Store, world: &World, key: &DecoratedKey) -> Result<(), String> {
    let moment = world.far_moment(env);
    let mutation = operation::wipe(key, &world.tables(), moment);
    let id = world.oracle.borrow_mut().begin(&mutation);
    let written = store.apply(mutation).await;
    written.map_err(|error| format!("a write after a restart failed: {error}"))?;
    let mut oracle = world.oracle.borrow_mut();
    oracle.acknowledged(key, id);
    oracle.wiped(key);
    Ok(())
}

/// All partitions of a table on a shard, read in pages.
pub(super) async fn scan(
    store: &Store,
    table: &Arc<Table>,
    now: u32,
    random: &mut Random,
) -> Result<BTreeMap<DecoratedKey, Shown>, String> {
    let selection = PartitionSelection::Range {
        start: PartitionBound::Unbounded,
        end: PartitionBound::Unbounded,
    };
    let mut command = command(table, selection, &Slice::ALL, false, now);
    command.limits.rows = 1 + random.below(100) as u32;
    let mut all: BTreeMap<DecoratedKey, Shown> = BTreeMap::new();
    loop {
        let page = read(store, &command).await;
        let page = page.map_err(|error| format!("a scan failed: {error}"))?;
        let last = page.partitions.last().cloned();
        for partition in page.partitions {
            let shown = all.entry(partition.key).or_default();
            shown.static_row = partition.static_row;
            shown.rows.extend(partition.rows);
        }
        let Some(last) = last.filter(|_| page.more) else {
            return Ok(all);
        };
        command.resume = Some(Resume {
            key: last.key,
            clustering: last.rows.last().map(|row| row.clustering.clone()),
            remaining_in_partition: u32::MAX,
        });
    }
}
