//! The names of a database's files. Persisted: other tools look for exactly these.
//!
//! One number space serves tables, logs, manifests, options and blobs. Numbers have at least six
//! digits. Parsing is strict: the engine does not touch files that it did not name.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pumice_base::Result;
use pumice_base::planted::{self, Bug};

use crate::file_system::{FileOptions, FileSystem, write_file_with};

/// What a file in a database directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileType {
    /// `NNNNNN.log`: write-ahead log.
    Wal,
    /// `LOCK`.
    Lock,
    /// `NNNNNN.sst`, or `.ldb` of old releases.
    Table,
    /// `MANIFEST-NNNNNN`.
    Descriptor,
    /// `CURRENT`: names the manifest.
    Current,
    /// `NNNNNN.dbtmp` or `OPTIONS-NNNNNN.dbtmp`: garbage after a crash.
    Temp,
    /// `LOG` and `LOG.old.MICROS`: text for people.
    InfoLog,
    /// `METADB-N`.
    MetaDatabase,
    /// `IDENTITY`: the database's id.
    Identity,
    /// `OPTIONS-NNNNNN`.
    Options,
    /// `NNNNNN.blob`.
    Blob,
    /// `COMPACTION_PROGRESS-N`.
    CompactionProgress,
    /// `NAME.trash` or `NAMEi.trash`, where NAME is of a log, a table or blobs: a file that a
    /// [`crate::DeleteScheduler`] has not deleted yet. Nothing refers to it.
    Trash,
}

/// The suffix of files that only wait for their deletion. Persisted.
pub const TRASH_EXTENSION: &str = ".trash";

fn numbered(dir: &Path, number: u64, suffix: &str) -> PathBuf {
    dir.join(format!("{number:06}.{suffix}"))
}

/// `NNNNNN.log` without a directory.
pub fn log_file_name(number: u64) -> String {
    format!("{number:06}.log")
}
/// `DIR/NNNNNN.log`.
pub fn log_file(dir: &Path, number: u64) -> PathBuf {
    numbered(dir, number, "log")
}
/// `DIR/archive`, where obsolete logs are kept if configured.
pub fn archive_dir(dir: &Path) -> PathBuf {
    dir.join("archive")
}
/// `DIR/archive/NNNNNN.log`.
pub fn archived_log_file(dir: &Path, number: u64) -> PathBuf {
    log_file(&archive_dir(dir), number)
}
/// The id of a directory of tables. Persisted with each file in the MANIFEST.
pub type PathId = u32;

/// The directories of a database's tables, by path id: the only way to the path of a table.
///
/// A column family without `cf_paths` or `db_paths` has one directory, the database's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableDirs(Arc<[PathBuf]>);

impl TableDirs {
    /// The id of the first directory, in which new tables of memtables are.
    pub const OWN: PathId = 0;

    /// Of a database in `dir`.
    pub fn of(dir: impl Into<PathBuf>) -> Self {
        TableDirs([dir.into()].into())
    }

    /// Those directories, or `own` if there are none.
    pub fn new(dirs: impl IntoIterator<Item = PathBuf>, own: &Path) -> Self {
        let dirs: Arc<[PathBuf]> = dirs.into_iter().collect();
        if dirs.is_empty() { TableDirs::of(own) } else { TableDirs(dirs) }
    }

    /// The directories, by path id; at least one.
    pub fn all(&self) -> &[PathBuf] {
        &self.0
    }

    /// `DIR/NNNNNN.sst`, the path of table `number` in the directory with that id; as in RocksDB
    /// (`TableFileName`) the last directory stands for ids that there are not.
    pub fn table(&self, path_id: PathId, number: u64) -> PathBuf {
        numbered(self.dir(path_id), number, "sst")
    }

    /// The directory with that id, or the last one.
    pub fn dir(&self, path_id: PathId) -> &Path {
        let last = self.0.len() - 1;
        &self.0[usize::try_from(path_id).map_or(last, |at| at.min(last))]
    }

    /// `DIR/NNNNNN.blob`, the path of blob file `number`: they are in the first directory.
    pub fn blob(&self, number: u64) -> PathBuf {
        blob_file(&self.0[0], number)
    }
}

