//! The known word that a mistyped one was meant to be.
//!
//! Thread safety: plain functions.

/// Letters to insert, delete, replace or swap with their neighbour until `a` is `b`.
fn distance(a: &[u8], b: &[u8]) -> usize {
    // Three rows of the usual table: the row before the last is for swaps.
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 0..a.len() {
        let mut row = vec![i + 1];
        for j in 0..b.len() {
            let replaced = last[j] + usize::from(a[i] != b[j]);
            let mut least = replaced.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

/// The one of `known` that is nearest to `word`, if it is near: a third of its letters differ.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (word.len() / 3).max(1);
    let far = known.into_iter().map(|name| (distance(word.as_bytes(), name.as_bytes()), name));
    far.filter(|(far, _)| *far <= limit).min().map(|(_, name)| name)
}

/// `; did you mean 'compact'?`, or nothing.
pub fn hint<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, known).map_or(String::new(), |name| format!("; did you mean '{name}'?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[pumice_test_macros::test]
    fn near_words_are_found_and_far_ones_are_not() {
        let known = ["compact", "dump", "load", "scan"];
        for (word, meant) in [
            ("compcat", Some("compact")),
            ("dmup", Some("dump")),
            ("lod", Some("load")),
            ("scann", Some("scan")),
            ("restore", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), meant, "{word}");
        }
        assert_eq!(hint("dunp", known), "; did you mean 'dump'?");
        assert_eq!((distance(b"", b"abc"), distance(b"abc", b"")), (3, 3));
    }
}
