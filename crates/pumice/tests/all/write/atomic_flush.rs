//! `atomic_flush`: all column families that hold anything are sealed at one point and flushed by
//! one change of the MANIFEST, so that writes that skipped the log survive a crash in all of them
//! or in none.
//!
//! The database has three families; batches write to the first two alike, nothing to the third.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::{self, DIR, SYNC, key, let_files_go, memory, names, options};
use pumice::{
    ColumnFamily, ColumnFamilyDescriptor, Db, ErrorKind, EventListener, FileSystem, FlushJobInfo,
    MemFs, Options, ReadOptions, WaitForCompactOptions, WriteBatch, WriteOptions,
};
use pumice_env::mem::{CrashMode, Fault, FaultOp, FaultRule, FileLoss, NameLoss};
use pumice_manifest::VersionEdit;
use pumice_port::sync::Mutex;
use pumice_wal::{LogReader, LogReaderOptions};

const FAMILIES: [&str; 3] = ["default", "meta", "idle"];
const UNLOGGED: WriteOptions = WriteOptions { sync: false, disable_wal: true, ..SYNC };

fn atomic(fs: &Arc<dyn FileSystem>) -> Options {
    let mut options = options(fs);
    options.db.create_missing_column_families = true;
    options.db.atomic_flush = true;
    options.cf.disable_auto_compactions = true;
    options
}

fn open(options: &Options) -> (Db, Vec<ColumnFamily>) {
    let family = |name| ColumnFamilyDescriptor::new(name, options.cf.clone());
    Db::open_cf(&options.db, DIR, &FAMILIES.map(family)).unwrap()
}

fn with_fs(options: &Options, fs: &Arc<dyn FileSystem>) -> Options {
    let mut options = options.clone();
    options.db.file_system = Arc::clone(fs);
    options
}

/// One unlogged batch to both families: `n`, and a key so long that edits span sectors.
fn write(db: &Db, cfs: &[ColumnFamily], n: usize) -> pumice::Result<()> {
    let mut batch = WriteBatch::new();
    for cf in &cfs[..2] {
        batch.put_cf(cf.id(), b"n", n.to_string().as_bytes());
        batch.put_cf(cf.id(), &[key(n), vec![b'k'; 600]].concat(), b"value");
    }
    db.write_opt(&UNLOGGED, &mut batch)
}

/// The number of the last batch of each of the two families.
fn last(db: &Db, cfs: &[ColumnFamily]) -> [Option<Vec<u8>>; 2] {
    let get = |cf| db.get_cf_opt(&ReadOptions::default(), cf, b"n").unwrap();
    [&cfs[0], &cfs[1]].map(|cf| get(cf).map(|value| value.to_vec()))
}

fn number(n: usize) -> Option<Vec<u8>> {
    Some(n.to_string().into_bytes())
}

/// Tables of each family.
fn tables(db: &Db, cfs: &[ColumnFamily]) -> Vec<usize> {
    let files = db.live_files_metadata();
    let of = |cf: &ColumnFamily| files.iter().filter(|f| f.column_family_name == cf.name()).count();
    cfs.iter().map(of).collect()
}

fn sealed(db: &Db, cfs: &[ColumnFamily]) -> Vec<u64> {
    let of = |cf| db.property_int_cf(cf, "rocksdb.num-immutable-mem-table").unwrap();
    cfs.iter().map(of).collect()
}

fn manifest(fs: &Arc<dyn FileSystem>) -> PathBuf {
    let current = fs.read_file(&Path::new(DIR).join("CURRENT")).unwrap();
    Path::new(DIR).join(String::from_utf8(current).unwrap().trim_end())
}

/// Family and countdown of each edit of the MANIFEST with a table.
fn flushes(fs: &Arc<dyn FileSystem>) -> Vec<(u32, Option<u32>)> {
    let file = fs.open_sequential(&manifest(fs)).unwrap();
    let mut reader = LogReader::new(file, LogReaderOptions::manifest(), None);
    let (mut found, mut record) = (Vec::new(), Vec::new());
    while reader.read_record(&mut record).unwrap().is_some() {
        let edit = VersionEdit::decode(&record).unwrap();
        if !edit.new_files.is_empty() {
            found.push((edit.column_family, edit.atomic_group_remaining));
        }
    }
    found
}

