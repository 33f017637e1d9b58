//! The index builder seen as a part that prepares entries (on the thread that emits blocks) and a
//! part that takes them with the block's handle (in block order, by whoever writes).
//!
//! One owner each.

use pumice_base::InternalKeyComparator;

use crate::build::index_builder::{IndexBuilder, IndexForm};
use crate::handle::BlockHandle;

/// What the index has to know about a block; its buffers are reused.
#[derive(Debug, Default)]
pub(crate) struct IndexEntry {
    last: Vec<u8>,
    next: Vec<u8>,
    has_next: bool,
}

impl IndexEntry {
    /// Bytes that the entry will take in the index, roughly.
    pub fn estimated_bytes(&self) -> usize {
        self.last.len() + 8
    }
}

/// Prepares entries.
#[derive(Debug)]
pub(crate) struct Separators;

impl Separators {
    /// Prepares the entry of the block that ends with `last`; `next` begins the next block.
    pub fn prepare(&self, last: &[u8], next: Option<&[u8]>, _first: &[u8], entry: &mut IndexEntry) {
        entry.last.clear();
        entry.last.extend_from_slice(last);
        entry.next.clear();
        entry.next.extend_from_slice(next.unwrap_or(&[]));
        entry.has_next = next.is_some();
    }
}

/// Collects entries with their handles.
#[derive(Debug)]
pub(crate) struct Index(pub IndexBuilder);

impl Index {
    pub fn new(comparator: InternalKeyComparator, form: IndexForm) -> Self {
        Index(IndexBuilder::new(comparator, form))
    }

    /// Adds the next block.
    pub fn push(&mut self, entry: &IndexEntry, handle: BlockHandle) {
        self.0.add(&entry.last, entry.has_next.then_some(&entry.next), handle);
    }
}
