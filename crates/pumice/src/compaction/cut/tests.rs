//! Where compaction outputs end.
#![allow(clippy::unwrap_used)]
use pumice_base::ValueType;
use pumice_base::dbformat::internal_key;

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
    assert!(!cut.before(b"a", 999));
    assert!(cut.before(b"b", 1000));
}

#[pumice_test_macros::test]
fn files_end_early_at_a_grandparents_end_and_late_without_one() {
    let mut cut = cut(vec![file("b", "d", 100), file("e", "g", 100)]);
    cut.started();
    assert!(!cut.before(b"c", 1500), "inside of a grandparent up to the limit");
    assert!(cut.before(b"c1", 2000), "not beyond the limit");
    cut.started();
    assert!(!cut.before(b"d", 600), "the end itself belongs to the file");
    assert!(!cut.before(b"d1", 540), "too small for one boundary");
    assert!(cut.before(b"h", 600), "half full and a boundary is passed");
}

#[pumice_test_macros::test]
fn files_end_before_they_overlap_too_much() {
    let mut cut = cut(vec![file("b", "c", 3000), file("d", "e", 3000), file("f", "g", 1)]);
    cut.started();
    assert!(!cut.before(b"d", 10));
    assert!(cut.before(b"f", 20));
    cut.started();
    assert!(!cut.before(b"h", 20), "counted anew for each output");
}

#[pumice_test_macros::test]
fn grandparents_before_the_first_key_do_not_count() {
    let mut cut = cut(vec![file("a", "b", 6000), file("x", "y", 1)]);
    assert!(!cut.before(b"m", 0));
    cut.started();
    assert!(!cut.before(b"n", 100));
}
