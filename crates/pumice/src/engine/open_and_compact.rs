//! A compaction for a database of another process: what a worker of a compaction service runs.
//!
//! The database is opened as a secondary that follows nothing: its MANIFEST is read, its logs are
//! not. The output directory is one more path of the column family, so that tables are written
//! there by the code that writes all others.
//!
//! Thread safety: from any thread; it suspends. Two calls need two output directories.
//!
//! What it does not do: change the database. A call that fails removes what it wrote; one that is
//! killed leaves it in the output directory, which is the caller's to remove.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use pumice_base::key::MAX_SEQUENCE;
use pumice_base::{Error, Result};
use pumice_env::filename::options_file;
use pumice_env::{FileSystem, create_dir_durably};
use pumice_port::thread;
use pumice_port::time::now_micros;

use crate::compaction::compaction_env::{CompactionEnv, LaneKind};
use crate::compaction::picker::FilesRequest;
use crate::compaction::service::{ServiceFile, ServiceInput, ServiceResult};
use crate::compaction::subcompaction::{self, Asked};
use crate::engine::DbInner;
use crate::engine::open::{ColumnFamilyDescriptor, DEFAULT_COLUMN_FAMILY_NAME, open};
use crate::engine::remote_check::check_output_dir;
use crate::options::ColumnFamilyOptions;
use crate::options::compaction_service::CompactionServiceOptionsOverride;
use crate::options::file::{FileRules, LoadedOptions, parse_options_file_over};
use crate::options::latest::load_latest;
use crate::options::paths::{DbPath, PATHS_MAX};
use crate::options::requests::CancelFlag;
use crate::recovery::lock::Mode;
use crate::snapshot::LiveSnapshots;
use crate::state::work::CompactionWork;
use crate::stats::thread_status::JobNote;

/// How [`open_and_compact`] works.
///
/// Example: that of [`open_and_compact`].
#[derive(Clone, Debug, Default)]
pub struct OpenAndCompactOptions {
    /// The switch that ends it.
    pub canceled: Option<CancelFlag>,
}

/// Does a compaction of the database at `path`, which another process has open: `input` is what its
/// [`CompactionService`](crate::options::CompactionService) was given. The tables go to the
/// directory `output_directory`, made if need be, which that process must be able to rename files
/// from. Returns what [`CompactionService::wait`](crate::options::CompactionService::wait) is to
/// return.
///
/// Settings are those of the database's OPTIONS file; its objects are those of `over`.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// use pumice::options::CompactionServiceOptionsOverride;
/// use pumice::{CancelFlag, OpenAndCompactOptions, open_and_compact};
/// let options = OpenAndCompactOptions { canceled: Some(CancelFlag::default()) };
/// let over = CompactionServiceOptionsOverride::default();
/// let error = open_and_compact(&options, "/nowhere", "/out", b"", &over).unwrap_err();
/// assert_eq!(error.kind(), pumice::ErrorKind::InvalidArgument);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// InvalidArgument for an input that cannot be read, or is of another database, and for a directory
/// of the database as output; NotSupported if that has a name that is no UTF-8; Aborted if the
/// inputs are no longer what the database compacts; Incomplete if it was cancelled; those of
/// opening the database and of a compaction. Nothing of the output is left.
pub fn open_and_compact(
    options: &OpenAndCompactOptions,
    path: impl AsRef<Path>,
    output_directory: impl AsRef<Path>,
    input: &[u8],
    over: &CompactionServiceOptionsOverride,
) -> Result<Vec<u8>> {
    let (path, output) = (path.as_ref(), output_directory.as_ref());
    let input = ServiceInput::read(input)?;
    if output.to_str().is_none() {
        return Err(Error::not_supported("an output directory whose name is no UTF-8"));
    }
    let loaded = load(&*over.options.db.file_system, path, &input, over)?;
    check_output(&loaded, path, output, &input)?;
    let (mut db_options, families, output_path) = settings(loaded, path, output, &input)?;
    db_options.compaction_service = None;
    create_dir_durably(&*db_options.file_system, output, false)?;
    let mode = Mode::Worker { path: output };
    let (db, _handles) = open(&db_options, path, &families, mode)?;
    let done = compact(&db, options, (output, output_path), &input);
    let closed = db.close();
    let result = done?;
    closed?;
    Ok(result.write())
}

