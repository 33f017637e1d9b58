//! Writers of traces in Java (`AbstractTraceWriter`).
//!
//! Thread safety: as the engine's trace calls them, one at a time.

use std::sync::Arc;

use jni_sys::jvalue;
use pumice::trace::TraceWriter;
use pumice::{Error, Result as EngineResult};

use super::text_of;
use crate::ffi::call::Result;
use crate::ffi::env::{Env, Method, Object};
use crate::ffi::vm::{self, Global};

/// How a slice for Java is made of bytes, which gives its handle, and ended.
pub type Slices = (fn(&[u8]) -> i64, fn(i64) -> Result<()>);

/// See the module.
#[derive(Debug)]
pub struct JavaTraceWriter {
    object: Global,
    write: Method,
    close: Method,
    size: Method,
    slices: Slices,
}

impl JavaTraceWriter {
    /// The writer `object`.
    ///
    /// # Errors
    /// A Java exception.
    pub fn new(env: Env<'_>, object: Object<'_>, slices: Slices) -> Result<JavaTraceWriter> {
        let class = env.class_of(object);
        Ok(JavaTraceWriter {
            slices,
            object: Global::new(env, object),
            write: env.method(class, "writeProxy", "(J)S")?,
            close: env.method(class, "closeWriterProxy", "()S")?,
            size: env.method(class, "getFileSize", "()J")?,
        })
    }
}

/// Runs a call into Java; its exceptions are errors.
fn call<T>(call: impl FnOnce(Env<'_>) -> Result<T>) -> EngineResult<T> {
    let result = vm::with_frame(|env| match call(env) {
        Ok(value) => Ok(Ok(value)),
        Err(failure) => Ok(Err(text_of(env, failure))),
    });
    match result {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(text)) => Err(Error::aborted(text)),
        Err(_) => Err(Error::aborted("the virtual machine ends")),
    }
}

/// Code and subcode in one number, as the Java library makes it.
fn checked(status: i16) -> EngineResult<()> {
    let [code, subcode] = status.to_be_bytes();
    match code {
        0 => Ok(()),
        _ => Err(Error::of_numbers(code, subcode, 0, "the writer of the trace")),
    }
}

/// The engine's hold of one.
pub struct Writes(pub Arc<JavaTraceWriter>);

impl TraceWriter for Writes {
    fn write(&mut self, record: &[u8]) -> EngineResult<()> {
        let status = call(|env| {
            // Java's object does not own it.
            let (give, end) = self.0.slices;
            let slice = give(record);
            let status =
                env.call_short(self.0.object.object(), self.0.write, &[jvalue { j: slice }]);
            end(slice)?;
            status
        });
        checked(status?)
    }
    fn close(&mut self) -> EngineResult<()> {
        checked(call(|env| env.call_short(self.0.object.object(), self.0.close, &[]))?)
    }
    fn file_size(&self) -> u64 {
        let size = call(|env| env.call_long(self.0.object.object(), self.0.size, &[]));
        size.map_or(0, |size| u64::try_from(size).unwrap_or(0))
    }
}
