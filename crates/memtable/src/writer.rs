//! How the exclusive writer of a memtable adds entries.
//!
//! Thread safety: it takes the lock of the representation for each entry; see the crate's head.
//! Invariant: it overlaps no concurrent add, which debug builds check.

use std::sync::atomic::Ordering::Relaxed;

use pumice_base::key::pack;
use pumice_base::{Result, SequenceNumber, UserKey, ValueType};

use crate::entry::{Target, check_lengths};
use crate::guard::guarded;
use crate::memtable::{MemTable, Rep, repeated};
use crate::order::with_order;

impl MemTable {
    /// Adds an entry; a `RangeDeletion` of `[key, value)` goes to the range tombstones. Must not
    /// overlap `add_concurrent`.
    ///
    /// # Errors
    /// `TryAgain` if the skip list has that key and sequence already.
    #[inline]
    pub fn add(&self, seq: SequenceNumber, t: ValueType, key: &[u8], value: &[u8]) -> Result<()> {
        debug_assert!(!self.immutable.load(Relaxed), "added to an immutable memtable");
        #[cfg(debug_assertions)]
        assert_eq!(self.concurrent_writers.load(Relaxed), 0, "exclusive and concurrent adds");
        if t == ValueType::RangeDeletion {
            self.add_range_deletion(seq, key, value);
            return Ok(());
        }
        check_lengths(key, value)?;
        let mut stored = Vec::new();
        let (t, value) = match self.is_plain {
            true => (t, value),
            false => self.prepare((seq, t), key, value, &mut stored),
        };
        let trailer = pack(seq, t as u8);
        let inserted = with_order!(self.comparator(), order => {
            let target = Target::new(order, UserKey::new(key), trailer);
            match &self.rep {
                Rep::SkipList(list) => list.insert(order, &mut list.lock(), &target, value),
                Rep::Vector(vector) => {
                    vector.append(&mut vector.lock(), &target, value);
                    true
                }
            }
        });
        self.cut_dead_ranges(t, key);
        if inserted { Ok(()) } else { Err(repeated()) }
    }

    /// What an add does for a filter, timestamps and checksums; the entry as it is stored, whose
    /// value may be in `stored`.
    #[inline(never)]
    fn prepare<'v>(
        &self,
        (seq, t): (SequenceNumber, ValueType),
        key: &[u8],
        value: &'v [u8],
        stored: &'v mut Vec<u8>,
    ) -> (ValueType, &'v [u8]) {
        if let Some(bloom) = &self.bloom {
            bloom.add(key);
        }
        let t = if self.timestamp_size > 0 { self.take_timed(t, key) } else { t };
        if self.guard_bytes == 0 {
            return (t, value);
        }
        *stored = guarded(key, pack(seq, t as u8), value, self.guard_bytes);
        (t, stored)
    }
}
