//! The adaptive policy in a database: what it is fed, and what its grants do.
//!
//! A task ticks the policy while there is something to regulate: memtables that wait for flush,
//! jobs, or a cap. It wakes at least ten times a second, and whenever work is scheduled. Grants go
//! to the write controller (the cap), to the device scheduler (the rate of deep compactions) and to
//! the scheduling of compactions (how many threads, one kept for L0 and the base level).
//!
//! Thread safety: `Regulator` from anywhere; its `law` lock is the task's, and a leaf. What belongs
//! to the state lock says so.

use std::collections::VecDeque;
use std::fmt::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use pumice_base::narrow::round_down_u64;
use pumice_env::{DeviceMember, DeviceScheduler, FileSystem, IoClass, JobIo};
use pumice_memtable::MemTable;
use pumice_port::sync::{Condvar, Mutex};
use pumice_port::thread;
use pumice_port::time::now_micros;

use crate::control::adaptive::Adaptive;
use crate::control::policy::{
    Binding, FamilyInputs, Grants, Inputs, JobTotals, Level0Inputs, Policy, Relief, Totals,
};
use crate::control::read_watch::ReadWatch;
use crate::engine::family_state::CfState;
use crate::engine::{DbInner, DbState, start_task};
use crate::options::{BackgroundPolicy, DbOptions};

/// Ticks closer than this teach nothing.
const TICK_MICROS_MIN: u64 = 2_000;
/// The info log hears of changes so far apart at least.
const TELL_MICROS: u64 = 1_000_000;
/// Ticks that are remembered.
const HISTORY: usize = 4096;
/// Ticks that the report lists, and how far they are apart at least.
const REPORTED: usize = 60;
const REPORT_EVERY_MICROS: u64 = 100_000;
const MEGABYTE: f64 = 1_048_576.0;

/// The jobs of a column family that make room for writes. Belongs to the state lock.
#[derive(Default)]
pub(crate) struct Reliefs {
    /// The running flush, and the memtable bytes and entries it takes.
    flush: Option<(Arc<JobIo>, f64, f64)>,
    /// The running compactions of L0, oldest first, the files each takes out, and the entries of
    /// its inputs.
    level0: Vec<(Arc<JobIo>, f64, f64)>,
}

impl Reliefs {
    /// The oldest compaction of L0 of that class.
    fn level0_job(&self, class: IoClass) -> Option<&(Arc<JobIo>, f64, f64)> {
        self.level0.iter().find(|(io, ..)| io.class() == class)
    }

    /// The flush has ended, well or not.
    pub fn flush_ended(&mut self) {
        self.flush = None;
    }
}

/// Totals of finished jobs.
#[derive(Default)]
struct Finished {
    flushed_bytes: AtomicU64,
    flushes: AtomicU64,
    flush_micros: AtomicU64,
    merged_files: AtomicU64,
    merge_micros: AtomicU64,
    l0_files: AtomicU64,
    l0_micros: AtomicU64,
}

/// What a tick saw and said.
struct Tick {
    at_micros: u64,
    admitted_rate: f64,
    l0_files: f64,
    debt_bytes: f64,
    sealed: f64,
    grants: Grants,
}

struct Law {
    policy: Adaptive,
    ticked_micros: u64,
    admitted: f64,
    logged: u64,
    history: VecDeque<Tick>,
    /// Since when the present constraint binds.
    bound_since: u64,
    /// The constraint that the info log was told last, and when.
    told: Binding,
    told_micros: u64,
}

/// See the module head.
pub(crate) struct Regulator {
    member: Arc<DeviceMember>,
    finished: Finished,
    all_threads: AtomicBool,
    /// A compaction thread is kept for merges inside L0.
    merges: AtomicBool,
    /// Appending to the log is timed.
    times_log: AtomicBool,
    log_micros: AtomicU64,
    law: Mutex<Law>,
    /// How quick reads are.
    pub reads: ReadWatch,
    /// Wakes the task before its time; belongs to the state lock.
    wake: Condvar,
    /// The last verdict under `background_policy=seed_rule`.
    pub seed_disabled: AtomicBool,
}

