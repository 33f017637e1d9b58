//! The files of one state of the database, for programs that copy it themselves.
//!
//! Thread safety: from any thread; holds the MANIFEST lock while it notes them. The caller keeps
//! them from being deleted. Suspends.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pumice_base::{FileNumber, Result};
use pumice_env::filename;
use pumice_manifest::FileMetaData;
use pumice_manifest::blob::SharedBlobFile;

use crate::engine::DbInner;
use crate::engine::checkpoint::Moment;

/// Options of [`crate::Db::live_files_storage_info`].
///
/// Example: that of [`LiveFileStorageInfo`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveFilesStorageInfoOptions {
    /// Say the checksums of whole files.
    pub include_checksum_info: bool,
    /// Memtables are flushed first if the live logs have at least this many bytes together; 0
    /// always, `u64::MAX` never.
    pub wal_size_for_flush: u64,
}

/// What a file of a database is. RocksDB's numbers.
///
/// Example: that of [`LiveFileStorageInfo`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageFileType {
    /// A log.
    Wal = 0,
    /// A table.
    Table = 2,
    /// A MANIFEST.
    Descriptor = 3,
    /// `CURRENT`.
    Current = 4,
    /// An OPTIONS file.
    Options = 9,
    /// A blob file.
    Blob = 10,
}

/// A file of one state of the database.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// # let dir = std::env::temp_dir().join(format!("pumice-storageinfo-{}", std::process::id()));
/// # let db = pumice::Db::builder(&dir).create(true).open()?;
/// use pumice::{LiveFileStorageInfo, LiveFilesStorageInfoOptions, StorageFileType};
/// db.put("a", "1")?;
/// let how = LiveFilesStorageInfoOptions::default();
/// let files: Vec<LiveFileStorageInfo> = db.live_files_storage_info(&how)?;
/// let tables = files.iter().filter(|file| file.file_type == StorageFileType::Table);
/// assert_eq!(tables.count(), 1);
/// # db.close()?;
/// # std::fs::remove_dir_all(&dir).ok();
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveFileStorageInfo {
    /// Name inside `directory`.
    pub relative_filename: String,
    /// Directory it is in.
    pub directory: PathBuf,
    /// Its number; 0 for `CURRENT`.
    pub file_number: u64,
    /// What it is.
    pub file_type: StorageFileType,
    /// Bytes of it that belong to the state.
    pub size: u64,
    /// RocksDB's number of the table's temperature; 0 is unknown.
    pub temperature: u8,
    /// Checksum of the whole file, empty if unknown.
    pub file_checksum: Vec<u8>,
    /// Name of the function of `file_checksum`: `Unknown` if that is, empty if checksums were not
    /// asked for.
    pub file_checksum_func_name: String,
    /// If not empty, what a copy has instead of the file's contents.
    pub replacement_contents: Vec<u8>,
    /// The file may grow: a copy ends after `size` bytes.
    pub trim_to_size: bool,
}

/// The name that RocksDB gives to no function.
const UNKNOWN_FUNCTION: &str = "Unknown";

impl DbInner {
    /// The files of the present state: tables, blob files, then MANIFEST, `CURRENT`, OPTIONS and
    /// logs.
    ///
    /// # Errors
    /// See [`crate::Db::live_files_storage_info`].
    pub(crate) fn storage_info(
        self: &Arc<Self>,
        options: &LiveFilesStorageInfoOptions,
    ) -> Result<Vec<LiveFileStorageInfo>> {
        let flush = self.wants_flush_for_copy(options.wal_size_for_flush);
        let moment = self.moment_for_backup(flush)?;
        let mut files = self.tables_of(&moment, options);
        files.extend(moment.blobs.iter().map(|file| self.blob_file(file, options)));
        files.extend(self.others_of(&moment)?);
        if options.include_checksum_info {
            let unknown = files.iter_mut().filter(|file| file.file_checksum_func_name.is_empty());
            unknown.for_each(|file| file.file_checksum_func_name = UNKNOWN_FUNCTION.to_string());
        }
        Ok(files)
    }

    fn tables_of(
        &self,
        moment: &Moment,
        options: &LiveFilesStorageInfoOptions,
    ) -> Vec<LiveFileStorageInfo> {
        let info = |(file, path): &(Arc<FileMetaData>, PathBuf)| {
            let name = filename::table_file_name(file.number);
            let dir = path.parent().unwrap_or(Path::new(""));
            let mut info = described(dir, name, file.number, StorageFileType::Table);
            info.size = file.file_size;
            info.temperature = file.temperature;
            if options.include_checksum_info {
                info.file_checksum = file.file_checksum.clone();
                info.file_checksum_func_name = file.file_checksum_func_name.clone();
            }
            info
        };
        moment.tables.iter().map(info).collect()
    }

    fn blob_file(
        &self,
        (file, path): &(Arc<SharedBlobFile>, PathBuf),
        options: &LiveFilesStorageInfoOptions,
    ) -> LiveFileStorageInfo {
        let added = &file.addition;
        let mut info = of_path(path, added.number, StorageFileType::Blob);
        info.size = file.file_size();
        if options.include_checksum_info {
            info.file_checksum = added.checksum_value.clone();
            info.file_checksum_func_name = added.checksum_method.clone();
        }
        info
    }

    fn others_of(&self, moment: &Moment) -> Result<Vec<LiveFileStorageInfo>> {
        let (dir, (manifest, bytes)) = (self.dir.path.as_path(), moment.manifest);
        let name = filename::manifest_file_name(manifest);
        let mut files = vec![LiveFileStorageInfo {
            size: bytes,
            trim_to_size: true,
            ..described(dir, name.clone(), manifest, StorageFileType::Descriptor)
        }];
        let contents = format!("{name}\n").into_bytes();
        files.push(LiveFileStorageInfo {
            size: contents.len() as u64,
            replacement_contents: contents,
            ..described(dir, "CURRENT".to_string(), 0, StorageFileType::Current)
        });
        if moment.options != 0 {
            let path = filename::options_file(dir, moment.options);
            files.push(LiveFileStorageInfo {
                size: self.dir.fs.file_size(&path)?,
                ..of_path(&path, moment.options, StorageFileType::Options)
            });
        }
        let wal_dir = self.logs.dir();
        let newest = moment.logs.last().map(|(number, _)| *number);
        for &(number, bytes) in &moment.logs {
            let path = filename::log_file(&wal_dir, number);
            files.push(LiveFileStorageInfo {
                size: bytes,
                trim_to_size: Some(number) == newest,
                ..of_path(&path, number, StorageFileType::Wal)
            });
        }
        Ok(files)
    }
}

fn of_path(path: &Path, number: FileNumber, file_type: StorageFileType) -> LiveFileStorageInfo {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    described(path.parent().unwrap_or(Path::new("")), name, number, file_type)
}

fn described(
    directory: &Path,
    relative_filename: String,
    file_number: FileNumber,
    file_type: StorageFileType,
) -> LiveFileStorageInfo {
    LiveFileStorageInfo {
        relative_filename,
        directory: directory.to_path_buf(),
        file_number,
        file_type,
        size: 0,
        temperature: 0,
        file_checksum: Vec::new(),
        file_checksum_func_name: String::new(),
        replacement_contents: Vec::new(),
        trim_to_size: false,
    }
}
