//! Write stalls: when writes are slowed or stopped, and by how much.
//!
//! Each column family has a cause, recomputed under the state lock whenever its memtables or files
//! change; the controller keeps the sum. Slowed writers pay for their bytes at a rate that follows
//! the compaction debt, with RocksDB's factors (`spec/seed-features.md` 2.1: near stop x0.6, debt
//! not shrinking x0.8, shrinking x1.25, leaving x1.4; floor 16 KiB/s). Beside them a policy may set
//! a cap (`set_cap`); then only its rate slows writes, and the rules still stop them.
//!
//! Thread safety: the counters are atomic and read by the leading writer without a lock; the rate
//! is changed under the state lock. It decides; waiting is the write path's business.

use pumice_base::narrow::saturating_u64;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::options::ColumnFamilyOptions;

/// Slowest rate writes are slowed to, bytes a second.
const DELAYED_RATE_MIN: u64 = 16 << 10;
/// Rate when neither `delayed_write_rate` nor a rate limiter says one. RocksDB: 16 MiB/s.
pub(crate) const DELAYED_RATE_DEFAULT: u64 = 16 << 20;
/// Under a cap credit is saved up for this long at most.
const CAP_BURST_MICROS: u64 = 5 * REFILL_MICROS;
/// Writes are not capped.
const NO_CAP: u64 = u64::MAX;
/// Credit is granted in steps of this many microseconds.
const REFILL_MICROS: u64 = 1024;

/// Why writes to a column family are slowed or stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum StallCause {
    /// They are not.
    #[default]
    None,
    /// Slowed: memtables wait for flush.
    MemtableDelay,
    /// Slowed: too many L0 files.
    L0Delay,
    /// Slowed: too many bytes wait for compaction.
    PendingBytesDelay,
    /// Stopped: as many memtables as allowed wait for flush.
    MemtableStop,
    /// Stopped: too many L0 files.
    L0Stop,
    /// Stopped: too many bytes wait for compaction.
    PendingBytesStop,
}

