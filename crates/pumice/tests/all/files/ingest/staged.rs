//! Ingestion in two steps: what is visible when, what a commit of several handles is, and what is
//! left of handles that are not committed.

use pumice::{
    ColumnFamilyDescriptor, ColumnFamilyOptions, Db, ErrorKind, FileIngestionHandle,
    IngestExternalFileArg, IngestExternalFileOptions, MemFs, RangeOpt,
};

use pumice_env::mem::CrashMode;

use super::support::{DIR, contents, files, fresh, table_of};

fn arg(db: &Db, path: &str, how: &IngestExternalFileOptions) -> IngestExternalFileArg {
    IngestExternalFileArg::new(db.default_column_family(), vec![path.into()], how)
}

fn stage(db: &Db, path: &str) -> FileIngestionHandle {
    db.prepare_file_ingestion(&[arg(db, path, &Default::default())]).unwrap()
}

fn value(db: &Db, key: &str) -> Option<String> {
    db.get(key).unwrap().map(|value| String::from_utf8_lossy(&value).into_owned())
}

#[pumice_test_macros::test]
fn handles_become_visible_together_and_later_ones_win() {
    let (_fs, options, db) = fresh();
    let (first, second) = ("/in/1.sst", "/in/2.sst");
    table_of(&options, first, &["a", "b"], "first");
    table_of(&options, second, &["b", "c"], "second");
    let one = stage(&db, first);
    let two = stage(&db, second);
    // What is written in between is older.
    db.put("a", "between").unwrap();
    db.flush().unwrap();
    db.put("c", "memory").unwrap();
    // Files of the last level with sequence numbers would be compacted at any moment.
    let still = ColumnFamilyOptions { disable_auto_compactions: true, ..Default::default() };
    let other = db.create_column_family(&still, "other").unwrap();
    let to_other = IngestExternalFileArg::new(&other, vec![first.into()], &Default::default());
    let three = db.prepare_file_ingestion(&[to_other]).unwrap();
    assert_eq!(contents(&db).len(), 2);
    let before = db.snapshot();
    db.commit_file_ingestion_handles(vec![one, two, three]).unwrap();
    let shown = ["a", "b", "c"].map(|key| value(&db, key).unwrap());
    assert_eq!(shown, ["first", "second", "second"]);
    assert_eq!(db.get_cf(&other, "b").unwrap().as_deref(), Some(&b"first"[..]));
    let old = db.get_opt(&pumice::ReadOptions::at(&before), "a").unwrap();
    assert_eq!(old.as_deref(), Some(&b"between"[..]));
    drop(before);
    db.close().unwrap();
    let places = |db: &Db| files(db).iter().map(|f| (f.file_number, f.level)).collect::<Vec<_>>();
    let committed = places(&db);
    drop((db, other));
    assert!(Db::open(&options, DIR).is_err(), "the other family must be named");
    let families =
        ["default", "other"].map(|name| ColumnFamilyDescriptor::new(name, still.clone()));
    let (db, cfs) = Db::open_cf(&options.db, DIR, &families).unwrap();
    assert_eq!(places(&db), committed);
    assert_eq!(["a", "b", "c"].map(|key| value(&db, key).unwrap()), shown);
    assert_eq!(db.get_cf(&cfs[1], "b").unwrap().as_deref(), Some(&b"first"[..]));
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn a_moved_name_that_is_another_file_by_then_stays() {
    let (fs, options, db) = fresh();
    let exists = || fs.shared().exists("/in/1.sst".as_ref()).unwrap();
    let how = IngestExternalFileOptions { move_files: true, ..Default::default() };
    for same in [true, false] {
        table_of(&options, "/in/1.sst", &["a"], "first");
        let staged = db.prepare_file_ingestion(&[arg(&db, "/in/1.sst", &how)]).unwrap();
        if !same {
            // As long, and made in the same second.
            table_of(&options, "/in/2.sst", &["b"], "later");
            fs.shared().rename("/in/2.sst".as_ref(), "/in/1.sst".as_ref()).unwrap();
        }
        db.commit_file_ingestion_handles(vec![staged]).unwrap();
        assert_eq!(exists(), !same);
    }
    db.ingest_files(&["/in/1.sst"]).unwrap();
    assert_eq!(value(&db, "b").as_deref(), Some("later"));
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn a_commit_for_a_dropped_family_changes_nothing() {
    let (_fs, options, db) = fresh();
    let other = db.create_column_family(&ColumnFamilyOptions::default(), "other").unwrap();
    table_of(&options, "/in/1.sst", &["a"], "value");
    db.put("a", "memory").unwrap();
    let one = stage(&db, "/in/1.sst");
    let to_other =
        IngestExternalFileArg::new(&other, vec!["/in/1.sst".into()], &Default::default());
    let two = db.prepare_file_ingestion(&[to_other]).unwrap();
    db.drop_column_family(&other).unwrap();
    let refused = db.commit_file_ingestion_handles(vec![one, two]).unwrap_err();
    assert!(refused.message().contains("dropped"), "{refused}");
    assert_eq!(files(&db).len(), 0, "a memtable was flushed");
    assert_eq!(value(&db, "a").as_deref(), Some("memory"));
    db.close().unwrap();
}

/// Before the commit, and after it: all of its files or none.
#[pumice_test_macros::test]
fn a_power_cut_leaves_all_of_a_commit_or_nothing() {
    for committed in [false, true] {
        let (fs, options, db) = fresh();
        table_of(&options, "/in/1.sst", &["a"], "value");
        table_of(&options, "/in/2.sst", &["b"], "value");
        let staged = vec![stage(&db, "/in/1.sst"), stage(&db, "/in/2.sst")];
        let cut = |fs: &MemFs| fs.crashed_copy(1, CrashMode::UNSYNCED);
        let fs = match committed {
            true => {
                db.commit_file_ingestion_handles(staged).unwrap();
                cut(&fs)
            }
            false => cut(&fs),
        };
        let mut options = options.clone();
        options.db.file_system = fs.shared();
        let again = Db::open(&options, DIR).unwrap();
        let found: Vec<_> = contents(&again).into_iter().map(|(key, _)| key).collect();
        match committed {
            true => assert_eq!(found, [b"a", b"b"]),
            false => assert!(found.is_empty(), "{found:?}"),
        }
        let names = fs.shared().list(DIR.as_ref()).unwrap();
        let tables = names.iter().filter(|name| name.ends_with(".sst")).count();
        assert_eq!(tables, files(&again).len(), "{names:?}");
        again.close().unwrap();
        db.close().unwrap();
    }
}

#[pumice_test_macros::test]
fn what_is_not_committed_leaves_nothing() {
    let (fs, options, db) = fresh();
    table_of(&options, "/in/1.sst", &["a"], "value");
    let tables = || {
        let names = fs.shared().list(DIR.as_ref()).unwrap();
        names.into_iter().filter(|name| name.ends_with(".sst")).count()
    };
    let staged = stage(&db, "/in/1.sst");
    assert_eq!(tables(), 1);
    staged.abort().unwrap();
    assert_eq!(tables(), 0);
    drop(stage(&db, "/in/1.sst"));
    assert_eq!(tables(), 0);
    // A close does not wait for it, and nothing deletes a file of the next open.
    let staged = stage(&db, "/in/1.sst");
    let late = stage(&db, "/in/1.sst");
    db.close().unwrap();
    let error = db.commit_file_ingestion_handles(vec![late]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ShutdownInProgress);
    assert_eq!(tables(), 0, "the close leaves none");
    drop(db);
    let db = Db::open(&options, DIR).unwrap();
    assert_eq!((tables(), contents(&db).len()), (0, 0));
    for n in 0..4 {
        db.put("k", format!("{n}")).unwrap();
        db.flush().unwrap();
    }
    assert_eq!(staged.abort().unwrap_err().kind(), ErrorKind::ShutdownInProgress);
    assert_eq!((tables(), files(&db).len()), (4, 4));
    assert_eq!(value(&db, "k").as_deref(), Some("3"));
    // Dropped with its database.
    let staged = stage(&db, "/in/1.sst");
    drop(db);
    drop(staged);
    let db = Db::open(&options, DIR).unwrap();
    assert_eq!(tables(), 4);
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn handles_that_do_not_fit_are_taken_back() {
    let (fs, options, db) = fresh();
    table_of(&options, "/in/1.sst", &["a"], "value");
    let links = IngestExternalFileOptions { link_files: true, ..Default::default() };
    let linked = db.prepare_file_ingestion(&[arg(&db, "/in/1.sst", &links)]).unwrap();
    let refused = db.commit_file_ingestion_handles(vec![stage(&db, "/in/1.sst"), linked]);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
    let how = IngestExternalFileOptions { snapshot_consistency: false, ..Default::default() };
    let replacing = || {
        let mut arg = arg(&db, "/in/1.sst", &how);
        arg.atomic_replace_range = Some(RangeOpt::default());
        db.prepare_file_ingestion(&[arg]).unwrap()
    };
    let refused = db.commit_file_ingestion_handles(vec![replacing(), replacing()]);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::NotSupported);
    let refused = db.commit_file_ingestion_handles(Vec::new());
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
    let (_fs, _, foreign) = fresh();
    let refused = foreign.commit_file_ingestion_handles(vec![stage(&db, "/in/1.sst")]);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
    let apart = IngestExternalFileOptions { allow_global_seqno: false, ..Default::default() };
    let late = db.prepare_file_ingestion(&[arg(&db, "/in/1.sst", &apart)]).unwrap();
    db.put("a", "written since").unwrap();
    let refused = db.commit_file_ingestion_handles(vec![late]);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(value(&db, "a").as_deref(), Some("written since"));
    let names = fs.shared().list(DIR.as_ref()).unwrap();
    let tables = names.iter().filter(|name| name.ends_with(".sst")).count();
    assert_eq!(tables, files(&db).len(), "{names:?}");
    // One replaces what is there when it is committed.
    db.put("z", "goes").unwrap();
    db.commit_file_ingestion_handles(vec![replacing()]).unwrap();
    assert_eq!(contents(&db), [(b"a".to_vec(), b"value".to_vec())]);
    db.close().unwrap();
}
