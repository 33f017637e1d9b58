//! Reserved parts of the trees: ranges for the files of an ingestion, or files that a deletion
//! removes.
//!
//! Thread safety: takes the state lock when it ends. Invariant: a reservation ends with the call
//! that made it, even if user code panics in between; otherwise nothing there would ever be
//! compacted again.

use std::collections::BTreeSet;

use pumice_port::thread;

use crate::compaction::picker::Registered;
use crate::engine::DbInner;

/// Reserved until dropped; then compactions continue.
pub(crate) struct Reserved<'a> {
    db: &'a DbInner,
    /// Each with its column family.
    places: Vec<(u32, Registered)>,
}

impl<'a> Reserved<'a> {
    /// Nothing is reserved yet.
    pub fn new(db: &'a DbInner) -> Self {
        Reserved { db, places: Vec::new() }
    }
    /// `place` of column family `family` stays reserved.
    pub fn add(&mut self, family: u32, place: Registered) {
        self.places.push((family, place));
    }
    /// Nothing is reserved.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        if self.places.is_empty() {
            return;
        }
        // The code that panicked may do so again, and this may run during its unwinding.
        drop(thread::contain("Reservation", || self.end()));
        // A task may wait for the last compaction of a family.
        self.db.changed.notify_all();
    }
}

impl Reserved<'_> {
    fn end(&mut self) {
        let mut state = self.db.state.lock();
        let ids: BTreeSet<u32> = self.places.iter().map(|(id, _)| *id).collect();
        for (id, place) in self.places.drain(..) {
            if let Some(cf) = state.cfs.get_mut(&id) {
                cf.plan.unreserve(place);
            }
        }
        for id in ids {
            if let Some(cf) = state.cfs.get_mut(&id) {
                self.db.scheduler().refresh_scores(cf);
                self.db.scheduler().update_stall(cf);
            }
            state.queue_compaction(id);
        }
        self.db.scheduler().schedule_background(&mut state);
    }
}
