//! Numbers with a 64-bit mantissa, like x86's long double, in which INCRBYFLOAT and HINCRBYFLOAT
//! add.
//!
//! Redis reads them from decimal text, adds them, and writes 17 digits after the point without the
//! zeros at the end. Each step rounds once, to the nearest, ties to even, so that the digits are
//! the same. The computation uses arbitrary-precision integers, which the bounds below keep small.
//!
//! Thread safety: plain values.

use std::cmp::Ordering;

/// Maximum length of a number's text, and maximum power of ten.
const DIGITS_MAX: usize = 1024;
const POWER_MAX: i64 = 5000;
/// The largest exponent of a finite number's top bit.
const EXPONENT_MAX: i64 = 16383;

/// `mantissa * 2^exponent`, with its sign. A mantissa of zero is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extended {
    negative: bool,
    mantissa: u64,
    exponent: i64,
}

impl Extended {
    /// A finite decimal number; None for anything else.
    pub fn parse(text: &[u8]) -> Option<Extended> {
        if text.len() > DIGITS_MAX {
            return None;
        }
        let (negative, rest) = match text.split_first()? {
            (b'-', rest) => (true, rest),
            (b'+', rest) => (false, rest),
            _ => (false, text),
        };
        let (digits, mut power) = match rest.iter().position(|b| matches!(b, b'e' | b'E')) {
            Some(at) => {
                let exponent = rest[at + 1..].strip_prefix(b"+").unwrap_or(&rest[at + 1..]);
                let exponent = std::str::from_utf8(exponent).ok()?.parse::<i64>().ok()?;
                (&rest[..at], exponent)
            }
            None => (rest, 0),
        };
        let mut number = Natural::default();
        let (mut point, mut any) = (false, false);
        for &b in digits {
            match b {
                b'0'..=b'9' => {
                    number.multiply_add(10, u32::from(b - b'0'));
                    power -= i64::from(point);
                    any = true;
                }
                b'.' if !point => point = true,
                _ => return None,
            }
        }
        if !any || power.abs() > POWER_MAX {
            return None;
        }
        if power >= 0 {
            (0..power).for_each(|_| number.multiply_add(10, 0));
            return Self::rounded(negative, &number, 0, false);
        }
        let mut divisor = Natural::from(1);
        (0..-power).for_each(|_| divisor.multiply_add(10, 0));
        // Enough bits that the quotient has more than the mantissa.
        let shift = (divisor.bits() + 66).saturating_sub(number.bits());
        let (quotient, exact) = number.shifted_left(shift).divide(&divisor);
        Self::rounded(negative, &quotient, -(shift as i64), !exact)
    }

    /// `number * 2^exponent`, and a little more if `sticky`, to 64 bits.
    fn rounded(negative: bool, number: &Natural, exponent: i64, sticky: bool) -> Option<Extended> {
        let bits = number.bits();
        if bits <= 64 {
            let mantissa = number.low_64();
            return Some(Extended { negative, mantissa, exponent });
        }
        let cut = bits - 64;
        let (mut mantissa, mut exponent) =
            (number.shifted_right(cut).low_64(), exponent + cut as i64);
        let half = number.bit(cut - 1);
        let above = sticky || number.any_bit_below(cut - 1);
        if half && (above || mantissa & 1 == 1) {
            mantissa = match mantissa.checked_add(1) {
                Some(next) => next,
                None => {
                    exponent += 1;
                    1 << 63
                }
            };
        }
        let top = exponent + 63;
        (top <= EXPONENT_MAX).then_some(Extended { negative, mantissa, exponent })
    }

