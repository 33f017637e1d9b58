//! Runs many seeds in several processes and reports the result in one line.
//!
//! The parent starts workers (this program again), each of which runs its share of the seeds on one
//! thread and reports on its standard output which seed it runs, what failed, and in the end what
//! it counted. A worker that stays on one seed for too long is killed and its seed counts as stuck:
//! this finds loops that the simulation cannot.
//!
//! A run in which too little happened fails, however little went wrong.

#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // Above the engine, not in it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pumice_base::planted::{self, Bug};

use super::run::{self, Outcome, Suite};
use super::verdict::{COUNTS, Count, Failure, Kind, Tally};

/// What to run.
#[derive(Clone, Debug)]
pub struct Job {
    /// The first seed.
    pub start: u64,
    /// How many.
    pub seeds: u64,
    /// Which suites.
    pub suites: Vec<Suite>,
    /// Processes.
    pub jobs: u64,
}

/// Failures after which a worker gives up.
const FAILURES_MAX: usize = 5;
/// One seed in this many runs twice.
const REPLAY_EVERY: u64 = 100;
/// The longest time at one seed.
const SEED_SECONDS_MAX: u64 = 120;
/// Seeds from which on a run must have met everything.
const SEEDS_FOR_ALL: u64 = 300;
/// Neighbouring seeds that go to one worker: a round of all suites.
const SHARE: u64 = 16;

/// Seeds that once failed, one per line: suite, seed, what it was. They always run.
const REGRESSIONS: &str = include_str!("../../regress/seeds.txt");

/// The seeds that once failed.
pub fn regressions() -> Vec<(Suite, u64)> {
    let lines = REGRESSIONS.lines().filter(|line| !line.starts_with('#'));
    let parse = |line: &str| {
        let mut words = line.split_whitespace();
        Some((Suite::by_name(words.next()?)?, words.next()?.parse().ok()?))
    };
    lines.filter_map(parse).collect()
}

/// The command that repeats a seed.
fn repro(suite: Suite, seed: u64) -> String {
    format!("cargo xtask sim --suite {} --seed {seed}", suite.name())
}

/// One worker: runs its share and reports on standard output.
pub fn work(job: &Job, worker: u64) {
    let tally = Arc::new(Tally::default());
    let (mut seeds, mut replays, mut failures) = (0, 0, 0);
    let mut todo: Vec<(Suite, u64)> = if worker == 0 { regressions() } else { Vec::new() };
    todo.retain(|(suite, _)| job.suites.contains(suite));
    let mine = |seed: &u64| seed / SHARE % job.jobs == worker;
    let range = (job.start..job.start + job.seeds).filter(mine);
    for (suite, seed) in todo.into_iter().chain(range.map(|s| (Suite::of(s, &job.suites), s))) {
        print(&format!("AT {} {seed}", suite.name()));
        let outcome = run::seed(suite, seed, &tally);
        seeds += 1;
        let mut failure = outcome.result.clone().err();
        if failure.is_none() && seed.is_multiple_of(REPLAY_EVERY) {
            replays += 1;
            failure = run::replay(suite, seed, &outcome).err();
        }
        if let Some(failure) = failure {
            failures += 1;
            let text = failure.text.replace('\n', "\u{1}");
            print(&format!("FAIL {} {seed} {:?} {text}", suite.name(), failure.kind));
            if failures == FAILURES_MAX {
                break;
            }
        }
    }
    print(&format!("DONE seeds={seeds} replays={replays} {}", tally.text()));
}

fn print(line: &str) {
    let mut out = std::io::stdout().lock();
    // A parent that is gone needs no report.
    if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
        std::process::exit(1);
    }
}

/// What a worker reported.
#[derive(Default)]
struct Heard {
    at: String,
    failures: Vec<(String, Kind, String)>,
    done: Option<String>,
}

struct Worker {
    child: Child,
    heard: Arc<Mutex<Heard>>,
    /// When it last reported something, in milliseconds since the start.
    last: Arc<AtomicU64>,
}

