//! Every entrance for bytes from outside the engine, fed with bytes that are nearly right.
//!
//! | target | what enters | judged by |
//! |---|---|---|
//! | `batch` | `WriteBatch::from_data` | accepted bytes are written and recovered unchanged |
//! | `log` | the write-ahead log, in every recovery mode | `database::exam` |
//! | `manifest` | the MANIFEST; a version edit alone | `database::exam`; decoding the encoded |
//! | `names` | CURRENT and the names in the directory | `database::exam` |
//! | `table` | a table of the database's, or from outside | `database::exam_with_a_lie` |
//! | `options` | the text of an OPTIONS file, and of single options | writing and reading again |
//!
//! Tables have further suites: `crates/table/tests/hostile`, whose changes know what each field
//! means, and `crates/pumice/tests/all/files/ingest/hostile.rs`.
//!
//! Whatever the bytes: no panic (arithmetic is checked), no request for more than 64 MiB, no case
//! that takes a minute. A mutator that knows lengths, numbers and frames changes an input of the
//! corpus: the honest and the crafted ones, which are made here, and those in `corpus`, among them
//! all that once failed. Framed contents get right checksums again, most of the time.
//!
//! A separate program, because its allocator counts the process's requests.
//!
//! A target runs the same number of cases each time, case N from seed N. `PUMICE_FUZZ=30` runs
//! thirty times as many (ten minutes or more each), `PUMICE_SEED=N` one. `PUMICE_FUZZ_KEEP=DIR`
//! writes the bytes of each case that fails there, fit for the corpus.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types, missing_docs)]

mod batch;
mod database;
mod frames;
mod log;
mod manifest;
mod mutate;
mod names;
mod options;
mod table;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pumice_base::random::Rng;
use pumice_port::sync::Mutex;
use pumice_testkit::alloc::LiveAllocator;
use pumice_testkit::seed;

#[global_allocator]
static ALLOCATOR: LiveAllocator = LiveAllocator::new();

/// No input may make the engine allocate more in one piece.
const REQUEST_MAX: usize = 64 << 20;
/// A case takes milliseconds; one that takes this long counts as endless.
const CASE_SECONDS_MAX: u64 = 60;

/// Held by every test: they count the memory of the whole process.
static ALONE: Mutex<()> = Mutex::new(());
/// Cases begun, for the watch.
static BEGUN: AtomicU64 = AtomicU64::new(0);

/// What became of a case.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Refused,
    Taken,
}

/// One entrance.
trait Target {
    /// Honest bytes.
    fn honest(&self) -> Vec<Vec<u8>>;
    /// Bytes that once caused a failure, or would if the engine trusted its input.
    fn crafted(&self) -> Vec<Vec<u8>> {
        Vec::new()
    }
    /// Changes `bytes`.
    fn change(&self, bytes: Vec<u8>, corpus: &[Vec<u8>], rng: &mut Rng) -> Vec<u8>;
    /// Lets the bytes in, and judges what becomes of it by panicking.
    fn enter(&self, bytes: &[u8], rng: &mut Rng) -> Outcome;
}

/// The files of the corpus, by name.
fn kept(name: &str) -> Vec<Vec<u8>> {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus").join(name);
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

fn keep(name: &str, seed: u64, bytes: &[u8]) {
    if let Some(dir) = std::env::var_os("PUMICE_FUZZ_KEEP") {
        let dir = PathBuf::from(dir).join(name);
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join(format!("seed-{seed}")), bytes).unwrap();
    }
}

/// Aborts the process when a case does not end.
fn watch() {
    static STARTED: std::sync::Once = std::sync::Once::new();
    STARTED.call_once(|| {
        std::thread::spawn(|| {
            let (mut last, mut same) = (0, 0);
            loop {
                std::thread::sleep(Duration::from_secs(1));
                let now = BEGUN.load(Ordering::Relaxed);
                same = if now == last && now % 2 == 1 { same + 1 } else { 0 };
                last = now;
                if same > CASE_SECONDS_MAX {
                    eprintln!("case {} does not end", now / 2);
                    std::process::abort();
                }
            }
        });
    });
}

/// Runs one case; false, and its bytes kept, if it failed.
fn case(
    name: &str,
    target: &dyn Target,
    seed: u64,
    bytes: &[u8],
    rng: &mut Rng,
) -> Option<Outcome> {
    ALLOCATOR.begin();
    BEGUN.fetch_add(1, Ordering::Relaxed);
    let run = catch_unwind(AssertUnwindSafe(|| target.enter(bytes, rng)));
    BEGUN.fetch_add(1, Ordering::Relaxed);
    let largest = ALLOCATOR.largest();
    if let (Ok(outcome), true) = (&run, largest <= REQUEST_MAX) {
        return Some(*outcome);
    }
    println!("{name}: seed {seed} failed, {} bytes, largest request {largest}", bytes.len());
    keep(name, seed, bytes);
    None
}

/// Runs `cases` cases of a target, multiplied by the environment's factor.
fn fuzz(name: &str, target: &dyn Target, cases: u64) {
    let _alone = ALONE.lock();
    watch();
    let times = std::env::var("PUMICE_FUZZ").map_or(1, |n| n.parse::<u64>().unwrap());
    let honest = target.honest();
    let mut corpus = honest.clone();
    corpus.extend(target.crafted());
    corpus.extend(kept(name));
    let mut failed = Vec::new();
    for (at, bytes) in corpus.iter().enumerate() {
        let outcome = case(name, target, at as u64, bytes, &mut Rng::new(at as u64));
        assert!(outcome.is_some(), "corpus entry {at}, unchanged");
        assert!(at >= honest.len() || outcome == Some(Outcome::Taken), "honest {at} is refused");
    }
    let (mut refused, mut taken) = (0, 0);
    for seed in seed::range(cases * times) {
        let mut rng = Rng::new(seed);
        let picked = corpus[rng.uniform(corpus.len() as u64) as usize].clone();
        let bytes = target.change(picked, &corpus, &mut rng);
        match case(name, target, seed, &bytes, &mut rng) {
            Some(Outcome::Refused) => refused += 1,
            Some(Outcome::Taken) => taken += 1,
            None => failed.push(seed),
        }
    }
    println!("{name}: {refused} refused, {taken} taken");
    assert!(failed.is_empty(), "{name}: seeds {failed:?}");
    // If all cases were refused, or all accepted, the test would show nothing.
    assert!(seed::wanted().is_some() || refused > 0 && taken > 0);
}

#[pumice_test_macros::test]
fn batches() {
    fuzz("batch", &batch::Batch, 4_000);
}

#[pumice_test_macros::test]
fn logs() {
    fuzz("log", &log::Log::new(), 1_200);
}

#[pumice_test_macros::test]
fn manifests() {
    fuzz("manifest", &manifest::Manifest::new(), 1_200);
}

#[pumice_test_macros::test]
fn version_edits() {
    fuzz("edit", &manifest::Edit, 40_000);
}

#[pumice_test_macros::test]
fn names_of_files() {
    fuzz("names", &names::Names::new(), 800);
}

#[pumice_test_macros::test]
fn tables() {
    fuzz("table", &table::Table::new(), 1_000);
}

#[pumice_test_macros::test]
fn texts_of_options() {
    fuzz("options", &options::Text, 3_000);
}
