//! Locks of ranges: each rule alone, and what is held against an account of every key.
#![allow(clippy::unwrap_used)]

use pumice_port::sync::Mutex;

use super::*;
use crate::locks::pause::Pause;
use crate::locks::ranges::{Claim, KeyRange, RangeLocks};
use crate::locks::waits::Waits;

fn lock(table: &LockTables, me: &Arc<Holder>, start: &str, end: &str) -> Result<(), Error> {
    let order = Comparator::default();
    table.lock_range(me, &order, &wanted(start.as_bytes(), true), end.as_bytes())
}

/// The ranges that are held, as texts.
fn ranges(table: &LockTables) -> Vec<String> {
    let ranges = table.held().into_iter().filter_map(|lock| {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let end = text(lock.end.as_deref()?);
        Some(format!("{}-{}:{}", text(&lock.key), end, lock.holders[0]))
    });
    ranges.collect()
}

#[pumice_test_macros::test]
fn a_range_is_for_one_alone() {
    let (table, a, b) = (LockTables::new(OPTIONS), holder(1), holder(2));
    lock(&table, &a, "b", "d").unwrap();
    let timeout = "Operation timed out: Timeout waiting to lock key";
    for key in [&b"b"[..], b"b0", b"c\xff"] {
        assert_eq!(text(table.lock(&b, &wanted(key, false))), timeout);
        table.lock(&a, &wanted(key, false)).unwrap();
        assert_eq!(text(table.lock(&b, &wanted(key, false))), timeout, "nor beside its holder");
    }
    for key in [&b"a\xff"[..], b"d"] {
        table.lock(&b, &wanted(key, true)).unwrap();
    }
    for (start, end) in [("a", "b\0"), ("c", "cc"), ("c", "z"), ("a", "z")] {
        assert_eq!(text(lock(&table, &b, start, end)), timeout, "{start} {end}");
    }
    lock(&table, &b, "a", "b").unwrap();
    lock(&table, &b, "d", "e").unwrap();
    assert_eq!(ranges(&table), ["a-b:2", "b-d:1", "d-e:2"]);
    // Another one's key in the middle, which stays the other one's.
    assert_eq!(text(lock(&table, &a, "c", "dd")), timeout);
    // Column families do not know each other's ranges.
    table.lock(&b, &Wanted { column_family: 1, ..wanted(b"c", true) }).unwrap();
    table.unlock_ranges(&a, 0);
    table.unlock_ranges(&a, 7);
    assert_eq!(text(table.lock(&b, &wanted(b"b", true))), timeout, "a key is a lock of its own");
    table.unlock(&a, 0, [&b"b"[..], b"b0", b"c\xff"]);
    lock(&table, &b, "a", "z").unwrap();
    assert_eq!(ranges(&table), ["a-z:2"]);
}

/// Ranges of one holder that meet are one; those of two never overlap, whatever is asked for.
#[pumice_test_macros::test]
fn ranges_of_a_holder_that_meet_are_one() {
    const KEYS: u64 = 12;
    for seed in 0..200 {
        let (table, mut random) = (LockTables::new(OPTIONS), Rng::new(seed));
        let holders: Vec<_> = (1..4).map(holder).collect();
        let mut owners = [0u64; KEYS as usize];
        let name = |at: u64| String::from(char::from(b'a' + at as u8));
        for step in 0..60 {
            let me = &holders[random.uniform(3) as usize];
            if random.one_in(12) {
                table.unlock_ranges(me, 0);
                owners.iter_mut().filter(|owner| **owner == me.id()).for_each(|owner| *owner = 0);
                continue;
            }
            let start = random.uniform(KEYS);
            let end = start + 1 + random.uniform((KEYS - start).min(4));
            let wanted = &mut owners[start as usize..end as usize];
            let free = wanted.iter().all(|owner| [0, me.id()].contains(owner));
            let granted = lock(&table, me, &name(start), &name(end)).is_ok();
            assert_eq!(granted, free, "seed {seed}, step {step}");
            if granted {
                wanted.fill(me.id());
            }
            let mut expected = Vec::new();
            let mut at = 0;
            while at < KEYS {
                let owner = owners[at as usize];
                let alike = |next: &u64| owners[*next as usize] == owner;
                let end = at + (at..KEYS).take_while(alike).count() as u64;
                if owner != 0 {
                    expected.push(format!("{}-{}:{owner}", name(at), name(end)));
                }
                at = end;
            }
            assert_eq!(ranges(&table), expected, "seed {seed}, step {step}");
        }
    }
}

/// A range counts as one lock.
#[pumice_test_macros::test]
fn ranges_count_as_locks() {
    let table = LockTables::new(LockOptions { locks_max: Some(2), ..OPTIONS });
    let (a, b) = (holder(1), holder(2));
    lock(&table, &a, "a", "c").unwrap();
    lock(&table, &a, "a", "b").unwrap();
    table.lock(&b, &wanted(b"x", true)).unwrap();
    let limit = "Operation aborted: Failed to acquire lock due to max_num_locks limit";
    assert_eq!(text(lock(&table, &b, "e", "f")), limit);
    assert_eq!(text(table.lock(&b, &wanted(b"y", true))), limit);
    table.unlock_ranges(&a, 0);
    lock(&table, &b, "e", "f").unwrap();
}

