//! What becomes of the files in a table's folder: what lies there under any name becomes part of the
//! table, nothing that was there before is lost by that, and what is dropped goes.

use std::cell::{Cell as Flag, RefCell};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use io::Env;
use io::sim::{SimConfig, Simulation};
use model::{
    Cell, Clustering, ColumnId, DecoratedKey, Mutation, NO_DELETION_TIME, NO_TTL, Order,
    PartitionUpdate, Schema, Sharder, Slice, Table,
};

use super::import::place_files;
use super::tests::{command, config, schema};
use super::*;
use crate::SharedFiles;
use crate::sstable::{
    ChunkCache, Component, Descriptor, EncodingStats, Generation, SSTable, Writer, WriterOptions,
};

/// The stores of all shards of a node, in one data folder.
struct Node {
    shards: Vec<(Env, Store)>,
    table: Arc<Table>,
}

/// Does this with a node of so many shards.
fn on_node<F: Future<Output = ()> + 'static>(shards: u16, body: impl Fn(Node) -> F + 'static) {
    let mut simulation = Simulation::new(u64::from(shards), SimConfig::default());
    let node = simulation.add_node([10, 0, 0, 1].into(), shards, 1 << 28);
    let (envs, done) = (Rc::new(RefCell::new(Vec::new())), Rc::new(Flag::new(false)));
    let body = Rc::new(body);
    simulation.start(node, move |env| {
        let (envs, done, body) = (envs.clone(), done.clone(), body.clone());
        async move {
            envs.borrow_mut().push(env.clone());
            if env.shard().0 > 0 {
                while !done.get() {
                    env.sleep(Duration::from_millis(10)).await;
                }
                return;
            }
            while envs.borrow().len() < usize::from(shards) {
                env.sleep(Duration::from_millis(1)).await;
            }
            let mut all = envs.borrow().clone();
            all.sort_by_key(|env| env.shard().0);
            body(Node::open(all).await).await;
            done.set(true);
        }
    });
    assert!(simulation.run_to_end(node, Duration::from_secs(600)));
}

impl Node {
    async fn open(envs: Vec<Env>) -> Node {
        let mut table = Table::clone(&crate::testing::table(Order::Ascending));
        let pairs = [
            ("class", "SizeTieredCompactionStrategy"),
            ("enabled", "false"),
        ];
        table.options.compaction = pairs.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        let mut node = Node {
            shards: Vec::new(),
            table: Arc::new(table),
        };
        let shared = Arc::new(SharedFiles::default());
        let shards = envs.len() as u16;
        for env in envs {
            let config = StoreConfig {
                sharder: Sharder::new(shards),
                shared: shared.clone(),
                ..config(PathBuf::from("/"))
            };
            let store = Store::open(env.clone(), config, &schema(&node.table)).await;
            node.shards.push((env, store.expect("it opens")));
        }
        for store in node.stores() {
            store.replay().await.expect("it is replayed");
        }
        node
    }

    fn stores(&self) -> impl Iterator<Item = &Store> {
        self.shards.iter().map(|(_, store)| store)
    }

    fn leader(&self) -> &Store {
        &self.shards[0].1
    }

    fn env(&self) -> &Env {
        &self.shards[0].0
    }

    /// The next process.
    async fn restart(self) -> Node {
        for store in self.stores() {
            store.drain().await.expect("it is drained");
        }
        self.kill().await
    }

    /// The next process, where this one ended without a word.
    async fn kill(self) -> Node {
        Node::open(self.shards.into_iter().map(|(env, _)| env).collect()).await
    }

    async fn set_schema(&self, schema: &Schema) {
        for store in self.stores() {
            store.set_schema(schema).await.expect("it is set");
        }
    }

    /// DROP, and what `schema.cql` does.
    async fn drop_and_make_again(&self) {
        self.set_schema(&Schema::default()).await;
        self.set_schema(&schema(&self.table)).await;
    }

    fn dir(&self) -> PathBuf {
        let table = self.leader().inner.table(self.table.id);
        table.expect("it is there").dir.clone()
    }

