//! The long texts of the info log: what an open starts with, and the reports from time to time.
//!
//! Thread safety: from any thread, without a lock of `db`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pumice_env::filename::{self, FileType};
use pumice_port::time;

use crate::engine::DbInner;
use crate::options::ColumnFamilyOptions;
use crate::options::row::OptionSet;
use crate::stats::Logger;

impl DbInner {
    /// Writes the lines that every info log starts with: who, where, with which options.
    pub(crate) fn log_open_header(&self) {
        let Some(log) = &self.info_log else { return };
        log.header(format_args!("Pumice version: {}", env!("CARGO_PKG_VERSION")));
        // What scripts written for RocksDB look for: its words, our version.
        log.header(format_args!("RocksDB version: Pumice-{}", env!("CARGO_PKG_VERSION")));
        log.header(format_args!("Git sha {}", option_env!("PUMICE_GIT_SHA").unwrap_or("unknown")));
        log.header(format_args!("DB SUMMARY"));
        log.header(format_args!("Host name (Env):  {}", self.host_id()));
        log.header(format_args!("DB Session ID:  {}", self.session_id));
        log.header(format_args!("DB ID:  {}", self.db_id));
        self.log_directory(&**log);
        let skipped = &self.options().skipped_options;
        if !skipped.is_empty() {
            let list = skipped.join(", ");
            log.warn(format_args!("Options of the OPTIONS file that are skipped: {list}"));
        }
        log_options(&**log, "Options.", &*self.options());
        let state = self.state.lock();
        let families: Vec<_> = state.cfs.values().map(|cf| Arc::clone(&cf.data)).collect();
        drop(state);
        for cf in families {
            log.header(format_args!("--------------- Options for column family [{}]:", cf.name));
            let options: &ColumnFamilyOptions = &cf.options();
            log_options(&**log, "Options.", options);
            log_options(&**log, "", &options.table_factory);
        }
    }

    /// A line for each kind of file in the directory; one that cannot be read has no lines.
    fn log_directory(&self, log: &(dyn Logger + 'static)) {
        let Ok(names) = self.fs.list(&self.path) else { return };
        let mut tables = 0;
        for name in &names {
            match filename::parse(name) {
                Some((_, FileType::Table)) => tables += 1,
                Some((_, FileType::Current)) => log.header(format_args!("CURRENT file:  {name}")),
                Some((_, FileType::Identity)) => log.header(format_args!("IDENTITY file:  {name}")),
                Some((_, FileType::Descriptor)) => {
                    log.header(format_args!("MANIFEST file:  {name}"));
                }
                Some((_, FileType::Wal)) => {
                    log.header(format_args!("Write Ahead Log file:  {name}"));
                }
                _ => {}
            }
        }
        let dir = self.path.display();
        log.header(format_args!("SST files in {dir} dir, Total Num: {tables}"));
    }

    /// Writes the reports into the info log when `stats_dump_period_sec` has passed since the last
    /// time. Called when jobs end: a database at rest has nothing new to report.
    pub(crate) fn dump_stats_if_due(&self) {
        let period = u64::from(self.options().stats_dump_period_sec) * 1_000_000;
        let last = self.events.last_dump_micros.load(Ordering::Relaxed);
        let now = time::now_micros();
        if period == 0 || self.info_log.is_none() || now.saturating_sub(last) < period {
            return;
        }
        let mine = self.events.last_dump_micros.compare_exchange(
            last,
            now,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        if mine.is_err() {
            return;
        }
        self.warn(format_args!("------- DUMPING STATS -------"));
        self.warn(format_args!("{}", self.stats.report(now)));
        let families: Vec<_> = self.cfs.load().all().cloned().collect();
        for cf in families {
            self.warn(format_args!("{}", self.cf_report(&cf)));
            cf.stats.lock().end_interval(now);
        }
        if let Some(statistics) = &self.statistics {
            self.warn(format_args!("STATISTICS:\n{statistics}"));
        }
    }
}

fn log_options<S: OptionSet>(log: &(dyn Logger + 'static), prefix: &str, options: &S) {
    for row in S::rows() {
        let name = format!("{prefix}{}", row.name);
        log.header(format_args!("{name:>48}: {}", row.get(options)));
    }
}
