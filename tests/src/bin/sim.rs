//! The simulation suites as a program.
use std::sync::Arc;
use pumice_tests::sim::{life, verdict::Tally};
fn main() {
    let args: Vec<u64> = std::env::args().skip(1).filter_map(|a| a.parse().ok()).collect();
    let tally = Arc::new(Tally::default());
    let start = pumice_port::time::process_cpu_micros();
    for seed in args[0]..args[1] {
        eprintln!("at {seed}");
        if let Err(failure) = life::run(seed, &tally) {
            println!("seed {seed}: {failure}");
        }
    }
    println!("{} cpu {} ms", tally.text(), (pumice_port::time::process_cpu_micros() - start) / 1000);
}
