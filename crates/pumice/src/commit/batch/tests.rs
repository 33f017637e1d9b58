//! Layout, refusals and save points of a batch.
#![allow(clippy::unwrap_used)]
use super::*;

#[pumice_test_macros::test]
fn wire_layout_matches_the_format_spec() {
    let mut b = WriteBatch::new();
    b.put(b"a", b"1");
    b.put_cf(1, b"b", b"2");
    b.delete(b"a");
    b.delete_cf(1, b"b");
    b.single_delete(b"s");
    b.delete_range(b"d", b"f");
    b.put_log_data(b"logdata");
    let want: &[u8] = &[
        0, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 1, 1, 0x61, 1, 0x31, 5, 1, 1, 0x62, 1, 0x32, 0, 1,
        0x61, 4, 1, 1, 0x62, 7, 1, 0x73, 0x0f, 1, 0x64, 1, 0x66, 3, 7, b'l', b'o', b'g', b'd',
        b'a', b't', b'a',
    ];
    assert_eq!(b.data(), want);
    assert_eq!(b.count(), 6);
    assert!(WriteBatch::from_data(want).is_ok());
}

#[pumice_test_macros::test]
fn malformed_batches_are_refused() {
    let mut b = WriteBatch::new();
    b.put(b"key", b"value");
    let good = b.data().to_vec();
    for cut in 0..good.len() {
        assert!(WriteBatch::from_data(&good[..cut]).is_err(), "cut at {cut}");
    }
    let mut wrong_count = good.clone();
    wrong_count[8] = 2;
    assert!(WriteBatch::from_data(&wrong_count).is_err());
    let mut bad_tag = good;
    bad_tag[12] = 0x7f;
    assert!(WriteBatch::from_data(&bad_tag).is_err());
}

#[pumice_test_macros::test]
fn save_points_roll_back() {
    let mut b = WriteBatch::new();
    b.put(b"a", b"1");
    b.set_save_point();
    b.put(b"b", b"2");
    b.rollback_to_save_point().unwrap();
    assert_eq!(b.count(), 1);
    assert!(b.rollback_to_save_point().is_err());
}

/// A batch in which some key or end is too short for a timestamp stays as it is.
#[pumice_test_macros::test]
fn timestamps_that_do_not_fit_change_nothing() {
    for fill in [
        |batch: &mut WriteBatch| batch.delete_range_cf(0, "a long beginning", "end"),
        |batch: &mut WriteBatch| batch.put_cf(0, "key", "a value that has room for eight bytes"),
    ] {
        let mut batch = WriteBatch::new();
        batch.put_cf(0, "a key that is long enough", "");
        fill(&mut batch);
        let before = batch.data().to_vec();
        let error = batch.update_timestamps(&[9; 8], |_| Some(8)).unwrap_err();
        assert_eq!(error.kind(), pumice_base::ErrorKind::InvalidArgument, "{error}");
        assert_eq!(batch.data(), before);
    }
}
