//! Which variants run: a sample in which every two values of different dimensions meet, many random
//! ones, or the whole matrix.
//!
//! `PUMICE_MATRIX=N` asks for N random valid variants, `PUMICE_MATRIX=name` (a variant's digits)
//! for that one, `PUMICE_MATRIX=full` for the whole (see `full`).

use std::collections::BTreeSet;

use pumice_base::random::Rng;

use super::full::{self, Plan};
use super::variant::{DIMENSIONS, Variant};

const VARIABLE: &str = "PUMICE_MATRIX";
/// The sample of a plain test run has at least this many variants,
const VARIANTS_MIN: usize = 60;
/// and this many with each value.
const USES_MIN: usize = 5;
const SEED: u64 = 4;
/// Random variants tried to find one that holds a pair: with each pair alone at least one in 500 of
/// those that can be valid is.
const ATTEMPTS: usize = 20_000;
/// Candidates, of which the one that adds most is taken.
const CANDIDATES: usize = 40;

/// Dimension and value, twice.
type Pair = (usize, usize, usize, usize);

/// The variants to run.
pub fn plan() -> Plan {
    let Ok(wanted) = std::env::var(VARIABLE) else {
        return Plan::sample(shared(pairwise(SEED)));
    };
    if let Some(variant) = Variant::parse(&wanted) {
        return Plan::sample(vec![variant]);
    }
    let seed = pumice_testkit::seed::wanted().unwrap_or(SEED);
    if let Some(plan) = full::plan(&wanted, seed) {
        println!("{VARIABLE}: {} of {} variants, seed {seed}", plan.variants.len(), plan.total);
        return plan;
    }
    let count = wanted.parse().unwrap_or_else(|_| panic!("{VARIABLE}={wanted}: no number or name"));
    println!("{VARIABLE}: {count} random variants of seed {seed}");
    let mut rng = Rng::new(seed);
    let random = (0..count).map(|_| valid(&mut rng, &[]));
    Plan::sample(random.map(|v| v.expect("most variants are valid")).collect())
}

/// The sample of a plain run.
#[cfg(pumice_planted)]
pub fn usual() -> Vec<Variant> {
    pairwise(SEED)
}

/// Every n-th, if the environment asks for a share.
fn shared(all: Vec<Variant>) -> Vec<Variant> {
    all.into_iter().step_by(pumice_testkit::seed::one_in() as usize).collect()
}

/// A random valid variant with the given values of dimensions; `None` if there is none.
fn valid(rng: &mut Rng, with: &[(usize, usize)]) -> Option<Variant> {
    (0..ATTEMPTS).find_map(|_| {
        let mut variant = Variant::random(rng);
        for (dimension, value) in with {
            variant.0[*dimension] = *value;
        }
        variant.is_valid().then_some(variant)
    })
}

fn pairs(variant: &Variant) -> impl Iterator<Item = Pair> + '_ {
    let values = &variant.0;
    let of = move |a: usize| (a + 1..values.len()).map(move |b| (a, values[a], b, values[b]));
    (0..values.len()).flat_map(of)
}

/// All pairs of values that some valid variant has.
fn possible_pairs(rng: &mut Rng) -> BTreeSet<Pair> {
    let mut possible = BTreeSet::new();
    for (a, first) in DIMENSIONS.iter().enumerate() {
        for (b, second) in DIMENSIONS.iter().enumerate().skip(a + 1) {
            for x in 0..first.values.len() {
                for y in 0..second.values.len() {
                    if !possible.contains(&(a, x, b, y))
                        && let Some(variant) = valid(rng, &[(a, x), (b, y)])
                    {
                        possible.extend(pairs(&variant));
                    }
                }
            }
        }
    }
    possible
}

/// A sample that has every possible pair of values and every value often enough.
fn pairwise(seed: u64) -> Vec<Variant> {
    let mut rng = Rng::new(seed);
    let mut missing = possible_pairs(&mut rng);
    let mut uses: Vec<Vec<usize>> = DIMENSIONS.iter().map(|d| vec![0; d.values.len()]).collect();
    let mut sample: Vec<Variant> = Vec::new();
    loop {
        let rare = rarest(&uses);
        let with = match missing.first() {
            Some(&(a, x, b, y)) => vec![(a, x), (b, y)],
            None if rare.2 < USES_MIN => vec![(rare.0, rare.1)],
            None if sample.len() < VARIANTS_MIN => Vec::new(),
            None => return sample,
        };
        let candidates = (0..CANDIDATES).filter_map(|_| valid(&mut rng, &with));
        let gain = |v: &Variant| pairs(v).filter(|pair| missing.contains(pair)).count();
        let best = candidates.max_by_key(gain).expect("the pair is possible");
        for pair in pairs(&best) {
            missing.remove(&pair);
        }
        for (dimension, value) in best.0.iter().enumerate() {
            uses[dimension][*value] += 1;
        }
        sample.push(best);
    }
}

/// Dimension, value and uses of the value that was used least.
fn rarest(uses: &[Vec<usize>]) -> (usize, usize, usize) {
    let all = uses.iter().enumerate().flat_map(|(dimension, counts)| {
        counts.iter().enumerate().map(move |(value, count)| (dimension, value, *count))
    });
    all.min_by_key(|(_, _, count)| *count).expect("there are dimensions")
}

// Plain #[test]: nothing here waits.
#[test]
fn the_sample_has_every_value_and_pair() {
    let sample = pairwise(SEED);
    assert!(sample.len() >= VARIANTS_MIN, "{}", sample.len());
    assert_eq!(sample, pairwise(SEED), "the sample is the same every time");
    let mut met: BTreeSet<Pair> = BTreeSet::new();
    for variant in &sample {
        assert!(variant.is_valid(), "{variant}");
        assert_eq!(Variant::parse(&variant.name()).as_ref(), Some(variant));
        met.extend(pairs(variant));
    }
    for (d, dimension) in DIMENSIONS.iter().enumerate() {
        for (value, name) in dimension.values.iter().enumerate() {
            let uses = sample.iter().filter(|v| v.0[d] == value).count();
            assert!(uses >= USES_MIN, "{}={name} is in {uses} variants", dimension.name);
        }
    }
    // Random variants find no pair that the sample lacks.
    let mut rng = Rng::new(SEED + 1);
    for _ in 0..20_000 {
        let variant = Variant::random(&mut rng);
        if variant.is_valid() {
            assert!(pairs(&variant).all(|pair| met.contains(&pair)), "{variant}");
        }
    }
    println!("{} variants, {} pairs", sample.len(), met.len());
}
