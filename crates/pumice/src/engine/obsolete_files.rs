//! Deleting files that nothing needs any more, and nothing else.
//!
//! A table file becomes a candidate when an edit removes it from its column family's version. It is
//! deleted when the last `Arc` of its metadata is gone: every version, iterator and job that could
//! read the file holds that `Arc`; the last one to drop it asks for the deletion. Logs are deleted,
//! or archived (`log_archive`), when no column family has unflushed data in them, MANIFESTs when
//! CURRENT names another.
//!
//! Nothing is deleted while deletions are disabled or the database is closed: a deletion holds the
//! slot of LOCK to its end, since the next opener may give the same names to new files. Closing
//! deletes one last time. While the MANIFEST is broken (what recovery would read is unknown) or
//! held, only files that no edit ever named are deleted, and the tables of dropped column families:
//! a full disk needs the space.
//!
//! The blocks of a table leave the block cache with its file, if `uncache_aggressiveness` of its
//! column family asks for that, except for a table that a reader of an old version was the first to
//! open.
//!
//! Thread safety: from any thread; the candidates are `state::obsolete`, under the state lock, and
//! deleting happens outside of it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use pumice_base::planted::{self, Bug};
use pumice_base::{FileNumber, Result};
use pumice_env::filename::{self, FileType};
use pumice_manifest::FileMetaData;
use pumice_manifest::blob::SharedBlobFile;
use pumice_manifest::file_meta::OnRelease;
use pumice_port::os::is_forked;
use pumice_port::pool::Priority;

use crate::engine::DbInner;
use crate::engine::versions::Versions;
use crate::state::DbState;
use crate::state::manifest_log::EditGroup;
use crate::state::obsolete::{ObsoleteBlobFile, ObsoleteTable};
use crate::state::parts::Directory;
use crate::state::reports::Reports;
use crate::stats::listener::TableFileDeletionInfo;
use crate::version::family::CfData;

/// A thread that deletes files; a close waits for it, even if user code that it calls panics.
struct RunningDeletion<'a>(&'a DbInner);

impl Drop for RunningDeletion<'_> {
    fn drop(&mut self) {
        self.0.state.lock().jobs.running_deletions -= 1;
        self.0.changed.notify_all();
    }
}

impl Versions<'_> {
    /// Notes what `group`, now installed, made obsolete.
    pub(crate) fn collect_obsolete(&self, state: &mut DbState, group: &EditGroup) {
        let logs = self.logs.wal.lock().release_below(state.files.min_log_to_keep);
        let dir = self.logs.dir();
        for number in logs {
            state.files.obsolete.file(filename::log_file(&dir, number));
        }
        for (data, file) in &group.removed {
            // A moved file still exists, on another level.
            let cf = state.cfs.get(&data.id);
            if cf.is_none_or(|cf| cf.version.find_by_number(file.number).is_none()) {
                self.table_left(state, data, file, false);
            }
        }
        for (data, file) in &group.removed_blobs {
            self.blob_file_left(state, data, file, false);
        }
        self.logs.bytes.store(self.logs.wal.lock().total_bytes(), Ordering::Relaxed);
    }

    /// As `table_left`, for a blob file.
    pub(crate) fn blob_file_left(
        &self,
        state: &mut DbState,
        cf: &CfData,
        file: &Arc<SharedBlobFile>,
        dropped: bool,
    ) {
        let (number, path) = (file.addition.number, cf.blob(file.addition.number));
        let obsolete = ObsoleteBlobFile { number, path, file: Arc::downgrade(file), dropped };
        state.files.obsolete.blobs.push(obsolete);
        self.purge_on_release(&file.on_release);
    }

    /// Has a job delete files once what holds `on_release` is gone.
    fn purge_on_release(&self, on_release: &OnRelease) {
        let Some(me) = self.life.me.get().map(Weak::clone) else { return };
        on_release.set(Box::new(move || {
            if let Some(db) = me.upgrade() {
                db.schedule_purge();
            }
        }));
    }

    /// Table `file` left its version: it is deleted when it can no longer be read, and its blocks
    /// leave the cache as the family's `uncache_aggressiveness` says, see `Table::uncache`.
    /// `dropped`: the family was dropped too, in a MANIFEST that is durable.
    pub(crate) fn table_left(
        &self,
        state: &mut DbState,
        cf: &CfData,
        file: &Arc<FileMetaData>,
        dropped: bool,
    ) {
        let uncache = cf.options().uncache_aggressiveness;
        state.files.obsolete.tables.push(ObsoleteTable {
            number: file.number,
            path: cf.table_of(file),
            dropped,
            file: Arc::downgrade(file),
            uncache,
            open: if uncache > 0 { file.table.share() } else { None },
        });
        self.purge_on_release(&file.on_release);
    }
}

