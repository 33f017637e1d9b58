//! What `paranoid_checks=false` lets through: copies of one database, each with other damage, are
//! opened by both engines, which find the same keys, and errors at the same ones.
//!
//! Skipped with a message where the library is missing.

use std::path::{Path, PathBuf};

use pumice_peer as theirs;
use pumice_peer::Peer;

use super::peer;

const KEYS: usize = 3000;
/// Keys of the last log, after all others.
const LOGGED: usize = 400;

fn key(n: usize) -> Vec<u8> {
    format!("key{n:06}").into_bytes()
}

/// Some tables in one level, then a log of several blocks.
fn build(path: &Path) {
    let mut options = pumice::Options::default();
    options.db.create_if_missing = true;
    options.cf.disable_auto_compactions = true;
    options.cf.compression = pumice::CompressionType::None;
    options.cf.target_file_size_base = 40 << 10;
    let db = pumice::Db::open(&options, path).unwrap();
    let wo = pumice::WriteOptions::default();
    for value in [[b'x'; 100], [b'y'; 100]] {
        (0..KEYS).for_each(|n| db.put_opt(&wo, &key(n), &value).unwrap());
        db.flush_opt(&pumice::FlushOptions::default()).unwrap();
    }
    db.compact_range(&pumice::CompactRangeOptions::default(), None, None).unwrap();
    for n in KEYS..KEYS + LOGGED {
        db.put_opt(&wo, &key(n), &[b'z'; 500]).unwrap();
    }
    db.close().unwrap();
}

fn files(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|e| e == extension)).collect();
    files.sort();
    files
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

fn change(path: &Path, at: usize, with: u8) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= with;
    std::fs::write(path, bytes).unwrap();
}

type Damage = (&'static str, fn(&Path));

const DAMAGE: [Damage; 7] = [
    ("none", |_| ()),
    ("a table is missing", |dir| std::fs::remove_file(&files(dir, "sst")[2]).unwrap()),
    ("all tables are missing", |dir| {
        files(dir, "sst").iter().for_each(|path| std::fs::remove_file(path).unwrap());
    }),
    ("a table is shorter", |dir| {
        let path = &files(dir, "sst")[1];
        let bytes = std::fs::read(path).unwrap();
        std::fs::write(path, &bytes[..bytes.len() - 100]).unwrap();
    }),
    ("a footer", |dir| {
        let path = &files(dir, "sst")[1];
        change(path, std::fs::read(path).unwrap().len() - 3, 0xff);
    }),
    ("a data block", |dir| change(&files(dir, "sst")[1], 9000, 1)),
    ("a record of the log", |dir| change(&files(dir, "log")[0], 70_000, 1)),
];

/// What a database shows: for runs of keys their first byte, `-` for none or `!` for an error; how
/// far an iterator comes, and how it ends; whether a write and a flush succeed.
#[derive(Debug, PartialEq)]
struct Shown {
    keys: String,
    first: usize,
    at_end: bool,
    written: bool,
}

/// `aaab` as `a*3 b*1`.
fn runs(letters: impl Iterator<Item = char>) -> String {
    let letters: Vec<char> = letters.collect();
    let run = |run: &[char]| format!("{}*{}", run[0], run.len());
    letters.chunk_by(|a, b| a == b).map(run).collect::<Vec<_>>().join(" ")
}

fn letter<E>(found: Result<Option<u8>, E>) -> char {
    found.map_or('!', |value| value.map_or('-', char::from))
}

fn ours(path: &Path, paranoid: bool) -> Option<Shown> {
    let mut options = pumice::Options::default();
    options.cf.disable_auto_compactions = true;
    options.set("paranoid_checks", if paranoid { "true" } else { "false" }).unwrap();
    let db = pumice::Db::open(&options, path).ok()?;
    let ro = pumice::ReadOptions::default();
    let keys =
        (0..KEYS + LOGGED).map(|n| letter(db.get_opt(&ro, &key(n)).map(|v| v.map(|v| v[0]))));
    let keys = runs(keys);
    let mut iter = db.cursor_opt(&ro).unwrap();
    let mut first = 0;
    iter.seek_to_first();
    while iter.valid() {
        first += 1;
        iter.next();
    }
    let at_end = iter.status().is_ok();
    let written = db.put_opt(&pumice::WriteOptions::default(), b"new", b"value").is_ok()
        && db.flush_opt(&pumice::FlushOptions::default()).is_ok();
    db.close().unwrap();
    Some(Shown { keys, first, at_end, written })
}

fn theirs(peer: &Peer, path: &Path, paranoid: bool) -> Option<Shown> {
    let mut options = theirs::Options::new(peer);
    options.set_many("disable_auto_compactions=true").unwrap();
    options.set("paranoid_checks", if paranoid { "true" } else { "false" }).unwrap();
    let db = theirs::Db::open(&options, path).ok()?;
    let cf = db.default_column_family().clone();
    let ro = theirs::ReadOptions::new(peer, &theirs::ReadSettings::default());
    let mut value = Vec::new();
    let mut get = |n| db.get(&ro, &cf, &key(n), &mut value).map(|found| found.then(|| value[0]));
    let keys = runs((0..KEYS + LOGGED).map(|n| letter(get(n))));
    let mut iter = db.iter(&ro, &cf);
    let mut first = 0;
    iter.seek_to_first();
    while iter.valid() {
        first += 1;
        iter.next();
    }
    let at_end = iter.status().is_ok();
    let wo = theirs::WriteOptions::new(peer, &theirs::WriteSettings::default());
    let written = db.put(&wo, &cf, b"new", b"value").is_ok() && db.flush(&cf).is_ok();
    Some(Shown { keys, first, at_end, written })
}

#[pumice_test_macros::test]
fn damage_is_met_where_rocksdb_meets_it() {
    let Some(peer) = peer() else { return };
    let dir = tempfile::tempdir().unwrap();
    let original = dir.path().join("original");
    build(&original);
    for (at, (name, damage)) in DAMAGE.iter().enumerate() {
        for paranoid in [false, true] {
            let [one, other] = ["ours", "theirs"].map(|by| {
                let to = dir.path().join(format!("{by}-{at}-{paranoid}"));
                copy(&original, &to);
                damage(&to);
                to
            });
            let (ours, theirs) = (ours(&one, paranoid), theirs(&peer, &other, paranoid));
            // RocksDB reads all footers when it opens a database; here that is left to the reads.
            let unread = paranoid && *name == "a footer";
            assert!(ours == theirs || unread, "{name}, {paranoid}:\n{ours:?}\n{theirs:?}");
            let refused = paranoid && (1..4).contains(&at);
            assert_eq!((ours.is_none(), theirs.is_none()), (refused, refused || unread), "{name}");
            if let Some(shown) = ours.filter(|_| at > 0 && !paranoid) {
                let lost = shown.keys.contains(['!', '-']);
                assert_eq!((lost, shown.written), (true, true), "{name}");
            }
        }
    }
}
