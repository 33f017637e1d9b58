//! Sorts hashes by the part of a large structure that they will touch.
//!
//! A key touches one place of a filter, at random. While the filter is in the second-level cache
//! that is cheap; beyond it each key is a miss. Sorting by part costs two passes over consecutive
//! memory and makes the places of neighbouring keys lie in one part.
//!
//! Pure functions. The order of hashes within a part is kept, that of parts is ascending.

/// Hashes sorted at a time, to bound the memory to 8 MiB.
const AT_ONCE: usize = 1 << 20;

/// Calls `visit` with all of `hashes`, a large number at a time, sorted by `part_of`, which is
/// below `parts`; until `visit` returns false. Returns whether it never did.
pub(crate) fn visit_by_part(
    hashes: &[u64],
    parts: usize,
    part_of: impl Fn(u64) -> usize,
    mut visit: impl FnMut(&[u64]) -> bool,
) -> bool {
    let mut sorted = vec![0; hashes.len().min(AT_ONCE)];
    let mut ends = vec![0; parts];
    hashes.chunks(AT_ONCE).all(|hashes| {
        ends.fill(0);
        hashes.iter().for_each(|&hash| ends[part_of(hash)] += 1);
        let mut start = 0;
        for end in &mut ends {
            start += std::mem::replace(end, start);
        }
        // The start of each part becomes its end.
        for &hash in hashes {
            let place = &mut ends[part_of(hash)];
            sorted[*place] = hash;
            *place += 1;
        }
        visit(&sorted[..hashes.len()])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pumice_base::random::Rng;

    #[test]
    fn sorts_and_keeps_the_order_within_parts() {
        let mut rng = Rng::new(3);
        let hashes: Vec<_> = (0..AT_ONCE + 1000).map(|_| rng.next_u64()).collect();
        let part_of = |hash: u64| (hash % 7) as usize;
        let mut seen = Vec::new();
        assert!(visit_by_part(&hashes, 7, part_of, |sorted| {
            assert!(sorted.is_sorted_by_key(|&hash| part_of(hash)));
            seen.push(sorted.to_vec());
            true
        }));
        let mut expected: Vec<_> = hashes.chunks(AT_ONCE).map(<[u64]>::to_vec).collect();
        // A stable sort.
        expected.iter_mut().for_each(|chunk| chunk.sort_by_key(|&hash| part_of(hash)));
        assert!(seen == expected);
        assert!(!visit_by_part(&hashes, 7, part_of, |_| false));
        assert!(visit_by_part(&[], 7, part_of, |_| false));
    }
}
