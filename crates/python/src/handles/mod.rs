//! The classes: handles of a database, of what is read from it and of what is written to it.
//!
//! Thread safety: see each module.

pub mod batch;
pub mod database;
pub mod scan;
pub mod store;
