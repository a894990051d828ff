//! Time of the steps of a request for one row, each by itself: `cargo bench -p node`. What it takes to find the row is
//! `shown` in `cargo bench -p storage`. The whole way is counted by `make bench-check`.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use cql::{Context, Plan, Prepared};
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use model::{
    Column, ColumnId, ColumnKind, CqlType, Keyspace, Order, Schema, Table, TableId, TableOptions,
    Value,
};
use wire::client::put_request;
use wire::{
    ColumnSpec, EncodedColumns, Envelope, Execute, Flags, QueryParameters, Request, RowsHead,
    ServerConnection, Startup, Version,
};

const VERSION: Version = Version::V4;
const ID: [u8; 16] = [7; 16];
/// How many fields of a hundred bytes a row has.
const FIELDS: [usize; 2] = [1, 10];

/// A schema with a table of text columns: the key, and so many fields.
fn schema(fields: usize) -> Schema {
    let column = |id: usize, kind| Column {
        id: ColumnId(id as u32),
        name: format!("c{id}").into(),
        ty: CqlType::Text,
        kind,
        position: 0,
        order: Order::Ascending,
    };
    let mut columns = vec![column(0, ColumnKind::PartitionKey)];
    columns.extend((1..=fields).map(|id| column(id, ColumnKind::Regular)));
    let options = TableOptions::default();
    let table = Arc::new(Table::new(
        TableId::from_u128(1),
        "b",
        "t",
        columns,
        options,
    ));
    let mut keyspace = Keyspace {
        name: "b".into(),
        replication: BTreeMap::new(),
        durable_writes: true,
        tables: BTreeMap::new(),
        types: BTreeMap::new(),
        functions: Default::default(),
        is_virtual: false,
        unserved: Default::default(),
    };
    keyspace.tables.insert(table.name.clone(), table);
    let mut schema = Schema::default();
    schema.keyspaces.insert("b".into(), Arc::new(keyspace));
    schema
}

fn prepared(fields: usize) -> Prepared {
    let schema = schema(fields);
    let context = Context {
        schema: &schema,
        keyspace: None,
    };
    let text = "SELECT * FROM b.t WHERE c0 = ?";
    cql::prepare(text, &context).expect("a statement of this table")
}

/// The bytes of an EXECUTE for one row.
fn request() -> Vec<u8> {
    let parameters = QueryParameters {
        values: smallvec::smallvec![Value::Bytes(b"user00001234")],
        skip_metadata: true,
        page_size: Some(5000),
        ..QueryParameters::default()
    };
    let execute = Execute {
        id: &ID,
        result_metadata_id: None,
        parameters,
    };
    let mut bytes = Vec::new();
    put_request(
        &mut bytes,
        VERSION,
        1,
        Flags::default(),
        &Request::Execute(execute),
    );
    bytes
}

/// A connection that takes requests.
fn connection() -> ServerConnection {
    let mut connection = ServerConnection::default();
    let startup = Startup {
        options: vec![("CQL_VERSION", "3.0.0")],
    };
    let mut bytes = Vec::new();
    put_request(
        &mut bytes,
        VERSION,
        0,
        Flags::default(),
        &Request::Startup(startup.clone()),
    );
    let envelope = receive(&mut connection, &bytes);
    let agreed = connection.start_up(&envelope.header, &startup, None);
    agreed.expect("it may start");
    connection.output().clear();
    connection
}

fn receive(connection: &mut ServerConnection, bytes: &[u8]) -> Envelope {
    let mut input = BytesMut::from(bytes);
    let received = connection.receive(&mut input).expect("it is sound");
    received.expect("it is whole")
}

fn steps(criterion: &mut Criterion) {
    let (mut connection, bytes) = (connection(), request());
    let mut group = criterion.benchmark_group("request");
    group.bench_function("cut off the stream", |bencher| {
        let many = bytes.repeat(64);
        bencher.iter_batched_ref(
            || BytesMut::from(&many[..]),
            |input| black_box(connection.receive(input).is_ok()),
            BatchSize::NumIterations(64),
        );
    });
    let envelope = receive(&mut connection, &bytes);
    group.bench_function("decode", |bencher| {
        bencher.iter(|| black_box(Execute::decode(&envelope)).is_ok());
    });
    let prepared = prepared(1);
    let Plan::Select(select) = &prepared.plan else {
        panic!("it selects");
    };
    let point = select.point().expect("it is of one row");
    let execute = Execute::decode(&envelope).expect("it is sound");
    group.bench_function("values to key and token", |bencher| {
        let share = |bytes: &[u8]| envelope.body.slice_ref(bytes);
        bencher.iter(|| black_box(point.place(&execute.parameters.values, share)));
    });
    group.finish();
    for fields in FIELDS {
        encode(criterion, &mut connection, &envelope, fields);
    }
}

/// Writing the answer: from a row as it lies in memory to the connection's output.
fn encode(
    criterion: &mut Criterion,
    connection: &mut ServerConnection,
    envelope: &Envelope,
    fields: usize,
) {
    let prepared = prepared(fields);
    let Plan::Select(select) = &prepared.plan else {
        panic!("it selects");
    };
    let specs = select.columns().iter().map(|column| ColumnSpec {
        keyspace: &column.keyspace,
        table: &column.table,
        name: &column.name,
        ty: &column.ty,
    });
    let columns = EncodedColumns::new(specs, VERSION);
    let head = RowsHead {
        columns: &columns,
        skip_metadata: true,
        new_metadata_id: None,
    };
    let value = Bytes::from(vec![b'v'; 100]);
    let name = format!("answer/{fields} x 100 bytes");
    criterion.bench_function(&name, |bencher| {
        bencher.iter(|| {
            connection.output().clear();
            let mut rows = connection.respond(&envelope.header).rows(&head);
            let values = (1..=fields).map(|id| (ColumnId(id as u32), &value[..]));
            select.show(b"user00001234", std::iter::empty(), values, &mut |cells| {
                cells.iter().for_each(|cell| rows.value(*cell));
            });
            rows.finish(None);
            black_box(connection.pending())
        });
    });
}

criterion_group!(benches, steps);
criterion_main!(benches);