/// Flushes of either family and a close, with batches in between.
fn live(db: &Db, cfs: &[ColumnFamily]) -> pumice::Result<()> {
    for n in 1..=4 {
        write(db, cfs, n)?;
        match n {
            1 => db.flush_cfs(&[&cfs[1]])?,
            3 => db.flush()?,
            _ => {}
        }
    }
    db.close()
}

/// Crashes at each change of the disk in a life; how many left the families with the same last
/// batch, by its number, and how many did not.
fn crashed(atomic_flush: bool) -> ([usize; 5], usize) {
    let modes = [
        CrashMode::PROCESS,
        CrashMode::UNSYNCED,
        CrashMode::MIXED,
        CrashMode { files: FileLoss::Torn, names: NameLoss::Nothing },
        CrashMode { files: FileLoss::Sectors, names: NameLoss::Strict },
    ];
    let (mut same, mut different) = ([0; 5], 0);
    for changes in 0.. {
        let (fs, shared) = memory();
        let mut options = atomic(&shared);
        options.db.atomic_flush = atomic_flush;
        let (db, cfs) = open(&options);
        fs.halt_after(changes);
        let whole = live(&db, &cfs).is_ok();
        drop((db, cfs));
        for (seed, mode) in (0..).zip(modes) {
            let copy = fs.crashed_copy(5 * changes + seed, mode).shared();
            let (db, cfs) = open(&with_fs(&options, &copy));
            match last(&db, &cfs) {
                [one, other] if one != other => different += 1,
                [None, _] => same[0] += 1,
                [Some(n), _] => same[usize::from(n[0] - b'0')] += 1,
            }
            db.close().unwrap();
        }
        if whole {
            return (same, different);
        }
    }
    unreachable!()
}

#[pumice_test_macros::test]
fn unlogged_batches_survive_in_all_families_or_in_none() {
    let (same, different) = crashed(true);
    assert_eq!(different, 0, "some have more than others: {same:?}");
    // Each flush was seen before and after its change; the second batch is flushed by the third.
    let [none, first, second, third, fourth] = same;
    assert!(none > 5 && first > 5 && third > 5 && fourth > 0, "{same:?}");
    assert_eq!(second, 0);
    // The same lives show what the option is for.
    let (_, different) = crashed(false);
    assert!(different > 5, "{different}");
}

#[pumice_test_macros::test]
fn a_flush_of_one_family_takes_all_that_hold_anything() {
    let (_, fs) = memory();
    let (db, cfs) = open(&atomic(&fs));
    write(&db, &cfs, 1).unwrap();
    // The one that is named has nothing.
    db.flush_cfs(&[&cfs[2]]).unwrap();
    assert_eq!(tables(&db, &cfs), [1, 1, 0]);
    assert_eq!(flushes(&fs), [(0, Some(1)), (cfs[1].id(), Some(0))]);
    db.put_cf_opt(&UNLOGGED, &cfs[1], b"alone", b"value").unwrap();
    db.flush().unwrap();
    assert_eq!(tables(&db, &cfs), [1, 2, 0]);
    assert_eq!(flushes(&fs)[2..], [(cfs[1].id(), None)], "one alone is no group");
    db.flush_all().unwrap();
    assert_eq!(flushes(&fs).len(), 3);
    db.put_cf_opt(&UNLOGGED, &cfs[2], b"late", b"value").unwrap();
    write(&db, &cfs, 2).unwrap();
    db.compact_range(&Default::default(), None, None).unwrap();
    assert_eq!(tables(&db, &cfs)[1..], [3, 1], "a compaction flushes what is in its way");
    assert!(flushes(&fs)[3..].starts_with(&[
        (0, Some(2)),
        (cfs[1].id(), Some(1)),
        (cfs[2].id(), Some(0))
    ]));
    db.close().unwrap();
}

