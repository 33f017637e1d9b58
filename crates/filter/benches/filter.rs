//! The cost of filters per key: adding, building, querying.
//!
//! `cargo bench -p pumice-filter --bench filter [-- WORD [KEYS]]` runs the lines whose name has
//! WORD in it, each the median over interleaved rounds. Sizes: 3,000 keys are a partition, 100,000
//! a small table. Instructions per key:
//!
//! ```text
//! valgrind --tool=callgrind --callgrind-out-file=/dev/null BINARY callgrind LINE KEYS REPEATS
//! ```
//!
//! once with one repeat and once with two: the difference over KEYS is the cost of one key, without
//! the set-up; for the lines "finish" it includes "add by block". BINARY is the path that
//! `cargo bench --no-run` prints.
#![allow(missing_docs)]

use pumice_filter::{FilterBuildSettings, FilterBuilder, FilterPolicy, FilterReader};
use pumice_port::time::now_nanos;
use std::hint::black_box;
use std::rc::Rc;

const ROUNDS: usize = 5;
const SIZES: [usize; 4] = [3_000, 100_000, 1_000_000, 10_000_000];
/// Keys of one data block of db_bench: 16 bytes of key and 100 of value in 4 KiB.
const BLOCK: usize = 32;
const KEY: usize = 16;
const PREFIX: usize = 8;
const LINES: [&str; 12] = [
    "bloom add one by one",
    "bloom add by block",
    "bloom add with prefix one by one",
    "bloom add with prefix by block",
    "bloom finish",
    "bloom query absent",
    "bloom query present",
    "legacy add by block",
    "legacy finish",
    "ribbon finish",
    "ribbon query absent",
    "ribbon query present",
];

/// Keys of db_bench, back to back as in blocks, and in order as in a table.
fn keys(first: usize, count: usize) -> Rc<Vec<u8>> {
    let mut bytes = Vec::with_capacity(count * KEY);
    for i in first..first + count {
        bytes.extend_from_slice(&(i as u64).to_be_bytes());
        bytes.extend_from_slice(b"00000000");
    }
    Rc::new(bytes)
}

fn builder(line: &str) -> FilterBuilder {
    let (policy, format_version) = match line.split(' ').next() {
        Some("ribbon") => (FilterPolicy::ribbon(10.0, -1), 5),
        Some("legacy") => (FilterPolicy::bloom(10.0), 4),
        _ => (FilterPolicy::bloom(10.0), 5),
    };
    let settings = FilterBuildSettings::new(format_version);
    policy.builder(&settings).expect("the policy has bits")
}

fn with_prefix(key: &[u8]) -> (&[u8], Option<&[u8]>) {
    (key, Some(&key[..PREFIX]))
}

/// The state of one benchmark line before the clock starts.
struct Case {
    line: &'static str,
    present: Rc<Vec<u8>>,
    absent: Rc<Vec<u8>>,
    builder: FilterBuilder,
    filter: Vec<u8>,
}

impl Case {
    fn new(line: &'static str, present: &Rc<Vec<u8>>, absent: &Rc<Vec<u8>>) -> Self {
        let (present, absent) = (Rc::clone(present), Rc::clone(absent));
        let mut builder = builder(line);
        builder.add_keys(present.chunks(KEY));
        let filter = builder.finish().expect("memory is intact");
        Case { line, present, absent, builder, filter }
    }

    fn add(&mut self, line: &str) {
        let builder = &mut self.builder;
        match line {
            "add one by one" => self.present.chunks(KEY).for_each(|key| builder.add_key(key)),
            "add by block" => {
                for block in self.present.chunks(KEY * BLOCK) {
                    builder.add_keys(block.chunks(KEY));
                }
            }
            "add with prefix one by one" => {
                for key in self.present.chunks(KEY) {
                    builder.add_key_and_alt(key, &key[..PREFIX]);
                }
            }
            _ => {
                for block in self.present.chunks(KEY * BLOCK) {
                    builder.add_keys_and_alts(block.chunks(KEY).map(with_prefix));
                }
            }
        }
    }

    /// Nanoseconds of one run of what the line measures.
    fn run(&mut self) -> f64 {
        let (_, what) = self.line.split_once(' ').expect("kind and what");
        if what == "finish" {
            self.add("add by block");
        }
        let start = now_nanos();
        match what {
            "finish" => {
                black_box(self.builder.finish().expect("memory is intact"));
            }
            "query absent" | "query present" => {
                let reader = FilterReader::new(&self.filter);
                let keys = if what == "query absent" { &self.absent } else { &self.present };
                let matches = |key: &&[u8]| reader.may_match(&self.filter, key);
                black_box(keys.chunks(KEY).filter(matches).count());
            }
            _ => self.add(what),
        }
        let nanos = (now_nanos() - start) as f64;
        // The next round starts without entries and keeps the memory.
        self.builder.forget_entries();
        nanos
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let args: Vec<_> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    if let [word, line, count, repeats] = args.as_slice()
        && word == "callgrind"
    {
        let line = LINES.iter().find(|known| *known == line).expect("a line");
        let count = count.parse().expect("a number");
        let mut case = Case::new(line, &keys(0, count), &keys(count, count));
        (0..repeats.parse().expect("a number")).for_each(|_| {
            case.run();
        });
        return;
    }
    let word = args.first().cloned().unwrap_or_default();
    let only: Option<usize> = args.get(1).map(|count| count.parse().expect("a number"));
    let counts = only.map_or(SIZES.to_vec(), |only| vec![only]);
    for count in counts {
        let (present, absent) = (keys(0, count), keys(count, count));
        let chosen = LINES.iter().filter(|line| line.contains(&word));
        let mut cases: Vec<_> =
            chosen.map(|line| (Case::new(line, &present, &absent), Vec::new())).collect();
        // Small sizes are repeated within a round.
        let repeats = (300_000 / count).max(1);
        for _ in 0..ROUNDS {
            for (case, nanos) in &mut cases {
                let sum: f64 = (0..repeats).map(|_| case.run()).sum();
                nanos.push(sum / (repeats * count) as f64);
            }
        }
        for (case, nanos) in cases {
            println!("{:<34} {count:>9} keys {:>7.1} ns/key", case.line, median(nanos));
        }
    }
}
