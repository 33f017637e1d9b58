//! The limiter with tasks that wait, in virtual time, where a second is exactly a second.
//!
//! Plain tests: each starts simulations of its own.
#![allow(clippy::unwrap_used)]

use super::*;
use pumice_port::sim;
use pumice_port::thread;
use pumice_port::time::now_nanos;

const MIB: u64 = 1 << 20;

/// Runs `test` under several schedules.
fn simulate(test: fn()) {
    for seed in 0..8 {
        let (report, outcome) = sim::run(&sim::Options::new(seed), test);
        let stuck = report.stuck.map_or(String::new(), |stuck| stuck.to_string());
        assert!(outcome.is_ok(), "seed {seed}: {outcome:?}\n{stuck}");
    }
}

fn limiter(options: RateLimiterOptions) -> RateLimiter {
    RateLimiter::new(&options).unwrap()
}

fn write(limiter: &RateLimiter, bytes: u64, priority: IoPriority) {
    limiter.request(bytes, priority, IoKind::Write, None);
}

/// Asks for bursts until `micros` have passed.
fn write_for(limiter: &RateLimiter, micros: u64, priority: IoPriority) {
    let until = now_micros() + micros;
    while now_micros() < until {
        write(limiter, limiter.single_burst_bytes(), priority);
    }
}

// A simulation is a runtime of its own.
#[test]
fn several_tasks_get_the_rate_together() {
    simulate(|| {
        let limiter = limiter(RateLimiterOptions::new(10 * MIB));
        let start = now_micros();
        thread::scope(|scope| {
            for priority in IoPriority::ALL {
                let limiter = &limiter;
                scope.spawn(move || write_for(limiter, 10_000_000, priority));
            }
        });
        let seconds = (now_micros() - start) as f64 / 1e6;
        let rate = limiter.total_bytes_through(None) as f64 / seconds / (10 * MIB) as f64;
        assert!((0.98..=1.02).contains(&rate), "{rate} of the rate over {seconds} s");
        assert_eq!(limiter.total_pending_requests(None), 0);
        let requests: u64 = IoPriority::ALL.iter().map(|p| limiter.total_requests(Some(*p))).sum();
        assert_eq!(limiter.total_requests(None), requests);
        // User always goes first: the others wait until it has enough.
        let [low, mid, high, user] = IoPriority::ALL.map(|p| limiter.total_bytes_through(Some(p)));
        assert!(user > 20 * (low + mid + high), "{low} {mid} {high} {user}");
        assert!(low > 0 && mid > 0 && high > 0);
    });
}

// A simulation is a runtime of its own.
#[test]
fn a_lower_rate_starves_nobody() {
    simulate(|| {
        let limiter = limiter(RateLimiterOptions::new(100 * MIB));
        thread::scope(|scope| {
            for priority in [IoPriority::Low, IoPriority::High] {
                let limiter = &limiter;
                // Half a second's worth of the high rate.
                scope.spawn(move || write(limiter, 50 * MIB, priority));
            }
            thread::sleep(Duration::from_millis(150));
            limiter.set_bytes_per_second(10 * MIB).unwrap();
        });
        assert_eq!(limiter.total_bytes_through(None), 100 * MIB);
    });
}

// A simulation is a runtime of its own.
#[test]
fn requests_of_one_priority_are_served_in_order() {
    simulate(|| {
        let limiter = limiter(RateLimiterOptions::new(MIB));
        let order = Mutex::new(Vec::new());
        write(&limiter, limiter.single_burst_bytes(), IoPriority::Low);
        thread::scope(|scope| {
            for number in 0..10u64 {
                let (limiter, order) = (&limiter, &order);
                scope.spawn(move || {
                    thread::sleep(Duration::from_millis(1 + number));
                    // Large and small: none passes another.
                    write(
                        limiter,
                        1 + (number % 3) * limiter.single_burst_bytes(),
                        IoPriority::Low,
                    );
                    order.lock().push((now_nanos(), number));
                });
            }
        });
        let order = order.into_inner();
        // Several may be served by one refill; those are in any order between them.
        let bytes_before =
            |n: u64| (0..=n).map(|i| 1 + (i % 3) * limiter.single_burst_bytes()).sum::<u64>();
        let refill_of = |n: u64| bytes_before(n).div_ceil(limiter.single_burst_bytes());
        assert!(order.windows(2).all(|w| refill_of(w[0].1) <= refill_of(w[1].1)), "{order:?}");
    });
}

