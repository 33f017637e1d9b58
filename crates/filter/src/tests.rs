//! Filters written by RocksDB, false-positive rates and hostile metadata.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use pumice_base::hash::hash64;
use pumice_base::random::Rng;

use crate::{
    ALWAYS_TRUE, BloomBuilder, FilterBuildSettings, FilterBuilder, FilterPolicy, FilterReader,
    RateBalance, RibbonBuilder,
};

/// Key `i` of db_bench: eight bytes big-endian and eight zeros in ASCII.
fn key(i: u64) -> Vec<u8> {
    let mut key = i.to_be_bytes().to_vec();
    key.extend_from_slice(b"00000000");
    key
}

fn format(format_version: u32) -> FilterBuildSettings {
    FilterBuildSettings::new(format_version)
}

fn build(policy: &str, format_version: u32, keys: u64) -> Vec<u8> {
    let policy = FilterPolicy::parse(policy).unwrap().unwrap();
    let mut builder = policy.builder(&format(format_version)).unwrap();
    for i in 0..keys {
        builder.add_key(&key(i));
        builder.add_key(&key(i));
    }
    assert_eq!(builder.len() as u64, keys);
    let space = builder.space(keys as usize);
    let filter = builder.finish().unwrap();
    assert!(builder.is_empty());
    assert_eq!(filter.len(), space);
    filter
}

/// Every key of `0..keys` matches; returns the share of the next million keys that do.
fn check(filter: &[u8], keys: u64) -> f64 {
    let reader = FilterReader::new(filter);
    assert!(!reader.always_matches());
    for i in 0..keys {
        assert!(reader.may_match(filter, &key(i)), "key {i}");
        assert!(reader.may_match_hash(filter, hash64(&key(i))), "hash of key {i}");
    }
    let hits = (0..1_000_000).filter(|i| reader.may_match(filter, &key(keys + i))).count();
    hits as f64 / 1e6
}

/// `db_bench --benchmarks=fillseq,flush --num=300 --bloom_bits=10` of RocksDB 7.8.3, format 5.
#[test]
fn bloom_equals_rocksdb() {
    let theirs = include_bytes!("../testdata/bloom5.filter");
    assert_eq!(build("bloomfilter:10:false", 5, 300), theirs);
    let rate = check(theirs, 300);
    assert!((0.002..0.012).contains(&rate), "{rate}");
}

/// The same with `--format_version=4`.
#[test]
fn legacy_bloom_equals_rocksdb() {
    let theirs = include_bytes!("../testdata/bloom4.filter");
    assert_eq!(build("bloomfilter:10:false", 4, 300), theirs);
    let reader = FilterReader::new(theirs);
    let matches = |i| reader.may_match(theirs, &key(i));
    assert!((0..300).all(matches));
    let hits = (300..100_300).filter(|&i| matches(i)).count();
    assert!((100..1500).contains(&hits), "{hits}");
    // It uses another hash, so by `hash64` everything matches.
    assert!((300..1300).all(|i| reader.may_match_hash(theirs, hash64(&key(i)))));
}

/// `db_bench --benchmarks=fillseq,flush,overwrite,flush,compact --num=3000 --bloom_bits=10
/// --use_ribbon_filter=1` of RocksDB 7.8.3.
#[test]
fn reads_ribbon_of_rocksdb() {
    let theirs = include_bytes!("../testdata/ribbon.filter");
    let rate = check(theirs, 3000);
    assert!((0.007..0.012).contains(&rate), "{rate}");
}

/// The measured rates are those the format promises (within noise), whatever the bits.
#[test]
fn false_positive_rates() {
    for (bits, low, high) in [
        (2, 0.36, 0.45),
        (5, 0.09, 0.12),
        (7, 0.03, 0.05),
        (10, 0.008, 0.0115),
        (16, 0.0004, 0.0013),
    ] {
        let rate = check(&build(&format!("bloomfilter:{bits}"), 5, 20_000), 20_000);
        assert!((low..high).contains(&rate), "{bits} bits: {rate}");
    }
}

#[test]
fn empty_filters_match_nothing() {
    for format_version in [4, 5] {
        assert_eq!(
            FilterPolicy::bloom(10.0).builder(&format(format_version)).unwrap().finish().unwrap(),
            []
        );
    }
    for len in 0..=5 {
        let reader = FilterReader::new(&[0xffu8; 5][..len]);
        assert!(!reader.always_matches() && !reader.may_match(&[0xffu8; 5][..len], b"k"));
    }
}

