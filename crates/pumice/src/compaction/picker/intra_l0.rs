//! Compactions inside L0: fewer, larger L0 files when L0 cannot move down, or should not yet.
//!
//! The span always begins at the newest file and never skips one being compacted, so the output
//! keeps its place in the order by age.

use std::sync::Arc;

use pumice_manifest::FileMetaData;

use super::{InputLevel, PickContext};

/// Fewer files than this are not worth the work while the base level is busy.
const MIN_FILES: usize = 4;

impl PickContext<'_> {
    /// The base level is busy: merges newest files meanwhile.
    pub(super) fn pick_intra_level0(&self) -> Option<InputLevel> {
        let files = self.version.files(0);
        if files.len() < self.options.level0_file_num_compaction_trigger + 2 {
            return None;
        }
        self.merge_newest(MIN_FILES, u64::MAX)
    }

    /// At least `min_files` of the newest files, taken as long as each further file lowers the
    /// bytes to merge per removed file; `None` if that is not below `max_per_removed`.
    pub(super) fn merge_newest(
        &self,
        min_files: usize,
        max_per_removed: u64,
    ) -> Option<InputLevel> {
        let idle = self.newest_idle(self.version.files(0));
        let mut bytes = idle.first()?.file_size;
        let mut best = u64::MAX;
        let mut take = 1;
        for file in &idle[1..] {
            bytes = bytes.saturating_add(file.file_size);
            let per_removed_file = bytes / take as u64;
            if per_removed_file > best || bytes > self.options.compaction_limit() {
                break;
            }
            best = per_removed_file;
            take += 1;
        }
        let worthwhile = take >= min_files && best < max_per_removed;
        worthwhile.then(|| InputLevel::new(0, idle[..take].to_vec()))
    }

    /// L0 is tiny compared to the base level: merging it there would rewrite far too much.
    pub(super) fn pick_small_level0(&self) -> Option<InputLevel> {
        let files = self.version.files(0);
        let min_files = self.options.level0_file_num_compaction_trigger.max(2);
        if files.len() < min_files || !self.has_base_level() {
            return None;
        }
        let ratio = self.options.max_bytes_for_level_multiplier.max(10.0) * 2.0;
        let enough = self.version.level(0).compensated_bytes() as f64 * ratio;
        if self.version.level_bytes(self.targets.base_level) as f64 <= enough {
            return None;
        }
        let idle = self.newest_idle(files);
        (idle.len() >= min_files).then(|| InputLevel::new(0, idle.to_vec()))
    }

    fn newest_idle<'f>(&self, files: &'f [Arc<FileMetaData>]) -> &'f [Arc<FileMetaData>] {
        let idle = files.iter().position(|f| f.is_being_compacted()).unwrap_or(files.len());
        &files[..idle]
    }
}
