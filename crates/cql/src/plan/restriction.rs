//! One relation of `WHERE`, with its columns resolved and its values typed
//! (`SingleColumnRelation`, `MultiColumnRelation`, `TokenRelation`).

use std::collections::BTreeSet;
use std::sync::Arc;

use model::{Column, ColumnId, ColumnKind, CqlType, FilterOperator, IndexKind, Order, Table};

use crate::CqlError;
use crate::ast::{Comparison, InValues, Relation, RelationTarget, RelationValue, Term};
use crate::error::invalid;
use crate::term::{Analysis, Expression, Receiver, prepare};

/// One end of a slice: the value, and whether it is part of the slice.
#[derive(Clone, Debug)]
pub(crate) struct Edge<V> {
    pub(crate) value: V,
    pub(crate) inclusive: bool,
}

/// The values of `IN`.
#[derive(Clone, Debug)]
pub(crate) enum OneOf<V> {
    /// Each for itself.
    Terms(Vec<V>),
    /// A marker for a list of them.
    Marker(Expression),
}

/// What is demanded of a column, or with `V` a tuple, of several.
#[derive(Clone, Debug)]
pub(crate) enum Demand<V> {
    /// `= v`
    Equal(V),
    /// `IN (…)`
    In(OneOf<V>),
    /// `> v AND <= w`
    Slice {
        /// The lower end.
        start: Option<Edge<V>>,
        /// The upper end.
        end: Option<Edge<V>>,
    },
}

/// The values of one or several neighbouring columns.
#[derive(Clone, Debug)]
pub(crate) enum Tuple {
    /// Each for itself.
    Terms(Vec<Expression>),
    /// A marker for a tuple of these types.
    Marker(Expression, Vec<CqlType>),
}

/// What is demanded of the contents of a collection; all must hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contents {
    /// `CONTAINS v`
    pub(crate) values: Vec<Expression>,
    /// `CONTAINS KEY k`
    pub(crate) keys: Vec<Expression>,
    /// `c[k] = v`
    pub(crate) entries: Vec<(Expression, Expression)>,
    /// `LIKE v`, of a text and what is in it.
    pub(crate) likes: Vec<Expression>,
}

/// A relation, resolved.
#[derive(Clone, Debug)]
pub(crate) enum Restriction {
    /// Of one column.
    Single(ColumnId, Demand<Expression>),
    /// Of the contents of a collection.
    Contents(ColumnId, Contents),
    /// Of neighbouring clustering columns, from the one at this position, this many.
    Multi(usize, usize, Demand<Tuple>),
    /// Of the token.
    Token(Demand<Expression>),
}

/// The column of this name, or Cassandra's complaint.
pub(crate) fn column_of<'t>(table: &'t Table, name: &str) -> Result<&'t Column, CqlError> {
    match table.shown_column(name) {
        Some(column) => Ok(column),
        None => invalid!(
            "Undefined column name {} in table {}.{}",
            model::quote_identifier(name),
            table.keyspace,
            table.name
        ),
    }
}

/// Resolves a relation.
pub(crate) fn resolve(
    analysis: &Analysis<'_>,
    table: &Table,
    relation: &Relation,
) -> Result<Restriction, CqlError> {
    match &relation.target {
        RelationTarget::Column(name) => {
            let column = column_of(table, name)?;
            match relation.comparison {
                Comparison::Like => like(analysis, table, column, relation),
                _ => single(analysis, column, relation),
            }
        }
        RelationTarget::Element(name, key) => {
            let column = column_of(table, name)?;
            element(analysis, column, key, relation)
        }
        RelationTarget::Columns(names) => multi(analysis, table, names, relation),
        RelationTarget::Token(names) => token(analysis, table, names, relation),
        RelationTarget::Expression(index) => match table.index(&index.name) {
            Some(known) if known.kind == Some(IndexKind::Custom) => {
                invalid!("Index {} does not support custom expressions", index.name)
            }
            Some(_) => invalid!(
                "Only CUSTOM indexes may be used in custom index expressions, {} is not valid",
                index.name
            ),
            None => invalid!(
                "Invalid index expression, index {} not found for {}.{}",
                index.name,
                table.keyspace,
                table.name
            ),
        },
    }
}

/// The only term of a relation that is no IN.
fn term(relation: &Relation) -> Result<&Term, CqlError> {
    match &relation.value {
        RelationValue::Term(term) => Ok(term),
        RelationValue::In(_) | RelationValue::Between(_) => {
            invalid!("Unsupported restriction: {relation}")
        }
    }
}