impl DbInner {
    /// A file has become deletable, perhaps under the state lock: has a job delete it. The job also
    /// deletes files released before it starts; later ones request another job.
    fn schedule_purge(self: &Arc<Self>) {
        if self.life.shutting_down.load(Ordering::Acquire)
            || is_forked()
            || self.background.purge_scheduled.swap(true, Ordering::AcqRel)
        {
            return;
        }
        let db = Arc::downgrade(self);
        let job = move || {
            if let Some(db) = db.upgrade() {
                let _inside = db.life.mark.enter_job();
                db.background.purge_scheduled.swap(false, Ordering::AcqRel);
                db.delete_obsolete_files();
            }
        };
        self.resources.pools.schedule_parted(Priority::High, "purge", 0, Box::new(job));
    }

    /// Deletes what may be deleted now and tells the listeners. Suspends. Failures are logged; the
    /// next open finds the files again. Requires: neither a lock nor leadership is held.
    pub(crate) fn delete_obsolete_files(&self) {
        let deleted = self.delete_silently();
        self.notify_deleted(&deleted);
    }

    /// As `delete_obsolete_files`; returns the events to report once nothing is held.
    pub(crate) fn delete_silently(&self) -> Vec<TableFileDeletionInfo> {
        let mut deleted = Vec::new();
        if !self.dir.owns_files() {
            return deleted;
        }
        // Held to the end: once the database is closed, its files belong to the next opener.
        let opened = self.dir.lock.lock();
        if opened.is_none() {
            return deleted;
        }
        let mut doomed: Vec<PathBuf> = Vec::new();
        let (mut tables, mut blobs) = (Vec::new(), Vec::new());
        let counted;
        {
            // Held while collecting: outputs of an edit that failed meanwhile must not be taken.
            let manifest = self.manifest.lock();
            let unsure =
                manifest.held || (manifest.broken && !planted::is(Bug::ManifestErrorDeletes));
            let mut state = self.state.lock();
            if state.files.are_kept() {
                return deleted;
            }
            state.jobs.running_deletions += 1;
            counted = RunningDeletion(self);
            doomed.append(&mut state.files.obsolete.unnamed);
            let free = |table: &mut ObsoleteTable| {
                (table.dropped || !unsure)
                    && (table.file.strong_count() == 0 || planted::is(Bug::DeletedWhileRead))
            };
            tables.extend(state.files.obsolete.tables.extract_if(.., free));
            let free = |blob: &mut ObsoleteBlobFile| {
                (blob.dropped || !unsure) && blob.file.strong_count() == 0
            };
            blobs.extend(state.files.obsolete.blobs.extract_if(.., free));
            if !unsure {
                doomed.append(&mut state.files.obsolete.other);
                let manifests = std::mem::take(&mut state.files.obsolete.manifests);
                doomed
                    .extend(manifests.iter().map(|n| filename::manifest_file(&self.dir.path, *n)));
            }
        }
        for ObsoleteTable { number, path, uncache, open, .. } in tables {
            if let Some(table) = self.resources.open_tables.erase(number).or(open) {
                table.uncache(uncache);
            }
            self.deleter().delete_file(&path);
            deleted.push(self.reports.table_deleted(path, number));
        }
        for ObsoleteBlobFile { number, path, .. } in blobs {
            drop(self.resources.open_tables.erase(number));
            self.deleter().delete_file(&path);
        }
        let (dir, spare) = (self.logs.dir(), self.logs.wal.lock().spare().take_rest());
        doomed.extend(spare.into_iter().map(|number| filename::log_file(&dir, number)));
        let doomed = self.keep_spare_logs(doomed);
        self.deleter().discard_files(&doomed);
        self.deleter().purge_archive();
        drop(counted);
        deleted
    }

