//! A MANIFEST with files that overlap where they must not: refused, and readable where
//! `force_consistency_checks` is off.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use crate::common::{DIR, Scratch, contents, key, memory, options};
use pumice::{ColumnFamilyDescriptor, Db, ErrorKind, FileSystem, MemFs, Options, ReadOptions};
use pumice_base::random::Rng;
use pumice_env::{BufferedWriter, FileOptions, WriterOptions, filename};
use pumice_manifest::{FileMetaData, VersionEdit};
use pumice_peer::Peer;
use pumice_wal::{LogReader, LogReaderOptions, LogWriter};

const KEYS: usize = 40;

fn manifest_number(fs: &Arc<dyn FileSystem>, dir: &Path) -> u64 {
    let current = fs.read_file(&filename::current_file(dir)).unwrap();
    let name = String::from_utf8(current).unwrap();
    filename::parse(name.trim_end()).unwrap().0
}

/// The edits of the current MANIFEST.
fn edits(fs: &Arc<dyn FileSystem>, dir: &Path) -> Vec<VersionEdit> {
    let path = filename::manifest_file(dir, manifest_number(fs, dir));
    let file = fs.open_sequential(&path).unwrap();
    let mut reader = LogReader::new(file, LogReaderOptions::manifest(), None);
    let (mut record, mut edits) = (Vec::new(), Vec::new());
    while reader.read_record(&mut record).unwrap().is_some() {
        edits.push(VersionEdit::decode(&record).unwrap());
    }
    edits
}

/// Writes the current MANIFEST again, with `more` at its end.
fn append(fs: &Arc<dyn FileSystem>, dir: &Path, more: VersionEdit) {
    let mut edits = edits(fs, dir);
    edits.push(more);
    let number = manifest_number(fs, dir);
    let path = filename::manifest_file(dir, number);
    let file = fs.create(&path, &FileOptions::default()).unwrap();
    let file = BufferedWriter::new(file, WriterOptions::new(1 << 20));
    let mut log = LogWriter::new(file, number, false, false);
    for edit in &edits {
        log.add_record(&edit.encode()).unwrap();
    }
    log.sync().unwrap();
    log.close().unwrap();
}

/// The files of level 0, where all are as long as nothing compacts.
fn files(fs: &Arc<dyn FileSystem>, dir: &Path) -> Vec<Arc<FileMetaData>> {
    edits(fs, dir).into_iter().flat_map(|edit| edit.new_files).map(|(_, file)| file).collect()
}

/// Changes keys so that the order of files matters: values, operands, entities, all deletions.
fn change(db: &Db, rng: &mut Rng) {
    let (key, value) = (key(rng.uniform(KEYS as u64) as usize), rng.next_u64().to_string());
    match rng.uniform(10) {
        0..4 => db.put(&key, value).unwrap(),
        4 | 5 => db.merge(&key, value).unwrap(),
        6 => db.put_entity(&key, [("", value.as_str()), ("n", "1")]).unwrap(),
        7 | 8 => db.delete(&key).unwrap(),
        _ => {
            let mut end = key.clone();
            end.push(b'5');
            db.delete_range(&key[..key.len() - 1], end).unwrap();
        }
    }
}

fn cursor_walk(db: &Db, seed: u64) -> Vec<Option<(Vec<u8>, Vec<u8>)>> {
    let mut rng = Rng::new(seed);
    let mut cursor = db.cursor().unwrap();
    let mut seen = Vec::new();
    for _ in 0..300 {
        match rng.uniform(8) {
            0 => cursor.seek(key(rng.uniform(KEYS as u64) as usize)),
            1 => cursor.seek_for_prev(key(rng.uniform(KEYS as u64) as usize)),
            _ if !cursor.valid() => cursor.seek_to_first(),
            2..5 => cursor.next(),
            _ => cursor.prev(),
        }
        cursor.status().unwrap();
        seen.push(cursor.item().map(|(key, value)| (key.to_vec(), value.to_vec())));
    }
    seen
}