fn single(
    analysis: &Analysis<'_>,
    column: &Column,
    relation: &Relation,
) -> Result<Restriction, CqlError> {
    check_type(column, relation)?;
    let receiver = Receiver::of(column);
    let demand = match relation.comparison {
        Comparison::Contains | Comparison::ContainsKey => {
            return contents(analysis, column, relation);
        }
        Comparison::NotEqual => {
            return invalid!("Unsupported \"!=\" relation: {relation}");
        }
        Comparison::IsNot => {
            return invalid!("Unsupported restriction: {relation}");
        }
        Comparison::In => Demand::In(one_of(analysis, relation, &receiver)?),
        Comparison::Equal => Demand::Equal(prepare(analysis, term(relation)?, &receiver)?),
        _ => {
            refuse_duration(&column.ty)?;
            slices(relation, |term| prepare(analysis, term, &receiver))?
        }
    };
    Ok(Restriction::Single(column.id, simplify(demand)))
}

/// Only an index finds what is like a pattern; but the key may say where to look.
fn like(
    analysis: &Analysis<'_>,
    table: &Table,
    column: &Column,
    relation: &Relation,
) -> Result<Restriction, CqlError> {
    check_type(column, relation)?;
    let value = prepare(analysis, term(relation)?, &Receiver::of(column))?;
    let mut indexes = table.indexes.iter();
    if !indexes.any(|index| index.supports(table, column, FilterOperator::LikeMatches)) {
        return not_like(relation);
    }
    let contents = Contents {
        likes: vec![value],
        ..Contents::default()
    };
    Ok(Restriction::Contents(column.id, contents))
}

/// Refuses LIKE where no index gives it.
pub(crate) fn not_like<T>(relation: &Relation) -> Result<T, CqlError> {
    invalid!(
        "LIKE restriction is only supported on properly indexed columns. {relation} is not valid."
    )
}

/// Is the column ordered downwards? Its type is none of a collection to Cassandra then (`ReversedType`).
fn is_reversed(column: &Column) -> bool {
    column.order == Order::Descending
}

/// What the type of the column does not allow (`SingleColumnRelation.toReceivers`).
fn check_type(column: &Column, relation: &Relation) -> Result<(), CqlError> {
    let (name, ty) = (&column.name, &column.ty);
    match relation.comparison {
        Comparison::ContainsKey if !matches!(ty, CqlType::Map { .. }) || is_reversed(column) => {
            return invalid!("Cannot use CONTAINS KEY on non-map column {name}");
        }
        Comparison::Contains if !ty.is_collection() || is_reversed(column) => {
            return invalid!("Cannot use CONTAINS on non-collection column {name}");
        }
        Comparison::NotEqual if ty.is_collection() => {
            return invalid!("Unsupported \"!=\" relation: {relation}");
        }
        _ => {}
    }
    if !ty.is_multi_cell() {
        return Ok(());
    }
    if matches!(ty, CqlType::Udt { .. }) {
        return invalid!(
            "Non-frozen UDT column '{name}' ({ty}) cannot be restricted by any relation"
        );
    }
    if !matches!(
        relation.comparison,
        Comparison::Contains | Comparison::ContainsKey
    ) {
        return invalid!(
            "Collection column '{name}' ({ty}) cannot be restricted by a '{}' relation",
            relation.comparison.symbol()
        );
    }
    Ok(())
}

fn refuse_duration(ty: &CqlType) -> Result<(), CqlError> {
    if !ty.has(&CqlType::Duration) {
        return Ok(());
    }
    let what = match ty {
        ty if ty.is_collection() => "collections containing durations",
        CqlType::Tuple(_) => "tuples containing durations",
        CqlType::Udt { .. } => "UDTs containing durations",
        _ => "duration columns",
    };
    invalid!("Slice restrictions are not supported on {what}")
}

/// What `<`, `<=`, `>`, `>=` or `BETWEEN` demands; `value` resolves a term.
fn slices<V>(
    relation: &Relation,
    mut value: impl FnMut(&Term) -> Result<V, CqlError>,
) -> Result<Demand<V>, CqlError> {
    if let RelationValue::Between(ends) = &relation.value {
        let mut edge = |term: &Term| -> Result<Option<Edge<V>>, CqlError> {
            Ok(Some(Edge {
                value: value(term)?,
                inclusive: true,
            }))
        };
        return Ok(Demand::Slice {
            start: edge(&ends.0)?,
            end: edge(&ends.1)?,
        });
    }
    Ok(slice(relation.comparison, value(term(relation)?)?))
}

fn slice<V>(comparison: Comparison, value: V) -> Demand<V> {
    let inclusive = matches!(
        comparison,
        Comparison::LessOrEqual | Comparison::GreaterOrEqual
    );
    let edge = Some(Edge { value, inclusive });
    match comparison {
        Comparison::Less | Comparison::LessOrEqual => Demand::Slice {
            start: None,
            end: edge,
        },
        _ => Demand::Slice {
            start: edge,
            end: None,
        },
    }
}

