//! Accounts for writes to a device: the background work of all databases that share it.
//!
//! Each database joins the scheduler of its device ([`DeviceScheduler::of`]). Those that control
//! their own rate report every write of a flush or a compaction, by class, the progress of the job,
//! and what they log. The scheduler counts, learns the throughput of the device, and tells each
//! member what the others claim. Only compactions out of L0 and deeper ones ever wait, and only
//! while their member has a rate for them ([`DeviceMember::set_waiting_rate`]): at the next write
//! of a file, so that a compaction yields within one write buffer.
//!
//! Thread safety: everything may be called from anywhere. A write that waits suspends. The lock of
//! a member and that of the scheduler are leaves and never held together.
//!
//! What it does not do: limit the device as a whole (`rate_limiter` does, as an outer cap), or
//! reorder requests.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use pumice_base::narrow::round_down_u64;
use pumice_port::sync::{Condvar, Mutex};
use pumice_port::time::now_micros;

/// Classes of background writes, most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoClass {
    /// Memtables become tables: writers wait for it first.
    Flush = 0,
    /// Compactions inside L0: they make room there at the cost of one write.
    Merge = 1,
    /// Compactions out of L0.
    Level0 = 2,
    /// All other compactions.
    Deep = 3,
}

/// How many there are.
const CLASSES: usize = 4;
/// Throughput is measured over this many microseconds: in less the device may absorb a burst.
const MEASURE_MICROS: u64 = 2_000_000;
/// A measured rate decays in about this many seconds: most of the time a device is not saturated.
const FORGET_SECONDS: f64 = 300.0;
/// A waiting write checks again after this time in any case.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// Writes that can wait may accumulate as much budget as their rate gives in this many
/// microseconds.
const BURST_MICROS: u64 = 100_000;

/// One device. See the module head.
#[derive(Debug, Default)]
pub struct DeviceScheduler {
    written: AtomicU64,
    state: Mutex<DeviceState>,
}

#[derive(Debug, Default)]
struct DeviceState {
    /// Members' numbers and what they claim, bytes a second.
    claims: Vec<(u64, f64)>,
    next_member: u64,
    measured_at: u64,
    measured_bytes: u64,
    rate: f64,
}

impl DeviceScheduler {
    /// The scheduler of a device by its number (`FileSystem::device`), shared by all databases on
    /// it; a separate one without a number.
    pub fn of(device: Option<u64>) -> Arc<Self> {
        type Known = Mutex<Vec<(u64, Weak<DeviceScheduler>)>>;
        static KNOWN: OnceLock<Known> = OnceLock::new();
        let Some(device) = device else { return Arc::default() };
        let mut known = KNOWN.get_or_init(Known::default).lock();
        known.retain(|(_, scheduler)| scheduler.strong_count() > 0);
        let found = known.iter().find(|(number, _)| *number == device);
        if let Some(scheduler) = found.and_then(|(_, scheduler)| scheduler.upgrade()) {
            return scheduler;
        }
        let scheduler = Arc::default();
        known.push((device, Arc::downgrade(&scheduler)));
        scheduler
    }

    /// Adds a database; it leaves when the last clone of the result is dropped.
    pub fn join(self: &Arc<Self>) -> Arc<DeviceMember> {
        let mut state = self.state.lock();
        let number = state.next_member;
        state.next_member += 1;
        state.claims.push((number, 0.0));
        drop(state);
        Arc::new(DeviceMember {
            scheduler: Arc::clone(self),
            number,
            written: Default::default(),
            entries: Default::default(),
            limited: AtomicBool::new(false),
            level0_waits: AtomicBool::new(false),
            waiting: Mutex::default(),
            waiting_changed: Condvar::new(),
        })
    }

    /// Recent maximum throughput of the device, bytes a second; 0 if it was never busy for two
    /// seconds.
    pub fn rate(&self) -> f64 {
        let now = now_micros();
        let written = self.written.load(Ordering::Relaxed);
        let mut state = self.state.lock();
        if state.measured_at == 0 {
            (state.measured_at, state.measured_bytes) = (now, written);
        }
        let micros = now.saturating_sub(state.measured_at);
        if micros >= MEASURE_MICROS {
            let seconds = micros as f64 / 1e6;
            let rate = written.saturating_sub(state.measured_bytes) as f64 / seconds;
            let faded = state.rate * (-seconds / FORGET_SECONDS).exp();
            state.rate = faded.max(rate);
            (state.measured_at, state.measured_bytes) = (now, written);
        }
        state.rate
    }
}

