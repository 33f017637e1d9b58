//! The law of the third stock: bytes that wait for compaction.
//!
//! The sustainable intake is the number of bytes that compactions write per second, divided by the
//! amplification: the bytes that an admitted byte costs, written already or still owed. The debt
//! may grow to half way between the soft and the hard limit, which it approaches ever more slowly:
//!
//! ```text
//! cap = sustainable + (goal - debt) / (amplification * spend)
//! spend = goal / (4 * what compactions write a second), from 1 s to 10 s
//! ```
//!
//! So writes that come at twice the sustainable rate are let in until three quarters of the goal
//! are filled, whatever the size of the device and of the limits; where these are large, the limit
//! of 10 s applies. A young database uses everything that it has seen of its compactions: an
//! average over a fixed time would start with its first moment, in which hardly anything had been
//! written.
//!
//! Beyond the goal the intake falls further, to half of what is sustainable at the hard limit, so
//! that the debt shrinks.
//!
//! Thread safety: plain data.

use super::Limit;
use super::rates::{Average, Counter, weight};
use crate::control::policy::FamilyInputs;

/// The remaining room is spent in the time in which compactions write this share of the goal, but
/// no faster or slower than these seconds: debt grows in steps, and its rates are averages.
const SPEND_SHARE: f64 = 0.25;
const SPEND_SECONDS_MIN: f64 = 1.0;
const SPEND_SECONDS_MAX: f64 = 10.0;
/// Compaction speed and amplification are averages over about this many seconds.
const SPEED_HORIZON: f64 = 10.0;
const COST_HORIZON: f64 = 60.0;
/// Below this share of the soft limit the debt does not bind.
const FREE_SHARE: f64 = 0.5;
/// Ratio of RocksDB's default limits.
const HARD_OVER_SOFT: f64 = 4.0;
/// The future cost of data in memory counts up to this share of the debt's goal.
const PROMISED_SHARE: f64 = 0.25;
/// From this share on, compactions are assumed to run at full speed.
const BUSY_SHARE: f64 = 0.1;
/// Assumed cost of an admitted byte before anything is known, and its minimum.
const COST_FIRST: f64 = 10.0;
const COST_MIN: f64 = 1.0;

/// Between two ticks, writes make the debt grow by at most this many memtables: those of a full L0,
/// times the cost of each of their bytes.
const LEAP_MEMTABLES: f64 = 256.0;

/// The state of the debt at a tick.
#[derive(Clone, Copy, Debug)]
pub(super) struct DebtLook {
    /// Seconds since the last tick, and whether the policy rested for most of them.
    pub seconds: f64,
    pub rested: bool,
    /// The total of memtable bytes that flushes have put into tables, and how many of them a user
    /// byte becomes.
    pub flushed: f64,
    pub growth: f64,
    /// The total that compactions have written.
    pub written: f64,
    /// Debt and soft limits of all families.
    pub debt: f64,
    pub soft: f64,
    /// Bytes of the largest memtable.
    pub memtable: f64,
}

/// See the module head.
#[derive(Clone, Debug, Default)]
pub(super) struct DebtWatch {
    written: Counter,
    flushed: Counter,
    /// None before the first tick.
    last_debt: Option<f64>,
    speed: Average,
    /// Seconds that `speed` has seen, up to its horizon.
    speed_seconds: f64,
    flushed_bytes: Average,
    cost: Average,
}

impl DebtWatch {
    /// Processes a tick.
    pub fn learn(&mut self, look: &DebtLook) {
        let written = self.written.advance(look.written);
        // Data in memory has cost nothing yet.
        let flushed = self.flushed.advance(look.flushed) / look.growth;
        let Some(before) = self.last_debt.replace(look.debt) else {
            // Both averages start at zero: a byte is flushed long before all of its cost is paid.
            self.flushed_bytes.add(0.0, 1.0);
            self.cost.add(0.0, 1.0);
            return;
        };
        if before > BUSY_SHARE * look.soft && !look.rested {
            self.speed_seconds = (self.speed_seconds + look.seconds).min(SPEED_HORIZON);
            self.speed.add(written / look.seconds, weight(look.seconds, self.speed_seconds));
        }
        let w = weight(look.seconds, COST_HORIZON);
        self.flushed_bytes.add(flushed / look.seconds, w);
        // A larger jump comes from an ingestion, or from a change of limits.
        let grown = look.debt - before;
        let leaped = grown.abs() > LEAP_MEMTABLES * look.memtable;
        self.cost.add((written + if leaped { 0.0 } else { grown }) / look.seconds, w);
    }

