//! pumice
#![forbid(unsafe_code)]
#![warn(missing_docs)]
pub(crate) mod compaction;
pub mod db;
pub(crate) mod flush;
pub mod options;
pub(crate) mod read;
pub mod stats;
pub(crate) mod table_cache;
pub mod write;
pub use db::api::Db;
pub use db::properties::LiveFile;
pub use db::{Snapshot, column_family::ColumnFamily, open::ColumnFamilyDescriptor, requests::*};
pub use options::{Options, DbOptions, ColumnFamilyOptions, BlockBasedTableOptions};
pub use read::iterator::DbIterator; pub use read::pinned::PinnedSlice; pub use write::batch::WriteBatch;
pub use pumice_base::{Error, ErrorKind, Result};
