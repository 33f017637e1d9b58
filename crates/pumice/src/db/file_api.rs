//! The handle's calls about table files: copies of the database that share them; what ranges take
//! in them and in memory; delete those inside ranges, compact those of a range later, compact given
//! ones now.
//!
//! Thread safety: from any thread. Every call may suspend. Invariant: no file is removed that a
//! compaction reads or an ingestion replaces.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use pumice_base::narrow::to_usize;
use pumice_base::{Error, Result, UserKey};
use pumice_env::Temperature;
use pumice_env::filename::{self, FileType, table_file_name};
use pumice_manifest::{FileMetaData, UserRange, Version, VersionEdit};

use crate::compaction::picker::{FilesRequest, InputLevel};
use crate::db::api::Db;
use crate::engine::DbInner;
use crate::engine::live_files;
use crate::engine::manual_compaction::{WholeRange, whole_range};
use crate::engine::reserve::Reserved;
use crate::engine::storage_info::{LiveFileStorageInfo, LiveFilesStorageInfoOptions};
use crate::options::requests::{CheckpointOptions, CompactFilesOptions};
use crate::state::errors::Reason;
use crate::state::manifest_log::ManifestLog;
use crate::version::family::{CfData, ColumnFamily};

/// First and last user key; None for an open end.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// # let dir = std::env::temp_dir().join(format!("pumice-keyrange-{}", std::process::id()));
/// # let db = pumice::Db::builder(&dir).create(true).open()?;
/// use pumice::{CompactRangeOptions, KeyRange};
/// db.put("2025-01-01", "old")?;
/// db.flush()?;
/// db.compact_range(&CompactRangeOptions::default(), None, None)?;
/// // Whole files of the years before, at once and without tombstones.
/// let before: [KeyRange<'_>; 1] = [(None, Some(b"2026"))];
/// db.delete_files_in_ranges(&before, true)?;
/// assert_eq!(db.get("2025-01-01")?, None);
/// # db.close()?;
/// # pumice::Db::destroy(&Default::default(), &dir)?;
/// # Ok(())
/// # }
/// ```
pub type KeyRange<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);

/// What [`Db::compact_files_job_cf`] did.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// # let dir = std::env::temp_dir().join(format!("pumice-compacted-{}", std::process::id()));
/// # let db = pumice::Db::builder(&dir).create(true).open()?;
/// use pumice::{CompactFilesOptions, CompactedFiles};
/// db.put("a", "1")?;
/// db.flush()?;
/// let (how, name) = (CompactFilesOptions::default(), db.live_files_metadata()[0].name.clone());
/// let done: CompactedFiles =
///     db.compact_files_job_cf(&how, db.default_column_family(), &[&name], 3)?;
/// assert_eq!((done.job_id > 0, done.output_file_names.len()), (true, 1));
/// # db.close()?;
/// # pumice::Db::destroy(&Default::default(), &dir)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompactedFiles {
    /// The job's number.
    pub job_id: u64,
    /// Names of the new files, as in [`crate::LiveFile::name`].
    pub output_file_names: Vec<String>,
}

impl Db {
    /// Makes a copy of the database in the new directory `path`: table files as hard links,
    /// the rest copied.
    ///
    /// # Errors
    /// InvalidArgument if `path` exists, even if another process creates it meanwhile; Aborted in
    /// code that a job calls; I/O.
    pub fn checkpoint(&self, path: impl AsRef<Path>) -> Result<()> {
        self.checkpoint_opt(&CheckpointOptions::default(), path)
    }

    /// As [`Db::checkpoint`], with options.
    ///
    /// # Errors
    /// As [`Db::checkpoint`].
    pub fn checkpoint_opt(
        &self,
        options: &CheckpointOptions,
        path: impl AsRef<Path>,
    ) -> Result<()> {
        self.inner().checkpoint(options, path.as_ref())
    }

    /// The files that make up the present state, for programs that copy them: tables by column
    /// family, MANIFEST, `CURRENT`, OPTIONS and logs. The caller keeps them from being deleted, by
    /// [`Db::disable_file_deletions`].
    ///
    /// # Errors
    /// As [`Db::checkpoint`].
    pub fn live_files_storage_info(
        &self,
        options: &LiveFilesStorageInfoOptions,
    ) -> Result<Vec<LiveFileStorageInfo>> {
        self.inner().storage_info(options)
    }

