//! User-defined functions on a shard: what [`cql`] asks of a language, answered by [`lua`].
//!
//! Functions are compiled where and when they are called first; nothing of them is shared between
//! shards, and what is kept ready goes with the shard.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cql::CqlError;
use cql::functions::{FunctionContext, FunctionLanguage, Outcome, SuspendedCall};
use io::Env;
use lua::{Engine, Limits, Progress, Run, World};
use model::UserFunction;

use crate::error::RequestError;
use crate::execute::Call;
use crate::shard::Shard;

/// For how long a function may hold its shard at once: others wait so long.
const TURN: Duration = Duration::from_millis(1);
/// How long one may run where it cannot give way: in the conditions of lightweight transactions, which
/// are decided in one go.
const UNYIELDING: Duration = Duration::from_millis(50);
/// What a call may have in memory, in bytes.
const MEMORY: usize = 8 << 20;

/// Functions in Lua, and in Java, which is made Lua.
#[derive(Debug)]
struct Lua(Engine);

/// The languages that functions may be written in; a call may run for `fail_timeout`.
pub(crate) fn language(env: &Env, fail_timeout: Duration) -> Rc<dyn FunctionLanguage> {
    let limits = Limits {
        call: fail_timeout,
        unyielding: UNYIELDING,
        turn: TURN,
        memory_bytes: MEMORY,
    };
    let (wall, random) = (env.clone(), env.clone());
    let world = World {
        wall_micros: Rc::new(move || wall.wall_micros()),
        random: Rc::new(move || random.random_u64()),
    };
    let (env, began) = (env.clone(), env.now());
    let clock = move || env.now().saturating_duration_since(began);
    Rc::new(Lua(Engine::in_world(limits, clock, world)))
}

fn outcome(progress: Progress) -> Outcome {
    match progress {
        Progress::Value(value) => Outcome::Value(value),
        Progress::Suspended(run) => Outcome::GaveWay(Box::new(Suspended(run))),
    }
}

impl FunctionLanguage for Lua {
    fn names(&self) -> &[(&str, &str)] {
        &lua::LANGUAGES
    }

    fn check(&self, function: &UserFunction) -> Result<(), String> {
        self.0.check(function)
    }

    fn begin_turn(&self) {
        self.0.begin_turn();
    }

    fn call(
        &self,
        function: &Arc<UserFunction>,
        arguments: &[Option<Bytes>],
        may_give_way: bool,
    ) -> Result<Outcome, String> {
        let progress = self.0.call(function, arguments, may_give_way);
        progress.map(outcome)
    }
}

#[derive(Debug)]
struct Suspended(Run);

impl SuspendedCall for Suspended {
    fn resume(self: Box<Self>) -> Result<Outcome, String> {
        self.0.resume().map(outcome)
    }
}

impl Call<'_> {
    /// Evaluates something that calls functions of users, as often as these give way; others have
    /// their turn in between.
    pub(crate) async fn evaluate<T>(
        &self,
        request: &cql::Request<'_>,
        mut step: impl FnMut() -> Result<T, CqlError>,
    ) -> Result<T, RequestError> {
        let functions = &request.functions;
        functions.may_give_way(true);
        let result = loop {
            match step() {
                Ok(value) => break Ok(value),
                Err(error) => {
                    if let Err(error) = give_way(self.shard, functions, error).await {
                        break Err(error);
                    }
                }
            }
        };
        functions.next_step();
        functions.may_give_way(false);
        result
    }
}

/// Lets others go first if a function gave way; what was evaluated is then evaluated again. Errors: any
/// other one.
pub(crate) async fn give_way(
    shard: &Shard,
    functions: &FunctionContext,
    error: CqlError,
) -> Result<(), RequestError> {
    if error != CqlError::GaveWay {
        return Err(error.into());
    }
    shard.env.yield_now().await;
    functions.again();
    Ok(())
}
