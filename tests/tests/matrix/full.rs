//! The whole matrix, by number: `PUMICE_MATRIX=full` and `PUMICE_MATRIX=every`.
//!
//! `full` is every valid combination of the dimensions that make kinds of tables: format, codec,
//! dictionary, filter, index, partitions, prefix. Each gets values of the other dimensions that its
//! number and the seed decide (`PUMICE_SEED` draws others). `every` is every valid variant.
//!
//! `full:1000..1300` runs those numbers only, so that a long run can be divided, and continued
//! where it was stopped. Numbers do not change unless a dimension does.

use std::ops::Range;

use pumice_base::random::Rng;

use super::variant::{DIMENSIONS, KINDS, Variant};

/// Variants to run, and their names.
pub struct Plan {
    /// How `PUMICE_MATRIX` names the list that the numbers count in; empty for a sample.
    pub list: &'static str,
    /// Number of the first.
    pub first: usize,
    /// Length of the whole list.
    pub total: usize,
    pub variants: Vec<Variant>,
}

impl Plan {
    /// Variants that are not part of a list.
    pub fn sample(variants: Vec<Variant>) -> Self {
        Plan { list: "", first: 0, total: variants.len(), variants }
    }
}

/// Goes through the values of some dimensions; the others keep their first.
struct Counter {
    dimensions: Vec<usize>,
    next: Option<Variant>,
}

impl Counter {
    fn new(dimensions: Vec<usize>) -> Self {
        Counter { dimensions, next: Some(Variant(vec![0; DIMENSIONS.len()])) }
    }
}

impl Iterator for Counter {
    type Item = Variant;

    fn next(&mut self) -> Option<Variant> {
        let now = self.next.take()?;
        let mut next = now.clone();
        for &dimension in self.dimensions.iter().rev() {
            next.0[dimension] += 1;
            if next.0[dimension] < DIMENSIONS[dimension].values.len() {
                self.next = Some(next);
                break;
            }
            next.0[dimension] = 0;
        }
        Some(now)
    }
}

fn kinds() -> impl Iterator<Item = Variant> {
    Counter::new(KINDS.to_vec()).filter(Variant::is_valid)
}

fn every() -> impl Iterator<Item = Variant> {
    Counter::new((0..DIMENSIONS.len()).collect()).filter(Variant::is_valid)
}

/// Gives a kind of table values of the other dimensions.
fn with_the_rest(mut variant: Variant, number: usize, seed: u64) -> Variant {
    let mut rng = Rng::new(seed.wrapping_mul(1_000_003).wrapping_add(number as u64));
    let drawn = Variant::random(&mut rng);
    for dimension in (0..DIMENSIONS.len()).filter(|d| !KINDS.contains(d)) {
        variant.0[dimension] = drawn.0[dimension];
    }
    variant
}

/// The variants that `wanted` asks for: `full`, `every`, either with `:FROM..TO`; `None` if it is
/// something else.
pub fn plan(wanted: &str, seed: u64) -> Option<Plan> {
    let (list, range) = wanted.split_once(':').map_or((wanted, None), |(l, r)| (l, Some(r)));
    let range = match range {
        Some(text) => parse_range(text)?,
        None => 0..usize::MAX,
    };
    let some = |all: &mut dyn Iterator<Item = Variant>, total: usize| {
        let end = range.end.min(total);
        let first = range.start.min(end);
        (first, all.skip(first).take(end - first).collect::<Vec<_>>())
    };
    match list {
        "full" => {
            let total = kinds().count();
            let rest = |(number, kind)| with_the_rest(kind, number, seed);
            let (first, variants) = some(&mut kinds().enumerate().map(rest), total);
            Some(Plan { list: "full", first, total, variants })
        }
        "every" => {
            let total = every().count();
            let (first, variants) = some(&mut every(), total);
            Some(Plan { list: "every", first, total, variants })
        }
        _ => None,
    }
}

fn parse_range(text: &str) -> Option<Range<usize>> {
    let (from, to) = text.split_once("..")?;
    let (from, to) = (from.parse().ok()?, to.parse().ok()?);
    (from < to).then_some(from..to)
}

// Plain #[test]: nothing here waits.
#[test]
fn numbers_name_every_kind_once() {
    let plan_of = |wanted: &str| plan(wanted, 4).unwrap();
    let all = plan_of("full");
    // Formats x codecs with dictionaries x (three filters x indexes x prefixes, or none).
    assert_eq!(all.total, 3 * 15 * (3 * (2 * 4 + 3 + 3 * 4) + (2 * 4 + 3 + 4)));
    assert_eq!((all.first, all.variants.len()), (0, all.total));
    let kind = |v: &Variant| KINDS.map(|dimension| v.0[dimension]);
    let distinct: std::collections::BTreeSet<_> = all.variants.iter().map(kind).collect();
    assert_eq!(distinct.len(), all.total);
    assert!(all.variants.iter().all(Variant::is_valid));
    // The values of the other dimensions are all met, evenly.
    for (d, dimension) in DIMENSIONS.iter().enumerate().filter(|(d, _)| !KINDS.contains(d)) {
        for value in 0..dimension.values.len() {
            let uses = all.variants.iter().filter(|v| v.0[d] == value).count();
            assert!(
                uses * dimension.values.len() * 10 > all.total * 9,
                "{} {uses}",
                dimension.name
            );
        }
    }
    // Pieces are parts of the whole.
    let piece = plan_of("full:1000..1003");
    assert_eq!((piece.first, piece.total), (1000, all.total));
    assert_eq!(piece.variants, all.variants[1000..1003]);
    let end = plan_of("full:3770..999999");
    assert_eq!(end.variants, all.variants[3770..]);
    let other = plan("full", 5).unwrap();
    assert!(other.variants != all.variants, "another seed draws other values");
    let piece = plan_of("every:1000000..1000002");
    assert_eq!((piece.variants.len(), piece.total), (2, 3_628_800));
    for wrong in ["fuller", "full:3", "full:5..5", "full:a..b", "17"] {
        assert!(plan(wrong, 4).is_none(), "{wrong}");
    }
}
