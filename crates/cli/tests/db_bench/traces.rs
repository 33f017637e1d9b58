//! `--trace_file` and `replay`: a trace makes the same database again, here and with Debian's
//! db_bench (RocksDB 7.8.3), whose traces replay here.

use crate::{db_bench, result};
use std::path::Path;
use std::process::Command;

/// RocksDB's replay needs column families that were named.
const FASTER: &str = "--trace_replay_fast_forward=1000000 --num_column_families=2";

/// What both column families of a database have.
fn contents(dir: &Path, db: &str) -> String {
    let scan = |family: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pumice"));
        let words = [&format!("--db={db}"), &format!("--column_family={family}"), "scan", "--hex"];
        let output = command.current_dir(dir).arg("ldb").args(words).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert!(output.stdout.len() > 10_000, "{family} of {db}");
        String::from_utf8(output.stdout).unwrap()
    };
    scan("default") + &scan("column_family_name_000001")
}

/// Runs Debian's db_bench; None if it is not installed.
fn theirs(dir: &Path, words: &str) -> Option<String> {
    let mut command = Command::new("db_bench");
    let output = command.current_dir(dir).args(words.split_whitespace()).output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(output.status.success(), "{words}: {text}");
    Some(text)
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn a_trace_makes_the_same_database() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let make = "--db=one --num=2000 --seed=7 --trace_file=t --batch_size=3 \
                --writes_before_delete_range=50 --writes_per_range_tombstone=200 \
                --range_tombstone_width=5 --max_num_range_tombstones=3 --format_version=5 \
                --num_column_families=2";
    let out = db_bench(dir, &format!("{make} --benchmarks=fillrandom")).good();
    assert_eq!(out.matches("Tracing the workload to: [t]\n").count(), 1, "{out}");
    let replay = format!("--trace_file=t {FASTER} --benchmarks=replay");
    let out = db_bench(dir, &format!("--db=two {replay}")).good();
    assert!(out.contains("Replay completed from trace_file: t\n"), "{out}");
    assert!(!result(&out, "replay").contains(" 0 operations;"), "{out}");
    let expected = contents(dir, "one");
    assert!(contents(dir, "two") == expected);
    if let Some(text) = theirs(dir, &format!("--db=three --num=2000 {replay}")) {
        assert!(text.contains("Replay completed from trace_file: t"), "{text}");
        assert!(contents(dir, "three") == expected);
    }
    // With several workers the order is theirs, but each call is made once.
    let count = |out: &str| {
        let (_, line) = result(out, "replay").split_once(" seconds ").unwrap();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap()
    };
    let shared = format!("--db=four {replay} --trace_replay_threads=3");
    assert_eq!(count(&db_bench(dir, &shared).good()), count(&out));
}

/// Calls of all kinds come through, from either side.
// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn reads_are_replayed_too() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let kinds = [
        ("readrandom", "", 300),
        ("multireadrandom", "--batch_size=10", 30),
        ("seekrandom", "--max_scan_distance=5", 300),
        ("deleterandom", "", 300),
        // The last: what is merged can be read only with the operator.
        ("mergerandom", "--merge_operator=put", 300),
    ];
    let there = "--db=one --num=300 --seed=7 --format_version=5 --num_column_families=2";
    db_bench(dir, &format!("{there} --benchmarks=fillseq")).good();
    let there = format!("{there} --use_existing_db");
    for (name, more, calls) in kinds {
        let run = format!("{there} {more} --trace_file=t --benchmarks={name}");
        let replay = format!("{there} {more} --trace_file=t {FASTER} --benchmarks=replay");
        let expected = format!(" {calls} operations;");
        db_bench(dir, &run).good();
        let out = db_bench(dir, &replay).good();
        assert!(result(&out, "replay").contains(&expected), "{name}: {out}");
        let Some(text) = theirs(dir, &replay) else { continue };
        assert!(text.contains("Replay completed"), "{name}: {text}");
        theirs(dir, &run).unwrap();
        let out = db_bench(dir, &replay).good();
        assert!(result(&out, "replay").contains(&expected), "{name} of theirs: {out}");
    }
    for (words, why) in [
        ("--benchmarks=replay", "Please set --trace_file to be replayed from"),
        ("--benchmarks=replay --trace_file=t --threads=2", "Multi-threaded replay is not yet"),
        ("--benchmarks=replay --trace_file=nowhere", "error creating a TraceReader"),
        ("--benchmarks=replay --trace_file=one/CURRENT", "Prepare for replay failed"),
        ("--benchmarks=replay --trace_file=t --trace_replay_fast_forward=0", "Wrong fast forward"),
    ] {
        assert!(
            db_bench(dir, &format!("{there} --merge_operator=put {words}")).bad().contains(why),
            "{words}"
        );
    }
}
