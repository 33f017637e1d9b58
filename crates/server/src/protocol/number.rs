//! Numbers as Redis reads and writes them.
//!
//! Integers are strict: an optional minus, no plus, no leading zero, no blank. Floating-point
//! numbers are what C's strtod consumes completely, rounded once, and come out with 17 significant
//! digits (`%.17g`).
//!
//! Thread safety: pure functions.

use super::extended::{self, Beyond};

/// A 64-bit integer in its canonical form.
pub fn integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text.split_first() {
        Some((b'-', digits)) => (true, digits),
        _ => (false, text),
    };
    if digits.is_empty() || digits.len() > 19 {
        return None;
    }
    if digits[0] == b'0' {
        return (text == b"0").then_some(0);
    }
    let mut value: u64 = 0;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
    }
    if negative {
        return (value <= 1 << 63).then(|| (value as i64).wrapping_neg());
    }
    i64::try_from(value).ok()
}

/// Writes `n` in decimal.
pub fn push_integer(into: &mut Vec<u8>, n: i64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut rest = n.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if n < 0 {
        into.push(b'-');
    }
    into.extend_from_slice(&digits[at..]);
}

/// A floating-point number that is not NaN, in base 10 or 16 or as an infinity; no blanks. None
/// also for one that a double does not hold: too large, or not zero but smaller than any.
pub fn double(text: &[u8]) -> Option<f64> {
    nearest_double(text)?.ok()
}

/// As [`double`], as C's strtod reads a string that ends with its first zero byte: blanks may come
/// first, what is too large is an infinity, what is too small is zero, and so is nothing at all.
pub fn lenient_double(text: &[u8]) -> Option<f64> {
    if matches!(text, [] | [0, ..]) {
        return Some(0.0);
    }
    let text = as_c_reads(text);
    let value = match nearest_double(text)? {
        Ok(value) => return Some(value),
        Err(Beyond::Large) => f64::INFINITY,
        Err(Beyond::Small) => 0.0,
    };
    Some(if text.starts_with(b"-") { -value } else { value })
}

/// The part of a string before its first zero byte, without the blanks that strtod skips.
pub fn as_c_reads(text: &[u8]) -> &[u8] {
    let text = text.split(|b| *b == 0).next().unwrap_or_default();
    let is_blank = |b: &u8| b.is_ascii_whitespace() || *b == 0x0b;
    &text[text.iter().position(|b| !is_blank(b)).unwrap_or(text.len())..]
}

fn nearest_double(text: &[u8]) -> Option<Result<f64, Beyond>> {
    let text = std::str::from_utf8(text).ok()?;
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is = |word: &str| unsigned.eq_ignore_ascii_case(word);
    if is("inf") || is("infinity") {
        let negative = text.starts_with('-');
        return Some(Ok(if negative { f64::NEG_INFINITY } else { f64::INFINITY }));
    }
    if unsigned.starts_with("0x") || unsigned.starts_with("0X") {
        return extended::double(text.as_bytes());
    }
    if !unsigned.bytes().all(|b| b.is_ascii_digit() || b".eE+-".contains(&b)) {
        return None;
    }
    let value: f64 = text.parse().ok()?;
    let mantissa = unsigned.split(['e', 'E']).next().unwrap_or_default();
    Some(match value {
        _ if value.is_infinite() => Err(Beyond::Large),
        0.0 if mantissa.bytes().any(|b| (b'1'..=b'9').contains(&b)) => Err(Beyond::Small),
        _ => Ok(value),
    })
}

