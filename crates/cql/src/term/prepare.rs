//! From terms of the text to typed terms (`Term.Raw.prepare` of each kind of term).

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use bytes::Bytes;
use model::{CqlType, Schema, Table};

use crate::CqlError;
use crate::ast::{ArithmeticOperator, DataType, FunctionName, Marker, Term};
use crate::error::invalid;
use crate::functions::{self, Argument, Function, Scalar, assign_type};
use crate::schema::UserTypes;

use super::assign::{TermArgument, assignable, components, operand};
use super::{Bound, ColumnSpec, Expression, Receiver, Request, literal};

/// A bind marker as analysis finds it.
#[derive(Clone, Debug)]
pub(crate) struct MarkerSpec {
    pub(crate) spec: ColumnSpec,
    /// The position in the partition key of the column it is the value of.
    pub(crate) key_position: Option<usize>,
}

/// What the analysis of one statement knows and collects.
pub(crate) struct Analysis<'a> {
    /// The keyspace of the statement, in which user types are looked up.
    pub(crate) keyspace: &'a str,
    /// What the markers' metadata call the table.
    pub(crate) table_name: &'a str,
    /// Its user types.
    pub(crate) types: Option<&'a UserTypes>,
    /// All keyspaces, for their functions.
    schema: Option<&'a Schema>,
    /// The types of the partition key of its table: what `token` takes.
    pub(crate) partition_key: Vec<CqlType>,
    /// The functions of users that are called: the plan holds good as long as they are.
    used: RefCell<Vec<Function>>,
    /// The markers found so far, by number.
    markers: RefCell<Vec<Option<MarkerSpec>>>,
    /// How often functions were looked for: the arguments of nested calls are tried again for each
    /// overload, which must not take for ever.
    resolutions: Cell<u32>,
}

/// How often functions may be looked for in one statement.
const MAX_RESOLUTIONS: u32 = 100_000;

impl<'a> Analysis<'a> {
    /// The analysis of a statement on a table.
    pub(crate) fn new(table: &'a Table, types: Option<&'a UserTypes>) -> Analysis<'a> {
        Analysis {
            keyspace: &table.keyspace,
            table_name: &table.name,
            types,
            schema: None,
            partition_key: table.partition_key().map(|c| c.ty.clone()).collect(),
            used: RefCell::default(),
            markers: RefCell::default(),
            resolutions: Cell::new(0),
        }
    }

    /// The analysis of what belongs to no table: the attributes of a batch.
    pub(crate) fn of_batch() -> Analysis<'static> {
        Analysis {
            keyspace: "[batch]",
            table_name: "[batch]",
            types: None,
            schema: None,
            partition_key: Vec::new(),
            used: RefCell::default(),
            markers: RefCell::default(),
            resolutions: Cell::new(0),
        }
    }

    /// The analysis of a term that belongs to a keyspace, not to a table.
    pub(crate) fn of_keyspace(keyspace: &'a str, types: &'a UserTypes) -> Analysis<'a> {
        Analysis {
            keyspace,
            table_name: "(dummy)",
            types: Some(types),
            ..Analysis::of_batch()
        }
    }

    /// With the functions of users.
    pub(crate) fn in_schema(mut self, schema: &'a Schema) -> Analysis<'a> {
        self.schema = Some(schema);
        self
    }

    /// Where the functions of users are looked for.
    pub(crate) fn users(&self) -> Option<(&'a Schema, &'a str)> {
        self.schema.map(|schema| (schema, self.keyspace))
    }

    /// Notes a function that is called.
    pub(crate) fn note_use(&self, function: &Function) {
        let mut used = self.used.borrow_mut();
        if function.is_of_user() && !used.contains(function) {
            used.push(function.clone());
        }
    }

    /// The functions of users that are called.
    pub(crate) fn used_functions(&self) -> Vec<Function> {
        self.used.borrow().clone()
    }

    /// The markers, by number; numbers that belong to other statements are `None`.
    pub(crate) fn into_markers(self) -> Vec<Option<MarkerSpec>> {
        self.markers.into_inner()
    }

    /// Counts a search for a function.
    pub(crate) fn count_resolution(&self) -> Result<(), CqlError> {
        self.resolutions.set(self.resolutions.get() + 1);
        if self.resolutions.get() > MAX_RESOLUTIONS {
            return invalid!(
                "The types of the nested functions of this statement are too hard to find: use type \
                 casts, or nest less"
            );
        }
        Ok(())
    }

    /// Notes what a marker is for.
    pub(crate) fn marker(&self, marker: &Marker, receiver: &Receiver) -> Expression {
        let name = match &marker.name {
            Some(name) => Arc::from(name.as_str()),
            None => receiver.name.clone(),
        };
        let mut markers = self.markers.borrow_mut();
        if markers.len() <= marker.index {
            markers.resize(marker.index + 1, None);
        }
        markers[marker.index] = Some(MarkerSpec {
            spec: ColumnSpec {
                keyspace: self.keyspace.into(),
                table: self.table_name.into(),
                name,
                ty: receiver.ty.clone(),
            },
            key_position: receiver.key_position,
        });
        Expression::Marker {
            index: marker.index,
            ty: receiver.ty.clone(),
            keeps_order: receiver.keeps_order,
        }
    }
}

