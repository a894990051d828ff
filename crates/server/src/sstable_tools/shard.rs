//! The one shard that a tool runs on.

use std::process::ExitCode;
use std::sync::{Mutex, PoisonError, mpsc};

use io::{Env, Runtime, RuntimeConfig};

use super::ToolError;

/// Runs a job on a shard of its own; what it gives.
pub(crate) fn run<T, F>(job: impl FnOnce(Env) -> F + Send + 'static) -> Result<T, ToolError>
where
    T: Send + 'static,
    F: Future<Output = Result<T, ToolError>> + 'static,
{
    let job = Mutex::new(Some(job));
    let (result, results) = mpsc::channel();
    let main = move |env| {
        let job = job.lock().unwrap_or_else(PoisonError::into_inner).take();
        let result = result.clone();
        async move {
            if let Some(job) = job {
                drop(result.send(job(env).await));
            }
        }
    };
    let config = RuntimeConfig {
        name: "tool".to_owned(),
        ..RuntimeConfig::default()
    };
    let failed = |error: &dyn std::error::Error| ToolError::Shard(error.to_string());
    let runtime = Runtime::start(config, main).map_err(|error| failed(&error))?;
    let joined = runtime.join();
    match results.try_recv() {
        Ok(result) => result,
        Err(_) => Err(match joined {
            Err(error) => failed(&error),
            Ok(()) => ToolError::Shard("it ended without a result".to_owned()),
        }),
    }
}

/// Says what went wrong, if anything, and gives the exit code.
pub(crate) fn exit(result: Result<(), ToolError>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&error);
            ExitCode::FAILURE
        }
    }
}

/// The exit code of a tool that has said what is wrong with each file.
pub(crate) fn exit_quietly(sound: Result<bool, ToolError>) -> ExitCode {
    match sound {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => exit(Err(error)),
    }
}

/// Says on one line what went wrong.
pub(crate) fn complain(error: &ToolError) {
    eprintln!("helenus sstable: {}", error.to_string().replace('\n', " "));
}
