//! Metadata of rows and of prepared statements, and rows themselves.

use model::CqlType;

use crate::Version;
use crate::header::{Flags, HEADER_LENGTH};
use crate::notation::BodyWriter;
use crate::type_option::put_type;

/// Flags of metadata.
pub(crate) mod metadata_flag {
    pub(crate) const GLOBAL_TABLE: i32 = 0x0001;
    pub(crate) const MORE_PAGES: i32 = 0x0002;
    pub(crate) const NO_METADATA: i32 = 0x0004;
    pub(crate) const CHANGED: i32 = 0x0008;
}

/// A column of a result, or a bind variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnSpec<'a> {
    /// Its keyspace.
    pub keyspace: &'a str,
    /// Its table.
    pub table: &'a str,
    /// Its name or alias; a variable without a name has that of what it is bound to.
    pub name: &'a str,
    /// Its type.
    pub ty: &'a CqlType,
}

/// The description of columns in its encoded form, so that a prepared statement encodes it once
/// and each of its results copies it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedColumns {
    version: Version,
    count: i32,
    global_table: bool,
    /// `[<global_table_spec>]<col_spec_1>…`
    bytes: Vec<u8>,
}

impl EncodedColumns {
    /// Encodes these columns. If they are all of one table it is named once.
    pub fn new<'a>(
        columns: impl IntoIterator<Item = ColumnSpec<'a>, IntoIter: Clone>,
        version: Version,
    ) -> EncodedColumns {
        let columns = columns.into_iter();
        let mut tables = columns.clone().map(|c| (c.keyspace, c.table));
        let first = tables.next();
        let global = first.filter(|first| tables.all(|table| table == *first));
        let mut bytes = Vec::new();
        if let Some((keyspace, table)) = global {
            bytes.put_string(keyspace);
            bytes.put_string(table);
        }
        let mut count = 0;
        for column in columns {
            if global.is_none() {
                bytes.put_string(column.keyspace);
                bytes.put_string(column.table);
            }
            bytes.put_string(column.name);
            put_type(column.ty, version, &mut bytes);
            count += 1;
        }
        EncodedColumns {
            version,
            count,
            global_table: global.is_some(),
            bytes,
        }
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.count as usize
    }

    /// The version it is encoded for: types differ between versions.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The encoded description: what the id of result metadata is a digest of.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn global_flag(&self) -> i32 {
        if self.global_table {
            metadata_flag::GLOBAL_TABLE
        } else {
            0
        }
    }
}

/// What precedes rows.
#[derive(Clone, Copy, Debug)]
pub struct RowsHead<'a> {
    /// The columns.
    pub columns: &'a EncodedColumns,
    /// The client knows the columns: leave them out.
    pub skip_metadata: bool,
    /// The columns are not those the client knows (version 5): here is their id. The columns are
    /// then never left out.
    pub new_metadata_id: Option<&'a [u8]>,
}

/// The answer to PREPARE.
#[derive(Clone, Copy, Debug)]
pub struct Prepared<'a> {
    /// The id of the statement.
    pub id: &'a [u8],
    /// The id of its result metadata (sent in version 5).
    pub result_metadata_id: &'a [u8],
    /// The bind variables.
    pub variables: &'a EncodedColumns,
    /// For each column of the partition key the index of its variable; empty if one has none.
    /// Sent in version 4 and later.
    pub partition_key_indexes: &'a [u16],
    /// More flags for the metadata of the variables, as negotiated by protocol extensions.
    pub extension_flags: i32,
    /// The columns of the result; `None` for statements without rows.
    pub result_columns: Option<&'a EncodedColumns>,
}

/// Appends the body of a Prepared result, behind its kind.
pub(crate) fn put_prepared(prepared: &Prepared<'_>, version: Version, out: &mut Vec<u8>) {
    out.put_short_bytes(prepared.id);
    if version >= Version::V5 {
        out.put_short_bytes(prepared.result_metadata_id);
    }
    let variables = prepared.variables;
    out.put_int(variables.global_flag() | prepared.extension_flags);
    out.put_int(variables.count);
    if version >= Version::V4 {
        out.put_int(prepared.partition_key_indexes.len() as i32);
        for index in prepared.partition_key_indexes {
            out.put_short(*index);
        }
    }
    out.extend_from_slice(&variables.bytes);
    match prepared.result_columns {
        Some(columns) => {
            out.put_int(columns.global_flag());
            out.put_int(columns.count);
            out.extend_from_slice(&columns.bytes);
        }
        None => {
            out.put_int(metadata_flag::NO_METADATA);
            out.put_int(0);
        }
    }
}

/// Writes a Rows result row by row. How many rows there are and where the next page begins stand
/// before the rows, but are known only behind them: [`RowsWriter::finish`] fills them in. Dropped
/// without that, it leaves no trace.
#[derive(Debug)]
#[must_use = "the rows are sent only once finished"]
pub struct RowsWriter<'a> {
    out: &'a mut Vec<u8>,
    /// Where the envelope begins.
    envelope: usize,
    /// Where the flags of the metadata stand.
    flags_at: usize,
    flags: i32,
    /// Where the number of rows stands.
    count_at: usize,
    columns: usize,
    values: usize,
    /// What stands before the message, but may be known only behind the rows.
    warnings: Vec<String>,
    version: Version,
    finished: bool,
}