    /// Writes rows of these keys and flushes them.
    async fn flush(&self, keys: std::ops::Range<u32>) {
        let shards = self.shards.len() as u16;
        for key in keys {
            let int = |number: u32| Bytes::copy_from_slice(&number.to_be_bytes());
            let key = DecoratedKey::new(int(key));
            let shard = Sharder::new(shards).shard_of(key.token());
            let mut update = PartitionUpdate::new(self.table.clone(), key);
            let cell = Cell {
                column: ColumnId(3),
                path: None,
                timestamp: 10,
                ttl: NO_TTL,
                local_deletion_time: NO_DELETION_TIME,
                value: int(7),
            };
            let clustering = Clustering([int(1), int(2)].into_iter().collect());
            update.row_mut(&clustering).add_cell(cell, &self.table);
            let updates = vec![update];
            let applied = self.shards[usize::from(shard)]
                .1
                .apply(Mutation { updates });
            applied.await.expect("it is taken");
        }
        for store in self.stores() {
            store.flush(None).await.expect("it is flushed");
        }
    }

    async fn rows(&self) -> usize {
        let mut rows = 0;
        for store in self.stores() {
            let all = command(&self.table, vec![Slice::ALL], false);
            let page = store.read(&all).await.expect("it is read");
            rows += page.partitions.iter().map(|p| p.rows.len()).sum::<usize>();
        }
        rows
    }

    async fn snapshot(&self) -> PathBuf {
        for store in self.stores() {
            let linked = store.link_snapshot(self.table.id, "s", true).await;
            linked.expect("it is linked");
        }
        self.dir().join("snapshots/s")
    }

    /// Links all that is in a folder into that of the table, as somebody does who restores it.
    async fn link(&self, from: &Path) {
        let env = self.env();
        for entry in env.read_dir(from).await.expect("it is there") {
            let (from, to) = (from.join(&entry.name), self.dir().join(&entry.name));
            let linked = env.hard_link(&from, &to).await;
            linked.expect("it can be linked");
        }
    }

    /// As `nodetool refresh`. How many.
    async fn refresh(&self) -> Result<usize, ImportError> {
        let (id, leader) = (self.table.id, self.leader());
        let found = leader.find_sstables(id, None).await?;
        let known: Vec<_> = self
            .stores()
            .map(|store| store.known_sstables(id))
            .collect();
        let given = known.iter().map(|(above, _)| *above).max().unwrap_or(0);
        let above = leader.highest_generation(id).await?.max(given);
        for store in self.stores() {
            store.raise_generation(id, above)?;
        }
        let known: BTreeSet<Descriptor> = known.into_iter().flat_map(|(_, known)| known).collect();
        let new: Vec<Descriptor> = found.into_iter().filter(|d| !known.contains(d)).collect();
        let mut placed = Vec::new();
        for source in &new {
            leader.check_import(id, source, true).await?;
        }
        for source in &new {
            let options = ImportOptions::default();
            placed.push(leader.place(id, source, above, options).await?);
        }
        for store in self.stores() {
            store.open_arrivals(id, &placed).await?;
        }
        for store in self.stores() {
            store.show_arrivals(id).await?;
        }
        for source in &new {
            leader.remove_source(source).await?;
        }
        Ok(new.len())
    }

    /// Reads all sstables of a folder from their first to their last byte. How many.
    async fn verify(&self, dir: &Path) -> usize {
        let entries = self.env().read_dir(dir).await.expect("it is there");
        let mut found = 0;
        for entry in entries {
            let Some((descriptor, "Data.db")) = Descriptor::parse(dir, &entry.name) else {
                continue;
            };
            let cache = ChunkCache::new(1 << 20);
            let opened = SSTable::open(self.env(), &descriptor, &self.table, &cache).await;
            let sstable = opened.expect("it is whole");
            sstable.verify_with_filter().await.expect("it is sound");
            found += 1;
        }
        found
    }
}

const SHARDS: [u16; 4] = [1, 2, 3, 8];

#[test]
fn what_a_snapshot_holds_comes_back_under_its_own_names() {
    for shards in SHARDS {
        on_node(shards, move |node| async move {
            for round in 0..3 {
                node.flush(round * 100..(round + 1) * 100).await;
            }
            let snapshot = node.snapshot().await;
            node.drop_and_make_again().await;
            node.link(&snapshot).await;
            let sstables = 3 * usize::from(shards);
            assert_eq!(node.refresh().await.expect("it is taken"), sstables);
            assert_eq!(node.rows().await, 300);
            let node = node.restart().await;
            assert_eq!(node.rows().await, 300, "{shards} shards");
            assert_eq!(node.verify(&node.dir()).await, sstables);
            assert_eq!(node.verify(&snapshot).await, sstables);
            assert_eq!(node.refresh().await.expect("there is none"), 0);
        });
    }
}

