//! Where an output file ends.
//!
//! A file ends when it has its target size. Where the compaction may make files of up to twice that
//! (leveled, `level_compaction_dynamic_file_size`), it ends earlier or later, so that it overlaps
//! less of the level below the output, and later compactions of it rewrite less:
//!
//! - at the end of a file there, once the output is large enough;
//! - before a file there into whose range no key of the output falls, so that later compactions
//!   need not rewrite that file. A sparse level has many such files, and outputs would get small,
//!   so only files above an eighth of the target count.
//!
//! It also ends when compacting it would be too large, and where a prefix of keys changes that the
//! option `sst_partitioner_factory` names.
//!
//! The rules and their numbers are RocksDB's (`CompactionOutputs::ShouldStopBefore`). Pure. Called
//! once per user key, in order; a key that crosses no file boundary costs one key comparison.

use std::sync::Arc;

use pumice_base::{Comparator, UserKey};
use pumice_manifest::FileMetaData;

/// See the module head.
pub(crate) struct OutputCut {
    comparator: Comparator,
    grandparents: Vec<Arc<FileMetaData>>,
    /// First grandparent that does not end before the last key passed in.
    at: usize,
    /// The last key passed in lies inside that file, not before it.
    inside: bool,
    /// Bytes of grandparents that the present output overlaps or skips.
    overlapped_bytes: u64,
    /// Begins and ends of grandparents inside the present output.
    boundaries: u64,
    target_bytes: u64,
    max_bytes: u64,
    max_compaction_bytes: u64,
    /// So many first bytes of keys do not change in an output.
    prefix_len: Option<usize>,
    /// The prefix of the last key passed in.
    prefix: Vec<u8>,
}

/// What lies between two keys.
#[derive(Clone, Copy, Default)]
struct Step {
    /// Begins and ends of grandparents.
    boundaries: u64,
    /// Bytes of those that lie wholly in between.
    skipped_bytes: u64,
}

impl OutputCut {
    /// Cuts for one compaction, whose outputs may have up to `max_bytes` where that saves later
    /// work.
    pub fn new(
        comparator: Comparator,
        grandparents: Vec<Arc<FileMetaData>>,
        target_bytes: u64,
        max_bytes: u64,
        max_compaction_bytes: u64,
    ) -> Self {
        OutputCut {
            comparator,
            grandparents,
            at: 0,
            inside: false,
            overlapped_bytes: 0,
            boundaries: 0,
            target_bytes,
            max_bytes,
            max_compaction_bytes,
            prefix_len: None,
            prefix: Vec::new(),
        }
    }

    /// The same, cut also where the first `prefix_len` bytes of keys change.
    pub fn by_prefix(self, prefix_len: Option<usize>) -> Self {
        OutputCut { prefix_len, ..self }
    }

    /// True if the output of `bytes` should end before `user_key`. Call once per user key.
    pub fn before(&mut self, user_key: UserKey<'_>, bytes: u64) -> bool {
        let step = self.step_to(user_key);
        let changes = self.prefix_len.is_some_and(|len| self.prefix_changes(user_key, len));
        if bytes == 0 {
            return false;
        }
        if changes {
            return true;
        }
        if bytes >= self.max_bytes || (self.grandparents.is_empty() && bytes >= self.target_bytes) {
            return true;
        }
        if step.boundaries == 0 {
            return false;
        }
        if self.overlapped_bytes.saturating_add(bytes) > self.max_compaction_bytes {
            return true;
        }
        // The more boundaries were passed, the longer it waits for a better one.
        let percent = 50 + (5 * self.boundaries).min(40);
        self.max_bytes > self.target_bytes
            && (step.skipped_bytes > self.target_bytes / 8
                || bytes >= self.target_bytes / 100 * percent)
    }

    /// Notes the prefix of the key; whether it differs from the one before.
    fn prefix_changes(&mut self, user_key: UserKey<'_>, len: usize) -> bool {
        let key = user_key.as_bytes();
        let prefix = &key[..len.min(key.len())];
        if self.prefix == prefix {
            return false;
        }
        self.prefix.clear();
        self.prefix.extend_from_slice(prefix);
        true
    }

    fn step_to(&mut self, user_key: UserKey<'_>) -> Step {
        let mut step = Step::default();
        while let Some(file) = self.grandparents.get(self.at) {
            if !self.inside {
                if self.comparator.compare(user_key, file.smallest_user_key()).is_lt() {
                    break;
                }
                self.overlapped_bytes = self.overlapped_bytes.saturating_add(file.file_size);
                step.boundaries += 1;
            }
            let entered = !std::mem::replace(&mut self.inside, true);
            if self.comparator.compare(user_key, file.largest_user_key()).is_le() {
                break;
            }
            step.boundaries += 1;
            let skipped = if entered { file.file_size } else { 0 };
            step.skipped_bytes = step.skipped_bytes.saturating_add(skipped);
            self.at += 1;
            self.inside = false;
        }
        self.boundaries += step.boundaries;
        step
    }

    /// A new output begins with the key that was passed in last.
    pub fn started(&mut self) {
        let present = self.grandparents.get(self.at).filter(|_| self.inside);
        self.overlapped_bytes = present.map_or(0, |file| file.file_size);
        self.boundaries = 0;
    }
}

#[cfg(test)]
mod tests;
