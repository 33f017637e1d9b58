//! Engines that are Rust crates, under the same driver: fjall and redb, with the cargo feature
//! `other-engines`.
//!
//! The engines are used as their documentation describes, with their defaults except for flags that
//! are set. A benchmark or a flag that an engine cannot follow is refused by name before anything
//! runs.
//!
//! | | fjall (LSM tree) | redb (copy-on-write B-tree) |
//! |---|---|---|
//! | a put | journal and memtable, the journal handed to the kernel | a transaction |
//! | without `--sync` | `PersistMode::Buffer` | `Durability::None`: durable at the close |
//! | with `--sync` | `PersistMode::SyncData` | `Durability::Immediate` |
//! | `--batch_size` | a write batch | this many keys in a transaction |
//! | a get | of the keyspace | in a read transaction of its own |
//!
//! Thread safety: plain functions of flags; see the engines.

#[cfg(feature = "other-engines")]
mod cursor;
#[cfg(feature = "other-engines")]
mod fjall_engine;
#[cfg(feature = "other-engines")]
mod redb_engine;

use super::flags::Flags;
use super::spec::Entry;

/// The names that `--engine` knows.
const NAMES: [&str; 2] = ["fjall", "redb"];

/// This program has them.
pub const ARE_BUILT: bool = cfg!(feature = "other-engines");

/// Benchmarks that run on them.
const BENCHMARKS: [&str; 15] = [
    "fillseq",
    "fillbatch",
    "fillrandom",
    "fillsync",
    "fill100K",
    "overwrite",
    "updaterandom",
    "readrandom",
    "readmissing",
    "readseq",
    "readreverse",
    "seekrandom",
    "deleteseq",
    "deleterandom",
    "readwhilewriting",
];

/// Flags of the driver, and those that all of them follow.
const DRIVER: [&str; 39] = [
    "benchmarks",
    "engine",
    "report_cpu",
    "num",
    "reads",
    "writes",
    "deletes",
    "threads",
    "duration",
    "ops_between_duration_checks",
    "seed",
    "use_existing_db",
    "undefok",
    "key_size",
    "value_size",
    "value_size_distribution_type",
    "value_size_min",
    "value_size_max",
    "same_value_percentage",
    "compression_ratio",
    "batch_size",
    "seek_nexts",
    "reverse_iterator",
    "finish_after_writes",
    "bgwriter_num",
    "benchmark_write_rate_limit",
    "benchmark_read_rate_limit",
    "histogram",
    "confidence_interval_only",
    "report_open_timing",
    "progress_reports",
    "slow_usecs",
    "stats_interval",
    "stats_interval_seconds",
    "report_interval_seconds",
    "report_file",
    "db",
    "sync",
    "cache_size",
];

/// Flags that fjall follows, too.
const FJALL: [&str; 4] = ["write_buffer_size", "block_size", "bloom_bits", "compression_type"];

/// Flags that redb follows, too.
const REDB: [&str; 1] = ["compression_type"];

/// `--engine` names one of them.
pub fn is_one(engine: &str) -> bool {
    NAMES.contains(&engine)
}

/// Whether flags and benchmarks can be followed by the engine, if it is one of these.
///
/// # Errors
/// The program lacks the engine; the first flag or benchmark that it cannot follow.
pub fn check(flags: &Flags, entries: &[Entry]) -> Result<(), String> {
    let engine = flags.engine.as_str();
    if !is_one(engine) {
        return Ok(());
    }
    if !ARE_BUILT {
        return Err(format!(
            "--engine={engine}: this program was built without the cargo feature other-engines"
        ));
    }
    let (more, codecs): (&[&str], &[&str]) = match engine {
        "fjall" => (&FJALL, &["none", "lz4"]),
        _ => (&REDB, &["none"]),
    };
    let follows = |name: &&str| DRIVER.contains(name) || more.contains(name);
    let of_options = flags.options.iter().map(|option| option.option);
    if let Some(flag) = flags.given().chain(of_options).find(|name| !follows(name)) {
        return Err(format!("ERROR: {flag} cannot be given with --engine={engine}"));
    }
    if flags.is_given("compression_type") && !codecs.contains(&flags.compression_type.as_str()) {
        let codec = &flags.compression_type;
        return Err(format!("ERROR: compression_type {codec} is not supported by {engine}"));
    }
    match entries.iter().find(|entry| !BENCHMARKS.contains(&entry.spec.name)) {
        Some(entry) => {
            Err(format!("ERROR: benchmark '{}' does not run on {engine}", entry.spec.name))
        }
        None => Ok(()),
    }
}

/// Runs the benchmarks on the engine that the flags name. Requires: [`check`] let them pass.
///
/// # Errors
/// What the driver or the engine says.
#[cfg(feature = "other-engines")]
pub fn run(flags: &Flags, entries: &[Entry]) -> Result<(), String> {
    match flags.engine.as_str() {
        "fjall" => super::drive(&fjall_engine::Fjall::new(flags)?, flags, entries),
        _ => super::drive(&redb_engine::Redb::new(flags), flags, entries),
    }
}

