//! Stall states and delays of writers.
#![allow(clippy::unwrap_used)]
use super::*;
use crate::commit::queue::WriteQueue;

fn leader() -> Leadership {
    WriteQueue::new(1).try_lead().unwrap()
}

fn options() -> ColumnFamilyOptions {
    ColumnFamilyOptions {
        max_write_buffer_number: 4,
        min_write_buffer_number_to_merge: 1,
        level0_slowdown_writes_trigger: 20,
        level0_stop_writes_trigger: 36,
        soft_pending_compaction_bytes_limit: 1000,
        hard_pending_compaction_bytes_limit: 2000,
        ..ColumnFamilyOptions::default()
    }
}

fn inputs(immutable_memtables: usize, l0_files: usize, pending_bytes: u64) -> StallInputs {
    StallInputs {
        immutable_memtables,
        l0_files,
        pending_bytes,
        thresholds_off: false,
        only_stops: false,
    }
}

#[pumice_test_macros::test]
fn causes_follow_the_documented_order() {
    use StallCause::PendingCompactionBytes as Debt;
    use StallCause::{L0FileCountLimit as L0, MemtableLimit as Memtables};
    use WriteStall::*;
    let plain = options();
    let manual = ColumnFamilyOptions { disable_auto_compactions: true, ..options() };
    let three = ColumnFamilyOptions { max_write_buffer_number: 3, ..options() };
    let merging = ColumnFamilyOptions { min_write_buffer_number_to_merge: 3, ..options() };
    let unlimited = ColumnFamilyOptions {
        soft_pending_compaction_bytes_limit: 0,
        hard_pending_compaction_bytes_limit: 0,
        ..options()
    };
    let unstopped = ColumnFamilyOptions { hard_pending_compaction_bytes_limit: 0, ..options() };
    let never = ColumnFamilyOptions { level0_slowdown_writes_trigger: -1, ..options() };
    let cases = [
        (&plain, inputs(0, 0, 0), None),
        (&plain, inputs(2, 19, 999), None),
        (&plain, inputs(4, 36, 2000), Stopped(Memtables)),
        (&plain, inputs(3, 36, 2000), Stopped(L0)),
        (&plain, inputs(3, 35, 2000), Stopped(Debt)),
        (&plain, inputs(3, 35, 1999), Delayed(Memtables)),
        (&plain, inputs(2, 35, 1999), Delayed(L0)),
        (&plain, inputs(2, 19, 1999), Delayed(Debt)),
        (&manual, inputs(2, 100, 5000), None),
        (&manual, inputs(3, 100, 5000), Delayed(Memtables)),
        (&manual, inputs(4, 100, 5000), Stopped(Memtables)),
        (&three, inputs(2, 0, 0), None),
        (&three, inputs(3, 0, 0), Stopped(Memtables)),
        (&merging, inputs(3, 0, 0), None),
        (&unlimited, inputs(0, 0, u64::MAX), None),
        (&unstopped, inputs(0, 0, u64::MAX), Delayed(Debt)),
        (&never, inputs(0, 35, 0), None),
        (&never, inputs(0, 36, 0), Stopped(L0)),
    ];
    for (n, (options, inputs, stall)) in cases.into_iter().enumerate() {
        assert_eq!(write_stall(&inputs, options), stall, "case {n}: {inputs:?}");
    }
}

#[pumice_test_macros::test]
fn families_add_up_and_are_forgotten() {
    let controller = WriteController::new(0);
    let o = options();
    let (mut a, mut b) = (WriteStall::None, WriteStall::None);
    controller.update(&mut a, &inputs(4, 0, 0), &o);
    controller.update(&mut b, &inputs(0, 20, 0), &o);
    assert!(controller.is_stopped() && controller.is_delayed());
    // The same cause again counts once.
    controller.update(&mut a, &inputs(4, 0, 0), &o);
    controller.update(&mut a, &inputs(0, 0, 0), &o);
    assert!(!controller.is_stopped() && controller.is_delayed());
    controller.forget(&mut b);
    controller.forget(&mut a);
    assert!(a == WriteStall::None && b == WriteStall::None);
    assert!(!controller.is_delayed());
    assert_eq!(controller.delayed_rate(), 0);
}

