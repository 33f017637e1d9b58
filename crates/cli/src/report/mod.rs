//! `pumice report`: compares everything with RocksDB on this machine, as one page.
//!
//! | file | what |
//! |---|---|
//! | `plan` | from machine and time to experiments with their commands; pure |
//! | `machine` | the machine and the peer |
//! | `run` | runs what is missing, each as a child process |
//! | `process` | children that a signal ends |
//! | `parse` | from printed text to numbers |
//! | `journal` | finished runs, a line each, from which a report resumes |
//! | `baselines` | what the machine can do without an engine |
//! | `data` | medians, spreads, ratios |
//! | `limits` | what no engine can avoid, and the share of it that is reached |
//! | `figures`, `words` | plots, and the sentences that describe them |
//! | `originals` | published figures of the five original works |
//! | `page` | the page |
//!
//! Thread safety: one report writes to a folder at a time, which its lock holds.

mod baselines;
mod data;
mod figures;
mod journal;
mod limits;
mod machine;
mod originals;
mod overview;
mod page;
mod parse;
mod plan;
mod process;
mod run;
mod words;

pub use baselines::{CHILD as BASELINES_CHILD, run as run_baselines};

use crate::arguments::{Arguments, Flag, Known};
use crate::folder;
use data::Data;
use journal::Journal;
use machine::{Machine, Peer};
use page::Page;
use plan::{Plan, Section, TimeLimit, Work};
use process::Children;
use pumice_base::hash::hash64;
use pumice_port::os::{self, FileLock};
use run::{Folders, Runner};
use serde::Serialize;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

pub const USAGE: &str = "\
pumice report: measures everything against RocksDB and writes a page about it

