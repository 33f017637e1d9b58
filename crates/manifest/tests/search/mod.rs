//! Searches in levels against plain loops, by seed, under each comparator.

use std::cmp::Ordering;
use std::sync::Arc;

use pumice_base::key::{self, MAX_SEQUENCE, ValueType, internal_key};
use pumice_base::{Comparator, InternalKey, InternalKeyComparator, UserKey};
use pumice_manifest::{FileMetaData, UserRange, Version, VersionBuilder, VersionEdit};

/// A small generator: the suite must not depend on a library's sequence.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// Short keys over a tiny alphabet after a common prefix, so that prefixes tie and nest.
fn random_key(rng: &mut Rng, prefix: &[u8]) -> Vec<u8> {
    let mut key = prefix.to_vec();
    let len = rng.below(12);
    key.extend((0..len).map(|_| [0, 1, b'a', 0xff][rng.below(4) as usize]));
    key
}

fn random_version(rng: &mut Rng, cmp: &Comparator, prefix: &[u8]) -> Arc<Version> {
    let icmp = InternalKeyComparator::new(cmp.clone());
    let mut keys: Vec<Vec<u8>> = (0..rng.below(40))
        .map(|_| {
            let user = random_key(rng, prefix);
            match rng.below(6) {
                0 => internal_key(&user, MAX_SEQUENCE, ValueType::RangeDeletion),
                _ => internal_key(&user, rng.below(5), ValueType::Value),
            }
        })
        .collect();
    keys.sort_by(|a, b| icmp.compare(InternalKey::new(a), InternalKey::new(b)));
    keys.dedup();
    let mut edit = VersionEdit::default();
    for (i, pair) in keys.chunks_exact(2).enumerate() {
        let (smallest, largest) = (pair[0].clone(), pair[1].clone());
        for level in 0..2 {
            let number = 10 + 2 * i as u64 + level;
            let (smallest, largest) = (smallest.clone(), largest.clone());
            let file =
                FileMetaData { number, smallest, largest, epoch_number: number, ..<_>::default() };
            edit.add_file(level as usize, Arc::new(file));
        }
    }
    let mut builder = VersionBuilder::new(Version::empty(icmp, 3));
    builder.apply(&edit).unwrap();
    builder.build().unwrap()
}

fn check(version: &Version, cmp: &Comparator, rng: &mut Rng, prefix: &[u8]) {
    let icmp = version.comparator();
    for _ in 0..30 {
        let prefix = match rng.below(4) {
            0 => &prefix[..rng.below(prefix.len() as u64 + 1) as usize],
            _ => prefix,
        };
        let user = random_key(rng, prefix);
        let ikey = internal_key(&user, rng.below(5), ValueType::Value);
        let files = version.files(1);
        let first = files
            .iter()
            .position(|f| icmp.compare(f.largest_key(), InternalKey::new(&ikey)) != Ordering::Less);
        let found = version.find_file(1, InternalKey::new(&ikey));
        assert_eq!(found, first.unwrap_or(files.len()));
        assert_eq!(
            found,
            files.partition_point(|f| icmp
                .compare(f.largest_key(), InternalKey::new(&ikey))
                .is_lt())
        );

        let covers = |f: &&Arc<FileMetaData>| {
            cmp.compare(f.smallest_user_key(), UserKey::new(&user)) != Ordering::Greater
                && cmp.compare(UserKey::new(&user), f.largest_user_key()) != Ordering::Greater
        };
        for level in 0..2 {
            let behind = version.files(level).iter();
            let behind = behind.skip(if level == 0 { 0 } else { found });
            let expected: Vec<u64> = behind.filter(covers).map(|f| f.number).collect();
            let actual: Vec<u64> =
                version.candidates(level, InternalKey::new(&ikey)).map(|f| f.number).collect();
            assert_eq!(actual, expected, "level {level} key {user:?}");
        }

        let other = random_key(rng, prefix);
        let (low, high) = match cmp.compare(UserKey::new(&user), UserKey::new(&other)) {
            Ordering::Greater => (&other, &user),
            _ => (&user, &other),
        };
        let range = UserRange::closed(Some(low), Some(high));
        for level in 0..2 {
            let touches = |f: &&Arc<FileMetaData>| UserRange::of_file(f).overlaps(&range, cmp);
            let expected: Vec<u64> =
                version.files(level).iter().filter(touches).map(|f| f.number).collect();
            let actual = version.level(level).overlapping_files(&range, cmp);
            assert_eq!(actual.iter().map(|f| f.number).collect::<Vec<_>>(), expected);
            assert_eq!(version.range_overlaps(level, &range), !expected.is_empty());
            check_inputs(version, level, &range, &expected, cmp);
        }
    }
    check_beyond(version, cmp, rng, prefix);
}

