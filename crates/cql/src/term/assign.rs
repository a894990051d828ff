//! How well a term fits a type before it is prepared (`AssignmentTestable`).

use std::fmt;

use model::CqlType;

use crate::ast::{DataType, Term};
use crate::functions::{self, Argument, Assignment, Function, Operand, assign_hinted, assign_type};
use crate::schema::UserTypes;

use super::literal;
use super::prepare::{Analysis, resolve_function};

/// The weakest of several.
fn weakest(all: impl Iterator<Item = Assignment>) -> Assignment {
    all.min().unwrap_or(Assignment::Exact)
}

/// A term as an argument of a function.
pub(crate) struct TermArgument<'a> {
    pub(crate) analysis: &'a Analysis<'a>,
    pub(crate) term: &'a Term,
}

impl fmt::Display for TermArgument<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.term {
            Term::TypeHint(hint, of) => {
                write!(f, "({}){of}", hint.qualified(self.analysis.keyspace))
            }
            other => other.fmt(f),
        }
    }
}

impl Argument for TermArgument<'_> {
    fn assignment(&self, ty: &CqlType) -> Assignment {
        assignment(self.analysis, self.term, ty)
    }

    fn exact_type(&self) -> Option<CqlType> {
        exact_type(self.analysis, self.term)
    }

    fn compatible_type(&self) -> Option<CqlType> {
        match self.term {
            Term::Literal(literal) => Some(literal::preferred_type(literal)),
            term => exact_type(self.analysis, term),
        }
    }

    fn bracketed(&self) -> Option<usize> {
        match self.term {
            Term::List(items) => Some(items.len()),
            _ => None,
        }
    }
}

/// Can the term be taken for a value of the type?
pub(crate) fn assignable(analysis: &Analysis<'_>, term: &Term, ty: &CqlType) -> bool {
    assignment(analysis, term, ty) != Assignment::No
}

/// How well the term fits the type.
pub(crate) fn assignment(analysis: &Analysis<'_>, term: &Term, ty: &CqlType) -> Assignment {
    match term {
        Term::Literal(literal) => literal::assignment(literal, ty),
        Term::Null if ty.is_counter() => Assignment::No,
        Term::Null | Term::Marker(_) => Assignment::Weak,
        Term::List(items) => list(analysis, items, ty),
        Term::Set(items) => set(analysis, items, ty),
        Term::Map(entries) => map(analysis, entries, ty),
        Term::User(fields) => user(analysis, fields, ty),
        Term::Tuple(items) => tuple(analysis, items, ty),
        Term::TypeHint(hint, _) => match resolve_type(analysis, hint) {
            Some(hint) => assign_hinted(&hint, ty),
            None => Assignment::No,
        },
        Term::Function { .. } | Term::Cast(..) | Term::Operation { .. } | Term::Negation(_) => {
            match result_type(analysis, term, Some(ty)) {
                Some(result) => assign_type(&result, ty),
                // What is wrong with the call is told where it is prepared, which says more
                // (`FunctionCall.Raw.testAssignment`).
                None => Assignment::Weak,
            }
        }
    }
}

/// A type of the statement's keyspace.
pub(crate) fn resolve_type(analysis: &Analysis<'_>, ty: &DataType) -> Option<CqlType> {
    let none = UserTypes::new();
    ty.resolve(analysis.keyspace, analysis.types.unwrap_or(&none))
        .ok()
}

/// The type of a term that has one whatever it is for (`getExactTypeIfKnown`).
pub(crate) fn exact_type(analysis: &Analysis<'_>, term: &Term) -> Option<CqlType> {
    match term {
        Term::Literal(_) | Term::Null | Term::Marker(_) | Term::User(_) => None,
        Term::TypeHint(hint, _) => resolve_type(analysis, hint),
        Term::Function { .. } | Term::Cast(..) | Term::Operation { .. } | Term::Negation(_) => {
            result_type(analysis, term, None)
        }
        Term::List(items) => {
            let element = items.iter().find_map(|item| exact_type(analysis, item))?;
            Some(CqlType::List {
                element: element.into(),
                frozen: false,
            })
        }
        Term::Set(items) => {
            let element = items.iter().find_map(|item| exact_type(analysis, item))?;
            Some(CqlType::Set {
                element: element.into(),
                frozen: false,
            })
        }
        Term::Map(entries) => {
            let mut keys = entries.iter().map(|(key, _)| key);
            let mut values = entries.iter().map(|(_, value)| value);
            Some(CqlType::Map {
                key: keys.find_map(|key| exact_type(analysis, key))?.into(),
                value: values.find_map(|value| exact_type(analysis, value))?.into(),
                frozen: false,
            })
        }
        Term::Tuple(items) => {
            let types: Option<Vec<CqlType>> = items
                .iter()
                .map(|item| exact_type(analysis, item))
                .collect();
            types.map(CqlType::Tuple)
        }
    }
}

