//! A model of a tree on a device, as fluids and steps, on which policies are tried.
//!
//! Bytes are numbers, the log comes first and jobs share the rest of the device evenly, L0 merges
//! its newest files as the engine does, and a step of the model is 5 ms. Writes come at the offered
//! rate, or at the cap, or not at all while one of RocksDB's stop rules holds. Memory is freed when
//! a flush ends and L0 when its compaction ends, as in the engine.
//!
//! Thread safety: plain data.

use std::collections::VecDeque;

use super::super::super::policy::{
    FamilyInputs, Grants, Inputs, Level0Inputs, Policy, Relief, Totals,
};

pub const MB: f64 = 1e6;
const STEP: f64 = 0.005;
/// Bytes that compactions of L0, and the deeper ones, write for a flushed byte.
pub const L0_COST: f64 = 1.6;
pub const DEEP_COST: f64 = 6.0;
/// Memtables that a compaction takes at most (`picker`, where a file is one memtable).
const JOB_MAX: f64 = 25.0;
/// The rate of the device is measured over this many seconds (`DeviceScheduler::rate`).
const MEASURE_SECONDS: f64 = 2.0;
/// Memtables that a deeper compaction takes on at a time.
const SLICE: f64 = 10.0;

/// The load of a run.
pub struct Load<'a> {
    pub seconds: f64,
    /// User bytes a second that are offered at a given time.
    pub offered: &'a dyn Fn(f64) -> f64,
    /// Bytes a second that the device takes at a given time.
    pub device: &'a dyn Fn(f64) -> f64,
    /// Whether the device is full at a given time: jobs then fail, and are tried again.
    pub full: &'a dyn Fn(f64) -> bool,
}

/// Limits of the tree.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub memtable: f64,
    pub memtables: f64,
    pub soft: f64,
    pub hard: f64,
    pub slots: usize,
    /// Bytes in files for a byte in memory: what overwriting and compression leave.
    pub left: f64,
    /// Bytes of the level below that each compaction of L0 rewrites, whatever it takes out of L0.
    pub base: f64,
    /// Bytes of memory or of files that a job processes in a second at most.
    pub pace: f64,
    /// Seconds that a job waits for its sync after its last byte.
    pub sync: f64,
    /// Jobs report their progress in steps of this many bytes: large values.
    pub grain: f64,
    /// Under a cap this many bytes come at once, and the next group pays for them: a group of
    /// writers.
    pub group: f64,
}

pub const ROCKSDB: Shape = Shape {
    memtable: 64.0 * MB,
    memtables: 6.0,
    soft: 64e3 * MB,
    hard: 256e3 * MB,
    slots: 2,
    left: 1.0,
    base: 0.0,
    pace: f64::INFINITY,
    sync: 0.0,
    grain: 0.0,
    group: 0.0,
};

/// The outcome of a run.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Seconds for which writes were stopped while the device had been working for three seconds.
    pub stopped_seconds: f64,
    pub admitted: f64,
    pub max_l0: f64,
    pub max_debt: f64,
    /// User bytes of each second.
    pub by_second: Vec<f64>,
    /// Longest time in which a job of a class waited or ran without a byte of progress.
    pub starved_flush: f64,
    pub starved_deep: f64,
    /// Files by which merges inside L0 have reduced L0.
    pub merged: f64,
}

#[derive(Clone, Copy)]
struct Job {
    /// Memtables or files of L0 that it takes.
    count: usize,
    bytes: f64,
    total: f64,
    done: f64,
    began: f64,
    /// When the last byte was written; since then the job waits for its sync.
    written_at: Option<f64>,
}

impl Shape {
    fn in_steps(&self, entries: f64) -> f64 {
        if self.grain > 0.0 { (entries / self.grain).floor() * self.grain } else { entries }
    }
}

impl Job {
    fn new(count: usize, bytes: f64, total: f64, now: f64) -> Self {
        Job { count, bytes, total, done: 0.0, began: now, written_at: None }
    }

    /// Advances by a step in which the device takes `share` of the job's bytes; returns the bytes
    /// written, and the input bytes that they stand for.
    fn advance(&mut self, share: f64, shape: &Shape, now: f64) -> (f64, f64) {
        let pace = shape.pace * STEP * self.total / self.bytes.max(1.0);
        let written = share.min(pace).min(self.total - self.done);
        self.done += written;
        if self.total - self.done < 1.0 {
            self.written_at.get_or_insert(now);
        }
        (written, written / self.total * self.bytes)
    }

    fn is_over(&self, shape: &Shape, now: f64) -> bool {
        self.written_at.is_some_and(|at| now - at >= shape.sync)
    }

    fn relief(&self, now: f64, stock: f64, shape: &Shape) -> Relief {
        let elapsed = now - self.began;
        let done_entries = shape.in_steps(self.done / self.total * self.bytes);
        Relief { stock, total_entries: self.bytes, done_entries, elapsed }
    }
}

