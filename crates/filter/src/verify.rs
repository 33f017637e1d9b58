//! `detect_filter_construct_corruption`: was memory damaged between adding a key and the filter?
//!
//! The messages are RocksDB's. Pure functions.

use std::ops::BitXorAssign;

use pumice_base::{Error, Result};

use crate::dedup::KeyHashes;

/// The hashes are those that were added and each of them matches.
///
/// # Errors
/// `Corruption` otherwise.
pub(crate) fn verify<H: Copy + Eq + Default + BitXorAssign>(
    hashes: &KeyHashes<H>,
    matches: impl Fn(H) -> bool,
) -> Result<()> {
    if !hashes.is_intact() {
        return Err(Error::corruption("Filter's hash entries checksum mismatched"));
    }
    if !hashes.iter().all(matches) {
        return Err(Error::corruption("Corrupted filter content"));
    }
    Ok(())
}
