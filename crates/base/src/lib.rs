//! The lowest layer of Pumice: what every other crate shares.
//!
//! Errors, byte coding, checksums and hashes, keys and their order, the internal iterator trait,
//! range tombstones, histogram buckets and the traits that users implement.
//! Nothing here touches a file, a clock, a lock or a thread.
#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]
#![deny(unsafe_code)]
#![warn(missing_docs)]

// Here and not where it matters, in `port`: every crate needs this one first.
#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!("pumice runs on 64-bit Linux only");

pub mod checksum;
pub mod coding;
pub mod copying;
pub mod error;
pub mod extension;
pub mod extractor;
pub mod file_checksum;
pub mod hash;
pub mod histogram;
pub mod iterator;
pub mod key;
pub mod limits;
pub mod names;
pub mod narrow;
pub mod order;
pub mod planted;
pub mod random;
pub mod range_tombstone;
mod simd;
pub mod wide_columns;

pub use error::{Error, ErrorKind, Result, Severity, SubCode};
pub use iterator::InternalIterator;
pub use key::{
    Comparator, FileNumber, InternalKey, InternalKeyComparator, SequenceNumber, UserKey, ValueType,
};
pub use limits::SizeLimits;
pub use wide_columns::WideColumn;
