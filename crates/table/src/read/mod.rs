//! Reading tables: opening, point lookups, iteration, and the decoded forms of blocks.
//!
//! `open` makes a [`table::Table`]; `table`, `partitioned` and `next_blocks` answer point lookups,
//! `iter` and `iter_blocks` iterate, `estimates` estimates sizes, `verify` reads everything,
//! `by_trie` are reads through a trie index, `salvage` reads the rest of a damaged table, `uncache`
//! removes cached blocks. Under them: `file` (checksums, decompression), `block` and `index`
//! (decoded blocks), `scan` and `cursor` (walking a block), `embedded` (values in records of the
//! table), `protect` (blocks that change in memory), `cached_block` (entries of the block cache),
//! `secondary` (those of the secondary one), `persistent` (blocks in a persistent cache), `context`
//! (parameters of an open and of a read), `read_amp` (which part of a block is used), `observe`
//! (reports to statistics and perf contexts).
//!
//! Thread safety: see each module. Nothing here writes.

pub(crate) mod block;
pub(crate) mod blocks;
mod by_trie;
pub(crate) mod cached_block;
pub(crate) mod context;
pub(crate) mod cursor;
pub(crate) mod embedded;
pub(crate) mod estimates;
pub(crate) mod file;
pub(crate) mod index;
pub(crate) mod iter;
mod iter_blocks;
mod next_blocks;
mod observe;
pub(crate) mod open;
pub(crate) mod partitioned;
mod persistent;
pub(crate) mod protect;
pub(crate) mod read_amp;
pub(crate) mod salvage;
pub(crate) mod scan;
pub(crate) mod secondary;
pub(crate) mod table;
mod uncache;
mod verify;
