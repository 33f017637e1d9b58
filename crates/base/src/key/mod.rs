//! Keys as types: a user's key, an internal key, and what a comparator says of them.
//!
//! ```text
//! internal key = user key ‖ fixed64((sequence << 8) | type)
//! user key     = the user's bytes ‖ timestamp of `Comparator::timestamp_size` bytes (0 for most)
//! ```
//!
//! Order: user keys ascending, then the trailer as an integer descending, so that the newest
//! version of a key comes first (docs/format/primitives.md#internal-keys).
//!
//! [`UserKey`] and [`InternalKey`] are views: as large as the slice that they hold, copied as it
//! is. Neither implements `==` or `<`, so that only a comparator can compare two keys. Code above
//! this module that splits, builds or compares keys does so through these types; the formats of
//! blocks and of memtables, which take keys apart, are the exceptions, listed in
//! `xtask/src/tidy/raw_keys.rs`.

mod comparator;
mod internal;
mod internal_order;
mod numbers;
mod timestamped;
mod user;

pub use comparator::{Comparator, CustomComparator, compare_at_one_time, same_user_key};
pub use internal::{
    InternalKey, ParsedInternalKey, TRAILER_LEN, append_after_versions, append_before_versions,
    append_internal_key, before_versions, internal_key, pack, parse_internal_key, seek_key,
    seek_key_in, unpack,
};
pub use internal_order::InternalKeyComparator;
pub use numbers::*;
pub use timestamped::{BYTEWISE_U64_TS, REVERSE_BYTEWISE_U64_TS, U64_TS_LEN, U64_TS_SUFFIX};
pub use user::UserKey;