    /// The sum; None when it is too large.
    pub fn plus(self, other: Extended) -> Option<Extended> {
        let low = self.exponent.min(other.exponent);
        let aligned =
            |n: Extended| Natural::from(n.mantissa).shifted_left((n.exponent - low) as usize);
        let (one, two) = (aligned(self), aligned(other));
        if self.negative == other.negative {
            return Self::rounded(self.negative, &one.plus(&two), low, false);
        }
        match one.compare(&two) {
            Ordering::Less => Self::rounded(other.negative, &two.minus(&one), low, false),
            Ordering::Equal => Some(Extended { negative: false, mantissa: 0, exponent: 0 }),
            Ordering::Greater => Self::rounded(self.negative, &one.minus(&two), low, false),
        }
    }

    /// Decimal text with at most 17 digits after the point.
    pub fn text(self) -> String {
        let mut scaled = Natural::from(self.mantissa);
        scaled.multiply_add(100_000_000, 0);
        scaled.multiply_add(1_000_000_000, 0);
        if self.exponent >= 0 {
            scaled = scaled.shifted_left(self.exponent as usize);
        } else {
            let cut = (-self.exponent) as usize;
            let mut whole = scaled.shifted_right(cut);
            let half = scaled.bit(cut - 1);
            if half && (scaled.any_bit_below(cut - 1) || whole.bit(0)) {
                whole.multiply_add(1, 1);
            }
            scaled = whole;
        }
        let mut digits = scaled.decimal();
        if digits.len() < 18 {
            digits = "0".repeat(18 - digits.len()) + &digits;
        }
        let (whole, fraction) = digits.split_at(digits.len() - 17);
        let fraction = fraction.trim_end_matches('0');
        let sign = if self.negative && digits.bytes().any(|b| b != b'0') { "-" } else { "" };
        let point = if fraction.is_empty() { "" } else { "." };
        format!("{sign}{whole}{point}{fraction}")
    }
}

/// A natural number of any size: 32-bit limbs, lowest first, no zero limb at the end.
#[derive(Clone, Debug, Default)]
struct Natural(Vec<u32>);

impl From<u64> for Natural {
    fn from(n: u64) -> Natural {
        Natural(vec![n as u32, (n >> 32) as u32]).trimmed()
    }
}

