//! `db_paths` and `cf_paths`: where tables are written, and that all that touches tables finds
//! them there.

use std::path::Path;
use std::sync::Arc;

use crate::common::{DIR, contents, eventually, fill, flush, memory, options};
use pumice::backup::BackupEngine;
use pumice::options::{CompactionStyle, DbPath};
use pumice::{
    ColumnFamilyDescriptor, CompactFilesOptions, CompactRangeOptions, Db, ErrorKind, FileSystem,
    IngestExternalFileOptions, Options, SstFileWriter,
};

const FAST: &str = "/fast";
const LARGE: &str = "/large";

/// Level 0 fits into the first directory, nothing else.
fn two_paths(fs: &Arc<dyn FileSystem>) -> Options {
    let mut options = options(fs);
    options.cf.max_bytes_for_level_base = 1 << 20;
    options.cf.level0_file_num_compaction_trigger = 2;
    options.db.db_paths = vec![DbPath::new(FAST, 3 << 19), DbPath::new(LARGE, 1 << 40)];
    options
}

fn tables_in(fs: &dyn FileSystem, dir: &str) -> usize {
    let names = fs.list(Path::new(dir)).unwrap_or_default();
    names.iter().filter(|name| name.ends_with(".sst")).count()
}

/// Level and directory of each table.
fn places(db: &Db) -> Vec<(usize, String)> {
    let files = db.live_files_metadata();
    files.iter().map(|file| (file.level, file.directory.display().to_string())).collect()
}

fn settled(db: &Db) {
    db.wait_for_compact(&pumice::WaitForCompactOptions::default()).unwrap();
}

/// Flushes go to the first directory, compactions where their level fits; every table is found by
/// reads, by the next open and by checkpoints and backups, and deleted where it was.
#[pumice_test_macros::test]
fn tables_go_where_their_level_fits() {
    let (_, fs) = memory();
    let options = two_paths(&fs);
    let db = Db::open(&options, DIR).unwrap();
    fill(&db, 0..100, "first");
    flush(&db);
    assert_eq!(places(&db), [(0, FAST.to_string())]);
    fill(&db, 50..150, "second");
    flush(&db);
    settled(&db);
    assert_eq!(places(&db), [(1, LARGE.to_string())]);
    fill(&db, 150..160, "third");
    flush(&db);
    assert_eq!(places(&db), [(0, FAST.to_string()), (1, LARGE.to_string())]);
    let wanted = contents(&db);
    db.verify_checksum().unwrap();
    let counts = || (tables_in(&*fs, FAST), tables_in(&*fs, LARGE), tables_in(&*fs, DIR));
    eventually("the compaction's inputs are deleted", || counts() == (1, 1, 0));
    // Copies are databases of one directory.
    db.checkpoint("/checkpoint").unwrap();
    let engine = BackupEngine::open(fs.clone(), "/backups").unwrap();
    engine.create_backup(&db, true, b"").unwrap();
    db.close().unwrap();
    engine.restore_latest_backup("/restored", "/restored").unwrap();
    let mut alone = options.clone();
    alone.db.db_paths.clear();
    for copy in ["/checkpoint", "/restored"] {
        let copied = Db::open(&alone, copy).unwrap();
        assert_eq!(contents(&copied), wanted, "{copy}");
        copied.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
        assert_eq!(contents(&copied), wanted, "{copy}");
        copied.close().unwrap();
    }
    let db = Db::open(&options, DIR).unwrap();
    assert_eq!(contents(&db), wanted);
    // The caller's directory, and back.
    for (id, dir, other) in [(0, FAST, LARGE), (1, LARGE, FAST)] {
        let how = CompactRangeOptions { target_path_id: id, ..CompactRangeOptions::default() };
        let how = CompactRangeOptions {
            bottommost_level_compaction: pumice::BottommostLevelCompaction::Force,
            ..how
        };
        db.compact_range(&how, None, None).unwrap();
        assert!(places(&db).iter().all(|(_, place)| place == dir), "{:?}", places(&db));
        assert_eq!(contents(&db), wanted);
        eventually("obsolete tables are deleted where they were", || tables_in(&*fs, other) == 0);
    }
    let beyond = CompactRangeOptions { target_path_id: 2, ..CompactRangeOptions::default() };
    let error = db.compact_range(&beyond, None, None).unwrap_err();
    assert_eq!(
        (error.kind(), error.message()),
        (ErrorKind::InvalidArgument, "Invalid target path ID")
    );
    let name = db.live_files_metadata()[0].name.clone();
    let level = db.live_files_metadata()[0].level as i32;
    let to_fast = CompactFilesOptions { output_path_id: Some(0), ..Default::default() };
    let cf = db.default_column_family();
    let done = db.compact_files_job_cf(&to_fast, cf, &[&name], level).unwrap();
    assert!(done.job_id > 0 && done.output_file_names.len() == 1, "{done:?}");
    assert_eq!(places(&db)[0].1, FAST);
    db.close().unwrap();
    Db::destroy(&options, DIR).unwrap();
    assert_eq!((tables_in(&*fs, FAST), tables_in(&*fs, LARGE)), (0, 0));
}

