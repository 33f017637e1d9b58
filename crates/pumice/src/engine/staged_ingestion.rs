//! Ingestions in two steps: files that were checked and brought into the directory wait to become
//! part of the database.
//!
//! Thread safety: from any thread; suspends. A waiting ingestion is no job: it keeps no database
//! open and no close from ending.
//!
//! Invariant: the numbers of its files stay pending outputs until it is committed or dropped. After
//! a close they are the next open's to delete.

use std::path::PathBuf;
use std::sync::{Arc, Weak};

use pumice_base::{Error, FileNumber, Result};
use pumice_port::time;

use crate::engine::DbInner;
use crate::engine::ingest_job::UnderWay;
use crate::engine::prepared_ingestion::Prepared;
use crate::ingest::request::Request;

/// An ingestion that was prepared and not committed, see
/// [`Db::prepare_file_ingestion`](crate::Db::prepare_file_ingestion). Dropping it takes it back.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// # let dir = std::env::temp_dir().join(format!("pumice-stage-{}", std::process::id()));
/// # let db = pumice::Db::builder(&dir).create(true).open()?;
/// use pumice::{FileIngestionHandle, IngestExternalFileArg, Options, SstFileWriter};
/// let path = dir.join("new.sst");
/// let mut writer = SstFileWriter::new(&Options::default())?;
/// writer.open(&path)?;
/// writer.put("a", "1")?;
/// writer.finish()?;
/// let cf = db.default_column_family();
/// let arg = IngestExternalFileArg::new(cf, vec![path], &Default::default());
/// let staged: FileIngestionHandle = db.prepare_file_ingestion(&[arg])?;
/// assert_eq!(db.get("a")?, None);
/// db.commit_file_ingestion_handles(vec![staged])?;
/// assert_eq!(db.get("a")?.as_deref(), Some(&b"1"[..]));
/// # db.close()?;
/// # pumice::Db::destroy(&Default::default(), &dir)?;
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping it takes the ingestion back"]
pub struct FileIngestionHandle {
    db: Weak<DbInner>,
    prepared: Vec<Prepared>,
    files: Vec<(FileNumber, PathBuf)>,
}

impl FileIngestionHandle {
    /// Takes it back: its files in the database's directory are deleted.
    ///
    /// # Errors
    /// ShutdownInProgress if the database was closed, whose next open deletes them; the background
    /// error.
    pub fn abort(mut self) -> Result<()> {
        self.discard()
    }

    fn discard(&mut self) -> Result<()> {
        self.prepared.clear();
        let files = std::mem::take(&mut self.files);
        if files.is_empty() {
            return Ok(());
        }
        let closed = || Error::shutdown("the database is closed");
        let db = self.db.upgrade().ok_or_else(closed)?;
        let mut under_way = UnderWay::begin(&db)?;
        under_way.files = files;
        Ok(())
    }
}

impl Drop for FileIngestionHandle {
    fn drop(&mut self) {
        // Without it the next open deletes the files.
        drop(self.discard());
    }
}

impl std::fmt::Debug for FileIngestionHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileIngestionHandle").field("files", &self.files).finish_non_exhaustive()
    }
}

impl DbInner {
    /// The first step.
    ///
    /// # Errors
    /// See [`crate::Db::prepare_file_ingestion`].
    pub(crate) fn stage_ingestion(
        self: &Arc<Self>,
        requests: &[Request<'_>],
    ) -> Result<FileIngestionHandle> {
        let mut under_way = self.begin_ingestion(requests)?;
        let prepared = self.prepare_all(requests, &mut under_way)?;
        let files = std::mem::take(&mut under_way.files);
        Ok(FileIngestionHandle { db: Arc::downgrade(self), prepared, files })
    }

    /// The second step.
    ///
    /// # Errors
    /// See [`crate::Db::commit_file_ingestion_handles`].
    pub(crate) fn commit_staged(self: &Arc<Self>, staged: Vec<FileIngestionHandle>) -> Result<()> {
        let started = time::now_micros();
        if staged.is_empty() {
            return Err(Error::invalid_argument("there are no ingestion handles"));
        }
        if staged.iter().any(|one| !std::ptr::eq(one.db.as_ptr(), Arc::as_ptr(self))) {
            return Err(Error::invalid_argument("ingestion handle of another database"));
        }
        self.life.mark.check_may_wait()?;
        let mut under_way = UnderWay::begin(self)?;
        let mut prepared: Vec<Prepared> = Vec::new();
        for mut one in staged {
            under_way.files.append(&mut one.files);
            for request in one.prepared.drain(..) {
                match prepared.iter_mut().find(|before| before.cf.id == request.cf.id) {
                    Some(before) => {
                        check_joined(before, &request)?;
                        before.join(request)?;
                    }
                    None => prepared.push(request),
                }
            }
        }
        self.finish_ingestion(prepared, under_way, started)
    }
}

fn check_joined(before: &Prepared, later: &Prepared) -> Result<()> {
    if before.options != later.options {
        return Err(Error::invalid_argument(
            "ingestion handles of one column family were prepared with different options",
        ));
    }
    if before.replaces.is_some() || later.replaces.is_some() {
        return Err(Error::not_supported(
            "several ingestion handles of one column family with atomic_replace_range",
        ));
    }
    Ok(())
}
