//! At which priority background jobs compute: the lanes of a database.
//!
//! | job | lane |
//! |---|---|
//! | flushes | normal |
//! | compactions out of L0 while the family is under pressure ([`URGENT_PRESSURE`]) | normal |
//! | all jobs that start while writes wait ([`DbInner::writes_wait`]) | normal |
//! | all other compactions | deferred |
//!
//! The deferred lane has `background_cpu_priority` and `background_io_priority`, the normal one
//! that of its pool. Only computing runs there (`port::lane`): a job picks, installs and reports
//! on a thread that is never lowered, and what takes a lock of readers or writers is handed to it.
//!
//! Thread safety: everything from anywhere.

use std::collections::BTreeMap;
use std::fmt::Write;

use pumice_base::Result;
use pumice_port::lane::{Lane, LanePriority, LaneReport};
use pumice_port::os::{CpuPriority, IoPriority};

use crate::compaction::env::LaneKind;
use crate::engine::compaction_job::CompactionWork;
use crate::engine::family_state::CfState;
use crate::engine::{DbInner, DbState};
use crate::options::{BackgroundPriority, DbOptions};

/// From this share of what slows writes on, compactions out of L0 are urgent.
const URGENT_PRESSURE: f64 = 0.6;

/// See the module head.
pub(crate) struct Lanes {
    normal: Lane,
    deferred: Lane,
}

/// What the options ask for.
fn wanted(options: &DbOptions) -> LanePriority {
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

/// Whether the kernel lets threads have what the options ask for. Suspends.
///
/// # Errors
/// What it says.
pub(crate) fn check_priority(options: &DbOptions) -> Result<()> {
    wanted(options).check()
}

impl Lanes {
    /// With what the options ask for. Suspends.
    ///
    /// # Errors
    /// The kernel does not allow it.
    pub fn new(options: &DbOptions) -> Result<Self> {
        check_priority(options)?;
        Ok(Lanes { normal: Lane::fixed(), deferred: Lane::movable(wanted(options)) })
    }
    pub fn of(&self, kind: LaneKind) -> &Lane {
        match kind {
            LaneKind::Normal => &self.normal,
            LaneKind::Deferred => &self.deferred,
        }
    }
}

impl CfState {
    /// How near writes are to being slowed: 1 is where that begins.
    fn pressure(&self) -> f64 {
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

impl DbInner {
    /// Writes wait for background work. The adaptive policy's cap is no sign of that: it is there
    /// nearly always.
    pub(crate) fn writes_wait(&self) -> bool {
        let delayed = !self.is_adaptive() && self.writes.controller.is_delayed();
        self.writes.controller.is_stopped() || delayed
    }

    /// The lane of a compaction that starts now. Requires: state lock held.
    pub(crate) fn lane_of(&self, state: &DbState, work: &CompactionWork) -> LaneKind {
        let pressed = || {
            let family = state.cfs.get(&work.cf.id);
            family.is_some_and(|cf| cf.pressure() > URGENT_PRESSURE)
        };
        match self.writes_wait() || (work.pick.start_level == 0 && pressed()) {
            true => LaneKind::Normal,
            false => LaneKind::Deferred,
        }
    }

    /// The options may have changed: running jobs follow. Suspends; not under the state lock.
    pub(crate) fn refresh_lanes(&self) {
        let refused = self.background.lanes.deferred.set_priority(wanted(&self.options()));
        if refused > 0 {
            self.info(format_args!(
                "{refused} running compactions keep their priority, which takes a privilege to \
                 raise; the next ones have the new one"
            ));
        }
    }

    /// Writes may have begun to wait, or ended. Never waits.
    pub(crate) fn refresh_urgency(&self) {
        self.background.lanes.deferred.set_urgent(self.writes_wait());
    }

    /// The lanes by name, and what they report.
    fn lane_reports(&self) -> [(&'static str, LaneReport); 2] {
        [
            ("normal", self.background.lanes.normal.report()),
            ("deferred", self.background.lanes.deferred.report()),
        ]
    }

    /// The text of property `rocksdb.background-lanes`.
    pub(crate) fn lanes_report(&self) -> String {
        let mut text = String::from(
            "lane      cpu     io      threads  nice  policy       ioprio         CPU seconds  \
             jobs  refused\n",
        );
        let reports = self.lane_reports();
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
    pub(crate) fn lanes_map(&self) -> BTreeMap<String, String> {
        let mut map = BTreeMap::new();
        for (name, report) in self.lane_reports() {
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
        map
    }
}

/// What the kernel says of the lane's threads.
struct Effective {
    nice: String,
    policy: String,
    io: String,
}

/// Of those that run, or else of the last that began; `-` before the first, and each value once.
fn effective(report: &LaneReport) -> Effective {
    let mut all: Vec<_> = report.threads.iter().map(|thread| thread.priority).collect();
    if all.is_empty() {
        all.extend(report.last);
    }
    let join = |mut words: Vec<String>| {
        words.dedup();
        if words.is_empty() { "-".to_string() } else { words.join(",") }
    };
    all.sort_by_key(|priority| (priority.nice(), priority.policy_name(), priority.io_name()));
    Effective {
        nice: join(all.iter().map(|priority| priority.nice().to_string()).collect()),
        policy: join(all.iter().map(|priority| priority.policy_name().to_string()).collect()),
        io: join(all.iter().map(|priority| priority.io_name()).collect()),
    }
}

fn cpu_name(priority: CpuPriority) -> &'static str {
    match priority {
        CpuPriority::Idle => "idle",
        CpuPriority::Low => "low",
        CpuPriority::Normal => "normal",
        CpuPriority::High => "high",
    }
}

fn io_name(priority: IoPriority) -> &'static str {
    match priority {
        IoPriority::Idle => "idle",
        IoPriority::Low => "low",
        IoPriority::Normal => "normal",
    }
}
