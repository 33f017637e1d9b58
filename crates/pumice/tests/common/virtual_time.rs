//! Simulations with a virtual clock: days cost nothing, and every moment is exact.
//!
//! Plain functions for plain tests: a simulation is a runtime of its own.

use std::ops::Range;
use std::time::Duration;

use pumice_port::sim;
use pumice_port::thread::sleep;

/// Seconds.
pub const DAY: u64 = 24 * 3600;

/// Runs `test` in a simulation of each seed, of at most 200 days.
pub fn simulate(seeds: Range<u64>, test: impl Fn(u64) + Send + Sync + Clone + 'static) {
    for seed in seeds {
        println!("seed {seed}");
        let options = sim::Options {
            max_virtual_nanos: 200 * DAY * 1_000_000_000,
            ..sim::Options::new(seed)
        };
        let test = test.clone();
        let (report, outcome) = sim::run(&options, move || test(seed));
        let stuck = report.stuck.map_or(String::new(), |stuck| stuck.to_string());
        assert!(outcome.is_ok(), "seed {seed}: {outcome:?}\n{stuck}");
    }
}

/// Lets so many virtual seconds pass.
pub fn pass(seconds: u64) {
    sleep(Duration::from_secs(seconds));
}
