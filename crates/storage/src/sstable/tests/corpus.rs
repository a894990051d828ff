//! SSTables that Cassandra wrote: read, compared with what Cassandra reads in them, and written
//! again, which must give the same bytes.
//!
//! A case is a folder `<version>-<name>` with the sstables in `sstables/` and `expected.json`, for
//! each data file the output of `sstabledump`. A few are in `tests/data/sstables`, written by
//! Cassandra 5.0.6; many more are in the folder that the environment variable
//! `HELENUS_SSTABLE_CORPUS` names. Without it the tests say what they leave out.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use io::Env;
use serde_json::Value;

use super::support::{hashed, options_for, read_all, write_all};
use crate::dump::{JsonDump, JsonForm, TimeForm, table_of_header};
use crate::sstable::*;
use crate::testing::{TempDir, run};

fn corpus() -> Option<PathBuf> {
    let dir = std::env::var_os("HELENUS_SSTABLE_CORPUS").map(PathBuf::from);
    if dir.is_none() {
        eprintln!("SKIPPED: HELENUS_SSTABLE_CORPUS names no folder of sstables");
    }
    dir
}

/// Expected output, gzipped or not.
fn expected(case: &Path) -> Option<Value> {
    if let Ok(text) = std::fs::read(case.join("expected.json")) {
        return Some(serde_json::from_slice(&text).expect("JSON"));
    }
    let file = std::fs::File::open(case.join("expected.json.gz")).ok()?;
    let reader = flate2::read::GzDecoder::new(file);
    Some(serde_json::from_reader(std::io::BufReader::new(reader)).expect("JSON"))
}

/// The cases whose names begin so.
fn cases(prefix: &str) -> Vec<(String, PathBuf)> {
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/sstables");
    let mut cases: Vec<_> = [Some(PathBuf::from(own)), corpus()]
        .into_iter()
        .flatten()
        .flat_map(|dir| std::fs::read_dir(dir).expect("the folder"))
        .filter_map(|entry| {
            let entry = entry.ok()?;
            Some((entry.file_name().into_string().ok()?, entry.path()))
        })
        .filter(|(name, _)| name.starts_with(prefix))
        .collect();
    cases.sort();
    cases
}

/// The sstables of a folder, which must not be changed.
async fn found_in(env: &Env, dir: &Path) -> Vec<Descriptor> {
    let found = folder::recover(env, dir, |_| false).await;
    found.expect("the folder").sstables
}

async fn open(
    env: &Env,
    descriptor: &Descriptor,
) -> Result<(Arc<model::Table>, SSTable), SSTableError> {
    let header = inspect::read_statistics(env, descriptor).await?.header;
    let table = Arc::new(table_of_header(&header, "ks", "t").expect("a table"));
    let cache = ChunkCache::new(1 << 20);
    let sstable = SSTable::open(env, descriptor, &table, &cache).await?;
    Ok((table, sstable))
}

/// Compares all sstables of a case with what `sstabledump` printed. What is wrong, if anything.
async fn compare(env: &Env, case: &Path) -> Result<usize, String> {
    let Some(expected) = expected(case) else {
        return Ok(0);
    };
    let descriptors = found_in(env, &case.join("sstables")).await;
    let mut compared = 0;
    for descriptor in descriptors {
        let file = format!("{}-Data.db", descriptor.prefix());
        let Some(expected) = expected.get(&file) else {
            continue;
        };
        let mut expected = expected.clone();
        normalize(&mut expected);
        let (table, sstable) = open(env, &descriptor).await.map_err(|e| e.to_string())?;
        let partitions = read_all(&sstable, ScanOptions::default())
            .await
            .map_err(|e| e.to_string())?;
        let mut dumped = dump(&table, &sstable).await.map_err(|e| e.to_string())?;
        normalize(&mut dumped);
        if let Some(difference) = difference(&dumped, &expected, &file) {
            return Err(difference);
        }
        check_reads(&sstable, &partitions).await?;
        compared += 1;
    }
    Ok(compared)
}

/// The JSON of an sstable.
async fn dump(table: &model::Table, sstable: &SSTable) -> Result<Value, SSTableError> {
    let mut json = JsonDump::new(table, JsonForm::Array, TimeForm::Iso, 0);
    let mut scanner = sstable.scan(ScanOptions::default());
    while let Some(head) = scanner.next_partition().await? {
        let mut position = scanner.position();
        json.begin_partition(&head, position);
        while let Some(item) = scanner.next().await? {
            json.item(&item, position);
            position = scanner.position();
        }
        json.end_partition();
    }
    Ok(serde_json::from_str(&json.finish()).expect("JSON"))
}

