//! The export of a column family: its table files in a new directory, and what another database has
//! to know to import them.
//!
//! The directory is built beside its place and renamed when its files are durable, as that of a
//! checkpoint.
//!
//! Thread safety: from any thread. No file is deleted meanwhile. Suspends.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use pumice_base::{Error, Result};
use pumice_env::create_dir_durably;
use pumice_env::filename::TableDirs;

use crate::engine::DbInner;
use crate::engine::checkpoint::{KeepFiles, Staging};
use crate::engine::live_files::LiveFile;
use crate::options::index_owner::check_unowned;
use crate::options::requests::FlushOptions;
use crate::stats::listener::FlushReason;
use crate::version::family::CfData;

/// The files of an exported column family, for
/// [`Db::create_column_family_with_import`](crate::Db::create_column_family_with_import).
///
/// It may be made by hand: of each file directory, name, level and sequence numbers are needed;
/// without `smallest` and `largest` the bounds are read from the file, and without epoch numbers
/// the order of level 0 is that of the sequence numbers.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// # let dir = std::env::temp_dir().join(format!("pumice-exported-{}", std::process::id()));
/// # let db = pumice::Db::builder(&dir).create(true).open()?;
/// use pumice::{
///     ColumnFamilyOptions, ExportImportFilesMetadata, ImportColumnFamilyOptions,
/// };
/// db.put("a", "1")?;
/// let family = db.default_column_family();
/// let path = dir.join("export");
/// let exported: ExportImportFilesMetadata = db.export_column_family(family, path)?;
/// assert_eq!(exported.files.len(), 1);
/// let how = ImportColumnFamilyOptions { move_files: true };
/// let options = ColumnFamilyOptions::default();
/// let copy = db.create_column_family_with_import(&options, "copy", &how, &[&exported])?;
/// assert_eq!(db.get_cf(&copy, "a")?.as_deref(), Some(&b"1"[..]));
/// # db.close()?;
/// # std::fs::remove_dir_all(&dir).ok();
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportImportFilesMetadata {
    /// Name of the comparator of the column family.
    pub db_comparator_name: String,
    /// Its files, by level.
    pub files: Vec<LiveFile>,
}

impl DbInner {
    /// Flushes the family and links its files into the new directory `target`.
    ///
    /// # Errors
    /// See [`crate::Db::export_column_family`].
    pub(crate) fn export_column_family(
        self: &Arc<Self>,
        cf: &Arc<CfData>,
        target: &Path,
    ) -> Result<ExportImportFilesMetadata> {
        self.check_writable()?;
        self.life.mark.check_may_wait()?;
        if self.dir.fs.exists(target)? {
            return Err(Error::invalid_argument("Specified export_dir exists"));
        }
        if target.file_name().is_none() {
            return Err(Error::invalid_argument("Specified export_dir invalid"));
        }
        self.reports.info(format_args!(
            "[{}] export column family onto export directory {}",
            cf.name,
            target.display()
        ));
        let result = self.export_to(cf, target);
        match &result {
            Ok(_) => self.reports.info(format_args!("[{}] Export succeeded", cf.name)),
            Err(error) => {
                self.reports.info(format_args!("[{}] Export failed -- {error}", cf.name));
            }
        }
        result
    }

    fn export_to(
        self: &Arc<Self>,
        cf: &Arc<CfData>,
        target: &Path,
    ) -> Result<ExportImportFilesMetadata> {
        let staging = Staging::new(&*self.dir.fs, target)?;
        let _keep = KeepFiles::new(self);
        let flush = FlushOptions { wait: true, allow_write_stall: true, ..FlushOptions::default() };
        self.flush_families(&flush, &BTreeSet::from([cf.id]), FlushReason::GetLiveFiles)?;
        let version = Arc::clone(&cf.super_version.load_full().version);
        check_unowned(cf.tables().index_owner.as_ref())?;
        if let Some(number) = version.blob_files().keys().next() {
            return Err(Error::not_supported(format!(
                "column family {} has values in blob files ({number:06}.blob), which are not \
                 exported",
                cf.name
            )));
        }
        create_dir_durably(&*self.dir.fs, &staging.dir, false)?;
        let (staged, mut linking) = (TableDirs::of(&staging.dir), true);
        let mut files = Vec::new();
        for (level, file) in version.all_files() {
            let to = staged.table(TableDirs::OWN, file.number);
            self.dir.link_or_copy(&cf.table_of(file), &to, &mut linking)?;
            files.push(LiveFile {
                directory: target.to_path_buf(),
                smallest: file.smallest.clone(),
                largest: file.largest.clone(),
                ..self.dir.describe(cf, level, file)
            });
        }
        self.dir.fs.sync_dir(&staging.dir)?;
        staging.finish(target)?;
        let db_comparator_name = cf.comparator().name().to_string();
        Ok(ExportImportFilesMetadata { db_comparator_name, files })
    }
}
