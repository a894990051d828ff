//! Constants, and values that are made: constructors, and collections that are made at once.

use super::rounding::Rounding;
use super::types::Type;
use super::{Expression, Translator, Wrong};

impl Translator<'_> {
    pub(super) fn constant(&mut self, class: &str, name: &str) -> Result<Expression, Wrong> {
        let (ty, code) = match (class, name) {
            ("Math", "PI") => (Type::Double, "math.pi"),
            ("Math", "E") => (Type::Double, "2.718281828459045"),
            ("Integer", "MAX_VALUE") => (Type::Int, "2147483647"),
            ("Integer", "MIN_VALUE") => (Type::Int, "(-2147483648)"),
            ("Long", "MAX_VALUE") => (Type::Long, "math.maxinteger"),
            ("Long", "MIN_VALUE") => (Type::Long, "math.mininteger"),
            ("Double", "NaN") => (Type::Double, "(0.0 / 0.0)"),
            ("Double", "POSITIVE_INFINITY") => (Type::Double, "math.huge"),
            ("Double", "NEGATIVE_INFINITY") => (Type::Double, "(-math.huge)"),
            ("Double", "MAX_VALUE") => (Type::Double, "1.7976931348623157e308"),
            ("Double", "MIN_VALUE") => (Type::Double, "4.9e-324"),
            ("Boolean", "TRUE") => (Type::Boolean, "true"),
            ("Boolean", "FALSE") => (Type::Boolean, "false"),
            ("BigDecimal" | "BigInteger", "ZERO" | "ONE" | "TWO" | "TEN") => {
                let numbers = [("ZERO", "0"), ("ONE", "1"), ("TWO", "2"), ("TEN", "10")];
                let number = numbers.iter().find(|(known, _)| *known == name);
                let number = number.map_or("0", |(_, number)| *number);
                let ty = Type::of_class(class, Vec::new()).unwrap_or(Type::Object);
                self.helpers.insert("given");
                return Ok(Expression::new(
                    ty,
                    format!("given(native.decimal({number}))"),
                ));
            }
            ("RoundingMode", name) if Rounding::of(name).is_some() => {
                return Ok(Expression::new(Type::Rounding, format!("(\"{name}\")")));
            }
            _ => return Err(format!("{class}.{name} is not available in Helenus")),
        };
        Ok(match class {
            "Boolean" => Expression::boxed(ty, code),
            _ => Expression::new(ty, code),
        })
    }

    /// What is behind `new`.
    pub(super) fn made(&mut self) -> Result<Expression, Wrong> {
        let is_boxed = !self.sees_primitive();
        let Some(ty) = self.take_type() else {
            let class = self.word()?;
            return Err(format!("{class} cannot be resolved to a type"));
        };
        if self.sees("[") {
            return self.array_of_size(ty, is_boxed);
        }
        if self.sees("{") {
            return self.array_of_items(&ty);
        }
        self.expect("(")?;
        let arguments = self.arguments()?;
        if let Type::Exception(class) = ty {
            return self.made_exception(class, &arguments);
        }
        if let Some(made) = self.library_constructor(&ty, &arguments)? {
            return Ok(made);
        }
        let code = match (&ty, &arguments[..]) {
            // Boxes, as Java had them made before there was `valueOf`.
            (boxed, [_]) if boxed.is_number() || *boxed == Type::Boolean => {
                return self.class_method(&ty.to_string(), "valueOf", &arguments);
            }
            (Type::Text, []) => "\"\"".to_owned(),
            (Type::Text, [text]) if text.ty == Type::Text => self.some(text),
            (Type::Builder, [] | [Expression { ty: Type::Int, .. }]) => "({\"\"})".to_owned(),
            (Type::Builder, [text]) if text.ty == Type::Text => {
                format!("({{{}}})", self.some(text))
            }
            (Type::List(_), [from]) if matches!(from.ty, Type::List(_)) => {
                let from = self.some(from);
                self.helper("copy", &[&from])
            }
            (Type::List(_), [from]) if matches!(from.ty, Type::Set(_)) => {
                let from = self.some(from);
                self.helper("keys", &[&from])
            }
            (Type::Set(_), [from]) if matches!(from.ty, Type::List(_)) => {
                let from = self.some(from);
                self.helper("elements", &[&from])
            }
            (
                Type::List(_) | Type::Set(_) | Type::Map(..),
                [] | [Expression { ty: Type::Int, .. }],
            ) => "{}".to_owned(),
            _ => {
                return Err(format!(
                    "The constructor {ty}({}) is not available in Helenus",
                    arguments.len()
                ));
            }
        };
        let ty = match (&ty, arguments.first()) {
            (
                Type::List(_),
                Some(Expression {
                    ty: Type::List(of) | Type::Set(of),
                    ..
                }),
            ) => Type::List(of.clone()),
            (
                Type::Set(_),
                Some(Expression {
                    ty: Type::List(of), ..
                }),
            ) => Type::Set(of.clone()),
            _ => ty,
        };
        Ok(Expression::new(ty, code))
    }

    /// Collections that are made at once: `Arrays.asList(a, b)`, `Map.of(k, v)`.
    pub(super) fn collection_of(
        &mut self,
        class: &str,
        name: &str,
        arguments: &[Expression],
    ) -> Option<Expression> {
        // What is of several types is of one that may be anything; null is of each.
        let of = |items: &mut dyn Iterator<Item = &Expression>| {
            let mut types = items.map(|item| &item.ty).filter(|ty| **ty != Type::Null);
            let first = types.next().cloned().unwrap_or(Type::Object);
            let is_one = types.all(|ty| *ty == first);
            Box::new(if is_one { first } else { Type::Object })
        };
        let is_map = class == "Map" || name.ends_with("Map");
        let first = match is_map {
            true => of(&mut arguments.iter().step_by(2)),
            false => of(&mut arguments.iter()),
        };
        let ty = match (class, name, arguments.len()) {
            ("Arrays", "asList", _)
            | ("List", "of", _)
            | ("Collections", "singletonList", 1)
            | ("Collections", "emptyList", 0) => Type::List(first),
            ("Set", "of", _) | ("Collections", "singleton", 1) | ("Collections", "emptySet", 0) => {
                Type::Set(first)
            }
            ("Map", "of", count) if count % 2 != 0 => return None,
            ("Map", "of", _)
            | ("Collections", "singletonMap", 2)
            | ("Collections", "emptyMap", 0) => {
                Type::Map(first, of(&mut arguments.iter().skip(1).step_by(2)))
            }
            _ => return None,
        };
        let values = arguments.iter().map(|value| {
            let value = self.stored(value);
            self.some(&value)
        });
        let values: Vec<String> = values.collect();
        let items: Vec<String> = match &ty {
            Type::Set(_) => values.iter().map(|v| format!("[{v}] = true")).collect(),
            Type::Map(..) => {
                let entries = values.chunks_exact(2);
                entries.map(|e| format!("[{}] = {}", e[0], e[1])).collect()
            }
            _ => values,
        };
        Some(Expression::new(ty, format!("({{{}}})", items.join(", "))))
    }
}