fn start(arguments: &[String], started: Instant) -> std::io::Result<Worker> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let heard = Arc::new(Mutex::new(Heard::default()));
    let last = Arc::new(AtomicU64::new(started.elapsed().as_millis() as u64));
    let output = child.stdout.take();
    let (to, at) = (Arc::clone(&heard), Arc::clone(&last));
    std::thread::spawn(move || {
        for line in output.into_iter().flat_map(|o| BufReader::new(o).lines()).map_while(Result::ok)
        {
            at.store(started.elapsed().as_millis() as u64, Ordering::Relaxed);
            hear(&mut to.lock().unwrap_or_else(PoisonError::into_inner), &line);
        }
    });
    Ok(Worker { child, heard, last })
}

fn hear(heard: &mut Heard, line: &str) {
    match line.split_once(' ') {
        Some(("AT", at)) => heard.at = at.to_string(),
        Some(("DONE", text)) => heard.done = Some(text.to_string()),
        Some(("FAIL", rest)) => {
            let mut words = rest.splitn(4, ' ');
            let mut word = || words.next().unwrap_or("").to_string();
            let at = format!("{} {}", word(), word());
            let kind = kind_by_name(&word());
            heard.failures.push((at, kind, word().replace('\u{1}', "\n")));
        }
        _ => println!("{line}"),
    }
}

fn kind_by_name(name: &str) -> Kind {
    let all = [Kind::Lost, Kind::Hole, Kind::Torn, Kind::Wrong, Kind::Stuck, Kind::Replay];
    all.into_iter().find(|kind| format!("{kind:?}") == name).unwrap_or(Kind::Wrong)
}

