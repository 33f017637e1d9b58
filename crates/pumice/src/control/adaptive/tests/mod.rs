//! The policy on a modelled device: it never stops writes while debt can be paid, and every rule is
//! needed for that.
#![allow(clippy::unwrap_used)]

mod model;

use self::model::{DEEP_COST, L0_COST, Load, MB, Outcome, ROCKSDB, Shape, run};
use super::*;
use pumice_base::random::Rng;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Seconds that the policy has to learn what it deals with.
const SETTLING: usize = 100;

/// What the device can bear forever: each byte is logged, flushed and compacted.
fn sustainable(device: f64) -> f64 {
    device / (2.0 + L0_COST + DEEP_COST)
}

/// A device and a load that is too much for it.
#[derive(Debug)]
struct Peak {
    shape: Shape,
    device: f64,
    offered: f64,
}

fn draw(rng: &mut Rng) -> Peak {
    let memtable = [8.0, 16.0, 64.0][rng.uniform(3) as usize] * MB;
    let soft = memtable * (100.0 + rng.uniform(900) as f64);
    let shape = Shape {
        memtable,
        memtables: 2.0 + rng.uniform(7) as f64,
        soft,
        hard: soft * (2.0 + rng.uniform(3) as f64),
        slots: 2 + rng.uniform(3) as usize,
        ..ROCKSDB
    };
    let device = memtable * (3.0 + rng.uniform(30) as f64);
    Peak { shape, device, offered: sustainable(device) * (1.2 + rng.uniform(60) as f64 / 10.0) }
}

/// What went wrong during a peak, if anything.
fn judge(peak: &Peak, outcome: &Outcome) -> Option<String> {
    let bearable = sustainable(peak.device);
    let settled = &outcome.by_second[SETTLING..];
    let mean = settled.iter().sum::<f64>() / settled.len() as f64;
    let windows = settled.windows(5).map(|w| w.iter().sum::<f64>() / 5.0);
    let worst = windows.fold(f64::INFINITY, f64::min);
    let wrong = if outcome.stopped_seconds > 0.0 {
        "writes stopped"
    } else if outcome.max_l0 >= 36.0 || outcome.max_debt >= peak.shape.hard {
        "a stock was full"
    } else if mean < 0.9 * bearable {
        "the device could have borne more"
    } else if worst < 0.5 * bearable {
        "a window of five seconds was too slow"
    } else if outcome.starved_flush > 1.0 || outcome.starved_deep > 30.0 {
        "a class starved"
    } else {
        return None;
    };
    Some(format!("{wrong}: mean {mean:.0}, worst {worst:.0} of {bearable:.0}; {outcome:?}"))
}

fn lasting_peak(policy: &mut dyn Policy, peak: &Peak) -> Outcome {
    let load = Load {
        seconds: 400.0,
        offered: &|_| peak.offered,
        device: &|_| peak.device,
        full: &|_| false,
    };
    run(policy, peak.shape, &load)
}

#[pumice_test_macros::test]
fn a_lasting_peak_bends_writes_and_never_stops_them() {
    // In the last three a long merge inside L0 and a large debt want the device at the same time.
    for seed in (0..60).chain([131, 286, 547]) {
        let peak = draw(&mut Rng::new(seed));
        let outcome = lasting_peak(&mut Adaptive::default(), &peak);
        let late: f64 = outcome.by_second[300..].iter().sum::<f64>() / 100.0;
        println!(
            "peak {seed}: settles at {:.3} of what is bearable",
            late / sustainable(peak.device)
        );
        let wrong = judge(&peak, &outcome);
        assert!(wrong.is_none(), "seed {seed}: {peak:?}: {}", wrong.unwrap());
    }
}

/// A load that the device bears is let through as it is.
#[pumice_test_macros::test]
fn what_the_device_bears_is_not_slowed() {
    for seed in 0..60 {
        let mut peak = draw(&mut Rng::new(seed));
        peak.offered = 0.7 * sustainable(peak.device);
        let outcome = lasting_peak(&mut Adaptive::default(), &peak);
        let let_in = outcome.admitted / (peak.offered * 400.0);
        assert!(let_in > 0.995, "seed {seed}: {let_in} of {peak:?}: {outcome:?}");
    }
}

