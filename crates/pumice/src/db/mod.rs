//! The public handle of a database. Nothing else of the crate imports it.

pub(crate) mod api;
pub(crate) mod builder;
mod calls;
pub(crate) mod file_api;
pub(crate) mod forms;
mod ingest_api;
mod secondary_api;
pub(crate) mod store;
mod wal_api;
