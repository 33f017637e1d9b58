//! The ingestion of a call's files, from checking them to the one change of the MANIFEST.
//!
//! Checking and copying block nothing else. Then, as leader of the writers and with the MANIFEST
//! lock: flush memtables that overlap, make the log durable (so that a crash cannot leave a hole in
//! the history before the ingestion), choose levels and sequence numbers, install.
//!
//! Thread safety: from any thread. Suspends.
//!
//! Invariants: (1) from the choice of places to the installed version the MANIFEST lock keeps the
//! tree unchanged, reservations keep new compactions away, and `ClosedSnapshots` new snapshots; (2)
//! a sequence number that may be in a MANIFEST is never given to a write; (3) a file is removed
//! from the directory only if no MANIFEST can name it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pumice_base::key::LAST_SEQUENCE_MAX;
use pumice_base::planted::{self, Bug};
use pumice_base::{Error, FileNumber, Result, SequenceNumber};
use pumice_env::Temperature;
use pumice_env::filename::{self, FileType, TableDirs};
use pumice_manifest::{UserRange, VersionEdit};
use pumice_port::sync::MutexGuard;
use pumice_port::time;

use crate::commit::queue::Leadership;
use crate::engine::DbInner;
use crate::engine::prepared_ingestion::{Incoming, Placed, Prepared, temperature_of_copies};
use crate::engine::reserve::Reserved;
use crate::engine::write_path::no_sequence;
use crate::ingest::checksums;
use crate::ingest::external::{ExternalFile, examine};
use crate::ingest::place;
use crate::ingest::request::{Request, check_requests, dropped};
use crate::ingest::source::FileIdentity;
use crate::ingest::transfer::{self, Transferred};
use crate::ingest::{IngestExternalFileOptions, replace};
use crate::options::DbOptions;
use crate::options::requests::WriteOptions;
use crate::state::DbState;
use crate::state::errors::Reason;
use crate::state::manifest_log::{EditGroup, ManifestLog};
use crate::state::parts::Directory;
use crate::state::reports::Reports;
use crate::stats::CompactionStats;
use crate::stats::listener::{ExternalFileIngestionInfo, FlushReason};
use crate::version::family::CfData;

/// Waiters check again this often even if they are not woken.
const POLL: Duration = Duration::from_millis(200);

/// One ingestion or import under way: closing waits for it.
pub(crate) struct UnderWay<'a> {
    db: &'a Arc<DbInner>,
    /// Files in the directory that no version names.
    pub(super) files: Vec<(FileNumber, PathBuf)>,
    /// A MANIFEST may name the files; if `done` the present one does.
    pub tried: bool,
    pub done: bool,
}

impl<'a> UnderWay<'a> {
    pub fn begin(db: &'a Arc<DbInner>) -> Result<Self> {
        db.life.mark.check_may_lock()?;
        let mut state = db.state.lock();
        db.check_writable()?;
        state.jobs.running_ingestions += 1;
        Ok(UnderWay { db, files: Vec::new(), tried: false, done: false })
    }

    /// The number of a new table of that family.
    pub fn new_number(&mut self, cf: &CfData) -> FileNumber {
        let number = self.db.new_file_number();
        self.files.push((number, cf.new_table(number)));
        self.db.state.lock().files.pending_outputs.insert(number);
        number
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut state = self.db.state.lock();
        for (number, path) in std::mem::take(&mut self.files) {
            match (self.done, self.tried) {
                (true, _) => _ = state.files.pending_outputs.remove(&number),
                (false, true) => state.files.abandon_output(number, path),
                (false, false) => state.files.discard_output(number, path),
            }
        }
        drop(state);
        let deleted = self.db.delete_silently();
        self.db.state.lock().jobs.running_ingestions -= 1;
        self.db.changed.notify_all();
        self.db.notify_deleted(&deleted);
    }
}

