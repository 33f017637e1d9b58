//! Locks of keys: each rule alone, and drawn schedules of fibers against an account of who holds
//! what.
#![allow(clippy::unwrap_used)]

mod ranges;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pumice_base::random::Rng;
use pumice_base::{Comparator, Error, SubCode};
use pumice_port::time::now_micros;
use pumice_port::{sim, thread};

use super::*;

const OPTIONS: LockOptions = LockOptions { locks_max: None, stripes: 4, deadlocks_max: 5 };

fn holder(id: u64) -> Arc<Holder> {
    Arc::new(Holder::new(id, NEVER))
}

fn wanted(key: &[u8], exclusive: bool) -> Wanted<'_> {
    let timeout = Some(Duration::ZERO);
    Wanted { column_family: 0, key, exclusive, timeout, deadlock_depth: None }
}

fn waiting(key: &[u8], exclusive: bool) -> Wanted<'_> {
    Wanted { timeout: None, deadlock_depth: Some(50), ..wanted(key, exclusive) }
}

fn text(result: Result<(), Error>) -> String {
    result.unwrap_err().to_string()
}

#[pumice_test_macros::test]
fn shared_and_exclusive() {
    let (table, a, b) = (LockTables::new(OPTIONS), holder(1), holder(2));
    table.lock(&a, &wanted(b"k", false)).unwrap();
    table.lock(&b, &wanted(b"k", false)).unwrap();
    let timeout = "Operation timed out: Timeout waiting to lock key";
    assert_eq!(text(table.lock(&a, &wanted(b"k", true))), timeout);
    table.unlock(&b, 0, [&b"k"[..]]);
    // The only holder may change how it holds the lock, both ways.
    table.lock(&a, &wanted(b"k", true)).unwrap();
    assert_eq!(text(table.lock(&b, &wanted(b"k", false))), timeout);
    table.lock(&a, &wanted(b"k", false)).unwrap();
    table.lock(&b, &wanted(b"k", false)).unwrap();
    let held = table.held();
    assert_eq!((held.len(), held[0].exclusive, held[0].holders.len()), (1, false, 2));
    table.unlock(&a, 0, [&b"k"[..]]);
    table.unlock(&a, 0, [&b"k"[..]]);
    table.unlock(&b, 0, [&b"k"[..], b"never locked"]);
    assert_eq!(table.held(), []);
    // Families do not know each other's keys.
    table.lock(&a, &wanted(b"k", true)).unwrap();
    table.lock(&b, &Wanted { column_family: 1, ..wanted(b"k", true) }).unwrap();
}

#[pumice_test_macros::test]
fn the_number_of_locks_is_limited() {
    let table = LockTables::new(LockOptions { locks_max: Some(2), ..OPTIONS });
    let (a, b) = (holder(1), holder(2));
    table.lock(&a, &wanted(b"1", false)).unwrap();
    table.lock(&b, &wanted(b"1", false)).unwrap();
    table.lock(&a, &wanted(b"2", true)).unwrap();
    let limit = "Operation aborted: Failed to acquire lock due to max_num_locks limit";
    assert_eq!(text(table.lock(&a, &wanted(b"3", true))), limit);
    table.unlock(&a, 0, [&b"2"[..]]);
    table.lock(&a, &wanted(b"3", true)).unwrap();
}

/// Locks of an expired holder can be taken, all of them, unless it commits first.
#[pumice_test_macros::test]
fn expired_locks_are_stolen() {
    let (table, thief) = (LockTables::new(OPTIONS), holder(9));
    let expired = Arc::new(Holder::new(1, now_micros()));
    table.lock(&expired, &wanted(b"a", true)).unwrap();
    table.lock(&expired, &wanted(b"b", true)).unwrap();
    table.lock(&thief, &wanted(b"a", true)).unwrap();
    table.lock(&thief, &wanted(b"b", true)).unwrap();
    assert_eq!(expired.state(), TransactionState::LocksStolen);
    assert!(!expired.change(TransactionState::Started, TransactionState::AwaitingCommit));
    table.unlock(&expired, 0, [&b"a"[..], b"b"]);
    assert_eq!(table.held().len(), 2, "they are the thief's");
    let committing = Arc::new(Holder::new(2, now_micros()));
    table.lock(&committing, &wanted(b"c", true)).unwrap();
    assert!(committing.change(TransactionState::Started, TransactionState::AwaitingCommit));
    assert!(table.lock(&thief, &wanted(b"c", true)).is_err());
    // A lock that is shared with one that never expires stays.
    let other = Arc::new(Holder::new(3, now_micros()));
    table.lock(&other, &wanted(b"d", false)).unwrap();
    table.lock(&holder(4), &wanted(b"d", false)).unwrap();
    assert!(table.lock(&thief, &wanted(b"d", true)).is_err());
    assert_eq!(other.state(), TransactionState::Started);
}

