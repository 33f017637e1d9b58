//! One seed: which suite it belongs to, running it, and running it again.

use std::sync::Arc;

use super::host::Host;
use super::verdict::{Failure, Kind, Tally};
use super::{boundaries, failures, life, ring, txn};

/// A suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Suite {
    /// Random lives.
    T1,
    /// Crashes at boundaries.
    T2,
    /// Failing operations.
    T3,
    /// Transactions.
    Txn,
    /// The ring.
    Ring,
}

impl Suite {
    /// All of them.
    pub const ALL: [Suite; 5] = [Suite::T1, Suite::T2, Suite::T3, Suite::Txn, Suite::Ring];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Suite::T1 => "T1",
            Suite::T2 => "T2",
            Suite::T3 => "T3",
            Suite::Txn => "T-txn",
            Suite::Ring => "T-ring",
        }
    }
    /// The suite with that name.
    pub fn by_name(name: &str) -> Option<Suite> {
        Suite::ALL.into_iter().find(|suite| suite.name() == name)
    }
    /// The suite among `wanted` that runs `seed`: mostly lives, sometimes one of the others.
    ///
    /// # Panics
    /// `wanted` is empty.
    pub fn of(seed: u64, wanted: &[Suite]) -> Suite {
        let usual = match seed % 16 {
            0..7 => Suite::T1,
            7 | 8 => Suite::Txn,
            9..12 => Suite::T2,
            12..15 => Suite::T3,
            _ => Suite::Ring,
        };
        let other = wanted[(seed % wanted.len() as u64) as usize];
        if wanted.contains(&usual) { usual } else { other }
    }
}

/// What became of a seed.
#[derive(Debug)]
pub struct Outcome {
    /// Sums up every choice and every step.
    pub trace_hash: u64,
    /// What was wrong.
    pub result: Result<(), Failure>,
}

/// Runs a seed of a suite.
pub fn seed(suite: Suite, seed: u64, tally: &Arc<Tally>) -> Outcome {
    let mut host = Host::default();
    let result = match suite {
        Suite::T1 => host.run(seed, || life::run(seed, tally)),
        Suite::T2 => boundaries::run(seed, &mut host, tally),
        Suite::T3 => failures::run(seed, &mut host, tally),
        Suite::Txn => host.run(seed, || txn::run(seed, tally)),
        Suite::Ring => ring::run(seed, tally).map(|digest| host.trace_hash = digest),
    };
    Outcome { trace_hash: host.trace_hash, result }
}

/// Runs a seed that was run before and must do the same.
///
/// # Errors
/// It did something else.
pub fn replay(suite: Suite, number: u64, first: &Outcome) -> Result<(), Failure> {
    let second = seed(suite, number, &Arc::default());
    if second.trace_hash == first.trace_hash && second.result == first.result {
        return Ok(());
    }
    let (a, b) = (first.trace_hash, second.trace_hash);
    let text =
        format!("trace {a:016x}, then {b:016x}; {:?}, then {:?}", first.result, second.result);
    Err(Failure::new(Kind::Replay, text))
}
