//! Opening and creating databases.
//!
//! Order: check (nothing is written), lock, recover versions, replay logs, start a new log, write a
//! new MANIFEST with everything that recovery found, and only then delete what is obsolete. A crash
//! anywhere before CURRENT changes leaves the database as it was.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pumice_base::planted::{self, Bug};
use pumice_base::{Comparator, Error, FileNumber, Result, SequenceNumber, names};
use pumice_env::filename::TableDirs;
use pumice_env::{
    FileSystem, FileType, IoActivity, ReadFileOptions, activity, create_dir_durably, filename,
};
use pumice_manifest::VersionEdit;

use crate::callbacks::{Mark, mark_code, mark_db_code, mark_files};
use crate::engine::assemble::{Assembly, assemble};
use crate::engine::found_files::WholeFiles;
use crate::engine::recovery::Recovered;
use crate::engine::{DbInner, compaction_tuning, follower, found_files, secondary, two_phase};
use crate::options::{ColumnFamilyOptions, DbOptions, check_together};
use crate::recovery::best_efforts;
use crate::recovery::consistent_read::{Stamp, read_settled};
use crate::recovery::lock::Mode;
use crate::recovery::table_dirs::prepare_dirs;
use crate::recovery::version_recovery::{
    self, RecordedOrder, RecoveredFamily, RecoveredVersions, Shape,
};
use crate::state::DbState;
use crate::state::family::CfState;
use crate::state::parts::Directory;
use crate::state::write_times::RESERVED;
use crate::stats::ContainedLogger;
use crate::trace::{Traces, trace_files};
use crate::version::family::ColumnFamily;
use crate::version::identity::identity;

/// Name of the column family that every database has.
///
/// Example: that of [`ColumnFamilyDescriptor`](crate::ColumnFamilyDescriptor).
pub const DEFAULT_COLUMN_FAMILY_NAME: &str = "default";

/// A column family to open: name and options.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// # let dir = std::env::temp_dir().join(format!("pumice-descriptor-{}", std::process::id()));
/// use pumice::{ColumnFamilyDescriptor, DEFAULT_COLUMN_FAMILY_NAME, Db, Options};
/// let mut options = Options::default();
/// options.db.create_if_missing = true;
/// options.db.create_missing_column_families = true;
/// let families = [DEFAULT_COLUMN_FAMILY_NAME, "logs"]
///     .map(|name| ColumnFamilyDescriptor::new(name, options.cf.clone()));
/// let (db, handles) = Db::open_cf(&options.db, &dir, &families)?;
/// db.put_cf(&handles[1], "key", "value")?;
/// assert_eq!(db.get("key")?, None); // That of another family.
/// # db.close()?;
/// # pumice::Db::destroy(&Default::default(), &dir)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnFamilyDescriptor {
    /// Its name.
    pub name: String,
    /// Its options.
    pub options: ColumnFamilyOptions,
}

impl ColumnFamilyDescriptor {
    /// A descriptor. A byte of the name that is no part of UTF-8 is written `\xHH`, with capital
    /// digits, as [`column_family_name`](crate::column_family_name) does.
    pub fn new(name: impl Into<String>, options: ColumnFamilyOptions) -> Self {
        ColumnFamilyDescriptor { name: names::canonical(&name.into()), options }
    }

    /// The descriptor with the options the column family will work with in the database `mark`.
    pub(crate) fn sanitized(&self, db: &DbOptions, mark: Mark) -> Result<Self> {
        let mut options = self.options.sanitized_in(db)?;
        mark_code(mark, &mut options);
        Ok(Self::new(self.name.as_str(), options))
    }
}

/// RocksDB's name of the family of its statistics.
const STATS_HISTORY_FAMILY: &str = "___rocksdb_stats_history___";

