//! Creating and dropping column families.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pumice_base::key::COLUMN_FAMILY_ID_MAX;
use pumice_base::{Error, Result};
use pumice_manifest::{Version, VersionEdit};

use crate::callbacks::has_code;
use crate::engine::assemble::new_family_state;
use crate::engine::compaction_tuning::check_tuned;
use crate::engine::open::{ColumnFamilyDescriptor, DEFAULT_COLUMN_FAMILY_NAME};
use crate::engine::{DbInner, options_file};
use crate::options::check_together;
use crate::recovery::table_dirs::make_table_dirs;
use crate::recovery::version_recovery::RecoveredFamily;
use crate::state::errors::Reason;
use crate::state::manifest_log::EditGroup;
use crate::state::{CfMap, DbState};
use crate::version::family::ColumnFamily;

impl DbInner {
    /// Creates a column family and records it in MANIFEST and OPTIONS.
    ///
    /// # Errors
    /// InvalidArgument if the name is taken or the options are impossible; the background error;
    /// I/O.
    pub(crate) fn create_column_family(
        self: &Arc<Self>,
        descriptor: &ColumnFamilyDescriptor,
    ) -> Result<ColumnFamily> {
        self.check_writable()?;
        options_file::try_renew(self);
        let handle = self.create_family(&descriptor.sanitized(&self.options(), self.life.mark)?)?;
        self.write_options_file()?;
        Ok(handle)
    }

    /// As `create_column_family`, without the OPTIONS file.
    pub(crate) fn create_family(
        self: &Arc<Self>,
        descriptor: &ColumnFamilyDescriptor,
    ) -> Result<ColumnFamily> {
        self.with_errors_reported(self.create_alone(descriptor))
    }

    fn create_alone(self: &Arc<Self>, descriptor: &ColumnFamilyDescriptor) -> Result<ColumnFamily> {
        check_tuned(&self.options(), &descriptor.options)?;
        check_together(&self.options(), &descriptor.options)?;
        if has_code(&descriptor.options) {
            self.life.runs_code.store(true, Ordering::Relaxed);
        }
        make_table_dirs(&*self.dir.fs, &descriptor.options)?;
        let _alone = self.exclusive_here()?;
        if let Some(error) = self.faults().stopping_error() {
            return Err(error);
        }
        let name = descriptor.name.as_str();
        if name.is_empty() {
            return Err(Error::invalid_argument("A column family needs a name"));
        }
        if self.logs.wal.lock().has_unsynced_before() {
            // With one family a flush may be durable before its logs; with two it may not.
            self.flush_wal_as_leader(true)?;
        }
        let mut manifest = self.manifest.lock();
        let id = {
            let mut state = self.state.lock();
            if state.cfs.values().any(|cf| cf.data.name == name) {
                return Err(Error::invalid_argument("Column family already exists"));
            }
            if state.max_column_family >= COLUMN_FAMILY_ID_MAX {
                return Err(Error::aborted("column family ids are exhausted"));
            }
            state.max_column_family += 1;
            state.max_column_family
        };
        let comparator = descriptor.options.comparator.clone();
        let stripped = descriptor.options.strips_timestamps();
        let log_number = self.logs.wal.lock().number();
        let family = RecoveredFamily {
            name: name.to_string(),
            log_number,
            version: Version::of_family(
                &comparator,
                stripped,
                descriptor.options.num_levels as usize,
            ),
        };
        let manager = self.resources.write_buffer_manager.clone();
        let family =
            new_family_state(&self.resources.open_tables, manager, id, descriptor, family)?;
        let data = Arc::clone(&family.data);
        self.logs.wal.lock().note_timestamps(id, data.timestamp_size);
        let edit = VersionEdit {
            column_family: id,
            add_column_family: Some(name.to_string()),
            comparator: Some(comparator.name().to_string()),
            persist_user_defined_timestamps: stripped.then_some(false),
            log_number: Some(log_number),
            max_column_family: Some(id),
            ..VersionEdit::default()
        };
        let created = self.versions().apply_edits(&mut manifest, EditGroup::from(edit), |state| {
            state.cfs.insert(id, family);
            self.publish_families(state);
        });
        drop(manifest);
        // Still the only writer: nothing is written before the error stops writes.
        created.inspect_err(|error| {
            self.faults().background_error_of_leader(error, Reason::Manifest)
        })?;
        self.reports.info(format_args!("Created column family [{name}] (ID {id})"));
        Ok(ColumnFamily::new(data, Arc::downgrade(self)))
    }

