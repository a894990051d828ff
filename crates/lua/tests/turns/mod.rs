//! Calls of functions that may take long, turn by turn.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lua::{Engine, Limits, Progress};
use model::{CqlType, UserFunction};

pub(crate) const LIMITS: Limits = Limits {
    call: Duration::from_millis(300),
    unyielding: Duration::from_millis(50),
    turn: Duration::from_millis(2),
    memory_bytes: 8 << 20,
};

/// A function without arguments.
pub(crate) fn function(language: &str, body: &str, returns: CqlType) -> Arc<UserFunction> {
    Arc::new(UserFunction {
        keyspace: "k".into(),
        name: "f".into(),
        argument_names: Vec::new(),
        argument_types: Vec::new(),
        return_type: returns,
        called_on_null_input: true,
        language: language.into(),
        body: body.into(),
    })
}

pub(crate) fn engine() -> Engine {
    let began = Instant::now();
    Engine::new(LIMITS, move || began.elapsed())
}

/// Runs to the end, turn by turn; what came of it as text.
pub(crate) fn run(engine: &Engine, function: &Arc<UserFunction>) -> Result<String, String> {
    engine.begin_turn();
    let mut progress = engine.call(function, &[], true)?;
    loop {
        match progress {
            Progress::Value(value) => {
                let ty = &function.return_type;
                return Ok(value.map_or("null".to_owned(), |value| ty.format_string(&value)));
            }
            Progress::Suspended(run) => {
                engine.begin_turn();
                progress = run.resume()?;
            }
        }
    }
}