/// A load of large values, whose jobs progress in large steps, is not slowed either.
#[pumice_test_macros::test]
fn large_values_slow_nothing() {
    for seed in 0..60 {
        let mut peak = draw(&mut Rng::new(seed));
        peak.shape.grain = 0.5 * peak.shape.memtable;
        peak.offered = 0.7 * sustainable(peak.device);
        let outcome = lasting_peak(&mut Adaptive::default(), &peak);
        let let_in = outcome.admitted / (peak.offered * 400.0);
        assert!(let_in > 0.99, "seed {seed}: {let_in} of {peak:?}: {outcome:?}");
    }
}

/// Nor is a load slowed whose files are small, or late: the memory of hot keys, compressed values,
/// a device that syncs slowly. How long jobs take does not depend only on the bytes they write.
#[pumice_test_macros::test]
fn small_files_and_slow_syncs_slow_nothing() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let mut peak = draw(&mut rng);
        peak.shape.memtables = peak.shape.memtables.max(3.0);
        peak.shape.left = [0.001, 0.02, 0.25][rng.uniform(3) as usize];
        peak.shape.sync = [0.0, 0.1, 0.3][rng.uniform(3) as usize];
        // A flush takes half a second, and its sync; memory fills in two.
        peak.shape.pace = 2.0 * peak.shape.memtable;
        peak.device = f64::INFINITY;
        peak.offered = 0.5 * peak.shape.memtable;
        let outcome = lasting_peak(&mut Adaptive::default(), &peak);
        let let_in = outcome.admitted / (peak.offered * 400.0);
        assert!(let_in > 0.995, "seed {seed}: {let_in} of {peak:?}");
    }
}

/// The first memtables of a database that has never seen a flush are not slowed either.
#[pumice_test_macros::test]
fn the_first_flush_slows_nothing() {
    let shape = Shape { memtables: 2.0, pace: 800.0 * MB, ..ROCKSDB };
    let load =
        Load { seconds: 1.0, offered: &|_| 400.0 * MB, device: &|_| 4000.0 * MB, full: &|_| false };
    let outcome = run(&mut Adaptive::default(), shape, &load);
    let let_in = outcome.admitted / (400.0 * MB);
    assert!(let_in > 0.99, "{let_in}: {outcome:?}");
}

/// A writer that is as fast as flushes, or faster, gets nearly what it would without a cap: ticks
/// find the end of a flush, and a cap that fell for it is soon what it was.
#[pumice_test_macros::test]
fn a_writer_as_fast_as_flushes_gets_what_they_bear() {
    for memtables in [2.0, 3.0, 6.0] {
        for offered in [400.0, 640.0, 800.0, 1200.0, 2400.0] {
            let shape =
                Shape { memtables, pace: 800.0 * MB, soft: 1e6 * MB, hard: 4e6 * MB, ..ROCKSDB };
            let load = Load {
                seconds: 4.0,
                offered: &|_| offered * MB,
                device: &|_| 1e6 * MB,
                full: &|_| false,
            };
            let admitted = |change| {
                let mut policy = Blind { policy: Adaptive::default(), hide: |_| {}, change };
                run(&mut policy, shape, &load).admitted
            };
            let share = admitted(|_| {}) / admitted(|grants| grants.cap = None);
            println!("{memtables} memtables, {offered} MB/s: {share:.3}");
            assert!(share > 0.94, "{memtables} memtables, {offered} MB/s: {share}");
        }
    }
}

/// What the device bears for a moment is not slowed because there was nothing to do before.
#[pumice_test_macros::test]
fn rests_do_not_count_as_work() {
    for seed in 0..60 {
        let peak = draw(&mut Rng::new(seed));
        let burst = 0.7 * sustainable(peak.device);
        let offered = |t: f64| if t % 100.0 < 20.0 { burst } else { 0.0 };
        let load =
            Load { seconds: 1000.0, offered: &offered, device: &|_| peak.device, full: &|_| false };
        let outcome = run(&mut Adaptive::default(), peak.shape, &load);
        let let_in = outcome.admitted / (burst * 200.0);
        assert!(let_in > 0.99, "seed {seed}: {let_in} of {peak:?}");
    }
}

