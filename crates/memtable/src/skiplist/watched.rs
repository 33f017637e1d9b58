//! The search that shows each node on its way, so that its caller finds one that has changed.
//!
//! It goes down from the head, as RocksDB's does: without the index and without the prefixes in the
//! links, which may have changed too. So it reads a node for each step and level, most of them not
//! in the CPU's caches.
//!
//! Thread safety: as the list. Unsafe blocks cite the invariants of the module above.

use std::cmp::Ordering;
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use pumice_base::{Comparator, Result, UserKey};

use super::{Position, SkipList};
use crate::entry::EntryRef;
use crate::node::link;

impl SkipList {
    /// Finds user key and trailer `target`. `look` gets each node that the search comes to, behind
    /// the one that it comes from; None for the head.
    ///
    /// # Errors
    /// The first of `look`.
    pub(crate) fn find_watched<'l>(
        &'l self,
        comparator: &Comparator,
        (key, trailer): (UserKey<'_>, u64),
        look: &mut dyn FnMut(Option<EntryRef<'l>>, EntryRef<'l>) -> Result<()>,
    ) -> Result<Position> {
        let (mut prev, mut bound) = (self.head, ptr::null_mut());
        let (mut level, mut found) = (self.height.load(Relaxed) - 1, false);
        loop {
            // SAFETY: `prev` was reached on this level, or is the head (invariants 1, 2 and 5).
            let next = unsafe { link(prev, level) }.next.load(Acquire);
            if !next.is_null() {
                look((prev != self.head).then(|| self.entry(prev)), self.entry(next))?;
            }
            if next != bound && !next.is_null() {
                let entry = self.entry(next);
                let at = comparator.compare(entry.user_key(), key);
                let at = at.then_with(|| trailer.cmp(&entry.trailer()));
                if at == Ordering::Less {
                    prev = next;
                    continue;
                }
                (bound, found) = (next, at == Ordering::Equal);
            }
            if level == 0 {
                return Ok(Position { prev, next, found, near: false });
            }
            level -= 1;
        }
    }
}
