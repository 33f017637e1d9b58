//! Both processes die, or lose power, at any change of files: what was written is there after the
//! next open, and no table that the database does not know.

use std::sync::Arc;

use pumice::{Db, MemFs};
use pumice_env::mem::CrashMode;

use super::{Service, compact, contents, fill, tables};
use crate::common::{DIR, options};

#[pumice_test_macros::test]
fn deaths_lose_nothing_and_leave_no_table() {
    let changes = run(None, 0);
    println!("{changes} changes");
    for power in [false, true] {
        let step = (changes / 40).max(1);
        for at in (0..changes).step_by(usize::try_from(step).unwrap()) {
            run(Some(at), if power { at + 1 } else { 0 });
        }
    }
}

/// Compacts on files that halt after `halt` changes, and then lose power with that seed unless it
/// is 0; returns how many changes there were.
fn run(halt: Option<u64>, seed: u64) -> u64 {
    let fs = MemFs::new(seed);
    let mut options = options(&fs.shared());
    options.cf.disable_auto_compactions = true;
    let db = Db::open(&options, DIR).unwrap();
    fill(&db, 400);
    let before = contents(&db);
    db.close().unwrap();
    drop(db);
    let service = Service::new(&options);
    let mut served = options.clone();
    served.db.compaction_service = Some(Arc::clone(&service) as _);
    let db = Db::open(&served, DIR).unwrap();
    let began = fs.change_count();
    if let Some(halt) = halt {
        fs.halt_after(halt);
    }
    let compacted = compact(&db);
    let took = fs.change_count() - began;
    if halt.is_none() {
        compacted.unwrap();
        assert_eq!((service.successes(), service.failures()), (1, Vec::new()));
    }
    drop(db.close()); // Its files may be gone.
    drop(db);
    match seed {
        0 => fs.clear_faults(),
        seed => fs.crash(seed, CrashMode::UNSYNCED),
    }
    let db = Db::open(&options, DIR).unwrap();
    assert_eq!(contents(&db), before, "after {halt:?} changes");
    db.verify_checksum().unwrap();
    crate::common::eventually("unknown tables are deleted", || {
        let (there, live) = tables(&db, &options);
        there == live
    });
    db.close().unwrap();
    took
}
