//! Ingestions that RocksDB's C interface has no call for: done by Pumice, read by RocksDB.

use std::path::{Path, PathBuf};

use pumice::{IngestExternalFileArg, IngestExternalFileOptions, RangeOpt};
use pumice_testkit::Engine;

use super::ingest::{State, delete_range, merge, open_theirs, put, state_of};
use super::peer;

fn open_ours(path: &Path) -> pumice::Db {
    let mut options = pumice::Options::default();
    options.db.create_if_missing = true;
    options.cf.disable_auto_compactions = true;
    options.cf.merge_operator = pumice::options::merge_operator_by_name("stringappend");
    pumice::Db::open(&options, path).unwrap()
}

fn tables(dir: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut tables: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|end| end == "sst")).collect();
    tables.sort();
    tables
}

fn state(pairs: &[(&str, &str)]) -> State {
    pairs.iter().map(|(k, v)| (k.as_bytes().to_vec(), v.as_bytes().to_vec())).collect()
}

/// RocksDB reads, writes, compacts and reopens what is at `path`.
fn goes_on(peer: &pumice_peer::Peer, path: &Path, mut expected: State) {
    let mut engine: Box<dyn Engine> = open_theirs(peer, path, 6);
    assert_eq!(state_of(&mut *engine), expected);
    engine.put(b"a", b"theirs").unwrap();
    expected.insert(b"a".to_vec(), b"theirs".to_vec());
    assert_eq!(state_of(&mut *engine), expected);
    engine.flush(0).unwrap();
    engine.compact_all(0).unwrap();
    engine.reopen().unwrap();
    assert_eq!(state_of(&mut *engine), expected);
}

/// Files of a RocksDB database, with sequence numbers, become files of one of ours, and that one
/// RocksDB's.
#[pumice_test_macros::test]
fn files_of_rocksdb_come_and_go() {
    let Some(peer) = peer() else { return };
    for format in [5, 6, 7] {
        let folder = tempfile::tempdir().unwrap();
        let (theirs, ours) = (folder.path().join("theirs"), folder.path().join("ours"));
        let mut engine = open_theirs(&peer, &theirs, format);
        for value in ["1", "2"] {
            let records =
                [put("a", value), merge("b", value), put("c", value), delete_range("c", "e")];
            records.iter().for_each(|op| engine.write(std::slice::from_ref(op)).unwrap());
            engine.flush(0).unwrap();
        }
        let (expected, sequence) = (state_of(&mut *engine), engine.sequence());
        assert_eq!(expected, state(&[("a", "2"), ("b", "1,2")]));
        let files = tables(&theirs);
        assert_eq!(files.len(), 2);
        let db = open_ours(&ours);
        for verify_checksums_before_ingest in [true, false] {
            let how = IngestExternalFileOptions {
                allow_db_generated_files: true,
                verify_checksums_before_ingest,
                ..Default::default()
            };
            let done = db.ingest_external_file(&how, &files);
            assert_eq!(done.is_ok(), verify_checksums_before_ingest, "once, and not over itself");
        }
        assert_eq!(db.latest_sequence_number(), sequence);
        assert_eq!(db.get_opt(&Default::default(), b"b").unwrap().as_deref(), Some(&b"1,2"[..]));
        assert!(db.get_opt(&Default::default(), b"c").unwrap().is_none());
        db.close().unwrap();
        drop(engine);
        goes_on(&peer, &ours, expected);
    }
}

/// A range replaced in one record of the MANIFEST, and a checksum of a file in it.
#[pumice_test_macros::test]
fn rocksdb_reads_a_replaced_range() {
    let Some(peer) = peer() else { return };
    for all in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let (ours, made) = (folder.path().join("ours"), folder.path().join("made.sst"));
        let db = open_ours(&ours);
        let write = pumice::WriteOptions::default();
        for keys in [["a", "b"], ["d", "e"], ["x", "y"]] {
            for key in keys {
                db.put_opt(&write, key.as_bytes(), b"old").unwrap();
            }
            db.flush_opt(&Default::default()).unwrap();
        }
        let mut writer = pumice::SstFileWriter::new(&pumice::Options::default()).unwrap();
        writer.open(&made).unwrap();
        writer.put(b"c", b"new").unwrap();
        writer.put(b"e", b"new").unwrap();
        writer.finish().unwrap();
        let how = IngestExternalFileOptions { snapshot_consistency: false, ..Default::default() };
        let mut arg =
            IngestExternalFileArg::new(db.default_column_family(), vec![made.clone()], &how);
        let crc = pumice_base::checksum::crc32c(&std::fs::read(&made).unwrap());
        arg.files_checksums = vec![crc.to_be_bytes().to_vec()];
        arg.files_checksum_func_names = vec!["FileChecksumCrc32c".to_string()];
        arg.atomic_replace_range = Some(match all {
            true => RangeOpt::default(),
            false => RangeOpt { start: Some(b"c".to_vec()), limit: Some(b"x".to_vec()) },
        });
        db.ingest_external_files(&[arg]).unwrap();
        db.close().unwrap();
        let old = [("a", "old"), ("b", "old"), ("x", "old"), ("y", "old")];
        let mut expected = state(if all { &[] } else { &old });
        expected.extend(state(&[("c", "new"), ("e", "new")]));
        goes_on(&peer, &ours, expected);
    }
}
