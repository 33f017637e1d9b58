//! The driver: header, database, and the benchmarks of the list one after the other.
//!
//! Result lines and benchmark texts go to stdout, the environment and progress to stderr, as
//! RocksDB's db_bench does. A failing operation ends the program with status 1.

use super::background_readers::BackgroundReaders;
use super::compact_level::compact_level;
use super::engine::{Access, BenchDb, Engine, ReadSettings, Result, WriteSettings};
use super::engine_options;
use super::families::Families;
use super::flags::Flags;
use super::monitor::{self, Monitor, Sample};
use super::plot;
use super::reporter::Reporter;
use super::runner;
use super::secondary::{self, Following};
use super::spec::{self, Action, Entry, Spec};
use super::stats::{Repeats, Stats};
use super::work::{Work, backup_directory, restore_directory};
use super::worker::{Plan, Shared};
use super::workload::{ExistingKeys, KeyMaker, Lengths, value_bytes};
use super::{engine::Cursor, scan_work, stats_history};
use crate::calendar::date;
use pumice_base::histogram::Histogram;
use pumice_env::{PosixFs, write_file};
use pumice_port::fiber::{Runtime, RuntimeStats};
use pumice_port::time::{now_micros, process_cpu_micros, wall_micros};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Sets the random numbers of background readers apart from those of workers.
const READER_SEED: u64 = 1 << 40;

/// Runs benchmarks on one engine.
pub struct Driver<'a, E: Engine> {
    engine: &'a E,
    flags: Arc<Flags>,
    path: PathBuf,
    /// Open databases: one, or `--num_multi_db`. Empty while they are replaced.
    dbs: Vec<Arc<E::Db>>,
    /// Keys to choose from (`--use_existing_keys`).
    existing: Option<ExistingKeys>,
    /// The loops that workers run on as fibers, made when a benchmark first needs them.
    loops: Option<Runtime>,
    values: Arc<[u8]>,
    reporter: Option<Reporter>,
    /// Base of all random seeds.
    seed: u64,
    /// Workers started so far, so that each has a seed of its own.
    workers_started: u64,
}

impl<'a, E: Engine> Driver<'a, E> {
    /// Prepares the directory and the values.
    ///
    /// # Errors
    /// The directory or the report file cannot be made, or the old database not removed.
    pub fn new(engine: &'a E, flags: &Flags, path: &Path, seed: u64) -> Result<Self> {
        for (path, wal_dir) in paths(flags, path) {
            if let Some(dir) = wal_dir.filter(|_| !flags.use_existing_db) {
                PosixFs::shared().create_dir_all(&dir).map_err(|error| error.to_string())?;
            }
            if !flags.use_existing_db {
                // Before the destruction too: RocksDB cannot lock a database in a missing
                // directory.
                PosixFs::shared().create_dir_all(&path).map_err(|error| error.to_string())?;
                engine.destroy(&path)?;
                PosixFs::shared().create_dir_all(&path).map_err(|error| error.to_string())?;
            }
        }
        let interval = u64::try_from(flags.report_interval_seconds).unwrap_or(0);
        let reporter = match interval {
            0 => None,
            _ => Some(
                Reporter::start(&flags.report_file, interval)
                    .map_err(|error| format!("report_file: {error}"))?,
            ),
        };
        let longest = spec::SPECS.iter().filter_map(|spec| spec.value_size).max().unwrap_or(0);
        let lengths = Lengths::new(flags, flags.value_size as usize)?;
        let entries = flags.disposable_entries_value_size.max(flags.persistent_entries_value_size);
        let entries = usize::try_from(entries).unwrap_or(0);
        let values = value_bytes(flags, longest.max(lengths.longest()).max(entries));
        Ok(Driver {
            engine,
            flags: Arc::new(flags.clone()),
            path: path.to_path_buf(),
            dbs: Vec::new(),
            existing: None,
            loops: None,
            values,
            reporter,
            seed,
            workers_started: 0,
        })
    }

