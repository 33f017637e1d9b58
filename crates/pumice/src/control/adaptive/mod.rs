//! The adaptive policy: a sustained peak slows writes and never stops them.
//!
//! Three stocks stop writes when they are full: memtables, L0 files and the bytes that wait for
//! compaction. The first two are relieved in steps, when a job ends; until then the remaining room
//! must last. So writes are admitted at the rate that would use up the room exactly when relief
//! comes:
//!
//! ```text
//! cap = room / seconds until relief
//! ```
//!
//! However slow the device gets, this never reaches the end of the room: the cap falls as the wait
//! grows. For L0 the room ends where RocksDB begins to slow writes, with a quarter of what lies
//! beyond that as a guard. A second law makes a lasting peak smooth; it uses the stock minus the
//! finished share of the running job:
//!
//! ```text
//! cap = throughput * 4 ^ ((3/4 - filled / goal) / (1/4))
//! ```
//!
//! A burst passes while the stock is small; at three quarters the intake equals the throughput, and
//! each job frees what came in during the previous one.
//!
//! The third stock moves steadily; its law is in `debt`.
//!
//! While a peak lasts, the device cannot compact all of it into the levels, so part of the work has
//! to wait. The cheapest place to wait is L0, where compactions that merge its newest files keep
//! them few at the price of one write: waiting deeper makes a level too large, and each compaction
//! into it rewrites more. So while writes are near a limit the log, flushes and merges inside L0
//! come first, and all other compactions share what these leave of the device, in the order of
//! their scores. A tenth of the device stays free, since writes would wait in its queue. The larger
//! the debt, the larger the minimum of these compactions; it shrinks as the cap falls below the
//! sustainable intake, since a long merge inside L0 waits for the device then. If L0 is nearly full
//! all the same, compactions out of it come first too.
//!
//! With a target for read latency, compactions that can wait also give way to reads (`guard`), as
//! far as the debt allows.
//!
//! | part | is |
//! |---|---|
//! | this file | the laws of memory and L0, and what follows from all three |
//! | `debt` | the law of the debt |
//! | `guard` | how much compactions that can wait may write so that reads stay fast |
//! | `probe` | whether the device can take more than is known |
//! | `rates` | averages, and when a job will be done |
//! | `learned` | how much of an admitted byte reaches memtables and files |
//!
//! Thread safety: plain data with one caller. Stopping writes is left to the stall rules of
//! `commit`: outer guards that this policy stays away from.

mod debt;
mod guard;
mod learned;
mod probe;
mod rates;

use self::debt::{DebtLook, DebtWatch};
use self::guard::{ReadGuard, ReadLook};
use self::learned::Learned;
use self::probe::{Probe, ProbeLook};
use self::rates::{Average, Counter, Drain, Look, weight};
use super::policy::{Binding, FamilyInputs, Grants, Inputs, Policy, Relief};

/// The cap falls at once. It rises towards the law's value in about this many seconds, or in this
/// share of the time in which all memory can fill: with flushes milliseconds apart, a slower rise
/// would cost throughput. It rises at once to its average over this share of the time: a momentary
/// drop at the end of a flush carries no information.
const RISE_SECONDS: f64 = 0.5;
const RISE_FILL_SHARE: f64 = 0.1;
const OF_LATE_SHARE: f64 = 0.6;
/// Writes are never slowed below this many bytes a second, as RocksDB's.
const CAP_MIN: f64 = 16.0 * 1024.0;
/// A cap this many times above the admitted rate does not bind, and is not set.
const LOOSE: f64 = 2.0;
/// Writes at this share of the cap or more count as held back by it.
const HELD_BACK_SHARE: f64 = 0.7;
/// Compactions that can wait keep at least this share of the device.
const WAITING_SHARE_MIN: f64 = 0.1;
/// And this many bytes a second, whatever the known rate of the device: that is measured only from
/// what was asked of it, and an idle database asks for almost nothing.
const WAITING_RATE_MIN: f64 = 1024.0 * 1024.0;
/// Share of the device that is handed out while there is no debt; all of it when the debt is at its
/// goal.
const USED_SHARE: f64 = 0.9;
/// The rate of urgent writes is an average over about this many seconds.
const URGENT_HORIZON: f64 = 0.5;
/// A thread stays reserved for merges this many seconds after the last need, so that no long
/// compaction takes it in between.
const MERGE_SECONDS: f64 = 5.0;
/// Share of the room to L0's stop trigger that may be used if it is more than the room below the
/// goal.
const GUARD_SHARE: f64 = 0.25;
/// At its goal a stock admits this many times less than its throughput; at this share of the goal,
/// exactly its throughput.
const LEAN: f64 = 4.0;
const EVEN: f64 = 0.75;
/// Memory keeps room for the bytes that one group may add at once, whatever the cap, up to this
/// share of a memtable.
const UNPAID_SHARE: f64 = 0.5;
/// At most this share of the room is admitted before the next tick.
const TICK_SHARE: f64 = 0.5;
/// Ticks are this many seconds apart, or as long as this share of all memory takes to fill; and
/// there is one whenever a memtable is sealed.
const TICK_SECONDS: f64 = 0.1;
const TICK_SECONDS_MIN: f64 = 0.005;
const TICK_MEMORY_SHARE: f64 = 0.1;
/// Ticks come sooner towards the end of a flush, each after this share of its remaining time.
const TICK_FLUSH_SHARE: f64 = 0.5;
/// All compaction threads work from this many times the trigger of L0 on, or this share of the
/// soft limit of debt.
const PRESSED_L0: f64 = 2.0;
const PRESSED_DEBT: f64 = 0.125;

