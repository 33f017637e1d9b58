//! A database without CURRENT, opened by those who would create a missing one: it is not replaced
//! by an empty one.

use std::path::Path;
use std::sync::Arc;

use crate::common::{DIR, SYNC, contents, fill, flush, memory, options};
use pumice::{Db, FileSystem, MemFs, Options};

fn names(fs: &Arc<dyn FileSystem>, dir: &str) -> Vec<String> {
    let names = fs.list(Path::new(dir)).unwrap().into_iter();
    let mut names: Vec<_> = names.filter(|name| !name.starts_with("LO")).collect();
    names.sort();
    names
}

/// A closed database with what `write` wrote.
fn made(wal_dir: &str, write: impl Fn(&Db)) -> (MemFs, Arc<dyn FileSystem>, Options) {
    let (fs, shared) = memory();
    let mut options = options(&shared);
    options.db.wal_dir = wal_dir.to_string();
    let db = Db::open(&options, DIR).unwrap();
    write(&db);
    db.close().unwrap();
    (fs, shared, options)
}

#[pumice_test_macros::test]
fn what_has_lost_current_is_not_created_anew() {
    let logged = |db: &Db| fill(db, 0..20, "logged");
    let both = |db: &Db| {
        fill(db, 0..50, "flushed");
        flush(db);
        logged(db);
    };
    let flushed = |db: &Db| {
        fill(db, 0..50, "flushed");
        flush(db);
    };
    let writes: [&dyn Fn(&Db); 3] = [&logged, &both, &flushed];
    for (case, write) in writes.into_iter().enumerate() {
        for wal_dir in ["", "/logs"] {
            let (_fs, shared, options) = made(wal_dir, write);
            let db = Db::open(&options, DIR).unwrap();
            let before = contents(&db);
            db.put_opt(&SYNC, "~", "last").unwrap();
            db.close().unwrap();
            shared.remove(&Path::new(DIR).join("CURRENT")).unwrap();
            let dirs = || [names(&shared, DIR), names(&shared, "/")].concat();
            let found = dirs();
            let error = Db::open(&options, DIR).map(drop).unwrap_err();
            assert!(error.is_corruption(), "{case} {wal_dir}: {error}");
            assert!(error.to_string().contains("CURRENT is missing"), "{error}");
            assert_eq!(dirs(), found, "{case} {wal_dir}");
            pumice::repair(&options, DIR).unwrap();
            let db = Db::open(&options, DIR).unwrap();
            assert_eq!(contents(&db).len(), before.len() + 1, "{case} {wal_dir}");
            db.close().unwrap();
        }
    }
}

/// What a crash leaves of a creation is not a database.
#[pumice_test_macros::test]
fn an_unfinished_creation_is_begun_again() {
    let (_fs, shared, options) = made("", |_| ());
    shared.remove(&Path::new(DIR).join("CURRENT")).unwrap();
    let db = Db::open(&options, DIR).unwrap();
    fill(&db, 0..10, "v");
    db.close().unwrap();
    drop(db);
    shared.remove(&Path::new(DIR).join("CURRENT")).unwrap();
    Db::open(&options, DIR).map(drop).unwrap_err();
    Db::destroy(&options, DIR).unwrap();
    let db = Db::open(&options, DIR).unwrap();
    assert!(contents(&db).is_empty());
    db.close().unwrap();
}
