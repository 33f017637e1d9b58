//! Ingestion: table files that were made outside enter a database without being rewritten.
//!
//! | module | role |
//! |---|---|
//! | `writer` | [`SstFileWriter`] makes such files |
//! | `request` | what a call asks for, and what is refused at once |
//! | `external` | opens and checks a file, finds its bounds |
//! | `imported` | the same for a file of an exported column family, which keeps its place |
//! | `transfer` | links or copies it into the directory, durably |
//! | `source` | whether a name is still that of the file that was brought in |
//! | `checksums` | compares checksums of whole files with the caller's |
//! | `replace` | which files of the tree a replaced key range takes away |
//! | `place` | level and sequence number, from the tree alone |
//!
//! The call, everything above in order and the one change of the MANIFEST, is `engine::ingest_job`.
//! Semantics, defaults and error texts are RocksDB 10.10's; docs/ingestion.md says where this
//! engine promises more.
//!
//! Thread safety: [`SstFileWriter`] has one user; ingestion may be called from any thread, calls
//! take turns once they write to the database.
//!
//! Invariants: (1) all files of a call become visible at one moment, and after a crash all or none
//! are there; (2) no snapshot taken before sees anything of them, if `snapshot_consistency`; (3) a
//! file enters the MANIFEST only when its bytes and its name are durable; (4) a file never goes to
//! a level at or below one that holds, or is about to hold, an entry in its range.

pub(crate) mod checksums;
pub(crate) mod external;
pub(crate) mod imported;
pub(crate) mod place;
pub(crate) mod replace;
pub(crate) mod request;
pub(crate) mod source;
pub(crate) mod transfer;
mod writer;

use std::path::PathBuf;

use crate::version::family::ColumnFamily;

pub use writer::{ExternalSstFileInfo, SstFileWriter};

/// How files are ingested.
///
/// Example: that of [`IngestExternalFileArg`](crate::IngestExternalFileArg).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IngestExternalFileOptions {
    /// Take the files: link them into the database and remove their old names afterwards. Not for
    /// tables of the database itself.
    pub move_files: bool,
    /// Link the files, and leave their old names. Not together with `move_files`.
    pub link_files: bool,
    /// Copy a file that cannot be linked because it is on another file system.
    pub failed_move_fall_back_to_copy: bool,
    /// Existing snapshots do not see the files.
    pub snapshot_consistency: bool,
    /// The files may be given a sequence number. If not, they must not overlap existing data.
    pub allow_global_seqno: bool,
    /// Memtables may be flushed while writes wait. If not, they must not overlap the files.
    pub allow_blocking_flush: bool,
    /// Put the files below everything: existing keys take precedence. Needs a column family that
    /// was always opened with `allow_ingest_behind`.
    pub ingest_behind: bool,
    /// Store the sequence number in the file too, for RocksDB before 5.16. Files are then copied.
    pub write_global_seqno: bool,
    /// Read and check every block first.
    pub verify_checksums_before_ingest: bool,
    /// Bytes read at a time by that, and for checksums of whole files; 0 for a default.
    pub verify_checksums_readahead_size: usize,
    /// Compute the checksums of whole files, and compare them with the given ones. If not, those
    /// are trusted.
    pub verify_file_checksum: bool,
    /// Fail with TryAgain rather than put a file above the last level.
    pub fail_if_not_bottommost_level: bool,
    /// Take files that a database wrote, with the sequence numbers that their entries have. They
    /// must share no key with existing data. If files share keys with each other, a later one must
    /// hold the newer versions: those of deeper levels come first.
    pub allow_db_generated_files: bool,
    /// Blocks read for the ingestion may stay in the block cache: index, filter and the ends of the
    /// files, and blocks of the database read to find a place. The same for all column families of
    /// a call.
    pub fill_cache: bool,
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
            verify_checksums_readahead_size: 0,
            verify_file_checksum: true,
            fail_if_not_bottommost_level: false,
            allow_db_generated_files: false,
            fill_cache: true,
        }
    }
}

/// A range of user keys, the limit not included; without both ends, all keys. One end alone is
/// NotSupported.
///
/// Example: that of [`IngestExternalFileArg`](crate::IngestExternalFileArg).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeOpt {
    /// The first key.
    pub start: Option<Vec<u8>>,
    /// The first key after it.
    pub limit: Option<Vec<u8>>,
}

/// The files for one column family of a [`crate::Db::ingest_external_files`] call.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// # let dir = std::env::temp_dir().join(format!("pumice-ingestarg-{}", std::process::id()));
/// # let db = pumice::Db::builder(&dir).create(true).open()?;
/// use pumice::{
///     ExternalSstFileInfo, IngestExternalFileArg, IngestExternalFileOptions, Options, RangeOpt,
///     SstFileWriter,
/// };
/// db.put("fruit:old", "1")?;
/// let path = dir.join("new.sst");
/// let mut writer = SstFileWriter::new(&Options::default())?;
/// writer.open(&path)?;
/// writer.put("fruit:new", "2")?;
/// let written: ExternalSstFileInfo = writer.finish()?;
/// assert_eq!(written.largest_key, b"fruit:new");
/// // The file, in place of all that was in the range.
/// let arg = IngestExternalFileArg {
///     column_family: db.default_column_family().clone(),
///     external_files: vec![path],
///     options: IngestExternalFileOptions { snapshot_consistency: false, ..Default::default() },
///     files_checksums: Vec::new(),
///     files_checksum_func_names: Vec::new(),
///     atomic_replace_range: Some(RangeOpt {
///         start: Some(b"fruit:".to_vec()),
///         limit: Some(b"fruit;".to_vec()),
///     }),
/// };
/// db.ingest_external_files(&[arg])?;
/// assert_eq!(db.iter()?.count(), 1);
/// # db.close()?;
/// # pumice::Db::destroy(&Default::default(), &dir)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct IngestExternalFileArg {
    /// Where they go.
    pub column_family: ColumnFamily,
    /// The files. Of two that hold the same key the later wins.
    pub external_files: Vec<PathBuf>,
    /// How.
    pub options: IngestExternalFileOptions,
    /// Checksums of the files, as `files_checksum_func_names` say. They are kept in the MANIFEST,
    /// unless `write_global_seqno` may change the files. Empty, or one for each file.
    pub files_checksums: Vec<Vec<u8>>,
    /// Functions of those checksums, as the `file_checksum_gen_factory` knows them; without one
    /// `FileChecksumCrc32c` (four bytes, big end first).
    pub files_checksum_func_names: Vec<String>,
    /// All existing data in this range is removed at the same time, without a tombstone: table
    /// files inside are dropped as a whole, and one that is partly inside is InvalidArgument. The
    /// new files must lie inside. Needs `snapshot_consistency = false`: snapshots lose the old
    /// entries too.
    pub atomic_replace_range: Option<RangeOpt>,
}

impl IngestExternalFileArg {
    /// `files` into `column_family`, without checksums, and replacing nothing.
    pub fn new(
        column_family: &ColumnFamily,
        files: Vec<PathBuf>,
        options: &IngestExternalFileOptions,
    ) -> Self {
        IngestExternalFileArg {
            column_family: column_family.clone(),
            external_files: files,
            options: options.clone(),
            files_checksums: Vec::new(),
            files_checksum_func_names: Vec::new(),
            atomic_replace_range: None,
        }
    }
}
