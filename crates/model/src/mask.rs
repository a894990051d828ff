//! Masks of columns: what clients that may not see a column's values are shown instead.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::{CqlType, quote_identifier};

/// A function that is called with a value of the column and the arguments that are kept here
/// (`org.apache.cassandra.cql3.functions.masking.ColumnMask`). `Display` is the call as DESCRIBE and
/// `MASKED WITH` have it, without the first argument.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnMask {
    /// The keyspace of the function: `system` for those that are always there.
    pub keyspace: Arc<str>,
    /// Its name.
    pub function: Arc<str>,
    /// Types and values of its arguments after the first one; `None` is null.
    pub arguments: Vec<(CqlType, Option<Bytes>)>,
}

impl fmt::Display for ColumnMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (keyspace, name) = (&self.keyspace, &self.function);
        write!(
            f,
            "{}.{}(",
            quote_identifier(keyspace),
            quote_identifier(name)
        )?;
        for (i, (ty, value)) in self.arguments.iter().enumerate() {
            let separator = if i == 0 { "" } else { ", " };
            match value {
                Some(value) => write!(f, "{separator}{}", ty.format_literal(value))?,
                None => write!(f, "{separator}null")?,
            }
        }
        f.write_str(")")
    }
}
