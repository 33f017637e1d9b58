//! Ingestion: table files that were made outside enter a database without being rewritten.
//!
//! | module | role |
//! |---|---|
//! | `writer` | [`SstFileWriter`] makes such files |
//! | `external` | opens and checks one, finds its bounds |
//! | `transfer` | links or copies it into the directory, durably |
//! | `place` | level and sequence number, from the tree alone |
//! | `job` | the call: everything above in order, and the one change of the MANIFEST |
//!
//! Semantics, defaults and error texts are RocksDB 10.10's; docs/ingestion.md says where this
//! engine promises more.
//!
//! Thread safety: [`SstFileWriter`] has one user; ingestion may be called from any thread, calls
//! take turns once they write to the database.
//!
//! Invariants: (1) all files of a call become visible at one moment and, across a crash, all or
//! none are there; (2) no snapshot taken before sees anything of them, if `snapshot_consistency`;
//! (3) a file enters the MANIFEST only when its bytes and its name are durable; (4) a file never
//! goes to a level at or below one that holds, or is about to hold, an entry in its range.

mod external;
pub(crate) mod job;
mod place;
pub(crate) mod transfer;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pumice_base::{Error, Result};

use crate::db::api::Db;
use crate::db::column_family::ColumnFamily;
use crate::ingest::job::Request;

pub use writer::{ExternalSstFileInfo, SstFileWriter};

/// How files are ingested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IngestExternalFileOptions {
    /// Take the files: link them into the database and remove their old names afterwards.
    pub move_files: bool,
    /// Link the files, and leave their old names. Not together with `move_files`.
    pub link_files: bool,
    /// Copy a file that cannot be linked because it is on another file system.
    pub failed_move_fall_back_to_copy: bool,
    /// Existing snapshots do not see the files.
    pub snapshot_consistency: bool,
    /// The files may be given a sequence number. Without, they must not overlap what is there.
    pub allow_global_seqno: bool,
    /// Memtables may be flushed while writes wait. Without, they must not overlap the files.
    pub allow_blocking_flush: bool,
    /// Put the files behind everything: existing keys win over theirs. Needs a column family
    /// that was opened with `allow_ingest_behind` all its life.
    pub ingest_behind: bool,
    /// Store the sequence number in the file too, for RocksDB before 5.16. Files are then copied.
    pub write_global_seqno: bool,
    /// Read and check every block first.
    pub verify_checksums_before_ingest: bool,
    /// Fail with TryAgain rather than put a file above the last level.
    pub fail_if_not_bottommost_level: bool,
}

impl Default for IngestExternalFileOptions {
    fn default() -> Self {
        IngestExternalFileOptions {
            move_files: false,
            link_files: false,
            failed_move_fall_back_to_copy: true,
            snapshot_consistency: true,
            allow_global_seqno: true,
            allow_blocking_flush: true,
            ingest_behind: false,
            write_global_seqno: false,
            verify_checksums_before_ingest: false,
            fail_if_not_bottommost_level: false,
        }
    }
}

/// The files for one column family of a [`Db::ingest_external_files`] call.
#[derive(Clone, Debug)]
pub struct IngestExternalFileArg {
    /// Where they go.
    pub column_family: ColumnFamily,
    /// The files. Of two that hold the same key the later wins.
    pub external_files: Vec<PathBuf>,
    /// How.
    pub options: IngestExternalFileOptions,
}

impl Db {
    /// Adds table files made by [`SstFileWriter`] to the default column family. They overwrite
    /// what is there, and become visible together. Writes wait while they are added.
    ///
    /// # Errors
    /// InvalidArgument, NotSupported, Corruption and TryAgain with RocksDB's texts for files or
    /// options that do not fit; I/O errors; ShutdownInProgress; the background error. Then none of
    /// the files was added, unless the MANIFEST failed: then a reopen decides, for all of them.
    pub fn ingest_external_file<P: AsRef<Path>>(
        &self,
        options: &IngestExternalFileOptions,
        files: &[P],
    ) -> Result<()> {
        self.ingest_external_file_cf(options, self.default_column_family(), files)
    }

    /// [`Db::ingest_external_file`] into `cf`.
    ///
    /// # Errors
    /// As [`Db::ingest_external_file`].
    pub fn ingest_external_file_cf<P: AsRef<Path>>(
        &self,
        options: &IngestExternalFileOptions,
        cf: &ColumnFamily,
        files: &[P],
    ) -> Result<()> {
        self.ingest_external_files(&[IngestExternalFileArg {
            column_family: cf.clone(),
            external_files: files.iter().map(|file| file.as_ref().to_path_buf()).collect(),
            options: options.clone(),
        }])
    }

    /// [`Db::ingest_external_file`] into several column families, each named once: all files of
    /// all of them are added, or none.
    ///
    /// # Errors
    /// As [`Db::ingest_external_file`].
    pub fn ingest_external_files(&self, args: &[IngestExternalFileArg]) -> Result<()> {
        let mut requests = Vec::with_capacity(args.len());
        for arg in args {
            if !arg.column_family.belongs_to(self.inner()) {
                return Err(Error::invalid_argument("column family handle of another database"));
            }
            requests.push(Request {
                cf: Arc::clone(&arg.column_family.data),
                files: &arg.external_files,
                options: &arg.options,
            });
        }
        self.inner().ingest(&requests)
    }
}
