//! Replaces zstd in a build without the feature `zstd`: nothing works, and these are never called,
//! since `CompressionType::check_built` rejects the codec first.
//!
//! Thread safety: no state.

use std::mem::MaybeUninit;
use std::sync::Arc;

use pumice_base::{Error, Result};

use crate::options::{CompressionOptions, CompressionType};

/// A dictionary that is never made.
pub(crate) enum ZstdDict {}

impl ZstdDict {
    pub(crate) fn new(_bytes: &[u8], _options: &CompressionOptions) -> Option<Self> {
        None
    }
    pub(crate) fn memory_bytes(&self) -> usize {
        match *self {}
    }
}

/// A compressor that is never made.
pub(crate) enum Zstd {}

impl Zstd {
    pub(crate) fn new(_options: &CompressionOptions, _dict: Option<Arc<ZstdDict>>) -> Result<Self> {
        Err(CompressionType::Zstd.not_built())
    }
    pub(crate) fn compress(
        &mut self,
        _raw: &[u8],
        _dst: &mut [MaybeUninit<u8>],
        _failure: &mut Option<Error>,
    ) -> Option<usize> {
        match *self {}
    }
}

/// A dictionary that is never made.
pub(crate) enum UnzstdDict {}

impl UnzstdDict {
    pub(crate) fn new(_bytes: &[u8]) -> Option<Self> {
        None
    }
    pub(crate) fn memory_bytes(&self) -> usize {
        match *self {}
    }
}

/// Reads nothing.
#[derive(Default)]
pub(crate) struct Unzstd;

impl Unzstd {
    pub(crate) fn decompress(
        &mut self,
        _stream: &[u8],
        _dict: Option<&UnzstdDict>,
        _dst: &mut [MaybeUninit<u8>],
    ) -> Option<usize> {
        None
    }
}

/// No dictionary.
pub(crate) fn train(_samples: &[u8], _sizes: &[usize], _max: usize) -> Vec<u8> {
    Vec::new()
}

/// No dictionary.
pub(crate) fn finalize(
    _samples: &[u8],
    _sizes: &[usize],
    _max: usize,
    _options: &CompressionOptions,
) -> Vec<u8> {
    Vec::new()
}