/// One database on a device. See the module head.
pub struct DeviceMember {
    scheduler: Arc<DeviceScheduler>,
    number: u64,
    written: [AtomicU64; CLASSES],
    entries: [AtomicU64; CLASSES],
    /// Whether writes that can wait have a rate; if not, this check is their only cost.
    limited: AtomicBool,
    /// Writes of compactions out of L0 wait as well.
    level0_waits: AtomicBool,
    waiting: Mutex<WaitingTokens>,
    waiting_changed: Condvar,
}

#[derive(Debug, Default)]
struct WaitingTokens {
    /// Bytes a second; None for no limit.
    rate: Option<u64>,
    /// Bytes that may be written; below 0 after a write that was larger than the budget.
    credit: i64,
    filled_at: u64,
}

impl WaitingTokens {
    fn refill(&mut self, rate: u64, now: u64) {
        let elapsed = now.saturating_sub(self.filled_at).min(1_000_000);
        self.filled_at = now;
        let bytes = |micros: u64| {
            i64::try_from(u128::from(rate) * u128::from(micros) / 1_000_000).unwrap_or(i64::MAX)
        };
        self.credit = self.credit.saturating_add(bytes(elapsed)).min(bytes(BURST_MICROS));
    }
}

impl DeviceMember {
    /// The device.
    pub fn device(&self) -> &Arc<DeviceScheduler> {
        &self.scheduler
    }

    /// Bytes written so far in `class`.
    pub fn written(&self, class: IoClass) -> u64 {
        self.written[class as usize].load(Ordering::Relaxed)
    }

    /// Entries that jobs of `class` have read so far.
    pub fn entries(&self, class: IoClass) -> u64 {
        self.entries[class as usize].load(Ordering::Relaxed)
    }

    /// Sets the rate that the member's urgent work will need, bytes a second.
    pub fn claim(&self, bytes_per_sec: f64) {
        let mut state = self.scheduler.state.lock();
        if let Some(claim) = state.claims.iter_mut().find(|(number, _)| *number == self.number) {
            claim.1 = bytes_per_sec;
        }
    }

    /// What all others claim together, bytes a second.
    pub fn claimed_elsewhere(&self) -> f64 {
        let state = self.scheduler.state.lock();
        let others = state.claims.iter().filter(|(number, _)| *number != self.number);
        others.map(|(_, claim)| claim).sum()
    }

    /// The member has written this many bytes to a log on the device.
    pub fn logged(&self, bytes: u64) {
        self.scheduler.written.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Limits writes of the classes that can wait to this many bytes a second from now on, or not
    /// at all; compactions out of L0 only if `level0` says so.
    pub fn set_waiting_rate(&self, bytes_per_sec: Option<f64>, level0: bool) {
        self.level0_waits.store(level0, Ordering::Relaxed);
        let rate = bytes_per_sec.map(|rate| round_down_u64(rate).max(1));
        let mut waiting = self.waiting.lock();
        if waiting.rate.is_none() {
            (waiting.credit, waiting.filled_at) = (0, now_micros());
        }
        waiting.rate = rate;
        self.limited.store(rate.is_some(), Ordering::Relaxed);
        drop(waiting);
        self.waiting_changed.notify_all();
    }

    /// Waits while writes that can wait have used up their rate.
    fn enter_waiting(&self, bytes: u64) {
        if !self.limited.load(Ordering::Relaxed) {
            return;
        }
        let mut waiting = self.waiting.lock();
        while let Some(rate) = waiting.rate {
            waiting.refill(rate, now_micros());
            if waiting.credit > 0 {
                waiting.credit = waiting.credit.saturating_sub_unsigned(bytes);
                return;
            }
            let missing = waiting.credit.unsigned_abs() + 1;
            let micros = missing.saturating_mul(1_000_000) / rate.max(1);
            let wait = Duration::from_micros(micros.max(100)).min(LOOK_AGAIN);
            waiting = self.waiting_changed.wait_timeout(waiting, wait).0;
        }
    }
}

impl Drop for DeviceMember {
    fn drop(&mut self) {
        self.set_waiting_rate(None, false);
        self.scheduler.state.lock().claims.retain(|(number, _)| *number != self.number);
    }
}

/// The writes of one job, and its progress.
pub struct JobIo {
    member: Arc<DeviceMember>,
    class: IoClass,
    began_micros: u64,
    written: AtomicU64,
    entries: AtomicU64,
}

impl JobIo {
    /// A job of `class` that begins now.
    pub fn new(member: &Arc<DeviceMember>, class: IoClass) -> Arc<Self> {
        Arc::new(JobIo {
            member: Arc::clone(member),
            class,
            began_micros: now_micros(),
            written: AtomicU64::new(0),
            entries: AtomicU64::new(0),
        })
    }