/// Compactions of L0 rewrite much of the level below, and deeper ones run at the same time: what
/// can wait does so, in an L0 whose files are merged, and in no other way does the peak pass.
#[pumice_test_macros::test]
fn a_peak_passes_a_base_level_that_is_wide() {
    for (base, share) in [(0.0, 0.99), (10.0, 0.98), (20.0, 0.95)] {
        let shape = Shape {
            memtable: 1.34 * MB,
            soft: 1374.0 * MB,
            hard: 5498.0 * MB,
            base: base * MB,
            ..ROCKSDB
        };
        let offered = |t: f64| if t % 70.0 < 50.0 { 4.0 * MB } else { 18.0 * MB };
        let load =
            Load { seconds: 70.0, offered: &offered, device: &|_| 107.0 * MB, full: &|_| false };
        let peak = |change| {
            let mut policy = Blind { policy: Adaptive::default(), hide: |_| {}, change };
            let outcome = run(&mut policy, shape, &load);
            let let_in = outcome.by_second[50..70].iter().sum::<f64>() / (20.0 * 18.0 * MB);
            (let_in, outcome)
        };
        let (let_in, outcome) = peak(|_| {});
        let (unmerged, _) = peak(|g| g.merges = false);
        println!("base {base}: {let_in:.3} of the peak; {unmerged:.3} without merges");
        assert!(let_in > share, "base {base}: {let_in}: {outcome:?}");
        if base > 0.0 {
            assert!(outcome.merged > 100.0, "{outcome:?}");
            assert!(unmerged < let_in - 0.03, "base {base}: {unmerged} without merges");
        }
    }
}

/// A small family that gets few writes does not slow a large one that gets the rest.
#[pumice_test_macros::test]
fn a_family_is_slowed_by_what_goes_to_it() {
    let mut policy = Adaptive::default();
    let mut inputs = Inputs { seconds: 0.1, ..Inputs::default() };
    let mut small = FamilyInputs { id: 1, memtable_bytes: 65536.0, ..FamilyInputs::default() };
    small.memtables_max = 2.0;
    let large = FamilyInputs { memtable_bytes: 1e9, memtables_max: 6.0, ..small };
    let mut lowest = f64::INFINITY;
    for tick in 0..300 {
        inputs.totals.admitted += 10.01 * MB;
        small.active_bytes = 100.0 + (tick % 60) as f64 * 1000.0;
        small.flush_due = tick % 60 == 59;
        let filled = (tick % 90) as f64 * 10.0 * MB;
        inputs.families = vec![FamilyInputs { id: 0, active_bytes: filled, ..large }, small];
        if tick % 90 == 0 {
            inputs.totals.flush.drained += 900.0 * MB;
            inputs.totals.flush.seconds += 0.5;
        }
        lowest = lowest.min(policy.tick(&inputs).cap.unwrap_or(f64::INFINITY));
    }
    assert!(lowest > 100.0 * MB, "{lowest}");
}

/// A device that was asked for only a few bytes a second may take more.
#[pumice_test_macros::test]
fn a_device_that_was_hardly_used_does_not_hold_compactions() {
    let mut policy = Adaptive::default();
    let mut inputs = Inputs { seconds: 0.1, device_rate: 500.0, ..Inputs::default() };
    let job = Relief { stock: 2.0, total_entries: 1000.0, done_entries: 1.0, elapsed: 60.0 };
    let mut sick = FamilyInputs { id: 1, memtable_bytes: 1000.0, ..FamilyInputs::default() };
    (sick.l0.files, sick.l0.trigger, sick.l0.slowdown, sick.l0.stop) = (3.0, 2.0, 4.0, 4.0);
    (sick.memtables_max, sick.l0.job) = (2.0, Some(job));
    sick.compacts = true;
    let mut limited = 0;
    for _ in 0..300 {
        inputs.totals.admitted += 5.0;
        inputs.families = vec![sick];
        let rate = policy.tick(&inputs).waiting_rate;
        limited += usize::from(rate.is_some());
        assert!(rate.is_none_or(|rate| rate >= WAITING_RATE_MIN), "{rate:?}");
    }
    assert!(limited > 0, "nothing was limited");
}

/// Debt that exists at the start, or arrives in one jump, does not count as a cost of later writes.
#[pumice_test_macros::test]
fn debt_that_was_there_is_nobodys_cost() {
    let mut policy = Adaptive::default();
    let mut inputs = Inputs { seconds: 0.1, ..Inputs::default() };
    let family = FamilyInputs {
        memtable_bytes: 64.0 * MB,
        memtables_max: 4.0,
        soft_bytes: 64e9,
        hard_bytes: 256e9,
        compacts: true,
        ..FamilyInputs::default()
    };
    for tick in 0..600 {
        // 10 MB/s come in and cost ten times as much; 50 GB are ingested in the middle.
        inputs.totals.admitted += MB;
        inputs.totals.flush.drained += MB;
        inputs.totals.deep_written += 10.0 * MB;
        let debt_bytes = if tick < 300 { 40e9 } else { 90e9 };
        inputs.families = vec![FamilyInputs { debt_bytes, ..family }];
        policy.tick(&inputs);
    }
    let amplification = policy.debt.amplification();
    assert!((9.0..11.0).contains(&amplification), "{amplification}");
}

