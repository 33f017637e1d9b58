//! A file system, the database on it through opens and crashes, and what the judge knows of it.
//!
//! Thread safety: a `World` belongs to the task that opens and crashes; tasks share sessions.

use std::path::Path;
use std::sync::Arc;

use pumice::options::InfoLogLevel;
use pumice::{ColumnFamilyDescriptor, Db, Logger, MemFs};
use pumice_base::random::Rng;
use pumice_env::FileSystem;
use pumice_env::mem::CrashMode;
use pumice_port::sync::Mutex;
use pumice_testkit::history::History;
use pumice_testkit::oracle::{Crash, Logging};

use super::session::Session;
use super::side::SideFamilies;
use super::verdict::{Count, Failure, Kind, Tally};
use crate::stores::Settings;
use crate::stores::pumice::options;

/// Where every database lives.
pub const DIR: &str = "/db";

/// What a database of the suites looks like.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Column families that the judge follows.
    pub families: usize,
    /// How writes are logged.
    pub logging: Logging,
    /// The family that holds the order key.
    pub order_family: usize,
    /// Different keys per family.
    pub keys: u64,
    /// Stands in every key. A long one makes long MANIFEST records, over several sectors.
    pub key_prefix: String,
    /// Bytes of the longest value.
    pub value_bytes_max: u64,
    /// Options.
    pub settings: Settings,
    /// Write the info log, which makes more files and more I/O.
    pub info_log: bool,
    /// Families that the judge does not follow reserve their last level for files that are ingested
    /// behind all others.
    pub behind: bool,
    /// One write in this many is synced.
    pub one_sync_in: u64,
}

impl Plan {
    /// Whether all families share one order of batches.
    pub fn one_line(&self) -> bool {
        self.logging != Logging::Off
    }

    /// Makes flushes wait for three full memtables and few writes synced, so that several logs hold
    /// data that is in no table and not durable; values are large, so that memtables fill.
    pub fn pile_up_logs(&mut self) {
        self.settings = self
            .settings
            .clone()
            .with("max_write_buffer_number", "6")
            .with("min_write_buffer_number_to_merge", "3");
        self.value_bytes_max = super::plan::LARGE_VALUE_BYTES;
        self.one_sync_in = 40;
    }
}

/// See the module head.
pub struct World {
    /// The disk of the living process.
    pub fs: MemFs,
    /// How it is opened.
    pub plan: Plan,
    /// The judge.
    pub history: Arc<Mutex<History>>,
    /// Families besides those of the plan, created and dropped at run time.
    pub side: Arc<Mutex<SideFamilies>>,
    /// What happened.
    pub tally: Arc<Tally>,
    /// The disk dies at this change, from the first one on.
    dies_at: u64,
}

/// Whether events are printed on standard error, for debugging a seed.
pub fn is_traced() -> bool {
    static TRACED: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *TRACED.get_or_init(|| std::env::var_os("PUMICE_SIM_TELL").is_some())
}

/// Prints what happens, if that is requested.
pub fn trace(message: std::fmt::Arguments<'_>) {
    if is_traced() {
        eprintln!("{message}"); // No clock: reading it would change the run.
    }
}

/// Takes info-log lines; they are printed or dropped.
struct Forgetful;

impl Logger for Forgetful {
    fn log(&self, level: InfoLogLevel, message: std::fmt::Arguments<'_>) {
        if level != InfoLogLevel::Header {
            trace(format_args!("log: {message}"));
        }
    }
    fn level(&self) -> InfoLogLevel {
        InfoLogLevel::Info // Printed or not, a seed does the same.
    }
    fn is_plain(&self) -> bool {
        true
    }
}

impl World {
    /// An empty disk.
    pub fn new(seed: u64, plan: Plan, tally: Arc<Tally>) -> Self {
        let history = History::new(plan.families, plan.logging, plan.order_family);
        World {
            fs: MemFs::new(seed),
            plan,
            history: Arc::new(Mutex::new(history)),
            side: Arc::default(),
            tally,
            dies_at: u64::MAX,
        }
    }

    /// The same history, to continue on another disk.
    #[must_use]
    pub fn fork(&self, fs: MemFs) -> World {
        World {
            fs,
            plan: self.plan.clone(),
            history: Arc::new(Mutex::new(self.history.lock().fork())),
            side: Arc::new(Mutex::new(self.side.lock().clone())),
            tally: Arc::clone(&self.tally),
            dies_at: u64::MAX,
        }
    }

    /// Makes the disk die after `changes` more changes, whatever is opened on it.
    pub fn die_after(&mut self, changes: u64) {
        self.dies_at = self.fs.change_count() + changes;
        self.fs.halt_after(changes);
    }
    /// The changes of this disk so far.
    pub fn changes_ever(&self) -> u64 {
        self.fs.change_count()
    }
    /// When the disk dies.
    pub fn dies_at(&self) -> u64 {
        self.dies_at
    }
    /// Whether calls may fail: a fault was injected or the disk has died.
    pub fn may_fail(&self) -> bool {
        !self.fs.fault_log().is_empty() || self.fs.change_count() >= self.dies_at
    }
    /// The process ended without a clean close; the disk works on.
    pub fn process_ended(&self) {
        let crash = if self.lost_a_sync() { Crash::Power } else { Crash::Process };
        self.history.lock().crash(crash);
        self.side.lock().crash();
    }