#[test]
fn a_flush_leaves_alone_what_was_put_into_the_folder() {
    for shards in SHARDS {
        on_node(shards, move |node| async move {
            for round in 0..3 {
                node.flush(round * 100..(round + 1) * 100).await;
            }
            let snapshot = node.snapshot().await;
            node.drop_and_make_again().await;
            node.link(&snapshot).await;
            node.flush(300..400).await;
            for store in node.stores() {
                store.compact(node.table.id).await.expect("it is compacted");
            }
            let sstables = 3 * usize::from(shards);
            assert_eq!(node.verify(&snapshot).await, sstables);
            assert_eq!(node.refresh().await.expect("it is taken"), sstables);
            assert_eq!(node.rows().await, 400);
            let node = node.restart().await;
            assert_eq!(node.rows().await, 400, "{shards} shards");
        });
    }
}

#[test]
fn no_file_that_is_there_is_written_into_or_removed() {
    on_node(1, move |node| async move {
        node.flush(0..100).await;
        node.flush(100..200).await;
        let id = node.table.id;
        let found = node.leader().find_sstables(id, None).await;
        let found = found.expect("they are found");
        for to in &found {
            let mut made = Vec::new();
            let options = ImportOptions::default();
            let placed = place_files(node.env(), &found[0], to, options, &mut made).await;
            let error = placed.expect_err("the name is taken").to_string();
            assert!(error.contains("nb-") && error.contains("exists"), "{error}");
            assert_eq!(made, Vec::<PathBuf>::new());
        }
        let origin = node.leader().inner.origin();
        let options = WriterOptions::new(1, EncodingStats::default(), origin);
        let (env, first) = (node.env(), found[0].clone());
        let written = Writer::create(env, first.clone(), &node.table, options).await;
        let error = written.err().expect("the name is taken").to_string();
        assert!(error.contains("exists"), "{error}");
        assert_eq!(node.verify(&node.dir()).await, 2);

        // One file is enough for a name to be taken, and no number overflows the count.
        let table = node.leader().inner.table(id).expect("it is there");
        let given = table.last_generation();
        let last = Descriptor {
            generation: Generation::Number(u64::MAX),
            ..first.clone()
        };
        let next = Descriptor {
            generation: Generation::Number(given + 1),
            ..first.clone()
        };
        for there in [&last, &next] {
            let path = there.path(Component::Filter);
            let put = env.write_file(&path, Vec::new()).await;
            put.expect("it is written");
        }
        let descriptor = table.new_descriptor(env, first.version).await;
        assert_eq!(descriptor.generation, Generation::Number(given + 2));
        let highest = node.leader().highest_generation(id).await;
        let above = highest.expect("it can be listed");
        assert_eq!(above, u64::MAX);
        node.leader()
            .raise_generation(id, above)
            .expect("it is known");
        for _ in 0..3 {
            let descriptor = table.new_descriptor(env, first.version).await;
            assert_ne!(descriptor.generation, Generation::Number(u64::MAX));
        }
    });
}

/// Shards tell each other by paths who needs a file no more, and a table that was dropped and made
/// again has the same paths.
#[test]
fn a_table_that_was_made_again_shares_its_files_anew() {
    on_node(2, |node| async move {
        node.flush(0..100).await;
        let snapshot = node.snapshot().await;
        for entry in node.env().read_dir(&snapshot).await.expect("it is there") {
            // As Cassandra writes them: of no shard.
            if entry.name.ends_with(Component::Helenus.name()) {
                let removed = node.env().remove_file(&snapshot.join(&entry.name)).await;
                removed.expect("it is removed");
            }
        }
        let mut before = None;
        for round in 0..3 {
            node.drop_and_make_again().await;
            node.link(&snapshot).await;
            assert_eq!(node.refresh().await.expect("they are taken"), 2);
            let sstables = || {
                node.leader()
                    .inner
                    .table(node.table.id)
                    .map(|t| t.sstables())
            };
            let placed = sstables().expect("it is there");
            let placed: Vec<PathBuf> = placed
                .iter()
                .map(|sstable| sstable.descriptor().path(Component::Data))
                .collect();
            let before = before.get_or_insert(placed.clone());
            assert_eq!(*before, placed, "the same names");
            for (at, store) in node.stores().enumerate() {
                let compacted = store.compact(node.table.id).await;
                compacted.expect("it is compacted");
                for path in &placed {
                    let there = node.env().exists(path).await.expect("it can be asked");
                    assert_eq!(there, at == 0, "round {round}, shard {at}");
                    let gone = store.inner.config.shared.is_gone(path);
                    assert_eq!(gone, at == 1, "round {round}, shard {at}");
                }
            }
            assert_eq!(node.rows().await, 100);
        }
        let node = node.restart().await;
        assert_eq!(node.rows().await, 100);
    });
}

