//! RocksDB 10.10.1, as a child process, before and after Pumice.

use std::path::Path;

use pumice_testkit::contents::{self, Contents};
use pumice_testkit::{Model, Store};

use super::{CODECS, assert_large, assert_same, expected, settings, workload};
use crate::child;
use crate::stores::pumice::Pumice;
use crate::stores::rocksdb::{self, RocksDb};
use crate::stores::temp_folder;

const DATABASE: &str = "db";
/// What RocksDB read when it had opened the database, and when it was done with it.
const FIRST_DUMP: &str = "contents-1";
const SECOND_DUMP: &str = "contents-2";

fn write_dump(folder: &Path, name: &str, contents: &Contents) -> Result<(), String> {
    std::fs::write(folder.join(name), contents::encode(contents)).map_err(|e| e.to_string())
}

fn read_dump(folder: &Path, name: &str) -> Contents {
    contents::decode(&std::fs::read(folder.join(name)).unwrap())
}

fn open_rocksdb(folder: &Path, format_version: &str) -> Result<RocksDb, String> {
    let version =
        format_version.parse().map_err(|_| format!("{format_version} is not a number"))?;
    RocksDb::open(&rocksdb::load()?, &folder.join(DATABASE), &settings(version))
}

/// Child job: RocksDB reads a database, writes and compacts, and reads it again.
pub fn run_continue(folder: &Path, format_version: &str) -> Result<(), String> {
    let mut store = open_rocksdb(folder, format_version)?;
    write_dump(folder, FIRST_DUMP, &contents::read(&mut store, CODECS.len())?)?;
    let mut unused = Model::new(CODECS.len());
    workload(7).mutate(&mut store, &mut unused, 1)?;
    for cf in 0..CODECS.len() {
        store.compact(cf, None, None)?;
    }
    workload(7).mutate(&mut store, &mut unused, 2)?;
    write_dump(folder, SECOND_DUMP, &contents::read(&mut store, CODECS.len())?)
}

/// Child job: RocksDB writes a database and leaves its last writes in the WAL.
pub fn run_write(folder: &Path, format_version: &str) -> Result<(), String> {
    let mut store = open_rocksdb(folder, format_version)?;
    let mut model = Model::new(CODECS.len());
    workload(8).load(&mut store, &mut model)?;
    workload(8).mutate(&mut store, &mut model, 0)
}

/// Pumice writes, then RocksDB, then Pumice again, on one database without errors.
fn pass_back_and_forth(format_version: u32) {
    let folder = temp_folder();
    let (path, settings) = (folder.path().join(DATABASE), settings(format_version));
    let (work, mut model) = (workload(7), Model::new(CODECS.len()));
    let mut store = Pumice::open(&path, &settings).unwrap();
    work.load(&mut store, &mut model).unwrap();
    work.mutate(&mut store, &mut model, 0).unwrap();
    assert_large(&model);
    let read = contents::read(&mut store, CODECS.len()).unwrap();
    assert_same("Pumice reads its own", &expected(&model), &read);
    store.close().unwrap();

    child::run("rocksdb-continue", folder.path(), &format_version.to_string()).unwrap();
    let dump = read_dump(folder.path(), FIRST_DUMP);
    assert_same("RocksDB reads Pumice's", &expected(&model), &dump);
    for phase in [1, 2] {
        work.mutate(&mut Model::new(CODECS.len()), &mut model, phase).unwrap();
    }
    let dump = read_dump(folder.path(), SECOND_DUMP);
    assert_same("RocksDB reads what it added", &expected(&model), &dump);

    let mut store = Pumice::open(&path, &settings).unwrap();
    let read = contents::read(&mut store, CODECS.len()).unwrap();
    assert_same("Pumice reads RocksDB's", &expected(&model), &read);
    work.mutate(&mut store, &mut model, 3).unwrap();
    for cf in 0..CODECS.len() {
        store.compact(cf, None, None).unwrap();
    }
    let read = contents::read(&mut store, CODECS.len()).unwrap();
    assert_same("Pumice reads what it compacted", &expected(&model), &read);
    store.close().unwrap();
}

#[pumice_test_macros::test]
fn format_5_goes_to_rocksdb_and_back() {
    pass_back_and_forth(5);
}

#[pumice_test_macros::test]
fn format_6_goes_to_rocksdb_and_back() {
    pass_back_and_forth(6);
}

#[pumice_test_macros::test]
fn format_7_goes_to_rocksdb_and_back() {
    pass_back_and_forth(7);
}

#[pumice_test_macros::test]
fn what_rocksdb_wrote_is_read_with_its_unflushed_wal() {
    let mut model = Model::new(CODECS.len());
    workload(8).load(&mut Model::new(CODECS.len()), &mut model).unwrap();
    workload(8).mutate(&mut Model::new(CODECS.len()), &mut model, 0).unwrap();
    assert_large(&model);
    for format_version in [5, 6, 7] {
        let folder = temp_folder();
        child::run("rocksdb-write", folder.path(), &format_version.to_string()).unwrap();
        let settings = settings(format_version);
        let mut store = Pumice::open(&folder.path().join(DATABASE), &settings).unwrap();
        let read = contents::read(&mut store, CODECS.len()).unwrap();
        assert_same(&format!("format_version {format_version}"), &expected(&model), &read);
        store.close().unwrap();
    }
}