/// Many short requests from many tasks, with pauses between: a task left alone has a timer.
// A simulation is a runtime of its own.
#[test]
fn nobody_waits_for_ever() {
    simulate(|| {
        let limiter =
            limiter(RateLimiterOptions { refill_period_us: 1000, ..RateLimiterOptions::new(MIB) });
        thread::scope(|scope| {
            for task in 0..6u64 {
                let limiter = &limiter;
                scope.spawn(move || {
                    for i in 0..200u64 {
                        let priority = IoPriority::ALL[(task % 4) as usize];
                        write(limiter, 1 + sim::random_below(3000), priority);
                        if i % 7 == task {
                            thread::sleep(Duration::from_micros(sim::random_below(3000)));
                        }
                    }
                });
            }
        });
        assert_eq!(limiter.total_requests(None), 1200);
        assert_eq!(limiter.total_pending_requests(None), 0);
    });
}

// A simulation is a runtime of its own.
#[test]
fn modes_limit_what_they_name() {
    simulate(|| {
        for (mode, reads, writes) in [
            (RateLimiterMode::ReadsOnly, true, false),
            (RateLimiterMode::WritesOnly, false, true),
            (RateLimiterMode::AllIo, true, true),
        ] {
            let limiter = limiter(RateLimiterOptions { mode, ..RateLimiterOptions::new(MIB) });
            assert_eq!(limiter.is_rate_limited(IoKind::Read), reads);
            assert_eq!(limiter.is_rate_limited(IoKind::Write), writes);
            for (kind, limited) in [(IoKind::Read, reads), (IoKind::Write, writes)] {
                let before = limiter.total_bytes_through(None);
                let got = limiter.request_token(10 * MIB, 0, IoPriority::High, kind, None);
                assert_eq!(got, if limited { limiter.single_burst_bytes() } else { 10 * MIB });
                assert_eq!(
                    limiter.total_bytes_through(None) - before,
                    if limited { got } else { 0 }
                );
            }
        }
    });
}

#[derive(Default)]
struct Counted {
    drains: AtomicU64,
    bytes: AtomicU64,
    delayed: AtomicU64,
    micros: AtomicU64,
}

impl RateLimiterEvents for Counted {
    fn drained(&self) {
        self.drains.fetch_add(1, Ordering::Relaxed);
    }
    fn granted(&self, kind: IoKind, bytes: u64, waited_micros: Option<u64>) {
        assert_eq!(kind, IoKind::Write);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.delayed.fetch_add(u64::from(waited_micros.is_some()), Ordering::Relaxed);
        self.micros.fetch_add(waited_micros.unwrap_or(0), Ordering::Relaxed);
    }
}

// A simulation is a runtime of its own.
#[test]
fn events_tell_of_waits() {
    simulate(|| {
        let limiter = limiter(RateLimiterOptions::new(10 * MIB));
        let counted = Counted::default();
        let burst = limiter.single_burst_bytes();
        for _ in 0..3 {
            limiter.request(burst, IoPriority::Low, IoKind::Write, Some(&counted));
        }
        assert_eq!(counted.bytes.load(Ordering::Relaxed), 3 * burst);
        assert_eq!(counted.drains.load(Ordering::Relaxed), 2, "the first refill is there at once");
        assert_eq!(counted.delayed.load(Ordering::Relaxed), 2);
        assert_eq!(limiter.total_drains(), 2);
        let micros = counted.micros.load(Ordering::Relaxed);
        assert!((200_000..201_000).contains(&micros), "{micros}");
    });
}

