//! Moving backwards: the versions of a key come oldest first, so that all are folded before the key
//! is known to be visible. Of a key with more than `max_sequential_skip_in_iterations` versions the
//! newest visible one is found by a seek instead, as in RocksDB.
//!
//! Thread safety and invariants: the iterator's. Suspends as that does.

use std::cmp::Ordering;

use pumice_base::{InternalIterator, Result, UserKey};
use pumice_env::perf::PerfMetric;
use pumice_port::fiber;

use super::{DbIterator, Direction, Place};
use crate::cost;
use crate::read::iterator::buffers::Fetch;
use crate::read::iterator::observer::{meets_too_many, too_many_skipped};
use crate::read::value::{EntryKind, saved};

impl DbIterator {
    /// From a key to the one before it.
    pub(super) fn step_backward(&mut self) {
        if self.at.direction == Direction::Forward {
            if self.at.place == self.at.shown {
                self.save_key();
            }
            self.at.direction = Direction::Backward;
            let key = std::mem::take(&mut self.buffers.saved_key);
            self.seek_before(&key);
            self.buffers.saved_key = key;
        }
        self.find_prev();
    }

    /// Shows the last visible key at or before the position of `inner`.
    pub(super) fn find_prev(&mut self) {
        self.find_prev_past::<false>();
    }

    /// The same; `DEAD`: the key after it is deleted, and the run of such keys is counted.
    pub(super) fn find_prev_past<const DEAD: bool>(&mut self) {
        self.at.place = Place::Nowhere;
        while self.inner.valid() {
            let key = self.inner.key().user_key();
            if let Some(lower) = &self.limits.lower_bound
                && self.comparator.compare(key, UserKey::new(lower)) == Ordering::Less
            {
                return;
            }
            if self.leaves_prefix(key) {
                return;
            }
            self.buffers.saved_key.clear();
            self.buffers.saved_key.extend_from_slice(key.as_bytes());
            match self.fold_backward() {
                Ok(true) => return,
                Ok(false) if self.skips_too_many() => return self.give_up(),
                Ok(false) if DEAD => self.meet_dead_before(),
                Ok(false) => return self.pass_dead_before(),
                Err(error) => {
                    self.at.place = Place::Nowhere;
                    self.status = Err(error);
                    return;
                }
            }
        }
    }

    /// Folds all versions of `saved_key`, oldest to newest; true if the key is visible.
    fn fold_backward(&mut self) -> Result<bool> {
        let mut has_base = false;
        let mut visible = false;
        // The type of a base that is in a blob file: only that of the newest version is read.
        let mut elsewhere = None;
        let mut steps = 0;
        self.buffers.operands.clear();
        while self.inner.valid() {
            fiber::spend(cost::STEP);
            let ikey = self.inner.key();
            let key = ikey.user_key();
            if !self.comparator.same_user_key(key, self.buffers.saved_key()) {
                break;
            }
            if meets_too_many(&mut self.observer) {
                return Err(too_many_skipped());
            }
            if steps > self.skips_max {
                return self.fold_by_seek();
            }
            steps += 1;
            let (sequence, tag) = ikey.sequence_and_type();
            if sequence <= self.limits.sequence {
                let hidden = self.range_dels.covers(&self.comparator, key, sequence)?;
                if hidden && let Some(observer) = &mut self.observer {
                    observer.uncount();
                }
                let kind = if hidden { EntryKind::Tombstone } else { EntryKind::of_tag(tag) };
                match kind {
                    EntryKind::Tombstone => {
                        self.buffers.operands.clear();
                        has_base = false;
                        visible = false;
                    }
                    EntryKind::Operand => {
                        self.save_timestamp_of_operand()?;
                        self.keep_operand();
                        visible = true;
                    }
                    _ => {
                        self.save_timestamp_of_base();
                        self.note_used();
                        elsewhere = self.buffers.keep(tag, self.inner.value())?;
                        self.buffers.operands.clear();
                        has_base = true;
                        visible = true;
                    }
                }
            }
            self.note_memtable_step(PerfMetric::PrevOnMemtableCount);
            self.inner.prev();
        }
        self.inner.status()?;
        if !visible {
            return Ok(false);
        }
        if self.buffers.operands.is_empty() {
            if let Some(tag) = elsewhere {
                self.fetch_kept(tag)?;
            }
            self.at.place = Place::Saved;
            return Ok(true);
        }
        let value = std::mem::take(&mut self.buffers.saved_value);
        let entity = std::mem::take(&mut self.buffers.entity);
        let base = || elsewhere.map_or_else(|| saved(&value, &entity), |tag| (tag, &value[..]));
        self.finish_merge(has_base.then(base));
        self.status.clone()?;
        Ok(true)
    }

    /// The value that is kept as stored is to be shown.
    #[cold]
    fn fetch_kept(&mut self, tag: u8) -> Result<()> {
        let stored = std::mem::take(&mut self.buffers.saved_value);
        let key = std::mem::take(&mut self.buffers.saved_key);
        let fetch = Fetch::of(&self.cf, &self.super_version, &self.limits);
        let saved = self.buffers.save(fetch, UserKey::new(&key), tag, &stored);
        self.buffers.saved_key = key;
        saved
    }

    /// `saved_key` has many versions: seeks the newest that is visible, folds from there, and
    /// leaves `inner` before the key. True if the key is visible.
    fn fold_by_seek(&mut self) -> Result<bool> {
        if let Some(observer) = &mut self.observer {
            observer.reseeks += 1;
        }
        self.buffers.aim_at_saved(self.limits.sequence);
        self.inner.seek(self.buffers.target());
        self.inner.status()?;
        let visible = self.fold_forward()?;
        let key = std::mem::take(&mut self.buffers.saved_key);
        self.seek_before(&key);
        self.buffers.saved_key = key;
        self.inner.status()?;
        Ok(visible)
    }

    /// Saves what is visible of `saved_key`, if `inner` is on the newest visible version of it.
    fn fold_forward(&mut self) -> Result<bool> {
        if !self.inner.valid() {
            return Ok(false);
        }
        self.save_timestamp_of_base();
        let ikey = self.inner.key();
        let key = ikey.user_key();
        let (sequence, tag) = ikey.sequence_and_type();
        if !self.comparator.same_user_key(key, self.buffers.saved_key())
            || self.range_dels.covers(&self.comparator, key, sequence)?
        {
            return Ok(false);
        }
        match EntryKind::of_tag(tag) {
            EntryKind::Tombstone => return Ok(false),
            EntryKind::Operand => {
                self.merge_forward();
                self.status.clone()?;
            }
            _ => {
                self.note_used();
                let fetch = Fetch::of(&self.cf, &self.super_version, &self.limits);
                self.buffers.save(fetch, key, tag, self.inner.value())?;
                self.at.place = Place::Saved;
            }
        }
        Ok(true)
    }
}