/// `NNNNNN.sst` without a directory, as listings show it.
pub fn table_file_name(number: u64) -> String {
    format!("{number:06}.sst")
}
/// `NNNNNN.blob` without a directory, as listings show it.
pub fn blob_file_name(number: u64) -> String {
    format!("{number:06}.blob")
}
/// `DIR/NNNNNN.blob`.
pub fn blob_file(dir: &Path, number: u64) -> PathBuf {
    numbered(dir, number, "blob")
}
/// `MANIFEST-NNNNNN` without a directory, as CURRENT holds it.
pub fn manifest_file_name(number: u64) -> String {
    format!("MANIFEST-{number:06}")
}
/// `DIR/MANIFEST-NNNNNN`.
pub fn manifest_file(dir: &Path, number: u64) -> PathBuf {
    dir.join(manifest_file_name(number))
}
/// `DIR/CURRENT`.
pub fn current_file(dir: &Path) -> PathBuf {
    dir.join("CURRENT")
}
/// `DIR/IDENTITY`.
pub fn identity_file(dir: &Path) -> PathBuf {
    dir.join("IDENTITY")
}
/// `DIR/LOCK`.
pub fn lock_file(dir: &Path) -> PathBuf {
    dir.join("LOCK")
}
/// `DIR/OPTIONS-NNNNNN`.
pub fn options_file(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("OPTIONS-{number:06}"))
}
/// `DIR/OPTIONS-NNNNNN.dbtmp`.
pub fn temp_options_file(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("OPTIONS-{number:06}.dbtmp"))
}
/// `DIR/NNNNNN.dbtmp`.
pub fn temp_file(dir: &Path, number: u64) -> PathBuf {
    numbered(dir, number, "dbtmp")
}

/// The name of `path` as trash; `before` files of the same name are trash already.
pub fn trash_file(path: &Path, before: u64) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    if before > 0 {
        name.push((before - 1).to_string());
    }
    name.push(TRASH_EXTENSION);
    PathBuf::from(name)
}

/// The number of the file that `name` is the trash of.
fn trash_number(name: &str) -> Option<u64> {
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit());
    match parse(name)? {
        (number, FileType::Wal | FileType::Table | FileType::Blob) => Some(number),
        _ => None,
    }
}

/// Decimal digits only, at least one, within u64.
fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

/// The number and type of a file name (without directory), `None` for a foreign file. Names without
/// a number have 0; an old info log has its time.
pub fn parse(name: &str) -> Option<(u64, FileType)> {
    match name {
        "CURRENT" => return Some((0, FileType::Current)),
        "LOCK" => return Some((0, FileType::Lock)),
        "IDENTITY" => return Some((0, FileType::Identity)),
        "LOG" | "LOG.old" => return Some((0, FileType::InfoLog)),
        _ => {}
    }
    if let Some(rest) = name.strip_prefix("OPTIONS-") {
        return match rest.strip_suffix(".dbtmp") {
            Some(digits) => Some((number(digits)?, FileType::Temp)),
            None => Some((number(rest)?, FileType::Options)),
        };
    }
    let prefixes = [
        ("MANIFEST-", FileType::Descriptor),
        ("LOG.old.", FileType::InfoLog),
        ("METADB-", FileType::MetaDatabase),
        ("COMPACTION_PROGRESS-", FileType::CompactionProgress),
    ];
    for (prefix, file_type) in prefixes {
        if let Some(rest) = name.strip_prefix(prefix) {
            return Some((number(rest)?, file_type));
        }
    }
    if let Some(rest) = name.strip_suffix(TRASH_EXTENSION) {
        return Some((trash_number(rest)?, FileType::Trash));
    }
    let (stem, suffix) = name.split_once('.')?;
    let file_type = match suffix {
        "log" => FileType::Wal,
        "sst" | "ldb" => FileType::Table,
        "blob" => FileType::Blob,
        "dbtmp" => FileType::Temp,
        _ => return None,
    };
    Some((number(stem)?, file_type))
}

/// Whether `dir` exists and contains a write-ahead log.
///
/// # Errors
/// The errors of looking.
pub fn holds_logs(fs: &dyn FileSystem, dir: &Path) -> Result<bool> {
    let is_log = |name: &String| matches!(parse(name), Some((_, FileType::Wal)));
    Ok(fs.exists(dir)? && fs.list(dir)?.iter().any(is_log))
}