/// What every call shows of the database.
fn shown(db: &Db, seed: u64) -> impl PartialEq + std::fmt::Debug + use<> {
    let keys: Vec<Vec<u8>> = (0..KEYS).map(key).collect();
    let owned = |value: Option<pumice::PinnedSlice>| value.map(|value| value.to_vec());
    let alone: Vec<_> = keys.iter().map(|key| owned(db.get(key).unwrap())).collect();
    let together: Vec<_> = db.multi_get(&keys).into_iter().map(|v| owned(v.unwrap())).collect();
    assert_eq!(alone, together);
    let columns = |found: Option<pumice::PinnedColumns>| {
        found.map(|found| format!("{:?}", found.iter().collect::<Vec<_>>()))
    };
    let entities: Vec<_> = keys.iter().map(|key| columns(db.get_entity(key).unwrap())).collect();
    let more: Vec<_> =
        db.multi_get_entity(&keys).into_iter().map(|found| columns(found.unwrap())).collect();
    assert_eq!(entities, more);
    let back: Vec<_> = db.iter().unwrap().rev().map(|entry| entry.unwrap()).collect();
    (alone, entities, contents(db), back, cursor_walk(db, seed))
}

fn unchecked(options: &Options) -> Options {
    let mut options = options.clone();
    options.cf.force_consistency_checks = false;
    options
}

fn read_only(options: &Options) -> pumice::Result<Db> {
    Db::builder(DIR).options(options.clone()).read_only().open()
}

/// Files of any age on any level: only sequence numbers show which is newer.
#[pumice_test_macros::test]
fn are_read_where_checks_are_off() {
    for seed in 0..20 {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let fs = MemFs::new(seed).shared();
        let mut options = options(&fs);
        options.cf.disable_auto_compactions = true;
        options.set("merge_operator", "stringappend").unwrap();
        let db = Db::open(&options, DIR).unwrap();
        for _ in 0..8 {
            // Both ends, so that each file overlaps each.
            db.put(key(0), rng.next_u64().to_string()).unwrap();
            db.put(key(KEYS - 1), rng.next_u64().to_string()).unwrap();
            (0..rng.uniform(40)).for_each(|_| change(&db, &mut rng));
            db.flush().unwrap();
        }
        (0..rng.uniform(20)).for_each(|_| change(&db, &mut rng));
        let expected = shown(&db, seed);
        db.close().unwrap();

        let mut edit = VersionEdit::for_column_family(0);
        let mut levels = BTreeSet::new();
        for file in files(&fs, Path::new(DIR)) {
            let level = rng.uniform(3) as usize;
            if level > 0 {
                edit.delete_file(0, file.number);
                edit.new_files.push((level, file));
                levels.insert(level);
            }
        }
        append(&fs, Path::new(DIR), edit);
        for options in [options.clone(), unchecked(&options)] {
            let error = Db::open(&options, DIR).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption);
            let level = |level| format!("VersionBuilder: L{level} has overlapping ranges: file #");
            assert!(levels.iter().any(|l| error.message().contains(&level(*l))), "{error}");
        }
        assert_eq!(read_only(&options).unwrap_err().kind(), ErrorKind::Corruption);
        let following = unchecked(&options);
        let family = ColumnFamilyDescriptor::new("default", following.cf.clone());
        let followed = Db::open_as_secondary(&following.db, DIR, "/beside", &[family]);
        assert_eq!(followed.err().unwrap().kind(), ErrorKind::Corruption);
        let db = read_only(&unchecked(&options)).unwrap();
        assert!(shown(&db, seed) == expected, "seed {seed}");
        let none = ReadOptions { cache_only: true, ..ReadOptions::default() };
        assert!(db.get_opt(&none, key(0)).is_ok(), "its blocks are cached by now");
        db.close().unwrap();
    }
}

/// A database with one file, and the same file under another number with its last value changed by
/// `then`: both on level 1.
fn twice(then: &str) -> (Arc<dyn FileSystem>, Options) {
    let make = |last: &str| {
        let (_, fs) = memory();
        let options = options(&fs);
        let db = Db::open(&options, DIR).unwrap();
        for (key, value) in [("a", "1"), ("b", "2"), ("c", last)] {
            db.put(key, value).unwrap();
        }
        db.flush().unwrap();
        db.close().unwrap();
        (fs, options)
    };
    let ((fs, options), (other, _)) = (make("3"), make(then));
    let dir = Path::new(DIR);
    let table = |file: &FileMetaData| filename::TableDirs::of(dir).table(0, file.number);
    let (first, second) = (files(&fs, dir).pop().unwrap(), files(&other, dir).pop().unwrap());
    let bytes = other.read_file(&table(&second)).unwrap();
    let mut second = Arc::into_inner(second).unwrap();
    second.number = first.number + 100;
    let file = fs.create(&table(&second), &FileOptions::default()).unwrap();
    let mut file = BufferedWriter::new(file, WriterOptions::new(1 << 20));
    file.append(&bytes).unwrap();
    file.sync_and_close(false).unwrap();
    let mut edit = VersionEdit::for_column_family(0);
    edit.delete_file(0, first.number);
    edit.new_files = vec![(1, first), (1, Arc::new(second))];
    append(&fs, Path::new(DIR), edit);
    (fs, options)
}

