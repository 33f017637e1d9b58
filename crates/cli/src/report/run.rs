//! Runs a plan: a child process for each arm of each row in each round, except those already done;
//! every finished run goes into the journal.
//!
//! Arms of a row follow each other, every other round backwards, so that what slows the machine
//! down slows all of them. RocksDB's arms run the engine's process of db_bench directly, so that
//! ending the child ends the engine.
//!
//! Thread safety: one thread runs; see `process` for signals. A failed run is reported and skipped;
//! the report then ends with a failure.

use super::data::{Data, Run};
use super::journal::Journal;
use super::machine::Machine;
use super::plan::{Bench, Engine, Place, Plan, Row, Section, Serve, Table, Work};
use super::process::Children;
use super::{baselines, data::Series, parse};
use crate::folder;
use pumice_port::net::Listener;
use pumice_port::{os, thread, time};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Placeholders in commands for the folders and the library.
const MEMORY: &str = "MEMORY";
const DISK: &str = "DISK";
const LIBRARY: &str = "LIBRARY";
/// A server has to answer within this many waits of [`LOOK`].
const LOOKS: usize = 200;
const LOOK: Duration = Duration::from_millis(50);

/// Where databases lie. Removed with the value.
#[derive(Debug)]
pub struct Folders {
    /// On tmpfs.
    pub memory: PathBuf,
    /// On a disk.
    pub disk: PathBuf,
}

impl Drop for Folders {
    fn drop(&mut self) {
        folder::remove(&self.memory);
        folder::remove(&self.disk);
    }
}

/// Runs experiments.
pub struct Runner<'a> {
    /// The plan to run.
    pub plan: &'a Plan,
    /// Where.
    pub machine: &'a Machine,
    /// The databases.
    pub folders: &'a Folders,
    /// This program.
    pub program: PathBuf,
    /// The processes that a signal ends.
    pub children: Children,
    /// The journal.
    pub journal: Journal,
    /// What has been run.
    pub data: Data,
    /// What failed, with the reason.
    pub failures: Vec<String>,
    progress: Progress,
}

/// How far it is.
#[derive(Default)]
struct Progress {
    done: usize,
    all: usize,
    started: u64,
    seconds: f64,
}