// A simulation is a runtime of its own.
#[test]
fn auto_tuning_rises_under_load_and_falls_when_idle() {
    simulate(|| {
        let max = 10 * MIB;
        let options = RateLimiterOptions {
            auto_tuned: true,
            refill_period_us: 1000,
            ..RateLimiterOptions::new(max)
        };
        let limiter = limiter(options);
        assert_eq!(limiter.bytes_per_second(), max / 2);
        // One period more than a tuning: the request after it sees the count.
        write_for(&limiter, 101_000, IoPriority::Low);
        write(&limiter, 1, IoPriority::Low);
        assert_eq!(limiter.bytes_per_second(), max / 2 * 105 / 100);
        write_for(&limiter, 3_000_000, IoPriority::Low);
        assert_eq!(limiter.bytes_per_second(), max);
        thread::sleep(Duration::from_secs(60));
        // Drains counted before the pause are a small share of it: a step down, then to the floor.
        write(&limiter, 1, IoPriority::Low);
        thread::sleep(Duration::from_secs(1));
        write(&limiter, 1, IoPriority::Low);
        assert_eq!(limiter.bytes_per_second(), max / 20);
        // Set by hand it lasts until the next tuning.
        limiter.set_bytes_per_second(max).unwrap();
        thread::sleep(Duration::from_secs(1));
        write(&limiter, 1, IoPriority::Low);
        assert_eq!(limiter.bytes_per_second(), max / 20);
    });
}

// A simulation is a runtime of its own.
#[test]
fn the_burst_follows_the_rate_unless_it_is_set() {
    simulate(|| {
        let limiter = limiter(RateLimiterOptions::new(10 * MIB));
        assert_eq!(limiter.single_burst_bytes(), MIB);
        limiter.set_single_burst_bytes(4 * MIB);
        limiter.set_bytes_per_second(20 * MIB).unwrap();
        assert_eq!(limiter.single_burst_bytes(), 4 * MIB);
        // Beyond a refill: granted over two of them.
        let start = now_micros();
        write(&limiter, 4 * MIB, IoPriority::High);
        assert!((100_000..101_000).contains(&(now_micros() - start)));
        limiter.set_single_burst_bytes(0);
        assert_eq!(limiter.single_burst_bytes(), 2 * MIB);
    });
}

// A simulation is a runtime of its own.
#[test]
fn portions_are_aligned_and_never_nothing() {
    simulate(|| {
        let limiter = limiter(RateLimiterOptions::new(100_000));
        let ask = |bytes, alignment| {
            limiter.request_token(bytes, alignment, IoPriority::Low, IoKind::Write, None)
        };
        assert_eq!(ask(MIB, 4096), 8192, "10,000 rounded down");
        assert_eq!(ask(MIB, 1 << 16), 1 << 16, "a burst below a page is a page");
        assert_eq!(ask(MIB, 0), 10_000);
        assert_eq!(ask(0, 0), 0);
    });
}

// Nothing waits here.
#[test]
fn settings_without_sense_are_refused() {
    for options in [
        RateLimiterOptions::new(0),
        RateLimiterOptions { refill_period_us: 0, ..RateLimiterOptions::new(1) },
        RateLimiterOptions { fairness: 0, ..RateLimiterOptions::new(1) },
    ] {
        let error = RateLimiter::new(&options).err().unwrap();
        assert!(error.to_string().contains("must be above 0"), "{error}");
    }
    assert!(limiter(RateLimiterOptions::new(1)).set_bytes_per_second(0).is_err());
    assert_eq!(limiter(RateLimiterOptions::new(u64::MAX)).bytes_per_second(), i64::MAX as u64);
}
