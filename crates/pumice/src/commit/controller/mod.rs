//! Write stalls: when writes are slowed or stopped, and by how much.
//!
//! Each column family has a stall state, recomputed under the state lock whenever its memtables or
//! files change; the controller keeps the sum. Slowed writers pay for their bytes at a rate that
//! follows the compaction debt, with RocksDB's factors (near stop x0.6, debt not shrinking x0.8,
//! shrinking x1.25, leaving x1.4; floor 16 KiB/s). A policy may also set a cap (`set_cap`); then
//! only the cap's rate slows writes, and the rules still stop them.
//!
//! Thread safety: the counters are atomic and read by the leading writer without a lock; the rate
//! is changed under the state lock, and what only the leader may do takes [`Leadership`]. It only
//! decides; the write path does the waiting.

use pumice_base::narrow::saturating_u64;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::commit::queue::Leadership;
use crate::options::{ColumnFamilyOptions, DELAYED_WRITE_RATE};
use crate::stats::cf_stats::StallCause;

/// Slowest rate writes are slowed to, bytes a second.
const DELAYED_RATE_MIN: u64 = 16 << 10;
/// Under a cap, unused credit is kept for at most this long.
const CAP_BURST_MICROS: u64 = 5000;
/// Writes are not capped.
const NO_CAP: u64 = u64::MAX;
/// Credit is granted in steps of this many microseconds, and no wait is shorter. RocksDB's is 1024:
/// small writes then go through in bursts a millisecond apart, which becomes their p99.
const REFILL_MICROS: u64 = 250;

/// Whether writes to a column family are slowed or stopped, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum WriteStall {
    /// Neither.
    #[default]
    None,
    /// Writes are slowed.
    Delayed(StallCause),
    /// Writes wait until the cause is gone.
    Stopped(StallCause),
}

impl WriteStall {
    /// Why, if writes are slowed or stopped.
    pub fn cause(self) -> Option<StallCause> {
        match self {
            Self::None => None,
            Self::Delayed(cause) | Self::Stopped(cause) => Some(cause),
        }
    }
    /// Writes must wait until the cause is gone.
    pub fn is_stop(self) -> bool {
        matches!(self, Self::Stopped(_))
    }
    /// Writes are slowed.
    pub fn is_delay(self) -> bool {
        matches!(self, Self::Delayed(_))
    }
    /// Writes must wait for a compaction.
    pub fn waits_for_compaction(self) -> bool {
        self.is_stop() && self.is_for_compaction()
    }
    /// Only compactions can end it.
    pub fn is_for_compaction(self) -> bool {
        self.cause().is_some_and(|cause| cause != StallCause::MemtableLimit)
    }
}

/// The numbers of a column family that decide its stall state.
#[derive(Clone, Copy, Debug, Default)]
pub struct StallInputs {
    /// Memtables waiting for flush.
    pub immutable_memtables: usize,
    /// Files in L0; with universal compaction all sorted runs.
    pub l0_files: usize,
    /// Estimated bytes waiting for compaction.
    pub pending_bytes: u64,
    /// L0 and pending bytes neither slow nor stop writes, as with `disable_auto_compactions`.
    pub thresholds_off: bool,
    /// Nothing slows writes by RocksDB's rules: a policy caps them.
    pub only_stops: bool,
}

