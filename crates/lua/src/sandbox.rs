//! A Lua in which one function is called: what it can reach, and the limits of a call.

use std::cell::Cell;
use std::ffi::c_void;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use mlua::chunk::ChunkMode;
use mlua::debug::HookTriggers;
use mlua::{Function, Lua, LuaOptions, MultiValue, StdLib, Table, Value, VmState};
use model::UserFunction;

use crate::engine::World;
use crate::java;
use crate::pattern::{self, Capture, Match};

/// How many instructions run between two looks at the clock.
const INSTRUCTIONS: u32 = 250;
/// How many steps the match of a pattern may take: a few milliseconds.
const PATTERN_STEPS: u64 = 1_000_000;
/// How often a call may be told to yield before it gets an error: it is where it cannot. Nothing that
/// functions reach calls them so.
const MAX_IGNORED: u32 = 1_000;
/// What makes environments.
const PRELUDE: &str = include_str!("prelude.lua");

/// Time since some moment; never goes back.
pub(crate) type Clock = Rc<dyn Fn() -> Duration>;

/// The time of the call that is under way.
pub(crate) struct Watch {
    clock: Clock,
    /// When it is broken off.
    pub(crate) deadline: Cell<Duration>,
    /// When it gives way, if it may.
    pub(crate) turn_end: Cell<Option<Duration>>,
    /// The coroutine that gives way; those that it makes itself do not.
    pub(crate) coroutine: Cell<*const c_void>,
    /// How often it was told to yield after its deadline.
    ignored: Cell<u32>,
}

impl Watch {
    pub(crate) fn is_late(&self) -> bool {
        (self.clock)() >= self.deadline.get()
    }

    fn hook(&self, lua: &Lua) -> mlua::Result<VmState> {
        let now = (self.clock)();
        if now >= self.deadline.get() {
            // The call is left here, for good; in a coroutine of its own, `check` ends what resumed it.
            // Errors are not for hooks: what they close would run without them.
            let ignored = self.ignored.replace(self.ignored.get() + 1);
            return match ignored > MAX_IGNORED {
                true => Err(late()),
                false => Ok(VmState::Yield),
            };
        }
        let is_over = self.turn_end.get().is_some_and(|end| now >= end);
        if is_over && Value::Thread(lua.current_thread()).to_pointer() == self.coroutine.get() {
            return Ok(VmState::Yield);
        }
        Ok(VmState::Continue)
    }
}

/// What nobody sees: who asked why the call ended looks at the clock.
pub(crate) fn late() -> mlua::Error {
    mlua::Error::runtime("the call took too long")
}

/// A function, ready to be called.
pub(crate) struct Sandbox {
    pub(crate) lua: Lua,
    pub(crate) function: Arc<UserFunction>,
    pub(crate) watch: Rc<Watch>,
    chunk: Function,
    new_environment: Function,
    /// What a function in Java finds in its environment besides.
    native: Option<Table>,
    /// Calls the chunk, and gives whether it was fine, and its results or its error as text.
    pub(crate) run: Function,
}

/// The text of the chunk. The arguments become its local variables. Errors: the body is no Java.
fn source(function: &UserFunction) -> Result<String, String> {
    if &*function.language == "java" {
        return java::to_lua(function);
    }
    Ok(match function.argument_names.is_empty() {
        true => function.body.to_string(),
        false => format!(
            "local {} = ...; {}",
            function.argument_names.join(","),
            function.body
        ),
    })
}

