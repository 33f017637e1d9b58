//! Sorting of few things by code that is rarely run.
//!
//! The standard library's stable sort is some 8 KB of machine code for each type and comparison.
//! Here it is instantiated once, for numbers of places; what differs is the comparison and the
//! moves to the places found. Sorts that are on a path whose speed matters use the standard
//! library's.
//!
//! Thread safety: none needed, there is no state. Not here: sorting without an allocation.

use std::cmp::Ordering;

/// Sorts `items` by `compare`. What compares equal keeps its order.
///
/// # Panics
/// If there are more than `u32::MAX` items; may panic if `compare` is no total order, as
/// [`slice::sort_by`] may.
pub fn sort_by<T>(items: &mut [T], mut compare: impl FnMut(&T, &T) -> Ordering) {
    let mut places = places(items.len(), &mut |a, b| compare(&items[a], &items[b]));
    move_to(&mut places, &mut |a, b| items.swap(a, b));
}

/// Sorts `items` by what `key` says of each, as [`sort_by`].
pub fn sort_by_key<T, K: Ord>(items: &mut [T], key: impl Fn(&T) -> K) {
    sort_by(items, |a, b| key(a).cmp(&key(b)));
}

/// Sorts `items` by their own order, as [`sort_by`].
pub fn sort<T: Ord>(items: &mut [T]) {
    sort_by(items, T::cmp);
}

/// For each place, in order, which item belongs there.
fn places(len: usize, compare: &mut dyn FnMut(usize, usize) -> Ordering) -> Vec<u32> {
    let len = u32::try_from(len).expect("at most u32::MAX items");
    let mut places: Vec<u32> = (0..len).collect();
    places.sort_by(|a, b| compare(*a as usize, *b as usize));
    places
}

/// Exchanges items until each is at its place: at most one exchange for an item.
fn move_to(places: &mut [u32], swap: &mut dyn FnMut(usize, usize)) {
    for (start, place) in (0..).zip(0..places.len()) {
        // `places` says of each place of a cycle which is the next; one that is done names itself.
        let (mut at, mut number) = (place, start);
        loop {
            let next = std::mem::replace(&mut places[at], number);
            if next == start {
                break;
            }
            swap(at, next as usize);
            (at, number) = (next as usize, next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Rng;

    #[test]
    fn sorts_as_the_standard_library_does() {
        let mut random = Rng::new(301);
        for len in (0..70).chain([1000]) {
            for values in [1, 3, 1_000_000] {
                let items = (0..len).map(|at| (random.uniform(values), at, at.to_string()));
                let mut items: Vec<_> = items.collect();
                let mut expected = items.clone();
                expected.sort_by_key(|item| item.0);
                sort_by_key(&mut items, |item| item.0);
                assert_eq!(items, expected, "{len} of {values} values");
            }
        }
    }

    #[test]
    fn sorts_by_the_own_order_and_backwards() {
        let mut items = ["b", "c", "a"];
        sort(&mut items);
        assert_eq!(items, ["a", "b", "c"]);
        sort_by(&mut items, |a, b| b.cmp(a));
        assert_eq!(items, ["c", "b", "a"]);
    }
}