/// One limit: user bytes a second, and the ratio of the room to what is still to be freed.
#[derive(Clone, Copy, Debug)]
struct Limit {
    cap: f64,
    room_ratio: f64,
}

/// A stock that jobs relieve in steps, in user bytes.
#[derive(Clone, Copy, Debug)]
struct Stock {
    /// The content of the stock minus the finished share of the running job.
    filled: f64,
    /// The intended maximum of the stock.
    goal: f64,
    /// What may still come in before the job is done.
    room: f64,
    /// What the job still has to free.
    to_free: f64,
    /// Seconds until it is done.
    left: f64,
    /// Drained per second, if known.
    throughput: Option<f64>,
}

impl Stock {
    /// The law of the module head, with `tick` seconds between looks.
    fn limit(&self, tick: f64) -> Limit {
        let room = self.room.max(0.0);
        let lasting = (room / self.left).min(room * TICK_SHARE / tick);
        let lean = (EVEN - self.filled / self.goal.max(1.0)) / (1.0 - EVEN);
        let balanced = self.throughput.map_or(f64::INFINITY, |rate| rate * LEAN.powf(lean));
        Limit { cap: lasting.min(balanced), room_ratio: room / self.to_free.max(1.0) }
    }
}

/// Bytes a second recently written by work that cannot wait.
#[derive(Debug, Default)]
struct UrgentWrites {
    always: Counter,
    /// By compactions out of L0, which sometimes can wait.
    level0: Counter,
    rate: Average,
}

/// Share of the time recently spent appending to the log.
#[derive(Debug, Default)]
struct LogWatch {
    seconds: Counter,
    share: Average,
}

/// The admitted rate.
#[derive(Debug, Default)]
struct Cap {
    /// Bytes a second; None for all.
    now: Option<f64>,
    /// The recent average, while there is one.
    of_late: Average,
}

/// See the module head.
#[derive(Debug, Default)]
pub(crate) struct Adaptive {
    flush: Drain,
    merge: Drain,
    level0: Drain,
    debt: DebtWatch,
    learned: Learned,
    probe: Probe,
    guard: ReadGuard,
    log: LogWatch,
    urgent: UrgentWrites,
    /// Compactions out of L0 do not wait.
    level0_first: bool,
    /// A thread is reserved for merges.
    merges: bool,
    /// Seconds for which nothing has been limited.
    free_seconds: f64,
    tick_seconds: f64,
    /// Shortest time in which all memory can fill.
    fill_seconds: f64,
    cap: Cap,
}