impl Natural {
    fn trimmed(mut self) -> Natural {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
        self
    }
    fn multiply_add(&mut self, factor: u32, more: u32) {
        let mut carry = u64::from(more);
        for piece in &mut self.0 {
            carry += u64::from(*piece) * u64::from(factor);
            *piece = carry as u32;
            carry >>= 32;
        }
        if carry > 0 {
            self.0.push(carry as u32);
        }
    }
    fn bits(&self) -> usize {
        self.0.last().map_or(0, |top| self.0.len() * 32 - top.leading_zeros() as usize)
    }
    fn bit(&self, at: usize) -> bool {
        self.0.get(at / 32).is_some_and(|piece| piece >> (at % 32) & 1 == 1)
    }
    fn any_bit_below(&self, end: usize) -> bool {
        (0..end.min(self.bits())).any(|at| self.bit(at))
    }
    fn low_64(&self) -> u64 {
        let piece = |i: usize| u64::from(self.0.get(i).copied().unwrap_or(0));
        piece(0) | piece(1) << 32
    }
    fn shifted_left(&self, bits: usize) -> Natural {
        let mut pieces = vec![0; bits / 32];
        let (shift, mut carry) = (bits % 32, 0_u64);
        for &piece in &self.0 {
            carry |= u64::from(piece) << shift;
            pieces.push(carry as u32);
            carry >>= 32;
        }
        pieces.push(carry as u32);
        Natural(pieces).trimmed()
    }
    fn shifted_right(&self, bits: usize) -> Natural {
        let (skip, shift) = (bits / 32, bits % 32);
        let piece = |i: usize| u64::from(self.0.get(i).copied().unwrap_or(0));
        let pieces =
            (skip..self.0.len()).map(|i| ((piece(i) | piece(i + 1) << 32) >> shift) as u32);
        Natural(pieces.collect()).trimmed()
    }
    fn compare(&self, other: &Natural) -> Ordering {
        let by_length = self.0.len().cmp(&other.0.len());
        by_length.then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }
    fn plus(&self, other: &Natural) -> Natural {
        let mut pieces = Vec::new();
        let mut carry = 0_u64;
        for i in 0..=self.0.len().max(other.0.len()) {
            let piece = |n: &Natural| u64::from(n.0.get(i).copied().unwrap_or(0));
            carry += piece(self) + piece(other);
            pieces.push(carry as u32);
            carry >>= 32;
        }
        Natural(pieces).trimmed()
    }
    /// `self - other`, which is not larger.
    fn minus(&self, other: &Natural) -> Natural {
        let mut pieces = Vec::new();
        let mut borrow = 0_i64;
        for i in 0..self.0.len() {
            let piece = |n: &Natural| i64::from(n.0.get(i).copied().unwrap_or(0));
            let mut difference = piece(self) - piece(other) - borrow;
            borrow = i64::from(difference < 0);
            difference += borrow << 32;
            pieces.push(difference as u32);
        }
        Natural(pieces).trimmed()
    }
    /// The quotient, and whether the remainder is zero.
    fn divide(&self, divisor: &Natural) -> (Natural, bool) {
        let mut quotient = Natural(vec![0; self.0.len() + 1]);
        let mut rest = Natural::default();
        for at in (0..self.bits()).rev() {
            rest = rest.shifted_left(1);
            if self.bit(at) {
                rest.multiply_add(1, 1);
                if rest.0.is_empty() {
                    rest = Natural::from(1);
                }
            }
            if rest.compare(divisor) != Ordering::Less {
                rest = rest.minus(divisor);
                quotient.0[at / 32] |= 1 << (at % 32);
            }
        }
        (quotient.trimmed(), rest.0.is_empty())
    }
    fn decimal(&self) -> String {
        let mut rest = self.clone();
        let mut groups = Vec::new();
        while !rest.0.is_empty() {
            let mut remainder = 0_u64;
            for piece in rest.0.iter_mut().rev() {
                remainder = remainder << 32 | u64::from(*piece);
                *piece = (remainder / 1_000_000_000) as u32;
                remainder %= 1_000_000_000;
            }
            rest = rest.trimmed();
            groups.push(remainder);
        }
        let Some(first) = groups.pop() else { return "0".to_string() };
        let tail = groups.iter().rev().map(|group| format!("{group:09}"));
        tail.fold(first.to_string(), |text, group| text + &group)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn sum(one: &str, two: &str) -> String {
        let parse = |text: &str| Extended::parse(text.as_bytes()).unwrap();
        parse(one).plus(parse(two)).unwrap().text()
    }

    // Plain #[test]: nothing here can suspend.
    #[test]
    fn sums_have_the_digits_of_long_doubles() {
        assert_eq!(sum("10.50", "0.1"), "10.6");
        assert_eq!(sum("10.6", "-5"), "5.6");
        assert_eq!(sum("5.0e3", "2.0e2"), "5200");
        assert_eq!(sum("0", "0"), "0");
        assert_eq!(sum("1.5", "-1.5"), "0");
        assert_eq!(sum("-3", "1.25"), "-1.75");
        assert_eq!(sum("1e20", "1"), "100000000000000000000");
        assert_eq!(sum("18446744073709551615", "1"), "18446744073709551616");
        assert_eq!(sum("18446744073709551615", "2"), "18446744073709551616");
        assert_eq!(sum("1e-18", "0"), "0");
        assert_eq!(sum("3", "0.00000000000000001"), "3.00000000000000001");
    }

    // Plain #[test]: nothing here can suspend.
    #[test]
    fn what_is_no_finite_number_is_refused() {
        for bad in ["", "-", ".", "1.2.3", "1 ", " 1", "abc", "inf", "nan", "1e", "1e99999", "0x1"]
        {
            assert_eq!(Extended::parse(bad.as_bytes()), None, "{bad}");
        }
        let large = Extended::parse(b"1e4932").unwrap();
        assert_eq!(large.plus(large), None);
    }
}
