//! One compaction.
//!
//! The inputs stay readable until the outputs are; then a transaction
//! ([`crate::compaction::transaction`]) sees to it that a crash leaves either all of the inputs or
//! all of the outputs. Inputs of which nothing is needed any more are not read
//! ([`fully_expired`]).

use std::rc::Rc;
use std::sync::Arc;

use io::TaskGroup;
use model::Table;

use super::super::Inner;
use super::super::table::{CarryOver, TableStore, add, is_same};
use super::outputs::{Outputs, write_partition};
use super::progress::Progress;
use super::purging::Purging;
use super::running::{CompactionKind, Running};
use super::shadow::Shadow;
use super::{Granularity, RETRY, repaired_at};
use crate::compaction::transaction::{Transaction, TransactionError};
use crate::compaction::{Cut, Cutter, fully_expired};
use crate::error::CompactionError;
use crate::merge::{ChainScan, MergedScan, ScanSource};
use crate::space::{Reservation, usable};
use crate::sstable::{
    Descriptor, EncodingStats, SSTable, ScanOptions, WriterOptions, output_format,
};

/// How far all inputs together are read ahead, in bytes.
const READ_AHEAD: u64 = 16 << 20;

/// A compaction to do.
pub(super) struct Job {
    pub(super) table: Rc<TableStore>,
    pub(super) kind: CompactionKind,
    /// With the bytes on disk that are this shard's.
    pub(super) inputs: Vec<(SSTable, u64)>,
    /// The level of the outputs.
    pub(super) level: u32,
    pub(super) cut: Cut,
    /// Is what deletions in other sstables cover dropped as well?
    pub(super) shadows: Option<Granularity>,
}

impl Job {
    /// Bytes on disk.
    pub(super) fn bytes(&self) -> u64 {
        self.inputs.iter().map(|(_, size)| size).sum()
    }

    fn sstables(&self) -> Vec<SSTable> {
        self.inputs
            .iter()
            .map(|(sstable, _)| sstable.clone())
            .collect()
    }
}

pub(super) fn failed(error: TransactionError) -> CompactionError {
    CompactionError::Io {
        path: error.path,
        error: error.error,
    }
}

/// Which of the inputs (level and bytes, none of those that are not read) stays away from a
/// compaction into a level for which there is too little room; `None` if all have to be there.
fn stays_away(level: u32, inputs: &[(u32, u64)]) -> Option<usize> {
    let read = || inputs.iter().enumerate().filter(|(_, (_, size))| *size > 0);
    let largest = match level {
        // Fewer than two are not worth it, but expired ones go without room.
        0 if inputs.len() > 2 || read().count() < inputs.len() => {
            read().max_by_key(|(_, (_, size))| *size)
        }
        // Those of level 1 must be there, or its files would overlap; and one of level 0, or there
        // is no point in it.
        1 => {
            let of_level_0 = || read().filter(|(_, (level, _))| *level == 0);
            let largest = of_level_0().max_by_key(|(_, (_, size))| *size);
            largest.filter(|_| of_level_0().count() > 1)
        }
        _ => None,
    };
    largest.map(|(at, _)| at)
}

impl Inner {
    /// Does it. The inputs must be free.
    pub(super) async fn run(self: &Rc<Inner>, mut job: Job) -> Result<(), CompactionError> {
        if job.inputs.is_empty() {
            return Ok(());
        }
        let inputs = job.sstables();
        let descriptors = inputs.iter().map(|i| i.descriptor().clone()).collect();
        let total = inputs.iter().map(SSTable::data_length).sum();
        let bytes = (job.bytes(), total);
        // From here on they are not free, whatever waits.
        let place = self
            .compactions
            .enter(job.kind, &job.table, descriptors, bytes);
        // What is not read takes no room in the outputs: a full drive must not keep it.
        let needed = self.needed(&job);
        for (sstable, size) in &mut job.inputs {
            let mut needed = needed.iter();
            if !needed.any(|n| is_same(n.descriptor(), sstable.descriptor())) {
                *size = 0;
            }
        }
        let result = match self.fit_into_space(&mut job).await {
            Ok(room) => {
                place.running.take_room(room);
                self.rewrite(&job, &place.running).await
            }
            Err(no_room) => Err(no_room),
        };
        if let Err(error) = &result
            && !self.compaction_failed(&job.table, error)
        {
            job.table.compaction.rest(self.env.now() + RETRY);
        }
        drop(place);
        self.compaction_work.notify_one();
        result
    }

