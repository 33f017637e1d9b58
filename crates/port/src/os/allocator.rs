//! Settings of mimalloc, for a binary that has it as its global allocator.
//!
//! Thread safety: mimalloc's options are read without a lock; they are set before there are other
//! threads.
//!
//! Invariants of unsafe code:
//! 1. `mi_option_set_default` stores a number and ignores numbers of options that it does not
//!    know. A thread that uses the allocator meanwhile sees the old number or the new one.
//!
//! Not here: the choice of an allocator, which is the binary's.

use std::ffi::{c_int, c_long};

/// `mi_option_purge_delay` of mimalloc 3, which its bindings have no name for.
const PURGE_DELAY: c_int = 15;

/// How long freed pages are kept before the system gets them back, milliseconds, unless the
/// environment says it (`MIMALLOC_PURGE_DELAY`). For the beginning of `main`, before other threads.
pub fn set_purge_delay(millis: u16) {
    // SAFETY: 1.
    unsafe { libmimalloc_sys::mi_option_set_default(PURGE_DELAY, c_long::from(millis)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number is that of the option: mimalloc 3 waits a second by default.
    #[test]
    fn the_delay_is_set() {
        // SAFETY: reads a number.
        let delay = || unsafe { libmimalloc_sys::mi_option_get(PURGE_DELAY) };
        assert_eq!(delay(), 1000);
        set_purge_delay(10);
        assert_eq!(delay(), 10);
    }
}
