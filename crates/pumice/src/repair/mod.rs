//! Repairing a damaged database; docs/repair.md is the page for users.
//!
//! Everything is read before anything is written, so that what cannot be kept is refused before any
//! change. `survey` decides whether a MANIFEST can be trusted; `keep` repairs with it, `rebuild`
//! without; `install` makes the result the database that opens.
//!
//! Thread safety: a repair holds the database's lock. Invariants: (1) nothing is deleted that the
//! repair has not written itself, files only move to `lost`; (2) a repair that is killed at any
//! moment leaves the old database or the repaired one, and can be run again.

mod blobs;
mod context;
mod history;
mod install;
mod keep;
mod logs;
mod merged_tables;
mod rebuild;
mod repaired_tables;
pub(crate) mod report;
mod survey;
mod tables;

use std::path::{Path, PathBuf};

use pumice_base::order;
use pumice_base::{Error, Result};
use pumice_env::filename;

use crate::callbacks::Mark;
use crate::engine::open::ColumnFamilyDescriptor;
use crate::options::index_owner::blobs_of;
use crate::options::{ColumnFamilyOptions, DbOptions, Options};
use context::RepairContext;
use report::RepairReport;
use survey::Survey;

/// Builds a database that opens from what is left of the one at `path`, and reports what was saved
/// and what was not. Nothing is deleted: unusable files move to its directory `lost`. A healthy
/// database is not changed.
///
/// Every column family has the options `options.cf`; its comparator is the one that its files name
/// if that is built in. Every table is read as a whole; if the MANIFEST is lost, most of them are
/// also rewritten, which needs free space.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// use pumice::{Db, Options, RepairOutcome};
///
/// # let dir = std::env::temp_dir().join(format!("pumice-repair-doc-{}", std::process::id()));
/// let mut options = Options::default();
/// options.db.create_if_missing = true;
/// let db = Db::open(&options, &dir)?;
/// db.put("apple", "green")?;
/// db.close()?;
/// std::fs::remove_file(dir.join("CURRENT")).unwrap();
///
/// let report = pumice::repair(&options, &dir)?;
/// assert_eq!(report.outcome, RepairOutcome::CurrentRestored);
/// assert!(report.is_complete());
/// let db = Db::open(&options, &dir)?;
/// assert_eq!(db.get("apple")?.as_deref(), Some(&b"green"[..]));
/// # db.close()?;
/// # drop(db);
/// # std::fs::remove_dir_all(&dir).unwrap();
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// IoError if the database is open; Corruption if there are no files of a database; NotSupported or
/// InvalidArgument, naming the file, for data that could not be kept: prepared transactions, an
/// unknown comparator, newer formats, RocksDB's old BlobDB. Nothing is changed then. I/O
/// errors, after which it can be called again.
pub fn repair(options: &Options, path: impl AsRef<Path>) -> Result<RepairReport> {
    run(&options.db, path.as_ref(), &[], Some(&options.cf))
}

/// As [`repair()`], with options of their own for column families. Those that are not named get
/// `unknown`; without it they are refused.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// # let dir = std::env::temp_dir().join(format!("pumice-repaircf-{}", std::process::id()));
/// # let db = pumice::Db::builder(&dir).create(true).open()?;
/// use pumice::{ColumnFamilyDescriptor, ColumnFamilyOptions, DbOptions};
/// db.put("a", "1")?;
/// db.close()?;
/// # drop(db);
/// let default = ColumnFamilyDescriptor::new("default", ColumnFamilyOptions::default());
/// let report =
///     pumice::repair_column_families(&DbOptions::default(), &dir, &[default], None)?;
/// assert_eq!(report.column_families, ["default"]);
/// # pumice::Db::destroy(&Default::default(), &dir)?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// As [`repair()`]; InvalidArgument for a column family without options.
pub fn repair_column_families(
    options: &DbOptions,
    path: impl AsRef<Path>,
    families: &[ColumnFamilyDescriptor],
    unknown: Option<&ColumnFamilyOptions>,
) -> Result<RepairReport> {
    run(options, path.as_ref(), families, unknown)
}

fn run(
    db: &DbOptions,
    dir: &Path,
    families: &[ColumnFamilyDescriptor],
    unknown: Option<&ColumnFamilyOptions>,
) -> Result<RepairReport> {
    Mark::new().check_may_lock()?;
    let mut given = families.iter().map(|family| &family.options).chain(unknown);
    if !db.db_paths.is_empty() || given.any(|options| !options.cf_paths.is_empty()) {
        return Err(Error::not_supported("a repair with db_paths or cf_paths"));
    }
    let wal_dir = match db.wal_dir.as_str() {
        "" => dir.to_path_buf(),
        dir => PathBuf::from(dir),
    };
    let context = RepairContext { fs: &db.file_system, dir, wal_dir, db, named: families, unknown };
    if !blobs_of(&**context.fs, dir)?.is_empty() {
        return Err(Error::not_supported("a repair of a database of RocksDB's old BlobDB"));
    }
    Survey::new(&context)?; // No lock file is created where there is no database.
    let _lock = context.fs.lock(&filename::lock_file(dir))?;
    let survey = Survey::new(&context)?;
    let mut report = RepairReport::new();
    let mut blobs = survey.blobs(&context)?;
    match survey.believable(&context, &blobs, &mut report)? {
        Some((recovered, unlisted)) => {
            blobs.expect(&context, &recovered);
            keep::keep(&context, &survey, &mut blobs, &unlisted, &recovered, &mut report)?;
        }
        None => rebuild::rebuild(&context, &survey, &mut blobs, &mut report)?,
    }
    order::sort_by(&mut report.files, |a, b| a.name.cmp(&b.name));
    Ok(report)
}