/// `IN` of one value is `=`.
fn simplify<V>(demand: Demand<V>) -> Demand<V> {
    match demand {
        Demand::In(OneOf::Terms(mut terms)) if terms.len() == 1 => match terms.pop() {
            Some(only) => Demand::Equal(only),
            None => Demand::In(OneOf::Terms(terms)),
        },
        other => other,
    }
}

fn one_of(
    analysis: &Analysis<'_>,
    relation: &Relation,
    receiver: &Receiver,
) -> Result<OneOf<Expression>, CqlError> {
    let RelationValue::In(values) = &relation.value else {
        return invalid!("Unsupported restriction: {relation}");
    };
    match values {
        InValues::Terms(terms) => {
            let terms: Result<Vec<Expression>, CqlError> = terms
                .iter()
                .map(|term| prepare(analysis, term, receiver))
                .collect();
            Ok(OneOf::Terms(terms?))
        }
        InValues::Marker(marker) => {
            let name = format!("in({})", receiver.name);
            let ty = CqlType::List {
                element: receiver.ty.clone().into(),
                frozen: false,
            };
            let list = Receiver::new(name, ty);
            Ok(OneOf::Marker(analysis.marker(marker, &list)))
        }
    }
}

fn contents(
    analysis: &Analysis<'_>,
    column: &Column,
    relation: &Relation,
) -> Result<Restriction, CqlError> {
    let name = &column.name;
    let mut contents = Contents::default();
    let of_keys = relation.comparison == Comparison::ContainsKey;
    let (what, ty) = match &column.ty {
        CqlType::Map { key, .. } if of_keys => ("key", key),
        CqlType::Map { value, .. } => ("value", value),
        CqlType::List { element, .. } | CqlType::Set { element, .. } => ("value", element),
        other => return invalid!("{name} of type {other} has no contents"),
    };
    let receiver = Receiver::new(format!("{what}({name})"), (**ty).clone());
    let value = prepare(analysis, term(relation)?, &receiver)?;
    if of_keys {
        contents.keys.push(value);
    } else {
        contents.values.push(value);
    }
    Ok(Restriction::Contents(column.id, contents))
}

/// `c[k] = v`
fn element(
    analysis: &Analysis<'_>,
    column: &Column,
    key: &Term,
    relation: &Relation,
) -> Result<Restriction, CqlError> {
    let name = &column.name;
    let (key_type, value_type) = match &column.ty {
        _ if is_reversed(column) => return invalid!("Column {name} cannot be used as a map"),
        CqlType::List { .. } => {
            return invalid!(
                "Indexes on list entries ({name}[index] = value) are not currently supported."
            );
        }
        CqlType::Map { frozen: true, .. } => {
            return invalid!(
                "Map-entry equality predicates on frozen map column {name} are not supported"
            );
        }
        CqlType::Map { key, value, .. } => (key, value),
        _ => return invalid!("Column {name} cannot be used as a map"),
    };
    if relation.comparison == Comparison::NotEqual {
        return invalid!("Unsupported \"!=\" relation: {relation}");
    }
    if relation.comparison != Comparison::Equal {
        return invalid!("Only EQ relations are supported on map entries");
    }
    let key_receiver = Receiver::new(format!("key({name})"), (**key_type).clone());
    let value_receiver = Receiver::new(format!("value({name})"), (**value_type).clone());
    let key = prepare(analysis, key, &key_receiver)?;
    let value = prepare(analysis, term(relation)?, &value_receiver)?;
    Ok(Restriction::Contents(
        column.id,
        Contents {
            entries: vec![(key, value)],
            ..Contents::default()
        },
    ))
}

fn multi(
    analysis: &Analysis<'_>,
    table: &Table,
    names: &[String],
    relation: &Relation,
) -> Result<Restriction, CqlError> {
    let mut columns: Vec<&Column> = Vec::with_capacity(names.len());
    for name in names {
        let column = column_of(table, name)?;
        if column.kind != ColumnKind::Clustering {
            return invalid!(
                "Multi-column relations can only be applied to clustering columns but was applied \
                 to: {name}"
            );
        }
        if columns.iter().any(|known| known.id == column.id) {
            return invalid!("Column \"{name}\" appeared twice in a relation: {relation}");
        }
        if columns
            .last()
            .is_some_and(|before| column.position != before.position + 1)
        {
            return invalid!(
                "Clustering columns must appear in the PRIMARY KEY order in multi-column \
                 relations: {relation}"
            );
        }
        columns.push(column);
    }
    let demand = match relation.comparison {
        Comparison::NotEqual => {
            return invalid!("Unsupported \"!=\" relation: {relation}");
        }
        Comparison::Equal => Demand::Equal(tuple(analysis, &columns, term(relation)?)?),
        Comparison::In => Demand::In(tuples(analysis, &columns, relation)?),
        _ => {
            for column in &columns {
                refuse_duration(&column.ty)?;
            }
            slices(relation, |term| tuple(analysis, &columns, term))?
        }
    };
    Ok(Restriction::Multi(
        columns[0].position,
        columns.len(),
        simplify(demand),
    ))
}

