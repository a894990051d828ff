//! Compaction: some sstables of a table become one.
//!
//! One task a shard does one compaction after the other, as `SizeTieredCompactionStrategy` chooses
//! them, in [`TaskGroup::Compaction`](io::TaskGroup). The inputs stay readable until the output
//! is; then [`transaction`] sees to it that a crash leaves either all of the inputs or none.
//!
//! **Purging.** A deletion is forgotten when `gc_grace_seconds` have passed and nothing that it
//! could cover is left: nothing as old in any sstable that takes no part and may hold the
//! partition, nothing in a memtable that does, and nothing in the commit log, which a replay would
//! bring back. Once writing or removing an sstable has failed nothing is purged until the next
//! start, which sees what is really there. An sstable that other shards need too takes no
//! part in this sense, for it stays on disk and would come back with a restart.

use std::cell::RefCell;
use std::ops::Bound;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use io::{TaskGroup, oneshot};
use model::{DecoratedKey, DeletionTime, Purge, Table, TableId, murmur3_x64_128};

use super::table::{TableStore, add};
use super::{Inner, Store};
use crate::compaction::{Candidate, SizeTieredOptions, next_compaction, transaction};
use crate::error::CompactionError;
use crate::merge::{MergedScan, ScanSource};
use crate::sstable::{
    Component, Descriptor, EncodingStats, SSTable, ScanOptions, Writer, WriterOptions,
    folder as sstable_folder,
};
use crate::{PartitionHead, RangeTombstoneMarker, Unfiltered};

/// How long to wait after a compaction that failed.
const RETRY: Duration = Duration::from_secs(30);
/// How often to look for tombstones to purge where nothing else happens.
const LOOK_AGAIN: Duration = Duration::from_secs(600);

/// A compaction of all sstables of a table that somebody asked for.
pub(super) struct Major {
    table: Rc<TableStore>,
    waiter: oneshot::Sender<Result<(), CompactionError>>,
}

impl Store {
    /// Compacts all sstables of a table into one.
    pub async fn compact(&self, table: TableId) -> Result<(), CompactionError> {
        let inner = &self.inner;
        let table = inner
            .table(table)
            .ok_or(CompactionError::UnknownTable(table))?;
        let (waiter, receiver) = oneshot();
        inner.majors.borrow_mut().push_back(Major { table, waiter });
        inner.compaction_work.notify_one();
        receiver.await.unwrap_or(Err(CompactionError::Cancelled))
    }
}

impl Inner {
    /// Compacts until the store is closed.
    pub(super) async fn run_compactions(self: Rc<Inner>) {
        while !self.closed.get() {
            let major = self.majors.borrow_mut().pop_front();
            if let Some(Major { table, waiter }) = major {
                let inputs = table.sstables().to_vec();
                let result = self.compact(&table, inputs).await;
                let _ = waiter.send(result);
                continue;
            }
            let chosen = self.choose();
            let Some((table, inputs)) = chosen else {
                let work = self.compaction_work.notified();
                let _ = self.env.timeout(LOOK_AGAIN, work).await;
                continue;
            };
            match self.compact(&table, inputs).await {
                Ok(()) | Err(CompactionError::Cancelled) => {}
                Err(error) => {
                    let table = table.table();
                    add(&self.counters.failed_compactions, 1);
                    tracing::error!("compacting {}.{}: {error}", table.keyspace, table.name);
                    let work = self.stopping();
                    let _ = self.env.timeout(RETRY, work).await;
                }
            }
        }
        self.majors.borrow_mut().clear();
    }

    async fn stopping(&self) {
        while !self.closed.get() {
            self.compaction_work.notified().await;
        }
    }

