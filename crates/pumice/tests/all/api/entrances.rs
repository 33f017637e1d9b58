//! What is refused, or left out, where it enters: because the next open could not take it (records
//! of transactions, updates of column families that do not exist, names and options), or because it
//! belongs to another database (snapshots, column families).

use std::sync::Arc;

use crate::common::{DIR, SYNC, contents, flush, get, memory, options};
use pumice::options::{FileRules, load_latest_options};
use pumice::{
    ColumnFamily, ColumnFamilyDescriptor, ColumnFamilyOptions, Db, Error, ErrorKind, FlushOptions,
    IngestExternalFileArg, Options, PinnedSlice, ReadOptions, WriteBatch, WriteOptions,
};
use pumice_base::ValueType;
use pumice_base::coding::put_length_prefixed;
use pumice_port::sim;
use pumice_port::testing::block_on;

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
    // One that separates nothing is nothing.
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

/// A write that ignores what has no family is as if that had not been in the batch: not now, not
/// when a family with the id comes, and not when the log is replayed.
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

/// What a name may be is what the next open can take: by the list of families and by OPTIONS.
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

/// A call that takes a handle, given one of another database; how it went.
type Foreign = fn(&Db, &ColumnFamily, &ReadOptions) -> pumice::Result<()>;

/// Every call that takes a column family; `no_call_is_missing` holds it to that.
const WITH_FAMILY: &[(&str, Foreign)] = &[
    ("batch", |db, cf, _| {
        let mut batch = WriteBatch::new();
        batch.put_cf(cf, "k", "v");
        db.write(&mut batch)
    }),
    ("mixed batch", |db, cf, _| {
        let mut batch = WriteBatch::new();
        batch.put_cf(db.default_column_family(), "k", "v");
        batch.delete_cf(cf, "k");
        db.write(&mut batch)
    }),
    ("appended batch", |db, cf, _| {
        let (mut batch, mut other) = (WriteBatch::new(), WriteBatch::new());
        batch.put("k", "v");
        other.merge_cf(cf, "k", "v");
        batch.append(&other);
        db.write(&mut batch)
    }),
    ("future of a batch", |db, cf, _| {
        let mut batch = WriteBatch::new();
        batch.put_cf(cf, "k", "v");
        block_on(db.write_async(batch))
    }),
    ("put_cf", |db, cf, _| db.put_cf(cf, "k", "v")),
    ("put_cf_opt", |db, cf, _| db.put_cf_opt(&SYNC, cf, "k", "v")),
    ("put_cf_async", |db, cf, _| block_on(db.put_cf_async(cf, "k", "v"))),
    ("put_cf_opt_async", |db, cf, _| block_on(db.put_cf_opt_async(&SYNC, cf, "k", "v"))),
    ("delete_cf", |db, cf, _| db.delete_cf(cf, "k")),
    ("delete_cf_opt", |db, cf, _| db.delete_cf_opt(&SYNC, cf, "k")),
    ("delete_cf_async", |db, cf, _| block_on(db.delete_cf_async(cf, "k"))),
    ("delete_cf_opt_async", |db, cf, _| block_on(db.delete_cf_opt_async(&SYNC, cf, "k"))),
    ("single_delete_cf", |db, cf, _| db.single_delete_cf(cf, "k")),
    ("single_delete_cf_opt", |db, cf, _| db.single_delete_cf_opt(&SYNC, cf, "k")),
    ("merge_cf", |db, cf, _| db.merge_cf(cf, "k", "v")),
    ("merge_cf_opt", |db, cf, _| db.merge_cf_opt(&SYNC, cf, "k", "v")),
    ("merge_cf_async", |db, cf, _| block_on(db.merge_cf_async(cf, "k", "v"))),
    ("merge_cf_opt_async", |db, cf, _| block_on(db.merge_cf_opt_async(&SYNC, cf, "k", "v"))),
    ("delete_range_cf", |db, cf, _| db.delete_range_cf(cf, "k", "l")),
    ("delete_range_cf_opt", |db, cf, _| db.delete_range_cf_opt(&SYNC, cf, "k", "l")),
    ("get_cf", |db, cf, _| db.get_cf(cf, "k").map(drop)),
    ("get_cf_opt", |db, cf, at| db.get_cf_opt(at, cf, "k").map(drop)),
    ("get_cf_async", |db, cf, _| block_on(db.get_cf_async(cf, "k")).map(drop)),
    ("get_cf_opt_async", |db, cf, at| block_on(db.get_cf_opt_async(at, cf, "k")).map(drop)),
    ("multi_get_cf", |db, cf, _| last(db.multi_get_cf(&[(cf, "k"), (cf, "l")]))),
    ("multi_get_cf_opt", |db, cf, at| last(db.multi_get_cf_opt(at, &[(cf, "k")]))),
    ("multi_get_cf_async", |db, cf, _| last(block_on(db.multi_get_cf_async([(cf.clone(), "k")])))),
    ("multi_get_cf_opt_async", |db, cf, at| {
        last(block_on(db.multi_get_cf_opt_async(at, [(cf.clone(), "k")])))
    }),
    ("key_may_exist_cf", |db, cf, _| db.key_may_exist_cf(cf, "k").map(drop)),
    ("key_may_exist_cf_opt", |db, cf, at| db.key_may_exist_cf_opt(at, cf, "k").map(drop)),
    ("key_may_exist_cf_opt_value", |db, cf, at| {
        db.key_may_exist_cf_opt_value(at, cf, "k").map(drop)
    }),
    ("cursor_cf", |db, cf, _| db.cursor_cf(cf).map(drop)),
    ("cursor_cf_opt", |db, cf, at| db.cursor_cf_opt(at, cf).map(drop)),
    ("iter_cf", |db, cf, _| db.iter_cf(cf).map(drop)),
    ("iter_cf_opt", |db, cf, at| db.iter_cf_opt(at, cf).map(drop)),
    ("range_cf", |db, cf, _| db.range_cf(cf, "a".."b").map(drop)),
    ("range_cf_opt", |db, cf, at| db.range_cf_opt(at, cf, "a".."b").map(drop)),
    ("prefix_cf", |db, cf, _| db.prefix_cf(cf, "a").map(drop)),
    ("prefix_cf_opt", |db, cf, at| db.prefix_cf_opt(at, cf, "a").map(drop)),
    ("flush_cf", |db, cf, _| db.flush_cf(cf)),
    ("flush_cf_opt", |db, cf, _| db.flush_cf_opt(&FlushOptions::default(), cf)),
    ("flush_cfs", |db, cf, _| db.flush_cfs(&[cf])),
    ("flush_cfs_opt", |db, cf, _| db.flush_cfs_opt(&FlushOptions::default(), &[cf])),
    ("compact_range_cf", |db, cf, _| db.compact_range_cf(&Default::default(), cf, None, None)),
    ("drop_column_family", |db, cf, _| db.drop_column_family(cf)),
    ("set_options_cf", |db, cf, _| db.set_options_cf(cf, &[("ttl", "0")])),
    ("column_family_options", |db, cf, _| db.column_family_options(cf).map(drop)),
    ("approximate_memtable_stats_cf", |db, cf, _| {
        db.approximate_memtable_stats_cf(cf, "a", "z").map(drop)
    }),
    ("approximate_sizes_cf", |db, cf, _| db.approximate_sizes_cf(cf, &[(b"a", b"z")]).map(drop)),
    ("property_cf", |db, cf, _| there(db.property_cf(cf, "rocksdb.stats"))),
    ("property_int_cf", |db, cf, _| there(db.property_int_cf(cf, "rocksdb.num-files-at-level0"))),
    ("property_map_cf", |db, cf, _| {
        there(db.property_map_cf(cf, "rocksdb.block-cache-entry-stats"))
    }),
    ("delete_files_in_range_cf", |db, cf, _| db.delete_files_in_range_cf(cf, None, None)),
    ("delete_files_in_ranges_cf", |db, cf, _| {
        db.delete_files_in_ranges_cf(cf, &[(None, None)], true)
    }),
    ("suggest_compact_range_cf", |db, cf, _| db.suggest_compact_range_cf(cf, None, None)),
    ("compact_files_cf", |db, cf, _| {
        db.compact_files_cf(&Default::default(), cf, &["000001.sst"], 1).map(drop)
    }),
    ("ingest_external_file_cf", |db, cf, _| {
        db.ingest_external_file_cf(&Default::default(), cf, &["/none.sst"])
    }),
    ("ingest_external_files", |db, cf, _| {
        let files = vec!["/none.sst".into()];
        db.ingest_external_files(&[IngestExternalFileArg::new(cf, files, &Default::default())])
    }),
];