/// A waiter gets the lock when its holder expires, without being woken.
#[pumice_test_macros::test]
fn waiters_look_when_the_holder_expires() {
    let table = LockTables::new(OPTIONS);
    let expiring = Arc::new(Holder::new(1, now_micros() + 20_000));
    table.lock(&expiring, &wanted(b"k", true)).unwrap();
    table.lock(&holder(2), &waiting(b"k", true)).unwrap();
    assert_eq!(expiring.state(), TransactionState::LocksStolen);
}

#[pumice_test_macros::test]
fn waiting_ends_with_the_timeout() {
    let table = LockTables::new(OPTIONS);
    table.lock(&holder(1), &wanted(b"k", true)).unwrap();
    let start = now_micros();
    let soon = Wanted { timeout: Some(Duration::from_millis(5)), ..waiting(b"k", false) };
    let error = table.lock(&holder(2), &soon).unwrap_err();
    assert_eq!(error.subcode(), SubCode::LockTimeout);
    assert!(now_micros() - start >= 5000);
    assert_eq!(table.waiting(), []);
}

/// Transactions in a circle: the last one to ask gives way, and the path is told.
#[pumice_test_macros::test]
fn circles_are_found() {
    for length in [2u64, 3, 49] {
        let table = Arc::new(LockTables::new(OPTIONS));
        let holders: Vec<_> = (0..length).map(holder).collect();
        let key = |n: u64| n.to_be_bytes();
        for (n, holder) in holders.iter().enumerate() {
            table.lock(holder, &wanted(&key(n as u64), true)).unwrap();
        }
        let waits: Vec<_> = (1..length)
            .map(|n| {
                let (table, holder) = (Arc::clone(&table), Arc::clone(&holders[n as usize]));
                thread::spawn("waits", move || table.lock(&holder, &waiting(&key(n - 1), true)))
            })
            .collect();
        while table.waiting().len() < waits.len() {
            thread::yield_now();
        }
        let error = table.lock(&holders[0], &waiting(&key(length - 1), true)).unwrap_err();
        assert_eq!(error.to_string(), "Resource busy: Deadlock");
        let path = table.deadlocks().pop().unwrap();
        assert_eq!((path.waits.len() as u64, path.limit_exceeded), (length, false));
        for (wait, next) in path.waits.iter().zip(path.waits.iter().cycle().skip(1)) {
            assert_eq!(wait.holders, [next.id]);
        }
        // The victim gives up its lock, and all others get theirs in turn.
        table.unlock(&holders[0], 0, [&key(0)[..]]);
        for (n, wait) in waits.into_iter().enumerate() {
            wait.join().unwrap().unwrap();
            table.unlock(&holders[n + 1], 0, [&key(n as u64)[..], &key(n as u64 + 1)]);
        }
        assert_eq!((table.held(), table.waiting()), (Vec::new(), Vec::new()));
    }
}

/// A search that is too long counts as a deadlock, and is told as such.
#[test]
fn a_long_search_is_a_deadlock() {
    let wait = |id: u64, holders: &[u64]| Wait {
        id,
        holders: holders.to_vec(),
        column_family: 0,
        key: Vec::new(),
        end: None,
        exclusive: true,
    };
    for (depth, found) in [(9, true), (10, true), (11, false)] {
        let mut waits = waits::Waits::new(2);
        (1..10).for_each(|n| assert!(waits.begin(wait(n, &[n + 1]), 50, 0)));
        assert!(waits.begin(wait(20, &[0]), 50, 0));
        assert_eq!(waits.begin(wait(0, &[1]), depth, 7), !found, "{depth}");
        let paths = waits.deadlocks();
        assert_eq!(paths.len(), usize::from(found));
        assert!(paths.iter().all(|path| path.limit_exceeded && path.time_seconds == 7));
        waits.end(0);
        (1..10).for_each(|n| waits.end(n));
        assert!(waits.begin(wait(1, &[0]), 50, 0), "nothing of earlier waits is left");
    }
    let mut waits = waits::Waits::new(1);
    assert!(waits.begin(wait(1, &[2]), 50, 0));
    assert!(!waits.begin(wait(2, &[1]), 50, 1));
    assert!(!waits.begin(wait(2, &[1]), 50, 2));
    let times: Vec<_> = waits.deadlocks().iter().map(|path| path.time_seconds).collect();
    assert_eq!(times, [2], "the newest are kept");
}

/// Per key: readers in the low half, writers in the high half.
#[derive(Default)]
struct Account([AtomicU64; 4]);

const WRITER: u64 = 1 << 32;