    /// Runs the list.
    ///
    /// # Errors
    /// The first failure.
    pub fn run(&mut self, entries: &[Entry]) -> Result<()> {
        self.open()?;
        let following = self
            .flags
            .use_secondary_db
            .then(|| Following::start(self.dbs.clone(), self.flags.secondary_update_interval));
        for entry in entries {
            self.run_entry(entry)?;
        }
        drop(following);
        if self.flags.wants_statistics() {
            println!("STATISTICS:\n{}", self.engine.statistics().unwrap_or_default());
        }
        if let Some(report) = self.engine.simulated_cache() {
            println!("SIMULATOR CACHE STATISTICS:\n{report}");
        }
        Ok(())
    }

    fn open(&mut self) -> Result<()> {
        for (path, wal_dir) in paths(&self.flags, &self.path) {
            let start = now_micros();
            let beside = secondary::info_log_dir(&self.flags, &self.path);
            let access = match &beside {
                Some(beside) => Access::Secondary(beside.as_path()),
                None if self.flags.open_as_follower => Access::Follower(&self.flags.leader_path),
                None if self.flags.readonly => Access::Read,
                None => Access::Write,
            };
            let db = self.engine.open(&path, wal_dir.as_deref(), access);
            if self.flags.report_open_timing {
                let milliseconds = (now_micros() - start) as f64 / 1000.0;
                println!("OpenDb:     {milliseconds} milliseconds");
            }
            self.dbs.push(Arc::new(db.map_err(|error| format!("open error: {error}"))?));
        }
        if self.flags.use_existing_keys && self.existing.is_none() {
            let keys = self.all_keys()?;
            let flags = Arc::make_mut(&mut self.flags);
            flags.num = keys.len() as i64;
            self.existing = Some(Arc::new(keys));
        }
        Ok(())
    }

    fn all_keys(&self) -> Result<Vec<Vec<u8>>> {
        let settings = ReadSettings { total_order_seek: true, ..self.read_settings() };
        let mut cursor = self.db().cursor(&settings, [None, None])?;
        let mut keys = Vec::new();
        cursor.seek_to_first();
        while cursor.valid() {
            keys.push(cursor.key().to_vec());
            cursor.next();
        }
        cursor.status()?;
        match keys.is_empty() {
            true => Err("use_existing_keys: the database has no keys".into()),
            false => Ok(keys),
        }
    }

    fn db(&self) -> &Arc<E::Db> {
        self.dbs.first().expect("open from `run` on, closed only inside `run_once`")
    }

    /// The databases, each with the header that several of them get.
    fn headed(&self) -> impl Iterator<Item = (&Arc<E::Db>, String)> {
        let several = self.dbs.len() > 1;
        self.dbs.iter().zip(paths(&self.flags, &self.path)).map(move |(db, (path, _))| {
            let header = format!("\n==== DB: {} ===\n", path.display());
            (db, if several { header } else { String::new() })
        })
    }

