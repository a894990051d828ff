//! Logs as a crash or a drive may leave them, read with windows of any size.

use std::path::PathBuf;

use io::Env;
use model::{Mutation, Order, Sharder, Table};
use proptest::prelude::*;

use super::*;
use crate::commitlog::window::held;
use crate::testing::{Saying, TempDir, run, table, update};

/// A group to be written: up to where it vouches, and what it holds; nothing closes the segment.
type Group = (Position, Vec<u8>);

fn name(segment: u64) -> SegmentName {
    SegmentName::of_shard(segment, 0, 1)
}

fn place(segment: u64, offset: usize) -> Position {
    Position {
        segment,
        offset: offset as u64,
    }
}

/// A segment of `run`, with these groups from its beginning on, laid over what was there before.
fn write_segment(file: &mut [u8], segment: u64, run: u64, groups: &[Group]) {
    let header = SegmentHeader {
        shard: 0,
        sharder: Sharder::new(1),
        segment,
        run,
    };
    header.encode(&mut file[..BLOCK]);
    let mut at = BLOCK;
    for (durable, payload) in groups {
        let mut group = vec![0; GROUP_HEADER];
        group.extend(payload);
        let records = u32::from(!payload.is_empty());
        format::seal_group(&mut group, place(segment, at), *durable, records);
        group.resize(group.len().next_multiple_of(BLOCK), 0);
        file[at..at + group.len()].copy_from_slice(&group);
        at += group.len();
    }
}

/// A payload of so many mutations, and of the schema if it is the first of a segment.
fn payload(table: &Arc<Table>, first: bool, mutations: usize, time: i64) -> Vec<u8> {
    let mut out = Vec::new();
    if first {
        record::write_schema(&mut out, 0, table);
    }
    let saying = Saying::Written([1, 2], time, 3);
    let updates = vec![update(table, &[saying])];
    let mut mutation = Vec::new();
    record::write_mutation(&mut mutation, &Mutation { updates }, &[0]);
    for _ in 0..mutations {
        out.extend(&mutation);
    }
    out
}

/// What a replay gives: the groups, and why it ended early.
type Read = (Vec<String>, Option<String>);

async fn read(env: &Env, dir: &Path, names: &[u64], at_once: usize, ignore: bool) -> Read {
    let table = table(Order::Ascending);
    let names = names.iter().map(|segment| name(*segment)).collect();
    let mut replay = Replay::new(env.clone(), dir, names, ignore);
    replay.at_once = at_once;
    let find = |_: TableId| Some(table.clone());
    let mut groups = Vec::new();
    loop {
        match replay.next(&find).await {
            Ok(Some(group)) => groups.push(format!("{group:?}")),
            Ok(None) => return (groups, None),
            Err(error) => return (groups, Some(error.to_string())),
        }
    }
}

fn folder(files: &[(u64, Vec<u8>)]) -> TempDir {
    let dir = TempDir::new();
    for (segment, file) in files {
        std::fs::write(dir.0.join(name(*segment).file_name()), file).expect("a file");
    }
    dir
}

/// What happens to a file.
#[derive(Clone, Debug)]
enum Harm {
    Flip(usize),
    /// A block that never came to the drive.
    Zeros(usize),
    CutOff(usize),
}

fn harm() -> impl Strategy<Value = (prop::sample::Index, Harm)> {
    let place = || any::<prop::sample::Index>().prop_map(|at| at.index(LEN));
    let harm = prop_oneof![
        place().prop_map(Harm::Flip),
        place().prop_map(Harm::Zeros),
        place().prop_map(Harm::CutOff),
    ];
    (any::<prop::sample::Index>(), harm)
}

/// How long the segments are that are harmed.
const LEN: usize = 16 * BLOCK;

/// A run of three segments, the last of them made ahead, in files that an earlier run had filled.
fn harmed(harms: &[(prop::sample::Index, Harm)]) -> Vec<(u64, Vec<u8>)> {
    let table = table(Order::Ascending);
    let group = |durable, first, mutations| (durable, payload(&table, first, mutations, 7));
    let mut files = Vec::new();
    for segment in 4..7 {
        let mut file = vec![0; LEN];
        let old: Vec<Group> = (0..14).map(|_| group(place(2, BLOCK), false, 9)).collect();
        write_segment(&mut file, segment - 3, 1, &old);
        let groups: &[Group] = match segment {
            4 => &[
                group(Position::default(), true, 1),
                group(place(4, 2 * BLOCK), false, 300),
                group(place(4, 3 * BLOCK), false, 2),
                (place(4, 3 * BLOCK), Vec::new()),
            ],
            5 => &[
                group(place(4, 3 * BLOCK), true, 400),
                group(place(5, 3 * BLOCK), false, 1),
                group(place(5, 3 * BLOCK), false, 1),
            ],
            _ => &[],
        };
        write_segment(&mut file, segment, 4, groups);
        files.push((segment, file));
    }
    for (file, harm) in harms {
        let file = &mut files[file.index(3)].1;
        match *harm {
            Harm::Flip(at) if at < file.len() => file[at] ^= 1,
            Harm::Zeros(at) if at < file.len() => {
                let from = at / BLOCK * BLOCK;
                let to = (from + BLOCK).min(file.len());
                file[from..to].fill(0);
            }
            Harm::CutOff(at) => file.truncate(at),
            Harm::Flip(_) | Harm::Zeros(_) => {}
        }
    }
    files
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn the_size_of_the_window_changes_nothing(
        harms in prop::collection::vec(harm(), 0..4),
        ignore in any::<bool>(),
    ) {
        let dir = folder(&harmed(&harms));
        let path = dir.0.clone();
        let reads = run(move |env| async move {
            let mut reads = Vec::new();
            for at_once in [usize::MAX, BLOCK / 2, BLOCK, 3 * BLOCK] {
                reads.push(read(&env, &path, &[4, 5, 6], at_once, ignore).await);
            }
            reads
        });
        for other in &reads[1..] {
            prop_assert_eq!(other, &reads[0]);
        }
    }
}

