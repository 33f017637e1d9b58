//! Which helpers come, when, how many, and what happens at the end.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::os::{self, CpuPriority};
use crate::ring::tests::Build;
use crate::sync::{Event, Mutex, Semaphore};
use crate::time;
use std::sync::atomic::AtomicUsize;

/// A job that records its helpers, and keeps them until told to release them.
#[derive(Default)]
struct Gate {
    name: &'static str,
    log: Option<Arc<Mutex<Vec<&'static str>>>>,
    inside: AtomicUsize,
    most: AtomicUsize,
    open: Event,
    leaves_when_asked: bool,
    nice: Mutex<Vec<i32>>,
}

impl Assist for Gate {
    fn assist(&self) {
        let inside = self.inside.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(inside, Ordering::Relaxed);
        self.nice.lock().push(os::nice_of(os::thread_id()).unwrap());
        if let Some(log) = &self.log {
            log.lock().push(self.name);
        }
        while !(self.open.is_set() || self.leaves_when_asked && should_leave()) {
            thread::sleep(std::time::Duration::from_micros(50));
        }
        self.inside.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Waits until `done`, letting others run.
fn wait_for(what: &str, done: impl Fn() -> bool) {
    let start = time::now_nanos();
    while !done() {
        thread::sleep(std::time::Duration::from_micros(100));
        assert!(time::now_nanos() - start < 60_000_000_000, "{what} did not happen in 60 s");
    }
}

/// Runs `body` in simulations, where [`settle`] proves that nothing more comes.
fn in_simulations(body: fn()) {
    for seed in 0..30 {
        let options = sim::Options { preempt_per_mille: 200, ..sim::Options::new(seed) };
        let (report, result) = sim::run(&options, body);
        result.unwrap_or_else(|failure| panic!("seed {seed}: {failure:?}, {:?}", report.stuck));
    }
}

/// Lets all tasks finish what they have to do. While a fiber can run, the virtual clock advances by
/// less than a microsecond per turn, so every task that was woken or started has had thousands of
/// turns.
fn settle() {
    assert!(sim::is_running(), "on a real machine no time is enough");
    thread::sleep(std::time::Duration::from_millis(10));
}

#[test]
fn without_a_limit_nobody_comes_and_nobody_is_waited_for() {
    let pool = HelperPool::new(0);
    let offer = pool.offer(Urgency::High, 4, Arc::new(Gate::default()));
    (0..100).for_each(|_| offer.call());
    assert_eq!(offer.active(), 0);
    let stats = pool.stats();
    assert_eq!((stats.threads, stats.calls, stats.offers), (0, 0, 1));
    drop(offer);
    assert_eq!(pool.stats().offers, 0);
}

#[test]
fn each_call_brings_one_helper_up_to_both_limits() {
    in_simulations(calls_up_to_both_limits);
}

fn calls_up_to_both_limits() {
    let pool = HelperPool::new(3);
    let jobs: Vec<_> = (0..2).map(|_| Arc::new(Gate::default())).collect();
    let offers: Vec<_> = jobs
        .iter()
        .map(|job| pool.offer(Urgency::Low, 2, Arc::clone(job) as Arc<dyn Assist>))
        .collect();
    assert_eq!(pool.stats().threads, 0, "no call, no thread");
    for want in [1, 2] {
        offers[0].call();
        wait_for("a helper", || offers[0].active() == want);
    }
    offers[0].call();
    settle();
    assert_eq!((offers[0].active(), pool.stats().threads), (2, 2), "the offer's limit");
    offers[1].call();
    wait_for("the third", || offers[1].active() == 1);
    offers[1].call();
    settle();
    assert_eq!((offers[0].active(), offers[1].active(), pool.stats().busy), (2, 1, 3));
    jobs.iter().for_each(|job| job.open.set());
    wait_for("everybody out", || pool.stats().busy == 0);
    assert_eq!(jobs[0].most.load(Ordering::Relaxed), 2);
    let stats = pool.stats();
    assert_eq!((stats.threads, stats.started, stats.panics), (3, 3, 0));
    // Both helpers sleep now; a call wakes one and starts none.
    offers[0].call();
    wait_for("a visit", || pool.stats().visits > stats.visits);
    assert_eq!(pool.stats().started, 3);
    assert!(pool.stats().woken >= 1);
}

#[test]
fn the_most_urgent_offer_is_served_first_then_the_oldest() {
    let pool = HelperPool::new(1);
    let log = Arc::new(Mutex::new(Vec::new()));
    let job = |name| {
        let log = Some(Arc::clone(&log));
        Arc::new(Gate { name, log, ..Gate::default() })
    };
    let jobs = [job("first"), job("deep"), job("level0"), job("old flush"), job("young flush")];
    let urgencies = [Urgency::Low, Urgency::Low, Urgency::Mid, Urgency::High, Urgency::High];
    let offers: Vec<_> = (0..5)
        .map(|i| pool.offer(urgencies[i], 1, Arc::clone(&jobs[i]) as Arc<dyn Assist>))
        .collect();
    offers[0].call();
    wait_for("the first", || offers[0].active() == 1);
    offers[1..].iter().for_each(Offer::call);
    jobs.iter().for_each(|job| job.open.set());
    wait_for("all", || log.lock().len() == 5);
    assert_eq!(*log.lock(), ["first", "old flush", "young flush", "level0", "deep"]);
}

#[test]
fn a_more_urgent_call_draws_a_helper_away_and_it_comes_back() {
    in_simulations(more_urgent_call);
}

fn more_urgent_call() {
    let pool = HelperPool::new(1);
    let deep = Arc::new(Gate { leaves_when_asked: true, ..Gate::default() });
    let flush = Arc::new(Gate { leaves_when_asked: true, ..Gate::default() });
    let deep_offer = pool.offer(Urgency::Low, 1, Arc::clone(&deep) as Arc<dyn Assist>);
    let flush_offer = pool.offer(Urgency::High, 1, Arc::clone(&flush) as Arc<dyn Assist>);
    deep_offer.call();
    wait_for("help for deep", || deep_offer.active() == 1);
    flush_offer.call();
    wait_for("help for the flush", || flush_offer.active() == 1);
    assert_eq!((deep_offer.active(), pool.stats().left), (0, 1));
    // A less urgent call does not.
    deep_offer.call();
    settle();
    assert_eq!((flush_offer.active(), deep_offer.active(), pool.stats().left), (1, 0, 1));
    flush.open.set();
    wait_for("help for deep again", || deep_offer.active() == 1);
    deep.open.set();
}

#[test]
fn a_smaller_limit_sends_helpers_home() {
    let pool = HelperPool::new(4);
    let job = Arc::new(Gate { leaves_when_asked: true, ..Gate::default() });
    let offer = pool.offer(Urgency::Low, 4, Arc::clone(&job) as Arc<dyn Assist>);
    wait_for("four", || {
        offer.call();
        offer.active() == 4
    });
    pool.set_limit(1);
    wait_for("one is left", || pool.stats().threads == 1);
    pool.set_limit(0);
    wait_for("none is left", || pool.stats().threads == 0);
    offer.call();
    assert_eq!((pool.limit(), pool.stats().threads), (0, 0));
    pool.set_limit(2);
    offer.call();
    wait_for("one comes again", || offer.active() == 1);
    job.open.set();
}

#[test]
fn a_limit_that_is_said_holds_for_one_offer_too() {
    let offered = |pool: &HelperPool| {
        let job = Arc::new(Gate { leaves_when_asked: true, ..Gate::default() });
        let offer = pool.offer(Urgency::Low, 4, Arc::clone(&job) as Arc<dyn Assist>);
        (job, offer)
    };
    // As the pool of a process on two processors.
    let pool = HelperPool::with(2, 1);
    let (job, offer) = offered(&pool);
    wait_for("one", || {
        offer.call();
        offer.active() == 1
    });
    pool.set_limit(3);
    let (other, explicit) = offered(&pool);
    job.open.set();
    wait_for("three", || {
        explicit.call();
        explicit.active() == 3
    });
    assert_eq!(job.most.load(Ordering::Relaxed), 1);
    other.open.set();
}

struct Panics;

impl Assist for Panics {
    fn assist(&self) {
        panic!("planned");
    }
}

#[test]
fn a_panic_is_counted_and_the_helper_goes_on() {
    let pool = HelperPool::new(1);
    let offer = pool.offer(Urgency::Low, 1, Arc::new(Panics));
    for panics in 1..=3 {
        wait_for("a panic", || {
            offer.call();
            pool.stats().panics >= panics
        });
    }
    assert_eq!((pool.stats().started, pool.stats().threads), (1, 1));
}

#[test]
fn dropping_a_pool_waits_for_its_helpers() {
    let pool = HelperPool::new(2);
    let job = Arc::new(Gate { leaves_when_asked: true, ..Gate::default() });
    let offer = pool.offer(Urgency::Low, 2, Arc::clone(&job) as Arc<dyn Assist>);
    offer.call();
    wait_for("a helper", || offer.active() == 1);
    let other = pool.clone();
    drop(pool);
    assert_eq!(offer.active(), 1);
    drop(other);
    assert_eq!((offer.active(), job.inside.load(Ordering::Relaxed)), (0, 0));
    // Calls of an offer that outlives its pool have no effect.
    offer.call();
    assert_eq!(offer.active(), 0);
    drop(offer);
    assert_eq!(Arc::strong_count(&job), 1);
}

/// The pool is dropped with a helper that owns the last handle.
#[test]
fn a_job_may_own_the_pool() {
    struct Owns(Mutex<Option<HelperPool>>, Arc<Semaphore>);
    impl Assist for Owns {
        fn assist(&self) {
            let pool = self.0.lock().take();
            drop(pool);
            self.1.release(1);
        }
    }
    let pool = HelperPool::new(1);
    let done = Arc::new(Semaphore::new(0));
    let job = Arc::new(Owns(Mutex::new(None), Arc::clone(&done)));
    let offer = pool.offer(Urgency::Low, 1, Arc::clone(&job) as Arc<dyn Assist>);
    *job.0.lock() = Some(pool.clone());
    offer.call();
    drop(pool);
    done.acquire(1);
}

/// A lane is a priority: helpers have that of the offering thread, and all lanes share the limit.
#[test]
fn helpers_have_the_priority_of_the_offering_thread() {
    let pool = HelperPool::new(1);
    let visit = |lower: bool| {
        let pool = pool.clone();
        let task = thread::spawn_os("offers", move || {
            if lower {
                os::set_thread_cpu_priority(CpuPriority::Low).unwrap();
            }
            let own = os::nice_of(os::thread_id()).unwrap();
            let job = Arc::new(Gate::default());
            job.open.set();
            let offer = pool.offer(Urgency::Low, 1, Arc::clone(&job) as Arc<dyn Assist>);
            wait_for("a visit", || {
                offer.call();
                !job.nice.lock().is_empty()
            });
            drop(offer);
            assert!(job.nice.lock().iter().all(|nice| *nice == own), "{:?}", *job.nice.lock());
            own
        });
        task.unwrap().join().unwrap()
    };
    assert!(visit(false) < visit(true));
    visit(false);
    let stats = pool.stats();
    assert!(stats.threads <= 1 && stats.evicted >= 2, "{stats:?}");
}

/// In a simulation the shared pool is the simulation's, its helpers are fibers, and idle ones end.
#[test]
fn a_simulation_has_its_own_pool() {
    for seed in 0..50 {
        let options = sim::Options { preempt_per_mille: 200, ..sim::Options::new(seed) };
        let (report, result) = sim::run(&options, || {
            let pool = HelperPool::shared();
            assert_eq!(pool.limit(), 4);
            let job = Arc::new(Gate::default());
            let offer = pool.offer(Urgency::Low, 9, Arc::clone(&job) as Arc<dyn Assist>);
            wait_for("three helpers", || {
                offer.call();
                offer.active() == 3
            });
            job.open.set();
            wait_for("everybody out", || pool.stats().busy == 0);
            assert_eq!(pool.stats().threads, 3, "one less than processors for one offer");
            let idle = std::time::Duration::from_secs(2 * IDLE_SECONDS_MAX);
            thread::sleep(idle);
            assert_eq!((pool.stats().threads, pool.stats().ended_idle), (0, 3));
        });
        result.unwrap_or_else(|failure| panic!("seed {seed}: {failure:?}, {:?}", report.stuck));
    }
}

impl Assist for Build {
    fn assist(&self) {
        self.ring.help(3, should_leave, |task| self.work(task));
    }
}

/// Emitters of all urgencies share `pool` at once while its limit changes; everything is written.
fn many_builds(pool: &HelperPool, emitters: u64, builds: u64, blocks: u64, spin: u64) {
    let tasks: Vec<_> = (0..emitters)
        .map(|emitter| {
            let pool = pool.clone();
            thread::spawn("emitter", move || {
                for number in 0..builds {
                    let urgencies = [Urgency::Low, Urgency::Mid, Urgency::High];
                    let build = Build::new(2 << ((emitter + number) % 5), spin);
                    let job = Arc::clone(&build) as Arc<dyn Assist>;
                    let offer = pool.offer(urgencies[emitter as usize % 3], 3, job);
                    assert!(build.emit(blocks, || offer.call()));
                    build.check(blocks);
                    assert_eq!(build.ring.attached(), 0);
                }
            })
        })
        .collect();
    for limit in [1, 0, 3].iter().cycle().take(builds as usize) {
        thread::sleep(std::time::Duration::from_micros(300));
        pool.set_limit(*limit);
    }
    pool.set_limit(2);
    tasks.into_iter().for_each(|task| task.join().unwrap());
}

#[test]
fn many_builds_share_a_pool() {
    let pool = HelperPool::new(2);
    // On a busy machine a helper may come too late for the first builds.
    wait_for("a helper's visit", || {
        many_builds(&pool, 5, 40, 500, 500);
        pool.stats().visits > 0
    });
    wait_for("everybody out", || pool.stats().busy == 0 && pool.stats().threads <= 2);
    let stats = pool.stats();
    assert!(stats.panics == 0 && stats.offers == 0, "{stats:?}");
}

#[test]
fn many_builds_share_a_pool_on_fibers() {
    let runtime = crate::fiber::Runtime::builder().loops(2).spawn_as_fibers(true).build().unwrap();
    runtime.run("builds", || {
        let pool = HelperPool::new(2);
        wait_for("a helper's visit", || {
            many_builds(&pool, 4, 10, 500, 500);
            pool.stats().visits > 0
        });
    });
}

#[test]
fn many_builds_share_a_pool_in_simulations() {
    let mut visits = 0;
    for seed in 0..60 {
        let options = sim::Options { preempt_per_mille: 200, ..sim::Options::new(seed) };
        let (report, result) = sim::run(&options, || {
            let pool = HelperPool::shared();
            many_builds(&pool, 3, 4, 60, 0);
            pool.stats().visits
        });
        visits += result.unwrap_or_else(|e| panic!("seed {seed}: {e:?}, {:?}", report.stuck));
    }
    assert!(visits > 60, "helpers came {visits} times");
}
