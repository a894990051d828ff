//! User-defined functions and aggregates, as a keyspace has them.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::CqlType;

/// A user-defined function (`UDFunction`).
#[derive(Clone, Debug, PartialEq)]
pub struct UserFunction {
    /// Its keyspace.
    pub keyspace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// The names of its arguments.
    pub argument_names: Vec<Arc<str>>,
    /// The types of its arguments.
    pub argument_types: Vec<CqlType>,
    /// The type of its result.
    pub return_type: CqlType,
    /// `CALLED ON NULL INPUT`; else it is not called with a null and its result is null.
    pub called_on_null_input: bool,
    /// The language of its body.
    pub language: Arc<str>,
    /// Its text in that language.
    pub body: Arc<str>,
}

/// A user-defined aggregate (`UDAggregate`).
#[derive(Clone, Debug, PartialEq)]
pub struct UserAggregate {
    /// Its keyspace.
    pub keyspace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// The types of its arguments.
    pub argument_types: Vec<CqlType>,
    /// The type of its state.
    pub state_type: CqlType,
    /// The type of its result.
    pub return_type: CqlType,
    /// `SFUNC`: from the state and the arguments of a row to the next state.
    pub state_function: Arc<UserFunction>,
    /// `FINALFUNC`: from the last state to the result.
    pub final_function: Option<Arc<UserFunction>>,
    /// `INITCOND`: the first state, a value of its type.
    pub initial: Option<Bytes>,
}

/// Names a function among those of a keyspace: its name, and the types of its arguments as text.
/// In order of these, functions are listed.
pub type Signature = (Arc<str>, String);

/// The user-defined functions and aggregates of a keyspace. No two of them have one signature.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UserFunctions {
    /// Functions.
    pub scalars: BTreeMap<Signature, Arc<UserFunction>>,
    /// Aggregates.
    pub aggregates: BTreeMap<Signature, Arc<UserAggregate>>,
}

/// The types of arguments as text, without the `frozen` around them: `int, tuple<int, text>`. To
/// a function, what is frozen and what is not is the same.
pub fn argument_list(types: &[CqlType]) -> String {
    let texts: Vec<String> = types.iter().map(argument_type).collect();
    texts.join(", ")
}

/// A type as functions name it: without the `frozen` around it.
pub fn argument_type(ty: &CqlType) -> String {
    let text = ty.to_string();
    let inner = text.strip_prefix("frozen<");
    let inner = inner.and_then(|inner| inner.strip_suffix('>'));
    inner.map_or_else(|| text.clone(), str::to_owned)
}

/// A type as clients are told it where a function came, changed or went (`CQL3Type.toString`): of tuples
/// alone the `frozen` stays, as in `system_schema.functions`.
pub fn told_argument_type(ty: &CqlType) -> String {
    match ty {
        CqlType::Tuple(_) => ty.to_string(),
        _ => argument_type(ty),
    }
}

/// The signature of a function of this name with arguments of these types.
pub fn signature(name: &str, types: &[CqlType]) -> Signature {
    (Arc::from(name), argument_list(types))
}

impl UserFunction {
    /// Its signature.
    pub fn signature(&self) -> Signature {
        signature(&self.name, &self.argument_types)
    }
}

impl UserAggregate {
    /// Its signature.
    pub fn signature(&self) -> Signature {
        signature(&self.name, &self.argument_types)
    }

    /// Is this its state or its final function?
    pub fn calls(&self, function: &UserFunction) -> bool {
        let signature = function.signature();
        let final_function = self.final_function.iter();
        let mut called = final_function.chain([&self.state_function]);
        called.any(|called| called.signature() == signature)
    }
}

impl UserFunctions {
    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.scalars.is_empty() && self.aggregates.is_empty()
    }

    /// The functions of this name, in the order of their arguments.
    pub fn scalars_named(&self, name: &str) -> impl Iterator<Item = &Arc<UserFunction>> {
        named(&self.scalars, name)
    }

    /// The aggregates of this name, in the order of their arguments.
    pub fn aggregates_named(&self, name: &str) -> impl Iterator<Item = &Arc<UserAggregate>> {
        named(&self.aggregates, name)
    }

    /// Does it have this very function?
    pub fn has_scalar(&self, function: &Arc<UserFunction>) -> bool {
        let found = self.scalars.get(&function.signature());
        found.is_some_and(|found| Arc::ptr_eq(found, function) || found == function)
    }

    /// Does it have this very aggregate?
    pub fn has_aggregate(&self, aggregate: &Arc<UserAggregate>) -> bool {
        let found = self.aggregates.get(&aggregate.signature());
        found.is_some_and(|found| Arc::ptr_eq(found, aggregate) || found == aggregate)
    }

    /// Adds a function, or puts it in the place of the one of its signature: then its aggregates
    /// call it, too.
    pub fn put_scalar(&mut self, function: UserFunction) {
        let signature = function.signature();
        let function = Arc::new(function);
        for aggregate in self.aggregates.values_mut() {
            if aggregate.calls(&function) {
                let called = Arc::make_mut(aggregate);
                if called.state_function.signature() == signature {
                    called.state_function = function.clone();
                }
                let last = called.final_function.as_mut();
                if let Some(last) = last.filter(|last| last.signature() == signature) {
                    *last = function.clone();
                }
            }
        }
        self.scalars.insert(signature, function);
    }

    /// Adds an aggregate, or puts it in the place of the one of its signature.
    pub fn put_aggregate(&mut self, aggregate: UserAggregate) {
        let signature = aggregate.signature();
        self.aggregates.insert(signature, Arc::new(aggregate));
    }

    /// With all types as `substitute` gives them.
    pub fn map_types(&self, substitute: impl Fn(&CqlType) -> CqlType) -> UserFunctions {
        let all = |types: &[CqlType]| types.iter().map(&substitute).collect::<Vec<_>>();
        let mut mapped = UserFunctions::default();
        for function in self.scalars.values() {
            mapped.put_scalar(UserFunction {
                argument_types: all(&function.argument_types),
                return_type: substitute(&function.return_type),
                ..UserFunction::clone(function)
            });
        }
        let called = |function: &Arc<UserFunction>| {
            let found = mapped.scalars.get(&function.signature());
            found.unwrap_or(function).clone()
        };
        let aggregates: Vec<UserAggregate> = self
            .aggregates
            .values()
            .map(|aggregate| UserAggregate {
                argument_types: all(&aggregate.argument_types),
                state_type: substitute(&aggregate.state_type),
                return_type: substitute(&aggregate.return_type),
                state_function: called(&aggregate.state_function),
                final_function: aggregate.final_function.as_ref().map(called),
                ..UserAggregate::clone(aggregate)
            })
            .collect();
        for aggregate in aggregates {
            mapped.put_aggregate(aggregate);
        }
        mapped
    }
}

fn named<'f, T>(
    all: &'f BTreeMap<Signature, T>,
    name: &str,
) -> impl Iterator<Item = &'f T> + use<'f, T> {
    let name: Arc<str> = Arc::from(name);
    let from = (name.clone(), String::new());
    all.range(from..)
        .take_while(move |((found, _), _)| *found == name)
        .map(|(_, function)| function)
}