/// Waits for a worker; what it reported, with one more failure if it did not exit cleanly.
fn wait(mut worker: Worker, started: Instant) -> Heard {
    let ended = loop {
        match worker.child.try_wait() {
            Ok(Some(status)) => break format!("{status}"),
            Ok(None) => {}
            Err(error) => break error.to_string(),
        }
        let silent = (started.elapsed().as_millis() as u64)
            .saturating_sub(worker.last.load(Ordering::Relaxed)); // Which may be set meanwhile.
        if silent > SEED_SECONDS_MAX * 1000 {
            let killed = worker.child.kill().and_then(|()| worker.child.wait());
            break format!("no progress for {SEED_SECONDS_MAX} s; ended: {killed:?}");
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    // The reader may still be at the last lines.
    std::thread::sleep(Duration::from_millis(50));
    let mut heard = worker.heard.lock().unwrap_or_else(PoisonError::into_inner);
    let mut heard = std::mem::take(&mut *heard);
    if heard.done.is_none() {
        let at = heard.at.clone();
        heard.failures.push((at, Kind::Stuck, format!("the worker did not finish: {ended}")));
    }
    heard
}

/// Runs a job; whether all was well.
pub fn run(job: &Job) -> bool {
    let started = Instant::now();
    let suites: Vec<&str> = job.suites.iter().map(|suite| suite.name()).collect();
    let mut workers = Vec::new();
    for worker in 0..job.jobs {
        let arguments = [
            "--start".to_string(),
            job.start.to_string(),
            "--seeds".into(),
            job.seeds.to_string(),
            "--suite".into(),
            suites.join(","),
            "--worker".into(),
            format!("{worker}/{}", job.jobs),
        ];
        match start(&arguments, started) {
            Ok(worker) => workers.push(worker),
            Err(error) => println!("a worker does not start: {error}"),
        }
    }
    let all_started = workers.len() as u64 == job.jobs;
    let heard: Vec<Heard> = workers.into_iter().map(|worker| wait(worker, started)).collect();
    let well = report(job, &heard, started.elapsed());
    well && all_started
}

fn report(job: &Job, heard: &[Heard], wall: Duration) -> bool {
    let tally = Tally::default();
    let (mut seeds, mut replays) = (0, 0);
    for text in heard.iter().filter_map(|heard| heard.done.as_ref()) {
        tally.absorb(&Tally::parse(text));
        let number = |name: &str| -> u64 {
            let mut words = text.split_whitespace().filter_map(|word| word.split_once('='));
            words.find(|(n, _)| *n == name).and_then(|(_, v)| v.parse().ok()).unwrap_or(0)
        };
        seeds += number("seeds");
        replays += number("replays");
    }
    let failures: Vec<_> = heard.iter().flat_map(|heard| &heard.failures).collect();
    for (at, kind, text) in &failures {
        let (suite, seed) = at.split_once(' ').unwrap_or((at, ""));
        println!("{kind:?} in {at}: {text}");
        match (Suite::by_name(suite), seed.parse()) {
            (Some(suite), Ok(seed)) => println!("repeat: {}\n", repro(suite, seed)),
            _ => println!("no seed is known\n"),
        }
    }
    let kinds = |kind: Kind| failures.iter().filter(|(_, k, _)| *k == kind).count();
    println!(
        "SIM seeds={seeds} {} lost={} holes={} torn={} wrong={} stuck={} replay_mismatch={}/{} \
         wall={}s",
        tally.text(),
        kinds(Kind::Lost),
        kinds(Kind::Hole),
        kinds(Kind::Torn),
        kinds(Kind::Wrong),
        kinds(Kind::Stuck),
        kinds(Kind::Replay),
        replays,
        wall.as_secs()
    );
    let missing = missing(job, &tally, seeds, replays);
    if !missing.is_empty() {
        println!("too little happened: no {}", missing.join(", no "));
    }
    failures.is_empty() && missing.is_empty()
}

/// What a run of this size must have met and did not.
fn missing(job: &Job, tally: &Tally, seeds: u64, replays: u64) -> Vec<&'static str> {
    let mut missing = Vec::new();
    if seeds < job.seeds {
        missing.push("seeds");
    }
    let all = Suite::ALL.iter().all(|suite| job.suites.contains(suite));
    if all && job.seeds >= SEEDS_FOR_ALL {
        let never = |(count, _): &&(Count, &'static str)| tally.get(*count) == 0;
        missing.extend(COUNTS.iter().filter(never).map(|(_, name)| *name));
        if replays == 0 {
            missing.push("replays");
        }
    }
    missing
}

/// Seeds after which a planted bug counts as missed.
const PLANTED_SEEDS_MAX: u64 = 20_000;

/// Looks for one planted bug: the seeds it took and the suite that found it. This process is of no
/// use for anything else afterwards.
pub fn find_planted(job: &Job, name: &str) -> bool {
    let Some(bug) = Bug::by_name(name).filter(|_| planted::ENABLED) else {
        println!("no planted bug is called {name} in this build");
        return false;
    };
    planted::activate(Some(bug));
    let tally = Arc::new(Tally::default());
    for n in 0..PLANTED_SEEDS_MAX {
        let suite = Suite::of(n, &job.suites);
        print(&format!("AT {} {n}", suite.name()));
        if let Err(failure) = run::seed(suite, n, &tally).result {
            // A seed that fails without the bug shows nothing about it.
            planted::activate(None);
            let alone = run::seed(suite, n, &tally).result.is_ok();
            planted::activate(Some(bug));
            if !alone {
                continue;
            }
            let first = failure.text.lines().next().unwrap_or("");
            let kind = failure.kind;
            print(&format!("DONE found={} suite={} {kind:?}: {first}", n + 1, suite.name()));
            return true;
        }
    }
    print(&format!("DONE missed={PLANTED_SEEDS_MAX}"));
    true
}

/// Looks for every planted bug, or those whose name is `only`; whether each was found.
pub fn run_planted(job: &Job, only: Option<&str>) -> bool {
    let started = Instant::now();
    let wanted = |bug: &&Bug| match only {
        Some(name) => bug.name() == name,
        None => !Bug::IN_TABLES.contains(bug),
    };
    let bugs: Vec<Bug> = Bug::ALL.iter().filter(wanted).copied().collect();
    let next = AtomicU64::new(0);
    let found = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..job.jobs {
            scope.spawn(|| {
                while let Some(bug) = bugs.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                    found.fetch_add(u64::from(hunt(*bug, job, started)), Ordering::Relaxed);
                }
            });
        }
    });
    let found = found.into_inner();
    println!("planted found {found}/{} wall={}s", bugs.len(), started.elapsed().as_secs());
    found == bugs.len() as u64 && found > 0
}

