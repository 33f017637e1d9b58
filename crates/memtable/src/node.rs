//! Nodes of the skip list and their links.
//!
//! ```text
//!      .. | link 1: next, prefix | link 0: next, prefix | Entry ..
//!                                                       ^ node pointer
//! ```
//!
//! Thread safety: links are atomics; what they promise are the invariants of `skiplist`, which the
//! comments here cite.

use std::sync::atomic::{AtomicPtr, AtomicU64};

use crate::entry::Entry;

/// A node, or the head, or null.
pub(crate) type Node = *mut Entry;

/// One forward pointer (invariant 4).
#[repr(C)]
pub(crate) struct Link {
    pub(crate) next: AtomicPtr<Entry>,
    pub(crate) prefix: AtomicU64,
}

/// # Safety
/// `node` has more than `level` links.
#[inline(always)]
pub(crate) unsafe fn link<'a>(node: Node, level: usize) -> &'a Link {
    // SAFETY: links lie below the entry (head picture).
    unsafe { &*node.cast::<Link>().sub(level + 1) }
}

/// # Safety
/// `node` has more than `level` links and no other thread can reach it on that level.
#[inline]
pub(crate) unsafe fn init_link(node: Node, level: usize, next: Node, prefix: u64) {
    // SAFETY: memory for the link, maybe not yet initialised, not shared.
    unsafe {
        let fresh = Link { next: AtomicPtr::new(next), prefix: AtomicU64::new(prefix) };
        node.cast::<Link>().sub(level + 1).write(fresh);
    }
}
