//! Calls of functions: begun, left where they are, resumed and broken off.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mlua::thread::ThreadStatus;
use mlua::{MultiValue, Thread, Value};
use model::{UserFunction, argument_list, argument_type};

use crate::from_lua::FromLua;
use crate::sandbox::{Clock, Sandbox};
use crate::to_lua::to_lua;

/// How many functions that nobody calls at the moment are kept ready.
const MAX_IDLE: usize = 16;
/// What one may have of memory to be kept, in bytes: so much is collected after a call, or it goes.
const IDLE_BYTES: usize = 512 << 10;

/// What a call may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How long it may run, all its turns together.
    pub call: Duration,
    /// How long one may run that cannot give way.
    pub unyielding: Duration,
    /// How long the thread is held before a call that can gives way.
    pub turn: Duration,
    /// How many bytes it may have in memory, and its result may have.
    pub memory_bytes: usize,
}

/// What functions in Java may ask for beyond their arguments; those in Lua may not.
#[derive(Clone)]
pub struct World {
    /// Microseconds since 1970.
    pub wall_micros: Rc<dyn Fn() -> i64>,
    /// Any of 64 bits.
    pub random: Rc<dyn Fn() -> u64>,
}

impl World {
    /// One in which nothing ever happens.
    fn still() -> World {
        World {
            wall_micros: Rc::new(|| 0),
            random: Rc::new(|| 0),
        }
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "World({})", (self.wall_micros)())
    }
}

/// Calls functions, on one thread.
#[derive(Clone)]
pub struct Engine(Rc<Inner>);

struct Inner {
    limits: Limits,
    clock: Clock,
    world: World,
    /// Since when the thread is held.
    turn_began: Cell<Duration>,
    idle: RefCell<Vec<Sandbox>>,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Engine({:?})", self.0.limits)
    }
}

/// What a call has come to.
#[derive(Debug)]
pub enum Progress {
    /// It is done; `None` is null.
    Value(Option<Bytes>),
    /// It gave way.
    Suspended(Run),
}

/// A call under way.
pub struct Run {
    engine: Engine,
    sandbox: Sandbox,
    thread: Thread,
    /// Before the first resume.
    arguments: Option<MultiValue>,
    spent: Duration,
    may_give_way: bool,
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Run({}, {:?})", self.sandbox.function.name, self.spent)
    }
}

impl Engine {
    /// With a clock that tells the time since some moment and never goes back.
    pub fn new(limits: Limits, clock: impl Fn() -> Duration + 'static) -> Engine {
        Engine::in_world(limits, clock, World::still())
    }

    /// With a clock as for [`new`](Self::new), and with what functions in Java may ask for.
    pub fn in_world(
        limits: Limits,
        clock: impl Fn() -> Duration + 'static,
        world: World,
    ) -> Engine {
        Engine(Rc::new(Inner {
            limits,
            world,
            clock: Rc::new(clock),
            turn_began: Cell::new(Duration::ZERO),
            idle: RefCell::default(),
        }))
    }

    /// From now on the thread is held.
    pub fn begin_turn(&self) {
        self.0.turn_began.set((self.0.clock)());
    }

    /// Says what is wrong with the body of a function, if it cannot be called.
    pub fn check(&self, function: &UserFunction) -> Result<(), String> {
        let sandbox = self.sandbox(&Arc::new(function.clone()));
        sandbox.map(|_| ()).map_err(|error| message(&error))
    }

    fn sandbox(&self, function: &Arc<UserFunction>) -> mlua::Result<Sandbox> {
        let mut idle = self.0.idle.borrow_mut();
        let known = idle
            .iter()
            .position(|idle| Arc::ptr_eq(&idle.function, function));
        if let Some(at) = known {
            return Ok(idle.remove(at));
        }
        drop(idle);
        let inner = &self.0;
        let bytes = inner.limits.memory_bytes;
        Sandbox::new(function, inner.clock.clone(), &inner.world, bytes)
    }

    /// Calls a function with values of the types of its arguments, `None` for null. One that may give
    /// way does so when the thread was held for a turn, be it before it begins. Errors: what the
    /// function threw, a result that is not of its type, a limit that it met.
    pub fn call(
        &self,
        function: &Arc<UserFunction>,
        arguments: &[Option<Bytes>],
        may_give_way: bool,
    ) -> Result<Progress, String> {
        let run = self.begin(function, arguments, may_give_way);
        run.map_err(|error| message(&error))?.resume()
    }

