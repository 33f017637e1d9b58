//! Numbers with a 64-bit mantissa, like x86's long double, in which INCRBYFLOAT and HINCRBYFLOAT
//! add, and hexadecimal numbers with any mantissa.
//!
//! Redis reads them as C's strtold does, from decimal or hexadecimal text, adds them, and writes 17
//! digits after the point without the zeros at the end. Each step rounds once, to the nearest, ties
//! to even, so that the digits are the same. The computation uses arbitrary-precision integers,
//! which the bounds below keep small.
//!
//! Thread safety: plain values.

use std::cmp::Ordering;

/// A number's text is shorter, as in Redis.
const TEXT_BYTES: usize = 5 * 1024;
/// Numbers whose top bit has an exponent beyond this, either way, are in no format.
const MAGNITUDE_MAX: i64 = 17_000;

/// A binary format: bits of the mantissa, the least exponent of its last bit, the largest of its
/// first.
#[derive(Clone, Copy, Debug)]
struct Format {
    bits: usize,
    last: i64,
    first: i64,
}

const LONG_DOUBLE: Format = Format { bits: 64, last: -16_445, first: 16_383 };
const DOUBLE: Format = Format { bits: 53, last: -1074, first: 1023 };

/// `mantissa * 2^exponent`, with its sign. A mantissa of zero is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extended {
    negative: bool,
    mantissa: u64,
    exponent: i64,
}

/// A number that a format does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beyond {
    /// Rounded it would be infinite.
    Large,
    /// It is not zero, but rounded it would be.
    Small,
}

/// `mantissa * 2^exponent`, and a little more if `sticky`.
struct Exact {
    negative: bool,
    mantissa: Natural,
    exponent: i64,
    sticky: bool,
}

impl Exact {
    /// What the whole text says. None: it is no number, or an infinity.
    fn read(text: &[u8]) -> Option<Result<Exact, Beyond>> {
        let (negative, rest) = match text.split_first()? {
            (b'-', rest) => (true, rest),
            (b'+', rest) => (false, rest),
            _ => (false, text),
        };
        let is_hexadecimal = matches!(rest, [b'0', b'x' | b'X', ..]);
        let (base, mark) = if is_hexadecimal { (16, b'p') } else { (10, b'e') };
        let rest = if is_hexadecimal { &rest[2..] } else { rest };
        let at = rest.iter().position(|b| b.to_ascii_lowercase() == mark);
        let digits = &rest[..at.unwrap_or(rest.len())];
        let power = at.map_or(Some(0), |at| signed(&rest[at + 1..]))?;
        let mut mantissa = Natural::default();
        let (mut fraction, mut point, mut any) = (0, false, false);
        for &b in digits {
            if b == b'.' && !point {
                point = true;
                continue;
            }
            mantissa.multiply_add(base, char::from(b).to_digit(base)?);
            fraction += i64::from(point);
            any = true;
        }
        if !any {
            return None;
        }
        Some(match base {
            16 => Exact::binary(negative, mantissa, power.saturating_sub(4 * fraction)),
            _ => Exact::decimal(negative, mantissa, power.saturating_sub(fraction)),
        })
    }

    /// `mantissa * 2^exponent`.
    fn binary(negative: bool, mantissa: Natural, exponent: i64) -> Result<Exact, Beyond> {
        let number = Exact { negative, mantissa, exponent, sticky: false };
        match exponent.saturating_add(number.mantissa.bits() as i64) {
            _ if number.mantissa.is_zero() => Ok(Exact { exponent: 0, ..number }),
            MAGNITUDE_MAX.. => Err(Beyond::Large),
            magnitude if magnitude < -MAGNITUDE_MAX => Err(Beyond::Small),
            _ => Ok(number),
        }
    }

    /// `mantissa * 10^power`.
    fn decimal(negative: bool, mantissa: Natural, power: i64) -> Result<Exact, Beyond> {
        if mantissa.is_zero() {
            return Ok(Exact { negative, mantissa, exponent: 0, sticky: false });
        }
        // 10^3 is about 2^10: so many bits, or a few more.
        let magnitude = (mantissa.bits() as i64).saturating_add(power.saturating_mul(10) / 3);
        if magnitude > MAGNITUDE_MAX {
            return Err(Beyond::Large);
        }
        if magnitude < -MAGNITUDE_MAX {
            return Err(Beyond::Small);
        }
        if power >= 0 {
            let mut mantissa = mantissa;
            mantissa.multiply_by_power_of_10(power);
            return Ok(Exact { negative, mantissa, exponent: 0, sticky: false });
        }
        let mut divisor = Natural::from(1);
        divisor.multiply_by_power_of_10(-power);
        // Enough bits that the quotient has more than a mantissa.
        let shift = (divisor.bits() + 66).saturating_sub(mantissa.bits());
        let (mantissa, exact) = mantissa.shifted_left(shift).divide(&divisor);
        Ok(Exact { negative, mantissa, exponent: -(shift as i64), sticky: !exact })
    }