fn last(found: Vec<pumice::Result<Option<PinnedSlice>>>) -> pumice::Result<()> {
    found.into_iter().next_back().unwrap().map(drop)
}

/// A property that is not there: that is how these calls refuse.
fn there<T>(property: Option<T>) -> pumice::Result<()> {
    property.map(drop).ok_or_else(|| Error::invalid_argument("another database: no property"))
}

/// The public calls of `Db`, found in its source, whose arguments name a column family.
// Plain #[test]: nothing of it waits.
#[test]
fn no_call_is_missing() {
    let files = [
        include_str!("../../../src/db/api.rs"),
        include_str!("../../../src/db/async_api.rs"),
        include_str!("../../../src/db/file_api.rs"),
        include_str!("../../../src/db/ingest_api.rs"),
        include_str!("../../../src/db/reads.rs"),
        include_str!("../../../src/db/wal_api.rs"),
        include_str!("../../../src/db/writes.rs"),
    ];
    let mut found = 0;
    for call in files.iter().flat_map(|file| file.split("\n    pub fn ").skip(1)) {
        let (arguments, _) = call.split_once(" {\n").unwrap();
        let (name, arguments) = arguments.split_once(['(', '<']).unwrap();
        let takes = ["ColumnFamily,", "ColumnFamily)", "ColumnFamily]", "IngestExternalFileArg"];
        let arguments = arguments.split(" -> ").next().unwrap();
        if arguments.contains("&self") && takes.iter().any(|one| arguments.contains(one)) {
            let listed = WITH_FAMILY.iter().any(|(listed, _)| *listed == name);
            assert!(listed, "{name} is not in the list");
            found += 1;
        }
    }
    assert!(found >= 50, "only {found} calls were found");
}

