//! Debian's RocksDB 7.8.3: `ldb`, `sst_dump` and `db_bench`, before and after Pumice.
//!
//! These are builds with assertions: a file that they do not fully accept aborts them.

use std::path::Path;
use std::process::Command;

use pumice_testkit::{Entry, Model, contents};

use super::{CODECS, KEYS_MIN, assert_large, assert_same, expected, settings, workload};
use crate::stores::pumice::Pumice;
use crate::stores::{Settings, temp_folder};

/// Runs a program that must succeed; returns what it printed.
fn run(program: &str, args: &[&str]) -> String {
    let output = Command::new(program)
        .args(args)
        .output()
        .unwrap_or_else(|e| panic!("{program}: {e}; run `cargo xtask peers`"));
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    );
    let ok = output.status.success() && !out.contains("Failed:") && !err.contains("Failed:");
    let shown: String = out.chars().take(2000).collect();
    assert!(ok, "{program} {args:?}: {}\n{shown}\n{err}", output.status);
    out
}

fn ldb(path: &Path, args: &[&str]) -> String {
    let database = format!("--db={}", path.display());
    run("ldb", &[&[database.as_str()], args].concat())
}

/// What `ldb scan --hex` shows of a column family.
fn scan(path: &Path, family: &str) -> Vec<Entry> {
    let family = format!("--column_family={family}");
    let lines = ldb(path, &["scan", "--hex", &family]);
    let entry = |line: &str| {
        let (key, value) = line.split_once(" : ").unwrap_or_else(|| panic!("ldb printed {line}"));
        (from_hex(key), from_hex(value))
    };
    lines.lines().map(entry).collect()
}

fn from_hex(text: &str) -> Vec<u8> {
    let digits = text.trim().strip_prefix("0x").unwrap_or_else(|| panic!("no hex: {text}"));
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(byte).collect()
}

fn table_files(path: &Path) -> Vec<String> {
    let names = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    let tables = names.filter(|path| path.extension().is_some_and(|ending| ending == "sst"));
    tables.map(|path| path.display().to_string()).collect()
}

#[pumice_test_macros::test]
fn ldb_and_sst_dump_accept_what_pumice_wrote() {
    let folder = temp_folder();
    let (path, settings) = (folder.path().join("db"), settings(5));
    let mut model = Model::new(CODECS.len());
    let mut store = Pumice::open(&path, &settings).unwrap();
    workload(5).load(&mut store, &mut model).unwrap();
    workload(5).mutate(&mut store, &mut model, 0).unwrap();
    store.db().wait_for_compact(&Default::default()).unwrap();
    let levels = (0..7).filter(|level| {
        let name = format!("rocksdb.num-files-at-level{level}");
        store.db().property(&name).is_some_and(|count| count != "0")
    });
    assert!(levels.count() >= 2, "the database has one level only");
    store.close().unwrap();
    assert_large(&model);

    for ((name, _), expected) in settings.families.iter().zip(expected(&model)) {
        contents::same(&expected, &scan(&path, name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
    assert!(ldb(&path, &["checkconsistency"]).contains("OK"));
    let manifest = ldb(&path, &["manifest_dump"]);
    for (name, _) in &settings.families {
        assert!(manifest.contains(name.as_str()), "manifest_dump lacks {name}");
    }
    let listed = ldb(&path, &["list_column_families"]);
    assert!(settings.families.iter().all(|(name, _)| listed.contains(name.as_str())), "{listed}");
    let tables = table_files(&path);
    assert!(tables.len() > CODECS.len(), "{} tables", tables.len());
    for command in ["check", "verify"] {
        for table in &tables {
            let file = format!("--file={table}");
            let out = run("sst_dump", &[&file, &format!("--command={command}")]);
            assert!(!out.contains("is not a valid SST file"), "{out}");
            assert!(command != "verify" || out.contains("The file is ok"), "{table}: {out}");
        }
    }
}

#[pumice_test_macros::test]
fn what_debians_db_bench_wrote_is_read_with_its_unflushed_wal() {
    let folder = temp_folder();
    let path = folder.path().join("db");
    let database = format!("--db={}", path.display());
    let common = [
        database.as_str(),
        "--num=250000",
        "--value_size=60",
        "--write_buffer_size=2097152",
        "--target_file_size_base=1048576",
        "--max_bytes_for_level_base=4194304",
        "--compression_type=lz4",
        "--bloom_bits=10",
        "--merge_operator=stringappend",
        "--seed=1",
    ];
    run("db_bench", &[&common[..], &["--benchmarks=fillseq"]].concat());
    let more = [
        "--benchmarks=overwrite,deleterandom",
        "--use_existing_db=1",
        "--writes=25000",
        "--deletes=20000",
    ];
    run("db_bench", &[&common[..], &more].concat());
    let merges = ["--benchmarks=mergerandom", "--use_existing_db=1", "--writes=5000"];
    run("db_bench", &[&common[..], &merges].concat());

    let written = scan(&path, "default");
    assert!(written.len() as u64 >= KEYS_MIN, "only {} keys", written.len());
    let mut one_family: Settings = settings(5);
    one_family.families.truncate(1);
    let mut store = Pumice::open(&path, &one_family).unwrap();
    let read = contents::read(&mut store, 1).unwrap();
    assert_same("Debian's db_bench", &vec![written], &read);
    store.close().unwrap();
}