    /// To the nearest number of the format, ties to even.
    fn rounded(&self, format: &Format) -> Result<Extended, Beyond> {
        let Exact { negative, mantissa: number, exponent, sticky } = self;
        let (negative, exponent, bits) = (*negative, *exponent, number.bits());
        let below = usize::try_from(format.last - exponent).unwrap_or(0);
        let cut = bits.saturating_sub(format.bits).max(below);
        let mut kept = number.shifted_right(cut);
        if cut > 0 && number.bit(cut - 1) {
            let above = *sticky || number.any_bit_below(cut - 1);
            if above || kept.bit(0) {
                kept = kept.plus(&Natural::from(1));
            }
        }
        let mut exponent = exponent + cut as i64;
        if kept.bits() > format.bits {
            kept = kept.shifted_right(1);
            exponent += 1;
        }
        match exponent + kept.bits() as i64 - 1 {
            _ if number.is_zero() && !sticky => Ok(Extended { negative, mantissa: 0, exponent: 0 }),
            _ if kept.is_zero() => Err(Beyond::Small),
            first if first > format.first => Err(Beyond::Large),
            _ => Ok(Extended { negative, mantissa: kept.low_64(), exponent }),
        }
    }
}

/// A signed integer; one that is too large is a very large one.
fn signed(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text.split_first()? {
        (b'-', digits) => (true, digits),
        (b'+', digits) => (false, digits),
        _ => (false, text),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add = |n: i64, b: &u8| n.saturating_mul(10).saturating_add(i64::from(b - b'0'));
    let number = digits.iter().fold(0, add);
    Some(if negative { -number } else { number })
}

/// The double that a text says in base 16, or in what way it is none. None: it is no number.
pub fn double(text: &[u8]) -> Option<Result<f64, Beyond>> {
    let rounded = Exact::read(text)?.and_then(|exact| exact.rounded(&DOUBLE));
    Some(rounded.map(|number| {
        // By two exact steps, since the power alone may be no double.
        let half = (number.exponent / 2) as i32;
        let rest = number.exponent as i32 - half;
        let value = number.mantissa as f64 * 2_f64.powi(half) * 2_f64.powi(rest);
        if number.negative { -value } else { value }
    }))
}

impl Extended {
    /// A finite number that is not too small; None for anything else.
    pub fn parse(text: &[u8]) -> Option<Extended> {
        if text.len() >= TEXT_BYTES {
            return None;
        }
        Exact::read(text)?.and_then(|exact| exact.rounded(&LONG_DOUBLE)).ok()
    }

    /// The nearest double, which may be an infinity or zero.
    pub fn to_double(self) -> f64 {
        let exponent = self.exponent.clamp(-4000, 4000) as i32;
        let steps = [exponent / 4, exponent / 4, exponent / 4, exponent - exponent / 4 * 3];
        let value = steps.iter().fold(self.mantissa as f64, |value, n| value * 2_f64.powi(*n));
        if self.negative { -value } else { value }
    }

    /// It is more than zero.
    pub fn is_positive(self) -> bool {
        !self.negative && self.mantissa > 0
    }

    /// `number * 2^exponent`, rounded; None when it is too large.
    fn of(negative: bool, mantissa: Natural, exponent: i64) -> Option<Extended> {
        Exact { negative, mantissa, exponent, sticky: false }.rounded(&LONG_DOUBLE).ok()
    }

    /// The sum; None when it is too large.
    pub fn plus(self, other: Extended) -> Option<Extended> {
        let low = self.exponent.min(other.exponent);
        let aligned =
            |n: Extended| Natural::from(n.mantissa).shifted_left((n.exponent - low) as usize);
        let (one, two) = (aligned(self), aligned(other));
        if self.negative == other.negative {
            return Self::of(self.negative, one.plus(&two), low);
        }
        match one.compare(&two) {
            Ordering::Less => Self::of(other.negative, two.minus(&one), low),
            Ordering::Equal => Some(Extended { negative: false, mantissa: 0, exponent: 0 }),
            Ordering::Greater => Self::of(self.negative, one.minus(&two), low),
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
    fn multiply_by_power_of_10(&mut self, power: i64) {
        const STEP: i64 = 9;
        (0..power / STEP).for_each(|_| self.multiply_add(10_u32.pow(STEP as u32), 0));
        (0..power % STEP).for_each(|_| self.multiply_add(10, 0));
    }
    fn is_zero(&self) -> bool {
        self.0.is_empty()
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
        // These bits together are less than the divisor: their quotients are zero.
        let first = self.bits().saturating_sub(divisor.bits().saturating_sub(1));
        let mut rest = self.shifted_right(first);
        for at in (0..first).rev() {
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
        assert_eq!(sum("0x1.8p3", "-0X.8"), "11.5");
        assert_eq!(sum("0e99999999999999999999", "0x0p-99999"), "0");
        assert_eq!(sum("1e-4940", "0x1p-16445"), "0");
        assert_eq!(sum(&format!("{}e-5000", "1".repeat(5000)), "0"), "0.11111111111111111");
    }

    // Plain #[test]: nothing here can suspend.
    #[test]
    fn what_is_no_finite_number_is_refused() {
        for bad in [
            "",
            "-",
            ".",
            "1.2.3",
            "1 ",
            " 1",
            "abc",
            "inf",
            "nan",
            "1e",
            "1e99999",
            "0x",
            "0x1p",
            "0xg",
            "1e-4960",
            "0x1p16384",
            "0x1p-16446",
        ] {
            assert_eq!(Extended::parse(bad.as_bytes()), None, "{bad}");
        }
        let digits = |n: usize| Extended::parse("1".repeat(n).as_bytes()).is_some();
        assert!(digits(4900) && !digits(5200));
        let large = Extended::parse(b"1e4932").unwrap();
        assert_eq!(large.plus(large), None);
    }
}