    /// The process dies, and another continues on the same disk, which may die as planned.
    pub fn die_and_live(&mut self, session: Arc<Session>) {
        self.fs.halt_after(0);
        drop(session);
        self.process_ended();
        self.tally.add(Count::Crashes, 1);
        self.fs.crash(0, CrashMode::PROCESS);
        if self.dies_at != u64::MAX {
            self.fs.halt_after(self.dies_at.saturating_sub(self.fs.change_count()));
        }
    }

    /// Opens a database whose opening failed because of faults, and judges it.
    ///
    /// # Errors
    /// What is wrong.
    pub fn open_after_faults(&self) -> Result<Session, Failure> {
        self.process_ended();
        self.open_and_judge()
    }

    /// Opens the database with all families it has.
    ///
    /// # Errors
    /// Pumice's.
    pub fn open(&self) -> pumice::Result<Session> {
        self.tally.add(Count::Ops, 1);
        let (mut base, mut families) = options(&self.plan.settings, self.fs.shared())
            .map_err(pumice_base::Error::invalid_argument)?;
        if !self.plan.info_log {
            base.db.info_log = Some(Arc::new(Forgetful));
        }
        base.cf.cf_allow_ingest_behind = self.plan.behind;
        let fixed = families.len();
        let present = match self.fs.exists(&Path::new(DIR).join("CURRENT"))? {
            true => Db::list_column_families(&base.db, DIR)?,
            false => Vec::new(),
        };
        let others: Vec<String> =
            present.into_iter().filter(|name| families.iter().all(|f| f.name != *name)).collect();
        for name in &others {
            families.push(ColumnFamilyDescriptor::new(name.clone(), base.cf.clone()));
        }
        let opened = Db::open_cf(&base.db, DIR, &families);
        trace(format_args!("opened: {:?}", opened.as_ref().err()));
        let (db, mut handles) = opened?;
        let others = handles.split_off(fixed).into_iter().zip(others).collect();
        Ok(Session::new(self, db, handles, others, base.cf))
    }

    /// Opens without faults, and judges the contents.
    ///
    /// # Errors
    /// What is wrong.
    pub fn open_and_judge(&self) -> Result<Session, Failure> {
        self.fs.clear_faults();
        self.fs.set_quota(None);
        let session = self.open().map_err(|e| {
            let files = self.fs.list(Path::new(DIR)).unwrap_or_default();
            Failure::new(Kind::Wrong, format!("cannot open: {e}; files {files:?}"))
        })?;
        let judged = session.judge_recovery();
        judged.map_err(|failure| failure.before("after opening"))?;
        Ok(session)
    }

    /// Crashes. The dead process keeps the old file system, on which all its calls fail; what the
    /// crash leaves becomes a new one.
    pub fn crash(&mut self, session: Option<Arc<Session>>, rng: &mut Rng) {
        let (crash, mode) = some_crash(rng);
        self.crash_as(session, crash, mode, rng.next_u64());
    }

    /// [`World::crash`] of a certain kind.
    pub fn crash_as(
        &mut self,
        session: Option<Arc<Session>>,
        crash: Crash,
        mode: CrashMode,
        seed: u64,
    ) {
        self.fs.halt_after(0);
        trace(format_args!("crash {crash:?} {mode:?}; faults {:?}", self.fs.fault_log()));
        let crash = if self.lost_a_sync() { Crash::Power } else { crash };
        let survivors = self.fs.crashed_copy(seed, mode);
        self.dies_at = u64::MAX;
        let dead = std::mem::replace(&mut self.fs, survivors);
        self.history.lock().crash(crash);
        self.side.lock().crash();
        self.tally.add(Count::Crashes, 1);
        self.tally.add(Count::Faults, dead.fault_log().len() as u64);
        drop(session);
    }

    /// Whether a failed sync has dropped unsynced data, as a power cut does.
    pub fn lost_a_sync(&self) -> bool {
        let lossy =
            |line: &String| line.starts_with("Fsync(") && !line.starts_with("Fsync(Durable)");
        self.fs.fault_log().iter().any(|line| lossy(line) && line.contains(" at Sync "))
    }
}

/// A crash of some kind.
pub fn some_crash(rng: &mut Rng) -> (Crash, CrashMode) {
    match rng.uniform(4) {
        0 => (Crash::Process, CrashMode::PROCESS),
        1 => (Crash::Power, CrashMode::UNSYNCED),
        _ => (Crash::Power, CrashMode::MIXED),
    }
}
