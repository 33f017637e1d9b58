//! `pumice db_bench`: RocksDB's benchmark program over Pumice, or over a real RocksDB library.
//!
//! With `--engine=PATH.so` the program starts itself once more, so that the library (its threads,
//! its allocator use, its crashes) lives in a child process; driver, keys, values and timing are
//! the same code in both. So it does with the engines of `other_engines`. Exit status: 0, or 1 for
//! a wrong flag or a failed operation.

mod background_readers;
mod backups;
mod cache_report;
mod caches;
mod compact_level;
pub mod counted_files;
mod cpu_work;
mod deterministic;
mod disposable;
mod driver;
mod engine;
mod engine_options;
mod families;
mod fill;
mod flag_table;
mod flag_value;
mod flags;
mod integers;
mod mixed_work;
mod mixgraph;
mod monitor;
mod open_and_compact;
mod operand_work;
mod option_flags;
mod other_engines;
mod plot;
mod process_report;
mod pumice_blob_db;
mod pumice_calls;
mod pumice_engine;
mod pumice_transactions;
mod replay;
mod reporter;
mod rocksdb_engine;
mod rocksdb_flags;
mod rocksdb_transactions;
mod runner;
mod scan_work;
mod secondary;
mod secondary_cache;
mod simulated_disk;
mod spec;
mod stats;
mod stats_history;
mod stderr_logger;
mod thread_report;
mod timeseries;
mod transaction_work;
mod user_times;
mod work;
mod worker;
mod workload;

pub use engine_options::codec;
pub use option_flags::find as option_flag;
pub use other_engines::ARE_BUILT as OTHER_ENGINES_ARE_BUILT;

use crate::arguments::Flag;
use crate::environments;
use driver::Driver;
use engine::Engine;
use families::Families;
use flags::{Flags, Stop};
use pumice_port::fiber::leave_out_io_uring;
use pumice_port::os;
use pumice_port::time::wall_micros;
use spec::Entry;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use workload::Lengths;

/// Threads at most. A process has 65,530 mappings by default, a thread takes four (its stack, that
/// of its signals, a guard each), and one that gets no more of them ends the process.
const THREADS_MAX: i32 = 10_000;

/// The hidden subcommand of the child process.
pub const CHILD: &str = "db_bench-engine-process";

/// What `--help` prints.
pub use flags::help;

/// The flags, for completions: those of the table, and options of the engine.
pub fn flags() -> Vec<Flag> {
    let rows = Flags::rows();
    let meaning = |doc: &str| doc.split(['.', '\n']).next().unwrap_or_default().to_string();
    let own = rows.iter().map(|row| Flag::long(row.name, row.kind != "bool", &meaning(row.doc)));
    let options = option_flags::all();
    let others = options.iter().filter(|(name, _)| !rows.iter().any(|row| row.name == *name));
    let others = others.map(|(name, flag)| Flag::long(name, !flag.is_switch, &meaning(flag.doc)));
    own.chain(others).collect()
}

/// Runs `pumice db_bench` with `args`, the words after the subcommand.
pub fn run(args: &[OsString]) -> ExitCode {
    let Some((flags, _)) = checked(args, true) else { return ExitCode::FAILURE };
    match flags {
        None => ExitCode::SUCCESS,
        Some(flags) if flags.engine == "pumice" => run_child(args),
        Some(_) => spawn_child(args),
    }
}