    /// Leaves as many of the inputs as there is room for an output of their size: the largest stay
    /// away first, as in Cassandra
    /// (`CompactionTask.buildCompactionCandidatesForAvailableDiskSpace`). What other compactions, of
    /// all shards, have still to write is taken already.
    async fn fit_into_space(&self, job: &mut Job) -> Result<Reservation, CompactionError> {
        let dir = &job.table.dir;
        let available = self.env.available_space(dir).await;
        let available = available.map_err(|error| CompactionError::Io {
            path: dir.clone(),
            error,
        })?;
        let (space, usable) = (&self.config.shared.space, usable(available));
        loop {
            let needed = job.bytes();
            if needed == 0 {
                return Ok(space.reserve(0));
            }
            if let Some(room) = space.reserve_within(needed, usable) {
                return Ok(room);
            }
            let sizes = job.inputs.iter();
            let sizes: Vec<(u32, u64)> = sizes.map(|(s, size)| (s.stats().level, *size)).collect();
            let Some(at) = stays_away(job.level, &sizes) else {
                return Err(CompactionError::NoSpace {
                    path: dir.clone(),
                    needed,
                    available: usable.saturating_sub(space.reserved()),
                });
            };
            job.inputs.remove(at);
        }
    }

    async fn rewrite(
        self: &Rc<Inner>,
        job: &Job,
        running: &Running,
    ) -> Result<(), CompactionError> {
        let (table, inputs) = (&job.table, job.sstables());
        let operation = job.kind.operation();
        let begun = Transaction::begin(&self.env, &table.dir, operation).await;
        let mut transaction = begun.map_err(failed)?;
        let written = self.write_outputs(job, running, &mut transaction).await;
        self.replace((table, running), &inputs, transaction, written)
            .await
    }

    /// Puts the outputs in the place of the inputs, unless there are none or the table has changed
    /// meanwhile.
    pub(super) async fn replace(
        &self,
        (table, running): (&Rc<TableStore>, &Running),
        inputs: &[SSTable],
        mut transaction: Transaction,
        written: Result<Vec<SSTable>, CompactionError>,
    ) -> Result<(), CompactionError> {
        let unchanged = || table.has_all(inputs) && !table.is_blocked() && !table.dropped.get();
        let outputs = match written {
            Ok(outputs) if unchanged() => outputs,
            given_up => {
                let error = given_up.err().unwrap_or(CompactionError::Cancelled);
                let cleaned = transaction.finish().await;
                if let Err(failure) = cleaned.map_err(failed) {
                    tracing::warn!("removing what is left of a compaction: {failure}");
                    self.compaction_failed(table, &failure);
                    table.strays.set(true);
                }
                return Err(error);
            }
        };
        for output in &outputs {
            add(&table.counters.compacted_bytes, output.disk_size());
        }
        add(&table.counters.compactions, 1);
        let schema = table.table();
        let name = (&*schema.keyspace, &*schema.name);
        self.remember(running, name, (inputs, &outputs));
        let (shared, own): (Vec<&SSTable>, Vec<&SSTable>) =
            inputs.iter().partition(|input| table.is_shared(input));
        let own: Vec<Descriptor> = own.iter().map(|o| o.descriptor().clone()).collect();
        // A truncation must not be over before the inputs are gone, which it knows nothing of.
        table.enter();
        // First on the drive: what other compactions forget because the inputs are gone must not be
        // missed when they come back.
        let committed = transaction.commit(&own).await.map_err(failed);
        if committed.is_err() {
            // Whether it has happened the next start will see. The outputs say the same.
            table.strays.set(true);
        }
        if running.forgets() {
            table.has_forgotten(inputs);
        }
        table.replace_sstables(inputs, outputs, self.env.wall_seconds());
        self.memory.tell_caches();
        if running.kind() == CompactionKind::Scrub {
            // It leaves out what is damaged.
            table.forget_cached();
        }
        let removed = match committed {
            Ok(()) => self.remove_inputs(table, &shared, transaction).await,
            Err(error) => Err(error),
        };
        if removed.is_ok() {
            for descriptor in &own {
                table.files_gone(descriptor);
            }
        }
        table.leave();
        removed
    }

