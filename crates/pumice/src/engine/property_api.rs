//! Properties: what `Db::property` answers, by RocksDB's names.
//!
//! RocksDB's names start with `rocksdb.`, our own with `pumice.` (`write-group-size`: a histogram
//! of batches per write group; `write-group-helpers`: of members that inserted concurrently with
//! their leader, in groups in which some were asked to; `wal-syncs`; `table-builds`: codecs and
//! helpers). A name without either, an unknown one, and one that has no value here give None, as
//! does a property that needs state which a dropped column family no longer has.
//! `estimate-oldest-key-time` never has a value: RocksDB knows it for FIFO compaction only.
//!
//! Thread safety: from any thread. Numbers are read one by one and may be inconsistent with each
//! other. May open table files and so suspend.

use std::collections::BTreeMap;
use std::sync::Arc;

use pumice_cache::StatsAge;
use pumice_port::time;

use crate::engine::DbInner;
use crate::state::properties::{
    aggregated, cache_number, database_number, estimate_num_keys, family_number, file_number,
    level_property, memtable_number,
};
use crate::state::property_texts;
use crate::version::family::CfData;
use crate::version::super_version::SuperVersion;

/// Start of RocksDB's names.
const PREFIX: &str = "rocksdb.";
/// Start of names that RocksDB does not have.
const OWN_PREFIX: &str = "pumice.";

impl DbInner {
    /// The property `name` of `cf`, or of the database.
    pub(crate) fn property(&self, cf: &Arc<CfData>, name: &str) -> Option<String> {
        self.life.check_caller().ok()?;
        if let Some(name) = name.strip_prefix(OWN_PREFIX) {
            return self.reports.own_property(name);
        }
        let name = name.strip_prefix(PREFIX)?;
        let view = cf.super_version.load_full();
        self.text_property(cf, &view, name).or_else(|| {
            memtable_number(&view, name)
                .or_else(|| file_number(cf, &view, name))
                .or_else(|| cache_number(cf, name))
                .or_else(|| self.state_number(cf, name))
                .map(|number| number.to_string())
        })
    }

    /// The property `name` of `cf` as names and values; None if it has no such form.
    pub(crate) fn property_map(
        &self,
        cf: &Arc<CfData>,
        name: &str,
    ) -> Option<BTreeMap<String, String>> {
        self.life.check_caller().ok()?;
        match name.strip_prefix(PREFIX)? {
            "block-cache-entry-stats" => property_texts::block_cache_map(cf, StatsAge::ASKED),
            "fast-block-cache-entry-stats" => property_texts::block_cache_map(cf, StatsAge::ASIDE),
            "background-lanes" => Some(self.background.lanes.map()),
            "dbstats" => Some(self.reports.db_map()),
            "cfstats" => {
                let figures = self.state.lock().figures(cf);
                Some(figures.map(cf))
            }
            name => {
                let sum = aggregated(cf, &cf.super_version.load_full(), name)?;
                Some(property_texts::properties_map(&sum))
            }
        }
    }

    /// Numbers that the state lock guards, or that are the whole database's.
    fn state_number(&self, cf: &CfData, name: &str) -> Option<u64> {
        let number = match name {
            "num-snapshots" => self.snapshots.len() as u64,
            "oldest-snapshot-time" => self.snapshots.oldest_seconds(),
            "oldest-snapshot-sequence" => self.snapshots.sequences().first().copied().unwrap_or(0),
            "background-errors" => self.reports.events.background_errors(),
            "actual-delayed-write-rate" => self.writes.controller.delayed_rate(),
            "is-write-stopped" => u64::from(self.writes.controller.is_stopped()),
            _ => {
                let state = self.state.lock();
                let of_database = database_number(&state, name);
                let of_family = || family_number(state.cfs.get(&cf.id)?, name);
                return of_database.or_else(of_family);
            }
        };
        Some(number)
    }

    fn text_property(&self, cf: &Arc<CfData>, view: &SuperVersion, name: &str) -> Option<String> {
        let figures = || self.state.lock().figures(cf);
        let text = match name {
            "stats" => figures().report(cf) + &self.reports.db_report(),
            "cfstats" => figures().report(cf),
            "cfstats-no-file-histogram" => figures().report_without_latencies(cf),
            "cf-file-histogram" => figures().latency_report(cf),
            "cf-write-stall-stats" => cf.stats.lock().stalls.report(),
            "dbstats" => self.reports.db_report(),
            "bg-controller" => self.background.regulator.report(self.options().background_policy),
            "background-lanes" => self.background.lanes.report(),
            "levelstats" => figures().level_report(),
            "block-cache-entry-stats" => property_texts::block_cache_report(cf, StatsAge::ASKED)?,
            "fast-block-cache-entry-stats" => {
                property_texts::block_cache_report(cf, StatsAge::ASIDE)?
            }
            "blob-stats" => property_texts::blob_view(&view.version).report(),
            "sstables" => property_texts::files_report(cf, view),
            "options-statistics" => self.reports.statistics.as_ref()?.to_string(),
            "estimate-num-keys" => estimate_num_keys(cf, view).to_string(),
            _ => {
                let sum = aggregated(cf, view, name);
                let text = sum.map(|sum| property_texts::properties_text(&sum));
                return text.or_else(|| level_property(cf, view, name));
            }
        };
        Some(text)
    }

    /// Resets the counters of the reports.
    pub(crate) fn reset_stats(&self) {
        self.reports.stats.reset(time::now_micros());
        let state = self.state.lock();
        let families: Vec<_> = state.cfs.values().map(|cf| cf.data.clone()).collect();
        drop(state);
        families.iter().for_each(|cf| cf.stats.reset());
    }
}
