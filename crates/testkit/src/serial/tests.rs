//! The checker finds each anomaly, permits what a level permits, and is not lost in long histories.
#![allow(clippy::unwrap_used)]

use pumice_base::random::Rng;

use super::*;

fn version(writer: u64) -> Version {
    if writer == 0 { Version::NONE } else { Version { writer, nth: 1 } }
}

/// A transaction by what it read and wrote: pairs of a key and the writer of the version.
fn transaction(
    id: u64,
    (began, ended): (u64, u64),
    reads: &[(u32, u64)],
    writes: &[(u32, u64)],
) -> Transaction {
    Transaction {
        id,
        began,
        ended,
        reads: reads.iter().map(|(key, writer)| (*key, version(*writer))).collect(),
        writes: writes
            .iter()
            .map(|(key, before)| Write {
                key: *key,
                version: version(id),
                previous: version(*before),
            })
            .collect(),
    }
}

/// Which of the levels permit a history.
fn permitted(history: &[Transaction]) -> [bool; 3] {
    [Level::ReadCommitted, Level::Snapshot, Level::Serializable]
        .map(|level| check(history, level).is_ok())
}

#[test]
fn each_level_permits_what_it_should() {
    let both = (0, 100);
    let one_after_the_other = [
        transaction(1, (0, 1), &[(1, 0)], &[(1, 0)]),
        transaction(2, (2, 3), &[(1, 1)], &[(1, 1)]),
    ];
    assert_eq!(permitted(&one_after_the_other), [true, true, true]);
    let write_skew = [
        transaction(1, both, &[(1, 0), (2, 0)], &[(1, 0)]),
        transaction(2, both, &[(1, 0), (2, 0)], &[(2, 0)]),
    ];
    assert_eq!(permitted(&write_skew), [true, true, false]);
    assert_eq!(check(&write_skew, Level::Snapshot).unwrap().cycles, 1);
    let lost_update =
        [transaction(1, both, &[(1, 0)], &[(1, 0)]), transaction(2, both, &[(1, 0)], &[(1, 0)])];
    assert_eq!(permitted(&lost_update), [true, false, false]);
    assert!(matches!(check(&lost_update, Level::Snapshot), Err(Anomaly::LostUpdate(_))));
    let read_skew = [
        transaction(1, both, &[], &[(1, 0), (2, 0)]),
        transaction(2, both, &[(1, 0), (2, 1)], &[]),
    ];
    assert_eq!(permitted(&read_skew), [true, false, false]);
    let circular_flow =
        [transaction(1, both, &[(2, 2)], &[(1, 0)]), transaction(2, both, &[(1, 1)], &[(2, 0)])];
    assert_eq!(permitted(&circular_flow), [false, false, false]);
    let dirty_write = [
        transaction(1, both, &[], &[(1, 0), (2, 2)]),
        transaction(2, both, &[], &[(1, 1), (2, 0)]),
    ];
    assert_eq!(permitted(&dirty_write), [false, false, false]);
    let stale = [transaction(1, (0, 1), &[], &[(1, 0)]), transaction(2, (2, 3), &[(1, 0)], &[])];
    assert_eq!(permitted(&stale), [true, false, false], "it began after the commit");
}

/// Two rw with something between them: snapshot isolation does not permit it.
#[test]
fn two_conflicts_that_do_not_touch_are_found() {
    let both = (0, 100);
    let history = [
        transaction(1, both, &[(1, 0), (5, 4)], &[]),
        transaction(2, both, &[], &[(1, 0), (2, 0)]),
        transaction(3, both, &[(2, 2), (3, 0)], &[]),
        transaction(4, both, &[], &[(3, 0), (5, 0)]),
    ];
    assert_eq!(permitted(&history), [true, false, false]);
    let Err(Anomaly::Cycle(text)) = check(&history, Level::Snapshot) else { panic!("no cycle") };
    assert_eq!(text.split(" -").count(), 5, "{text}");
}

#[test]
fn versions_that_were_never_committed_are_found() {
    let aborted = [transaction(2, (0, 1), &[(1, 7)], &[])];
    assert!(matches!(check(&aborted, Level::ReadCommitted), Err(Anomaly::Aborted(_))));
    let mut twice =
        [transaction(1, (0, 9), &[], &[(1, 0)]), transaction(2, (0, 9), &[(1, 1)], &[])];
    twice[0].writes[0].version.nth = 2;
    assert!(matches!(check(&twice, Level::ReadCommitted), Err(Anomaly::Intermediate(_))));
}

/// A serial history is found to be one; with one read of an old version put in it is not.
#[test]
fn one_wrong_read_in_a_hundred_thousand_is_found() {
    const KEYS: u64 = 50;
    let mut rng = Rng::new(5);
    let mut newest = [Version::NONE; KEYS as usize];
    let mut history = Vec::new();
    for id in 1..=100_000 {
        let (read, written) = (rng.uniform(KEYS) as usize, rng.uniform(KEYS) as usize);
        let write = Write { key: written as u32, version: version(id), previous: newest[written] };
        history.push(Transaction {
            id,
            began: id,
            ended: id + 3,
            reads: vec![(read as u32, newest[read]), (written as u32, newest[written])],
            writes: vec![write],
        });
        newest[written] = version(id);
    }
    assert_eq!(check(&history, Level::Serializable).unwrap().cycles, 0);
    let (key, old) = history[50_000].reads[0];
    let after = history[50_000..].iter().position(|t| t.writes[0].key == key).unwrap();
    let late = history[50_000 + after + 10..].iter_mut().find(|t| t.reads[0].0 == key).unwrap();
    late.reads[0].1 = old;
    assert!(check(&history, Level::Snapshot).is_err());
    assert!(check(&history, Level::Serializable).is_err());
    assert!(check(&history, Level::ReadCommitted).is_ok());
}

#[test]
fn stamps_survive_their_encoding() {
    let stamp = Stamp { version: Version { writer: 9, nth: 2 }, previous: Version::NONE };
    assert_eq!(Stamp::decode(&stamp.encode(100)), Some(stamp));
    assert_eq!((stamp.encode(0).len(), stamp.encode(100).len()), (24, 100));
    assert_eq!(Stamp::decode(b"short"), None);
}