/// See above.
///
/// # Errors
/// Always: [`check`] lets nothing pass.
#[cfg(not(feature = "other-engines"))]
pub fn run(flags: &Flags, entries: &[Entry]) -> Result<(), String> {
    check(flags, entries)
}

/// The reply of an engine to calls that [`check`] rules out.
#[cfg(feature = "other-engines")]
fn cannot<T>(what: &str) -> Result<T, String> {
    Err(format!("Not implemented: {what}"))
}

/// Puts the rows of `BenchDb` that no such engine has into its implementation.
#[cfg(feature = "other-engines")]
macro_rules! without_rocksdbs_calls {
    () => {
        fn families(&self) -> usize {
            1
        }
        fn create_families(&self, _: usize) -> Result<()> {
            cannot("column families")
        }
        fn flush(&self) -> Result<()> {
            cannot("flush")
        }
        fn compact(&self, _: i32) -> Result<()> {
            cannot("compact")
        }
        fn compact_all(&self, _: i32) -> Result<()> {
            cannot("compactall")
        }
        fn compact_files(&self, _: &[String], _: usize) -> Result<()> {
            cannot("compaction of files")
        }
        fn table_files(&self) -> Result<Vec<TableFile>> {
            cannot("lists of table files")
        }
        fn approximate_sizes(&self, _: &[(Vec<u8>, Vec<u8>)]) -> Result<u64> {
            cannot("sizes of ranges")
        }
        fn approximate_memtable_entries(&self, _: &[u8], _: &[u8]) -> Result<u64> {
            cannot("counts of entries in memtables")
        }
        fn reset_stats(&self) -> Result<()> {
            cannot("resetstats")
        }
        fn wait_for_compaction(&self) -> Result<()> {
            cannot("waitforcompaction")
        }
        fn verify_checksum(&self) -> Result<()> {
            cannot("verifychecksum")
        }
        fn backup(&self, _: &std::path::Path, _: u64) -> Result<()> {
            cannot("backup")
        }
        fn restore(&self, _: &std::path::Path, _: &std::path::Path, _: u64) -> Result<()> {
            cannot("restore")
        }
        fn property(&self, _: &str) -> Option<String> {
            None
        }
    };
}
#[cfg(feature = "other-engines")]
use without_rocksdbs_calls;

/// The rows of `Engine` that no such engine has.
#[cfg(feature = "other-engines")]
macro_rules! without_pools {
    () => {
        fn set_threads(&self, _: Pool, _: u32) -> Result<()> {
            cannot("pools of background threads")
        }
        fn lower_priority(&self, cpu: bool, io: bool) -> Result<()> {
            if cpu || io { cannot("priorities of background threads") } else { Ok(()) }
        }
        fn statistics(&self) -> Option<String> {
            None
        }
    };
}
#[cfg(feature = "other-engines")]
use without_pools;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::option_flags::find;
    use super::super::spec;
    use super::*;

    fn checked(words: &[(&str, &str)], benchmarks: &[&str]) -> Result<(), String> {
        let mut flags = Flags::default();
        words.iter().for_each(|(name, value)| assert!(flags.assign(name, value)));
        let entries: Vec<Entry> =
            benchmarks.iter().map(|name| spec::parse(name).unwrap()).collect();
        check(&flags, &entries)
    }

    // Plain #[test]: nothing in these tests can wait.
    #[test]
    fn all_that_they_follow_exists() {
        let rows = Flags::rows();
        let names = DRIVER.iter().chain(&FJALL).chain(&REDB);
        let exists = |name| rows.iter().any(|row| row.name == name) || find(name).is_some();
        names.for_each(|name| assert!(exists(name), "{name}"));
        BENCHMARKS.iter().for_each(|name| assert!(spec::parse(name).is_ok(), "{name}"));
    }

    // Plain #[test]: see above.
    #[test]
    fn what_they_cannot_follow_is_refused_by_name() {
        assert_eq!(checked(&[("engine", "/x.so"), ("wal_dir", "x")], &["compact"]), Ok(()));
        if !ARE_BUILT {
            let error = checked(&[("engine", "redb")], &[]).unwrap_err();
            assert!(error.contains("--engine=redb") && error.contains("other-engines"), "{error}");
            return;
        }
        for (words, benchmarks, error) in [
            (&[("engine", "redb")][..], &["fillseq", "readrandom[X2]"][..], ""),
            (&[("engine", "fjall"), ("compression_type", "lz4")], &[], ""),
            (&[("engine", "fjall"), ("wal_dir", "x")], &[], "wal_dir cannot be given"),
            (&[("engine", "redb"), ("bloom_bits", "10")], &[], "bloom_bits cannot be given"),
            (&[("engine", "redb"), ("compression_type", "lz4")], &[], "compression_type lz4"),
            (&[("engine", "fjall"), ("compression_type", "zstd")], &[], "compression_type zstd"),
            (&[("engine", "fjall")], &["fillseq", "mergerandom"], "'mergerandom' does not run"),
        ] {
            match checked(words, benchmarks) {
                Ok(()) => assert_eq!(error, "", "{words:?}"),
                Err(message) => {
                    assert!(!error.is_empty() && message.contains(error), "{words:?}: {message}");
                }
            }
        }
    }
}