impl StallCause {
    /// Writes must wait until the cause is gone.
    pub fn is_stop(self) -> bool {
        matches!(self, Self::MemtableStop | Self::L0Stop | Self::PendingBytesStop)
    }
    /// Writes must wait for a compaction.
    pub fn waits_for_compaction(self) -> bool {
        matches!(self, Self::L0Stop | Self::PendingBytesStop)
    }
    /// Only compactions can end it.
    pub fn is_for_compaction(self) -> bool {
        !matches!(self, Self::None | Self::MemtableDelay | Self::MemtableStop)
    }
    /// Writes are slowed.
    pub fn is_delay(self) -> bool {
        matches!(self, Self::MemtableDelay | Self::L0Delay | Self::PendingBytesDelay)
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
pub fn stall_cause(inputs: &StallInputs, options: &ColumnFamilyOptions) -> StallCause {
    let imm = inputs.immutable_memtables;
    let max = options.max_write_buffer_number.max(1) as usize;
    let compacting = !options.disable_auto_compactions && !inputs.thresholds_off;
    let l0 = inputs.l0_files as i64;
    let over = |limit: u64| limit > 0 && inputs.pending_bytes >= limit;
    if imm >= max {
        return StallCause::MemtableStop;
    }
    if compacting && l0 >= i64::from(options.level0_stop_writes_trigger) {
        return StallCause::L0Stop;
    }
    if compacting && over(options.hard_pending_compaction_bytes_limit) {
        return StallCause::PendingBytesStop;
    }
    if inputs.only_stops {
        return StallCause::None;
    }
    let to_merge = options.min_write_buffer_number_to_merge.max(1) as usize;
    if max > 3 && imm >= max - 1 && imm > to_merge {
        return StallCause::MemtableDelay;
    }
    if compacting
        && options.level0_slowdown_writes_trigger >= 0
        && l0 >= i64::from(options.level0_slowdown_writes_trigger)
    {
        return StallCause::L0Delay;
    }
    if compacting && over(options.soft_pending_compaction_bytes_limit) {
        return StallCause::PendingBytesDelay;
    }
    StallCause::None
}

/// Writes are close enough to a stop that the rate must fall quickly.
fn near_stop(cause: StallCause, inputs: &StallInputs, options: &ColumnFamilyOptions) -> bool {
    let soft = options.soft_pending_compaction_bytes_limit;
    let hard = options.hard_pending_compaction_bytes_limit;
    match cause {
        StallCause::L0Delay => {
            inputs.l0_files as i64 >= i64::from(options.level0_stop_writes_trigger) - 2
        }
        StallCause::PendingBytesDelay => {
            hard > soft && inputs.pending_bytes > soft + (hard - soft) / 4 * 3
        }
        _ => false,
    }
}

/// See the module head.
pub(crate) struct WriteController {
    stopped: AtomicUsize,
    delayed: AtomicUsize,
    /// Bytes a second that a policy lets in; `NO_CAP` for all.
    cap: AtomicU64,
    rate_bytes_per_sec: AtomicU64,
    rate_max: AtomicU64,
    last_pending_bytes: AtomicU64,
    credit_bytes: AtomicU64,
    next_refill_micros: AtomicU64,
}

impl WriteController {
    /// No stall; delays start at `rate` bytes a second (0: the default).
    pub fn new(rate: u64) -> Self {
        let rate = if rate == 0 { DELAYED_RATE_DEFAULT } else { rate };
        WriteController {
            stopped: AtomicUsize::new(0),
            delayed: AtomicUsize::new(0),
            cap: AtomicU64::new(NO_CAP),
            rate_bytes_per_sec: AtomicU64::new(rate),
            rate_max: AtomicU64::new(rate),
            last_pending_bytes: AtomicU64::new(0),
            credit_bytes: AtomicU64::new(0),
            next_refill_micros: AtomicU64::new(0),
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
    /// Lets in no more than so many bytes a second, or all that the stall rules do.
    pub fn set_cap(&self, cap: Option<u64>) {
        let cap = cap.map_or(NO_CAP, |cap| cap.clamp(1, NO_CAP - 1));
        let before = self.cap.swap(cap, Ordering::Relaxed);
        if before == NO_CAP && cap != NO_CAP {
            self.credit_bytes.store(0, Ordering::Relaxed);
            self.next_refill_micros.store(0, Ordering::Relaxed);
        } else if cap < before {
            // A leader that takes credit at this moment may take the old one: a few milliseconds.
            let most = u128::from(cap) * u128::from(CAP_BURST_MICROS) / 1_000_000;
            self.credit_bytes.fetch_min(saturating_u64(most), Ordering::Relaxed);
        }
    }
    /// For how long unused credit is kept: under a cap, which may fall at any time, hardly.
    fn burst_micros(&self) -> u64 {
        if self.cap.load(Ordering::Relaxed) == NO_CAP { u64::MAX } else { CAP_BURST_MICROS }
    }
    fn rate(&self) -> u64 {
        let cap = self.cap.load(Ordering::Relaxed);
        match self.delayed.load(Ordering::Acquire) {
            0 => cap,
            _ => cap.min(self.rate_bytes_per_sec.load(Ordering::Relaxed)),
        }
    }
    /// Changes the rate at which delays start.
    pub fn set_max_rate(&self, rate: u64) {
        let rate = if rate == 0 { DELAYED_RATE_DEFAULT } else { rate };
        self.rate_max.store(rate, Ordering::Relaxed);
        self.rate_bytes_per_sec.store(rate, Ordering::Relaxed);
    }

    /// A column family goes from `old` to its new cause; the new cause is returned.
    /// Requires: state lock held.
    pub fn update(
        &self,
        old: StallCause,
        inputs: &StallInputs,
        options: &ColumnFamilyOptions,
    ) -> StallCause {
        let new = stall_cause(inputs, options);
        if new.is_stop() {
            self.stopped.fetch_add(1, Ordering::AcqRel);
        }
        if new.is_delay() {
            self.adapt_rate(old, new, inputs, options);
            self.delayed.fetch_add(1, Ordering::AcqRel);
        } else if old.is_delay() && new == StallCause::None {
            self.scale_rate(14, 10);
        }
        self.forget(old);
        self.last_pending_bytes.store(inputs.pending_bytes, Ordering::Relaxed);
        new
    }

    /// A column family with this cause is gone. Requires: state lock held.
    pub fn forget(&self, cause: StallCause) {
        if cause.is_stop() {
            self.stopped.fetch_sub(1, Ordering::AcqRel);
        }
        if cause.is_delay() {
            self.delayed.fetch_sub(1, Ordering::AcqRel);
        }
    }

    fn adapt_rate(
        &self,
        old: StallCause,
        new: StallCause,
        inputs: &StallInputs,
        options: &ColumnFamilyOptions,
    ) {
        if options.disable_auto_compactions {
            // No debt to follow: the rate is what the user said.
            self.rate_bytes_per_sec.store(self.rate_max.load(Ordering::Relaxed), Ordering::Relaxed);
            return;
        }
        if old == StallCause::None {
            self.credit_bytes.store(0, Ordering::Relaxed);
            self.next_refill_micros.store(0, Ordering::Relaxed);
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

    /// Microseconds a low-priority write of `bytes` has to wait while compaction is behind: a
    /// quarter of the rate of slowed writes.
    pub fn low_priority_micros(&self, bytes: u64) -> u64 {
        let rate = (self.rate_bytes_per_sec.load(Ordering::Relaxed) / 4).max(1);
        saturating_u64(u128::from(bytes) * 1_000_000 / u128::from(rate))
    }

    /// Microseconds a write of `bytes` has to wait now. Only the leading writer calls it.
    pub fn delay_micros(&self, now_micros: u64, bytes: u64) -> u64 {
        if self.is_stopped() || !self.is_delayed() {
            return 0;
        }
        let rate = self.rate().max(1);
        let mut credit = self.credit_bytes.load(Ordering::Relaxed);
        if credit >= bytes {
            self.credit_bytes.store(credit - bytes, Ordering::Relaxed);
            return 0;
        }
        let mut refill = self.next_refill_micros.load(Ordering::Relaxed);
        if refill == 0 {
            refill = now_micros;
        }
        if refill <= now_micros {
            let elapsed = (now_micros - refill + REFILL_MICROS).min(self.burst_micros());
            credit += saturating_u64(u128::from(elapsed) * u128::from(rate) / 1_000_000);
            refill = now_micros + REFILL_MICROS;
        }
        if credit >= bytes {
            self.credit_bytes.store(credit - bytes, Ordering::Relaxed);
            self.next_refill_micros.store(refill, Ordering::Relaxed);
            return 0;
        }
        let missing = u128::from(bytes - credit);
        let wait = saturating_u64(missing * 1_000_000 / u128::from(rate));
        self.credit_bytes.store(0, Ordering::Relaxed);
        let next = refill + wait;
        self.next_refill_micros.store(next, Ordering::Relaxed);
        next.saturating_sub(now_micros).max(REFILL_MICROS)
    }
}

#[cfg(test)]
mod tests;