/// Gives a term the type of its receiver, or says why it cannot have it.
pub(crate) fn prepare(
    analysis: &Analysis<'_>,
    term: &Term,
    receiver: &Receiver,
) -> Result<Expression, CqlError> {
    let (name, ty) = (&receiver.name, &receiver.ty);
    match term {
        Term::Marker(marker) => Ok(analysis.marker(marker, receiver)),
        Term::Null if ty.is_counter() => {
            invalid!("Invalid null value for counter increment/decrement")
        }
        Term::Null => Ok(Expression::Constant(None)),
        Term::Literal(literal) => {
            if !assignable(analysis, term, ty) {
                return invalid!(
                    "Invalid {} constant ({}) for \"{name}\" of type {ty}",
                    literal::kind_name(literal.kind),
                    literal.text
                );
            }
            Ok(Expression::Constant(Some(literal::value(literal, ty)?)))
        }
        Term::List(items) => list(analysis, items, receiver),
        Term::Set(items) => set(analysis, items, receiver),
        Term::Map(entries) => map(analysis, entries, receiver),
        Term::User(fields) => user(analysis, fields, receiver),
        Term::Tuple(items) => tuple(analysis, items, receiver),
        Term::TypeHint(hint, inner) => type_hint(analysis, term, hint, inner, receiver),
        Term::Function { name, arguments } => call(analysis, name, arguments, receiver),
        Term::Cast(inner, target) => cast(analysis, inner, target, receiver),
        Term::Operation {
            operator,
            left,
            right,
        } => {
            let function = prepare_operation(analysis, *operator, (left, right), ty)?;
            check_result(&function, Some(operator.symbol()), receiver)?;
            prepare_arguments(analysis, function, &[left, right])
        }
        Term::Negation(inner) => {
            let function = negation(analysis, inner, ty)?;
            check_result(&function, Some('-'), receiver)?;
            prepare_arguments(analysis, function, &[inner])
        }
    }
}

fn type_hint(
    analysis: &Analysis<'_>,
    term: &Term,
    hint: &DataType,
    inner: &Term,
    receiver: &Receiver,
) -> Result<Expression, CqlError> {
    let none = UserTypes::new();
    let hinted = hint.resolve(analysis.keyspace, analysis.types.unwrap_or(&none))?;
    if !assignable(analysis, inner, &hinted) {
        let shown = hint.qualified(analysis.keyspace);
        return invalid!("Cannot cast value {inner} to type {shown}");
    }
    if !assignable(analysis, term, &receiver.ty) {
        return invalid!(
            "Cannot assign value {} to {} of type {}",
            TermArgument { analysis, term },
            receiver.name,
            receiver.ty
        );
    }
    prepare(analysis, inner, receiver)
}