/// Opens the database at `path` with `descriptors`; handles come in their order.
pub(crate) fn open(
    options: &DbOptions,
    path: &Path,
    descriptors: &[ColumnFamilyDescriptor],
    mode: Mode<'_>,
) -> Result<(Arc<DbInner>, Vec<ColumnFamily>)> {
    let mark = Mark::new();
    pumice_port::os::watch_forks();
    mark.check_may_lock()?;
    let (options, descriptors) = sanitize_request(options, descriptors, mark)?;
    let traces = &Arc::new(Traces::new(mark));
    activity::during(IoActivity::DbOpen, || match mode {
        // Another process may be writing.
        Mode::ReadOnly { .. } => read_settled(&*options.file_system, path, |stamp| {
            open_once(&options, path, &descriptors, mode, (mark, traces), Some(stamp))
        }),
        _ => open_once(&options, path, &descriptors, mode, (mark, traces), None),
    })
}

fn open_once(
    options: &DbOptions,
    path: &Path,
    descriptors: &[ColumnFamilyDescriptor],
    mode: Mode<'_>,
    (mark, traces): (Mark, &Arc<Traces>),
    stamp: Option<Stamp>,
) -> Result<(Arc<DbInner>, Vec<ColumnFamily>)> {
    let fs = Arc::clone(&options.file_system);
    let (lock, exists) = crate::recovery::lock::lock_and_look(&*fs, path, options, mode)?;
    let wal_dir = directories(options, path, descriptors, mode)?;
    let asked = descriptors;
    let source = mode.leader().map_or(path, |leader| &leader.path);
    let (mut recovered, descriptors) = match exists {
        true => recovered_families(options, source, &wal_dir, asked, (mode, mark))?,
        false => (nothing_yet(asked), asked.to_vec()),
    };
    if !options.create_missing_column_families
        && let Some(unknown) =
            asked.iter().find(|d| recovered.families.values().all(|f| f.name != d.name))
    {
        return Err(not_found(&unknown.name));
    }
    let db_id = identity(&*fs, source, recovered.db_id.as_deref(), exists)?;
    let info_log = open_info_log(options, &fs, path, mode)?;
    let losses = std::mem::take(&mut recovered.losses);
    let inner = assemble(Assembly {
        options,
        fs: trace_files(fs, &traces.io),
        path,
        wal_dir: &wal_dir,
        mode,
        recovered,
        descriptors: &descriptors,
        db_id,
        info_log,
        lock,
        mark,
        traces: Arc::clone(traces),
    })?;
    let db = Arc::new(inner);
    db.life.me.get_or_init(|| Arc::downgrade(&db));
    db.log_open_header();
    let dropped = db.state.lock().files.dropped_tail.clone();
    dropped.iter().for_each(|tail| db.reports.dropped_tail(tail));
    losses.iter().for_each(|loss| db.reports.warn(format_args!("{loss}")));
    db.state.lock().files.left_out = !losses.is_empty();
    match mode {
        Mode::ReadWrite | Mode::TwoPhase => {
            start_writing(&db, exists, asked)?;
        }
        Mode::ReadOnly { error_if_wal_exists, until } => {
            db.start_read_only(error_if_wal_exists, until, stamp)?;
        }
        Mode::Secondary { .. } => secondary::start(&db)?,
        Mode::Follower(_) => follower::begin(&db)?,
        // It reads the files of one version only.
        Mode::Worker { .. } => {}
    }
    if !exists {
        check_direct(options, path)?;
    }
    let handles = handles(&db, asked)?;
    start_tasks(&db, mode)?;
    Ok((db, handles))
}

/// The open has succeeded: starts what keeps the lock of the directory.
fn start_tasks(db: &Arc<DbInner>, mode: Mode<'_>) -> Result<()> {
    if mode.writes() {
        db.reports.begin_history();
        db.watch_dumps(&mut db.state.lock());
    }
    if mode.leader().is_some() { follower::start(db) } else { Ok(()) }
}

