//! Which of a family's directories the outputs of a compaction go to, as RocksDB's pickers choose
//! (`GetPathId`): it lasts as long as the sizes of the options do, whatever files there are.
//!
//! Thread safety: pure functions.

use pumice_env::filename::{PathId, TableDirs};

use super::LeveledOptions;

/// The directory of `level`: levels fill one directory after the other with the sizes that they
/// should have, L0 that of L1, and what fits nowhere goes to the last one.
pub(super) fn of_level(options: &LeveledOptions, level: usize) -> PathId {
    let Some(last) = options.path_sizes.len().checked_sub(1) else { return TableDirs::OWN };
    let (mut at, mut left) = (0, options.path_sizes[0]);
    let (mut current, mut bytes) = (0, options.max_bytes_for_level_base);
    while at < last {
        if bytes > left {
            at += 1;
            left = options.path_sizes[at];
            continue;
        }
        if current == level {
            break;
        }
        left -= bytes;
        if current > 0 {
            bytes = options.next_level_bytes(current, bytes);
        }
        current += 1;
    }
    id(at)
}

/// The directory of a run of `bytes`: it is to have room for the run, and this and the ones before
/// it also for those that will be newer once the run is merged.
pub(super) fn of_bytes(options: &LeveledOptions, bytes: u64, size_ratio: u64) -> PathId {
    let Some(last) = options.path_sizes.len().checked_sub(1) else { return TableDirs::OWN };
    let future = bytes.saturating_mul(100u64.saturating_sub(size_ratio)) / 100;
    let mut before = 0u64;
    for (at, size) in options.path_sizes[..last].iter().enumerate() {
        if *size > bytes && before.saturating_add(size - bytes) > future {
            return id(at);
        }
        before = before.saturating_add(*size);
    }
    id(last)
}

fn id(at: usize) -> PathId {
    PathId::try_from(at).unwrap_or(TableDirs::OWN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compaction::plan::shape;
    use crate::options::{ColumnFamilyOptions, DbPath};

    fn options(sizes: &[u64]) -> LeveledOptions {
        shape(&ColumnFamilyOptions {
            max_bytes_for_level_base: 100,
            max_bytes_for_level_multiplier: 10.0,
            cf_paths: sizes.iter().map(|size| DbPath::new("/", *size)).collect(),
            ..ColumnFamilyOptions::default()
        })
    }

    /// What RocksDB's `GetPathId` gives for these sizes: L0 and L1 have 100 bytes, L2 1000.
    #[pumice_test_macros::test]
    fn levels_fill_one_directory_after_the_other() {
        for (sizes, wanted) in [
            (&[][..], [0, 0, 0, 0, 0]),
            (&[50], [0, 0, 0, 0, 0]),
            (&[99, 1], [1, 1, 1, 1, 1]),
            (&[100, 1], [0, 1, 1, 1, 1]),
            (&[200, 1], [0, 0, 1, 1, 1]),
            (&[1199, 1], [0, 0, 1, 1, 1]),
            (&[1200, 1], [0, 0, 0, 1, 1]),
            (&[100, 100, 1000, 1], [0, 1, 2, 3, 3]),
            // A level that is too large for one directory goes to the next one that it fits into.
            (&[100, 10, 1100, 1], [0, 2, 2, 3, 3]),
        ] {
            let options = options(sizes);
            let found: Vec<PathId> = (0..5).map(|level| of_level(&options, level)).collect();
            assert_eq!(found, wanted, "{sizes:?}");
        }
    }

    #[pumice_test_macros::test]
    fn runs_go_where_they_and_newer_ones_fit() {
        for (sizes, bytes, wanted) in [
            (&[][..], 10, 0),
            (&[100, 1000, 1][..], 10, 0),
            (&[100, 1000, 1], 50, 0),
            (&[100, 1000, 1], 60, 1),
            (&[100, 1000, 1], 500, 1),
            (&[100, 1000, 1], 600, 2),
            (&[100, 1000, 1], u64::MAX, 2),
        ] {
            assert_eq!(of_bytes(&options(sizes), bytes, 1), wanted, "{sizes:?} {bytes}");
        }
    }
}
