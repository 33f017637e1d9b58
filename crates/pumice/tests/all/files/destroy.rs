//! `Db::destroy`: all files of a database are deleted, and nothing else.

use std::path::Path;

use crate::common::{self, DIR, fill, flush, memory, names, options};
use pumice::Db;

#[pumice_test_macros::test]
fn a_database_goes_with_its_directory() {
    let (_, fs) = memory();
    let options = options(&fs);
    let db = Db::open(&options, DIR).unwrap();
    fill(&db, 0..100, "v");
    flush(&db);
    fill(&db, 100..200, "v");
    db.close().unwrap();
    drop(db);
    Db::destroy(&options, DIR).unwrap();
    assert!(!fs.exists(Path::new(DIR)).unwrap());
    // Nothing there: nothing to do.
    Db::destroy(&options, DIR).unwrap();
    let mut again = options.clone();
    again.db.error_if_exists = true;
    Db::open(&again, DIR).unwrap().close().unwrap();
}

#[pumice_test_macros::test]
fn files_of_others_stay() {
    let (_, fs) = memory();
    let options = options(&fs);
    drop(Db::open(&options, DIR).unwrap());
    let strangers = ["notes.txt", "000001.sst.bak", "backup"];
    for name in strangers {
        pumice_env::write_file(&*fs, &Path::new(DIR).join(name), b"mine", true).unwrap();
    }
    Db::destroy(&options, DIR).unwrap();
    let mut expected = strangers.map(String::from).to_vec();
    expected.sort();
    assert_eq!(names(&fs, DIR), expected);
}

#[pumice_test_macros::test]
fn an_open_database_is_refused_and_unharmed() {
    let (_, fs) = memory();
    let options = options(&fs);
    let db = Db::open(&options, DIR).unwrap();
    // The flushed log would be deleted at any moment.
    db.disable_file_deletions();
    fill(&db, 0..100, "v");
    flush(&db);
    let before = names(&fs, DIR);
    assert!(Db::destroy(&options, DIR).is_err());
    assert_eq!(names(&fs, DIR), before);
    db.close().unwrap();
    drop(db);
    let db = Db::open(&options, DIR).unwrap();
    assert_eq!(common::contents(&db).len(), 100);
}

#[pumice_test_macros::test]
fn logs_and_info_logs_elsewhere_go_too() {
    let (_, fs) = memory();
    let mut options = options(&fs);
    options.db.wal_dir = "/wal".to_string();
    options.db.db_log_dir = "/text".to_string();
    for _ in 0..2 {
        let db = Db::open(&options, DIR).unwrap();
        fill(&db, 0..10, "v");
        db.close().unwrap();
    }
    pumice_env::write_file(&*fs, Path::new("/text/other_LOG"), b"", true).unwrap();
    assert!(names(&fs, "/wal").iter().any(|n| n.ends_with(".log")));
    assert!(names(&fs, "/text").len() > 1);
    Db::destroy(&options, DIR).unwrap();
    assert!(!fs.exists(Path::new(DIR)).unwrap());
    assert!(!fs.exists(Path::new("/wal")).unwrap());
    assert_eq!(names(&fs, "/text"), ["other_LOG"]);
}