impl<'a> Runner<'a> {
    /// With those runs of the journal that the plan would make in exactly the same way.
    pub fn new(
        (plan, machine): (&'a Plan, &'a Machine),
        folders: &'a Folders,
        program: PathBuf,
        (children, journal, data): (Children, Journal, Data),
    ) -> Runner<'a> {
        let (failures, progress) = (Vec::new(), Progress::default());
        Runner { plan, machine, folders, program, children, journal, data, failures, progress }
    }

    /// Runs what is missing of these sections; `after` is called after each table.
    ///
    /// # Errors
    /// The journal cannot be written, or `after` failed. Failed runs are no errors: see `failures`.
    pub fn run(
        &mut self,
        only: Option<Section>,
        after: impl Fn(&Data, &[String]) -> Result<(), String>,
    ) -> Result<(), String> {
        let plan = self.plan;
        let tables = || plan.tables.iter().filter(|table| only.is_none_or(|s| s == table.section));
        let missing = tables().map(|table| self.missing(table)).sum();
        self.progress = Progress {
            done: 0,
            all: missing,
            started: time::now_micros(),
            seconds: plan.seconds(only) * missing as f64 / self.all(only).max(1) as f64,
        };
        for table in tables() {
            if self.missing(table) > 0 {
                self.run_table(table)?;
                after(&self.data, &self.failures)?;
            }
        }
        Ok(())
    }

    fn all(&self, only: Option<Section>) -> usize {
        let tables =
            self.plan.tables.iter().filter(|table| only.is_none_or(|s| s == table.section));
        tables.map(Table::runs).sum::<usize>() * self.plan.scale.rounds as usize
    }

    fn missing(&self, table: &Table) -> usize {
        let rounds = 0..self.plan.scale.rounds;
        rounds.map(|round| self.missing_in(table, round).count()).sum()
    }

    /// Arms of a round that have not been run, by row and place.
    fn missing_in<'t>(
        &'t self,
        table: &'t Table,
        round: u32,
    ) -> impl Iterator<Item = (&'t Row, usize)> {
        let all = table.rows.iter().flat_map(|row| (0..row.arms.len()).map(move |arm| (row, arm)));
        let is_missing = move |row: &Row, arm: usize| {
            self.data.run(&table.id(row, &row.arms[arm]), round).is_none()
        };
        let redo = table.chained && all.clone().any(|(row, arm)| is_missing(row, arm));
        all.filter(move |(row, arm)| redo || is_missing(row, *arm))
    }

    fn run_table(&mut self, table: &Table) -> Result<(), String> {
        println!("\n{}: {}", table.section.name(), table.title);
        let mut prepared = Ok(());
        let needed = self.needed(table);
        for bench in table.prepare.iter().filter(|bench| needed.contains(&bench.db)) {
            println!("  making {}", bench.db);
            prepared = prepared.and_then(|()| self.bench(bench, 6, 0).map(drop));
        }
        if let Err(error) = prepared {
            self.fail(&format!("{}/{}", table.section.name(), table.name), &error);
            self.clean();
            return Ok(());
        }
        for round in 0..self.plan.scale.rounds {
            let names: Vec<(String, Vec<usize>)> = rows_of(self.missing_in(table, round));
            for (name, mut arms) in names {
                let row = table.rows.iter().find(|row| row.name == name);
                let row = row.expect("the name is that of a row of this table");
                if round % 2 == 1 {
                    arms.reverse();
                }
                for arm in arms {
                    self.run_arm(table, row, arm, round)?;
                }
            }
        }
        self.clean();
        Ok(())
    }

    /// Databases that missing runs read.
    fn needed(&self, table: &Table) -> Vec<String> {
        let rounds = 0..self.plan.scale.rounds;
        let missing = rounds.flat_map(|round| self.missing_in(table, round));
        let bases = missing.filter_map(|(row, arm)| match &row.arms[arm].work {
            Work::Bench(bench) => Some(bench.copy_of.clone().unwrap_or_else(|| bench.db.clone())),
            _ => None,
        });
        bases.collect()
    }

    fn run_arm(&mut self, table: &Table, row: &Row, arm: usize, round: u32) -> Result<(), String> {
        let arm = &row.arms[arm];
        let id = table.id(row, arm);
        let done = match &arm.work {
            Work::Bench(bench) => self.bench(bench, u64::from(round) + 1, 0),
            Work::Jobs(bench, count) => self.jobs(bench, *count, u64::from(round) + 1),
            Work::Serve(serve) => self.serve(serve),
            Work::Baselines => self.baselines(),
        };
        self.progress.done += 1;
        let seconds = (time::now_micros() - self.progress.started) / 1_000_000;
        let place = format!(
            "[{}/{}, {} of about {}]",
            self.progress.done,
            self.progress.all,
            clock(seconds),
            clock(self.progress.seconds as u64)
        );
        let mut run = match done {
            Ok(run) => run,
            Err(error) => {
                println!("{place} {id}: FAILED");
                self.fail(&id, &error);
                return Ok(());
            }
        };
        run.id = id;
        run.round = round;
        run.command = command(&arm.work, u64::from(round) + 1);
        run.build = build(self.machine, arm.work.engine());
        run.at = time::wall_seconds();
        run.keep_numbers();
        let rate = run.values.get("ops_per_sec").copied().unwrap_or(0.0);
        println!("{place} {}, round {}: {rate:.0} ops/s", run.id, round + 1);
        self.journal.add(&run)?;
        self.data.add(run);
        Ok(())
    }

    fn fail(&mut self, id: &str, error: &str) {
        eprintln!("{id}: {error}");
        self.failures.push(format!("{id}: {error}"));
    }

    fn clean(&self) {
        for path in [&self.folders.memory, &self.folders.disk] {
            for name in os::read_dir(path).unwrap_or_default() {
                folder::remove(&path.join(name));
            }
        }
    }

    fn path(&self, place: Place, db: &str) -> PathBuf {
        match place {
            Place::Memory => self.folders.memory.join(db),
            Place::Disk => self.folders.disk.join(db),
        }
    }

    /// The program with these words, in which folders and library are put.
    fn child(&self, words: &[String]) -> Command {
        let place = |path: &Path| path.display().to_string();
        let library = self.machine.peer.as_ref().map(|peer| place(&peer.path)).unwrap_or_default();
        let mut command = Command::new(&self.program);
        command.current_dir(&self.folders.memory);
        command.args(words.iter().map(|word| {
            let word =
                word.replace(&format!("={MEMORY}/"), &format!("={}/", place(&self.folders.memory)));
            let word =
                word.replace(&format!("={DISK}/"), &format!("={}/", place(&self.folders.disk)));
            word.replace(&format!("={LIBRARY}"), &format!("={library}"))
        }));
        command
    }

    /// Runs db_bench on database `db` of this number.
    fn bench(&self, bench: &Bench, seed: u64, number: usize) -> Result<Run, String> {
        let path = self.path(bench.place, &bench.db);
        if let Some(base) = &bench.copy_of {
            folder::remove(&path);
            folder::copy(&self.path(bench.place, base), &path)?;
        }
        if bench.cold && os::stat(&path).is_ok() {
            folder::drop_pages(&path).map_err(|error| format!("page cache: {error}"))?;
        }
        let mut words = bench_words(bench, seed, number);
        if bench.engine != Engine::Pumice {
            words[0] = crate::db_bench::CHILD.to_string();
        }
        let text = self.children.wait(self.children.start(&mut self.child(&words))?)?;
        let mut values = match bench.measured() {
            // What makes a database has no line.
            "flush" => parse::Values::new(),
            measured => parse::db_bench(&text, measured, bench.user_bytes)?,
        };
        // Write amplification means nothing for reads.
        let writes = ["fill", "overwrite", "update", "delete"];
        if !writes.iter().any(|name| bench.measured().starts_with(name)) {
            values.remove("write_amp");
        }
        values.insert("space_mb".to_string(), folder::bytes(&path) as f64 / 1e6);
        let mut series = Series::default();
        if bench.flags.iter().any(|flag| flag.starts_with("--monitor_file")) {
            let looks = os::read_file(&self.folders.memory.join("monitor.csv"));
            let looks = looks.map_err(|error| format!("monitor.csv: {error}"))?;
            let looks = Series::of_csv(&String::from_utf8_lossy(&looks));
            let (more, judged) = parse::sine(&looks, self.plan.scale.sine_time, bench.user_bytes);
            values.extend(more);
            series = judged;
        }
        if !bench.keep {
            folder::remove(&path);
        }
        Ok(Run { values, series, ..Run::default() })
    }

    /// Runs it this many times at once.
    fn jobs(&self, bench: &Bench, count: usize, seed: u64) -> Result<Run, String> {
        let start = time::now_micros();
        let mut running = Vec::new();
        for number in 0..count {
            let mut words = bench_words(bench, seed, number);
            if bench.engine != Engine::Pumice {
                words[0] = crate::db_bench::CHILD.to_string();
            }
            running.push(self.children.start(&mut self.child(&words))?);
        }
        let ended: Vec<_> = running.into_iter().map(|child| self.children.wait(child)).collect();
        let seconds = (time::now_micros() - start) as f64 / 1e6;
        let mut sum = parse::Values::new();
        for text in ended {
            let values = parse::db_bench(&text?, bench.measured(), bench.user_bytes)?;
            for (name, value) in values {
                *sum.entry(name).or_insert(0.0) += value;
            }
        }
        (0..count).for_each(|n| folder::remove(&self.path(bench.place, &numbered(bench, n))));
        sum.insert("seconds".to_string(), seconds);
        sum.insert("jobs_per_sec".to_string(), count as f64 / seconds);
        Ok(Run { values: sum, ..Run::default() })
    }

    /// What the machine can do without an engine.
    fn baselines(&self) -> Result<Run, String> {
        let mut command = self.child(&baseline_words());
        let text = self.children.wait(self.children.start(&mut command)?)?;
        Ok(Run { values: baselines::parse(&text)?, ..Run::default() })
    }

    /// A server under load.
    fn serve(&self, serve: &Serve) -> Result<Run, String> {
        let listener = Listener::bind_tcp(([127, 0, 0, 1], 0).into());
        let port = listener.map_err(|error| format!("a port: {error}"))?.address();
        let port = port.map_or(0, |address| address.port());
        let dir = self.folders.memory.join("serve");
        folder::remove(&dir);
        os::create_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        let pinned = self.machine.cpus > 1;
        let mut command = self.child(&server_words(serve, &port.to_string()));
        if serve.engine == Engine::Redis {
            command = on_program(Path::new("redis-server"), &command);
        }
        if pinned {
            command = on_processor(0, &command);
        }
        command.current_dir(&self.folders.memory);
        let child = self.children.start(&mut command)?;
        let measured = self.load(serve, port, child.id(), pinned);
        let printed = self.children.end(child);
        folder::remove(&dir);
        measured.map_err(|error| format!("{error}; the server said: {printed}"))
    }

    fn load(&self, serve: &Serve, port: u16, pid: u32, pinned: bool) -> Result<Run, String> {
        let ask = |flags: &str| {
            let mut words = vec!["resp_bench".to_string(), "-p".into(), port.to_string()];
            words.extend(flags.split_whitespace().map(str::to_string));
            let mut command = self.child(&words);
            if pinned {
                command = on_processor(1, &command);
            }
            self.children.wait(self.children.start(&mut command)?)
        };
        let mut looks = 0;
        while let Err(error) = ask("-t ping -n 1 -c 1") {
            looks += 1;
            if looks == LOOKS {
                return Err(format!("the server does not answer: {error}"));
            }
            thread::sleep(LOOK);
        }
        let shape = format!("-d 100 -r {} --csv", serve.keys);
        ask(&format!("-t fill -c 10 -P 50 {shape}"))?;
        let load = format!("-t {} -c {} {shape} --server-pid {pid}", serve.test, serve.clients);
        // The first connections and pages are not what is measured.
        ask(&format!("{load} --duration {}", serve.seconds / 3.0))?;
        let text = ask(&format!("{load} --duration {}", serve.seconds))?;
        let mut values = parse::resp_bench(&text)?;
        let status = os::read_file(Path::new(&format!("/proc/{pid}/status"))).unwrap_or_default();
        let status = String::from_utf8_lossy(&status);
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak: Option<f64> = peak.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        values.insert("peak_mb".to_string(), peak.unwrap_or(0.0) * 1024.0 / 1e6);
        Ok(Run { values, ..Run::default() })
    }
}

