//! RocksDB's rule by which an auto-tuned limiter moves its rate (since 5.9).
//!
//! The limiter counts *drains*: times that a request had to wait for a refill. Every 100 refill
//! periods, but only when a request comes, the rate goes up or down by 5 % with the share of
//! periods that drained it, between a twentieth of the maximum and the maximum.
//!
//! The rule is RocksDB's with its weaknesses, so that both can be compared: no timer, so a limiter
//! that was idle falls to a twentieth at its next request and needs some ten minutes to come back;
//! it counts drains and not bytes; the maximum is fixed, so a rate set by hand lasts until the next
//! tuning. The adaptive policy does not use it.
//!
//! Thread safety: pure functions on plain data.

/// Tuning happens after this many refill periods.
const PERIODS_PER_TUNING: u64 = 100;
/// Below this share of drained periods, percent, the rate goes down.
const LOW_WATERMARK_PERCENT: u64 = 50;
/// Above this share of drained periods, percent, the rate goes up.
const HIGH_WATERMARK_PERCENT: u64 = 90;
/// Steps of the rate, percent.
const STEP_PERCENT: u64 = 5;
/// The lowest rate is this part of the maximum.
const RANGE_FACTOR: u64 = 20;

/// The state of an auto-tuned limiter.
#[derive(Clone, Debug)]
pub(super) struct AutoTune {
    rate_max: u64,
    refill_period_micros: u64,
    tuned_at_micros: u64,
    drains: u64,
}

impl AutoTune {
    pub(super) fn new(rate_max: u64, refill_period_micros: u64, now_micros: u64) -> Self {
        AutoTune { rate_max, refill_period_micros, tuned_at_micros: now_micros, drains: 0 }
    }

    /// The rate that tuning starts from.
    pub(super) fn initial_rate(&self) -> u64 {
        (self.rate_max / 2).max(1)
    }

    /// A request had to wait for a refill.
    pub(super) fn drained(&mut self) {
        self.drains += 1;
    }

    /// The new rate, when a request comes at `now_micros` and tuning is due.
    pub(super) fn tune(&mut self, rate: u64, now_micros: u64) -> Option<u64> {
        let elapsed = now_micros.saturating_sub(self.tuned_at_micros);
        if elapsed < self.refill_period_micros.saturating_mul(PERIODS_PER_TUNING) {
            return None;
        }
        let periods = elapsed.div_ceil(self.refill_period_micros).max(1);
        let drained_percent = self.drains.saturating_mul(100) / periods;
        self.tuned_at_micros = now_micros;
        self.drains = 0;
        Some(next_rate(rate, self.rate_max, drained_percent))
    }
}

/// The rate after a tuning in which `drained_percent` of the refill periods were drained.
fn next_rate(rate: u64, rate_max: u64, drained_percent: u64) -> u64 {
    let lowest = (rate_max / RANGE_FACTOR).max(1);
    let scaled = |numerator: u64, denominator: u64| {
        let wide = u128::from(rate) * u128::from(numerator) / u128::from(denominator);
        u64::try_from(wide).unwrap_or(u64::MAX)
    };
    match drained_percent {
        0 => lowest,
        p if p < LOW_WATERMARK_PERCENT => scaled(100, 100 + STEP_PERCENT).max(lowest),
        p if p > HIGH_WATERMARK_PERCENT => scaled(100 + STEP_PERCENT, 100).min(rate_max),
        _ => rate,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[pumice_test_macros::test]
    fn the_watermarks_decide() {
        let max = 1_000_000;
        for (percent, expected) in [
            (0, 50_000),
            (1, 476_190),
            (49, 476_190),
            (50, 500_000),
            (90, 500_000),
            (91, 525_000),
            (100, 525_000),
        ] {
            assert_eq!(next_rate(500_000, max, percent), expected, "{percent} %");
        }
        assert_eq!(next_rate(990_000, max, 100), max);
        assert_eq!(next_rate(50_001, max, 10), 50_000);
        assert_eq!(next_rate(u64::MAX, u64::MAX, 100), u64::MAX);
        assert_eq!(next_rate(1, 1, 0), 1);
    }

    #[pumice_test_macros::test]
    fn tuning_waits_for_a_hundred_periods() {
        let mut tune = AutoTune::new(1000, 10, 0);
        assert_eq!(tune.tune(500, 999), None);
        (0..95).for_each(|_| tune.drained());
        assert_eq!(tune.tune(500, 1000), Some(525));
        assert_eq!(tune.tune(525, 1999), None, "the count starts again");
        assert_eq!(tune.tune(525, 2000), Some(50), "idle falls to the lowest rate at once");
    }

    /// From the lowest rate it takes 62 tunings to come back: some ten minutes with the default
    /// period of 100 ms.
    #[pumice_test_macros::test]
    fn the_climb_from_idle_takes_minutes() {
        let (max, mut rate, mut tunings) = (380_000_000, 19_000_000, 0);
        while rate < max {
            rate = next_rate(rate, max, 100);
            tunings += 1;
        }
        assert_eq!(tunings, 62);
    }
}
