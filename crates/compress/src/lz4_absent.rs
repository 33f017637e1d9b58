//! Replaces liblz4 in a build without the feature `lz4`: nothing is ever compressed or read, and
//! these are never called, since `CompressionType::check_built` rejects the codec first.
//!
//! Thread safety: no state.

use std::mem::MaybeUninit;
use std::sync::Arc;

use crate::options::CompressionType;

/// A mode of nothing.
pub(crate) struct Mode;

impl Mode {
    pub(crate) fn of(_kind: CompressionType, _level: i32) -> Self {
        Mode
    }
}

/// A dictionary of nothing.
pub(crate) struct Lz4Dict;

impl Lz4Dict {
    pub(crate) fn new(_mode: Mode, _bytes: Arc<[u8]>) -> Self {
        Lz4Dict
    }
    pub(crate) fn memory_bytes(&self) -> usize {
        0
    }
}

/// Compresses nothing.
pub(crate) struct Lz4;

impl Lz4 {
    pub(crate) fn new(_mode: Mode, _dict: Option<Arc<Lz4Dict>>) -> Self {
        Lz4
    }
    pub(crate) fn compress(&mut self, _src: &[u8], _dst: &mut [MaybeUninit<u8>]) -> Option<usize> {
        None
    }
}

/// Reads nothing.
pub(crate) fn decompress(_src: &[u8], _dict: &[u8], _dst: &mut [MaybeUninit<u8>]) -> Option<usize> {
    None
}
