//! The source that is a memtable whose entries have checksums
//! (`memtable_protection_bytes_per_key`): it compares those of the entries that it lands on, and
//! shows their values without them.
//!
//! Thread safety: one owner at a time (`Send`). Invariant: a valid source is on an entry whose
//! checksum was right.

use std::sync::Arc;

use pumice_base::key::InternalKey;
use pumice_base::{Error, InternalIterator, Result};
use pumice_memtable::{MemTable, MemTableIter, unguarded};
use pumice_table::Extractor;

use crate::read::source::{Rare, Source};

/// See the module head.
pub(crate) struct GuardedSource {
    inner: MemTableIter,
    /// Of a checksum.
    bytes: usize,
    error: Option<Error>,
}

/// The entries of a memtable.
pub(crate) fn memtable_source(mem: &Arc<MemTable>) -> Source {
    match mem.guard_bytes() {
        0 => Source::Mem(mem.iter()),
        bytes => Source::Rare(Box::new(Rare::Guarded(GuardedSource::new(mem.iter(), bytes)))),
    }
}

impl GuardedSource {
    /// The entries of `inner`, which have checksums of so many bytes.
    pub fn new(inner: MemTableIter, bytes: usize) -> Self {
        GuardedSource { inner, bytes, error: None }
    }

    /// See [`Source::scope_to_prefix`].
    pub fn scope_to_prefix(&mut self, scope: Option<&Extractor>) {
        self.inner.scope_to_prefix(scope);
    }

    fn moved(&mut self, to: impl FnOnce(&mut MemTableIter)) {
        to(&mut self.inner);
        self.error = self.value_here().err();
    }

    fn value_here(&self) -> Result<&[u8]> {
        if !self.inner.valid() {
            return Ok(&[]);
        }
        let key = self.inner.key();
        unguarded(key.user_key(), key.trailer(), self.inner.value(), self.bytes)
    }
}

impl InternalIterator for GuardedSource {
    fn valid(&self) -> bool {
        self.error.is_none() && self.inner.valid()
    }
    fn seek_to_first(&mut self) {
        self.moved(|inner| inner.seek_to_first());
    }
    fn seek_to_last(&mut self) {
        self.moved(|inner| inner.seek_to_last());
    }
    fn seek(&mut self, target: InternalKey<'_>) {
        self.moved(|inner| inner.seek(target));
    }
    fn seek_for_prev(&mut self, target: InternalKey<'_>) {
        self.moved(|inner| inner.seek_for_prev(target));
    }
    fn next(&mut self) {
        self.moved(|inner| inner.next());
    }
    fn prev(&mut self) {
        self.moved(|inner| inner.prev());
    }
    fn key(&self) -> InternalKey<'_> {
        self.inner.key()
    }
    fn value(&self) -> &[u8] {
        let stored = self.inner.value();
        stored.get(..stored.len().saturating_sub(self.bytes)).unwrap_or_default()
    }
    fn status(&self) -> Result<()> {
        self.error.clone().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use pumice_base::ValueType;
    use pumice_memtable::MemTableOptions;

    use super::*;

    fn stored(options: MemTableOptions, value: impl Fn(u64) -> Vec<u8>) -> Arc<MemTable> {
        let mem = MemTable::new(options, 1, 0);
        for n in 0..10 {
            let key = format!("k{n}");
            mem.add(n + 1, ValueType::Value, key.as_bytes(), &value(n)).unwrap();
        }
        mem
    }

    /// What a guarded memtable has, taken over by a plain one with one bit changed, is an error
    /// where that entry is, in both directions, and the others are shown.
    #[pumice_test_macros::test]
    fn a_changed_entry_ends_the_walk() {
        let guarded = MemTableOptions { guard_bytes: 4, ..MemTableOptions::new(1 << 20) };
        let whole = stored(guarded, |n| vec![b'a' + n as u8; 10]);
        let Source::Rare(_) = memtable_source(&whole) else { panic!("it is guarded") };
        let mut raw = Vec::new();
        let mut entries = whole.iter();
        entries.seek_to_first();
        while entries.valid() {
            raw.push(entries.value().to_vec());
            entries.next();
        }
        assert_eq!(raw[3].len(), 14);
        for flipped in [None, Some(3), Some(0), Some(9)] {
            let plain = stored(MemTableOptions::new(1 << 20), |n| {
                let mut value = raw[n as usize].clone();
                if flipped == Some(n) {
                    value[5] ^= 1;
                }
                value
            });
            let mut source = GuardedSource::new(plain.iter(), 4);
            let mut found = 0;
            source.seek_to_first();
            while source.valid() {
                assert_eq!(source.value(), [b'a' + found as u8; 10]);
                found += 1;
                source.next();
            }
            assert_eq!(found, flipped.unwrap_or(10));
            let mut backward = 0;
            let ended = source.status();
            source.seek_to_last();
            while source.valid() {
                backward += 1;
                source.prev();
            }
            assert_eq!(backward, flipped.map_or(10, |at| 9 - at));
            for status in [ended, source.status()] {
                assert_eq!(status.is_err(), flipped.is_some());
                if let Err(error) = status {
                    assert!(error.message().starts_with("Corrupted memtable entry"), "{error}");
                }
            }
        }
    }
}