/// What the MANIFEST has, and the descriptors of the families that are opened: those asked for, and
/// in a database that is to be written that in which RocksDB keeps statistics
/// (`persist_stats_to_disk`). RocksDB opens it unasked, and programs do not name it; it is kept as
/// it is.
fn recovered_families(
    options: &DbOptions,
    path: &Path,
    wal_dir: &Path,
    asked: &[ColumnFamilyDescriptor],
    (mode, mark): (Mode<'_>, Mark),
) -> Result<(RecoveredVersions, Vec<ColumnFamilyDescriptor>)> {
    let mut descriptors = asked.to_vec();
    if mode.writes() && asked.iter().all(|d| d.name != STATS_HISTORY_FAMILY) {
        let small = ColumnFamilyOptions { write_buffer_size: 2 << 20, ..Default::default() };
        descriptors.push(ColumnFamilyDescriptor::new(STATS_HISTORY_FAMILY, small));
    }
    let read = || recover(options, path, wal_dir, &descriptors, mode);
    let recovered = match mode.is_guest() {
        // The files found only have to be consistent: a catch-up follows.
        true => read_settled(&*options.file_system, path, |_| read())?,
        false => read()?,
    };
    let unasked = descriptors.drain(asked.len()..).next();
    if let Some(unasked) = unasked
        && recovered.families.values().any(|family| family.name == unasked.name)
    {
        descriptors.push(unasked.sanitized(options, mark)?);
    }
    Ok((recovered, descriptors))
}

/// Recovers a database that is to be written.
fn start_writing(
    db: &Arc<DbInner>,
    exists: bool,
    descriptors: &[ColumnFamilyDescriptor],
) -> Result<()> {
    if let Err(error) = db.start_writable(exists, descriptors) {
        db.undo_open();
        return Err(error);
    }
    if let Some(manager) = &db.resources.write_buffer_manager {
        manager.add_user(Arc::downgrade(db) as _);
    }
    Ok(())
}

/// The directory of the logs. It and those of tables are made when they are missing and anything is
/// to be written.
fn directories(
    options: &DbOptions,
    path: &Path,
    descriptors: &[ColumnFamilyDescriptor],
    mode: Mode<'_>,
) -> Result<PathBuf> {
    let fs = &*options.file_system;
    let dir: PathBuf = match options.wal_dir.as_str() {
        "" => path.to_path_buf(),
        dir => dir.into(),
    };
    if mode.writes() && dir != path {
        // A log is made only in a directory that is durable.
        create_dir_durably(fs, &dir, !filename::holds_logs(fs, &dir)?)?;
    }
    if mode.writes() {
        descriptors.iter().try_for_each(|family| prepare_dirs(fs, &family.options))?;
    }
    Ok(dir)
}

/// A handle for each descriptor.
fn handles(db: &Arc<DbInner>, descriptors: &[ColumnFamilyDescriptor]) -> Result<Vec<ColumnFamily>> {
    let map = db.cfs.load();
    let handle = |d: &ColumnFamilyDescriptor| {
        let data = map.by_name(&d.name).ok_or_else(|| not_found(&d.name))?;
        Ok(ColumnFamily::new(Arc::clone(data), Arc::downgrade(db)))
    };
    descriptors.iter().map(handle).collect()
}

fn not_found(name: &str) -> Error {
    Error::invalid_argument(format!("Column family not found: {name}"))
}

/// The options that the database will use; refuses those that cannot work.
fn sanitize_request(
    options: &DbOptions,
    descriptors: &[ColumnFamilyDescriptor],
    mark: Mark,
) -> Result<(DbOptions, Vec<ColumnFamilyDescriptor>)> {
    let mut names = BTreeSet::new();
    for descriptor in descriptors {
        if !names.insert(descriptor.name.as_str()) {
            return Err(Error::invalid_argument(format!(
                "Column family named twice: {}",
                descriptor.name
            )));
        }
    }
    if !names.contains(DEFAULT_COLUMN_FAMILY_NAME) {
        return Err(Error::invalid_argument("Default column family not specified"));
    }
    for descriptor in descriptors {
        compaction_tuning::check_tuned(options, &descriptor.options)?;
        check_together(options, &descriptor.options)?;
    }
    let families = descriptors.iter().map(|descriptor| descriptor.sanitized(options, mark));
    let mut sanitized = options.sanitized()?;
    sanitized.file_system = mark_files(mark, &sanitized.file_system);
    mark_db_code(mark, &mut sanitized);
    Ok((sanitized, families.collect::<Result<_>>()?))
}

/// Refuses direct I/O on a file system that has none, by trying it on CURRENT.
fn check_direct(options: &DbOptions, path: &Path) -> Result<()> {
    let direct = [
        options.use_direct_reads,
        options.use_direct_io_for_flush_and_compaction,
        options.use_direct_io_for_compaction_reads,
    ];
    if !direct.contains(&true) {
        return Ok(());
    }
    let (fs, current) = (&options.file_system, filename::current_file(path));
    let how = ReadFileOptions { direct: true, ..ReadFileOptions::default() };
    let Err(error) = fs.open_random_with(&current, &how) else {
        return Ok(());
    };
    fs.open_random(&current).map_err(|_| error)?;
    Err(Error::invalid_argument("Direct I/O is not supported by the specified DB."))
}

/// A database that is about to be created.
fn nothing_yet(descriptors: &[ColumnFamilyDescriptor]) -> RecoveredVersions {
    let keeps_times = descriptors.iter().any(|d| d.options.kept_times() > 0);
    RecoveredVersions {
        families: BTreeMap::from([(0, fresh_family(DEFAULT_COLUMN_FAMILY_NAME, descriptors))]),
        unopened: BTreeMap::new(),
        manifest_number: 0,
        next_file_number: 1,
        last_sequence: if keeps_times { RESERVED } else { 0 },
        min_log_to_keep: 0,
        max_column_family: 0,
        db_id: None,
        dropped: None,
        losses: Vec::new(),
    }
}

fn fresh_family(name: &str, descriptors: &[ColumnFamilyDescriptor]) -> RecoveredFamily {
    let options = descriptors.iter().find(|d| d.name == name).map(|d| &d.options);
    let comparator = options.map_or(Comparator::Bytewise, |o| o.comparator.clone());
    let stripped = options.is_some_and(ColumnFamilyOptions::strips_timestamps);
    let levels = options.map_or(7, |o| o.num_levels as usize);
    RecoveredFamily {
        name: name.to_string(),
        log_number: 0,
        version: pumice_manifest::Version::of_family(&comparator, stripped, levels),
    }
}

fn recover(
    options: &DbOptions,
    path: &Path,
    wal_dir: &Path,
    descriptors: &[ColumnFamilyDescriptor],
    mode: Mode<'_>,
) -> Result<RecoveredVersions> {
    let best_efforts = options.best_efforts_recovery && !mode.is_guest();
    let fs = &*options.file_system;
    if !best_efforts || fs.exists(&filename::current_file(path))? {
        check_direct(options, path)?;
    }
    let spec = |_: u32, name: &str, _: Option<RecordedOrder<'_>>| {
        let opened = descriptors.iter().find(|d| d.name == name);
        Ok(opened.map(|d| Shape {
            comparator: d.options.comparator.clone(),
            stripped: d.options.strips_timestamps(),
            levels: d.options.num_levels as usize,
            may_overlap: matches!(mode, Mode::ReadOnly { .. })
                && !d.options.force_consistency_checks,
        }))
    };
    let dirs = |name: &str| match descriptors.iter().find(|d| d.name == name) {
        Some(family) => family.options.table_dirs(path),
        None => TableDirs::new(options.db_paths.iter().map(|p| p.path.clone()), path),
    };
    let mut recovered = match best_efforts {
        true => {
            let verify_ids = options.verify_sst_unique_id_in_manifest;
            let files = WholeFiles { fs, dirs: &dirs, verify_ids };
            best_efforts::recover(fs, path, &files, &spec)?
        }
        false => version_recovery::recover_versions(fs, path, &spec)?,
    };
    if let Mode::Worker { .. } = mode {
        // Its options, and so the directories of others, are not read.
        recovered.unopened.clear();
    }
    if mode.writes() {
        if mode == Mode::ReadWrite && !best_efforts {
            recovered.check_prepared(fs, wal_dir)?;
        }
        let missing: Vec<&str> = recovered.unopened.values().map(|f| f.name.as_str()).collect();
        if !missing.is_empty() {
            return Err(Error::invalid_argument(format!(
                "Column families not opened: {}",
                missing.join(", ")
            )));
        }
    }
    if let Mode::Follower(_) = mode {
        // Tables are checked when they are taken, and there are no logs.
        return Ok(recovered);
    }
    // A torn MANIFEST is trusted only if the tables agree with it.
    if options.paranoid_checks || recovered.dropped.as_ref().is_some_and(|dropped| dropped.holed) {
        found_files::check_tables(fs, &dirs, &recovered)?;
    }
    if !best_efforts {
        found_files::check_logs(fs, wal_dir, &recovered)?;
        found_files::check_logs_moved(fs, path, wal_dir, &recovered)?;
    }
    Ok(recovered)
}

