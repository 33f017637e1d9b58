//! Who is asked to help, and that every batch is inserted once whatever happens.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use pumice_port::sync::Mutex;

use super::*;
use crate::commit::batch;

#[test] // Plain: a function of plain data.
fn as_many_are_asked_as_the_group_can_use_and_as_came_before() {
    // (cores besides the leader's, followers, updates, members asked in the first groups if all
    // come)
    let cases: [(usize, usize, u64, [usize; 4]); 8] = [
        (0, 100, 10_000, [0, 0, 0, 0]),
        (1, 100, 10_000, [1, 1, 1, 1]),
        (15, 100, 10_000, [1, 2, 3, 4]),
        (15, 2, 10_000, [1, 2, 2, 2]),
        (15, 0, 10_000, [0, 0, 0, 0]),
        (15, 100, 127, [0, 0, 0, 0]),
        (15, 100, 128, [1, 1, 1, 1]),
        (15, 100, 200, [1, 2, 2, 2]),
    ];
    for (most, followers, updates, expected) in cases {
        let mut helpers = Helpers::new(most);
        let asked = [(); 4].map(|()| {
            let asked = helpers.decide(followers, updates);
            helpers.came(asked, asked);
            asked
        });
        assert_eq!(asked, expected, "{most} {followers} {updates}");
    }
}

#[test] // Plain: a function of plain data.
fn those_who_do_not_come_are_not_asked_again_at_once() {
    let mut helpers = Helpers::new(15);
    for asked in 1..=8 {
        assert_eq!(helpers.decide(100, 10_000), asked);
        helpers.came(asked, asked);
    }
    assert_eq!(helpers.decide(100, 10_000), 9);
    helpers.came(9, 3);
    assert_eq!(helpers.decide(100, 10_000), 3);
    helpers.came(3, 0);
    for _ in 1..PAUSE_UPDATES / 128 {
        assert_eq!(helpers.decide(100, 127), 0, "a small group does not count");
        assert_eq!(helpers.decide(100, 128), 0);
    }
    assert_eq!(helpers.decide(100, 128), 1);
    helpers.came(1, 0);
    assert_eq!(helpers.decide(100, PAUSE_UPDATES / 2), 0);
    assert_eq!(helpers.decide(100, PAUSE_UPDATES / 2), 1);
}

/// Batches of one, two, three, .. updates, each with its number.
fn batches(count: u8) -> impl Iterator<Item = Vec<u8>> {
    (0..count).map(|n| [&batch::header(0, u32::from(n) + 1)[..], &[n]].concat())
}

fn taken(count: u8) -> impl Iterator<Item = (Vec<u8>, u64)> {
    batches(count).zip(1..)
}

#[pumice_test_macros::test]
fn every_batch_is_inserted_once_with_its_sequences() {
    for members in 0..4 {
        let shared = Arc::new(SharedInsert::new(taken(40), 1000));
        let inserted = Arc::new(Mutex::new(Vec::new()));
        let helpers: Vec<_> = (0..members)
            .map(|_| {
                let (shared, inserted) = (Arc::clone(&shared), Arc::clone(&inserted));
                thread::spawn("member", move || {
                    shared.help(|first, rep| {
                        inserted.lock().push((first, rep[batch::HEADER_LEN]));
                        Ok(())
                    });
                })
            })
            .collect();
        let insert = |first: u64, rep: &[u8]| {
            inserted.lock().push((first, rep[batch::HEADER_LEN]));
            Ok(())
        };
        let (back, came) = shared.finish(insert);
        assert!(came.unwrap() <= members);
        inserted.lock().sort_unstable();
        let expected = (0..40u64).map(|n| (1000 + n * (n + 1) / 2, n as u8));
        assert_eq!(*inserted.lock(), expected.collect::<Vec<_>>());
        assert!(back.into_iter().eq(batches(40)), "each has its own batch back");
        helpers.into_iter().for_each(|helper| helper.join().unwrap());
        shared.help(|_, _| panic!("nothing is left"));
    }
}

#[pumice_test_macros::test]
fn an_error_or_a_panic_is_returned_and_the_others_are_in() {
    for panics in [false, true] {
        let shared = Arc::new(SharedInsert::new(taken(10), 1));
        let inserted = Arc::new(Mutex::new(0));
        let insert = {
            let inserted = Arc::clone(&inserted);
            move |_: u64, rep: &[u8]| {
                *inserted.lock() += 1;
                if rep[batch::HEADER_LEN] == 3 {
                    assert!(!panics, "on purpose");
                    return Err(Error::aborted("on purpose"));
                }
                Ok(())
            }
        };
        let helper = {
            let (shared, insert) = (Arc::clone(&shared), insert.clone());
            thread::spawn("member", move || shared.help(insert))
        };
        let (back, came) = shared.finish(insert);
        let error = came.unwrap_err();
        assert!(error.to_string().contains("on purpose"), "{error}");
        assert_eq!(*inserted.lock(), 10, "nothing is begun twice");
        assert!(back.into_iter().eq(batches(10)));
        helper.join().unwrap();
    }
}
