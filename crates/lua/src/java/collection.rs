//! Methods of lists, sets and maps.

use super::method::missing;
use super::types::Type;
use super::{Expression, Translator, Wrong};

impl Translator<'_> {
    /// Arguments that a collection is to hold or to look for.
    fn items(&mut self, arguments: &[Expression], types: &[&Type]) -> Result<Vec<String>, Wrong> {
        let each = arguments.iter().zip(types);
        each.map(|(argument, ty)| {
            let item = match argument.ty.is_like(ty) {
                true => argument.clone(),
                false => self.converted(argument.clone(), ty)?,
            };
            Ok(item.code)
        })
        .collect()
    }

    pub(super) fn list_method(
        &mut self,
        list: &str,
        item: &Type,
        name: &str,
        arguments: &[Expression],
    ) -> Result<Expression, Wrong> {
        let (ty, code) = match (name, arguments) {
            ("size", []) => (Type::Int, format!("#{list}")),
            ("isEmpty", []) => (Type::Boolean, format!("(#{list} == 0)")),
            ("get", [at]) => {
                let code = self.helper("item", &[list, &at.code]);
                return Ok(Expression::boxed(item.clone(), code));
            }
            ("remove", [at]) if at.ty == Type::Int && !at.is_boxed => {
                let code = self.helper("take", &[list, &at.code]);
                return Ok(Expression::boxed(item.clone(), code));
            }
            ("add", [_]) => {
                let items = self.items(arguments, &[item])?;
                (Type::Boolean, self.helper("append", &[list, &items[0]]))
            }
            ("add", [at, value]) => {
                let items = self.items(std::slice::from_ref(value), &[item])?;
                (
                    Type::Void,
                    self.helper("insert", &[list, &at.code, &items[0]]),
                )
            }
            ("set", [at, value]) => {
                let items = self.items(std::slice::from_ref(value), &[item])?;
                let at = format!("{} + 1", at.code);
                let code = self.helper("put", &[list, &at, &items[0]]);
                return Ok(Expression::boxed(item.clone(), code));
            }
            ("addAll", [more]) if matches!(more.ty, Type::List(_)) => {
                let more = self.some(more);
                (Type::Boolean, self.helper("extend", &[list, &more]))
            }
            ("addAll", [more]) if matches!(more.ty, Type::Set(_)) => {
                let more = self.some(more);
                let keys = self.helper("keys", &[&more]);
                (Type::Boolean, self.helper("extend", &[list, &keys]))
            }
            ("indexOf", [value]) => (Type::Int, self.helper("place_in", &[list, &value.code])),
            ("contains", [value]) => (
                Type::Boolean,
                format!("({} >= 0)", self.helper("place_in", &[list, &value.code])),
            ),
            _ => return Err(missing(&Type::List(item.clone().into()), name)),
        };
        Ok(Expression::new(ty, code))
    }

    pub(super) fn set_method(
        &mut self,
        set: &str,
        item: &Type,
        name: &str,
        arguments: &[Expression],
    ) -> Result<Expression, Wrong> {
        let (ty, code) = match (name, arguments) {
            ("size", []) => (Type::Int, self.helper("count", &[set])),
            ("isEmpty", []) => (Type::Boolean, format!("(next({set}) == nil)")),
            ("contains", [value]) => (Type::Boolean, format!("({set}[{}] ~= nil)", value.code)),
            ("add", [_]) => {
                let items = self.items(arguments, &[item])?;
                (Type::Boolean, self.helper("include", &[set, &items[0]]))
            }
            ("remove", [value]) => (
                Type::Boolean,
                format!("({} ~= nil)", self.helper("without", &[set, &value.code])),
            ),
            ("addAll", [more]) if matches!(more.ty, Type::Set(_)) => {
                let more = self.some(more);
                (Type::Boolean, self.helper("merge", &[set, &more]))
            }
            _ => return Err(missing(&Type::Set(item.clone().into()), name)),
        };
        Ok(Expression::new(ty, code))
    }

    pub(super) fn map_method(
        &mut self,
        map: &str,
        (key, of): (&Type, &Type),
        name: &str,
        arguments: &[Expression],
    ) -> Result<Expression, Wrong> {
        let list = |ty: &Type| Type::List(ty.clone().into());
        let (ty, code) = match (name, arguments) {
            ("size", []) => (Type::Int, self.helper("count", &[map])),
            ("isEmpty", []) => (Type::Boolean, format!("(next({map}) == nil)")),
            ("get", [at]) => {
                return Ok(Expression::or_null(
                    of.clone(),
                    format!("{map}[{}]", at.code),
                ));
            }
            ("getOrDefault", [at, or]) => {
                let or = self.items(std::slice::from_ref(or), &[of])?;
                let code = format!("({map}[{}] or {})", at.code, or[0]);
                return Ok(Expression::boxed(of.clone(), code));
            }
            ("containsKey", [at]) => (Type::Boolean, format!("({map}[{}] ~= nil)", at.code)),
            ("put", [_, _]) => {
                let items = self.items(arguments, &[key, of])?;
                let code = self.helper("put", &[map, &items[0], &items[1]]);
                return Ok(Expression::or_null(of.clone(), code));
            }
            ("remove", [at]) => {
                return Ok(Expression::or_null(
                    of.clone(),
                    self.helper("without", &[map, &at.code]),
                ));
            }
            ("putAll", [more]) if matches!(more.ty, Type::Map(..)) => {
                let more = self.some(more);
                (Type::Void, self.helper("merge", &[map, &more]))
            }
            // What is walked through; nobody sees that it is a list.
            ("keySet", []) => (list(key), self.helper("keys", &[map])),
            ("values", []) => (list(of), self.helper("values", &[map])),
            ("entrySet", []) => {
                let entry = Type::Entry(key.clone().into(), of.clone().into());
                (list(&entry), self.helper("entries", &[map]))
            }
            _ => {
                return Err(missing(
                    &Type::Map(key.clone().into(), of.clone().into()),
                    name,
                ));
            }
        };
        Ok(Expression::new(ty, code))
    }
}
