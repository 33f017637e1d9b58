//! What all call-backs have in common: each owns the program's state and calls its destructor once,
//! when the last user is gone.

use std::ffi::{CStr, c_char, c_void};

use super::from::State;

/// `void (*)(void* state)`.
pub type DestroyFn = Option<unsafe extern "C" fn(*mut c_void)>;
/// `const char* (*)(void* state)`.
pub type NameFn = Option<unsafe extern "C" fn(*mut c_void) -> *const c_char>;

/// The program's state, and what ends it.
pub struct Owner {
    /// What the functions get.
    pub state: State,
    /// Ends it.
    pub destroy: DestroyFn,
}

impl Drop for Owner {
    fn drop(&mut self) {
        if let Some(destroy) = self.destroy {
            // SAFETY: invariant 4 of ffi: once, with its own state.
            unsafe { destroy(self.state.0) };
        }
    }
}

/// The text that a name function gives; read once.
pub fn read_name(name: NameFn, state: State, otherwise: &str) -> String {
    let Some(name) = name else { return otherwise.to_string() };
    // SAFETY: invariant 4 of ffi; the result is a text or null.
    unsafe {
        let text = name(state.0);
        match text.is_null() {
            true => otherwise.to_string(),
            false => CStr::from_ptr(text).to_string_lossy().into_owned(),
        }
    }
}

/// The address of bytes, for C: never null.
pub fn data(bytes: &[u8]) -> *const c_char {
    bytes.as_ptr().cast()
}
