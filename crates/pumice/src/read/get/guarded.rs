//! Gets of memtables whose readers compare: checksums of entries
//! (`memtable_protection_bytes_per_key`) and what searches pass (`pumice_memtable::Checks`).
//!
//! Thread safety: as the lookup's. Every entry of the key that is visited is compared, also one
//! that the time of the read does not see. Not here: how checksums are made (`pumice_memtable`).

use pumice_memtable::{MemTable, unguarded_version};

use super::{Answer, Lookup};

impl Lookup<'_> {
    /// As `memtable`, in a memtable whose readers compare.
    #[cold]
    pub(super) fn memtable_guarded(&mut self, mem: &MemTable) {
        let (key, sequence) = (self.key, self.sequence);
        let visited = mem.visit_checked(key, sequence, &mut |key, sequence, value_type, stored| {
            match unguarded_version(key, (sequence, value_type), stored, mem.guard_bytes()) {
                Ok(value) if !self.sees(key, sequence, (value_type, value)) => true,
                Ok(value) => self.take(sequence, value_type, value, None),
                Err(error) => {
                    self.answer = Answer::Failed(error);
                    false
                }
            }
        });
        if let Err(error) = visited {
            self.answer = Answer::Failed(error);
        }
    }
}
