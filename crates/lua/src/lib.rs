//! User-defined functions in Lua 5.4, and in Java as far as that can be made Lua ([`java`]): values there and back, and
//! a sandbox with limits.
//!
//! The ways are Scylla's, so that its functions run here: the body of a function is a chunk in which
//! the arguments are local variables, and what it returns is the result. How CQL types and Lua's meet
//! is in [`to_lua`] and [`from_lua`].
//!
//! **Nothing is kept.** A call gets an environment of its own ([`sandbox`]); what it leaves in it, or
//! in the tables of the libraries, the next one does not see. There is no file, no clock, no chance
//! and no byte code in it; functions in Java are told the time and random numbers, as Cassandra tells
//! them, by the [`World`] that the engine was given.
//!
//! **Nothing runs for ever.** A call is a coroutine, and each few instructions a hook looks at the
//! clock that the engine was given. A call that [may give way](Engine::call) is left where it is when
//! its turn is over, and resumed later; one that takes longer than it may is broken off. What Lua's
//! libraries do in C, where no hook is called, is either bounded by the memory that a call may have or
//! done otherwise here: patterns are matched in so many steps ([`pattern`]), and tables are sorted
//! and moved by Lua.

mod decimal;
mod engine;
mod from_lua;
mod java;
mod pattern;
mod sandbox;
mod to_lua;

pub use engine::{Engine, Limits, Progress, Run, World};

/// The languages that functions may be written in: their names after LANGUAGE, and in messages.
pub const LANGUAGES: [(&str, &str); 2] = [("java", "Java"), ("lua", "Lua")];
