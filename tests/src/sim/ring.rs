//! T-ring: the table in which the io_uring reactor keeps its operations, under a seeded kernel that
//! completes late, out of order and partially. The model is port's own; here it is one more suite.

use pumice_port::io::model;

use super::verdict::{Count, Failure, Kind, Tally};

/// Runs the model of `seed`.
///
/// # Errors
/// What the model found wrong.
pub fn run(seed: u64, tally: &Tally) -> Result<u64, Failure> {
    match model::run(seed) {
        Ok(report) => {
            tally.add(Count::RingOps, report.operations);
            Ok(report.trace_hash)
        }
        Err(text) => Err(Failure::new(Kind::Wrong, text)),
    }
}
