//! Databases that RocksDB 7.8.3 (Debian's `ldb`) wrote and that were damaged, repaired by `pumice
//! repair` and `ldb repair`, and read by Debian's `ldb` again and by RocksDB 10.10.1.
//!
//! Where Debian's tool is not installed nothing is compared.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Option<Self> {
        Command::new("ldb").arg("--help").output().ok()?;
        let name = format!("pumice-repair-{}-{name}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&dir).unwrap();
        Some(Scratch(dir))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

/// Exit code, standard output, standard error.
type Printed = (Option<i32>, String, String);

fn run(mut command: Command, dir: &Path, words: &str) -> Printed {
    let run = command.current_dir(dir).args(words.split_whitespace()).output();
    let Output { status, stdout, stderr } = run.unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (status.code(), text(&stdout), text(&stderr))
}

fn ours(dir: &Path, words: &str) -> Printed {
    run(Command::new(env!("CARGO_BIN_EXE_pumice")), dir, words)
}

fn theirs(dir: &Path, words: &str) -> Printed {
    run(Command::new("ldb"), dir, words)
}

/// Two tables in the default column family, one in another, and a log.
fn make(dir: &Path) {
    let many: Vec<String> = (0..300).map(|n| format!("k{n:04} value-{n:040}")).collect();
    for words in [
        format!("--create_if_missing batchput {}", many.join(" ")),
        "compact".to_string(),
        "batchput k0000 new k0001 new".to_string(),
        "delete k0002".to_string(),
        "deleterange k0010 k0020".to_string(),
        "create_column_family cf".to_string(),
        "put x y --column_family=cf".to_string(),
        "put z 26".to_string(),
    ] {
        let printed = theirs(dir, &format!("--db=d {words}"));
        assert_eq!(printed.0, Some(0), "{words}: {printed:?}");
    }
}

/// What Debian's ldb finds in both column families.
fn contents(dir: &Path) -> [Printed; 2] {
    ["--db=d scan", "--db=d scan --column_family=cf"].map(|words| {
        let (code, out, err) = theirs(dir, words);
        assert_eq!(code, Some(0), "{err}");
        (code, out, String::new())
    })
}

fn files(dir: &Path, part: &str) -> Vec<PathBuf> {
    let names = std::fs::read_dir(dir.join("d")).unwrap().map(|entry| entry.unwrap().path());
    let mut names: Vec<PathBuf> =
        names.filter(|path| path.to_string_lossy().contains(part)).collect();
    names.sort();
    names
}

/// RocksDB 10.10.1 opens it with all its column families, and finds `keys` keys.
fn rocksdb_reads(dir: &Path, keys: usize) {
    let Some(library) = pumice_peer::installed_library() else { return };
    let peer = pumice_peer::Peer::load(library).unwrap();
    let options = pumice_peer::Options::new(&peer);
    let families = [("default", &options), ("cf", &options)];
    let (db, cfs) = pumice_peer::Db::open_cf(&options, &dir.join("d"), &families, false).unwrap();
    let read = pumice_peer::ReadOptions::new(&peer, &pumice_peer::ReadSettings::default());
    let found = (0..300).filter(|n| {
        let key = format!("k{n:04}");
        db.get(&read, &cfs[0], key.as_bytes(), &mut Vec::new()).unwrap()
    });
    assert_eq!(found.count(), keys);
    assert!(db.get(&read, &cfs[1], b"x", &mut Vec::new()).unwrap());
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn what_rocksdb_wrote_is_repaired_and_rocksdb_reads_it() {
    type Damage = (&'static str, fn(&Path), Option<i32>);
    let damages: [Damage; 5] = [
        ("healthy: nothing was changed", |_| (), Some(0)),
        (
            "CURRENT was restored",
            |dir| std::fs::remove_file(dir.join("d/CURRENT")).unwrap(),
            Some(0),
        ),
        ("rebuilt", |dir| remove_all(dir, "MANIFEST-"), Some(2)),
        (
            "rebuilt",
            |dir| {
                remove_all(dir, "MANIFEST-");
                remove_all(dir, "CURRENT");
            },
            Some(2),
        ),
        ("rebuilt", |dir| cut(dir, "MANIFEST-"), Some(2)),
    ];
    let Some(dir) = Scratch::new("whole") else { return };
    for (number, (outcome, damage, code)) in damages.into_iter().enumerate() {
        let dir = dir.0.join(number.to_string());
        std::fs::create_dir(&dir).unwrap();
        make(&dir);
        let expected = contents(&dir);
        damage(&dir);
        let printed = ours(&dir, "repair d");
        assert_eq!(printed.0, code, "{number}: {printed:?}");
        assert!(printed.1.starts_with(outcome), "{number}: {printed:?}");
        assert_eq!(contents(&dir), expected, "{number}");
        for (words, expected) in
            ["ldb --db=d scan", "ldb --db=d scan --column_family=cf"].iter().zip(&expected)
        {
            assert_eq!(ours(&dir, words).1, expected.1);
        }
        // It stays usable.
        for words in ["--db=d put more 1", "--db=d compact"] {
            let printed = theirs(&dir, words);
            assert_eq!(printed.0, Some(0), "{number}: {words}: {printed:?}");
        }
        assert_eq!(theirs(&dir, "--db=d get more").1, "1\n");
        // Last: Debian's ldb refuses the OPTIONS that it writes.
        rocksdb_reads(&dir, 289);
    }
}

fn remove_all(dir: &Path, part: &str) {
    files(dir, part).iter().for_each(|file| std::fs::remove_file(file).unwrap());
}

/// Cuts the newest such file in half.
fn cut(dir: &Path, part: &str) {
    let file = files(dir, part).pop().unwrap();
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn the_rest_of_a_damaged_table_is_saved() {
    let Some(dir) = Scratch::new("table") else { return };
    make(&dir.0);
    let mut tables = files(&dir.0, ".sst");
    tables.sort_by_key(|path| std::fs::metadata(path).unwrap().len());
    let table = tables.pop().unwrap();
    let mut bytes = std::fs::read(&table).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    std::fs::write(&table, &bytes).unwrap();
    assert_ne!(theirs(&dir.0, "--db=d scan").1.lines().count(), 290);
    let printed = ours(&dir.0, "repair d");
    assert_eq!(printed.0, Some(2), "{printed:?}");
    assert!(printed.1.starts_with("repaired"), "{printed:?}");
    let name = table.file_name().unwrap().to_string_lossy().into_owned();
    let line = printed.1.lines().find(|line| line.starts_with(&name)).unwrap();
    assert!(line.contains("rewritten") && line.contains("lost"), "{line}");
    assert_eq!(std::fs::read(dir.0.join("d/lost").join(&name)).unwrap(), bytes);
    let found = theirs(&dir.0, "--db=d scan");
    assert_eq!(found.0, Some(0), "{found:?}");
    let lines = found.1.lines().count();
    assert!((150..290).contains(&lines), "{lines}");
    assert_eq!(ours(&dir.0, "ldb --db=d scan").1, found.1);
    assert_eq!(ours(&dir.0, "repair --db=d").0, Some(0));
    assert_eq!(ours(&dir.0, "repair d --db=d").0, Some(1));
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn ldb_says_what_rocksdbs_says() {
    let Some(dir) = Scratch::new("ldb") else { return };
    make(&dir.0);
    let expected = contents(&dir.0);
    std::fs::remove_file(dir.0.join("d/CURRENT")).unwrap();
    let printed = ours(&dir.0, "ldb --db=d repair");
    assert_eq!((printed.0, printed.1.as_str()), (Some(0), "OK\n"), "{printed:?}");
    assert!(printed.2.starts_with("[WARN] **** Repaired rocksdb d; recovered "), "{printed:?}");
    assert_eq!(contents(&dir.0), expected);
    remove_all(&dir.0, "MANIFEST-");
    let printed = ours(&dir.0, "ldb --db=d repair --verbose");
    assert_eq!((printed.0, printed.1.as_str()), (Some(0), "OK\n"), "{printed:?}");
    assert!(printed.2.contains("Some data may have been lost. ****"), "{printed:?}");
    assert!(printed.2.contains("rebuilt from tables and logs"), "{printed:?}");
    assert_eq!(contents(&dir.0), expected);
    // The line of RocksDB's on the same database.
    let peer = theirs(&dir.0, "--db=d repair");
    assert_eq!((peer.0, peer.1.as_str()), (Some(0), "OK\n"));
    assert!(peer.2.contains("**** Repaired rocksdb d; recovered "), "{peer:?}");
    // There is no database.
    let (mine, peer) = (ours(&dir.0, "ldb --db=no repair"), theirs(&dir.0, "--db=no repair"));
    assert_eq!((mine.0, peer.0), (Some(1), Some(1)));
    assert!(mine.2.starts_with("Failed: IO error: No such file or directory"), "{mine:?}");
    assert!(!dir.0.join("no").exists());
}
