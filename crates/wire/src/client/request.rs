//! Writing requests.

use model::Value;

use crate::header::HEADER_LENGTH;
use crate::notation::BodyWriter;
use crate::request::{
    Batch, BatchKind, BatchTarget, Execute, PREPARE_WITH_KEYSPACE, Prepare, QueryParameters,
    Request, query_flag,
};
use crate::rows::close_envelope;
use crate::{Flags, Header, Opcode, Version};

/// Appends a request as an envelope. What `version` does not have (the keyspace of PREPARE, the
/// id of result metadata) is left out.
pub fn put_request(
    out: &mut Vec<u8>,
    version: Version,
    stream: i16,
    flags: Flags,
    request: &Request<'_>,
) {
    let start = out.len();
    let header = Header {
        version,
        flags,
        stream,
        opcode: opcode(request),
    };
    out.extend_from_slice(&header.encode(0));
    debug_assert_eq!(out.len(), start + HEADER_LENGTH);
    match request {
        Request::Startup(startup) => {
            out.put_short(startup.options.len() as u16);
            for (key, value) in &startup.options {
                out.put_string(key);
                out.put_string(value);
            }
        }
        Request::Options => {}
        Request::Query(query) => {
            out.put_long_string(query.text);
            put_parameters(&query.parameters, version, out);
        }
        Request::Prepare(prepare) => put_prepare(prepare, version, out),
        Request::Execute(execute) => put_execute(execute, version, out),
        Request::Batch(batch) => put_batch(batch, version, out),
        Request::Register(kinds) => {
            let names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
            out.put_string_list(&names);
        }
        Request::AuthResponse(token) => out.put_bytes(*token),
    }
    close_envelope(out, start);
}

fn opcode(request: &Request<'_>) -> Opcode {
    match request {
        Request::Startup(_) => Opcode::Startup,
        Request::Options => Opcode::Options,
        Request::Query(_) => Opcode::Query,
        Request::Prepare(_) => Opcode::Prepare,
        Request::Execute(_) => Opcode::Execute,
        Request::Batch(_) => Opcode::Batch,
        Request::Register(_) => Opcode::Register,
        Request::AuthResponse(_) => Opcode::AuthResponse,
    }
}

fn put_prepare(prepare: &Prepare<'_>, version: Version, out: &mut Vec<u8>) {
    out.put_long_string(prepare.text);
    if version >= Version::V5 {
        match prepare.keyspace {
            Some(keyspace) => {
                out.put_int(PREPARE_WITH_KEYSPACE as i32);
                out.put_string(keyspace);
            }
            None => out.put_int(0),
        }
    }
}

fn put_execute(execute: &Execute<'_>, version: Version, out: &mut Vec<u8>) {
    out.put_short_bytes(execute.id);
    if version >= Version::V5 {
        out.put_short_bytes(execute.result_metadata_id.unwrap_or_default());
    }
    put_parameters(&execute.parameters, version, out);
}

fn put_batch(batch: &Batch<'_>, version: Version, out: &mut Vec<u8>) {
    out.put_byte(match batch.kind {
        BatchKind::Logged => 0,
        BatchKind::Unlogged => 1,
        BatchKind::Counter => 2,
    });
    out.put_short(batch.statements.len() as u16);
    for statement in &batch.statements {
        match statement.target {
            BatchTarget::Text(text) => {
                out.put_byte(0);
                out.put_long_string(text);
            }
            BatchTarget::Prepared(id) => {
                out.put_byte(1);
                out.put_short_bytes(id);
            }
        }
        put_values(&statement.values, out);
    }
    put_parameters(&batch.parameters, version, out);
}

fn put_values(values: &[Value<'_>], out: &mut Vec<u8>) {
    out.put_short(values.len() as u16);
    for value in values {
        out.put_value(*value);
    }
}

fn put_parameters(parameters: &QueryParameters<'_>, version: Version, out: &mut Vec<u8>) {
    let named = !parameters.names.is_empty();
    let flag = |set: bool, flag: u32| if set { flag } else { 0 };
    let flags = flag(!parameters.values.is_empty(), query_flag::VALUES)
        | flag(named, query_flag::NAMES)
        | flag(parameters.skip_metadata, query_flag::SKIP_METADATA)
        | flag(parameters.page_size.is_some(), query_flag::PAGE_SIZE)
        | flag(parameters.paging_state.is_some(), query_flag::PAGING_STATE)
        | flag(
            parameters.serial_consistency.is_some(),
            query_flag::SERIAL_CONSISTENCY,
        )
        | flag(parameters.timestamp.is_some(), query_flag::TIMESTAMP)
        | flag(parameters.keyspace.is_some(), query_flag::KEYSPACE)
        | flag(
            parameters.now_in_seconds.is_some() && version >= Version::V5,
            query_flag::NOW_IN_SECONDS,
        );
    out.put_consistency(parameters.consistency);
    if version >= Version::V5 {
        out.put_int(flags as i32);
    } else {
        out.put_byte(flags as u8);
    }
    if named {
        out.put_short(parameters.values.len() as u16);
        for (name, value) in parameters.names.iter().zip(&parameters.values) {
            out.put_string(name);
            out.put_value(*value);
        }
    } else if !parameters.values.is_empty() {
        put_values(&parameters.values, out);
    }
    if let Some(rows) = parameters.page_size {
        out.put_int(rows);
    }
    if parameters.paging_state.is_some() {
        out.put_bytes(parameters.paging_state);
    }
    if let Some(consistency) = parameters.serial_consistency {
        out.put_consistency(consistency);
    }
    if let Some(timestamp) = parameters.timestamp {
        out.put_long(timestamp);
    }
    if let Some(keyspace) = parameters.keyspace {
        out.put_string(keyspace);
    }
    if let (Some(now), true) = (parameters.now_in_seconds, version >= Version::V5) {
        out.put_int(now as i32);
    }
}
