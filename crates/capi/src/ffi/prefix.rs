//! Prefix extractors.

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use pumice::SliceTransform;

use super::callback::{DestroyFn, NameFn, Owner, data, read_name};
use crate::ffi::from::{State, bytes};
use crate::ffi::types::Prefix;

/// `char* (*transform)(void*, const char* key, size_t, size_t* length)`.
pub type TransformFn =
    Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize, *mut usize) -> *mut c_char>;
/// `unsigned char (*in_domain)(void*, const char* key, size_t)`.
pub type InDomainFn = Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize) -> u8>;

struct CPrefix {
    owner: Owner,
    transform: TransformFn,
    in_domain: InDomainFn,
    name: String,
}

impl SliceTransform for CPrefix {
    fn name(&self) -> String {
        self.name.clone()
    }
    fn in_domain(&self, key: &[u8]) -> bool {
        // SAFETY: invariant 4 of ffi.
        self.in_domain.is_none_or(|f| unsafe { f(self.owner.state.0, data(key), key.len()) } != 0)
    }
    /// The result may be anywhere, not only in the key: it is valid as long as the program keeps
    /// it, which by RocksDB's contract is at least as long as the key.
    fn transform<'a>(&self, key: &'a [u8]) -> &'a [u8] {
        let Some(transform) = self.transform else { return key };
        let mut length = 0;
        // SAFETY: invariant 4 of ffi; the bytes of the result are valid as said above.
        unsafe {
            let prefix = transform(self.owner.state.0, data(key), key.len(), &mut length);
            bytes(prefix, length).unwrap_or_default()
        }
    }
}

/// A prefix extractor of C's.
pub fn c_prefix(
    state: State,
    destroy: DestroyFn,
    transform: TransformFn,
    in_domain: InDomainFn,
    name: NameFn,
) -> Prefix {
    let name = read_name(name, state, "slice transform");
    Prefix(Arc::new(CPrefix { owner: Owner { state, destroy }, transform, in_domain, name }))
}
