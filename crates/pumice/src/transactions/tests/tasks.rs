//! Many tasks at once: on threads, on fibers, and under drawn schedules.
#![allow(clippy::unwrap_used)]

use pumice_base::random::Rng;
use pumice_port::{sim, thread};

use super::*;
use crate::Result;

const ACCOUNTS: u64 = 6;

fn key(account: u64) -> Vec<u8> {
    format!("account{account}").into_bytes()
}

fn balance(found: Option<crate::PinnedSlice>) -> u64 {
    found.map_or(100, |value| u64::from_le_bytes(value[..].try_into().unwrap()))
}

/// Moves a drawn amount from one account to another.
fn transfer(transaction: &Transaction, from: u64, to: u64, amount: u64) -> Result<()> {
    let source = balance(transaction.get_for_update(key(from))?);
    thread::yield_now();
    let target = balance(transaction.get_for_update(key(to))?);
    let moved = amount.min(source);
    transaction.put(key(from), (source - moved).to_le_bytes())?;
    thread::yield_now();
    transaction.put(key(to), (target + moved).to_le_bytes())
}

/// The sum of all accounts, which no transfer changes, as a transaction sees it that locks them.
fn total(transaction: &Transaction) -> Result<u64> {
    (0..ACCOUNTS).map(|n| Ok(balance(transaction.get_for_update(key(n))?))).sum()
}

fn work(seed: u64, run: impl Fn(&mut dyn FnMut(&Transaction) -> Result<u64>) -> Result<u64>) {
    let mut random = Rng::new(seed);
    for _ in 0..12 {
        let from = random.uniform(ACCOUNTS);
        let to = (from + 1 + random.uniform(ACCOUNTS - 1)) % ACCOUNTS;
        let amount = random.uniform(60);
        if random.one_in(5) {
            assert_eq!(run(&mut total).unwrap(), ACCOUNTS * 100);
        } else {
            let moved = &mut |transaction: &Transaction| {
                transfer(transaction, from, to, amount).map(|()| 0)
            };
            run(moved).unwrap();
        }
    }
}

/// Attempts without end: what is tested is what comes out.
fn patient() -> RetryOptions {
    RetryOptions { attempts_max: 10_000, ..RetryOptions::default() }
}

fn locking_work(db: &TransactionDb, seed: u64) {
    let options = TransactionOptions {
        deadlock_detect: true,
        lock_timeout: 600_000,
        ..TransactionOptions::default()
    };
    work(seed, |body| db.run_opt(&WriteOptions::default(), &options, &patient(), body));
}

fn optimistic_work(db: &OptimisticTransactionDb, seed: u64) {
    let options = OptimisticTransactionOptions::default();
    work(seed, |body| db.run_opt(&WriteOptions::default(), &options, &patient(), body));
}

/// Transfers keep the sum, whoever comes in between.
#[pumice_test_macros::test]
fn transfers_keep_the_sum() {
    let (locks, checks) = (locking(), optimistic());
    thread::scope(|scope| {
        for seed in 0..4 {
            let (locks, checks) = (&locks, &checks);
            scope.spawn(move || locking_work(locks, seed));
            scope.spawn(move || optimistic_work(checks, seed));
        }
    });
    assert_eq!(total(&locks.transaction()).unwrap(), ACCOUNTS * 100);
    assert_eq!(total(&checks.transaction()).unwrap(), ACCOUNTS * 100);
    assert_eq!((locks.held_locks(), locks.waiting()), (Vec::new(), Vec::new()));
}

/// The same under drawn schedules.
#[test]
fn drawn_schedules_keep_the_sum() {
    for seed in 0..25 {
        let (report, ended) = sim::run(&sim::Options::new(seed), || {
            let (locks, checks) = (locking(), optimistic());
            let tasks: Vec<_> = (0..4)
                .map(|task| {
                    let (locks, checks) = (locks.clone(), checks.clone());
                    thread::spawn("transfers", move || match task % 2 {
                        0 => locking_work(&locks, seed * 10 + task),
                        _ => optimistic_work(&checks, seed * 10 + task),
                    })
                })
                .collect();
            tasks.into_iter().for_each(|task| task.join().unwrap());
            assert_eq!(total(&locks.transaction()).unwrap(), ACCOUNTS * 100);
            assert_eq!(total(&checks.transaction()).unwrap(), ACCOUNTS * 100);
            assert_eq!(locks.held_locks(), []);
        });
        assert!(ended.is_ok(), "seed {seed}: {:?} {:?}", ended.err(), report.stuck);
    }
}

