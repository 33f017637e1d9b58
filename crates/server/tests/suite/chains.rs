//! Groups of writes that share and take over the locks of keys.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pumice::{MemFs, Options, Statistics, Ticker};
use pumice_env::mem::{Fault, FaultOp, FaultRule};
use pumice_port::fiber::{Runtime, spawn_here};
use pumice_port::thread;
use pumice_server::keyspace::{Keyspace, Run};

use super::connections::{Caller, start};
use super::{Quiet, Random, Scratch};

const CLIENTS: usize = 40;

fn open(fs: &Arc<MemFs>, statistics: &Arc<Statistics>) -> Quiet {
    let mut options = Options::default();
    options.db.file_system = fs.clone();
    options.db.statistics = Some(Arc::clone(statistics));
    Quiet::with(Path::new("/data"), options)
}

fn one_loop() -> Runtime {
    Runtime::builder().loops(1).build().unwrap()
}

/// What a run does when it is written and its group still has its locks.
type Told<'a> = &'a (dyn Fn() + Sync);

/// Sets as many of these keys as are free, together with what others set. Whether it shared locks.
fn set(keyspace: &Keyspace, keys: &[&str], value: &str, told: Told<'_>) -> (Run, bool) {
    let pairs: Vec<_> = keys.iter().map(|key| (key.as_bytes(), value.as_bytes())).collect();
    let living = keyspace.living_groups();
    let (held, free) = keyspace.locks.free_ones(pairs.iter().map(|(key, _)| *key), living);
    let shares = held.needs_group();
    let run = keyspace.set_run((0, 1), &pairs[..free], held, Some(false), |_, _| told());
    (run, shares)
}

/// Each lock is free, and held by one at a time.
fn check_locks(keyspace: &Keyspace) {
    let all = keyspace.locks.all();
    let names: Vec<_> = (0..200).map(|number| format!("k{number}")).collect();
    for name in names.iter().map(String::as_str).chain(["a", "b", "c", "s"]) {
        assert_eq!(keyspace.locks.free_ones([name.as_bytes()].into_iter(), None).1, 0, "{name}");
    }
    drop(all);
}

/// Runs `what` as fibers of one loop, none of which runs before all are there.
fn at_once<T: Send + 'static>(
    count: usize,
    what: impl Fn(usize) -> T + Clone + Send + 'static,
) -> Vec<T> {
    one_loop().run("clients", move || {
        let start = |number| {
            let what = what.clone();
            spawn_here("client", move || what(number))
        };
        let all: Vec<_> = (0..count).map(start).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    })
}

// Plain #[test]: it has loops of its own.
#[test]
fn strings_of_the_same_keys_are_one_batch_and_the_last_one_stays() {
    let (fs, statistics) = (Arc::new(MemFs::new(1)), Arc::new(Statistics::new()));
    let server = Arc::new(open(&fs, &statistics));
    let before = statistics.ticker(Ticker::WriteDoneBySelf);
    let own = Arc::clone(&server);
    // "a" occurs twice in each.
    let runs = at_once(CLIENTS, move |number| {
        set(&own.shared.keyspace, &["a", "b", "a", "c"], &format!("v{number}"), &|| ())
    });
    for (number, (run, shares)) in runs.iter().enumerate() {
        assert_eq!((run.count, *shares), (4, true), "{number}");
    }
    assert_eq!(statistics.ticker(Ticker::WriteDoneBySelf) - before, 1);
    let client = &mut server.client();
    server.talk(client, &[("GET a", "$3|v39"), ("GET b", "$3|v39"), ("DBSIZE", ":3")]);
    check_locks(&server.shared.keyspace);
    server.shared.keyspace.close().unwrap();
}

// Plain #[test]: it has loops of its own.
#[test]
fn a_group_takes_over_the_locks_of_the_one_before() {
    let (fs, statistics) = (Arc::new(MemFs::new(1)), Arc::new(Statistics::new()));
    let server = Arc::new(open(&fs, &statistics));
    let own = Arc::clone(&server);
    let runs = at_once(3, move |number| {
        // The second and third arrive while the first one's group has its locks.
        (0..number * 3).for_each(|_| thread::yield_now());
        let is_first = number == 0;
        let told = || (0..if is_first { 20 } else { 0 }).for_each(|_| thread::yield_now());
        set(&own.shared.keyspace, &["a", "b"], &format!("v{number}"), &told)
    });
    let shared: Vec<_> = runs.iter().map(|(run, shares)| (run.count, *shares)).collect();
    assert_eq!(shared, [(2, false), (2, true), (2, true)]);
    let client = &mut server.client();
    server.talk(client, &[("GET a", "$2|v2"), ("GET b", "$2|v2"), ("DBSIZE", ":2")]);
    check_locks(&server.shared.keyspace);
    server.shared.keyspace.close().unwrap();
}

// Plain #[test]: it has loops of its own.
#[test]
fn who_waits_for_a_lock_gets_it_whatever_groups_come() {
    let (fs, statistics) = (Arc::new(MemFs::new(1)), Arc::new(Statistics::new()));
    let server = Arc::new(open(&fs, &statistics));
    let (own, has_it) = (Arc::clone(&server), Arc::new(AtomicBool::new(false)));
    let done = Arc::clone(&has_it);
    let rounds = at_once(4, move |number| {
        let keyspace = &own.shared.keyspace;
        if number == 3 {
            (0..5).for_each(|_| thread::yield_now());
            drop(keyspace.locks.one(b"a"));
            done.store(true, Ordering::Relaxed);
            return 0;
        }
        // The groups of these tasks never leave a moment in which the lock is free.
        (0..number * 2).for_each(|_| thread::yield_now());
        let mut rounds = 0;
        while !done.load(Ordering::Relaxed) && rounds < 1000 {
            rounds += 1;
            let told = || (0..5).for_each(|_| thread::yield_now());
            let (run, _) = set(keyspace, &["a"], "v", &told);
            if run.count == 0 {
                thread::yield_now();
            }
        }
        rounds
    });
    assert!(has_it.load(Ordering::Relaxed));
    assert!(rounds.iter().all(|&rounds| rounds < 1000), "it starved: {rounds:?}");
    check_locks(&server.shared.keyspace);
    server.shared.keyspace.close().unwrap();
}