    /// Roughly the bytes of table files that each of the key ranges `[start, end)` of the default
    /// column family takes; memtables are not counted.
    ///
    /// # Errors
    /// I/O errors and Corruption of reading indexes.
    pub fn approximate_sizes(&self, ranges: &[(&[u8], &[u8])]) -> Result<Vec<u64>> {
        self.inner().life.check_caller()?;
        live_files::approximate_sizes(&self.default_column_family().data, ranges)
    }
    /// [`Db::approximate_sizes`] of `cf`.
    ///
    /// # Errors
    /// As [`Db::approximate_sizes`].
    pub fn approximate_sizes_cf(
        &self,
        cf: &ColumnFamily,
        ranges: &[(&[u8], &[u8])],
    ) -> Result<Vec<u64>> {
        self.inner().life.check_caller()?;
        live_files::approximate_sizes(self.data(cf)?, ranges)
    }
    /// Roughly how many entries of the key range `[start, end)` of the default column family the
    /// memtables hold, and their bytes; range deletions are not counted. Does not suspend.
    ///
    /// # Errors
    /// Aborted in code that the database calls; NotSupported in a child that `fork` made.
    pub fn approximate_memtable_stats(
        &self,
        start: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
    ) -> Result<(u64, u64)> {
        self.inner().life.check_caller()?;
        let family = &self.default_column_family().data;
        Ok(live_files::approximate_memtable_stats(family, start.as_ref(), end.as_ref()))
    }
    /// [`Db::approximate_memtable_stats`] of `cf`.
    ///
    /// # Errors
    /// As [`Db::approximate_memtable_stats`]; InvalidArgument for a handle of another database.
    pub fn approximate_memtable_stats_cf(
        &self,
        cf: &ColumnFamily,
        start: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
    ) -> Result<(u64, u64)> {
        self.inner().life.check_caller()?;
        let family = self.data(cf)?;
        Ok(live_files::approximate_memtable_stats(family, start.as_ref(), end.as_ref()))
    }

