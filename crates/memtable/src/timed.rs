//! What a memtable does for keys with timestamps.
//!
//! Thread safety: as the memtable's. The newest timestamp is a plain counter, which a reader of a
//! memtable that is written to may see late.

use std::sync::atomic::Ordering::Relaxed;

use pumice_base::ValueType;

use crate::memtable::MemTable;

impl MemTable {
    /// Notes the timestamp of `key`, and gives the type that its entry is stored with: deletions
    /// have their own.
    #[cold]
    pub(crate) fn take_timed(&self, t: ValueType, key: &[u8]) -> ValueType {
        if let Some(time) = key.last_chunk().filter(|_| self.timestamp_size == size_of::<u64>()) {
            self.newest_time.fetch_max(u64::from_le_bytes(*time), Relaxed);
        }
        match t {
            ValueType::Deletion => ValueType::DeletionWithTimestamp,
            t => t,
        }
    }

    /// The newest timestamp of an entry, where timestamps are little-endian numbers of 8 bytes.
    /// Requires an entry.
    pub fn newest_time(&self) -> u64 {
        self.newest_time.load(Relaxed)
    }
}
