//! Runs bodies inside simulations and sums up their traces.
//!
//! Thread safety: one host per seed and thread.

use pumice_port::sim::{self, Schedule};

use super::verdict::{Failure, Kind};

/// See the module head.
#[derive(Debug, Default)]
pub struct Host {
    /// Sums up every choice of every simulation so far.
    pub trace_hash: u64,
    /// Steps of all simulations so far.
    pub steps: u64,
}

impl Host {
    /// Runs `body` in a simulation whose choices follow from `seed`.
    ///
    /// # Errors
    /// What `body` found wrong; a panic; a run that cannot end, with what every task waits for.
    pub fn run<T>(
        &mut self,
        seed: u64,
        body: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut options = sim::Options::new(seed);
        options.schedule = match seed % 4 {
            0 => Schedule::PriorityChange { depth: 1 + (seed / 4 % 3) as u32 },
            _ => Schedule::Uniform,
        };
        options.preempt_per_mille = [0, 5, 20, 100][(seed / 16 % 4) as usize];
        let (report, outcome) = sim::run(&options, body);
        self.steps += report.steps;
        self.trace_hash = self.trace_hash.rotate_left(7) ^ report.trace_hash;
        let tasks = || report.stuck.as_ref().map_or(String::new(), ToString::to_string);
        match outcome {
            Ok(result) if report.stuck.is_none() => result,
            Ok(_) => Err(Failure::new(Kind::Stuck, format!("tasks never end:\n{}", tasks()))),
            Err(sim::Failure::Panic(text)) => {
                Err(Failure::new(Kind::Wrong, format!("panicked: {text}")))
            }
            Err(other) => Err(Failure::new(Kind::Stuck, format!("{other:?}:\n{}", tasks()))),
        }
    }
}
