//! The functions that a walk over a batch calls.

use std::ffi::{c_char, c_void};

use pumice_binding::batch::Update;

use super::callback::data;
use crate::ffi::from::State;

/// A put: state, key, value.
pub type PutFn =
    Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize)>;
/// A deletion, or an annotation.
pub type KeyFn = Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize)>;
/// A put or a merge operand, with the column family's id.
pub type FamilyPutFn =
    Option<unsafe extern "C" fn(*mut c_void, u32, *const c_char, usize, *const c_char, usize)>;
/// A deletion, with the column family's id.
pub type FamilyKeyFn = Option<unsafe extern "C" fn(*mut c_void, u32, *const c_char, usize)>;

fn key_seen(function: KeyFn, state: State, key: &[u8]) {
    if let Some(function) = function {
        // SAFETY: invariant 4 of ffi.
        unsafe { function(state.0, data(key), key.len()) };
    }
}

/// Hands an update to the functions without column families.
pub fn seen_plain(state: State, put: PutFn, deleted: KeyFn, log_data: KeyFn, update: Update<'_>) {
    match update {
        Update::Put(key, value) => {
            if let Some(put) = put {
                // SAFETY: invariant 4 of ffi.
                unsafe { put(state.0, data(key), key.len(), data(value), value.len()) };
            }
        }
        Update::Delete(key) => key_seen(deleted, state, key),
        Update::LogData(blob) => key_seen(log_data, state, blob),
        Update::Merge(..) => {}
    }
}

/// Hands an update to the functions with column families: put, deleted, merge, log data.
pub fn seen_families(
    state: State,
    (put, deleted, merge, log_data): (FamilyPutFn, FamilyKeyFn, FamilyPutFn, KeyFn),
    cf: u32,
    update: Update<'_>,
) {
    match update {
        Update::Put(key, value) | Update::Merge(key, value) => {
            let function = if matches!(update, Update::Put(..)) { put } else { merge };
            if let Some(function) = function {
                // SAFETY: invariant 4 of ffi.
                unsafe { function(state.0, cf, data(key), key.len(), data(value), value.len()) };
            }
        }
        Update::Delete(key) => {
            if let Some(deleted) = deleted {
                // SAFETY: invariant 4 of ffi.
                unsafe { deleted(state.0, cf, data(key), key.len()) };
            }
        }
        Update::LogData(blob) => key_seen(log_data, state, blob),
    }
}

/// How many bytes the timestamps of a column family, by its id, have.
pub type TimestampSizeFn = Option<unsafe extern "C" fn(*mut c_void, u32) -> usize>;

/// What the program says of `family`; None if it gave no function.
pub fn timestamp_size(size: TimestampSizeFn, state: State, family: u32) -> Option<usize> {
    // SAFETY: invariant 4 of ffi.
    size.map(|size| unsafe { size(state.0, family) })
}