#[test]
fn unknown_filters_always_match() {
    let tails: [[u8; 5]; 12] = [
        [0, 0, 0, 0, 0],
        [0xff, 1, 6, 0, 0],        // Unknown sub-implementation.
        [0xff, 0, 0, 0, 0],        // No probes.
        [0xff, 0, 31, 0, 0],       // Too many.
        [0xff, 0, 6 | 0x20, 0, 0], // Larger lines.
        [0xff, 0, 6, 1, 0],
        [0xff, 0, 6, 0, 1],
        [0xfe, 0, 1, 0, 0], // One block.
        [0xfd, 0, 6, 0, 0],
        [0x80, 0, 6, 0, 0],
        [6, 0, 0, 0, 0], // No lines.
        [6, 3, 0, 0, 0], // 128 is not a multiple of 3.
    ];
    for tail in tails {
        let mut filter = vec![0; 128];
        filter.extend_from_slice(&tail);
        let reader = FilterReader::new(&filter);
        assert!(reader.always_matches() && reader.may_match(&filter, b"k"), "{tail:x?}");
    }
    let always = [0u8; 6];
    assert!(FilterReader::new(&always).may_match(&always, b"k"));
}

/// Legacy filters from machines with other cache lines.
#[test]
fn legacy_lines_of_other_sizes() {
    for line in [32usize, 128] {
        let mut filter = vec![0xff; 3 * line];
        filter.extend_from_slice(&[6, 3, 0, 0, 0]);
        let reader = FilterReader::new(&filter);
        assert!(!reader.always_matches() && reader.may_match(&filter, b"k"));
        filter[..3 * line].fill(0);
        assert!(!FilterReader::new(&filter).may_match(&filter, b"k"));
    }
}

#[test]
fn sizes_and_entries() {
    let FilterBuilder::Bloom(builder) = FilterPolicy::bloom(10.0).builder(&format(5)).unwrap()
    else {
        panic!("format 5 has the new filter");
    };
    assert_eq!([0, 1, 51, 52, 300].map(|n| builder.space(n)), [5, 69, 69, 133, 389]);
    // Sizes of partitions: 4096 and 8192 less ten percent.
    assert_eq!(
        [5, 68, 69, 3687, 7373].map(|b| builder.approximate_entries(b)),
        [0, 0, 51, 2918, 5888]
    );
    for bytes in (5..10_000).step_by(7) {
        assert!(builder.space(builder.approximate_entries(bytes)) <= bytes.max(5));
        let legacy = FilterPolicy::bloom(10.0).builder(&format(4)).unwrap();
        assert!(legacy.space(legacy.approximate_entries(bytes)) <= bytes.max(69));
    }
    assert_eq!(builder.space(1 << 40), 0xffff_ffc0 + 5);
}

/// Published thresholds, one on either side.
#[test]
fn probes() {
    use crate::bloom::num_probes;
    let cases = [
        (1000, 1),
        (2080, 1),
        (2081, 2),
        (10_000, 6),
        (10_070, 6),
        (10_071, 7),
        (25_501, 12),
        (25_502, 11),
        (50_000, 23),
        (50_001, 24),
        (100_000, 24),
    ];
    for (millibits, probes) in cases {
        assert_eq!(num_probes(millibits), probes, "{millibits}");
    }
}

/// Prefixes and keys both match, and so do partitions that end in a lone prefix.
#[test]
fn keys_with_prefixes() {
    for format_version in [4, 5] {
        let mut builder = FilterPolicy::bloom(10.0).builder(&format(format_version)).unwrap();
        for i in 0..1000 {
            builder.add_key_and_alt(&key(i), &key(i)[..7]);
        }
        assert_eq!(builder.len(), 1004);
        builder.add_key_and_alt(b"next", b"next");
        assert!(builder.memory_bytes() >= 1005 * 4);
        let filter = builder.finish().unwrap();
        let reader = FilterReader::new(&filter);
        assert!((0..1000).all(|i| reader.may_match(&filter, &key(i))));
        assert!((0..1000).all(|i| reader.may_match(&filter, &key(i)[..7])));
        assert!(reader.may_match(&filter, b"next"));
    }
}

