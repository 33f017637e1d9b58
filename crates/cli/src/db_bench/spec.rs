//! The benchmarks by name: one row each, and the `[X3-W1]` suffix.

use super::fill::Order;
use super::flags::Flags;
use super::mixed_work::Rewrite;
use super::option_flags::family_option;
use super::work::{Beside, Reading, Work};
use pumice_base::checksum::ChecksumType;

/// What running a name means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Workers, which are threads or fibers, do `Work`.
    Workers(Work),
    /// Flush the memtable.
    Flush,
    /// Wait for background work.
    WaitForCompaction,
    /// Compact all databases.
    CompactAll,
    /// Compact level 0, or the first one below, into the next.
    CompactLevel(usize),
    /// Print a property.
    Property(&'static str),
    /// Print the sizes of memtables.
    MemStats,
    /// Start the counters of `stats` again.
    ResetStats,
    /// Compare with another database.
    Verify,
    /// Print how the statistics grew, period by period.
    StatsHistory,
    /// Print the block cache's report on problems.
    CacheProblems,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// The benchmark's name.
    pub name: &'static str,
    /// What it does.
    pub action: Action,
    /// It begins with an empty database.
    pub fresh: bool,
    /// It syncs every write.
    pub sync: bool,
    /// Keys are chosen from `num` divided by this.
    pub divide_num: u64,
    /// Divisor of each worker's number of reads.
    pub divide_reads: u64,
    /// Updates in a batch, where they are not the flag's.
    pub batch: Option<u64>,
    /// Value size, where it is not the flag's.
    pub value_size: Option<usize>,
    /// Bytes added to the key, so that no key is found.
    pub longer_key: usize,
    /// A worker more, for the background writer.
    pub writer: bool,
    /// One worker whatever the flags say.
    pub single: bool,
    /// `coro_jobs_per_thread` workers for each thread, always fibers.
    pub coroutines: bool,
}

const fn spec(name: &'static str, action: Action) -> Spec {
    Spec {
        name,
        action,
        fresh: false,
        sync: false,
        divide_num: 1,
        divide_reads: 1,
        batch: None,
        value_size: None,
        longer_key: 0,
        writer: false,
        single: false,
        coroutines: false,
    }
}

const fn workers(name: &'static str, work: Work) -> Spec {
    spec(name, Action::Workers(work))
}

const fn fill(name: &'static str, order: Order) -> Spec {
    Spec { fresh: true, ..workers(name, Work::Fill(order)) }
}

const fn shape(name: &'static str, order: Order) -> Spec {
    Spec { fresh: true, single: true, ..workers(name, Work::FillShape(order)) }
}

const fn beside(name: &'static str, reading: Reading, beside: Beside) -> Spec {
    Spec { writer: true, ..workers(name, Work::While(reading, beside)) }
}