/// The stall state of a column family with these numbers (RocksDB's order of tests).
pub fn write_stall(inputs: &StallInputs, options: &ColumnFamilyOptions) -> WriteStall {
    let imm = inputs.immutable_memtables;
    let max = options.max_write_buffer_number.max(1) as usize;
    let compacting = !options.disable_auto_compactions && !inputs.thresholds_off;
    let l0 = inputs.l0_files as i64;
    let over = |limit: u64| limit > 0 && inputs.pending_bytes >= limit;
    if imm >= max {
        return WriteStall::Stopped(StallCause::MemtableLimit);
    }
    if compacting && l0 >= i64::from(options.level0_stop_writes_trigger) {
        return WriteStall::Stopped(StallCause::L0FileCountLimit);
    }
    if compacting && over(options.hard_pending_compaction_bytes_limit) {
        return WriteStall::Stopped(StallCause::PendingCompactionBytes);
    }
    if inputs.only_stops {
        return WriteStall::None;
    }
    let to_merge = options.min_write_buffer_number_to_merge.max(1) as usize;
    if max > 3 && imm >= max - 1 && imm > to_merge {
        return WriteStall::Delayed(StallCause::MemtableLimit);
    }
    if compacting
        && options.level0_slowdown_writes_trigger >= 0
        && l0 >= i64::from(options.level0_slowdown_writes_trigger)
    {
        return WriteStall::Delayed(StallCause::L0FileCountLimit);
    }
    if compacting && over(options.soft_pending_compaction_bytes_limit) {
        return WriteStall::Delayed(StallCause::PendingCompactionBytes);
    }
    WriteStall::None
}

/// Whether writes are so close to a stop that the rate must fall quickly.
fn near_stop(stall: WriteStall, inputs: &StallInputs, options: &ColumnFamilyOptions) -> bool {
    let soft = options.soft_pending_compaction_bytes_limit;
    let hard = options.hard_pending_compaction_bytes_limit;
    match stall {
        WriteStall::Delayed(StallCause::L0FileCountLimit) => {
            inputs.l0_files as i64 >= i64::from(options.level0_stop_writes_trigger) - 2
        }
        WriteStall::Delayed(StallCause::PendingCompactionBytes) => {
            hard > soft && inputs.pending_bytes > soft + (hard - soft) / 4 * 3
        }
        _ => false,
    }
}

/// See the module head.
pub(crate) struct WriteController {
    stopped: AtomicUsize,
    delayed: AtomicUsize,
    /// Bytes a second that a policy admits; `NO_CAP` for no limit.
    cap: AtomicU64,
    rate_bytes_per_sec: AtomicU64,
    rate_max: AtomicU64,
    last_pending_bytes: AtomicU64,
    credit_bytes: AtomicU64,
    /// Up to when credit was granted; 0 before the first time.
    refilled_micros: AtomicU64,
    /// Bytes of followers, which are not paid for yet.
    owed_bytes: AtomicU64,
    /// Most bytes of followers in one group since a policy last took this number.
    most_unpaid_bytes: AtomicU64,
}

impl WriteController {
    /// No stall; delays start at `rate` bytes a second (0: the default).
    pub fn new(rate: u64) -> Self {
        let rate = if rate == 0 { DELAYED_WRITE_RATE } else { rate };
        WriteController {
            stopped: AtomicUsize::new(0),
            delayed: AtomicUsize::new(0),
            cap: AtomicU64::new(NO_CAP),
            rate_bytes_per_sec: AtomicU64::new(rate),
            rate_max: AtomicU64::new(rate),
            last_pending_bytes: AtomicU64::new(0),
            credit_bytes: AtomicU64::new(0),
            refilled_micros: AtomicU64::new(0),
            owed_bytes: AtomicU64::new(0),
            most_unpaid_bytes: AtomicU64::new(0),
        }
    }

