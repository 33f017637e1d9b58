//! What a function does that nobody has written yet: it says so.

use std::ffi::c_char;
use std::sync::atomic::{AtomicBool, Ordering};

use pumice::Error;

use super::call;

/// Stores "Not implemented: NAME" at `errptr`; without one, says it on stderr once for each
/// function, or ends the process if `PUMICE_CAPI_STRICT` is 1.
///
/// # Safety
/// Invariant 2 of `ffi`.
#[cold]
#[allow(dead_code)] // Its callers are generated, and there are none while no function is missing.
pub unsafe fn missing(name: &str, errptr: *mut *mut c_char, said: &AtomicBool) {
    let error = Error::not_supported(name);
    if !errptr.is_null() {
        // SAFETY: the caller's promise.
        return unsafe { call::store(errptr, &error) };
    }
    if std::env::var_os("PUMICE_CAPI_STRICT").is_some_and(|strict| strict == "1") {
        call::abort(name, "Not implemented");
    }
    if !said.swap(true, Ordering::Relaxed) {
        call::say(&format!("librocksdb (Pumice): {error}"));
    }
}
