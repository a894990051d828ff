//! Types as statements name them, before the user types of a keyspace give them meaning
//! (`CQL3Type.Raw`).

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;

use model::{CqlType, MAX_NESTING, UserType};

use crate::CqlError;
use crate::ast::DataType;

/// The user types of a keyspace, by name.
pub type UserTypes = BTreeMap<Arc<str>, Arc<UserType>>;

/// Of how many types a type may be made, those within user types counted each time: a few types
/// that each use the one before twice would otherwise take for ever to walk through.
const MAX_PARTS: usize = 4096;

/// Is the type made of more types than the budget has left?
fn is_too_large(ty: &CqlType, budget: &mut usize) -> bool {
    match budget.checked_sub(1) {
        Some(left) => *budget = left,
        None => return true,
    }
    ty.parts().any(|part| is_too_large(part, budget))
}

/// Refuses a type that `system_schema`, or the header of an sstable, could not be read back with.
/// `shown` is what has it, for the message.
pub(super) fn check_size(ty: &CqlType, shown: impl Display) -> Result<(), CqlError> {
    if ty.nesting() > MAX_NESTING {
        return invalid(format!(
            "{shown} is made of types that lie more than {MAX_NESTING} deep in each other, those \
             within user types counted: it cannot be part of another one or of a table"
        ));
    }
    if is_too_large(ty, &mut { MAX_PARTS }) {
        return invalid(format!(
            "{shown} is made of more than {MAX_PARTS} types: it cannot be part of another one or \
             of a table"
        ));
    }
    Ok(())
}

/// The type that a Java class stands for. Classes that Helenus does not know as a type are
/// refused: it could not order their values. Of those of Cassandra 1, `DateType` is `timestamp` as soon as
/// it has been through `system_schema`, and `LexicalUUIDType` has no other name.
fn known_class(class: &str) -> Result<CqlType, CqlError> {
    let is_unknown = |ty: &CqlType| !ty.has_known_order();
    match CqlType::from_marshal(class) {
        Ok(ty) if ty.modern() == Some(&CqlType::Timestamp) => return Ok(CqlType::Timestamp),
        Ok(ty) if !ty.any(&is_unknown) => return Ok(ty),
        Ok(_) | Err(_) => {}
    }
    let name = class.split('(').next().unwrap_or_default().trim();
    // A name without a package is one of Cassandra's.
    let full_name = match name.contains('.') {
        true => name.to_owned(),
        false => format!("org.apache.cassandra.db.marshal.{name}"),
    };
    // Of a class that is known it is what is in the brackets.
    let reason = match CqlType::from_marshal(name).is_ok_and(|ty| is_unknown(&ty)) {
        true => format!("Unable to find abstract-type class '{full_name}'"),
        false => format!("Invalid definition for comparator {full_name}."),
    };
    Err(CqlError::Syntax(format!(
        "Error setting type {class}: {reason}"
    )))
}

fn invalid<T>(message: String) -> Result<T, CqlError> {
    Err(CqlError::Invalid(message))
}

impl DataType {
    /// Is it, without looking into it, a counter?
    pub(super) fn is_counter(&self) -> bool {
        matches!(self, DataType::Native(CqlType::Counter))
    }

    /// Is it a user type that is not frozen?
    pub(super) fn is_unfrozen_user_type(&self) -> bool {
        matches!(self, DataType::User { .. })
    }

    /// The type it stands for in `keyspace`, which has these user types.
    pub fn resolve(&self, keyspace: &str, types: &UserTypes) -> Result<CqlType, CqlError> {
        let ty = self.resolve_part(keyspace, types)?;
        check_size(&ty, "A type")?;
        Ok(ty)
    }

    fn resolve_part(&self, keyspace: &str, types: &UserTypes) -> Result<CqlType, CqlError> {
        match self {
            DataType::Native(ty) => Ok(ty.clone()),
            DataType::Varchar => Ok(CqlType::Text),
            DataType::Custom(class) => known_class(class),
            DataType::User { .. } => self.resolve_user_type(keyspace, types),
            DataType::List(_) | DataType::Set(_) | DataType::Map(..) => {
                self.resolve_collection(self, keyspace, types)
            }
            DataType::Tuple(parts) => {
                if parts.iter().any(DataType::is_counter) {
                    return invalid("Counters are not allowed inside tuples".to_owned());
                }
                // What is in a tuple is frozen, and so is what is in that.
                let resolve = |part: &DataType| match part {
                    DataType::List(_) | DataType::Set(_) | DataType::Map(..) => part
                        .resolve_collection(
                            &DataType::Frozen(part.clone().into()),
                            keyspace,
                            types,
                        ),
                    _ => part.resolve_part(keyspace, types),
                };
                let parts: Result<Vec<CqlType>, CqlError> = parts
                    .iter()
                    .map(|part| Ok(resolve(part)?.freeze()))
                    .collect();
                Ok(CqlType::Tuple(parts?).freeze())
            }
            DataType::Vector(element, dimension) => {
                let element = element.resolve_part(keyspace, types)?;
                match u32::try_from(*dimension) {
                    Ok(dimension) if dimension > 0 => Ok(CqlType::Vector {
                        element: element.into(),
                        dimension,
                    }),
                    _ => invalid(format!(
                        "vectors may only have positive dimensions; given {dimension}"
                    )),
                }
            }
            // What may be in it the parser has looked at.
            DataType::Frozen(inner) => match &**inner {
                DataType::List(_) | DataType::Set(_) | DataType::Map(..) => {
                    Ok(inner.resolve_collection(self, keyspace, types)?.freeze())
                }
                other => Ok(other.resolve_part(keyspace, types)?.freeze()),
            },
        }
    }

