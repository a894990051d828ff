//! Which function an operator calls: `FunctionResolver` for the functions of `OperationFcts`.
//!
//! Cassandra tries every pair of types that the operator has a function for: one whose types both
//! operands have of themselves is taken, else the only one that the operands can be taken for, else
//! that of the receiver's type twice. Here each operand is asked once for each type, which gives the
//! same answers and keeps nested operations cheap: their cost grows with their number, not with a
//! power of it.

use model::CqlType;

use super::arithmetic::{negation, operation, result_type};
use super::{Assignment, Operator, Scalar, assign_type};
use crate::ast::NEGATION;

/// The types that operators have functions for, negation's first, in the order in which its
/// functions are listed where none fits.
const TYPES: [CqlType; 14] = [
    CqlType::Counter,
    CqlType::Int,
    CqlType::Bigint,
    CqlType::Double,
    CqlType::Float,
    CqlType::Varint,
    CqlType::Smallint,
    CqlType::Decimal,
    CqlType::Tinyint,
    CqlType::Text,
    CqlType::Ascii,
    CqlType::Timestamp,
    CqlType::Date,
    CqlType::Duration,
];

/// How many of [`TYPES`] are of numbers.
const NUMERIC: usize = 9;

/// How well an operand fits each type that operators have functions for.
#[derive(Clone, Debug)]
pub struct Operand([Assignment; TYPES.len()]);

/// Why an operator calls no function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unresolved {
    /// There is none for such operands.
    Unsupported,
    /// There are several, and none is better than the others.
    Ambiguous,
}

impl Operand {
    /// Of an operand that says how well it fits a type.
    pub fn new(assignment: impl Fn(&CqlType) -> Assignment) -> Operand {
        Operand(TYPES.map(|ty| assignment(&ty)))
    }

    /// Of an operand that is an operation itself: `resolve` says which one, if its result is for a
    /// type. One that there is none of fits any: what is wrong with it is told where it is prepared.
    pub fn of_operation(
        resolve: impl Fn(Option<&CqlType>) -> Result<CqlType, Unresolved>,
    ) -> Operand {
        Operand::new(|ty| match resolve(Some(ty)) {
            Ok(result) => assign_type(&result, ty),
            Err(_) => Assignment::Weak,
        })
    }

    fn fits(&self, index: usize) -> Assignment {
        self.0[index]
    }
}

/// The function that `left operator right` calls, for a result that `receiver` takes. `markers`: an
/// operand is a bind marker.
pub fn resolve_operation(
    operator: Operator,
    (left, right): (&Operand, &Operand),
    receiver: Option<&CqlType>,
    markers: bool,
) -> Result<Scalar, Unresolved> {
    let (left, right) = operand_types(operator, (left, right), receiver, markers)?;
    operation(operator, &left, &right).ok_or(Unresolved::Unsupported)
}

/// As [`resolve_operation`], the type of the result alone.
pub fn operation_type(
    operator: Operator,
    operands: (&Operand, &Operand),
    receiver: Option<&CqlType>,
    markers: bool,
) -> Result<CqlType, Unresolved> {
    let (left, right) = operand_types(operator, operands, receiver, markers)?;
    result_type(operator, &left, &right).ok_or(Unresolved::Unsupported)
}

fn operand_types(
    operator: Operator,
    (left, right): (&Operand, &Operand),
    receiver: Option<&CqlType>,
    markers: bool,
) -> Result<(CqlType, CqlType), Unresolved> {
    let mut only = None;
    let mut several = false;
    let mut twice_the_receiver = None;
    for (i, l) in TYPES.iter().enumerate() {
        if left.fits(i) == Assignment::No {
            continue;
        }
        for (j, r) in TYPES.iter().enumerate() {
            let fit = left.fits(i).min(right.fits(j));
            if fit == Assignment::No || !is_candidate(operator, l, r, receiver) {
                continue;
            }
            if fit == Assignment::Exact {
                return Ok((l.clone(), r.clone()));
            }
            if receiver == Some(l) && receiver == Some(r) {
                twice_the_receiver = Some((l.clone(), r.clone()));
            }
            several |= only.is_some();
            only = Some((l.clone(), r.clone()));
        }
    }
    match (only, several) {
        (None, _) => Err(Unresolved::Unsupported),
        (Some(only), false) => Ok(only),
        (Some(_), true) if markers => Err(Unresolved::Ambiguous),
        (Some(_), true) => twice_the_receiver.ok_or(Unresolved::Ambiguous),
    }
}

/// Has the operator a function for these types, whose result the receiver takes?
fn is_candidate(
    operator: Operator,
    left: &CqlType,
    right: &CqlType,
    receiver: Option<&CqlType>,
) -> bool {
    result_type(operator, left, right).is_some_and(|result| taken(&result, receiver))
}

fn taken(result: &CqlType, receiver: Option<&CqlType>) -> bool {
    receiver.is_none_or(|ty| assign_type(result, ty) != Assignment::No)
}

/// The function that `-operand` calls, for a result that `receiver` takes.
pub fn resolve_negation(
    operand: &Operand,
    receiver: Option<&CqlType>,
) -> Result<Scalar, Unresolved> {
    let ty = negation_type(operand, receiver)?;
    negation(&ty).ok_or(Unresolved::Unsupported)
}

/// As [`resolve_negation`], the type of the result alone.
pub fn negation_type(operand: &Operand, receiver: Option<&CqlType>) -> Result<CqlType, Unresolved> {
    let mut only = Err(Unresolved::Unsupported);
    for (i, ty) in TYPES[..NUMERIC].iter().enumerate() {
        match operand.fits(i) {
            Assignment::No => {}
            _ if !taken(ty, receiver) => {}
            Assignment::Exact => return Ok(ty.clone()),
            Assignment::Weak if only == Err(Unresolved::Unsupported) => only = Ok(ty.clone()),
            Assignment::Weak => only = Err(Unresolved::Ambiguous),
        }
    }
    only
}

/// The functions of an operator by the name that Cassandra gives them, which is also how it writes
/// operations in `system_schema`; none where that is no operator's.
pub(super) fn named(name: &str) -> Vec<Scalar> {
    if name == NEGATION {
        return TYPES[..NUMERIC].iter().filter_map(negation).collect();
    }
    let Some(operator) = Operator::of_function(name) else {
        return Vec::new();
    };
    let pairs = TYPES.iter().flat_map(|l| TYPES.iter().map(move |r| (l, r)));
    pairs
        .filter_map(|(left, right)| operation(operator, left, right))
        .collect()
}

/// What is said of a negation that calls no function.
pub fn negation_failure(reason: Unresolved) -> String {
    match reason {
        Unresolved::Ambiguous => "Ambiguous negation: use type casts to disambiguate".to_owned(),
        Unresolved::Unsupported => {
            let signatures = TYPES[..NUMERIC]
                .iter()
                .map(|ty| format!("system.\"_negate\" : ({ty}) -> {ty}"));
            format!(
                "Invalid call to function system._negate, none of its type signatures match (known \
                 type signatures: {})",
                signatures.collect::<Vec<_>>().join(", ")
            )
        }
    }
}

/// What is said of an operation that calls no function; the operands as CQL writes them.
pub fn operation_failure(reason: Unresolved, symbol: char, left: &str, right: &str) -> String {
    match reason {
        Unresolved::Ambiguous => format!(
            "Ambiguous '{symbol}' operation with args {left} and {right}: use type hint to \
             disambiguate, example '(int) ?'"
        ),
        Unresolved::Unsupported => {
            format!("the '{symbol}' operation is not supported between {left} and {right}")
        }
    }
}
