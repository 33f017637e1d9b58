//! A key range that an ingestion replaces: which files of the tree are removed.
//!
//! Thread safety: pure functions over a version and what runs on it.
//! Invariant: what is returned covers every entry of the version in the range, and none outside.

use pumice_base::{Comparator, Error, Result};
use pumice_manifest::UserRange;

use crate::compaction::picker::InputLevel;
use crate::ingest::place::Tree;
use crate::ingest::{IngestExternalFileOptions, RangeOpt};

/// The range as the tree has it.
///
/// # Errors
/// NotSupported or InvalidArgument for what RocksDB refuses too.
pub(crate) fn range_of<'a>(
    range: &'a RangeOpt,
    options: &IngestExternalFileOptions,
) -> Result<UserRange<'a>> {
    if options.ingest_behind {
        return Err(Error::invalid_argument(
            "Can't combine atomic_replace_range with ingest_behind.",
        ));
    }
    if options.snapshot_consistency {
        return Err(Error::not_supported(
            "atomic_replace_range not yet supported with snapshot_consistency.",
        ));
    }
    match (&range.start, &range.limit) {
        (None, None) => Ok(UserRange::default()),
        (Some(begin), Some(end)) => {
            Ok(UserRange { end_open: true, ..UserRange::closed(Some(begin), Some(end)) })
        }
        _ => Err(Error::not_supported(
            "Only one of atomic_replace_range.{start,limit}.has_value() is not supported.",
        )),
    }
}

/// Refuses files that are not inside the range.
///
/// # Errors
/// InvalidArgument.
pub(crate) fn check_inside<'a>(
    range: &UserRange<'_>,
    files: impl IntoIterator<Item = UserRange<'a>>,
    cmp: &Comparator,
) -> Result<()> {
    if files.into_iter().all(|file| contains(range, &file, cmp)) {
        return Ok(());
    }
    Err(Error::invalid_argument("Atomic replace range does not contain all files"))
}

/// The files of the tree that lie in `range`. Nothing else of the tree does.
///
/// # Errors
/// InvalidArgument if a file is only partly inside, or a compaction works there.
pub(crate) fn replaced(tree: &Tree<'_>, range: &UserRange<'_>) -> Result<Vec<InputLevel>> {
    let cmp = &tree.version.comparator().user;
    let all = range.begin.is_none();
    if all && !tree.running.is_empty() {
        return Err(Error::invalid_argument(
            "Atomic replace range (full) overlaps with pending compaction",
        ));
    }
    let mut found = Vec::new();
    for level in tree.version.levels() {
        let number = level.number();
        if !all && tree.running.writes_into(number, range, cmp) {
            return Err(busy());
        }
        let mut files = Vec::new();
        for file in level.files() {
            let own = UserRange::of_file(file);
            if !own.overlaps(range, cmp) {
                continue;
            }
            if !contains(range, &own, cmp) {
                return Err(Error::invalid_argument(
                    "Atomic replace range partially overlaps with existing file",
                ));
            }
            if file.is_being_compacted() {
                return Err(busy());
            }
            files.push(file.clone());
        }
        if !files.is_empty() {
            found.push(InputLevel { level: number, files });
        }
    }
    Ok(found)
}

#[cold]
fn busy() -> Error {
    Error::invalid_argument("Atomic replace range overlaps with pending compaction")
}

/// `inner` lies in `outer`.
fn contains(outer: &UserRange<'_>, inner: &UserRange<'_>, cmp: &Comparator) -> bool {
    let begins = outer
        .begin
        .is_none_or(|begin| inner.begin.is_some_and(|inner| cmp.compare(begin, inner).is_le()));
    let ends = outer.end.is_none_or(|end| inner.is_before_key(end, cmp));
    begins && ends
}