    /// How soon it has its turn.
    pub fn class(&self) -> IoClass {
        self.class
    }

    /// When it began, by `port::time::now_micros`.
    pub fn began_micros(&self) -> u64 {
        self.began_micros
    }

    /// Bytes it has written.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Entries of its input that it is done with.
    pub fn entries(&self) -> u64 {
        self.entries.load(Ordering::Relaxed)
    }

    /// The job is done with this many more entries of its input, written or not.
    pub fn took_in(&self, entries: u64) {
        self.entries.fetch_add(entries, Ordering::Relaxed);
        self.member.entries[self.class as usize].fetch_add(entries, Ordering::Relaxed);
    }

    /// About to write `bytes`: waits if the class has to. Suspends.
    pub fn enter(&self, bytes: u64) {
        let member = &self.member;
        let waits = match self.class {
            IoClass::Flush | IoClass::Merge => false,
            IoClass::Level0 => member.level0_waits.load(Ordering::Relaxed),
            IoClass::Deep => true,
        };
        if waits {
            member.enter_waiting(bytes);
        }
    }

    /// `bytes` were written.
    pub fn wrote(&self, bytes: u64) {
        self.written.fetch_add(bytes, Ordering::Relaxed);
        self.member.written[self.class as usize].fetch_add(bytes, Ordering::Relaxed);
        self.member.scheduler.written.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Reports a job's progress to its account, in steps.
pub struct JobProgress<'a> {
    io: Option<&'a JobIo>,
    /// Entries reported to the account.
    reported: u64,
    /// Bytes until the next step.
    left: u64,
}

/// Bytes between two steps; an entry counts for `ENTRY_BYTES` more than it has.
const PROGRESS_STEP: u64 = 256 << 10;
const ENTRY_BYTES: u64 = 200;

impl<'a> JobProgress<'a> {
    /// Nothing is done yet; without an account nothing is reported.
    pub fn new(io: Option<&'a JobIo>) -> Self {
        JobProgress { io, reported: 0, left: if io.is_some() { PROGRESS_STEP } else { u64::MAX } }
    }

    /// `entries` of the input are done, the last of them with this many bytes.
    #[inline]
    pub fn at(&mut self, entries: u64, bytes: usize) {
        self.left = self.left.saturating_sub(ENTRY_BYTES + bytes as u64);
        if self.left == 0 {
            self.report(entries);
        }
    }

    /// As [`JobProgress::at`] when all of them are.
    pub fn report(&mut self, entries: u64) {
        if let Some(io) = self.io {
            io.took_in(entries.saturating_sub(self.reported));
            (self.reported, self.left) = (entries, PROGRESS_STEP);
        }
    }
}

#[cfg(test)]
mod tests {
    //! Members, claims and the rate of writes that can wait, on simulated time.
    #![allow(clippy::unwrap_used)]
    use super::*;
    use pumice_port::{sim, thread, time};

    #[pumice_test_macros::test]
    fn databases_of_one_device_share_a_scheduler() {
        let device = u64::MAX - 77;
        let (a, b) = (DeviceScheduler::of(Some(device)), DeviceScheduler::of(Some(device)));
        assert!(Arc::ptr_eq(&a, &b));
        assert!(!Arc::ptr_eq(&a, &DeviceScheduler::of(Some(device - 1))));
        assert!(!Arc::ptr_eq(&a, &DeviceScheduler::of(None)));
        let (one, other) = (a.join(), b.join());
        one.claim(10.0);
        other.claim(5.0);
        assert_eq!((one.claimed_elsewhere(), other.claimed_elsewhere()), (5.0, 10.0));
        drop(other);
        assert_eq!(one.claimed_elsewhere(), 0.0);
    }

