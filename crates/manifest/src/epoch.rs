//! Epoch numbers for files of releases that did not store them.
//!
//! If any file lacks one, all are reassigned: one per level from the deepest up, then one per L0
//! file from the oldest, age by sequence numbers. Thread safety: plain functions.

use pumice_base::order;
use std::sync::Arc;

use crate::file_meta::FileMetaData;

/// Assigns epoch numbers to all files and puts L0 in order.
pub(crate) fn infer(levels: &mut [Vec<Arc<FileMetaData>>]) {
    let mut next = 1;
    let Some((level0, deeper)) = levels.split_first_mut() else {
        return;
    };
    for files in deeper.iter_mut().rev().filter(|files| !files.is_empty()) {
        for file in files.iter_mut() {
            *file = Arc::new(file.with_epoch(next));
        }
        next += 1;
    }
    order::sort_by_key(level0, |f| (f.largest_seq, f.smallest_seq, f.number));
    for file in level0.iter_mut() {
        *file = Arc::new(file.with_epoch(next));
        next += 1;
    }
    level0.reverse();
}
