//! One life: a database on a `MemFs`, its writer, its crashes, its judge.

use std::path::Path;

use pumice::WriteOptions;
use pumice_base::random::Rng;
use pumice_env::MemFs;
use pumice_env::mem::CrashMode;
use pumice_testkit::oracle::{Crash, CrashOracle, Logging};
use pumice_testkit::{Model, OpGenerator, Shape, Store, contents};

use crate::stores::Settings;
use crate::stores::pumice::Pumice;

/// What a life went through.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Batches that were acknowledged.
    pub acked: u64,
    /// Crashes, and those of them that hit a recovery.
    pub crashes: u64,
    pub in_recovery: u64,
    /// Flushes, compactions and clean reopens that finished.
    pub upkeep: u64,
}

impl Tally {
    pub fn add(&mut self, other: &Tally) {
        self.acked += other.acked;
        self.crashes += other.crashes;
        self.in_recovery += other.in_recovery;
        self.upkeep += other.upkeep;
    }
}

struct Life {
    rng: Rng,
    fs: MemFs,
    settings: Settings,
    logging: Logging,
    families: usize,
    oracle: CrashOracle,
    generator: OpGenerator,
    tally: Tally,
}

/// Lives the life of `seed`.
///
/// # Errors
/// A broken promise, or an error where there was no reason for one.
pub fn run(seed: u64) -> Result<Tally, String> {
    let mut life = Life::new(seed);
    live(&mut life).map_err(|e| format!("{e}\noptions {:?}", life.settings.options))
}

fn live(life: &mut Life) -> Result<Tally, String> {
    for _ in 0..2 + life.rng.uniform(3) {
        let mut store = life.open_through_crashes()?;
        life.judge(&mut store)?;
        let store = life.work(store)?;
        life.crash_with(store);
    }
    let mut store = life.open_calmly()?;
    life.judge(&mut store)?;
    Ok(life.tally)
}

