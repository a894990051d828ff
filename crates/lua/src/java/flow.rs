//! Which local variables have a value: Java asks for none that may have none.
//!
//! As in chapter 16 of Java's specification, but for what is within `try` and led out of it: that is taken.

use std::collections::BTreeSet;

use super::{Expression, Translator};

/// Local variables that may have been given no value. Where nothing leads to, it is none.
pub(super) type Unassigned = BTreeSet<String>;

/// Those once a condition is true, and once it is false.
pub(super) type Outcomes = (Unassigned, Unassigned);

impl Translator<'_> {
    /// What is behind a condition that was just read.
    pub(super) fn outcomes(&self, condition: &Expression) -> Outcomes {
        if let Some(outcomes) = &condition.outcomes {
            return (**outcomes).clone();
        }
        let here = || self.unassigned.clone();
        match condition.code.as_str() {
            "true" => (here(), Unassigned::new()),
            "false" => (Unassigned::new(), here()),
            _ => (here(), here()),
        }
    }

    /// What is behind an operation, of what is behind its operands.
    pub(super) fn combined(
        &mut self,
        operation: &mut Expression,
        operator: &str,
        left: Outcomes,
        right: Outcomes,
    ) {
        let either = |a: Unassigned, b: Unassigned| a.into_iter().chain(b).collect();
        let outcomes: Outcomes = match operator {
            "&&" => (right.0, either(left.1, right.1)),
            "||" => (either(left.0, right.0), right.1),
            _ => return,
        };
        self.unassigned = either(outcomes.0.clone(), outcomes.1.clone());
        if outcomes.0 != outcomes.1 {
            operation.outcomes = Some(Box::new(outcomes));
        }
    }
}