impl<'a> RowsWriter<'a> {
    /// Begins behind the kind of the result; `envelope` is where its header begins.
    pub(crate) fn start(
        out: &'a mut Vec<u8>,
        envelope: usize,
        head: &RowsHead<'_>,
        version: Version,
    ) -> RowsWriter<'a> {
        debug_assert_eq!(head.columns.version, version, "encoded for this connection");
        let new_id = head.new_metadata_id.filter(|_| version >= Version::V5);
        let mut flags = 0;
        if new_id.is_some() {
            flags |= metadata_flag::CHANGED;
        }
        let leave_out = head.skip_metadata && new_id.is_none();
        flags |= if leave_out {
            metadata_flag::NO_METADATA
        } else {
            head.columns.global_flag()
        };
        let flags_at = out.len();
        out.put_int(flags);
        out.put_int(head.columns.count);
        if let Some(id) = new_id {
            out.put_short_bytes(id);
        }
        if !leave_out {
            out.extend_from_slice(&head.columns.bytes);
        }
        let count_at = out.len();
        out.put_int(0);
        RowsWriter {
            out,
            envelope,
            flags_at,
            flags,
            count_at,
            columns: head.columns.count(),
            values: 0,
            warnings: Vec::new(),
            version,
            finished: false,
        }
    }

    /// Appends the next value of the row; a row begins with the first value after the last of the
    /// row before.
    #[inline]
    pub fn value(&mut self, value: Option<&[u8]>) {
        self.out.put_bytes(value);
        self.values += 1;
    }

    /// Warns the client, as far as its version of the protocol knows warnings.
    pub fn warn(&mut self, warnings: impl IntoIterator<Item = String>) {
        self.warnings.extend(warnings);
    }

    /// Makes room for values of about so many bytes in all.
    pub fn reserve(&mut self, bytes: usize) {
        self.out.reserve(bytes);
    }

    /// Bytes of the envelope so far.
    pub fn len(&self) -> usize {
        self.out.len() - self.envelope
    }

    /// Is nothing written? Never: the metadata is.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Ends the result. With a paging state the client knows that there is more.
    ///
    /// # Panics
    /// If the last row is not complete.
    pub fn finish(mut self, paging_state: Option<&[u8]>) {
        let rows = self.values.checked_div(self.columns).unwrap_or(0);
        assert_eq!(rows * self.columns, self.values, "rows have all columns");
        self.close(rows, paging_state);
    }

    /// Ends a result that has no columns but this many rows.
    pub fn finish_without_columns(mut self, rows: usize) {
        assert_eq!(self.columns, 0, "rows without values have no columns");
        self.close(rows, None);
    }

    fn close(&mut self, rows: usize, paging_state: Option<&[u8]>) {
        let rows = i32::try_from(rows).expect("a page has at most 2^31 rows");
        self.out[self.count_at..self.count_at + 4].copy_from_slice(&rows.to_be_bytes());
        if let Some(state) = paging_state {
            self.flags |= metadata_flag::MORE_PAGES;
            self.out[self.flags_at..self.flags_at + 4].copy_from_slice(&self.flags.to_be_bytes());
            let at = self.flags_at + 8;
            let length = i32::try_from(state.len()).expect("a paging state is short");
            let field = length
                .to_be_bytes()
                .into_iter()
                .chain(state.iter().copied());
            self.out.splice(at..at, field);
        }
        self.put_warnings();
        close_envelope(self.out, self.envelope);
        self.finished = true;
    }
}

impl RowsWriter<'_> {
    /// Where the tracing id ends the list of warnings begins.
    fn put_warnings(&mut self) {
        if self.warnings.is_empty() || self.version < Version::V4 {
            return;
        }
        let flags = Flags(self.out[self.envelope + 1]);
        let tracing_id = if flags.contains(Flags::TRACING) {
            16
        } else {
            0
        };
        let at = self.envelope + HEADER_LENGTH + tracing_id;
        let mut list = Vec::new();
        list.put_string_list(&self.warnings);
        self.out.splice(at..at, list);
        self.out[self.envelope + 1] = flags.with(Flags::WARNING).0;
    }
}

impl Drop for RowsWriter<'_> {
    fn drop(&mut self) {
        if !self.finished {
            self.out.truncate(self.envelope);
        }
    }
}

/// Writes the length of the body into the header at `envelope`.
pub(crate) fn close_envelope(out: &mut [u8], envelope: usize) {
    let length = out.len() - envelope - HEADER_LENGTH;
    let length = u32::try_from(length).expect("a response has at most 4 GiB");
    out[envelope + 5..envelope + HEADER_LENGTH].copy_from_slice(&length.to_be_bytes());
}
