//! What of the trees somebody from outside has reserved: an ingestion for its files, a deletion of
//! files for what goes.
//!
//! Thread safety: takes the state lock when it ends. Invariant: a reservation ends with the call
//! that made it, also if code of the user's panics in between, or no compaction would come there
//! again.

use std::collections::BTreeSet;

use pumice_port::thread;

use crate::compaction::picker::Registered;
use crate::engine::DbInner;

/// Reserved until dropped; compactions go on then.
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
    /// `place` of column family `family` goes on to be reserved.
    pub fn add(&mut self, family: u32, place: Registered) {
        self.places.push((family, place));
    }
    /// Nobody has reserved anything.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        if self.places.is_empty() {
            return;
        }
        // What panicked may do so again, and this may be its unwinding.
        drop(thread::contain("Reservation", || self.end()));
        // Somebody may wait for the last compaction of a family.
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
                self.db.refresh_scores(cf);
                self.db.update_stall(cf);
            }
            state.queue_compaction(id);
        }
        self.db.schedule_background(&mut state);
    }
}