/// No file outside the inputs shares a user key with one inside.
fn check_inputs(
    version: &Version,
    level: usize,
    range: &UserRange<'_>,
    direct: &[u64],
    cmp: &Comparator,
) {
    let inputs = version.get_overlapping_inputs(level, range);
    let inside = |n: u64| inputs.iter().any(|f| f.number == n);
    assert!(direct.iter().all(|&n| inside(n)));
    if level == 0 && !inputs.is_empty() {
        let hull = UserRange::of_files(version.comparator(), &inputs);
        for file in version.files(0).iter().filter(|f| !inside(f.number)) {
            assert!(!UserRange::of_file(file).overlaps(&hull, cmp));
        }
    }
    for file in version.files(level).iter().filter(|f| !inside(f.number)) {
        for input in &inputs {
            assert!(!UserRange::of_file(file).overlaps(&UserRange::of_file(input), cmp));
        }
    }
}

fn check_beyond(version: &Version, cmp: &Comparator, rng: &mut Rng, prefix: &[u8]) {
    let mut keys: Vec<_> = (0..20).map(|_| random_key(rng, prefix)).collect();
    keys.sort_by(|a, b| cmp.compare(UserKey::new(a), UserKey::new(b)));
    let mut cursor = version.beyond_cursor(0);
    for key in &keys {
        let hidden = version.files(1).iter().any(|f| {
            cmp.compare(f.smallest_user_key(), UserKey::new(key)) != Ordering::Greater
                && cmp.compare(UserKey::new(key), f.largest_user_key()) != Ordering::Greater
        });
        assert_eq!(version.key_not_exists_beyond(&mut cursor, UserKey::new(key)), !hidden);
    }
    let mut behind_all = version.beyond_cursor(6);
    assert!(version.key_not_exists_beyond(&mut behind_all, UserKey::new(b"a")));
}

#[test]
fn searches_agree_with_plain_loops() {
    for cmp in [Comparator::Bytewise, Comparator::ReverseBytewise] {
        for seed in 0..400 {
            let mut rng = Rng(seed);
            let prefix = [&b""[..], b"a", b"common prefix"][rng.below(3) as usize];
            let version = random_version(&mut rng, &cmp, prefix);
            println!("seed {seed} {cmp:?}\n{version:?}");
            check(&version, &cmp, &mut rng, prefix);
        }
    }
}

#[test]
fn equal_largest_user_keys_are_all_candidates() {
    let icmp = InternalKeyComparator::new(Comparator::Bytewise);
    let mut edit = VersionEdit::default();
    for (number, high, low) in [(1, 9, 7), (2, 6, 4), (3, 3, 1)] {
        edit.add_file(
            1,
            Arc::new(FileMetaData {
                number,
                smallest: internal_key(b"k", high, ValueType::Value),
                largest: internal_key(b"k", low, ValueType::Value),
                epoch_number: 1,
                ..Default::default()
            }),
        );
    }
    let mut builder = VersionBuilder::new(Version::empty(icmp, 2));
    builder.apply(&edit).unwrap();
    let version = builder.build().unwrap();
    let numbers = |seq| {
        let key = key::seek_key(b"k", seq);
        version.candidates(1, InternalKey::new(&key)).map(|f| f.number).collect::<Vec<_>>()
    };
    assert_eq!(numbers(MAX_SEQUENCE), [1, 2, 3]);
    assert_eq!(numbers(6), [2, 3]);
    assert_eq!(numbers(0), [0; 0]);
}