    /// Bytes that compactions write for each admitted byte.
    pub fn amplification(&self) -> f64 {
        match (self.cost.get(), self.flushed_bytes.get()) {
            (Some(cost), Some(flushed)) if flushed > 0.0 && cost > 0.0 => {
                (cost / flushed).clamp(COST_MIN, 100.0)
            }
            _ => COST_FIRST,
        }
    }

    /// User bytes a second that can come in forever.
    pub fn sustainable(&self) -> f64 {
        self.speed.get().unwrap_or(0.0) / self.amplification()
    }

    /// Seconds in which the rest of `goal` is spent.
    fn spend_seconds(&self, goal: f64) -> f64 {
        let speed = self.speed.get().unwrap_or(0.0);
        (SPEND_SHARE * goal / speed).clamp(SPEND_SECONDS_MIN, SPEND_SECONDS_MAX)
    }

    /// The debt of a family and what its memtables will add.
    fn promised(&self, family: &FamilyInputs) -> f64 {
        let memory = family.active_bytes + family.sealed_bytes;
        let cost = memory * self.amplification();
        family.debt_bytes + cost.min(PROMISED_SHARE * goal(family))
    }

    /// The same as a share of the goal, at most 1.
    pub fn owed(&self, family: &FamilyInputs) -> f64 {
        if family.soft_bytes <= 0.0 {
            return 0.0;
        }
        (self.promised(family) / goal(family).max(1.0)).min(1.0)
    }

    /// The limit that the debt of a family sets.
    pub fn limit(&self, family: &FamilyInputs) -> Option<Limit> {
        let (soft, hard) = (family.soft_bytes, hard(family));
        if !family.compacts || soft <= 0.0 || family.debt_bytes < FREE_SHARE * soft {
            return None;
        }
        let goal = goal(family);
        let room = goal - self.promised(family);
        let sustainable = self.sustainable();
        let cap = if room >= 0.0 {
            sustainable + room / (self.amplification() * self.spend_seconds(goal))
        } else {
            let beyond = if hard > goal { (-room / (hard - goal)).min(1.0) } else { 1.0 };
            sustainable * (1.0 - beyond / 2.0)
        };
        Some(Limit { cap, room_ratio: room.max(0.0) / goal })
    }
}

/// Where the debt of a family may grow to.
fn goal(family: &FamilyInputs) -> f64 {
    family.soft_bytes + (hard(family) - family.soft_bytes).max(0.0) / 2.0
}

/// The hard limit; where nothing stops writes, as far above the soft one as by default.
fn hard(family: &FamilyInputs) -> f64 {
    if family.hard_bytes > 0.0 { family.hard_bytes } else { HARD_OVER_SOFT * family.soft_bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After two seconds of compactions their speed is averaged over these, not over their first
    /// moment.
    #[pumice_test_macros::test]
    fn a_young_database_knows_its_compactions() {
        let mut watch = DebtWatch::default();
        let mut look = DebtLook {
            seconds: 0.1,
            rested: false,
            flushed: 0.0,
            growth: 1.0,
            written: 0.0,
            debt: 500e6,
            soft: 1000e6,
            memtable: 64e6,
        };
        watch.learn(&look);
        watch.learn(&look);
        for _ in 0..20 {
            look.written += 10e6;
            watch.learn(&look);
        }
        let speed = watch.speed.get().unwrap_or(0.0);
        assert!((80e6..100e6).contains(&speed), "{speed} of 100 MB/s");
    }
}