/// The type of the result of a function or an operation.
fn result_type(
    analysis: &Analysis<'_>,
    term: &Term,
    receiver: Option<&CqlType>,
) -> Option<CqlType> {
    match term {
        Term::Function { name, arguments } => {
            match resolve_function(analysis, name, arguments, receiver) {
                Ok(Function::Scalar(function)) => Some(function.result().clone()),
                _ => None,
            }
        }
        Term::Cast(_, ty) => Some(ty.clone()),
        Term::Negation(inner) => functions::negation_type(&operand(analysis, inner), receiver).ok(),
        Term::Operation {
            operator,
            left,
            right,
        } => {
            let markers = matches!(**left, Term::Marker(_)) || matches!(**right, Term::Marker(_));
            let operands = (&operand(analysis, left), &operand(analysis, right));
            functions::operation_type(*operator, operands, receiver, markers).ok()
        }
        _ => None,
    }
}

/// How well a term fits the types that operators have functions for. What is nested in it is asked
/// once, whatever it is nested in.
pub(super) fn operand(analysis: &Analysis<'_>, term: &Term) -> Operand {
    match term {
        Term::Operation {
            operator,
            left,
            right,
        } => {
            let markers = matches!(**left, Term::Marker(_)) || matches!(**right, Term::Marker(_));
            let (left, right) = (operand(analysis, left), operand(analysis, right));
            let operator = *operator;
            Operand::of_operation(|ty| {
                functions::operation_type(operator, (&left, &right), ty, markers)
            })
        }
        Term::Negation(inner) => {
            let inner = operand(analysis, inner);
            Operand::of_operation(|ty| functions::negation_type(&inner, ty))
        }
        Term::Tuple(items) if items.len() == 1 => operand(analysis, &items[0]),
        _ => Operand::new(|ty| assignment(analysis, term, ty)),
    }
}

fn list(analysis: &Analysis<'_>, items: &[Term], ty: &CqlType) -> Assignment {
    match ty {
        CqlType::List { element, .. } => {
            weakest(items.iter().map(|item| assignment(analysis, item, element)))
        }
        CqlType::Vector { element, dimension } if items.len() == *dimension as usize => {
            weakest(items.iter().map(|item| assignment(analysis, item, element)))
        }
        _ => Assignment::No,
    }
}

fn set(analysis: &Analysis<'_>, items: &[Term], ty: &CqlType) -> Assignment {
    match ty {
        // Empty braces may be a map.
        CqlType::Map { .. } if items.is_empty() => Assignment::Weak,
        CqlType::Set { element, .. } => {
            weakest(items.iter().map(|item| assignment(analysis, item, element)))
        }
        _ => Assignment::No,
    }
}

fn map(analysis: &Analysis<'_>, entries: &[(Term, Term)], ty: &CqlType) -> Assignment {
    let CqlType::Map { key, value, .. } = ty else {
        return Assignment::No;
    };
    weakest(
        entries
            .iter()
            .map(|(k, v)| assignment(analysis, k, key).min(assignment(analysis, v, value))),
    )
}

fn user(analysis: &Analysis<'_>, fields: &[(String, Term)], ty: &CqlType) -> Assignment {
    let CqlType::Udt { definition, .. } = ty else {
        return Assignment::No;
    };
    let all_fit = fields.iter().all(|(name, term)| {
        definition
            .fields
            .iter()
            .find(|(field, _)| **field == **name)
            .is_some_and(|(_, ty)| assignable(analysis, term, ty))
    });
    if all_fit {
        Assignment::Weak
    } else {
        Assignment::No
    }
}

/// The types of the components that a literal of a tuple may give: those of a user type too.
pub(super) fn components(ty: &CqlType) -> Option<Vec<&CqlType>> {
    match ty {
        CqlType::Tuple(types) => Some(types.iter().collect()),
        CqlType::Udt { definition, .. } => {
            Some(definition.fields.iter().map(|(_, ty)| ty).collect())
        }
        _ => None,
    }
}

fn tuple(analysis: &Analysis<'_>, items: &[Term], ty: &CqlType) -> Assignment {
    let Some(types) = components(ty) else {
        // A single term in parentheses is that term.
        return match items {
            [only] if !ty.is_collection() => assignment(analysis, only, ty),
            _ => Assignment::No,
        };
    };
    let fits = items.len() <= types.len()
        && items
            .iter()
            .zip(types)
            .all(|(item, ty)| assignable(analysis, item, ty));
    if fits {
        Assignment::Weak
    } else {
        Assignment::No
    }
}
