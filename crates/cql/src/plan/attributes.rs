//! `USING TIMESTAMP t AND TTL s` (`Attributes`), and ScyllaDB's `TIMEOUT d`.

use std::time::Duration;

use model::duration::Duration as CqlDuration;
use model::{CqlType, NO_TTL, Table};

use crate::CqlError;
use crate::ast;
use crate::error::invalid;
use crate::term::{Analysis, Bound, Expression, Receiver, Request, Value, prepare};

use super::point::Given;

/// The longest time to live: 20 years, in seconds.
const MAX_TTL: i32 = 20 * 365 * 24 * 60 * 60;
/// The last second, since 1970, that sstables of Cassandra 4 know.
const LAST_EXPIRATION: i64 = i32::MAX as i64 - 1;

/// The attributes of a write.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attributes {
    timestamp: Option<Expression>,
    ttl: Option<Expression>,
    timeout: Option<Timeout>,
}

impl Attributes {
    /// Analyses the clause.
    pub(crate) fn new(
        analysis: &Analysis<'_>,
        attributes: &ast::Attributes,
    ) -> Result<Attributes, CqlError> {
        let term = |term: &Option<ast::Term>, name: &str, ty: CqlType| {
            term.as_ref()
                .map(|term| prepare(analysis, term, &Receiver::new(name, ty)))
                .transpose()
        };
        Ok(Attributes {
            timestamp: term(&attributes.timestamp, "[timestamp]", CqlType::Bigint)?,
            ttl: term(&attributes.ttl, "[ttl]", CqlType::Int)?,
            timeout: Timeout::new(analysis, attributes.timeout.as_ref())?,
        })
    }

    /// What is written or bound as it is; `None` if there is anything else.
    pub(super) fn given(&self) -> Option<GivenAttributes> {
        let given = |expression: &Option<Expression>| match expression {
            Some(expression) => Given::of(expression).map(Some),
            None => Some(None),
        };
        let attributes = GivenAttributes {
            timestamp: given(&self.timestamp)?,
            ttl: given(&self.ttl)?,
        };
        self.timeout.is_none().then_some(attributes)
    }

    /// Does it say when?
    pub(crate) fn has_timestamp(&self) -> bool {
        self.timestamp.is_some()
    }

    /// Does it say for how long?
    pub(crate) fn has_ttl(&self) -> bool {
        self.ttl.is_some()
    }

    /// How long this execution may take, if the statement says so.
    pub(crate) fn timeout(&self, request: &Request<'_>) -> Result<Option<Duration>, CqlError> {
        Timeout::of(self.timeout.as_ref(), request)
    }

    /// The timestamp of this execution, in microseconds since 1970.
    pub(crate) fn timestamp(&self, default: i64, request: &Request<'_>) -> Result<i64, CqlError> {
        match &self.timestamp {
            None => Ok(default),
            Some(timestamp) => timestamp_of(timestamp.evaluate(request)?.borrowed(), default),
        }
    }

    /// The time to live of this execution, in seconds.
    pub(crate) fn ttl(&self, table: &Table, request: &Request<'_>) -> Result<i32, CqlError> {
        let said = self.ttl.as_ref().map(|ttl| ttl.evaluate(request));
        let said = said.transpose()?;
        ttl_of(
            said.as_ref().map(Bound::borrowed),
            table,
            request.now_seconds,
        )
    }
}

/// Attributes of a write that are all written or bound as they are: what is usual of them is told without an
/// execution's state.
#[derive(Clone, Debug)]
pub(super) struct GivenAttributes {
    timestamp: Option<Given>,
    ttl: Option<Given>,
}

