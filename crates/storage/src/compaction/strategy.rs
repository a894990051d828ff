//! The strategy of a table: what its options say, and what it remembers.

use model::TableOptions;

use super::candidate::{Candidate, Situation, span, total_size};
use super::cut::Cut;
use super::leveled::{self, LeveledOptions, LeveledState};
use super::options::{CommonOptions, Map};
use super::size_tiered::{self, SizeTieredOptions};
use super::time_window::{self, TimeWindowOptions, TimeWindowState};
use super::unified::{self, UnifiedOptions, UnifiedState};

/// A compaction to do.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Choice {
    /// What to compact.
    pub(crate) inputs: Vec<usize>,
    /// The level of the outputs.
    pub(crate) level: u32,
    /// How the outputs are cut.
    pub(crate) cut: Cut,
}

impl Choice {
    pub(crate) fn new(inputs: Vec<usize>, level: u32, cut: Cut) -> Choice {
        Choice { inputs, level, cut }
    }
}

/// The strategy of a table on one shard.
#[derive(Clone, Debug)]
pub(crate) struct Strategy {
    /// What it was made of.
    map: Map,
    common: CommonOptions,
    /// One for what is not repaired, and one for what is: each remembers its own.
    kinds: [Kind; 2],
}

#[derive(Clone, Debug)]
enum Kind {
    SizeTiered(SizeTieredOptions),
    Leveled(LeveledOptions, LeveledState),
    TimeWindow(TimeWindowOptions, TimeWindowState),
    Unified(UnifiedOptions, UnifiedState),
}

impl Strategy {
    /// The one that the options of a table ask for.
    pub(crate) fn of(options: &TableOptions) -> Strategy {
        let map = &options.compaction;
        let class = map.get("class").map_or("", String::as_str);
        let kind = match class.rsplit('.').next().unwrap_or("") {
            "LeveledCompactionStrategy" => {
                Kind::Leveled(LeveledOptions::of(map), LeveledState::default())
            }
            "TimeWindowCompactionStrategy" => {
                Kind::TimeWindow(TimeWindowOptions::of(map), TimeWindowState::default())
            }
            "UnifiedCompactionStrategy" => {
                Kind::Unified(UnifiedOptions::of(map), UnifiedState::default())
            }
            _ => Kind::SizeTiered(SizeTieredOptions::of(map)),
        };
        Strategy {
            map: map.clone(),
            common: CommonOptions::of(options),
            kinds: [kind.clone(), kind],
        }
    }

    /// Becomes another one if the table was altered. What the old one remembered is forgotten.
    pub(crate) fn follow(&mut self, options: &TableOptions) {
        if self.map != options.compaction {
            *self = Strategy::of(options);
        }
    }

    /// `enabled`: may the table be compacted by itself, unless somebody switches it? Whoever asks
    /// for the next compaction sees to it.
    pub(crate) fn is_enabled(&self) -> bool {
        self.common.enabled
    }

    /// The compaction that comes next, if there is one to do, of those that have most to do.
    pub(crate) fn next(&mut self, situation: &Situation<'_>) -> Option<Choice> {
        let [mut first, mut second] = [false, true].map(|repaired| situation.of(repaired));
        // Most tables have nothing that is repaired.
        if second.own().next().is_some() && self.pending_of(&first) < self.pending_of(&second) {
            std::mem::swap(&mut first, &mut second);
        }
        self.next_of(&first).or_else(|| self.next_of(&second))
    }

    fn next_of(&mut self, situation: &Situation<'_>) -> Option<Choice> {
        let common = &self.common;
        match &mut self.kinds[usize::from(situation.repaired)] {
            Kind::SizeTiered(options) => {
                let inputs = size_tiered::next(situation, common, options);
                (!inputs.is_empty()).then(|| Choice::new(inputs, 0, Cut::Never))
            }
            Kind::Leveled(options, state) => leveled::next(state, situation, common, options),
            Kind::TimeWindow(options, state) => {
                let inputs = time_window::next(state, situation, common, options);
                (!inputs.is_empty()).then(|| Choice::new(inputs, 0, Cut::Never))
            }
            Kind::Unified(options, state) => unified::next(state, situation, options),
        }
    }

    /// About how many compactions there are to do.
    pub(crate) fn pending(&self, situation: &Situation<'_>) -> usize {
        let pending = |repaired| self.pending_of(&situation.of(repaired));
        [false, true].map(pending).iter().sum()
    }

    fn pending_of(&self, situation: &Situation<'_>) -> usize {
        let common = &self.common;
        match &self.kinds[usize::from(situation.repaired)] {
            Kind::SizeTiered(options) => size_tiered::pending(situation.free(), common, options),
            Kind::Leveled(options, _) => leveled::pending(situation.own(), common, options),
            Kind::TimeWindow(options, state) => {
                time_window::pending(state, situation, common, options)
            }
            Kind::Unified(options, _) => unified::pending(situation, options),
        }
    }

    /// The compactions of all that is free. With `split` the outputs of SizeTiered are cut into
    /// halves; Leveled and Unified cut theirs anyway, and TimeWindow does not split.
    pub(crate) fn major(&self, situation: &Situation<'_>, split: bool) -> Vec<Choice> {
        let major = |repaired| self.major_of(&situation.of(repaired), split);
        [false, true].into_iter().flat_map(major).collect()
    }

