//! The long texts of the info log: the header of an open, and the periodic reports.
//!
//! Jobs dump the reports at their end when these are due; if no job ends, a task does, which waits
//! for as long as the database is open. It is started only after an open has succeeded, since it
//! keeps the directory's lock.
//!
//! Thread safety: from any thread, without a lock of `db` unless said.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use pumice_port::time;

use crate::engine::{DbInner, start_task};
use crate::options::ColumnFamilyOptions;
use crate::options::row::OptionSet;
use crate::state::DbState;
use crate::stats::Logger;
use crate::version::identity;

impl DbInner {
    /// Writes the lines that every info log starts with: version, directory, options.
    pub(crate) fn log_open_header(&self) {
        let Some(log) = &self.reports.info_log else { return };
        log.header(format_args!("Pumice version: {}", env!("CARGO_PKG_VERSION")));
        // Scripts written for RocksDB look for these: its words, our version.
        log.header(format_args!("RocksDB version: Pumice-{}", env!("CARGO_PKG_VERSION")));
        log.header(format_args!("Git sha {}", option_env!("PUMICE_GIT_SHA").unwrap_or("unknown")));
        log.header(format_args!("DB SUMMARY"));
        log.header(format_args!("Host name (Env):  {}", identity::host_id(&self.options())));
        log.header(format_args!("DB Session ID:  {}", self.dir.session_id));
        log.header(format_args!("DB ID:  {}", self.dir.db_id));
        self.dir.log_directory(&**log);
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

    /// `stats_dump_period_sec` may have changed: waits for the next dump, if there is one. Does not
    /// suspend.
    pub(crate) fn watch_dumps(&self, state: &mut DbState) {
        if state.tasks.dumping {
            self.reports.dumps_changed.notify_all();
            return;
        }
        if self.dump_period_micros() == 0 || self.life.shutting_down.load(Ordering::Acquire) {
            return;
        }
        let Some(db) = self.life.me.get().and_then(Weak::upgrade) else { return };
        // Without a thread only jobs dump.
        let task = move || db.keep_dumping();
        state.tasks.dumping = start_task("pumice:stats", task).is_ok();
    }

    /// Body of the task.
    fn keep_dumping(self: Arc<Self>) {
        let mut state = self.state.lock();
        loop {
            let period = self.dump_period_micros();
            if period == 0 || self.life.shutting_down.load(Ordering::Acquire) {
                break;
            }
            let due =
                self.reports.events.last_dump_micros.load(Ordering::Relaxed).saturating_add(period);
            let now = time::now_micros();
            if now < due {
                let wait = Duration::from_micros(due - now);
                state = self.reports.dumps_changed.wait_timeout(state, wait).0;
                continue;
            }
            drop(state);
            {
                let _inside = self.life.mark.enter_job(); // A close waits for this task.
                self.dump_stats_if_due();
            }
            state = self.state.lock();
        }
        state.tasks.dumping = false;
        self.changed.notify_all();
    }

    /// 0: reports are not dumped.
    fn dump_period_micros(&self) -> u64 {
        match self.reports.info_log {
            Some(_) => u64::from(self.options().stats_dump_period_sec) * 1_000_000,
            None => 0,
        }
    }

    /// Writes the reports into the info log when `stats_dump_period_sec` has passed since the last
    /// time. Requires: no lock is held.
    pub(crate) fn dump_stats_if_due(&self) {
        let period = self.dump_period_micros();
        let last = self.reports.events.last_dump_micros.load(Ordering::Relaxed);
        let now = time::now_micros();
        if period == 0 || now.saturating_sub(last) < period {
            return;
        }
        let mine = self.reports.events.last_dump_micros.compare_exchange(
            last,
            now,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        if mine.is_err() {
            return;
        }
        self.reports.warn(format_args!("------- DUMPING STATS -------"));
        self.reports.warn(format_args!("{}", self.reports.stats.report(now)));
        let families: Vec<_> = self.cfs.load().all().cloned().collect();
        for cf in families {
            if cf.stats.lock().wants_report() {
                let figures = self.state.lock().figures(&cf);
                self.reports.warn(format_args!("{}", figures.report(&cf)));
            }
            cf.stats.lock().end_interval(now);
        }
        if let Some(statistics) = &self.reports.statistics {
            self.reports.warn(format_args!("STATISTICS:\n{statistics}"));
        }
    }
}

fn log_options<S: OptionSet>(log: &(dyn Logger + 'static), prefix: &str, options: &S) {
    for row in S::rows() {
        let name = format!("{prefix}{}", row.name);
        log.header(format_args!("{name:>48}: {}", row.get(options)));
    }
}
