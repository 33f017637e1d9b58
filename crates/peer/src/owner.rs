//! What the user of a database supplies: a merge operator, a comparator.
//!
//! Thread safety: as in the crate head; RocksDB calls the functions on its own threads too.
//! Invariants (besides the crate's): (5) the state of a callback is a leaked box: RocksDB requires
//! comparators to outlive every database, so what is made here lives as long as the process; (6) a
//! value that an operator returns is a boxed slice, and comes back to `free_value` with its length.
//! A function that panics here ends the process: nothing unwinds into C.
//!
//! It does not cover partial merges (operands are kept one by one) nor comparators with custom
//! timestamps.

use crate::api::Text;
use crate::{Options, Result, c_string};
use std::cmp::Ordering;
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::{null_mut, slice_from_raw_parts_mut};

/// Combines the existing value, if any, and the operands, oldest first.
pub type Merge = fn(Option<&[u8]>, &[&[u8]]) -> Vec<u8>;
/// Orders user keys.
pub type Compare = fn(&[u8], &[u8]) -> Ordering;

struct Named<F> {
    name: CString,
    run: F,
}

impl Options {
    /// Merges by `merge`, which is called `name` in files.
    ///
    /// # Errors
    /// `name` has a NUL byte.
    pub fn set_own_merge_operator(&mut self, name: &str, merge: Merge) -> Result<()> {
        let state = Box::leak(Box::new(Named { name: c_string(name)?, run: merge }));
        let state: *mut Named<Merge> = state;
        let api = &self.peer.api;
        // SAFETY: the state lives forever (invariant 5), the functions have c.h's types; the
        // options own the operator.
        unsafe {
            let operator = (api.mergeoperator_create)(
                state.cast(),
                keep_state,
                full_merge,
                partial_merge,
                free_value,
                name_of::<Merge>,
            );
            (api.options_set_merge_operator)(self.raw, operator);
        }
        Ok(())
    }

    /// Orders keys by `compare`, which is called `name` in files.
    ///
    /// # Errors
    /// `name` has a NUL byte.
    pub fn set_own_comparator(&mut self, name: &str, compare: Compare) -> Result<()> {
        let state = Box::leak(Box::new(Named { name: c_string(name)?, run: compare }));
        let state: *mut Named<Compare> = state;
        let api = &self.peer.api;
        // SAFETY: as above; the comparator is never destroyed, as RocksDB requires.
        unsafe {
            let (call, name) = (compare_keys, name_of::<Compare>);
            let comparator = (api.comparator_create)(state.cast(), keep_state, call, name);
            (api.options_set_comparator)(self.raw, comparator);
        }
        Ok(())
    }
}

/// Bytes of RocksDB's, which may be null when there are none.
///
/// # Safety
/// `data` and `len` are a live slice, or `len` is 0; the result is not kept beyond the callback.
unsafe fn bytes<'a>(data: *const u8, len: usize) -> &'a [u8] {
    if len == 0 {
        return &[];
    }
    // SAFETY: as the caller promises.
    unsafe { std::slice::from_raw_parts(data, len) }
}

unsafe extern "C" fn keep_state(_: *mut c_void) {}

unsafe extern "C" fn name_of<F>(state: *mut c_void) -> Text {
    // SAFETY: the leaked box of invariant 5.
    unsafe { (*state.cast::<Named<F>>()).name.as_ptr() }
}

unsafe extern "C" fn compare_keys(
    state: *mut c_void,
    left: *const u8,
    left_len: usize,
    right: *const u8,
    right_len: usize,
) -> c_int {
    // SAFETY: the leaked box of invariant 5, and two live keys.
    let order = unsafe {
        let run = (*state.cast::<Named<Compare>>()).run;
        run(bytes(left, left_len), bytes(right, right_len))
    };
    order as c_int
}

#[allow(clippy::too_many_arguments)] // c.h's.
unsafe extern "C" fn full_merge(
    state: *mut c_void,
    _key: *const u8,
    _key_len: usize,
    existing: *const u8,
    existing_len: usize,
    operands: *const *const u8,
    lens: *const usize,
    count: c_int,
    success: *mut u8,
    new_len: *mut usize,
) -> *mut c_char {
    // SAFETY: the leaked box of invariant 5, live bytes, and two out-parameters.
    unsafe {
        let at = |i: usize| bytes(*operands.add(i), *lens.add(i));
        let operands: Vec<&[u8]> = (0..count as usize).map(at).collect();
        let existing = (!existing.is_null()).then(|| bytes(existing, existing_len));
        let run = (*state.cast::<Named<Merge>>()).run;
        let value = run(existing, &operands).into_boxed_slice();
        (*success, *new_len) = (1, value.len());
        Box::into_raw(value).cast()
    }
}

#[allow(clippy::too_many_arguments)] // c.h's.
unsafe extern "C" fn partial_merge(
    _state: *mut c_void,
    _key: *const u8,
    _key_len: usize,
    _operands: *const *const u8,
    _lens: *const usize,
    _count: c_int,
    success: *mut u8,
    new_len: *mut usize,
) -> *mut c_char {
    // SAFETY: two out-parameters.
    unsafe { (*success, *new_len) = (0, 0) };
    null_mut()
}

unsafe extern "C" fn free_value(_state: *mut c_void, value: Text, len: usize) {
    if value.is_null() {
        return;
    }
    // SAFETY: the boxed slice of invariant 6.
    drop(unsafe { Box::from_raw(slice_from_raw_parts_mut(value.cast_mut().cast::<u8>(), len)) });
}
