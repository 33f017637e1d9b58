//! The third stock: bytes that wait for compaction.
//!
//! The sustainable intake is what compactions write a second over the amplification: the bytes
//! that an admitted byte is going to cost, written already or still owed. The debt may grow to half
//! way between the soft and the hard limit, which it approaches ever more slowly:
//!
//! ```text
//! cap = sustainable + (goal - debt) / (amplification * 20 s)
//! ```
//!
//! Beyond the goal the intake falls further, to half of what is sustainable at the hard limit, so
//! that the debt shrinks.
//!
//! Thread safety: plain data.

use super::Limit;
use super::rates::{Average, Counter, weight};
use crate::control::policy::FamilyInputs;

/// The room that is left is spent in about so many seconds.
const SPEND_SECONDS: f64 = 20.0;
/// Compaction speed and amplification are averages over about so many seconds.
const SPEED_HORIZON: f64 = 10.0;
const COST_HORIZON: f64 = 60.0;
/// Below this share of the soft limit the debt does not bind.
const FREE_SHARE: f64 = 0.5;
/// From this share on compactions are taken to be as fast as they can.
const BUSY_SHARE: f64 = 0.1;
/// What an admitted byte is taken to cost before anything is known, and at least.
const COST_FIRST: f64 = 10.0;
const COST_MIN: f64 = 1.0;

/// Between two ticks, writes make the debt grow by no more than so many memtables: those of a full
/// L0, times what each of their bytes is going to cost.
const LEAP_MEMTABLES: f64 = 256.0;

/// What a tick sees of the debt.
#[derive(Clone, Copy, Debug)]
pub(super) struct DebtLook {
    /// Seconds since the last one, and whether nobody looked for most of them.
    pub seconds: f64,
    pub rested: bool,
    /// User bytes admitted meanwhile.
    pub admitted: f64,
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
    /// None before the first tick.
    last_debt: Option<f64>,
    speed: Average,
    admitted: Average,
    cost: Average,
}

impl DebtWatch {
    /// Takes in a tick.
    pub fn learn(&mut self, look: &DebtLook) {
        let written = self.written.advance(look.written);
        let Some(before) = self.last_debt.replace(look.debt) else {
            // Both averages begin with nothing: a byte is admitted long before it costs.
            self.admitted.add(0.0, 1.0);
            self.cost.add(0.0, 1.0);
            return;
        };
        if before > BUSY_SHARE * look.soft && !look.rested {
            self.speed.add(written / look.seconds, weight(look.seconds, SPEED_HORIZON));
        }
        let w = weight(look.seconds, COST_HORIZON);
        self.admitted.add(look.admitted, w);
        // What comes in such a leap was ingested, or is counted by other limits now.
        let grown = look.debt - before;
        let leaped = grown.abs() > LEAP_MEMTABLES * look.memtable;
        self.cost.add(written + if leaped { 0.0 } else { grown }, w);
    }

    /// Bytes that compactions write for each admitted byte.
    pub fn amplification(&self) -> f64 {
        match (self.cost.get(), self.admitted.get()) {
            (Some(cost), Some(admitted)) if admitted > 0.0 && cost > 0.0 => {
                (cost / admitted).clamp(COST_MIN, 100.0)
            }
            _ => COST_FIRST,
        }
    }

    /// User bytes a second that can come in for ever.
    pub fn sustainable(&self) -> f64 {
        self.speed.get().unwrap_or(0.0) / self.amplification()
    }

    /// What the debt of a family lets in.
    pub fn limit(&self, family: &FamilyInputs) -> Option<Limit> {
        let (soft, hard) = (family.soft_bytes, family.hard_bytes);
        if !family.compacts || soft <= 0.0 || family.debt_bytes < FREE_SHARE * soft {
            return None;
        }
        let goal = goal(family);
        let room = goal - family.debt_bytes;
        let sustainable = self.sustainable();
        let cap = if room >= 0.0 {
            sustainable + room / (self.amplification() * SPEND_SECONDS)
        } else {
            let beyond = if hard > goal { (-room / (hard - goal)).min(1.0) } else { 1.0 };
            sustainable * (1.0 - beyond / 2.0)
        };
        Some(Limit { cap, room_ratio: room.max(0.0) / goal })
    }
}

/// Where the debt of a family may grow to.
pub(super) fn goal(family: &FamilyInputs) -> f64 {
    family.soft_bytes + (family.hard_bytes - family.soft_bytes).max(0.0) / 2.0
}
