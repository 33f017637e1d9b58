//! The ordered entries of a batch's records.
//!
//! For each column family a list of blocks of entries, in order: a search is two binary searches,
//! an insertion moves at most a block. An entry is the place of a record and of its key in the
//! batch's bytes, so that it stays right when the batch's buffer moves.
//!
//! Thread safety: plain data. Invariants: (1) entries are in the order of their keys, and of equal
//! keys the one with the larger place first; (2) no block is empty, none has more than
//! [`BLOCK_ENTRIES`] entries; (3) `changes` differs from its earlier values whenever spots that
//! were found before may be wrong. It trusts the batch's bytes only as far as their decoder does.

use std::cmp::Ordering;

use pumice_base::{Comparator, Error, Result, UserKey, ValueType};

use crate::commit::batch::{BatchRecord, WriteBatch, record_at};

/// Most entries of a block: a block is 4 KiB.
const BLOCK_ENTRIES: usize = 256;

/// One record of the batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// Where the record begins in the batch's bytes.
    pub record: u32,
    key: u32,
    key_bytes: u32,
    pub value_type: ValueType,
}

impl Entry {
    /// Its key.
    pub fn key<'b>(&self, rep: &'b [u8]) -> &'b [u8] {
        let start = self.key as usize;
        rep.get(start..start + self.key_bytes as usize).unwrap_or_default()
    }
}

/// The place of an entry, valid until `Index::changes` differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    block: usize,
    slot: usize,
}

/// The entries of one column family.
#[derive(Clone)]
pub(super) struct Family {
    id: u32,
    /// Of keys without timestamps.
    comparator: Comparator,
    /// Bytes of the timestamps that keys end with in the batch.
    timestamp_size: usize,
    blocks: Vec<Vec<Entry>>,
}

/// See the head of this file.
#[derive(Clone)]
pub(super) struct Index {
    /// By id.
    families: Vec<Family>,
    backup_comparator: Comparator,
    overwrite_key: bool,
    changes: u64,
}

impl Index {
    pub fn new(backup_comparator: Comparator, overwrite_key: bool) -> Self {
        Index { families: Vec::new(), backup_comparator, overwrite_key, changes: 0 }
    }

    /// Removes all entries; the orders of the families stay known.
    pub fn clear(&mut self) {
        self.families.iter_mut().for_each(|family| family.blocks.clear());
        self.changes += 1;
    }

    /// The order of families that were given none.
    pub fn backup_comparator(&self) -> &Comparator {
        &self.backup_comparator
    }

    /// See invariant 3.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// The entries of family `id`, if it has had any.
    pub fn family(&self, id: u32) -> Option<&Family> {
        let at = self.families.binary_search_by_key(&id, |family| family.id);
        at.ok().map(|at| &self.families[at])
    }

    /// The keys of family `id` are in the order of `comparator`. Entries that were made by another
    /// order, before a handle of the family was used, are put into this one.
    pub fn learn_order(&mut self, id: u32, comparator: &Comparator, rep: &[u8]) {
        match self.families.binary_search_by_key(&id, |family| family.id) {
            Err(at) => self.families.insert(at, Family::new(id, comparator)),
            Ok(at) if !self.families[at].has_order(comparator) => {
                self.families[at].sort_by(comparator, rep);
                self.changes += 1;
            }
            Ok(_) => {}
        }
    }

    /// Adds the record of `rep` that begins at `record`.
    ///
    /// # Errors
    /// Corruption if there is no such record.
    pub fn add(&mut self, rep: &[u8], record: usize) -> Result<()> {
        let malformed = || Error::corruption("bad WriteBatch record in its index");
        let BatchRecord::Entry { column_family, value_type, key, .. } = record_at(rep, record)?
        else {
            return Err(malformed());
        };
        // The key is a part of the record.
        let start = key.as_ptr().addr() - rep.as_ptr().addr();
        let place = |at: usize| u32::try_from(at).map_err(|_| malformed());
        let at = match self.families.binary_search_by_key(&column_family, |family| family.id) {
            Ok(at) => at,
            Err(at) => {
                let order = self.backup_comparator.without_timestamps();
                self.families.insert(at, Family::new(column_family, &order));
                at
            }
        };
        let bare = key.len().saturating_sub(self.families[at].timestamp_size);
        let entry = Entry {
            record: place(record)?,
            key: place(start)?,
            key_bytes: place(bare)?,
            value_type,
        };
        self.changes += 1;
        self.families[at].add(rep, entry, self.overwrite_key);
        Ok(())
    }

    /// Builds the entries again from all records of `batch`.
    ///
    /// # Errors
    /// Corruption for records that no batch with an index has.
    pub fn rebuild(&mut self, batch: &WriteBatch) -> Result<()> {
        self.clear();
        let rep = batch.data();
        let mut records = batch.iter();
        let mut at = rep.len() - records.rest().len();
        while let Some(record) = records.next() {
            match record? {
                BatchRecord::Entry { value_type: ValueType::RangeDeletion, .. } => {
                    return Err(Error::corruption("range deletion in a WriteBatchWithIndex"));
                }
                BatchRecord::Entry { .. } => self.add(rep, at)?,
                BatchRecord::LogData(_) | BatchRecord::Marker(..) => {}
            }
            at = rep.len() - records.rest().len();
        }
        Ok(())
    }
}