fn hunt(bug: Bug, job: &Job, started: Instant) -> bool {
    let suites: Vec<&str> = job.suites.iter().map(|suite| suite.name()).collect();
    let name = bug.name();
    let arguments = ["--suite", &suites.join(","), "--planted-bug", name].map(String::from);
    let heard = match start(&arguments, started) {
        Ok(worker) => wait(worker, started),
        Err(error) => {
            println!("planted {name}: no worker: {error}");
            return false;
        }
    };
    // A worker that a bug hangs or kills has found it, at the seed where it was.
    match heard.done {
        Some(text) if text.starts_with("found=") => {
            let (seeds, rest) =
                text.trim_start_matches("found=").split_once(' ').unwrap_or(("", ""));
            let rest: String = rest.chars().take(160).collect();
            println!("planted {name} found after {seeds} seeds ({rest})");
            true
        }
        Some(text) => {
            println!("planted {name} MISSED: {text}");
            false
        }
        None if heard.at.is_empty() => {
            println!("planted {name}: the worker did nothing");
            false
        }
        None => {
            println!("planted {name} found at seed {} (the process ended or hung)", heard.at);
            true
        }
    }
}

/// Runs one seed and prints everything; whether it passed.
pub fn replay(suite: Suite, seed: u64) -> bool {
    let tally = Arc::new(Tally::default());
    let first = run::seed(suite, seed, &tally);
    let Outcome { trace_hash, result } = &first;
    println!("{} seed {seed}: trace {trace_hash:016x} {}", suite.name(), tally.text());
    let judged = result.clone().and_then(|()| run::replay(suite, seed, &first));
    match judged {
        Ok(()) => println!("well, twice the same"),
        Err(failure) => println!("{failure}"),
    }
    first.result.is_ok()
}

/// Runs all there is of T2 or T3, in this process; whether all was well.
pub fn complete(suite: Suite) -> bool {
    let tally = Arc::new(Tally::default());
    let (mut points, mut failures) = (0, 0);
    let mut note = |what: String, outcome: Result<u64, Failure>| match outcome {
        Ok(n) => points += n,
        Err(failure) => {
            failures += 1;
            println!("{what}: {failure}");
        }
    };
    let mut host = super::host::Host::default();
    match suite {
        Suite::T2 => {
            for number in 0..super::script::WORKLOADS {
                let outcome = super::boundaries::run_all(number, &mut host, &tally);
                note(format!("workload {number}"), outcome);
            }
        }
        _ => {
            for number in 0..super::script::SCENARIO_COUNT {
                for way in 0..super::failures::WAYS.len() {
                    let outcome = super::failures::run_all(number, way, &mut host, &tally);
                    note(format!("scenario {number}, way {way}"), outcome);
                }
            }
        }
    }
    println!("COMPLETE {} points={points} failures={failures} {}", suite.name(), tally.text());
    failures == 0 && points > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(seeds: u64) -> Job {
        Job { start: 0, seeds, suites: Suite::ALL.to_vec(), jobs: 1 }
    }

    #[test]
    fn a_run_in_which_nothing_happened_fails() {
        let tally = Tally::default();
        let text = |tally: &Tally| format!("seeds=500 replays=5 {}", tally.text());
        let heard = |text| Heard { done: Some(text), ..Heard::default() };
        assert!(!report(&job(500), &[heard(text(&tally))], Duration::ZERO));
        for (count, _) in COUNTS {
            tally.add(count, 1);
        }
        assert!(report(&job(500), &[heard(text(&tally))], Duration::ZERO));
        assert!(!report(&job(501), &[heard(text(&tally))], Duration::ZERO), "a seed is missing");
        let mut failed = heard(text(&tally));
        hear(&mut failed, "FAIL T1 7 Hole a\u{1}b");
        assert_eq!(failed.failures, [("T1 7".into(), Kind::Hole, "a\nb".into())]);
        assert!(!report(&job(500), &[failed], Duration::ZERO));
    }

    #[test]
    fn regression_seeds_can_be_read() {
        let lines = REGRESSIONS.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        assert_eq!(regressions().len(), lines.count());
    }
}