/// `a,b` in parentheses: how markers for tuples are called.
fn joined(columns: &[&Column]) -> String {
    let names: Vec<&str> = columns.iter().map(|column| &*column.name).collect();
    names.join(",")
}

fn types(columns: &[&Column]) -> Vec<CqlType> {
    columns.iter().map(|column| column.ty.clone()).collect()
}

/// The values of several columns: a tuple of terms, or a marker.
fn tuple(analysis: &Analysis<'_>, columns: &[&Column], term: &Term) -> Result<Tuple, CqlError> {
    match term {
        Term::Marker(marker) => {
            let types = types(columns);
            let name = format!("({})", joined(columns));
            let receiver = Receiver::new(name, CqlType::Tuple(types.clone()));
            Ok(Tuple::Marker(analysis.marker(marker, &receiver), types))
        }
        Term::Tuple(items) if items.len() == columns.len() => {
            let terms: Result<Vec<Expression>, CqlError> = items
                .iter()
                .zip(columns)
                .map(|(item, column)| prepare(analysis, item, &Receiver::of(column)))
                .collect();
            Ok(Tuple::Terms(terms?))
        }
        Term::Tuple(items) => invalid!(
            "Expected {} elements in value tuple, but got {}: {term}",
            columns.len(),
            items.len()
        ),
        other => invalid!("{other} is no tuple"),
    }
}

fn tuples(
    analysis: &Analysis<'_>,
    columns: &[&Column],
    relation: &Relation,
) -> Result<OneOf<Tuple>, CqlError> {
    match &relation.value {
        RelationValue::In(InValues::Terms(terms)) => {
            let tuples: Result<Vec<Tuple>, CqlError> = terms
                .iter()
                .map(|term| tuple(analysis, columns, term))
                .collect();
            Ok(OneOf::Terms(tuples?))
        }
        RelationValue::In(InValues::Marker(marker)) => {
            let ty = CqlType::List {
                element: CqlType::Tuple(types(columns)).into(),
                frozen: false,
            };
            let receiver = Receiver::new(format!("in({})", joined(columns)), ty);
            Ok(OneOf::Marker(analysis.marker(marker, &receiver)))
        }
        _ => invalid!("Unsupported restriction: {relation}"),
    }
}

fn token(
    analysis: &Analysis<'_>,
    table: &Table,
    names: &[String],
    relation: &Relation,
) -> Result<Restriction, CqlError> {
    let columns: Result<Vec<&Column>, CqlError> =
        names.iter().map(|name| column_of(table, name)).collect();
    check_token_columns(table, &columns?)?;
    if relation.comparison == Comparison::NotEqual {
        return invalid!("Unsupported \"!=\" relation: {relation}");
    }
    let receiver = Receiver::new("partition key token", CqlType::Bigint);
    let value = |term: &Term| prepare(analysis, term, &receiver);
    Ok(Restriction::Token(match relation.comparison {
        Comparison::Equal => Demand::Equal(value(term(relation)?)?),
        _ => slices(relation, value)?,
    }))
}

fn check_token_columns(table: &Table, columns: &[&Column]) -> Result<(), CqlError> {
    let wanted: Vec<ColumnId> = table.partition_key().map(|column| column.id).collect();
    let given: Vec<ColumnId> = columns.iter().map(|column| column.id).collect();
    if given == wanted {
        return Ok(());
    }
    if !wanted.iter().all(|id| given.contains(id)) {
        return invalid!(
            "The token() function must be applied to all partition key components or none of them"
        );
    }
    let different: BTreeSet<ColumnId> = given.iter().copied().collect();
    if different.len() < given.len() {
        return invalid!("The token() function contains duplicate partition key components");
    }
    if !given.iter().all(|id| wanted.contains(id)) {
        return invalid!("The token() function must contains only partition key components");
    }
    invalid!(
        "The token function arguments must be in the partition key order: {}",
        key_names(table)
    )
}

/// The names of the columns of the partition key, with commas between.
pub(crate) fn key_names(table: &Table) -> String {
    let names: Vec<Arc<str>> = table.partition_key().map(|c| c.name.clone()).collect();
    names.join(", ")
}