fn open_info_log(
    options: &DbOptions,
    fs: &Arc<dyn FileSystem>,
    path: &Path,
    mode: Mode<'_>,
) -> Result<Option<Arc<dyn crate::stats::Logger>>> {
    let place = match (&options.info_log, mode) {
        (Some(log), _) => return Ok(Some(Arc::new(ContainedLogger::new(Arc::clone(log))))),
        (None, Mode::ReadOnly { .. }) => return Ok(None),
        (None, Mode::Secondary { path } | Mode::Worker { path }) => path,
        (None, Mode::ReadWrite | Mode::TwoPhase | Mode::Follower(_)) => path,
    };
    let log = crate::stats::InfoLog::open(Arc::clone(fs), place, &options.info_log_settings())?;
    Ok(Some(Arc::new(log)))
}

impl DbInner {
    fn start_writable(
        self: &Arc<Self>,
        exists: bool,
        descriptors: &[ColumnFamilyDescriptor],
    ) -> Result<()> {
        let options = self.options();
        self.dir.write_identity(options.write_identity_file, &options.metadata_file())?;
        self.deleter().make_archive()?;
        {
            let state = self.state.lock();
            self.refresh_wal_settings(&state);
            self.background.refresh_tuning(&state, self.options().background_policy);
        }
        let recovered = if exists {
            let dirs = self.state.lock().table_dirs();
            self.file_numbers.skip_to(self.dir.next_number(dirs)?);
            self.replay_wanted_logs(None, None)?
        } else {
            Recovered::default()
        };
        self.install_recovery(&recovered)?;
        self.create_missing(descriptors)?;
        self.begin_write_times(exists);
        self.write_options_file()?;
        let mut state = self.state.lock();
        let ids: Vec<u32> = state.cfs.keys().copied().collect();
        for id in ids {
            if let Some(cf) = state.cfs.get_mut(&id) {
                self.scheduler().refresh_scores(cf);
                self.scheduler().update_stall(cf);
            }
            state.queue_compaction(id);
        }
        drop(state);
        self.delete_unreferenced_files(true)?;
        self.deleter().purge_archive();
        self.start_background();
        Ok(())
    }

