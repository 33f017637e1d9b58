//! A primary that is stopped, and one that dies, in the middle of every write: after each byte of a
//! log and of a MANIFEST a secondary sees the complete records, and continues once there is more.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{BESIDE, descriptors, follow};
use crate::common::{DIR, contents, fill, flush, key, memory, names, options};
use pumice::{Db, FileSystem, MemFs, WriteBatch};
use pumice_env::FileOptions;

type Contents = Vec<(Vec<u8>, Vec<u8>)>;

/// The files of the database on `fs`, but `without`, on another file system.
fn copy(fs: &Arc<dyn FileSystem>, without: &str) -> Arc<dyn FileSystem> {
    let copy = MemFs::new(1).shared();
    copy.create_dir_all(Path::new(DIR)).unwrap();
    for name in names(fs, DIR) {
        if name != without && name != "LOCK" {
            put(&copy, &Path::new(DIR).join(&name), &read(fs, &name));
        }
    }
    copy
}

fn read(fs: &Arc<dyn FileSystem>, name: &str) -> Vec<u8> {
    fs.read_file(&Path::new(DIR).join(name)).unwrap()
}

fn put(fs: &Arc<dyn FileSystem>, path: &Path, bytes: &[u8]) {
    let mut file = fs.create(path, &FileOptions::default()).unwrap();
    file.append(bytes).unwrap();
    file.close().unwrap();
}

fn named(fs: &Arc<dyn FileSystem>, is: impl Fn(&str) -> bool) -> String {
    names(fs, DIR).into_iter().rfind(|name| is(name)).unwrap()
}

/// Lets a file grow byte by byte (by N bytes if the environment asks for a share of 1/N), from
/// `from` on. After each step, `check` gets a secondary that follows, and one that has just been
/// opened, if it can be.
fn grow(fs: &Arc<dyn FileSystem>, name: &str, from: usize, check: &mut dyn FnMut(usize, &Db, &Db)) {
    let bytes = read(fs, name);
    let beside = copy(fs, name);
    let path: PathBuf = Path::new(DIR).join(name);
    let mut file = beside.create(&path, &FileOptions::default()).unwrap();
    file.append(&bytes[..from]).unwrap();
    let (secondary, _) = follow(&beside, &[]);
    let ends = (from..bytes.len()).step_by(pumice_testkit::seed::one_in() as usize);
    let mut written = from;
    for at in ends.chain([bytes.len()]) {
        if at > from {
            file.append(&bytes[written..at]).unwrap();
            written = at;
            secondary.try_catch_up_with_primary().unwrap();
        }
        let (fresh, _) = follow(&beside, &[]);
        check(at, &secondary, &fresh);
    }
}

#[pumice_test_macros::test]
fn a_log_that_is_being_written_ends_where_it_is_whole() {
    let (_, fs) = memory();
    let primary = Db::open(&options(&fs), DIR).unwrap();
    let log = named(&fs, |name| name.ends_with(".log"));
    // The log's length and the contents after each batch.
    let mut moments: Vec<(usize, Contents)> = vec![(0, Vec::new())];
    for n in 0..12 {
        let mut batch = WriteBatch::new();
        for at in n..n + 3 {
            batch.put(key(at), format!("{n}"));
        }
        if n % 4 == 3 {
            batch.delete_range(key(n - 2), key(n));
        }
        primary.write(&mut batch).unwrap();
        moments.push((read(&fs, &log).len(), contents(&primary)));
    }
    let expected = |at: usize| {
        let (_, contents) = moments.iter().rfind(|(len, _)| *len <= at).unwrap();
        contents
    };
    grow(&fs, &log, 0, &mut |at, followed, fresh| {
        assert_eq!(contents(followed), *expected(at), "byte {at}");
        assert_eq!(contents(fresh), *expected(at), "opened at byte {at}");
    });
    assert_eq!(moments.len(), 13);
    primary.close().unwrap();
}

#[pumice_test_macros::test]
fn a_manifest_that_is_being_written_ends_where_it_is_whole() {
    let (_, fs) = memory();
    let primary = Db::open(&options(&fs), DIR).unwrap();
    // The logs stay, so that all is there at each byte.
    primary.disable_file_deletions();
    let manifest = named(&fs, |name| name.starts_with("MANIFEST"));
    let from = read(&fs, &manifest).len();
    for round in 0..4 {
        fill(&primary, round * 3..round * 3 + 10, &format!("{round}"));
        flush(&primary);
    }
    let other = primary.create_column_family(&options(&fs).cf, "other").unwrap();
    primary.put_cf(&other, "k", "v").unwrap();
    primary.flush_all().unwrap();
    primary.compact_range(&Default::default(), None, None).unwrap();
    fill(&primary, 0..2, "last");
    let expected = contents(&primary);
    let mut levels = Vec::new();
    grow(&fs, &manifest, from, &mut |at, followed, fresh| {
        assert_eq!(contents(followed), expected, "byte {at}");
        assert_eq!(contents(fresh), expected, "opened at byte {at}");
        let levelstats = |db: &Db| db.property("rocksdb.levelstats").unwrap();
        assert_eq!(levelstats(followed), levelstats(fresh), "byte {at}");
        levels.push(levelstats(followed));
    });
    levels.dedup();
    assert_eq!(levels.len(), 6, "before, four flushes, the compaction");
    primary.close().unwrap();
}

/// A MANIFEST without a whole record is not a database yet, whatever its length.
#[pumice_test_macros::test]
fn a_manifest_that_is_not_there_yet_is_an_error() {
    let (_, fs) = memory();
    let primary = Db::open(&options(&fs), DIR).unwrap();
    let manifest = named(&fs, |name| name.starts_with("MANIFEST"));
    let bytes = read(&fs, &manifest);
    let with = options(&copy(&fs, &manifest));
    let families = descriptors(&with.cf, &["default"]);
    let path = Path::new(DIR).join(&manifest);
    for at in 0..bytes.len() {
        put(&with.db.file_system, &path, &bytes[..at]);
        // No panic, and no database with less in it than there was.
        drop(Db::open_as_secondary(&with.db, DIR, BESIDE, &families));
    }
    put(&with.db.file_system, &path, &bytes);
    Db::open_as_secondary(&with.db, DIR, BESIDE, &families).unwrap();
    primary.close().unwrap();
}
