//! Replaces zstd in a build without the feature `zstd`: a compressed log is rejected.
//!
//! Thread safety: no state.

use pumice_base::{Error, Result};

/// Never made.
pub(crate) enum RecordCompressor {}

impl RecordCompressor {
    pub(crate) fn new() -> Result<Self> {
        Err(not_built())
    }
    pub(crate) fn compress(&mut self, _parts: &[&[u8]]) -> Result<&[u8]> {
        match *self {}
    }
}

/// Never made.
pub(crate) enum RecordDecompressor {}

impl RecordDecompressor {
    pub(crate) fn new() -> Result<Self> {
        Err(not_built())
    }
    pub(crate) fn start(&mut self) -> Result<()> {
        match *self {}
    }
    pub(crate) fn is_complete(&self) -> bool {
        match *self {}
    }
    pub(crate) fn feed(&mut self, _fragment: &[u8], _out: &mut Vec<u8>) -> Result<()> {
        match *self {}
    }
}

fn not_built() -> Error {
    Error::not_supported("a log compressed with ZSTD: not in this build, the feature zstd is off")
}
