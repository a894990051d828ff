//! What the fuzz target does with an input; `cargo test` does the same with the kept corpus.
//!
//! The input is an sstable: a byte for the version, then its components, each behind [`MARK`] and
//! a byte that says which one it is. They become files of a simulated drive, with checksums that
//! fit; the sstable is opened as one of the table in its own header and read in all ways.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use io::sim::{SimConfig, Simulation};
use io::{Env, OpenOptions};
use model::{Bound, BoundKind, Clustering, DecoratedKey, Slice};
use storage::sstable::{
    ChunkCache, ColumnSelection, Component, Descriptor, SSTable, SSTableError, ScanOptions,
    Version, folder, inspect,
};
use storage::{PartitionHead, Unfiltered};

use super::sstable_checksums as checksums;

/// What stands before each component.
const MARK: [u8; 3] = [0xf5, 0x1e, 0x57];
/// In the first byte: leave the checksums as they are.
const KEEP_CHECKSUMS: u8 = 1 << 3;
const DIR: &str = "/t";
/// So many partitions are looked up by their keys.
const LOOKED_UP: usize = 3;
/// So many rows are read by their clusterings at once.
const AT_ONCE: usize = 50;

/// Opens and reads the input.
pub(super) fn run(data: &[u8]) {
    let [choice, data @ ..] = data else {
        return;
    };
    let version = Version::ALL[usize::from(choice & 7) % Version::ALL.len()];
    let mut files = cut(data);
    if choice & KEEP_CHECKSUMS == 0 {
        mend(version, &mut files);
    }
    let files = Rc::new(files);
    let mut simulation = Simulation::new(1, SimConfig::default());
    let node = simulation.add_node(IpAddr::V4(Ipv4Addr::LOCALHOST), 1, 1 << 30);
    simulation.start(node, |env| {
        let files = files.clone();
        async move {
            let descriptor = lay_out(&env, version, &files).await;
            // Any error will do.
            let _ = read(&env, &descriptor).await;
        }
    });
    let ended = simulation.run_to_end(node, Duration::from_secs(3600));
    assert!(ended, "reading does not end");
}

/// The components of an input.
fn cut(data: &[u8]) -> BTreeMap<Component, Vec<u8>> {
    let mut files: BTreeMap<Component, Vec<u8>> = BTreeMap::new();
    let mut current = None;
    let mut rest = data;
    while let [first, behind @ ..] = rest {
        if let Some([tag, behind @ ..]) = rest.strip_prefix(&MARK) {
            let component = Component::ALL[usize::from(*tag) % Component::ALL.len()];
            files.entry(component).or_default();
            current = Some(component);
            rest = behind;
            continue;
        }
        if let Some(file) = current.and_then(|component| files.get_mut(&component)) {
            file.push(*first);
        }
        rest = behind;
    }
    files
}

/// Puts checksums that fit over those of the input.
fn mend(version: Version, files: &mut BTreeMap<Component, Vec<u8>>) {
    if version >= Version::Na
        && let Some(file) = files.get_mut(&Component::Statistics)
    {
        checksums::statistics(file);
    }
    let Some(mut data) = files.remove(&Component::Data) else {
        return;
    };
    if let Some(info) = files.get(&Component::CompressionInfo) {
        mend_chunks(info, &mut data);
    } else if let Some(sums) = files.get_mut(&Component::Crc)
        && let Some(length) = sums.first_chunk().map(|word| u32::from_be_bytes(*word))
    {
        for (i, chunk) in data.chunks(length.max(1) as usize).enumerate() {
            checksums::put(sums, 4 + 4 * i, crc32fast::hash(chunk));
        }
    }
    files.insert(Component::Data, data);
}

/// `Data.db` in compressed chunks, which lie where `CompressionInfo.db` says.
fn mend_chunks(info: &[u8], data: &mut [u8]) {
    let starts = chunk_starts(info).unwrap_or_default();
    for (i, start) in starts.iter().enumerate() {
        let end = starts.get(i + 1).copied().unwrap_or(data.len());
        if let Some(chunk) = end.checked_sub(4).and_then(|end| data.get(*start..end)) {
            let sum = crc32fast::hash(chunk);
            checksums::put(data, end - 4, sum);
        }
    }
}

/// The offsets in `CompressionInfo.db` of a version that knows the longest compressed chunk.
fn chunk_starts(info: &[u8]) -> Option<Vec<usize>> {
    let mut at = 0usize;
    let mut take = |length: usize| {
        let bytes = info.get(at..at.checked_add(length)?)?;
        at += length;
        Some(bytes)
    };
    let number = |bytes: &[u8]| bytes.iter().fold(0usize, |n, b| n << 8 | usize::from(*b));
    let class = number(take(2)?);
    take(class)?;
    let options = number(take(4)?);
    for _ in 0..2 * options.min(16) {
        let length = number(take(2)?);
        take(length)?;
    }
    // The lengths of a chunk, of one that is kept as it is, and of the data.
    take(4 + 4 + 8)?;
    let count = number(take(4)?);
    let mut starts = Vec::new();
    while starts.len() < count {
        starts.push(number(take(8)?));
    }
    Some(starts)
}

