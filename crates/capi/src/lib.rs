//! RocksDB's C interface over the engine: `librocksdb.so` and `librocksdb.a`.
//!
//! | module | role |
//! |---|---|
//! | `api` | the functions, by area, in safe Rust |
//! | `ffi` | all that touches pointers: arguments, results, call-backs, handles, types |
//! | `signatures` | every function has the types of the table |
//!
//! What a function does without C is in the crate `pumice-binding`. The build script (`build/`)
//! writes the functions that are all alike from two tables, and stubs for what is missing.
//!
//! Thread safety: that of RocksDB's interface: handles of databases, options that nobody changes,
//! caches and the like are shared between threads; an iterator or a batch belongs to one at a time.
#![deny(unsafe_code)]
#![warn(missing_docs)]

mod api;
mod ffi;
mod signatures;

pub use api::*;
#[doc(hidden)]
pub use ffi::call::planted;
pub use ffi::generated::*;
