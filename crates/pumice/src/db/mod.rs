//! The public handle of a database. Nothing else of the crate imports it but
//! the rooms below it.

pub(crate) mod api;
pub(crate) mod at;
mod background_api;
pub(crate) mod builder;
mod calls;
pub(crate) mod file_api;
mod follower_api;
pub(crate) mod forms;
mod ingest_api;
pub(crate) mod multi_scan;
pub(crate) mod replay;
mod secondary_api;
pub(crate) mod sst_file_reader;
pub(crate) mod store;
pub(crate) mod stream;
mod trace_api;
pub(crate) mod view;
mod wal_api;
