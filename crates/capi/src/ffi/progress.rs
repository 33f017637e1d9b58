//! Reports of a backup's progress.

use std::ffi::c_void;

use crate::ffi::from::State;

/// `void (*)(void* state)`.
pub type ProgressFn = Option<unsafe extern "C" fn(*mut c_void)>;

/// A function with its state, which stays the program's.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// What the function gets.
    pub state: State,
    /// Called with it.
    pub call: ProgressFn,
}

impl Progress {
    /// Nobody is told.
    pub const NONE: Progress = Progress { state: State(std::ptr::null_mut()), call: None };

    /// Tells the program.
    pub fn tell(&self) {
        if let Some(call) = self.call {
            // SAFETY: invariant 4 of ffi.
            unsafe { call(self.state.0) };
        }
    }
}
