//! How an iterator leaves sources out of a seek, and takes them in again behind the prefix.
//!
//! When and why is in `read/prefix.rs`. Thread safety and invariants: of the parent, the fourth.

use pumice_base::InternalIterator;
use pumice_base::dbformat::{self, MAX_SEQUENCE};

use super::DbIterator;
use crate::read::source::Source;

impl DbIterator {
    /// After an open-ended seek the prefix is that of the key found.
    pub(super) fn remember_prefix(&mut self) {
        if self.valid() && self.prefix.confines() {
            let key = self.key().to_vec();
            self.prefix.confine(&key);
        }
    }

    /// Called before `inner` is sought in: where a prefix holds, prefix filters are asked for that
    /// of the target. Where only keys with one prefix are shown, it may be another one than holds;
    /// then nothing is left to show on the target's far side, since keys with one prefix lie
    /// together.
    pub(super) fn set_scope(&mut self) {
        let scope = self.prefix.scope();
        if self.scoped != scope.is_some() {
            self.scoped = scope.is_some();
            self.inner.sources_mut().for_each(|source| source.scope_to_prefix(scope));
        }
    }

    /// The prefix was left: puts what was left out behind it; false if there is no such thing, or
    /// nothing of it is to be shown.
    pub(super) fn widen_forward(&mut self, skipping: bool) -> bool {
        let upper = self.limits.upper_bound.as_deref();
        if !self.scoped || self.prefix.ends_before(upper, &self.comparator) {
            return false;
        }
        if skipping {
            self.seek_target.clear();
            dbformat::append_internal_key(&mut self.seek_target, &self.saved_key, 0, 0);
        }
        self.widen(|source, target| source.seek(target))
    }

    /// As `widen_forward`, backward.
    pub(super) fn widen_backward(&mut self, passed: bool) -> bool {
        if !self.scoped || self.prefix.begins_after(self.limits.lower_bound.as_deref()) {
            return false;
        }
        if passed {
            self.seek_target.clear();
            let target = &mut self.seek_target;
            dbformat::append_internal_key(target, &self.saved_key, MAX_SEQUENCE, 0xff);
        }
        self.widen(|source, target| source.seek_for_prev(target))
    }

    /// Ends the scope: what was left out is sought for `seek_target`, on whose far side nothing was
    /// passed since the last seek but what is not visible.
    fn widen(&mut self, seek: impl Fn(&mut Source, &[u8])) -> bool {
        if self.inner.status().is_err() {
            return false;
        }
        self.prefix.clear();
        self.scoped = false;
        let target = &self.seek_target;
        self.inner.replace(|source| {
            source.scope_to_prefix(None);
            if source.left_out() {
                seek(source, target);
            }
        });
        true
    }
}