/// `value` with 17 significant digits, without trailing zeros; `inf`, `-inf`, `nan`.
pub fn double_text(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_string();
    }
    if value.is_nan() {
        return "nan".to_string();
    }
    if value == 0.0 {
        return if value.is_sign_negative() { "-0" } else { "0" }.to_string();
    }
    let text = format!("{value:.16e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    let digits: String = mantissa.chars().filter(|c| *c != '.').collect();
    let digits = digits.trim_end_matches('0');
    let digits = if digits.is_empty() { "0" } else { digits };
    if !(-4..17).contains(&exponent) {
        let (first, rest) = digits.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        let mark = if exponent < 0 { '-' } else { '+' };
        return format!("{sign}{first}{point}{rest}e{mark}{:02}", exponent.abs());
    }
    if exponent < 0 {
        return format!("{sign}0.{}{digits}", "0".repeat((-exponent - 1) as usize));
    }
    let whole = exponent as usize + 1;
    if digits.len() <= whole {
        return format!("{sign}{digits}{}", "0".repeat(whole - digits.len()));
    }
    let (left, right) = digits.split_at(whole);
    format!("{sign}{left}.{right}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    // Plain #[test]: nothing here can suspend.
    #[test]
    fn integers_are_strict() {
        for good in [0, 1, -1, 10, i64::MAX, i64::MIN, 1 << 40] {
            assert_eq!(integer(good.to_string().as_bytes()), Some(good));
            let mut text = Vec::new();
            push_integer(&mut text, good);
            assert_eq!(text, good.to_string().as_bytes());
        }
        for bad in ["", "-", "+1", "01", "-0", "1 ", " 1", "1a", "9223372036854775808"] {
            assert_eq!(integer(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(integer(b"-9223372036854775809"), None);
    }

    // Plain #[test]: nothing here can suspend.
    #[test]
    fn bounds_are_read_like_strings_of_c() {
        let cases = [
            (&b""[..], Some(0.0)),
            (b"\0x", Some(0.0)),
            (b" \t\x0b1", Some(1.0)),
            (b"1\0garbage", Some(1.0)),
            (b"-1e999", Some(f64::NEG_INFINITY)),
            (b"1e-999", Some(0.0)),
            (b"0x1p9999", Some(f64::INFINITY)),
            (b"  ", None),
            (b"1 ", None),
            (b"nan", None),
        ];
        for (text, value) in cases {
            assert_eq!(lenient_double(text), value, "{text:?}");
        }
    }

    // Plain #[test]: nothing here can suspend.
    #[test]
    fn doubles_come_and_go() {
        let cases: [(f64, &str); 12] = [
            (3.0, "3"),
            (3.1, "3.1000000000000001"),
            (0.1, "0.10000000000000001"),
            (-0.5, "-0.5"),
            (1e17, "1e+17"),
            (1e16, "10000000000000000"),
            (1e-5, "1.0000000000000001e-05"),
            (1e-4, "0.0001"),
            (0.0, "0"),
            (f64::NEG_INFINITY, "-inf"),
            (1.5e300, "1.5000000000000001e+300"),
            (123456.789, "123456.789"),
        ];
        for (value, text) in cases {
            assert_eq!(double_text(value), text);
            assert_eq!(double(text.as_bytes()), Some(value));
        }
        for bad in ["", "nan", "1 ", " 1", "1x", "e", ".", "+", "1e999", "--1", "0x"] {
            assert_eq!(double(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(double(b"+inf"), Some(f64::INFINITY));
        assert_eq!(double(b"0x1f"), Some(31.0));
        assert_eq!((double(b"0x1.8p3"), double(b"-0X1P-2")), (Some(12.0), Some(-0.25)));
        assert_eq!(double(b"0x10p-1074"), Some(f64::from_bits(16)));
        for text in [&b"0x1p"[..], b"0x1p+", b"0xp1", b"0x1p9999", b"0x1p1.", b"0x1pp1"] {
            assert_eq!(double(text), None, "{}", String::from_utf8_lossy(text));
        }
        for text in ["1e-400", "0x1p-1075", "2e-324", "0x1.fffffffffffff8p1023"] {
            assert_eq!(double(text.as_bytes()), None, "{text}");
        }
        assert_eq!(double(b"0x1.fffffffffffff7p1023"), Some(f64::MAX));
        assert_eq!(double(b"0x1.8p-1075"), Some(f64::from_bits(1)));
        assert_eq!(double(b"0x1.00000000000008p0"), Some(1.0));
        assert_eq!(double(b"0x1.000000000000080000001p0"), Some(1.0 + f64::EPSILON));
        assert_eq!(double(b"1."), Some(1.0));
        assert_eq!(double(b".5"), Some(0.5));
    }
}
