//! How values of one type become those of another.

use super::buffer::BUFFER;
use super::expression::quoted;
use super::operator::real;
use super::types::Type;
use super::{Expression, Translator, Wrong, exception};

/// What is said of a value that is of another type than is asked for.
fn mismatch(value: &Expression, ty: &Type, is_boxed: bool) -> Wrong {
    format!(
        "Type mismatch: cannot convert from {} to {}",
        value.type_name(),
        ty.named(is_boxed)
    )
}

/// A number, as Lua reads it.
pub(super) fn number(value: i64) -> String {
    match value {
        i64::MIN => "math.mininteger".to_owned(),
        0.. => value.to_string(),
        _ => format!("({value})"),
    }
}

impl Expression {
    /// The whole number that it is, if that is known.
    pub(super) fn constant(&self) -> Option<i64> {
        if self.is_boxed || !self.ty.is_whole() {
            return None;
        }
        match self.code.as_str() {
            "math.maxinteger" => Some(i64::MAX),
            "math.mininteger" => Some(i64::MIN),
            code => code.trim_matches(['(', ')']).parse().ok(),
        }
    }

    /// Is it a constant that Java makes a `byte`, `short` or `char` by itself?
    pub(super) fn is_small_literal(&self, ty: &Type) -> bool {
        let range = match ty {
            Type::Byte => -128..=127,
            Type::Short => -32_768..=32_767,
            Type::Char => 0..=65_535,
            _ => return false,
        };
        let is_small = matches!(self.ty, Type::Int | Type::Short | Type::Byte | Type::Char);
        is_small
            && self
                .constant()
                .is_some_and(|number| range.contains(&number))
    }
}

/// What of a whole number a type has room for, if it is one of these.
pub(super) fn cut(value: i64, ty: &Type) -> Option<i64> {
    Some(match ty {
        Type::Byte => i64::from(value as i8),
        Type::Short => i64::from(value as i16),
        Type::Char => i64::from(value as u16),
        Type::Int => i64::from(value as i32),
        Type::Long => value,
        _ => return None,
    })
}

