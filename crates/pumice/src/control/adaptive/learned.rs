//! What the policy has learned about a database's writes: how much comes in, and how much of it
//! reaches memtables and files.
//!
//! Thread safety: plain data.

use std::collections::BTreeMap;

use super::rates::{Average, Counter, weight};
use crate::control::policy::{FamilyInputs, Totals};

/// A burst is remembered for about this many seconds, to tell whether a cap could bind.
const DEMAND_SECONDS: f64 = 600.0;
/// The admitted rate is an average over about this many seconds.
const ADMITTED_HORIZON: f64 = 1.0;
/// User bytes after which older ones count half.
const GROWTH_WINDOW: f64 = 64.0 * 1024.0 * 1024.0;
/// Share that the newest file has in the average.
const FILE_WEIGHT: f64 = 0.2;
/// A family's share of all writes is the larger of two averages, over about this many seconds, and
/// at least this much: all writes may go to it next.
const SHARE_HORIZON: f64 = 10.0;
const SHARE_NOW_HORIZON: f64 = 0.5;
const SHARE_MIN: f64 = 0.02;

/// The largest group is remembered for about this many seconds.
const UNPAID_SECONDS: f64 = 60.0;

/// See the module head.
#[derive(Clone, Debug, Default)]
pub(super) struct Learned {
    admitted: Counter,
    admitted_rate: Average,
    peak: f64,
    unpaid: f64,
    memory: Counter,
    window_admitted: f64,
    window_grown: f64,
    flushed: Counter,
    flushes: Counter,
    file_bytes: Average,
    families: BTreeMap<u32, Family>,
}

/// Writes to the memtables of one family.
#[derive(Clone, Debug, Default)]
struct Family {
    in_memory: f64,
    /// Bytes a second.
    grows: Average,
    grows_now: Average,
}

impl Learned {
    /// Processes a tick of `seconds` in which one group added at most `unpaid` bytes unpaid.
    pub fn learn_unpaid(&mut self, seconds: f64, unpaid: f64) {
        let faded = self.unpaid * (1.0 - weight(seconds, UNPAID_SECONDS));
        self.unpaid = faded.max(unpaid);
    }

    /// User bytes that one group may add at once, whatever the cap.
    pub fn unpaid(&self) -> f64 {
        self.unpaid
    }

    /// Processes a tick of `seconds`.
    pub fn learn(&mut self, seconds: f64, totals: &Totals, families: &[FamilyInputs]) {
        self.learn_shares(seconds, families);
        let in_memory: f64 = families.iter().map(|f| f.active_bytes + f.sealed_bytes).sum();
        let admitted = self.admitted.advance(totals.admitted);
        let faded = self.peak * (1.0 - weight(seconds, DEMAND_SECONDS));
        self.peak = faded.max(admitted / seconds);
        if self.admitted_rate.get().is_none() {
            // Writes of the first milliseconds do not give a rate per second.
            self.admitted_rate.add(0.0, 1.0);
        }
        self.admitted_rate.add(admitted / seconds, weight(seconds, ADMITTED_HORIZON));
        self.window_grown += self.memory.advance(totals.flush.drained + in_memory);
        self.window_admitted += admitted;
        if self.window_admitted > GROWTH_WINDOW {
            self.window_grown /= 2.0;
            self.window_admitted /= 2.0;
        }
        let bytes = self.flushed.advance(totals.flush.drained);
        let files = self.flushes.advance(totals.flushes);
        if files > 0.0 {
            self.file_bytes.add(bytes / files, FILE_WEIGHT);
        }
    }

    fn learn_shares(&mut self, seconds: f64, families: &[FamilyInputs]) {
        self.families.retain(|id, _| families.iter().any(|f| f.id == *id));
        for family in families {
            let now = family.active_bytes + family.sealed_bytes;
            let known = self.families.entry(family.id).or_default();
            let before = std::mem::replace(&mut known.in_memory, now);
            // Less than before: a flush ended, which says nothing about new writes.
            if now >= before {
                let rate = (now - before) / seconds;
                known.grows.add(rate, weight(seconds, SHARE_HORIZON));
                known.grows_now.add(rate, weight(seconds, SHARE_NOW_HORIZON));
            }
        }
    }

    /// The share of all writes that goes to family `id`, one of `count`.
    pub fn share(&self, id: u32, count: usize) -> f64 {
        if count <= 1 {
            return 1.0;
        }
        let of = |average: fn(&Family) -> Average| {
            let all: f64 = self.families.values().filter_map(|f| average(f).get()).sum();
            let own = self.families.get(&id).and_then(|f| average(f).get());
            own.map_or(1.0, |own| if all > 0.0 { own / all } else { 1.0 })
        };
        of(|f| f.grows).max(of(|f| f.grows_now)).clamp(SHARE_MIN, 1.0)
    }

    /// User bytes a second that are admitted now, on average.
    pub fn admitted_rate(&self) -> f64 {
        self.admitted_rate.get().unwrap_or(0.0)
    }

    /// The highest rate of user bytes a second that was admitted recently.
    pub fn peak(&self) -> f64 {
        self.peak
    }

    /// Memtable bytes that a user byte becomes.
    pub fn growth(&self) -> f64 {
        if self.window_admitted < 1.0 {
            return 1.0;
        }
        (self.window_grown / self.window_admitted).clamp(0.1, 100.0)
    }

    /// Memtable bytes in a file of L0.
    pub fn file_bytes(&self) -> Option<f64> {
        self.file_bytes.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A burst of one memtable in the first 5 ms does not predict the rate per second.
    #[pumice_test_macros::test]
    fn the_first_look_is_no_rate_of_a_second() {
        let mut learned = Learned::default();
        let mut totals = Totals { admitted: 1.3e6, ..Totals::default() };
        learned.learn(0.005, &totals, &[]);
        for _ in 0..100 {
            totals.admitted += 0.2e6;
            learned.learn(0.01, &totals, &[]);
        }
        assert!(learned.admitted_rate() < 20e6, "{}", learned.admitted_rate());
    }
}
