//! From selectors of the text to expressions over slots (`Selectable.newSelectorFactory`).

use std::sync::Arc;

use model::{CqlType, Order, Table};

use crate::CqlError;
use crate::ast::{
    ArithmeticOperator, DataType, FunctionName, NEGATION, Selector, Term, WriteTimeKind,
};
use crate::error::invalid;
use crate::functions::{self, Aggregate, Argument as _, Assignment, Function, SYSTEM};
use crate::schema::UserTypes;
use crate::term::{Analysis, Receiver, prepare};

use super::fetch::{Fetch, Part};
use super::node::Node;
use super::restriction::column_of;
use super::selection::{AggregateCall, source_of};
use super::selector_type::SelectorArgument;

/// An expression with its type and the name it gives a column.
pub(crate) struct Typed {
    pub(crate) node: Node,
    pub(crate) ty: CqlType,
    pub(crate) name: String,
}

/// Resolves the selectors of one statement.
pub(crate) struct Compiler<'a> {
    pub(super) analysis: &'a Analysis<'a>,
    pub(super) table: &'a Table,
    fetch: Fetch,
    aggregates: Vec<AggregateCall>,
    /// The parts of collections, and what these are called.
    parts: Vec<(Part, String)>,
    /// Inside the arguments of an aggregate?
    in_aggregate: bool,
}

fn cannot_infer<T>(selector: &Selector) -> Result<T, CqlError> {
    invalid!(
        "Cannot infer type for term {selector} in selection clause (try using a cast to force a \
         type)"
    )
}

fn joined(parts: &[Typed]) -> String {
    let names: Vec<&str> = parts.iter().map(|part| part.name.as_str()).collect();
    names.join(", ")
}

/// `count(1)` or of any other constant counts rows, as `count(*)`.
pub(super) fn counts_rows(name: &FunctionName, arguments: &[Selector]) -> bool {
    name.name == "count" && matches!(arguments, [Selector::Term(Term::Literal(_))])
}

/// The name of the result of a call.
fn name_of_call(function: &Function, parts: &[Typed]) -> String {
    let (keyspace, name) = (function.keyspace(), function.name());
    let operator = ArithmeticOperator::of_function(name).filter(|_| keyspace == SYSTEM);
    match (operator, parts) {
        (Some(operator), [left, right]) => {
            format!("{} {} {}", left.name, operator.symbol(), right.name)
        }
        (None, [part]) if keyspace == SYSTEM && name == NEGATION => format!("-{}", part.name),
        _ => match functions::cast_target(name) {
            Some(ty) => format!("cast({} as {ty})", joined(parts)),
            None => format!("{keyspace}.{name}({})", joined(parts)),
        },
    }
}