    fn run_entry(&mut self, entry: &Entry) -> Result<()> {
        let spec = &entry.spec;
        let work = match spec.action {
            Action::Workers(work) => work,
            action => return self.run_action(action),
        };
        if work.merges() && self.flags.merge_operator.is_empty() {
            println!("{:<12} : skipped (--merge_operator is unknown)", spec.name);
            return Ok(());
        }
        if spec.fresh && self.flags.use_existing_db {
            println!("{:<12} : skipped (--use_existing_db is true)", spec.name);
            return Ok(());
        }
        if work.prints_batch() {
            eprintln!("entries_per_batch = {}", self.flags.batch_size);
        }
        if work == Work::MultiScan {
            let flags = &self.flags;
            eprintln!("multiscan_stride = {}", flags.multiscan_stride);
            eprintln!("multiscan_size = {}", flags.multiscan_size);
            eprintln!("seek_nexts = {}", flags.seek_nexts);
        }
        println!("DB path: [{}]", self.path.display());
        if matches!(work, Work::Backup | Work::Restore) {
            println!("Backup path: [{}]", backup_directory(&self.flags).display());
        }
        if work == Work::Restore {
            println!("Restore path: [{}]", restore_directory(&self.flags).display());
        }
        if entry.warmups > 0 {
            println!("Warming up benchmark by running {} times", entry.warmups);
        }
        for _ in 0..entry.warmups {
            self.run_once(spec, work)?;
        }
        if entry.repeats > 1 {
            println!("Running benchmark for {} times", entry.repeats);
        }
        let mut repeats = Repeats::default();
        for _ in 0..entry.repeats {
            let stats = self.run_once(spec, work)?;
            let interval_only = self.flags.confidence_interval_only;
            if let Some(line) = repeats.add(spec.name, &stats, interval_only) {
                print!("{line}");
            }
        }
        if work != Work::Replay && !self.dbs.is_empty() {
            self.db().end_traces(&self.flags)?;
        }
        if entry.repeats > 1 {
            print!("{}", repeats.summary(spec.name));
        }
        Ok(())
    }

    /// Runs what needs no workers.
    fn run_action(&self, action: Action) -> Result<()> {
        match action {
            Action::Workers(_) => unreachable!("the caller runs these"),
            Action::Flush => {
                self.dbs.iter().try_for_each(|db| db.flush())?;
                println!("flush memtable");
            }
            Action::WaitForCompaction => {
                for (db, (path, _)) in self.dbs.iter().zip(paths(&self.flags, &self.path)) {
                    println!("waitforcompaction({}): started", path.display());
                    db.wait_for_compaction()?;
                    println!("waitforcompaction({}): finished with status (OK)", path.display());
                }
            }
            Action::CompactAll => {
                let subcompactions = self.flags.subcompactions;
                self.dbs.iter().try_for_each(|db| db.compact_all(subcompactions))?;
            }
            Action::CompactLevel(level) => {
                self.dbs.iter().try_for_each(|db| compact_level(&**db, level))?;
            }
            Action::Property(name) => {
                for (db, header) in self.headed() {
                    let text = db.property(name).unwrap_or_else(|| "(failed)".into());
                    println!("{header}\n{text}");
                }
            }
            Action::MemStats => {
                for (db, header) in self.headed() {
                    print!("{header}");
                    for name in MEMTABLE_PROPERTIES {
                        let text = db.property(name).unwrap_or_else(|| "(failed)".into());
                        println!("{name}: {text}");
                    }
                }
            }
            Action::StatsHistory => {
                for (db, header) in self.headed() {
                    print!("{header}{}", stats_history::text(&db.stats_history()?));
                }
            }
            Action::CacheProblems => eprint!("{}", self.engine.cache_problems()?),
            Action::ResetStats => self.dbs.iter().try_for_each(|db| db.reset_stats())?,
            Action::Verify => {
                let path = &self.flags.truth_db;
                let truth = self.engine.open(path, None, Access::Read);
                let truth = truth.map_err(|error| format!("open error: {error}"))?;
                scan_work::verify(&**self.db(), &truth, &self.read_settings())?;
            }
        }
        Ok(())
    }