/// Every benchmark that is built.
pub const SPECS: &[Spec] = &[
    fill("fillseq", Order::Sequential),
    Spec { batch: Some(1000), ..fill("fillbatch", Order::Sequential) },
    fill("fillrandom", Order::Random),
    Spec { single: true, ..fill("filluniquerandom", Order::Unique) },
    Spec { single: true, ..fill("fillanddeleteuniquerandom", Order::Unique) },
    shape("fillseqdeterministic", Order::Sequential),
    shape("filluniquerandomdeterministic", Order::Unique),
    Spec { sync: true, divide_num: 1000, ..fill("fillsync", Order::Random) },
    Spec { divide_num: 1000, value_size: Some(100_000), ..fill("fill100K", Order::Random) },
    workers("fillseekseq", Work::FillThenSeek),
    workers("overwrite", Work::Fill(Order::Random)),
    workers("updaterandom", Work::Update),
    workers("xorupdaterandom", Work::Rewrite(Rewrite::Xor)),
    workers("appendrandom", Work::Rewrite(Rewrite::Append)),
    workers("mergerandom", Work::Merge),
    workers("readrandomwriterandom", Work::ReadWrite),
    workers("readrandommergerandom", Work::ReadMerge),
    workers("randomwithverify", Work::VerifyMix),
    Spec { fresh: true, ..workers("randomreplacekeys", Work::ReplaceKeys) },
    workers("randomtransaction", Work::AddToSets),
    Spec { fresh: true, ..workers("timeseries", Work::TimeSeries) },
    workers("mixgraph", Work::MixGraph),
    workers("replay", Work::Replay),
    workers("readseq", Work::ReadForward),
    Spec { single: true, ..workers("readtocache", Work::ReadForward) },
    workers("readreverse", Work::ReadBackward),
    workers("readrandom", Work::ReadRandom),
    Spec { divide_reads: 1000, ..workers("readrandomsmall", Work::ReadRandom) },
    workers("readrandomfast", Work::ReadFast),
    Spec { longer_key: 1, ..workers("readmissing", Work::ReadRandom) },
    workers("readrandomoperands", Work::ReadOperands),
    Spec { single: true, ..workers("getmergeoperands", Work::SortedLists) },
    workers("readtorowcache", Work::ReadAll),
    workers("multireadrandom", Work::MultiRead),
    Spec { coroutines: true, ..workers("readrandomcoroutine", Work::ReadRandom) },
    Spec { coroutines: true, ..workers("multireadrandomcoroutine", Work::MultiRead) },
    workers("newiterator", Work::CreateIterators),
    workers("seekrandom", Work::Seek),
    workers("multiscan", Work::MultiScan),
    workers("approximatesizerandom", Work::ApproximateSizes),
    workers("approximatememtablestats", Work::MemtableStats),
    beside("readwhilewriting", Reading::Get, Beside::Put),
    beside("readwhilemerging", Reading::Get, Beside::Merge),
    beside("readwhilescanning", Reading::Get, Beside::Scan),
    beside("multireadwhilewriting", Reading::MultiGet, Beside::Put),
    beside("newiteratorwhilewriting", Reading::Create, Beside::Put),
    beside("seekrandomwhilewriting", Reading::Seek, Beside::Put),
    beside("seekrandomwhilemerging", Reading::Seek, Beside::Merge),
    workers("deleteseq", Work::DeleteSequential),
    workers("deleterandom", Work::DeleteRandom),
    Spec { single: true, ..workers("compact", Work::Compact) },
    spec("compactall", Action::CompactAll),
    spec("compact0", Action::CompactLevel(0)),
    spec("compact1", Action::CompactLevel(1)),
    Spec { single: true, ..workers("verifychecksum", Work::VerifyChecksum) },
    Spec { single: true, ..workers("verifyfilechecksums", Work::VerifyFileChecksums) },
    spec("verify", Action::Verify),
    Spec { single: true, ..workers("openandcompact", Work::OpenAndCompact) },
    Spec { single: true, ..workers("backup", Work::Backup) },
    Spec { single: true, ..workers("restore", Work::Restore) },
    workers("crc32c", Work::Checksum(ChecksumType::Crc32c)),
    workers("xxhash", Work::Checksum(ChecksumType::XxHash)),
    workers("xxhash64", Work::Checksum(ChecksumType::XxHash64)),
    workers("xxh3", Work::Checksum(ChecksumType::Xxh3)),
    workers("compress", Work::Codec(false)),
    workers("uncompress", Work::Codec(true)),
    workers("acquireload", Work::Load),
    spec("flush", Action::Flush),
    spec("waitforcompaction", Action::WaitForCompaction),
    spec("stats", Action::Property("rocksdb.stats")),
    spec("resetstats", Action::ResetStats),
    spec("levelstats", Action::Property("rocksdb.levelstats")),
    spec("memstats", Action::MemStats),
    spec("sstables", Action::Property("rocksdb.sstables")),
    spec("stats_history", Action::StatsHistory),
    spec("cache_report_problems", Action::CacheProblems),
    spec("block_cache_entry_stats", Action::Property("rocksdb.block-cache-entry-stats")),
];

