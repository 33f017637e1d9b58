//! Every option at its edges: a value that a row of the option tables accepts must work, alone and
//! with any other, at open and as a change of an open database; a refusal names the option.
//!
//! | test | runs |
//! |---|---|
//! | `single_edges_work` | a seeded sample of options at one edge each |
//! | `pairs_of_edges_work` | a seeded sample of two options at an edge each |
//! | `edges_of_numbers_of_threads_work_on_threads` | those of thread counts, on real threads |
//! | `calls_end_whatever_options_become` | calls that wait while options change (`waiting`) |
//! | `refusals_name_the_option` | every value that is refused, every unsupported row |
//!
//! `PUMICE_EDGES=singles` runs every edge of every option both ways, `PUMICE_EDGES=20000` 20,000
//! pairs and as many calls that wait, `PUMICE_EDGES=max_open_files` the edges of the options whose
//! names contain that; `PUMICE_SEED` selects the pairs. `PUMICE_EDGES_TELL=1` prints each case
//! before it runs, to find one that ends the process.
//!
//! A case is a life in a simulation (`life`): its clock is virtual, so a write rate of a byte per
//! second costs nothing, and a life that is stuck is reported with what every task waits for.
//!
//! Plain `#[test]`: a simulation is its own runtime.
#![allow(clippy::unwrap_used)]

mod life;
mod values;
mod waiting;

use life::{Case, Change, live};
use pumice_base::random::Rng;
use pumice_testkit::seed;
use values::{Subject, subjects};
use waiting::Waiting;

/// Lives in the sample of singles, in addition to the ends of each option, and in the sample of
/// pairs.
const SINGLES: usize = 200;
const PAIRS: u64 = 400;
/// Databases whose options change under calls that wait.
const WAITING: u64 = 400;

/// Options that decide how many threads there are, or the settings of a new thread.
const THREADS: &[&str] = &[
    "compression_opts.parallel_threads",
    "max_background_compactions",
    "max_background_flushes",
    "max_background_jobs",
    "max_file_opening_threads",
    "max_subcompactions",
];

/// What the environment requests.
fn wanted() -> Option<String> {
    std::env::var("PUMICE_EDGES").ok()
}

/// Options that choose between ways of doing things; pairs meet in some of those, too.
const KINDS: &[&str] = &[
    "block_align",
    "cache_index_and_filter_blocks",
    "comparator",
    "compaction_style",
    "compression",
    "compression_opts.max_dict_bytes",
    "compression_opts.parallel_threads",
    "data_block_index_type",
    "disable_auto_compactions",
    "filter_policy",
    "format_version",
    "index_type",
    "level_compaction_dynamic_level_bytes",
    "manual_wal_flush",
    "memtable_factory",
    "no_block_cache",
    "partition_filters",
    "prefix_extractor",
];

/// Runs a life and says what is wrong with it.
fn run(case: &Case, seed: u64, failures: &mut Vec<String>) {
    if std::env::var_os("PUMICE_EDGES_TELL").is_some() {
        eprintln!("case {seed}: {case}");
    }
    if let Err(error) = live(case, seed) {
        failures.push(format!("{seed}: {case}: {error}"));
    }
}

fn judge(cases: u64, failures: &[String], test: &str, seed: u64) {
    println!("EDGES cases={cases} failures={}", failures.len());
    let hint = seed::replay_hint(test, seed);
    let list = failures.iter().take(400).cloned().collect::<Vec<_>>().join("\n");
    assert!(failures.is_empty(), "{} of {cases} fail ({hint})\n{list}", failures.len());
}

/// Every accepted edge, when the database is opened and while it is open.
fn singles(subjects: &[Subject]) -> Vec<Case> {
    let mut cases = Vec::new();
    for subject in subjects {
        for value in &subject.accepted {
            let change = vec![subject.change(value)];
            cases.push(Case { open: change.clone(), running: Vec::new() });
            if subject.mutable {
                cases.push(Case { open: Vec::new(), running: change });
            }
        }
    }
    cases
}

/// A random edge of a random one of `subjects`, and whether it may change in an open database.
fn pick(rng: &mut Rng, subjects: &[&Subject]) -> (Change, bool) {
    let subject = subjects[rng.uniform(subjects.len() as u64) as usize];
    let value = &subject.accepted[rng.uniform(subject.accepted.len() as u64) as usize];
    (subject.change(value), subject.mutable)
}

/// Two options at an edge each, and up to two kinds that they meet in.
fn pair(seed: u64, all: &[&Subject], kinds: &[&Subject]) -> Case {
    let mut rng = Rng::new(seed);
    let (one, two) = (pick(&mut rng, all), pick(&mut rng, all));
    let mut case = Case::default();
    let running = one.1 && two.1 && rng.one_in(2);
    let mut names = vec![one.0.name.clone()];
    let place = if running { &mut case.running } else { &mut case.open };
    place.push(one.0);
    if !names.contains(&two.0.name) {
        names.push(two.0.name.clone());
        place.push(two.0);
    }
    for _ in 0..rng.uniform(3) {
        let (kind, _) = pick(&mut rng, kinds);
        if !names.contains(&kind.name) {
            names.push(kind.name.clone());
            case.open.push(kind);
        }
    }
    case
}

