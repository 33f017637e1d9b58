//! The lanes of a database: at which priority its background jobs compute.
//!
//! The deferred lane has `background_cpu_priority` and `background_io_priority`, the normal one
//! that of its pool. Which job gets which is `engine::lane_choice`.
//!
//! Thread safety: everything from anywhere; the parts of a family belong to the state lock.

use std::collections::BTreeMap;
use std::fmt::Write;

use pumice_base::Result;
use pumice_base::order;
use pumice_port::lane::{Lane, LanePriority, LaneReport};
use pumice_port::os::{CpuPriority, IoPriority};
use pumice_port::sync::Mutex;
use pumice_port::thread;
use pumice_port::time::now_micros;

use crate::compaction::compaction_env::LaneKind;
use crate::control::level0_cost::{LOWERED_FROM, Level0Cost};
use crate::lock_order;
use crate::options::{BackgroundPriority, DbOptions};
use crate::state::family::CfState;

/// From this share of a slowdown limit on, compactions out of L0 are urgent.
pub(crate) const URGENT_PRESSURE: f64 = 0.6;

/// See the module head.
pub(crate) struct Lanes {
    pub normal: Lane,
    pub deferred: Lane,
    /// The processor time that compactions out of L0 need. A leaf lock.
    level0: Mutex<Level0Cost>,
    processors: f64,
}

/// What the options ask for.
pub(crate) fn wanted(options: &DbOptions) -> LanePriority {
    let cpu = match options.background_cpu_priority {
        BackgroundPriority::Normal => CpuPriority::Normal,
        BackgroundPriority::Low => CpuPriority::Low,
        BackgroundPriority::Idle => CpuPriority::Idle,
    };
    let io = match options.background_io_priority {
        BackgroundPriority::Normal => IoPriority::Normal,
        BackgroundPriority::Low => IoPriority::Low,
        BackgroundPriority::Idle => IoPriority::Idle,
    };
    LanePriority { cpu, io }
}

/// Checks that the kernel allows threads the priorities in the options. Suspends.
///
/// # Errors
/// The kernel's refusal.
pub(crate) fn check_priority(options: &DbOptions) -> Result<()> {
    wanted(options).check()
}

impl Lanes {
    /// With the priorities in the options. Suspends.
    ///
    /// # Errors
    /// The kernel does not allow it.
    pub fn new(options: &DbOptions) -> Result<Self> {
        check_priority(options)?;
        Ok(Lanes {
            normal: Lane::fixed(),
            deferred: Lane::movable(wanted(options)),
            level0: Mutex::ranked(&lock_order::LEVEL0_COST, Level0Cost::default()),
            // Read once: that opens files of the system, and this is called under locks.
            processors: thread::available_parallelism() as f64,
        })
    }

    pub fn of(&self, kind: LaneKind) -> &Lane {
        match kind {
            LaneKind::Normal => &self.normal,
            LaneKind::Deferred => &self.deferred,
        }
    }

    /// This many bytes come into L0, flushed or ingested.
    pub fn level0_grows(&self, bytes: u64) {
        self.level0.lock().arrived(now_seconds(), bytes as f64);
    }

    /// A compaction took this many bytes out of L0, in this many microseconds of processor time.
    pub fn level0_compacted(&self, bytes: u64, cpu_micros: u64) {
        self.level0.lock().compacted(bytes as f64, cpu_micros as f64 / 1e6);
    }

    /// A compaction merged files of L0 into others there, in this many microseconds.
    pub fn level0_merged(&self, cpu_micros: u64) {
        self.level0.lock().merged(cpu_micros as f64 / 1e6);
    }

    /// Whether compactions out of L0 need so much processor time that lowering them helps.
    pub fn level0_compaction_is_costly(&self) -> bool {
        self.level0_share() >= LOWERED_FROM
    }

    fn level0_share(&self) -> f64 {
        self.level0.lock().share(now_seconds(), self.processors)
    }

