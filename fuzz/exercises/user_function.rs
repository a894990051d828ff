//! What the fuzz target does with an input; `cargo test` does the same with the kept corpus.
//!
//! The input is the body of a user-defined function behind a byte that chooses what it returns and is called
//! with, and by its highest bit the language. It is checked, called as often as it gives way, and ends in a value of its type or an error, whatever
//! it does, within its limits.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lua::{Engine, Limits, Progress};
use model::{CqlType, UserFunction};

const LIMITS: Limits = Limits {
    call: Duration::from_millis(200),
    unyielding: Duration::from_millis(50),
    turn: Duration::from_millis(2),
    memory_bytes: 4 << 20,
};
/// What each look at the clock takes: there is one every few hundred instructions.
const LOOK: Duration = Duration::from_micros(100);

/// Types of results, each with that of the arguments `a` and `b`.
const TYPES: [(&str, &str); 8] = [
    ("text", "text"),
    ("int", "int"),
    ("bigint", "varint"),
    ("double", "float"),
    ("list<int>", "set<text>"),
    ("map<text, int>", "map<int, text>"),
    ("tuple<int, text>", "tuple<blob, boolean>"),
    ("varint", "decimal"),
];

/// Any body is refused, or gives a value of its type or an error.
pub(super) fn run(data: &[u8]) {
    let Some((choice, body)) = data.split_first() else {
        return;
    };
    let Ok(body) = std::str::from_utf8(body) else {
        return;
    };
    let language = if choice & 0x80 == 0 { "lua" } else { "java" };
    let (returns, takes) = TYPES[usize::from(*choice) % TYPES.len()];
    let ty = |text: &str| CqlType::from_cql(text, &Default::default()).expect("a type");
    let function = Arc::new(UserFunction {
        keyspace: "k".into(),
        name: "f".into(),
        argument_names: vec!["a".into(), "b".into()],
        argument_types: vec![ty(takes), ty("int")],
        return_type: ty(returns),
        called_on_null_input: true,
        language: language.into(),
        body: body.into(),
    });
    let looks = Cell::new(0u32);
    let engine = Engine::new(LIMITS, move || {
        looks.set(looks.get() + 1);
        LOOK * looks.get()
    });
    if engine.check(&function).is_err() {
        return;
    }
    let seven = Some(Bytes::from_static(&[0, 0, 0, 7]));
    for arguments in [[None, seven.clone()], [None, None]] {
        for may_give_way in [true, false] {
            call(&engine, &function, &arguments, may_give_way);
        }
    }
}

/// Calls it to its end: it may be asked to go on no longer than its time lasts.
fn call(
    engine: &Engine,
    function: &Arc<UserFunction>,
    arguments: &[Option<Bytes>],
    may_give_way: bool,
) {
    engine.begin_turn();
    let mut progress = engine.call(function, arguments, may_give_way);
    for _ in 0..LIMITS.call.as_millis() {
        match progress {
            Ok(Progress::Value(Some(value))) => {
                let valid = function.return_type.validate(&value);
                valid.expect("what comes out is of the type");
                return;
            }
            Ok(Progress::Value(None)) | Err(_) => return,
            Ok(Progress::Suspended(run)) => {
                assert!(may_give_way, "who may not give way does not");
                engine.begin_turn();
                progress = run.resume();
            }
        }
    }
    panic!("it goes on for longer than it may");
}
