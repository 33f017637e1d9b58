//! Statistics as receiver of the outcome of requests to a rate limiter.
//!
//! Thread safety: as [`Statistics`].

use pumice_env::{IoKind, RateLimiterEvents};

use super::names::{HistogramKind, Ticker};
use super::statistics::Statistics;

impl RateLimiterEvents for Statistics {
    fn drained(&self) {
        self.record_tick(Ticker::NumberRateLimiterDrains, 1);
    }

    fn granted(&self, kind: IoKind, bytes: u64, waited_micros: Option<u64>) {
        use Ticker::*;
        let (requests, granted, delayed, waited, histogram) = match kind {
            IoKind::Read => (
                RateLimiterRequestsRead,
                RateLimiterBytesRead,
                RateLimiterDelayedRequestsRead,
                RateLimiterTotalWaitMicrosRead,
                HistogramKind::RateLimiterWaitMicrosRead,
            ),
            IoKind::Write => (
                RateLimiterRequestsWrite,
                RateLimiterBytesWrite,
                RateLimiterDelayedRequestsWrite,
                RateLimiterTotalWaitMicrosWrite,
                HistogramKind::RateLimiterWaitMicrosWrite,
            ),
        };
        self.record_tick(requests, 1);
        self.record_tick(granted, bytes);
        if let Some(micros) = waited_micros {
            self.record_tick(delayed, 1);
            self.record_tick(waited, micros);
            self.measure(histogram, micros);
        }
    }
}