    fn resolve_user_type(&self, keyspace: &str, types: &UserTypes) -> Result<CqlType, CqlError> {
        let DataType::User { keyspace: of, name } = self else {
            return invalid(format!("{self} is no user type"));
        };
        if let Some(of) = of
            && of != keyspace
        {
            return invalid(format!(
                "Statement on keyspace {keyspace} cannot refer to a user type in keyspace {of}; \
                 user types can only be used in the keyspace they are defined in"
            ));
        }
        match types.get(name.as_str()) {
            Some(definition) => {
                let ty = CqlType::Udt {
                    definition: definition.clone(),
                    frozen: false,
                };
                check_size(&ty, format_args!("Type {keyspace}.{name}"))?;
                Ok(ty)
            }
            None => invalid(format!("Unknown type {keyspace}.{name}")),
        }
    }

    /// A collection; `shown` is how messages name it, with the `frozen` around it. Elements of a
    /// frozen collection are frozen with it.
    fn resolve_collection(
        &self,
        shown: &DataType,
        keyspace: &str,
        types: &UserTypes,
    ) -> Result<CqlType, CqlError> {
        let frozen = matches!(shown, DataType::Frozen(_));
        let inner = |ty: &DataType| -> Result<CqlType, CqlError> {
            if ty.is_counter() {
                return invalid(format!(
                    "Counters are not allowed inside collections: {shown}"
                ));
            }
            // A type that is not frozen is refused whether it is there or not.
            if let DataType::User { .. } = ty
                && !frozen
            {
                return invalid(format!(
                    "Non-frozen UDTs are not allowed inside collections: {shown}"
                ));
            }
            let resolved = match ty {
                DataType::List(_) | DataType::Set(_) | DataType::Map(..) if frozen => {
                    ty.resolve_collection(&DataType::Frozen(ty.clone().into()), keyspace, types)?
                }
                _ => ty.resolve_part(keyspace, types)?,
            };
            if resolved.is_multi_cell() && !frozen {
                let what = if resolved.is_collection() {
                    "collections"
                } else {
                    "UDTs"
                };
                return invalid(format!(
                    "Non-frozen {what} are not allowed inside collections: {shown}"
                ));
            }
            Ok(resolved.freeze())
        };
        match self {
            DataType::List(element) => Ok(CqlType::List {
                element: inner(element)?.into(),
                frozen: false,
            }),
            DataType::Set(element) => {
                let element = inner(element)?;
                if element == CqlType::Duration {
                    return invalid(format!("Durations are not allowed inside sets: {shown}"));
                }
                Ok(CqlType::Set {
                    element: element.into(),
                    frozen: false,
                })
            }
            DataType::Map(key, value) => {
                let (key, value) = (inner(key)?, inner(value)?);
                if key == CqlType::Duration {
                    return invalid(format!("Durations are not allowed as map keys: {shown}"));
                }
                Ok(CqlType::Map {
                    key: key.into(),
                    value: value.into(),
                    frozen: false,
                })
            }
            other => invalid(format!("{other} is no collection")),
        }
    }
}

impl DataType {
    /// The type as names of columns and messages show it: with the keyspace of user types, and with
    /// what is frozen because of what it is in (`CQL3Type.Raw.freeze`).
    pub(crate) fn qualified(&self, keyspace: &str) -> DataType {
        self.shown(keyspace, false)
    }

