//! Blob files as recorded in the MANIFEST: added files and garbage.
//!
//! Thread safety: plain data.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::edit::BlobFileAddition;

/// One blob file of a version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlobFileMetaData {
    /// The file as it was added.
    pub addition: BlobFileAddition,
    /// Blobs that no table refers to any more.
    pub garbage_count: u64,
    /// Bytes of the values that are garbage.
    pub garbage_bytes: u64,
}

impl BlobFileMetaData {
    /// No table refers to any blob of the file.
    pub fn is_all_garbage(&self) -> bool {
        self.garbage_count >= self.addition.blob_count
    }
}

/// The blob files of a version by number.
pub type BlobFiles = BTreeMap<u64, Arc<BlobFileMetaData>>;
