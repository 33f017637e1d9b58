//! Finding and reading the OPTIONS file of a database.
//!
//! Thread safety: pure but for reading the directory and the file; both may suspend.

use std::path::Path;

use pumice_base::Result;
use pumice_env::FileSystem;
use pumice_env::filename::{FileType, options_file, parse};

use super::file::{FileRules, LoadedOptions, parse_options_file};

/// Reads the newest OPTIONS file of the database at `path`, as RocksDB's `LoadLatestOptions`; None
/// if there is none.
///
/// Objects (a comparator, a merge operator, ..) come from it only if they are built in: a program
/// that has its own passes `ignore_unsupported_options` and sets them before it opens the database,
/// which refuses a comparator of another name.
///
/// # Errors
/// I/O, and as [`parse_options_file`], with the file's path.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// use std::path::Path;
///
/// use pumice::options::{ColumnFamilyEntry, FileRules, LoadedOptions, load_latest_options};
/// # let fs = pumice::MemFs::new(1).shared();
/// # let mut options = pumice::Options::default();
/// # options.db.create_if_missing = true;
/// # options.db.file_system = fs.clone();
/// # options.set("write_buffer_size", "8MB")?;
/// # pumice::Db::open(&options, "/db")?.close()?;
/// // With the options that RocksDB has and this build lacks left out.
/// let rules = FileRules { ignore_unsupported_options: true, ..Default::default() };
/// let loaded: LoadedOptions =
///     load_latest_options(&*fs, Path::new("/db"), rules)?.expect("there is a database");
/// assert!(loaded.ignored.is_empty());
/// let ColumnFamilyEntry { name, options } = &loaded.column_families[0];
/// assert_eq!((name.as_str(), options.get("write_buffer_size")?.as_str()), ("default", "8388608"));
/// # Ok(())
/// # }
/// ```
pub fn load_latest_options(
    fs: &dyn FileSystem,
    path: &Path,
    rules: FileRules,
) -> Result<Option<LoadedOptions>> {
    load_latest(fs, path, &|text| parse_options_file(text, rules))
}

/// As [`load_latest_options`], the contents read by `parse_text`.
pub(crate) fn load_latest(
    fs: &dyn FileSystem,
    path: &Path,
    parse_text: &dyn Fn(&[u8]) -> Result<LoadedOptions>,
) -> Result<Option<LoadedOptions>> {
    let names = fs.list(path)?;
    let newest = names
        .iter()
        .filter_map(|name| match parse(name) {
            Some((number, FileType::Options)) => Some(number),
            _ => None,
        })
        .max();
    let Some(number) = newest else { return Ok(None) };
    let file = options_file(path, number);
    let bytes = fs.read_file(&file)?;
    parse_text(&bytes).map(Some).map_err(|e| e.with_context(file.display()))
}
