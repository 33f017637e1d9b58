//! Debian's RocksDB 7.8 tools open databases whose OPTIONS file is ours.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use pumice_env::{FileSystem, PosixFs, write_file};

use super::*;

/// A directory that disappears with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("pumice-options-{}-{n}", std::process::id()));
        PosixFs.create_dir_all(&path).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        for name in PosixFs.list(&self.0).unwrap() {
            PosixFs.remove(&self.0.join(name)).unwrap();
        }
        PosixFs.remove_dir(&self.0).unwrap();
    }
}

/// Runs a tool of Debian's package rocksdb-tools (`cargo xtask peers` installs it).
fn run(tool: &str, args: &[&str]) -> (bool, String) {
    let out = Command::new(tool)
        .args(args)
        .output()
        .unwrap_or_else(|e| panic!("{tool}: {e}; run `cargo xtask peers` first"));
    let text = [out.stdout, out.stderr].concat();
    (out.status.success(), String::from_utf8_lossy(&text).into_owned())
}

/// A database of db_bench with two column families, its OPTIONS files replaced by `text`.
fn database_with(text: &str, families: &str) -> Scratch {
    let dir = Scratch::new();
    let db = format!("--db={}", dir.0.display());
    let (ok, out) = run(
        "db_bench",
        &["--benchmarks=fillseq,flush", "--num=1000", &db, families, "--key_size=16"],
    );
    assert!(ok, "{out}");
    let names = PosixFs.list(&dir.0).unwrap();
    for name in names.iter().filter(|name| name.starts_with("OPTIONS-")) {
        PosixFs.remove(&dir.0.join(name)).unwrap();
    }
    write_file(&PosixFs, &dir.0.join("OPTIONS-009999"), text.as_bytes(), false).unwrap();
    dir
}

fn ldb(dir: &Path, args: &[&str]) -> (bool, String) {
    let db = format!("--db={}", dir.display());
    let mut all = vec![db.as_str()];
    all.extend(args);
    run("ldb", &all)
}

fn opens_everywhere(text: &str, families: &str) {
    let dir = database_with(text, families);
    let (ok, out) = ldb(&dir.0, &["get", "nokey"]);
    assert!(!ok && out.contains("NotFound"), "{out}");
    for command in [&["put", "aaa", "bbb"][..], &["checkconsistency"], &["list_column_families"]] {
        let (ok, out) = ldb(&dir.0, command);
        assert!(ok, "{command:?}: {out}");
    }
    let (ok, out) = ldb(&dir.0, &["get", "aaa"]);
    assert!(ok && out.trim() == "bbb", "{out}");
}

fn options_7_8() -> Options {
    let mut o = Options::new();
    o.set("table_factory.format_version", "5").unwrap();
    o
}

#[pumice_test_macros::test]
fn ldb_opens_with_our_default_options() {
    let o = options_7_8();
    opens_everywhere(&format_options_file(&o.db, &[("default", &o.cf)]), "--num_column_families=1");
}

#[pumice_test_macros::test]
fn ldb_opens_with_every_kind_of_value_set() {
    let mut o = options_7_8();
    o.set_from_text(
        "max_background_jobs=5;max_open_files=100;wal_recovery_mode=kAbsoluteConsistency;\
         info_log_level=WARN_LEVEL;enable_pipelined_write=true;write_buffer_size=1M;\
         merge_operator=stringappend;prefix_extractor=fixed:4;memtable=skip_list:3;\
         compression=kZSTD;compression_per_level=kNoCompression:kSnappyCompression:kZSTD;\
         bottommost_compression=kZSTD;compression_opts={level=3;};max_total_wal_size=1G;\
         max_bytes_for_level_multiplier=8.5;compaction_pri=kOldestSmallestSeqFirst;\
         table_factory={filter_policy=bloomfilter:12.5:false;block_size=8K;checksum=kCRC32c;\
         cache_index_and_filter_blocks=true;index_shortening=kNoShortening;}",
    )
    .unwrap();
    let second = "column_family_name_000001";
    let text = format_options_file(&o.db, &[("default", &o.cf), (second, &o.cf)]);
    opens_everywhere(&text, "--num_column_families=2");
}

#[pumice_test_macros::test]
fn ldb_sees_a_missing_column_family() {
    let o = options_7_8();
    let dir = database_with(
        &format_options_file(&o.db, &[("default", &o.cf)]),
        "--num_column_families=2",
    );
    let (ok, out) = ldb(&dir.0, &["put", "aaa", "bbb"]);
    assert!(!ok && out.contains("olumn famil"), "{out}");
}