// Plain #[test]: it has loops of its own.
#[test]
fn what_follows_a_string_that_is_left_is_left_too() {
    let (fs, statistics) = (Arc::new(MemFs::new(1)), Arc::new(Statistics::new()));
    let server = Arc::new(open(&fs, &statistics));
    let client = &mut server.client();
    server.talk(client, &[("SADD s x y", ":2"), ("SET a old", "+OK")]);
    let own = Arc::clone(&server);
    let runs = at_once(3, move |number| {
        let keys: &[&str] = if number == 1 { &["s"] } else { &["a", "s", "b"] };
        set(&own.shared.keyspace, keys, &format!("v{number}"), &|| ()).0.count
    });
    assert_eq!(runs, [1, 0, 1]);
    server.talk(client, &[("SCARD s", ":2"), ("GET a", "$2|v2"), ("GET b", "$-1")]);
    server.talk(client, &[("DBSIZE", ":2"), ("SET s v", "+OK"), ("DBSIZE", ":2")]);
    server.shared.keyspace.close().unwrap();
}

// Plain #[test]: it has loops of its own.
#[test]
fn who_fills_a_group_writes_it_and_the_others_go_on() {
    let (fs, statistics) = (Arc::new(MemFs::new(1)), Arc::new(Statistics::new()));
    let server = Arc::new(open(&fs, &statistics));
    let before = statistics.ticker(Ticker::WriteDoneBySelf);
    let (own, value) = (Arc::clone(&server), "v".repeat(15_000));
    // 120 of 15 KB are several groups of 512 KiB.
    let runs = at_once(3 * CLIENTS, move |number| {
        set(&own.shared.keyspace, &[&format!("k{}", number % 7)], &value, &|| ()).0
    });
    runs.into_iter().for_each(|run| assert!(run.count == 1 && run.written.is_ok()));
    let batches = statistics.ticker(Ticker::WriteDoneBySelf) - before;
    assert!((3..=5).contains(&batches), "{batches} batches");
    server.talk(&mut server.client(), &[("DBSIZE", ":7")]);
    check_locks(&server.shared.keyspace);
    server.shared.keyspace.close().unwrap();
}

// Plain #[test]: it has loops of its own.
#[test]
fn groups_that_fail_or_panic_pass_their_locks_on() {
    for panics in [false, true] {
        let (fs, statistics) = (Arc::new(MemFs::new(1)), Arc::new(Statistics::new()));
        let server = Arc::new(open(&fs, &statistics));
        if !panics {
            fs.add_fault(FaultRule::once(FaultOp::Write, "*.log", 0, Fault::Eio));
        }
        let own = Arc::clone(&server);
        let runs = at_once(6, move |number| {
            (0..number % 3).for_each(|_| thread::yield_now());
            let call = || {
                let told = || match panics && number == 0 {
                    true => std::panic::panic_any("planted"),
                    false => thread::yield_now(),
                };
                set(&own.shared.keyspace, &["a", "b"], "v", &told).0.count
            };
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).ok()
        });
        assert_eq!(runs.iter().filter(|run| run.is_none()).count(), usize::from(panics));
        assert!(runs.iter().flatten().all(|&count| count == 2), "{runs:?}");
        check_locks(&server.shared.keyspace);
        let closed = server.shared.keyspace.close();
        assert_eq!(closed.is_ok(), panics, "the log has failed, or not: {closed:?}");
    }
}

/// Pipelines of many connections over a few keys: no INCR returns what another one did, since
/// each SET sets a number that no other client uses.
#[pumice_test_macros::test]
fn pipelines_of_the_same_keys_lose_no_change() {
    const PIPELINES: u64 = 25;
    let scratch = Scratch::new("chains");
    let running = start(scratch.path(), &[("loops", "2")]);
    let mut callers: Vec<_> = (0..24).map(|_| Caller::to(&running)).collect();
    let mut random = Random::new(5);
    let mut base = 0_u64;
    let mut seen = std::collections::HashSet::new();
    for _ in 0..PIPELINES {
        for caller in &callers {
            let mut lines = String::new();
            for _ in 0..16 {
                base += 1_000_000;
                let key = random.below(5);
                match random.below(6) {
                    0 => lines += &format!("INCR k{key}\r\n"),
                    1 => lines += &format!("SET l{base} v\r\n"),
                    _ => lines += &format!("SET k{key} {base}\r\n"),
                }
            }
            caller.send((lines + "ECHO over\r\n").as_bytes());
        }
        for (number, caller) in callers.iter_mut().enumerate() {
            let replies = caller.until("over\r\n");
            for reply in replies.split("\r\n").filter(|reply| reply.starts_with(':')) {
                // All keys count apart until a SET.
                let count: u64 = reply[1..].parse().unwrap();
                assert!(count < 1_000_000 || seen.insert(count), "{number}: {count} came twice");
            }
            let others = |reply: &&str| !reply.starts_with([':', '+', '$', 'o']);
            assert_eq!(replies.split("\r\n").find(others), Some(""), "{replies}");
        }
    }
    assert!(seen.len() > 100, "{}", seen.len());
    running.stop().unwrap();
}