/// Removes what depends on the day.
fn normalize(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.remove("expired");
            map.values_mut().for_each(normalize);
        }
        Value::Array(values) => values.iter_mut().for_each(normalize),
        _ => {}
    }
}

/// The first difference, with the way to it.
fn difference(a: &Value, b: &Value, path: &str) -> Option<String> {
    match (a, b) {
        (Value::Object(x), Value::Object(y)) => {
            let mut keys: Vec<&String> = x.keys().chain(y.keys()).collect();
            keys.sort();
            keys.dedup();
            keys.into_iter().find_map(|key| {
                let null = Value::Null;
                let (v, w) = (x.get(key).unwrap_or(&null), y.get(key).unwrap_or(&null));
                difference(v, w, &format!("{path}/{key}"))
            })
        }
        (Value::Array(x), Value::Array(y)) if x.len() == y.len() => x
            .iter()
            .zip(y)
            .enumerate()
            .find_map(|(i, (v, w))| difference(v, w, &format!("{path}/{i}"))),
        (Value::Number(x), Value::Number(y)) if x.as_f64() == y.as_f64() => None,
        _ if a == b => None,
        _ => Some(format!("{path}: {a} is not {b}")),
    }
}

/// Each partition by its key, forward and reversed.
async fn check_reads(
    sstable: &SSTable,
    partitions: &[super::support::Partition],
) -> Result<(), String> {
    let all: Rc<[model::Slice]> = Rc::new([model::Slice::ALL]);
    for (head, items) in partitions.iter().take(500) {
        for reversed in [false, true] {
            let mut reader = sstable
                .get(
                    hashed(&head.key),
                    all.clone(),
                    reversed,
                    &ColumnSelection::All,
                )
                .await
                .map_err(|e| e.to_string())?
                .ok_or("a key is not found")?;
            assert_eq!(reader.head(), head);
            let mut found = Vec::new();
            while let Some(item) = reader.next().await.map_err(|e| e.to_string())? {
                found.push(item);
            }
            if reversed {
                found.reverse();
            }
            if found != *items {
                return Err(format!("other items by key, reversed: {reversed}"));
            }
        }
    }
    Ok(())
}