impl Family {
    fn new(id: u32, comparator: &Comparator) -> Self {
        let timestamp_size = comparator.timestamp_size();
        let comparator = comparator.without_timestamps();
        Family { id, comparator, timestamp_size, blocks: Vec::new() }
    }

    /// Its keys are known to be in this order.
    fn has_order(&self, comparator: &Comparator) -> bool {
        match comparator.timestamp_size() {
            0 => self.timestamp_size == 0 && self.comparator.name() == comparator.name(),
            size => {
                self.timestamp_size == size
                    && self.comparator.name() == comparator.without_timestamps().name()
            }
        }
    }

    /// The order of its keys.
    pub fn comparator(&self) -> &Comparator {
        &self.comparator
    }

    fn add(&mut self, rep: &[u8], entry: Entry, overwrite_key: bool) {
        let key = entry.key(rep);
        let spot = self.at_or_after(rep, key);
        // Merges are never overwritten: the value needs them all.
        let overwrites = overwrite_key && entry.value_type != ValueType::Merge;
        let order = &self.comparator;
        let newest = self.blocks.get_mut(spot.block).and_then(|block| block.get_mut(spot.slot));
        match newest.filter(|newest| {
            overwrites && order.compare(UserKey::new(newest.key(rep)), UserKey::new(key)).is_eq()
        }) {
            Some(newest) => *newest = entry,
            None => self.insert(spot, entry),
        }
    }

    /// Inserts before `spot`.
    fn insert(&mut self, mut spot: Spot, entry: Entry) {
        if spot.slot == 0
            && let Some(block) = spot.block.checked_sub(1)
            && self.blocks[block].len() < BLOCK_ENTRIES
        {
            // So that updates in the order of their keys fill blocks.
            spot = Spot { block, slot: self.blocks[block].len() };
        }
        let Some(block) = self.blocks.get_mut(spot.block) else {
            return self.blocks.push(vec![entry]);
        };
        if block.len() < BLOCK_ENTRIES {
            return block.insert(spot.slot, entry);
        }
        let mut upper = block.split_off(BLOCK_ENTRIES / 2);
        match spot.slot.checked_sub(BLOCK_ENTRIES / 2) {
            Some(slot) => upper.insert(slot, entry),
            None => block.insert(spot.slot, entry),
        }
        self.blocks.insert(spot.block + 1, upper);
    }

    fn sort_by(&mut self, comparator: &Comparator, rep: &[u8]) {
        self.comparator = comparator.without_timestamps();
        self.timestamp_size = comparator.timestamp_size();
        let comparator = &self.comparator;
        let mut all: Vec<Entry> = self.blocks.drain(..).flatten().collect();
        all.sort_by(|one, other| {
            let keys = comparator.compare(UserKey::new(one.key(rep)), UserKey::new(other.key(rep)));
            keys.then(other.record.cmp(&one.record))
        });
        self.blocks = all.chunks(BLOCK_ENTRIES).map(<[Entry]>::to_vec).collect();
    }

    /// The entry at `spot`.
    pub fn get(&self, spot: Spot) -> Option<&Entry> {
        self.blocks.get(spot.block)?.get(spot.slot)
    }

    fn compare(&self, rep: &[u8], entry: &Entry, key: &[u8]) -> Ordering {
        self.comparator.compare(UserKey::new(entry.key(rep)), UserKey::new(key))
    }

    /// The first entry of which `before` is false, which is true of a first part of all entries.
    fn partition(&self, before: impl Fn(&Entry) -> bool) -> Spot {
        let block = self.blocks.partition_point(|block| block.last().is_some_and(&before));
        let slot = self.blocks.get(block).map_or(0, |block| block.partition_point(&before));
        Spot { block, slot }
    }

    /// The newest entry of the first key at or after `key`.
    pub fn at_or_after(&self, rep: &[u8], key: &[u8]) -> Spot {
        self.partition(|entry| self.compare(rep, entry, key).is_lt())
    }

    /// The newest entry of the first key after `key`.
    pub fn after(&self, rep: &[u8], key: &[u8]) -> Spot {
        self.partition(|entry| self.compare(rep, entry, key).is_le())
    }

    /// The first entry.
    pub fn first(&self) -> Spot {
        Spot { block: 0, slot: 0 }
    }

    /// The spot after the last entry.
    pub fn end(&self) -> Spot {
        Spot { block: self.blocks.len(), slot: 0 }
    }

    /// The spot after `spot`, which is an entry's.
    pub fn next(&self, spot: Spot) -> Spot {
        match spot.slot + 1 < self.blocks[spot.block].len() {
            true => Spot { slot: spot.slot + 1, ..spot },
            false => Spot { block: spot.block + 1, slot: 0 },
        }
    }

    /// The newest entry of the key at `spot`.
    pub fn newest(&self, rep: &[u8], mut spot: Spot) -> Spot {
        let Some(entry) = self.get(spot) else { return spot };
        let key = entry.key(rep);
        while let Some(before) = self.before(spot)
            && self.get(before).is_some_and(|entry| self.compare(rep, entry, key).is_eq())
        {
            spot = before;
        }
        spot
    }

    /// The entry before `spot`, if there is one.
    pub fn before(&self, spot: Spot) -> Option<Spot> {
        if spot.slot > 0 {
            return Some(Spot { slot: spot.slot - 1, ..spot });
        }
        let block = spot.block.checked_sub(1)?;
        Some(Spot { block, slot: self.blocks.get(block)?.len() - 1 })
    }
}
