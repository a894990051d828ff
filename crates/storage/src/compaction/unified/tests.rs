use super::super::candidate::testing::{file, situation};
use super::super::options::testing::options as table_options;
use super::*;
use proptest::prelude::*;

const MIB: u64 = 1 << 20;

fn options(pairs: &[(&str, &str)]) -> UnifiedOptions {
    UnifiedOptions::of(&table_options("UnifiedCompactionStrategy", pairs).compaction)
}

fn chosen(files: &[Candidate], pairs: &[(&str, &str)]) -> Vec<usize> {
    let choice = next(
        &mut UnifiedState::default(),
        &situation(files),
        &options(pairs),
    );
    let mut inputs = choice.map(|choice| choice.inputs).unwrap_or_default();
    inputs.sort();
    inputs
}

/// A file of a part of the token space, in sixteenths.
fn at(id: usize, from: i64, to: i64, size: u64) -> Candidate {
    let token = |sixteenths: i64| i64::MIN.wrapping_add(sixteenths << 60);
    Candidate {
        first: Token(token(from)),
        last: Token(token(to).wrapping_sub(1)),
        ..file(id, size)
    }
}

#[test]
fn scaling_parameters_have_several_forms() {
    let of = |text| options(&[("scaling_parameters", text)]).scaling;
    assert_eq!(of("T4, T8, N, L4,-6, 3"), [2, 6, 0, -2, -6, 3]);
    assert_eq!(of("L4,"), [-2]);
    assert_eq!(of("l4"), [2], "case counts, and this is none");
    let mixed = options(&[("scaling_parameters", "T4,L10")]);
    assert_eq!((mixed.fanout(0), mixed.threshold(0)), (4, 4));
    assert_eq!((mixed.fanout(1), mixed.threshold(1)), (10, 2));
    assert_eq!((mixed.fanout(9), mixed.threshold(9)), (10, 2));
}

/// The table of `UnifiedCompactionStrategy.md`, and the cases of Cassandra's `ControllerTest`.
#[test]
fn the_number_of_boundaries_grows_with_the_density() {
    const GIB: f64 = (1u64 << 30) as f64;
    let fixed = |growth| {
        options(&[
            ("target_sstable_size", "1GiB"),
            ("base_shard_count", "3"),
            ("sstable_growth", growth),
            ("min_sstable_size", "0B"),
        ])
    };
    for (gib, expected) in [
        (0.0, 3),
        (1.0, 3),
        (4.0, 3),
        (4.5, 6),
        (17.0, 24),
        (200.0, 192),
    ] {
        assert_eq!(fixed("0").shards(gib * GIB), expected, "{gib} GiB");
    }
    assert_eq!(fixed("1").shards(1000.0 * GIB), 3);
    assert_eq!(fixed("0.5").shards(3.0 * 16.0 * GIB), 12);
    let default = options(&[]);
    assert_eq!(default.shards(1024.0 * GIB), 128);
    assert_eq!(default.shards(MIB as f64), 1);
    assert_eq!(default.shards(250.0 * MIB as f64), 2);
    assert_eq!(default.shards(f64::MAX), 4 << MOST_SHIFT);
}

#[test]
fn boundaries_cut_the_token_space_into_equal_parts() {
    assert_eq!(boundaries(1, Token::MIN, Token::MAX), []);
    let quarter = 1i64 << 62;
    assert_eq!(
        boundaries(4, Token::MIN, Token::MAX),
        [Token(-quarter - 1), Token(-1), Token(quarter - 1)]
    );
    assert_eq!(boundaries(4, Token(0), Token(5)), []);
    assert_eq!(boundaries(4, Token(-1), Token(0)), [Token(-1)]);
    assert_eq!(boundaries(3, Token::MIN, Token::MAX).len(), 2);
}

#[test]
fn four_of_a_level_are_compacted() {
    let mut files: Vec<Candidate> = (1..=3).map(|id| file(id, 100 * 1024)).collect();
    assert!(chosen(&files, &[]).is_empty());
    files.push(file(4, 200 * 1024));
    assert_eq!(chosen(&files, &[]), [1, 2, 3, 4]);
    // 1 MiB × (1 - 0.9 / 4) × 4 is where the next level begins.
    files[3].size = 4 * MIB;
    assert!(chosen(&files, &[]).is_empty());
    assert_eq!(chosen(&files, &[("scaling_parameters", "L4")]), [1, 2, 3]);
    files[1].is_free = false;
    assert_eq!(chosen(&files, &[("scaling_parameters", "L4")]), [1, 3]);
}

#[test]
fn only_what_overlaps_counts() {
    let mut files: Vec<Candidate> = (0..8)
        .map(|n| at(n, 2 * n as i64, 2 * n as i64 + 2, 1000))
        .collect();
    assert!(chosen(&files, &[]).is_empty(), "side by side");
    files.extend((8..11).map(|n| at(n, 4, 7, 1000)));
    // 2 and 3 overlap three others each.
    assert_eq!(chosen(&files, &[]), [2, 3, 8, 9, 10]);
    let none = [("overlap_inclusion_method", "NONE")];
    assert_eq!(chosen(&files, &none), [2, 8, 9, 10]);
}

