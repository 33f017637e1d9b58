//! What checked reads find in memory that has changed.

use super::*;
use crate::memtable::Rep;
use crate::{Checks, Move};

const KEYS: u64 = 600;

fn key(n: u64) -> Vec<u8> {
    format!("key{n:05}").into_bytes()
}

fn table(user: Comparator, checks: Checks, guard_bytes: usize) -> Arc<MemTable> {
    let comparator = InternalKeyComparator::new(user);
    let options =
        MemTableOptions { comparator, checks, guard_bytes, ..MemTableOptions::new(1 << 20) };
    let mem = MemTable::new(options, 1, 0);
    for n in 0..KEYS {
        mem.add(n + 1, ValueType::Value, &key(n), b"value").unwrap();
    }
    mem
}

/// Flips a bit of the entry of key `n`: of its last byte, or of its value.
fn change(mem: &MemTable, n: u64, of_key: bool) {
    let Rep::SkipList(list) = &mem.rep else { panic!("a skip list") };
    let mut node = list.first();
    while list.entry(node).user_key().as_bytes() != key(n) {
        node = list.next(node);
    }
    let at = 4 + if of_key { key(n).len() - 1 } else { key(n).len() + 8 };
    // SAFETY: a byte of the entry, which no other thread has.
    unsafe { *node.cast::<u8>().add(at) ^= 1 };
}

/// The error of each kind of read for key `n`, if it has one: a get and two seeks.
fn reads(mem: &Arc<MemTable>, n: u64) -> [Option<String>; 3] {
    let name = key(n);
    let target = seek_key(&name, MAX_SEQUENCE);
    let target = InternalKey::new(&target);
    let mut iter = mem.iter();
    let get = mem.visit_checked(UserKey::new(&name), MAX_SEQUENCE, &mut |_, _, _, _| true);
    [get, iter.go_checked(Move::Seek(target)), iter.go_checked(Move::SeekForPrev(target))]
        .map(|read| read.err().map(|error| error.to_string()))
}

/// Keys that a search passes, and does not show, are compared only with the option.
#[pumice_test_macros::test]
fn searches_find_a_changed_entry_that_they_pass() {
    for (checksums, of_key) in [(true, true), (true, false), (false, false)] {
        let checks = Checks { checksums, order: false };
        let (mut found, mut passed) = (0, 0);
        for changed in (0..KEYS).step_by(if cfg!(miri) { 211 } else { 7 }) {
            let mem = table(Comparator::Bytewise, checks, 8);
            assert!(reads(&mem, changed).iter().all(Option::is_none));
            change(&mem, changed, of_key);
            for n in (0..KEYS).step_by(11).filter(|n| n.abs_diff(changed) > 1) {
                let errors = reads(&mem, n);
                let first = errors[0].clone();
                // All three take the same way.
                assert!(errors.into_iter().all(|error| error == first), "{changed} {n}");
                passed += 1;
                found += usize::from(first.is_some_and(|text| text.contains("checksum")));
            }
        }
        // A search passes the tall nodes, on its way to whatever key.
        assert_eq!(found > 0, checksums, "{found} of {passed}");
        assert!(found < passed / 2, "{found} of {passed}");
    }
}

/// An order that turns around when it is told to: as if the keys had changed.
struct Turning(AtomicBool);

impl CustomComparator for Turning {
    fn name(&self) -> &str {
        "turning"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        if self.0.load(Relaxed) { b.cmp(a) } else { a.cmp(b) }
    }
}