/// Makes CURRENT name the manifest `number`, in one step: a temporary file is written and renamed.
/// With `sync` the content is durable before the rename and the name after it.
///
/// # Errors
/// After a failure CURRENT names either manifest; the caller must not delete the old one.
pub fn set_current_file(fs: &dyn FileSystem, dir: &Path, number: u64, sync: bool) -> Result<()> {
    prepare_current_file(fs, dir, number, sync, &FileOptions::default())?;
    rename_current_file(fs, dir, number, sync)
}

/// The first step of [`set_current_file`]: after an error CURRENT is unchanged.
///
/// # Errors
/// I/O.
pub fn prepare_current_file(
    fs: &dyn FileSystem,
    dir: &Path,
    number: u64,
    sync: bool,
    options: &FileOptions,
) -> Result<()> {
    let temp = temp_file(dir, number);
    let content = format!("{}\n", manifest_file_name(number));
    let sync_content = sync && !planted::is(Bug::CurrentNotSynced);
    let written = write_file_with(fs, &temp, content.as_bytes(), sync_content, options);
    // Then the temporary file is garbage, and the next open removes it too.
    written.inspect_err(|_| drop(fs.remove(&temp)))
}

/// The second step of [`set_current_file`]: after an error it is unknown what CURRENT names.
///
/// # Errors
/// I/O.
pub fn rename_current_file(fs: &dyn FileSystem, dir: &Path, number: u64, sync: bool) -> Result<()> {
    let temp = temp_file(dir, number);
    if let Err(e) = fs.rename(&temp, &current_file(dir)) {
        drop(fs.remove(&temp));
        return Err(e);
    }
    if sync && !planted::is(Bug::CurrentDirNotSynced) { fs.sync_dir(dir) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[pumice_test_macros::test]
    fn names_round_trip() {
        let dir = Path::new("/db");
        for n in [1u64, 999_999, 1_000_000, u64::MAX] {
            let cases = [
                (log_file(dir, n), FileType::Wal),
                (TableDirs::of(dir).table(TableDirs::OWN, n), FileType::Table),
                (blob_file(dir, n), FileType::Blob),
                (temp_file(dir, n), FileType::Temp),
                (manifest_file(dir, n), FileType::Descriptor),
                (options_file(dir, n), FileType::Options),
                (temp_options_file(dir, n), FileType::Temp),
                (dir.join(format!("LOG.old.{n}")), FileType::InfoLog),
                (trash_file(&log_file(dir, n), 0), FileType::Trash),
                (trash_file(&TableDirs::of(dir).table(TableDirs::OWN, n), 3), FileType::Trash),
            ];
            for (path, file_type) in cases {
                let name = path.file_name().unwrap().to_str().unwrap();
                assert_eq!(parse(name), Some((n, file_type)), "{name}");
            }
        }
        assert_eq!(log_file(dir, 7), Path::new("/db/000007.log"));
        assert_eq!(archived_log_file(dir, 7), Path::new("/db/archive/000007.log"));
        assert_eq!(manifest_file(dir, 7), Path::new("/db/MANIFEST-000007"));
        assert_eq!(
            trash_file(&TableDirs::of(dir).table(0, 7), 0),
            Path::new("/db/000007.sst.trash")
        );
        assert_eq!(
            trash_file(&TableDirs::of(dir).table(9, 7), 1),
            Path::new("/db/000007.sst0.trash")
        );
        assert_eq!(parse("000012.ldb"), Some((12, FileType::Table)));
        assert_eq!(parse("METADB-2"), Some((2, FileType::MetaDatabase)));
    }

    #[pumice_test_macros::test]
    fn strangers_are_not_recognised() {
        let strangers = [
            "",
            "foo",
            "foo.log",
            ".log",
            "100",
            "100.",
            "100.lop",
            "100.log.bak",
            "MANIFEST",
            "MANIFEST-",
            "MANIFEST-3x",
            "XMANIFEST-3",
            "CURREN",
            "CURRENTX",
            "LOCKX",
            "LOG.older",
            "+1.log",
            "-1.sst",
            " 1.sst",
            "184467440737095516150.log",
            "OPTIONS-",
            "OPTIONS-x",
            "OPTIONS-1.tmp",
            "1.dbtmpx",
            ".trash",
            "1.trash",
            "x.sst.trash",
            "MANIFEST-1.trash",
            "LOCK.trash",
            "1.sst.trash.trash",
            "1.sst.trash0",
        ];
        for name in strangers {
            assert_eq!(parse(name), None, "{name:?}");
        }
    }
}