struct Tree {
    shape: Shape,
    active: f64,
    sealed: VecDeque<f64>,
    flush: Option<Job>,
    level0: VecDeque<f64>,
    /// A merge inside L0, and the first file that it takes.
    merge: Option<(Job, usize)>,
    l0_job: Option<Job>,
    deep_owed: f64,
    deep: Vec<Job>,
    totals: Totals,
    /// What the next group has to pay first, and the largest group that came unpaid since the last
    /// look.
    owed: f64,
    unpaid: f64,
    device_rate: f64,
}

impl Tree {
    fn new(shape: Shape) -> Self {
        Tree {
            shape,
            active: 0.0,
            sealed: VecDeque::new(),
            flush: None,
            level0: VecDeque::new(),
            merge: None,
            l0_job: None,
            deep_owed: 0.0,
            deep: Vec::new(),
            totals: Totals::default(),
            owed: 0.0,
            unpaid: 0.0,
            device_rate: 0.0,
        }
    }

    /// The jobs fail, and begin again when there is space.
    fn fail_jobs(&mut self) {
        self.flush = None;
        self.merge = None;
        self.l0_job = None;
        self.deep_owed += self.deep.drain(..).map(|job| job.total).sum::<f64>();
    }

    fn debt(&self) -> f64 {
        let owed = self.deep_owed + self.deep.iter().map(|j| j.total - j.done).sum::<f64>();
        let level0: f64 = self.level0.iter().sum();
        let base = self.shape.base;
        // As RocksDB's estimate does, what leaves L0 is counted on its way through all levels.
        let due = level0 * (L0_COST + DEEP_COST) + base;
        owed + if self.level0.len() >= 4 { due } else { 0.0 }
    }

    fn stopped(&self) -> bool {
        self.sealed.len() as f64 >= self.shape.memtables
            || self.level0.len() >= 36
            || self.debt() >= self.shape.hard
    }

    /// The policy is not ticked, as in the engine.
    fn rests(&self) -> bool {
        let jobs = usize::from(self.merge.is_some()) + self.below();
        self.sealed.is_empty() && jobs == 0 && self.level0.len() < 4
    }

    fn inputs(&self, now: f64) -> FamilyInputs {
        FamilyInputs {
            id: 0,
            memtable_bytes: self.shape.memtable,
            memtables_max: self.shape.memtables,
            active_bytes: self.active,
            sealed: self.sealed.len() as f64,
            sealed_bytes: self.sealed.iter().sum(),
            flush_due: self.flush.is_none() && !self.sealed.is_empty(),
            flush: self.flush.map(|job| job.relief(now, job.bytes, &self.shape)),
            l0: Level0Inputs {
                files: self.level0.len() as f64,
                trigger: 4.0,
                slowdown: 20.0,
                stop: 36.0,
                job: self.l0_job.map(|job| job.relief(now, job.count as f64, &self.shape)),
                merge: self
                    .merge
                    .map(|(job, _)| job.relief(now, job.count as f64 - 1.0, &self.shape)),
            },
            debt_bytes: self.debt(),
            soft_bytes: self.shape.soft,
            hard_bytes: self.shape.hard,
            compacts: true,
        }
    }

    /// Compactions out of L0 and below.
    fn below(&self) -> usize {
        usize::from(self.l0_job.is_some()) + self.deep.len()
    }

    /// Newest files of L0 that no compaction has.
    fn idle(&self) -> usize {
        let taken = self.l0_job.map_or(0, |job| job.count);
        let taken = self.merge.map_or(taken, |(job, first)| first + job.count);
        self.level0.len() - taken
    }

    /// The newest files that are worth a merge, as the engine takes them.
    fn start_merge(&mut self, now: f64) {
        let idle = self.idle();
        let (mut bytes, mut take, mut best) = (0.0, 0, f64::INFINITY);
        for file in self.level0.iter().rev().take(idle) {
            let cost = if take == 0 { best } else { (bytes + file) / take as f64 };
            if cost > best || bytes + file > JOB_MAX * self.shape.memtable {
                break;
            }
            (bytes, best, take) = (bytes + file, cost, take + 1);
        }
        if take >= 4 && self.level0.len() >= 6 {
            let first = self.level0.len() - take;
            self.merge = Some((Job::new(take, bytes, bytes, now), first));
        }
    }

    /// The bytes that a step with credit for `bytes` lets in.
    fn at_once(&mut self, bytes: f64, capped: bool) -> f64 {
        if !capped || self.shape.group <= 0.0 {
            self.unpaid = self.shape.group;
            self.owed = 0.0;
            return bytes;
        }
        if bytes <= 0.0 {
            return 0.0;
        }
        // A group comes as soon as the one before is paid for.
        let groups = ((bytes - self.owed) / self.shape.group).floor() + 1.0;
        let groups = groups.max(0.0);
        self.owed += groups * self.shape.group - bytes;
        self.unpaid = if groups > 0.0 { self.shape.group } else { self.unpaid };
        groups * self.shape.group
    }