impl Adaptive {
    fn learn(&mut self, inputs: &Inputs) {
        let (seconds, totals) = (inputs.seconds, &inputs.totals);
        let sum = |of: fn(&FamilyInputs) -> f64| inputs.families.iter().map(of).sum::<f64>();
        self.learned.learn(seconds, totals, &inputs.families);
        self.learned.learn_unpaid(seconds, inputs.unpaid);
        let oldest = |of: fn(&FamilyInputs) -> Option<Relief>| {
            let jobs = inputs.families.iter().filter_map(of);
            jobs.map(|job| job.elapsed).max_by(f64::total_cmp)
        };
        self.flush.learn(&Look {
            seconds,
            rested: inputs.rested,
            needed: inputs.families.iter().any(|f| f.flush_due || f.flush.is_some()),
            elapsed: oldest(|f| f.flush),
            written: totals.flush.written,
            entries: totals.flush.entries,
            drained: totals.flush.drained,
            job_seconds: totals.flush.seconds,
        });
        let needed = |f: &FamilyInputs| {
            f.l0.job.is_some() || f.l0.merge.is_some() || f.l0.files >= f.l0.trigger
        };
        let needed = inputs.families.iter().any(needed);
        self.merge.learn(&Look {
            seconds,
            rested: inputs.rested,
            needed,
            elapsed: oldest(|f| f.l0.merge),
            written: totals.merge.written,
            entries: totals.merge.entries,
            drained: totals.merge.drained,
            job_seconds: totals.merge.seconds,
        });
        self.level0.learn(&Look {
            seconds,
            rested: inputs.rested,
            needed,
            elapsed: oldest(|f| f.l0.job),
            written: totals.l0.written,
            entries: totals.l0.entries,
            drained: totals.l0.drained,
            job_seconds: totals.l0.seconds,
        });
        let level0 = self.urgent.level0.advance(totals.l0.written);
        let urgent = totals.logged + totals.flush.written + totals.merge.written;
        let urgent =
            self.urgent.always.advance(urgent) + if self.level0_first { level0 } else { 0.0 };
        self.urgent.rate.add(urgent / seconds, weight(seconds, URGENT_HORIZON));
        let log_seconds = self.log.seconds.advance(totals.log_seconds);
        self.log.share.add(log_seconds / seconds, weight(seconds, URGENT_HORIZON));
        let memtables = inputs.families.iter().map(|f| f.memtable_bytes);
        self.debt.learn(&DebtLook {
            seconds,
            rested: inputs.rested,
            flushed: totals.flush.drained,
            growth: self.learned.growth(),
            written: totals.merge.written + totals.l0.written + totals.deep_written,
            debt: sum(|f| f.debt_bytes),
            soft: sum(|f| f.soft_bytes),
            memtable: memtables.fold(0.0, f64::max),
        });
    }

    /// How long the next tick may wait: at most a tenth of the time in which memory fills, and no
    /// flush ends long before it, so that freed memory is used promptly.
    fn next_tick(&mut self, families: &[FamilyInputs]) -> f64 {
        let memory = families.iter().map(|f| f.memtable_bytes * f.memtables_max);
        let least = memory.fold(f64::INFINITY, f64::min);
        let peak = (self.learned.peak() * self.learned.growth()).max(1.0);
        self.fill_seconds = least / peak;
        let filled = TICK_MEMORY_SHARE * self.fill_seconds;
        let flushes = families.iter().filter_map(|f| f.flush);
        let flushed = flushes.map(|job| TICK_FLUSH_SHARE * self.flush.seconds_left(&job));
        flushed.fold(filled, f64::min).clamp(TICK_SECONDS_MIN, TICK_SECONDS)
    }

    /// The limit that the memtables of a family set.
    fn memory_limit(&self, family: &FamilyInputs) -> Option<Limit> {
        let bytes = family.sealed_bytes;
        let waiting = Relief { stock: bytes, ..Relief::default() };
        let job = family.flush.or(family.flush_due.then_some(waiting))?;
        let left = self.flush.seconds_left(&job);
        let to_free = job.stock * left / (job.elapsed + left);
        let user = 1.0 / self.learned.growth();
        let free = family.memtables_max - family.sealed;
        let unpaid = self.learned.unpaid().min(UNPAID_SHARE * family.memtable_bytes * user);
        let stock = Stock {
            filled: (bytes + family.active_bytes - (job.stock - to_free)) * user,
            goal: family.memtables_max * family.memtable_bytes * user,
            room: (free * family.memtable_bytes - family.active_bytes) * user - unpaid,
            to_free: to_free * user,
            left,
            throughput: self.flush.throughput().map(|rate| rate * user),
        };
        Some(stock.limit(self.tick_seconds))
    }

