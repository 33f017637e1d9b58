//! Patterns of KEYS, SCAN, PSUBSCRIBE and CONFIG GET: `*`, `?`, `[a-z]`, `[^a]`, `\x`.
//!
//! No recursion, and the work is at most the product of both lengths: of several stars only the
//! last one passed is ever retried, which finds a match if there is one.
//!
//! Thread safety: pure functions.

/// Whether all of `text` matches `pattern`.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where to resume when the text after the last star does not match: one byte further.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            retry = Some((p, t));
            continue;
        }
        let fits = match (pattern.get(p), text.get(t)) {
            (None, None) => return true,
            (Some(_), Some(&byte)) => one(pattern, p, byte),
            _ => None,
        };
        match (fits, retry) {
            (Some(next), _) => (p, t) = (next, t + 1),
            (None, Some((after, from))) if from < text.len() => {
                retry = Some((after, from + 1));
                (p, t) = (after, from + 1);
            }
            _ => return false,
        }
    }
}

/// If the element of the pattern at `at` matches `byte`: where the next one begins.
fn one(pattern: &[u8], at: usize, byte: u8) -> Option<usize> {
    match pattern[at] {
        b'?' => Some(at + 1),
        b'[' => class(pattern, at + 1, byte),
        b'\\' if at + 1 < pattern.len() => (pattern[at + 1] == byte).then_some(at + 2),
        literal => (literal == byte).then_some(at + 1),
    }
}

/// As `one`, after a `[`. An unterminated class ends at the end of the pattern.
fn class(pattern: &[u8], mut at: usize, byte: u8) -> Option<usize> {
    let negated = pattern.get(at) == Some(&b'^');
    at += usize::from(negated);
    let mut found = false;
    loop {
        match (pattern.get(at), pattern.get(at + 1), pattern.get(at + 2)) {
            (None, ..) => break,
            (Some(b'\\'), Some(&escaped), _) => {
                found |= escaped == byte;
                at += 2;
            }
            (Some(b']'), ..) => {
                at += 1;
                break;
            }
            (Some(&from), Some(b'-'), Some(&to)) => {
                found |= (from.min(to)..=from.max(to)).contains(&byte);
                at += 3;
            }
            (Some(&literal), ..) => {
                found |= literal == byte;
                at += 1;
            }
        }
    }
    (found != negated).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Plain #[test]: nothing here can suspend.
    #[test]
    fn patterns_fit_as_in_redis() {
        let yes = [
            ("*", ""),
            ("**", "x"),
            ("a*c", "abbc"),
            ("a*b*c", "a1b2b3c"),
            ("h?llo", "hello"),
            ("h[ae]llo", "hallo"),
            ("h[^e]llo", "hallo"),
            ("h[a-c]llo", "hbllo"),
            ("h[c-a]llo", "hbllo"),
            ("\\*", "*"),
            ("[\\]]", "]"),
            ("a[b", "ab"),
            ("", ""),
            ("*foo*", "a foo b"),
            ("a\\", "a\\"),
        ];
        for (pattern, text) in yes {
            assert!(matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
        let no = [
            ("", "a"),
            ("a", ""),
            ("?", ""),
            ("a*c", "abb"),
            ("h[^e]llo", "hello"),
            ("[a]", "b"),
            ("\\*", "x"),
            ("a*b*c", "acb"),
            ("[]", "a"),
        ];
        for (pattern, text) in no {
            assert!(!matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
    }

    // Plain #[test]: nothing here can suspend.
    #[test]
    fn long_patterns_take_bounded_work() {
        let pattern = "a*".repeat(2_000) + "b";
        assert!(!matches(pattern.as_bytes(), &vec![b'a'; 20_000]));
        let stars = vec![b'*'; 1 << 20];
        assert!(matches(&stars, b"x"));
    }
}