#[pumice_test_macros::test]
fn keys_out_of_order_are_found() {
    for (order, checksums) in [(true, false), (false, false)] {
        let turning = Arc::new(Turning(AtomicBool::new(false)));
        let user = Comparator::Custom(Arc::clone(&turning) as Arc<dyn CustomComparator>);
        let mem = table(user, Checks { order, checksums }, 0);
        assert_eq!(mem.is_checked(), order);
        let mut iter = mem.iter();
        iter.go_checked(Move::First).unwrap();
        for n in 0..KEYS {
            assert_eq!(iter.key().user_key().as_bytes(), key(n));
            iter.go_checked(Move::Next).unwrap();
        }
        turning.0.store(true, Relaxed);
        // The last key now: the searches pass others.
        let errors = reads(&mem, 0);
        iter.go_checked(Move::First).unwrap();
        let next = iter.go_checked(Move::Next).err().map(|error| error.to_string());
        iter.go_checked(Move::Last).unwrap();
        let prev = iter.go_checked(Move::Prev).err().map(|error| error.to_string());
        let text = "Corruption: Out-of-order keys found in skiplist.";
        for error in errors.into_iter().chain([next, prev]) {
            assert_eq!(error.as_deref(), order.then_some(text));
        }
    }
}

/// One key that is out of order is found by walks over its neighbours, in either direction.
#[pumice_test_macros::test]
fn walks_find_one_key_out_of_order() {
    let checks = Checks { order: true, checksums: false };
    for changed in [0, 1, 299, 300, KEYS - 2] {
        let mem = table(Comparator::Bytewise, checks, 0);
        // It becomes one of its neighbours: before the next one with an older sequence number, or
        // behind the one before with a newer one.
        change(&mem, changed, true);
        for (start, step) in [(Move::First, Move::Next), (Move::Last, Move::Prev)] {
            let mut iter = mem.iter();
            iter.go_checked(start).unwrap();
            let mut walked = Ok(());
            while walked.is_ok() && iter.valid() {
                walked = iter.go_checked(step);
            }
            assert!(walked.is_err(), "{changed}");
        }
    }
}

/// Checked reads of what has not changed find what others find.
#[pumice_test_macros::test]
fn checked_reads_agree_with_others() {
    for seed in 0..if cfg!(miri) { 1 } else { 8 } {
        let mut rng = Rng::new(seed);
        for user in comparators() {
            for rep in [MemTableRep::SKIP_LIST, MemTableRep::Vector { reserve: 0 }] {
                let options = MemTableOptions {
                    rep,
                    comparator: InternalKeyComparator::new(user.clone()),
                    checks: Checks { order: true, checksums: true },
                    guard_bytes: 4,
                    ..MemTableOptions::new(1 << 20)
                };
                let mem = MemTable::new(options, 1, 0);
                for seq in 1..300 {
                    mem.add(seq, ValueType::Value, &tricky_key(&mut rng), b"v").unwrap();
                }
                let (mut plain, mut checked) = (mem.iter(), mem.iter());
                for _ in 0..300 {
                    let (name, seq) = (tricky_key(&mut rng), rng.uniform(400));
                    let mut found = [Vec::new(), Vec::new()];
                    let [plainly, with_checks] = &mut found;
                    mem.get_with(UserKey::new(&name), seq, |seq, _, _| {
                        plainly.push(seq);
                        true
                    });
                    let visited =
                        mem.visit_checked(UserKey::new(&name), seq, &mut |_, seq, _, _| {
                            with_checks.push(seq);
                            true
                        });
                    visited.unwrap();
                    assert_eq!(found[0], found[1]);
                    let target = seek_key(&name, seq);
                    let target = InternalKey::new(&target);
                    match rng.uniform(6) {
                        0 => (plain.seek_to_first(), checked.go_checked(Move::First).unwrap()),
                        1 => (plain.seek_to_last(), checked.go_checked(Move::Last).unwrap()),
                        2 => (plain.seek(target), checked.go_checked(Move::Seek(target)).unwrap()),
                        3 if plain.valid() => {
                            (plain.next(), checked.go_checked(Move::Next).unwrap())
                        }
                        4 if plain.valid() => {
                            (plain.prev(), checked.go_checked(Move::Prev).unwrap())
                        }
                        _ => (
                            plain.seek_for_prev(target),
                            checked.go_checked(Move::SeekForPrev(target)).unwrap(),
                        ),
                    };
                    let at = |iter: &crate::MemTableIter| {
                        iter.valid().then(|| iter.key().as_bytes().to_vec())
                    };
                    assert_eq!(at(&plain), at(&checked), "seed {seed}");
                }
            }
        }
    }
}