#[test]
fn overlaps_are_included_as_asked() {
    let mut files: Vec<Candidate> = (1..=4).map(|n| at(n, 0, 4, 1000)).collect();
    files[3] = at(4, 0, 6, 1000);
    files.push(at(5, 5, 9, 1000));
    files.push(at(6, 8, 12, 1000));
    let with = |method| chosen(&files, &[("overlap_inclusion_method", method)]);
    assert_eq!(with("NONE"), [1, 2, 3, 4]);
    assert_eq!(with("SINGLE"), [1, 2, 3, 4, 5]);
    assert_eq!(with("TRANSITIVE"), [1, 2, 3, 4, 5, 6]);
}

#[test]
fn a_heap_is_compacted_to_the_level_where_it_would_be() {
    let files: Vec<Candidate> = (0..55).map(|n| file(n, 1000)).collect();
    let oldest = |count: usize| (0..count).collect::<Vec<_>>();
    assert_eq!(chosen(&files, &[]), oldest(16), "the document's example");
    let levelled = [("scaling_parameters", "L4")];
    assert_eq!(chosen(&files, &levelled), oldest(48));
    assert_eq!(chosen(&files[..15], &[]), oldest(15), "a bit late");
    let few = [("max_sstables_to_compact", "8")];
    assert_eq!(chosen(&files[..15], &few), oldest(8));
    assert_eq!(chosen(&files, &few), oldest(4));
}

#[test]
fn expired_files_go_with_whatever_is_compacted() {
    let mut dead = file(1, 100 << 20);
    dead.max_local_deletion_time = 1;
    dead.max_timestamp = -1;
    let files = [dead, file(2, 1000)];
    let mut state = UnifiedState::default();
    let options = options(&[]);
    let mut next = || next(&mut state, &situation(&files), &options);
    assert_eq!(next(), Some(Choice::new(vec![1], 0, Cut::Never)));
    assert_eq!(next(), None, "it was looked for not long ago");
}

/// Puts outputs in the place of inputs as the boundaries cut them.
fn compact(files: &mut Vec<Candidate>, choice: &Choice, next_id: &mut usize) {
    let (inputs, rest): (Vec<Candidate>, Vec<Candidate>) = std::mem::take(files)
        .into_iter()
        .partition(|file| choice.inputs.contains(&file.id));
    assert_eq!(
        inputs.len(),
        choice.inputs.len(),
        "chosen twice or not there"
    );
    *files = rest;
    let (first, last) = span(&inputs).expect("there are some");
    let mut ends = match &choice.cut {
        Cut::Tokens(tokens) => tokens.clone(),
        _ => Vec::new(),
    };
    ends.push(last);
    let (mut start, total) = (first, total_size(&inputs) as f64);
    for end in ends {
        let share = (i128::from(end.0) - i128::from(start.0) + 1) as f64;
        let whole = (i128::from(last.0) - i128::from(first.0) + 1) as f64;
        files.push(Candidate {
            first: start,
            last: end,
            max_timestamp: inputs.iter().map(|f| f.max_timestamp).max().unwrap_or(0),
            ..file(*next_id, (total * share / whole) as u64)
        });
        *next_id += 1;
        start = Token(end.0.saturating_add(1));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// It comes to a state with nothing to do, in which nowhere as many files of a level overlap as
    /// its threshold says; no boundary of a sparse level is missing in a denser one.
    #[test]
    fn it_comes_to_an_end(
        given in prop::collection::vec((0..15i64, 1..16i64, 1..200u64), 1..60),
        scaling in prop_oneof![Just("T4"), Just("L4"), Just("N"), Just("T3,L5,N")],
        inclusion in prop_oneof![Just("NONE"), Just("SINGLE"), Just("TRANSITIVE")],
    ) {
        let pairs = [
            ("scaling_parameters", scaling),
            ("target_sstable_size", "10MiB"),
            ("min_sstable_size", "1MiB"),
            ("overlap_inclusion_method", inclusion),
        ];
        let options = options(&pairs);
        let mut files: Vec<Candidate> = given
            .into_iter()
            .enumerate()
            .map(|(id, (from, length, size))| at(id, from, (from + length).min(16), size * MIB / 8))
            .collect();
        let (mut state, mut next_id, mut rounds) = (UnifiedState::default(), 1000, 0);
        while let Some(choice) = next(&mut state, &situation(&files), &options) {
            compact(&mut files, &choice, &mut next_id);
            rounds += 1;
            prop_assert!(rounds < 2000, "{}", files.len());
        }
        for (level, files) in levels(files.iter(), base_size(&state, &options), &options) {
            for set in overlaps(&files) {
                prop_assert!(set.len() < options.threshold(level));
            }
        }
        prop_assert_eq!(pending(&situation(&files), &options), 0);
    }

    #[test]
    fn boundaries_of_few_parts_are_among_those_of_many(base in 1..6u64, shift in 0..6u32) {
        let (few, many) = (base << shift, base << (shift + 1));
        let many = boundaries(many, Token::MIN, Token::MAX);
        for boundary in boundaries(few, Token::MIN, Token::MAX) {
            prop_assert!(many.contains(&boundary));
        }
    }
}
