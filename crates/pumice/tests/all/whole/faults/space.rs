//! A full disk: reads continue, writes fail and work again by themselves when there is space.

use pumice::{FlushOptions, WriteOptions};

use super::support::{Fixture, key};
use crate::common::eventually;

#[pumice_test_macros::test]
fn writes_work_again_when_space_returns() {
    let mut f = Fixture::new();
    f.fill(0..100);
    f.fs.set_quota(Some(f.fs.used_bytes() + 4096));
    let value = vec![b'v'; 1024];
    let mut refused = None;
    for n in 1000..1100 {
        match f.db().put_opt(&WriteOptions::default(), &key(n), &value) {
            Ok(()) => drop(f.model.insert(key(n), value.clone())),
            Err(error) => {
                f.may_have.insert((key(n), value.clone()));
                refused.get_or_insert(error);
            }
        }
    }
    let refused = refused.expect("the disk is full");
    assert!(refused.is_no_space(), "{refused}");
    for n in [1, 50, 99] {
        assert!(f.db().get_opt(&Default::default(), &key(n)).unwrap().is_some());
    }
    f.fs.set_quota(None);
    eventually("writes work", || {
        f.db().put_opt(&WriteOptions::default(), &key(2000), b"x").is_ok()
    });
    f.model.insert(key(2000), b"x".to_vec());
    f.fill(2001..2100);
    f.check();
    f.reopen();
}

#[pumice_test_macros::test]
fn a_flush_into_a_full_disk_ends_and_is_repeated() {
    let mut f = Fixture::new();
    f.fill(0..200);
    f.fs.set_quota(Some(f.fs.used_bytes() + 512));
    let error = f.db().flush_opt(&FlushOptions::default()).unwrap_err();
    assert!(error.is_no_space(), "{error}");
    // The attempts in between fail; none of them may hang or hoard files.
    eventually("attempts were made", || f.fs.change_count() > 100);
    assert!(f.db().put_opt(&WriteOptions::default(), &key(1), b"x").unwrap_err().is_no_space());
    f.check();
    f.fs.set_quota(None);
    eventually("flushed", || f.db().live_files_metadata().len() == 1);
    eventually("no rubbish", || f.tables_on_disk().len() == 1);
    eventually("writes work", || f.db().put_opt(&WriteOptions::default(), &key(1), b"x").is_ok());
    f.model.insert(key(1), b"x".to_vec());
    f.check();
    f.reopen();
}

#[pumice_test_macros::test]
fn closing_a_full_database_ends() {
    let mut f = Fixture::new();
    f.fill(0..200);
    f.fs.set_quota(Some(f.fs.used_bytes()));
    f.db().flush_opt(&FlushOptions::default()).unwrap_err();
    f.fs.set_quota(None);
    f.reopen();
}
