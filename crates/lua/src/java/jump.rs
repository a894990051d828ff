//! `return`, `break` and `continue`: out of blocks, and out of the functions of Lua that some blocks are.

use super::flow::Unassigned;
use super::{Translator, Wrong};

/// What leads out of a block; loops and the like have numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Jump {
    Return,
    Break(usize),
    Continue(usize),
}

impl Jump {
    /// What a function gives that it leads out of.
    pub(super) fn number(self) -> usize {
        match self {
            Jump::Return => 0,
            Jump::Break(target) => 2 * target,
            Jump::Continue(target) => 2 * target + 1,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    Loop,
    Switch,
    /// A block with a name.
    Block,
}

/// What a `break` may leave.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) number: usize,
    name: Option<String>,
    kind: Kind,
    /// Does one leave it?
    is_left: bool,
    /// How many functions of Lua it is in.
    depth: usize,
    /// What may have no value where it is left.
    unassigned: Unassigned,
}

impl Translator<'_> {
    /// Around what is read: something that may be left, and its number. It ends with the place where
    /// a `break` leads; whether one does.
    pub(super) fn leavable(
        &mut self,
        code: &mut String,
        kind: Kind,
        read: impl FnOnce(&mut Self, &mut String, usize) -> Result<bool, Wrong>,
    ) -> Result<(bool, bool), Wrong> {
        let number = self.number();
        self.targets.push(Target {
            number,
            name: self.label.take(),
            kind,
            is_left: false,
            depth: self.closures.len(),
            unassigned: Unassigned::new(),
        });
        let goes_on = read(self, code, number)?;
        let Some(target) = self.targets.pop() else {
            return Ok((goes_on, false));
        };
        let is_left = target.is_left;
        self.unassigned.extend(target.unassigned);
        if is_left {
            code.push_str(&format!("::b{number}:: "));
        }
        Ok((goes_on, is_left))
    }

    /// `break` and `continue`.
    pub(super) fn jump_statement(&mut self, code: &mut String, word: &str) -> Result<bool, Wrong> {
        self.at += 1;
        let name = match self.sees(";") {
            true => None,
            false => Some(self.word()?),
        };
        self.expect(";")?;
        let is_break = word == "break";
        let found = self.targets.iter_mut().rev().find(|target| match &name {
            Some(name) => target.name.as_ref() == Some(name),
            None => target.kind == Kind::Loop || is_break && target.kind == Kind::Switch,
        });
        let target = match (found, name) {
            (Some(target), _) if is_break || target.kind == Kind::Loop => target,
            (Some(_), Some(name)) => return Err(format!("continue cannot lead to {name}")),
            (None, Some(name)) => return Err(format!("The label {name} is missing")),
            (_, None) if is_break => {
                return Err("break cannot be used outside of a loop or a switch".to_owned());
            }
            (_, None) => return Err("continue cannot be used outside of a loop".to_owned()),
        };
        target.is_left |= is_break;
        let unassigned = std::mem::take(&mut self.unassigned);
        if is_break {
            target.unassigned.extend(unassigned);
        }
        let jump = match is_break {
            true => Jump::Break(target.number),
            false => Jump::Continue(target.number),
        };
        self.lead(code, jump, "nil");
        Ok(false)
    }

    /// Leads out of blocks; `value` is what a `return` gives.
    pub(super) fn lead(&mut self, code: &mut String, jump: Jump, value: &str) {
        let (Jump::Break(number) | Jump::Continue(number)) = jump else {
            match self.closures.last_mut() {
                Some(closure) => {
                    closure.insert(jump);
                    code.push_str(&format!("do return 0, {value} end "));
                }
                None => code.push_str(&format!("do return {value} end ")),
            }
            return;
        };
        let mut targets = self.targets.iter();
        let depth = targets.find(|target| target.number == number);
        let is_inside = depth.is_some_and(|target| target.depth < self.closures.len());
        match (self.closures.last_mut(), jump) {
            (Some(closure), _) if is_inside => {
                closure.insert(jump);
                code.push_str(&format!("do return {} end ", jump.number()));
            }
            (_, Jump::Continue(_)) => code.push_str(&format!("goto l{number} ")),
            _ => code.push_str(&format!("goto b{number} ")),
        }
    }
}
