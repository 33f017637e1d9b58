//! The source that gives keys of tables without timestamps the oldest one, so that they merge with
//! those of memtables (`persist_user_defined_timestamps=false`).
//!
//! ```text
//! stored    key ‖ trailer
//! padded    key ‖ zeros ‖ trailer        zeros: the oldest timestamp, after all others of a key
//! ```
//!
//! Thread safety: one owner at a time (`Send`). Invariant: a valid source has the key that it is on
//! in `key`.

use pumice_base::key::{self, InternalKey};
use pumice_base::{Comparator, InternalIterator, Result};

use crate::read::merging_iterator::MergingIterator;
use crate::read::source::Source;

/// See the module head.
pub(crate) struct PaddedSource {
    inner: MergingIterator<Source>,
    /// The order with timestamps.
    order: Comparator,
    key: Vec<u8>,
    target: Vec<u8>,
}

impl PaddedSource {
    /// What `inner` has, in `order`, which has timestamps.
    pub fn new(inner: MergingIterator<Source>, order: Comparator) -> Self {
        PaddedSource { inner, order, key: Vec::new(), target: Vec::new() }
    }

    /// The value is returned to a user. Requires `valid`.
    pub fn note_use(&self) {
        self.inner.note_use();
    }

    fn show(&mut self) {
        self.key.clear();
        if self.inner.valid() {
            let (bare, trailer) = (self.inner.key().user_key(), self.inner.key().trailer());
            self.key.extend_from_slice(bare.as_bytes());
            self.key.resize(bare.len() + self.order.timestamp_size(), 0);
            self.key.extend_from_slice(&trailer.to_le_bytes());
        }
    }

    /// Makes the stored target of a seek to `padded`.
    fn aim(&mut self, padded: InternalKey<'_>) {
        let user = padded.user_key();
        let bare = self.order.without_timestamp(user);
        self.target.clear();
        if self.order.timestamp_of(user).iter().all(|byte| *byte == 0) {
            self.target.extend_from_slice(bare.as_bytes());
            self.target.extend_from_slice(&padded.trailer().to_le_bytes());
        } else {
            key::append_before_versions(&mut self.target, bare);
        }
    }
}

impl InternalIterator for PaddedSource {
    fn valid(&self) -> bool {
        !self.key.is_empty()
    }
    fn seek_to_first(&mut self) {
        self.inner.seek_to_first();
        self.show();
    }
    fn seek_to_last(&mut self) {
        self.inner.seek_to_last();
        self.show();
    }
    fn seek(&mut self, target: InternalKey<'_>) {
        self.aim(target);
        self.inner.seek(InternalKey::new(&self.target));
        self.show();
    }
    fn seek_for_prev(&mut self, target: InternalKey<'_>) {
        self.aim(target);
        self.inner.seek_for_prev(InternalKey::new(&self.target));
        self.show();
    }
    fn next(&mut self) {
        self.inner.next();
        self.show();
    }
    fn prev(&mut self) {
        self.inner.prev();
        self.show();
    }
    fn key(&self) -> InternalKey<'_> {
        InternalKey::new(&self.key)
    }
    fn value(&self) -> &[u8] {
        self.inner.value()
    }
    fn status(&self) -> Result<()> {
        self.inner.status()
    }
}