/// Rates in steps, stalls of five seconds and half the bandwidth from the middle on.
fn changing_device(policy: &mut dyn Policy, seed: u64) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let peak = draw(&mut rng);
    let stalls: Vec<f64> =
        (0..4).map(|n| 60.0 + n as f64 * 70.0 + rng.uniform(40) as f64).collect();
    let steps: Vec<f64> = (0..40).map(|_| rng.uniform(300) as f64 / 100.0).collect();
    let device = |t: f64| match t {
        t if stalls.iter().any(|s| (*s..*s + 5.0).contains(&t)) => 0.0,
        t if t > 200.0 => peak.device / 2.0,
        _ => peak.device,
    };
    let offered = |t: f64| peak.offered * steps[(t / 10.0) as usize];
    let load = Load { seconds: 400.0, offered: &offered, device: &device, full: &|_| false };
    let outcome = run(policy, peak.shape, &load);
    let full = outcome.max_l0 >= 36.0 || outcome.max_debt >= peak.shape.hard;
    if outcome.stopped_seconds == 0.0 && !full {
        return Ok(());
    }
    Err(format!("seed {seed}: {peak:?}, stalls {stalls:?}: {outcome:?}"))
}

#[pumice_test_macros::test]
fn a_device_that_changes_stops_nothing() {
    for seed in 0..60 {
        changing_device(&mut Adaptive::default(), seed).unwrap();
    }
}

/// Jobs fail for lack of space for a while: writes continue slowly, and as before afterwards.
#[pumice_test_macros::test]
fn writes_come_back_after_the_device_was_full() {
    for seed in 0..60 {
        let peak = draw(&mut Rng::new(seed));
        let load = Load {
            seconds: 300.0,
            offered: &|_| peak.offered,
            device: &|_| peak.device,
            full: &|t| (100.0..110.0).contains(&t),
        };
        let outcome = run(&mut Adaptive::default(), peak.shape, &load);
        let after: f64 = outcome.by_second[140..].iter().sum::<f64>() / 160.0;
        assert!(
            after > 0.85 * sustainable(peak.device) && outcome.stopped_seconds == 0.0,
            "seed {seed}: {after} of {peak:?}: {outcome:?}"
        );
    }
}

/// The policy with one rule disabled, by hiding that rule's input.
struct Blind {
    policy: Adaptive,
    hide: fn(&mut Inputs),
    change: fn(&mut Grants),
}

impl Policy for Blind {
    fn tick(&mut self, inputs: &Inputs) -> Grants {
        let mut inputs = inputs.clone();
        (self.hide)(&mut inputs);
        let mut grants = self.policy.tick(&inputs);
        (self.change)(&mut grants);
        grants
    }
}

/// The policy, and the same policy as it would be if another database claimed a fifth of the
/// device.
#[derive(Default)]
struct BesideAnother {
    policy: Adaptive,
    beside: Adaptive,
    gave_way: usize,
    limited: usize,
}

impl Policy for BesideAnother {
    fn tick(&mut self, inputs: &Inputs) -> Grants {
        let grants = self.policy.tick(inputs);
        let claimed_elsewhere = inputs.device_rate / 5.0;
        let other = self.beside.tick(&Inputs { claimed_elsewhere, ..inputs.clone() });
        // The claim concerns the device: what writes may bring does not depend on it.
        assert_eq!((other.cap, other.claim), (grants.cap, grants.claim));
        if let (Some(alone), Some(shared)) = (grants.waiting_rate, other.waiting_rate) {
            assert!(shared <= alone, "{shared} of {alone}");
            self.limited += 1;
            self.gave_way += usize::from(shared < alone);
        }
        grants
    }
}

/// Compactions that can wait leave the device to the urgent work of other databases.
#[pumice_test_macros::test]
fn compactions_give_way_to_the_urgent_work_of_others() {
    let mut policies = Vec::new();
    for seed in 0..20 {
        let peak = draw(&mut Rng::new(seed));
        let mut policy = BesideAnother::default();
        lasting_peak(&mut policy, &peak);
        policies.push((seed, policy.gave_way, policy.limited));
    }
    // Where the debt is near its limit they keep the minimum that it needs, whatever others claim.
    let gave_way = policies.iter().filter(|(_, gave_way, _)| *gave_way > 100).count();
    assert!(gave_way > 10, "{policies:?}");
}

