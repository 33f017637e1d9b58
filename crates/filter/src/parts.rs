//! Sorts hashes by the part of a large structure that they will touch.
//!
//! A key touches one place of a filter, at random. While the filter is in the second-level cache
//! that is cheap; beyond it each key is a miss. Sorting by part costs two passes over consecutive
//! memory and makes the places of neighbouring keys lie in one part.
//!
//! Pure functions. The order of hashes within a part is kept, that of parts is ascending.

use crate::dedup::KeyHashes;

/// Bytes that [`visit_by_part`] takes.
pub(crate) fn bytes(hashes: &KeyHashes<u64>, at_once: usize, parts: usize) -> usize {
    (sorted_len(hashes, at_once) + parts) * size_of::<u64>()
}

/// Most hashes that are sorted at once: whole chunks.
fn sorted_len(hashes: &KeyHashes<u64>, at_once: usize) -> usize {
    let longest = hashes.chunks().next().map_or(1, |chunk| chunk.len().max(1));
    hashes.len().min(at_once.next_multiple_of(longest))
}

/// Calls `visit` with all of `hashes`, about `at_once` at a time, sorted by `part_of`, which is
/// below `parts`; until `visit` returns false. Returns whether it never did.
///
/// The sort takes 8 bytes for each hash that is sorted at once. The more there are, the more often
/// each place of a part is touched while it is in the cache.
pub(crate) fn visit_by_part(
    hashes: &KeyHashes<u64>,
    at_once: usize,
    parts: usize,
    part_of: impl Fn(u64) -> usize,
    mut visit: impl FnMut(&[u64]) -> bool,
) -> bool {
    let chunks: Vec<&[u64]> = hashes.chunks().collect();
    let longest = chunks.first().map_or(1, |chunk| chunk.len().max(1));
    let mut sorted = vec![0; sorted_len(hashes, at_once)];
    let mut ends = vec![0; parts];
    chunks.chunks(at_once.div_ceil(longest)).all(|chunks| {
        ends.fill(0);
        chunks.iter().copied().flatten().for_each(|&hash| ends[part_of(hash)] += 1);
        let mut start = 0;
        for end in &mut ends {
            start += std::mem::replace(end, start);
        }
        // The start of each part becomes its end.
        for &hash in chunks.iter().copied().flatten() {
            let place = &mut ends[part_of(hash)];
            sorted[*place] = hash;
            *place += 1;
        }
        visit(&sorted[..start])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pumice_base::random::Rng;

    /// A multiple of what a chunk holds.
    const AT_ONCE: usize = 1 << 17;

    #[test]
    fn sorts_and_keeps_the_order_within_parts() {
        let mut rng = Rng::new(3);
        let mut hashes = KeyHashes::default();
        hashes.add_all((0..3 * AT_ONCE as u64 + 1000).map(|_| rng.next_u64()));
        let part_of = |hash: u64| (hash % 7) as usize;
        let mut seen = Vec::new();
        assert!(visit_by_part(&hashes, AT_ONCE, 7, part_of, |sorted| {
            assert!(sorted.is_sorted_by_key(|&hash| part_of(hash)));
            seen.push(sorted.to_vec());
            true
        }));
        let all: Vec<_> = hashes.iter().collect();
        let mut expected: Vec<_> = all.chunks(AT_ONCE).map(<[u64]>::to_vec).collect();
        // A stable sort.
        expected.iter_mut().for_each(|chunk| chunk.sort_by_key(|&hash| part_of(hash)));
        assert!(seen == expected);
        assert!(!visit_by_part(&hashes, AT_ONCE, 7, part_of, |_| false));
        assert!(
            visit_by_part(&KeyHashes::default(), AT_ONCE, 7, part_of, |sorted| sorted.is_empty())
        );
    }
}