/// RocksDB's factors.
#[pumice_test_macros::test]
fn the_rate_follows_the_debt() {
    let rate = 10_000_000;
    let o = options();
    let controller = WriteController::new(rate);
    let step = |old: WriteStall, at: StallInputs, wanted: u64| {
        let mut new = old;
        controller.update(&mut new, &at, &o);
        let rate = controller.rate_bytes_per_sec.load(Ordering::Relaxed);
        assert_eq!(rate, wanted, "{old:?} -> {new:?} {at:?}");
        new
    };
    let cause = step(WriteStall::None, inputs(0, 0, 1100), rate);
    let cause = step(cause, inputs(0, 0, 1100), rate / 10 * 8);
    let cause = step(cause, inputs(0, 0, 1050), rate / 10 * 8 * 125 / 100);
    let less = controller.delayed_rate() * 6 / 10;
    let cause = step(cause, inputs(0, 0, 1800), less);
    let cause = step(cause, inputs(0, 0, 2000), less);
    assert!(cause.is_stop());
    let less = less * 6 / 10;
    let cause = step(cause, inputs(0, 0, 1100), less);
    let cause = step(cause, inputs(0, 0, 0), less * 14 / 10);
    // Never above what the user allows, never below the floor.
    let mut cause = cause;
    for _ in 0..20 {
        controller.update(&mut cause, &inputs(0, 0, 1100), &o);
        controller.update(&mut cause, &inputs(0, 0, 0), &o);
    }
    assert_eq!(controller.rate_bytes_per_sec.load(Ordering::Relaxed), rate);
    for _ in 0..60 {
        controller.update(&mut cause, &inputs(0, 35, 0), &o);
    }
    assert_eq!(controller.delayed_rate(), DELAYED_RATE_MIN);
}

#[pumice_test_macros::test]
fn memtable_delays_without_debt_keep_the_rate() {
    let o = options();
    let controller = WriteController::new(1 << 20);
    let mut cause = WriteStall::None;
    for _ in 0..10 {
        controller.update(&mut cause, &inputs(3, 0, 0), &o);
    }
    assert_eq!(controller.delayed_rate(), 1 << 20);
}

/// Waits as a writer does; the time when all is paid.
fn waited(controller: &WriteController, mut now: u64, bytes: u64) -> u64 {
    let mut unpaid = controller.pay(&leader(), now, bytes);
    while unpaid > 0 {
        now += controller.wait_micros(unpaid).min(REFILL_MICROS);
        unpaid = controller.pay_rest(&leader(), now, unpaid);
    }
    now
}

/// A writer that waits that long does not exceed the rate by more than one refill.
#[pumice_test_macros::test]
fn delays_hold_the_rate() {
    let rate = 1 << 20;
    let controller = WriteController::new(rate);
    assert_eq!(controller.pay(&leader(), 0, 1 << 30), 0, "no writer is slowed");
    let mut stall = WriteStall::None;
    controller.update(&mut stall, &inputs(0, 20, 0), &options());
    let mut rng = pumice_base::random::Rng::new(1);
    let start = 1_000_000;
    let (mut now, mut bytes) = (start, 0u64);
    for _ in 0..5000 {
        let size = 1 + rng.uniform(4000);
        now = waited(&controller, now, size) + rng.uniform(30);
        bytes += size;
    }
    let allowed = (now - start + 2 * REFILL_MICROS) as f64 * rate as f64 / 1e6;
    let ratio = bytes as f64 / allowed;
    assert!((0.5..=1.02).contains(&ratio), "{bytes} bytes, {allowed} allowed");
}

/// A writer that waits at a low rate continues at a higher one as soon as it is set.
#[pumice_test_macros::test]
fn a_cap_that_rises_is_seen_by_who_waits() {
    let controller = WriteController::new(0);
    controller.set_cap(Some(16 << 10));
    let start = 1_000_000;
    let unpaid = controller.pay(&leader(), start, 1 << 20);
    assert!(controller.wait_micros(unpaid) > 60_000_000);
    controller.set_cap(Some(100 << 20));
    let rest = controller.pay_rest(&leader(), start + REFILL_MICROS, unpaid);
    let granted = (100 << 20) * REFILL_MICROS / 1_000_000;
    assert!(unpaid - rest >= granted, "{rest} of {unpaid}");
    assert!(controller.wait_micros(rest) < 20_000);
}

/// What the followers of a group wrote is paid for by the next writer.
#[pumice_test_macros::test]
fn followers_are_paid_for() {
    let controller = WriteController::new(0);
    controller.set_cap(Some(1_000_000));
    let mut now = waited(&controller, 1_000_000, 1000);
    let start = now;
    for _ in 0..100 {
        controller.owe(&leader(), 9_000);
        now = waited(&controller, now, 1_000);
    }
    assert!((990_000..1_010_000).contains(&(now - start)), "{} us for 1 MB", now - start);
}

/// A policy learns the most bytes that came at once, capped or not, since it last asked.
#[pumice_test_macros::test]
fn the_largest_group_is_reported() {
    let controller = WriteController::new(0);
    controller.owe(&leader(), 7_000);
    controller.set_cap(Some(1_000_000));
    controller.owe(&leader(), 9_000);
    controller.owe(&leader(), 8_000);
    assert_eq!((controller.take_most_unpaid(), controller.take_most_unpaid()), (9_000, 0));
}

/// A write that does not want to wait takes nothing from those who do.
#[pumice_test_macros::test]
fn who_is_refused_does_not_pay() {
    let controller = WriteController::new(0);
    controller.set_cap(Some(1_000_000));
    let now = waited(&controller, 1_000_000, 100_000);
    assert!((0..1000).all(|_| !controller.affords(&leader(), now, 10_000)));
    let end = waited(&controller, now, 10_000);
    assert!(end - now < 12_000, "{} us", end - now);
    assert!(controller.affords(&leader(), end + 20_000, 4_000));
}
