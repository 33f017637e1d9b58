//! Blob files as recorded in the MANIFEST: added files and garbage.
//!
//! Thread safety: plain data; [`SharedBlobFile`] is shared by all versions that have the file.
//! Invariant: garbage is at most what the file has (`VersionBuilder` checks it).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::edit::{BlobFileAddition, BlobFileGarbage};
use crate::file_meta::{OnRelease, TableSlot};

/// Bytes of a blob file before its first record.
pub const BLOB_FILE_HEADER_LEN: u64 = 30;
/// Bytes of a blob file after its last record.
pub const BLOB_FILE_FOOTER_LEN: u64 = 32;

/// What never changes of a blob file. The file can be read while this lives.
#[derive(Default)]
pub struct SharedBlobFile {
    /// The file as it was added.
    pub addition: BlobFileAddition,
    /// Slot for the open file.
    pub open: TableSlot,
    /// Runs when the file can no longer be read.
    pub on_release: OnRelease,
}

impl SharedBlobFile {
    /// Length of the whole file in bytes.
    pub fn file_size(&self) -> u64 {
        let fixed = BLOB_FILE_HEADER_LEN + BLOB_FILE_FOOTER_LEN;
        self.addition.blob_bytes.saturating_add(fixed)
    }
}

impl fmt::Debug for SharedBlobFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.addition, f)
    }
}

/// One blob file of a version.
#[derive(Clone, Debug, Default)]
pub struct BlobFileMetaData {
    /// The file, the same in all versions.
    pub shared: Arc<SharedBlobFile>,
    /// Blobs that no table refers to any more.
    pub garbage_count: u64,
    /// Bytes of their records.
    pub garbage_bytes: u64,
}

impl BlobFileMetaData {
    /// A file that has just been added.
    pub fn new(addition: BlobFileAddition) -> Self {
        let shared = Arc::new(SharedBlobFile { addition, ..SharedBlobFile::default() });
        BlobFileMetaData { shared, ..BlobFileMetaData::default() }
    }

    /// The file's number.
    pub fn number(&self) -> u64 {
        self.shared.addition.number
    }

    /// The file as it was added.
    pub fn addition(&self) -> &BlobFileAddition {
        &self.shared.addition
    }

    /// No table refers to any blob of the file.
    pub fn is_all_garbage(&self) -> bool {
        self.garbage_count >= self.shared.addition.blob_count
    }

    /// The record of its garbage; None without any.
    pub fn garbage(&self) -> Option<BlobFileGarbage> {
        (self.garbage_count > 0).then(|| BlobFileGarbage {
            number: self.number(),
            garbage_count: self.garbage_count,
            garbage_bytes: self.garbage_bytes,
        })
    }
}

/// The blob files of a version by number.
pub type BlobFiles = BTreeMap<u64, Arc<BlobFileMetaData>>;