fn rows_of<'t>(missing: impl Iterator<Item = (&'t Row, usize)>) -> Vec<(String, Vec<usize>)> {
    let mut rows: Vec<(String, Vec<usize>)> = Vec::new();
    for (row, arm) in missing {
        match rows.last_mut() {
            Some((name, arms)) if *name == row.name => arms.push(arm),
            _ => rows.push((row.name.clone(), vec![arm])),
        }
    }
    rows
}

fn numbered(bench: &Bench, number: usize) -> String {
    if number == 0 { bench.db.clone() } else { format!("{}-{number}", bench.db) }
}

/// The words of a db_bench.
fn bench_words(bench: &Bench, seed: u64, number: usize) -> Vec<String> {
    let place = if bench.place == Place::Memory { MEMORY } else { DISK };
    let mut words = vec![
        "db_bench".to_string(),
        format!("--db={place}/{}", numbered(bench, number)),
        format!("--benchmarks={}", bench.benchmarks),
    ];
    words.extend(bench.flags.iter().cloned());
    if !bench.flags.iter().any(|flag| flag.starts_with("--seed=")) {
        words.push(format!("--seed={seed}"));
    }
    words.extend(["--report_cpu".to_string(), "--progress_reports=0".to_string()]);
    match bench.engine {
        Engine::RocksDb => words.push(format!("--engine={LIBRARY}")),
        Engine::Fjall | Engine::Redb => words.push(format!("--engine={}", bench.engine.name())),
        Engine::Pumice | Engine::Redis => {}
    }
    words
}