/// Runs the benchmarks in this process, on whichever engine the flags name.
pub fn run_child(args: &[OsString]) -> ExitCode {
    let Some((Some(flags), entries)) = checked(args, false) else { return ExitCode::FAILURE };
    let result = match flags.engine.as_str() {
        "pumice" => {
            pumice_engine::Pumice::new(&flags).and_then(|engine| drive(&engine, &flags, &entries))
        }
        name if other_engines::is_one(name) => other_engines::run(&flags, &entries),
        library => rocksdb_engine::RocksDb::new(Path::new(library), &flags)
            .and_then(|engine| drive(&engine, &flags, &entries)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// A MiB at least of what values are cut from, as the flags' defaults make them.
pub fn sample_values() -> Arc<[u8]> {
    workload::value_bytes(&Flags::default(), 0)
}

fn spawn_child(args: &[OsString]) -> ExitCode {
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => {
            eprintln!("db_bench: cannot find this program to start it again: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut command = Command::new(program);
    command.arg(CHILD).args(args);
    os::end_with_parent(&mut command);
    match command.status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(status) => {
            if status.code().is_none() {
                eprintln!("db_bench: the engine's process died: {status}");
            }
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("db_bench: cannot start the engine's process: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Flags and benchmark list. `None`: something is wrong and has been reported on stderr; no flags:
/// help was requested and printed. Warnings are printed only if `warn`: `run_child` parses the same
/// words again.
fn checked(args: &[OsString], warn: bool) -> Option<(Option<Flags>, Vec<Entry>)> {
    let mut warnings = Vec::new();
    let parsed = flags::parse(args, &mut |warning| warnings.push(warning));
    let flags = match parsed {
        // A database that is only read is one that exists.
        Ok(mut flags) => {
            flags.use_existing_db |=
                flags.readonly || flags.use_secondary_db || flags.open_as_follower;
            flags
        }
        Err(Stop::Help) => {
            print!("{}", flags::help());
            return Some((None, Vec::new()));
        }
        Err(Stop::Version) => {
            println!("db_bench version {}", env!("CARGO_PKG_VERSION"));
            return Some((None, Vec::new()));
        }
        Err(Stop::Errors(errors)) => {
            errors.iter().for_each(|error| eprintln!("{error}"));
            return None;
        }
    };
    if flags.build_info {
        println!("Pumice: {}", env!("CARGO_PKG_VERSION"));
        return Some((None, Vec::new()));
    }
    let entries = flags.benchmarks.split(',').map(str::trim).filter(|name| !name.is_empty());
    let entries: Result<Vec<Entry>, String> = entries.map(spec::parse).collect();
    let checked = check_numbers(&flags).and_then(|()| {
        let parsed = entries.as_ref().map_or(&[][..], |entries| entries);
        parsed.iter().try_for_each(|entry| entry.spec.check(&flags))?;
        other_engines::check(&flags, parsed)
    });
    match (checked, entries) {
        (Ok(()), Ok(entries)) => {
            warnings.iter().filter(|_| warn).for_each(|warning| eprintln!("{warning}"));
            Some((Some(flags), entries))
        }
        (Err(error), _) | (_, Err(error)) => {
            eprintln!("{error}");
            None
        }
    }
}

/// Objects that flags name, and numbers of which few are taken.
fn check_names(flags: &Flags) -> Result<(), String> {
    if !matches!(flags.write_batch_protection_bytes_per_key, 0 | 8) {
        return Err("write_batch_protection_bytes_per_key must be 0 or 8".to_string());
    }
    environments::check(Some(&flags.env_uri), Some(&flags.fs_uri))
        .map_err(|error| format!("Failed creating env: {error}"))?;
    if !matches!(&*flags.statistics_string, "" | "BasicStatistics" | "id=BasicStatistics") {
        let name = &flags.statistics_string;
        return Err(format!("No Statistics registered matching string: {name}"));
    }
    Ok(())
}

/// What runs Pumice only.
fn check_engine(flags: &Flags) -> Result<(), String> {
    let rules = [
        (flags.perf_level <= 1, "perf_level above 1", "it asks for Pumice's perf context"),
        (flags.fibers == 0, "--fibers", "another engine blocks the thread it is called on"),
        (!flags.print_malloc_stats, "--print_malloc_stats", "a library has its own allocator"),
    ];
    match rules.iter().find(|(holds, ..)| flags.engine != "pumice" && !holds) {
        Some((_, flag, reason)) => Err(format!("ERROR: {flag} runs Pumice only: {reason}")),
        None => Ok(()),
    }
}

fn check_numbers(flags: &Flags) -> Result<(), String> {
    check_names(flags)?;
    check_engine(flags)?;
    Families::new(flags)?;
    Lengths::new(flags, 0)?;
    disposable::check(flags)?;
    let percent = |number: i32| (1..100).contains(&number);
    let rules = [
        (percent(flags.readwritepercent), "readwritepercent must be above 0 and below 100"),
        (percent(flags.deletepercent), "deletepercent must be above 0 and below 100"),
        (
            flags.readwritepercent + flags.deletepercent <= 100,
            "readwritepercent and deletepercent must not exceed 100 together",
        ),
        (flags.compression_ratio <= 1.0, "compression_ratio should be between 0 and 1"),
        (
            !flags.seek_missing_prefix || flags.prefix_size > 8,
            "prefix_size > 8 required by --seek_missing_prefix",
        ),
        (
            !flags.use_existing_keys || flags.use_existing_db,
            "`-use_existing_db` must be true for `-use_existing_keys` to be settable",
        ),
        (
            !flags.use_existing_keys || flags.num_multi_db <= 1,
            "use_existing_keys works on a single database",
        ),
        (
            flags.overwrite_probability == 0.0 || flags.overwrite_window_size > 0,
            "Overwrite_window_size must be strictly greater than 0.",
        ),
        ((0..=6).contains(&flags.perf_level), "perf_level must be 0 to 6"),
        (flags.num > 0, "num must be at least 1"),
        (flags.key_size > 0, "key_size must be at least 1"),
        (flags.value_size >= 0, "value_size must not be negative"),
        (flags.batch_size > 0, "batch_size must be at least 1"),
        (flags.threads > 0, "threads must be at least 1"),
        (flags.threads <= THREADS_MAX, "threads must be at most 10000"),
        (flags.fibers >= 0, "fibers must not be negative"),
        (flags.coro_jobs_per_thread > 0, "coro_jobs_per_thread must be at least 1"),
        (flags.background_readers >= 0, "background_readers must not be negative"),
        (flags.background_read_rate > 0, "background_read_rate must be at least 1"),
        (
            !flags.open_loop || flags.sine_write_rate || flags.benchmark_write_rate_limit > 0,
            "open_loop needs benchmark_write_rate_limit or sine_write_rate",
        ),
        (flags.prefix_size >= 0, "prefix_size must not be negative"),
        (flags.prefix_size <= flags.key_size, "prefix size is larger than key size"),
        (
            flags.keys_per_prefix <= 0 || flags.prefix_size > 0,
            "keys_per_prefix needs a prefix_size",
        ),
        (
            !flags.sine_write_rate || flags.sine_d > flags.sine_a.abs(),
            "sine_d must be above |sine_a|: the write rate would not stay positive",
        ),
    ];
    match rules.iter().find(|(holds, _)| !holds) {
        Some((_, rule)) => Err(format!("ERROR: {rule}")),
        None => Ok(()),
    }
}

fn drive<E: Engine>(engine: &E, flags: &Flags, entries: &[Entry]) -> Result<(), String> {
    if !flags.io_uring_enabled {
        leave_out_io_uring();
    }
    let seed = match flags.seed {
        0 => {
            let seed = wall_micros();
            println!("Set seed to {seed} because --seed was 0");
            seed
        }
        seed => seed as u64,
    };
    driver::print_header(engine, flags);
    if flags.enable_numa {
        eprintln!("Running in NUMA enabled mode.");
        if os::memory_nodes().is_none() {
            return Err("NUMA is not supported by the system.".into());
        }
    }
    let path = directory(&flags.db, "dbbench");
    // As in RocksDB's db_bench before the database is opened.
    for (pool, threads) in [
        (engine::Pool::Bottom, flags.num_bottom_pri_threads),
        (engine::Pool::Low, flags.num_low_pri_threads),
        (engine::Pool::High, flags.num_high_pri_threads),
    ] {
        if threads > 0 {
            engine.set_threads(pool, threads)?;
        }
    }
    engine.lower_priority(flags.enable_cpu_prio, flags.enable_io_prio)?;
    // The database is closed before the process is measured.
    let ended = Driver::new(engine, flags, &path, seed)?.run(entries);
    if flags.print_malloc_stats && ended.is_ok() {
        println!("Malloc stats:\n{}", os::allocator::statistics());
    }
    if flags.report_cpu {
        eprintln!("{}", process_report::line());
    }
    if flags.db.as_os_str().is_empty() {
        eprintln!(
            "db_bench: the database stays in {} (--db chooses another place)",
            path.display()
        );
    }
    ended
}

/// The directory that a flag names, or the default of that name.
fn directory(flag: &Path, default: &str) -> PathBuf {
    if flag.as_os_str().is_empty() { default_directory(default) } else { flag.to_path_buf() }
}

/// `$TEST_TMPDIR/name`, else in a directory of this user's in the temporary directory.
fn default_directory(name: &str) -> PathBuf {
    let base = std::env::var_os("TEST_TMPDIR").map(PathBuf::from).unwrap_or_else(|| {
        let status = os::read_file(Path::new("/proc/self/status")).unwrap_or_default();
        let text = String::from_utf8_lossy(&status);
        let user = text
            .lines()
            .find_map(|line| line.strip_prefix("Uid:"))
            .and_then(|ids| ids.split_whitespace().nth(1))
            .unwrap_or("0");
        std::env::temp_dir().join(format!("rocksdbtest-{user}"))
    });
    base.join(name)
}