impl Regulator {
    /// For a database in the directory `path`.
    pub fn of(fs: &dyn FileSystem, path: &Path, options: &DbOptions) -> Self {
        let reads = ReadWatch::default();
        reads.set_target(options.read_latency_target_micros);
        Regulator {
            member: DeviceScheduler::of(fs.device(path)).join(),
            finished: Finished::default(),
            all_threads: AtomicBool::new(false),
            merges: AtomicBool::new(false),
            times_log: AtomicBool::new(false),
            log_micros: AtomicU64::new(0),
            law: Mutex::new(Law::new()),
            reads,
            wake: Condvar::new(),
            seed_disabled: AtomicBool::new(false),
        }
    }

    /// Has the task tick now. Requires: state lock held.
    pub fn wake(&self) {
        self.wake.notify_all();
    }

    /// How long an append to the log takes is wanted.
    #[inline]
    pub fn times_log(&self) -> bool {
        self.times_log.load(Ordering::Relaxed)
    }

    /// An append to the log took so many microseconds.
    pub fn log_took(&self, micros: u64) {
        self.log_micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// A flush of so many memtable bytes ended well.
    fn flushed(&self, io: &JobIo, bytes: f64) {
        let micros = now_micros().saturating_sub(io.began_micros());
        self.finished.flushed_bytes.fetch_add(round_down_u64(bytes), Ordering::Relaxed);
        self.finished.flushes.fetch_add(1, Ordering::Relaxed);
        self.finished.flush_micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// A compaction that made the files of L0 so many fewer ended well.
    fn drained(&self, io: &JobIo, fewer: f64) {
        let micros = now_micros().saturating_sub(io.began_micros());
        let finished = &self.finished;
        let (files, took) = match io.class() {
            IoClass::Merge => (&finished.merged_files, &finished.merge_micros),
            _ => (&finished.l0_files, &finished.l0_micros),
        };
        files.fetch_add(round_down_u64(fewer), Ordering::Relaxed);
        took.fetch_add(micros, Ordering::Relaxed);
    }

    fn totals(&self, admitted: u64, logged: u64) -> Totals {
        let of = |class, drained: &AtomicU64, micros: &AtomicU64| JobTotals {
            written: self.member.written(class) as f64,
            entries: self.member.entries(class) as f64,
            drained: drained.load(Ordering::Relaxed) as f64,
            seconds: micros.load(Ordering::Relaxed) as f64 / 1e6,
        };
        let done = &self.finished;
        let (reads, slow_reads) = self.reads.totals();
        Totals {
            admitted: admitted as f64,
            logged: logged as f64,
            log_seconds: self.log_micros.load(Ordering::Relaxed) as f64 / 1e6,
            flush: of(IoClass::Flush, &done.flushed_bytes, &done.flush_micros),
            flushes: done.flushes.load(Ordering::Relaxed) as f64,
            merge: of(IoClass::Merge, &done.merged_files, &done.merge_micros),
            l0: of(IoClass::Level0, &done.l0_files, &done.l0_micros),
            deep_written: self.member.written(IoClass::Deep) as f64,
            reads: reads as f64,
            slow_reads: slow_reads as f64,
        }
    }
}

fn relief((io, stock, entries): &(Arc<JobIo>, f64, f64)) -> Relief {
    Relief {
        stock: *stock,
        total_entries: *entries,
        done_entries: io.entries() as f64,
        elapsed: now_micros().saturating_sub(io.began_micros()) as f64 / 1e6,
    }
}

impl CfState {
    fn regulated(&self) -> FamilyInputs {
        let options = self.data.options();
        let stop = f64::from(options.level0_stop_writes_trigger);
        let slowdown = f64::from(options.level0_slowdown_writes_trigger);
        FamilyInputs {
            id: self.data.id,
            memtable_bytes: options.write_buffer_size as f64,
            memtables_max: f64::from(options.max_write_buffer_number.max(1)),
            active_bytes: self.mem.memory_bytes() as f64,
            sealed: self.imm.len() as f64,
            sealed_bytes: self.imm.iter().map(|sealed| sealed.mem.memory_bytes() as f64).sum(),
            flush_due: self.flush.queued,
            flush: self.reliefs.flush.as_ref().map(relief),
            l0: Level0Inputs {
                files: self.plan.counted_runs(&self.version) as f64,
                trigger: f64::from(options.level0_file_num_compaction_trigger).max(1.0),
                slowdown: if slowdown < 0.0 { stop } else { slowdown },
                stop,
                job: self.reliefs.level0_job(IoClass::Level0).map(relief),
                merge: self.reliefs.level0_job(IoClass::Merge).map(relief),
            },
            debt_bytes: self.plan.estimated_pending_bytes() as f64,
            soft_bytes: options.soft_pending_compaction_bytes_limit as f64,
            hard_bytes: options.hard_pending_compaction_bytes_limit as f64,
            compacts: !options.disable_auto_compactions && !self.plan.is_fifo(),
        }
    }
}

impl DbInner {
    /// The adaptive policy is in force.
    pub(crate) fn is_adaptive(&self) -> bool {
        self.options().background_policy == BackgroundPolicy::Adaptive
    }

    /// All compaction threads may work, as far as the policy goes.
    pub(crate) fn may_use_all_threads(&self) -> bool {
        self.background.regulator.all_threads.load(Ordering::Relaxed)
    }

    /// A compaction thread is kept for merges inside L0.
    pub(crate) fn may_keep_for_merges(&self) -> bool {
        self.background.regulator.merges.load(Ordering::Relaxed)
    }

    /// The account of a job's writes; None if nobody goes by it.
    pub(crate) fn job_io(&self, class: IoClass) -> Option<Arc<JobIo>> {
        self.is_adaptive().then(|| JobIo::new(&self.background.regulator.member, class))
    }

    /// A flush of all sealed memtables begins. Requires: state lock held.
    pub(crate) fn flush_begins(&self, cf: &mut CfState, io: Option<&Arc<JobIo>>) {
        let sum = |of: fn(&MemTable) -> u64| cf.imm.iter().map(|m| of(&m.mem)).sum::<u64>() as f64;
        let bytes = sum(|mem| mem.memory_bytes() as u64);
        let entries = sum(|mem| mem.num_entries() - mem.num_range_deletes());
        cf.reliefs.flush = io.map(|io| (Arc::clone(io), bytes, entries));
    }

    /// The flushed memtables are let go of. Requires: state lock held.
    pub(crate) fn flush_released(&self, cf: &mut CfState) {
        if let Some((io, bytes, _)) = cf.reliefs.flush.take() {
            self.background.regulator.flushed(&io, bytes);
        }
    }

    /// A compaction that takes `files` out of L0 begins, with so many entries in all its inputs.
    /// Requires: state lock held.
    pub(crate) fn level0_begins(cf: &mut CfState, io: &Arc<JobIo>, files: usize, entries: u64) {
        cf.reliefs.level0.push((Arc::clone(io), files as f64, entries as f64));
    }

    /// That compaction ended. Requires: state lock held.
    pub(crate) fn level0_ended(&self, cf: &mut CfState, io: &Arc<JobIo>, done: bool) {
        let jobs = &mut cf.reliefs.level0;
        if let Some(at) = jobs.iter().position(|(own, ..)| Arc::ptr_eq(own, io)) {
            let (own, files, _) = jobs.remove(at);
            if done {
                self.background.regulator.drained(&own, files);
            }
        }
    }

    /// There may be something to regulate: starts the task or wakes it. Requires: state lock held.
    pub(crate) fn regulate(&self, state: &mut DbState) {
        if !self.is_adaptive() || self.dir.read_only {
            return;
        }
        if state.tasks.regulating {
            self.background.regulator.wake();
            return;
        }
        if !has_work(state) || self.life.shutting_down.load(Ordering::Acquire) {
            return;
        }
        if let Some(db) = self.life.me.get().and_then(Weak::upgrade) {
            let task = move || db.keep_regulating();
            // Without a thread RocksDB's stop rules hold, and the next chance is soon.
            state.tasks.regulating = start_task("pumice:control", task).is_ok();
        }
    }

    /// Body of the task: ends when there is nothing to regulate any more.
    fn keep_regulating(self: Arc<Self>) {
        let mut state = self.state.lock();
        let (mut capped, mut rested) = (false, true);
        while self.is_adaptive()
            && !self.life.shutting_down.load(Ordering::Acquire)
            && (capped || has_work(&state))
        {
            let families: Vec<_> = state.cfs.values().map(CfState::regulated).collect();
            drop(state);
            // A logger or listener of the user's may panic; then RocksDB's rules hold.
            let ticked = thread::contain("Control", || self.tick_policy(families, rested));
            rested = false;
            state = self.state.lock();
            let Ok(grants) = ticked else { break };
            capped = grants.cap.is_some();
            self.use_all_threads(&mut state, grants.all_threads);
            if self.life.shutting_down.load(Ordering::Acquire) {
                break;
            }
            let within = Duration::from_micros(round_down_u64(grants.tick_within * 1e6));
            state = self.background.regulator.wake.wait_timeout(state, within).0;
        }
        self.writes.controller.set_cap(None);
        self.background.regulator.member.set_waiting_rate(None, false);
        self.background.regulator.merges.store(false, Ordering::Relaxed);
        self.background.regulator.times_log.store(false, Ordering::Relaxed);
        self.background.regulator.member.claim(0.0);
        self.use_all_threads(&mut state, false);
        state.tasks.regulating = false;
        self.changed.notify_all();
    }

    /// All compaction threads may work, or one. Requires: state lock held.
    fn use_all_threads(&self, state: &mut DbState, all: bool) {
        if self.background.regulator.all_threads.swap(all, Ordering::Relaxed) != all {
            // Scheduling says anew how many may, and whether compaction is behind.
            self.schedule_background(state);
        }
    }

    /// One tick: the policy is asked, the cap is set, and the rate of compactions that can wait.
    fn tick_policy(&self, families: Vec<FamilyInputs>, rested: bool) -> Grants {
        let regulator = &self.background.regulator;
        let mut law = regulator.law.lock();
        let now = now_micros();
        let micros = now.saturating_sub(law.ticked_micros).max(1);
        if micros < TICK_MICROS_MIN {
            let last = law.history.back().map(|tick| tick.grants).unwrap_or_default();
            return Grants { tick_within: TICK_MICROS_MIN as f64 / 1e6, ..last };
        }
        // What goes to another directory is on another device, as far as anybody knows.
        let wal_dir = &self.options().wal_dir;
        let same_device = wal_dir.is_empty() || Path::new(wal_dir) == self.dir.path;
        let logged = if same_device { self.reports.stats.wal_bytes() } else { 0 };
        let totals = regulator.totals(self.reports.stats.bytes_written(), logged);
        // What was logged while nobody looked says nothing about the device's rate.
        let fresh = if rested { 0 } else { logged.saturating_sub(law.logged) };
        regulator.member.logged(fresh);
        law.logged = logged;
        let sum = |of: fn(&FamilyInputs) -> f64| families.iter().map(of).sum::<f64>();
        let mut tick = Tick {
            at_micros: now,
            admitted_rate: (totals.admitted - law.admitted) * 1e6 / micros as f64,
            l0_files: sum(|f| f.l0.files),
            debt_bytes: sum(|f| f.debt_bytes),
            sealed: sum(|f| f.sealed),
            grants: Grants::default(),
        };
        (law.ticked_micros, law.admitted) = (now, totals.admitted);
        let grants = law.policy.tick(&Inputs {
            seconds: micros as f64 / 1e6,
            rested,
            totals,
            families,
            device_rate: regulator.member.device().rate(),
            claimed_elsewhere: regulator.member.claimed_elsewhere(),
        });
        self.writes.controller.set_cap(grants.cap.map(round_down_u64));
        regulator.member.set_waiting_rate(grants.waiting_rate, !grants.level0_first);
        regulator.merges.store(grants.merges, Ordering::Relaxed);
        regulator.times_log.store(grants.times_log, Ordering::Relaxed);
        regulator.member.claim(grants.claim);
        let before = law.history.back().map_or(Binding::Free, |tick| tick.grants.binding);
        tick.grants = grants;
        if law.history.len() == HISTORY {
            law.history.pop_front();
        }
        law.history.push_back(tick);
        if before != grants.binding {
            law.bound_since = now;
        }
        if law.is_news(now) {
            let why = law.why(now);
            drop(law);
            self.info(format_args!("Background controller: {why}"));
        }
        grants
    }

    /// The text of property `rocksdb.bg-controller`: why writes are slow and for how long, in one
    /// line, and what the last ticks saw and said.
    pub(crate) fn regulator_report(&self) -> String {
        let law = self.background.regulator.law.lock();
        let now = now_micros();
        let policy = self.options().background_policy;
        if policy != BackgroundPolicy::Adaptive {
            return format!("{}: RocksDB's rules decide\n", policy.option_name());
        }
        let mut text = format!("{}\n", law.why(now));
        text.push_str(
            "seconds ago  admitted MB/s  cap MB/s  bound by                  sealed  L0 files  \
             pending MB  compactions MB/s\n",
        );
        let mut newer = u64::MAX;
        let apart = law.history.iter().rev().filter(|tick| {
            let shown = newer.saturating_sub(tick.at_micros) >= REPORT_EVERY_MICROS;
            newer = if shown { tick.at_micros } else { newer };
            shown
        });
        for tick in apart.take(REPORTED) {
            let rate = |rate: Option<f64>| {
                rate.map_or_else(|| "-".to_string(), |rate| format!("{:.1}", rate / MEGABYTE))
            };
            let line = format_args!(
                "{:>11.1}  {:>13.1}  {:>8}  {:<24}  {:>6}  {:>8}  {:>10.1}  {:>16}\n",
                now.saturating_sub(tick.at_micros) as f64 / 1e6,
                tick.admitted_rate / MEGABYTE,
                rate(tick.grants.cap),
                tick.grants.binding.name(),
                tick.sealed,
                tick.l0_files,
                tick.debt_bytes / MEGABYTE,
                rate(tick.grants.waiting_rate),
            );
            // Text is written to memory.
            text.write_fmt(line).unwrap_or_default();
        }
        text
    }
}

impl Law {
    fn new() -> Self {
        Law {
            policy: Adaptive::default(),
            ticked_micros: now_micros(),
            admitted: 0.0,
            logged: 0,
            history: VecDeque::new(),
            bound_since: 0,
            told: Binding::Free,
            told_micros: 0,
        }
    }

    /// The info log is to hear of another constraint: at most once in a while, since the constraint
    /// may change with each memtable.
    fn is_news(&mut self, now: u64) -> bool {
        let binding = self.history.back().map_or(Binding::Free, |tick| tick.grants.binding);
        let due = now.saturating_sub(self.told_micros) >= TELL_MICROS || self.told_micros == 0;
        if !due || binding == self.told {
            return false;
        }
        (self.told, self.told_micros) = (binding, now);
        true
    }

    fn why(&self, now: u64) -> String {
        let Some(tick) = self.history.back() else {
            return "writes are free".to_string();
        };
        let seconds = now.saturating_sub(self.bound_since) as f64 / 1e6;
        match (tick.grants.binding, tick.grants.cap) {
            (Binding::Free, Some(cap)) => {
                format!("writes are let out of a cap, now {:.1} MB/s", cap / MEGABYTE)
            }
            (Binding::Free, None) => "writes are free".to_string(),
            (binding, cap) => format!(
                "writes are capped at {:.1} MB/s by {} for {seconds:.1} s: {} memtables sealed, {} \
                 files in L0, {:.1} MB pending compaction",
                cap.unwrap_or(0.0) / MEGABYTE,
                binding.name(),
                tick.sealed,
                tick.l0_files,
                tick.debt_bytes / MEGABYTE
            ),
        }
    }
}

/// There is something that writes may have to wait for.
fn has_work(state: &DbState) -> bool {
    state.jobs.scheduled_flushes > 0
        || !state.jobs.flush_queue.is_empty()
        || state.has_compaction_jobs()
}