    /// What the logs have; they are set aside if the recovery is one of best efforts.
    fn replay_wanted_logs(
        self: &Arc<Self>,
        stamp: Option<Stamp>,
        until: Option<SequenceNumber>,
    ) -> Result<Recovered> {
        let options = self.options();
        if !options.best_efforts_recovery || self.dir.secondary {
            return self.replay_logs(options.replay_mode(), stamp, until);
        }
        let (mut set_aside, dir) = (Vec::new(), self.logs.dir());
        for name in self.dir.fs.list(&dir)? {
            if let Some((number, FileType::Wal)) = filename::parse(&name)
                && self.dir.fs.file_size(&dir.join(&name))? > 0
            {
                self.reports.warn(format_args!(
                    "best-efforts recovery: the log {number:06} is not recovered"
                ));
                set_aside.push(number);
            }
        }
        Ok(Recovered { set_aside, ..Recovered::default() })
    }

    /// Starts the first log and makes what recovery found durable, all at once.
    fn install_recovery(&self, recovered: &Recovered) -> Result<()> {
        let number = self.new_file_number();
        {
            let mut wal = self.logs.wal.lock();
            self.cfs.load().all().for_each(|cf| wal.note_timestamps(cf.id, cf.timestamp_size));
            if recovered.in_memory {
                wal.keep(&recovered.logs)?;
            }
            wal.switch(number, true)?;
        }
        two_phase::keep_sections(self, number, &recovered.sections)?;
        self.logs.history.begin(number, self.last_sequence.load(Ordering::Acquire));
        self.archive(&recovered.set_aside)?;
        let outputs = recovered.edits.values().flat_map(|edit| {
            let tables = edit.new_files.iter().map(|(_, file)| file.number);
            tables.chain(edit.blob_additions.iter().map(|blob| blob.number))
        });
        self.archive_tables(&outputs.collect())?;
        let build = |state: &DbState| {
            let edit_of = |cf: &CfState| {
                let mut edit = recovered.edits.get(&cf.data.id).cloned().unwrap_or_default();
                edit.column_family = cf.data.id;
                // The oldest log that the MANIFEST names must exist (see `check_logs`), even if
                // another engine named one before creating it.
                let oldest = recovered.logs.first().map_or(number, |(oldest, _)| *oldest);
                edit.log_number = Some(if recovered.in_memory { oldest } else { number });
                edit
            };
            state.cfs.values().map(edit_of).collect::<Vec<VersionEdit>>()
        };
        if planted::is(Bug::RecoveryNotAtomic) {
            let edits = build(&self.state.lock());
            return edits
                .into_iter()
                .try_for_each(|edit| self.versions().change_versions(|_| Ok(edit.into()), |_| ()));
        }
        self.versions().change_versions(
            |state| Ok(build(state).into()),
            |state| state.files.pending_outputs.clear(), // Versions now name them.
        )
    }

