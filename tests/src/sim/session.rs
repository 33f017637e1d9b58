//! An open database with its judge, to which every call is reported before and after.
//!
//! Calls fail with [`Stop`]: the engine's error, which the caller accepts when there was a reason
//! for one (a fault, a crash under way), or a broken promise, which is never accepted.
//!
//! Thread safety: all calls from any task at any time, except `close`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use pumice::{
    ColumnFamily, ColumnFamilyOptions, CompactRangeOptions, Db, FlushOptions, MemFs, ReadOptions,
    WriteOptions,
};
use pumice_env::FileSystem;
use pumice_port::sync::Mutex;
use pumice_testkit::history::{BatchId, History, ORDER_KEY};
use pumice_testkit::{Entry, Op};

use super::side::{Found, SideFamilies};
use super::verdict::{Count, Failure, Kind, Tally};
use super::world::{DIR, Plan, World, trace};
use crate::stores::pumice::batch;

/// Why a call did not succeed.
#[derive(Clone, Debug)]
pub enum Stop {
    /// The engine's error.
    Error(pumice::Error),
    /// A broken promise.
    Broken(Failure),
}

impl From<pumice::Error> for Stop {
    fn from(error: pumice::Error) -> Self {
        Stop::Error(error)
    }
}
impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Stop::Broken(failure)
    }
}

/// How the texts of failed reads begin.
const READING: &str = "reading";

/// Tries at most to make a database write again, and the time between them.
const HEAL_TRIES: u32 = 100;
const HEAL_PAUSE: Duration = Duration::from_millis(60);
/// Attempts that a full disk gets to recover by itself, without help; about 5 s.
const TRIES_BY_ITSELF: u32 = 90;

/// See the module head.
pub struct Session {
    /// The database.
    pub db: Db,
    /// The database's families that the history follows.
    pub families: Vec<ColumnFamily>,
    /// How it was planned.
    pub plan: Plan,
    /// The disk of the database.
    pub fs: MemFs,
    /// The judge.
    pub history: Arc<Mutex<History>>,
    /// What happened.
    pub tally: Arc<Tally>,
    pub(super) side: Arc<Mutex<SideFamilies>>,
    pub(super) side_handles: Mutex<BTreeMap<String, ColumnFamily>>,
    pub(super) side_options: ColumnFamilyOptions,
    /// The change of the disk from which on nothing happens any more.
    dies_at: AtomicU64,
    /// Faults injected before this session began.
    old_faults: usize,
    /// The disk was made to run full.
    was_full: AtomicBool,
    /// A task closes the database while others use it, or has closed it.
    closing: AtomicBool,
}

impl Session {
    pub(super) fn new(
        world: &World,
        db: Db,
        families: Vec<ColumnFamily>,
        side: Vec<(ColumnFamily, String)>,
        side_options: ColumnFamilyOptions,
    ) -> Self {
        Session {
            db,
            families,
            plan: world.plan.clone(),
            fs: world.fs.clone(),
            history: Arc::clone(&world.history),
            tally: Arc::clone(&world.tally),
            side: Arc::clone(&world.side),
            side_handles: Mutex::new(side.into_iter().map(|(cf, name)| (name, cf)).collect()),
            side_options,
            dies_at: AtomicU64::new(world.dies_at()),
            old_faults: world.fs.fault_log().len(),
            was_full: AtomicBool::new(false),
            closing: AtomicBool::new(false),
        }
    }

