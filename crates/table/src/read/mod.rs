//! Reading tables: opening, point lookups, iteration, and the decoded forms of blocks.
//!
//! `open` makes a [`table::Table`]; `table`, `partitioned` and `behind` answer point lookups,
//! `iter` iterates, `estimates` tells sizes, `verify` reads everything, `salvage` what is left of a
//! damaged table, `uncache` removes what is cached. Under them: `file` (checksums, decompression),
//! `block` and `index` (decoded blocks), `scan` and `cursor` (walking a block), `cached_block`
//! (what the block cache holds), `context` (what an open and a read are told), `read_amp` (what of
//! it is used), `observe` (what is reported to statistics and perf contexts).
//!
//! Thread safety: see each module. Nothing here writes.

mod behind;
pub(crate) mod block;
pub(crate) mod blocks;
pub(crate) mod cached_block;
pub(crate) mod context;
pub(crate) mod cursor;
pub(crate) mod estimates;
pub(crate) mod file;
pub(crate) mod index;
pub(crate) mod iter;
mod observe;
pub(crate) mod open;
pub(crate) mod partitioned;
pub(crate) mod read_amp;
pub(crate) mod salvage;
pub(crate) mod scan;
pub(crate) mod table;
mod uncache;
mod verify;
