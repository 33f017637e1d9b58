//! Transactions that lock ranges of keys.
#![allow(clippy::unwrap_used)]

use pumice_base::random::Rng;
use pumice_port::{sim, thread};

use super::*;
use crate::Result;

#[pumice_test_macros::test]
fn nobody_else_writes_in_a_locked_range() {
    let settings = TransactionDbOptions { default_lock_timeout: 0, ..Default::default() };
    let db = TransactionDb::open(&options(), &settings, "/db").unwrap();
    let one = begin(&db, &at_once());
    one.lock_range("b", "d").unwrap();
    one.lock_range("d", "d").unwrap();
    assert_eq!(text(one.lock_range("d", "b")), "Invalid argument: end key comes before start key");
    let two = begin(&db, &at_once());
    assert_eq!(text(two.put("c", "2")), TIMEOUT);
    assert_eq!(text(two.get_for_update("b")), TIMEOUT);
    assert_eq!(text(two.lock_range("a", "c")), TIMEOUT);
    assert_eq!(text(db.put("bb", "0")), TIMEOUT);
    two.put("d", "2").unwrap();
    db.put("a", "0").unwrap();
    // Plain reads see what they see.
    assert_eq!(db.get("c").unwrap(), None);
    one.set_save_point();
    one.put("c", "1").unwrap();
    one.rollback_to_save_point().unwrap();
    assert_eq!(text(db.put("c", "0")), TIMEOUT, "it stays locked");
    one.put("c", "1").unwrap();
    let held = db.property("pumice.held-locks").unwrap();
    let range = format!("column_family=0 key=62 end=64 exclusive holders={}\n", one.id());
    assert!(held.contains(&range), "{held}");
    one.commit().unwrap();
    assert_eq!(db.get("c").unwrap().unwrap(), b"1");
    two.put("c", "2").unwrap();
    two.lock_range("a", "z").unwrap();
    two.rollback().unwrap();
    assert_eq!(db.held_locks(), []);
    two.lock_range("a", "z").unwrap();
    drop(two);
    assert_eq!(db.held_locks(), []);
}

#[pumice_test_macros::test]
fn optimistic_transactions_lock_no_ranges() {
    let db = optimistic();
    assert_eq!(
        text(db.transaction().lock_range("a", "b")),
        "Not implemented: Optimistic transactions lock no ranges."
    );
    // Nor do those that lock nothing, which are told nothing.
    let db = locking();
    let free = TransactionOptions { skip_concurrency_control: true, ..at_once() };
    begin(&db, &free).lock_range("a", "b").unwrap();
    assert_eq!(db.held_locks(), []);
}

/// Who prepares keeps the range until the commit.
#[pumice_test_macros::test]
fn a_prepared_transaction_keeps_its_range() {
    let db = locking();
    let one = begin(&db, &at_once());
    one.set_name("one").unwrap();
    one.lock_range("a", "c").unwrap();
    one.put("b", "1").unwrap();
    one.prepare().unwrap();
    let two = begin(&db, &at_once());
    assert_eq!(text(two.put("a", "2")), TIMEOUT);
    one.commit().unwrap();
    two.put("a", "2").unwrap();
}

/// Seats that a room has.
const SEATS: usize = 3;

/// Takes a seat of a room, if it has one left.
fn take_seat(transaction: &Transaction, room: u64, guest: u64, locked: bool) -> Result<u64> {
    let (start, end) = (format!("room{room}:"), format!("room{room};"));
    if locked {
        transaction.lock_range(&start, &end)?;
    }
    let mut taken = 0;
    for entry in transaction.iter()? {
        taken += usize::from(entry?.0.starts_with(start.as_bytes()));
    }
    thread::yield_now();
    if taken < SEATS {
        transaction.put(format!("{start}{guest}"), "")?;
    }
    Ok(0)
}

/// Guests of four tasks take seats in two rooms; true if no room has too many.
fn rooms_are_not_overbooked(seed: u64, locked: bool) -> bool {
    let (report, ended) = sim::run(&sim::Options::new(seed), move || {
        let db = locking();
        let options = TransactionOptions {
            deadlock_detect: true,
            lock_timeout: 600_000,
            ..TransactionOptions::default()
        };
        thread::scope(|scope| {
            for task in 0..4 {
                let (db, options) = (&db, &options);
                scope.spawn(move || {
                    let mut random = Rng::new(seed * 10 + task);
                    for n in 0..3 {
                        let (room, guest) = (random.uniform(2), task * 10 + n);
                        let retry = RetryOptions { attempts_max: 10_000, ..Default::default() };
                        let take =
                            |transaction: &Transaction| take_seat(transaction, room, guest, locked);
                        db.run_opt(&WriteOptions::default(), options, &retry, take).unwrap();
                    }
                });
            }
        });
        assert_eq!((db.held_locks(), db.waiting()), (Vec::new(), Vec::new()));
        let keys: Vec<Vec<u8>> = db.iter().unwrap().map(|it| it.unwrap().0.to_vec()).collect();
        let in_room =
            |room: &str| keys.iter().filter(|key| key.starts_with(room.as_bytes())).count();
        in_room("room0:") <= SEATS && in_room("room1:") <= SEATS
    });
    assert!(report.stuck.is_none(), "seed {seed}: {:?}", report.stuck);
    ended.unwrap()
}

/// What is decided by what a range lacks needs its lock: without it rooms are overbooked.
#[test]
fn locked_ranges_have_no_phantoms() {
    assert!((0..60).all(|seed| rooms_are_not_overbooked(seed, true)));
    assert!(!(0..60).all(|seed| rooms_are_not_overbooked(seed, false)));
}
