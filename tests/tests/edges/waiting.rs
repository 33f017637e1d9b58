//! Options that change while a call waits: whatever they become, the call ends.
//!
//! A case opens a small database with a few drawn options, brings it near a stall while background
//! work is paused (sealed memtables, files in level 0), and makes calls that wait: a put, flushes,
//! compactions, `wait_for_compact`, a close. Meanwhile another task changes options, and lets
//! background work go on. A simulation's clock is virtual, so a call that never returns is one that
//! takes longer than any rate of writes explains.

use std::sync::Arc;
use std::time::Duration;

use pumice::{CompactRangeOptions, Db, FlushOptions, MemFs, Options, WaitForCompactOptions};
use pumice_base::random::Rng;
use pumice_port::{sim, thread};

use super::life::{Change, told_of};
use super::values::{Scope, Subject};

/// What decides about waits, with values at which it matters. Drawn more often than others.
const STALLS: &[(&str, &[&str])] = &[
    ("max_write_buffer_number", &["1", "2", "3", "6"]),
    ("level0_file_num_compaction_trigger", &["1", "2", "4", "100"]),
    ("level0_slowdown_writes_trigger", &["1", "3", "20"]),
    ("level0_stop_writes_trigger", &["1", "3", "36"]),
    ("hard_pending_compaction_bytes_limit", &["0", "1", "100000"]),
    ("soft_pending_compaction_bytes_limit", &["0", "1", "50000"]),
    ("disable_auto_compactions", &["true", "false"]),
    ("write_buffer_size", &["65536", "131072", "1000000"]),
];

/// Options that are only given at the open.
const AT_OPEN: &[(&str, &[&str])] = &[
    ("min_write_buffer_number_to_merge", &["1", "2", "3", "4"]),
    ("compaction_style", &["kCompactionStyleLevel", "kCompactionStyleUniversal"]),
];

/// A case, drawn.
#[derive(Debug)]
pub struct Waiting {
    open: Vec<(&'static str, &'static str)>,
    running: Vec<Change>,
    /// Memtables that are full before the calls.
    full: u64,
    /// Files in level 0 before the calls.
    files: u64,
    calls: Vec<u64>,
}

