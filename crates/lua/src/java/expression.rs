//! Expressions: what they are made of, and the calls behind them.

use super::assignment::{Gives, Place, settled};
use super::conversion::number;
use super::operator::too_many;
use super::token::Token;
use super::types::Type;
use super::{Expression, MAX_NESTING, Translator, Write, Wrong, mangled};

/// A text of Lua.
pub(super) fn quoted(text: &str) -> String {
    let bytes = text.bytes().map(|byte| match byte {
        b' '..=b'~' if byte != b'"' && byte != b'\\' => char::from(byte).to_string(),
        _ => format!("\\{byte:03}"),
    });
    format!("\"{}\"", bytes.collect::<String>())
}

impl Expression {
    /// The text that it is, if it is one literal.
    pub(super) fn literal(&self) -> Option<String> {
        let quoted = self.code.strip_prefix("(\"")?.strip_suffix("\")")?;
        let mut bytes = Vec::new();
        let mut rest = quoted.bytes();
        while let Some(byte) = rest.next() {
            match byte {
                b'"' => return None,
                b'\\' => {
                    let digits = [rest.next()?, rest.next()?, rest.next()?];
                    bytes.push(std::str::from_utf8(&digits).ok()?.parse().ok()?);
                }
                byte => bytes.push(byte),
            }
        }
        String::from_utf8(bytes).ok()
    }
}

impl Translator<'_> {
    pub(super) fn expression(&mut self) -> Result<Expression, Wrong> {
        self.nested(Self::assignment)
    }

    /// What is no null; where it may be, it is looked at.
    pub(super) fn some(&mut self, value: &Expression) -> String {
        match value.may_be_null {
            true => self.helper("some", &[&value.code]),
            false => value.code.clone(),
        }
    }

    /// `(T) value`, if it is one.
    pub(super) fn cast_expression(&mut self) -> Result<Option<Expression>, Wrong> {
        let began = self.at;
        self.at += 1;
        let is_primitive = self.sees_primitive();
        let is_value = |token: &Token| match token {
            Token::Sign(sign) => *sign == "(" || is_primitive && matches!(*sign, "-" | "+"),
            Token::End => false,
            _ => true,
        };
        match self.take_type() {
            Some(ty) if self.takes(")") && is_value(self.peek()) => {
                let value = self.unary()?;
                self.cast_to(value, &ty, !is_primitive).map(Some)
            }
            _ => {
                self.at = began;
                Ok(None)
            }
        }
    }

    pub(super) fn primary(&mut self) -> Result<Expression, Wrong> {
        match self.next() {
            Token::Whole(number, is_long) => {
                let ty = if is_long { Type::Long } else { Type::Int };
                Ok(Expression::new(ty, number.to_string()))
            }
            Token::Real(number, is_float) => {
                let ty = if is_float { Type::Float } else { Type::Double };
                let number = match is_float {
                    true => f64::from(number as f32),
                    false => number,
                };
                Ok(Expression::new(ty, format!("{number:?}")))
            }
            Token::Text(text) => Ok(Expression::new(Type::Text, format!("({})", quoted(&text)))),
            Token::Char(c) => Ok(Expression::new(Type::Char, u32::from(c).to_string())),
            Token::Sign("(") => {
                let mut inner = self.expression()?;
                self.expect(")")?;
                inner.code = format!("({})", inner.code);
                Ok(inner)
            }
            Token::Word(word) => self.named(&word),
            _ => {
                self.at -= 1;
                Err(self.unexpected("delete this token"))
            }
        }
    }

    fn named(&mut self, word: &str) -> Result<Expression, Wrong> {
        match word {
            "true" | "false" => return Ok(Expression::new(Type::Boolean, word)),
            "null" => return Ok(Expression::new(Type::Null, "nil")),
            "new" => return self.made(),
            _ => {}
        }
        if let Some(variable) = self.variable(word) {
            if self.unassigned.contains(word) && !self.sees("=") {
                return Err(format!(
                    "The local variable {word} may not have been initialized"
                ));
            }
            if let (Write::Never(Some(constant)), false) = (&variable.write, variable.is_boxed) {
                return Ok(Expression {
                    place: Some(Place::Variable(word.to_owned())),
                    ..Expression::new(variable.ty.clone(), number(*constant))
                });
            }
            return Ok(Expression {
                may_be_null: variable.may_be_null,
                is_boxed: variable.is_boxed,
                place: Some(Place::Variable(word.to_owned())),
                ..Expression::new(variable.ty.clone(), mangled(word))
            });
        }
        // A class, with its package or without it.
        let mut class = word.to_owned();
        while self.takes(".") {
            let of = self.explicit_parts()?;
            let name = self.word()?;
            let is_class = name.starts_with(char::is_uppercase)
                && name != "NaN"
                && !name
                    .chars()
                    .all(|c| c.is_uppercase() || c == '_' || c.is_ascii_digit());
            if is_class || class.starts_with(char::is_lowercase) && class != "udfContext" {
                class = name;
                continue;
            }
            if self.takes("(") {
                let arguments = self.arguments()?;
                let value = self.class_method(&class, &name, &arguments)?;
                return match of {
                    Some(of) if value.ty.is_raw() => self.converted(value, &of),
                    _ => Ok(value),
                };
            }
            if name == "class" {
                return Ok(Expression::new(Type::Object, "nil"));
            }
            return self.constant(&class, &name);
        }
        Err(format!("{word} cannot be resolved to a variable"))
    }

    /// `<Integer>` before the name of a method, as the collection that it makes.
    fn explicit_parts(&mut self) -> Result<Option<Type>, Wrong> {
        if !self.takes("<") {
            return Ok(None);
        }
        let mut parts = Vec::new();
        while !self.takes(">") {
            let part = self.take_type();
            parts.push(part.ok_or_else(|| self.unexpected("a type expected"))?);
            self.takes(",");
        }
        Ok(match &parts[..] {
            [part] => Some(Type::List(part.clone().into())),
            [key, of] => Some(Type::Map(key.clone().into(), of.clone().into())),
            _ => None,
        })
    }

    /// The arguments of a call, after its `(`.
    pub(super) fn arguments(&mut self) -> Result<Vec<Expression>, Wrong> {
        let mut arguments = Vec::new();
        if self.takes(")") {
            return Ok(arguments);
        }
        loop {
            let effects = self.effects;
            let argument = self.expression()?;
            if self.effects != effects {
                arguments = arguments.into_iter().map(settled).collect();
            }
            arguments.push(argument);
            if !self.takes(",") {
                self.expect(")")?;
                return Ok(arguments);
            }
        }
    }

    /// The calls behind a value, the places in an array, and what is counted up or down.
    pub(super) fn calls(&mut self, mut value: Expression) -> Result<Expression, Wrong> {
        let mut calls = 0;
        loop {
            calls += 1;
            if calls > MAX_NESTING {
                return Err(too_many("calls"));
            }
            let effects = self.effects;
            if self.takes("[") {
                let at = self.expression()?;
                self.expect("]")?;
                value = self.element(&value, at)?;
                continue;
            }
            if !self.takes(".") {
                break;
            }
            let name = self.word()?;
            if !self.takes("(") {
                value = self.field(&value, &name)?;
                continue;
            }
            let arguments = self.arguments()?;
            if self.effects != effects {
                value = settled(value);
            }
            value = self.method(&value, &name, &arguments)?;
        }
        for step in ["++", "--"] {
            if self.takes(step) {
                return self.stepped(value, step, Gives::Old);
            }
        }
        Ok(value)
    }
}
