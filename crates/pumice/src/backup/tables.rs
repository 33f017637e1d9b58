//! Tables and blob files of a backup: where each goes, and whether it has to be copied.
//!
//! ```text
//! shared_checksum/000012_sABC_1234.sst    as it is by default; the name is ShareFilesNaming's
//! shared/000012.sst                       with share_files_with_checksum=false
//! private/<id>/000012.sst                 with share_table_files=false
//! shared_checksum/000013_567_1234.blob    by its checksum, since a blob file has no session
//! ```
//! Thread safety: as the engine's. Suspends. Invariant: a table that intact backups share is copied
//! under another name first, and renamed.

use std::path::Path;

use pumice_base::{Error, Result};
use pumice_env::create_dir_durably;
use pumice_env::filename::{blob_file_name, table_file_name};
use pumice_table::Table;
use pumice_table::properties::EXTERNAL_VERSION;

use super::ShareFilesNaming;
use super::copying::How;
use super::meta::{FileEntry, Meta};
use super::{BackupEngine, CreateBackupOptions, Known, PRIVATE, SHARED, SHARED_OLD};
use crate::engine::checkpoint::Moment;

/// What became of a table.
enum Saved {
    /// It is in the backup.
    As(FileEntry),
    /// It is to be copied to this path.
    Missing(String),
}

impl BackupEngine {
    /// Saves the tables and blob files of backup `id`, durably.
    pub(super) fn save_files(
        &self,
        moment: &Moment,
        (id, known): (u32, &Known),
        options: &CreateBackupOptions<'_>,
        how: &How<'_>,
        meta: &mut Meta,
    ) -> Result<()> {
        let shared = self.options.share_table_files.then(|| self.dir.join(self.shared()));
        if let Some(shared) = &shared {
            create_dir_durably(&*self.fs, shared, false)?;
        }
        for (file, from) in &moment.tables {
            let name = table_file_name(file.number);
            let share = || self.share(from, file.number, known);
            self.save(from, (id, &name), options, how, meta, share)?;
        }
        for (file, from) in &moment.blobs {
            let number = file.addition.number;
            let share = || self.share_blob_file(from, number, known);
            self.save(from, (id, &blob_file_name(number)), options, how, meta, share)?;
        }
        shared.map_or(Ok(()), |shared| self.fs.sync_dir(&shared))
    }

    /// Saves one file of backup `id`, which has that name in the database.
    fn save(
        &self,
        from: &Path,
        (id, name): (u32, &str),
        options: &CreateBackupOptions<'_>,
        how: &How<'_>,
        meta: &mut Meta,
        share: impl FnOnce() -> Result<Saved>,
    ) -> Result<()> {
        if !self.options.share_table_files {
            let path = format!("{PRIVATE}/{id}/{name}");
            let crc = Some(self.copy(from, None, Some(&self.dir.join(&path)), how)?);
            meta.files.push(FileEntry { path, crc, bytes: None });
            return Ok(());
        }
        let excludes = options.exclude_files_callback;
        match share()? {
            Saved::As(entry) => meta.files.push(entry),
            Saved::Missing(path)
                if self.shared() == SHARED && excludes.is_some_and(|excludes| excludes(&path)) =>
            {
                meta.excluded.push(path);
            }
            Saved::Missing(path) => meta.files.push(self.share_as(from, path, how)?),
        }
        Ok(())
    }

