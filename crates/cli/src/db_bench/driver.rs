//! The driver: header, database, and the benchmarks of the list one after the other.
//!
//! Result lines and benchmark texts go to stdout, the environment and progress to stderr, as
//! RocksDB's db_bench does. A failing operation ends the program with status 1.

use super::background_readers::BackgroundReaders;
use super::engine::{BenchDb, Engine, ReadSettings, Result, WriteSettings};
use super::flags::Flags;
use super::monitor::{self, Monitor, Sample};
use super::plot;
use super::reporter::Reporter;
use super::runner;
use super::spec::{self, Action, Entry, Spec};
use super::stats::{Repeats, Stats};
use super::work::Work;
use super::worker::{Plan, Shared};
use super::workload::{KeyMaker, value_bytes};
use pumice_base::histogram::Histogram;
use pumice_env::{PosixFs, write_file};
use pumice_port::fiber::{Runtime, RuntimeStats};
use pumice_port::time::{process_cpu_micros, wall_micros};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Sets the random numbers of background readers apart from those of workers.
const READER_SEED: u64 = 1 << 40;

/// Runs benchmarks on one engine.
pub struct Driver<'a, E: Engine> {
    engine: &'a E,
    flags: Arc<Flags>,
    path: PathBuf,
    db: Option<Arc<E::Db>>,
    /// The loops that workers run on as fibers, made when a benchmark first wants them.
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
        if !flags.use_existing_db {
            // Before the destruction too: RocksDB cannot lock a database in a missing directory.
            PosixFs::shared().create_dir_all(path).map_err(|error| error.to_string())?;
            engine.destroy(path)?;
            PosixFs::shared().create_dir_all(path).map_err(|error| error.to_string())?;
        }
        let interval = u64::try_from(flags.report_interval_seconds).unwrap_or(0);
        let reporter = match interval {
            0 => None,
            _ => Some(
                Reporter::start(Path::new(&flags.report_file), interval)
                    .map_err(|error| format!("report_file: {error}"))?,
            ),
        };
        let longest = spec::SPECS.iter().filter_map(|spec| spec.value_size).max().unwrap_or(0);
        let values = value_bytes(flags, longest.max(flags.value_size as usize));
        Ok(Driver {
            engine,
            flags: Arc::new(flags.clone()),
            path: path.to_path_buf(),
            db: None,
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
        for entry in entries {
            self.run_entry(entry)?;
        }
        if self.flags.statistics {
            println!("STATISTICS:\n{}", self.engine.statistics().unwrap_or_default());
        }
        Ok(())
    }

    fn open(&mut self) -> Result<()> {
        let db = self.engine.open(&self.path, self.flags.readonly);
        self.db = Some(Arc::new(db.map_err(|error| format!("open error: {error}"))?));
        Ok(())
    }

    fn db(&self) -> &Arc<E::Db> {
        self.db.as_ref().expect("open from `run` on, closed only inside `run_entry`")
    }

    fn run_entry(&mut self, entry: &Entry) -> Result<()> {
        let spec = &entry.spec;
        let work = match spec.action {
            Action::Workers(work) => work,
            Action::Flush => {
                println!("flush memtable");
                return self.db().flush();
            }
            Action::WaitForCompaction => {
                println!("waitforcompaction({}): started", self.path.display());
                self.db().wait_for_compaction()?;
                println!("waitforcompaction({}): finished", self.path.display());
                return Ok(());
            }
            Action::Property(name) => {
                let text = self.db().property(name).unwrap_or_else(|| "(failed)".into());
                println!("\n{text}");
                return Ok(());
            }
        };
        if work == Work::ReadWhileMerging && self.flags.merge_operator.is_empty() {
            println!("{:<12} : skipped (--merge_operator is unknown)", spec.name);
            return Ok(());
        }
        if spec.fresh && self.flags.use_existing_db {
            println!("{:<12} : skipped (--use_existing_db is true)", spec.name);
            return Ok(());
        }
        if work == Work::MultiRead {
            eprintln!("entries_per_batch = {}", self.flags.batch_size);
        }
        println!("DB path: [{}]", self.path.display());
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
            if let Some(line) = repeats.add(spec.name, &stats) {
                print!("{line}");
            }
        }
        if entry.repeats > 1 {
            print!("{}", repeats.summary(spec.name));
        }
        Ok(())
    }

    fn run_once(&mut self, spec: &Spec, work: Work) -> Result<Stats> {
        if spec.fresh {
            self.db = None;
            self.engine.destroy(&self.path)?;
            self.open()?;
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
        let stats = Stats::merged(results?).expect("a benchmark has threads that count");
        print!("{}", stats.result(spec.name));
        self.report_watched(spec, &shared.plan, watched?)?;
        if self.flags.report_cpu {
            eprintln!("{:<12} : cpu {cpu_seconds:.3} s", spec.name);
            if let (Some(loops), Some(before)) = (&self.loops, loops_before) {
                eprintln!("{:<12} : {}", spec.name, loops_line(&before, &loops.stats()));
            }
        }
        Ok(stats)
    }

    /// Starts what looks at a run, or reads beside it.
    fn watch(&self, shared: &Shared<E::Db>) -> Result<Watch> {
        let flags = &self.flags;
        let operations = shared.reported.clone().filter(|_| self.is_monitored());
        let monitor = operations.map(|operations| Monitor::start(shared.db.clone(), operations));
        let monitor = monitor.transpose()?;
        let count = usize::try_from(flags.background_readers).unwrap_or(0);
        let keys = KeyMaker::new(flags, shared.plan.key_size);
        let load = (count, flags.background_read_rate);
        let seed = self.seed ^ READER_SEED;
        match BackgroundReaders::start(&shared.db, &shared.plan, &keys, load, seed) {
            Ok(readers) => Ok(Watch { monitor, readers }),
            Err(error) => {
                // Nobody else would end it, and it holds the database open.
                drop(monitor.map(Monitor::finish));
                Err(error)
            }
        }
    }

    fn is_monitored(&self) -> bool {
        self.flags.report_stalls || !self.flags.plot.is_empty()
    }

    fn report_watched(&self, spec: &Spec, plan: &Plan, watched: Watched) -> Result<()> {
        let Watched { samples, reads } = watched;
        if self.flags.report_stalls {
            print!("{}", monitor::summary(spec.name, &samples));
        }
        if self.flags.background_readers > 0 {
            println!("Microseconds per background read:\n{reads}");
        }
        if !self.flags.plot.is_empty() {
            let bytes = (plan.key_size + plan.value_size) as u64;
            let picture = plot::svg(spec.name, &samples, bytes);
            let path = Path::new(&self.flags.plot);
            write_file(&*PosixFs::shared(), path, picture.as_bytes(), false)
                .map_err(|error| format!("plot: {error}"))?;
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
        let (flags, db, values) = (self.flags.clone(), self.db().clone(), self.values.clone());
        Shared::new(flags, self.plan(spec), db, values, reported, workers)
    }

    fn plan(&self, spec: &Spec) -> Plan {
        let flags = &self.flags;
        let num = flags.num as u64;
        let or_num = |count: i64| u64::try_from(count).unwrap_or(num);
        Plan {
            keys: (num / spec.divide_num).max(1),
            num: (num / spec.divide_num).max(1),
            reads: spec.reads(flags),
            writes: or_num(flags.writes),
            deletes: or_num(flags.deletes),
            key_size: flags.key_size as usize + spec.longer_key,
            value_size: spec.value_size.unwrap_or(flags.value_size as usize),
            batch: flags.batch_size as u64,
            write: WriteSettings {
                sync: flags.sync || spec.sync,
                disable_wal: flags.disable_wal,
                limited: flags.rate_limit_auto_wal_flush,
            },
            read: ReadSettings {
                verify_checksums: flags.verify_checksum,
                total_order_seek: flags.total_order_seek,
                prefix_same_as_start: flags.prefix_same_as_start,
                readahead_size: usize::try_from(flags.readahead_size).unwrap_or(0),
                limited: flags.rate_limit_user_ops,
            },
        }
    }
}

/// What looks at a run, or reads beside it.
struct Watch {
    monitor: Option<Monitor>,
    readers: BackgroundReaders,
}

/// What that has seen.
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
    eprintln!("Date:       {}", pumice_port::time::local_time_string(wall_micros()));
    let cpus = pumice_port::thread::available_parallelism();
    eprintln!("CPU:        {cpus} * {}", cpu_model().unwrap_or_default());
    let mib = |bytes: f64| bytes / 1_048_576.0;
    let (key, value, num) = (f64::from(flags.key_size), f64::from(flags.value_size), flags.num);
    let compressed = value * flags.compression_ratio;
    println!(
        "Keys:       {} bytes each (+ 0 bytes user-defined timestamp)\n\
         Values:     {} bytes each ({} bytes after compression)\n\
         Entries:    {num}\n\
         Prefix:    {} bytes\n\
         Keys per prefix:    {}\n\
         RawSize:    {:.1} MB (estimated)\n\
         FileSize:   {:.1} MB (estimated)\n\
         Write rate: {} bytes/second\n\
         Read rate: {} ops/second",
        flags.key_size,
        flags.value_size,
        (compressed + 0.5) as i64,
        flags.prefix_size,
        flags.keys_per_prefix,
        mib((key + value) * num as f64),
        mib((key + compressed) * num as f64),
        flags.benchmark_write_rate_limit,
        flags.benchmark_read_rate_limit,
    );
    println!(
        "Compression: {}\nCompression sampling rate: 0\nMemtablerep: {}\nPerf Level: 1",
        compression_name(&flags.compression_type),
        if flags.memtablerep == "vector" { "VectorRepFactory" } else { "SkipListFactory" },
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

fn cpu_model() -> Option<String> {
    let bytes = pumice_port::os::read_file(Path::new("/proc/cpuinfo")).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_string())
}
