//! The simulation suites as a program; `cargo xtask sim` builds it and passes its arguments on.
//!
//! | argument | does |
//! |---|---|
//! | `--seeds N`, `--start K` | runs N seeds from K on |
//! | `--suite T1,T2` | of these suites only: T1, T2, T3, T-txn, T-ring |
//! | `--jobs J` | in J processes |
//! | `--seed K` | runs one seed twice and prints everything |
//! | `--complete` | runs all there is of T2 or T3 (with `--suite`), not a sample |
//! | `--planted` | looks for every planted bug (`--cfg pumice_planted`) |
//! | `--planted-bug NAME` | looks for one, in this process |
//! | `--worker I/J` | is worker I of J, for the parent |

use std::process::ExitCode;

use pumice_tests::sim::driver::{self, Job};
use pumice_tests::sim::run::Suite;

const USAGE: &str = "usage: sim [--seeds N] [--start K] [--suite T1,T2,T3,T-txn,T-ring] [--jobs J] \
                     [--seed K] [--complete] [--planted]";

struct Arguments {
    job: Job,
    seed: Option<u64>,
    worker: Option<u64>,
    complete: bool,
    planted: bool,
    bug: Option<String>,
}

fn parse(words: &[String]) -> Option<Arguments> {
    let job = Job { start: 0, seeds: 1000, suites: Suite::ALL.to_vec(), jobs: 2 };
    let mut arguments =
        Arguments { job, seed: None, worker: None, complete: false, planted: false, bug: None };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word == "--complete" {
            arguments.complete = true;
            continue;
        }
        if word == "--planted" {
            arguments.planted = true;
            continue;
        }
        let value = words.next()?;
        match word.as_str() {
            "--seeds" => arguments.job.seeds = value.parse().ok()?,
            "--start" => arguments.job.start = value.parse().ok()?,
            "--jobs" => arguments.job.jobs = value.parse().ok().filter(|jobs| *jobs > 0)?,
            "--seed" => arguments.seed = Some(value.parse().ok()?),
            "--planted-bug" => arguments.bug = Some(value.clone()),
            "--suite" => {
                let suites = value.split(',').map(Suite::by_name);
                arguments.job.suites = suites.collect::<Option<_>>()?;
            }
            "--worker" => {
                let (worker, jobs) = value.split_once('/')?;
                arguments.worker = Some(worker.parse().ok()?);
                arguments.job.jobs = jobs.parse().ok()?;
            }
            _ => return None,
        }
    }
    Some(arguments)
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some(Arguments { job, seed, worker, complete, planted, bug }) = parse(&words) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    if let Some(name) = bug {
        return code(driver::find_planted(&job, &name));
    }
    if planted {
        return code(driver::run_planted(&job, None));
    }
    let well = match (seed, worker) {
        (Some(seed), _) => driver::replay(Suite::of(seed, &job.suites), seed),
        (None, Some(worker)) => {
            driver::work(&job, worker);
            true
        }
        (None, None) if complete => driver::complete(job.suites[0]),
        (None, None) => driver::run(&job),
    };
    code(well)
}

fn code(well: bool) -> ExitCode {
    if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
