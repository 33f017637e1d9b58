//! What db_bench measures in addition to a benchmark: writes that arrive on a schedule, background
//! readers, stalls, and a chart; on both engines.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

use std::process::{Command, Output};

fn db_bench(engine: &str, dir: &std::path::Path, words: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pumice"))
        .current_dir(dir)
        .args(["db_bench", &format!("--engine={engine}"), "--db=db"])
        .args(words.split_whitespace())
        .output()
        .unwrap()
}

fn engines() -> impl Iterator<Item = String> {
    let library = pumice_peer::installed_library().map(|path| path.to_str().unwrap().to_string());
    std::iter::once("pumice".to_string()).chain(library)
}

/// Under a limiter of 1 MB/s two memtables are not enough for the arriving writes, so writes stop.
// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn a_run_tells_of_its_stalls_and_readers() {
    for engine in engines() {
        let scratch = tempfile::tempdir().unwrap();
        let words = "--benchmarks=fillrandom --num=4000 --value_size=1000 --histogram \
                     --compression_type=none --disable_wal --write_buffer_size=262144 \
                     --rate_limiter_bytes_per_sec=1000000 --benchmark_write_rate_limit=8000000 \
                     --open_loop --background_readers=2 --background_read_rate=200 \
                     --report_stalls --plot=run.svg";
        let output = db_bench(&engine, scratch.path(), words);
        let out = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{engine}: {out}{output:?}");
        let line = out.lines().find(|line| line.contains(" : stopped ")).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!((words[0], words[1], words[2]), ("fillrandom", ":", "stopped"), "{line}");
        let held: f64 = words[3].parse::<f64>().unwrap() + words[6].parse::<f64>().unwrap();
        assert!(held > 0.0, "{engine}: {line}");
        let reads = out.split("Microseconds per background read:\nCount: ").nth(1).unwrap();
        let count: u64 = reads.split_whitespace().next().unwrap().parse().unwrap();
        assert!(count > 10, "{engine}: {count} reads\n{out}");
        // Writes that arrive during a stall are late: the mean shows it, although each admitted
        // write was quick.
        let writes = out.split("Microseconds per write:\nCount: 4000 Average: ").nth(1).unwrap();
        let mean: f64 = writes.split_whitespace().next().unwrap().parse().unwrap();
        assert!(mean > 1000.0, "{engine}: {mean}\n{out}");
        let picture = std::fs::read_to_string(scratch.path().join("run.svg")).unwrap();
        assert!(picture.contains("fillrandom: MB/s") && picture.contains("<polyline"));
    }
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn an_open_loop_needs_a_rate() {
    let scratch = tempfile::tempdir().unwrap();
    for (words, text) in [
        ("--open_loop", "open_loop needs benchmark_write_rate_limit or sine_write_rate"),
        ("--background_readers=-1", "background_readers must not be negative"),
        ("--background_read_rate=0", "background_read_rate must be at least 1"),
    ] {
        let output = db_bench("pumice", scratch.path(), words);
        assert!(!output.status.success());
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains(text), "{error}");
    }
}
