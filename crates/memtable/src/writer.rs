//! The exclusive writer of a memtable: one lock for many adds.
//!
//! Thread safety: one owner; see the crate's head. Invariant: it overlaps no concurrent add, which
//! debug builds check.

use std::sync::atomic::Ordering::Relaxed;

use pumice_base::key::pack;
use pumice_base::{Result, SequenceNumber, UserKey, ValueType};
use pumice_port::sync::MutexGuard;

use crate::entry::{Target, check_lengths};
use crate::guard::guarded;
use crate::memtable::{MemTable, Rep, repeated};
use crate::order::with_order;
use crate::skiplist::{Exclusive, SkipList};
use crate::vector::{self, VectorRep};

impl MemTable {
    /// Becomes the exclusive writer until the result is dropped: one lock for many adds. Must not
    /// overlap `add_concurrent`.
    #[inline]
    pub fn writer(&self) -> MemTableWriter<'_> {
        let held = match &self.rep {
            Rep::SkipList(list) if self.guard_bytes == 0 => Held::SkipList(list, list.lock()),
            Rep::Vector(vector) if self.guard_bytes == 0 => Held::Vector(vector, vector.lock()),
            Rep::SkipList(list) => Held::GuardedSkipList(list, list.lock()),
            Rep::Vector(vector) => Held::GuardedVector(vector, vector.lock()),
        };
        #[cfg(debug_assertions)]
        assert_eq!(self.concurrent_writers.load(Relaxed), 0, "exclusive and concurrent adds");
        MemTableWriter { table: self, held }
    }
}

enum Held<'a> {
    SkipList(&'a SkipList, MutexGuard<'a, Exclusive>),
    Vector(&'a VectorRep, MutexGuard<'a, vector::State>),
    // Entries get checksums. Variants of their own, since a check would cost each add.
    GuardedSkipList(&'a SkipList, MutexGuard<'a, Exclusive>),
    GuardedVector(&'a VectorRep, MutexGuard<'a, vector::State>),
}

impl Held<'_> {
    /// Inserts an entry with its checksum; false if it is there already.
    #[cold]
    #[inline(never)]
    fn insert_guarded(&mut self, table: &MemTable, key: &[u8], trailer: u64, value: &[u8]) -> bool {
        let value = guarded(key, trailer, value, table.guard_bytes);
        with_order!(table.comparator(), order => {
            let target = Target::new(order, UserKey::new(key), trailer);
            match self {
                Held::SkipList(list, exclusive) | Held::GuardedSkipList(list, exclusive) => {
                    list.insert(order, exclusive, &target, &value)
                }
                Held::Vector(vector, state) | Held::GuardedVector(vector, state) => {
                    vector.append(state, &target, &value);
                    true
                }
            }
        })
    }
}

/// The exclusive right to add to a memtable.
pub struct MemTableWriter<'a> {
    table: &'a MemTable,
    held: Held<'a>,
}

impl MemTableWriter<'_> {
    /// As [`MemTable::add`].
    ///
    /// # Errors
    /// As `MemTable::add`.
    // Into its callers: they are few, and each insert pays for a call.
    #[inline(always)]
    pub fn add(
        &mut self,
        seq: SequenceNumber,
        t: ValueType,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        debug_assert!(!self.table.immutable.load(Relaxed), "added to an immutable memtable");
        if t == ValueType::RangeDeletion {
            self.table.add_range_deletion(seq, key, value);
            return Ok(());
        }
        check_lengths(key, value)?;
        let t = if self.table.timestamp_size > 0 { self.table.take_timed(t, key) } else { t };
        if let Some(bloom) = &self.table.bloom {
            bloom.add(key);
        }
        let trailer = pack(seq, t as u8);
        let comparator = self.table.comparator();
        let inserted = match &mut self.held {
            Held::SkipList(list, exclusive) => with_order!(comparator, order => {
                let target = Target::new(order, UserKey::new(key), trailer);
                list.insert(order, exclusive, &target, value)
            }),
            Held::Vector(vector, state) => with_order!(comparator, order => {
                let target = Target::new(order, UserKey::new(key), trailer);
                vector.append(state, &target, value);
                true
            }),
            held => held.insert_guarded(self.table, key, trailer, value),
        };
        self.table.cut_dead_ranges(t, key);
        if inserted { Ok(()) } else { Err(repeated()) }
    }
}
