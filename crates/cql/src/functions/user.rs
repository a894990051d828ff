//! User-defined functions: what CQL asks of whoever can execute them, and how a call is made.
//!
//! A function may take long, and a shard is one thread. So a call can give way: it is kept where it
//! is, the evaluation that it belongs to ends with [`CqlError::GaveWay`], and whoever asked for that
//! lets others go first and evaluates again from the beginning of the step (a row, or what a
//! statement writes). Calls of the step that were done are not made again, their results are
//! remembered in their order; the one that gave way goes on. The rest of an evaluation is repeated,
//! so it must be the same each time: time is, and [`FunctionContext::again`] begins chance anew.
//!
//! [`FunctionContext::again`]: super::FunctionContext::again

use std::cell::{Cell, RefCell};
use std::fmt::Debug;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use model::{UserAggregate, UserFunction, told_argument_type};

use super::FunctionContext;
use crate::CqlError;

/// What Cassandra says where they are switched off (`UDFunction.assertUdfsEnabled`).
pub const DISABLED: &str = "User-defined functions are disabled in cassandra.yaml - set \
                            user_defined_functions_enabled=true to enable";

/// What a call has come to.
#[derive(Debug)]
pub enum Outcome {
    /// It is done; `None` is null.
    Value(Option<Bytes>),
    /// It has taken its time for now, and can go on.
    GaveWay(Box<dyn SuspendedCall>),
}

/// The languages of functions.
pub trait FunctionLanguage: Debug {
    /// The languages: their names after LANGUAGE, in lower case, and in messages.
    fn names(&self) -> &[(&str, &str)];

    /// Says what is wrong with the body of a function, if it cannot be called.
    fn check(&self, function: &UserFunction) -> Result<(), String>;

    /// From now on the thread is held: calls that may give way do so soon enough after it.
    fn begin_turn(&self);

    /// Calls a function with values of the types of its arguments. If it `may_give_way`, it does so
    /// before the thread was held for long, be it before it begins. The error is what happened, as text.
    fn call(
        &self,
        function: &Arc<UserFunction>,
        arguments: &[Option<Bytes>],
        may_give_way: bool,
    ) -> Result<Outcome, String>;
}

/// A call that gave way.
pub trait SuspendedCall: Debug {
    /// Goes on.
    fn resume(self: Box<Self>) -> Result<Outcome, String>;
}

/// The calls of one execution of a statement.
#[derive(Debug, Default)]
pub(super) struct Calls {
    language: Option<Rc<dyn FunctionLanguage>>,
    may_give_way: Cell<bool>,
    /// The results of the calls of this step, in their order.
    done: RefCell<Vec<Option<Bytes>>>,
    /// How many of them were used since the step began again.
    used: Cell<usize>,
    /// The call after those, which gave way.
    suspended: RefCell<Option<Box<dyn SuspendedCall>>>,
}

impl Calls {
    pub(super) fn in_language(&mut self, language: Rc<dyn FunctionLanguage>) {
        self.language = Some(language);
    }

    pub(super) fn may_give_way(&self, may: bool) {
        self.may_give_way.set(may);
        self.begin_turn();
    }

    pub(super) fn again(&self) {
        self.used.set(0);
        self.begin_turn();
    }

    fn begin_turn(&self) {
        if let Some(language) = &self.language {
            language.begin_turn();
        }
    }

    /// Does a step begin, of a kind that may have to be evaluated again?
    pub(super) fn next_step(&self) -> bool {
        if self.used.replace(0) > 0 {
            self.done.borrow_mut().clear();
        }
        self.language.is_some() && self.may_give_way.get()
    }

    fn call(&self, function: &Arc<UserFunction>, arguments: &[Option<Bytes>]) -> Called {
        let used = self.used.get();
        if let Some(result) = self.done.borrow().get(used) {
            self.used.set(used + 1);
            return Ok(result.clone());
        }
        let Some(language) = &self.language else {
            return Err(CqlError::Invalid(DISABLED.to_owned()));
        };
        let suspended = self.suspended.take();
        let outcome = match suspended {
            Some(suspended) => suspended.resume(),
            None => language.call(function, arguments, self.may_give_way.get()),
        };
        match outcome.map_err(|message| failure(function, message))? {
            Outcome::Value(value) => {
                self.done.borrow_mut().push(value.clone());
                self.used.set(used + 1);
                Ok(value)
            }
            Outcome::GaveWay(call) => {
                *self.suspended.borrow_mut() = Some(call);
                Err(CqlError::GaveWay)
            }
        }
    }
}

type Called = Result<Option<Bytes>, CqlError>;

fn failure(function: &UserFunction, message: String) -> CqlError {
    CqlError::Function {
        keyspace: function.keyspace.to_string(),
        function: function.name.to_string(),
        argument_types: function
            .argument_types
            .iter()
            .map(told_argument_type)
            .collect(),
        message,
    }
}

/// Is a function not to be called with these arguments (`UDFunction.isCallableWrtNullable`)?
fn is_left_out(function: &UserFunction, arguments: &[Option<Bytes>]) -> bool {
    let mut each = arguments.iter().zip(&function.argument_types);
    !function.called_on_null_input
        && each.any(|(value, ty)| match value {
            None => true,
            Some(value) => value.is_empty() && ty.is_empty_meaningless(),
        })
}

/// Calls a function; where it is not called for a null, the result is null.
pub(super) fn call(
    context: &FunctionContext,
    function: &Arc<UserFunction>,
    arguments: &[Option<Bytes>],
) -> Called {
    if is_left_out(function, arguments) {
        return Ok(None);
    }
    context.calls.call(function, arguments)
}

/// The state of an aggregate after a row with these arguments; `None` where that leaves it as it is
/// (`UDAggregate.addInput`).
pub(super) fn next_state(
    context: &FunctionContext,
    aggregate: &UserAggregate,
    state: &Option<Bytes>,
    arguments: &[Option<Bytes>],
) -> Result<Option<Option<Bytes>>, CqlError> {
    let function = &aggregate.state_function;
    let skips = |value: &Option<Bytes>, ty: &model::CqlType| match value {
        None => true,
        Some(value) => value.is_empty() && ty.is_empty_meaningless(),
    };
    let mut each = arguments.iter().zip(&aggregate.argument_types);
    if !function.called_on_null_input && each.any(|(value, ty)| skips(value, ty)) {
        return Ok(None);
    }
    let mut all = Vec::with_capacity(arguments.len() + 1);
    all.push(state.clone());
    all.extend_from_slice(arguments);
    call(context, function, &all).map(Some)
}

/// The result of an aggregate whose last state this is.
pub(super) fn result(
    context: &FunctionContext,
    aggregate: &UserAggregate,
    state: &Option<Bytes>,
) -> Called {
    match &aggregate.final_function {
        Some(function) => call(context, function, std::slice::from_ref(state)),
        None => Ok(state.clone()),
    }
}