/// The options that the database works with.
fn load(
    fs: &dyn FileSystem,
    path: &Path,
    input: &ServiceInput,
    over: &CompactionServiceOptionsOverride,
) -> Result<LoadedOptions> {
    let rules = FileRules { ignore_unknown_options: true, ..FileRules::default() };
    let parse_for = |text: &[u8], wanted: &dyn Fn(&str) -> bool| {
        parse_options_file_over(text, rules, &over.options.db, &|name| match wanted(name) {
            true => over.options.cf.clone(),
            false => ColumnFamilyOptions::default(),
        })
    };
    // The default column family is opened as well; its objects may be the same.
    let parse = |text: &[u8]| {
        parse_for(text, &|name| name == input.cf_name).or_else(|_| parse_for(text, &|_| true))
    };
    let file = options_file(path, input.options_file_number);
    let mut loaded = match fs.read_file(&file) {
        Ok(text) => parse(&text).map_err(|error| error.with_context(file.display()))?,
        // The options were changed since.
        Err(error) if error.is_not_found() => load_latest(fs, path, &parse)?
            .ok_or_else(|| error.with_context("there is no OPTIONS file"))?,
        Err(error) => return Err(error),
    };
    for (name, value) in &over.options_map {
        if loaded.db.set(name, value).is_ok() {
            continue;
        }
        let families = loaded.column_families.iter_mut();
        for family in families.filter(|family| family.name == input.cf_name) {
            family.options.set(name, value)?;
        }
    }
    Ok(loaded)
}

/// Numbers of outputs are those that the database may be using: in its own directories they would
/// replace its files.
fn check_output(
    loaded: &LoadedOptions,
    path: &Path,
    output: &Path,
    input: &ServiceInput,
) -> Result<()> {
    let families = loaded.column_families.iter().flat_map(|family| &family.options.cf_paths);
    let paths = loaded.db.db_paths.iter().chain(families).map(|path| path.path.as_path());
    let dirs = paths.chain([path, Path::new(&loaded.db.wal_dir)]);
    let inputs = input.input_files.iter().copied();
    check_output_dir(&*loaded.db.file_system, output, dirs, inputs)
}

/// What the database is opened with, and which path of the family is the output directory.
fn settings(
    loaded: LoadedOptions,
    path: &Path,
    output: &Path,
    input: &ServiceInput,
) -> Result<(crate::options::DbOptions, Vec<ColumnFamilyDescriptor>, u32)> {
    let mut output_path = 0;
    let mut families = Vec::new();
    for entry in loaded.column_families {
        let mut options = entry.options;
        let wanted = entry.name == input.cf_name;
        if !wanted && entry.name != DEFAULT_COLUMN_FAMILY_NAME {
            continue;
        }
        if wanted {
            if options.cf_paths.is_empty() {
                options.cf_paths.clone_from(&loaded.db.db_paths);
            }
            if options.cf_paths.is_empty() {
                options.cf_paths.push(DbPath::new(path, u64::MAX));
            }
            if options.cf_paths.len() >= PATHS_MAX {
                let text = "a column family with four paths is compacted where it is";
                return Err(Error::not_supported(text));
            }
            output_path = u32::try_from(options.cf_paths.len()).unwrap_or(0);
            options.cf_paths.push(DbPath::new(output, u64::MAX));
        }
        families.push(ColumnFamilyDescriptor::new(entry.name, options));
    }
    if output_path == 0 {
        return Err(Error::invalid_argument(format!("Column family not found: {}", input.cf_name)));
    }
    Ok((loaded.db, families, output_path))
}

