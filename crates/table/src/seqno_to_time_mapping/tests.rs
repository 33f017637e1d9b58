//! Tests of the mapping. What RocksDB's tables have: `crates/pumice/tests/all/timestamps`.
#![allow(clippy::unwrap_used)]

use pumice_base::random::Rng;

use super::{SAMPLES_PER_TABLE_MAX, Sample, SeqnoToTimeMapping};

fn mapping(samples: &[(u64, u64)]) -> SeqnoToTimeMapping {
    let mut mapping = SeqnoToTimeMapping::default();
    samples.iter().for_each(|(sequence, seconds)| mapping.sample(*sequence, *seconds));
    mapping
}

#[pumice_test_macros::test]
fn a_time_is_asked_for_by_an_entry_and_the_other_way() {
    let known = mapping(&[(10, 500), (20, 600), (30, 700)]);
    let times = [1, 10, 11, 20, 21, 30, 31, u64::MAX].map(|sequence| known.time_before(sequence));
    assert_eq!(times, [0, 0, 500, 500, 600, 600, 700, 700]);
    let entries = [0, 499, 500, 599, 600, 701].map(|seconds| known.newest_at(seconds));
    assert_eq!(entries, [0, 0, 10, 10, 20, 30]);
    assert_eq!(mapping(&[]).time_before(7), 0);
    assert_eq!(mapping(&[]).newest_at(7), 0);
}

#[pumice_test_macros::test]
fn samples_that_say_the_same_are_one() {
    // Nothing was written; much was written at once; the clock has gone back.
    assert_eq!(mapping(&[(10, 500), (10, 600)]).text(), "10->500,");
    assert_eq!(mapping(&[(10, 500), (20, 500)]).text(), "20->500,");
    assert_eq!(mapping(&[(10, 500), (20, 600), (30, 550)]).text(), "10->500,30->550,");
    assert_eq!(mapping(&[(10, 500), (20, 600), (20, 400)]).text(), "20->400,");
    assert_eq!(mapping(&[(0, 500)]).text(), "");
}

#[pumice_test_macros::test]
fn the_property_has_differences() {
    assert_eq!(mapping(&[]).encode(), b"");
    let bytes = [2, 10, 0xf4, 3, 10, 100];
    assert_eq!(mapping(&[(10, 500), (20, 600)]).encode(), bytes);
    for len in 1..bytes.len() {
        assert!(SeqnoToTimeMapping::decode(&bytes[..len]).is_err(), "{len}");
    }
    let more = [&bytes[..], &[0]].concat();
    let error = SeqnoToTimeMapping::decode(&more).unwrap_err();
    assert!(error.message().contains("Extra bytes at end"), "{error}");
    // 10->500, 20->400: RocksDB's difference has wrapped.
    let back = [2, 10, 0xf4, 3, 10, 0x9c, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
    assert_eq!(SeqnoToTimeMapping::decode(&back).unwrap().text(), "20->400,");
}

#[pumice_test_macros::test]
fn a_new_database_has_sequence_numbers_for_the_time_before_it() {
    let spread = SeqnoToTimeMapping::spread(100, 10_000, 20_000);
    assert_eq!((spread.len(), spread.newest_at(10_000)), (100, 1));
    assert_eq!((spread.newest_at(15_000), spread.newest_at(20_000)), (50, 100));
    assert!(spread.text().starts_with("1->10000,2->10101,3->10202,"));
    assert!(spread.text().ends_with("99->19898,100->20000,"));
    assert_eq!(SeqnoToTimeMapping::spread(100, 5, 5).text(), "100->5,");
}

#[pumice_test_macros::test]
fn what_is_known_of_older_times_is_one_sample() {
    for (before, left) in [(0, 3), (500, 3), (599, 3), (600, 2), (699, 2), (700, 1), (9999, 1)] {
        let mut known = mapping(&[(10, 500), (20, 600), (30, 700)]);
        known.forget_before(before);
        assert_eq!(known.len(), left, "{before}");
        assert_eq!(known.newest_at(before.max(700)), 30);
    }
}

/// The rule of `thin_out`, one removal after the other.
fn thinned(mut samples: Vec<Sample>, most: usize) -> Vec<Sample> {
    while samples.len() > most {
        let inner = 1..samples.len() - 1;
        let gap = |at: &usize| samples[at + 1].seconds - samples[at - 1].seconds;
        let gone = inner.min_by_key(|at| (gap(at), *at)).unwrap();
        samples.remove(gone);
    }
    samples
}

fn check(rng: &mut Rng) {
    let (mut all, mut sequence, mut seconds) = (Vec::new(), 0, rng.uniform(1 << 20));
    for _ in 0..rng.uniform(400) {
        sequence += rng.uniform(4);
        let most = 1 << rng.uniform(12);
        seconds += rng.uniform(most);
        if rng.uniform(50) == 0 {
            seconds = seconds.saturating_sub(rng.uniform(3000));
        }
        all.push((sequence, seconds));
    }
    let known = mapping(&all);
    let samples = &known.samples;
    assert!(samples.windows(2).all(|w| w[0].sequence < w[1].sequence));
    assert!(samples.windows(2).all(|w| w[0].seconds < w[1].seconds));
    assert_eq!(SeqnoToTimeMapping::decode(&known.encode()).unwrap(), known);
    // In any order, and in several mappings.
    let mut parts = vec![SeqnoToTimeMapping::default(); 3];
    for sample in samples.iter().rev() {
        parts[rng.uniform(3) as usize].samples.insert(0, *sample);
    }
    assert_eq!(SeqnoToTimeMapping::merged(parts.iter()), known);
    let most = 2 + rng.uniform(100) as usize;
    let mut thin = known.clone();
    thin.thin_out(most);
    assert_eq!(thin.samples, thinned(samples.clone(), most));
    let smallest = rng.uniform(sequence + 2);
    let largest = smallest + rng.uniform(30);
    let table = known.of_table(smallest, largest);
    assert!(table.len() <= SAMPLES_PER_TABLE_MAX);
    for sequence in smallest..=largest {
        let least = samples.iter().filter(|sample| sample.sequence < sequence);
        let least = least.map(|sample| sample.seconds).max().unwrap_or(0);
        assert_eq!(known.time_before(sequence), least);
        let most = samples.iter().filter(|sample| sample.sequence >= sequence);
        assert_eq!(known.time_after(sequence), most.map(|sample| sample.seconds).min());
        assert_eq!(table.time_before(sequence), least);
        assert!(thin.time_before(sequence) <= least);
    }
    let at = rng.uniform(seconds + 10);
    let newest = samples.iter().filter(|sample| sample.seconds <= at);
    assert_eq!(known.newest_at(at), newest.map(|sample| sample.sequence).max().unwrap_or(0));
    let mut young = known.clone();
    young.forget_before(at);
    assert_eq!(young.newest_at(at), known.newest_at(at));
    assert_eq!(young.time_before(u64::MAX), known.time_before(u64::MAX));
    let noise: Vec<u8> = (0..rng.uniform(40)).map(|_| rng.uniform(256) as u8).collect();
    if let Ok(read) = SeqnoToTimeMapping::decode(&noise) {
        assert_eq!(SeqnoToTimeMapping::decode(&read.encode()).unwrap(), read);
    }
}

#[pumice_test_macros::test]
fn drawn_samples_are_kept_merged_and_thinned_as_a_model_says() {
    for seed in 0..300 {
        println!("seed {seed}");
        check(&mut Rng::new(seed));
    }
}
