//! Opens that fail, again and again: nothing that they wrote stays, and nothing is lost.

use pumice::{ColumnFamilyDescriptor, Db, MemFs, Options};
use pumice_env::mem::{CrashMode, Fault, FaultOp, FaultRule};

use crate::common::{DIR, SYNC, get, key, names, options};

const KEYS: usize = 400;
const TRIES: usize = 6;

/// A database whose log fills several memtables when it is replayed.
fn prepare(fs: &MemFs) -> Options {
    let mut options = options(&fs.shared());
    let db = Db::open(&options, DIR).unwrap();
    for n in 0..KEYS {
        db.put_opt(&SYNC, &key(n), &[b'v'; 300]).unwrap();
    }
    db.close().unwrap();
    options.cf.write_buffer_size = 16 << 10;
    options.cf.arena_block_size = 4 << 10;
    options
}

/// Files that hold data; the number of info logs is limited separately.
fn files(fs: &MemFs) -> Vec<String> {
    let mut names = names(&fs.shared(), DIR);
    names.retain(|name| !name.starts_with("LOG"));
    names
}

/// Opens fail because of `rule`: how many files were there before, after one, and after all.
fn tries(op: FaultOp, glob: &str, skip: u64) -> Option<(Vec<String>, Vec<String>, Vec<String>)> {
    let fs = MemFs::new(1);
    let options = prepare(&fs);
    let before = files(&fs);
    let mut first = None;
    for _ in 0..TRIES {
        let path_glob = glob.to_string();
        fs.add_fault(FaultRule { op: Some(op), path_glob, skip, count: 1, fault: Fault::Enospc });
        let opened = Db::open(&options, DIR);
        fs.clear_faults();
        if let Ok(db) = opened {
            db.close().unwrap();
            return None;
        }
        first.get_or_insert_with(|| files(&fs));
    }
    let last = files(&fs);
    let db = Db::open(&options, DIR).unwrap();
    (0..KEYS).for_each(|n| assert!(get(&db, &key(n)).is_some(), "key {n}, {op:?} {glob} {skip}"));
    db.close().unwrap();
    Some((before, first.unwrap_or_default(), last))
}

fn count(names: &[String], ends: &str) -> usize {
    names.iter().filter(|name| name.ends_with(ends)).count()
}

#[pumice_test_macros::test]
fn nothing_stays_of_opens_that_fail() {
    let mut failed = 0;
    for (op, glob) in [
        (FaultOp::Create, "/db/*.sst"),
        (FaultOp::Write, "/db/*.sst"),
        (FaultOp::Sync, "/db/*.sst"),
        (FaultOp::Create, "/db/*.log"),
        (FaultOp::SyncDir, "/db"),
        (FaultOp::Create, "/db/MANIFEST-*"),
        (FaultOp::Write, "/db/MANIFEST-*"),
        (FaultOp::Sync, "/db/MANIFEST-*"),
        (FaultOp::Create, "/db/*.dbtmp"),
        (FaultOp::Write, "/db/*.dbtmp"),
    ] {
        for skip in 0..8 {
            let Some((before, first, last)) = tries(op, glob, skip) else { continue };
            failed += 1;
            let what = format!("{op:?} of {glob}, after {skip}: {before:?}, {first:?}, {last:?}");
            for kind in [".sst", ".log", ".dbtmp"] {
                assert!(count(&last, kind) <= count(&first, kind), "{kind}: {what}");
            }
            assert!(last.len() <= before.len() + 3 + count(&first, ".sst"), "{what}");
            // Before CURRENT is touched it is as if nothing had been tried.
            if glob.ends_with(".sst") || glob.contains("MANIFEST") || glob.ends_with(".log") {
                assert_eq!(last, before, "{what}");
            }
        }
    }
    println!("{failed} ways to fail, {TRIES} times each");
    assert!(failed >= 20, "{failed}");
}

/// An open that fails after its MANIFEST is in place, when it makes a column family: whatever a
/// crash then leaves can be opened and has all.
#[pumice_test_macros::test]
fn an_open_that_fails_late_leaves_what_a_crash_may_follow() {
    let mut failed = 0;
    for op in [FaultOp::Write, FaultOp::Sync] {
        for skip in 0..6 {
            let fs = MemFs::new(skip);
            let mut options = prepare(&fs);
            options.db.create_missing_column_families = true;
            let families = |names: &[String]| -> Vec<ColumnFamilyDescriptor> {
                let of = |name: &String| ColumnFamilyDescriptor::new(name, options.cf.clone());
                names.iter().map(of).collect()
            };
            let path_glob = "/db/MANIFEST-*".to_string();
            fs.add_fault(FaultRule {
                op: Some(op),
                path_glob,
                skip,
                count: 1,
                fault: Fault::Enospc,
            });
            let both = families(&["default".to_string(), "more".to_string()]);
            let opened = Db::open_cf(&options.db, DIR, &both);
            fs.clear_faults();
            if opened.is_ok() {
                continue;
            }
            failed += 1;
            for seed in 0..20 {
                let mut after = options.clone();
                after.db.file_system = fs.crashed_copy(seed, CrashMode::MIXED).shared();
                let what = format!("{op:?}, after {skip}, crash {seed}");
                let names = Db::list_column_families(&after.db, DIR).unwrap();
                let (db, _) = Db::open_cf(&after.db, DIR, &families(&names))
                    .unwrap_or_else(|error| panic!("{what}: {error}"));
                (0..KEYS).for_each(|n| assert!(get(&db, &key(n)).is_some(), "key {n}, {what}"));
                db.close().unwrap();
            }
        }
    }
    println!("{failed} ways to fail, 20 crashes after each");
    assert!(failed >= 4, "{failed}");
}