    fn run_once(&mut self, spec: &Spec, work: Work) -> Result<Stats> {
        if spec.fresh {
            self.dbs.clear();
            for (path, _) in paths(&self.flags, &self.path) {
                self.engine.destroy(&path)?;
            }
            self.open()?;
        }
        if self.flags.traces() && work != Work::Replay {
            if self.dbs.len() > 1 {
                return Err("a trace is of one database: leave out num_multi_db".into());
            }
            self.db().begin_traces(&self.flags)?;
        }
        let on_fibers = spec.coroutines || self.flags.fibers > 0;
        if on_fibers && self.loops.is_none() {
            self.loops = Some(self.start_loops()?);
        }
        let shared = Arc::new(self.shared(spec));
        let loops = self.loops.as_ref().filter(|_| on_fibers);
        let watched = self.watch(&shared)?;
        let (cpu_before, loops_before) = (process_cpu_micros(), loops.map(Runtime::stats));
        let results = runner::run(&shared, loops, work, self.seed + self.workers_started);
        self.workers_started += shared.workers as u64;
        let cpu_seconds = (process_cpu_micros() - cpu_before) as f64 / 1e6;
        let watched = watched.finish();
        let stats = Stats::merged(results?).unwrap_or_else(|| Stats::start(&self.flags, 0, None));
        let files = self.engine.file_operations().unwrap_or_default();
        print!("{}{files}", stats.result(spec.name));
        self.report_watched(spec, &shared.plan, watched?)?;
        if self.flags.report_cpu {
            eprintln!("{:<12} : cpu {cpu_seconds:.3} s", spec.name);
            if let (Some(loops), Some(before)) = (&self.loops, loops_before) {
                eprintln!("{:<12} : {}", spec.name, loops_line(&before, &loops.stats()));
            }
        }
        Ok(stats)
    }

    /// Starts the monitors of a run, and the background readers.
    fn watch(&self, shared: &Shared<E::Db>) -> Result<Watch> {
        let flags = &self.flags;
        let operations = shared.reported.clone().filter(|_| self.is_monitored());
        let monitor = operations.map(|operations| Monitor::start(shared.db.clone(), operations));
        let monitor = monitor.transpose()?;
        let count = usize::try_from(flags.background_readers).unwrap_or(0);
        let keys = KeyMaker::new(flags, shared.plan.key_size).choosing(self.existing.clone());
        let load = (count, flags.background_read_rate);
        let seed = self.seed ^ READER_SEED;
        match BackgroundReaders::start(&shared.db, &shared.plan, &keys, load, seed) {
            Ok(readers) => Ok(Watch { monitor, readers }),
            Err(error) => {
                // Nothing else would end it, and it holds the database open.
                drop(monitor.map(Monitor::finish));
                Err(error)
            }
        }
    }

    fn is_monitored(&self) -> bool {
        let flags = &self.flags;
        flags.report_stalls || has(&flags.plot) || has(&flags.monitor_file)
    }

    fn report_watched(&self, spec: &Spec, plan: &Plan, watched: Watched) -> Result<()> {
        let Watched { samples, reads } = watched;
        if self.flags.report_stalls {
            print!("{}", monitor::summary(spec.name, &samples));
        }
        if self.flags.background_readers > 0 {
            println!("Microseconds per background read:\n{reads}");
        }
        if has(&self.flags.plot) {
            let bytes = (plan.key_size + plan.value_size.mean()) as u64;
            let picture = plot::svg(spec.name, &samples, bytes);
            write_text("plot", &self.flags.plot, &picture)?;
        }
        if has(&self.flags.monitor_file) {
            write_text("monitor_file", &self.flags.monitor_file, &monitor::csv(&samples))?;
        }
        Ok(())
    }

    /// One loop per thread that the flags ask for.
    fn start_loops(&self) -> Result<Runtime> {
        let loops = self.flags.threads.max(1) as usize;
        let built = Runtime::builder().loops(loops).name("bench").build();
        built.map_err(|error| format!("cannot start {loops} loops for fibers: {error}"))
    }

    fn shared(&self, spec: &Spec) -> Shared<E::Db> {
        let configured = if spec.single { 1 } else { spec.workers(&self.flags) };
        let workers = configured + usize::from(spec.writer);
        let reported = self.reporter.as_ref().map(Reporter::operations);
        let reported = reported.or_else(|| self.is_monitored().then(Arc::default));
        let (flags, dbs) = (self.flags.clone(), self.dbs.clone());
        let bytes = (self.values.clone(), self.existing.clone());
        let shared = Shared::new(flags, self.plan(spec), dbs, bytes, reported, workers);
        if spec.name == "timeseries" {
            shared.time.store(0, Ordering::Relaxed);
        }
        shared
    }