/// Writes the files; the name of the sstable is read from theirs.
async fn lay_out(env: &Env, version: Version, files: &BTreeMap<Component, Vec<u8>>) -> Descriptor {
    const NEW: OpenOptions = OpenOptions {
        read: true,
        write: true,
        create: true,
        create_new: false,
        truncate: false,
        direct: false,
    };
    let dir = Path::new(DIR);
    env.create_dir_all(dir).await.expect("a healthy drive");
    let name = format!("{version}-1-{}-Data.db", version.format().name());
    let (descriptor, _) = Descriptor::parse(dir, &name).expect("a name of an sstable");
    for (component, bytes) in files {
        let file = env.open(&descriptor.path(*component), NEW).await;
        let file = file.expect("a healthy drive");
        file.write_all_at(bytes.clone(), 0).await.0.expect("room");
    }
    let found = folder::recover(env, dir, |_| false).await;
    let found = found.expect("a healthy drive").sstables;
    assert_eq!(
        found.len(),
        usize::from(files.contains_key(&Component::Data))
    );
    descriptor
}

/// Reads an sstable in all ways.
async fn read(env: &Env, descriptor: &Descriptor) -> Result<(), SSTableError> {
    let _ = inspect::read_compression(env, descriptor).await;
    let statistics = inspect::read_statistics(env, descriptor).await?;
    let Ok(table) = storage::dump::table_of_header(&statistics.header, "k", "t") else {
        return Ok(());
    };
    let table = Arc::new(table);
    let cache = ChunkCache::new(1 << 20);
    let sstable = match SSTable::open(env, descriptor, &table, &cache).await {
        Err(SSTableError::Unsupported { .. }) => {
            SSTable::open_in_any_order(env, descriptor, &table, &cache).await?
        }
        opened => opened?,
    };
    let scanned = scan(&sstable).await;
    for (head, rows) in &scanned {
        look_up(&sstable, &head.key, rows).await;
    }
    for key in [sstable.first_key(), sstable.last_key()] {
        look_up(&sstable, key, &[]).await;
    }
    look_up(&sstable, &DecoratedKey::new(vec![7; 4].into()), &[]).await;
    let reversed = ScanOptions {
        reversed: true,
        ..ScanOptions::default()
    };
    let mut scanner = sstable.scan(reversed);
    let mut left = LOOKED_UP;
    while left > 0 && scanner.next_partition().await?.is_some() {
        while scanner.next().await?.is_some() {}
        left -= 1;
    }
    sstable.verify().await
}

/// The first partitions, with where their rows lie, after a scan of all.
async fn scan(sstable: &SSTable) -> Vec<(PartitionHead, Vec<Clustering>)> {
    let mut scanner = sstable.scan(ScanOptions::default());
    let mut scanned = Vec::new();
    while let Ok(Some(head)) = scanner.next_partition().await {
        let mut rows = Vec::new();
        while let Ok(Some(item)) = scanner.next().await {
            if let Unfiltered::Row(row) = item {
                rows.push(row.clustering);
            }
        }
        if scanned.len() < LOOKED_UP {
            scanned.push((head, rows));
        }
    }
    scanned
}

/// Reads a partition both ways: whole, from the row in its middle on and up to it, row by row and
/// many rows at once.
async fn look_up(sstable: &SSTable, key: &DecoratedKey, rows: &[Clustering]) {
    let hash = model::murmur3_x64_128(key.key());
    sstable.may_contain(key, hash);
    let _ = sstable.has(key).await;
    for slices in selections(rows) {
        let slices: Rc<[Slice]> = slices.into();
        sstable.may_contain_slices(&slices);
        for reversed in [false, true] {
            let columns = ColumnSelection::All;
            let got = sstable.get((key, hash), slices.clone(), reversed, &columns);
            if let Ok(Some(mut reader)) = got.await {
                while let Ok(Some(_)) = reader.next().await {}
            }
        }
    }
}

/// What to read of a partition with these rows.
fn selections(rows: &[Clustering]) -> Vec<Vec<Slice>> {
    let mut selections = vec![vec![Slice::ALL]];
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else {
        return selections;
    };
    let bound = |row: &Clustering, kind| Bound {
        prefix: row.clone(),
        kind,
    };
    let middle = &rows[rows.len() / 2];
    selections.push(vec![Slice {
        start: bound(middle, BoundKind::InclusiveStart),
        end: Slice::ALL.end,
    }]);
    selections.push(vec![Slice {
        start: Slice::ALL.start,
        end: bound(middle, BoundKind::ExclusiveEnd),
    }]);
    let single = |row: &Clustering| Slice {
        start: bound(row, BoundKind::InclusiveStart),
        end: bound(row, BoundKind::InclusiveEnd),
    };
    selections.extend([first, middle, last].map(|row| vec![single(row)]));
    // Slices lie apart and in order, which the rows of a damaged file need not.
    let apart = rows.iter().step_by(3).take(AT_ONCE).map(single);
    selections.push(apart.collect());
    selections
}
