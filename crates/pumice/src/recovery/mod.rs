//! Reads a database's directory for an open: its lock, CURRENT, the MANIFEST and the versions in
//! it.

pub(crate) mod best_efforts;
pub(crate) mod consistent_read;
pub(crate) mod destroy;
pub(crate) mod leader;
pub(crate) mod lock;
pub(crate) mod manifest_reader;
pub(crate) mod manifest_tail;
pub(crate) mod table_dirs;
pub(crate) mod version_recovery;
pub(crate) mod wal_filter;