/// Keys and ranges of an expired holder can be taken, unless it commits first.
#[pumice_test_macros::test]
fn expired_ranges_are_stolen() {
    let (table, thief) = (LockTables::new(OPTIONS), holder(9));
    let expired = |id: u64| Arc::new(Holder::new(id, now_micros()));
    let (one, two, three) = (expired(1), expired(2), expired(3));
    lock(&table, &one, "a", "c").unwrap();
    lock(&table, &two, "e", "g").unwrap();
    table.lock(&three, &wanted(b"k", true)).unwrap();
    table.lock(&thief, &wanted(b"b", true)).unwrap();
    lock(&table, &thief, "f", "l").unwrap();
    for stolen in [&one, &two, &three] {
        assert_eq!(stolen.state(), TransactionState::LocksStolen);
        table.unlock_ranges(stolen, 0);
    }
    table.unlock(&three, 0, [&b"k"[..]]);
    assert_eq!(ranges(&table), ["f-l:9"]);
    assert_eq!(table.held().len(), 2);
    let committing = expired(4);
    lock(&table, &committing, "x", "y").unwrap();
    assert!(committing.change(TransactionState::Started, TransactionState::AwaitingCommit));
    assert!(lock(&table, &thief, "w", "z").is_err());
    assert!(table.lock(&thief, &wanted(b"x", true)).is_err());
}

/// A key and a range that wait for each other's holders: the last one to ask gives way.
#[pumice_test_macros::test]
fn circles_through_ranges_are_found() {
    let table = Arc::new(LockTables::new(OPTIONS));
    let (a, b) = (holder(1), holder(2));
    lock(&table, &a, "a", "c").unwrap();
    table.lock(&b, &wanted(b"x", true)).unwrap();
    let (shared, other) = (Arc::clone(&table), Arc::clone(&b));
    let waits = thread::spawn("waits", move || shared.lock(&other, &waiting(b"b", true)));
    while table.waiting().is_empty() {
        thread::yield_now();
    }
    let order = Comparator::default();
    let error = table.lock_range(&a, &order, &waiting(b"w", true), b"z").unwrap_err();
    assert_eq!(error.to_string(), "Resource busy: Deadlock");
    let path = table.deadlocks().pop().unwrap();
    assert_eq!(path.waits.iter().map(|wait| wait.id).collect::<Vec<_>>(), [2, 1]);
    let ends: Vec<_> = path.waits.iter().map(|wait| wait.end.clone()).collect();
    assert_eq!(ends, [None, Some(b"z".to_vec())]);
    // A range that is not granted holds nothing: the other one goes on in it meanwhile.
    table.lock(&b, &wanted(b"y", true)).unwrap();
    table.unlock_ranges(&a, 0);
    waits.join().unwrap().unwrap();
    table.unlock(&b, 0, [&b"b"[..], b"x", b"y"]);
    assert_eq!((table.held(), table.waiting()), (Vec::new(), Vec::new()));
}

/// A range waits for keys of others, and gets them one after the other.
#[pumice_test_macros::test]
fn a_range_waits_for_keys() {
    let table = Arc::new(LockTables::new(OPTIONS));
    let (a, b, c) = (holder(1), holder(2), holder(3));
    table.lock(&a, &wanted(b"m", false)).unwrap();
    table.lock(&b, &wanted(b"n", true)).unwrap();
    let (shared, me) = (Arc::clone(&table), Arc::clone(&c));
    let waits = thread::spawn("waits", move || {
        let order = Comparator::default();
        shared.lock_range(&me, &order, &waiting(b"a", true), b"z")
    });
    let waits_for = |id: u64| table.waiting().iter().any(|wait| wait.holders == [id]);
    while !waits_for(1) && !waits_for(2) {
        thread::yield_now();
    }
    // Others still get keys in the range.
    table.lock(&a, &wanted(b"o", true)).unwrap();
    table.unlock(&b, 0, [&b"n"[..]]);
    while !waits_for(1) {
        thread::yield_now();
    }
    table.unlock(&a, 0, [&b"m"[..], b"o"]);
    waits.join().unwrap().unwrap();
    assert_eq!(ranges(&table), ["a-z:3"]);
}

/// Keys in the order of the column family, not of their bytes.
#[pumice_test_macros::test]
fn ranges_have_the_order_of_the_family() {
    let (table, a, b) = (LockTables::new(OPTIONS), holder(1), holder(2));
    let order = Comparator::ReverseBytewise;
    table.lock_range(&a, &order, &wanted(b"m", true), b"c").unwrap();
    for (key, free) in [(&b"n"[..], true), (b"m", false), (b"d", false), (b"c", true)] {
        assert_eq!(table.lock(&b, &wanted(key, true)).is_ok(), free, "{key:?}");
    }
}

/// A claim lasts for moments and is never waited for in a circle: who meets one has not made a
/// deadlock, even if the claim is taken back for a key of its own.
#[pumice_test_macros::test]
fn a_claim_is_no_part_of_a_circle() {
    let waits = Arc::new(Mutex::new(Waits::new(5)));
    let (locks, a, b) = (Arc::new(RangeLocks::new()), holder(1), holder(2));
    let order = Comparator::default();
    let range = KeyRange { start: b"a", end: b"c" };
    assert!(matches!(locks.claim(&a, &order, &range, now_micros()), Claim::Made));
    let (shared, graph) = (Arc::clone(&locks), Arc::clone(&waits));
    let waiter = thread::spawn("waits", move || {
        let pause = Pause::new(&graph, b.id(), &waiting(b"b", true), None).unwrap();
        shared.wait(&pause, (b"b", None), now_micros())
    });
    while waits.lock().waiting().next().is_none() {
        thread::yield_now();
    }
    // Now it finds a key of the waiter's in its range.
    let wait = |id, holder| Wait {
        id,
        holders: vec![holder],
        column_family: 0,
        key: b"a".to_vec(),
        end: None,
        exclusive: true,
    };
    assert!(waits.lock().begin(wait(1, 2), 50, 0), "no deadlock");
    locks.withdraw(1);
    waiter.join().unwrap().unwrap();
}