    /// The next compaction that is worth it, of any table.
    fn choose(&self) -> Option<(Rc<TableStore>, Vec<SSTable>)> {
        if self.closed.get() || !self.ready.get() {
            return None;
        }
        let now = self.now_seconds();
        let tables = self.tables.borrow();
        // In turn, so that no table with much to compact keeps the others from it.
        let last = self.compacted_last.get();
        let behind = (Bound::Excluded(last), Bound::Unbounded);
        let in_turn = tables.range(behind).chain(tables.range(..=last));
        in_turn.map(|(_, table)| table).find_map(|table| {
            if table.is_blocked() {
                return None;
            }
            let schema = table.table();
            let gc_before = gc_before(now, &schema);
            let sstables = table.sstables();
            let suspects = table.suspects.borrow();
            let candidates: Vec<Candidate> = sstables
                .iter()
                .enumerate()
                .filter(|(_, sstable)| !suspects.contains(sstable.descriptor()))
                .map(|(at, sstable)| Candidate {
                    generation: at as u64,
                    size: sstable.disk_size(),
                    droppable_ratio: sstable.stats().droppable_tombstone_ratio(gc_before.into()),
                    age_seconds: table.age(sstable, now).into(),
                })
                .collect();
            let options = SizeTieredOptions::of(&schema.options);
            let chosen = next_compaction(&candidates, &options);
            let inputs: Vec<SSTable> = chosen
                .into_iter()
                .map(|at| sstables[at as usize].clone())
                .collect();
            if inputs.is_empty() {
                return None;
            }
            self.compacted_last.set(schema.id);
            Some((table.clone(), inputs))
        })
    }

    /// Seconds since 1970.
    pub(super) fn now_seconds(&self) -> u32 {
        u32::try_from(self.env.wall_micros() / 1_000_000).unwrap_or(0)
    }

    /// Compacts some sstables of a table into one.
    async fn compact(
        &self,
        table: &Rc<TableStore>,
        inputs: Vec<SSTable>,
    ) -> Result<(), CompactionError> {
        if inputs.is_empty() {
            return Ok(());
        }
        let inputs = self.with_space(table, inputs).await?;
        let running = &self.counters.running_compactions;
        running.set(running.get() + 1);
        let result = self.rewrite(table, &inputs).await;
        running.set(running.get().saturating_sub(1));
        if let Err(error) = &result
            && !matches!(
                error,
                CompactionError::Cancelled | CompactionError::NoSpace { .. }
            )
        {
            table.strays.set(true);
        }
        if let Err(CompactionError::Read(error)) = &result
            && error.is_corruption()
        {
            // Nobody knows which of them, short of taking the file's name apart.
            let text = error.to_string();
            let damaged = inputs
                .iter()
                .filter(|input| text.contains(&format!("{}-", input.descriptor().prefix())));
            let damaged = damaged.map(|input| input.descriptor().clone());
            table.suspects.borrow_mut().extend(damaged);
        }
        result
    }

    async fn rewrite(
        &self,
        table: &Rc<TableStore>,
        inputs: &[SSTable],
    ) -> Result<(), CompactionError> {
        let generation = table.next_generation();
        let descriptor = Descriptor::new(table.dir.clone(), self.config.sstable_format, generation);
        let output = match self.write_output(table, inputs, &descriptor).await {
            Ok(output) => output,
            Err(error) => {
                sstable_folder::discard(&self.env, &descriptor).await;
                return Err(error);
            }
        };
        let unchanged = || table.has_all(inputs) && !table.is_blocked() && !table.dropped.get();
        if !unchanged() {
            if let Some(output) = output {
                sstable_folder::remove(&self.env, output.descriptor()).await?;
            }
            return Err(CompactionError::Cancelled);
        }
        if let Some(output) = &output {
            add(&table.counters.compacted_bytes, output.disk_size());
        }
        add(&table.counters.compactions, 1);
        table.replace_sstables(inputs, output.into_iter().collect(), self.now_seconds());
        // A truncation must not be over before the inputs are gone, which it knows nothing of.
        table.enter();
        let removed = self.remove_inputs(table, inputs, generation).await;
        table.leave();
        removed
    }