/// What a builder is going to hold is asked for before: equations of 20 bytes a slot, then the
/// filter besides. Without the equations it is a Bloom filter, byte for byte.
#[test]
fn equations_are_given_up_where_they_may_not_be_held() {
    const KEYS: u64 = 5000;
    let build = |policy: FilterPolicy, most: usize| {
        let mut builder = policy.builder(&format(5)).unwrap();
        (0..KEYS).for_each(|i| builder.add_key(&key(i)));
        let mut asked = Vec::new();
        let filter = builder.finish_within(&mut |bytes| {
            asked.push(bytes);
            bytes <= most
        });
        (filter.unwrap(), asked)
    };
    let (bloom, asked) = build(FilterPolicy::bloom(10.0), 0);
    assert_eq!(asked, [bloom.len()]);
    let (ribbon, asked) = build(FilterPolicy::ribbon(10.0, -1), usize::MAX);
    assert!(ribbon.len() * 4 < bloom.len() * 3);
    let equations = asked[0];
    assert!(equations.is_multiple_of(20) && equations / 20 > KEYS as usize, "{equations}");
    assert_eq!(asked, [equations, equations + ribbon.len()]);
    let (refused, asked) = build(FilterPolicy::ribbon(10.0, -1), equations - 1);
    assert_eq!((&refused, asked), (&bloom, vec![equations, bloom.len()]));
}

/// A filter larger than the cache is built by parts: every key is in it, and it equals the filter
/// made one hash after another.
#[test]
fn large_filters() {
    let count = 1_200_000;
    for policy in ["bloomfilter:10", "ribbonfilter:10"] {
        let policy = FilterPolicy::parse(policy).unwrap().unwrap();
        let mut builder = policy.builder(&format(5)).unwrap();
        let mut rng = Rng::new(11);
        let hashes: Vec<_> = (0..count).map(|_| rng.next_u64()).collect();
        hashes.iter().for_each(|&hash| builder.add_hash(hash));
        let filter = builder.finish().unwrap();
        let reader = FilterReader::new(&filter);
        assert!(hashes.iter().all(|&hash| reader.may_match_hash(&filter, hash)));
        let absent = (0..200_000).filter(|_| reader.may_match_hash(&filter, rng.next_u64()));
        let rate = absent.count() as f64 / 200_000.0;
        assert!((0.0088..0.0104).contains(&rate), "{rate}");
        if let FilterBuilder::Bloom(_) = builder {
            // Bits that no key sets are not set.
            let mut bits = vec![0u8; filter.len() - 5];
            let lines = (bits.len() / 64) as u64;
            for hash in hashes {
                let line = ((hash & 0xffff_ffff) * lines) >> 32;
                let mut x = (hash >> 32) as u32;
                for _ in 0..6 {
                    bits[line as usize * 64 + (x >> 26) as usize] |= 1 << ((x >> 23) & 7);
                    x = x.wrapping_mul(0x9e37_79b9);
                }
            }
            assert!(bits == filter[..filter.len() - 5]);
        }
    }
}

/// A memory fault between adding and building is detected, and nothing else is mistaken for one.
#[test]
fn faults_between_adding_and_building() {
    for (policy, format_version, count) in [
        ("bloomfilter:10", 5, 3000),
        ("bloomfilter:10", 4, 3000),
        ("ribbonfilter:10:-1", 5, 3000),
        ("ribbonfilter:10:-1", 5, 3),
    ] {
        let policy = FilterPolicy::parse(policy).unwrap().unwrap();
        let settings = FilterBuildSettings { detect_corruption: true, ..format(format_version) };
        let mut careful = policy.builder(&settings).unwrap();
        let mut careless = policy.builder(&format(format_version)).unwrap();
        let add = |builder: &mut FilterBuilder| (0..count).for_each(|i| builder.add_key(&key(i)));
        add(&mut careful);
        add(&mut careless);
        assert_eq!(careful.finish().unwrap(), careless.finish().unwrap());

        add(&mut careful);
        careful.damage_entry(1);
        let error = careful.finish().unwrap_err();
        assert!(error.is_corruption(), "{error}");
        let expected = "Corruption: Filter's hash entries checksum mismatched";
        assert_eq!(error.to_string(), expected);
        // The builder is as new, and the substitute filter loses no key.
        assert!(careful.is_empty());
        add(&mut careful);
        careful.finish().unwrap();
        let reader = FilterReader::new(&ALWAYS_TRUE);
        assert!(reader.always_matches() && reader.may_match(&ALWAYS_TRUE, &key(1)));

        // Without the check the damaged key is lost: that is what the check is for.
        add(&mut careless);
        careless.damage_entry(1);
        let filter = careless.finish().unwrap();
        assert!(!FilterReader::new(&filter).may_match(&filter, &key(1)));
    }
}

