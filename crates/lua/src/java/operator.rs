//! Operators: what they take, and what they give.

use super::assignment::{Gives, settled};
use super::conversion::{cut, number};
use super::token::Token;
use super::types::Type;
use super::{Expression, MAX_NESTING, Translator, Wrong};

const SHIFTS: [&str; 3] = ["<<", ">>", ">>>"];

/// Operators of several words, those of more before the others.
const COMPOSED: [(&str, &[&str]); 6] = [
    (">>>=", &[">", ">", ">="]),
    (">>>", &[">", ">", ">"]),
    (">>=", &[">", ">="]),
    ("<<=", &["<", "<="]),
    (">>", &[">", ">"]),
    ("<<", &["<", "<"]),
];

/// The level of `instanceof`, which is that of `<`.
const COMPARISONS: usize = 6;

/// The operators of two operands, those that bind less before the others.
const LEVELS: [&[&str]; 10] = [
    &["||"],
    &["&&"],
    &["|"],
    &["^"],
    &["&"],
    &["==", "!="],
    &["<", ">", "<=", ">="],
    &SHIFTS,
    &["+", "-"],
    &["*", "/", "%"],
];

impl Translator<'_> {
    pub(super) fn conditional(&mut self) -> Result<Expression, Wrong> {
        let condition = self.binary(0)?;
        if !self.takes("?") {
            return Ok(condition);
        }
        let (when_true, when_false) = self.outcomes(&condition);
        let condition = self.assigned(condition, &Type::Boolean, false)?;
        self.unassigned = when_true;
        let mut yes = self.expression()?;
        self.expect(":")?;
        let after = std::mem::replace(&mut self.unassigned, when_false);
        let mut no = self.expression()?;
        self.unassigned.extend(after);
        let ty = match (&yes.ty, &no.ty) {
            (Type::Null, ty) | (ty, Type::Null) => ty.clone(),
            (a, b) if a.is_number() && b.is_number() && a != b => common(a, b),
            (a, b) if a.is_raw() => b.clone(),
            (a, _) => a.clone(),
        };
        // A box stays one only where there is no value beside it.
        let is_boxed = match (yes.is_primitive(), no.is_primitive()) {
            (true, true) => false,
            (true, false) => no.ty == Type::Null || no.ty != ty,
            (false, true) => yes.ty == Type::Null || yes.ty != ty,
            (false, false) => yes.ty == no.ty || yes.ty == Type::Null || no.ty == Type::Null,
        };
        if !is_boxed && ty.has_primitive() {
            yes = self.assigned(yes, &ty, false)?;
            no = self.assigned(no, &ty, false)?;
        }
        yes = self.converted(yes, &ty)?;
        no = self.converted(no, &ty)?;
        let code = format!(
            "(function() if {} then return {} else return {} end end)()",
            condition.code, yes.code, no.code
        );
        Ok(Expression {
            may_be_null: yes.may_be_null || no.may_be_null,
            is_boxed,
            ..Expression::new(ty, code)
        })
    }

    /// Operations of the operators that bind no less than those of a level.
    fn binary(&mut self, lowest: usize) -> Result<Expression, Wrong> {
        let mut left = self.unary()?;
        let mut operations = 0;
        loop {
            if self.sees_word("instanceof") && lowest <= COMPARISONS {
                left = self.instance_of(&left)?;
                continue;
            }
            let Some((operator, words)) = self.operator() else {
                return Ok(left);
            };
            let level = LEVELS.iter().position(|level| level.contains(&operator));
            let Some(level) = level.filter(|level| *level >= lowest) else {
                return Ok(left);
            };
            self.at += words;
            operations += 1;
            if operations > MAX_NESTING {
                return Err(too_many("operations"));
            }
            let effects = self.effects;
            let before = self.outcomes(&left);
            match operator {
                "&&" => self.unassigned = before.0.clone(),
                "||" => self.unassigned = before.1.clone(),
                _ => {}
            }
            let right = self.binary(level + 1)?;
            let after = self.outcomes(&right);
            if self.effects != effects {
                left = settled(left);
            }
            left = self.operation(left, operator, right)?;
            self.combined(&mut left, operator, before, after);
        }
    }

    /// The operator that is here, and of how many words it is: `>>` is two, as in `List<List<T>>`.
    pub(super) fn operator(&self) -> Option<(&'static str, usize)> {
        let several = COMPOSED.iter().find(|(_, signs)| self.sees_signs(signs));
        match (several, self.peek()) {
            (Some((operator, signs)), _) => Some((operator, signs.len())),
            (None, Token::Sign(sign)) => Some((sign, 1)),
            _ => None,
        }
    }

    /// An operation of two operands.
    pub(super) fn operation(
        &mut self,
        left: Expression,
        operator: &str,
        right: Expression,
    ) -> Result<Expression, Wrong> {
        let undefined = || {
            format!(
                "The operator {operator} is undefined for the argument type(s) {}, {}",
                left.type_name(),
                right.type_name()
            )
        };
        let (a, b) = (&left.ty, &right.ty);
        if operator == "+" && (*a == Type::Text || *b == Type::Text) {
            let (x, y) = (self.shown(&left), self.shown(&right));
            // Halves of characters may meet only where both texts may have such.
            let may_be_half = |of: &Expression| {
                of.literal().is_none() && (matches!(of.ty, Type::Text | Type::Char | Type::Builder))
            };
            let code = match may_be_half(&left) && may_be_half(&right) {
                true => self.helper("joined", &[&x, &y]),
                false => format!("({x} .. {y})"),
            };
            return Ok(Expression::new(Type::Text, code));
        }
        if matches!(operator, "==" | "!=") {
            return self.equality(&left, operator, &right);
        }
        let booleans = *a == Type::Boolean && *b == Type::Boolean;
        let both = |this: &mut Self| (this.some(&left), this.some(&right));
        if let Some(lua) = match operator {
            "&&" | "&" if booleans => Some("and"),
            "||" | "|" if booleans => Some("or"),
            "^" if booleans => Some("~="),
            _ => None,
        } {
            let (x, y) = both(self);
            return Ok(Expression::new(Type::Boolean, format!("({x} {lua} {y})")));
        }
        if !a.is_number() || !b.is_number() {
            return Err(undefined());
        }
        if let Some(folded) = folded(&left, operator, &right) {
            return Ok(folded);
        }
        if SHIFTS.contains(&operator) {
            return match a.is_whole() && b.is_whole() {
                true => Ok(self.shift(&left, operator, &right)),
                false => Err(undefined()),
            };
        }
        let ty = common(a, b);
        let (x, y) = both(self);
        match operator {
            "<" | ">" | "<=" | ">=" => Ok(Expression::new(
                Type::Boolean,
                format!("({x} {operator} {y})"),
            )),
            "&" | "|" | "^" if ty.is_whole() => {
                let lua = if operator == "^" { "~" } else { operator };
                Ok(Expression::new(ty, format!("({x} {lua} {y})")))
            }
            "+" | "-" | "*" | "/" | "%" => {
                let code = match operator {
                    "/" if ty.is_whole() => self.helper("quotient", &[&x, &y]),
                    "%" if ty.is_whole() => self.helper("remainder", &[&x, &y]),
                    "%" => self.helper("rest", &[&x, &y]),
                    // Whole numbers beside a real one are made real, so that nothing wraps.
                    _ => format!("({} {operator} {})", real(a, &ty, x), real(b, &ty, y)),
                };
                Ok(self.rounded(ty, code))
            }
            _ => Err(undefined()),
        }
    }

    /// Of the right one, Java looks at as many bits as count those of the left.
    fn shift(&mut self, left: &Expression, operator: &str, right: &Expression) -> Expression {
        let ty = common(&left.ty, &Type::Int);
        let (value, places) = (self.some(left), self.some(right));
        let bits = if ty == Type::Int { "31" } else { "63" };
        let places = format!("({places} & {bits})");
        let code = match (operator, &ty) {
            ("<<", _) => format!("({value} << {places})"),
            (">>", _) => self.helper("shifted", &[&value, &places]),
            (_, Type::Int) => format!("(({value} & 4294967295) >> {places})"),
            _ => format!("({value} >> {places})"),
        };
        self.rounded(ty, code)
    }

    fn equality(
        &mut self,
        left: &Expression,
        operator: &str,
        right: &Expression,
    ) -> Result<Expression, Wrong> {
        let (a, b) = (&left.ty, &right.ty);
        let lua = if operator == "==" { "==" } else { "~=" };
        let are_numbers = a.is_number() && b.is_number();
        let is_one_value = left.is_primitive() || right.is_primitive();
        let fits = a == b
            || *a == Type::Object
            || *b == Type::Object
            || is_one_value && are_numbers
            || !is_one_value
                && (*a == Type::Null || *b == Type::Null || a.is_like(b) && !are_numbers);
        let (x, y) = match is_one_value && a.has_primitive() && b.has_primitive() {
            true => (self.some(left), self.some(right)),
            false => (left.code.clone(), right.code.clone()),
        };
        let names = (left.type_name(), right.type_name());
        match fits {
            true => Ok(Expression::new(Type::Boolean, format!("({x} {lua} {y})"))),
            false if is_one_value => Err(format!(
                "The operator {operator} is undefined for the argument type(s) {}, {}",
                names.0, names.1
            )),
            false => Err(format!(
                "Incompatible operand types {} and {}",
                names.0, names.1
            )),
        }
    }

    /// The result of an arithmetic, cut to what its type has room for.
    pub(super) fn rounded(&mut self, ty: Type, code: String) -> Expression {
        let code = match ty {
            Type::Int => self.helper("i32", &[&code]),
            Type::Float => self.helper("f32", &[&code]),
            _ => code,
        };
        Expression::new(ty, code)
    }

    pub(super) fn unary(&mut self) -> Result<Expression, Wrong> {
        self.nested(Self::signed)
    }

    fn signed(&mut self) -> Result<Expression, Wrong> {
        if self.takes("!") {
            let value = self.unary()?;
            let outcomes = value.outcomes.clone();
            let value = self.assigned(value, &Type::Boolean, false)?;
            let code = format!("(not {})", self.some(&value));
            return Ok(Expression {
                outcomes: outcomes.map(|both| Box::new((both.1, both.0))),
                ..Expression::new(Type::Boolean, code)
            });
        }
        for sign in ["-", "+", "~"] {
            if !self.takes(sign) {
                continue;
            }
            if let (Token::Whole(number, is_long), "-") = (self.peek().clone(), sign) {
                self.at += 1;
                let ty = if is_long { Type::Long } else { Type::Int };
                return Ok(Expression::new(ty, format!("(-{number})")));
            }
            let value = self.unary()?;
            if !value.ty.is_number() || sign == "~" && value.ty.is_real() {
                return Err(format!(
                    "The operator {sign} is undefined for the argument type(s) {}",
                    value.type_name()
                ));
            }
            let ty = common(&value.ty, &Type::Int);
            let constant = value.constant().map(|constant| match sign {
                "-" => constant.wrapping_neg(),
                "~" => !constant,
                _ => constant,
            });
            if let Some(constant) = constant.and_then(|constant| cut(constant, &ty)) {
                return Ok(Expression::new(ty, number(constant)));
            }
            let of = self.some(&value);
            return Ok(match sign {
                "+" => Expression::new(ty, of),
                _ => self.rounded(ty, format!("({sign}{of})")),
            });
        }
        for step in ["++", "--"] {
            if self.takes(step) {
                let value = self.unary()?;
                return self.stepped(value, step, Gives::New);
            }
        }
        if self.sees("(")
            && let Some(value) = self.cast_expression()?
        {
            return Ok(value);
        }
        let value = self.primary()?;
        self.calls(value)
    }
}