    /// Writes that can wait keep their rate, others are not held up, and a lifted limit wakes.
    #[test] // The simulation runs it on tasks of its own.
    fn what_can_wait_keeps_its_rate_and_the_rest_passes() {
        let (report, outcome) = sim::run(&sim::Options::new(1), || {
            let member = DeviceScheduler::of(None).join();
            let write = |class, count: u64| {
                let job = JobIo::new(&member, class);
                let began = time::now_micros();
                for _ in 0..count {
                    job.enter(100_000);
                    job.wrote(100_000);
                    job.took_in(7);
                }
                assert_eq!((job.written(), job.entries()), (count * 100_000, count * 7));
                (time::now_micros() - began) as f64 / 1e6
            };
            assert!(write(IoClass::Deep, 100) < 0.01, "no rate, no wait");
            member.set_waiting_rate(Some(1e6), false);
            let seconds = write(IoClass::Deep, 50);
            assert!((4.5..5.5).contains(&seconds), "5 MB at 1 MB/s took {seconds}");
            assert!(write(IoClass::Flush, 100) < 0.01);
            assert!(write(IoClass::Merge, 100) < 0.01);
            assert!(write(IoClass::Level0, 100) < 0.01);
            member.set_waiting_rate(Some(1e6), true);
            let seconds = write(IoClass::Level0, 20);
            assert!((1.5..2.5).contains(&seconds), "2 MB at 1 MB/s took {seconds}");
            member.set_waiting_rate(Some(1.0), false);
            let lifter = Arc::clone(&member);
            let lift = thread::spawn("lift", move || {
                thread::sleep(Duration::from_secs(2));
                lifter.set_waiting_rate(None, false);
            });
            let seconds = write(IoClass::Deep, 10);
            assert!((1.5..2.5).contains(&seconds), "lifted after 2 s, waited {seconds}");
            lift.join().unwrap();
            assert_eq!(member.written(IoClass::Deep), 16_000_000);
            assert_eq!(
                (member.entries(IoClass::Deep), member.entries(IoClass::Flush)),
                (1120, 700)
            );
        });
        assert!(outcome.is_ok() && report.stuck.is_none(), "{outcome:?}");
    }

    #[pumice_test_macros::test]
    fn progress_is_reported_in_steps_and_at_the_end() {
        let member = DeviceScheduler::of(None).join();
        let job = JobIo::new(&member, IoClass::Level0);
        let mut progress = JobProgress::new(Some(&job));
        (1..=2000).for_each(|entries| progress.at(entries, 0));
        assert_eq!(job.entries(), PROGRESS_STEP.div_ceil(ENTRY_BYTES));
        progress.report(2000);
        assert_eq!(member.entries(IoClass::Level0), 2000);
        // Large ones are reported one by one.
        progress.at(2001, 1 << 20);
        assert_eq!(member.entries(IoClass::Level0), 2001);
        JobProgress::new(None).at(u64::MAX - 1, 100);
    }

    #[test] // The simulation runs it on tasks of its own.
    fn the_device_is_measured_and_forgotten() {
        let (report, outcome) = sim::run(&sim::Options::new(1), || {
            let device = DeviceScheduler::of(None);
            let job = JobIo::new(&device.join(), IoClass::Flush);
            assert_eq!(device.rate(), 0.0);
            for _ in 0..20 {
                job.wrote(1_000_000);
                thread::sleep(Duration::from_millis(100));
                device.rate();
            }
            let rate = device.rate();
            assert!((9e6..11e6).contains(&rate), "10 MB/s were {rate}");
            // Most of the time a device is not saturated, so an idle minute says nothing.
            thread::sleep(Duration::from_secs(60));
            let later = device.rate();
            assert!(later > rate / 1.5, "{later} of {rate} after a minute of rest");
            thread::sleep(Duration::from_secs(540));
            let later = device.rate();
            assert!(later < rate / 5.0, "{later} of {rate} after ten minutes of rest");
        });
        assert!(outcome.is_ok() && report.stuck.is_none(), "{outcome:?}");
    }
}