impl DbInner {
    /// Adds the files of all `requests`, or none.
    ///
    /// # Errors
    /// See [`crate::Db::ingest_external_file`].
    pub(crate) fn ingest(self: &Arc<Self>, requests: &[Request<'_>]) -> Result<()> {
        let started = time::now_micros();
        let mut under_way = self.begin_ingestion(requests)?;
        let prepared = self.prepare_all(requests, &mut under_way)?;
        self.finish_ingestion(prepared, under_way, started)
    }

    /// An ingestion of `requests` is under way, unless it is invalid whatever their files are.
    pub(super) fn begin_ingestion(
        self: &Arc<Self>,
        requests: &[Request<'_>],
    ) -> Result<UnderWay<'_>> {
        check_requests(requests)?;
        self.check_writable()?;
        self.life.mark.check_may_wait()?;
        UnderWay::begin(self)
    }

    /// Checks the files of all requests and brings them into the directory, durably.
    pub(super) fn prepare_all(
        self: &Arc<Self>,
        requests: &[Request<'_>],
        under_way: &mut UnderWay<'_>,
    ) -> Result<Vec<Prepared>> {
        let mut prepared = Vec::with_capacity(requests.len());
        for request in requests {
            prepared.push(self.prepare(request, under_way)?);
        }
        if !planted::is(Bug::IngestDirNotSynced) {
            for request in requests {
                self.dir.fs.sync_dir(request.cf.dirs.dir(TableDirs::OWN))?;
            }
        }
        Ok(prepared)
    }

    /// Makes what was prepared part of the database. `started` is when the call began.
    pub(super) fn finish_ingestion(
        self: &Arc<Self>,
        mut prepared: Vec<Prepared>,
        mut under_way: UnderWay<'_>,
        started: u64,
    ) -> Result<()> {
        let installed = self.install_ingested(&mut prepared, &mut under_way);
        drop(under_way); // Listeners may do anything.
        self.with_errors_reported(installed)?;
        self.stop_if_too_large();
        let micros = time::now_micros().saturating_sub(started);
        for request in &prepared {
            self.dir.remove_moved(&self.reports, request);
            self.notify_ingested(request, micros);
        }
        Ok(())
    }

    /// Checks the files of a request and brings them into the directory.
    fn prepare(
        self: &Arc<Self>,
        request: &Request<'_>,
        under_way: &mut UnderWay<'_>,
    ) -> Result<Prepared> {
        let Request { cf, arg } = request;
        let options = &arg.options;
        let replaces = arg.atomic_replace_range.as_ref();
        let replaces = replaces.map(|range| replace::range_of(range, options)).transpose()?;
        let mut files = Vec::with_capacity(arg.external_files.len());
        for path in &arg.external_files {
            self.check_writable()?;
            files.push(examine(&*self.dir.fs, cf, options, path, under_way.new_number(cf))?);
        }
        let ranges: Vec<UserRange<'_>> = files.iter().map(ExternalFile::range).collect();
        let overlapping = place::any_overlap(&ranges, cf.table_order());
        if let Some(range) = &replaces {
            replace::check_inside(range, ranges.iter().copied(), cf.table_order())?;
        }
        place::check_demand((cf, options), overlapping, replaces.is_some())?;
        let batches = place::batches(&ranges, cf.table_order());
        let settings = self.options();
        let use_fsync = settings.use_fsync;
        let by = (&*self.dir.fs, &settings.file_checksum_gen_factory);
        let copied = temperature_of_copies(cf, options);
        let mut incoming = Vec::with_capacity(files.len());
        for (at, external) in files.into_iter().enumerate() {
            let to = cf.new_table(external.number);
            let from = (external.path.as_path(), external.bytes);
            let stop = || self.check_writable();
            let probe = self.dir.probe_for_own(options, &external)?;
            // Before: a file that takes the name meanwhile is another one.
            let identity = || FileIdentity::of(&*self.dir.fs, &external.path);
            let moved = options.move_files.then(identity).transpose()?;
            let transferred =
                transfer::transfer(&*self.dir.fs, options, use_fsync, from, (&to, copied), &stop)?;
            self.track_table(&to, external.bytes);
            if let Some(probe) = probe {
                self.dir.check_not_own(&external.path, &probe)?;
            }
            let checksum = checksums::of_file(by, arg, at, &to)?;
            let placed = Placed { level: 0, sequence: 0, epoch: 0 };
            let temperature = match transferred {
                Transferred::Copied => copied,
                Transferred::Linked => Temperature::Unknown,
            };
            incoming.push(Incoming { external, transferred, moved, checksum, temperature, placed });
        }
        Ok(Prepared {
            cf: Arc::clone(cf),
            options: options.clone(),
            files: incoming,
            replaces: arg.atomic_replace_range.clone(),
            replaced: Vec::new(),
            batches,
        })
    }

    /// Places the files and makes them part of the database.
    fn install_ingested(
        self: &Arc<Self>,
        prepared: &mut [Prepared],
        under_way: &mut UnderWay<'_>,
    ) -> Result<()> {
        let leader = self.exclusive_here()?;
        self.check_writable()?;
        if let Some(error) = self.faults().stopping_error() {
            return Err(error);
        }
        self.flush_overlapping(&leader, prepared)?;
        // Earlier writes must not be lost if the files survive.
        if !planted::is(Bug::IngestLogNotSynced) {
            self.flush_wal_as_leader(true)?;
        }
        let mut manifest = self.manifest.lock();
        manifest.check_lasting()?;
        let snapshots = self.snapshots.close();
        let mut reserved = Reserved::new(self);
        let result = self
            .place_all((&leader, &manifest), prepared, snapshots.any, &mut reserved)
            .and_then(|last| self.dir.store_sequences(&self.options(), prepared).map(|()| last))
            .and_then(|last| self.commit(&mut manifest, prepared, last, under_way));
        drop(manifest);
        drop(snapshots);
        drop(reserved);
        if let Err(error) = &result
            && under_way.tried
        {
            self.faults().background_error_of_leader(error, Reason::Manifest);
        }
        result
    }

    /// Flushes the memtables of column families that hold entries in the range of a file.
    /// Nothing is written there afterwards while the caller leads.
    fn flush_overlapping(
        self: &Arc<Self>,
        leader: &Leadership,
        prepared: &[Prepared],
    ) -> Result<()> {
        let mut ids = BTreeSet::new();
        for request in prepared {
            let super_version = request.cf.super_version.load_full();
            let overlaps = |range: &UserRange<'_>| {
                place::memtables_overlap(&request.cf, &super_version, range)
            };
            let needed = match request.replaced_range()? {
                Some(range) => overlaps(&range),
                None => request.files.iter().any(|file| overlaps(&file.external.range())),
            };
            if needed {
                place::check_flush(&request.cf, &request.options)?;
                ids.insert(request.cf.id);
            }
        }
        if ids.is_empty() || planted::is(Bug::IngestSkipsFlush) {
            return Ok(());
        }
        self.switch_memtables(leader, &ids, FlushReason::ExternalFileIngestion)?;
        self.wait_flushed_as_leader(leader, &ids)
    }

    /// Waits until the sealed memtables of `ids` are in table files. The caller leads, so no other
    /// task seals another. Resuming from an error takes leadership too, so any error ends the wait.
    fn wait_flushed_as_leader(&self, leader: &Leadership, ids: &BTreeSet<u32>) -> Result<()> {
        // A job's listener that writes must not wait for a caller that waits for the job.
        let _stall = self.begin_stall(leader, &WriteOptions::default())?;
        let mut state = self.state.lock();
        for id in ids {
            if let Some(cf) = state.cfs.get_mut(id) {
                cf.request_flush();
            }
            state.queue_flush(*id);
        }
        self.scheduler().schedule_background(&mut state);
        let waiting = |state: &DbState, id: &u32| {
            state.cfs.get(id).is_some_and(|cf| !cf.imm.is_empty() && !cf.data.is_dropped())
        };
        while ids.iter().any(|id| waiting(&state, id)) {
            // A close waits for leadership.
            if self.life.is_ending() {
                return Err(Error::shutdown("the database is closing"));
            }
            self.life.check_alive(&state)?;
            if let Some(error) = state.errors.current() {
                return Err(error.clone());
            }
            state = self.changed.wait_timeout(state, POLL).0;
        }
        Ok(())
    }

    /// Chooses places for all files and reserves them, recording that in `reserved`; returns the
    /// last sequence number that is then in use. It stays the last one while the caller leads, and
    /// the places stay free while it has the MANIFEST.
    fn place_all(
        &self,
        _: (&Leadership, &ManifestLog),
        prepared: &mut [Prepared],
        snapshots: bool,
        reserved: &mut Reserved<'_>,
    ) -> Result<SequenceNumber> {
        let mut overlaps = Vec::with_capacity(prepared.len());
        for request in prepared.iter() {
            let version = Arc::clone(&request.cf.super_version.load().version);
            let fill_cache = request.options.fill_cache;
            let of = |file: &Incoming| {
                let range = file.external.range();
                place::shallowest_overlap(&request.cf, &version, &range, fill_cache)
            };
            let levels = match request.options.ingest_behind || request.replaces.is_some() {
                true => vec![None; request.files.len()],
                false => request.files.iter().map(of).collect::<Result<_>>()?,
            };
            if levels.iter().any(Option::is_some) {
                place::check_apart(&request.cf, "(without timestamp) in the db")?;
            }
            overlaps.push(levels);
        }
        let mut state = self.state.lock();
        let first = self.last_sequence.load(Ordering::Acquire);
        let mut last = first;
        for (request, overlaps) in prepared.iter_mut().zip(overlaps) {
            let cf = state.cfs.get_mut(&request.cf.id).filter(|cf| !cf.data.is_dropped());
            let cf = cf.ok_or_else(dropped)?;
            let used = request.place(cf, &overlaps, snapshots, first)?;
            last = last.max(used);
            if last > LAST_SEQUENCE_MAX {
                return Err(no_sequence());
            }
            let mut replaced = request.replaced.clone();
            for file in &request.files {
                let (level, gone) = (file.placed.level, std::mem::take(&mut replaced));
                let place = cf.plan.reserve(level, &file.external.range(), gone);
                reserved.add(request.cf.id, place);
            }
        }
        Ok(last)
    }

    /// Makes the files durable and visible, with `last` the newest sequence number.
    fn commit(
        &self,
        manifest: &mut MutexGuard<'_, ManifestLog>,
        prepared: &[Prepared],
        last: SequenceNumber,
        under_way: &mut UnderWay<'_>,
    ) -> Result<()> {
        let edits: Vec<VersionEdit> = prepared.iter().map(|request| request.edit(last)).collect();
        // The sequence number is published before the files: a reader that sees one of the files
        // sees all. A reader with only the sequence number sees the state before, of which no
        // snapshot can be taken.
        let publish = |state: &mut DbState, requests: &[Prepared]| {
            for request in requests {
                // It is not dropped meanwhile: that takes the MANIFEST lock too.
                if let Some(cf) = state.cfs.get_mut(&request.cf.id) {
                    cf.count_ingestion(last);
                }
                let level0 = request.files.iter().filter(|file| file.placed.level == 0);
                let bytes = level0.map(|file| file.external.bytes).sum();
                self.background.lanes.level0_grows(bytes);
            }
            self.last_sequence.store(last, Ordering::Release);
        };
        let result = if planted::is(Bug::IngestNotAtomic) {
            edits.into_iter().zip(prepared.chunks(1)).try_for_each(|(edit, request)| {
                self.versions().apply_edits(manifest, edit.into(), |state| publish(state, request))
            })
        } else {
            self.versions()
                .apply_edits(manifest, EditGroup::from(edits), |state| publish(state, prepared))
        };
        under_way.done = result.is_ok();
        under_way.tried = result.is_ok() || manifest.broken;
        if under_way.tried {
            // Recovery may find the files, so their sequence numbers are used up either way.
            self.last_sequence.store(last, Ordering::Release);
        }
        result
    }

    fn notify_ingested(&self, request: &Prepared, micros: u64) {
        let mut ingested = Vec::with_capacity(request.files.len());
        for Incoming { external, placed, transferred, .. } in &request.files {
            let bytes = external.bytes;
            let copied = *transferred == Transferred::Copied;
            let job = CompactionStats {
                count: 1,
                micros,
                bytes_written: if copied { bytes } else { 0 },
                bytes_moved: if copied { 0 } else { bytes },
                ..CompactionStats::default()
            };
            let entries = external.properties.num_entries;
            request.cf.stats.ingested(placed.level, &job, bytes, entries);
            let info = ExternalFileIngestionInfo {
                cf_name: request.cf.name.clone(),
                external_file_path: external.path.clone(),
                internal_file_path: request.cf.new_table(external.number),
                global_seqno: placed.sequence,
                table_properties: external.properties.clone(),
            };
            ingested.push((info, placed.level));
        }
        self.note_ingested(&request.cf, &ingested);
    }
}

impl Directory {
    /// For a file to be moved whose number says that it may be a table of this database: the path
    /// at which its copy, which does not exist yet, will be visible if the file lies in the
    /// database's directory, whatever path leads there.
    fn probe_for_own(
        &self,
        options: &IngestExternalFileOptions,
        external: &ExternalFile,
    ) -> Result<Option<PathBuf>> {
        let name = external.path.file_name().and_then(std::ffi::OsStr::to_str);
        match name.and_then(filename::parse) {
            Some((number, FileType::Table)) if options.move_files && number < external.number => {
                let beside = external.path.parent().unwrap_or(Path::new(""));
                let probe = TableDirs::of(beside).table(TableDirs::OWN, external.number);
                Ok((!self.fs.exists(&probe)?).then_some(probe))
            }
            _ => Ok(None),
        }
    }

