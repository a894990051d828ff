//! What an sstable holds as text, in the forms of Cassandra's `sstabledump`: [`JsonDump`] for its
//! JSON (`JsonTransformer`), [`internal`] for a row a line (`-d`).
//!
//! All of it works from the file alone: [`table_of_header`] makes the table that the sstable was
//! written for, as far as its serialization header tells. Nothing here does I/O: what a scan gives
//! goes in, text comes out, piece by piece, so that a partition may be of any size.

pub mod internal;
mod json;
mod pretty;
mod table;

pub use json::{JsonDump, JsonForm, TimeForm, key_text};
pub use table::{HeaderError, table_of_header, unclear_user_types};