/// `optimize_filters_for_memory`: the filter fills its size class, the average rate stays as
/// configured, no key is lost, and the same keys in the same order of filters give the same bytes.
#[test]
fn memory_optimized_filters() {
    for policy in ["bloomfilter:10", "ribbonfilter:10"] {
        let policy = FilterPolicy::parse(policy).unwrap().unwrap();
        let settings = FilterBuildSettings { optimize_for_memory: true, ..format(5) };
        let [mut optimized, mut again] = [0; 2].map(|_| policy.builder(&settings).unwrap());
        let mut exact = policy.builder(&format(5)).unwrap();
        let (mut rates, mut lengths) = ([0.0; 2], [0usize; 2]);
        let mut rng = Rng::new(5);
        for round in 0..60 {
            let count = 2000 + round * 37;
            let hashes: Vec<_> = (0..count).map(|_| rng.next_u64()).collect();
            let mut build = |builder: &mut FilterBuilder, at: usize| {
                hashes.iter().for_each(|&hash| builder.add_hash(hash));
                let filter = builder.finish().unwrap();
                let reader = FilterReader::new(&filter);
                assert!(hashes.iter().all(|&hash| reader.may_match_hash(&filter, hash)));
                let mut absent = Rng::new(round as u64);
                let hits =
                    (0..20_000).filter(|_| reader.may_match_hash(&filter, absent.next_u64()));
                rates[at] += hits.count() as f64 / 20_000.0 / 60.0;
                lengths[at] += filter.len();
                filter
            };
            build(&mut exact, 0);
            let filter = build(&mut optimized, 1);
            // With the block's trailer, at most a unit below a class of four in each doubling.
            let size = filter.len() + 5;
            let class = size.next_multiple_of(size.next_power_of_two() / 8);
            assert!(class - size < 64, "{size}");
            assert_eq!(filter, build(&mut again, 1));
        }
        // A rebuilt filter counts twice.
        let ratio = rates[1] / 2.0 / rates[0];
        assert!((0.95..1.05).contains(&ratio), "{policy}: {ratio}");
        let bytes = lengths[1] as f64 / 2.0 / lengths[0] as f64;
        assert!((0.97..1.05).contains(&bytes), "{policy}: {bytes}");
    }
}

/// Filters of several builders that share a balance: over few of them the rate is already right,
/// and much closer than the effect of one choice between two size classes.
#[test]
fn builders_share_a_balance() {
    for policy in ["bloomfilter:10", "ribbonfilter:10"] {
        let policy = FilterPolicy::parse(policy).unwrap().unwrap();
        let settings = FilterBuildSettings { optimize_for_memory: true, ..format(5) };
        let mut rng = Rng::new(11);
        for set in 0..8 {
            let balance = std::sync::Arc::new(RateBalance::default());
            let mut hits = [0; 2];
            for _ in 0..12 {
                let hashes: Vec<_> =
                    (0..3000 + rng.uniform(3000)).map(|_| rng.next_u64()).collect();
                for (at, settings) in [settings, format(5)].iter().enumerate() {
                    let mut builder = policy.builder(settings).unwrap();
                    builder.share_balance(std::sync::Arc::clone(&balance));
                    hashes.iter().for_each(|&hash| builder.add_hash(hash));
                    let filter = builder.finish().unwrap();
                    let reader = FilterReader::new(&filter);
                    assert!(hashes.iter().all(|&hash| reader.may_match_hash(&filter, hash)));
                    let mut absent = Rng::new(set);
                    hits[at] += (0..200_000)
                        .filter(|_| reader.may_match_hash(&filter, absent.next_u64()))
                        .count();
                }
            }
            // Some 20,000 hits: three standard deviations of the difference are 3 %.
            let ratio = hits[0] as f64 / hits[1] as f64;
            assert!((0.93..1.07).contains(&ratio), "{policy} {set}: {ratio} {hits:?}");
        }
    }
}

