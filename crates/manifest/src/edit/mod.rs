//! One record of the MANIFEST: what changed, as a list of tagged fields
//! (docs/format/manifest.md#edits).
//!
//! Thread safety: plain data. Invariants: (1) `decode` never panics and allocates no more than a
//! small multiple of its input; (2) `decode(encode(e))` gives the fields of `e`; (3) tag numbers
//! are persisted and never change.

mod debug;
mod decode;
mod encode;
mod json;

use std::sync::Arc;

use crate::file_meta::FileMetaData;

/// Field numbers of an edit.
mod tag {
    pub const COMPARATOR: u32 = 1;
    pub const LOG_NUMBER: u32 = 2;
    pub const NEXT_FILE_NUMBER: u32 = 3;
    pub const LAST_SEQUENCE: u32 = 4;
    pub const COMPACT_CURSOR: u32 = 5;
    pub const DELETED_FILE: u32 = 6;
    pub const NEW_FILE: u32 = 7;
    pub const PREV_LOG_NUMBER: u32 = 9;
    pub const MIN_LOG_NUMBER_TO_KEEP: u32 = 10;
    pub const NEW_FILE2: u32 = 100;
    pub const NEW_FILE3: u32 = 102;
    pub const NEW_FILE4: u32 = 103;
    pub const COLUMN_FAMILY: u32 = 200;
    pub const COLUMN_FAMILY_ADD: u32 = 201;
    pub const COLUMN_FAMILY_DROP: u32 = 202;
    pub const MAX_COLUMN_FAMILY: u32 = 203;
    pub const IN_ATOMIC_GROUP: u32 = 300;
    pub const BLOB_ADDITION: u32 = 400;
    pub const BLOB_GARBAGE: u32 = 401;
    /// A tag with this bit may be skipped by a reader that does not know it.
    pub const SAFE_IGNORE: u32 = 1 << 13;
    pub const DB_ID: u32 = 8193;
    pub const BLOB_ADDITION_OLD: u32 = 8194;
    pub const BLOB_GARBAGE_OLD: u32 = 8195;
    pub const WAL_ADDITION_OLD: u32 = 8196;
    pub const WAL_DELETION_OLD: u32 = 8197;
    pub const FULL_HISTORY_TS_LOW: u32 = 8198;
    pub const WAL_ADDITION: u32 = 8199;
    pub const WAL_DELETION: u32 = 8200;
    pub const PERSIST_UDT: u32 = 8201;
    pub const LAST_MANIFEST_SIZE: u32 = 8203;
}

/// Field numbers inside a NewFile4 field and its relatives.
mod file_tag {
    pub const TERMINATE: u32 = 1;
    pub const NEED_COMPACTION: u32 = 2;
    pub const MIN_LOG_NUMBER_TO_KEEP: u32 = 3;
    pub const OLDEST_BLOB_FILE: u32 = 4;
    pub const OLDEST_ANCESTER_TIME: u32 = 5;
    pub const FILE_CREATION_TIME: u32 = 6;
    pub const FILE_CHECKSUM: u32 = 7;
    pub const FILE_CHECKSUM_FUNC: u32 = 8;
    pub const TEMPERATURE: u32 = 9;
    pub const MIN_TIMESTAMP: u32 = 10;
    pub const MAX_TIMESTAMP: u32 = 11;
    pub const UNIQUE_ID: u32 = 12;
    pub const EPOCH_NUMBER: u32 = 13;
    pub const COMPENSATED_RANGE_DELETION: u32 = 14;
    pub const TAIL_SIZE: u32 = 15;
    pub const UDT_PERSISTED: u32 = 16;
    /// An unknown tag with this bit may not be skipped.
    pub const CRITICAL: u32 = 1 << 6;
    pub const PATH_ID: u32 = 65;
    /// Ends the custom fields of a blob record.
    pub const BLOB_END: u32 = 0;
    /// Ends a WAL addition.
    pub const WAL_TERMINATE: u32 = 1;
    pub const WAL_SYNCED_SIZE: u32 = 2;
}