    /// As many of the inputs as there is room for an output of their size: the largest stay away
    /// first, as in Cassandra (`CompactionTask.reduceScopeForLimitedSpace`).
    async fn with_space(
        &self,
        table: &TableStore,
        mut inputs: Vec<SSTable>,
    ) -> Result<Vec<SSTable>, CompactionError> {
        let available = self.env.available_space(&table.dir).await;
        let available = available.map_err(|error| CompactionError::Io {
            path: table.dir.clone(),
            error,
        })?;
        inputs.sort_by_key(SSTable::disk_size);
        loop {
            let needed: u64 = inputs.iter().map(SSTable::disk_size).sum();
            if needed <= available {
                return Ok(inputs);
            }
            if inputs.len() <= 2 {
                return Err(CompactionError::NoSpace {
                    path: table.dir.clone(),
                    needed,
                    available,
                });
            }
            inputs.pop();
        }
    }

    /// Removes what was compacted, in one step as far as a start can see.
    async fn remove_inputs(
        &self,
        table: &Rc<TableStore>,
        inputs: &[SSTable],
        generation: u64,
    ) -> Result<(), CompactionError> {
        let (shared, own): (Vec<&SSTable>, Vec<&SSTable>) =
            inputs.iter().partition(|input| table.is_shared(input));
        let names: Vec<Descriptor> = own.iter().map(|o| o.descriptor().clone()).collect();
        let at_dir = |error| CompactionError::Io {
            path: table.dir.clone(),
            error,
        };
        if !names.is_empty() {
            let committed = transaction::commit(&self.env, &table.dir, generation, &names).await;
            committed.map_err(at_dir)?;
            for sstable in own {
                self.remove_sstable(table, sstable).await?;
            }
            let finished = transaction::finish(&self.env, &table.dir, generation).await;
            finished.map_err(at_dir)?;
        }
        for sstable in shared {
            self.remove_sstable(table, sstable).await?;
        }
        Ok(())
    }

    async fn write_output(
        &self,
        table: &Rc<TableStore>,
        inputs: &[SSTable],
        descriptor: &Descriptor,
    ) -> Result<Option<SSTable>, CompactionError> {
        let schema = table.table();
        let partitions = inputs.iter().map(SSTable::partitions).sum();
        let encoding = inputs
            .iter()
            .map(SSTable::encoding_stats)
            .reduce(EncodingStats::merge)
            .unwrap_or_default();
        let options = WriterOptions::new(partitions, encoding, self.origin());
        let mut writer = Writer::create(&self.env, descriptor.clone(), &schema, options).await?;
        let mut scan = self.scan(table, inputs, &schema);
        let purging = Purging::new(self, table, inputs, &schema);
        while let Some(head) = scan.next_partition().await? {
            if self.closed.get() || table.is_blocked() {
                return Err(CompactionError::Cancelled);
            }
            let purge = purging.of(&head.key);
            write_partition(&mut writer, &mut scan, head, &purge, self).await?;
            self.env.maybe_yield().await;
        }
        if writer.finish().await?.is_none() {
            return Ok(None);
        }
        let schema = table.table();
        let opened = SSTable::open(&self.env, descriptor, &schema, &self.cache).await?;
        Ok(Some(opened))
    }

    fn scan(&self, table: &TableStore, inputs: &[SSTable], schema: &Arc<Table>) -> MergedScan {
        let view = table.view();
        let sources = inputs
            .iter()
            .map(|input| {
                let options = ScanOptions {
                    owner: view.owner_of(input),
                    read_ahead: 1 << 20,
                    group: TaskGroup::Compaction,
                    ..ScanOptions::default()
                };
                ScanSource::File(Box::new(input.scan(options)))
            })
            .collect();
        MergedScan::new(&self.env, schema.clone(), sources)
    }
}

/// Deletions with a local deletion time before this may be forgotten.
fn gc_before(now: u32, table: &Table) -> u32 {
    now.saturating_sub(u32::try_from(table.options.gc_grace_seconds).unwrap_or(0))
}

/// What may be forgotten of each partition.
struct Purging {
    now: u32,
    gc_before: u32,
    table: Rc<TableStore>,
    inputs: Vec<Descriptor>,
    /// Deletions with this timestamp or a later one stay, whatever partition they are of.
    limit: i64,
    /// The sstables of the table when last asked, and those of them that take no part.
    others: RefCell<(Rc<[SSTable]>, Vec<SSTable>)>,
}

