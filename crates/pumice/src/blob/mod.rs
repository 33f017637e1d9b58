//! Blob files: large values apart from their keys, in RocksDB's format (docs/blob_files.md).
//!
//! | file | what |
//! |---|---|
//! | `file` | one file, open for reads |
//! | `record_key` | the key in a record, with its timestamp |
//! | `references` | how much of each file entries refer to: garbage is the difference of two sums |
//!
//! Not here: their bytes (`pumice_table::blob`), which files there are (`pumice_manifest::blob`),
//! which are open (`version::blob_files`), what readers and jobs do with an index
//! (`read::elsewhere`).

use pumice_manifest::blob::{BLOB_FILE_FOOTER_LEN, BLOB_FILE_HEADER_LEN};
use pumice_table::blob::format::{FOOTER_LEN, HEADER_LEN};

pub(crate) mod file;
pub(crate) mod record_key;
pub(crate) mod references;

const _: () = assert!(HEADER_LEN as u64 == BLOB_FILE_HEADER_LEN);
const _: () = assert!(FOOTER_LEN as u64 == BLOB_FILE_FOOTER_LEN);
