//! Things that are added once and removed for good: what a read may show of them.
//!
//! An addition and a removal go one way each: not tried, tried, and certain. One is certain when it was
//! acknowledged at QUORUM, or when a read at QUORUM has shown it, as such a read leaves a quorum that knows.
//! A removal is later than its addition, by its timestamp, so that it wins whatever comes first. Hence
//!
//! * a thing may be shown if somebody has tried to add it before the read ended, and its removal was not
//!   certain when the read began;
//! * it may be missing if its addition was not certain when the read began, or somebody has tried to remove
//!   it before the read ended;
//! * shown, its addition is certain; missing although its addition was certain, its removal is.

use std::collections::{BTreeMap, BTreeSet};

/// How far an addition or a removal is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    #[default]
    Never,
    /// It may have been done, may be done later, or never.
    Tried,
    /// Every read at QUORUM that begins from now on sees it.
    Certain,
}

#[derive(Clone, Copy, Debug, Default)]
struct Element {
    added: Step,
    removed: Step,
}

/// The things of one place, such as the members of a set or the rows of a partition.
#[derive(Clone, Debug, Default)]
pub(super) struct Elements(BTreeMap<i64, Element>);

impl Elements {
    /// Somebody tries to add one.
    pub(super) fn adding(&mut self, element: i64) {
        self.add(element, Step::Tried);
    }

    /// It is there for certain, unless it is removed.
    pub(super) fn added(&mut self, element: i64) {
        self.add(element, Step::Certain);
    }

    fn add(&mut self, element: i64, step: Step) {
        let element = self.0.entry(element).or_default();
        element.added = element.added.max(step);
    }

    /// Somebody tries to remove these.
    pub(super) fn removing(&mut self, elements: &[i64]) {
        self.remove(elements, Step::Tried);
    }

    /// They are gone for certain.
    pub(super) fn removed(&mut self, elements: &[i64]) {
        self.remove(elements, Step::Certain);
    }

    fn remove(&mut self, elements: &[i64], step: Step) {
        for element in elements {
            let element = self.0.entry(*element).or_default();
            element.removed = element.removed.max(step);
        }
    }

    /// Those that may be there, or may come: what a removal of everything removes.
    pub(super) fn possible(&self) -> Vec<i64> {
        let possible = self.0.iter();
        let possible = possible.filter(|(_, element)| element.removed < Step::Certain);
        possible.map(|(number, _)| *number).collect()
    }

    /// Those that are there for certain, as nobody has tried to remove them.
    pub(super) fn certain(&self) -> Vec<i64> {
        let certain = self.0.iter().filter(|(_, element)| {
            element.added == Step::Certain && element.removed == Step::Never
        });
        certain.map(|(number, _)| *number).collect()
    }

    /// A read at QUORUM that began when `before` was known has shown these, and no others.
    ///
    /// # Errors
    /// It may not; in words.
    pub(super) fn check(&mut self, before: &Elements, shown: &BTreeSet<i64>) -> Result<(), String> {
        self.explain(before, shown)?;
        for (number, element) in &mut self.0 {
            if shown.contains(number) {
                element.added = Step::Certain;
            } else if before.of(*number).added == Step::Certain {
                element.removed = Step::Certain;
            }
        }
        Ok(())
    }

    /// The same of a read that says nothing of what a quorum has, but must see what is certain.
    ///
    /// # Errors
    /// It may not have shown this; in words.
    pub(super) fn explain(&self, before: &Elements, shown: &BTreeSet<i64>) -> Result<(), String> {
        for number in shown {
            if self.of(*number).added == Step::Never {
                return Err(format!("{number} is there, which nobody has added"));
            }
            if before.of(*number).removed == Step::Certain {
                return Err(format!(
                    "{number} is there, which had been removed for good"
                ));
            }
        }
        let missing = self.0.iter().find(|(number, element)| {
            !shown.contains(number)
                && before.of(**number).added == Step::Certain
                && element.removed == Step::Never
        });
        missing.map_or(Ok(()), |(number, _)| {
            Err(format!(
                "{number} is not there, which had been added, and which nobody has removed"
            ))
        })
    }

    fn of(&self, number: i64) -> Element {
        self.0.get(&number).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(numbers: &[i64]) -> BTreeSet<i64> {
        numbers.iter().copied().collect()
    }

    #[test]
    fn what_was_acknowledged_is_shown() {
        let mut elements = Elements::default();
        elements.adding(1);
        let before = elements.clone();
        elements.added(1);
        // The read began before that was acknowledged.
        assert_eq!(elements.explain(&before, &shown(&[])), Ok(()));
        let before = elements.clone();
        assert!(elements.check(&before, &shown(&[])).is_err());
        assert_eq!(elements.check(&before, &shown(&[1])), Ok(()));
        assert!(elements.check(&before, &shown(&[1, 2])).is_err());
    }

    #[test]
    fn no_read_goes_back_in_time() {
        let mut elements = Elements::default();
        elements.adding(1);
        let before = elements.clone();
        assert_eq!(elements.check(&before, &shown(&[])), Ok(()));
        assert_eq!(elements.check(&before, &shown(&[1])), Ok(()));
        let before = elements.clone();
        assert!(elements.check(&before, &shown(&[])).is_err());
        elements.removing(&[1]);
        assert_eq!(elements.check(&before, &shown(&[1])), Ok(()));
        assert_eq!(elements.check(&before, &shown(&[])), Ok(()));
        let before = elements.clone();
        assert!(elements.check(&before, &shown(&[1])).is_err());
        assert!(elements.possible().is_empty() && elements.certain().is_empty());
    }
}