/// Two transactions in each other's way: one gets a deadlock, and `run` repeats it.
#[pumice_test_macros::test]
fn deadlocks_are_told_and_repeated() {
    let db = locking();
    let detect = TransactionOptions {
        deadlock_detect: true,
        lock_timeout: -1,
        ..TransactionOptions::default()
    };
    let one = begin(&db, &detect);
    one.set_lock_timeout(600_000);
    one.put("a", "1").unwrap();
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            let mut attempts = 0;
            db.run_opt(&WriteOptions::default(), &detect, &patient(), |transaction| {
                attempts += 1;
                transaction.set_lock_timeout(600_000);
                transaction.put("b", "2")?;
                transaction.put("a", "2")
            })
            .unwrap();
            attempts
        });
        while db.waiting().is_empty() {
            thread::yield_now();
        }
        let (first, second) = (one.id(), db.waiting()[0].id);
        let property = |name: &str| db.property(name).unwrap();
        let held = format!(
            "column_family=0 key=61 exclusive holders={first}\n\
             column_family=0 key=62 exclusive holders={second}\n"
        );
        assert_eq!(property("pumice.held-locks"), held);
        let waits =
            format!("transaction={second} column_family=0 key=61 exclusive waits_for={first}\n");
        assert_eq!(property("pumice.waiting-transactions"), waits);
        assert_eq!(property("pumice.deadlocks"), "");
        let error = one.put("b", "1").unwrap_err();
        assert!(error.is_deadlock() && error.is_busy());
        assert_eq!(error.to_string(), "Resource busy: Deadlock");
        let path = db.deadlocks().pop().unwrap();
        assert_eq!(path.waits.len(), 2);
        let told = property("pumice.deadlocks");
        assert!(told.contains(&waits) && told.lines().count() == 2, "{told}");
        assert_eq!(db.property("rocksdb.num-snapshots"), db.db().property("rocksdb.num-snapshots"));
        one.rollback().unwrap();
        assert_eq!(other.join().unwrap(), 1);
    });
    assert_eq!(db.get("a").unwrap().unwrap(), b"2");
}

/// A waiting call as a future, on a transaction that its caller no longer holds.
#[pumice_test_macros::test]
fn calls_are_futures() {
    use std::future::Future;
    use std::task::{Context, Poll, Waker};
    fn wait<T>(future: impl Future<Output = T>) -> T {
        let mut future = std::pin::pin!(future);
        loop {
            match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(answer) => return answer,
                Poll::Pending => thread::yield_now(),
            }
        }
    }
    let db = locking();
    let one = db.transaction();
    one.set_lock_timeout(600_000);
    let two = db.transaction();
    two.put("k", "1").unwrap();
    let put = one.put_async("k", "2");
    two.commit().unwrap();
    wait(put).unwrap();
    assert_eq!(wait(one.get_for_update_async("k")).unwrap().unwrap(), b"2");
    wait(one.commit_async()).unwrap();
    assert_eq!(db.get("k").unwrap().unwrap(), b"2");
}

/// The number of attempts has an end, and other errors are not repeated.
#[pumice_test_macros::test]
fn repeating_has_an_end() {
    let db = optimistic();
    let retry = RetryOptions { attempts_max: 3, first_delay_micros: 1, delay_micros_max: 1 };
    let options = OptimisticTransactionOptions::default();
    let mut attempts = 0;
    let result = db.run_opt(&WriteOptions::default(), &options, &retry, |transaction| {
        attempts += 1;
        transaction.put("k", "1")?;
        db.put("k", "0")
    });
    assert_eq!((text(result), attempts), (BUSY.to_string(), 3));
    let mut attempts = 0;
    let result: Result<()> = db.run_opt(&WriteOptions::default(), &options, &retry, |_| {
        attempts += 1;
        Err(crate::Error::corruption("x"))
    });
    assert_eq!((text(result), attempts), ("Corruption: x".to_string(), 1));
}
