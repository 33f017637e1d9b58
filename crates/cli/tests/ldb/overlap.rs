//! A MANIFEST with files that overlap where they must not: it does not open, unless it is only read
//! and `--disable_consistency_checks` is given; there are two ways to recover.

use super::{Printed, run};
use pumice_env::{BufferedWriter, FileOptions, FileSystem, PosixFs, WriterOptions, filename};
use pumice_manifest::{FileMetaData, VersionEdit};
use pumice_wal::{LogReader, LogReaderOptions, LogWriter};
use std::path::Path;
use std::process::Command;

fn ours(dir: &Path, words: &str) -> Printed {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pumice"));
    command.arg("ldb");
    run(command, dir, words, "")
}

fn good(dir: &Path, words: &str) -> String {
    let printed = ours(dir, words);
    assert_eq!(printed.0, Some(0), "{words}: {printed:?}");
    printed.1
}

/// The current MANIFEST of the database `d`, and the edits in it.
fn edits(fs: &dyn FileSystem, db: &Path) -> (u64, Vec<VersionEdit>) {
    let current = fs.read_file(&filename::current_file(db)).unwrap();
    let name = String::from_utf8(current).unwrap();
    let (number, _) = filename::parse(name.trim_end()).unwrap();
    let file = fs.open_sequential(&filename::manifest_file(db, number)).unwrap();
    let mut reader = LogReader::new(file, LogReaderOptions::manifest(), None);
    let (mut record, mut edits) = (Vec::new(), Vec::new());
    while reader.read_record(&mut record).unwrap().is_some() {
        edits.push(VersionEdit::decode(&record).unwrap());
    }
    (number, edits)
}

/// A database, made by `tool`, with keys a and e in one file and c in another, both on the last
/// level of the MANIFEST. Gives the number of the second file.
fn make(dir: &Path, tool: fn(&Path, &str) -> Printed) -> u64 {
    let good = |words| assert_eq!(tool(dir, words).0, Some(0), "{words}");
    good("--db=d --create_if_missing batchput a 1 e 5");
    good("--db=d compact");
    good("--db=d put c 3");
    good("--db=d put d 4"); // The open writes the log with c into a table.
    let (fs, db) = (PosixFs::shared(), dir.join("d"));
    let (number, mut edits) = edits(&*fs, &db);
    let files: Vec<_> = edits.iter().flat_map(|edit| edit.new_files.clone()).collect();
    let with_c = |file: &FileMetaData| file.smallest_user_key().as_bytes() == b"c";
    let (_, file) = files.iter().find(|(level, file)| *level == 0 && with_c(file)).unwrap();
    let last = files.iter().map(|(level, _)| *level).max().unwrap();
    let mut moved = VersionEdit::for_column_family(0);
    moved.delete_file(0, file.number);
    moved.new_files.push((last, file.clone()));
    edits.push(moved);
    let path = filename::manifest_file(&db, number);
    let writer = fs.create(&path, &FileOptions::default()).unwrap();
    let writer = BufferedWriter::new(writer, WriterOptions::new(1 << 20));
    let mut log = LogWriter::new(writer, number, false, false);
    for edit in &edits {
        log.add_record(&edit.encode()).unwrap();
    }
    log.sync().unwrap();
    log.close().unwrap();
    file.number
}

fn theirs(dir: &Path, words: &str) -> Printed {
    run(Command::new("ldb"), dir, words, "")
}

/// What both say, without what is before and after it.
fn complaint(printed: &Printed) -> &str {
    let text = printed.2.split_once("VersionBuilder: ").unwrap_or_else(|| panic!("{printed:?}")).1;
    text.split(" in file ").next().unwrap().trim_end()
}