#[pumice_test_macros::test]
fn what_files_have_alike_is_there_once() {
    let (_fs, options) = twice("3");
    let db = read_only(&unchecked(&options)).unwrap();
    let pairs = [("a", "1"), ("b", "2"), ("c", "3")];
    let expected = pairs.map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec()));
    assert_eq!(contents(&db), expected);
    for (key, value) in pairs {
        assert_eq!(db.get(key).unwrap().as_deref(), Some(value.as_bytes()));
    }
    let back: Vec<_> = db.iter().unwrap().rev().map(|entry| entry.unwrap().0).collect();
    assert_eq!(back, [b"c", b"b", b"a"]);
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn what_they_have_differently_is_corruption_where_it_is_met() {
    let (_fs, options) = twice("4");
    let db = read_only(&unchecked(&options)).unwrap();
    let text = "overlapping files have different entries of key 'c' with sequence number 3";
    let is_it = |error: pumice::Error| {
        assert_eq!((error.kind(), error.message()), (ErrorKind::Corruption, text));
    };
    assert_eq!(db.get("a").unwrap().as_deref(), Some(&b"1"[..]));
    is_it(db.get("c").unwrap_err());
    is_it(db.multi_get(&["b", "c"]).pop().unwrap().unwrap_err());
    let mut cursor = db.cursor().unwrap();
    cursor.seek("a");
    assert_eq!(cursor.key(), Some(&b"a"[..]));
    cursor.next();
    cursor.next();
    assert!(!cursor.valid());
    is_it(cursor.status().unwrap_err());
    cursor.seek_to_last();
    is_it(cursor.status().unwrap_err());
    cursor.seek_for_prev("b");
    assert_eq!(cursor.item(), Some((&b"b"[..], &b"2"[..])), "the error is gone with the place");
    db.close().unwrap();
}

/// What 10.10.1 shows of such a database: with its checks an empty one, without an error, and
/// without them what a search finds that takes the level for sorted.
#[pumice_test_macros::test]
fn rocksdb_shows_less() {
    let Some(library) = pumice_peer::installed_library() else { return };
    let peer = Peer::load(library).unwrap();
    let dir = Scratch::new("overlapping");
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.cf.disable_auto_compactions = true;
    let fs = Arc::clone(&options.db.file_system);
    let db = Db::open(&options, &dir.0).unwrap();
    for pairs in [[("a", "1"), ("e", "5")], [("b", "2"), ("c", "3")]] {
        pairs.iter().for_each(|(key, value)| db.put(key, value).unwrap());
        db.flush().unwrap();
    }
    let expected = contents(&db);
    db.close().unwrap();
    let mut edit = VersionEdit::for_column_family(0);
    for file in files(&fs, &dir.0) {
        edit.delete_file(0, file.number);
        edit.new_files.push((1, file));
    }
    append(&fs, &dir.0, edit);

    let open = |options: Options| Db::builder(&dir.0).options(options).read_only().open();
    let error = open(options.clone()).unwrap_err();
    assert!(error.message().contains("force_consistency_checks: VersionBuilder: L1 has"));
    let db = open(unchecked(&options)).unwrap();
    assert_eq!(contents(&db), expected);
    db.close().unwrap();

    let theirs = |checks: &str| {
        let mut options = pumice_peer::Options::new(&peer);
        options.set("force_consistency_checks", checks).unwrap();
        let db = pumice_peer::Db::open_read_only(&options, &dir.0, false).unwrap();
        let read = pumice_peer::ReadOptions::new(&peer, &pumice_peer::ReadSettings::default());
        let (mut cursor, mut keys) = (db.iter(&read, db.default_column_family()), Vec::new());
        cursor.seek_to_first();
        while cursor.valid() {
            keys.extend_from_slice(cursor.key());
            cursor.next();
        }
        cursor.status().unwrap();
        String::from_utf8(keys).unwrap()
    };
    assert_eq!((theirs("true").as_str(), theirs("false").as_str()), ("", "ae"));
}
