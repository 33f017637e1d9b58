//! `--use_blob_db`: RocksDB's old BlobDB, in both directions with Debian's db_bench (RocksDB
//! 7.8.3), where it is installed.

use crate::{db_bench, result};
use pumice::{BlobDb, BlobDbOptions, Options};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

const COMMON: &str = "--db=db --use_blob_db --num=2000 --value_size=300 --seed=7 \
                      --format_version=5 --blob_db_file_size=100000 --compression_type=none";

/// Values that expire long after the test.
const LASTING_FILES: &str = "--blob_db_compression_type=none --blob_db_max_ttl_range=100000000 \
                             --blob_db_ttl_range_secs=30000000";
const LASTING_TABLES: &str = "--blob_db_min_blob_size=1000 --blob_db_max_ttl_range=100000000 \
                              --blob_db_ttl_range_secs=30000000";

/// Runs Debian's db_bench; None if it is not installed.
fn theirs(dir: &Path, words: &str) -> Option<String> {
    let mut command = Command::new("db_bench");
    let output = command.current_dir(dir).args(words.split_whitespace()).output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(output.status.success(), "{words}: {text}");
    Some(text)
}

fn options(collects: bool) -> (Options, BlobDbOptions) {
    let mut options = Options::default();
    options.cf.table_factory.set("format_version", "5").unwrap();
    let blobs = BlobDbOptions {
        enable_garbage_collection: collects,
        blob_file_size: 100_000,
        ..BlobDbOptions::default()
    };
    (options, blobs)
}

fn contents(dir: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let (options, blobs) = options(false);
    let db = BlobDb::open(&options, &blobs, dir.join("db")).unwrap();
    let found = db.iter().unwrap().map(Result::unwrap).collect();
    db.close().unwrap();
    found
}

fn blob_files(dir: &Path) -> usize {
    std::fs::read_dir(dir.join("db/blob_dir")).unwrap().count()
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn fills_reads_and_scans_run() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let all = "fillseq,overwrite,readrandom,readseq,readreverse,seekrandom,multireadrandom,\
               deleteseq,readwhilewriting,updaterandom,compact,stats";
    let out = db_bench(dir, &format!("{COMMON} --batch_size=10 --benchmarks={all}")).good();
    assert!(result(&out, "readrandom").contains("(2000 of 2000 found)"), "{out}");
    assert!(blob_files(dir) > 10);
    // Half of a range of one second has expired at once.
    let short = "--benchmarks=fillseq,readrandom --blob_db_max_ttl_range=1";
    let out = db_bench(dir, &format!("{COMMON} {short}")).good();
    assert!(result(&out, "readrandom").contains("(0 of 2000 found)"), "{out}");
    let long = "--benchmarks=fillseq,readrandom --blob_db_max_ttl_range=100000";
    let out = db_bench(dir, &format!("{COMMON} {long} --blob_db_ttl_range_secs=7000")).good();
    let found = result(&out, "readrandom").to_string();
    assert!(!found.contains("(0 of") && contents(dir).len() > 1900, "{out}");
    assert!((15..=16).contains(&blob_files(dir)), "one for each range");
    let error = db_bench(dir, &format!("{COMMON} --benchmarks=fillseq --blob_db_max_db_size=9999"));
    assert!(error.bad().contains("would exceed max_db_size limit"));
    for flag in ["--transaction_db", "--num_column_families=2", "--readonly"] {
        let error = db_bench(dir, &format!("{COMMON} --benchmarks=fillseq {flag}")).bad();
        assert!(error.contains("use_blob_db and "), "{error}");
    }
    let library = db_bench(dir, "--engine=/nosuch.so --use_blob_db --benchmarks=fillseq").bad();
    assert!(!library.is_empty());
    // A new fill leaves nothing of the old database.
    db_bench(dir, "--db=db --use_blob_db --num=10 --benchmarks=fillseq").good();
    assert_eq!((blob_files(dir), contents(dir).len()), (1, 10));
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn garbage_collection_leaves_less() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let work = "--benchmarks=fillseq,overwrite,overwrite,overwrite,flush,compact[X12]";
    db_bench(dir, &format!("{COMMON} {work}")).good();
    let (all, there) = (blob_files(dir), contents(dir));
    db_bench(dir, &format!("{COMMON} --blob_db_enable_gc {work}")).good();
    assert!(blob_files(dir) < all / 2, "{} of {all}", blob_files(dir));
    assert_eq!(contents(dir).len(), there.len());
}

/// RocksDB reads and goes on with what was written here.
// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn rocksdb_reads_ours() {
    for ttl in ["", "--blob_db_max_ttl_range=100000000 --blob_db_ttl_range_secs=30000000"] {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        db_bench(dir, &format!("{COMMON} {ttl} --benchmarks=fillseq,flush,overwrite")).good();
        let (there, more) = (contents(dir), "--use_existing_db --benchmarks=readseq");
        assert_eq!(there.len(), 2000, "none has expired yet");
        let Some(text) = theirs(dir, &format!("{COMMON} {more}")) else { return };
        assert!(text.contains(" 2000 operations;"), "{text}");
        // Its compaction moves our blobs, and what it leaves is ours.
        let gc = "--blob_db_enable_gc --blob_db_gc_cutoff=1 --blob_db_compression_type=none";
        theirs(dir, &format!("{COMMON} --use_existing_db {gc} --benchmarks=compact")).unwrap();
        assert!(contents(dir) == there);
    }
}

/// What RocksDB wrote is read and goes on: values that expire and others, compressed ones, and such
/// as are in tables.
// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn rocksdbs_are_read() {
    for (flags, in_files) in [
        ("--blob_db_compression_type=none", true),
        ("--blob_db_compression_type=snappy", true),
        (LASTING_FILES, true),
        ("--blob_db_compression_type=none --blob_db_min_blob_size=1000", false),
        (LASTING_TABLES, false),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let fill = format!("{COMMON} {flags} --benchmarks=fillseq,flush,overwrite");
        if theirs(dir, &fill).is_none() {
            return;
        }
        assert_eq!(blob_files(dir) > 0, in_files, "{flags}");
        let there = contents(dir);
        assert!(there.len() == 2000 && there.values().all(|value| value.len() == 300), "{flags}");
        // Our compaction moves its blobs.
        let (options, blobs) = options(true);
        for _ in 0..8 {
            let db = BlobDb::open(&options, &blobs, dir.join("db")).unwrap();
            db.db().flush().unwrap();
            let all = pumice::CompactRangeOptions {
                bottommost_level_compaction: pumice::BottommostLevelCompaction::Force,
                ..pumice::CompactRangeOptions::default()
            };
            db.db().compact_range(&all, None, None).unwrap();
            db.close().unwrap();
            assert!(contents(dir) == there, "{flags}");
        }
        let more = "--use_existing_db --benchmarks=readseq";
        let text = theirs(dir, &format!("{COMMON} {flags} {more}")).unwrap();
        assert!(text.contains(" 2000 operations;"), "{flags}: {text}");
    }
}
