//! Input that is refused, or left out, at once because the next open could not read it: records of
//! transactions, updates of column families that do not exist, names and options.

use std::sync::Arc;

use crate::common::{DIR, SYNC, contents, fill, flush, get, memory, options};
use pumice::options::{FileRules, load_latest_options};
use pumice::{
    ColumnFamilyDescriptor, ColumnFamilyOptions, Db, ErrorKind, Options, ReadOptions, WriteBatch,
    WriteOptions,
};
use pumice_base::ValueType;
use pumice_base::coding::put_length_prefixed;
use pumice_port::sim;

const IGNORE: WriteOptions = WriteOptions { ignore_missing_column_families: true, ..SYNC };

fn open_all(options: &Options, names: &[&str]) -> Db {
    let families: Vec<_> = names
        .iter()
        .map(|name| ColumnFamilyDescriptor::new(name.to_string(), options.cf.clone()))
        .collect();
    Db::open_cf(&options.db, DIR, &families).unwrap().0
}

#[pumice_test_macros::test]
fn records_of_transactions_are_refused() {
    use ValueType as T;
    let (_, fs) = memory();
    let options = options(&fs);
    let db = Db::open(&options, DIR).unwrap();
    let mut put = WriteBatch::new();
    put.put(b"k", b"v");
    for tag in [
        T::BeginPrepareXid,
        T::EndPrepareXid,
        T::CommitXid,
        T::RollbackXid,
        T::BeginPersistedPrepareXid,
        T::BeginUnprepareXid,
        T::CommitXidAndTimestamp,
    ] {
        let mut data = put.data().to_vec();
        data.push(tag as u8);
        if tag == T::CommitXidAndTimestamp {
            put_length_prefixed(&mut data, b"12345678");
        }
        if matches!(tag, T::EndPrepareXid | T::CommitXid | T::RollbackXid)
            || tag == T::CommitXidAndTimestamp
        {
            put_length_prefixed(&mut data, b"xid");
        }
        let error = WriteBatch::from_data(&data).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
        assert!(error.message().contains(&format!("{tag:?}")), "{error}");
    }
    // A separator that separates nothing has no effect.
    let mut data = put.data().to_vec();
    data.push(T::Noop as u8);
    let mut batch = WriteBatch::from_data(&data).unwrap();
    db.write_opt(&SYNC, &mut batch).unwrap();
    db.close().unwrap();
    drop(db);
    let db = Db::open(&options, DIR).unwrap();
    assert_eq!(get(&db, b"k").as_deref(), Some(&b"v"[..]));
    db.close().unwrap();
}

/// A write that ignores updates without a family acts as if they had not been in the batch: at
/// once, when a family with the id is created, and when the log is replayed.
#[pumice_test_macros::test]
fn an_ignored_update_stays_ignored() {
    let (_, fs) = memory();
    let options = options(&fs);
    let db = Db::open(&options, DIR).unwrap();
    let mut batch = WriteBatch::new();
    batch.put_cf(1, b"ghost", b"1");
    batch.put(b"a", b"2");
    batch.put_log_data(b"note");
    batch.delete_cf(1, b"b");
    batch.merge_cf(2, b"ghost", b"3");
    batch.put(b"b", b"4");
    batch.delete_range_cf(7, b"a", b"z");
    let before = batch.data().to_vec();
    let error = db.write_opt(&SYNC, &mut batch).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    db.write_opt(&IGNORE, &mut batch).unwrap();
    assert_eq!(batch.data()[8..], before[8..], "the caller's batch is as it was");
    assert_eq!(db.latest_sequence_number(), 2, "those that were written have numbers");
    let mut all = WriteBatch::new();
    all.put_cf(1, b"ghost", b"5");
    db.write_opt(&IGNORE, &mut all).unwrap();
    let want = [(b"a".to_vec(), b"2".to_vec()), (b"b".to_vec(), b"4".to_vec())];
    let check = |db: &Db, when: &str| {
        assert_eq!(contents(db), want, "{when}");
        let family = db.column_family("one").unwrap();
        assert_eq!(family.id(), 1);
        let ghost = db.get_cf_opt(&ReadOptions::default(), &family, b"ghost").unwrap();
        assert!(ghost.is_none(), "{when}");
        assert!(db.get_cf_opt(&ReadOptions::default(), &family, b"b").unwrap().is_some(), "{when}");
    };
    let family = db.create_column_family(&ColumnFamilyOptions::default(), "one").unwrap();
    db.put_cf_opt(&SYNC, &family, b"b", b"6").unwrap();
    drop(family);
    check(&db, "created");
    db.close().unwrap();
    drop(db);
    let db = open_all(&options, &["default", "one"]);
    check(&db, "replayed");
    flush(&db);
    check(&db, "flushed");
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn a_family_needs_a_name() {
    let (_, fs) = memory();
    let options = options(&fs);
    let db = Db::open(&options, DIR).unwrap();
    let error = db.create_column_family(&ColumnFamilyOptions::default(), "").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    db.close().unwrap();
    drop(db);
    let mut create = options.clone();
    create.db.create_missing_column_families = true;
    let families = ["default", ""]
        .map(|name| ColumnFamilyDescriptor::new(name.to_string(), options.cf.clone()));
    let error = Db::open_cf(&create.db, DIR, &families).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert_eq!(Db::list_column_families(&options.db, DIR).unwrap(), ["default"]);
    Db::open(&options, DIR).unwrap().close().unwrap();
}

/// A name is accepted if the next open can take it, by the list of families and by OPTIONS.
#[pumice_test_macros::test]
fn a_name_is_refused_or_works() {
    let long = "n".repeat(5000);
    let names = [
        "", "x", "default", "a\nb", "\r", " x ", "a]b", "q\"q", "#", "a=b", "a\\b", "\u{fe}", &long,
    ];
    let mut taken = 0;
    for name in names {
        let (_, fs) = memory();
        let options = options(&fs);
        let db = Db::open(&options, DIR).unwrap();
        match db.create_column_family(&options.cf, name) {
            Ok(family) => db.put_cf_opt(&SYNC, &family, b"k", b"v").unwrap(),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{name:?}: {error}");
                assert!(["", "default"].contains(&name), "{name:?}: {error}");
                continue;
            }
        }
        taken += 1;
        db.close().unwrap();
        drop(db);
        let listed = Db::list_column_families(&options.db, DIR).unwrap();
        assert_eq!(listed, ["default", name]);
        let loaded = load_latest_options(&*fs, DIR.as_ref(), FileRules::default());
        let saved: Vec<_> = loaded.unwrap().unwrap().column_families;
        assert_eq!(saved.iter().map(|cf| &cf.name[..]).collect::<Vec<_>>(), ["default", name]);
        let db = open_all(&options, &["default", name]);
        let family = db.column_family(name).unwrap();
        let found = db.get_cf_opt(&ReadOptions::default(), &family, b"k").unwrap();
        assert_eq!(found.as_deref(), Some(&b"v"[..]), "{name:?}");
        drop(family);
        db.close().unwrap();
    }
    assert_eq!(taken, names.len() - 2);
}