impl Life {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let families = 1 + rng.uniform(3) as usize;
        let logging = match rng.uniform(5) {
            0 => Logging::Off,
            1 => Logging::ManualFlush,
            _ => Logging::Wal,
        };
        let shape = Shape {
            families,
            prefix: String::new(),
            keys: 5 + rng.uniform(60),
            value_bytes_max: if rng.one_in(4) { 4000 } else { 60 },
            batch_ops_max: 8,
            range_deletions_per_mille: 20,
        };
        Life {
            fs: MemFs::new(seed),
            settings: settings(families, logging, &mut rng),
            logging,
            families,
            oracle: CrashOracle::new(families, logging),
            generator: OpGenerator::new(shape, seed ^ 0xc4a5),
            tally: Tally::default(),
            rng,
        }
    }

    fn open(&mut self) -> Result<Pumice, String> {
        Pumice::open_on(self.fs.shared(), Path::new("/db"), &self.settings)
    }

    fn open_calmly(&mut self) -> Result<Pumice, String> {
        self.fs.clear_faults();
        self.open().map_err(|e| format!("open after a crash: {e}"))
    }

    /// Opens; some of the attempts crash.
    fn open_through_crashes(&mut self) -> Result<Pumice, String> {
        for _ in 0..self.rng.uniform(3) {
            let last = self.rng.uniform(25);
            self.fs.halt_after(last);
            match self.open() {
                Ok(store) => {
                    // The file system may have died at the very end. Data read from it then cannot
                    // be distinguished from data in memory, so the crash comes before anything is
                    // judged.
                    self.crash_with(Some(store));
                }
                Err(_) => {
                    self.tally.in_recovery += 1;
                    self.crash_with(None);
                }
            }
        }
        self.open_calmly()
    }

    fn judge(&mut self, store: &mut Pumice) -> Result<(), String> {
        let found = Model::from_entries(contents::read(store, self.families)?);
        self.generator.resume(&found);
        self.oracle.recovered(&found)
    }

    /// Writes until a random number of batches is done or the file system dies. None when a clean
    /// reopen did not come back.
    fn work(&mut self, mut store: Pumice) -> Result<Option<Pumice>, String> {
        let will_die = self.rng.uniform(4) > 0;
        if will_die {
            self.fs.halt_after(self.rng.uniform(400));
        }
        for _ in 0..self.rng.uniform(120) {
            let done = match self.rng.uniform(40) {
                0 => self.flush(&mut store),
                1 => self.compact(&mut store),
                2 | 3 => self.flush_wal(&mut store),
                4 if self.rng.one_in(3) => {
                    let reopened = store.reopen();
                    if reopened.is_ok() {
                        self.tally.upkeep += 1;
                        self.check_reopened(&mut store)?;
                    } else if !will_die {
                        return Err(format!("clean reopen: {reopened:?}"));
                    } else {
                        return Ok(None);
                    }
                    reopened
                }
                _ => self.write(&mut store),
            };
            match done {
                Ok(()) => {}
                Err(e) if will_die && !e.contains("Corruption") => return Ok(Some(store)),
                Err(error) => return Err(format!("without a fault: {error}")),
            }
        }
        Ok(Some(store))
    }

    fn write(&mut self, store: &mut Pumice) -> Result<(), String> {
        let batch = self.generator.batch();
        let sync = self.logging != Logging::Off && self.rng.one_in(6);
        let disable_wal = self.logging == Logging::Off;
        self.oracle.issue(&batch);
        store.write_with(&batch, &WriteOptions { sync, disable_wal, ..Default::default() })?;
        self.oracle.acknowledge(sync);
        self.tally.acked += 1;
        Ok(())
    }

    fn flush(&mut self, store: &mut Pumice) -> Result<(), String> {
        let cf = self.rng.uniform(self.families as u64) as usize;
        store.flush(cf)?;
        self.oracle.flushed(cf);
        self.tally.upkeep += 1;
        Ok(())
    }

    fn compact(&mut self, store: &mut Pumice) -> Result<(), String> {
        let cf = self.rng.uniform(self.families as u64) as usize;
        store.compact(cf, None, None)?;
        self.tally.upkeep += 1;
        Ok(())
    }

    fn flush_wal(&mut self, store: &mut Pumice) -> Result<(), String> {
        if self.logging == Logging::Off {
            return Ok(());
        }
        let sync = self.rng.one_in(2);
        store.db().flush_wal(sync).map_err(|e| e.to_string())?;
        self.oracle.wal_flushed(sync);
        Ok(())
    }

    /// A clean close keeps all that was acknowledged, logged or not. Reads may fail when the file
    /// system has died in the meantime; wrong answers may not.
    fn check_reopened(&mut self, store: &mut Pumice) -> Result<(), String> {
        match contents::read(store, self.families) {
            Ok(found) => {
                let found = Model::from_entries(found);
                self.oracle.recovered(&found).map_err(|e| format!("after a clean close: {e}"))
            }
            Err(error) if error.contains("IO error") => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Crashes. The dead process keeps the old file system, on which all its calls fail; what the
    /// crash leaves becomes a new one.
    fn crash_with(&mut self, store: Option<Pumice>) {
        let (crash, mode) = match self.rng.uniform(3) {
            0 => (Crash::Process, CrashMode::PROCESS),
            1 => (Crash::Power, CrashMode::UNSYNCED),
            _ => (Crash::Power, CrashMode::MIXED),
        };
        self.fs.halt_after(0);
        let survivors = self.fs.crashed_copy(self.rng.next_u64(), mode);
        let dead = std::mem::replace(&mut self.fs, survivors);
        self.oracle.crash(crash);
        self.tally.crashes += 1;
        drop(store);
        drop(dead);
    }
}

fn settings(families: usize, logging: Logging, rng: &mut Rng) -> Settings {
    let mut settings = Settings::small(families)
        .with("arena_block_size", "4096")
        .with("level0_file_num_compaction_trigger", "2");
    if logging == Logging::ManualFlush {
        settings = settings.with("manual_wal_flush", "true");
    }
    if rng.one_in(3) {
        settings = settings.with("max_total_wal_size", "20000");
    }
    if logging != Logging::Off && rng.one_in(2) {
        settings = settings.with("recycle_log_file_num", "2");
    }
    if rng.one_in(4) {
        settings = settings.with("avoid_flush_during_recovery", "true");
    }
    if rng.one_in(4) {
        settings = settings.with("max_manifest_file_size", "500");
    }
    if !rng.one_in(4) {
        // Every life opens several times, and most of that would be the making of block caches.
        settings.table.push_str(";no_block_cache=true");
    }
    settings.disable_wal = logging == Logging::Off;
    settings.info_log = rng.one_in(4);
    settings
}
