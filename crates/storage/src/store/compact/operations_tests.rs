//! What operations do that somebody asks for: of files, ranges and partitions, a cleanup, a scrub; watched, stopped,
//! and without room for what they write.

use model::{DecoratedKey, Sharder, Token};

use super::super::Store;
use super::super::tests::{config, open, schema};
use super::tests::{count, flush, int, names, overwritten, sstables, table};
use super::{CompactionKind, CompactionScope, ScrubOptions};
use crate::error::CompactionError;
use crate::sstable::{Component, SSTable};
use crate::testing::{TempDir, run};

#[test]
fn files_and_ranges_are_compacted_on_demand() {
    let folder = TempDir::new();
    let dir = folder.0.clone();
    run(move |env| async move {
        let (store, table) = overwritten(&env, dir).await;
        flush(&store, &table, 900..901, 30).await;
        let files = sstables(&store, &table);
        assert_eq!(files.len(), 3);
        let alone = files
            .iter()
            .find(|file| file.partitions() == 1)
            .expect("there is one");
        let token = alone.first_key().token().0;
        let elsewhere = vec![(Token(token + 1), Token(token - 1))];
        let store_of = |scope| store.compact_scope(table.id, scope);
        let none = CompactionScope::Partition(DecoratedKey::new(int(77_777)));
        assert_eq!(store_of(none).await.expect("nobody knows it"), 0);
        let there = CompactionScope::Partition(alone.first_key().clone());
        assert_eq!(store_of(there).await.expect("it is compacted"), 1);
        let compacted = store_of(CompactionScope::Ranges(elsewhere)).await;
        assert_eq!(compacted.expect("it is compacted"), 2);
        assert_eq!(sstables(&store, &table).len(), 2);
        let data = |file: &SSTable| {
            let path = file.descriptor().path(Component::Data);
            path.file_name()
                .expect("a name")
                .to_string_lossy()
                .into_owned()
        };
        let mut named: Vec<String> = sstables(&store, &table).iter().map(data).collect();
        named.push("nb-77-big-Data.db".to_owned());
        let compacted = store_of(CompactionScope::Files(named)).await;
        assert_eq!(compacted.expect("it is compacted"), 2);
        assert_eq!(sstables(&store, &table).len(), 1);
        let unknown = CompactionScope::Files(vec!["nb-77-big-Data.db".to_owned()]);
        assert_eq!(store_of(unknown).await.expect("nothing to do"), 0);
        let upgraded = |all| store.upgrade_sstables(table.id, all, i64::MAX);
        assert_eq!(upgraded(false).await.expect("nothing to do"), 0);
        assert_eq!(upgraded(true).await.expect("it is rewritten"), 1);
        assert_eq!(store.cleanup(table.id).await.expect("all of it is ours"), 0);
        assert_eq!(count(&store, &table).await, (201, 201));
    });
}

#[test]
fn a_compaction_can_be_watched_and_stopped() {
    let folder = TempDir::new();
    let dir = folder.0.clone();
    run(move |env| async move {
        let (store, table) = overwritten(&env, dir).await;
        flush(&store, &table, 1000..9000, 10).await;
        let other = store.clone();
        let id = table.id;
        let compaction = env.spawn(
            io::TaskGroup::Foreground,
            async move { other.compact(id).await },
        );
        while store.compactions().is_empty() {
            env.yield_now().await;
        }
        let status = store.compactions()[0].clone();
        // Memory was full before the last flush.
        let inputs = sstables(&store, &table).len();
        let expected = (CompactionKind::MajorCompaction, inputs);
        assert_eq!((status.kind, status.inputs), expected);
        assert!(status.total_bytes > 0 && status.done_bytes <= status.total_bytes);
        assert_eq!(store.stop_compactions(Some(CompactionKind::Cleanup)), 0);
        assert_eq!(store.stop_compactions(None), 1);
        let stopped = compaction.await;
        assert!(
            matches!(stopped, Err(CompactionError::Cancelled)),
            "{stopped:?}"
        );
        assert_eq!(count(&store, &table).await.0, 8400);
        let files = sstables(&store, &table);
        assert_eq!(files.len(), inputs);
        let data = names(&files[0].descriptor().dir);
        let left = data
            .iter()
            .filter(|name| name.contains("_txn_") || name.ends_with("Data.db"));
        assert_eq!(left.count(), inputs);
    });
}