    /// Some column family stops writes.
    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire) > 0
    }
    /// Some column family slows writes, or a policy caps them.
    #[inline]
    pub fn is_delayed(&self) -> bool {
        self.delayed.load(Ordering::Acquire) > 0 || self.cap.load(Ordering::Relaxed) != NO_CAP
    }
    /// The present rate of slowed writes; 0 when they are not slowed.
    pub fn delayed_rate(&self) -> u64 {
        if self.is_delayed() { self.rate() } else { 0 }
    }
    /// Admits at most this many bytes a second; None leaves it to the stall rules.
    pub fn set_cap(&self, cap: Option<u64>) {
        let cap = cap.map_or(NO_CAP, |cap| cap.clamp(1, NO_CAP - 1));
        let before = self.cap.swap(cap, Ordering::Relaxed);
        if before == NO_CAP && cap != NO_CAP {
            self.start_paying();
        } else if cap < before {
            // A leader that takes credit at this moment may take the old one: a few milliseconds.
            let most = u128::from(cap) * u128::from(CAP_BURST_MICROS) / 1_000_000;
            self.credit_bytes.fetch_min(saturating_u64(most), Ordering::Relaxed);
        }
    }
    /// Delays begin, with neither credit nor debt.
    fn start_paying(&self) {
        self.credit_bytes.store(0, Ordering::Relaxed);
        self.refilled_micros.store(0, Ordering::Relaxed);
        self.owed_bytes.store(0, Ordering::Relaxed);
    }
    fn rate(&self) -> u64 {
        self.rate_and_burst().0
    }
    /// Bytes a second, and for how many microseconds unused credit is kept: under a cap, which may
    /// fall at any time, only briefly.
    fn rate_and_burst(&self) -> (u64, u64) {
        let cap = self.cap.load(Ordering::Relaxed);
        let rate = match self.delayed.load(Ordering::Acquire) {
            0 => cap,
            _ => cap.min(self.rate_bytes_per_sec.load(Ordering::Relaxed)),
        };
        (rate.max(1), if cap == NO_CAP { u64::MAX } else { CAP_BURST_MICROS })
    }
    /// Changes the rate at which delays start.
    pub fn set_max_rate(&self, rate: u64) {
        let rate = if rate == 0 { DELAYED_WRITE_RATE } else { rate };
        self.rate_max.store(rate, Ordering::Relaxed);
        self.rate_bytes_per_sec.store(rate, Ordering::Relaxed);
    }

    /// Brings `stall`, the stall state of one column family, up to date.
    pub fn update(
        &self,
        stall: &mut WriteStall,
        inputs: &StallInputs,
        options: &ColumnFamilyOptions,
    ) {
        let old = *stall;
        let new = write_stall(inputs, options);
        if new.is_stop() {
            self.stopped.fetch_add(1, Ordering::AcqRel);
        }
        if new.is_delay() {
            self.adapt_rate(old, new, inputs, options);
            self.delayed.fetch_add(1, Ordering::AcqRel);
        } else if old.is_delay() && new == WriteStall::None {
            self.scale_rate(14, 10);
        }
        self.forget(stall);
        self.last_pending_bytes.store(inputs.pending_bytes, Ordering::Relaxed);
        *stall = new;
    }

    /// The column family with this stall state is gone; it no longer holds writes back.
    pub fn forget(&self, stall: &mut WriteStall) {
        let stall = std::mem::replace(stall, WriteStall::None);
        if stall.is_stop() {
            self.stopped.fetch_sub(1, Ordering::AcqRel);
        }
        if stall.is_delay() {
            self.delayed.fetch_sub(1, Ordering::AcqRel);
        }
    }

    fn adapt_rate(
        &self,
        old: WriteStall,
        new: WriteStall,
        inputs: &StallInputs,
        options: &ColumnFamilyOptions,
    ) {
        if options.disable_auto_compactions {
            // No debt to follow: the rate is the user's.
            self.rate_bytes_per_sec.store(self.rate_max.load(Ordering::Relaxed), Ordering::Relaxed);
            return;
        }
        if old == WriteStall::None {
            self.start_paying();
            return;
        }
        let last = self.last_pending_bytes.load(Ordering::Relaxed);
        if old.is_stop() || near_stop(new, inputs, options) {
            self.scale_rate(6, 10);
        } else if last > 0 && inputs.pending_bytes >= last {
            self.scale_rate(8, 10);
        } else if inputs.pending_bytes < last {
            self.scale_rate(125, 100);
        }
    }

    fn scale_rate(&self, numerator: u64, denominator: u64) {
        let max = self.rate_max.load(Ordering::Relaxed);
        let rate = self.rate_bytes_per_sec.load(Ordering::Relaxed);
        let scaled =
            saturating_u64(u128::from(rate) * u128::from(numerator) / u128::from(denominator));
        let floor = DELAYED_RATE_MIN.min(max);
        self.rate_bytes_per_sec.store(scaled.clamp(floor, max), Ordering::Relaxed);
    }

    /// Microseconds a low-priority write of `bytes` has to wait while compaction lags: a quarter of
    /// the rate of slowed writes.
    pub fn low_priority_micros(&self, bytes: u64) -> u64 {
        let rate = (self.rate_bytes_per_sec.load(Ordering::Relaxed) / 4).max(1);
        saturating_u64(u128::from(bytes) * 1_000_000 / u128::from(rate))
    }

    /// A group wrote this many bytes that its leader did not pay for: the next leader does if
    /// writes are slowed.
    pub fn owe(&self, _: &Leadership, bytes: u64) {
        if self.is_delayed() {
            self.owed_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        if bytes > self.most_unpaid_bytes.load(Ordering::Relaxed) {
            self.most_unpaid_bytes.fetch_max(bytes, Ordering::Relaxed);
        }
    }

    /// Most bytes that one group wrote before they were paid for, since the last call.
    pub fn take_most_unpaid(&self) -> u64 {
        self.most_unpaid_bytes.swap(0, Ordering::Relaxed)
    }

    /// Whether a write of `bytes` could go ahead now without waiting.
    pub fn affords(&self, _: &Leadership, now_micros: u64, bytes: u64) -> bool {
        let wanted = bytes.saturating_add(self.owed_bytes.load(Ordering::Relaxed));
        !self.is_delayed() || self.credit(now_micros) >= wanted
    }

    /// Pays for `bytes`, and for what others left unpaid, as far as there is credit. Returns the
    /// bytes still to be paid, for [`WriteController::pay_rest`]; 0 if writes are not slowed.
    pub fn pay(&self, leader: &Leadership, now_micros: u64, bytes: u64) -> u64 {
        let owed = self.owed_bytes.swap(0, Ordering::Relaxed);
        self.pay_rest(leader, now_micros, bytes.saturating_add(owed))
    }

    /// As [`WriteController::pay`], later, for bytes that it returned as still to be paid.
    pub fn pay_rest(&self, _: &Leadership, now_micros: u64, bytes: u64) -> u64 {
        if self.is_stopped() || !self.is_delayed() {
            return 0;
        }
        let credit = self.credit(now_micros);
        let paid = credit.min(bytes);
        self.credit_bytes.store(credit - paid, Ordering::Relaxed);
        bytes - paid
    }

    /// Microseconds until there is credit for `bytes` more, at the present rate.
    pub fn wait_micros(&self, bytes: u64) -> u64 {
        let micros = (u128::from(bytes) * 1_000_000).div_ceil(u128::from(self.rate()));
        saturating_u64(micros).max(REFILL_MICROS)
    }

    /// The credit, including what has been granted since the last call.
    fn credit(&self, now_micros: u64) -> u64 {
        let mut credit = self.credit_bytes.load(Ordering::Relaxed);
        let refilled = match self.refilled_micros.load(Ordering::Relaxed) {
            0 => now_micros.saturating_sub(REFILL_MICROS),
            refilled => refilled,
        };
        let elapsed = now_micros.saturating_sub(refilled);
        if elapsed >= REFILL_MICROS {
            let (rate, burst) = self.rate_and_burst();
            let granted =
                |micros: u64| saturating_u64(u128::from(micros) * u128::from(rate) / 1_000_000);
            credit = credit.saturating_add(granted(elapsed)).min(granted(burst));
            self.credit_bytes.store(credit, Ordering::Relaxed);
            self.refilled_micros.store(now_micros.max(1), Ordering::Relaxed);
        }
        credit
    }
}

#[cfg(test)]
mod tests;
