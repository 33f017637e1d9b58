//! Settings and statistics of mimalloc, for a binary that has it as its global allocator.
//!
//! Thread safety: mimalloc's options are read without a lock; they are set before there are other
//! threads. Statistics may be asked for at any time.
//!
//! Invariants of unsafe code:
//! 1. `mi_option_set_default` stores a number and ignores numbers of options that it does not
//!    know. A thread that uses the allocator meanwhile sees the old number or the new one.
//! 2. `mi_stats_print_out` copies the figures, then calls the function with a string that ends with
//!    a zero byte and the pointer it was given, on this thread, under no lock; it keeps neither.
//!
//! Not here: the choice of an allocator, which is the binary's.

use std::ffi::{CStr, c_char, c_int, c_long, c_void};

/// `mi_option_purge_delay` of mimalloc 3, which its bindings have no name for.
const PURGE_DELAY: c_int = 15;

/// How long freed pages are kept before the system gets them back, milliseconds, unless the
/// environment says it (`MIMALLOC_PURGE_DELAY`). For the beginning of `main`, before other threads.
pub fn set_purge_delay(millis: u16) {
    // SAFETY: 1.
    unsafe { libmimalloc_sys::mi_option_set_default(PURGE_DELAY, c_long::from(millis)) }
}

/// What mimalloc reports of its memory, in lines.
pub fn statistics() -> String {
    unsafe extern "C" fn add(part: *const c_char, text: *mut c_void) {
        // SAFETY: 2; the pointer is that of `text` below, which nothing else uses meanwhile.
        let (part, text) = unsafe { (CStr::from_ptr(part), &mut *text.cast::<String>()) };
        text.push_str(&part.to_string_lossy());
    }
    let mut text = String::new();
    // SAFETY: 2.
    unsafe { libmimalloc_sys::mi_stats_print_out(Some(add), (&raw mut text).cast()) }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_reported_in_lines() {
        // SAFETY: gives back what it gets.
        unsafe { libmimalloc_sys::mi_free(libmimalloc_sys::mi_malloc(1 << 16)) };
        let text = statistics();
        for words in ["committed", "threads", "peak rss"] {
            assert!(text.lines().any(|line| line.contains(words)), "{words}: {text}");
        }
    }

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
