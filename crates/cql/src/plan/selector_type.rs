//! The types of selectors before they are compiled, and the functions that are called with them
//! (`Selectable.getExactTypeIfKnown`, `testAssignment`).

use std::fmt;

use model::CqlType;

use crate::CqlError;
use crate::ast::{ArithmeticOperator, FunctionName, Selector, Term, WriteTimeKind};
use crate::error::invalid;
use crate::functions::{
    self, Argument, Assignment, Function, Operand, Scalar, assign_hinted, assign_selected,
    assign_type,
};
use crate::term::{TermArgument, preferred_type};

use super::restriction::column_of;
use super::selector::{Compiler, counts_rows};

/// A selector as an argument of a function.
pub(super) struct SelectorArgument<'c, 'a> {
    pub(super) compiler: &'c Compiler<'a>,
    pub(super) selector: &'c Selector,
}

impl fmt::Display for SelectorArgument<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.selector {
            Selector::TypeHint(hint, of) => {
                write!(
                    f,
                    "({}){of}",
                    hint.qualified(self.compiler.analysis.keyspace)
                )
            }
            other => other.fmt(f),
        }
    }
}

impl Argument for SelectorArgument<'_, '_> {
    fn assignment(&self, ty: &CqlType) -> Assignment {
        self.compiler.assignment(self.selector, ty)
    }

    fn exact_type(&self) -> Option<CqlType> {
        self.compiler.exact_type(self.selector)
    }

    fn compatible_type(&self) -> Option<CqlType> {
        self.compiler.compatible_type(self.selector)
    }

    fn bracketed(&self) -> Option<usize> {
        match self.selector {
            Selector::List(items) => Some(items.len()),
            _ => None,
        }
    }
}