/// The names that `--help` lists.
pub fn names() -> String {
    let names: Vec<&str> = SPECS.iter().map(|spec| spec.name).collect();
    names.join(", ")
}

fn check_block_cache_trace(flags: &Flags) -> Result<(), String> {
    let rules = [
        (
            flags.block_cache_trace_sampling_frequency <= 0,
            "Block cache trace sampling frequency must be higher than 0.",
        ),
        (
            flags.block_cache_trace_max_trace_file_size_in_bytes <= 0,
            "The maximum file size for block cache tracing must be higher than 0.",
        ),
    ];
    let broken = rules.iter().find(|(broken, _)| *broken);
    broken.map_or(Ok(()), |(_, words)| Err((*words).into()))
}

impl Spec {
    /// Workers as the flags want them, the background writer left out.
    pub fn workers(&self, flags: &Flags) -> usize {
        if self.name == "replay" {
            return usize::try_from(flags.trace_replay_threads).unwrap_or(1).max(1);
        }
        let threads = flags.threads.max(1) as usize;
        match (self.coroutines, usize::try_from(flags.fibers)) {
            (true, _) => threads * flags.coro_jobs_per_thread.max(1) as usize,
            (false, Ok(fibers)) if fibers > 0 => fibers,
            _ => threads,
        }
    }

    /// Reads of each worker. Jobs share what their threads would have read.
    pub fn reads(&self, flags: &Flags) -> u64 {
        let reads = u64::try_from(flags.reads).unwrap_or(flags.num as u64) / self.divide_reads;
        match self.coroutines {
            true => reads * flags.threads.max(1) as u64 / self.workers(flags) as u64,
            false => reads,
        }
    }

    /// Whether the flags fit together for this benchmark.
    ///
    /// # Errors
    /// The rule that is broken.
    pub fn check(&self, flags: &Flags) -> Result<(), String> {
        if self.name == "replay" {
            let rules = [
                (flags.threads > 1, "Multi-threaded replay is not yet supported"),
                (
                    flags.trace_file.as_os_str().is_empty(),
                    "Please set --trace_file to be replayed from",
                ),
                (flags.trace_replay_fast_forward <= 0.0, "Wrong fast forward speed!"),
            ];
            if let Some((_, words)) = rules.iter().find(|(broken, _)| *broken) {
                return Err((*words).into());
            }
        }
        check_block_cache_trace(flags)?;
        if self.name == "randomtransaction" && flags.num_multi_db > 1 {
            let words = "Cannot run RandomTransaction benchmark with FLAGS_multi_db > 1.";
            return Err(words.into());
        }
        if self.name == "randomtransaction" && !(1..=9999).contains(&flags.transaction_sets) {
            return Err("invalid value for transaction_sets".into());
        }
        if self.name == "timeseries" && flags.key_size < 16 {
            return Err("ERROR: timeseries needs a key_size of at least 16".into());
        }
        if self.name == "timeseries" {
            match &*flags.expire_style {
                "none" | "delete" => {}
                "compaction_filter" if flags.engine == "pumice" => {}
                "compaction_filter" => {
                    let words = "our binding of another engine has no compaction filters";
                    return Err(format!("ERROR: expire_style compaction_filter: {words}"));
                }
                style => return Err(format!("ERROR: expire_style {style} is unknown")),
            }
        }
        if matches!(self.action, Action::Workers(Work::FillShape(_))) {
            if family_option(&flags.options, "disable_auto_compactions") != "true" {
                let words = "Please disable_auto_compactions in FillDeterministic benchmark";
                return Err(words.into());
            }
            if !matches!(flags.compaction_style, 0 | 1) {
                return Err(format!("ERROR: {} needs levels to compact into", self.name));
            }
        }
        if self.action == Action::Workers(Work::ReadAll)
            && !(flags.use_existing_keys && flags.row_cache_size > 0)
        {
            let words = "Please set use_existing_keys to true and specify a row cache size in \
                         readtorowcache benchmark";
            return Err(words.into());
        }
        if !self.coroutines {
            return Ok(());
        }
        if flags.engine != "pumice" {
            let reason = "another engine is called on threads only";
            return Err(format!("ERROR: benchmark '{}' runs on Pumice: {reason}", self.name));
        }
        let reads = u64::try_from(flags.reads).unwrap_or(flags.num as u64);
        let jobs = self.workers(flags) as u64;
        if flags.duration <= 0 && !(reads * flags.threads.max(1) as u64).is_multiple_of(jobs) {
            return Err(format!("ERROR: reads * threads must be a multiple of the {jobs} jobs"));
        }
        Ok(())
    }
}

