//! The public handle of a database. Nothing else of the crate imports it.

pub(crate) mod api;
pub(crate) mod async_api;
pub(crate) mod builder;
pub(crate) mod file_api;
mod ingest_api;
mod operands;
mod reads;
mod secondary_api;
mod wal_api;
mod writes;