    fn shown(&self, keyspace: &str, in_frozen: bool) -> DataType {
        let inner = |ty: &DataType| Box::new(ty.shown(keyspace, in_frozen));
        let shown = match self {
            DataType::User { name, .. } => DataType::User {
                keyspace: Some(keyspace.to_owned()),
                name: name.clone(),
            },
            DataType::List(element) => DataType::List(inner(element)),
            DataType::Set(element) => DataType::Set(inner(element)),
            DataType::Map(key, value) => DataType::Map(inner(key), inner(value)),
            DataType::Tuple(parts) => {
                let parts = parts.iter().map(|part| part.shown(keyspace, true));
                return DataType::Tuple(parts.collect());
            }
            DataType::Vector(element, dimension) => {
                let element = element.shown(keyspace, false);
                return DataType::Vector(element.into(), *dimension);
            }
            DataType::Frozen(ty) => return ty.shown(keyspace, true),
            DataType::Custom(class) => match known_class(class) {
                Ok(ty) => return DataType::Custom(ty.to_marshal()),
                Err(_) => return self.clone(),
            },
            DataType::Native(_) | DataType::Varchar => return self.clone(),
        };
        match in_frozen {
            true => DataType::Frozen(shown.into()),
            false => shown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_that_double_with_each_other_are_refused() {
        let mut types = UserTypes::new();
        let mut refused = None;
        for i in 0..40 {
            let field = match i {
                0 => Ok(CqlType::Int),
                _ => DataType::Frozen(Box::new(DataType::User {
                    keyspace: None,
                    name: format!("t{}", i - 1),
                }))
                .resolve("ks", &types),
            };
            let Ok(field) = field else {
                refused = Some(i);
                break;
            };
            let name: Arc<str> = Arc::from(format!("t{i}"));
            let user_type = UserType {
                keyspace: Arc::from("ks"),
                name: name.clone(),
                fields: vec![(Arc::from("a"), field.clone()), (Arc::from("b"), field)],
            };
            types.insert(name, Arc::new(user_type));
        }
        assert_eq!(refused, Some(12));
    }

    /// The type that lies `nesting` deep in `open`s.
    fn nested(
        open: &str,
        close: &str,
        nesting: usize,
        types: &UserTypes,
    ) -> Result<CqlType, CqlError> {
        let text = format!("{}int{}", open.repeat(nesting), close.repeat(nesting));
        crate::parse_type(&text)?.resolve("ks", types)
    }

    /// As `system_schema`, DESCRIBE and the headers of sstables read it.
    fn assert_read_back(ty: &CqlType, types: &UserTypes) {
        let text = ty.to_string();
        assert_eq!(CqlType::from_cql(&text, types).as_ref(), Ok(ty));
        let parsed = crate::parse_type(&text).expect("the parser takes it");
        assert_eq!(parsed.resolve("ks", types).as_ref(), Ok(ty));
        let class = format!(
            "org.apache.cassandra.db.marshal.ReversedType({})",
            ty.to_marshal()
        );
        let (read, _) = CqlType::from_marshal_ordered(&class).expect("the class is read");
        assert_eq!(read.to_marshal(), ty.to_marshal());
    }

    #[test]
    fn what_is_accepted_can_be_read_back() {
        let none = UserTypes::new();
        for (open, close) in [
            ("frozen<list<", ">>"),
            ("frozen<set<", ">>"),
            ("frozen<map<int, ", ">>"),
            ("tuple<int, ", ">"),
            ("frozen<tuple<", ">>"),
            ("vector<", ", 1>"),
        ] {
            let deepest = nested(open, close, MAX_NESTING, &none).expect("at the limit");
            assert_read_back(&deepest, &none);
            let refused = nested(open, close, MAX_NESTING + 1, &none);
            assert!(refused.is_err(), "{open}");
        }
        let lists = format!("frozen<{}int{}>", "list<".repeat(64), ">".repeat(64));
        let lists = crate::parse_type(&lists).expect("a type");
        assert_read_back(&lists.resolve("ks", &none).expect("at the limit"), &none);
    }

    #[test]
    fn a_chain_of_user_types_is_as_deep_as_it_is_long() {
        let mut types = UserTypes::new();
        let field_of = |last: usize| {
            let name = format!("t{last}");
            DataType::Frozen(Box::new(DataType::User {
                keyspace: None,
                name,
            }))
        };
        for i in 0..=MAX_NESTING {
            let field = match i {
                0 => CqlType::Int,
                _ => field_of(i - 1).resolve("ks", &types).expect("not too deep"),
            };
            let name: Arc<str> = Arc::from(format!("t{i}"));
            let definition = UserType {
                keyspace: Arc::from("ks"),
                name: name.clone(),
                fields: vec![(Arc::from("a"), field)],
            };
            types.insert(name, Arc::new(definition));
        }
        let deepest = field_of(MAX_NESTING - 1).resolve("ks", &types);
        assert_read_back(&deepest.expect("at the limit"), &types);
        assert!(field_of(MAX_NESTING).resolve("ks", &types).is_err());
        let name = format!("frozen<t{MAX_NESTING}>");
        assert!(CqlType::from_cql(&name, &types).is_err());
    }
}