#[test]
fn room_that_others_were_promised_is_not_there() {
    let folder = TempDir::new();
    let dir = folder.0.clone();
    run(move |env| async move {
        let (store, table) = overwritten(&env, dir).await;
        let space = &store.inner.config.shared.space;
        let other_shard = space.reserve(1 << 60);
        let answer = store.compact(table.id).await;
        let is_full = matches!(answer, Err(CompactionError::NoSpace { available: 0, .. }));
        assert!(is_full, "{answer:?}");
        assert_eq!(space.reserved(), 1 << 60);
        drop(other_shard);
        store.compact(table.id).await.expect("there is room");
        assert_eq!(space.reserved(), 0, "it is given back");
        assert_eq!(sstables(&store, &table).len(), 1);
    });
}

#[test]
fn a_cleanup_takes_this_shards_part_out_of_shared_sstables() {
    let folder = TempDir::new();
    let dir = folder.0.clone();
    run(move |env| async move {
        let pairs = [("sstable_size_in_mb", "0.01")];
        let table = table("LeveledCompactionStrategy", &pairs);
        let store = open(&env, dir.clone(), &table).await;
        flush(&store, &table, 0..2000, 10).await;
        store.drain().await.expect("it is drained");
        let whole = sstables(&store, &table);
        let data = whole[0].descriptor().path(Component::Data);
        drop(store);
        // This is shard 0 of two now.
        let mut config = config(dir);
        config.sharder = Sharder::new(2);
        let store = Store::open(env.clone(), config, &schema(&table)).await;
        let store = store.expect("it opens");
        store.replay().await.expect("there is nothing to replay");
        assert_eq!(
            sstables(&store, &table)[0].origin().map(|o| o.shards),
            Some(1)
        );
        let rewritten = store.cleanup(table.id).await.expect("they are rewritten");
        assert_eq!(rewritten, whole.len());
        let files = sstables(&store, &table);
        assert!(
            files
                .iter()
                .all(|file| file.origin().map(|o| o.shards) == Some(2))
        );
        let ours = (0..2000)
            .filter(|key| Sharder::new(2).shard_of(DecoratedKey::new(int(*key)).token()) == 0)
            .count();
        assert_eq!(count(&store, &table).await, (ours, ours));
        assert!(data.exists(), "the other shard needs it");
        assert_eq!(store.cleanup(table.id).await.expect("nothing to do"), 0);
    });
}

#[test]
fn what_lost_its_index_is_part_of_the_table_again_when_scrubbed() {
    let folder = TempDir::new();
    let dir = folder.0.clone();
    run(move |env| async move {
        let table = table("SizeTieredCompactionStrategy", &[("enabled", "false")]);
        let store = open(&env, dir.clone(), &table).await;
        flush(&store, &table, 0..300, 10).await;
        flush(&store, &table, 200..500, 20).await;
        let lost = sstables(&store, &table)[1].descriptor().clone();
        store.drain().await.expect("it is drained");
        drop(store);
        std::fs::remove_file(lost.path(Component::Index)).expect("it is removed");
        let store = open(&env, dir, &table).await;
        let stats = || store.stats().tables[0].clone();
        assert_eq!((stats().sstables, stats().unreadable_sstables), (1, 1));
        let linked = store.link_snapshot(table.id, "before", false).await;
        assert_eq!(
            linked.expect("it is linked").len(),
            2,
            "what cannot be read too"
        );
        let scrubbed = store.scrub(table.id, ScrubOptions::default()).await;
        let scrubbed = scrubbed.expect("it is scrubbed");
        assert_eq!((scrubbed.sstables, scrubbed.report.kept), (2, 600));
        assert!(!scrubbed.report.is_loss());
        assert_eq!((stats().sstables, stats().unreadable_sstables), (2, 0));
        assert_eq!(count(&store, &table).await, (600, 600));
        assert!(!lost.path(Component::Data).exists());
        let known = store.inner.table(table.id).expect("it is known");
        assert!(known.unreadable().is_none(), "it can be read again");
    });
}
