//! Properties that are texts, laid out as RocksDB lays them out.

use std::sync::Arc;

use pumice_cache::StatsAge;
use pumice_port::time;

use crate::engine::DbInner;
use crate::state::property_texts::cache_view;
use crate::stats::cf_stats::{self, CfView, LevelView};
use crate::version::family::CfData;

impl DbInner {
    /// Zeroes what the reports are made of.
    pub(crate) fn reset_stats(&self) {
        self.reports.stats.reset(time::now_micros());
        let state = self.state.lock();
        let families: Vec<_> = state.cfs.values().map(|cf| cf.data.clone()).collect();
        drop(state);
        families.iter().for_each(|cf| cf.stats.reset());
    }

    /// `rocksdb.cfstats`.
    pub(crate) fn cf_report(&self, cf: &CfData) -> String {
        self.with_view(cf, |view| cf.stats.lock().report(view))
    }

    /// `rocksdb.cfstats-no-file-histogram`.
    pub(super) fn cf_report_without_latencies(&self, cf: &CfData) -> String {
        self.with_view(cf, |view| cf.stats.lock().report_without_latencies(view))
    }

    /// `rocksdb.cf-file-histogram`. Reads are not timed by level, so that it has no histograms.
    pub(super) fn latency_report(&self, cf: &CfData) -> String {
        self.with_view(cf, cf_stats::read_latency_report)
    }

    /// `rocksdb.levelstats`.
    pub(super) fn level_report(&self, cf: &CfData) -> String {
        cf_stats::level_report(&self.level_views(cf))
    }

    fn with_view(&self, cf: &CfData, report: impl FnOnce(&CfView<'_>) -> String) -> String {
        let levels = self.level_views(cf);
        let pending = {
            let state = self.state.lock();
            state.cfs.get(&cf.id).map_or(0, |cf| cf.plan.estimated_pending_bytes())
        };
        let cache =
            cf.table_options().block_cache.as_ref().map(|cache| cache_view(cache, StatsAge::ASIDE));
        report(&CfView {
            cf_name: &cf.name,
            now_micros: time::now_micros(),
            levels: &levels,
            estimated_pending_compaction_bytes: pending,
            block_cache: cache.as_ref(),
            read_latencies: &[],
        })
    }

    fn level_views(&self, cf: &CfData) -> Vec<LevelView> {
        let version = Arc::clone(&cf.super_version.load().version);
        let state = self.state.lock();
        let plan = state.cfs.get(&cf.id).map(|cf| &cf.plan);
        let view = |level: usize| LevelView {
            files: version.num_level_files(level),
            being_compacted: version.files(level).iter().filter(|f| f.is_being_compacted()).count(),
            bytes: version.level_bytes(level),
            score: plan.map_or(0.0, |plan| plan.score(level)),
        };
        (0..version.num_levels()).map(view).collect()
    }
}