impl Compiler<'_> {
    /// The type of a selector that has one whatever it is for.
    pub(super) fn exact_type(&self, selector: &Selector) -> Option<CqlType> {
        match selector {
            Selector::Column(name) => self.table.shown_column(name).map(|c| c.ty.clone()),
            Selector::Term(_) => None,
            Selector::TypeHint(hint, _) => self.hinted(hint).ok(),
            Selector::CountRows => Some(CqlType::Bigint),
            Selector::Cast(_, ty) => Some(ty.clone()),
            Selector::List(items) => Some(CqlType::List {
                element: self.common_type(items)?.into(),
                frozen: false,
            }),
            Selector::Set(items) => Some(CqlType::Set {
                element: self.common_type(items)?.into(),
                frozen: false,
            }),
            Selector::Parentheses(items) if items.len() > 1 => {
                let types: Option<Vec<CqlType>> =
                    items.iter().map(|item| self.exact_type(item)).collect();
                types.map(CqlType::Tuple)
            }
            Selector::Parentheses(_) | Selector::Map(_) => None,
            Selector::WriteTime(kind, inner) => Some(self.time_type(*kind, inner)),
            Selector::Field(inner, field) => match self.exact_type(inner)? {
                CqlType::Udt { definition, .. } => definition
                    .fields
                    .iter()
                    .find(|(name, _)| **name == **field)
                    .map(|(_, ty)| ty.clone()),
                _ => None,
            },
            Selector::Element(inner, _) => match self.exact_type(inner)? {
                CqlType::Map { value, .. } => Some(*value),
                CqlType::Set { element, .. } => Some(*element),
                _ => None,
            },
            Selector::Slice(inner, ..) => self.exact_type(inner),
            Selector::Function { name, arguments } => {
                let function = self.resolve_function(name, arguments).ok()?;
                Some(function.result().clone())
            }
            Selector::Operation {
                operator,
                left,
                right,
            } => {
                self.analysis.count_resolution().ok()?;
                let operands = (&self.operand(left), &self.operand(right));
                functions::operation_type(*operator, operands, None, false).ok()
            }
            Selector::Negation(inner) => functions::negation_type(&self.operand(inner), None).ok(),
        }
    }

    /// The type of `writetime`, `maxwritetime` or `ttl`: a list of what consists of many cells.
    fn time_type(&self, kind: WriteTimeKind, inner: &Selector) -> CqlType {
        let single = match kind {
            WriteTimeKind::Ttl => CqlType::Int,
            _ => CqlType::Bigint,
        };
        let whole = match inner {
            Selector::Slice(of, ..) => of,
            other => other,
        };
        let many = kind != WriteTimeKind::MaxWriteTime
            && matches!(whole, Selector::Column(_))
            && self.exact_type(whole).is_some_and(|ty| ty.is_multi_cell());
        match many {
            true => CqlType::List {
                element: single.into(),
                frozen: false,
            },
            false => single,
        }
    }

    fn common_type(&self, items: &[Selector]) -> Option<CqlType> {
        let fits_all = |ty: &CqlType| {
            let mut items = items.iter();
            items.all(|item| self.assignment(item, ty) != Assignment::No)
        };
        let mut misfit = None;
        for ty in items.iter().filter_map(|item| self.exact_type(item)) {
            if misfit.as_ref() == Some(&ty) {
                continue;
            }
            if fits_all(&ty) {
                return Some(ty);
            }
            self.analysis.count_resolution().ok()?;
            misfit = Some(ty);
        }
        None
    }

    /// How well a selector fits the types that operators have functions for. What is nested in it
    /// is asked once.
    pub(super) fn operand(&self, selector: &Selector) -> Operand {
        match selector {
            Selector::Operation { .. } | Selector::Negation(_) => {
                let ty = self.exact_type(selector);
                let fit =
                    |to: &CqlType| ty.as_ref().map_or(Assignment::No, |ty| assign_type(ty, to));
                Operand::new(fit)
            }
            Selector::Parentheses(items) if items.len() == 1 => self.operand(&items[0]),
            other => Operand::new(|ty| self.assignment(other, ty)),
        }
    }

    /// The type of a selector for functions that take any: constants have the one they look like.
    pub(super) fn compatible_type(&self, selector: &Selector) -> Option<CqlType> {
        let common = |items: &[Selector]| {
            let ty = items.iter().find_map(|item| self.compatible_type(item))?;
            let mut items = items.iter();
            let fits = |item: &Selector| match self.compatible_type(item) {
                Some(own) => assign_type(&own, &ty) != Assignment::No,
                None => self.assignment(item, &ty) != Assignment::No,
            };
            items.all(fits).then(|| ty.freeze().into())
        };
        match selector {
            Selector::Term(Term::Literal(literal)) => Some(preferred_type(literal)),
            Selector::List(items) => Some(CqlType::List {
                element: common(items)?,
                frozen: true,
            }),
            Selector::Set(items) => Some(CqlType::Set {
                element: common(items)?,
                frozen: true,
            }),
            Selector::Parentheses(items) if items.len() > 1 => {
                let types = items.iter().map(|item| self.compatible_type(item));
                let types: Option<Vec<CqlType>> = types.collect();
                types.map(|types| CqlType::Tuple(types.iter().map(CqlType::freeze).collect()))
            }
            other => self.exact_type(other),
        }
    }

    /// How well a selector fits a type.
    pub(super) fn assignment(&self, selector: &Selector, ty: &CqlType) -> Assignment {
        match selector {
            Selector::Term(term) => TermArgument {
                analysis: self.analysis,
                term,
            }
            .assignment(ty),
            Selector::Parentheses(items) => match (&items[..], ty) {
                (_, CqlType::Tuple(types)) if items.len() <= types.len() => {
                    self.all_fit(items.iter().zip(types))
                }
                (_, CqlType::Tuple(_)) => Assignment::No,
                (_, CqlType::Udt { definition, .. }) if items.len() > definition.fields.len() => {
                    Assignment::No
                }
                (_, CqlType::Udt { definition, .. }) if items.len() > 1 => {
                    let types = definition.fields.iter().map(|(_, ty)| ty);
                    self.all_fit(items.iter().zip(types))
                }
                ([only], _) => self.assignment(only, ty),
                _ => Assignment::No,
            },
            Selector::List(items) => match ty {
                CqlType::List { element, .. } | CqlType::Vector { element, .. } => {
                    self.all_fit(items.iter().map(|item| (item, &**element)))
                }
                _ => Assignment::No,
            },
            Selector::Set(items) => match ty {
                CqlType::Set { element, .. } => {
                    self.all_fit(items.iter().map(|item| (item, &**element)))
                }
                CqlType::Map { .. } if items.is_empty() => Assignment::Weak,
                _ => Assignment::No,
            },
            Selector::Map(entries) => match ty {
                CqlType::Map { key, value, .. } => {
                    let keys = entries.iter().map(|(part, _)| (part, &**key));
                    let values = entries.iter().map(|(_, part)| (part, &**value));
                    self.all_fit(keys.chain(values))
                }
                // A field that is not there is told of in words of its own.
                CqlType::Udt { definition, .. } => {
                    self.all_fit(entries.iter().filter_map(|(field, part)| {
                        let Selector::Column(field) = field else {
                            return None;
                        };
                        let known = &definition.fields;
                        let found = known.iter().find(|(name, _)| **name == **field);
                        found.map(|(_, ty)| (part, ty))
                    }))
                }
                _ => Assignment::No,
            },
            Selector::TypeHint(..) => match self.exact_type(selector) {
                Some(hint) => assign_hinted(&hint, ty),
                None => Assignment::No,
            },
            other => match self.exact_type(other) {
                Some(own) => assign_selected(&own, ty),
                // As of terms: what is wrong with the call is told later.
                None if matches!(other, Selector::Function { .. }) => Assignment::Exact,
                None => Assignment::No,
            },
        }
    }

    fn all_fit<'s>(
        &self,
        mut parts: impl Iterator<Item = (&'s Selector, &'s CqlType)>,
    ) -> Assignment {
        if parts.all(|(part, ty)| self.assignment(part, ty) != Assignment::No) {
            Assignment::Weak
        } else {
            Assignment::No
        }
    }

    /// Of the mistakes of selectors that cannot be compiled the one that Cassandra finds before all others,
    /// if they have one of those: a column that is not there or a call of no function, from the inside out
    /// (`Selectable.Raw.prepare`).
    pub(crate) fn first_mistake<'s>(
        &self,
        mut selectors: impl Iterator<Item = &'s Selector>,
    ) -> Option<CqlError> {
        selectors.find_map(|selector| self.check_calls(selector).err())
    }

    fn check_calls(&self, selector: &Selector) -> Result<(), CqlError> {
        match selector {
            Selector::Column(name) => column_of(self.table, name).map(drop),
            Selector::Term(_) | Selector::CountRows => Ok(()),
            Selector::TypeHint(_, inner)
            | Selector::WriteTime(_, inner)
            | Selector::Cast(inner, _)
            | Selector::Field(inner, _)
            | Selector::Element(inner, _)
            | Selector::Slice(inner, ..) => self.check_calls(inner),
            Selector::Parentheses(items) | Selector::List(items) | Selector::Set(items) => {
                items.iter().try_for_each(|item| self.check_calls(item))
            }
            Selector::Map(pairs) => pairs.iter().try_for_each(|(key, value)| {
                // The name of a field is no column.
                if !matches!(key, Selector::Column(_)) {
                    self.check_calls(key)?;
                }
                self.check_calls(value)
            }),
            Selector::Function { name, arguments } if counts_rows(name, arguments) => Ok(()),
            Selector::Function { name, arguments } => {
                let mut each = arguments.iter();
                each.try_for_each(|argument| self.check_calls(argument))?;
                self.resolve_function(name, arguments).map(drop)
            }
            Selector::Operation {
                operator,
                left,
                right,
            } => {
                self.check_calls(left)?;
                self.check_calls(right)?;
                self.resolve_operation(*operator, left, right).map(drop)
            }
            Selector::Negation(inner) => {
                self.check_calls(inner)?;
                self.resolve_negation(inner).map(drop)
            }
        }
    }

    /// The function of an operator. What its result is for makes no difference.
    pub(super) fn resolve_operation(
        &self,
        operator: ArithmeticOperator,
        left: &Selector,
        right: &Selector,
    ) -> Result<Scalar, CqlError> {
        self.analysis.count_resolution()?;
        let operands = (&self.operand(left), &self.operand(right));
        functions::resolve_operation(operator, operands, None, false).map_err(|reason| {
            let (left, right) = (left.to_string(), right.to_string());
            let symbol = operator.symbol();
            CqlError::Invalid(functions::operation_failure(reason, symbol, &left, &right))
        })
    }

    pub(super) fn resolve_negation(&self, inner: &Selector) -> Result<Scalar, CqlError> {
        functions::resolve_negation(&self.operand(inner), None)
            .map_err(|reason| CqlError::Invalid(functions::negation_failure(reason)))
    }

    pub(super) fn resolve_function(
        &self,
        name: &FunctionName,
        arguments: &[Selector],
    ) -> Result<Function, CqlError> {
        self.analysis.count_resolution()?;
        let arguments: Vec<SelectorArgument<'_, '_>> = arguments
            .iter()
            .map(|selector| SelectorArgument {
                compiler: self,
                selector,
            })
            .collect();
        let arguments: Vec<&dyn Argument> = arguments.iter().map(|a| a as &dyn Argument).collect();
        let receiver = functions::Receiver {
            ty: None,
            partition_key: &self.analysis.partition_key,
            users: self.analysis.users(),
        };
        match functions::resolve(name.keyspace.as_deref(), &name.name, &arguments, receiver)? {
            Some(function) => {
                self.analysis.note_use(&function);
                Ok(function)
            }
            None => invalid!("Unknown function '{name}'"),
        }
    }
}