/// Automatic flushes take all families, too.
#[pumice_test_macros::test]
fn flushes_that_nobody_asked_for_take_all_families() {
    type Set = fn(&mut Options);
    let causes: [(&str, Set, bool); 3] = [
        ("a full memtable", |o| o.cf.write_buffer_size = 64 << 10, true),
        ("all memtables", |o| o.db.db_write_buffer_size = 128 << 10, true),
        ("all logs", |o| o.db.max_total_wal_size = 64 << 10, false),
    ];
    for (cause, set, disable_wal) in causes {
        let (_, fs) = memory();
        let mut options = atomic(&fs);
        options.cf.write_buffer_size = 16 << 20;
        options.cf.max_write_buffer_number = 6;
        options.cf.min_write_buffer_number_to_merge = 4;
        set(&mut options);
        let (db, cfs) = open(&options);
        let to = WriteOptions { disable_wal, ..WriteOptions::default() };
        db.put_cf_opt(&to, &cfs[1], b"small", b"value").unwrap();
        for n in 0..150 {
            db.put_opt(&to, &key(n), &[b'v'; 1000]).unwrap();
        }
        db.wait_for_compact(&WaitForCompactOptions::default()).unwrap();
        let found = tables(&db, &cfs);
        assert!(found[0] > 0 && found[1..] == [1, 0], "{cause}: {found:?}");
        assert_eq!(flushes(&fs)[..2], [(0, Some(1)), (cfs[1].id(), Some(0))], "{cause}");
        db.close().unwrap();
    }
}

/// Nothing is installed, all is kept, and all is tried again.
#[pumice_test_macros::test]
fn a_table_that_fails_keeps_all_families_back() {
    let faults = [(FaultOp::Create, 0), (FaultOp::Create, 1), (FaultOp::Sync, 1)];
    for (op, skip) in faults {
        let (fs, shared) = memory();
        let mut options = atomic(&shared);
        options.db.max_bgerror_resume_count = 0;
        let (db, cfs) = open(&options);
        write(&db, &cfs, 1).unwrap();
        fs.add_fault(FaultRule::once(op, "*.sst", skip, Fault::Eio));
        let error = db.flush().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IoError, "{error}");
        assert_eq!(tables(&db, &cfs), [0; 3], "{op:?} {skip}");
        assert_eq!(sealed(&db, &cfs), [1, 1, 0]);
        assert_eq!(last(&db, &cfs), [number(1), number(1)]);
        assert!(flushes(&shared).is_empty());
        let_files_go(&db);
        assert!(!names(&shared, DIR).iter().any(|name| name.ends_with(".sst")));
        let copy = fs.crashed_copy(0, CrashMode::PROCESS).shared();
        let (after, families) = open(&with_fs(&options, &copy));
        assert_eq!(last(&after, &families), [None, None]);
        after.close().unwrap();

        db.resume().unwrap();
        assert_eq!(tables(&db, &cfs), [1, 1, 0]);
        assert_eq!(flushes(&shared), [(0, Some(1)), (cfs[1].id(), Some(0))]);
        db.close().unwrap();
        drop((db, cfs));
        let (db, cfs) = open(&options);
        assert_eq!(last(&db, &cfs), [number(1), number(1)]);
        db.close().unwrap();
    }
}

/// Drops a family when the flush of the one after it begins.
struct Dropper(Mutex<Option<(Db, ColumnFamily)>>);

impl EventListener for Dropper {
    fn on_flush_begin(&self, info: &FlushJobInfo) {
        if info.cf_name == "idle"
            && let Some((db, cf)) = self.0.lock().take()
        {
            db.drop_column_family(&cf).unwrap();
        }
    }
}

