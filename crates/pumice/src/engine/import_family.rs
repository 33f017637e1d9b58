//! The import of a column family that was exported: a new family with the files of the other, each
//! at its level and with its sequence numbers.
//!
//! The family is created first. Its files are checked and brought into the directory beside the
//! others' work; then, as leader of the writers and with the MANIFEST lock, one change adds them
//! all. After an error the family is dropped again.
//!
//! Thread safety: from any thread. Suspends.
//!
//! Invariants: (1) the family has no other entries when the files are added; (2) the sequence
//! numbers of the files are in use before a reader can find the files; (3) a file is removed from
//! the directory only if no MANIFEST can name it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pumice_base::key::LAST_SEQUENCE_MAX;
use pumice_base::order;
use pumice_base::{Error, FileNumber, InternalKey, Result, UserKey};
use pumice_env::Temperature;
use pumice_env::filename::TableDirs;
use pumice_manifest::VersionEdit;

use crate::engine::DbInner;
use crate::engine::export_family::ExportImportFilesMetadata;
use crate::engine::ingest_job::UnderWay;
use crate::engine::live_files::LiveFile;
use crate::engine::open::ColumnFamilyDescriptor;
use crate::engine::write_path::no_sequence;
use crate::ingest::imported::{self, Description, ImportedFile};
use crate::ingest::request::dropped;
use crate::ingest::{IngestExternalFileOptions, transfer};
use crate::options::requests::ImportColumnFamilyOptions;
use crate::state::errors::Reason;
use crate::state::manifest_log::EditGroup;
use crate::version::family::{CfData, ColumnFamily};

impl DbInner {
    /// Creates a column family from the files of `exports`.
    ///
    /// # Errors
    /// See [`crate::Db::create_column_family_with_import`].
    pub(crate) fn import_column_family(
        self: &Arc<Self>,
        descriptor: &ColumnFamilyDescriptor,
        options: &ImportColumnFamilyOptions,
        exports: &[&ExportImportFilesMetadata],
    ) -> Result<ColumnFamily> {
        self.check_writable()?;
        self.life.mark.check_may_wait()?;
        let name = descriptor.options.comparator.name();
        if exports.iter().any(|export| export.db_comparator_name != name) {
            return Err(Error::invalid_argument("Comparator name mismatch"));
        }
        let cf = self.create_column_family(descriptor)?;
        let imported = self.import_into(&cf.data, options, exports);
        if imported.is_err() {
            // The error of the import is the one to tell; an empty family stays if this fails too.
            drop(self.drop_column_family(&cf));
        }
        imported.map(|()| cf)
    }

    fn import_into(
        self: &Arc<Self>,
        cf: &Arc<CfData>,
        options: &ImportColumnFamilyOptions,
        exports: &[&ExportImportFilesMetadata],
    ) -> Result<()> {
        if exports.iter().all(|export| export.files.is_empty()) {
            return Err(Error::invalid_argument("The list of files is empty"));
        }
        let mut under_way = UnderWay::begin(self)?;
        let mut files = Vec::new();
        let mut ranges = Vec::with_capacity(exports.len());
        for export in exports {
            let first = files.len();
            for file in &export.files {
                self.check_writable()?;
                files.push(self.examine_import(cf, file, under_way.new_number(cf))?);
            }
            ranges.push(first..files.len());
        }
        check_disjoint(cf, &files, &ranges)?;
        imported::check_levels(cf, cf.options().num_levels as usize, &files)?;
        for file in &files {
            self.bring_in(options, cf, file)?;
        }
        self.dir.fs.sync_dir(cf.dirs.dir(TableDirs::OWN))?;
        let last_epoch = imported::assign_epochs(&mut files);
        let installed = self.install_imported(cf, &files, last_epoch, &mut under_way);
        drop(under_way); // Listeners may do anything.
        self.with_errors_reported(installed)?;
        self.stop_if_too_large();
        if options.move_files {
            for file in &files {
                self.remove_original(&file.path);
            }
        }
        Ok(())
    }

    fn examine_import(
        &self,
        cf: &CfData,
        file: &LiveFile,
        number: FileNumber,
    ) -> Result<ImportedFile> {
        let described = Description {
            level: file.level,
            epoch: file.epoch_number,
            smallest_seq: file.smallest_seq,
            largest_seq: file.largest_seq,
            bounds: (&file.smallest, &file.largest),
            temperature: file.temperature,
        };
        imported::examine(&*self.dir.fs, cf, &path_of(file), number, &described)
    }

