//! The memtable: recent writes in memory, sorted.
//!
//! Layers: `arena` (memory that only grows) < `order` (comparators without virtual calls) < `entry`
//! (layout of a key and value in memory) < `skiplist`, `vector` (representations), `range_del`,
//! `dead_ranges` (where readers found nothing) and `bloom` (a filter) < `memtable` (counters, flush
//! policy, dispatch; `timed` for keys with timestamps; `checked` for reads that look for damage) <
//! `iter` < `ranges`.
//! [`WriteBufferManager`] limits the memory of all memtables together.
//!
//! Thread safety: reads run on any thread during writes without locks (skip list). Writes are
//! either exclusive (`add`) or concurrent (`add_concurrent`); the two kinds must not
//! overlap on one memtable, which the write queue ensures.
#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]
#![deny(unsafe_op_in_unsafe_fn)]

mod arena;
mod bloom;
mod checked;
mod dead_ranges;
mod entry;
mod guard;
mod index;
mod iter;
mod memtable;
mod node;
mod order;
mod range_del;
mod ranges;
mod skiplist;
mod timed;
mod vector;
mod write_buffer_manager;
mod writer;

pub use bloom::BloomOptions;
pub use dead_ranges::DeadRange;
pub use guard::{Checks, entry_checksum, unguarded, unguarded_version};
pub use iter::{MemTableIter, Move};
pub use memtable::{MemTable, MemTableOptions, MemTableRep};
pub use write_buffer_manager::{BufferUser, StallWaiter, WriteBufferManager};

#[cfg(test)]
mod tests;
