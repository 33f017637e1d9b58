//! `db_paths` and `cf_paths`: directories for the tables of a column family.
//!
//! A table is in one of them, whose number is in the MANIFEST. New tables of memtables are in the
//! first; a compaction writes into the one where the levels up to its own, or with universal
//! compaction the runs up to its own, fit: [`compaction::picker::paths`](crate::compaction). The
//! database's other files stay in its own directory.
//!
//! Thread safety: plain data.

use std::path::{Path, PathBuf};

use pumice_base::{Error, Result};
use pumice_env::filename::TableDirs;

use super::{ColumnFamilyOptions, CompactionStyle, DbOptions};

/// As many ids as the MANIFEST has room for.
pub(crate) const PATHS_MAX: usize = 4;

/// A directory for tables.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// # let dir = std::env::temp_dir().join(format!("pumice-dbpath-{}", std::process::id()));
/// use pumice::options::DbPath;
/// let fast = DbPath::new(dir.join("fast"), 64 << 20);
/// let large = DbPath::new(dir.join("large"), u64::MAX);
/// let db = pumice::Db::builder(dir.join("db"))
///     .create(true)
///     .configure(|options| options.db.db_paths = vec![fast, large])
///     .open()?;
/// db.put("a", "1")?;
/// db.flush()?;
/// assert_eq!(db.live_files_metadata()[0].directory, dir.join("fast"));
/// # db.close()?;
/// # std::fs::remove_dir_all(&dir).ok();
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DbPath {
    /// The directory; made by an open that writes. No two databases, nor a database and a column
    /// family's own paths, may have the same one: what one of them does not know is deleted.
    pub path: PathBuf,
    /// Bytes of tables that it is meant for; more may be in it.
    pub target_size: u64,
}

impl DbPath {
    /// A directory meant for so many bytes.
    pub fn new(path: impl Into<PathBuf>, target_size: u64) -> DbPath {
        DbPath { path: path.into(), target_size }
    }
}

impl ColumnFamilyOptions {
    /// The directories of the family's tables, in a database at `own`; the options are sanitized.
    pub(crate) fn table_dirs(&self, own: &Path) -> TableDirs {
        TableDirs::new(self.cf_paths.iter().map(|path| path.path.clone()), own)
    }

    /// Takes the paths of the database if it has none of its own.
    ///
    /// # Errors
    /// NotSupported for more than the engine or the compaction style can have.
    pub(super) fn sanitize_paths(&mut self, db: &DbOptions) -> Result<()> {
        if db.db_paths.len() > PATHS_MAX {
            return Err(Error::not_supported("More than four DB paths are not supported yet. "));
        }
        if self.cf_paths.len() > PATHS_MAX {
            return Err(Error::not_supported("More than four CF paths are not supported yet. "));
        }
        let kind = if self.cf_paths.is_empty() { "DB" } else { "CF" };
        if self.cf_paths.is_empty() {
            self.cf_paths.clone_from(&db.db_paths);
        }
        if self.cf_paths.len() > 1 {
            if self.compaction_style == CompactionStyle::Fifo {
                return Err(Error::not_supported(format!(
                    "More than one {kind} paths are only supported in universal and level \
                     compaction styles. "
                )));
            }
            // The sizes of levels must be known beforehand.
            self.level_compaction_dynamic_level_bytes = false;
        }
        Ok(())
    }
}
