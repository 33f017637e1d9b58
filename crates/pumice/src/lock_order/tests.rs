//! A debug build panics at a wrong order.
#![cfg(debug_assertions)]
#![allow(clippy::unwrap_used)]

use pumice_port::thread;

use crate::{Db, MemFs, Options, lock_order};

#[pumice_test_macros::test]
fn a_wrong_order_panics_and_the_right_one_does_not() {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.file_system = MemFs::new(1).shared();
    let db = Db::open(&options, "/db").unwrap();
    let inner = db.inner();
    let logs = inner.logs.wal.lock();
    let panic = thread::contain("The test", || drop(inner.state.lock())).unwrap_err();
    assert!(panic.to_string().contains("`DbInner::state` (place 60)"), "{panic}");
    assert!(panic.to_string().contains("`Logs::wal` (place 70)"), "{panic}");
    drop(logs);
    let state = inner.state.lock();
    let wait = || lock_order::LEADERSHIP.check_none_held(lock_order::UNDER_LEADERSHIP);
    let panic = thread::contain("The test", wait).unwrap_err();
    assert!(panic.to_string().contains("`leadership` (place 20)"), "{panic}");
    let panic = thread::contain("The test", || lock_order::OPTIONS_CHANGE.check()).unwrap_err();
    assert!(panic.to_string().contains("`Settings::change` (place 10)"), "{panic}");
    drop(state);
    // Code that a leader calls writes to another database.
    let scratch = inner.writes.scratch.lock();
    wait();
    lock_order::OPTIONS_CHANGE.check();
    drop(scratch);
    drop((inner.manifest.lock(), inner.state.lock(), inner.logs.wal.lock()));
    db.close().unwrap();
}