    fn admit(&mut self, bytes: f64) {
        self.totals.admitted += bytes;
        self.totals.logged += bytes;
        self.active += bytes;
        if self.active >= self.shape.memtable {
            self.sealed.push_back(self.active);
            self.active = 0.0;
        }
    }

    /// Starts the jobs that can start.
    fn schedule(&mut self, now: f64, grants: &Grants) {
        let slots = if grants.all_threads { self.shape.slots } else { 1 };
        if self.flush.is_none() && !self.sealed.is_empty() {
            let bytes: f64 = self.sealed.iter().sum();
            let count = self.sealed.len();
            self.flush = Some(Job::new(count, bytes, bytes * self.shape.left, now));
        }
        let merging = usize::from(self.merge.is_some());
        // One thread is kept for merges, or for compactions out of L0.
        let kept = usize::from(grants.merges && slots > 1);
        let free = self.below() + merging.max(kept) < slots;
        let count = self.merge.map_or(self.level0.len(), |(_, first)| first);
        if self.l0_job.is_none() && count > 0 && self.level0.len() >= 4 && free {
            let most = (JOB_MAX * self.shape.memtable).max(4.0 * self.shape.base);
            let mut taken = 0.0;
            let fits = |file: &&f64| {
                taken += **file;
                taken <= most
            };
            let fitting = self.level0.iter().take(count).take_while(fits).count();
            let count = fitting.max(1);
            let bytes: f64 = self.level0.iter().take(count).sum();
            let total = bytes * L0_COST + self.shape.base;
            self.l0_job = Some(Job::new(count, bytes, total, now));
        }
        let slice = SLICE * self.shape.memtable;
        while self.deep_owed > slice / 4.0
            && self.below() + merging.max(kept) < slots
            && self.deep.len() < (slots - 1).max(1)
        {
            let total = self.deep_owed.min(slice);
            self.deep_owed -= total;
            self.deep.push(Job::new(0, total, total, now));
        }
        if self.merge.is_none() && self.below() < slots && (kept > 0 || self.l0_job.is_some()) {
            self.start_merge(now);
        }
    }

    /// Lets jobs write for one step; returns what made progress: (flush, deep).
    fn work(&mut self, now: f64, device: f64, grants: &Grants) -> (bool, bool) {
        let level0 = usize::from(grants.level0_first && self.l0_job.is_some());
        let below = self.below() - level0;
        let first = usize::from(self.flush.is_some()) + usize::from(self.merge.is_some()) + level0;
        if below + first == 0 || device <= 0.0 {
            return (false, false);
        }
        let fair = device / (below + first) as f64 * below as f64;
        let waiting = fair.min(grants.waiting_rate.unwrap_or(f64::INFINITY));
        let urgent = (device - waiting) / first.max(1) as f64 * STEP;
        let each = waiting * STEP / below.max(1) as f64;
        let moved = self.flush.is_some();
        if let Some(job) = &mut self.flush {
            let (written, entries) = job.advance(urgent, &self.shape, now);
            self.totals.flush.written += written;
            self.totals.flush.entries += entries;
        }
        if let Some((job, _)) = &mut self.merge {
            let (written, entries) = job.advance(urgent, &self.shape, now);
            self.totals.merge.written += written;
            self.totals.merge.entries += entries;
        }
        if let Some(job) = &mut self.l0_job {
            let share = if level0 > 0 { urgent } else { each };
            let (written, entries) = job.advance(share, &self.shape, now);
            self.totals.l0.written += written;
            self.totals.l0.entries += entries;
        }
        for job in &mut self.deep {
            self.totals.deep_written += job.advance(each, &self.shape, now).0;
        }
        self.finish(now);
        (moved, each > 0.0)
    }

    fn finish(&mut self, now: f64) {
        let shape = self.shape;
        if let Some(job) = self.flush.take_if(|job| job.is_over(&shape, now)) {
            drop(self.sealed.drain(..job.count));
            self.level0.push_back(job.bytes * shape.left);
            self.totals.flush.drained += job.bytes;
            self.totals.flushes += 1.0;
            self.totals.flush.seconds += now - job.began;
        }
        if let Some((job, first)) = self.merge.take_if(|(job, _)| job.is_over(&shape, now)) {
            drop(self.level0.drain(first + 1..first + job.count));
            self.level0[first] = job.bytes;
            self.totals.merge.drained += job.count as f64 - 1.0;
            self.totals.merge.seconds += now - job.began;
        }
        if let Some(job) = self.l0_job.take_if(|job| job.is_over(&shape, now)) {
            drop(self.level0.drain(..job.count));
            if let Some((_, first)) = &mut self.merge {
                *first -= job.count;
            }
            self.deep_owed += job.bytes * DEEP_COST;
            self.totals.l0.drained += job.count as f64;
            self.totals.l0.seconds += now - job.began;
        }
        self.deep.retain(|job| !job.is_over(&shape, now));
    }
}

