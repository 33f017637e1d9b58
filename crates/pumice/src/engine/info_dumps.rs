//! The long texts of the info log: the header of an open, and the periodic reports; and the samples
//! of the statistics, which are taken periodically too.
//!
//! Jobs do both at their end when they are due; if no job ends, a task does, which waits for as
//! long as the database is open. It is started only after an open has succeeded, since it keeps the
//! directory's lock.
//!
//! Thread safety: from any thread, without a lock of `db` unless stated otherwise.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use pumice_port::time;

use crate::engine::{DbInner, start_task};
use crate::options::row::OptionSet;
use crate::options::{ColumnFamilyOptions, printed};
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
            log.warn(format_args!("Options skipped in the OPTIONS file: {list}"));
        }
        log_hints(&**log, "", &*self.options());
        log_options(&**log, "Options.", &*self.options());
        printed::abilities().lines().for_each(|line| log.header(format_args!("{line}")));
        let state = self.state.lock();
        let families: Vec<_> = state.cfs.values().map(|cf| Arc::clone(&cf.data)).collect();
        drop(state);
        for cf in families {
            log.header(format_args!("--------------- Options for column family [{}]:", cf.name));
            let options: &ColumnFamilyOptions = &cf.options();
            log_hints(&**log, &cf.name, options);
            log_options(&**log, "Options.", options);
            let collectors = printed::collectors(options);
            log.header(format_args!("{:>48}: {collectors}", "Options.table_properties_collectors"));
            let table = printed::table_options(&options.table_factory);
            log.header(format_args!("{:>48}: {table}", "table_factory options"));
        }
    }

    /// `stats_dump_period_sec` or `stats_persist_period_sec` may have changed: waits for what is
    /// due next, if anything is. Does not suspend.
    pub(crate) fn watch_dumps(&self, state: &mut DbState) {
        if state.tasks.dumping {
            self.reports.dumps_changed.notify_all();
            return;
        }
        if next_due_micros(self).is_none() || self.life.shutting_down.load(Ordering::Acquire) {
            return;
        }
        let Some(db) = self.life.me.get().and_then(Weak::upgrade) else { return };
        // Without a thread only jobs do it.
        let task = move || db.keep_dumping();
        state.tasks.dumping = start_task("pumice:stats", task).is_ok();
    }

    /// Body of the task.
    fn keep_dumping(self: Arc<Self>) {
        let mut state = self.state.lock();
        loop {
            let stops = self.life.shutting_down.load(Ordering::Acquire);
            let Some(due) = next_due_micros(&self).filter(|_| !stops) else { break };
            let now = time::now_micros();
            if now < due {
                let wait = Duration::from_micros(due - now);
                state = self.reports.dumps_changed.wait_timeout(state, wait).0;
                continue;
            }
            drop(state);
            {
                let _inside = self.life.mark.enter_job(); // A close waits for this task.
                self.report_if_due();
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

    /// Dumps the reports and samples the statistics, each if it is due. Requires: no lock is held.
    pub(crate) fn report_if_due(&self) {
        let now = time::now_micros();
        let events = &self.reports.events;
        if let Some(statistics) = &self.reports.statistics
            && take_turn(&events.last_sample_micros, sample_period_micros(self), now)
        {
            self.reports.info(format_args!("------- PERSISTING STATS -------"));
            let bytes_max = self.options().stats_history_buffer_size;
            self.reports.history.sample(statistics, time::wall_seconds(), bytes_max);
        }
        if take_turn(&events.last_dump_micros, self.dump_period_micros(), now) {
            dump_stats(self, now);
        }
    }
}

/// 0: the statistics are not sampled.
fn sample_period_micros(db: &DbInner) -> u64 {
    match db.reports.statistics {
        Some(_) => u64::from(db.options().stats_persist_period_sec) * 1_000_000,
        None => 0,
    }
}

/// When a dump or a sample is due; None: never.
fn next_due_micros(db: &DbInner) -> Option<u64> {
    let events = &db.reports.events;
    let due = |last: &AtomicU64, period| match period {
        0 => None,
        period => Some(last.load(Ordering::Relaxed).saturating_add(period)),
    };
    let dump = due(&events.last_dump_micros, db.dump_period_micros());
    let sample = due(&events.last_sample_micros, sample_period_micros(db));
    dump.into_iter().chain(sample).min()
}

/// Writes the reports into the info log.
fn dump_stats(db: &DbInner, now: u64) {
    db.reports.warn(format_args!("------- DUMPING STATS -------"));
    db.reports.warn(format_args!("{}", db.reports.stats.report(now)));
    let families: Vec<_> = db.cfs.load().all().cloned().collect();
    for cf in families {
        if cf.stats.lock().wants_report() {
            let figures = db.state.lock().figures(&cf);
            db.reports.warn(format_args!("{}", figures.report(&cf)));
        }
        cf.stats.lock().end_interval(now);
    }
    if let Some(statistics) = &db.reports.statistics {
        db.reports.warn(format_args!("STATISTICS:\n{statistics}"));
    }
}

/// Whether the `period`, if there is one, has passed since `last`, which then becomes `now`: true
/// for one caller.
fn take_turn(last: &AtomicU64, period: u64, now: u64) -> bool {
    let then = last.load(Ordering::Relaxed);
    period != 0
        && now.saturating_sub(then) >= period
        && last.compare_exchange(then, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
}

/// Names the options that are set and have no effect here, if there are any.
fn log_hints<S: OptionSet>(log: &(dyn Logger + 'static), family: &str, options: &S) {
    let set: Vec<_> =
        options.hints().iter().map(|(name, value)| format!("{name}={value}")).collect();
    if !set.is_empty() {
        let list = set.join(", ");
        match family {
            "" => log.warn(format_args!("Options without effect: {list}")),
            _ => log.warn(format_args!("Options of [{family}] without effect: {list}")),
        }
    }
}

fn log_options<S: OptionSet>(log: &(dyn Logger + 'static), prefix: &str, options: &S) {
    for row in S::rows() {
        let name = format!("{prefix}{}", row.name);
        log.header(format_args!("{name:>48}: {}", row.get(options)));
    }
}
