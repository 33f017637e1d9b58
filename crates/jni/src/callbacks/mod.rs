//! Objects of Java that the engine calls.
//!
//! | module | role |
//! |---|---|
//! | `order` | comparators |
//! | `filter` | factories of compaction filters, and the filters that RocksDB's jar names |
//! | `flink` | the filter of frocksdbjni that drops expired state |
//! | `gates` | filters of logs and of tables |
//! | `logger` | loggers |
//! | `listener` | event listeners |
//! | `notifier` | notifiers of transactions |
//! | `trace_writer` | writers of traces |
//!
//! Thread safety: called from any thread of the engine, several at once. A Java exception in one
//! ends the job with its text, as a panic in a call-back of the engine does; those of loggers and
//! listeners are cleared, as nobody waits for their result.

pub mod filter;
pub mod flink;
pub mod gates;
pub mod listener;
pub mod logger;
pub mod notifier;
pub mod order;
pub mod trace_writer;

pub use listener::JavaListener;
pub use logger::{JavaLogger, StdErrLogger};
pub use order::JavaOrder;

use crate::ffi::call::{Failure, Result};
use crate::ffi::env::Env;
use crate::ffi::vm;

/// The text of a failure; a pending exception is taken away.
fn text_of(env: Env<'_>, failure: Failure) -> String {
    match failure {
        Failure::Status(error) => error.to_string(),
        Failure::Text(text) | Failure::Java(_, text) => text,
        Failure::Pending => {
            let Some(exception) = env.take_pending() else { return "a Java exception".to_string() };
            let class = env.class_of(exception);
            let method = env.method(class, "toString", "()Ljava/lang/String;");
            let text = method.and_then(|method| env.call_object(exception, method, &[]));
            match text.and_then(|text| env.text(text)) {
                Ok(text) => text,
                Err(_) => {
                    env.clear_pending();
                    "a Java exception".to_string()
                }
            }
        }
    }
}

/// Runs a call into Java whose result the engine needs.
///
/// # Panics
/// The call failed: the engine takes it as a failed call-back, with its text.
fn needed<T>(what: &str, call: impl FnOnce(Env<'_>) -> Result<T>) -> T {
    let result = vm::with_frame(|env| match call(env) {
        Ok(value) => Ok(Ok(value)),
        Err(failure) => Ok(Err(text_of(env, failure))),
    });
    let text = match result {
        Ok(Ok(value)) => return value,
        Ok(Err(text)) => text,
        Err(failure) => format!("{failure:?}"),
    };
    // Without the hook: the text is the job's error, and no bug of ours.
    std::panic::resume_unwind(Box::new(format!("{what}: {text}")))
}

/// Runs a call into Java that nobody waits for.
fn told(call: impl FnOnce(Env<'_>) -> Result<()>) {
    let result = vm::with_frame(|env| {
        if let Err(failure) = call(env) {
            drop(text_of(env, failure));
        }
        Ok(())
    });
    // A virtual machine that ends takes no thread.
    result.ok();
}