    /// Removes what was compacted, in one step as far as a start can see.
    async fn remove_inputs(
        &self,
        table: &TableStore,
        shared: &[&SSTable],
        transaction: Transaction,
    ) -> Result<(), CompactionError> {
        let removed = async {
            // A snapshot may be about to link them.
            table.removable().await;
            transaction.finish().await.map_err(failed)?;
            for sstable in shared {
                self.remove_sstable(table, sstable).await?;
            }
            Ok(())
        };
        let removed = removed.await;
        if removed.is_err() {
            table.strays.set(true);
        }
        removed
    }

    async fn write_outputs(
        self: &Rc<Inner>,
        job: &Job,
        running: &Running,
        transaction: &mut Transaction,
    ) -> Result<Vec<SSTable>, CompactionError> {
        let table = &job.table;
        let (inputs, all) = (self.needed(job), job.sstables());
        // What is not read may be newer than what is cached.
        let carry_over = match inputs.len() == all.len() {
            true => CarryOver::new(table, &all),
            false => None,
        };
        let (schema, inputs) = self.with_dropped(table.table(), inputs).await?;
        let options = self.writer_options(job, &inputs);
        let format = output_format(self.config.sstable_format, &inputs, self.env.wall_seconds());
        let mut outputs = Outputs::new(
            (self, table),
            schema.clone(),
            transaction,
            (options, format),
            Cutter::new(job.cut.clone(), job.level),
        );
        let purging = Purging::new(self, table, &all, &schema);
        if purging.may_forget() {
            running.set_forgets();
        }
        let mut scan = self.scan(table, &inputs, &schema);
        let progress = Progress::new(self, table, &inputs, running);
        let mut written = 0;
        let shadowed: Vec<Descriptor> = inputs.iter().map(|i| i.descriptor().clone()).collect();
        while let Some(mut head) = scan.next_partition().await? {
            progress.go_on()?;
            progress.at(head.key.token(), written);
            running.count_merged(scan.sources());
            let purge = purging.of(&head.key);
            let mut shadow = match job.shadows {
                Some(granularity) => {
                    Shadow::of(self, table, &shadowed, &head.key, granularity).await?
                }
                None => None,
            };
            if let Some(shadow) = &shadow {
                shadow.fall_on_head(&mut head);
            }
            let writer = outputs.writer_for(head.key.token()).await?;
            let before = writer.data_length();
            progress.behind_outputs(written.saturating_sub(before));
            let context = (&purge, &progress, carry_over.as_ref());
            write_partition(writer, (&mut scan, &mut shadow), head, context).await?;
            written += writer.data_length() - before;
            self.env.maybe_yield().await;
        }
        outputs.finish().await
    }

    /// The inputs that have to be read.
    fn needed(&self, job: &Job) -> Vec<SSTable> {
        let (candidates, sstables) = self.candidates(&job.table);
        let is_input = |sstable: &SSTable| {
            let mut inputs = job.inputs.iter();
            inputs.any(|(input, _)| is_same(input.descriptor(), sstable.descriptor()))
        };
        let ids: Vec<usize> = candidates
            .iter()
            .map(|candidate| candidate.id)
            .filter(|id| is_input(&sstables[*id]))
            .collect();
        let expired = fully_expired(&ids, &self.situation(&job.table, &candidates));
        if !expired.is_empty() {
            let table = job.table.table();
            let (keyspace, name, count) = (&table.keyspace, &table.name, expired.len());
            tracing::debug!("{keyspace}.{name}: {count} expired sstables go without being read");
        }
        let is_expired = |sstable: &SSTable| {
            let mut expired = expired.iter();
            expired.any(|id| is_same(sstables[*id].descriptor(), sstable.descriptor()))
        };
        let inputs = job.sstables().into_iter();
        inputs.filter(|input| !is_expired(input)).collect()
    }

