//! Files that are no longer needed; `engine::obsolete_files` deletes them.
//!
//! Thread safety: `ObsoleteFiles` belongs to the state lock.

use std::path::PathBuf;
use std::sync::{Arc, Weak};

use pumice_base::FileNumber;
use pumice_manifest::FileMetaData;
use pumice_manifest::blob::SharedBlobFile;
use pumice_table::Table;

/// A table that left its version.
pub(crate) struct ObsoleteTable {
    pub number: FileNumber,
    pub path: PathBuf,
    pub file: Weak<FileMetaData>,
    /// No MANIFEST that recovery could read has its column family.
    pub dropped: bool,
    /// `uncache_aggressiveness` of its column family at that time.
    pub uncache: u32,
    /// The table, if its metadata kept it open then and its blocks are to be uncached.
    pub open: Option<Arc<Table>>,
}

/// A blob file that left its version.
pub(crate) struct ObsoleteBlobFile {
    pub number: FileNumber,
    pub path: PathBuf,
    pub file: Weak<SharedBlobFile>,
    /// As of tables.
    pub dropped: bool,
}

/// Files that are no longer needed.
#[derive(Default)]
pub(crate) struct ObsoleteFiles {
    pub tables: Vec<ObsoleteTable>,
    pub blobs: Vec<ObsoleteBlobFile>,
    pub other: Vec<PathBuf>,
    /// Files that no edit ever named.
    pub unnamed: Vec<PathBuf>,
    pub manifests: Vec<FileNumber>,
    pub unsure: bool,
}

impl ObsoleteFiles {
    /// MANIFEST `number` was replaced, or failed to replace another.
    pub fn manifest(&mut self, number: FileNumber) {
        self.manifests.push(number);
    }
    /// CURRENT may name a MANIFEST that is to be deleted: after a failure this is unknown.
    pub fn may_be_current(&self) -> bool {
        self.unsure
    }
    /// CURRENT may name MANIFEST `number`, or not.
    pub fn manifest_in_doubt(&mut self, number: FileNumber) {
        self.unsure = true;
        self.manifests.push(number);
    }
    /// A file that nothing refers to.
    pub fn file(&mut self, path: PathBuf) {
        self.other.push(path);
    }
}