    fn create_missing(self: &Arc<Self>, descriptors: &[ColumnFamilyDescriptor]) -> Result<()> {
        for descriptor in descriptors {
            if self.cfs.load().by_name(&descriptor.name).is_some() {
                continue;
            }
            if !self.options().create_missing_column_families {
                return Err(not_found(&descriptor.name));
            }
            self.create_family(descriptor)?;
        }
        Ok(())
    }

    fn start_read_only(
        self: &Arc<Self>,
        error_if_wal_exists: bool,
        until: Option<SequenceNumber>,
        stamp: Option<Stamp>,
    ) -> Result<()> {
        // Tables may have lost the versions of earlier moments.
        let flushed = self.last_sequence.load(Ordering::Acquire);
        if let Some(until) = until.filter(|until| *until < flushed) {
            return Err(Error::invalid_argument(format!(
                "table files are as of sequence number {flushed}: nothing shows how it was at \
                 {until}"
            )));
        }
        let recovered = self.replay_wanted_logs(stamp, until)?;
        let has_logs =
            recovered.logs.iter().any(|(_, bytes)| *bytes > 0) || !recovered.set_aside.is_empty();
        if error_if_wal_exists && has_logs {
            return Err(Error::corruption(format!(
                "{}: there are WAL files and error_if_wal_file_exists is set",
                self.dir.path.display()
            )));
        }
        self.state.lock().cfs.values().for_each(|cf| cf.give_up_memory());
        Ok(())
    }
}

impl Directory {
    /// The number after all those in file names of the directory and of `dirs`, where tables are,
    /// 0 if there are none: after a crash they may exceed what the MANIFEST knows, and none is
    /// reused. An old info log's "number" is its time.
    fn next_number(&self, mut dirs: BTreeSet<PathBuf>) -> Result<FileNumber> {
        let mut next = 0;
        dirs.insert(self.path.clone());
        for dir in dirs {
            for name in self.fs.list(&dir)? {
                match filename::parse(&name) {
                    None | Some((_, FileType::InfoLog)) => {}
                    Some((number, _)) => {
                        let number = version_recovery::check_found(number, &dir.join(&name))?;
                        next = next.max(number + 1);
                    }
                }
            }
        }
        Ok(next)
    }
}
