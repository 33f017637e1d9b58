//! Blob files as bytes (docs/blob_files.md): what an entry holds in place of its value, and what a
//! file of values holds.
//!
//! Thread safety: pure functions and plain data. Not here: files that are open, and which there
//! are.

pub mod format;
pub mod index;
