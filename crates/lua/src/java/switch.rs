//! `switch`, with what falls through from one case into the next.

use super::jump::Kind;
use super::types::Type;
use super::{Expression, Translator, Wrong};

impl Translator<'_> {
    pub(super) fn switch_statement(&mut self, code: &mut String) -> Result<bool, Wrong> {
        self.at += 1;
        self.expect("(")?;
        let value = self.expression()?;
        self.expect(")")?;
        if !matches!(value.ty, Type::Int | Type::Short | Type::Byte | Type::Char) {
            return Err(format!(
                "Cannot switch on a value of type {}. Only convertible int values, strings or enum variables are permitted",
                value.type_name()
            ));
        }
        let of = self.some(&value);
        code.push_str(&format!("do local Value = {of} "));
        let (goes_on, is_left) = self.leavable(code, Kind::Switch, |this, code, number| {
            this.nested(|this| this.cases(code, &value, number))
        })?;
        code.push_str("end ");
        Ok(goes_on || is_left)
    }

    /// The cases, each behind a place that is led to; whether the end is reached but by `break`.
    fn cases(&mut self, code: &mut String, of: &Expression, number: usize) -> Result<bool, Wrong> {
        self.expect("{")?;
        self.scopes.push(Default::default());
        self.switches.push((self.scopes.len(), Vec::new()));
        let (mut tests, mut seen, mut default) = (String::new(), Vec::new(), None);
        let (mut bodies, mut places, mut goes_on) = (String::new(), 0, true);
        let before = std::mem::take(&mut self.unassigned);
        while !self.takes("}") {
            let is_case = self.takes_word("case");
            if is_case {
                let value = self.case_value(of)?;
                if seen.contains(&value) {
                    return Err("Duplicate case".to_owned());
                }
                tests.push_str(&format!(
                    "if Value == {value} then goto c{number}_{places} end "
                ));
                seen.push(value);
            } else if !self.takes_word("default") {
                return Err(self.unexpected("case, default or \"}\" expected"));
            } else if default.replace(places).is_some() {
                return Err("The default case is already defined".to_owned());
            }
            if self.sees("->") {
                return Err(
                    "Arrow in case statement supported from Java 14 onwards only".to_owned(),
                );
            }
            self.expect(":")?;
            bodies.push_str(&format!("::c{number}_{places}:: do "));
            places += 1;
            goes_on = true;
            // What a case above declares is known here, without a value.
            self.unassigned.extend(before.iter().cloned());
            let declared = self
                .scopes
                .last()
                .into_iter()
                .flat_map(|scope| scope.keys());
            self.unassigned.extend(declared.cloned());
            while !["case", "default"].iter().any(|word| self.sees_word(word)) && !self.sees("}") {
                if !goes_on {
                    return Err("Unreachable code".to_owned());
                }
                goes_on = self.statement(&mut bodies)?;
            }
            bodies.push_str("end ");
        }
        self.scopes.pop();
        let declared = self
            .switches
            .pop()
            .map(|(_, names)| names)
            .unwrap_or_default();
        if !declared.is_empty() {
            code.push_str(&format!("local {} ", declared.join(", ")));
        }
        code.push_str(&tests);
        match default {
            Some(place) => code.push_str(&format!("goto c{number}_{place} ")),
            None => code.push_str(&format!("goto e{number} ")),
        }
        code.push_str(&bodies);
        if default.is_none() {
            self.unassigned.extend(before);
            code.push_str(&format!("::e{number}:: "));
        }
        Ok(goes_on || default.is_none())
    }

    fn case_value(&mut self, of: &Expression) -> Result<String, Wrong> {
        let value = self.conditional()?;
        if value.constant().is_none() {
            return Err("case expressions must be constant expressions".to_owned());
        }
        Ok(self.assigned(value, &of.ty, of.is_boxed)?.code)
    }
}