#[test]
fn a_table_whose_files_are_gone_is_truncated_and_dropped() {
    on_node(2, |node| async move {
        let id = node.table.id;
        for dropped in [false, true] {
            node.flush(0..100).await;
            for entry in node.env().read_dir(&node.dir()).await.expect("it is there") {
                if entry.name.ends_with(Component::Data.name()) {
                    let removed = node.env().remove_file(&node.dir().join(&entry.name)).await;
                    removed.expect("it is removed");
                }
            }
            let dir = node.dir();
            match dropped {
                true => node.set_schema(&Schema::default()).await,
                false => {
                    for store in node.stores() {
                        store.truncate(id).await.expect("it is truncated");
                    }
                }
            }
            let left = node.env().read_dir(&dir).await.unwrap_or_default();
            assert!(left.is_empty(), "{left:?}");
        }
    });
}

/// What a table shows after an import is what it shows after the next start, whenever a truncation
/// comes in between.
#[test]
fn an_import_beside_a_truncation_comes_before_or_after_it() {
    for (shards, at_open) in [(1, false), (2, false), (1, true), (2, true)] {
        on_node(shards, move |node| async move {
            let id = node.table.id;
            node.flush(0..100).await;
            let snapshot = node.snapshot().await;
            let leader = node.leader();
            let found = leader.find_sstables(id, Some(&snapshot)).await;
            let mut placed = Vec::new();
            for source in found.expect("they are found") {
                let options = ImportOptions::default();
                let given = leader.place(id, &source, 100, options).await;
                placed.push(given.expect("it is placed"));
            }
            let truncate = || async {
                for (env, store) in &node.shards {
                    let store = store.clone();
                    let truncate = async move { store.truncate(id).await };
                    drop(env.spawn(TaskGroup::Foreground, truncate));
                }
                node.env().sleep(Duration::from_secs(1)).await;
            };
            if !at_open {
                truncate().await;
            }
            let mut opened = Ok(());
            for store in node.stores() {
                opened = opened.and(store.open_arrivals(id, &placed).await);
            }
            if at_open {
                opened.as_ref().expect("nothing has come in between");
                truncate().await;
            }
            for store in node.stores() {
                match &opened {
                    Ok(()) => store.show_arrivals(id).await.expect("it is there"),
                    Err(_) => store.forget_arrivals(id),
                }
            }
            if opened.is_err() {
                for placed in &placed {
                    node.leader().unplace(placed).await;
                }
            }
            node.env().sleep(Duration::from_secs(1)).await;
            let rows = node.rows().await;
            let node = node.kill().await;
            let after = node.rows().await;
            assert_eq!(after, rows, "{shards} shards, at open: {at_open}");
        });
    }
}

/// The rows of `system_schema` are gone by then: the table must not stay on some shards only.
#[test]
fn a_table_is_dropped_though_its_files_cannot_be_removed() {
    on_node(2, |node| async move {
        node.flush(0..100).await;
        let (snapshot, dir) = (node.snapshot().await, node.dir());
        for name in ["nb-1-big-Data.db", "nb-2-big-Index.db"] {
            let removed = node.env().remove_file(&dir.join(name)).await;
            removed.expect("it is removed");
            let made = node.env().create_dir_all(&dir.join(name).join("x")).await;
            made.expect("it is made");
        }
        node.set_schema(&Schema::default()).await;
        for store in node.stores() {
            let all = command(&node.table, vec![Slice::ALL], false);
            let read = store.read(&all).await;
            assert!(matches!(read, Err(ReadError::UnknownTable(_))), "{read:?}");
        }
        let left = node.env().read_dir(&dir).await.expect("its snapshot stays");
        let left = left.iter().filter(|entry| !entry.is_dir).count();
        assert_eq!(left, 0, "all that can go does");
        assert_eq!(node.verify(&snapshot).await, 2);
        node.set_schema(&schema(&node.table)).await;
        assert_eq!(node.rows().await, 0);
    });
}