/// Two tasks that each change a different option: neither reverts the other's change.
#[pumice_test_macros::test]
fn concurrent_changes_of_options_are_all_kept() {
    const ROUNDS: u32 = 150;
    let (_, fs) = memory();
    let db = Arc::new(Db::open(&options(&fs), DIR).unwrap());
    for round in 1..=ROUNDS {
        let changes = ["max_total_wal_size", "wal_bytes_per_sync"].map(|name| {
            let db = Arc::clone(&db);
            pumice_port::thread::spawn("change", move || {
                db.set_db_options(&[(name, &round.to_string())]).unwrap();
            })
        });
        changes.into_iter().for_each(|task| task.join().unwrap());
        let now = db.options();
        let kept = (now.max_total_wal_size, now.wal_bytes_per_sync);
        assert_eq!(kept, (u64::from(round), u64::from(round)), "round {round}");
    }
    db.close().unwrap();
}

/// The same in simulations, where tasks may be switched at each lock.
// Plain #[test]: a simulation is a runtime of its own.
#[test]
fn simulated_changes_of_options_are_all_kept() {
    for seed in 0..100 {
        let (report, outcome) = sim::run(&sim::Options::new(seed), || {
            let (_, fs) = memory();
            let db = Db::open(&options(&fs), DIR).unwrap();
            pumice_port::thread::scope(|scope| {
                for name in ["max_total_wal_size", "wal_bytes_per_sync"] {
                    let db = &db;
                    scope.spawn(move || {
                        for round in 1..=4 {
                            db.set_db_options(&[(name, &round.to_string())]).unwrap();
                            let now = db.options();
                            let own = match name {
                                "max_total_wal_size" => now.max_total_wal_size,
                                _ => now.wal_bytes_per_sync,
                            };
                            assert_eq!(own, round, "{name}");
                        }
                    });
                }
            });
            let now = db.options();
            assert_eq!((now.max_total_wal_size, now.wal_bytes_per_sync), (4, 4));
            db.close().unwrap();
        });
        assert!(outcome.is_ok() && report.stuck.is_none(), "seed {seed}: {outcome:?}");
    }
}

/// The arena limits any block size to what it can count (as RocksDB's does).
#[pumice_test_macros::test]
fn an_arena_block_of_any_size_works() {
    for bytes in [1, 4095, 1 << 20, 1 << 31, usize::MAX / 2, usize::MAX - 4094, usize::MAX] {
        let (_, fs) = memory();
        let mut options = options(&fs);
        let db = Db::open(&options, DIR).unwrap();
        db.set_options(&[("arena_block_size", &bytes.to_string())]).unwrap();
        for n in 0..3u8 {
            db.put_opt(&SYNC, &[n], b"v").unwrap();
            flush(&db);
        }
        assert_eq!(contents(&db).len(), 3, "{bytes}");
        // A memtable takes its size, whatever that of its blocks.
        fill(&db, 0..100, "value");
        let active = db.property_int("rocksdb.num-entries-active-mem-table");
        assert_eq!(active, Some(100), "{bytes}");
        db.close().unwrap();
        drop(db);
        options.cf.arena_block_size = bytes;
        let db = Db::open(&options, DIR).unwrap();
        db.put_opt(&SYNC, b"more", b"v").unwrap();
        assert_eq!(contents(&db).len(), 104, "{bytes}");
        db.close().unwrap();
    }
}
