//! The handle's calls that ingest table files, and those that export and import column families.
//!
//! Thread safety: from anywhere. Suspends.

use std::path::Path;
use std::sync::Arc;

use pumice_base::{Error, Result};

use crate::db::api::Db;
use crate::engine::export_family::ExportImportFilesMetadata;
use crate::engine::open::ColumnFamilyDescriptor;
use crate::engine::staged_ingestion::FileIngestionHandle;
use crate::ingest::request::Request;
use crate::ingest::{IngestExternalFileArg, IngestExternalFileOptions};
use crate::options::ColumnFamilyOptions;
use crate::options::requests::ImportColumnFamilyOptions;
use crate::version::family::ColumnFamily;

impl Db {
    /// [`Db::ingest_external_file`] with the default options.
    ///
    /// # Errors
    /// As there.
    pub fn ingest_files<P: AsRef<Path>>(&self, files: &[P]) -> Result<()> {
        self.ingest_external_file(&IngestExternalFileOptions::default(), files)
    }

    /// Adds table files made by [`crate::SstFileWriter`] to the default column family. They
    /// overwrite existing data, and become visible together. Writes wait while they are added.
    ///
    /// # Errors
    /// InvalidArgument, NotSupported, Corruption and TryAgain with RocksDB's texts for files or
    /// options that do not fit; I/O errors; ShutdownInProgress; the background error. Then none of
    /// the files was added, unless the MANIFEST failed: then a reopen decides, for all of them.
    pub fn ingest_external_file<P: AsRef<Path>>(
        &self,
        options: &IngestExternalFileOptions,
        files: &[P],
    ) -> Result<()> {
        self.ingest_external_file_cf(options, self.default_column_family(), files)
    }

    /// [`Db::ingest_external_file`] into `cf`.
    ///
    /// # Errors
    /// As [`Db::ingest_external_file`].
    pub fn ingest_external_file_cf<P: AsRef<Path>>(
        &self,
        options: &IngestExternalFileOptions,
        cf: &ColumnFamily,
        files: &[P],
    ) -> Result<()> {
        let files = files.iter().map(|file| file.as_ref().to_path_buf()).collect();
        self.ingest_external_files(&[IngestExternalFileArg::new(cf, files, options)])
    }

    /// [`Db::ingest_external_file`] into several column families, each named once: all files of
    /// all of them are added, or none.
    ///
    /// # Errors
    /// As [`Db::ingest_external_file`].
    pub fn ingest_external_files(&self, args: &[IngestExternalFileArg]) -> Result<()> {
        self.inner().ingest(&self.requests(args)?)
    }

    fn requests<'a>(&self, args: &'a [IngestExternalFileArg]) -> Result<Vec<Request<'a>>> {
        let request = |arg: &'a IngestExternalFileArg| {
            if !arg.column_family.belongs_to(&**self.inner()) {
                return Err(Error::invalid_argument("column family handle of another database"));
            }
            Ok(Request { cf: Arc::clone(&arg.column_family.data), arg })
        };
        args.iter().map(request).collect()
    }

    /// The first step of [`Db::ingest_external_files`]: checks the files and copies or links them
    /// into the database's directory, while reads and writes go on. Nothing of them is visible
    /// until [`Db::commit_file_ingestion_handles`], which then has little to do.
    ///
    /// # Errors
    /// As [`Db::ingest_external_file`].
    pub fn prepare_file_ingestion(
        &self,
        args: &[IngestExternalFileArg],
    ) -> Result<FileIngestionHandle> {
        self.inner().stage_ingestion(&self.requests(args)?)
    }

    /// The second step: the files of all `handles` become visible together. Those for one column
    /// family count as the files of one call, in the order of the handles; they must have been
    /// prepared with the same options. A handle does not keep the database open: after a close
    /// there is nothing to commit.
    ///
    /// # Errors
    /// As [`Db::ingest_external_file`]; InvalidArgument for a handle of another database and for
    /// options that differ, NotSupported for several handles of a family one of which replaces a
    /// range. All handles are then taken back.
    pub fn commit_file_ingestion_handles(&self, handles: Vec<FileIngestionHandle>) -> Result<()> {
        self.inner().commit_staged(handles)
    }

    /// Flushes a column family and makes the new directory `path` with its table files, as hard
    /// links where that is possible. The result is what [`Db::create_column_family_with_import`]
    /// needs of it.
    ///
    /// ```
    /// # fn main() -> Result<(), pumice::Error> {
    /// use pumice::{ColumnFamilyOptions, Db, ImportColumnFamilyOptions};
    /// # let dir = std::env::temp_dir().join(format!("pumice-export-{}", std::process::id()));
    /// let db = Db::builder(&dir).create(true).open()?;
    /// db.put("a", "1")?;
    /// let exported = db.export_column_family(db.default_column_family(), dir.join("export"))?;
    /// let (options, how) = (ColumnFamilyOptions::default(), ImportColumnFamilyOptions::default());
    /// let copy = db.create_column_family_with_import(&options, "copy", &how, &[&exported])?;
    /// assert_eq!(db.get_cf(&copy, "a")?.as_deref(), Some(&b"1"[..]));
    /// # db.close()?;
    /// # std::fs::remove_dir_all(&dir).ok();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// InvalidArgument if `path` exists; ColumnFamilyDropped; Aborted in code that a job calls; the
    /// background error; I/O. `path` does not exist after an error.
    pub fn export_column_family(
        &self,
        cf: &ColumnFamily,
        path: impl AsRef<Path>,
    ) -> Result<ExportImportFilesMetadata> {
        self.inner().export_column_family(self.live(cf)?, path.as_ref())
    }

    /// Creates a column family from the files of exported ones, whose key ranges must be apart.
    /// Files keep their levels and sequence numbers; that of the database grows to the largest of
    /// them. A snapshot that is older sees the entries with sequence numbers up to its own.
    ///
    /// # Errors
    /// InvalidArgument if the name is taken, the comparator has another name, there are no files,
    /// one has no entries or a level that there is not, or ranges overlap; Corruption if a file is
    /// not as described; Aborted if the new family was written to meanwhile, and in code that a
    /// job calls; the background error; I/O. There is no new column family after an error, unless
    /// the MANIFEST failed.
    pub fn create_column_family_with_import(
        &self,
        options: &ColumnFamilyOptions,
        name: &str,
        import_options: &ImportColumnFamilyOptions,
        exports: &[&ExportImportFilesMetadata],
    ) -> Result<ColumnFamily> {
        let descriptor = ColumnFamilyDescriptor::new(name, options.clone());
        self.inner().import_column_family(&descriptor, import_options, exports)
    }
}
