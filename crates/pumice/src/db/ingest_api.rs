//! The handle's calls that ingest table files.
//!
//! Thread safety: from anywhere. Suspends.

use std::path::Path;
use std::sync::Arc;

use pumice_base::{Error, Result};

use crate::db::api::Db;
use crate::ingest::request::Request;
use crate::ingest::{IngestExternalFileArg, IngestExternalFileOptions};
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
        let mut requests = Vec::with_capacity(args.len());
        for arg in args {
            if !arg.column_family.belongs_to(&**self.inner()) {
                return Err(Error::invalid_argument("column family handle of another database"));
            }
            requests.push(Request { cf: Arc::clone(&arg.column_family.data), arg });
        }
        self.inner().ingest(&requests)
    }
}