impl GivenAttributes {
    /// As [`Attributes::timestamp`]; `None` where that is an error.
    pub(super) fn timestamp(&self, default: i64, values: &[Value<'_>]) -> Option<i64> {
        match &self.timestamp {
            None => Some(default),
            Some(given) => timestamp_of(given.assigned(values)?, default).ok(),
        }
    }

    /// As [`Attributes::ttl`]; `None` where that is an error.
    pub(super) fn ttl(&self, table: &Table, values: &[Value<'_>], now_seconds: u32) -> Option<i32> {
        let said = match &self.ttl {
            None => None,
            Some(given) => Some(given.assigned(values)?),
        };
        ttl_of(said, table, now_seconds).ok()
    }
}

/// The timestamp that a statement says, in microseconds since 1970.
fn timestamp_of(said: Value<'_>, default: i64) -> Result<i64, CqlError> {
    let bytes = match said {
        Value::Unset => return Ok(default),
        Value::Null => return invalid!("Invalid null value of timestamp"),
        Value::Bytes(bytes) => bytes,
    };
    match <[u8; 8]>::try_from(bytes).map(i64::from_be_bytes) {
        Ok(i64::MIN) => invalid!(
            "Out of bound timestamp, must be in [{}, {}]",
            i64::MIN + 1,
            i64::MAX
        ),
        Ok(timestamp) => Ok(timestamp),
        Err(_) => invalid!("Invalid timestamp value"),
    }
}

/// The time to live that a statement says, if it does, or its table: in seconds.
fn ttl_of(said: Option<Value<'_>>, table: &Table, now_seconds: u32) -> Result<i32, CqlError> {
    let ttl = match said {
        None | Some(Value::Unset) => table.options.default_time_to_live,
        Some(Value::Null) => NO_TTL,
        Some(Value::Bytes(bytes)) => match <[u8; 4]>::try_from(bytes) {
            Ok(bytes) => i32::from_be_bytes(bytes),
            // No bytes and null are the same to an int.
            Err(_) if bytes.is_empty() => NO_TTL,
            Err(_) => return invalid!("Invalid TTL value"),
        },
    };
    if ttl < 0 {
        return invalid!("A TTL must be greater or equal to 0, but was {ttl}");
    }
    if ttl > MAX_TTL {
        return invalid!("ttl is too large. requested ({ttl}) maximum ({MAX_TTL})");
    }
    if i64::from(now_seconds) + i64::from(ttl) > LAST_EXPIRATION && ttl != NO_TTL {
        let whose = if said.is_none() { "default " } else { "" };
        return invalid!(
            "Request on table {}.{} with {whose}ttl of {ttl} seconds exceeds maximum supported \
             expiration date of 2038-01-19T03:14:06+00:00. In order to avoid this use a lower \
             TTL, change the expiration date overflow policy or upgrade to a version where \
             this limitation is fixed. See CASSANDRA-14092 and CASSANDRA-14227 for more \
             details.",
            table.keyspace,
            table.name
        );
    }
    Ok(ttl)
}

/// `USING TIMEOUT` (ScyllaDB's `docs/cql/cql-extensions.md`): how long a statement may take in place of
/// the time that operators set.
#[derive(Clone, Debug)]
pub(crate) struct Timeout(Expression);

impl Timeout {
    /// Analyses it; a constant is checked at once.
    pub(crate) fn new(
        analysis: &Analysis<'_>,
        term: Option<&ast::Term>,
    ) -> Result<Option<Timeout>, CqlError> {
        let Some(term) = term else {
            return Ok(None);
        };
        let receiver = Receiver::new("[timeout]", CqlType::Duration);
        let expression = prepare(analysis, term, &receiver)?;
        if let Expression::Constant(value) = &expression {
            checked(value.as_deref())?;
        }
        Ok(Some(Timeout(expression)))
    }

    /// That of this execution, if the statement has one.
    pub(crate) fn of(
        timeout: Option<&Timeout>,
        request: &Request<'_>,
    ) -> Result<Option<Duration>, CqlError> {
        let Some(Timeout(expression)) = timeout else {
            return Ok(None);
        };
        let duration = match expression.evaluate(request)? {
            Bound::Unset => return invalid!("Timeout value cannot be unset"),
            Bound::Null => checked(None),
            Bound::Value(bytes) => checked(Some(&bytes)),
        };
        duration.map(Some)
    }
}

fn checked(value: Option<&[u8]>) -> Result<Duration, CqlError> {
    const NANOSECONDS_A_MILLISECOND: i64 = 1_000_000;
    let Some(bytes) = value else {
        return invalid!("Timeout value cannot be null");
    };
    let Ok(duration) = CqlDuration::decode(bytes) else {
        return invalid!("Invalid timeout value");
    };
    if duration.months != 0 || duration.days != 0 {
        return invalid!("Timeout values cannot be expressed in days/months");
    }
    if duration.nanoseconds % NANOSECONDS_A_MILLISECOND != 0 {
        return invalid!("Timeout values cannot have granularity finer than milliseconds");
    }
    match u64::try_from(duration.nanoseconds) {
        Ok(nanoseconds) => Ok(Duration::from_nanos(nanoseconds)),
        Err(_) => invalid!("Timeout values must be non-negative"),
    }
}