    /// Deletes the table files of the default column family that lie wholly inside one of `ranges`
    /// (with the last key of a range only if `include_end`), except those of level 0 and those that
    /// are being compacted. No data is read or written. Entries in other files that the removed
    /// entries deleted or overwrote become visible again; snapshots see the deletion too.
    ///
    /// # Errors
    /// The background error; Aborted while the database is recovering from a failed log; IoError of
    /// the MANIFEST, which is a background error then.
    pub fn delete_files_in_ranges(&self, ranges: &[KeyRange<'_>], include_end: bool) -> Result<()> {
        self.delete_files_in_ranges_cf(self.default_column_family(), ranges, include_end)
    }

    /// [`Db::delete_files_in_ranges`] of `cf`.
    ///
    /// # Errors
    /// As [`Db::delete_files_in_ranges`]; ColumnFamilyDropped.
    pub fn delete_files_in_ranges_cf(
        &self,
        cf: &ColumnFamily,
        ranges: &[KeyRange<'_>],
        include_end: bool,
    ) -> Result<()> {
        self.inner().delete_files_in_ranges(self.live(cf)?, ranges, include_end)
    }

    /// Moves all files of level 0 of `cf` to `target_level` as they are, for data that is written
    /// in order and should not be compacted again.
    ///
    /// # Errors
    /// InvalidArgument if files of level 0 overlap, the levels down to `target_level` have files,
    /// there is no such level, or a compaction runs; ColumnFamilyDropped; the background error;
    /// Aborted, with nothing done, in code that a job calls.
    pub fn promote_l0(&self, cf: &ColumnFamily, target_level: i32) -> Result<()> {
        self.inner().check_writable()?;
        self.inner().promote_l0(self.live(cf)?, target_level)
    }

    /// Deletes the table file, or the log in the archive, of that name, which is relative to the
    /// database's directory. A table must be in the last level with files, and in level 0 the
    /// oldest: what it deleted or overwrote does not come back. One that is being compacted stays.
    /// A log may be any of the archive: [`Db::get_updates_since`] then ends at the gap.
    ///
    /// # Errors
    /// InvalidArgument if it is not such a file; NotSupported for a log that is not in the archive;
    /// Busy for one that is, while a copy is made or after [`Db::disable_file_deletions`]; as
    /// [`Db::delete_files_in_ranges`].
    pub fn delete_file(&self, name: &str) -> Result<()> {
        self.inner().delete_named_file(name)
    }

    /// [`Db::delete_files_in_ranges`] of one range of the default column family, its last key
    /// included; None for an open end.
    ///
    /// # Errors
    /// As [`Db::delete_files_in_ranges`].
    pub fn delete_files_in_range(&self, begin: Option<&[u8]>, end: Option<&[u8]>) -> Result<()> {
        self.delete_files_in_range_cf(self.default_column_family(), begin, end)
    }

    /// [`Db::delete_files_in_range`] of `cf`.
    ///
    /// # Errors
    /// As [`Db::delete_files_in_ranges_cf`].
    pub fn delete_files_in_range_cf(
        &self,
        cf: &ColumnFamily,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Result<()> {
        self.delete_files_in_ranges_cf(cf, &[(begin, end)], true)
    }

    /// Marks the table files of the default column family that overlap `[begin, end]` (None: open
    /// end) to be compacted once there is nothing more urgent, except those of the last level with
    /// data. Returns at once. The marks are forgotten when the database closes.
    ///
    /// # Errors
    /// NotSupported on a database that is opened read-only.
    pub fn suggest_compact_range(&self, begin: Option<&[u8]>, end: Option<&[u8]>) -> Result<()> {
        self.suggest_compact_range_cf(self.default_column_family(), begin, end)
    }

    /// [`Db::suggest_compact_range`] of `cf`.
    ///
    /// # Errors
    /// As [`Db::suggest_compact_range`]; ColumnFamilyDropped.
    pub fn suggest_compact_range_cf(
        &self,
        cf: &ColumnFamily,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Result<()> {
        self.inner().suggest_compact_range(self.live(cf)?, begin, end)
    }

    /// Compacts the table files of the default column family with these names (as in
    /// [`crate::LiveFile::name`]) into `output_level`, with every file that has to be included:
    /// older ones of level 0, those between the named ones, and what overlaps down to that level.
    /// The files are always rewritten, by a background thread. Returns the names of the new files.
    ///
    /// # Errors
    /// InvalidArgument if there is no such file or the level does not fit; Aborted if a running
    /// compaction is in the way; Incomplete while background work or manual compactions are paused,
    /// and when the call is cancelled; the background error.
    pub fn compact_files(
        &self,
        options: &CompactFilesOptions,
        input_file_names: &[&str],
        output_level: i32,
    ) -> Result<Vec<String>> {
        let default = self.default_column_family();
        self.compact_files_cf(options, default, input_file_names, output_level)
    }

    /// [`Db::compact_files`] of `cf`.
    ///
    /// # Errors
    /// As [`Db::compact_files`]; ColumnFamilyDropped.
    pub fn compact_files_cf(
        &self,
        options: &CompactFilesOptions,
        cf: &ColumnFamily,
        input_file_names: &[&str],
        output_level: i32,
    ) -> Result<Vec<String>> {
        let done = self.compact_files_job_cf(options, cf, input_file_names, output_level)?;
        Ok(done.output_file_names)
    }

    /// [`Db::compact_files_cf`], and the number that listeners know the job by.
    ///
    /// # Errors
    /// As there.
    pub fn compact_files_job_cf(
        &self,
        options: &CompactFilesOptions,
        cf: &ColumnFamily,
        input_file_names: &[&str],
        output_level: i32,
    ) -> Result<CompactedFiles> {
        let data = self.live(cf)?;
        let request = FilesRequest {
            family: data.name.clone(),
            files: input_file_names.iter().map(|name| number(name)).collect::<Result<_>>()?,
            output_level,
            compression: options.compression,
            temperature: Some(options.output_temperature_override)
                .filter(|t| *t != Temperature::Unknown),
            output_file_size_limit: options.output_file_size_limit.max(1),
            path_id: options.output_path_id,
        };
        if options.output_path_id.is_some_and(|id| to_usize(id.into()) >= data.dirs.all().len()) {
            return Err(Error::invalid_argument("Invalid output path ID"));
        }
        let written = self.inner().compact_files(data, request, options)?;
        let name = |number: &u64| format!("/{}", table_file_name(*number));
        let output_file_names = written.files.iter().map(name).collect();
        Ok(CompactedFiles { job_id: written.job, output_file_names })
    }
}

/// The number in the name of a table file, with or without a folder.
fn number(name: &str) -> Result<u64> {
    let file = name.rsplit('/').next().unwrap_or(name);
    let digits = file.strip_suffix(".sst").filter(|digits| !digits.is_empty());
    let number = digits.filter(|d| d.bytes().all(|b| b.is_ascii_digit()));
    number
        .and_then(|digits| digits.parse().ok())
        .ok_or_else(|| Error::invalid_argument(format!("{name} is not the name of a table file")))
}

impl DbInner {
    fn delete_files_in_ranges(
        self: &Arc<Self>,
        cf: &CfData,
        ranges: &[KeyRange<'_>],
        include_end: bool,
    ) -> Result<()> {
        self.delete_reserved(|manifest, reserved| {
            self.reserve_inside(manifest, cf, (ranges, include_end), reserved)
        })
    }

    fn delete_named_file(self: &Arc<Self>, name: &str) -> Result<()> {
        let invalid = || Error::invalid_argument("Invalid file name");
        let bare = name.strip_prefix('/').unwrap_or(name);
        let (archived, file) = match bare.strip_prefix("archive/") {
            Some(file) => (true, file),
            None => (false, bare),
        };
        match filename::parse(file).ok_or_else(invalid)? {
            (number, FileType::Table) if !archived => {
                self.delete_reserved(|_, reserved| self.reserve_one(number, reserved))
            }
            (number, FileType::Wal) if archived => {
                self.check_writable()?;
                if self.state.lock().files.are_kept() {
                    return Err(Error::busy("File deletions are disabled"));
                }
                let log = filename::archived_log_file(&self.logs.dir(), number);
                self.deleter().remove_or_trash(&log)
            }
            (_, FileType::Wal) => {
                Err(Error::not_supported("Delete only supported for archived logs"))
            }
            _ => Err(invalid()),
        }
    }

    /// Deletes the files that `choose` reserves, by the edit that it makes.
    fn delete_reserved(
        self: &Arc<Self>,
        choose: impl FnOnce(&ManifestLog, &mut Reserved<'_>) -> Result<VersionEdit>,
    ) -> Result<()> {
        self.check_writable()?;
        let mut manifest = self.manifest.lock();
        manifest.check_lasting()?;
        let mut reserved = Reserved::new(self);
        let deleted = choose(&manifest, &mut reserved).and_then(|edit| {
            let family = edit.column_family;
            match reserved.is_empty() {
                true => Ok(()),
                false => self.versions().apply_edits(&mut manifest, edit.into(), |state| {
                    // What the files hid may show again.
                    if let Some(family) = state.cfs.get(&family) {
                        family.mem.forget_dead_ranges();
                    }
                }),
            }
        });
        drop(manifest);
        let tried = !reserved.is_empty();
        drop(reserved);
        if let Err(error) = &deleted
            && tried
        {
            self.faults().background_error(error, Reason::Manifest);
        }
        deleted?;
        self.delete_obsolete_files();
        Ok(())
    }

    /// The edit that deletes the files inside `ranges`. If there are any, they are reserved, and
    /// the reservation is added to `reserved`: no compaction picks them before the new version is
    /// installed, since the caller has the MANIFEST.
    fn reserve_inside(
        &self,
        _: &ManifestLog,
        cf: &CfData,
        (ranges, include_end): (&[KeyRange<'_>], bool),
        reserved: &mut Reserved<'_>,
    ) -> Result<VersionEdit> {
        let mut state = self.state.lock();
        self.life.check_alive(&state)?;
        let dropped = || Error::column_family_dropped(cf.name.clone());
        let family = state.cfs.get_mut(&cf.id).ok_or_else(dropped)?;
        let whole: Vec<_> =
            ranges.iter().map(|(begin, end)| whole_range(cf, *begin, *end)).collect();
        let doomed = files_inside(&family.version, &whole, include_end);
        let mut edit = VersionEdit { column_family: cf.id, ..VersionEdit::default() };
        for input in &doomed {
            edit.deleted_files.extend(input.files.iter().map(|file| (input.level, file.number)));
        }
        if !doomed.is_empty() {
            let count = edit.deleted_files.len();
            self.reports.info(format_args!("[{}] Deleting {count} files in ranges", cf.name));
            reserved.add(cf.id, family.plan.reserve_files(doomed));
        }
        Ok(edit)
    }

    /// As [`Self::reserve_inside`], of the file with that number.
    fn reserve_one(&self, number: u64, reserved: &mut Reserved<'_>) -> Result<VersionEdit> {
        let mut state = self.state.lock();
        self.life.check_alive(&state)?;
        let found = state.cfs.values_mut().find_map(|family| {
            let version = Arc::clone(&family.version);
            let (level, file) = version.all_files().find(|(_, file)| file.number == number)?;
            Some((family, level, Arc::clone(file)))
        });
        let refused = |text| Err(Error::invalid_argument(text));
        let Some((family, level, file)) = found else { return refused("File not found") };
        let id = family.data.id;
        let mut edit = VersionEdit { column_family: id, ..VersionEdit::default() };
        if file.is_being_compacted() {
            return Ok(edit);
        }
        let version = &family.version;
        if (level + 1..version.num_levels()).any(|below| !version.level(below).is_empty()) {
            return refused("File not in last level");
        }
        if level == 0 && version.files(0).last().is_some_and(|oldest| oldest.number != number) {
            return refused("File in level 0, but not oldest");
        }
        edit.deleted_files.push((level, number));
        let doomed = vec![InputLevel { level, files: vec![file] }];
        reserved.add(id, family.plan.reserve_files(doomed));
        Ok(edit)
    }

    fn suggest_compact_range(
        self: &Arc<Self>,
        cf: &CfData,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Result<()> {
        self.check_writable()?;
        let freed = self.scheduler().caught_up_below();
        let mut state = self.state.lock();
        if let Some(family) = state.cfs.get_mut(&cf.id) {
            let version = Arc::clone(&family.version);
            let (begin, end) = whole_range(cf, begin, end);
            let range = UserRange::closed(begin.as_deref(), end.as_deref());
            family.plan.suggest(&version, &range, freed);
        }
        state.queue_compaction(cf.id);
        self.scheduler().schedule_background(&mut state);
        Ok(())
    }
}

/// The idle files below L0 that lie wholly inside one of the ranges, see [`whole_range`], by level.
fn files_inside(version: &Version, ranges: &[WholeRange], include_end: bool) -> Vec<InputLevel> {
    let cmp = &version.comparator().user;
    let mut inputs = Vec::new();
    for level in version.levels().iter().skip(1) {
        let mut numbers = BTreeSet::new();
        for (begin, end) in ranges {
            let (begin, end) = (begin.as_deref(), end.as_deref());
            let range = UserRange::closed(begin, end);
            let ends_it = |file: &Arc<FileMetaData>| {
                end.is_some_and(|end| cmp.same_user_key(file.largest_user_key(), UserKey::new(end)))
            };
            let inside = &level.files()[level.clean_inputs_within(&range, cmp)];
            let free = |file: &&Arc<FileMetaData>| {
                !file.is_being_compacted() && (include_end || !ends_it(file))
            };
            numbers.extend(inside.iter().filter(free).map(|file| file.number));
        }
        let files = level.files().iter().filter(|file| numbers.contains(&file.number));
        let files: Vec<_> = files.cloned().collect();
        if !files.is_empty() {
            inputs.push(InputLevel { level: level.number(), files });
        }
    }
    inputs
}
