//! Moving backwards: the versions of a key come oldest first, so that all are folded before the key
//! is known to be visible. Of a key with more than `max_sequential_skip_in_iterations` versions the
//! newest visible one is found by a seek instead, as in RocksDB.
//!
//! Thread safety and invariants: the iterator's. Suspends as that does.

use std::cmp::Ordering;

use pumice_base::dbformat::{self, VALUE_TYPE_FOR_SEEK};
use pumice_base::{InternalIterator, Result, ValueType};
use pumice_env::perf::PerfMetric;
use pumice_port::fiber;

use super::{DbIterator, Direction, Place};
use crate::cost;

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
            let key = dbformat::user_key(self.inner.key());
            if let Some(lower) = &self.limits.lower_bound
                && self.comparator.compare(key, lower) == Ordering::Less
            {
                return;
            }
            if self.leaves_prefix(key) {
                return;
            }
            self.buffers.saved_key.clear();
            self.buffers.saved_key.extend_from_slice(key);
            match self.fold_backward() {
                Ok(true) => return,
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
        let mut steps = 0;
        self.buffers.operands.clear();
        while self.inner.valid() {
            fiber::spend(cost::STEP);
            let ikey = self.inner.key();
            let key = dbformat::user_key(ikey);
            if !self.comparator.equal(key, &self.buffers.saved_key) {
                break;
            }
            if let Some(observer) = &mut self.observer {
                observer.met += 1;
            }
            if steps > self.skips_max {
                return self.fold_by_seek();
            }
            steps += 1;
            let (sequence, tag) = dbformat::sequence_and_type(ikey);
            if sequence <= self.limits.sequence {
                let hidden = self.range_dels.covers(&self.comparator, key, sequence)?;
                match ValueType::from_u8(tag) {
                    _ if hidden => {
                        self.buffers.operands.clear();
                        has_base = false;
                        visible = false;
                    }
                    Some(ValueType::Deletion | ValueType::SingleDeletion) => {
                        self.buffers.operands.clear();
                        has_base = false;
                        visible = false;
                    }
                    Some(ValueType::Merge) => {
                        self.buffers.operands.push(self.used_value().to_vec());
                        visible = true;
                    }
                    _ => {
                        self.note_used();
                        self.buffers.save(tag, self.inner.value())?;
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
            self.at.place = Place::Saved;
            return Ok(true);
        }
        let value = std::mem::take(&mut self.buffers.saved_value);
        let entity = std::mem::take(&mut self.buffers.entity);
        let base = match entity.is_empty() {
            true => (ValueType::Value, value.as_slice()),
            false => (ValueType::WideColumnEntity, entity.as_slice()),
        };
        self.finish_merge(has_base.then_some((base.0 as u8, base.1)));
        self.status.clone()?;
        Ok(true)
    }

    /// `saved_key` has many versions: seeks the newest that is visible, folds from there, and
    /// leaves `inner` before the key. True if the key is visible.
    fn fold_by_seek(&mut self) -> Result<bool> {
        if let Some(observer) = &mut self.observer {
            observer.reseeks += 1;
        }
        self.buffers.seek_target.clear();
        dbformat::append_internal_key(
            &mut self.buffers.seek_target,
            &self.buffers.saved_key,
            self.limits.sequence,
            VALUE_TYPE_FOR_SEEK,
        );
        self.inner.seek(&self.buffers.seek_target);
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
        let ikey = self.inner.key();
        let key = dbformat::user_key(ikey);
        let (sequence, tag) = dbformat::sequence_and_type(ikey);
        if !self.comparator.equal(key, &self.buffers.saved_key)
            || self.range_dels.covers(&self.comparator, key, sequence)?
        {
            return Ok(false);
        }
        match ValueType::from_u8(tag) {
            Some(ValueType::Deletion | ValueType::SingleDeletion) => return Ok(false),
            Some(ValueType::Merge) => {
                self.merge_forward();
                self.status.clone()?;
            }
            _ => {
                self.note_used();
                self.buffers.save(tag, self.inner.value())?;
                self.at.place = Place::Saved;
            }
        }
        Ok(true)
    }
}