impl Purging {
    fn new(inner: &Inner, table: &Rc<TableStore>, inputs: &[SSTable], schema: &Table) -> Purging {
        let shared = &inner.config.shared;
        let gone = |ghost: &SSTable| shared.is_gone(&ghost.descriptor().path(Component::Data));
        table.ghosts.borrow_mut().retain(|ghost| !gone(ghost));
        let now = inner.now_seconds();
        let own = inputs.iter().filter(|input| !table.is_shared(input));
        Purging {
            now,
            gc_before: gc_before(now, schema),
            table: table.clone(),
            inputs: own.map(|input| input.descriptor().clone()).collect(),
            limit: match SizeTieredOptions::of(&schema.options).only_purge_repaired_tombstones {
                // Nothing is ever repaired yet.
                true => i64::MIN,
                false => inner.log.oldest_timestamp(schema.id),
            },
            others: RefCell::new((Rc::new([]), table.ghosts.borrow().clone())),
        }
    }

    /// What may be forgotten of a partition.
    fn of(&self, key: &DecoratedKey) -> Purge {
        let view = self.table.view();
        let mut others = self.others.borrow_mut();
        // A flush while the compaction runs moves data from a memtable to an sstable.
        if !Rc::ptr_eq(&others.0, &view.sstables) {
            let takes_part = |sstable: &&SSTable| self.inputs.contains(sstable.descriptor());
            let mut apart: Vec<SSTable> = view
                .sstables
                .iter()
                .filter(|sstable| !takes_part(sstable))
                .cloned()
                .collect();
            apart.extend(self.table.ghosts.borrow().iter().cloned());
            *others = (view.sstables.clone(), apart);
        }
        let mut purgeable_before = match self.table.strays.get() {
            true => i64::MIN,
            false => self.limit,
        };
        let hash = murmur3_x64_128(key.key());
        for other in others.1.iter().filter(|other| other.may_contain(key, hash)) {
            purgeable_before = purgeable_before.min(other.stats().min_timestamp);
        }
        for memtable in &view.memtables {
            if memtable.get(key).is_some() {
                purgeable_before = purgeable_before.min(memtable.times().min_timestamp);
            }
        }
        Purge {
            now_seconds: self.now,
            gc_before: self.gc_before,
            purgeable_before,
        }
    }
}

async fn write_partition(
    writer: &mut Writer,
    scan: &mut MergedScan,
    mut head: PartitionHead,
    purge: &Purge,
    inner: &Inner,
) -> Result<(), CompactionError> {
    if purge.forgets(&head.deletion) {
        head.deletion = DeletionTime::LIVE;
    }
    if let Some(row) = &mut head.static_row {
        row.purge(purge);
    }
    head.static_row.take_if(|row| row.is_empty());
    let mut begun = !head.deletion.is_live() || head.static_row.is_some();
    if begun {
        writer.begin_partition(&head).await?;
    }
    let mut rows = 0u32;
    while let Some(item) = scan.next().await? {
        rows += 1;
        if rows.is_multiple_of(64) {
            inner.env.maybe_yield().await;
        }
        let Some(item) = purged(item, purge) else {
            continue;
        };
        if !begun {
            writer.begin_partition(&head).await?;
            begun = true;
        }
        writer.append(&item).await?;
    }
    if begun {
        writer.end_partition().await?;
    }
    Ok(())
}

/// What is left of an item.
fn purged(item: Unfiltered, purge: &Purge) -> Option<Unfiltered> {
    match item {
        Unfiltered::Row(mut row) => {
            row.purge(purge);
            (!row.is_empty()).then_some(Unfiltered::Row(row))
        }
        Unfiltered::Marker(marker) => {
            let keep = |deletion: Option<DeletionTime>| deletion.filter(|d| !purge.forgets(d));
            RangeTombstoneMarker::between(marker.bound, keep(marker.closes), keep(marker.opens))
                .map(Unfiltered::Marker)
        }
    }
}
