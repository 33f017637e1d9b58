//! Counts RocksDB's flags and benchmarks that are taken, and checks how the others are refused.

use std::collections::BTreeMap;
use std::path::Path;

use crate::{db_bench, db_bench_with, lines};

/// The pages that state the counts.
const PAGE: &str = include_str!("../../../../docs/db_bench.md");
const COMPATIBILITY: &str = include_str!("../../../../docs/compatibility.md");

/// The page has `words`, possibly across lines.
fn assert_stated(page: &str, words: &str) {
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(page.contains(words), "the page lacks: {words}");
}

/// What an option needs whose only value is its default.
const ENGINE: &str = "the engine's option";

/// Flags of RocksDB's that are refused when the command line is read.
const REFUSED_FLAGS: usize = 3;

/// Another value than any default.
fn value(kind: &str) -> &'static str {
    match kind {
        "bool" => "true",
        "double" => "0.125",
        "string" => "something",
        _ => "37",
    }
}

/// One command line with every flag fails, with a reason for each flag that is not taken.
// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn every_flag_is_taken_or_refused_by_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let flags = flags();
    assert!(flags.len() > 400, "{}", flags.len());
    for default_off in [false, true] {
        // `--undefok` is not given, and `--build_info` would end the run.
        let named = flags.iter().filter(|(name, _)| **name != "build_info");
        let words = named.map(|(name, kind)| match (default_off, *kind) {
            (true, "bool") => format!("--no{name}"),
            (_, kind) => format!("--{name}={}", value(kind)),
        });
        let words: Vec<String> = words.collect();
        let error = db_bench(dir.path(), &format!("{} --num=x", words.join(" "))).bad();
        let errors: Vec<&str> = error.lines().filter(|line| line.starts_with("ERROR")).collect();
        let unknown: Vec<_> = errors.iter().filter(|line| line.contains("unknown")).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
        // The one that the test made wrong.
        assert!(errors.contains(&"ERROR: illegal value 'x' specified for int64 flag 'num'"));
        let refused = errors.len() - 1;
        for line in &errors {
            assert!(
                line.contains("is not supported yet: it needs ") || line.contains("'num'"),
                "{line}"
            );
        }
        if !default_off {
            assert_eq!(refused, REFUSED_FLAGS, "{errors:#?}");
        }
    }
    // A flag that RocksDB's lacks is unknown, and an option of the engine is a flag.
    let unknown = db_bench(dir.path(), "--no_such_flag=1 --use_sqfc_for_range_queries=1").bad();
    assert_eq!(unknown.matches("ERROR: unknown command line flag '").count(), 2, "{unknown}");
    assert!(flags.keys().all(|name| !unknown.contains(name)), "{unknown}");
    db_bench(dir.path(), "--benchmarks=stats --num=1 --max_log_file_size=123456").good();
    let log = std::fs::read_to_string(dir.path().join("dbbench/LOG")).unwrap();
    assert!(log.contains("Options.max_log_file_size: 123456"), "{log}");
}

/// The effect of a single flag with another value than its default: the missing feature if it is
/// refused, at the command line or when the database is opened, and whether it has no effect.
/// Values that need another flag, or are invalid, count as taken.
fn tried(dir: &Path, name: &str, kind: &str) -> (Option<String>, bool) {
    // The first two are given here, and the third would end the run.
    if ["benchmarks", "num", "build_info"].contains(&name) {
        return (None, false);
    }
    let is_codec = kind == "string" && name.contains("compression");
    let value = if is_codec { "zstd" } else { value(kind) };
    let run = db_bench(dir, &format!("--benchmarks=stats --num=1 --{name}={value}"));
    let feature = match run.err.split_once(" is not supported yet: it needs ") {
        Some((_, feature)) => Some(feature.lines().next().unwrap().to_string()),
        None => run.err.contains("is not supported by this build").then(|| ENGINE.to_string()),
    };
    (feature, run.err.contains("WARNING: without effect on Pumice: "))
}

/// Flags of RocksDB's with their types.
fn flags() -> BTreeMap<&'static str, &'static str> {
    lines(include_str!("flags.txt")).map(|line| line.split_once(' ').unwrap()).collect()
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn flags_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let (mut taken, mut idle) = (0, 0);
    let mut refused: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let all = flags().len();
    for (name, kind) in flags() {
        let (feature, has_no_effect) = tried(dir.path(), name, kind);
        match feature {
            Some(feature) => refused.entry(feature).or_default().push(format!("`{name}`")),
            None => taken += 1,
        }
        idle += usize::from(has_no_effect);
    }
    let rows =
        refused.iter().map(|(feature, names)| format!("| {feature} | {} |\n", names.join(", ")));
    let table = format!("| feature | flags |\n|---|---|\n{}", rows.collect::<String>());
    println!("flags: {taken} of {all} taken, {idle} without effect\n{table}");
    assert_stated(
        PAGE,
        &format!("of {all} names {taken} are taken, {idle} of them without effect"),
    );
    assert_stated(COMPATIBILITY, &format!("| {taken} of {all} flags, "));
    assert!(PAGE.contains(&table), "docs/db_bench.md lacks: {table}");
}