    /// Links or copies a file into the directory, durably.
    fn bring_in(
        &self,
        options: &ImportColumnFamilyOptions,
        cf: &CfData,
        file: &ImportedFile,
    ) -> Result<()> {
        let move_files = options.move_files;
        let how = IngestExternalFileOptions { move_files, ..Default::default() };
        // The directory of the file is the database's own if the new name shows up there.
        let beside = file.path.parent().unwrap_or(Path::new(""));
        let probe = TableDirs::of(beside).table(TableDirs::OWN, file.number);
        let probe = (move_files && !self.dir.fs.exists(&probe)?).then_some(probe);
        let (from, to) = ((file.path.as_path(), file.bytes), cf.new_table(file.number));
        let copied = (to.as_path(), Temperature::of_byte(file.temperature));
        let stop = || self.check_writable();
        transfer::transfer(&*self.dir.fs, &how, self.options().use_fsync, from, copied, &stop)?;
        self.track_table(&to, file.bytes);
        match probe.is_some_and(|probe| self.dir.fs.exists(&probe).unwrap_or(true)) {
            true => Err(Error::invalid_argument(format!(
                "{}: a table of the database cannot be moved; copy it",
                file.path.display()
            ))),
            false => Ok(()),
        }
    }

    /// Makes the files part of the family, which is empty.
    fn install_imported(
        self: &Arc<Self>,
        cf: &CfData,
        files: &[ImportedFile],
        last_epoch: u64,
        under_way: &mut UnderWay<'_>,
    ) -> Result<()> {
        let _leader = self.exclusive_here()?;
        self.check_writable()?;
        if let Some(error) = self.faults().stopping_error() {
            return Err(error);
        }
        // Earlier writes must not be lost if the files survive.
        self.flush_wal_as_leader(true)?;
        let mut manifest = self.manifest.lock();
        manifest.check_lasting()?;
        let snapshots = self.snapshots.close();
        self.check_empty(cf)?;
        let newest = files.iter().map(|file| file.largest_seq).max().unwrap_or(0);
        let last = newest.max(self.last_sequence.load(Ordering::Acquire));
        if last > LAST_SEQUENCE_MAX {
            return Err(no_sequence());
        }
        let edit = VersionEdit {
            column_family: cf.id,
            last_sequence: Some(last),
            new_files: files.iter().map(|file| (file.level, file.metadata())).collect(),
            ..VersionEdit::default()
        };
        // As in an ingestion, the sequence number is published before the files.
        let result = self.versions().apply_edits(&mut manifest, EditGroup::from(edit), |state| {
            if let Some(family) = state.cfs.get_mut(&cf.id) {
                family.count_ingestion(last);
                family.next.epoch = family.next.epoch.max(last_epoch + 1);
            }
            let level0 = files.iter().filter(|file| file.level == 0);
            self.background.lanes.level0_grows(level0.map(|file| file.bytes).sum());
            self.last_sequence.store(last, Ordering::Release);
        });
        under_way.done = result.is_ok();
        under_way.tried = result.is_ok() || manifest.broken;
        if under_way.tried {
            // Recovery may find the files, so their sequence numbers are used up either way.
            self.last_sequence.store(last, Ordering::Release);
        }
        drop(manifest);
        drop(snapshots);
        if let Err(error) = &result
            && under_way.tried
        {
            self.faults().background_error_of_leader(error, Reason::Manifest);
        }
        result
    }

    /// Somebody who found the family by its name may have written to it.
    fn check_empty(&self, cf: &CfData) -> Result<()> {
        let state = self.state.lock();
        let family = state.cfs.get(&cf.id).ok_or_else(dropped)?;
        let empty =
            family.mem.is_empty() && family.imm.is_empty() && family.files().next().is_none();
        match empty {
            true => Ok(()),
            false => Err(Error::aborted("the column family was written to during its import")),
        }
    }

    /// A failure only leaves an extra file.
    fn remove_original(&self, path: &Path) {
        if let Err(error) = self.dir.fs.remove(path) {
            self.reports.warn(format_args!(
                "{} was added to DB successfully but failed to remove original file link : {error}",
                path.display()
            ));
        }
    }
}

/// The name of an exported file has a slash in front.
fn path_of(file: &LiveFile) -> PathBuf {
    file.directory.join(file.name.trim_start_matches('/'))
}

/// Refuses exports whose key ranges overlap; `parts` are their files among `files`.
fn check_disjoint(
    cf: &CfData,
    files: &[ImportedFile],
    parts: &[std::ops::Range<usize>],
) -> Result<()> {
    let order = cf.table_order();
    let mut ranges = Vec::with_capacity(parts.len());
    for part in parts.iter().filter(|part| !part.is_empty()) {
        let files = &files[part.clone()];
        let smallest = files.iter().map(|file| range(file).0);
        let largest = files.iter().map(|file| range(file).1);
        let smallest = smallest.min_by(|a, b| order.compare(*a, *b));
        let largest = largest.max_by(|a, b| order.compare(*a, *b));
        ranges.extend(smallest.zip(largest));
    }
    order::sort_by(&mut ranges, |a, b| order.compare(a.0, b.0));
    match ranges.windows(2).any(|pair| order.compare(pair[0].1, pair[1].0).is_ge()) {
        true => Err(Error::invalid_argument("CFs have overlapping ranges")),
        false => Ok(()),
    }
}

fn range(file: &ImportedFile) -> (UserKey<'_>, UserKey<'_>) {
    (InternalKey::new(&file.smallest).user_key(), InternalKey::new(&file.largest).user_key())
}