/// A new blob file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlobFileAddition {
    /// File number.
    pub number: u64,
    /// Blobs in the file.
    pub blob_count: u64,
    /// Bytes of all values.
    pub blob_bytes: u64,
    /// Name of the checksum function, empty if none.
    pub checksum_method: String,
    /// Checksum of the file, empty if none.
    pub checksum_value: Vec<u8>,
}

/// Blobs of a file that became garbage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlobFileGarbage {
    /// File number.
    pub number: u64,
    /// More garbage blobs.
    pub garbage_count: u64,
    /// Bytes of the values that are garbage.
    pub garbage_bytes: u64,
}

/// A WAL that was created, or synced up to a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalAddition {
    /// File number.
    pub number: u64,
    /// Bytes known to be durable.
    pub synced_size: Option<u64>,
}

/// One MANIFEST record. Absent fields are `None` or empty.
#[derive(Clone, Debug, Default)]
pub struct VersionEdit {
    /// Identity of the database.
    pub db_id: Option<String>,
    /// Name of the column family's comparator.
    pub comparator: Option<String>,
    /// The column family persists user-defined timestamps.
    pub persist_user_defined_timestamps: Option<bool>,
    /// WALs below this number hold nothing unflushed for the column family.
    pub log_number: Option<u64>,
    /// LevelDB's previous log, always 0.
    pub prev_log_number: Option<u64>,
    /// Lower bound of all future file numbers.
    pub next_file_number: Option<u64>,
    /// Newest sequence number.
    pub last_sequence: Option<u64>,
    /// WALs below this number are obsolete for the whole database.
    pub min_log_number_to_keep: Option<u64>,
    /// Largest column family id ever used.
    pub max_column_family: Option<u32>,
    /// Where the next round-robin compaction of a level starts.
    pub compact_cursors: Vec<(usize, Vec<u8>)>,
    /// Files removed from a level; applied before `new_files`.
    pub deleted_files: Vec<(usize, u64)>,
    /// Files that enter a level.
    pub new_files: Vec<(usize, Arc<FileMetaData>)>,
    /// New blob files.
    pub blob_additions: Vec<BlobFileAddition>,
    /// New garbage in blob files.
    pub blob_garbage: Vec<BlobFileGarbage>,
    /// WALs to track.
    pub wal_additions: Vec<WalAddition>,
    /// Forget tracked WALs below this number.
    pub wal_deletion: Option<u64>,
    /// The column family this edit is about; 0 is the default one.
    pub column_family: u32,
    /// Creates the column family under this name.
    pub add_column_family: Option<String>,
    /// Drops the column family.
    pub drop_column_family: bool,
    /// Member of an atomic group; this many members follow.
    pub atomic_group_remaining: Option<u32>,
    /// History older than this timestamp may be gone.
    pub full_history_ts_low: Option<Vec<u8>>,
    /// Size of the last manifest that was written as a snapshot.
    pub last_compacted_manifest_size: Option<u64>,
    /// Fields that were skipped because this build does not know them.
    pub unknown_skipped: u32,
}

impl VersionEdit {
    /// An edit for column family `id`.
    pub fn for_column_family(id: u32) -> Self {
        VersionEdit { column_family: id, ..VersionEdit::default() }
    }

    /// Adds `file` to `level`.
    pub fn add_file(&mut self, level: usize, file: Arc<FileMetaData>) {
        self.new_files.push((level, file));
    }

    /// Removes file `number` from `level`.
    pub fn delete_file(&mut self, level: usize, number: u64) {
        self.deleted_files.push((level, number));
    }

    /// Highest level named by a file of the edit.
    pub fn max_level(&self) -> Option<usize> {
        let added = self.new_files.iter().map(|(level, _)| *level);
        added.chain(self.deleted_files.iter().map(|(level, _)| *level)).max()
    }
}