USAGE: pumice report [--time=10m] [--only=SECTION] [--out=pumice-report] [FLAGS]

  --time=TIME       about how long it takes: 10m, 1h, ..; `full` is five rounds with growth to 64
                    million keys [10m]
  --only=SECTION    compression, control, filters, priorities, coroutines, server, core,
                    engines or growth
  --out=DIR         the page (index.html), report.json, report.csv, plots/, and runs.jsonl, from
                    which the same command goes on after an interruption [pumice-report]
  --engine=PATH     RocksDB's library; `none` for Pumice alone [the one of `cargo xtask peers
                    --native`, else of `cargo xtask peers`]
  --memory=DIR      where databases in memory lie [/dev/shm]
  --disk=DIR        where databases on a disk lie [the output folder]
                    folders that are named and missing are made
  --plan            print what would be run, and how long it takes, and run nothing
  --render          run nothing; write page and data from runs.jsonl, also of other builds
";

const VALUES: &[&str] = &["time", "only", "out", "engine", "memory", "disk"];
const KNOWN: Known<'_> = Known { switches: &[&["plan", "render"]], values: &[VALUES] };

/// The flags, for completions.
pub fn flags() -> Vec<Flag> {
    KNOWN.flags()
}

/// Runs the subcommand with the words after its name.
pub fn run(args: &[OsString]) -> ExitCode {
    if args.iter().any(|arg| arg == "--help" || arg == "-h") {
        print!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    match report(args) {
        Ok(failures) if failures.is_empty() => ExitCode::SUCCESS,
        Ok(failures) => {
            eprintln!("{} runs failed", failures.len());
            ExitCode::FAILURE
        }
        Err(why) => {
            eprintln!("pumice report: {why}");
            ExitCode::FAILURE
        }
    }
}

/// The request from the command line.
struct Asked {
    time: TimeLimit,
    only: Option<Section>,
    out: PathBuf,
    library: Option<PathBuf>,
    memory: PathBuf,
    /// A missing default folder is not created: it would not be in memory.
    makes_memory: bool,
    disk: PathBuf,
    plans_only: bool,
    renders_only: bool,
}

impl Asked {
    /// # Errors
    /// What is not understood, in words.
    fn parse(args: &[OsString]) -> Result<Asked, String> {
        // `--time 10m` is taken as well as `--time=10m`.
        let mut joined: Vec<OsString> = Vec::new();
        for arg in args {
            match joined.last_mut().filter(|last| takes_value(last)) {
                Some(last) => {
                    last.push("=");
                    last.push(arg);
                }
                None => joined.push(arg.clone()),
            }
        }
        let parsed = Arguments::parse(&joined);
        parsed.check(&KNOWN).map_err(|wrong| wrong.to_string())?;
        if let Some(word) = parsed.words.first() {
            return Err(format!("'{}' is not a flag", String::from_utf8_lossy(word)));
        }
        let path = |name: &str, default: &str| {
            parsed.path(name).map_or_else(|| PathBuf::from(default), Path::to_path_buf)
        };
        let only = parsed.text("only")?.map(|name| {
            let found = Section::ALL.into_iter().find(|section| section.name() == name);
            found.ok_or_else(|| {
                let names: Vec<&str> = Section::ALL.iter().map(|section| section.name()).collect();
                format!("--only: '{name}' is none of {}", names.join(", "))
            })
        });
        let out = path("out", "pumice-report");
        Ok(Asked {
            time: TimeLimit::parse(parsed.text("time")?.unwrap_or("10m"))?,
            only: only.transpose()?,
            library: match parsed.path("engine") {
                Some(path) if path == Path::new("none") => None,
                None => installed(),
                // Children run in another directory.
                Some(path) => {
                    let absolute = std::path::absolute(path);
                    Some(absolute.map_err(|error| format!("{}: {error}", path.display()))?)
                }
            },
            memory: path("memory", "/dev/shm"),
            makes_memory: parsed.has("memory"),
            disk: parsed.path("disk").map_or_else(|| out.clone(), Path::to_path_buf),
            out,
            plans_only: parsed.flag("plan"),
            renders_only: parsed.flag("render"),
        })
    }

    /// Makes the folders that are missing.
    ///
    /// # Errors
    /// One cannot be made or read: its flag and path, and what the operating system says.
    fn make_folders(&self) -> Result<(), String> {
        let folders = [
            ("out", &self.out, true),
            ("memory", &self.memory, self.makes_memory),
            ("disk", &self.disk, true),
        ];
        for (flag, path, makes) in folders {
            let made = if makes { os::create_dir_all(path) } else { Ok(()) };
            let read = made.and_then(|()| os::read_dir(path));
            read.map_err(|error| format!("--{flag}={}: {error}", path.display()))?;
        }
        Ok(())
    }
}

/// The library that was named or built for this processor, else the one that tests use.
fn installed() -> Option<PathBuf> {
    let named = std::env::var_os("PUMICE_ROCKSDB_SO").is_some();
    let native = if named { None } else { pumice_peer::native_library() };
    native.or_else(pumice_peer::installed_library)
}

fn takes_value(arg: &OsStr) -> bool {
    let name = arg.to_str().and_then(|arg| arg.strip_prefix("--"));
    name.is_some_and(|name| VALUES.contains(&name))
}

/// Makes the report; what failed.
fn report(args: &[OsString]) -> Result<Vec<String>, String> {
    let asked = Asked::parse(args)?;
    let program = std::env::current_exe().map_err(|error| format!("this program: {error}"))?;
    asked.make_folders()?;
    let _lock = lock(&asked.out)?;
    let folders = scratch(&asked)?;
    let mut machine = Machine::look(&folders.memory, &folders.disk);
    if let Some(library) = &asked.library {
        machine.peer = Some(Peer::probe(library, &folders.memory, &program)?);
        folder::remove(&folders.memory.join("probe"));
    }
    let plan = Plan::new(asked.time, &machine);
    let journal = Journal::open(&asked.out)?;
    let known = expected(&plan, &machine);
    let (data, others) = journal::matching(journal.past(), |run| {
        let wanted = known.get(&(run.id.clone(), run.round));
        wanted.is_some_and(|(command, build)| {
            asked.renders_only || *command == run.command && *build == run.build
        })
    });
    print_plan(&plan, &asked, data.all().count(), others);
    let commit = commit(&program);
    let command = format!("pumice report {}", args.join(OsStr::new(" ")).display());
    let write = |data: &Data, failures: &[String]| {
        let page = Page {
            plan: &plan,
            machine: &machine,
            data,
            failures,
            command: command.trim(),
            commit: &commit,
        };
        write_all(&asked.out, &page)
    };
    if asked.plans_only || asked.renders_only {
        if asked.renders_only {
            write(&data, &[])?;
        }
        return Ok(Vec::new());
    }
    let children = Children::default();
    children.end_on_signals(vec![folders.memory.clone(), folders.disk.clone()])?;
    let mut runner = Runner::new((&plan, &machine), &folders, program, (children, journal, data));
    runner.run(asked.only, &write)?;
    write(&runner.data, &runner.failures)?;
    println!("\n{}", asked.out.join("index.html").display());
    Ok(runner.failures)
}

/// Command and builds of every run that the plan would make.
type Expected = BTreeMap<(String, u32), (String, String)>;

fn expected(plan: &Plan, machine: &Machine) -> Expected {
    let mut all = Expected::new();
    for table in &plan.tables {
        for row in &table.rows {
            for arm in &row.arms {
                for round in 0..plan.scale.rounds {
                    let command = run::command(&arm.work, u64::from(round) + 1);
                    let build = run::build(machine, arm.work.engine());
                    all.insert((table.id(row, arm), round), (command, build));
                }
            }
        }
    }
    all
}

fn print_plan(plan: &Plan, asked: &Asked, done: usize, others: usize) {
    plan.scaled.iter().for_each(|line| println!("{line}"));
    plan.left_out.iter().for_each(|line| println!("Left out: {line}."));
    let seconds = plan.seconds(asked.only) as u64;
    println!("It takes about {}; {done} runs are there already.", run::clock(seconds));
    if others > 0 {
        println!("{others} runs in the folder are of other commands or builds and do not count.");
    }
    if !asked.plans_only {
        return;
    }
    for table in plan.tables.iter().filter(|t| asked.only.is_none_or(|s| s == t.section)) {
        println!("\n{}: {}", table.section.name(), table.title);
        let benches =
            table.prepare.iter().map(|bench| run::command(&Work::Bench(bench.clone()), 1));
        benches.for_each(|command| println!("  {command}"));
        for row in &table.rows {
            row.arms.iter().for_each(|arm| println!("  {}", run::command(&arm.work, 1)));
        }
    }
}

/// What `report.json` holds.
#[derive(Serialize)]
struct RawData<'a> {
    machine: &'a Machine,
    commit: &'a str,
    command: &'a str,
    scaled: &'a [String],
    left_out: &'a [String],
    failures: &'a [String],
    runs: Vec<&'a data::Run>,
}

fn write_all(out: &Path, page: &Page<'_>) -> Result<(), String> {
    folder::replace(&out.join("index.html"), &page.html())?;
    let raw = RawData {
        machine: page.machine,
        commit: page.commit,
        command: page.command,
        scaled: &page.plan.scaled,
        left_out: &page.plan.left_out,
        failures: page.failures,
        runs: page.data.all().collect(),
    };
    let json = serde_json::to_string(&raw).map_err(|error| format!("report.json: {error}"))?;
    folder::replace(&out.join("report.json"), &(json + "\n"))?;
    folder::replace(&out.join("report.csv"), &page.data.csv())?;
    let plots = out.join("plots");
    os::create_dir_all(&plots).map_err(|error| format!("{}: {error}", plots.display()))?;
    for table in &page.plan.tables {
        for picture in figures::of(page.plan, table, page.data) {
            folder::replace(&plots.join(format!("{}.svg", picture.name)), &picture.alone)?;
        }
    }
    Ok(())
}

fn lock(out: &Path) -> Result<FileLock, String> {
    let path = out.join("LOCK");
    FileLock::acquire(&path).map_err(|_| format!("{}: another report is running", path.display()))
}

/// Folders of this process, those of a report into the same folder that was killed removed.
fn scratch(asked: &Asked) -> Result<Folders, String> {
    let out = std::path::absolute(&asked.out).map_err(|error| error.to_string())?;
    let mark = format!("pumice-report-{:016x}-", hash64(out.as_os_str().as_encoded_bytes()));
    let make = |base: &Path| {
        let with_path = |error: std::io::Error| format!("{}: {error}", base.display());
        let base = std::path::absolute(base).map_err(with_path)?;
        for name in os::read_dir(&base).map_err(with_path)? {
            if name.starts_with(&mark) {
                folder::remove(&base.join(name));
            }
        }
        let path = base.join(format!("{mark}{}", os::pid()));
        os::create_dir_all(&path).map_err(with_path)?;
        Ok::<PathBuf, String>(path)
    };
    let memory = make(&asked.memory)?;
    let mut folders = Folders { disk: memory.clone(), memory };
    folders.disk = make(&asked.disk)?;
    Ok(folders)
}

/// The commit that this program is of, as it was compiled in, or that its checkout is at.
fn commit(program: &Path) -> String {
    if let Some(commit) = option_env!("PUMICE_GIT_SHA") {
        return commit.to_string();
    }
    let folder = program.parent().unwrap_or(Path::new("."));
    let mut command = Command::new("git");
    os::end_with_parent(&mut command);
    let output = command.arg("-C").arg(folder).args(["rev-parse", "--short", "HEAD"]).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_string());
    match text {
        Ok(text) if !text.is_empty() => format!("{text} (of the checkout)"),
        _ => "unknown".to_string(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn parse(text: &str) -> Result<Asked, String> {
        Asked::parse(&text.split_whitespace().map(OsString::from).collect::<Vec<_>>())
    }

    #[pumice_test_macros::test]
    fn flags_are_read_in_both_forms() {
        let asked = parse("--time 30s --only=core --out x --engine none --plan").unwrap();
        assert_eq!((asked.time, asked.only), (TimeLimit::Seconds(30), Some(Section::Core)));
        assert!(asked.library.is_none() && asked.plans_only && !asked.renders_only);
        assert_eq!((asked.out, asked.disk), (PathBuf::from("x"), PathBuf::from("x")));
        for (bad, why) in [
            ("--time=5", "--time: '5' is not a time"),
            ("--only=all --engine=none", "--only: 'all' is none of compression, "),
            ("--what", "there is no flag --what"),
            ("what", "'what' is not a flag"),
        ] {
            assert!(parse(bad).err().unwrap().starts_with(why), "{bad}");
        }
    }
}
