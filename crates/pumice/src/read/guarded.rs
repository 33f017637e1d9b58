//! The source that is a memtable whose readers compare: checksums of entries
//! (`memtable_protection_bytes_per_key`), those of the entries that it lands on, whose values it
//! shows without them; and what the memtable checks on the way (`pumice_memtable::Checks`).
//!
//! Thread safety: one owner at a time (`Send`). Invariant: a valid source is on an entry whose
//! checksum was right, if it has one.

use std::sync::Arc;

use pumice_base::key::InternalKey;
use pumice_base::{Error, InternalIterator, Result};
use pumice_memtable::{MemTable, MemTableIter, Move, unguarded};
use pumice_table::Extractor;

use crate::read::source::{Rare, Source};

/// See the module head.
pub(crate) struct GuardedSource {
    inner: MemTableIter,
    /// Of a checksum; 0 for none.
    bytes: usize,
    error: Option<Error>,
}

/// The entries of a memtable.
pub(crate) fn memtable_source(mem: &Arc<MemTable>) -> Source {
    match mem.is_checked() {
        false => Source::Mem(mem.iter()),
        true => {
            let guarded = GuardedSource::new(mem.iter(), mem.guard_bytes());
            Source::Rare(Box::new(Rare::Guarded(guarded)))
        }
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

    fn go(&mut self, to: Move<'_>) {
        self.error = self.inner.go_checked(to).and_then(|()| self.value_here().map(drop)).err();
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
        self.go(Move::First);
    }
    fn seek_to_last(&mut self) {
        self.go(Move::Last);
    }
    fn seek(&mut self, target: InternalKey<'_>) {
        self.go(Move::Seek(target));
    }
    fn seek_for_prev(&mut self, target: InternalKey<'_>) {
        self.go(Move::SeekForPrev(target));
    }
    fn next(&mut self) {
        self.go(Move::Next);
    }
    fn prev(&mut self) {
        self.go(Move::Prev);
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
    use std::cmp::Ordering;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    use pumice_base::key::CustomComparator;
    use pumice_base::{Comparator, ValueType};
    use pumice_memtable::MemTableOptions;

    use crate::{Db, MemFs, Options};

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

    /// An order that turns around when it is told to: as if the keys had changed.
    #[derive(Default)]
    struct Turning(AtomicBool);

    impl CustomComparator for Turning {
        fn name(&self) -> &str {
            "turning"
        }
        fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
            if self.0.load(Relaxed) { b.cmp(a) } else { a.cmp(b) }
        }
    }

    /// Lookups, cursors and flushes of a database compare the order of keys with the option.
    #[pumice_test_macros::test]
    fn a_database_finds_keys_out_of_order() {
        for paranoid in ["true", "false"] {
            let turning = Arc::new(Turning::default());
            let mut options = Options::default();
            options.db.create_if_missing = true;
            options.db.file_system = MemFs::new(1).shared();
            options.cf.comparator = Comparator::Custom(Arc::clone(&turning) as _);
            options.cf.set("paranoid_memory_checks", paranoid).unwrap();
            let db = Db::open(&options, "/db").unwrap();
            for n in 0..100 {
                db.put(format!("{n:03}"), "value").unwrap();
            }
            let first = || {
                let mut cursor = db.cursor().unwrap();
                cursor.seek_to_first();
                assert!(cursor.valid());
                cursor.next();
                cursor.status()
            };
            first().unwrap();
            turning.0.store(true, Relaxed);
            let mut found = vec![db.get("000").map(drop), first()];
            if paranoid == "true" {
                found.push(db.flush());
            }
            for result in found {
                let text = "Corruption: Out-of-order keys found in skiplist.";
                let error = result.err().map(|error| error.to_string());
                assert_eq!(error.as_deref(), (paranoid == "true").then_some(text));
            }
        }
    }
}