fn call(
    analysis: &Analysis<'_>,
    name: &FunctionName,
    arguments: &[Term],
    receiver: &Receiver,
) -> Result<Expression, CqlError> {
    let function = match resolve_function(analysis, name, arguments, Some(&receiver.ty))? {
        Function::Scalar(function) => function,
        Function::Aggregate(_) => {
            return invalid!("Aggregation function are not supported in the where clause");
        }
    };
    check_result(&function, None, receiver)?;
    let terms: Vec<&Term> = arguments.iter().collect();
    prepare_arguments(analysis, function, &terms)
}

fn cast(
    analysis: &Analysis<'_>,
    inner: &Term,
    target: &CqlType,
    receiver: &Receiver,
) -> Result<Expression, CqlError> {
    let argument = TermArgument {
        analysis,
        term: inner,
    };
    if argument.exact_type().as_ref() == Some(target) {
        return prepare(analysis, inner, receiver);
    }
    match functions::resolve_cast(&argument, target)? {
        Some(Function::Scalar(function)) => {
            check_result(&function, None, receiver)?;
            prepare_arguments(analysis, function, &[inner])
        }
        _ => Err(functions::no_cast(&argument, target)),
    }
}

fn check_result(
    function: &Scalar,
    operator: Option<char>,
    receiver: &Receiver,
) -> Result<(), CqlError> {
    if assign_type(function.result(), &receiver.ty) != functions::Assignment::No {
        return Ok(());
    }
    let called = match operator {
        Some(operator) => format!("operation {operator}"),
        None => format!("function {}.{}", function.keyspace(), function.name()),
    };
    invalid!(
        "Type error: cannot assign result of {called} (type {}) to {} (type {})",
        function.result(),
        receiver.name,
        receiver.ty
    )
}

/// The function of this name for these arguments.
pub(crate) fn resolve_function(
    analysis: &Analysis<'_>,
    name: &FunctionName,
    arguments: &[Term],
    receiver: Option<&CqlType>,
) -> Result<Function, CqlError> {
    analysis.count_resolution()?;
    let arguments: Vec<TermArgument<'_>> = arguments
        .iter()
        .map(|term| TermArgument { analysis, term })
        .collect();
    let arguments: Vec<&dyn Argument> = arguments.iter().map(|a| a as &dyn Argument).collect();
    let receiver = functions::Receiver {
        ty: receiver,
        partition_key: &analysis.partition_key,
        users: analysis.users(),
    };
    match functions::resolve(name.keyspace.as_deref(), &name.name, &arguments, receiver)? {
        Some(function) => {
            analysis.note_use(&function);
            Ok(function)
        }
        None => invalid!("Unknown function {name} called"),
    }
}

/// A call of a function whose arguments are terms; folded if all is constant.
pub(crate) fn prepare_arguments(
    analysis: &Analysis<'_>,
    function: Arc<Scalar>,
    terms: &[&Term],
) -> Result<Expression, CqlError> {
    let mut arguments = Vec::with_capacity(terms.len());
    for (i, (term, ty)) in terms.iter().zip(function.arguments()).enumerate() {
        let name = format!("arg{i}({}.{})", function.keyspace(), function.name());
        arguments.push(prepare(analysis, term, &Receiver::new(name, ty.clone()))?);
    }
    Expression::Function {
        function,
        arguments,
    }
    .fold()
}

/// The function of an operator for operands of these types.
pub(crate) fn operation_of(
    operator: ArithmeticOperator,
    left: &CqlType,
    right: &CqlType,
) -> Option<Scalar> {
    functions::operation(operator, left, right)
}

/// The function of an operator for these terms.
fn prepare_operation(
    analysis: &Analysis<'_>,
    operator: ArithmeticOperator,
    (left, right): (&Term, &Term),
    receiver: &CqlType,
) -> Result<Arc<Scalar>, CqlError> {
    analysis.count_resolution()?;
    let operands = (&operand(analysis, left), &operand(analysis, right));
    let markers = matches!(left, Term::Marker(_)) || matches!(right, Term::Marker(_));
    functions::resolve_operation(operator, operands, Some(receiver), markers)
        .map(Arc::new)
        .map_err(|reason| {
            let (left, right) = (left.to_string(), right.to_string());
            let failure = functions::operation_failure(reason, operator.symbol(), &left, &right);
            CqlError::Invalid(failure)
        })
}

