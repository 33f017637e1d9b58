//! The adaptive policy's state in a database: its inputs, and its past answers.
//!
//! The task that ticks it and applies its grants is `engine::regulation`.
//!
//! Thread safety: `Regulator` from anywhere; its `law` lock is the task's, and a leaf. What belongs
//! to the state lock says so.

use std::collections::VecDeque;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pumice_base::narrow::round_down_u64;
use pumice_env::{DeviceMember, DeviceScheduler, FileSystem, IoClass, JobIo};
use pumice_port::sync::{Condvar, Mutex};
use pumice_port::time::now_micros;

use crate::control::adaptive::Adaptive;
use crate::control::policy::{
    Binding, FamilyInputs, Grants, JobTotals, Level0Inputs, Relief, Totals,
};
use crate::control::read_watch::ReadWatch;
use crate::lock_order;
use crate::options::{BackgroundPolicy, DbOptions};
use crate::state::DbState;
use crate::state::family::CfState;

/// Ticks closer together than this give no information.
pub(crate) const TICK_MICROS_MIN: u64 = 2_000;

/// Changes are at least this far apart in the info log.
pub(crate) const REPORT_MICROS: u64 = 1_000_000;

/// Ticks that are remembered.
pub(crate) const HISTORY: usize = 4096;

/// Number of ticks that the report lists, and their minimum distance.
pub(crate) const REPORTED: usize = 60;

pub(crate) const REPORT_EVERY_MICROS: u64 = 100_000;

pub(crate) const MEGABYTE: f64 = 1_048_576.0;

/// The jobs of a column family that make room for writes. Belongs to the state lock.
#[derive(Default)]
pub(crate) struct Reliefs {
    /// The running flush, and the memtable bytes and entries it takes.
    pub flush: Option<(Arc<JobIo>, f64, f64)>,
    /// The running compactions of L0, oldest first, the files each takes out, and the entries of
    /// its inputs.
    pub level0: Vec<(Arc<JobIo>, f64, f64)>,
}

impl Reliefs {
    /// The oldest compaction of L0 of that class.
    pub fn level0_job(&self, class: IoClass) -> Option<&(Arc<JobIo>, f64, f64)> {
        self.level0.iter().find(|(io, ..)| io.class() == class)
    }

    /// The flush has ended, well or not.
    pub fn flush_ended(&mut self) {
        self.flush = None;
    }
}

/// Totals of finished jobs.
#[derive(Default)]
pub(crate) struct Finished {
    pub flushed_bytes: AtomicU64,
    pub flushes: AtomicU64,
    pub flush_micros: AtomicU64,
    pub merged_files: AtomicU64,
    pub merge_micros: AtomicU64,
    pub l0_files: AtomicU64,
    pub l0_micros: AtomicU64,
}

/// Input and answer of a tick.
pub(crate) struct Tick {
    pub at_micros: u64,
    pub admitted_rate: f64,
    pub l0_files: f64,
    pub debt_bytes: f64,
    pub sealed: f64,
    pub grants: Grants,
}

pub(crate) struct Law {
    pub policy: Adaptive,
    pub ticked_micros: u64,
    pub admitted: f64,
    pub logged: u64,
    pub history: VecDeque<Tick>,
    /// Since when the present constraint binds.
    pub bound_since: u64,
    /// The constraint last written to the info log, and when.
    pub reported: Binding,
    pub reported_micros: u64,
}