/// What an earlier run wrote and no MANIFEST names is deleted in every directory.
#[pumice_test_macros::test]
fn unknown_tables_are_deleted_in_every_directory() {
    let (_, fs) = memory();
    let options = two_paths(&fs);
    let db = Db::open(&options, DIR).unwrap();
    fill(&db, 0..10, "value");
    flush(&db);
    db.close().unwrap();
    for dir in [DIR, FAST, LARGE] {
        let path = Path::new(dir).join("000999.sst");
        pumice_env::write_file(&*fs, &path, b"left over", true).unwrap();
    }
    let db = Db::open(&options, DIR).unwrap();
    assert_eq!(contents(&db).len(), 10);
    assert_eq!((tables_in(&*fs, FAST), tables_in(&*fs, LARGE), tables_in(&*fs, DIR)), (1, 0, 0));
    db.close().unwrap();
    // Nor is a number used again that a name has, wherever it is: its deletion may be under way.
    let path = Path::new(LARGE).join("001999.sst");
    pumice_env::write_file(&*fs, &path, b"left over", true).unwrap();
    let db = Db::open(&options, DIR).unwrap();
    fill(&db, 10..20, "value");
    flush(&db);
    let newest = db.live_files_metadata().iter().map(|file| file.file_number).max();
    assert!(newest > Some(1999), "{newest:?}");
}

/// Without its paths the database does not open, and is not harmed.
#[pumice_test_macros::test]
fn an_open_without_the_paths_is_refused() {
    let (_, fs) = memory();
    let options = two_paths(&fs);
    let db = Db::open(&options, DIR).unwrap();
    fill(&db, 0..10, "value");
    flush(&db);
    let wanted = contents(&db);
    db.close().unwrap();
    let mut without = options.clone();
    without.db.db_paths.clear();
    Db::open(&without, DIR).unwrap_err();
    assert_eq!(contents(&Db::open(&options, DIR).unwrap()), wanted);
}

/// A family with paths of its own beside one with the database's; also tables from outside.
#[pumice_test_macros::test]
fn families_have_their_own_directories() {
    let (_, fs) = memory();
    let options = two_paths(&fs);
    let mut own = options.cf.clone();
    own.cf_paths = vec![DbPath::new("/own", 1 << 40)];
    let db = Db::open(&options, DIR).unwrap();
    let cf = db.create_column_family(&own, "own").unwrap();
    db.put_cf(&cf, "a", "1").unwrap();
    db.put("a", "2").unwrap();
    db.flush_cf(&cf).unwrap();
    flush(&db);
    let mut writer = SstFileWriter::new(&options).unwrap();
    writer.open(Path::new("/outside.sst")).unwrap();
    writer.put(b"b", b"3").unwrap();
    writer.finish().unwrap();
    db.ingest_external_file_cf(&IngestExternalFileOptions::default(), &cf, &["/outside.sst"])
        .unwrap();
    assert_eq!((tables_in(&*fs, "/own"), tables_in(&*fs, FAST), tables_in(&*fs, DIR)), (2, 1, 0));
    drop(cf);
    db.close().unwrap();
    let families = [
        ColumnFamilyDescriptor::new("default", options.cf.clone()),
        ColumnFamilyDescriptor::new("own", own),
    ];
    let (db, handles) = Db::open_cf(&options.db, DIR, &families).unwrap();
    let cf = &handles[1];
    assert_eq!(db.get_cf(cf, "a").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(db.get_cf(cf, "b").unwrap().as_deref(), Some(&b"3"[..]));
    assert_eq!(db.get("a").unwrap().as_deref(), Some(&b"2"[..]));
    db.compact_range_cf(&CompactRangeOptions::default(), cf, None, None).unwrap();
    assert_eq!(db.get_cf(cf, "b").unwrap().as_deref(), Some(&b"3"[..]));
    db.drop_column_family(cf).unwrap();
    drop(handles);
    db.close().unwrap();
    assert_eq!(tables_in(&*fs, "/own"), 0);
}

/// With universal compaction the size of the merged run decides.
#[pumice_test_macros::test]
fn universal_runs_go_where_they_fit() {
    for (first, dir) in [(1 << 30, FAST), (1 << 10, LARGE)] {
        let (_, fs) = memory();
        let mut options = two_paths(&fs);
        options.cf.compaction_style = CompactionStyle::Universal;
        options.db.db_paths[0].target_size = first;
        let db = Db::open(&options, DIR).unwrap();
        for keys in [0..1000, 0..1000] {
            fill(&db, keys, "value");
            flush(&db);
        }
        settled(&db);
        assert_eq!(places(&db).len(), 1);
        assert_eq!(places(&db)[0].1, dir);
        assert_eq!(contents(&db).len(), 1000);
    }
}

#[pumice_test_macros::test]
fn paths_that_cannot_be_are_refused() {
    let (_, fs) = memory();
    let mut options = two_paths(&fs);
    options.cf.compaction_style = CompactionStyle::Fifo;
    let error = Db::open(&options, DIR).unwrap_err();
    assert!(error.message().starts_with("More than one DB paths are only supported"), "{error}");
    options.cf.compaction_style = CompactionStyle::Level;
    options.db.db_paths = (0..5).map(|at| DbPath::new(format!("/{at}"), 1)).collect();
    let error = Db::open(&options, DIR).unwrap_err();
    assert!(error.message().starts_with("More than four DB paths"), "{error}");
    options.db.db_paths.clear();
    options.cf.cf_paths = vec![DbPath::new("/own", 1)];
    let error = pumice::repair(&options, DIR).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported);
}