impl Sandbox {
    /// Errors: the body is no Lua, or there is too little memory.
    pub(crate) fn new(
        function: &Arc<UserFunction>,
        clock: Clock,
        world: &World,
        memory_bytes: usize,
    ) -> mlua::Result<Sandbox> {
        let libraries = StdLib::STRING | StdLib::TABLE | StdLib::COROUTINE;
        let libraries = libraries | StdLib::MATH | StdLib::UTF8;
        // With the `pcall` of Lua: the other one of `mlua` goes on with panics, and there are none.
        let options = LuaOptions::new().catch_rust_panics(true);
        let lua = Lua::new_with(libraries, options)?;
        lua.set_memory_limit(memory_bytes)?;
        let watch = Rc::new(Watch {
            clock,
            deadline: Cell::new(Duration::MAX),
            turn_end: Cell::new(None),
            coroutine: Cell::new(std::ptr::null()),
            ignored: Cell::new(0),
        });
        let checked = watch.clone();
        let check = lua.create_function(move |_, ()| match checked.is_late() {
            true => Err(late()),
            false => Ok(()),
        })?;
        let scan = lua.create_function(scan)?;
        let metamethod = lua.create_function(|_, (value, name): (Value, mlua::LuaString)| {
            let metatable = match &value {
                Value::Table(table) => table.metatable(),
                _ => None,
            };
            metatable.map_or(Ok(Value::Nil), |table| table.raw_get(name))
        })?;
        let prelude = lua.load(PRELUDE).set_name("=prelude");
        let (run, new_environment) = prelude.call((check, scan, metamethod))?;
        let chunk = lua
            .load(source(function).map_err(mlua::Error::runtime)?)
            .set_mode(ChunkMode::Text)
            .set_name(format!("={}", function.name))
            .into_function()?;
        let native = match &*function.language {
            "java" => Some(java::native::table(&lua, world, &watch)?),
            _ => None,
        };
        let hook = watch.clone();
        let triggers = HookTriggers::new().every_nth_instruction(INSTRUCTIONS);
        lua.set_global_hook(triggers, move |lua, _| hook.hook(lua))?;
        Ok(Sandbox {
            lua,
            function: function.clone(),
            watch,
            chunk,
            new_environment,
            native,
            run,
        })
    }

    /// The chunk with an environment that nobody has used.
    pub(crate) fn fresh_chunk(&self) -> mlua::Result<&Function> {
        let environment: Table = self.new_environment.call(())?;
        if let Some(native) = &self.native {
            environment.raw_set("native", native)?;
        }
        self.chunk.set_environment(environment)?;
        Ok(&self.chunk)
    }
}

/// `scan(subject, pattern, init, kind)`. What it gives depends on the kind: places and captures
/// (`find`, also `plain`), captures or the whole match (`match`), or places and those (`step`).
fn scan(
    lua: &Lua,
    (subject, pattern, init, kind): (mlua::LuaString, mlua::LuaString, i64, mlua::LuaString),
) -> mlua::Result<MultiValue> {
    let (subject, pattern) = (subject.as_bytes(), pattern.as_bytes());
    let kind = kind.as_bytes();
    let init = usize::try_from(init - 1).unwrap_or(0);
    if init > subject.len() {
        return Ok(MultiValue::from_iter([Value::Nil]));
    }
    let found = match &kind[..] {
        b"plain" => find(&subject, &pattern, init),
        _ => {
            pattern::scan(&subject, &pattern, init, PATTERN_STEPS).map_err(mlua::Error::runtime)?
        }
    };
    let Some(found) = found else {
        return Ok(MultiValue::from_iter([Value::Nil]));
    };
    let mut results = Vec::new();
    if &kind[..] != b"match" {
        results.push(Value::Integer(found.start as i64 + 1));
        results.push(Value::Integer(found.end as i64));
    }
    let part = |from: usize, to: usize| -> mlua::Result<Value> {
        let part = subject.get(from..to).unwrap_or_default();
        Ok(Value::String(lua.create_string(part)?))
    };
    let whole = matches!(&kind[..], b"match" | b"step");
    if found.captures.is_empty() && whole {
        results.push(part(found.start, found.end)?);
    }
    for capture in found.captures {
        results.push(match capture {
            Capture::Part(from, to) => part(from, to)?,
            Capture::Open(at) | Capture::Position(at) => Value::Integer(at as i64 + 1),
        });
    }
    Ok(MultiValue::from_iter(results))
}

/// Where a text is in another, from a place on.
fn find(subject: &[u8], text: &[u8], init: usize) -> Option<Match> {
    let rest = subject.get(init..)?;
    let at = match text.len() {
        0 => Some(0),
        length => rest.windows(length).position(|window| window == text),
    }?;
    let start = init + at;
    Some(Match {
        start,
        end: start + text.len(),
        captures: Vec::new(),
    })
}