impl<'a> Compiler<'a> {
    /// For selectors whose slots come after those of `fetch`.
    pub(crate) fn new(
        analysis: &'a Analysis<'a>,
        table: &'a Arc<Table>,
        fetch: Fetch,
    ) -> Compiler<'a> {
        Compiler {
            analysis,
            table,
            fetch,
            aggregates: Vec::new(),
            parts: Vec::new(),
            in_aggregate: false,
        }
    }

    /// The slots and aggregates that were needed.
    pub(crate) fn finish(self) -> (Fetch, Vec<AggregateCall>) {
        (self.fetch, self.aggregates)
    }

    /// The parts of collections that were met so far, and what these are called.
    pub(crate) fn take_parts(&mut self) -> Vec<(Part, String)> {
        std::mem::take(&mut self.parts)
    }

    /// Resolves a selector, which is to have the type `expected` if one is given.
    pub(crate) fn compile(
        &mut self,
        selector: &Selector,
        expected: Option<&CqlType>,
    ) -> Result<Typed, CqlError> {
        match selector {
            Selector::Column(name) => {
                let column = column_of(self.table, name)?;
                Ok(Typed {
                    node: Node::Slot(self.fetch.slot(source_of(column))?),
                    ty: column.ty.clone(),
                    name: name.clone(),
                })
            }
            Selector::Term(term) => {
                let Some(ty) = expected else {
                    return cannot_infer(selector);
                };
                let receiver = Receiver::new("[selection]", ty.clone());
                Ok(Typed {
                    node: Node::Term(prepare(self.analysis, term, &receiver)?),
                    ty: ty.clone(),
                    name: term.to_string(),
                })
            }
            Selector::TypeHint(hint, inner) => self.type_hint(hint, inner),
            Selector::CountRows => self.aggregate(Aggregate::count_rows(), Vec::new(), "count"),
            Selector::WriteTime(kind, inner) => self.write_time(*kind, inner),
            Selector::Cast(inner, ty) => self.cast(inner, ty),
            Selector::Function { name, arguments } => self.function(name, arguments),
            Selector::Operation {
                operator,
                left,
                right,
            } => self.operation(*operator, left, right),
            Selector::Negation(inner) => self.negation(inner),
            Selector::Field(inner, field) => self.field(inner, field),
            Selector::Element(..) | Selector::Slice(..) => self.sub_selection(selector),
            Selector::Parentheses(_) | Selector::List(_) | Selector::Set(_) | Selector::Map(_) => {
                self.literal(selector, expected)
            }
        }
    }

    /// The type of a name.
    pub(super) fn resolve(&self, ty: &DataType) -> Result<CqlType, CqlError> {
        let none = UserTypes::new();
        ty.resolve(self.analysis.keyspace, self.analysis.types.unwrap_or(&none))
    }

    /// The type that is said in front of a selector: frozen, but for what is in a vector.
    pub(super) fn hinted(&self, hint: &DataType) -> Result<CqlType, CqlError> {
        Ok(match self.resolve(hint)? {
            vector @ CqlType::Vector { .. } => vector,
            other => other.freeze(),
        })
    }

    fn type_hint(&mut self, hint: &DataType, inner: &Selector) -> Result<Typed, CqlError> {
        let ty = self.hinted(hint)?;
        let shown = hint.qualified(self.analysis.keyspace);
        if self.assignment(inner, &ty) == Assignment::No {
            return invalid!(
                "Cannot assign value ({shown}){inner} to ({shown}){inner} of type {ty}"
            );
        }
        let inner = self.compile(inner, Some(&ty))?;
        Ok(Typed {
            node: inner.node,
            ty,
            name: format!("({shown}){}", inner.name),
        })
    }

    fn aggregate(
        &mut self,
        aggregate: Aggregate,
        arguments: Vec<Node>,
        name: &str,
    ) -> Result<Typed, CqlError> {
        if self.in_aggregate {
            return invalid!(
                "aggregate functions cannot be used as arguments of aggregate functions"
            );
        }
        let ty = aggregate.result().clone();
        self.aggregates.push(AggregateCall {
            aggregate: Arc::new(aggregate),
            arguments,
        });
        Ok(Typed {
            node: Node::Aggregate(self.aggregates.len() - 1),
            ty,
            name: name.to_owned(),
        })
    }

    fn function(&mut self, name: &FunctionName, arguments: &[Selector]) -> Result<Typed, CqlError> {
        if counts_rows(name, arguments) {
            return self.aggregate(Aggregate::count_rows(), Vec::new(), "count");
        }
        let function = self.resolve_function(name, arguments)?;
        if matches!(function, Function::Aggregate(_)) && function.name() == "count_rows" {
            return self.aggregate(Aggregate::count_rows(), Vec::new(), "count");
        }
        let is_aggregate = matches!(function, Function::Aggregate(_));
        if is_aggregate && self.in_aggregate {
            return invalid!(
                "aggregate functions cannot be used as arguments of aggregate functions"
            );
        }
        let outer = self.in_aggregate;
        self.in_aggregate |= is_aggregate;
        let parts: Result<Vec<Typed>, CqlError> = arguments
            .iter()
            .zip(function.arguments())
            .map(|(argument, ty)| self.compile(argument, Some(ty)))
            .collect();
        self.in_aggregate = outer;
        let parts = parts?;
        let name = name_of_call(&function, &parts);
        let nodes = parts.into_iter().map(|part| part.node).collect();
        match function {
            Function::Aggregate(aggregate) => self.aggregate((*aggregate).clone(), nodes, &name),
            Function::Scalar(scalar) => Ok(Typed {
                ty: scalar.result().clone(),
                node: Node::Call(scalar, nodes),
                name,
            }),
        }
    }

    fn cast(&mut self, inner: &Selector, ty: &CqlType) -> Result<Typed, CqlError> {
        if let Selector::Column(name) = inner {
            column_of(self.table, name)?;
        }
        // A constant has no type here that could be cast.
        if let Selector::Term(_) = inner {
            return cannot_infer(inner);
        }
        // A cast to the type it has is none, and the column keeps its name; but in descending
        // order a clustering column is of another type to Cassandra.
        let descending = match inner {
            Selector::Column(name) => column_of(self.table, name)?.order == Order::Descending,
            _ => false,
        };
        let argument = SelectorArgument {
            compiler: self,
            selector: inner,
        };
        if !descending && argument.exact_type().as_ref() == Some(ty) {
            return self.compile(inner, Some(ty));
        }
        let function = functions::resolve_cast(&argument, ty)?;
        let Some(Function::Scalar(function)) = function else {
            return Err(self.no_cast(inner, ty)?);
        };
        let inner = self.compile(inner, Some(&function.arguments()[0]))?;
        let name = format!("cast({} as {ty})", inner.name);
        Ok(Typed {
            node: Node::Call(function, vec![inner.node]),
            ty: ty.clone(),
            name,
        })
    }

    /// That there is no such cast. Cassandra names the first column of the selection so far.
    fn no_cast(&mut self, inner: &Selector, ty: &CqlType) -> Result<CqlError, CqlError> {
        self.compile(inner, None)?;
        Ok(match self.fetch.used_columns().first() {
            Some(column) => functions::no_cast(&column.name, ty),
            None => functions::no_cast(inner, ty),
        })
    }

    fn operation(
        &mut self,
        operator: ArithmeticOperator,
        left: &Selector,
        right: &Selector,
    ) -> Result<Typed, CqlError> {
        let function = self.resolve_operation(operator, left, right)?;
        let symbol = operator.symbol();
        let (l, r) = (&function.arguments()[0], &function.arguments()[1]);
        let left = self.compile(left, Some(l))?;
        let right = self.compile(right, Some(r))?;
        Ok(Typed {
            ty: function.result().clone(),
            node: Node::Call(Arc::new(function), vec![left.node, right.node]),
            name: format!("{} {symbol} {}", left.name, right.name),
        })
    }

    fn negation(&mut self, inner: &Selector) -> Result<Typed, CqlError> {
        let function = self.resolve_negation(inner)?;
        let inner = self.compile(inner, Some(&function.arguments()[0]))?;
        Ok(Typed {
            ty: function.result().clone(),
            node: Node::Call(Arc::new(function), vec![inner.node]),
            name: format!("-{}", inner.name),
        })
    }

    /// What a field is selected of: it may stand in parentheses, where nothing else without a type does.
    fn field_owner(&mut self, owner: &Selector) -> Result<Typed, CqlError> {
        let Selector::Parentheses(items) = owner else {
            return self.compile(owner, None);
        };
        let [only] = &items[..] else {
            return self.compile(owner, None);
        };
        if let Selector::Parentheses(_) = only {
            return cannot_infer(owner);
        }
        let inner = self.compile(only, None)?;
        Ok(Typed {
            name: format!("({})", inner.name),
            ..inner
        })
    }

    fn field(&mut self, inner: &Selector, field: &str) -> Result<Typed, CqlError> {
        let inner = self.field_owner(inner)?;
        let CqlType::Udt { definition, .. } = &inner.ty else {
            return invalid!(
                "Invalid field selection: {} of type {} is not a user type",
                inner.name,
                inner.ty
            );
        };
        let Some(index) = definition
            .fields
            .iter()
            .position(|(name, _)| **name == *field)
        else {
            return invalid!("{} of type {} has no field {field}", inner.name, inner.ty);
        };
        Ok(Typed {
            ty: definition.fields[index].1.clone(),
            name: format!("{}.{field}", inner.name),
            node: Node::Field {
                count: definition.fields.len(),
                of: Box::new(inner.node),
                index,
            },
        })
    }

    /// `c[k]`, `c[a..b]`
    fn sub_selection(&mut self, selector: &Selector) -> Result<Typed, CqlError> {
        let (of, what) = match selector {
            Selector::Element(of, _) => (of, "Element"),
            Selector::Slice(of, ..) => (of, "Slice"),
            _ => return cannot_infer(selector),
        };
        let of = self.compile(of, None)?;
        let name = of.name;
        let (is_map, key_type, value_type) = match &of.ty {
            CqlType::Map { key, value, .. } => (true, (**key).clone(), (**value).clone()),
            CqlType::Set { element, .. } => (false, (**element).clone(), (**element).clone()),
            CqlType::List { .. } => {
                return invalid!(
                    "{what} selection is only allowed on sets and maps, but {name} is a list"
                );
            }
            other => {
                // Two messages, two wordings.
                let is = if what == "Element" { "is " } else { "" };
                return invalid!(
                    "Invalid {} selection: {name} {is}of type {other} is not a collection",
                    what.to_lowercase()
                );
            }
        };
        let key_name = if is_map { "key" } else { "value" };
        let receiver = Receiver::new(format!("{key_name}({name})"), key_type.clone());
        let term = |term: &Term| prepare(self.analysis, term, &receiver);
        let of_node = Box::new(of.node);
        if let Selector::Element(_, key) = selector {
            let key_term = term(key)?;
            self.parts
                .push((Part::Element(key_term.clone()), name.clone()));
            return Ok(Typed {
                node: Node::Element {
                    of: of_node,
                    is_map,
                    ty: key_type,
                    key: key_term,
                    name: name.clone(),
                },
                ty: value_type,
                name: format!("{name}[{key}]"),
            });
        }
        let Selector::Slice(_, from, to) = selector else {
            return cannot_infer(selector);
        };
        let from_term = from.as_deref().map(term).transpose()?;
        let to_term = to.as_deref().map(term).transpose()?;
        let part = Part::Slice(from_term.clone(), to_term.clone());
        self.parts.push((part, name.clone()));
        let shown =
            |edge: &Option<Box<Term>>| edge.as_ref().map(ToString::to_string).unwrap_or_default();
        Ok(Typed {
            node: Node::Slice {
                of: of_node,
                is_map,
                frozen: !of.ty.is_multi_cell(),
                ty: key_type,
                from: from_term,
                to: to_term,
                name: name.clone(),
            },
            ty: of.ty,
            name: format!("{name}[{}..{}]", shown(from), shown(to)),
        })
    }

    /// Tuples, lists, sets, maps and user types made of selectors.
    fn literal(
        &mut self,
        selector: &Selector,
        expected: Option<&CqlType>,
    ) -> Result<Typed, CqlError> {
        let own;
        let ty = match expected {
            Some(ty) => ty,
            None => match self.exact_type(selector) {
                Some(ty) => {
                    own = ty;
                    &own
                }
                None => return cannot_infer(selector),
            },
        };
        let (node, name) = match (selector, ty) {
            (Selector::Parentheses(items), CqlType::Tuple(types)) => {
                let parts = self.parts(items.iter().zip(types))?;
                let name = format!("({})", joined(&parts));
                (Node::Tuple(nodes(parts)), name)
            }
            (Selector::Parentheses(items), CqlType::Udt { definition, .. }) if items.len() > 1 => {
                let types = definition.fields.iter().map(|(_, ty)| ty);
                let parts = self.parts(items.iter().zip(types))?;
                let name = format!("({})", joined(&parts));
                (Node::Tuple(nodes(parts)), name)
            }
            (Selector::Parentheses(items), _) if items.len() == 1 => {
                let inner = self.compile(&items[0], Some(ty))?;
                (inner.node, format!("({})", inner.name))
            }
            (Selector::List(items), CqlType::List { element, .. }) => {
                let parts = self.parts(items.iter().map(|item| (item, &**element)))?;
                let name = format!("[{}]", joined(&parts));
                (Node::List(nodes(parts)), name)
            }
            (Selector::List(items), CqlType::Vector { element, dimension })
                if items.len() == *dimension as usize =>
            {
                let parts = self.parts(items.iter().map(|item| (item, &**element)))?;
                let name = format!("[{}]", joined(&parts));
                (Node::Vector((**element).clone(), nodes(parts)), name)
            }
            (Selector::Set(items), CqlType::Set { element, .. }) => {
                let parts = self.parts(items.iter().map(|item| (item, &**element)))?;
                let name = format!("{{{}}}", joined(&parts));
                (Node::Set((**element).clone(), nodes(parts)), name)
            }
            (Selector::Set(items), CqlType::Map { key, .. }) if items.is_empty() => {
                (Node::Map((**key).clone(), Vec::new()), "{}".to_owned())
            }
            (Selector::Map(entries), CqlType::Map { key, value, .. }) => {
                let keys = self.parts(entries.iter().map(|(k, _)| (k, &**key)))?;
                let values = self.parts(entries.iter().map(|(_, v)| (v, &**value)))?;
                let name = entry_names(&keys, &values);
                let pairs = nodes(keys).into_iter().zip(nodes(values)).collect();
                (Node::Map((**key).clone(), pairs), name)
            }
            (Selector::Map(entries), CqlType::Udt { definition, .. }) => {
                return self.user_type(entries, definition, ty);
            }
            (Selector::List(items), CqlType::Vector { .. }) => {
                return invalid!(
                    "Unable to create a vector selector of type {ty} from {} elements",
                    items.len()
                );
            }
            _ => return invalid!("{selector} is no value of type {ty}"),
        };
        Ok(Typed {
            node,
            ty: ty.clone(),
            name,
        })
    }

    fn parts<'s>(
        &mut self,
        parts: impl Iterator<Item = (&'s Selector, &'s CqlType)>,
    ) -> Result<Vec<Typed>, CqlError> {
        parts
            .map(|(part, ty)| {
                if self.assignment(part, ty) == Assignment::No {
                    return invalid!("{part} is not of type {ty}");
                }
                self.compile(part, Some(ty))
            })
            .collect()
    }

    fn user_type(
        &mut self,
        entries: &[(Selector, Selector)],
        definition: &model::UserType,
        ty: &CqlType,
    ) -> Result<Typed, CqlError> {
        let mut fields: Vec<Node> = definition
            .fields
            .iter()
            .map(|_| Node::Term(crate::term::Expression::Constant(None)))
            .collect();
        let mut names = Vec::with_capacity(entries.len());
        for (field, value) in entries {
            let Selector::Column(field) = field else {
                return invalid!("{field} is no name of a field of {ty}");
            };
            let Some(index) = definition
                .fields
                .iter()
                .position(|(name, _)| **name == **field)
            else {
                return invalid!(
                    "Unknown field '{field}' in value of user defined type {}",
                    definition.name
                );
            };
            let part = self.compile(value, Some(&definition.fields[index].1))?;
            names.push(format!("{field}: {}", part.name));
            fields[index] = part.node;
        }
        Ok(Typed {
            node: Node::Tuple(fields),
            ty: ty.clone(),
            name: format!("{{{}}}", names.join(", ")),
        })
    }

    /// `writetime`, `maxwritetime`, `minwritetime`, `ttl`
    fn write_time(&mut self, kind: WriteTimeKind, inner: &Selector) -> Result<Typed, CqlError> {
        let mut column = inner;
        let mut part = None;
        // Of `u.f.g` the cell is that of `u.f`.
        while let Selector::Field(of, _) | Selector::Element(of, _) | Selector::Slice(of, ..) =
            column
        {
            part = Some(column);
            column = of;
        }
        let Selector::Column(name) = column else {
            return invalid!("{kind} takes a column, or an element, slice or field of one");
        };
        let column = column_of(self.table, name)?.clone();
        if matches!(
            column.kind,
            model::ColumnKind::PartitionKey | model::ColumnKind::Clustering
        ) {
            return invalid!("Cannot use selection function {kind} on PRIMARY KEY part {name}");
        }
        let (part, shown) = match part {
            None => (Part::Whole, name.clone()),
            Some(part) => {
                let (part, _) = self.part_of(&column, part)?;
                (part, self.compile(inner, None)?.name)
            }
        };
        let many = column.ty.is_multi_cell()
            && matches!(part, Part::Whole | Part::Slice(..))
            && !kind.is_of_all();
        let single = match kind {
            WriteTimeKind::Ttl => CqlType::Int,
            _ => CqlType::Bigint,
        };
        let slot = self
            .fetch
            .slot(super::fetch::Source::Time(column.id, kind, part))?;
        Ok(Typed {
            node: Node::Slot(slot),
            ty: if many {
                CqlType::List {
                    element: single.into(),
                    frozen: false,
                }
            } else {
                single
            },
            name: format!("{kind}({shown})"),
        })
    }

    /// The part of a column that a time is asked of, and its name.
    fn part_of(
        &mut self,
        column: &model::Column,
        selector: &Selector,
    ) -> Result<(Part, String), CqlError> {
        let typed = self.compile(selector, None)?;
        let part = match (typed.node, column.ty.is_multi_cell()) {
            (Node::Field { index, .. }, _) => Part::Field(index as u16),
            (Node::Element { key, .. }, _) => Part::Element(key),
            (Node::Slice { from, to, .. }, _) => Part::Slice(from, to),
            _ => Part::Whole,
        };
        Ok((part, typed.name))
    }
}

fn nodes(parts: Vec<Typed>) -> Vec<Node> {
    parts.into_iter().map(|part| part.node).collect()
}

fn entry_names(keys: &[Typed], values: &[Typed]) -> String {
    let entries: Vec<String> = keys
        .iter()
        .zip(values)
        .map(|(key, value)| format!("{}: {}", key.name, value.name))
        .collect();
    format!("{{{}}}", entries.join(", "))
}