impl Waiting {
    /// The case of `seed`; `mutable` are all options that change in an open database.
    pub fn draw(seed: u64, mutable: &[&Subject]) -> Waiting {
        let mut rng = Rng::new(seed);
        let mut of = |(name, values): &(&'static str, &'static [&'static str])| {
            (*name, values[rng.uniform(values.len() as u64) as usize])
        };
        let mut open: Vec<_> = AT_OPEN.iter().map(&mut of).collect();
        open.extend(STALLS.iter().map(&mut of));
        let mut rng = Rng::new(seed ^ 0x5EED);
        open.retain(|_| rng.one_in(2));
        let running = (0..1 + rng.uniform(3)).map(|_| {
            if rng.one_in(3) {
                let subject = mutable[rng.uniform(mutable.len() as u64) as usize];
                let at = rng.uniform(subject.accepted.len() as u64) as usize;
                return subject.change(&subject.accepted[at]);
            }
            let (name, values) = STALLS[rng.uniform(STALLS.len() as u64) as usize];
            let value = values[rng.uniform(values.len() as u64) as usize];
            Change { scope: Scope::Cf, name: name.into(), value: value.into() }
        });
        let mut running: Vec<Change> = running.collect();
        let (full, files) = (rng.uniform(4), rng.uniform(4));
        let calls = (0..3).map(|_| rng.uniform(6)).collect();
        if rng.one_in(2) {
            // Memtables wait to be merged, and then fewer may wait.
            let most = ["2", "3"][rng.uniform(2) as usize].into();
            open.retain(|(name, _)| !name.contains("write_buffer_number"));
            open.extend([("max_write_buffer_number", "6")]);
            open.extend([("min_write_buffer_number_to_merge", "4")]);
            let name = "max_write_buffer_number".into();
            running.insert(0, Change { scope: Scope::Cf, name, value: most });
        }
        Waiting { open, running, full, files, calls }
    }

    /// Runs it; what is wrong, if anything is.
    pub fn run(self, seed: u64) -> Result<(), String> {
        let limits = sim::Options {
            preempt_per_mille: 0,
            max_steps: 3_000_000,
            max_virtual_nanos: 500 * super::life::YEAR_NANOS,
            ..sim::Options::new(seed)
        };
        let (report, outcome) = sim::run(&limits, || self.live(seed));
        match outcome {
            Ok(result) => result,
            Err(failure) => {
                let stuck = report.stuck.map_or(String::new(), |stuck| stuck.to_string());
                Err(format!(
                    "{failure:?} after {} s\n{stuck}",
                    report.virtual_nanos / 1_000_000_000
                ))
            }
        }
    }

    fn live(&self, seed: u64) -> Result<(), String> {
        let text = |error: pumice::Error| error.to_string();
        let fs = MemFs::new(seed);
        let mut options = Options::default();
        options.db.create_if_missing = true;
        options.db.file_system = fs.shared();
        for (name, value) in [("write_buffer_size", "65536"), ("arena_block_size", "4096")] {
            options.set(name, value).map_err(text)?;
        }
        for (name, value) in &self.open {
            options.set(name, value).map_err(text)?;
        }
        let db = Arc::new(Db::open(&options, "/db").map_err(text)?);
        let buffer = options.cf.write_buffer_size.max(65536);
        let quick = FlushOptions { wait: true, allow_write_stall: true, ..Default::default() };
        let auto = [("disable_auto_compactions", "true")];
        db.set_options(&auto).map_err(text)?;
        for _ in 0..self.files {
            db.put(b"key", b"value").map_err(text)?;
            db.flush_opt(&quick).map_err(text)?;
        }
        db.pause_background_work();
        let no_wait = pumice::WriteOptions { no_slowdown: true, ..Default::default() };
        for _ in 0..self.full {
            // The next write seals it. At the limit that is refused: full enough.
            drop(db.put_opt(&no_wait, b"key", vec![b'v'; buffer]));
        }
        let enabled = options.cf.disable_auto_compactions.to_string();
        db.set_options(&[("disable_auto_compactions", &enabled)]).map_err(text)?;
        let calls = Arc::clone(&db);
        let planned = self.calls.clone();
        let caller = thread::spawn("caller", move || {
            planned.into_iter().try_for_each(|call| one_call(&calls, call))
        });
        for change in &self.running {
            thread::sleep(Duration::from_millis(300));
            told_of(change.apply(&db)).map_err(|error| format!("{change:?}: {error}"))?;
        }
        thread::sleep(Duration::from_millis(300));
        db.continue_background_work().map_err(text)?;
        caller.join().map_err(|_| "the caller panicked".to_string())??;
        db.close().map_err(text)
    }
}

fn one_call(db: &Db, call: u64) -> Result<(), String> {
    let named = |what: &'static str| move |error: pumice::Error| format!("{what}: {error}");
    match call {
        0 => db.put(b"key", b"more").map_err(named("put")),
        1 => db.flush_opt(&FlushOptions::default()).map_err(named("flush")),
        2 => {
            let flush =
                FlushOptions { wait: false, allow_write_stall: false, ..Default::default() };
            db.flush_opt(&flush).map_err(named("flush without waiting"))
        }
        3 => match db.compact_range(&CompactRangeOptions::default(), None, None) {
            // It is not queued while background work is paused.
            Err(error) if error.to_string().contains("paused") => Ok(()),
            result => result.map_err(named("compact_range")),
        },
        4 => {
            let wait = WaitForCompactOptions::default();
            db.wait_for_compact(&wait).map_err(named("wait_for_compact"))
        }
        _ => db.put(b"key", vec![b'v'; 70_000]).map_err(named("large put")),
    }
}