fn compare_all(prefix: &str) {
    let mut wrong = Vec::new();
    let mut compared = 0;
    for (name, case) in cases(prefix) {
        if name.contains("damaged") || name.contains("random_partitioner") {
            continue;
        }
        match run(move |env| async move { compare(&env, &case).await }) {
            Ok(count) => compared += count,
            Err(what) => wrong.push(format!("{name}: {what}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    eprintln!("{prefix}: {compared} sstables are the same");
    assert!(
        prefix != "nb-" || compared > 0,
        "there are cases in the repository"
    );
}

#[test]
fn nb_reads_as_cassandra_does() {
    compare_all("nb-");
}

#[test]
fn other_versions_read_as_cassandra_does() {
    for prefix in ["mc-", "me-", "oa-", "da-"] {
        compare_all(prefix);
    }
}

/// Reads an sstable and writes it again.
async fn rewrite(env: &Env, descriptor: &Descriptor, dir: &Path) -> Result<(), String> {
    let (table, sstable) = open(env, descriptor).await.map_err(|e| e.to_string())?;
    let partitions = read_all(&sstable, ScanOptions::default())
        .await
        .map_err(|e| e.to_string())?;
    let mut table = (*table).clone();
    table.options.bloom_filter_fp_chance = sstable.statistics().bloom_filter_fp_chance;
    let table = Arc::new(table);
    let mut options = options_for(&partitions);
    options.encoding = sstable.encoding_stats();
    options.column_index_size = Some(4096);
    let format = descriptor.version.format();
    let written = write_all(env, dir, &table, &partitions, (format, options))
        .await
        .map_err(|e| e.to_string())?;
    let cache = ChunkCache::new(0);
    let again = SSTable::open(env, &written, &table, &cache)
        .await
        .map_err(|e| e.to_string())?;
    again.verify().await.map_err(|e| e.to_string())?;
    if content(&again).await != content(&sstable).await {
        return Err("other data".into());
    }
    for component in [
        Component::Index,
        Component::Partitions,
        Component::Rows,
        Component::Summary,
        Component::Filter,
    ] {
        let read = |d: &Descriptor| std::fs::read(d.path(component)).ok();
        if read(&written) != read(descriptor) {
            return Err(format!("another {}", component.name()));
        }
    }
    let expected = sstable.statistics();
    let mut actual = again.statistics().clone();
    // What is said about the writer, and what depends on how well it compresses.
    actual.stats.originating_host = expected.stats.originating_host;
    actual.stats.commit_log_intervals = expected.stats.commit_log_intervals.clone();
    actual.stats.compression_ratio = expected.stats.compression_ratio;
    if *expected != actual {
        return Err(format!("other statistics:\n{expected:?}\n{actual:?}"));
    }
    // Behind the statistics of `da` Cassandra leaves some zeros, as it takes them to be longer.
    if descriptor.version == Version::Nb {
        let keys = (sstable.first_key(), sstable.last_key());
        let theirs = std::fs::read(descriptor.path(Component::Statistics));
        if theirs.ok() != Some(actual.encode(descriptor.version, keys)) {
            return Err("another Statistics.db".into());
        }
    }
    Ok(())
}

/// Writes all `nb` sstables again into the folder that `HELENUS_SSTABLE_REWRITTEN` names, a folder a
/// case, so that Cassandra and its tools can be asked what they think of them.
#[test]
fn rewritten_for_other_tools() {
    let Some(out) = std::env::var_os("HELENUS_SSTABLE_REWRITTEN").map(PathBuf::from) else {
        eprintln!("SKIPPED: HELENUS_SSTABLE_REWRITTEN names no folder");
        return;
    };
    for (name, case) in cases("nb-") {
        if name.contains("damaged") {
            continue;
        }
        let out = out.join(&name);
        run(move |env| async move {
            let found = found_in(&env, &case.join("sstables")).await;
            for descriptor in found {
                let Generation::Number(number) = descriptor.generation else {
                    continue;
                };
                std::fs::create_dir_all(&out).expect("a folder");
                let (table, sstable) = open(&env, &descriptor).await.expect("opens");
                let partitions = read_all(&sstable, ScanOptions::default()).await;
                let partitions = partitions.expect("reads");
                let options = options_for(&partitions);
                let mut table = (*table).clone();
                table.options.compression = compression_options(&sstable);
                let table = Arc::new(table);
                let target = Descriptor::new(&out, Format::Big, number);
                let mut writer = Writer::create(&env, target, &table, options)
                    .await
                    .expect("creates");
                for (head, items) in &partitions {
                    writer.begin_partition(head).await.expect("writes");
                    for item in items {
                        writer.append(item).await.expect("writes");
                    }
                    writer.end_partition().await.expect("writes");
                }
                writer.finish().await.expect("finishes");
            }
        });
    }
}

/// The table options that ask for the compression that an sstable has.
fn compression_options(sstable: &SSTable) -> std::collections::BTreeMap<String, String> {
    let Some(parameters) = sstable.compression() else {
        return [("enabled".to_owned(), "false".to_owned())].into();
    };
    let length = (parameters.chunk_length / 1024).to_string();
    [
        ("class".to_owned(), parameters.algorithm.class().to_owned()),
        ("chunk_length_in_kb".to_owned(), length),
    ]
    .into()
}

/// All of the data, uncompressed.
async fn content(sstable: &SSTable) -> Vec<u8> {
    let data = sstable.data();
    let mut content = Vec::new();
    for chunk in 0..data.chunk_count() {
        content.extend_from_slice(&data.chunk(chunk).await.expect("a chunk"));
    }
    content
}

#[test]
fn nb_and_da_are_written_as_cassandra_does() {
    let mut wrong = Vec::new();
    let mut same = 0;
    for (name, case) in cases("nb-").into_iter().chain(cases("da-")) {
        if name.contains("damaged") {
            continue;
        }
        let result = run(move |env| async move {
            let found = found_in(&env, &case.join("sstables")).await;
            let mut results = Vec::new();
            for descriptor in found {
                let dir = TempDir::new();
                results.push(rewrite(&env, &descriptor, &dir.0).await);
            }
            results
        });
        for result in result {
            match result {
                Ok(()) => same += 1,
                Err(what) => wrong.push(format!("{name}: {what}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    eprintln!("{same} sstables are written with the same bytes");
    assert!(same > 0, "there are cases in the repository");
}

/// Opens the one sstable of a damaged case; reads each partition by its key, and all of them.
async fn read_damaged(env: &Env, case: &Path) -> (Result<usize, SSTableError>, usize) {
    let found = found_in(env, &case.join("sstables")).await;
    let descriptor = &found[0];
    // The undamaged case tells the table and the keys.
    let whole = if case.to_string_lossy().contains("uncompressed") {
        "nb-plain_none"
    } else {
        "nb-plain_lz4"
    };
    let whole = case.with_file_name(whole).join("sstables");
    let whole = found_in(env, &whole).await;
    let (table, whole) = open(env, &whole[0]).await.expect("an undamaged sstable");
    let partitions = read_all(&whole, ScanOptions::default())
        .await
        .expect("reads");
    let cache = ChunkCache::new(1 << 20);
    let sstable = match SSTable::open(env, descriptor, &table, &cache).await {
        Ok(sstable) => sstable,
        Err(error) => return (Err(error), 0),
    };
    let mut readable = 0;
    for (head, _) in &partitions {
        let slices: Rc<[model::Slice]> = Rc::new([model::Slice::ALL]);
        let reader = sstable
            .get(hashed(&head.key), slices, false, &ColumnSelection::All)
            .await;
        let Ok(Some(mut reader)) = reader else {
            continue;
        };
        let whole = loop {
            match reader.next().await {
                Ok(Some(_)) => {}
                Ok(None) => break true,
                Err(_) => break false,
            }
        };
        readable += usize::from(whole);
    }
    let all = read_all(&sstable, ScanOptions::default()).await;
    (all.map(|all| all.len()), readable)
}

/// How many partitions a scan gives, or the file and the offset that the error names.
type Scan = Result<usize, (&'static str, u64)>;

/// The damaged cases: what a scan of each gives, and how many partitions can be read by key.
const DAMAGED: [(&str, Scan, usize); 12] = [
    ("flip_data", Err(("nb-1-big-Data.db", 15_115)), 85),
    ("flip_data_uncompressed", Err(("nb-1-big-Data.db", 0)), 0),
    ("flip_statistics", Err(("nb-1-big-Statistics.db", 0)), 0),
    (
        "missing_compressioninfo",
        Err(("nb-1-big-CompressionInfo.db", 0)),
        0,
    ),
    ("missing_digest", Ok(100), 100),
    ("missing_filter", Ok(100), 100),
    ("missing_statistics", Err(("nb-1-big-Statistics.db", 0)), 0),
    ("missing_summary", Ok(100), 100),
    ("missing_toc", Ok(100), 100),
    ("truncated_data", Err(("nb-1-big-Data.db", 12_075)), 55),
    (
        "truncated_data_uncompressed",
        Err(("nb-1-big-Data.db", 0)),
        0,
    ),
    ("unknown_component", Ok(100), 100),
];

#[test]
fn damaged_sstables_say_what_is_wrong() {
    let Some(dir) = corpus() else {
        return;
    };
    for (name, expected, readable) in DAMAGED {
        let case = dir.join(format!("nb-damaged_{name}"));
        let (all, found) = run(move |env| async move { read_damaged(&env, &case).await });
        assert_eq!(found, readable, "{name}");
        match (all, expected) {
            (Ok(all), Ok(expected)) => assert_eq!(all, expected, "{name}"),
            (Err(error), Err((file, offset))) => {
                let text = error.to_string();
                assert!(text.contains(file), "{name}: {text}");
                if let SSTableError::Corrupt { offset: at, .. } = error {
                    assert_eq!(at, offset, "{name}: {text}");
                }
            }
            (all, _) => panic!("{name}: {all:?}"),
        }
    }
}

#[test]
fn verification_finds_a_wrong_digest() {
    let Some(dir) = corpus() else {
        return;
    };
    let dir = dir.join("nb-damaged_wrong_digest/sstables");
    let error = run(move |env| async move {
        let found = found_in(&env, &dir).await;
        let (_, sstable) = open(&env, &found[0]).await.expect("opens");
        sstable.verify().await.expect_err("the digest is wrong")
    });
    assert!(error.to_string().contains("Digest.crc32"), "{error}");
}