#[test]
fn segments_larger_than_memory_are_read() {
    const LEN: usize = 5 * WINDOW;
    let table = table(Order::Ascending);
    let one = payload(&table, false, 1, 7).len();
    let group = |durable, first, bytes| (durable, payload(&table, first, bytes / one, 7));
    let large = WINDOW * 3 / 2;
    let len_in_file = |group: &Group| (GROUP_HEADER + group.1.len()).next_multiple_of(BLOCK);
    let first = group(Position::default(), true, large);
    let end = BLOCK + len_in_file(&first);
    let torn = vec![first, group(place(4, BLOCK), false, WINDOW / 2)];
    let mut files = vec![(4, vec![0; LEN]), (5, vec![0xa5; LEN])];
    write_segment(&mut files[0].1, 4, 4, &torn);
    // The second group did not come to the drive as a whole, though what is behind it did.
    files[0].1[end + BLOCK] ^= 1;
    write_segment(&mut files[1].1, 5, 4, &[group(place(4, end), true, large)]);
    let dir = folder(&files);
    let path = dir.0.clone();
    let (before, (groups, error)) = run(move |env| async move {
        let before = held::most();
        let read = read_bounded(&env, &path).await;
        (before, read)
    });
    assert_eq!((before, groups, error), (0, 1, None));

    // The same, vouched for.
    write_segment(
        &mut files[1].1,
        5,
        4,
        &[group(place(4, end + 1), true, large)],
    );
    let dir = folder(&files);
    let path = dir.0.clone();
    let (groups, error) = run(move |env| async move { read_bounded(&env, &path).await });
    assert_eq!(groups, 1);
    let error = error.expect("it refuses");
    assert!(error.contains(&format!("offset {end}")), "{error}");
}

/// Reads segments 4 and 5, of which no group is longer than two windows.
async fn read_bounded(env: &Env, dir: &Path) -> (usize, Option<String>) {
    let table = table(Order::Ascending);
    let mut replay = Replay::new(env.clone(), dir, vec![name(4), name(5)], false);
    let find = |_: TableId| Some(table.clone());
    let mut groups = 0;
    let error = loop {
        match replay.next(&find).await {
            Ok(Some(_)) => groups += 1,
            Ok(None) => break None,
            Err(error) => break Some(error.to_string()),
        }
    };
    drop(replay);
    let most = held::most();
    assert!(
        (WINDOW..=2 * WINDOW).contains(&most),
        "{most} bytes of files in memory"
    );
    assert_eq!(held::most(), 0);
    (groups, error)
}

#[test]
fn a_length_that_nothing_bears_out_takes_no_memory() {
    const LEN: usize = 5 * WINDOW;
    let mut file = vec![0; LEN];
    write_segment(&mut file, 4, 4, &[(Position::default(), vec![1])]);
    // The length of the group that stands there: nearly all of the file.
    file[BLOCK + 4..BLOCK + 8].copy_from_slice(&(4 * WINDOW as u32).to_le_bytes());
    let dir = folder(&[(4, file.clone()), (5, vec![0; LEN])]);
    let path: PathBuf = dir.0.clone();
    let (groups, error) = run(move |env| async move { read_bounded(&env, &path).await });
    assert_eq!((groups, error), (0, None));
}

#[test]
fn a_run_of_a_later_version_is_named_before_the_torn_end_of_another() {
    let table = table(Order::Ascending);
    let group = |durable| (durable, payload(&table, true, 1, 7));
    let read_with = |version: u8| {
        let mut files = vec![(4, vec![0; LEN]), (5, vec![0; LEN])];
        write_segment(&mut files[0].1, 4, 4, &[group(Position::default())]);
        write_segment(&mut files[1].1, 5, 5, &[group(place(5, BLOCK))]);
        let header = &mut files[1].1;
        header[8] = version;
        let crc = crc32fast::hash(&header[..32]);
        header[32..36].copy_from_slice(&crc.to_le_bytes());
        let dir = folder(&files);
        let path = dir.0.clone();
        run(move |env| async move { read(&env, &path, &[4, 5], WINDOW, false).await })
    };
    for version in [1, 2] {
        let (groups, error) = read_with(version);
        assert_eq!((groups.len(), error), (2, None), "version {version}");
    }
    let (groups, error) = read_with(3);
    assert_eq!(groups.len(), 1);
    let error = error.expect("it refuses");
    assert!(
        error.contains("version 3") && error.contains(&name(5).file_name()),
        "{error}"
    );
}