impl Translator<'_> {
    /// A value where a variable or a result has a type: no null becomes what is no object, and a
    /// number is put into no box but its own.
    pub(super) fn assigned(
        &mut self,
        value: Expression,
        ty: &Type,
        is_boxed: bool,
    ) -> Result<Expression, Wrong> {
        let wrong = mismatch(&value, ty, is_boxed);
        if !ty.has_primitive() {
            return self.converted(value, ty).map_err(|_| wrong);
        }
        if is_boxed {
            let from = &value.ty;
            let fits = from == ty || !from.has_primitive();
            if !fits && (value.is_boxed || !value.is_small_literal(ty)) {
                return Err(wrong);
            }
            let value = self.converted(value, ty).map_err(|_| wrong)?;
            return Ok(Expression {
                is_boxed: true,
                ..value
            });
        }
        if value.ty == Type::Null {
            return Err(wrong);
        }
        let value = self.converted(value, ty).map_err(|_| wrong)?;
        Ok(Expression {
            outcomes: value.outcomes.clone(),
            ..Expression::new(ty.clone(), self.some(&value))
        })
    }

    /// `(T) value`, where `T` is a class or is none.
    pub(super) fn cast_to(
        &mut self,
        value: Expression,
        ty: &Type,
        is_boxed: bool,
    ) -> Result<Expression, Wrong> {
        let from = &value.ty;
        let is_other = *from != *ty && (from.has_primitive() || ty.has_primitive());
        if is_boxed && self.is_anything(&value) && is_other && *ty != Type::Object {
            // Java looks at it when it is done.
            let why = format!("class {from} cannot be cast to class {ty}");
            let code = self.helper("miscast", &[&value.code, &quoted(&why)]);
            return Ok(Expression::or_null(ty.clone(), code));
        }
        if is_boxed && from.has_primitive() && ty.has_primitive() && from != ty {
            return Err(format!("Cannot cast from {} to {ty}", value.type_name()));
        }
        let value = self.cast(value, ty)?;
        Ok(match is_boxed || !ty.has_primitive() {
            true => Expression {
                is_boxed: true,
                ..value
            },
            false => Expression::new(ty.clone(), self.some(&value)),
        })
    }

    /// A value where another type is asked for, if Java gives it by itself.
    pub(super) fn converted(&mut self, value: Expression, ty: &Type) -> Result<Expression, Wrong> {
        let from = &value.ty;
        if from == ty || *ty == Type::Object || matches!(from, Type::Null | Type::Object) {
            let ty = if *ty == Type::Object { from } else { ty };
            if (from, ty) == (&Type::Object, &BUFFER) {
                let value = Expression {
                    ty: BUFFER,
                    ..value
                };
                return Ok(self.taken(value));
            }
            return Ok(Expression {
                ty: ty.clone(),
                ..value.clone()
            });
        }
        let rank = |ty: &Type| {
            use Type::{Byte, Char, Double, Float, Int, Long, Short};
            [Byte, Short, Char, Int, Long, Float, Double]
                .iter()
                .position(|each| each == ty)
        };
        let widens = match (rank(from), rank(ty)) {
            (Some(a), Some(b)) if a < b => true,
            (Some(_), Some(_)) => value.is_small_literal(ty),
            _ => false,
        };
        if widens {
            return self.cast(value, ty);
        }
        let is_user = matches!(
            ty,
            Type::Tuple(_)
                | Type::User(_)
                | Type::List(_)
                | Type::Set(_)
                | Type::Map(..)
                | Type::Entry(..)
                | Type::Optional(_)
        );
        if is_user && from.is_like(ty) {
            return Ok(Expression {
                ty: ty.clone(),
                ..value
            });
        }
        if let (Type::Exception(class), Type::Exception(of)) = (from, ty)
            && exception::is_a(class, of)
        {
            return Ok(Expression {
                ty: ty.clone(),
                ..value
            });
        }
        // Java's `Date` and `InetAddress` are handed through under several names of CQL.
        if let (Type::Other(_), Type::Other(_)) = (from, ty) {
            let (from, to) = (from.to_string(), ty.to_string());
            if from == to || [from, to].iter().any(|class| class == "Object") {
                return Ok(value);
            }
        }
        Err(mismatch(&value, ty, false))
    }

    /// A value as `(T) value` makes it.
    pub(super) fn cast(&mut self, value: Expression, ty: &Type) -> Result<Expression, Wrong> {
        let from = value.ty.clone();
        if !from.is_number() || !ty.is_number() {
            return self.converted(value, ty);
        }
        let of = |code| Expression::new(ty.clone(), code);
        if from == *ty {
            return Ok(value);
        }
        if let Some(cut) = value.constant().and_then(|constant| cut(constant, ty)) {
            return Ok(of(number(cut)));
        }
        let code = self.some(&value);
        if ty.is_real() {
            let code = real(&from, ty, code);
            return Ok(match (ty, &from) {
                (Type::Float, Type::Double | Type::Long | Type::Int) => {
                    of(self.helper("f32", &[&code]))
                }
                _ => of(code),
            });
        }
        let code = match (from.is_real(), ty) {
            (false, _) => code,
            (true, Type::Long) => {
                let ends = ["math.mininteger", "math.maxinteger"];
                self.helper("whole", &[&code, ends[0], ends[1]])
            }
            (true, _) => self.helper("whole", &[&code, "-2147483648", "2147483647"]),
        };
        Ok(of(match ty {
            Type::Int => self.helper("i32", &[&code]),
            Type::Short => self.helper("i16", &[&code]),
            Type::Byte => self.helper("i8", &[&code]),
            Type::Char => format!("({code} & 65535)"),
            _ => code,
        }))
    }
}