    fn shared(&self) -> &'static str {
        if self.options.share_files_with_checksum { SHARED } else { SHARED_OLD }
    }

    /// Whether an intact backup has the table.
    ///
    /// Number, session and size tell the tables of databases apart, but not tables that were made
    /// outside: ingested again after a restore, such a table may have another sequence number
    /// stored in it.
    fn share(&self, from: &Path, number: u64, known: &Known) -> Result<Saved> {
        let bytes = self.fs.file_size(from)?;
        if !self.options.share_files_with_checksum {
            return self.share_by_name(&table_file_name(number), bytes, known);
        }
        let properties = Table::read_properties(self.fs.open_random(from)?, bytes)?;
        let session = &properties.db_session_id;
        let named = match self.options.share_files_with_checksum_naming {
            ShareFilesNaming::UseDbSessionId => format!("{SHARED}/{number:06}_s{session}.sst"),
            _ => format!("{SHARED}/{number:06}_s{session}_{bytes}.sst"),
        };
        let legacy = ShareFilesNaming::LegacyCrc32cAndFileSize;
        let by_session =
            !session.is_empty() && self.options.share_files_with_checksum_naming != legacy;
        let made_outside = properties.collected(EXTERNAL_VERSION).is_some();
        let crc = match known_as(known, &named) {
            _ if !by_session => self.read_crc(from)?,
            None => return Ok(Saved::Missing(named)),
            Some(entry) => {
                self.check_size(entry, bytes)?;
                let entry = self.with_crc(entry)?;
                if !made_outside {
                    return Ok(Saved::As(entry));
                }
                match self.read_crc(from)? {
                    crc if entry.crc == Some(crc) => return Ok(Saved::As(entry)),
                    crc => crc,
                }
            }
        };
        let path = format!("{SHARED}/{number:06}_{crc}_{bytes}.sst");
        match known_as(known, &path) {
            Some(entry) => Ok(Saved::As(self.with_crc(entry)?)),
            None => Ok(Saved::Missing(path)),
        }
    }

    /// The same for a blob file, whose name says its checksum.
    fn share_blob_file(&self, from: &Path, number: u64, known: &Known) -> Result<Saved> {
        let bytes = self.fs.file_size(from)?;
        if !self.options.share_files_with_checksum {
            return self.share_by_name(&blob_file_name(number), bytes, known);
        }
        let crc = self.read_crc(from)?;
        let path = format!("{SHARED}/{number:06}_{crc}_{bytes}.blob");
        match known_as(known, &path) {
            Some(entry) => Ok(Saved::As(self.with_crc(entry)?)),
            None => Ok(Saved::Missing(path)),
        }
    }

    /// The same for a file whose name in the backups is its own: those of another database, or of
    /// the same one after a restore, are told apart by their sizes at most.
    fn share_by_name(&self, name: &str, bytes: u64, known: &Known) -> Result<Saved> {
        let path = format!("{SHARED_OLD}/{name}");
        match known_as(known, &path) {
            Some(entry) => {
                self.check_size(entry, bytes)?;
                Ok(Saved::As(self.with_crc(entry)?))
            }
            None => Ok(Saved::Missing(path)),
        }
    }

    fn check_size(&self, entry: &FileEntry, bytes: u64) -> Result<()> {
        let saved = self.fs.file_size(&self.dir.join(&entry.path))?;
        match saved == bytes {
            true => Ok(()),
            false => Err(Error::corruption(format!(
                "Size mismatch for existing backup file: {} Size in backup is {saved} while size \
                 in DB is {bytes} If this DB file checks as not corrupt, try deleting old backups \
                 or backing up to a different backup directory.",
                entry.path
            ))),
        }
    }

    /// The entry with its checksum, which a meta file of schema 2 may lack.
    fn with_crc(&self, entry: &FileEntry) -> Result<FileEntry> {
        let crc = match entry.crc {
            Some(crc) => crc,
            None => self.read_crc(&self.dir.join(&entry.path))?,
        };
        Ok(FileEntry { crc: Some(crc), ..entry.clone() })
    }

    fn read_crc(&self, path: &Path) -> Result<u32> {
        self.copy(path, None, None, &How::at(self.limits.backup.as_deref()))
    }

    fn share_as(&self, from: &Path, path: String, how: &How<'_>) -> Result<FileEntry> {
        let bytes = self.fs.file_size(from)?;
        let shared = self.shared();
        let name = &path[shared.len() + 1..];
        let temporary = self.dir.join(shared).join(format!(".{name}.tmp"));
        let crc = self.copy(from, Some(bytes), Some(&temporary), how)?;
        self.fs.rename(&temporary, &self.dir.join(&path))?;
        Ok(FileEntry { path, crc: Some(crc), bytes: None })
    }
}

fn known_as<'k>(known: &'k Known, path: &str) -> Option<&'k FileEntry> {
    let mut entries = known.values().flatten().flat_map(|meta| &meta.files);
    entries.find(|entry| entry.path == path)
}