fn baseline_words() -> Vec<String> {
    let folders =
        [("memory", MEMORY), ("disk", DISK)].map(|(flag, at)| format!("--{flag}={at}/baselines"));
    std::iter::once(baselines::CHILD.to_string()).chain(folders).collect()
}

/// The same words for another program.
fn on_program(program: &Path, command: &Command) -> Command {
    let mut other = Command::new(program);
    other.args(command.get_args());
    other
}

/// The same command, kept to a processor.
fn on_processor(processor: usize, command: &Command) -> Command {
    let mut pinned = Command::new("taskset");
    pinned.args(["-c", &processor.to_string()]).arg(command.get_program()).args(command.get_args());
    pinned
}

/// The words of a server after its program's name.
fn server_words(serve: &Serve, port: &str) -> Vec<String> {
    let own: &[&str] = match serve.engine {
        Engine::Redis => &["--save", "", "--appendonly", "yes", "--dir", "serve"],
        _ => &["serve", "--dir", "serve/db", "--loops", "1"],
    };
    let common = ["--port", port, "--appendfsync", "everysec", "--maxclients", "12000"];
    let mut words: Vec<String> =
        own.iter().chain(&common).map(|word| (*word).to_string()).collect();
    words.extend(serve.flags.iter().cloned());
    words
}