/// Commands that RocksDB's developers and users published: those whose names are all taken, and
/// what the others need.
// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn commands_of_pull_requests_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let flags = flags();
    let (mut all, mut taken) = (0, 0);
    let mut known: BTreeMap<&str, bool> = BTreeMap::new();
    for line in lines(include_str!("pull_requests.txt")) {
        let mut words = line.split(' ').skip(1);
        let benchmarks = words.next().unwrap();
        let error = db_bench(dir.path(), &format!("--benchmarks={benchmarks},nosuch")).bad();
        let mut missing = Vec::new();
        if error != "unknown benchmark 'nosuch'\n" {
            missing.push(benchmarks);
        }
        let takes = |name: &&str| match flags.get(name) {
            Some(kind) => tried(dir.path(), name, kind).0.is_none(),
            None => false,
        };
        missing.extend(words.filter(|name| !*known.entry(name).or_insert_with(|| takes(name))));
        all += 1;
        taken += usize::from(missing.is_empty());
        if !missing.is_empty() {
            println!("{line}\n  lacks {missing:?}");
        }
    }
    println!("commands: {taken} of {all}");
    assert_stated(PAGE, &format!("{taken} of {all} commands consist of names that are taken"));
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn every_benchmark_is_known() {
    let dir = tempfile::tempdir().unwrap();
    let names: Vec<&str> = lines(include_str!("benchmarks.txt")).collect();
    for name in &names {
        // Names are checked before anything runs, and the second is wrong.
        let error = db_bench(dir.path(), &format!("--benchmarks={name},nosuch")).bad();
        assert_eq!(error, "unknown benchmark 'nosuch'\n", "{name}");
    }
    let all = names.len();
    assert_stated(PAGE, &format!("{all} of the {all} names in "));
    assert_stated(COMPATIBILITY, &format!(" flags, {all} of {all} benchmarks |"));
}

/// Refused flags may be given with their defaults, and flags without effect are reported once.
// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn defaults_of_missing_features_can_be_given() {
    let dir = tempfile::tempdir().unwrap();
    let run = db_bench(
        dir.path(),
        "--benchmarks=fillseq --num=10 --transaction_db=false --row_cache_size=0 --use_blob_db=0 \
         --notrace_file --nouse_trie_index --trace_file= --cache_high_pri_pool_ratio=0.5 \
         --async_io=true --multiread_batched --enable_blob_files=false",
    );
    assert!(run.err.contains("unknown command line flag 'notrace_file'"), "{}", run.err);
    let run = db_bench(
        dir.path(),
        "--benchmarks=fillseq --num=10 --transaction_db=false --row_cache_size=0 --use_blob_db=0 \
         --nouse_trie_index --trace_file= --cache_high_pri_pool_ratio=0.5 --async_io=true \
         --multiread_batched --enable_blob_files=false --simulate_hdd=false",
    );
    let printed: Vec<&str> = run.err.lines().filter(|line| line.starts_with("WARNING")).collect();
    let words = "WARNING: without effect on Pumice: cache_high_pri_pool_ratio, \
                 multiread_batched";
    assert_eq!(printed, [words]);
    run.good();
    let error =
        db_bench(dir.path(), "--benchmarks=fillseq --num=1 --disallow_memtable_writes").bad();
    assert!(error.contains("disallow_memtable_writes=true is not supported"), "{error}");
    let file = dir.path().join("flags");
    std::fs::write(&file, "# A remark.\n--num=7\n  --benchmarks=fillseq\n").unwrap();
    let out = db_bench(dir.path(), &format!("--flagfile={}", file.display())).good();
    assert!(out.contains("Entries:    7\n"), "{out}");
    assert!(db_bench(dir.path(), "--version").good().starts_with("db_bench version "));
    assert!(db_bench(dir.path(), "--build_info").good().starts_with("Pumice: "));
}

// Plain #[test]: it starts processes.
#[test]
fn flags_come_from_the_environment_and_objects_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let common = "--benchmarks=fillseq --num=9";
    let out = db_bench_with(
        dir.path(),
        "--benchmarks=fillseq --fromenv=num,histogram --tryfromenv=reads",
        &[("FLAGS_num", "9"), ("FLAGS_histogram", "true")],
    );
    let out = out.good();
    assert!(out.contains("Entries:    9\n") && out.contains("Percentiles"), "{out}");
    let words = format!("{common} --env_uri=posix --statistics_string=BasicStatistics");
    let out = db_bench(dir.path(), &words).good();
    assert!(out.contains("rocksdb.number.keys.written COUNT : 9\n"), "{out}");
    for (flag, words) in [
        ("--fromenv=num", "ERROR: FLAGS_num not found in environment"),
        ("--env_uri=posix --fs_uri=posix", "cannot specify both fs_uri and env_uri"),
        ("--fs_uri=hdfs", "Failed creating env: Invalid argument: no file system is registered"),
        ("--statistics_string=x", "No Statistics registered matching string: x"),
    ] {
        let error = db_bench(dir.path(), &format!("{common} {flag}")).bad();
        assert!(error.contains(words), "{error}");
    }
    // The second names a file that reads the same variable.
    let file = dir.path().join("flags");
    std::fs::write(&file, "--fromenv=flagfile\n").unwrap();
    for (name, value) in [("fromenv", "fromenv"), ("flagfile", file.to_str().unwrap())] {
        let itself = [(&*format!("FLAGS_{name}"), value)];
        let words = format!("{common} --fromenv={name}");
        let error = db_bench_with(dir.path(), &words, &itself).bad();
        assert!(error.contains("infinite recursion"), "{error}");
    }
}
