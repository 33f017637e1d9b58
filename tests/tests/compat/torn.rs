//! The end of a MANIFEST in many states: what RocksDB 10.10.1 makes of it, and what Pumice does.

use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::child;
use crate::stores::{rocksdb, temp_folder};

const SECTOR: usize = 512;
/// File to which the child writes RocksDB's answers, a line for each case.
const ANSWERS: &str = "answers";
const OPENED: &str = "opened";

/// Damages the last record, which begins at the given offset.
type Damage = fn(&mut Vec<u8>, usize);

/// Name, what happens to the MANIFEST, whether RocksDB opens it, whether Pumice does.
const CASES: [(&str, Damage, bool, bool); 10] = [
    ("cut short", |bytes, from| bytes.truncate(from + 700), true, true),
    ("zeros to the end", |bytes, from| bytes[from + 300..].fill(0), false, true),
    ("zeros from its start", |bytes, from| bytes[from..].fill(0), true, true),
    ("a sector lost", |bytes, from| bytes[whole(from)].fill(0), false, true),
    ("its first piece lost", |bytes, from| bytes[first(from)].fill(0), true, true),
    ("a bit flipped", |bytes, from| bytes[from + 700] ^= 1, false, false),
    ("a sector of ones", |bytes, from| bytes[whole(from)].fill(0xff), false, false),
    ("its length damaged", |bytes, from| bytes[from + 5] ^= 0x40, true, false),
    ("a sector lost, one more change", lost_before_another, false, false),
    ("its first piece lost, one more change", first_lost_before_another, true, false),
];

/// The piece of the first sector that belongs to the record.
fn first(from: usize) -> Range<usize> {
    from..from.next_multiple_of(SECTOR)
}

/// A sector that is all the record's.
fn whole(from: usize) -> Range<usize> {
    let start = from.next_multiple_of(SECTOR);
    start..start + SECTOR
}

fn lost_before_another(bytes: &mut Vec<u8>, from: usize) {
    let again = bytes[from..].to_vec();
    bytes.extend(again);
    bytes[whole(from)].fill(0);
}

fn first_lost_before_another(bytes: &mut Vec<u8>, from: usize) {
    let again = bytes[from..].to_vec();
    bytes.extend(again);
    bytes[first(from)].fill(0);
}

/// A database whose MANIFEST ends in a long record: its files, the MANIFEST, where that begins.
fn image(folder: &Path) -> (PathBuf, String, usize) {
    let path = folder.join("image");
    let mut options = pumice::Options::default();
    options.db.create_if_missing = true;
    let db = pumice::Db::open(&options, &path).unwrap();
    db.put_opt(&pumice::WriteOptions { sync: true, ..Default::default() }, b"key", b"value")
        .unwrap();
    let current = std::fs::read_to_string(path.join("CURRENT")).unwrap();
    let manifest = current.trim_end().to_string();
    let before = std::fs::metadata(path.join(&manifest)).unwrap().len() as usize;
    db.create_column_family(&options.cf, &"n".repeat(1500)).unwrap();
    db.close().unwrap();
    (path, manifest, before)
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// Child job: RocksDB opens the copies one after the other.
pub fn run(folder: &Path, _argument: &str) -> Result<(), String> {
    let peer = rocksdb::load()?;
    let options = pumice_peer::Options::new(&peer);
    let mut answers = String::new();
    for number in 0..CASES.len() {
        let opened = pumice_peer::Db::open(&options, &folder.join(format!("rocksdb-{number}")));
        answers += &opened.err().map_or(OPENED.to_string(), |e| e.to_string());
        answers += "\n";
    }
    std::fs::write(folder.join(ANSWERS), answers).map_err(|e| e.to_string())
}

#[pumice_test_macros::test]
fn ends_of_a_manifest() {
    let folder = temp_folder();
    let (image, manifest, before) = image(folder.path());
    for (number, (_, damage, ..)) in CASES.iter().enumerate() {
        for engine in ["rocksdb", "pumice"] {
            let path = folder.path().join(format!("{engine}-{number}"));
            copy(&image, &path);
            let mut bytes = std::fs::read(path.join(&manifest)).unwrap();
            damage(&mut bytes, before);
            std::fs::write(path.join(&manifest), bytes).unwrap();
        }
    }
    child::run("rocksdb-torn", folder.path(), "").unwrap();
    let answers = std::fs::read_to_string(folder.path().join(ANSWERS)).unwrap();
    let mut wrong = Vec::new();
    for (number, answer) in answers.lines().enumerate() {
        let (name, _, rocksdb_opens, pumice_opens) = CASES[number];
        let path = folder.path().join(format!("pumice-{number}"));
        let opened = pumice::Db::open(&pumice::Options::default(), &path);
        let ours = opened.as_ref().err().map_or(OPENED.to_string(), |e| e.to_string());
        println!("{name}: RocksDB: {answer}; Pumice: {ours}");
        if (answer == OPENED, ours == OPENED) != (rocksdb_opens, pumice_opens) {
            wrong.push(format!("{name}: RocksDB: {answer}; Pumice: {ours}"));
        }
        if let Ok(db) = opened {
            let value = db.get_opt(&pumice::ReadOptions::default(), b"key").unwrap();
            assert_eq!(value.as_deref(), Some(&b"value"[..]), "{name}");
            db.close().unwrap();
        }
    }
    assert_eq!(answers.lines().count(), CASES.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
