//! Merge operators.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use pumice::MergeOperator;
use pumice_port::os::c_memory;

use super::callback::{DestroyFn, NameFn, Owner, data, read_name};
use crate::ffi::from::{State, bytes};
use crate::ffi::types::Merge;

/// The full merge: state, key, existing value or null, operands, success, length of the result.
pub type FullMergeFn = Option<
    unsafe extern "C" fn(
        *mut c_void,
        *const c_char,
        usize,
        *const c_char,
        usize,
        *const *const c_char,
        *const usize,
        c_int,
        *mut u8,
        *mut usize,
    ) -> *mut c_char,
>;
/// The merge of operands alone.
pub type PartialMergeFn = Option<
    unsafe extern "C" fn(
        *mut c_void,
        *const c_char,
        usize,
        *const *const c_char,
        *const usize,
        c_int,
        *mut u8,
        *mut usize,
    ) -> *mut c_char,
>;
/// Frees a result.
pub type DeleteValueFn = Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize)>;

struct CMerge {
    owner: Owner,
    full: FullMergeFn,
    partial: PartialMergeFn,
    delete_value: DeleteValueFn,
    name: String,
}

impl CMerge {
    /// The bytes of a result, which is then freed; None if there was no success.
    fn take(&self, result: *mut c_char, length: usize, success: u8) -> Option<Vec<u8>> {
        // SAFETY: invariant 4 of ffi: the result has `length` bytes, and may be null without any.
        unsafe {
            let value = (success != 0).then(|| bytes(result, length).map(<[u8]>::to_vec)).flatten();
            match self.delete_value {
                Some(delete) => delete(self.owner.state.0, result, length),
                None => c_memory::free(result.cast()),
            }
            value
        }
    }
}

/// The operands as C has them. Their number fits: each takes memory.
fn lists(operands: &[&[u8]]) -> (Vec<*const c_char>, Vec<usize>, c_int) {
    let pointers = operands.iter().map(|operand| data(operand)).collect();
    let lengths = operands.iter().map(|operand| operand.len()).collect();
    (pointers, lengths, c_int::try_from(operands.len()).unwrap_or(c_int::MAX))
}

impl MergeOperator for CMerge {
    fn name(&self) -> &str {
        &self.name
    }

    fn full_merge(&self, key: &[u8], existing: Option<&[u8]>, list: &[&[u8]]) -> Option<Vec<u8>> {
        let full = self.full?;
        let (pointers, lengths, count) = lists(list);
        let (old, old_length) = existing.map_or((std::ptr::null(), 0), |v| (data(v), v.len()));
        let (mut success, mut length) = (0, 0);
        // SAFETY: invariant 4 of ffi.
        let result = unsafe {
            full(
                self.owner.state.0,
                data(key),
                key.len(),
                old,
                old_length,
                pointers.as_ptr(),
                lengths.as_ptr(),
                count,
                &mut success,
                &mut length,
            )
        };
        self.take(result, length, success)
    }

    fn partial_merge(&self, key: &[u8], left: &[u8], right: &[u8]) -> Option<Vec<u8>> {
        self.partial_merge_multi(key, &[left, right])
    }

    fn partial_merge_multi(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        let partial = self.partial?;
        let (pointers, lengths, count) = lists(operands);
        let (mut success, mut length) = (0, 0);
        // SAFETY: invariant 4 of ffi.
        let result = unsafe {
            partial(
                self.owner.state.0,
                data(key),
                key.len(),
                pointers.as_ptr(),
                lengths.as_ptr(),
                count,
                &mut success,
                &mut length,
            )
        };
        self.take(result, length, success)
    }
}

/// A merge operator of C's.
pub fn c_merge(
    state: State,
    destroy: DestroyFn,
    full: FullMergeFn,
    partial: PartialMergeFn,
    delete_value: DeleteValueFn,
    name: NameFn,
) -> Merge {
    let name = read_name(name, state, "merge operator");
    let owner = Owner { state, destroy };
    Merge(Arc::new(CMerge { owner, full, partial, delete_value, name }))
}