proptest! {
    /// Anything may be stored; nothing panics, with the right bytes or with others.
    #[test]
    fn hostile_filters(
        mut filter in prop::collection::vec(any::<u8>(), 0..400),
        marker in prop::sample::select(vec![0u8, 1, 6, 0x7f, 0x80, 0xfe, 0xff]),
        small in any::<bool>(),
        seed in any::<u64>(),
    ) {
        if let Some(at) = filter.len().checked_sub(5) {
            filter[at] = marker;
            if small {
                filter[at + 3] = 0;
                filter[at + 4] = 0;
            }
        }
        let reader = FilterReader::new(&filter);
        let mut rng = Rng::new(seed);
        for n in 0..20 {
            let key = rng.bytes(n);
            reader.may_match(&filter, &key);
            reader.may_match_hash(&filter, rng.next_u64());
            reader.may_match(&filter[..filter.len() / 2], &key);
            reader.may_match(&[], &key);
        }
    }

    /// A filter that some policy wrote, with a few bytes damaged, at either end and in between.
    #[test]
    fn damaged_filters(
        bits in 1.0..40.0f64,
        ribbon in any::<bool>(),
        format_version in 4u32..6,
        count in 1u64..2000,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        metadata in any::<bool>(),
    ) {
        let policy =
            if ribbon { FilterPolicy::ribbon(bits, -1) } else { FilterPolicy::bloom(bits) };
        let mut builder = policy.builder(&format(format_version)).unwrap();
        (0..count).for_each(|i| builder.add_key(&key(i)));
        let mut filter = builder.finish().unwrap();
        let reader = FilterReader::new(&filter);
        prop_assert!((0..count).all(|i| reader.may_match(&filter, &key(i))));
        for (at, byte) in damage {
            let range = if metadata { filter.len() - 5..filter.len() } else { 0..filter.len() };
            let at = range.start + at.index(range.len());
            filter[at] ^= byte;
        }
        for contents in [&filter[..], &filter[..filter.len() - 1], &filter[1..]] {
            let reader = FilterReader::new(contents);
            (0..50).for_each(|i| {
                reader.may_match(contents, &key(i));
            });
        }
    }

    /// Any number of keys of any bits makes a filter that has them all.
    #[test]
    fn no_key_is_lost_by_ribbon(
        seed in any::<u64>(),
        count in 1usize..3000,
        millibits in 1000u32..120_000,
        optimize_for_memory in any::<bool>(),
    ) {
        let settings = FilterBuildSettings { optimize_for_memory, ..format(5) };
        let mut builder = RibbonBuilder::new(millibits, &settings);
        let mut rng = Rng::new(seed);
        let hashes: Vec<_> = (0..count).map(|_| rng.next_u64()).collect();
        // Keys that repeat later are not adjacent duplicates: they give redundant equations.
        let twice = hashes.iter().chain(&hashes[..count / 20]);
        twice.for_each(|&hash| builder.hashes_mut().add(hash));
        let filter = builder.finish().unwrap();
        let reader = FilterReader::new(&filter);
        prop_assert!(hashes.iter().all(|&hash| reader.may_match_hash(&filter, hash)));
    }

    #[test]
    fn no_false_negatives(
        hashes in prop::collection::vec(any::<u64>(), 1..500),
        millibits in 0u32..120_000,
    ) {
        let mut builder = BloomBuilder::new(millibits, &format(5));
        hashes.iter().for_each(|&hash| builder.hashes_mut().add(hash));
        let filter = builder.finish().unwrap();
        let reader = FilterReader::new(&filter);
        prop_assert!(hashes.iter().all(|&hash| reader.may_match_hash(&filter, hash)));
    }
}

/// However large a partition may be, it has no more keys than the largest filter serves.
#[test]
fn entries_of_huge_filters() {
    for (policy, version) in [("bloomfilter:1", 5), ("bloomfilter:100", 5), ("bloomfilter:1", 4)] {
        let policy = FilterPolicy::parse(policy).unwrap().unwrap();
        let builder = policy.builder(&format(version)).unwrap();
        let most = builder.approximate_entries(usize::MAX);
        assert_eq!(most, builder.approximate_entries(1 << 40));
        assert!((1 << 28..1 << 36).contains(&most), "{most}");
    }
}
