//! Blob files: large values apart from their keys, in RocksDB's format (docs/blob_files.md).
//!
//! | file | what |
//! |---|---|
//! | `index` | what an entry holds in place of its value |
//! | `format` | the bytes of a blob file |
//! | `file` | one file, open for reads |
//! | `references` | how much of each file entries refer to: garbage is the difference of two sums |
//!
//! Not here: which files there are (`pumice_manifest::blob`), which are open
//! (`version::blob_files`), what readers and jobs do with an index (`read::elsewhere`).

pub(crate) mod file;
pub(crate) mod format;
pub mod index;
pub(crate) mod references;
