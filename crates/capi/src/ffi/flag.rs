//! Switches that C holds as `unsigned char*`: RocksDB's are `std::atomic<bool>*` in disguise.
//!
//! Thread safety: a switch is set and read from any thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pumice::CancelFlag;

use super::from::FromC;
use super::into::IntoC;

/// A switch, or null. Its users share it, so that it may be destroyed at any time.
pub struct Flag(*const AtomicBool);

impl Flag {
    /// A new one, off.
    pub fn create() -> Flag {
        Flag(Arc::into_raw(Arc::new(AtomicBool::new(false))))
    }
    /// Switches; null stays as it is.
    pub fn set(&self, on: bool) {
        // SAFETY: a switch of `create` that is not destroyed, or null (invariant 1 of ffi).
        if let Some(flag) = unsafe { self.0.as_ref() } {
            flag.store(on, Ordering::Release);
        }
    }
    /// One more user; None for null.
    pub fn share(&self) -> Option<CancelFlag> {
        if self.0.is_null() {
            return None;
        }
        // SAFETY: as in `set`; the new reference is counted first.
        let flag = unsafe {
            Arc::increment_strong_count(self.0);
            Arc::from_raw(self.0)
        };
        Some(CancelFlag::from(flag))
    }
    /// The program needs it no longer.
    pub fn destroy(self) {
        if !self.0.is_null() {
            // SAFETY: as in `set`; this is the reference that `create` gave out.
            drop(unsafe { Arc::from_raw(self.0) });
        }
    }
}

// SAFETY: the pointer is followed by the methods alone.
unsafe impl FromC for Flag {
    type Raw = *mut u8;
    unsafe fn from_c(_: &'static str, raw: *mut u8) -> Option<Self> {
        Some(Flag(raw.cast_const().cast()))
    }
}

impl IntoC for Flag {
    type Raw = *mut u8;
    fn into_c(self) -> *mut u8 {
        self.0.cast_mut().cast()
    }
    fn failed() -> *mut u8 {
        std::ptr::null_mut()
    }
}