    /// Refuses to move a table of this database: its name would be removed, and some version or
    /// checkpoint may need it.
    fn check_not_own(&self, path: &Path, probe: &Path) -> Result<()> {
        match self.fs.exists(probe)? {
            true => Err(Error::invalid_argument(format!(
                "{}: a table of the database cannot be moved; link or copy it",
                path.display()
            ))),
            false => Ok(()),
        }
    }

    /// Writes sequence numbers into the files that should store them, and computes the checksums of
    /// these files.
    fn store_sequences(&self, settings: &DbOptions, prepared: &mut [Prepared]) -> Result<()> {
        let by = (&*self.fs, &settings.file_checksum_gen_factory);
        for request in prepared.iter_mut().filter(|request| request.options.write_global_seqno) {
            for Incoming { external, placed, checksum, .. } in &mut request.files {
                let path = request.cf.new_table(external.number);
                if placed.sequence != external.stored_seqno {
                    let offset = external.properties.global_seqno_offset;
                    if offset == 0 {
                        return Err(Error::invalid_argument(
                            "Trying to set global seqno for a file that don't have a global \
                             seqno field",
                        ));
                    }
                    let (fsync, sequence) = (settings.use_fsync, placed.sequence);
                    transfer::store_seqno(&*self.fs, fsync, &path, offset, sequence)?;
                }
                let readahead = request.options.verify_checksums_readahead_size;
                *checksum = checksums::fresh(by, &path, readahead)?;
            }
        }
        Ok(())
    }

    /// Removes the caller's names of moved files, unless they are other files' by now. A failure
    /// only leaves an extra file.
    fn remove_moved(&self, reports: &Reports, request: &Prepared) {
        for Incoming { external, moved, .. } in &request.files {
            let Some(moved) = moved else { continue };
            let removed = FileIdentity::of(&*self.fs, &external.path).and_then(|now| {
                if now == *moved {
                    return self.fs.remove(&external.path);
                }
                Err(Error::aborted("another file has its name"))
            });
            if let Err(error) = removed {
                reports.warn(format_args!(
                    "{} was added to DB successfully but failed to remove original file link : \
                     {error}",
                    external.path.display()
                ));
            }
        }
    }
}
