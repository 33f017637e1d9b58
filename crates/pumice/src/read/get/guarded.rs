//! Gets of memtables whose entries have checksums (`memtable_protection_bytes_per_key`).
//!
//! Thread safety: as the lookup's. Every entry of the key that is visited is compared, also one
//! that the time of the read does not see. Not here: how checksums are made (`pumice_memtable`).

use pumice_memtable::{MemTable, unguarded_version};

use super::{Answer, Lookup};

impl Lookup<'_> {
    /// As `memtable`, in a memtable whose entries have checksums.
    #[cold]
    pub(super) fn memtable_guarded(&mut self, mem: &MemTable) {
        let (key, sequence) = (self.key, self.sequence);
        mem.visit_with(key, sequence, |key, sequence, value_type, stored| match unguarded_version(
            key,
            (sequence, value_type),
            stored,
            mem.guard_bytes(),
        ) {
            Ok(value) if !self.sees(key, sequence, (value_type, value)) => true,
            Ok(value) => self.take(sequence, value_type, value, None),
            Err(error) => {
                self.answer = Answer::Failed(error);
                false
            }
        });
    }
}