impl Account {
    fn enter(&self, key: usize, exclusive: bool) {
        let before = self.0[key].fetch_add(if exclusive { WRITER } else { 1 }, Ordering::SeqCst);
        assert!(before < WRITER && (!exclusive || before == 0), "two holders: {before:#x}");
    }
    fn upgrade(&self, key: usize) {
        let before = self.0[key].fetch_add(WRITER - 1, Ordering::SeqCst);
        assert_eq!(before, 1, "upgraded beside another holder");
    }
    fn leave(&self, key: usize, exclusive: bool) {
        self.0[key].fetch_sub(if exclusive { WRITER } else { 1 }, Ordering::SeqCst);
    }
}

/// Locks a drawn range for itself, with the keys of it that it has or not; None if it cannot.
fn lock_range(
    random: &mut Rng,
    table: &LockTables,
    account: &Account,
    me: &Arc<Holder>,
    held: &mut Vec<(usize, bool)>,
) -> Option<()> {
    let start = random.uniform(4) as usize;
    let end = start + 1 + random.uniform(4 - start as u64) as usize;
    let order = Comparator::default();
    table.lock_range(me, &order, &waiting(&[start as u8], true), &[end as u8]).ok()?;
    for key in start..end {
        match held.iter_mut().find(|(at, _)| *at == key) {
            Some((_, true)) => {}
            Some((_, exclusive)) => {
                account.upgrade(key);
                *exclusive = true;
            }
            None => {
                account.enter(key, true);
                held.push((key, true));
            }
        }
    }
    Some(())
}

/// One transaction: locks some keys and ranges, upgrades some, and releases all.
fn transact(random: &mut Rng, table: &LockTables, account: &Account, me: &Arc<Holder>) -> bool {
    let mut held: Vec<(usize, bool)> = Vec::new();
    let mut done = true;
    for _ in 0..1 + random.uniform(4) {
        if random.one_in(4) {
            if lock_range(random, table, account, me, &mut held).is_none() {
                done = false;
                break;
            }
            thread::yield_now();
            continue;
        }
        let key = random.uniform(4) as usize;
        let exclusive = random.one_in(2);
        let mine = held.iter().position(|(at, _)| *at == key);
        if mine.is_some_and(|at| held[at].1 || !exclusive) {
            continue;
        }
        let name = [key as u8];
        let how = match random.uniform(4) {
            0 => Wanted { timeout: Some(Duration::from_millis(3)), ..waiting(&name, exclusive) },
            _ => waiting(&name, exclusive),
        };
        if table.lock(me, &how).is_err() {
            done = false;
            break;
        }
        match mine {
            Some(at) => {
                account.upgrade(key);
                held[at].1 = true;
            }
            None => {
                account.enter(key, exclusive);
                held.push((key, exclusive));
            }
        }
        thread::yield_now();
    }
    for (key, exclusive) in held {
        account.leave(key, exclusive);
        table.unlock(me, 0, [&[key as u8][..]]);
    }
    table.unlock_ranges(me, 0);
    done
}

/// Drawn schedules: no two holders where there must be one, no task waits for ever, nothing is
/// left. Without the search for deadlocks such a run is stuck, which the simulation reports.
#[test]
fn drawn_schedules_keep_the_rules() {
    let (mut done, mut circles) = (0, 0);
    for seed in 0..300 {
        let table =
            Arc::new(LockTables::new(LockOptions { stripes: 1 + seed as usize % 3, ..OPTIONS }));
        let shared = Arc::clone(&table);
        let finished = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&finished);
        let (report, ended) = sim::run(&sim::Options::new(seed), move || {
            let account = Arc::new(Account::default());
            let tasks: Vec<_> = (0..6u64)
                .map(|task| {
                    let (table, account) = (Arc::clone(&shared), Arc::clone(&account));
                    let count = Arc::clone(&count);
                    thread::spawn("transactions", move || {
                        let mut random = Rng::new(seed * 100 + task);
                        for n in 0..8 {
                            let me = holder(task * 100 + n);
                            let done = transact(&mut random, &table, &account, &me);
                            count.fetch_add(u64::from(done), Ordering::Relaxed);
                        }
                    })
                })
                .collect();
            tasks.into_iter().for_each(|task| task.join().unwrap());
        });
        assert!(
            ended.is_ok() && report.stuck.is_none(),
            "seed {seed}: {ended:?} {:?}",
            report.stuck
        );
        assert_eq!((table.held(), table.waiting()), (Vec::new(), Vec::new()), "seed {seed}");
        done += finished.load(Ordering::Relaxed);
        circles += table.deadlocks().len();
    }
    assert!(done > 5000 && circles > 100, "{done} done, {circles} deadlocks");
}
