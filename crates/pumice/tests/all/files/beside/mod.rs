//! Two processes in one directory, in simulations over one in-memory disk, whose file locks both
//! see.

mod failed_open;
mod pairs;
mod read_only;
mod two_checkpoints;

use pumice_port::sim;

/// Runs `body` in the simulation of `seed`.
fn simulate(seed: u64, what: &str, body: impl FnOnce() + Send + 'static) {
    let options = sim::Options {
        max_virtual_nanos: 600 * 1_000_000_000,
        max_steps: 5_000_000,
        ..sim::Options::new(seed)
    };
    let (report, outcome) = sim::run(&options, body);
    let stuck = report.stuck.map_or(String::new(), |stuck| stuck.to_string());
    assert!(outcome.is_ok(), "{what}, seed {seed}: {outcome:?}\n{stuck}");
}