    fn begin(
        &self,
        function: &Arc<UserFunction>,
        arguments: &[Option<Bytes>],
        may_give_way: bool,
    ) -> mlua::Result<Run> {
        let sandbox = self.sandbox(function)?;
        sandbox.watch.deadline.set(Duration::MAX);
        let lua = &sandbox.lua;
        let each = arguments.iter().zip(&function.argument_types);
        let chunk = Value::Function(sandbox.fresh_chunk()?.clone());
        let arguments = each.map(|(value, ty)| to_lua(lua, ty, value.as_deref()));
        let arguments: mlua::Result<MultiValue> =
            [Ok(chunk)].into_iter().chain(arguments).collect();
        Ok(Run {
            thread: lua.create_thread(sandbox.run.clone())?,
            arguments: Some(arguments?),
            engine: self.clone(),
            sandbox,
            spent: Duration::ZERO,
            may_give_way,
        })
    }

    fn keep(&self, sandbox: Sandbox) {
        if sandbox.lua.used_memory() > IDLE_BYTES {
            let collected = sandbox.lua.gc_collect();
            if collected.is_err() || sandbox.lua.used_memory() > IDLE_BYTES {
                return;
            }
        }
        let mut idle = self.0.idle.borrow_mut();
        if idle.len() >= MAX_IDLE {
            idle.remove(0);
        }
        idle.push(sandbox);
    }
}

impl Run {
    /// How long it has run.
    pub fn spent(&self) -> Duration {
        self.spent
    }

    /// The function that is called.
    pub fn function(&self) -> &Arc<UserFunction> {
        &self.sandbox.function
    }

    /// Begins or goes on. Errors: as [`Engine::call`].
    pub fn resume(mut self) -> Result<Progress, String> {
        let limits = self.engine.0.limits;
        let clock = self.engine.0.clock.clone();
        let began = clock();
        let turn_end = self.engine.0.turn_began.get() + limits.turn;
        if self.may_give_way && began >= turn_end {
            return Ok(Progress::Suspended(self));
        }
        let allowed = match self.may_give_way {
            true => limits.call,
            false => limits.call.min(limits.unyielding),
        };
        let watch = self.sandbox.watch.clone();
        watch
            .deadline
            .set(began + allowed.saturating_sub(self.spent));
        watch.turn_end.set(self.may_give_way.then_some(turn_end));
        let thread = Value::Thread(self.thread.clone());
        watch.coroutine.set(thread.to_pointer());
        loop {
            let arguments = self.arguments.take().unwrap_or_default();
            let result = self.thread.resume::<MultiValue>(arguments);
            let now = clock();
            if watch.is_late() {
                return Err(self.too_long(allowed));
            }
            let values = result.map_err(|error| message(&error))?;
            // A chunk that yields by itself is taken for one that was interrupted, as in Scylla.
            let is_done = self.thread.status() != ThreadStatus::Resumable;
            if is_done {
                return self.finish(&values);
            }
            if self.may_give_way && now >= turn_end {
                self.spent += now.saturating_sub(began);
                return Ok(Progress::Suspended(self));
            }
        }
    }

    fn too_long(&self, allowed: Duration) -> String {
        let function = self.function();
        format!(
            "User defined function {}.{} : ({}) -> {} ran longer than {}ms",
            function.keyspace,
            function.name,
            argument_list(&function.argument_types),
            argument_type(&function.return_type),
            allowed.as_millis()
        )
    }

    /// `values` are whether it was fine, and its results or its error.
    fn finish(self, values: &MultiValue) -> Result<Progress, String> {
        let count = values.len().saturating_sub(1);
        let result = values.get(1).unwrap_or(&Value::Nil);
        if values.front() != Some(&Value::Boolean(true)) {
            return Err(match result {
                Value::String(text) => text.to_string_lossy(),
                _ => "an error that is no text".to_owned(),
            });
        }
        if count != 1 {
            return Err(format!("{count} values returned, expected 1"));
        }
        let ty = &self.sandbox.function.return_type;
        let mut convert = FromLua::new(self.engine.0.limits.memory_bytes);
        let value = convert.convert(ty, result)?;
        let Run {
            engine, sandbox, ..
        } = self;
        engine.keep(sandbox);
        Ok(Progress::Value(value))
    }
}

/// What an error says, without where it came from.
fn message(error: &mlua::Error) -> String {
    let text = match error {
        mlua::Error::CallbackError { cause, .. } => return message(cause),
        mlua::Error::RuntimeError(text) => text.clone(),
        mlua::Error::SyntaxError { message, .. } => message.clone(),
        mlua::Error::MemoryError(_) => "not enough memory".to_owned(),
        other => other.to_string(),
    };
    let end = text.find("\nstack traceback:").unwrap_or(text.len());
    text[..end].to_owned()
}