/// One entry of `--benchmarks`.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// What to run.
    pub spec: Spec,
    /// How often it counts.
    pub repeats: u32,
    /// How often it runs before that.
    pub warmups: u32,
}

/// Reads `name` or `name[X3-W1]`.
///
/// # Errors
/// The benchmark is not known, or the suffix is wrong.
pub fn parse(text: &str) -> Result<Entry, String> {
    let (name, suffix) = match text.split_once('[') {
        Some((name, rest)) => match rest.strip_suffix(']') {
            Some(suffix) => (name, suffix),
            None => return Err(format!("benchmark '{text}' lacks its closing bracket")),
        },
        None => (text, ""),
    };
    let Some(spec) = SPECS.iter().find(|spec| spec.name == name) else {
        return Err(format!("unknown benchmark '{name}'"));
    };
    let (mut repeats, mut warmups) = (1, 0);
    for part in suffix.split('-').filter(|part| !part.is_empty()) {
        let (kind, digits) = part.split_at_checked(1).unwrap_or((part, ""));
        match (kind, digits.parse()) {
            ("X", Ok(n)) if n > 0 => repeats = n,
            ("W", Ok(n)) => warmups = n,
            _ => {
                return Err(format!("benchmark '{text}': '{part}' is neither X<runs> nor W<runs>"));
            }
        }
    }
    if matches!(spec.action, Action::Workers(_)) || suffix.is_empty() {
        Ok(Entry { spec: *spec, repeats, warmups })
    } else {
        Err(format!("benchmark '{name}' cannot be repeated"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[pumice_test_macros::test]
    fn names_and_suffixes() {
        let entry = parse("fillrandom[X3-W1]").unwrap();
        assert_eq!((entry.spec.name, entry.repeats, entry.warmups), ("fillrandom", 3, 1));
        assert_eq!(parse("readseq[X2]").unwrap().repeats, 2);
        assert_eq!(parse("nosuch").unwrap_err(), "unknown benchmark 'nosuch'");
        assert_eq!(parse("openandcompact[X2]").unwrap().repeats, 2);
        for wrong in ["readseq[X0]", "readseq[3]", "readseq[X3", "readseq[X]", "flush[X2]"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[pumice_test_macros::test]
    fn jobs_share_the_reads_of_their_threads() {
        let mut flags = Flags::default();
        for (name, value) in [("threads", "8"), ("coro_jobs_per_thread", "10"), ("reads", "50")] {
            assert!(flags.assign(name, value));
        }
        let jobs = parse("multireadrandomcoroutine").unwrap().spec;
        assert_eq!((jobs.workers(&flags), jobs.reads(&flags)), (80, 5));
        assert_eq!(jobs.check(&flags), Ok(()));
        let threads = parse("multireadrandom").unwrap().spec;
        assert_eq!((threads.workers(&flags), threads.reads(&flags)), (8, 50));
        assert!(flags.assign("fibers", "1000"));
        assert_eq!((threads.workers(&flags), jobs.workers(&flags)), (1000, 80));
        assert!(flags.assign("reads", "51"));
        assert!(jobs.check(&flags).unwrap_err().contains("multiple of the 80 jobs"));
        assert!(flags.assign("engine", "x.so"));
        assert!(jobs.check(&flags).unwrap_err().contains("'multireadrandomcoroutine'"));
        assert_eq!(threads.check(&flags), Ok(()));
    }
}