#[pumice_test_macros::test]
fn a_family_that_is_dropped_meanwhile_is_left_out() {
    let (_, fs) = memory();
    let mut options = atomic(&fs);
    let dropper = Arc::new(Dropper(Mutex::new(None)));
    options.db.listeners = vec![Arc::clone(&dropper) as Arc<dyn EventListener>];
    let (db, cfs) = open(&options);
    *dropper.0.lock() = Some((db.clone(), cfs[1].clone()));
    write(&db, &cfs, 1).unwrap();
    db.put_cf_opt(&UNLOGGED, &cfs[2], b"n", b"1").unwrap();
    db.flush_all().unwrap();
    assert!(dropper.0.lock().is_none());
    assert_eq!(flushes(&fs), [(0, Some(1)), (cfs[2].id(), Some(0))]);
    db.close().unwrap();
    let left = names(&fs, DIR).into_iter().filter(|name| name.ends_with(".sst"));
    assert_eq!(left.count(), 2);
    drop((db, cfs));
    assert_eq!(Db::list_column_families(&options.db, DIR).unwrap(), ["default", "idle"]);
    let (db, cfs) = open(&options);
    let get = |cf| db.get_cf_opt(&ReadOptions::default(), cf, b"n").unwrap();
    assert_eq!(cfs.iter().map(|cf| get(cf).is_some()).collect::<Vec<_>>(), [true, false, true]);
    db.close().unwrap();
}

/// A group without its end is not a change, wherever it is cut off.
#[pumice_test_macros::test]
fn a_group_that_is_cut_off_anywhere_is_dropped_as_a_whole() {
    let (fs, shared) = memory();
    let options = atomic(&shared);
    let (db, cfs) = open(&options);
    for cf in &cfs {
        db.put_cf_opt(&UNLOGGED, cf, b"n", b"1").unwrap();
    }
    // The logs before the group stay: a MANIFEST without the group needs them.
    db.disable_file_deletions();
    let path = manifest(&shared);
    let from = shared.file_size(&path).unwrap();
    db.flush().unwrap();
    let fs = fs.crashed_copy(0, CrashMode::PROCESS);
    drop((db, cfs));
    let end = fs.shared().file_size(&path).unwrap();
    assert!(end - from > 200, "three edits");
    for cut in from..=end {
        let fs: MemFs = fs.crashed_copy(0, CrashMode::PROCESS);
        fs.damage(&path, |bytes| bytes.truncate(cut as usize)).unwrap();
        let (db, cfs) = open(&with_fs(&options, &fs.shared()));
        let expected = (cut == end).then(|| b"1".to_vec());
        assert_eq!(last(&db, &cfs), [expected.clone(), expected], "cut at {cut} of {from}..{end}");
        db.close().unwrap();
    }
}

#[pumice_test_macros::test]
fn the_option_is_fixed_and_saved_and_refuses_what_rocksdb_refuses() {
    let (_, fs) = memory();
    let mut options = atomic(&fs);
    options.cf.min_write_buffer_number_to_merge = 2;
    options.cf.max_write_buffer_number = 4;
    let (db, _) = open(&options);
    let error = db.set_db_options(&[("atomic_flush", "false")]).unwrap_err();
    assert!(
        error.kind() == ErrorKind::InvalidArgument && error.to_string().contains("atomic_flush"),
        "{error}"
    );
    db.close().unwrap();
    drop(db);
    let (_, fixed) = (&fs, common::options(&fs));
    let db = Db::builder(DIR).options(fixed).open_latest().unwrap();
    assert!(db.options().atomic_flush);
    db.close().unwrap();
    drop(db);
    let written = names(&fs, DIR).into_iter().filter(|name| name.starts_with("OPTIONS-")).max();
    let text = fs.read_file(&Path::new(DIR).join(written.unwrap())).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("atomic_flush=true"), "{text}");
    assert!(!text.contains("min_write_buffer_number_to_merge=2"), "{text}");
    options.db.set("enable_pipelined_write", "true").unwrap();
    let error = Db::open(&options, DIR).err().unwrap();
    let expected = "Invalid argument: atomic_flush is incompatible with enable_pipelined_write";
    assert_eq!(error.to_string(), expected);
}