/// Runs the compaction.
fn compact(
    db: &Arc<DbInner>,
    options: &OpenAndCompactOptions,
    (output, output_path): (&Path, u32),
    input: &ServiceInput,
) -> Result<ServiceResult> {
    let started = now_micros();
    if !input.db_id.is_empty() && input.db_id != db.dir.db_id {
        return Err(Error::invalid_argument(format!(
            "the compaction is of the database {} and this one is {}",
            input.db_id, db.dir.db_id
        )));
    }
    let work = work(db, output_path, input)?;
    let job = db.reports.events.next_job();
    let mut context = db.job_context(&work, LaneKind::Normal, &JobNote::default(), job)?;
    context.snapshots = LiveSnapshots {
        sequences: input.snapshots.clone(),
        // Transactions of the database: what they check is not known here.
        earliest_write_conflict: input.snapshots.first().copied().unwrap_or(MAX_SEQUENCE),
    };
    context.manual = Some(Asked { canceled: options.canceled.clone(), ..Asked::default() });
    let run = || {
        // A short one would end before it asks.
        db.check_manual(options.canceled.as_ref())?;
        let part = subcompaction::run(&context, input.begin.clone(), input.end.clone())?;
        db.dir.fs.sync_dir(output)?;
        Ok(part)
    };
    let part = thread::contain("Compaction", run).and_then(|part| part);
    let Ok(part) = part else {
        for number in &*context.outputs.tables.lock() {
            // As far as it was made; the error says what happened.
            drop(db.dir.fs.remove(&work.output_path(*number)));
        }
        return Err(part.err().unwrap_or_else(|| Error::aborted("no result")));
    };
    let output_files: Vec<ServiceFile> = part.files.iter().map(|f| ServiceFile::of(f)).collect();
    Ok(ServiceResult {
        status: Ok(()),
        bytes_written: output_files.iter().map(|file| file.file_size).sum(),
        output_files,
        output_level: input.output_level,
        output_path: output.display().to_string(),
        bytes_read: work.pick.input_bytes(),
        entries_in: (!part.counts.uncounted).then_some(part.counts.entries_in),
        elapsed_micros: now_micros().saturating_sub(started),
        cpu_micros: part.cpu_micros,
    })
}

/// The compaction of exactly the files of `input`.
fn work(db: &DbInner, output_path: u32, input: &ServiceInput) -> Result<CompactionWork> {
    let mut state = db.state.lock();
    let cf = state.cfs.values_mut().find(|cf| cf.data.name == input.cf_name);
    let Some(cf) = cf else {
        return Err(Error::invalid_argument(format!("Column family not found: {}", input.cf_name)));
    };
    let version = Arc::clone(&cf.version);
    if !version.blob_files().is_empty() || cf.data.options().enable_blob_files {
        return Err(Error::not_supported("compactions with blob files by another process"));
    }
    let level = usize::try_from(input.output_level).unwrap_or(usize::MAX);
    let files: BTreeSet<u64> = input.input_files.iter().copied().collect();
    let request = FilesRequest {
        family: input.cf_name.clone(),
        files: files.clone(),
        output_level: input.output_level,
        compression: None,
        temperature: None,
        output_file_size_limit: cf.plan.output_bytes(level),
        path_id: Some(output_path),
    };
    let mut pick = cf.plan.pick_files(&version, &request)?;
    pick.outputs.proximal = None; // The answer has no word for a second level.
    let found: BTreeSet<u64> = pick.input_files().map(|(_, file)| file.number).collect();
    if found != files {
        return Err(Error::aborted(format!(
            "the inputs {files:?} of the compaction cannot be compacted without {found:?}"
        )));
    }
    let registered = cf.plan.register(&version, &pick, 0);
    Ok(CompactionWork {
        cf: Arc::clone(&cf.data),
        version,
        pick,
        registered,
        base_level: cf.plan.base_level(),
        max_subcompactions: 1,
        manual: None,
        token: None,
        io: None,
    })
}