/// Every call that takes a snapshot.
const WITH_SNAPSHOT: &[(&str, Foreign)] = &[
    ("get", |db, _, at| db.get_opt(at, b"k").map(drop)),
    ("get of a family", |db, cf, at| db.get_cf_opt(at, cf, b"k").map(drop)),
    ("multi_get", |db, _, at| db.multi_get_opt(at, &[b"k", b"l"]).pop().unwrap().map(drop)),
    ("multi_get of families", |db, cf, at| {
        let keys: [(_, &[u8]); 2] = [(cf, b"k"), (db.default_column_family(), b"k")];
        db.multi_get_cf_opt(at, &keys).pop().unwrap().map(drop)
    }),
    ("key_may_exist", |db, _, at| db.key_may_exist_opt(at, "k").map(drop)),
    ("range", |db, _, at| db.range_opt(at, "a".."b").map(drop)),
    ("prefix", |db, _, at| db.prefix_opt(at, "a").map(drop)),
    ("entries", |db, _, at| db.iter_opt(at).map(drop)),
    ("iter", |db, _, at| db.cursor_opt(at).map(drop)),
    ("iter of a family", |db, cf, at| db.cursor_cf_opt(at, cf).map(drop)),
    ("get_async", |db, _, at| block_on(db.get_opt_async(at, "k")).map(drop)),
    ("multi_get_async", |db, cf, at| {
        let keys = vec![(cf.clone(), b"k".to_vec())];
        block_on(db.multi_get_cf_opt_async(at, keys)).pop().unwrap().map(drop)
    }),
];

/// Handles name things by numbers that every database has; those of another one are refused.
#[pumice_test_macros::test]
fn handles_of_another_database_are_refused() {
    let open = || {
        let (_, fs) = memory();
        let mut options = options(&fs);
        options.cf.merge_operator = pumice::options::merge_operator_by_name("stringappend");
        let db = Db::open(&options, DIR).unwrap();
        let family = db.create_column_family(&options.cf, "family").unwrap();
        db.put_opt(&SYNC, b"k", b"v").unwrap();
        (db, family)
    };
    let ((ours, own), (theirs, foreign)) = (open(), open());
    let refused = |name: &str, called: pumice::Result<()>| {
        let error = called.err().unwrap_or_else(|| panic!("{name}: taken"));
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{name}: {error}");
        assert!(error.to_string().contains("another database"), "{name}: {error}");
    };
    let at = |db: &Db| ReadOptions { snapshot: Some(db.snapshot()), ..ReadOptions::default() };
    for (name, call) in WITH_FAMILY {
        if !["compact_files_cf", "ingest_external_file_cf", "ingest_external_files"].contains(name)
        {
            let (again, family) = open();
            call(&again, &family, &ReadOptions::default())
                .unwrap_or_else(|e| panic!("{name}: {e}"));
            drop(family);
            again.close().unwrap();
        }
        refused(name, call(&ours, &foreign, &ReadOptions::default()));
    }
    for (name, call) in WITH_SNAPSHOT {
        call(&ours, &own, &at(&ours)).unwrap();
        refused(name, call(&ours, &own, &at(&theirs)));
    }
    assert_eq!((contents(&ours).len(), contents(&theirs).len()), (1, 1));
    drop((own, foreign));
    ours.close().unwrap();
    theirs.close().unwrap();
}

/// Two tasks that each change an option of their own: neither takes the other's change back.
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

/// The same in simulations, where each lock is a place at which the other may go on.
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

/// Whatever size of blocks is asked for, the arena takes what it can count (as RocksDB's does).
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
        db.close().unwrap();
        drop(db);
        options.cf.arena_block_size = bytes;
        let db = Db::open(&options, DIR).unwrap();
        db.put_opt(&SYNC, b"more", b"v").unwrap();
        assert_eq!(contents(&db).len(), 4, "{bytes}");
        db.close().unwrap();
    }
}
