//! The first move of a cursor in steps, so that several cursors wait together (`read::ahead`).
//!
//! Thread safety: the cursor's. Invariant: nothing but the steps moves the cursor until no source
//! waits, and then the cursor goes to its first key, or to its last one if that was begun.

use pumice_base::UserKey;
use pumice_table::{Goal, TableIter};

use super::buffers::Buffers;
use super::{DbIterator, IteratorLimits};

/// Where the sources go for the first key, or the last: `buffers` has the target of `limits`.
fn goal<'b>(limits: &IteratorLimits, buffers: &'b Buffers, last: bool) -> Goal<'b> {
    match (last, &limits.lower_bound, &limits.upper_bound) {
        (false, Some(_), _) => Goal::Seek(buffers.target()),
        (false, None, _) => Goal::First,
        (true, _, Some(_)) => Goal::SeekForPrev(buffers.target()),
        (true, _, None) => Goal::Last,
    }
}

impl DbIterator {
    /// Begins the move to the first key, or to the last; which sources wait for a block.
    pub(crate) fn begin(&mut self, last: bool) -> Vec<u32> {
        match (last, &self.limits.lower_bound, &self.limits.upper_bound) {
            (false, Some(lower), _) => {
                self.buffers.aim_at(UserKey::new(lower), self.limits.sequence);
            }
            (true, _, Some(upper)) => self.buffers.aim_before(UserKey::new(upper)),
            _ => {}
        }
        let goal = goal(&self.limits, &self.buffers, last);
        self.inner.begin(goal)
    }

    /// The tables of these sources.
    pub(crate) fn waiting<'a>(
        &'a mut self,
        sources: &'a [u32],
    ) -> impl Iterator<Item = &'a mut TableIter> {
        self.inner.waiting(sources)
    }

    /// Continues, after these sources have got the blocks for which they waited; those stay in
    /// `sources` that wait for others.
    pub(crate) fn go_on(&mut self, last: bool, sources: &mut Vec<u32>) {
        let goal = goal(&self.limits, &self.buffers, last);
        self.inner.go_on(goal, sources);
    }
}
