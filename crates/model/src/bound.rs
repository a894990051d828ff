//! Bound values: what a request brings for the bind markers of its statement.

/// A bound value. Sessions read it off a request, statements take it: neither copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'v> {
    /// Null.
    Null,
    /// Not set: what it would have been written to stays as it is (protocol version 4 and later).
    Unset,
    /// A value in the serialization of the native protocol.
    Bytes(&'v [u8]),
}
