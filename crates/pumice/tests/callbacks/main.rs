//! What a program's own code may do while a database calls it: each kind of code calls back into
//! each public operation, waits, and lets go of the last handle. In a simulation: who waits for
//! himself is found at once, and what takes for ever within a bound of virtual time.
#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;
mod listeners;

use pumice_port::sim;

/// Runs `body` in the simulation of `seed`.
fn simulate(seed: u64, what: &str, body: impl FnOnce() + Send + 'static) {
    let options = sim::Options {
        max_virtual_nanos: 600 * 1_000_000_000,
        max_steps: 2_000_000,
        ..sim::Options::new(seed)
    };
    let (report, outcome) = sim::run(&options, body);
    let stuck = report.stuck.map_or(String::new(), |stuck| stuck.to_string());
    assert!(outcome.is_ok(), "{what}, seed {seed}: {outcome:?}\n{stuck}");
}