    /// The next relief of a family's L0: how much it frees, and in how many seconds. While L0 is
    /// merged that is soon, whatever compaction runs out of it.
    fn level0_relief(&self, family: &FamilyInputs) -> Option<(f64, f64)> {
        let due = family.l0.files >= family.l0.trigger;
        let waiting = due.then(|| Relief { stock: family.l0.files, ..Relief::default() });
        let (drain, job) = match self.merges {
            true => (&self.merge, family.l0.merge),
            false => (&self.level0, Some(family.l0.job.or(waiting)?)),
        };
        let Some(job) = job else {
            // Files that are not worth a merge yet will be with a few more.
            return due.then_some((0.0, self.tick_seconds));
        };
        let left = drain.seconds_left(&job);
        Some((job.stock * left / (job.elapsed + left), left))
    }

    /// Files of L0 that its running jobs have finished.
    fn level0_done(&self, family: &FamilyInputs) -> f64 {
        let jobs = [(&self.merge, family.l0.merge), (&self.level0, family.l0.job)];
        let done = |(drain, job): (&Drain, Option<Relief>)| {
            job.map_or(0.0, |job| {
                job.stock * job.elapsed / (job.elapsed + drain.seconds_left(&job))
            })
        };
        jobs.into_iter().map(done).sum()
    }

    /// The limit that L0 of a family sets.
    fn level0_limit(&self, family: &FamilyInputs) -> Option<Limit> {
        if !family.compacts {
            return None;
        }
        let (to_free, left) = self.level0_relief(family)?;
        let file = self.learned.file_bytes().unwrap_or(family.memtable_bytes);
        let user = file / self.learned.growth();
        // Data still in memory becomes files too.
        let files = family.l0.files + (family.sealed_bytes + family.active_bytes) / file;
        let room = (family.l0.slowdown - files).max(GUARD_SHARE * (family.l0.stop - 1.0 - files));
        let rates = [self.merge.throughput(), self.level0.throughput()];
        let known = rates.iter().any(Option::is_some);
        let stock = Stock {
            filled: (files - self.level0_done(family)) * user,
            goal: family.l0.slowdown * user,
            room: room * user,
            to_free: to_free * user,
            left,
            throughput: known.then(|| rates.iter().flatten().sum::<f64>() * user),
        };
        Some(stock.limit(self.tick_seconds))
    }

    /// The tightest limit of all families: memory and L0 of a family receive its share of all
    /// admitted writes. Debt is learned from all families together.
    fn tightest(&self, families: &[FamilyInputs]) -> Option<(Limit, Binding)> {
        let of_family = |family: &FamilyInputs| {
            let share = self.learned.share(family.id, families.len());
            let of_all =
                |limit: Option<Limit>| limit.map(|limit| Limit { cap: limit.cap / share, ..limit });
            [
                (of_all(self.memory_limit(family)), Binding::Memtables),
                (of_all(self.level0_limit(family)), Binding::Level0),
                (self.debt.limit(family), Binding::Debt),
            ]
        };
        let all = families.iter().flat_map(of_family);
        let known = all.filter_map(|(limit, binding)| limit.map(|limit| (limit, binding)));
        known.min_by(|a, b| a.0.cap.total_cmp(&b.0.cap))
    }

    /// Brings the cap towards `wanted`; None while it does not bind.
    fn follow(&mut self, wanted: Option<f64>, seconds: f64) -> Option<f64> {
        let loose = LOOSE * self.learned.peak();
        let wanted = wanted.filter(|cap| *cap < loose).map(|cap| cap.max(CAP_MIN));
        let rise_seconds = RISE_SECONDS.min(RISE_FILL_SHARE * self.fill_seconds);
        let rises = weight(seconds, rise_seconds);
        let of_late = self.cap.of_late.get().unwrap_or(0.0);
        self.cap.now = match (self.cap.now, wanted) {
            (Some(now), Some(wanted)) if wanted > now => {
                let now = now.max(of_late.min(wanted));
                Some(now + (wanted - now) * rises)
            }
            (_, Some(wanted)) => Some(wanted),
            // Not at once here either, so that waiting writers do not all start in one step.
            (Some(now), None) => {
                let now = now.max(of_late);
                let risen = now + (loose.max(now * LOOSE) - now) * rises;
                (risen < loose).then_some(risen)
            }
            (None, None) => None,
        };
        match self.cap.now {
            Some(cap) => self.cap.of_late.add(cap, weight(seconds, OF_LATE_SHARE * rise_seconds)),
            None => self.cap.of_late = Average::default(),
        }
        self.cap.now
    }

