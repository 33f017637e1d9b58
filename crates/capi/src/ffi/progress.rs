//! What a backup asks of the program, and how far it is.

use std::ffi::{c_char, c_void};

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

/// `unsigned char (*)(void* state, const char* path, size_t length)`.
pub type LeftOutFn = Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize) -> u8>;

/// Which files are left out, by a function with its state, which stays the program's.
#[derive(Clone, Copy, Debug)]
pub struct LeftOut {
    /// What the function gets.
    pub state: State,
    /// Called with it and a path.
    pub call: LeftOutFn,
}

impl LeftOut {
    /// None are.
    pub const NONE: LeftOut = LeftOut { state: State(std::ptr::null_mut()), call: None };

    /// Asks the program about a file.
    pub fn asks(&self, path: &str) -> bool {
        // SAFETY: invariant 4 of ffi; the path is valid during the call.
        self.call.is_some_and(
            |call| unsafe { call(self.state.0, path.as_ptr().cast(), path.len()) } != 0,
        )
    }
}
