//! A MANIFEST with files that overlap where they must not: no command opens it, and there are two
//! ways to recover.

use super::{Said, run};
use pumice_env::{BufferedWriter, FileOptions, FileSystem, PosixFs, WriterOptions, filename};
use pumice_manifest::{FileMetaData, VersionEdit};
use pumice_wal::{LogReader, LogReaderOptions, LogWriter};
use std::path::Path;
use std::process::Command;

fn ours(dir: &Path, words: &str) -> Said {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pumice"));
    command.arg("ldb");
    run(command, dir, words, "")
}

fn good(dir: &Path, words: &str) -> String {
    let said = ours(dir, words);
    assert_eq!(said.0, Some(0), "{words}: {said:?}");
    said.1
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

/// A database with keys a and e in one file and c in another, both on the last level of the
/// MANIFEST. Gives the number of the second file.
fn make(dir: &Path) -> u64 {
    good(dir, "--db=d --create_if_missing batchput a 1 e 5");
    good(dir, "--db=d compact");
    good(dir, "--db=d put c 3");
    good(dir, "--db=d put d 4"); // The open writes the log with c into a table.
    let (fs, db) = (PosixFs::shared(), dir.join("d"));
    let (number, mut edits) = edits(&*fs, &db);
    let files: Vec<_> = edits.iter().flat_map(|edit| edit.new_files.clone()).collect();
    let with_c = |file: &FileMetaData| file.smallest_user_key() == b"c";
    let (_, file) = files.iter().find(|(level, file)| *level == 0 && with_c(file)).unwrap();
    let mut moved = VersionEdit::for_column_family(0);
    moved.delete_file(0, file.number);
    moved.new_files.push((6, file.clone()));
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

#[pumice_test_macros::test]
fn files_that_overlap_are_refused_and_there_are_ways_out() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let number = make(dir);
    for words in ["scan", "put k v", "manifest_dump"] {
        let said = ours(dir, &format!("--db=d {words}"));
        assert_eq!(said.0, Some(1), "{words}: {said:?}");
        assert!(said.2.contains("L6 has overlapping ranges"), "{words}: {said:?}");
    }
    // RocksDB's command for it is refused, and the error says what helps.
    let said = ours(dir, "--db=d --disable_consistency_checks scan");
    assert!(said.2.contains("repair merges them and unsafe_remove_sst_file drops one"), "{said:?}");

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