    fn writer_options(&self, job: &Job, inputs: &[SSTable]) -> WriterOptions {
        let shards = u64::from(self.config.sharder.shards());
        let of_shard = |input: &SSTable| match job.table.is_shared(input) {
            true => input.partitions().div_ceil(shards),
            false => input.partitions(),
        };
        let partitions: u64 = inputs.iter().map(of_shard).sum();
        let encoding = inputs
            .iter()
            .map(SSTable::encoding_stats)
            .reduce(EncodingStats::merge)
            .unwrap_or_default();
        let outputs = job.cut.expected_outputs(job.bytes());
        let repaired_at = inputs.iter().map(repaired_at).min();
        WriterOptions {
            // As one that is not repaired says 0, they are only if all inputs are.
            repaired_at: repaired_at.unwrap_or(0),
            partition_limits: self.partition_limits(&job.table),
            ..WriterOptions::new(partitions.div_ceil(outputs), encoding, self.origin())
        }
    }

    fn scan(&self, table: &TableStore, inputs: &[SSTable], schema: &Arc<Table>) -> MergedScan {
        let view = table.view();
        // Those that lie one behind the other, as the files of a level do, are one source, or a
        // large level would take memory for each of them.
        let chains = chains(inputs, |input| view.owner_of(input).is_some());
        let read_ahead = READ_AHEAD / (chains.len() as u64).max(1);
        let sources = chains.into_iter().map(|chain| {
            let options = ScanOptions {
                owner: chain.first().and_then(|input| view.owner_of(input)),
                read_ahead: read_ahead.clamp(64 << 10, 1 << 20),
                group: TaskGroup::Compaction,
                ..ScanOptions::default()
            };
            ScanSource::Chain(Box::new(ChainScan::new(
                &self.env,
                schema.clone(),
                chain,
                options,
            )))
        });
        MergedScan::new(&self.env, schema.clone(), sources.collect())
    }
}

/// The sstables in as few chains as there can be: in each they lie one behind the other on the
/// ring, and are all of this shard or all of several.
fn chains(inputs: &[SSTable], is_shared: impl Fn(&SSTable) -> bool) -> Vec<Vec<SSTable>> {
    let mut sorted = inputs.to_vec();
    sorted.sort_by(|a, b| a.first_key().cmp(b.first_key()));
    let mut chains: Vec<Vec<SSTable>> = Vec::new();
    for input in sorted {
        let free = chains.iter_mut().find(|chain| {
            let mut last = chain.last().into_iter();
            last.any(|l| l.last_key() < input.first_key() && is_shared(l) == is_shared(&input))
        });
        match free {
            Some(chain) => chain.push(input),
            None => chains.push(vec![input]),
        }
    }
    chains
}

#[cfg(test)]
mod tests {
    use super::stays_away;

    #[test]
    fn the_largest_stay_away_down_to_two() {
        assert_eq!(stays_away(0, &[(0, 10), (0, 30), (0, 20)]), Some(1));
        assert_eq!(stays_away(0, &[(0, 10), (0, 20)]), None);
        assert_eq!(stays_away(0, &[(0, 10)]), None);
    }

    #[test]
    fn expired_ones_go_whatever_stays_away() {
        assert_eq!(stays_away(0, &[(0, 0), (0, 10), (0, 30)]), Some(2));
        assert_eq!(stays_away(0, &[(0, 0), (0, 10)]), Some(1));
        assert_eq!(stays_away(0, &[(0, 0)]), None, "it takes no room");
    }

    #[test]
    fn levels_stay_as_they_are() {
        let inputs = [(0, 10), (1, 50), (0, 20), (0, 0)];
        assert_eq!(stays_away(1, &inputs), Some(2));
        assert_eq!(stays_away(1, &[(0, 10), (1, 50)]), None);
        assert_eq!(stays_away(2, &[(1, 10), (2, 50), (2, 5)]), None);
    }
}