    fn major_of(&self, situation: &Situation<'_>, split: bool) -> Vec<Choice> {
        let all: Vec<&Candidate> = situation.free().collect();
        if all.is_empty() {
            return Vec::new();
        }
        let ids = |files: &[&Candidate]| files.iter().map(|file| file.id).collect::<Vec<_>>();
        match &self.kinds[usize::from(situation.repaired)] {
            Kind::SizeTiered(_) if split => {
                let cut = Cut::Halves(total_size(all.iter().copied()));
                vec![Choice::new(ids(&all), 0, cut)]
            }
            Kind::SizeTiered(_) | Kind::TimeWindow(..) => {
                vec![Choice::new(ids(&all), 0, Cut::Never)]
            }
            Kind::Leveled(options, _) => {
                let (size, fanout) = (options.sstable_size, options.fanout);
                let cut = Cut::Levels { size, fanout };
                vec![Choice::new(ids(&all), 1, cut)]
            }
            Kind::Unified(options, _) => unified::major(&all, options),
        }
    }

    /// How these files are compacted because somebody asks for it: those that are repaired and the
    /// others, if there are any.
    pub(crate) fn together(&self, files: &[&Candidate]) -> Vec<Choice> {
        let of = |repaired| {
            let group = files.iter().copied();
            let group = group.filter(|file| file.is_repaired() == repaired);
            self.together_of(&group.collect::<Vec<_>>())
        };
        [false, true].into_iter().filter_map(of).collect()
    }

    fn together_of(&self, files: &[&Candidate]) -> Option<Choice> {
        span(files.iter().copied())?;
        let ids = files.iter().map(|file| file.id).collect();
        Some(match (&self.kinds[0], files) {
            (Kind::Leveled(options, _), [file]) => leveled::rewrite(file, options),
            (Kind::Unified(options, _), _) => unified::compaction_of(files, options),
            _ => Choice::new(ids, 0, Cut::Never),
        })
    }

    /// How one file is rewritten for another reason than compaction: it keeps its level.
    pub(crate) fn rewrite(&self, file: &Candidate) -> Choice {
        match &self.kinds[0] {
            Kind::Leveled(options, _) => leveled::rewrite(file, options),
            Kind::Unified(options, _) => unified::compaction_of(&[file], options),
            _ => Choice::new(vec![file.id], file.level, Cut::Never),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::candidate::testing::{files, situation};
    use super::super::options::testing::options;
    use super::*;

    const CLASSES: [&str; 4] = [
        "SizeTieredCompactionStrategy",
        "LeveledCompactionStrategy",
        "TimeWindowCompactionStrategy",
        "UnifiedCompactionStrategy",
    ];

    #[test]
    fn it_follows_the_options() {
        let files = files(&[1000; 4]);
        for class in CLASSES {
            let mut strategy = Strategy::of(&options("SizeTieredCompactionStrategy", &[]));
            let now = options(class, &[("enabled", "false")]);
            strategy.follow(&now);
            assert!(!strategy.is_enabled());
            strategy.follow(&options(class, &[]));
            assert!(strategy.is_enabled());
            let chosen = strategy.next(&situation(&files)).expect("enough of them");
            assert_eq!(chosen.inputs.len(), 4, "{class}");
        }
    }

    #[test]
    fn major_compactions_take_everything() {
        let mut files = files(&[100 << 20, 1, 300 << 20]);
        files[1].is_free = false;
        for class in CLASSES {
            let strategy = Strategy::of(&options(class, &[]));
            for split in [false, true] {
                let choices = strategy.major(&situation(&files), split);
                let all: Vec<usize> = choices.into_iter().flat_map(|c| c.inputs).collect();
                assert_eq!(all, [1, 3], "{class}");
            }
            assert!(strategy.major(&situation(&[]), false).is_empty());
            assert!(strategy.together(&[]).is_empty());
        }
    }

    #[test]
    fn what_is_repaired_is_never_mixed_with_what_is_not() {
        let mut files = files(&[1000; 9]);
        for file in &mut files[4..] {
            file.repaired_at = 7;
        }
        let groups = [vec![1, 2, 3, 4], vec![5, 6, 7, 8, 9]];
        for class in CLASSES {
            let mut strategy = Strategy::of(&options(class, &[]));
            let inputs = |choices: Vec<Choice>| -> Vec<Vec<usize>> {
                choices.into_iter().map(|choice| choice.inputs).collect()
            };
            let major = strategy.major(&situation(&files), false);
            assert_eq!(inputs(major), groups, "{class}");
            let all: Vec<&Candidate> = files.iter().collect();
            assert_eq!(inputs(strategy.together(&all)), groups, "{class}");
            let mut left = files.clone();
            while let Some(choice) = strategy.next(&situation(&left)) {
                let is_one = groups.iter().any(|group| {
                    let mut inputs = choice.inputs.iter();
                    inputs.all(|input| group.contains(input))
                });
                assert!(is_one, "{class}: {choice:?}");
                left.retain(|file| !choice.inputs.contains(&file.id));
            }
            assert!(left.len() <= 1, "{class}: {left:?}");
        }
    }

    #[test]
    fn only_size_tiered_splits_a_major_compaction() {
        let files = files(&[100 << 20, 300 << 20]);
        for (class, expected) in [
            (CLASSES[0], Cut::Halves(400 << 20)),
            (CLASSES[2], Cut::Never),
        ] {
            let strategy = Strategy::of(&options(class, &[]));
            let choices = strategy.major(&situation(&files), true);
            let cuts: Vec<Cut> = choices.into_iter().map(|choice| choice.cut).collect();
            assert_eq!(cuts, [expected], "{class}");
            let whole = strategy.major(&situation(&files), false);
            assert_eq!(whole[0].cut, Cut::Never, "{class}");
        }
    }
}