// Plain #[test]: a simulation is a runtime of its own.
#[test]
fn single_edges_work() {
    let subjects = subjects();
    let mut cases = singles(&subjects);
    let total = cases.len();
    let seed = seed::wanted().unwrap_or(1);
    match wanted() {
        Some(word) if word == "singles" => {}
        Some(word) if word.parse::<u64>().is_ok() => return,
        Some(word) => cases
            .retain(|case| case.open.iter().chain(&case.running).any(|c| c.name.contains(&word))),
        None => {
            // The ends of each option, and a sample of the rest by the seed.
            Rng::new(seed).shuffle(&mut cases);
            cases.truncate(SINGLES);
            let ends = subjects.iter().flat_map(|subject| {
                let ends = [subject.accepted.first(), subject.accepted.last()];
                let change = |value: &String| vec![subject.change(value)];
                let case = |open| Case { open, running: Vec::new() };
                ends.into_iter().flatten().map(change).map(case).collect::<Vec<_>>()
            });
            cases.extend(ends);
            cases.truncate(seed::share(cases.len() as u64) as usize);
        }
    }
    println!("{} options, {total} single edges, {} run", subjects.len(), cases.len());
    let mut failures = Vec::new();
    cases.iter().for_each(|case| run(case, seed, &mut failures));
    judge(cases.len() as u64, &failures, "single_edges_work", seed);
}

// Plain #[test]: a simulation is a runtime of its own.
#[test]
fn pairs_of_edges_work() {
    let count = match wanted().map(|word| word.parse::<u64>()) {
        None => seed::share(PAIRS),
        Some(Ok(count)) => count,
        Some(Err(_)) => return,
    };
    let subjects = subjects();
    let all: Vec<&Subject> = subjects.iter().collect();
    let is_kind = |subject: &&Subject| KINDS.contains(&subject.name.as_str());
    let kinds: Vec<&Subject> = subjects.iter().filter(is_kind).collect();
    assert_eq!(kinds.len(), KINDS.len());
    let first = seed::wanted().unwrap_or(1);
    let mut failures = Vec::new();
    for seed in first..first + count {
        run(&pair(seed, &all, &kinds), seed, &mut failures);
    }
    judge(count, &failures, "pairs_of_edges_work", first);
}

// Plain #[test]: a simulation is a runtime of its own.
#[test]
fn calls_end_whatever_options_become() {
    let count = match wanted().map(|word| word.parse::<u64>()) {
        None => seed::share(WAITING),
        Some(Ok(count)) => count,
        Some(Err(_)) => return,
    };
    let subjects = subjects();
    let mutable: Vec<&Subject> = subjects.iter().filter(|subject| subject.mutable).collect();
    let first = seed::wanted().unwrap_or(1);
    let mut failures = Vec::new();
    for seed in first..first + count {
        let case = Waiting::draw(seed, &mutable);
        let told = format!("{case:?}");
        if let Err(error) = case.run(seed) {
            failures.push(format!("{seed}: {told}: {error}"));
        }
    }
    judge(count, &failures, "calls_end_whatever_options_become", first);
}

/// Outside a simulation, where a thread is a thread.
#[pumice_test_macros::test]
fn edges_of_numbers_of_threads_work_on_threads() {
    let mut cases = 0;
    let mut failures = Vec::new();
    for subject in subjects().iter().filter(|subject| THREADS.contains(&subject.name.as_str())) {
        let ends = [subject.accepted.first().unwrap(), subject.accepted.last().unwrap()];
        for value in ends.into_iter().chain(subject.accepted.iter().step_by(9)) {
            let case = Case { open: vec![subject.change(value)], running: Vec::new() };
            cases += 1;
            if let Err(error) = life::life(&case, 1) {
                failures.push(format!("{case}: {error}"));
            }
        }
    }
    judge(cases, &failures, "edges_of_numbers_of_threads_work_on_threads", 1);
}

#[pumice_test_macros::test]
fn refusals_name_the_option() {
    let mut refused = 0;
    for subject in subjects() {
        for (value, error) in &subject.refused {
            let plain = subject.name.split('.').next().unwrap();
            assert!(error.contains(plain), "{}={value}: {error}", subject.name);
            refused += 1;
        }
    }
    assert!(refused > 500, "only {refused} refusals");
    for (name, error) in values::unsupported() {
        assert!(error.contains("Not implemented") && error.contains(name), "{name}: {error}");
    }
}