/// See the module head.
pub(crate) struct Regulator {
    pub member: Arc<DeviceMember>,
    pub finished: Finished,
    pub all_threads: AtomicBool,
    /// A compaction thread is kept for merges inside L0.
    pub merges: AtomicBool,
    /// Appending to the log is timed.
    pub times_log: AtomicBool,
    pub log_micros: AtomicU64,
    pub law: Mutex<Law>,
    /// Latency of reads.
    pub reads: ReadWatch,
    /// Wakes the task before its time; belongs to the state lock.
    pub wake: Condvar,
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
            law: Mutex::ranked(&lock_order::POLICY, Law::new()),
            reads,
            wake: Condvar::new(),
            seed_disabled: AtomicBool::new(false),
        }
    }

    /// Makes the task tick now.
    pub fn wake(&self, _: &DbState) {
        self.wake.notify_all();
    }

    /// Whether appends to the log are timed.
    #[inline]
    pub fn times_log(&self) -> bool {
        self.times_log.load(Ordering::Relaxed)
    }

    /// An append to the log took this many microseconds.
    pub fn log_took(&self, micros: u64) {
        self.log_micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// A flush of this many memtable bytes succeeded.
    pub fn flushed(&self, io: &JobIo, bytes: f64) {
        let micros = now_micros().saturating_sub(io.began_micros());
        self.finished.flushed_bytes.fetch_add(round_down_u64(bytes), Ordering::Relaxed);
        self.finished.flushes.fetch_add(1, Ordering::Relaxed);
        self.finished.flush_micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// A compaction succeeded that took this many files out of L0.
    pub fn drained(&self, io: &JobIo, fewer: f64) {
        let micros = now_micros().saturating_sub(io.began_micros());
        let finished = &self.finished;
        let (files, took) = match io.class() {
            IoClass::Merge => (&finished.merged_files, &finished.merge_micros),
            _ => (&finished.l0_files, &finished.l0_micros),
        };
        files.fetch_add(round_down_u64(fewer), Ordering::Relaxed);
        took.fetch_add(micros, Ordering::Relaxed);
    }

    pub fn totals(&self, admitted: u64, logged: u64) -> Totals {
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

    /// The text of property `rocksdb.bg-controller`: why writes are slow and for how long, in one
    /// line, then inputs and answers of the last ticks.
    pub fn report(&self, policy: BackgroundPolicy) -> String {
        let law = self.law.lock();
        let now = now_micros();
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

    /// The flushed memtables are released.
    pub fn flush_released(&self, cf: &mut CfState) {
        if let Some((io, bytes, _)) = cf.reliefs.flush.take() {
            self.flushed(&io, bytes);
        }
    }

    /// That compaction ended.
    pub fn level0_ended(&self, cf: &mut CfState, io: &Arc<JobIo>, done: bool) {
        let jobs = &mut cf.reliefs.level0;
        if let Some(at) = jobs.iter().position(|(own, ..)| Arc::ptr_eq(own, io)) {
            let (own, files, _) = jobs.remove(at);
            if done {
                self.drained(&own, files);
            }
        }
    }

    /// Whether the policy lets all compaction threads work.
    pub fn may_use_all_threads(&self) -> bool {
        self.all_threads.load(Ordering::Relaxed)
    }

    /// A compaction thread is kept for merges inside L0.
    pub fn may_keep_for_merges(&self) -> bool {
        self.merges.load(Ordering::Relaxed)
    }
}

pub(crate) fn relief((io, stock, entries): &(Arc<JobIo>, f64, f64)) -> Relief {
    Relief {
        stock: *stock,
        total_entries: *entries,
        done_entries: io.entries() as f64,
        elapsed: now_micros().saturating_sub(io.began_micros()) as f64 / 1e6,
    }
}

impl CfState {
    pub fn regulated(&self) -> FamilyInputs {
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

impl Law {
    pub fn new() -> Self {
        Law {
            policy: Adaptive::default(),
            ticked_micros: now_micros(),
            admitted: 0.0,
            logged: 0,
            history: VecDeque::new(),
            bound_since: 0,
            reported: Binding::Free,
            reported_micros: 0,
        }
    }

    /// Whether the info log should report a changed constraint: not too often, since the constraint
    /// may change with each memtable.
    pub fn is_news(&mut self, now: u64) -> bool {
        let binding = self.history.back().map_or(Binding::Free, |tick| tick.grants.binding);
        let due =
            now.saturating_sub(self.reported_micros) >= REPORT_MICROS || self.reported_micros == 0;
        if !due || binding == self.reported {
            return false;
        }
        (self.reported, self.reported_micros) = (binding, now);
        true
    }

    pub fn why(&self, now: u64) -> String {
        let Some(tick) = self.history.back() else {
            return "writes are free".to_string();
        };
        let seconds = now.saturating_sub(self.bound_since) as f64 / 1e6;
        match (tick.grants.binding, tick.grants.cap) {
            (Binding::Free, Some(cap)) => {
                format!("writes are being released from a cap, now {:.1} MB/s", cap / MEGABYTE)
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

/// Whether there is something that writes may have to wait for.
pub(crate) fn has_work(state: &DbState) -> bool {
    state.jobs.scheduled_flushes > 0
        || !state.jobs.flush_queue.is_empty()
        || state.has_compaction_jobs()
}