/// Debian's ldb has its checks compiled in ("DEBUG") and refuses with the flag, too.
#[pumice_test_macros::test]
fn what_is_refused_is_refused_in_the_same_words() {
    if Command::new("ldb").arg("--help").output().is_err() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    make(dir, theirs);
    for words in ["scan", "get c", "dump", "idump", "checkconsistency", "put k v", "compact"] {
        let words = format!("--db=d {words}");
        let (ours, theirs) = (ours(dir, &words), theirs(dir, &words));
        assert_eq!((ours.0, theirs.0), (Some(1), Some(1)), "{words}");
        assert_eq!(complaint(&ours), complaint(&theirs), "{words}");
        assert!(ours.2.contains("force_consistency_checks: VersionBuilder: "), "{ours:?}");
    }
    let scan = "--db=d --disable_consistency_checks scan";
    assert_eq!(ours(dir, scan).1, "a : 1\nc : 3\nd : 4\ne : 5\n");
    assert!(theirs(dir, scan).2.contains("force_consistency_checks(DEBUG)"));
}

/// Commands that read, and what they print.
const READING: &[(&str, &str)] = &[
    ("scan", "a : 1\nc : 3\nd : 4\ne : 5\n"),
    ("scan --from=b --max_keys=2", "c : 3\nd : 4\n"),
    ("get a", "1\n"),
    ("get c", "3\n"),
    ("get d", "4\n"),
    ("get e", "5\n"),
    ("multi_get a c e", "1\n3\n5\n"),
    ("get_entity c", ":3\n"),
    ("dump", "a ==> 1\nc ==> 3\nd ==> 4\ne ==> 5\nKeys in range: 4\n"),
    (
        "idump",
        "'a' seq:0, type:1 => 1\n'c' seq:3, type:1 => 3\n'd' seq:4, type:1 => 4\n'e' seq:0, \
         type:1 => 5\nInternal keys in range: 4\n",
    ),
    ("checkconsistency", "OK\n"),
    ("get_property rocksdb.num-files-at-level6", "rocksdb.num-files-at-level6: 2\n"),
];

/// What other commands print names this of both files.
const NAMING: &[&str] = &[
    "manifest_dump",
    "dump_live_files",
    "list_live_files_metadata",
    "file_checksum_dump",
    "list_file_range_deletes",
];

#[pumice_test_macros::test]
fn without_checks_all_is_read_and_nothing_written() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let number = make(dir, ours);
    let unchecked =
        |words: &str| good(dir, &format!("--db=d --disable_consistency_checks {words}"));
    for (words, expected) in READING {
        assert_eq!(unchecked(words), *expected, "{words}");
    }
    for words in NAMING {
        assert!(unchecked(words).contains(&number.to_string()), "{words}");
        assert_eq!(ours(dir, &format!("--db=d {words}")).0, Some(1), "{words}");
    }
    let before = std::fs::read_dir(dir.join("d")).unwrap().count();
    for words in ["put k v", "compact", "checkpoint --checkpoint_dir=cp", "delete a"] {
        let printed = ours(dir, &format!("--db=d --disable_consistency_checks {words}"));
        assert_eq!((printed.0, printed.2.contains("L6 has overlapping ranges")), (Some(1), true));
    }
    assert_eq!(std::fs::read_dir(dir.join("d")).unwrap().count(), before);
}

#[pumice_test_macros::test]
fn files_that_overlap_are_refused_and_there_are_ways_out() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let number = make(dir, ours);
    for words in ["scan", "put k v", "manifest_dump"] {
        let printed = ours(dir, &format!("--db=d {words}"));
        assert_eq!(printed.0, Some(1), "{words}: {printed:?}");
        assert!(printed.2.contains("L6 has overlapping ranges"), "{words}: {printed:?}");
    }
    let copy = dir.join("copy");
    std::fs::create_dir(&copy).unwrap();
    for entry in std::fs::read_dir(dir.join("d")).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, copy.join(path.file_name().unwrap())).unwrap();
    }
    good(dir, &format!("--db=d unsafe_remove_sst_file {number}"));
    assert_eq!(good(dir, "--db=d scan"), "a : 1\nd : 4\ne : 5\n", "c is gone");
    good(dir, "--db=copy repair");
    assert_eq!(good(dir, "--db=copy scan"), "a : 1\nc : 3\nd : 4\ne : 5\n");
    good(dir, "--db=copy put k v");
}
