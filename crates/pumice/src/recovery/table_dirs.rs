//! The directories that `db_paths` and `cf_paths` name, as an open that writes finds or makes them.
//!
//! Thread safety: free functions.

use pumice_base::Result;
use pumice_env::{FileSystem, create_dir_durably};

use crate::options::ColumnFamilyOptions;

/// Makes the directories of a family's tables that are missing, as RocksDB's open does. The names
/// of existing ones become durable too: their maker may have been killed.
///
/// # Errors
/// I/O.
pub(crate) fn make_table_dirs(fs: &dyn FileSystem, family: &ColumnFamilyOptions) -> Result<()> {
    let mut dirs = family.cf_paths.iter().map(|path| path.path.as_path());
    dirs.try_for_each(|dir| create_dir_durably(fs, dir, true))
}

/// As [`make_table_dirs`], for an open that has the lock of the database: the owner of the family's
/// blobs then finds them, too.
///
/// # Errors
/// As there; those of the owner.
pub(crate) fn prepare_dirs(fs: &dyn FileSystem, family: &ColumnFamilyOptions) -> Result<()> {
    make_table_dirs(fs, family)?;
    let owner = family.compaction_filter_factory.as_ref().and_then(|made| made.index_owner());
    owner.map_or(Ok(()), |owner| owner.recover())
}