fn negation(
    analysis: &Analysis<'_>,
    inner: &Term,
    receiver: &CqlType,
) -> Result<Arc<Scalar>, CqlError> {
    analysis.count_resolution()?;
    functions::resolve_negation(&operand(analysis, inner), Some(receiver))
        .map(Arc::new)
        .map_err(|reason| CqlError::Invalid(functions::negation_failure(reason)))
}

const NO_MARKERS: &str = "bind variables are not supported inside collection literals";

/// The elements of a literal of a collection.
fn elements(
    analysis: &Analysis<'_>,
    items: &[Term],
    what: &str,
    receiver: &Receiver,
    element: &CqlType,
) -> Result<Vec<Expression>, CqlError> {
    let name = &receiver.name;
    let inner = Receiver::new(format!("value({name})"), element.clone());
    for item in items {
        if !fits(analysis, item, element)? {
            return invalid!(
                "Invalid {what} literal for {name}: value {item} is not of type {element}"
            );
        }
    }
    items
        .iter()
        .map(|item| {
            let item = prepare(analysis, item, &inner)?;
            if item.has_marker() && what != "vector" {
                return invalid!("Invalid {what} literal for {name}: {NO_MARKERS}");
            }
            Ok(item)
        })
        .collect()
}

fn list(
    analysis: &Analysis<'_>,
    items: &[Term],
    receiver: &Receiver,
) -> Result<Expression, CqlError> {
    let (name, ty) = (&receiver.name, &receiver.ty);
    match ty {
        CqlType::List { element, .. } => {
            let items = elements(analysis, items, "list", receiver, element)?;
            Expression::List(items).fold()
        }
        CqlType::Vector { element, dimension } => {
            if items.len() != *dimension as usize {
                return invalid!(
                    "Invalid vector literal for {name} of type {ty}; expected {dimension} elements, but given {}",
                    items.len()
                );
            }
            let items = elements(analysis, items, "vector", receiver, element)?;
            Expression::Vector((**element).clone(), items).fold()
        }
        _ => not_bracketed(ty),
    }
}

/// What brackets are told that stand for neither a list nor a vector (`ArrayLiteral.forReceiver`).
fn not_bracketed<T>(ty: &CqlType) -> Result<T, CqlError> {
    invalid!("Unexpected receiver type '{ty}'; only list and vector are expected")
}

/// Can the part of a literal be taken for a value of the type?
fn fits(analysis: &Analysis<'_>, term: &Term, ty: &CqlType) -> Result<bool, CqlError> {
    match (term, ty) {
        (Term::List(_), CqlType::List { .. } | CqlType::Vector { .. }) => {}
        (Term::List(_), _) => return not_bracketed(ty),
        _ => {}
    }
    Ok(assignable(analysis, term, ty))
}

fn set(
    analysis: &Analysis<'_>,
    items: &[Term],
    receiver: &Receiver,
) -> Result<Expression, CqlError> {
    let (name, ty) = (&receiver.name, &receiver.ty);
    match ty {
        CqlType::Map { .. } if items.is_empty() => map(analysis, &[], receiver),
        CqlType::Set { element, .. } => {
            let items = elements(analysis, items, "set", receiver, element)?;
            Expression::Set((**element).clone(), items).fold()
        }
        _ => invalid!("Invalid set literal for {name} of type {ty}"),
    }
}

fn map(
    analysis: &Analysis<'_>,
    entries: &[(Term, Term)],
    receiver: &Receiver,
) -> Result<Expression, CqlError> {
    let (name, ty) = (&receiver.name, &receiver.ty);
    let CqlType::Map { key, value, .. } = ty else {
        return invalid!("Invalid map literal for {name} of type {ty}");
    };
    for (k, v) in entries {
        for (what, term, ty) in [("key", k, key), ("value", v, value)] {
            if !fits(analysis, term, ty)? {
                return invalid!(
                    "Invalid map literal for {name}: {what} {term} is not of type {ty}"
                );
            }
        }
    }
    let key_receiver = Receiver::new(format!("key({name})"), (**key).clone());
    let value_receiver = Receiver::new(format!("value({name})"), (**value).clone());
    let mut prepared = Vec::with_capacity(entries.len());
    for (k, v) in entries {
        let k = prepare(analysis, k, &key_receiver)?;
        let v = prepare(analysis, v, &value_receiver)?;
        if k.has_marker() || v.has_marker() {
            return invalid!("Invalid map literal for {name}: {NO_MARKERS}");
        }
        prepared.push((k, v));
    }
    Expression::Map((**key).clone(), prepared).fold()
}

