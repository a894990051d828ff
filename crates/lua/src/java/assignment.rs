//! Assignments, which are expressions: `=`, `+=`, `++`.

use super::types::Type;
use super::{Expression, Translator, Write, Wrong, mangled};

/// Where a value is put.
#[derive(Clone, Debug)]
pub(super) enum Place {
    Variable(String),
    /// The code of an array, and that of the index.
    Element(String, String),
}

/// Which value an assignment is.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Gives {
    Old,
    New,
}

/// A value as it is before what stands behind it changes something: of an operation, Lua looks at a
/// variable on the left only after it has called what is on the right.
pub(super) fn settled(value: Expression) -> Expression {
    let is_constant = value.code.bytes().all(|byte| byte.is_ascii_digit());
    let code = match is_constant {
        true => value.code,
        false => format!("(function() return {} end)()", value.code),
    };
    Expression { code, ..value }
}

impl Translator<'_> {
    /// A value, or what is put where one was.
    pub(super) fn assignment(&mut self) -> Result<Expression, Wrong> {
        let left = self.conditional()?;
        let Some((operator, words)) = self.operator() else {
            return Ok(left);
        };
        let is_comparison = matches!(operator, "==" | "!=" | "<=" | ">=");
        let Some(operator) = operator.strip_suffix('=').filter(|_| !is_comparison) else {
            return Ok(left);
        };
        self.at += words;
        let effects = self.effects;
        let value = self.expression()?;
        let has_effects = self.effects != effects;
        self.put(&left, operator, value, Gives::New, has_effects)
    }

    /// `value++` and the like.
    pub(super) fn stepped(
        &mut self,
        value: Expression,
        step: &str,
        gives: Gives,
    ) -> Result<Expression, Wrong> {
        let one = Expression::new(Type::Int, "1");
        self.put(&value, &step[..1], one, gives, false)
    }

    /// Puts a value where `left` is, or what an operator makes of both.
    fn put(
        &mut self,
        left: &Expression,
        operator: &str,
        value: Expression,
        gives: Gives,
        has_effects: bool,
    ) -> Result<Expression, Wrong> {
        let Some(place) = left.place.clone() else {
            return Err("The left-hand side of an assignment must be a variable".to_owned());
        };
        self.effects += 1;
        if let Place::Variable(name) = &place {
            self.check_write(name, operator)?;
            if operator.is_empty() {
                self.may_become_null(name, value.may_be_null);
                self.unassigned.remove(name);
            }
        }
        let (new, may_be_null) = match operator {
            "" => {
                let new = self.assigned(value, &left.ty, left.is_boxed)?;
                (new.code, new.may_be_null)
            }
            _ => {
                let mut old = left.clone();
                if let Place::Element(..) = place {
                    old.code = "Old".to_owned();
                }
                if has_effects {
                    old = settled(old);
                }
                let new = self.operation(old, operator, value)?;
                (self.cast(new, &left.ty)?.code, false)
            }
        };
        let (code, statement) = self.put_code(&place, operator, &new, gives);
        Ok(Expression {
            may_be_null,
            is_boxed: left.is_boxed,
            statement: Some(statement),
            ..Expression::new(left.ty.clone(), code)
        })
    }

    /// As an expression, and as a statement.
    fn put_code(
        &mut self,
        place: &Place,
        operator: &str,
        new: &str,
        gives: Gives,
    ) -> (String, String) {
        match place {
            Place::Variable(name) => {
                let name = mangled(name);
                let code = match gives {
                    Gives::Old => format!("local Old = {name} {name} = {new} return Old"),
                    Gives::New => format!("{name} = {new} return {name}"),
                };
                let code = format!("(function() {code} end)()");
                (code, format!("{name} = {new} "))
            }
            Place::Element(array, at) => {
                let change = format!("function(Old) return {new} end");
                let code = match (operator, gives) {
                    ("", _) => self.helper("set_at", &[array, at, new]),
                    (_, Gives::Old) => self.helper("changed_at", &[array, at, &change]),
                    (_, Gives::New) => self.helper("change_at", &[array, at, &change]),
                };
                let statement = format!("{code} ");
                (code, statement)
            }
        }
    }

    /// May a variable be given a value here?
    fn check_write(&self, name: &str, operator: &str) -> Result<(), Wrong> {
        let write = self.variable(name).map(|variable| &variable.write);
        match write {
            None | Some(Write::Any) => Ok(()),
            Some(Write::Once) if operator.is_empty() && self.unassigned.contains(name) => Ok(()),
            Some(Write::Once) | Some(Write::Loop) if operator.is_empty() => Err(format!(
                "The final local variable {name} may already have been assigned"
            )),
            Some(_) => Err(format!(
                "The final local variable {name} cannot be assigned. It must be blank and not using a compound assignment"
            )),
        }
    }

    /// A variable that is null once may be so on the next round of a loop, too.
    fn may_become_null(&mut self, name: &str, may_be_null: bool) {
        let mut scopes = self.scopes.iter_mut().rev();
        if let Some(variable) = scopes.find_map(|scope| scope.get_mut(name)) {
            variable.may_be_null |= may_be_null;
        }
    }
}
