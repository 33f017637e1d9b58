//! Auto-tuned compaction: compaction stops while flushes alone need the rate limiter's rate.
//!
//! A job *drains* the limiter when it has to wait for the next refill. Every 100 or more refill
//! periods the rule computes the share of periods that flushes drained, and that any job drained:
//!
//! | drained by flushes | drained at all | verdict |
//! |---|---|---|
//! | any | never | hold |
//! | below 50 % | 90 % at most | enable |
//! | 50 % and more | 90 % and more | disable |
//! | below 50 % | above 90 % | hold |
//! | 50 % and more | below 90 % | hold |
//!
//! The rule is that of M. Warlo's thesis "Auto-tuning RocksDB" (NTNU, 2018) as its code has it; the
//! shares are whole percents, rounded down. Drains are counted by the kind of job, not by the
//! priority of the request: while writes are delayed flushes and compactions have the same
//! priority.
//!
//! Thread safety: plain data.

/// The rule is applied after this many refill periods.
const PERIODS_PER_LOOK: u64 = 100;
/// Share of periods, percent, from which flushes count as busy.
const FLUSH_BUSY_PERCENT: u64 = 50;
/// Share of periods, percent, at which the limiter counts as exhausted.
const EXHAUSTED_PERCENT: u64 = 90;

/// The kind of job that had to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drainer {
    Flush,
    Compaction,
}

/// What happens to automatic compactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Enable,
    Disable,
    /// As they are.
    Hold,
}

/// The verdict on this many drains in this many refill periods.
pub(crate) fn verdict(by_flushes: u64, by_compactions: u64, periods: u64) -> Verdict {
    let percent = |drains: u64| drains.saturating_mul(100) / periods.max(1);
    let flush = percent(by_flushes);
    let total = flush.saturating_add(percent(by_compactions));
    if total == 0 {
        Verdict::Hold
    } else if total <= EXHAUSTED_PERCENT && flush < FLUSH_BUSY_PERCENT {
        Verdict::Enable
    } else if total >= EXHAUSTED_PERCENT && flush >= FLUSH_BUSY_PERCENT {
        Verdict::Disable
    } else {
        Verdict::Hold
    }
}

/// Drains since the last look.
#[derive(Clone, Debug)]
pub(crate) struct DrainWatch {
    refill_period_micros: u64,
    looked_at_micros: u64,
    by_flushes: u64,
    by_compactions: u64,
}

impl DrainWatch {
    /// Counts from `now_micros` on.
    pub fn new(refill_period_micros: u64, now_micros: u64) -> Self {
        DrainWatch {
            refill_period_micros,
            looked_at_micros: now_micros,
            by_flushes: 0,
            by_compactions: 0,
        }
    }

    /// Microseconds between looks.
    pub fn interval_micros(&self) -> u64 {
        self.refill_period_micros.saturating_mul(PERIODS_PER_LOOK)
    }

    /// A request had to wait for a refill.
    pub fn drained(&mut self, by: Drainer) {
        match by {
            Drainer::Flush => self.by_flushes += 1,
            Drainer::Compaction => self.by_compactions += 1,
        }
    }

    /// The verdict, if a look is due at `now_micros`; the count then starts again.
    pub fn look(&mut self, now_micros: u64) -> Option<Verdict> {
        let elapsed = now_micros.saturating_sub(self.looked_at_micros);
        if elapsed < self.interval_micros() {
            return None;
        }
        let periods = elapsed.div_ceil(self.refill_period_micros.max(1));
        let verdict = verdict(self.by_flushes, self.by_compactions, periods);
        self.restart(now_micros);
        Some(verdict)
    }

    /// Counts from `now_micros` on.
    pub fn restart(&mut self, now_micros: u64) {
        *self = DrainWatch::new(self.refill_period_micros, now_micros);
    }

    /// As `look`, for a timer instead of a request. If nothing drained it enables compaction, since
    /// an idle database makes no request.
    pub fn look_at_rest(&mut self, now_micros: u64) -> Option<Verdict> {
        let idle = self.by_flushes == 0 && self.by_compactions == 0;
        self.look(now_micros).map(|verdict| if idle { Verdict::Enable } else { verdict })
    }
}

#[cfg(test)]
mod tests {
    use super::Verdict::{Disable, Enable, Hold};
    use super::*;

    #[pumice_test_macros::test]
    fn the_verdicts_and_the_dead_zones() {
        for (flush, compaction, expected) in [
            (0, 0, Hold),
            (0, 1, Enable),
            (0, 90, Enable),
            (0, 91, Hold),
            (0, 100, Hold),
            (49, 0, Enable),
            (49, 41, Enable),
            (49, 42, Hold),
            (50, 0, Hold),
            (50, 39, Hold),
            (50, 40, Disable),
            (89, 0, Hold),
            (90, 0, Disable),
            (100, 0, Disable),
            (100, 100, Disable),
        ] {
            assert_eq!(verdict(flush, compaction, 100), expected, "{flush} {compaction}");
        }
        assert_eq!(verdict(u64::MAX, u64::MAX, 1), Disable);
        assert_eq!(verdict(1, 1, 0), Disable, "zero periods count as one");
    }

    /// Shares are rounded down one by one, before they are added.
    #[pumice_test_macros::test]
    fn shares_are_whole_percents() {
        assert_eq!(verdict(1, 0, 101), Hold, "0.99 % is none");
        assert_eq!(verdict(100, 81, 200), Disable, "50 and 40");
        assert_eq!(verdict(99, 83, 200), Enable, "49 and 41");
    }

    /// Recorded over a sine: the trough, the rise, the crest, the fall, and a pause.
    #[pumice_test_macros::test]
    fn a_recorded_load() {
        let mut watch = DrainWatch::new(1000, 0);
        let mut now = 0;
        let verdicts: Vec<Verdict> = [(12, 40), (38, 45), (55, 30), (61, 38), (97, 2), (45, 50)]
            .into_iter()
            .chain([(30, 41), (0, 0), (3, 2)])
            .map(|(flush, compaction)| {
                (0..flush).for_each(|_| watch.drained(Drainer::Flush));
                (0..compaction).for_each(|_| watch.drained(Drainer::Compaction));
                assert_eq!(watch.look(now + 99_999), None);
                now += 100_000;
                watch.look(now).expect("due")
            })
            .collect();
        assert_eq!(verdicts, [Enable, Enable, Hold, Disable, Disable, Hold, Enable, Hold, Enable]);
    }

    #[pumice_test_macros::test]
    fn at_rest_compaction_is_enabled() {
        let mut watch = DrainWatch::new(1000, 0);
        assert_eq!(watch.look_at_rest(99_999), None);
        assert_eq!(watch.look_at_rest(100_000), Some(Enable));
        (0..60).for_each(|_| watch.drained(Drainer::Flush));
        assert_eq!(watch.look_at_rest(200_000), Some(Hold));
    }

    /// A look that comes late counts the periods that have passed.
    #[pumice_test_macros::test]
    fn a_late_look_dilutes_the_count() {
        let mut watch = DrainWatch::new(1000, 0);
        (0..95).for_each(|_| watch.drained(Drainer::Flush));
        assert_eq!(watch.clone().look(100_000), Some(Disable));
        assert_eq!(watch.look(1_000_000), Some(Enable));
    }
}