fn user(
    analysis: &Analysis<'_>,
    fields: &[(String, Term)],
    receiver: &Receiver,
) -> Result<Expression, CqlError> {
    let (name, ty) = (&receiver.name, &receiver.ty);
    let CqlType::Udt { definition, .. } = ty else {
        return invalid!("Invalid user type literal for {name} of type {ty}");
    };
    // Of a field given twice the last value stays.
    let given = |field: &str| fields.iter().rev().find(|(name, _)| name == field);
    for (field, ty) in &definition.fields {
        if given(field).is_some_and(|(_, term)| matches!(fits(analysis, term, ty), Ok(false))) {
            return invalid!(
                "Invalid user type literal for {name}: field {field} is not of type {ty}"
            );
        }
    }
    let mut components = Vec::with_capacity(definition.fields.len());
    for (field, ty) in &definition.fields {
        components.push(match given(field) {
            Some((_, term)) => {
                let inner = Receiver::new(format!("{name}.{field}"), ty.clone());
                prepare(analysis, term, &inner)?
            }
            None => Expression::Constant(None),
        });
    }
    let is_known = |name: &str| definition.fields.iter().any(|(field, _)| **field == *name);
    if let Some((unknown, _)) = fields.iter().find(|(name, _)| !is_known(name)) {
        return invalid!(
            "Unknown field '{unknown}' in value of user defined type {}",
            definition.name
        );
    }
    Expression::Tuple {
        of: Some(definition.clone()),
        items: components,
    }
    .fold()
}

fn tuple(
    analysis: &Analysis<'_>,
    items: &[Term],
    receiver: &Receiver,
) -> Result<Expression, CqlError> {
    let (name, ty) = (&receiver.name, &receiver.ty);
    let Some(types) = components(ty) else {
        // A single term in parentheses is that term.
        if let [only] = items {
            return prepare(analysis, only, receiver);
        }
        return invalid!("Invalid tuple type literal for {name} of type {ty}");
    };
    if items.len() > types.len() {
        return invalid!(
            "Invalid tuple literal for {name}: too many elements. Type {ty} expects {} but got {}",
            types.len(),
            items.len()
        );
    }
    let mut components = Vec::with_capacity(items.len());
    for (i, (item, ty)) in items.iter().zip(types).enumerate() {
        if !fits(analysis, item, ty)? {
            return invalid!("Invalid tuple literal for {name}: component {i} is not of type {ty}");
        }
        let inner = Receiver::new(format!("{name}[{i}]"), ty.clone());
        components.push(prepare(analysis, item, &inner)?);
    }
    Expression::Tuple {
        of: None,
        items: components,
    }
    .fold()
}

/// The value of a term that belongs to no statement on a table, if it is constant.
pub(crate) fn constant(
    keyspace: &str,
    types: &UserTypes,
    term: &Term,
    ty: &CqlType,
) -> Result<Option<Bytes>, CqlError> {
    let analysis = Analysis::of_keyspace(keyspace, types);
    match prepare(&analysis, term, &Receiver::new("(dummy)", ty.clone()))?.fold()? {
        Expression::Constant(value) => Ok(value),
        _ => invalid!("Invalid value {term}: it is no constant"),
    }
}

/// The value of a term that belongs to no statement on a table, with the functions of users that the
/// analysis knows; `None` is null.
pub(crate) fn value_of(
    analysis: &Analysis<'_>,
    term: &Term,
    ty: &CqlType,
    request: &Request<'_>,
) -> Result<Option<Bytes>, CqlError> {
    let term = prepare(analysis, term, &Receiver::new("(dummy)", ty.clone()))?;
    match term.evaluate(request)? {
        Bound::Value(value) => Ok(Some(value)),
        Bound::Null | Bound::Unset => Ok(None),
    }
}