    /// Makes the disk die after `changes` more changes.
    pub fn die_after(&self, changes: u64) {
        self.dies_at.store(self.fs.change_count() + changes, Ordering::SeqCst);
        self.fs.halt_after(changes);
    }
    /// The change of the disk at which it dies.
    pub fn dies_at(&self) -> u64 {
        self.dies_at.load(Ordering::SeqCst)
    }
    /// Whether the disk has died.
    pub fn is_dead(&self) -> bool {
        self.fs.change_count() >= self.dies_at()
    }
    /// Whether a fault was injected since the database was opened.
    pub fn had_faults(&self) -> bool {
        self.was_full.load(Ordering::SeqCst) || self.fs.fault_log().len() > self.old_faults
    }
    /// The database is about to be closed, even while others work on it.
    pub fn closes(&self) {
        self.closing.store(true, Ordering::SeqCst);
    }
    /// Whether a task has closed the database, or was about to.
    pub fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }
    /// Leaves `free` free bytes on the disk.
    pub fn fill_disk(&self, free: u64) {
        self.was_full.store(true, Ordering::SeqCst);
        self.fs.set_quota(Some(self.fs.used_bytes() + free));
    }
    /// Ends all faults, not a death to come.
    fn end_faults(&self) {
        self.fs.clear_faults();
        self.fs.set_quota(None);
        let dies_at = self.dies_at.load(Ordering::SeqCst);
        if dies_at != u64::MAX {
            self.fs.halt_after(dies_at.saturating_sub(self.fs.change_count()));
        }
    }

    /// Whether `stop` is an allowed error: there was a fault, a crash or a close, and it only says
    /// that an operation failed.
    ///
    /// # Errors
    /// A broken promise, or an error without a reason.
    pub fn excuse(&self, stop: Stop) -> Result<(), Failure> {
        let error = match stop {
            Stop::Broken(failure) => return Err(failure),
            Stop::Error(error) => error,
        };
        let reason = self.is_dead() || self.had_faults() || self.is_closing();
        if reason && !error.is_corruption() {
            return Ok(());
        }
        let log = self.fs.fault_log().join("\n  ");
        Err(Failure::new(Kind::Wrong, format!("{error}, without a reason; faults:\n  {log}")))
    }

    /// The family that has the order key for reads of `cf`.
    pub fn order_family(&self, cf: usize) -> usize {
        self.history.lock().order_family(cf)
    }

    fn count(&self, count: Count) {
        self.tally.add(count, 1);
    }

    /// Write options for the plan's logging.
    pub fn write_options(&self, sync: bool) -> WriteOptions {
        let disable_wal = !self.plan.logging.has_wal();
        WriteOptions { sync: sync && !disable_wal, disable_wal, ..WriteOptions::default() }
    }

    /// Writes a batch; its number when it was acknowledged.
    ///
    /// # Errors
    /// See the module head.
    pub fn write(&self, ops: Vec<Op>, sync: bool) -> Result<BatchId, Stop> {
        self.count(Count::Ops);
        let options = self.write_options(sync);
        let (id, written) = self.history.lock().issue(ops);
        let done = self.db.write_opt(&options, &mut batch(&self.families, &written));
        trace(format_args!("batch {id}: sync {} {:?}", options.sync, done.as_ref().err()));
        done?;
        self.history.lock().acknowledge(id, options.sync);
        self.count(Count::Acked);
        Ok(id)
    }

    /// Writes something of no interest.
    ///
    /// # Errors
    /// See the module head.
    pub fn probe(&self, sync: bool) -> Result<(), Stop> {
        let put = Op::Put { cf: 0, key: b"probe".to_vec(), value: b"p".to_vec() };
        self.write(vec![put], sync).map(drop)
    }

    /// Flushes a family.
    ///
    /// # Errors
    /// See the module head.
    pub fn flush(&self, cf: usize) -> Result<(), Stop> {
        self.count(Count::Ops);
        let begun = self.history.lock().now();
        self.db.flush_cfs_opt(&FlushOptions::default(), &[&self.families[cf]])?;
        self.history.lock().flushed(cf, begun);
        self.count(Count::Upkeep);
        Ok(())
    }

    /// Hands the log to the system, or makes it durable.
    ///
    /// # Errors
    /// See the module head.
    pub fn flush_wal(&self, sync: bool) -> Result<(), Stop> {
        self.count(Count::Ops);
        let begun = self.history.lock().now();
        self.db.flush_wal(sync)?;
        self.history.lock().wal_flushed(sync, begun);
        Ok(())
    }

    /// Compacts a range of a family.
    ///
    /// # Errors
    /// See the module head.
    pub fn compact(&self, cf: usize, begin: Option<&[u8]>, end: Option<&[u8]>) -> Result<(), Stop> {
        self.count(Count::Ops);
        let how = CompactRangeOptions::default();
        match self.db.compact_range_cf(&how, &self.families[cf], begin, end) {
            Ok(()) => self.count(Count::Upkeep),
            // An operator has paused it.
            Err(error) if super::operate::is_paused(&error) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Ends all faults and waits until the database takes writes again, which it must without being
    /// reopened: a full disk by itself, everything else after `resume`.
    ///
    /// # Errors
    /// It does not.
    pub fn heal(&self) -> Result<(), Failure> {
        self.end_faults();
        let mut last = String::new();
        for attempt in 0..HEAL_TRIES {
            match self.probe(false) {
                Ok(()) => {
                    self.count(Count::Heals);
                    return Ok(());
                }
                Err(Stop::Broken(failure)) => return Err(failure),
                Err(Stop::Error(_)) if self.is_dead() || self.is_closing() => return Ok(()),
                Err(Stop::Error(error)) => last = error.to_string(),
            }
            let by_itself = last.contains("No space");
            if by_itself && attempt >= TRIES_BY_ITSELF {
                break;
            }
            if !by_itself && let Err(error) = self.db.resume() {
                last = format!("{last}; resume: {error}");
            }
            pumice_port::thread::sleep(HEAL_PAUSE);
        }
        let log = self.fs.fault_log().join("\n  ");
        let text = format!("no write after the faults ended: {last}; faults:\n  {log}");
        Err(Failure::new(Kind::Stuck, text))
    }

    /// A call where nothing can go wrong.
    ///
    /// # Errors
    /// It went wrong.
    pub fn must(&self, done: Result<(), Stop>, what: &str) -> Result<(), Failure> {
        match done {
            Ok(()) => Ok(()),
            Err(Stop::Broken(failure)) => Err(failure),
            Err(Stop::Error(error)) => {
                Err(Failure::new(Kind::Wrong, format!("{what} on a healthy database: {error}")))
            }
        }
    }

    /// Compares the whole database with what the judge allows, while nothing writes.
    ///
    /// # Errors
    /// What is wrong.
    pub fn judge_live(&self) -> Result<(), Failure> {
        let begun = self.history.lock().now();
        let found = self.contents()?;
        let mut history = self.history.lock();
        for (cf, entries) in found.iter().enumerate() {
            let order = &found[history.order_family(cf)];
            let order = order.iter().find(|(key, _)| key == ORDER_KEY).map(|(_, v)| v.as_slice());
            let view = history.saw_order(cf, order, begun, begun)?;
            history.check_range(view, cf, (None, None), entries)?;
        }
        Ok(())
    }

    /// As [`Session::judge_recovery`] while faults or a death may keep it from reading: whether it
    /// could.
    ///
    /// # Errors
    /// What is wrong.
    pub fn judge_recovery_if_readable(&self) -> Result<bool, Failure> {
        let unreadable = |failure: &Failure| failure.text.starts_with(READING);
        match self.contents() {
            Ok(found) => {
                self.history.lock().recovered(&found)?;
                let side = self.side_contents();
                match side {
                    Ok(side) => self.side.lock().recovered(&side)?,
                    Err(failure) if !unreadable(&failure) => return Err(failure),
                    Err(_) => return Ok(false),
                }
                Ok(true)
            }
            Err(failure) if unreadable(&failure) && self.may_fail() => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    fn may_fail(&self) -> bool {
        self.is_dead() || !self.fs.fault_log().is_empty()
    }

    /// Compares the whole database with what the judge allows after opening.
    ///
    /// # Errors
    /// What is wrong.
    pub fn judge_recovery(&self) -> Result<(), Failure> {
        let found = self.contents()?;
        self.history.lock().recovered(&found)?;
        let side = self.side_contents()?;
        self.side.lock().recovered(&side)
    }

    /// Everything in the families of the history: a forward scan, with which a backward scan and
    /// single reads must agree. Only while nothing writes.
    ///
    /// # Errors
    /// An error, or answers that differ.
    fn contents(&self) -> Result<Vec<Vec<Entry>>, Failure> {
        let failed =
            |error: pumice::Error| Failure::new(Kind::Wrong, format!("{READING}: {error}"));
        let mut all = Vec::new();
        let reads = ReadOptions::default();
        for (cf, family) in self.families.iter().enumerate() {
            let forward = super::reads::scan(&self.db, family, &reads, false).map_err(failed)?;
            let backward = super::reads::scan(&self.db, family, &reads, true).map_err(failed)?;
            if forward != backward {
                let text = format!("family {cf}: a scan and a backward scan differ");
                return Err(Failure::new(Kind::Wrong, text));
            }
            let keys: Vec<_> = forward.iter().map(|(key, _)| (family, key.as_slice())).collect();
            let values = self.db.multi_get_cf_opt(&reads, &keys);
            for ((key, value), found) in forward.iter().zip(values) {
                let found = found.map_err(failed)?;
                let again = self.db.get_cf_opt(&reads, family, key).map_err(failed)?;
                if found.as_deref() != Some(value) || again.as_deref() != Some(value) {
                    let key = String::from_utf8_lossy(key);
                    let text = format!("family {cf}: {key}: a scan and point reads differ");
                    return Err(Failure::new(Kind::Wrong, text));
                }
            }
            self.tally.add(Count::Reads, 2 + forward.len() as u64);
            all.push(forward);
        }
        Ok(all)
    }

    fn side_contents(&self) -> Result<BTreeMap<String, Found>, Failure> {
        let mut all = BTreeMap::new();
        for (name, family) in &*self.side_handles.lock() {
            let found = super::reads::scan(&self.db, family, &ReadOptions::default(), false);
            let found =
                found.map_err(|e| Failure::new(Kind::Wrong, format!("{READING} {name}: {e}")))?;
            all.insert(name.clone(), found.into_iter().collect());
        }
        Ok(all)
    }

    /// Closes; Ok means that all that was acknowledged is there when it is opened next.
    ///
    /// # Errors
    /// The engine's.
    pub fn close(&self) -> pumice::Result<()> {
        self.count(Count::Ops);
        self.db.close()
    }

    /// Blob files of the versions of all families.
    fn live_blobs(&self) -> u64 {
        let of = |family: &ColumnFamily| {
            self.db.property_int_cf(family, "rocksdb.num-blob-files").unwrap_or(0)
        };
        let side: u64 = self.side_handles.lock().values().map(of).sum();
        self.families.iter().map(of).sum::<u64>() + side
    }

    /// After a clean close and open: no obsolete file is left.
    ///
    /// # Errors
    /// The names of those that are.
    pub fn check_files(&self) -> Result<(), Failure> {
        let failed = |e: pumice::Error| Failure::new(Kind::Wrong, format!("listing: {e}"));
        self.db.wait_for_compact(&Default::default()).map_err(failed)?;
        let mut extra = Vec::new();
        // Jobs delete files after they report: look again.
        for _ in 0..HEAL_TRIES {
            let live = self.db.live_files_metadata();
            let names = self.fs.list(Path::new(DIR)).map_err(failed)?;
            let manifests = names.iter().filter(|name| name.starts_with("MANIFEST-")).count();
            let is_live = |name: &str| live.iter().any(|file| file.name.ends_with(name));
            extra = names
                .iter()
                .filter(|name| {
                    (name.ends_with(".sst") && !is_live(name))
                        || name.ends_with(".dbtmp")
                        || (name.starts_with("MANIFEST-") && manifests > 1)
                })
                .cloned()
                .collect();
            let blobs = extra_blobs(&names, self.live_blobs());
            extra.extend(blobs.1);
            if extra.is_empty() {
                self.count(Count::Listings);
                self.tally.add(Count::Blobs, blobs.0);
                return Ok(());
            }
            pumice_port::thread::sleep(HEAL_PAUSE);
        }
        Err(Failure::new(Kind::Wrong, format!("files that are not needed: {extra:?}")))
    }
}

/// How many blob files a listing has, and a complaint if those are more than the `live` ones.
fn extra_blobs(names: &[String], live: u64) -> (u64, Option<String>) {
    let found = names.iter().filter(|name| name.ends_with(".blob")).count() as u64;
    (found, (found > live).then(|| format!("{found} blob files where {live} are live")))
}
