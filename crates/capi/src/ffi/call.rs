//! The boundary: errors to `errptr`, panics to errors, null pointers refused by name.

use std::ffi::c_char;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pumice::{Error, Result};
use pumice_binding::status;
use pumice_port::os::c_memory;

use super::into::IntoC;

/// Runs the body of a function that reports errors at `errptr`.
///
/// # Safety
/// Invariant 2 of `ffi`.
#[inline]
pub unsafe fn reporting<R: IntoC>(
    name: &'static str,
    errptr: *mut *mut c_char,
    body: impl FnOnce() -> Result<R>,
) -> R::Raw {
    let run = || {
        planted::meet(name);
        body().map(IntoC::into_c)
    };
    let error = match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(result)) => return result,
        Ok(Err(error)) => error,
        Err(panic) => {
            let text = format!("internal panic: {name}: {}", panic_text(&*panic));
            Error::corruption(text)
        }
    };
    // SAFETY: the caller's promise.
    unsafe { store(errptr, &error) };
    R::failed()
}

/// Runs the body of a function that cannot report errors: one of null arguments, or a panic, ends
/// the process.
#[inline]
pub fn plain<R: IntoC>(name: &'static str, body: impl FnOnce() -> Result<R>) -> R::Raw {
    match guarded(name, || body().map(IntoC::into_c)) {
        Ok(result) => result,
        Err(error) => abort(name, error.message()),
    }
}

/// Runs the body of a function that has no errors: a panic ends the process.
#[inline]
pub fn guarded<R>(name: &str, body: impl FnOnce() -> R) -> R {
    let run = || {
        planted::meet(name);
        body()
    };
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(result) => result,
        Err(panic) => abort(name, &format!("internal panic: {}", panic_text(&*panic))),
    }
}

/// Panics that tests plant in a function of their choice. Nothing of it is in release builds.
pub mod planted {
    #[cfg(debug_assertions)]
    static NAME: pumice_port::sync::Mutex<Option<&'static str>> =
        pumice_port::sync::Mutex::new(None);

    /// From now on the function panics when it is called, in builds with debug assertions.
    pub fn plant(name: &'static str) {
        #[cfg(debug_assertions)]
        NAME.lock().replace(name);
        #[cfg(not(debug_assertions))]
        let _ = name;
    }

    #[inline]
    pub(super) fn meet(name: &str) {
        #[cfg(debug_assertions)]
        if *NAME.lock() == Some(name) {
            panic!("planted");
        }
        #[cfg(not(debug_assertions))]
        let _ = name;
    }
}

/// Stores the text of `error`, as the C library's `malloc` gives it.
///
/// # Safety
/// Invariant 2 of `ffi`.
pub unsafe fn store(errptr: *mut *mut c_char, error: &Error) {
    if errptr.is_null() {
        return;
    }
    let text = c_memory::copy(status::text(error).as_bytes());
    // SAFETY: the caller's promise: the old text, if any, is a block of malloc.
    unsafe {
        c_memory::free((*errptr).cast());
        *errptr = text;
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without text")
}

/// The error for an argument that must not be null.
#[cold]
pub fn missing(function: &str, argument: &str) -> Error {
    Error::invalid_argument(format!("{function}: {argument} is NULL"))
}

/// Writes a line to stderr; nothing to do if that fails.
pub fn say(line: &str) {
    let mut text = line.to_string();
    text.push('\n');
    std::io::stderr().write_all(text.as_bytes()).ok();
}

/// Ends the process, naming the function.
#[cold]
pub fn abort(function: &str, why: &str) -> ! {
    say(&format!("librocksdb (Pumice): {function}: {why}"));
    std::process::abort()
}
