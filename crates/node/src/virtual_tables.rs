//! Reading what the node makes on the fly: the rows are made of what all shards tell, and then
//! read as if they were a memtable.

use std::collections::BTreeMap;
use std::rc::Rc;

use model::{ReadCommand, ReadPage};
use storage::{ReadError, StoreStats};

use crate::message::{ShardInformation, ShardReply, ShardRequest};
use crate::shard::Shard;
use crate::system::{self, CacheInfo, NodeInfo, TableInfo};

/// Reads a virtual table.
pub(crate) async fn read(shard: &Rc<Shard>, command: &ReadCommand) -> Result<ReadPage, ReadError> {
    let mut shards = vec![inform(shard)];
    for other in shard.others() {
        match shard.ask(other, ShardRequest::Inform).await {
            Ok(ShardReply::Information(information)) => shards.push(*information),
            _ => return Err(ReadError::Closed),
        }
    }
    let metadata = shard.metadata();
    let local = shard.local();
    let info = NodeInfo {
        schema: &metadata.schema,
        local: &local,
        caches: vec![chunk_cache(shards.iter().map(|shard| &shard.store))],
        thread_pools: Vec::new(),
        sstable_tasks: Vec::new(),
        settings: BTreeMap::new(),
        prepared_statements: shards[0].prepared_statements,
        prepared_statements_evicted: shards.iter().map(|shard| shard.prepared_evicted).sum(),
        prepared_statements_executed: shards.iter().map(|shard| shard.executed.0).sum(),
        regular_statements_executed: shards.iter().map(|shard| shard.executed.1).sum(),
        tables: tables(shards.iter().map(|shard| &shard.store)),
        clients: shards.into_iter().flat_map(|shard| shard.clients).collect(),
    };
    let partitions = system::virtual_rows(&command.table, &info);
    storage::read_partitions(&shard.env, command, partitions).await
}

/// What this shard tells.
pub(crate) fn inform(shard: &Shard) -> ShardInformation {
    ShardInformation {
        clients: shard.clients.infos(),
        store: shard.store.stats(),
        prepared_statements: shard.metrics.prepared_statements.get(),
        prepared_evicted: shard.metrics.prepared_evicted.get(),
        executed: (
            shard.metrics.prepared_executed.get(),
            shard.metrics.text_executed.get(),
        ),
    }
}

fn chunk_cache<'s>(stores: impl Iterator<Item = &'s StoreStats>) -> CacheInfo {
    let mut cache = CacheInfo {
        name: "chunks".to_owned(),
        capacity: 0,
        size: 0,
        entries: 0,
        hits: 0,
        requests: 0,
    };
    for store in stores {
        let chunks = &store.chunk_cache;
        cache.capacity += chunks.capacity as u64;
        cache.size += chunks.size as u64;
        cache.entries += chunks.chunks as u64;
        cache.hits += chunks.hits;
        cache.requests += chunks.hits + chunks.misses;
    }
    cache
}

fn tables<'s>(
    stores: impl Iterator<Item = &'s StoreStats>,
) -> BTreeMap<(String, String), TableInfo> {
    let mut tables: BTreeMap<(String, String), TableInfo> = BTreeMap::new();
    for table in stores.flat_map(|store| &store.tables) {
        let key = (table.keyspace.clone(), table.name.clone());
        let info = tables.entry(key).or_default();
        info.disk_bytes += table.sstable_bytes;
        info.reads.count += table.key_reads;
        info.scans.count += table.range_reads;
        info.writes.count += table.writes;
    }
    tables
}
