//! Where compaction outputs end.
#![allow(clippy::unwrap_used)]
use pumice_base::ValueType;
use pumice_base::key::internal_key;

use super::*;

fn file(smallest: &str, largest: &str, bytes: u64) -> Arc<FileMetaData> {
    Arc::new(FileMetaData {
        smallest: internal_key(smallest.as_bytes(), 1, ValueType::Value),
        largest: internal_key(largest.as_bytes(), 1, ValueType::Value),
        file_size: bytes,
        ..FileMetaData::default()
    })
}

fn cut(grandparents: Vec<Arc<FileMetaData>>) -> OutputCut {
    OutputCut::new(Comparator::Bytewise, grandparents, 1000, 2000, 5000)
}

#[pumice_test_macros::test]
fn without_grandparents_files_end_at_their_target() {
    let mut cut = cut(Vec::new());
    cut.started();
    assert!(!cut.before(UserKey::new(b"a"), 999));
    assert!(cut.before(UserKey::new(b"b"), 1000));
}

#[pumice_test_macros::test]
fn files_end_early_at_a_grandparents_end_and_late_without_one() {
    let mut cut = cut(vec![file("b", "d", 100), file("e", "g", 100), file("i", "k", 100)]);
    cut.before(UserKey::new(b"b"), 0);
    cut.started();
    assert!(!cut.before(UserKey::new(b"c"), 1999), "inside of a grandparent up to the limit");
    assert!(cut.before(UserKey::new(b"c1"), 2000), "not beyond the limit");
    cut.started();
    assert!(!cut.before(UserKey::new(b"d"), 600), "the end itself belongs to the file");
    assert!(!cut.before(UserKey::new(b"d1"), 540), "too small for one boundary");
    assert!(!cut.before(UserKey::new(b"h"), 649), "or for three");
    assert!(cut.before(UserKey::new(b"j"), 700), "three quarters full and a boundary is passed");
}

#[pumice_test_macros::test]
fn files_end_before_they_overlap_too_much() {
    let mut cut = cut(vec![file("b", "c", 3000), file("d", "e", 3000), file("f", "g", 1)]);
    cut.before(UserKey::new(b"b"), 0);
    cut.started();
    assert!(cut.before(UserKey::new(b"d"), 10), "3000 and 3000 are more than 5000");
    cut.started();
    assert!(!cut.before(UserKey::new(b"f"), 20), "counted again for each output");
    cut.started();
    assert!(!cut.before(UserKey::new(b"h"), 20));
}

#[pumice_test_macros::test]
fn the_output_counts_against_the_limit_of_compactions() {
    for (bytes, ends) in [(999, false), (1001, true)] {
        let mut cut = OutputCut::new(
            Comparator::Bytewise,
            vec![file("b", "c", 4000), file("y", "z", 1)],
            1 << 20,
            1 << 20,
            5000,
        );
        cut.before(UserKey::new(b"b"), 0);
        cut.started();
        assert_eq!(cut.before(UserKey::new(b"d"), bytes), ends, "{bytes}");
    }
}

/// A later compaction of either output has nothing to do with a file between them.
#[pumice_test_macros::test]
fn files_end_before_one_that_they_would_pass_over() {
    let between = |bytes| vec![file("b", "c", 2000), file("e", "g", bytes), file("i", "k", 2000)];
    // From inside of a file or from a gap, into a file or a gap.
    for (first, second) in [("b", "j"), ("d", "h"), ("b", "h"), ("d", "j")] {
        for (bytes, ends) in [(125, false), (126, true)] {
            let mut cut = cut(between(bytes));
            cut.before(UserKey::new(first.as_bytes()), 0);
            cut.started();
            assert_eq!(
                cut.before(UserKey::new(second.as_bytes()), 10),
                ends,
                "{first} to {second}, {bytes}"
            );
        }
    }
    for (first, second) in [("b", "f"), ("b", "d"), ("d", "f"), ("f", "h"), ("f", "j")] {
        let mut cut = cut(between(1000));
        cut.before(UserKey::new(first.as_bytes()), 0);
        cut.started();
        assert!(
            !cut.before(UserKey::new(second.as_bytes()), 10),
            "{first} to {second} passes over none"
        );
    }
}

/// Universal compaction.
#[pumice_test_macros::test]
fn files_of_one_size_end_nowhere_else() {
    let grandparents = vec![file("b", "c", 200), file("e", "g", 200)];
    let mut cut = OutputCut::new(Comparator::Bytewise, grandparents, 1000, 1000, 5000);
    cut.before(UserKey::new(b"b"), 0);
    cut.started();
    assert!(!cut.before(UserKey::new(b"h"), 999));
    assert!(cut.before(UserKey::new(b"i"), 1000));
}

#[pumice_test_macros::test]
fn grandparents_before_the_first_key_do_not_count() {
    let mut cut = cut(vec![file("a", "b", 6000), file("x", "y", 1)]);
    assert!(!cut.before(UserKey::new(b"m"), 0));
    cut.started();
    assert!(!cut.before(UserKey::new(b"n"), 100));
}

/// The outputs end where the first bytes of keys change, whatever their size; a shorter key is its
/// own prefix.
#[pumice_test_macros::test]
fn outputs_end_where_a_prefix_changes() {
    let mut cut = cut(Vec::new()).by_prefix(Some(2));
    let mut ends = |key: &str, bytes| cut.before(UserKey::new(key.as_bytes()), bytes);
    assert!(!ends("aa1", 0));
    assert!(!ends("aa2", 10));
    assert!(ends("ab1", 10));
    assert!(ends("b", 10));
    assert!(!ends("b", 10));
    assert!(ends("ba", 10));
    // Nothing was written: there is nothing to end.
    assert!(!ends("c", 0));
}
