//! Errors and panics at the boundary, and the exceptions that they become.
//!
//! Thread safety: pure, on the calling thread.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use jni_sys::{JNIEnv, jobject, jvalue};
use pumice::{Error, ErrorKind, SubCode};

use super::env::{Env, Object};

/// Why a native method has no result.
#[derive(Debug)]
pub enum Failure {
    /// An error of the engine: RocksDBException with a status.
    Status(Error),
    /// RocksDBException with a text alone.
    Text(String),
    /// Another exception: its class, and a text.
    Java(&'static str, String),
    /// An exception is pending already.
    Pending,
}

/// The result of a native method.
pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// An exception of the class.
    pub fn java(class: &'static str, text: impl Into<String>) -> Failure {
        Failure::Java(class, text.into())
    }
    /// IllegalArgumentException.
    pub fn illegal(text: impl Into<String>) -> Failure {
        Failure::java("java/lang/IllegalArgumentException", text)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Status(error)
    }
}

/// What a native method gives if it throws.
pub trait Nothing {
    /// 0, false or null.
    const NOTHING: Self;
}

macro_rules! nothing {
    ($($kind:ty = $value:expr),+) => {$(
        impl Nothing for $kind {
            const NOTHING: Self = $value;
        }
    )+};
}
nothing!(() = (), bool = false, i8 = 0, i16 = 0, i32 = 0, i64 = 0, u64 = 0, f64 = 0.0);
nothing!(jobject = std::ptr::null_mut());

/// Runs a native method.
///
/// # Safety
/// Invariant 1 of `ffi`.
pub unsafe fn enter<'a, R: Nothing>(
    raw: *mut JNIEnv,
    name: &str,
    body: impl FnOnce(Env<'a>) -> Result<R>,
) -> R {
    // SAFETY: the caller's promise.
    let env = unsafe { Env::from_raw(raw) };
    match catch_unwind(AssertUnwindSafe(|| body(env))) {
        Ok(Ok(result)) => result,
        Ok(Err(failure)) => {
            raise(env, failure);
            R::NOTHING
        }
        Err(panic) => {
            raise_panic(env, name, &*panic);
            R::NOTHING
        }
    }
}

/// Not in each of the exported functions: with [`raise`] it was a tenth of the library.
#[cold]
#[inline(never)]
fn raise_panic(env: Env<'_>, name: &str, panic: &(dyn Any + Send)) {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_string());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    let text = format!("internal panic in {name}: {}", text.unwrap_or_default());
    if !env.pending() {
        raise(env, Failure::Status(Error::corruption(text)));
    }
}

/// A native method that this library has not.
#[cold]
#[inline(never)]
pub fn missing(name: &str) -> Failure {
    Failure::Status(Error::not_supported(format!("{name} is not supported by this build")))
}

#[cold]
#[inline(never)]
fn raise(env: Env<'_>, failure: Failure) {
    match failure {
        Failure::Pending => {}
        Failure::Java(class, text) => env.throw_new(class, &text),
        Failure::Text(text) => env.throw_new("org/rocksdb/RocksDBException", &text),
        Failure::Status(error) => {
            if let Ok(exception) = exception(env, &error) {
                env.throw(exception);
            }
        }
    }
}

/// The codes of a status in Java.
pub fn codes(error: &Error) -> (i8, i8) {
    let code = match error.kind() {
        ErrorKind::NotFound => 1,
        ErrorKind::Corruption => 2,
        ErrorKind::NotSupported => 3,
        ErrorKind::InvalidArgument => 4,
        ErrorKind::IoError => 5,
        ErrorKind::MergeInProgress => 6,
        ErrorKind::Incomplete => 7,
        ErrorKind::ShutdownInProgress => 8,
        ErrorKind::TimedOut => 9,
        ErrorKind::Aborted => 10,
        ErrorKind::Busy => 11,
        ErrorKind::Expired => 12,
        ErrorKind::TryAgain => 13,
        _ => 0x7f,
    };
    let subcode = match error.subcode() {
        SubCode::None => 0,
        SubCode::MutexTimeout => 1,
        SubCode::LockTimeout => 2,
        SubCode::LockLimit => 3,
        SubCode::NoSpace => 4,
        SubCode::Deadlock => 5,
        SubCode::StaleFile => 6,
        SubCode::MemoryLimit => 7,
        _ => 0x7f,
    };
    (code, subcode)
}

/// The text of an error without its code.
pub fn state(error: &Error) -> String {
    match error.kind() {
        ErrorKind::Corruption if error.subcode() == SubCode::MergeOperatorFailed => String::new(),
        _ => error.message().to_string(),
    }
}

/// A status object.
///
/// # Errors
/// There is no memory.
pub fn status_object<'a>(env: Env<'a>, error: Option<&Error>) -> Result<Object<'a>> {
    let (code, subcode) = error.map_or((0, 0), codes);
    let text = error.map(state).filter(|text| !text.is_empty());
    let text = text.map_or(Ok(Object::NULL), |text| env.new_text(&text))?;
    let arguments = [jvalue { b: code }, jvalue { b: subcode }, jvalue { l: text.raw() }];
    env.construct("org/rocksdb/Status", "(BBLjava/lang/String;)V", &arguments)
}

/// Java takes the state as the message, or the names of the codes if there is none.
fn exception<'a>(env: Env<'a>, error: &Error) -> Result<Object<'a>> {
    let status = status_object(env, Some(error))?;
    let arguments = [jvalue { l: status.raw() }];
    env.construct("org/rocksdb/RocksDBException", "(Lorg/rocksdb/Status;)V", &arguments)
}
