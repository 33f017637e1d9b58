//! The benchmarks by name: one row each, and the `[X3-W1]` suffix.

use super::flags::Flags;
use super::work::Work;

/// What running a name means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Workers, which are threads or fibers, do `Work`.
    Workers(Work),
    /// Flush the memtable.
    Flush,
    /// Wait for background work.
    WaitForCompaction,
    /// Print a property.
    Property(&'static str),
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

const fn fill(name: &'static str, work: Work) -> Spec {
    Spec { fresh: true, ..workers(name, work) }
}

/// Every benchmark that is built.
pub const SPECS: &[Spec] = &[
    fill("fillseq", Work::FillSequential),
    fill("fillrandom", Work::FillRandom),
    Spec { single: true, ..fill("filluniquerandom", Work::FillUnique) },
    Spec { sync: true, divide_num: 1000, ..fill("fillsync", Work::FillRandom) },
    Spec { divide_num: 1000, value_size: Some(100_000), ..fill("fill100K", Work::FillRandom) },
    workers("overwrite", Work::FillRandom),
    workers("updaterandom", Work::Update),
    workers("readseq", Work::ReadForward),
    workers("readreverse", Work::ReadBackward),
    workers("readrandom", Work::ReadRandom),
    Spec { longer_key: 1, ..workers("readmissing", Work::ReadRandom) },
    workers("multireadrandom", Work::MultiRead),
    Spec { coroutines: true, ..workers("readrandomcoroutine", Work::ReadRandom) },
    Spec { coroutines: true, ..workers("multireadrandomcoroutine", Work::MultiRead) },
    workers("seekrandom", Work::Seek),
    Spec { writer: true, ..workers("readwhilewriting", Work::ReadWhileWriting) },
    Spec { writer: true, ..workers("readwhilemerging", Work::ReadWhileMerging) },
    workers("deleteseq", Work::DeleteSequential),
    workers("deleterandom", Work::DeleteRandom),
    Spec { single: true, ..workers("compact", Work::Compact) },
    Spec { single: true, ..workers("verifychecksum", Work::VerifyChecksum) },
    spec("flush", Action::Flush),
    spec("waitforcompaction", Action::WaitForCompaction),
    spec("stats", Action::Property("rocksdb.stats")),
    spec("levelstats", Action::Property("rocksdb.levelstats")),
    spec("sstables", Action::Property("rocksdb.sstables")),
    spec("block_cache_entry_stats", Action::Property("rocksdb.block-cache-entry-stats")),
];

impl Spec {
    /// Workers as the flags want them, the background writer left out.
    pub fn workers(&self, flags: &Flags) -> usize {
        let threads = flags.threads.max(1) as usize;
        match (self.coroutines, usize::try_from(flags.fibers)) {
            (true, _) => threads * flags.coro_jobs_per_thread.max(1) as usize,
            (false, Ok(fibers)) if fibers > 0 => fibers,
            _ => threads,
        }
    }

    /// Reads of each worker. Jobs share what their threads would have read.
    pub fn reads(&self, flags: &Flags) -> u64 {
        let reads = u64::try_from(flags.reads).unwrap_or(flags.num as u64);
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
        if !self.coroutines {
            return Ok(());
        }
        if flags.engine != "pumice" {
            let reason = "a RocksDB library is called on threads only";
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
