//! Ingestions in two steps: files that were checked and brought into the directory wait to become
//! part of the database.
//!
//! Thread safety: from any thread; suspends. A waiting ingestion is no job: it keeps no database
//! open and no close from ending.
//!
//! Invariants: (1) the database knows each until it is committed or discarded, and a handle only
//! names it; (2) until then the numbers of its files stay pending outputs; (3) a close discards
//! those that remain while it still has the directory.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use pumice_base::{Error, FileNumber, Result};
use pumice_port::time;

use crate::engine::DbInner;
use crate::engine::ingest_job::UnderWay;
use crate::engine::prepared_ingestion::Prepared;
use crate::ingest::request::{Request, dropped};

/// The prepared ingestions of a database.
#[derive(Default)]
pub(crate) struct StagedIngestions {
    last: u64,
    waiting: BTreeMap<u64, Staged>,
}

struct Staged {
    prepared: Vec<Prepared>,
    files: Vec<(FileNumber, PathBuf)>,
    /// Its handle was dropped where no lock could be taken.
    given_up: Arc<AtomicBool>,
}

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
    /// None once it is committed or discarded.
    number: Option<u64>,
    given_up: Arc<AtomicBool>,
}

impl FileIngestionHandle {
    /// Takes it back: its files in the database's directory are deleted.
    ///
    /// # Errors
    /// ShutdownInProgress if the database is closing or closed, and Aborted in code that it calls
    /// under locks: its close, at the latest, deletes them.
    pub fn abort(mut self) -> Result<()> {
        self.discard()
    }

    fn discard(&mut self) -> Result<()> {
        let Some(number) = self.number.take() else { return Ok(()) };
        self.given_up.store(true, Ordering::Release);
        let closed = || Error::shutdown("the database is closed");
        let db = self.db.upgrade().ok_or_else(closed)?;
        let mut under_way = UnderWay::begin(&db)?;
        if let Some(staged) = db.life.staged.lock().waiting.remove(&number) {
            under_way.files = staged.files;
        }
        Ok(())
    }
}

impl Drop for FileIngestionHandle {
    fn drop(&mut self) {
        // Without it the next ingestion or the close deletes the files.
        drop(self.discard());
    }
}

impl std::fmt::Debug for FileIngestionHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileIngestionHandle").field("number", &self.number).finish_non_exhaustive()
    }
}

impl StagedIngestions {
    fn add(&mut self, staged: Staged) -> u64 {
        self.last += 1;
        self.waiting.insert(self.last, staged);
        self.last
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
        let given_up = Arc::new(AtomicBool::new(false));
        let files = std::mem::take(&mut under_way.files);
        self.take_given_up(&mut under_way);
        let staged = Staged { prepared, files, given_up: Arc::clone(&given_up) };
        let number = Some(self.life.staged.lock().add(staged));
        Ok(FileIngestionHandle { db: Arc::downgrade(self), number, given_up })
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
        let mut requests = Vec::new();
        for mut one in staged {
            let waiting = |number| self.life.staged.lock().waiting.remove(&number);
            if let Some(mut staged) = one.number.take().and_then(waiting) {
                under_way.files.append(&mut staged.files);
                requests.append(&mut staged.prepared);
            }
        }
        let prepared = joined(requests)?;
        self.finish_ingestion(prepared, under_way, started)
    }

    /// Those whose handles could not be discarded when they were dropped end with `under_way`.
    fn take_given_up(&self, under_way: &mut UnderWay<'_>) {
        let mut staged = self.life.staged.lock();
        let given_up = |_: &u64, one: &mut Staged| one.given_up.load(Ordering::Acquire);
        for (_, mut one) in staged.waiting.extract_if(.., given_up) {
            under_way.files.append(&mut one.files);
        }
    }

    /// Gives up all that remain: the database is closing, and no ingestion is under way.
    pub(super) fn discard_staged(&self) {
        let staged = std::mem::take(&mut self.life.staged.lock().waiting);
        let mut state = self.state.lock();
        for (number, path) in staged.into_values().flat_map(|one| one.files) {
            state.files.discard_output(number, path);
        }
    }
}

/// `requests` with one for each family.
///
/// # Errors
/// A family was dropped, or those of one do not go together.
fn joined(requests: Vec<Prepared>) -> Result<Vec<Prepared>> {
    let mut joined: BTreeMap<u32, (Prepared, bool)> = BTreeMap::new();
    for request in requests {
        if request.cf.is_dropped() {
            return Err(dropped());
        }
        match joined.get_mut(&request.cf.id) {
            Some((before, several)) => {
                check_joined(before, &request)?;
                before.files.extend(request.files);
                *several = true;
            }
            None => _ = joined.insert(request.cf.id, (request, false)),
        }
    }
    for (request, _) in joined.values_mut().filter(|(_, several)| *several) {
        request.check_joined()?;
    }
    let joined: Vec<Prepared> = joined.into_values().map(|(request, _)| request).collect();
    let fills = |request: &Prepared| request.options.fill_cache;
    if joined.windows(2).any(|pair| fills(&pair[0]) != fills(&pair[1])) {
        return Err(Error::invalid_argument(
            "fill_cache should be the same across ingestion options.",
        ));
    }
    Ok(joined)
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::{Db, IngestExternalFileArg, MemFs, Options, SstFileWriter};

    /// Where no lock may be taken a handle is dropped all the same, and its files go later.
    #[pumice_test_macros::test]
    fn handles_are_dropped_under_locks() {
        let fs = MemFs::new(1).shared();
        let mut options = Options::default();
        options.db.create_if_missing = true;
        options.db.file_system = fs.clone();
        let db = Db::open(&options, "/db").unwrap();
        let mut writer = SstFileWriter::new(&options).unwrap();
        writer.open("/in.sst").unwrap();
        writer.put("a", "1").unwrap();
        writer.finish().unwrap();
        let cf = db.default_column_family();
        let arg = IngestExternalFileArg::new(cf, vec!["/in.sst".into()], &Default::default());
        let stage = || db.prepare_file_ingestion(std::slice::from_ref(&arg)).unwrap();
        let tables = || {
            let names = fs.list("/db".as_ref()).unwrap();
            names.iter().filter(|name| name.ends_with(".sst")).count()
        };
        let (dropped, aborted, committed) = (stage(), stage(), stage());
        {
            let _marked = db.inner().life.mark.enter_locked();
            let _state = db.inner().state.lock();
            drop(dropped);
            assert!(aborted.abort().is_err());
            assert!(db.commit_file_ingestion_handles(vec![committed]).is_err());
        }
        assert_eq!(tables(), 3);
        drop(stage());
        assert_eq!(tables(), 0);
        assert!(db.inner().state.lock().files.pending_outputs.is_empty());
        db.close().unwrap();
    }
}