    /// Memory or L0 of some family is short, or slows writes.
    fn is_short(&self, inputs: &Inputs, binding: Binding) -> bool {
        let ratio = |limit: Option<Limit>| limit.map_or(f64::INFINITY, |limit| limit.room_ratio);
        let short = |family: &FamilyInputs| {
            // A compaction of L0 that has not started may be waiting for a deeper one.
            let level0 = family.l0.job.is_some() && ratio(self.level0_limit(family)) < 1.0;
            level0 || (family.flush.is_some() && ratio(self.memory_limit(family)) < 1.0)
        };
        binding != Binding::Free || inputs.families.iter().any(short)
    }

    /// The cap over the sustainable intake, at most 1. Below 1 compactions pay off more than comes
    /// in, so the debt can wait.
    fn sustained_share(&self) -> f64 {
        let sustainable = self.debt.sustainable();
        self.cap.now.map_or(1.0, |cap| if cap < sustainable { cap / sustainable } else { 1.0 })
    }

    /// The rate of compactions that can wait, given `owed` of the debt: the rest of the device
    /// while writes are near a limit, and no more than what keeps reads fast.
    fn waiting_rate(&mut self, inputs: &Inputs, binding: Binding, owed: f64) -> Option<f64> {
        let device_rate = inputs.device_rate;
        let limited = device_rate > 0.0 && self.is_short(inputs, binding);
        self.free_seconds = if limited { 0.0 } else { self.free_seconds + inputs.seconds };
        let admitted = self.learned.admitted_rate();
        let held_back = self.cap.now.is_some_and(|cap| admitted > HELD_BACK_SHARE * cap);
        let log_share = self.log.share.get().unwrap_or(0.0);
        let look = ProbeLook { known: device_rate, admitted, held_back, log_share };
        let known = self.probe.tick(inputs.seconds, limited.then_some(look));
        let used = USED_SHARE + (1.0 - USED_SHARE) * owed * owed;
        let urgent = self.urgent.rate.get().unwrap_or(0.0);
        let left = limited.then_some(known * used - urgent - inputs.claimed_elsewhere);
        let for_reads = self.guard.tick(&ReadLook {
            seconds: inputs.seconds,
            reads: inputs.totals.reads,
            slow_reads: inputs.totals.slow_reads,
            written: inputs.totals.deep_written + inputs.totals.l0.written,
            device_rate,
        });
        let due = if self.level0_first { 0.0 } else { owed * owed * self.sustained_share() };
        let left = left.map(|rate| rate.max(device_rate * WAITING_SHARE_MIN.max(due)));
        // Reads become slow before writes do: the debt stays below the soft limit.
        let soft =
            |f: &FamilyInputs| if f.soft_bytes > 0.0 { f.debt_bytes / f.soft_bytes } else { 0.0 };
        let due = inputs.families.iter().map(soft).fold(WAITING_SHARE_MIN, f64::max);
        let for_reads = for_reads.map(|rate| rate.max(device_rate * due));
        let least = [left, for_reads].into_iter().flatten().reduce(f64::min);
        least.map(|rate| rate.max(WAITING_RATE_MIN))
    }
}

impl Policy for Adaptive {
    fn tick(&mut self, inputs: &Inputs) -> Grants {
        self.learn(inputs);
        self.tick_seconds = self.next_tick(&inputs.families);
        let tightest = self.tightest(&inputs.families);
        let cap = self.follow(tightest.map(|(limit, _)| limit.cap), inputs.seconds);
        let binding = match (cap, tightest) {
            (Some(_), Some((_, binding))) => binding,
            _ => Binding::Free,
        };
        let pressed = |family: &FamilyInputs| {
            family.l0.files >= PRESSED_L0 * family.l0.trigger
                || (family.soft_bytes > 0.0 && family.debt_bytes > PRESSED_DEBT * family.soft_bytes)
        };
        let owed = inputs.families.iter().map(|f| self.debt.owed(f)).fold(0.0, f64::max);
        let full = |f: &FamilyInputs| f.l0.files - self.level0_done(f) > EVEN * f.l0.slowdown;
        self.level0_first = inputs.families.iter().any(full);
        let waiting_rate = self.waiting_rate(inputs, binding, owed);
        self.merges = self.free_seconds < MERGE_SECONDS;
        Grants {
            cap,
            binding,
            waiting_rate,
            level0_first: self.level0_first,
            merges: self.merges,
            claim: self.urgent.rate.get().unwrap_or(0.0),
            all_threads: cap.is_some() || inputs.families.iter().any(pressed),
            times_log: self.merges,
            tick_within: self.tick_seconds,
        }
    }
}

#[cfg(test)]
mod tests;
