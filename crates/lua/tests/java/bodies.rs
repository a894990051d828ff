//! Calls of functions in Java.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lua::{Engine, Limits, Progress, World};
use model::{CqlType, UserFunction};

fn engine() -> Engine {
    let limits = Limits {
        call: Duration::from_secs(5),
        unyielding: Duration::from_secs(5),
        turn: Duration::from_secs(5),
        memory_bytes: 8 << 20,
    };
    let world = World {
        wall_micros: Rc::new(|| 1_700_000_000_123_456),
        random: Rc::new(|| 0xFEDC_BA98_7654_3210),
    };
    Engine::in_world(limits, || Duration::ZERO, world)
}

fn function(body: &str, takes: &[CqlType], gives: &CqlType) -> UserFunction {
    let names = ["a", "b", "end"];
    UserFunction {
        keyspace: "k".into(),
        name: "f".into(),
        argument_names: names
            .iter()
            .take(takes.len())
            .map(|n| (*n).into())
            .collect(),
        argument_types: takes.to_vec(),
        return_type: gives.clone(),
        called_on_null_input: true,
        language: "java".into(),
        body: body.into(),
    }
}

pub(crate) fn call_bytes(
    body: &str,
    takes: &[CqlType],
    values: &[Option<Bytes>],
    gives: &CqlType,
) -> Result<Option<Bytes>, String> {
    call_function(function(body, takes, gives), values)
}

fn call_function(
    function: UserFunction,
    values: &[Option<Bytes>],
) -> Result<Option<Bytes>, String> {
    let function = Arc::new(function);
    engine().check(&function)?;
    match engine().call(&function, values, false)? {
        Progress::Value(value) => Ok(value),
        Progress::Suspended(run) => panic!("{run:?} cannot give way"),
    }
}

/// The result as text, of arguments as text.
pub(crate) fn call(body: &str, arguments: &[(&str, CqlType)], gives: CqlType) -> String {
    call_as(true, body, arguments, gives)
}

/// As [`call`], of a function that null is passed on to, or of one that returns null on null.
pub(crate) fn call_as(
    called_on_null_input: bool,
    body: &str,
    arguments: &[(&str, CqlType)],
    gives: CqlType,
) -> String {
    let value = |(text, ty): &(&str, CqlType)| match *text {
        "null" => (None, ty.clone()),
        text => (Some(ty.parse_string(text).expect("a value")), ty.clone()),
    };
    let arguments: Vec<(Option<Bytes>, CqlType)> = arguments.iter().map(value).collect();
    call_with(called_on_null_input, body, &arguments, &gives)
}

/// As [`call_as`], of arguments as bytes.
pub(crate) fn call_with(
    called_on_null_input: bool,
    body: &str,
    arguments: &[(Option<Bytes>, CqlType)],
    gives: &CqlType,
) -> String {
    let values: Vec<Option<Bytes>> = arguments.iter().map(|(value, _)| value.clone()).collect();
    let takes: Vec<CqlType> = arguments.iter().map(|(_, ty)| ty.clone()).collect();
    let function = UserFunction {
        called_on_null_input,
        ..function(body, &takes, gives)
    };
    match call_function(function, &values) {
        Ok(Some(value)) => gives.format_string(&value),
        Ok(None) => "null".to_owned(),
        Err(error) => format!("! {error}"),
    }
}
