//! Runs of deleted keys: jumping over those that are known, and telling of those that were walked.
//!
//! An iterator that has walked over enough deleted keys in a row tells its newest memtable that
//! nothing is visible there ([`MemTable::note_dead_range`](pumice_memtable::MemTable)). One that
//! meets a deleted key asks whether that is known, and jumps to the end of the range. What one pays
//! is so at most the keys deleted since the last one, up to the length from which on they are told.
//!
//! A reader at an older sequence number than the memtable's first tells nothing: tables may have
//! newer entries, which a later reader would see.
//!
//! Thread safety and suspension: the iterator's. Invariant: while `len` is not 0, no key between
//! `edge` and the last deleted key met is visible.

use pumice_base::InternalIterator;
use pumice_memtable::DeadRange;

use super::{DbIterator, Place};

/// A known range may begin anywhere in the run: it is looked for at every so many keys.
const KEYS_PER_LOOK: u64 = 8;

/// The deleted keys that a move has met in a row.
#[derive(Default)]
pub(super) struct DeadRun {
    /// Its first key, or the end of the range that was jumped over before it; going backwards, its
    /// last key or the begin of that range, which does not belong to it.
    edge: Vec<u8>,
    /// The last deleted key met, going backwards.
    last: Vec<u8>,
    /// Keys in it.
    len: u64,
    /// Those with a tombstone of their own.
    tombstones: u64,
    /// `edge` is from a jump.
    jumped: bool,
}

impl DeadRun {
    fn restart(&mut self, edge: Option<&[u8]>) {
        self.len = 0;
        self.tombstones = 0;
        self.jumped = edge.is_some();
        self.edge.clear();
        self.edge.extend_from_slice(edge.unwrap_or_default());
    }

    fn add(&mut self, key: &[u8], tombstone: bool) {
        if self.len == 0 && !self.jumped {
            self.edge.extend_from_slice(key);
        }
        self.len += 1;
        self.tombstones += u64::from(tombstone);
    }
}

impl DbIterator {
    /// `inner` is on a deleted key, `saved_key`, the first that this move meets: shows the first
    /// visible key after it.
    #[inline(never)]
    pub(super) fn pass_dead<const OBSERVED: bool>(&mut self, tombstone: bool) {
        self.dead.restart(None);
        self.meet_dead::<OBSERVED>(tombstone);
        self.find_next_counted::<OBSERVED, true>(true);
        if self.is_worth_telling() {
            let end = match self.at.place {
                Place::Inner | Place::Observed => self.inner.key().user_key().to_vec(),
                // What is shown, or the last deleted key: what is beyond may have another prefix,
                // and have been left out.
                Place::Saved | Place::Nowhere => self.buffers.saved_key.clone(),
            };
            self.tell_forward(end);
        }
    }

    /// Steps over a deleted key, `saved_key`, or jumps if it is in a known range.
    pub(super) fn meet_dead<const OBSERVED: bool>(&mut self, tombstone: bool) {
        if self.dead.len.is_multiple_of(KEYS_PER_LOOK)
            && let Some(range) = self.known_range()
        {
            if self.is_worth_telling() {
                self.tell_forward(self.buffers.saved_key.clone());
            }
            self.dead.restart(Some(&range.end));
            self.buffers.aim_at(range.end(), self.limits.sequence);
            return self.inner.seek(self.buffers.target());
        }
        self.dead.add(&self.buffers.saved_key, tombstone);
        self.advance::<OBSERVED>();
    }

    /// `saved_key` is deleted, and `inner` is before it: shows the last visible key there.
    #[inline(never)]
    pub(super) fn pass_dead_before(&mut self) {
        self.dead.restart(None);
        self.meet_dead_before();
        self.find_prev_past::<true>();
        if self.is_worth_telling() {
            self.tell_backward();
        }
    }

    /// `inner` has passed a deleted key, `saved_key`: jumps if it is in a known range.
    pub(super) fn meet_dead_before(&mut self) {
        if self.dead.len.is_multiple_of(KEYS_PER_LOOK)
            && let Some(range) = self.known_range()
        {
            if self.is_worth_telling() {
                self.dead.last.clone_from(&self.buffers.saved_key);
                self.tell_backward();
            }
            self.dead.restart(Some(&range.start));
            return self.seek_before(&range.start);
        }
        self.dead.add(&self.buffers.saved_key, true);
        self.dead.last.clone_from(&self.buffers.saved_key);
    }

    fn known_range(&self) -> Option<DeadRange> {
        if self.limits.sees_ranges_deleted {
            return None;
        }
        let view = &self.super_version;
        let (key, sequence) = (self.buffers.saved_key(), self.limits.sequence);
        view.mem.dead_range_over(key, sequence, view.removals)
    }

    fn tell_forward(&mut self, end: Vec<u8>) {
        let start = std::mem::take(&mut self.dead.edge);
        self.tell(start, end);
    }

    fn tell_backward(&mut self) {
        let (start, end) = (self.dead.last.clone(), std::mem::take(&mut self.dead.edge));
        self.tell(start, end);
    }

    fn is_worth_telling(&self) -> bool {
        let mem = &self.super_version.mem;
        let min = mem.dead_run_min();
        min > 0
            && self.dead.len >= min
            && self.limits.sequence.saturating_add(1) >= mem.earliest_seq()
            && self.status.is_ok()
            && self.inner.status().is_ok()
    }

    fn tell(&self, start: Vec<u8>, end: Vec<u8>) {
        let (seq, tombstones) = (self.limits.sequence, self.dead.tombstones);
        let view = &self.super_version;
        let removals = view.removals;
        view.mem.note_dead_range(DeadRange { start, end, seq, tombstones, removals });
    }
}