/// Keeps what the policy claims, for a neighbour to see.
struct Heard<'a> {
    policy: Adaptive,
    /// The bits of an f64.
    claim: &'a AtomicU64,
}

impl Policy for Heard<'_> {
    fn tick(&mut self, inputs: &Inputs) -> Grants {
        let grants = self.policy.tick(inputs);
        self.claim.store(grants.claim.to_bits(), Relaxed);
        grants
    }
}

/// How a lasting peak goes while compactions of another database take all that is not claimed, if
/// claims are `heard`, but at most half the device, which taking turns would give them.
fn beside_compactions(peak: &Peak, heard: bool) -> Outcome {
    let claim = AtomicU64::new(0.0f64.to_bits());
    let mut policy = Heard { policy: Adaptive::default(), claim: &claim };
    let taken = |_| {
        let claimed = if heard { f64::from_bits(claim.load(Relaxed)) } else { 0.0 };
        (USED_SHARE * peak.device - claimed).clamp(0.0, peak.device / 2.0)
    };
    let load = Load {
        seconds: 400.0,
        offered: &|_| peak.offered,
        device: &|t| peak.device - taken(t),
        full: &|_| false,
    };
    run(&mut policy, peak.shape, &load)
}

/// What a database claims for its urgent work is left to it by the compactions of others.
#[pumice_test_macros::test]
fn a_claim_keeps_the_device_for_urgent_work() {
    let mut sums = [0.0; 2];
    for seed in 0..20 {
        let peak = draw(&mut Rng::new(seed));
        let outcomes = [true, false].map(|heard| beside_compactions(&peak, heard));
        assert_eq!(outcomes[0].stopped_seconds, 0.0, "seed {seed}");
        for (sum, outcome) in sums.iter_mut().zip(outcomes) {
            *sum += outcome.admitted / sustainable(peak.device) / 400.0;
        }
    }
    println!(
        "{:.3} of what alone is bearable with claims, {:.3} without",
        sums[0] / 20.0,
        sums[1] / 20.0
    );
    assert!(sums[0] > 1.01 * sums[1], "{sums:?}");
}

/// Seconds for which writes stop where they come in groups of up to a quarter of a memtable.
fn stopped_by_groups(policy: &mut dyn Policy, seed: u64) -> f64 {
    let mut rng = Rng::new(seed);
    let mut peak = draw(&mut rng);
    peak.shape.group = peak.shape.memtable / [4.0, 8.0, 16.0][rng.uniform(3) as usize];
    let load = Load {
        seconds: 60.0,
        offered: &|_| peak.offered,
        device: &|_| peak.device,
        full: &|_| false,
    };
    run(policy, peak.shape, &load).stopped_seconds
}

/// A group is admitted whole once its leader has paid, and does not use up the room.
#[pumice_test_macros::test]
fn groups_of_writers_do_not_stop_themselves() {
    let mut missed = 0;
    for seed in 0..60 {
        let stopped = stopped_by_groups(&mut Adaptive::default(), seed);
        assert_eq!(stopped, 0.0, "seed {seed}");
        let hide: fn(&mut Inputs) = |inputs| inputs.unpaid = 0.0;
        let mut blind = Blind { policy: Adaptive::default(), hide, change: |_| {} };
        missed += usize::from(stopped_by_groups(&mut blind, seed) > 0.0);
    }
    assert!(missed > 0, "nothing fails without the rule of what comes at once");
}

