//! The commands of the work that Pumice began with run as they are written, on both engines.
//!
//! Only `-num`, `-duration` and sizes of memtables are scaled down, so that there are several
//! files, by flags after the command: the last one counts. What their `awk` scripts take is the
//! fifth field of the line with `micros/op`.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

use std::path::Path;
use std::process::Command;

/// The operations per second of every result line, as the scripts read them.
fn rates(output: &str) -> Vec<u64> {
    let lines = output.lines().filter(|line| line.contains("micros/op"));
    lines.map(|line| line.split_whitespace().nth(4).unwrap().parse().unwrap()).collect()
}

/// The ticker of that name, as `-statistics` prints it.
fn count(output: &str, name: &str) -> u64 {
    let line = format!("{name} COUNT : ");
    let found = output.lines().find_map(|text| text.strip_prefix(&line));
    found.and_then(|number| number.trim().parse().ok()).unwrap_or_else(|| panic!("{output}"))
}

fn run_on_both(name: &str, commands: &[String], results: usize) {
    let scratch = std::env::temp_dir().join(format!("pumice-seed-{}-{name}", std::process::id()));
    let library = pumice_peer::installed_library().map(|path| path.to_str().unwrap().to_string());
    for engine in std::iter::once("pumice".to_string()).chain(library) {
        for words in commands {
            // Not made in advance: db_bench makes the directory of the environment itself.
            let dir = scratch.join("made-by-db_bench");
            let output = db_bench(&dir, &scratch, &engine, words);
            let rates = rates(&output);
            assert_eq!(rates.len(), results, "{engine}: {words}\n{output}");
            assert!(rates.iter().all(|rate| *rate > 0), "{engine}: {words}: {rates:?}");
            if words.contains("block_cache_entry_stats") {
                assert!(
                    output.contains("Block cache entry stats(count,size,portion): "),
                    "{output}"
                );
            }
            std::fs::remove_dir_all(&scratch).unwrap();
        }
    }
}