    /// The lanes by name, and what they report.
    pub fn reports(&self) -> [(&'static str, LaneReport); 2] {
        [("normal", self.normal.report()), ("deferred", self.deferred.report())]
    }

    /// The text of property `rocksdb.background-lanes`.
    pub fn report(&self) -> String {
        let mut text = String::from(
            "lane      cpu     io      threads  nice  policy       ioprio         CPU seconds  \
             jobs  refused\n",
        );
        let reports = self.reports();
        for (name, report) in &reports {
            let now = effective(report);
            let line = format_args!(
                "{name:<8}  {:<6}  {:<6}  {:>7}  {:>4}  {:<11}  {:<13}  {:>11.3}  {:>4}  {:>7}\n",
                cpu_name(report.priority.cpu),
                io_name(report.priority.io),
                report.threads.len(),
                now.nice,
                now.policy,
                now.io,
                report.cpu_nanos as f64 / 1e9,
                report.jobs,
                report.refused,
            );
            // Text is written to memory.
            text.write_fmt(line).unwrap_or_default();
        }
        let share = format_args!(
            "compactions out of L0 want {:.1} % of the processors, and are deferred from {:.0} % \
             on\n",
            self.level0_share() * 100.0,
            LOWERED_FROM * 100.0,
        );
        text.write_fmt(share).unwrap_or_default();
        for (name, report) in &reports {
            for thread in &report.threads {
                let line = format_args!(
                    "thread {} of lane {name}: nice {}, {}, ioprio {}, {:.3} CPU seconds\n",
                    thread.thread,
                    thread.priority.nice(),
                    thread.priority.policy_name(),
                    thread.priority.io_name(),
                    thread.cpu_nanos as f64 / 1e9,
                );
                text.write_fmt(line).unwrap_or_default();
            }
        }
        text
    }

    /// The same as names and values.
    pub fn map(&self) -> BTreeMap<String, String> {
        let mut map = BTreeMap::new();
        for (name, report) in self.reports() {
            let now = effective(&report);
            let mut put = |what: &str, value: String| map.insert(format!("{name}.{what}"), value);
            put("cpu-priority", cpu_name(report.priority.cpu).to_string());
            put("io-priority", io_name(report.priority.io).to_string());
            put("threads", report.threads.len().to_string());
            put("nice", now.nice);
            put("policy", now.policy);
            put("ioprio", now.io);
            put("cpu-nanos", report.cpu_nanos.to_string());
            put("jobs", report.jobs.to_string());
            put("refused", report.refused.to_string());
        }
        map.insert("level0.wanted-share".to_string(), self.level0_share().to_string());
        map
    }
}

impl CfState {
    /// How near writes are to being slowed: slowing starts at 1.
    pub fn pressure(&self) -> f64 {
        let options = self.data.options();
        let share = |stock: f64, limit: f64| if limit > 0.0 { stock / limit } else { 0.0 };
        let runs = self.plan.counted_runs(&self.version) as f64;
        let debt = self.plan.estimated_pending_bytes() as f64;
        let sealed = self.imm.len() as f64;
        share(runs, f64::from(options.level0_slowdown_writes_trigger))
            .max(share(debt, options.soft_pending_compaction_bytes_limit as f64))
            .max(share(sealed, f64::from(options.max_write_buffer_number - 1)))
    }
}

fn now_seconds() -> f64 {
    now_micros() as f64 / 1e6
}

/// The kernel's values for the lane's threads.
pub(crate) struct Effective {
    pub nice: String,
    pub policy: String,
    pub io: String,
}

/// For the running threads, or otherwise the last that began; `-` before the first, and each value
/// once.
pub(crate) fn effective(report: &LaneReport) -> Effective {
    let mut all: Vec<_> = report.threads.iter().map(|thread| thread.priority).collect();
    if all.is_empty() {
        all.extend(report.last);
    }
    let join = |mut words: Vec<String>| {
        words.dedup();
        if words.is_empty() { "-".to_string() } else { words.join(",") }
    };
    order::sort_by_key(&mut all, |priority| {
        (priority.nice(), priority.policy_name(), priority.io_name())
    });
    Effective {
        nice: join(all.iter().map(|priority| priority.nice().to_string()).collect()),
        policy: join(all.iter().map(|priority| priority.policy_name().to_string()).collect()),
        io: join(all.iter().map(|priority| priority.io_name()).collect()),
    }
}

pub(crate) fn cpu_name(priority: CpuPriority) -> &'static str {
    match priority {
        CpuPriority::Idle => "idle",
        CpuPriority::Low => "low",
        CpuPriority::Normal => "normal",
        CpuPriority::High => "high",
    }
}

pub(crate) fn io_name(priority: IoPriority) -> &'static str {
    match priority {
        IoPriority::Idle => "idle",
        IoPriority::Low => "low",
        IoPriority::Normal => "normal",
    }
}