    fn plan(&self, spec: &Spec) -> Plan {
        let flags = &self.flags;
        let num = flags.num as u64;
        let or_num = |count: i64| u64::try_from(count).unwrap_or(num);
        let lengths = |len: usize| Lengths::new(flags, len).expect("checked with the flags");
        // A benchmark of large values uses them whatever the distribution.
        let value_size =
            spec.value_size.map_or_else(|| lengths(flags.value_size as usize), Lengths::Fixed);
        let readwrites = match flags.writes < 0 && flags.reads < 0 {
            true => num,
            false => flags.writes.max(flags.reads).unsigned_abs(),
        };
        Plan {
            keys: (num / spec.divide_num).max(1),
            num,
            reads: spec.reads(flags),
            writes: or_num(flags.writes),
            deletes: or_num(flags.deletes),
            readwrites,
            merge_keys: or_num(flags.merge_keys).max(1),
            families: Families::new(flags).expect("checked with the flags"),
            key_size: flags.key_size as usize + spec.longer_key,
            value_size,
            batch: spec.batch.unwrap_or(flags.batch_size as u64),
            write: WriteSettings {
                sync: flags.sync || spec.sync,
                disable_wal: flags.disable_wal,
                limited: flags.rate_limit_auto_wal_flush,
                protected: flags.write_batch_protection_bytes_per_key > 0,
            },
            read: self.read_settings(),
        }
    }

    fn read_settings(&self) -> ReadSettings {
        let flags = &self.flags;
        ReadSettings {
            verify_checksums: flags.verify_checksum,
            total_order_seek: flags.total_order_seek,
            auto_prefix_mode: flags.is_given("auto_prefix_mode").then_some(flags.auto_prefix_mode),
            prefix_same_as_start: flags.prefix_same_as_start,
            tailing: flags.use_tailing_iterator,
            readahead_size: usize::try_from(flags.readahead_size).unwrap_or(0),
            auto_readahead_size: flags
                .is_given("auto_readahead_size")
                .then_some(flags.auto_readahead_size),
            async_io: flags.is_given("async_io").then_some(flags.async_io),
            by_trie: flags.use_trie_index,
            limited: flags.rate_limit_user_ops,
            snapshot: flags.explicit_snapshot,
        }
    }
}

/// What `memstats` prints.
const MEMTABLE_PROPERTIES: [&str; 6] = [
    "rocksdb.num-immutable-mem-table",
    "rocksdb.cur-size-active-mem-table",
    "rocksdb.cur-size-all-mem-tables",
    "rocksdb.size-all-mem-tables",
    "rocksdb.num-entries-active-mem-table",
    "rocksdb.num-entries-imm-mem-tables",
];

/// The directories of the databases, each with that of its WAL where it differs from the flag's.
fn paths(flags: &Flags, path: &Path) -> Vec<(PathBuf, Option<PathBuf>)> {
    if flags.num_multi_db <= 1 {
        return vec![(path.to_path_buf(), None)];
    }
    let wal_dir = |number: &str| match flags.wal_dir.as_str() {
        "" => None,
        dir => Some(Path::new(dir).join(number)),
    };
    let numbers = (0..flags.num_multi_db).map(|number| number.to_string());
    numbers.map(|number| (path.join(&number), wal_dir(&number))).collect()
}

/// The flag of a path was given.
fn has(path: &Path) -> bool {
    !path.as_os_str().is_empty()
}

fn write_text(flag: &str, path: &Path, text: &str) -> Result<()> {
    write_file(&*PosixFs::shared(), path, text.as_bytes(), false)
        .map_err(|error| format!("{flag}: {error}"))
}

/// Monitors of a run, and background readers.
struct Watch {
    monitor: Option<Monitor>,
    readers: BackgroundReaders,
}

/// What they have seen.
struct Watched {
    samples: Vec<Sample>,
    reads: Histogram,
}

impl Watch {
    fn finish(self) -> Result<Watched> {
        let reads = self.readers.finish();
        let samples = self.monitor.map(Monitor::finish).transpose()?.unwrap_or_default();
        Ok(Watched { samples, reads: reads? })
    }
}

