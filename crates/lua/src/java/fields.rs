//! Methods of tuples and user types.

use model::CqlType;

use super::method::missing;
use super::types::Type;
use super::{Expression, Translator, Wrong};

impl Translator<'_> {
    /// What a tuple or a user type has at a place, by the name of a method.
    pub(super) fn fields(
        &mut self,
        on: &Expression,
        value: &str,
        name: &str,
        arguments: &[Expression],
    ) -> Result<Expression, Wrong> {
        let absent = || missing(&on.ty, name);
        let [place, rest @ ..] = arguments else {
            return Err(absent());
        };
        let known = self.type_at(&on.ty, place);
        let at = match (&on.ty, &place.ty) {
            (Type::User(Some(definition)), Type::Int) => {
                let at = place.code.parse().ok();
                let field = at.and_then(|at: usize| definition.fields.get(at));
                let (name, _) = field.ok_or_else(absent)?;
                super::expression::quoted(name)
            }
            (_, Type::Int) => format!("{} + 1", place.code),
            _ => place.code.clone(),
        };
        let named = |kind: &str| -> Option<Type> {
            Some(match kind {
                "Int" => Type::Int,
                "Long" | "Time" => Type::Long,
                "Short" => Type::Short,
                "Byte" => Type::Byte,
                "Float" => Type::Float,
                "Double" => Type::Double,
                "Bool" => Type::Boolean,
                "String" => Type::Text,
                "List" => Type::List(Type::Object.into()),
                "Set" => Type::Set(Type::Object.into()),
                "Map" => Type::Map(Type::Object.into(), Type::Object.into()),
                "UDTValue" => Type::User(None),
                "TupleValue" => Type::Tuple(None),
                "Varint" => Type::Other(CqlType::Varint),
                "Decimal" => Type::Other(CqlType::Decimal),
                "UUID" => Type::Other(CqlType::Uuid),
                "Inet" => Type::Other(CqlType::Inet),
                "Timestamp" => Type::Other(CqlType::Timestamp),
                "Date" => Type::Other(CqlType::Date),
                "Bytes" | "BytesUnsafe" => Type::Other(CqlType::Blob),
                "Object" | "" => Type::Object,
                _ => return None,
            })
        };
        if name == "isNull" {
            return Ok(Expression::new(
                Type::Boolean,
                format!("({value}[{at}] == nil)"),
            ));
        }
        if name == "setToNull" {
            let code = self.helper("with", &[value, &at, "nil"]);
            return Ok(Expression::new(on.ty.clone(), code));
        }
        if let Some(ty) = name.strip_prefix("get").and_then(named) {
            // An object, which may be null: `get(0, Integer.class)`.
            if ty == Type::Object {
                let ty = known.unwrap_or(ty);
                return Ok(Expression::or_null(ty, format!("{value}[{at}]")));
            }
            let ty = match known {
                Some(known) if known.is_like(&ty) => known,
                _ => ty,
            };
            let read = format!("{value}[{at}]");
            // What is primitive has a value also where there is none.
            return Ok(match &ty {
                Type::Boolean => Expression::new(ty, format!("({read} or false)")),
                _ if ty.is_real() => Expression::new(ty, format!("({read} or 0.0)")),
                _ if ty.is_whole() => Expression::new(ty, format!("({read} or 0)")),
                Type::List(_) | Type::Set(_) | Type::Map(..) => {
                    Expression::new(ty, format!("({read} or {{}})"))
                }
                _ => Expression::or_null(ty, read),
            });
        }
        let (Some(ty), Some(given)) = (name.strip_prefix("set").and_then(named), rest.first())
        else {
            return Err(absent());
        };
        let given = match ty == Type::Object {
            true => given.clone(),
            false => self.converted(given.clone(), &ty)?,
        };
        let code = self.helper("with", &[value, &at, &given.code]);
        Ok(Expression::new(on.ty.clone(), code))
    }

    /// The type of a field, where it is named by a literal.
    fn type_at(&self, ty: &Type, place: &Expression) -> Option<Type> {
        let literal = place.code.trim_start_matches('(').trim_end_matches(')');
        match (ty, place.ty.clone()) {
            (Type::Tuple(Some(types)), Type::Int) => {
                types.get(literal.parse::<usize>().ok()?).map(Type::of)
            }
            (Type::User(Some(definition)), Type::Int) => {
                let field = definition.fields.get(literal.parse::<usize>().ok()?);
                field.map(|(_, ty)| Type::of(ty))
            }
            (Type::User(Some(definition)), Type::Text) => {
                let name = literal.trim_matches('"');
                let field = definition.fields.iter().find(|(field, _)| &**field == name);
                field.map(|(_, ty)| Type::of(ty))
            }
            _ => None,
        }
    }
}
