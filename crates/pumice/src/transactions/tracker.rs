//! The keys that a transaction has read for update or written, and where it has locked ranges.
//!
//! Thread safety: plain data under the transaction's lock.

use std::collections::{BTreeMap, BTreeSet};

use pumice_base::SequenceNumber;

/// What is known of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tracked {
    /// The key has not been written by others since this sequence number, or it is checked by it
    /// at the commit.
    pub sequence: SequenceNumber,
    pub reads: u32,
    pub writes: u32,
    /// It is locked for this transaction alone.
    pub exclusive: bool,
}

/// Keys by column family.
#[derive(Clone, Debug, Default)]
pub(super) struct Tracker {
    families: BTreeMap<u32, BTreeMap<Vec<u8>, Tracked>>,
    /// Column families with ranges of it.
    pub ranges: BTreeSet<u32>,
}

impl Tracker {
    pub fn get(&self, family: u32, key: &[u8]) -> Option<Tracked> {
        self.families.get(&family)?.get(key).copied()
    }

    /// One more use of a key.
    pub fn track(&mut self, family: u32, key: &[u8], used: Tracked) {
        let keys = self.families.entry(family).or_default();
        match keys.get_mut(key) {
            None => drop(keys.insert(key.to_vec(), used)),
            Some(known) => {
                known.sequence = known.sequence.min(used.sequence);
                known.reads += used.reads;
                known.writes += used.writes;
                known.exclusive |= used.exclusive;
            }
        }
    }

    /// Takes uses of a key back; true if none is left, and the key is then forgotten.
    pub fn untrack(&mut self, family: u32, key: &[u8], reads: u32, writes: u32) -> bool {
        let Some(keys) = self.families.get_mut(&family) else { return false };
        let Some(known) = keys.get_mut(key) else { return false };
        known.reads = known.reads.saturating_sub(reads);
        known.writes = known.writes.saturating_sub(writes);
        if known.reads > 0 || known.writes > 0 {
            return false;
        }
        keys.remove(key);
        true
    }

    /// All keys, by family and bytes.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &[u8], Tracked)> {
        self.families.iter().flat_map(|(family, keys)| {
            keys.iter().map(|(key, tracked)| (*family, key.as_slice(), *tracked))
        })
    }

    /// The keys of each family.
    pub fn keys(&self) -> impl Iterator<Item = (u32, impl Iterator<Item = &[u8]>)> {
        self.families.iter().map(|(family, keys)| (*family, keys.keys().map(Vec::as_slice)))
    }

    /// Adds the uses that `other` has.
    pub fn add(&mut self, other: &Tracker) {
        for (family, key, tracked) in other.iter() {
            self.track(family, key, tracked);
        }
    }
}
