//! Statistics and perf contexts.

use std::sync::Arc;

use pumice::Statistics;
use pumice::perf::{self, PerfLevel};
use pumice::stats::StatsLevel;
use pumice_binding::statistics;
use pumice_binding::store::Plain;

use crate::ffi::generated::rocksdb_statistics_histogram_data_t;
use crate::ffi::into::{Copied, New};
use crate::ffi::macros::c_api;
use crate::ffi::types::{Options, PerfContext};

fn level(number: i32) -> StatsLevel {
    match number {
        ..=0 => StatsLevel::DisableAll,
        1 => StatsLevel::ExceptHistogramOrTimers,
        2 => StatsLevel::ExceptTimers,
        3 => StatsLevel::ExceptDetailedTimers,
        4 => StatsLevel::ExceptTimeForMutex,
        5.. => StatsLevel::All,
    }
}

/// RocksDB counts from the start; the engine when it is asked to. A program that asked for nothing
/// is at `Uninitialized` here.
fn count() {
    if perf::level() == PerfLevel::Disable {
        perf::set_level(PerfLevel::EnableCount);
    }
}

fn of(options: &Options) -> Option<&Arc<Statistics>> {
    options.values.engine.db.statistics.as_ref()
}

c_api! {
    fn rocksdb_options_enable_statistics(options: &mut Options) {
        options.values.engine.db.statistics = Some(Arc::new(Statistics::new()));
    }

    fn rocksdb_options_set_statistics_level(options: &mut Options, number: i32) {
        if let Some(statistics) = of(options) {
            statistics.set_level(level(number));
        }
    }

    fn rocksdb_options_get_statistics_level(options: &Options) -> i32 {
        of(options).map_or(0, |statistics| statistics.level() as i32)
    }

    fn rocksdb_options_statistics_get_string(options: &Options) -> Option<Copied> {
        of(options).map(|statistics| Copied::of(statistics.to_string().as_bytes()))
    }

    fn rocksdb_options_statistics_get_ticker_count(options: &Options, ticker: u32) -> u64 {
        of(options).map_or(0, |counts| statistics::ticker(counts, ticker))
    }

    fn rocksdb_options_statistics_get_histogram_data(
        options: &Options, histogram: u32, data: &mut rocksdb_statistics_histogram_data_t
    ) {
        if let Some(counts) = of(options) {
            *data = Plain(statistics::histogram(counts, histogram));
        }
    }

    fn rocksdb_set_perf_level(number: i32) {
        let level = u8::try_from(number).ok().and_then(PerfLevel::from_number);
        // Told apart from a thread that never chose: see `count`.
        let chosen = level.filter(|level| *level != PerfLevel::Disable);
        perf::set_level(chosen.unwrap_or(PerfLevel::Uninitialized));
    }

    fn rocksdb_perfcontext_create() -> New<PerfContext> {
        count();
        New(PerfContext::default())
    }

    fn rocksdb_perfcontext_reset(_context: &PerfContext) {
        count();
        perf::reset();
    }

    fn rocksdb_perfcontext_report(_context: &PerfContext, exclude_zero_counters: bool) -> Copied {
        Copied::of(perf::context().report(exclude_zero_counters).as_bytes())
    }

    fn rocksdb_perfcontext_metric(_context: &PerfContext, metric: i32) -> u64 {
        u32::try_from(metric).map_or(0, |metric| perf::context().by_number(metric))
    }
}
