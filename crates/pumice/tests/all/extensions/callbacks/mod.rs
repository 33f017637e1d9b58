//! What a program's own code may do while a database calls it: each kind of code calls each public
//! operation, waits, and drops the last handle. In a simulation, which finds a deadlock at once,
//! and an endless loop within a bound of virtual time.

mod errors;
mod leader;
mod life;
mod listeners;
mod operations;
mod table;

use std::sync::Once;

use pumice_port::{sim, thread};

/// Does not print intended panics.
fn expect_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let tell = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let text = thread::panic_message(info.payload());
            if text != "boom" && !text.contains("called from code that the database") {
                tell(info);
            }
        }));
    });
}

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
