//! Loading a fiber's record and stack into the CPU's caches before it is resumed.
//!
//! With a thousand connections, a fiber's data has been evicted from the caches by the others when
//! its turn comes; the first misses are its record and the stack around the point where it
//! suspended. While one fiber runs, those of the next are loaded.
//!
//! Thread safety: no state. Addresses are hints: loading ahead never faults.

use super::slot::Slot;
use crate::task::Task;

const LINE: usize = 64;
/// Bytes of the record that a switch touches.
const RECORD_BYTES: usize = 3 * LINE;
/// Bytes of the stack, below and above where the fiber suspended.
const BELOW_BYTES: usize = 8 * LINE;
const ABOVE_BYTES: usize = 20 * LINE;

/// Starts loading the cache line at `at`, any address.
#[inline]
fn load(at: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::without_provenance(at)) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}

/// Starts loading the record of a task, or of null.
#[inline]
pub(super) fn load_record(task: *const Task) {
    let at = task.addr();
    if at != 0 {
        (0..RECORD_BYTES).step_by(LINE).for_each(|offset| load(at + offset));
    }
}

/// Starts loading the stack of a task of a loop.
#[inline]
pub(super) fn load_stack(task: &'static Task) {
    let at = Slot::of(task).stack_at.get();
    if at != 0 {
        let low = at.wrapping_sub(BELOW_BYTES);
        let lines = (0..BELOW_BYTES + ABOVE_BYTES).step_by(LINE);
        lines.for_each(|offset| load(low.wrapping_add(offset)));
    }
}