/// Runs `db_bench` with `words`; `tmp` is what `TEST_TMPDIR` names.
fn db_bench(tmp: &Path, cwd: &Path, engine: &str, words: &str) -> String {
    let words = words.replace("$TEST_TMPDIR", tmp.to_str().unwrap());
    std::fs::create_dir_all(cwd).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_pumice"))
        .env("TEST_TMPDIR", tmp)
        .current_dir(cwd)
        .args(["db_bench", &format!("--engine={engine}")])
        .args(words.split_whitespace())
        .output()
        .unwrap();
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{engine}: {words}: {}\n{out}{err}", output.status);
    out.into_owned()
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn file_sizes_with_parallel_compression() {
    let commands = ["1", "8"].map(|threads| {
        format!(
            "-db=$TEST_TMPDIR/dbbench_filesize_after8 -benchmarks=fillseq,compact -num=20000 \
             -compression_type=zstd -compression_level=8 -compression_parallel_threads={threads}"
        )
    });
    run_on_both("sizes", &commands, 2);
}

fn fillseq(codec: &str, threads: u32, level: &str) -> String {
    format!(
        "-db=$TEST_TMPDIR/dbbench --benchmarks=fillseq -num=30000 -compaction_style=2 \
         -fifo_compaction_max_table_files_size_mb=1000 -fifo_compaction_allow_compaction=0 \
         -disable_wal -write_buffer_size=1200000 -format_version=7 -compression_type={codec} \
         -compression_parallel_threads={threads} {level}"
    )
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn fillseq_by_codec_and_threads() {
    let mut commands = Vec::new();
    for codec in ["none", "lz4", "zstd"] {
        for threads in [1, 2, 3, 4, 6, 8] {
            commands.push(fillseq(codec, threads, ""));
        }
    }
    run_on_both("fillseq", &commands, 1);
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn fillseq_by_level_and_threads() {
    let mut commands = Vec::new();
    for level in [4, 6, 8] {
        for threads in [1, 4, 8] {
            commands.push(fillseq("zstd", threads, &format!("-compression_level={level}")));
        }
    }
    run_on_both("levels", &commands, 1);
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn fillrandom_with_filters() {
    let mut commands = Vec::new();
    for partitioned in [0, 1] {
        for (prefix, whole) in [(0, 1), (8, 0), (8, 1)] {
            commands.push(format!(
                "-benchmarks=fillrandom -num=30000 -disable_wal=1 -write_buffer_size=1000000 \
                 -memtablerep=vector -allow_concurrent_memtable_write=0 -bloom_bits=10 \
                 -compaction_style=2 -fifo_compaction_max_table_files_size_mb=10000 \
                 -fifo_compaction_allow_compaction=0 -partition_index_and_filters={partitioned} \
                 -prefix_size={prefix} -whole_key_filtering={whole}"
            ));
        }
    }
    run_on_both("filters", &commands, 1);
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn readrandom_by_cache_size() {
    let mut commands = Vec::new();
    for (megabytes, decoupled) in [("0300", 1), ("1200", 1), ("0001", 0)] {
        commands.push(format!(
            "-benchmarks=fillrandom,flush,readrandom,block_cache_entry_stats -num=30000 \
             -duration=1 -disable_wal=1 -write_buffer_size=3000000 -bloom_bits=10 \
             -compaction_style=2 -fifo_compaction_max_table_files_size_mb=10000 \
             -fifo_compaction_allow_compaction=0 -partition_index_and_filters=1 -statistics=1 \
             -cache_size={megabytes}000000 -metadata_block_size=4096 \
             -decouple_partitioned_filters={decoupled}"
        ));
    }
    run_on_both("reads", &commands, 2);
}

/// What the sine commands have in common, and after it what makes them short.
fn sine(flags: &str) -> String {
    format!(
        "-benchmarks=fillrandom,stats -statistics -db=./test_db1 -wal_dir=./test_db1 \
         -duration=350 -value_size=65536 -compression_type=None -sine_write_rate=true \
         -sine_a=75000000 -sine_b=0.017942857 -sine_c=4.71 -sine_d=125000000 \
         -stats_per_interval=1 -stats_interval_seconds=5 -max_write_buffer_number=6 \
         -max_background_flushes=4 -max_background_compactions=2 {flags} \
         -duration=1 -stats_interval_seconds=1 -sine_d=85000000 -write_buffer_size=4000000"
    )
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn sine_write_rate() {
    let commands = [
        sine("-enable_pipelined_write=true"),
        sine(
            "-enable_pipelined_write=true -level0_slowdown_writes_trigger=10000 \
             -level0_stop_writes_trigger=10000 -level0_file_num_compaction_trigger=10000 \
             -disable_auto_compactions=true",
        ),
        sine(
            "-subcompactions=2 -rate_limiter_auto_tuned=true \
             -rate_limiter_bytes_per_sec=380000000",
        ),
    ];
    run_on_both("sine", &commands, 1);
}

/// Where compaction is disabled, what is written in the background is what users wrote.
// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn nothing_is_written_twice_where_compaction_is_disabled() {
    let command = sine(
        "-enable_pipelined_write=true -level0_slowdown_writes_trigger=10000 \
         -level0_stop_writes_trigger=10000 -level0_file_num_compaction_trigger=10000 \
         -disable_auto_compactions=true",
    );
    let command = format!("{command} -benchmarks=fillrandom,flush,stats");
    let scratch = std::env::temp_dir().join(format!("pumice-seed-{}-once", std::process::id()));
    let library = pumice_peer::installed_library().map(|path| path.to_str().unwrap().to_string());
    for engine in std::iter::once("pumice".to_string()).chain(library) {
        let output = db_bench(&scratch.join("tmp"), &scratch, &engine, &command);
        let users = count(&output, "rocksdb.bytes.written") as f64;
        let background = count(&output, "rocksdb.flush.write.bytes")
            + count(&output, "rocksdb.compact.write.bytes");
        assert!(users > 20e6, "{engine}: {output}");
        let share = background as f64 / users;
        assert!((0.95..1.05).contains(&share), "{engine}: {share}\n{output}");
        std::fs::remove_dir_all(&scratch).unwrap();
    }
}

/// RocksDB never had it: `--engine` says so by name.
// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn sine_write_rate_with_auto_tuned_compaction() {
    let flags = "-subcompactions=2 -rate_limiter_auto_tuned=true \
                 -rate_limiter_bytes_per_sec=380000000 -auto_tuned_compaction=true";
    let lowered = "-background_cpu_priority=low -background_io_priority=idle";
    let scratch = std::env::temp_dir().join(format!("pumice-seed-{}-tuned", std::process::id()));
    // The rule looks once in 100 refill periods at a limiter that the flushes overload. The period
    // is long compared with the delay with which a busy machine may wake a thread: late refills are
    // periods that nothing drained, and the rule disables nothing below 90 % of them.
    let small = "-rate_limiter_bytes_per_sec=10000000 -rate_limiter_refill_period_us=25000";
    for command in [sine(flags), sine(&format!("{flags} -background_policy=seed_rule {lowered}"))] {
        let command = format!("{command} {small}");
        let output = db_bench(&scratch.join("tmp"), &scratch, "pumice", &command);
        assert_eq!(rates(&output).len(), 1, "{output}");
        assert!(count(&output, "rocksdb.compaction.disabled.count") > 0, "{output}");
        std::fs::remove_dir_all(&scratch).unwrap();
        let Some(library) = pumice_peer::installed_library() else { continue };
        std::fs::create_dir_all(&scratch).unwrap();
        let refused = Command::new(env!("CARGO_BIN_EXE_pumice"))
            .current_dir(&scratch)
            .arg("db_bench")
            .arg(format!("--engine={}", library.display()))
            .args(command.split_whitespace())
            .output()
            .unwrap();
        let words = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && words.contains("auto_tuned_compaction"), "{words}");
        std::fs::remove_dir_all(&scratch).unwrap();
    }
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn reads_beside_lowered_background_threads() {
    let mut commands = Vec::new();
    for build in [
        "",
        "--compression_level=6 --compression_max_dict_bytes=8 \
                      --compression_zstd_max_train_bytes=13",
    ] {
        for lowered in ["", "--enable_cpu_prio"] {
            commands.push(format!(
                "--compression_type=zstd --key_size 24 --max_background_jobs 16 \
                 --benchmarks readwhilewriting --num 3000000 --writes 300000 --threads 64 \
                 --histogram=1 --stats_interval=100000000 --enable_io_prio {build} {lowered} \
                 --num 2000 --write_buffer_size 1000000"
            ));
        }
    }
    run_on_both("lowered", &commands, 1);
}

/// `tools/benchmark.sh` as it was then: one database from bulkload to updaterandom.
// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn the_benchmark_script_of_the_coroutines() {
    let common = "--num=3000 --num_levels=6 --key_size=20 --value_size=400 --block_size=8192 \
        --cache_size=17179869184 --cache_numshardbits=6 --compression_max_dict_bytes=0 \
        --compression_ratio=0.5 --compression_type=lz4 --level_compaction_dynamic_level_bytes=true \
        --bytes_per_sync=8388608 --cache_index_and_filter_blocks=0 \
        --pin_l0_filter_and_index_blocks_in_cache=1 --benchmark_write_rate_limit=0 \
        --hard_rate_limit=3 --rate_limit_delay_max_milliseconds=1000000 \
        --write_buffer_size=134217728 --target_file_size_base=134217728 \
        --max_bytes_for_level_base=1073741824 --verify_checksum=1 \
        --delete_obsolete_files_period_micros=62914560 --max_bytes_for_level_multiplier=8 \
        --statistics=0 --stats_per_interval=1 --stats_interval_seconds=60 --histogram=1 \
        --memtablerep=skip_list --bloom_bits=10 --open_files=-1 --db=$TEST_TMPDIR/db \
        --wal_dir=$TEST_TMPDIR/wal --seed=7";
    let triggers = "--level0_file_num_compaction_trigger=4 --level0_stop_writes_trigger=20 \
        --max_background_compactions=16 --max_write_buffer_number=8 --max_background_flushes=7";
    let never = "10485760";
    let steps = [
        format!(
            "--benchmarks=fillrandom --use_existing_db=0 --disable_auto_compactions=1 --sync=0 \
             {common} --max_background_compactions=16 --max_write_buffer_number=8 \
             --max_background_flushes=7 --level0_file_num_compaction_trigger={never} \
             --level0_slowdown_writes_trigger={never} --level0_stop_writes_trigger={never} \
             --allow_concurrent_memtable_write=false --memtablerep=vector --disable_wal=1 \
             --threads=1"
        ),
        format!("--benchmarks=compact --use_existing_db=1 --disable_auto_compactions=1 {common}"),
        format!("--benchmarks=readrandom --use_existing_db=1 {common} {triggers} --threads=64"),
        format!(
            "--benchmarks=overwrite --use_existing_db=1 --sync=0 {common} {triggers} --threads=64 \
             --writes=125000000 --subcompactions=4 --soft_pending_compaction_bytes_limit=0 \
             --hard_pending_compaction_bytes_limit=0 --merge_operator=\"put\" --writes=50"
        ),
        format!(
            "--benchmarks=updaterandom --use_existing_db=1 --sync=1 {common} {triggers} \
             --threads=64 --merge_operator=\"put\" --reads=20"
        ),
    ];
    let library = pumice_peer::installed_library().map(|path| path.to_str().unwrap().to_string());
    for engine in std::iter::once("pumice".to_string()).chain(library) {
        let scratch = tempfile::tempdir().unwrap();
        for words in &steps {
            // A shell removes the quotes.
            let words = words.replace('"', "");
            let output = db_bench(scratch.path(), scratch.path(), &engine, &words);
            let rates = rates(&output);
            assert_eq!(rates.len(), 1, "{engine}: {words}\n{output}");
            if words.contains("readrandom") {
                // Random keys of as many: some 63 of 100 are there.
                let line = output.lines().find(|line| line.ends_with(" found)")).unwrap();
                let found = line.split('(').nth(1).unwrap().split(' ').next().unwrap();
                assert!(found.parse::<u64>().unwrap() > 1000, "{engine}: {line}");
            }
        }
    }
}
