//! What an execution brings: bound values, the time, and chance.

use crate::CqlError;
use crate::functions::FunctionContext;

pub use model::Value;

/// The bound values of a request in the order of the statement's bind markers; made by
/// [`crate::Prepared::bind`].
#[derive(Clone, Debug)]
pub struct Values<'v>(Held<'v>);

#[derive(Clone, Debug)]
enum Held<'v> {
    Borrowed(&'v [Value<'v>]),
    Owned(Vec<Value<'v>>),
}

impl<'v> Values<'v> {
    /// No values.
    pub const NONE: Values<'static> = Values(Held::Borrowed(&[]));

    /// These values, one for each bind marker.
    pub(crate) fn borrowed(values: &'v [Value<'v>]) -> Values<'v> {
        Values(Held::Borrowed(values))
    }

    /// These values, one for each bind marker.
    pub(crate) fn owned(values: Vec<Value<'v>>) -> Values<'v> {
        Values(Held::Owned(values))
    }

    /// One for each bind marker, in their order.
    pub fn as_slice(&self) -> &[Value<'v>] {
        match &self.0 {
            Held::Borrowed(values) => values,
            Held::Owned(values) => values.as_slice(),
        }
    }

    /// The value of a marker.
    pub(crate) fn get(&self, marker: usize) -> Result<Value<'v>, CqlError> {
        let values = self.as_slice();
        values.get(marker).copied().ok_or_else(|| {
            CqlError::Invalid(format!(
                "there is no value for the bind marker {marker}: {} values are bound",
                values.len()
            ))
        })
    }
}

/// One execution of a plan.
#[derive(Debug)]
pub struct Request<'v> {
    /// The bound values.
    pub values: Values<'v>,
    /// The timestamp of writes that do not say one: microseconds since 1970, the client's or the
    /// coordinator's.
    pub timestamp_micros: i64,
    /// Seconds since 1970: what has expired by then is gone, and from then time to live counts.
    pub now_seconds: u32,
    /// Time and chance for functions.
    pub functions: FunctionContext,
}

impl<'v> Request<'v> {
    /// An execution now (microseconds since 1970), with a random number for functions.
    pub fn new(values: Values<'v>, now_micros: i64, random: u64) -> Request<'v> {
        Request {
            values,
            timestamp_micros: now_micros,
            now_seconds: u32::try_from(now_micros / 1_000_000).unwrap_or(0),
            functions: FunctionContext::new(now_micros, random),
        }
    }
}
