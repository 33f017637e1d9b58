//! Hostile tables: tables of every kind are changed where a reader might trust them, and get right
//! checksums again, as a broken writer or an attacker might produce.
//!
//! Whatever the bytes say, reading ends in an error or in a plausible answer: no panic, no endless
//! walk, no more reads than the file has blocks, no disproportionate memory. Walks in both
//! directions show the same, and a seek lands on the right side of its target.
//!
//! | file | holds |
//! |---|---|
//! | `kinds` | the honest tables |
//! | `anatomy` | where their fields are; sealing |
//! | `damage` | changes by seed |
//! | `exam` | reading in every way, and judging |
//! | `forge` | tables put together from any blocks |
//! | `properties` | the properties, rewritten one by one |
//! | `cases` | former failures, and attacks of a size that no seed makes |
//!
//! A separate program, because its allocator counts the process's requests.
//!
//! `PUMICE_SEED=N` runs one seed, `PUMICE_HOSTILE=N` runs N seeds of each test
//! that draws (30,000, and 800 of `properties`).
#![allow(clippy::unwrap_used, missing_docs)]

mod anatomy;
mod cases;
mod damage;
mod exam;
mod forge;
mod kinds;
mod properties;
#[path = "../support/mod.rs"]
mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};

use pumice_base::random::Rng;
use pumice_port::sync::Mutex;
use pumice_testkit::alloc::LiveAllocator;
use pumice_testkit::seed;

use anatomy::Anatomy;
use damage::damage;
use exam::{Caching, Findings, examine};

#[global_allocator]
static ALLOCATOR: LiveAllocator = LiveAllocator::new();

/// No block may make a reader allocate more at once.
const REQUEST_MAX: usize = 64 << 20;
/// Nor may a small table use more in total.
const MEMORY_MAX: usize = 160 << 20;
const SEEDS: u64 = 30_000;

/// Held by every test: they count the memory of the whole process.
static ALONE: Mutex<()> = Mutex::new(());

const CACHINGS: [Caching; 3] = [Caching::None, Caching::Large, Caching::Tiny];

fn seeds(usual: u64) -> std::ops::Range<u64> {
    let count = std::env::var("PUMICE_HOSTILE").ok().map(|n| n.parse().unwrap());
    seed::range(count.unwrap_or(usual))
}

/// Runs `work` and checks what memory it took.
fn within_memory<T>(what: &str, most: usize, work: impl FnOnce() -> T) -> T {
    let before = ALLOCATOR.begin();
    let done = work();
    let (largest, peak) = (ALLOCATOR.largest(), ALLOCATOR.peak().saturating_sub(before));
    assert!(largest <= REQUEST_MAX, "{what}: a request for {largest} bytes");
    assert!(peak <= most, "{what}: {peak} bytes in all");
    done
}

#[pumice_test_macros::test]
fn hostile_tables_end_in_errors_or_answers() {
    let _alone = ALONE.lock();
    let honest = kinds::all();
    let anatomies: Vec<Anatomy> = honest.iter().map(Anatomy::of).collect();
    for table in &honest {
        for caching in CACHINGS {
            let found = examine(table, &table.bytes, caching, &mut Rng::new(1));
            assert!(found.opened && found.errors == 0, "{} {caching:?}: {found:?}", table.name);
        }
    }
    let (mut refused, mut opened, mut failed) = (0, 0, Vec::new());
    let mut sum = Findings::default();
    for seed in seeds(SEEDS) {
        let mut rng = Rng::new(seed);
        let number = rng.uniform(honest.len() as u64) as usize;
        let (table, anatomy) = (&honest[number], &anatomies[number]);
        let mut bytes = table.bytes.clone();
        let told = damage(&mut bytes, anatomy, &mut rng);
        let caching = CACHINGS[rng.uniform(3) as usize];
        let exam =
            || within_memory("exam", MEMORY_MAX, || examine(table, &bytes, caching, &mut rng));
        match catch_unwind(AssertUnwindSafe(exam)) {
            Ok(found) if found.opened => {
                opened += 1;
                sum.errors += found.errors;
                sum.tried += found.tried;
            }
            Ok(_) => refused += 1,
            Err(_) => {
                println!("seed {seed}, {} {caching:?}, {told}", table.name);
                failed.push(seed);
            }
        }
    }
    println!("{refused} refused, {opened} opened, {} of {} failed", sum.errors, sum.tried);
    assert!(failed.is_empty(), "seeds {failed:?}");
    if seed::wanted().is_none() {
        // Damage that is never detected, or always, would prove nothing.
        assert!(refused > 0 && opened > 0 && sum.errors > 0 && sum.errors < sum.tried);
    }
}