/// When the policy was last asked, and what it said.
struct Ticker {
    ticked: f64,
    /// Since when the rate of the device is measured, and what had been written then.
    measured: f64,
    written: f64,
    sealed: usize,
    rested: bool,
    grants: Grants,
}

impl Ticker {
    /// Ticks the policy again if it is time, or a memtable was sealed.
    fn look(&mut self, policy: &mut dyn Policy, tree: &mut Tree, now: f64) {
        let sealed = tree.sealed.len() > self.sealed;
        self.sealed = tree.sealed.len();
        if tree.rests() && self.grants.cap.is_none() {
            self.rested = true;
            return;
        }
        if !sealed && now - self.ticked < self.grants.tick_within - STEP / 2.0 {
            return;
        }
        let mut totals = tree.totals;
        totals.flush.entries = tree.shape.in_steps(totals.flush.entries);
        totals.merge.entries = tree.shape.in_steps(totals.merge.entries);
        totals.l0.entries = tree.shape.in_steps(totals.l0.entries);
        let compacted = totals.merge.written + totals.l0.written + totals.deep_written;
        let written = totals.logged + totals.flush.written + compacted;
        let seconds = now - self.ticked;
        self.ticked = now;
        let span = now - self.measured;
        if span >= MEASURE_SECONDS {
            let rate = (written - self.written) / span;
            (self.measured, self.written) = (now, written);
            tree.device_rate = (tree.device_rate * (1.0 - span / 300.0)).max(rate);
        }
        self.grants = policy.tick(&Inputs {
            seconds,
            rested: std::mem::take(&mut self.rested),
            totals,
            unpaid: std::mem::take(&mut tree.unpaid),
            families: vec![tree.inputs(now)],
            device_rate: tree.device_rate,
            claimed_elsewhere: 0.0,
        });
    }
}

impl Outcome {
    fn note(&mut self, tree: &Tree, now: f64, bytes: f64) {
        self.admitted += bytes;
        self.max_l0 = self.max_l0.max(tree.level0.len() as f64);
        self.max_debt = self.max_debt.max(tree.debt());
        self.merged = tree.totals.merge.drained;
        let second = now as usize;
        self.by_second.resize(second + 1, 0.0);
        self.by_second[second] += bytes;
    }
}

/// Runs `policy` under `load`.
pub fn run(policy: &mut dyn Policy, shape: Shape, load: &Load<'_>) -> Outcome {
    let mut tree = Tree::new(shape);
    let grants = Grants::default();
    let mut ticker =
        Ticker { ticked: -0.1, measured: 0.0, written: 0.0, sealed: 0, rested: true, grants };
    let mut outcome = Outcome::default();
    let (mut flush_rest, mut deep_rest) = (0.0, 0.0);
    let mut unpayable_until = 0.0;
    for step in 0..(load.seconds / STEP) as u64 {
        let now = step as f64 * STEP;
        ticker.look(policy, &mut tree, now);
        let grants = ticker.grants;
        let stopped = tree.stopped();
        let rate = (load.offered)(now).min(grants.cap.unwrap_or(f64::INFINITY));
        let bytes = if stopped { 0.0 } else { rate * STEP };
        let bytes = tree.at_once(bytes, grants.cap.is_some_and(|cap| cap <= rate));
        tree.admit(bytes);
        let full = (load.full)(now);
        if full {
            tree.fail_jobs();
        } else {
            tree.schedule(now, &grants);
        }
        let device = ((load.device)(now) - bytes / STEP).max(0.0);
        let (flushed, deepened) = tree.work(now, device, &grants);
        let waits = |rest: &mut f64, worst: &mut f64, wanted: bool, moved: bool| {
            *rest = if wanted && !moved { *rest + STEP } else { 0.0 };
            *worst = worst.max(*rest);
        };
        waits(&mut flush_rest, &mut outcome.starved_flush, !tree.sealed.is_empty(), flushed);
        waits(
            &mut deep_rest,
            &mut outcome.starved_deep,
            tree.deep_owed > SLICE * shape.memtable,
            deepened,
        );
        if full || (load.device)(now) <= 0.0 {
            unpayable_until = now + 3.0;
        }
        let payable = now >= unpayable_until;
        outcome.stopped_seconds += if stopped && payable { STEP } else { 0.0 };
        outcome.note(&tree, now, bytes);
    }
    outcome
}