    /// Deletes every file of ours in the directory that nothing refers to; paced deletions only
    /// start once an open has succeeded. Trash is deleted only with `trash`: only those who have
    /// opened the database may delete it.
    pub(crate) fn delete_unreferenced_files(&self, trash: bool) -> Result<()> {
        let manifest = self.manifest.lock().number;
        let (live, min_log, options_file, table_dirs) = {
            let state = self.state.lock();
            let mut live: BTreeSet<FileNumber> = state.files.pending_outputs.clone();
            for cf in state.cfs.values() {
                live.extend(cf.files().map(|f| f.number));
                live.extend(cf.version.blob_files().keys());
            }
            let mut dirs = state.table_dirs();
            dirs.insert(self.dir.path.clone());
            (live, state.files.min_log_to_keep, state.files.options_file_number, dirs)
        };
        let wal_dir = self.logs.dir();
        let mut dirs = table_dirs.clone();
        dirs.insert(wal_dir.clone());
        let paced = self.options().sst_file_manager.is_some();
        for dir in dirs {
            for name in self.dir.fs.list(&dir)? {
                let Some((number, kind)) = filename::parse(&name) else { continue };
                let obsolete = match kind {
                    FileType::Table | FileType::Blob => {
                        table_dirs.contains(&dir) && !live.contains(&number)
                    }
                    FileType::Wal => dir == wal_dir && number < min_log,
                    FileType::Descriptor => dir == self.dir.path && number < manifest,
                    FileType::Temp => dir == self.dir.path,
                    FileType::Trash => trash,
                    FileType::Options => dir == self.dir.path && number < options_file,
                    _ => false,
                };
                if obsolete {
                    self.reports.info(format_args!("Deleting unreferenced file {name}"));
                    let path = dir.join(&name);
                    match kind {
                        FileType::Table | FileType::Blob | FileType::Wal | FileType::Trash
                            if paced =>
                        {
                            self.state.lock().files.obsolete.unnamed.push(path);
                        }
                        _ => self.deleter().discard_files(&[path]),
                    }
                }
            }
        }
        Ok(())
    }

    /// Gives logs that recovery did not use up a name in the archive: they may hold the only copy
    /// of some data. Done before the MANIFEST drops them, so that a crash cannot lose them.
    pub(crate) fn archive(&self, logs: &[FileNumber]) -> Result<()> {
        let dir = self.logs.dir();
        let names = logs.iter().map(|number| filename::log_file(Path::new(""), *number));
        self.dir.archive_files(&self.reports, &dir, names)
    }

    /// A change of the MANIFEST was dropped, or a best-efforts recovery left something out: gives
    /// the tables and blob files that nothing names now a name in the archive of their directory,
    /// where they stay until the user deletes them. A crash never makes acknowledged data depend on
    /// them, but damage that looks like a crash might. `outputs` are files of this recovery.
    pub(crate) fn archive_tables(&self, outputs: &BTreeSet<FileNumber>) -> Result<()> {
        let (live, mut dirs) = {
            let state = self.state.lock();
            if !state.took_change_back() && !state.files.left_out {
                return Ok(());
            }
            let files = state.cfs.values().flat_map(|cf| cf.files().map(|f| f.number));
            let blobs = state.cfs.values().flat_map(|cf| cf.version.blob_files().keys().copied());
            let live = files.chain(blobs).chain(outputs.iter().copied());
            (live.collect::<BTreeSet<FileNumber>>(), state.table_dirs())
        };
        dirs.insert(self.dir.path.clone());
        for dir in dirs {
            let strays = self.dir.fs.list(&dir)?.into_iter().filter(|name| {
                filename::parse(name).is_some_and(|(number, kind)| {
                    matches!(kind, FileType::Table | FileType::Blob) && !live.contains(&number)
                })
            });
            self.dir.archive_files(&self.reports, &dir, strays.map(PathBuf::from))?;
        }
        Ok(())
    }
}

impl Directory {
    /// Gives files of `dir` a name in its archive, durably.
    fn archive_files(
        &self,
        reports: &Reports,
        dir: &Path,
        names: impl Iterator<Item = PathBuf>,
    ) -> Result<()> {
        let archive = filename::archive_dir(dir);
        let mut archived = false;
        for name in names {
            if !archived {
                self.fs.create_dir_all(&archive)?;
                archived = true;
            }
            let (from, to) = (dir.join(&name), archive.join(&name));
            reports.info(format_args!("Archiving {}", from.display()));
            if self.fs.exists(&to)? {
                self.fs.remove(&to)?; // From an earlier recovery that did not finish.
            }
            self.link_or_copy(&from, &to, &mut true)?;
        }
        if !archived {
            return Ok(());
        }
        self.fs.sync_dir(&archive)?;
        self.fs.sync_dir(dir)
    }
}
