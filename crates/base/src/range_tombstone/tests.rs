//! Fragments by example and against the definition, under several key orders.

use std::sync::Arc;

use super::*;
use crate::key::CustomComparator;
use crate::key::MAX_SEQUENCE;
use crate::random::Rng;

fn tombstone(start: &str, end: &str, seq: u64) -> RangeTombstone {
    RangeTombstone { start: start.into(), end: end.into(), seq, time: Vec::new() }
}

fn show(set: &FragmentedTombstones) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let one = |f: &Fragment| format!("{}-{}{:?}", text(&f.start), text(&f.end), f.seqs);
    set.fragments().iter().map(one).collect::<Vec<_>>().join(" ")
}

fn build(list: &[(&str, &str, u64)]) -> FragmentedTombstones {
    let list = list.iter().map(|&(s, e, q)| tombstone(s, e, q)).collect();
    FragmentedTombstones::build(list, &Comparator::Bytewise)
}

#[test]
fn shapes() {
    type Input<'a> = &'a [(&'a str, &'a str, u64)];
    let cases: &[(Input<'_>, &str)] = &[
        (&[], ""),
        (&[("a", "a", 3), ("b", "a", 4)], ""),
        (&[("a", "c", 1), ("d", "f", 2)], "a-c[1] d-f[2]"),
        (&[("d", "f", 2), ("a", "c", 1)], "a-c[1] d-f[2]"),
        (&[("a", "e", 9), ("c", "g", 4)], "a-c[9] c-e[9, 4] e-g[4]"),
        (&[("a", "e", 4), ("c", "g", 9)], "a-c[4] c-e[9, 4] e-g[9]"),
        (
            &[("a", "g", 1), ("b", "f", 2), ("c", "e", 3)],
            "a-b[1] b-c[2, 1] c-e[3, 2, 1] e-f[2, 1] f-g[1]",
        ),
        (&[("a", "c", 5), ("a", "c", 5), ("a", "c", 7)], "a-c[7, 5]"),
        (&[("a", "c", 5), ("c", "e", 5)], "a-e[5]"),
        (&[("a", "c", 5), ("c", "e", 6)], "a-c[5] c-e[6]"),
        (&[("a", "d", 5), ("b", "c", 5)], "a-d[5]"),
        (&[("a", "e", 5), ("a", "c", 6), ("c", "e", 7)], "a-c[6, 5] c-e[7, 5]"),
        (&[("", "b", 5), ("a", "b", 6)], "-a[5] a-b[6, 5]"),
    ];
    for (input, expected) in cases {
        assert_eq!(show(&build(input)), *expected, "{input:?}");
    }
}

#[test]
fn covering_sequence() {
    let cmp = Comparator::Bytewise;
    let set = build(&[("b", "f", 10), ("d", "h", 20), ("x", "z", 5)]);
    let seq = |key: &str, upper| set.max_covering_seq(&cmp, UserKey::new(key.as_bytes()), upper);
    assert_eq!(set.num_tombstones(), 3);
    assert_eq!(
        ["a", "b", "c", "d", "e", "f", "g", "h", "w"].map(|k| seq(k, MAX_SEQUENCE)),
        [0, 10, 10, 20, 20, 20, 20, 0, 0]
    );
    assert_eq!([9, 10, 19, 20, 21].map(|upper| seq("e", upper)), [0, 10, 10, 20, 20]);
    assert_eq!((seq("x", 4), seq("x", 5), seq("yy", 6), seq("z", 6)), (0, 5, 5, 0));
    assert_eq!(set.first_ending_after(&cmp, UserKey::new(b"")), 0);
    assert_eq!(set.first_ending_after(&cmp, UserKey::new(b"h")), 3);
    assert_eq!(set.first_ending_after(&cmp, UserKey::new(b"z")), 4);
    assert!(set.memory_bytes() > 0);
    let empty = FragmentedTombstones::empty();
    assert!(empty.is_empty() && empty.covering(&cmp, UserKey::new(b"k")).is_none());
    assert_eq!(empty.max_covering_seq(&cmp, UserKey::new(b"k"), MAX_SEQUENCE), 0);
}

/// Orders keys by length alone, so that unequal bytes can be equal keys.
struct ByLength;

impl CustomComparator for ByLength {
    fn name(&self) -> &str {
        "test.ByLength"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.len().cmp(&b.len())
    }
}

/// Random tombstones against the definition, key by key, under three orders.
#[test]
fn agrees_with_the_definition() {
    let custom = Comparator::Custom(Arc::new(ByLength));
    for cmp in [Comparator::Bytewise, Comparator::ReverseBytewise, custom] {
        for seed in 0..300 {
            let mut rng = Rng::new(seed);
            let key = |rng: &mut Rng| {
                let n = rng.uniform(12) as usize;
                let fill = b'a' + rng.uniform(3) as u8;
                vec![fill; n]
            };
            let list: Vec<RangeTombstone> = (0..rng.uniform(25))
                .map(|_| {
                    let (start, end) = (key(&mut rng), key(&mut rng));
                    RangeTombstone { start, end, seq: 1 + rng.uniform(30), time: Vec::new() }
                })
                .collect();
            let set = FragmentedTombstones::build(list.clone(), &cmp);
            check_invariants(&set, &cmp);
            for n in 0..13 {
                for fill in b'a'..b'd' {
                    let (probe, upper) = (vec![fill; n], rng.uniform(32));
                    let expected = list
                        .iter()
                        .filter(|t| {
                            cmp.compare(t.start(), UserKey::new(&probe)) != Ordering::Greater
                                && cmp.compare(UserKey::new(&probe), t.end()) == Ordering::Less
                                && t.seq <= upper
                        })
                        .map(|t| t.seq)
                        .max();
                    let found = set.max_covering_seq(&cmp, UserKey::new(&probe), upper);
                    assert_eq!(found, expected.unwrap_or(0), "{cmp:?} seed {seed} {probe:?}");
                }
            }
        }
    }
}

fn check_invariants(set: &FragmentedTombstones, cmp: &Comparator) {
    for f in set.fragments() {
        assert_eq!(cmp.compare(f.start(), f.end()), Ordering::Less);
        assert!(!f.seqs.is_empty() && f.seqs.windows(2).all(|w| w[0] > w[1]), "{f:?}");
    }
    for pair in set.fragments().windows(2) {
        assert_ne!(
            cmp.compare(UserKey::new(&pair[0].end), UserKey::new(&pair[1].start)),
            Ordering::Greater
        );
        assert!(pair[0].end != pair[1].start || pair[0].seqs != pair[1].seqs);
    }
}

/// A hundred thousand neighbours stay linear in space.
#[test]
fn many_overlapping_pairs() {
    let key = |i: u64| format!("{i:08}").into_bytes();
    let n = 100_000u64;
    let list = (0..n).map(|i| RangeTombstone {
        start: key(i),
        end: key(i + 2),
        seq: i + 1,
        time: Vec::new(),
    });
    let set = FragmentedTombstones::build(list.collect(), &Comparator::Bytewise);
    assert_eq!(set.fragments().len() as u64, n + 1);
    for i in [0, 1, 500, n - 1, n] {
        let seq = set.max_covering_seq(&Comparator::Bytewise, UserKey::new(&key(i)), MAX_SEQUENCE);
        assert_eq!(seq, (i + 1).min(n));
    }
}

/// Nested tombstones of different sequences have fragments with the square of their number of
/// sequences: a reader of untrusted files sets a limit.
#[test]
fn nests_are_as_deep_as_the_caller_allows() {
    let nest = |n: u64| -> Vec<RangeTombstone> {
        (0..n).map(|i| tombstone("a", &format!("b{i:04}"), i + 1)).collect()
    };
    let cmp = Comparator::Bytewise;
    // The last fragment has one, the one before two, ..
    let list = FragmentedTombstones::build_within(nest(100), &cmp, 5050);
    assert_eq!(list.as_ref().map(show), Some(show(&FragmentedTombstones::build(nest(100), &cmp))));
    assert!(FragmentedTombstones::build_within(nest(100), &cmp, 5049).is_none());
    assert!(FragmentedTombstones::build_within(nest(3000), &cmp, 1 << 20).is_none());
}