/// The command of some work, as the page shows it and as it is recognised.
pub fn command(work: &Work, seed: u64) -> String {
    match work {
        Work::Bench(bench) => format!("pumice {}", bench_words(bench, seed, 0).join(" ")),
        Work::Jobs(bench, count) => {
            format!("{count} times at once: pumice {}", bench_words(bench, seed, 0).join(" "))
        }
        Work::Serve(serve) => format!(
            "{} {} & pumice resp_bench -p PORT -t {} -c {} -d 100 -r {} --duration {}",
            if serve.engine == Engine::Redis { "redis-server" } else { "pumice" },
            server_words(serve, "PORT").join(" ").replace("--save  ", "--save '' "),
            serve.test,
            serve.clients,
            serve.keys,
            serve.seconds
        ),
        Work::Baselines => format!("pumice {}", baseline_words().join(" ")),
    }
}

/// What identifies the programs that do an engine's work.
pub fn build(machine: &Machine, engine: Engine) -> String {
    match (engine, &machine.peer, &machine.redis) {
        (Engine::RocksDb, Some(peer), _) => {
            format!("{}; RocksDB {}, {}", machine.program, peer.version, peer.build)
        }
        (Engine::Redis, _, Some(redis)) => format!("{}; redis-server {redis}", machine.program),
        _ => machine.program.clone(),
    }
}

/// `1h02m`, `3m05s`, `7s`.
pub fn clock(seconds: u64) -> String {
    match seconds {
        s if s >= 3600 => format!("{}h{:02}m", s / 3600, s % 3600 / 60),
        s if s >= 60 => format!("{}m{:02}s", s / 60, s % 60),
        s => format!("{s}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Plain #[test]: nothing in these tests can wait.
    #[test]
    fn commands_are_those_that_run() {
        let bench = Bench::new(Engine::RocksDb, "readrandom[W1]", "--num=7").on("x").on_disk();
        assert_eq!(
            command(&Work::Bench(bench.clone()), 3),
            "pumice db_bench --db=DISK/x-RocksDB --benchmarks=readrandom[W1] --num=7 --seed=3 \
             --report_cpu --progress_reports=0 --engine=LIBRARY"
        );
        let seeded = Bench::new(Engine::Pumice, "fillseq", "--seed=9");
        assert!(!command(&Work::Bench(seeded), 3).contains("--seed=3"));
        assert!(command(&Work::Jobs(bench, 4), 3).starts_with("4 times at once: pumice db_bench"));
    }

    // Plain #[test]: see above.
    #[test]
    fn times_are_short() {
        assert_eq!([7, 185, 3725].map(clock), ["7s", "3m05s", "1h02m"]);
    }
}