/// What an operator makes of two whole numbers that are known.
fn folded(left: &Expression, operator: &str, right: &Expression) -> Option<Expression> {
    let (a, b) = (left.constant()?, right.constant()?);
    let is_shift = SHIFTS.contains(&operator);
    let ty = match is_shift {
        true => common(&left.ty, &Type::Int),
        false => common(&left.ty, &right.ty),
    };
    let places = (b & if ty == Type::Int { 31 } else { 63 }) as u32;
    let value = match operator {
        "+" => a.wrapping_add(b),
        "-" => a.wrapping_sub(b),
        "*" => a.wrapping_mul(b),
        "/" => a.checked_div(b)?,
        "%" => a.checked_rem(b)?,
        "&" => a & b,
        "|" => a | b,
        "^" => a ^ b,
        "<<" => a << places,
        ">>" => a >> places,
        ">>>" if ty == Type::Int => i64::from((a as u32) >> places),
        ">>>" => ((a as u64) >> places) as i64,
        _ => return None,
    };
    let value = cut(value, &ty)?;
    Some(Expression::new(ty, number(value)))
}

pub(super) fn too_many(what: &str) -> Wrong {
    format!("More than {MAX_NESTING} {what} in a row are not available in Helenus")
}

/// The type that an arithmetic of two numbers has.
pub(super) fn common(a: &Type, b: &Type) -> Type {
    for ty in [Type::Double, Type::Float, Type::Long] {
        if *a == ty || *b == ty {
            return ty;
        }
    }
    Type::Int
}

/// A number where one of type `ty` is asked for.
pub(super) fn real(from: &Type, ty: &Type, code: String) -> String {
    match ty.is_real() && from.is_whole() {
        true => format!("({code} + 0.0)"),
        false => code,
    }
}