#[pumice_test_macros::test]
fn without_any_of_its_rules_the_policy_fails() {
    type Rule = (&'static str, fn(&mut Inputs), fn(&mut Grants));
    let rules: [Rule; 7] = [
        (
            "memory",
            |i| i.families.iter_mut().for_each(|f| (f.flush_due, f.flush) = (false, None)),
            |_| {},
        ),
        (
            "L0",
            |i| {
                i.families.iter_mut().for_each(|f| {
                    (f.l0.files, f.l0.job, f.l0.merge) = (0.0, None, None);
                });
            },
            |_| {},
        ),
        ("debt", |i| i.families.iter_mut().for_each(|f| f.soft_bytes = 0.0), |_| {}),
        (
            "when the job will be done",
            |i| {
                i.totals.flush.seconds = 0.0;
                i.families.iter_mut().for_each(|f| {
                    f.flush.iter_mut().for_each(|job| job.done_entries = job.total_entries);
                });
            },
            |_| {},
        ),
        ("a floor for what can wait", |_| {}, |g| g.waiting_rate = Some(0.0)),
        ("L0 first", |_| {}, |g| g.level0_first = false),
        ("how soon to look again", |_| {}, |g| g.tick_within = 1.0),
    ];
    for (name, hide, change) in rules {
        let fails = |seed| {
            let peak = draw(&mut Rng::new(seed));
            let blind = || Blind { policy: Adaptive::default(), hide, change };
            let outcome = lasting_peak(&mut blind(), &peak);
            judge(&peak, &outcome).is_some() || changing_device(&mut blind(), seed).is_err()
        };
        let mut seeds = (0..60).chain([131, 286, 547]);
        assert!(seeds.any(fails), "nothing fails without the rule of {name}");
    }
    // Where a thread takes at most a quarter of the device, one thread is not enough.
    let mut peak = draw(&mut Rng::new(0));
    peak.shape.pace = 0.25 * peak.device;
    let change: fn(&mut Grants) = |g| g.all_threads = false;
    let mut one = Blind { policy: Adaptive::default(), hide: |_| {}, change };
    let (one, all) = (lasting_peak(&mut one, &peak), lasting_peak(&mut Adaptive::default(), &peak));
    assert!(one.admitted < 0.9 * all.admitted, "{} of {}", one.admitted, all.admitted);
}

/// The sine of the benchmark on devices that bear its mean, and that do not.
#[pumice_test_macros::test]
fn the_sine_is_followed_where_the_device_bears_its_mean() {
    for (device, fidelity, window) in [(700.0, 0.6, 0.3), (1000.0, 0.85, 0.5), (1200.0, 0.97, 0.9)]
    {
        let sine = |t: f64| (75.0 * (0.017_942_857 * t + 4.71).sin() + 125.0) * MB;
        let load =
            Load { seconds: 2100.0, offered: &sine, device: &|_| device * MB, full: &|_| false };
        let outcome = run(&mut Adaptive::default(), ROCKSDB, &load);
        let wanted: f64 = (0..2100).map(|t| sine(f64::from(t))).sum();
        let worst = (0..2095).map(|t| {
            let wanted: f64 = (t..t + 5).map(|t| sine(t as f64)).sum();
            outcome.by_second[t..t + 5].iter().sum::<f64>() / wanted
        });
        let worst = worst.fold(f64::INFINITY, f64::min);
        let followed = outcome.admitted / wanted;
        println!("sine on {device} MB/s: {followed:.3} followed, worst window {worst:.3}");
        assert!(
            outcome.stopped_seconds == 0.0 && followed > fidelity && worst > window,
            "{device} MB/s: {followed:.3}, worst window {worst:.3}: L0 {}, debt {:.0}",
            outcome.max_l0,
            outcome.max_debt
        );
    }
}

/// The sine squeezed into 18 s on small stocks, from an empty database: its one peak comes before
/// much is known of what the device sustains, and goes into the debt for which there is room.
#[pumice_test_macros::test]
fn a_peak_that_the_debt_has_room_for_passes_a_young_database() {
    let shape = Shape { memtable: 1.34 * MB, soft: 1288.0 * MB, hard: 5153.0 * MB, ..ROCKSDB };
    let sine = |t: f64| (30.0 * (0.358_857 * t + 4.71).sin() + 50.0) * MB;
    for device in [430.0, 480.0, 560.0] {
        let load =
            Load { seconds: 18.0, offered: &sine, device: &|_| device * MB, full: &|_| false };
        let outcome = run(&mut Adaptive::default(), shape, &load);
        let shares = outcome.by_second.iter().enumerate().map(|(second, bytes)| {
            let wanted = (0..200).map(|n| sine(second as f64 + f64::from(n) / 200.0)).sum::<f64>();
            bytes / (wanted / 200.0)
        });
        let shares: Vec<f64> = shares.collect();
        let worst = shares.iter().copied().fold(f64::INFINITY, f64::min);
        println!(
            "{device} MB/s: worst {worst:.3}, debt {:.0}, {shares:.2?}",
            outcome.max_debt / MB
        );
        assert!(outcome.stopped_seconds == 0.0 && worst > 0.95, "{device} MB/s: {worst}");
    }
}
