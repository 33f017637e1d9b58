//! A compaction filter whose calls are timed, for `rocksdb.filter.operation.time.nanos`.
//!
//! Thread safety: as the filter; the counter is the statistics'.

use std::sync::Arc;

use pumice_base::WideColumn;
use pumice_base::extension::{CompactionFilter, FilterDecision};
use pumice_port::time::now_nanos;

use crate::stats::{Statistics, Ticker};

struct Timed {
    filter: Arc<dyn CompactionFilter>,
    statistics: Arc<Statistics>,
}

/// `filter`, timed if the statistics level asks for it.
pub(super) fn timed(
    filter: Arc<dyn CompactionFilter>,
    statistics: Option<&Arc<Statistics>>,
) -> Arc<dyn CompactionFilter> {
    match statistics.filter(|statistics| statistics.wants_detailed_timers()) {
        Some(statistics) => Arc::new(Timed { filter, statistics: Arc::clone(statistics) }),
        None => filter,
    }
}

impl Timed {
    fn time<T>(&self, call: impl FnOnce(&dyn CompactionFilter) -> T) -> T {
        let start = now_nanos();
        let answer = call(&*self.filter);
        let nanos = now_nanos().saturating_sub(start);
        self.statistics.record_tick(Ticker::FilterOperationTotalTime, nanos);
        answer
    }
}

impl CompactionFilter for Timed {
    fn name(&self) -> &str {
        self.filter.name()
    }
    fn filter(&self, level: i32, key: &[u8], value: &[u8]) -> FilterDecision {
        self.time(|filter| filter.filter(level, key, value))
    }
    fn filter_entity(&self, level: i32, key: &[u8], columns: &[WideColumn<'_>]) -> FilterDecision {
        self.time(|filter| filter.filter_entity(level, key, columns))
    }
    fn filter_blob_by_key(&self, level: i32, key: &[u8]) -> Option<FilterDecision> {
        self.time(|filter| filter.filter_blob_by_key(level, key))
    }
    fn filter_merge_operand(&self, level: i32, key: &[u8], operand: &[u8]) -> bool {
        self.time(|filter| filter.filter_merge_operand(level, key, operand))
    }
}
