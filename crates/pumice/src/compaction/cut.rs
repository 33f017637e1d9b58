//! Where an output file ends.
//!
//! A file ends when it has its target size, or somewhat earlier where a file of the level below the
//! output ends: later compactions of that file then rewrite less (RocksDB #10655). It also ends
//! when it overlaps so many bytes of that level that compacting it would be too large.
//!
//! Pure. Asked once a user key, in order; at most one key comparison a call.

use std::sync::Arc;

use pumice_base::Comparator;
use pumice_manifest::FileMetaData;

/// See the module head.
pub(crate) struct OutputCut {
    comparator: Comparator,
    grandparents: Vec<Arc<FileMetaData>>,
    /// First grandparent that does not end before the last key asked about.
    at: usize,
    /// Bytes of grandparents that the present output overlaps.
    overlapped_bytes: u64,
    /// Ends of grandparents inside the present output.
    boundaries: u64,
    target_bytes: u64,
    max_bytes: u64,
    max_overlap_bytes: u64,
}

impl OutputCut {
    /// Cuts for one compaction.
    pub fn new(
        comparator: Comparator,
        grandparents: Vec<Arc<FileMetaData>>,
        target_bytes: u64,
        max_bytes: u64,
        max_overlap_bytes: u64,
    ) -> Self {
        OutputCut {
            comparator,
            grandparents,
            at: 0,
            overlapped_bytes: 0,
            boundaries: 0,
            target_bytes,
            max_bytes,
            max_overlap_bytes,
        }
    }

    /// True if the output of `bytes` should end before `user_key`. Call once per user key.
    pub fn before(&mut self, user_key: &[u8], bytes: u64) -> bool {
        let mut crossed = false;
        while let Some(file) = self.grandparents.get(self.at) {
            if self.comparator.compare(user_key, file.largest_user_key()).is_le() {
                break;
            }
            crossed = true;
            self.boundaries += 1;
            self.overlapped_bytes += file.file_size;
            self.at += 1;
        }
        if bytes == 0 {
            return false;
        }
        if bytes >= self.max_bytes || (self.grandparents.is_empty() && bytes >= self.target_bytes) {
            return true;
        }
        if !crossed {
            return false;
        }
        // The more boundaries were passed over, the longer to wait for a better one.
        let percent = (50 + 5 * self.boundaries).min(90);
        self.overlapped_bytes > self.max_overlap_bytes || bytes >= self.target_bytes / 100 * percent
    }

    /// A new output begins.
    pub fn started(&mut self) {
        self.overlapped_bytes = 0;
        self.boundaries = 0;
    }
}

#[cfg(test)]
mod tests;
