//! `Metered`: the input of a compaction, with a count of the blobs that its entries refer to.
//!
//! Each entry that the compaction iterator meets is counted once: it only moves forward. Entries at
//! or after the end of the part are those of another part and do not count.
//!
//! Thread safety: one owner. Suspends as the input does.

use pumice_base::{Comparator, InternalIterator, InternalKey, Result, UserKey};

use crate::blob::references::{References, may_refer};
use crate::callbacks::key_forms::KeyForms;

/// See the module head.
pub(crate) struct Metered<I> {
    input: I,
    comparator: Comparator,
    /// User key, exclusive.
    end: Option<Vec<u8>>,
    keys: KeyForms,
    references: References,
    status: Result<()>,
}

impl<I: InternalIterator> Metered<I> {
    /// Counts what is met of `input` before the user key `end`.
    pub fn new(input: I, comparator: Comparator, keys: KeyForms, end: Option<Vec<u8>>) -> Self {
        let (references, status) = (References::default(), Ok(()));
        Metered { input, comparator, end, keys, references, status }
    }

    /// What was counted.
    pub fn into_references(self) -> References {
        self.references
    }

    #[inline]
    fn count(&mut self) {
        if !self.input.valid() {
            return;
        }
        let tag = self.input.key().sequence_and_type().1;
        if may_refer(tag, self.input.value()) {
            self.count_references(tag);
        }
    }

    fn count_references(&mut self, tag: u8) {
        let key = self.input.key().user_key();
        let end = self.end.as_deref().map(UserKey::new);
        if end.is_some_and(|end| self.comparator.compare(key, end).is_ge()) {
            return;
        }
        let counted = self.references.add(self.keys.whole_len(key), tag, self.input.value());
        if let (Err(error), Ok(())) = (counted, &self.status) {
            self.status = Err(error);
        }
    }
}

impl<I: InternalIterator> InternalIterator for Metered<I> {
    fn valid(&self) -> bool {
        self.status.is_ok() && self.input.valid()
    }
    fn seek_to_first(&mut self) {
        self.input.seek_to_first();
        self.count();
    }
    fn seek_to_last(&mut self) {
        self.input.seek_to_last();
        self.count();
    }
    fn seek(&mut self, target: InternalKey<'_>) {
        self.input.seek(target);
        self.count();
    }
    fn seek_for_prev(&mut self, target: InternalKey<'_>) {
        self.input.seek_for_prev(target);
        self.count();
    }
    fn next(&mut self) {
        self.input.next();
        self.count();
    }
    fn prev(&mut self) {
        self.input.prev();
        self.count();
    }
    fn key(&self) -> InternalKey<'_> {
        self.input.key()
    }
    fn value(&self) -> &[u8] {
        self.input.value()
    }
    fn status(&self) -> Result<()> {
        self.status.clone()?;
        self.input.status()
    }
}