    /// Drops a column family. Its data stays readable through existing handles and iterators; its
    /// files are deleted with the last of them.
    ///
    /// # Errors
    /// InvalidArgument for the default column family or one already dropped; the background error,
    /// unless the disk is full; Aborted if the disk is full and the MANIFEST has failed as well,
    /// since it needs room for a record; I/O.
    pub(crate) fn drop_column_family(self: &Arc<Self>, cf: &ColumnFamily) -> Result<()> {
        self.check_writable()?;
        if cf.name() == DEFAULT_COLUMN_FAMILY_NAME {
            return Err(Error::invalid_argument("Can't drop default column family"));
        }
        options_file::try_renew(self);
        let full = self.with_errors_reported(self.drop_alone(cf))?;
        self.reports.info(format_args!("Dropped column family with id {}", cf.id()));
        // A resume writes it again.
        self.write_options_file().or_else(|e| if full && e.is_no_space() { Ok(()) } else { Err(e) })
    }

    /// Drops the family as the only writer; returns whether the disk is full, in which case a drop
    /// frees space.
    fn drop_alone(self: &Arc<Self>, cf: &ColumnFamily) -> Result<bool> {
        let _alone = self.exclusive_here()?;
        let error = self.faults().stopping_error();
        let full = error.as_ref().is_some_and(Error::is_no_space);
        if let Some(error) = error.filter(|_| !full) {
            return Err(error);
        }
        let mut manifest = self.manifest.lock();
        if cf.data.is_dropped() {
            return Err(Error::invalid_argument("Column family already dropped!"));
        }
        let edit = VersionEdit {
            column_family: cf.id(),
            drop_column_family: true,
            ..VersionEdit::default()
        };
        // The family is removed only then: a MANIFEST that starts with this edit must still have
        // it.
        let dropped = self.versions().apply_edits(&mut manifest, edit.into(), |state| {
            self.remove_family(state, cf.id());
        });
        drop(manifest);
        // The drop may be durable all the same: no write may be accepted until a new MANIFEST says
        // otherwise.
        dropped.inspect_err(|error| {
            self.faults().background_error_of_leader(error, Reason::Manifest)
        })?;
        Ok(full)
    }

    fn remove_family(&self, state: &mut DbState, id: u32) {
        let Some(mut family) = state.cfs.remove(&id) else { return };
        family.mark_dropped();
        // No job may ever start for it, so none would take it out.
        state.jobs.flush_queue.retain(|queued| *queued != id);
        state.jobs.compaction_queue.retain(|queued| *queued != id);
        self.writes.controller.forget(&mut family.stall);
        family.give_up_memory();
        for file in family.files() {
            self.versions().table_left(state, &family.data, file, true);
        }
        for blob in family.version.blob_files().values() {
            self.versions().blob_file_left(state, &family.data, &blob.shared, true);
        }
        self.publish_families(state);
        self.refresh_wal_settings(state);
    }

    /// Readers and writers find the families of `state` from now on.
    pub(crate) fn publish_families(&self, state: &mut DbState) {
        let families = state.cfs.values().map(|cf| Arc::clone(&cf.data));
        self.cfs.store(Arc::new(CfMap::new(families)));
        self.refresh_wal_settings(state);
        self.background.refresh_tuning(state, self.options().background_policy);
        if state.opened && !self.dir.read_only {
            self.refresh_write_times(state);
            self.scheduler().watch_expiry(state);
        }
    }
}