/// What the loops did between two moments; a switch is a fiber that was resumed.
fn loops_line(before: &RuntimeStats, now: &RuntimeStats) -> String {
    format!(
        "switches {}, turns {}, kicks {}, ring entered {} times for {} requests, \
         deepest stack {} B",
        now.switches - before.switches,
        now.turns - before.turns,
        now.kicks - before.kicks,
        now.enters - before.enters,
        now.sqes - before.sqes,
        now.stack_high_water_bytes,
    )
}

/// The lines before the first benchmark: environment to stderr, configuration to stdout.
pub fn print_header(engine: &impl Engine, flags: &Flags) {
    eprintln!("{}", engine.version_line());
    eprintln!("Date:       {}", date((wall_micros() / 1_000_000) as i64));
    let cpus = pumice_port::thread::available_parallelism();
    eprintln!("CPU:        {cpus} * {}", cpu_info("model name").unwrap_or_default());
    eprintln!("CPUCache:   {}", cpu_info("cache size").unwrap_or_default());
    let mib = |bytes: f64| bytes / 1_048_576.0;
    let lengths = Lengths::new(flags, flags.value_size as usize).expect("checked with the flags");
    let (key, value, num) = (f64::from(flags.key_size), lengths.mean() as f64, flags.num);
    let (average, distribution) = match lengths {
        Lengths::Fixed(_) => ("bytes", String::new()),
        _ => (
            "avg bytes",
            format!(
                "Values Distribution: {} (min: {}, max: {})\n",
                flags.value_size_distribution_type, flags.value_size_min, flags.value_size_max
            ),
        ),
    };
    let compressed = value * flags.compression_ratio;
    println!(
        "Keys:       {} bytes each (+ {} bytes user-defined timestamp)\n\
         Values:     {} {average} each ({} bytes after compression)\n\
         {distribution}Entries:    {num}\n\
         Prefix:    {} bytes\n\
         Keys per prefix:    {}\n\
         RawSize:    {:.1} MB (estimated)\n\
         FileSize:   {:.1} MB (estimated)\n\
         Write rate: {} bytes/second\n\
         Read rate: {} ops/second",
        flags.key_size,
        flags.user_timestamp_size,
        lengths.mean(),
        (compressed + 0.5) as i64,
        flags.prefix_size,
        flags.keys_per_prefix,
        mib((key + value) * num as f64),
        mib((key + compressed) * num as f64),
        flags.benchmark_write_rate_limit,
        flags.benchmark_read_rate_limit,
    );
    // RocksDB names zstd, whatever the manager makes of it.
    let managed = !flags.compression_manager.eq_ignore_ascii_case("none");
    if managed {
        println!("Compression manager: {}", flags.compression_manager);
    }
    let compression = if managed { "zstd" } else { compression_name(&flags.compression_type) };
    println!(
        "Compression: {}\nCompression sampling rate: {}\nMemtablerep: {}\nPerf Level: {}",
        compression,
        flags.sample_for_compression,
        engine_options::memtable_name(flags),
        flags.perf_level,
    );
    if cfg!(debug_assertions) {
        println!("WARNING: Assertions are enabled; benchmarks unnecessarily slow");
    }
    println!("------------------------------------------------");
}

/// The codec's name as RocksDB's header spells it.
fn compression_name(flag: &str) -> &'static str {
    match flag.to_ascii_lowercase().as_str() {
        "snappy" => "Snappy",
        "zlib" => "Zlib",
        "bzip2" => "BZip2",
        "lz4" => "LZ4",
        "lz4hc" => "LZ4HC",
        "xpress" => "Xpress",
        "zstd" => "ZSTD",
        _ => "NoCompression",
    }
}

fn cpu_info(name: &str) -> Option<String> {
    let bytes = pumice_port::os::read_file(Path::new("/proc/cpuinfo")).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_string())
}
