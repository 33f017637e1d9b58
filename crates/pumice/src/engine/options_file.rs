//! The OPTIONS file, and changing options while the database is open.
//!
//! The file lists exactly the live column families and is rewritten whenever they or an option
//! change (docs/format/options.md): written under a temporary name, synced, renamed. The MANIFEST
//! lock orders the writers. After a failure it is tried again by the next call that creates or
//! drops a family, by `resume` and by a close.

use std::sync::Arc;

use pumice_base::{Error, Result};
use pumice_env::filename;

use crate::engine::DbInner;
use crate::engine::compaction_tuning::check_tuned;
use crate::state::lanes::check_priority;
use crate::version::family::CfData;
use crate::version::table_cache::TableCache;

/// Writes the OPTIONS file if the last attempt failed. Opening a database by the old file would
/// miss a family that was created or an option that was changed, and expect a family that was
/// dropped.
///
/// # Errors
/// I/O.
pub(crate) fn renew(db: &DbInner) -> Result<()> {
    let stale = db.state.lock().files.options_stale;
    if stale { db.write_options_file() } else { Ok(()) }
}

/// As [`renew`]; a failure is logged only, and the next call tries again.
pub(crate) fn try_renew(db: &DbInner) {
    if let Err(error) = renew(db) {
        db.reports.warn(format_args!("Unable to persist options: {error}"));
    }
}

impl DbInner {
    /// Writes a new OPTIONS file, which replaces the previous one.
    ///
    /// # Errors
    /// I/O.
    pub(crate) fn write_options_file(&self) -> Result<()> {
        let manifest = self.manifest.lock();
        manifest.check_open()?;
        let number = self.new_file_number();
        let families: Vec<(String, _)> = {
            let mut state = self.state.lock();
            state.files.options_stale = true;
            let live = state.cfs.values().filter(|cf| !cf.data.is_dropped());
            live.map(|cf| (cf.data.name.clone(), cf.data.options())).collect()
        };
        let listed: Vec<_> = families.iter().map(|(name, o)| (name.as_str(), &**o)).collect();
        let text = crate::options::options_file_bytes(&self.options(), &listed);
        let temp = filename::temp_options_file(&self.dir.path, number);
        let how = self.options().metadata_file();
        let written = pumice_env::write_file_with(&*self.dir.fs, &temp, &text, true, &how);
        written.inspect_err(|_| self.deleter().delete_file(&temp))?;
        let renamed = self.dir.fs.rename(&temp, &filename::options_file(&self.dir.path, number));
        renamed.inspect_err(|_| self.deleter().delete_file(&temp))?;
        self.dir.fs.sync_dir(&self.dir.path)?;
        let mut state = self.state.lock();
        state.files.options_stale = false;
        let old = std::mem::replace(&mut state.files.options_file_number, number);
        if old != 0 {
            state.files.obsolete.file(filename::options_file(&self.dir.path, old));
        }
        drop((state, manifest));
        self.delete_obsolete_files();
        Ok(())
    }

    /// Changes mutable options of a column family. Also while writes are stopped: what stops them
    /// may be an option. Suspends.
    ///
    /// # Errors
    /// InvalidArgument naming the option that is unknown, immutable or out of bounds; nothing
    /// changes then.
    pub(crate) fn set_cf_options(&self, cf: &Arc<CfData>, changes: &[(&str, &str)]) -> Result<()> {
        self.check_writable()?;
        check_not_empty(changes)?;
        if cf.is_dropped() {
            return Err(Error::column_family_dropped(cf.name.clone()));
        }
        {
            // From reading the options to storing them, so that of two changes neither is lost.
            let _changing = self.settings.change.lock();
            let changed = cf.options().with_changes(changes)?.sanitized()?;
            check_tuned(&self.options(), &changed)?;
            let table = Arc::new(changed.table_options()?);
            let tables = Arc::new(TableCache::new(
                Arc::clone(&self.resources.open_tables),
                Arc::clone(&table),
                cf.table_keys.icmp.clone(),
                (cf.id, &cf.name, &changed),
            ));
            let mut state = self.state.lock();
            let Some(family) = state.cfs.get_mut(&cf.id) else {
                return Err(Error::column_family_dropped(cf.name.clone()));
            };
            family.set_options(changed, table, tables);
            // The next write notices if that makes it full.
            family.mem.set_write_buffer_bytes(cf.options().write_buffer_size);
            self.background.refresh_tuning(&state, self.options().background_policy);
            if let Some(family) = state.cfs.get_mut(&cf.id) {
                self.scheduler().refresh_scores(family);
                self.scheduler().update_stall(family);
            }
            self.refresh_wal_settings(&state);
            self.refresh_write_times(&mut state);
            state.queue_flush(cf.id); // Fewer memtables may be enough now.
            state.queue_compaction(cf.id);
            self.scheduler().schedule_background(&mut state);
            self.changed.notify_all();
        }
        for (name, value) in changes {
            self.reports.info(format_args!("[{}] SetOptions() {name}: {value}", cf.name));
        }
        self.write_options_file()
    }

    /// Changes mutable options of the database.
    ///
    /// # Errors
    /// As `set_cf_options`.
    pub(crate) fn set_db_options(&self, changes: &[(&str, &str)]) -> Result<()> {
        self.check_writable()?;
        check_not_empty(changes)?;
        // Held from reading the options to storing them, so that of two changes neither is lost.
        let changing = self.settings.change.lock();
        let changed = self.options().with_changes(changes)?.sanitized()?;
        check_priority(&changed)?;
        let (max_open_files, rate) = (changed.max_open_files, changed.delayed_write_rate);
        let read_target = changed.read_latency_target_micros;
        let (flushes, compactions) = changed.background_limits();
        use pumice_port::pool::Priority;
        self.resources.pools.increase_background_threads(flushes, Priority::High);
        self.resources.pools.increase_background_threads(compactions, Priority::Low);
        {
            let mut state = self.state.lock();
            self.store_options(&mut state, changed);
            // No effect of a change is visible before the options that show it.
            self.writes.controller.set_max_rate(rate);
            self.background.regulator.reads.set_target(read_target);
            self.refresh_wal_settings(&state);
            self.background.refresh_tuning(&state, self.options().background_policy);
            self.watch_dumps(&mut state);
            let ids: Vec<u32> = state.cfs.keys().copied().collect();
            for id in ids {
                if let Some(cf) = state.cfs.get_mut(&id) {
                    self.scheduler().refresh_scores(cf);
                    self.scheduler().update_stall(cf);
                }
                state.queue_compaction(id);
            }
            self.scheduler().schedule_background(&mut state);
        }
        self.refresh_lanes();
        self.resources.open_tables.set_max_open_files(max_open_files);
        drop(changing);
        for (name, value) in changes {
            self.reports.info(format_args!("SetDBOptions() {name}: {value}"));
        }
        self.write_options_file()
    }
}

/// RocksDB's answer to no changes.
fn check_not_empty(changes: &[(&str, &str)]) -> Result<()> {
    match changes {
        [] => Err(Error::invalid_argument("empty input")),
        _ => Ok(()),
    }
}
