//! The bytes of typed keys and values.
//!
//! Order: for two keys of a type, the bytes compare as the keys do. Inside a tuple, what has no
//! fixed length ends with a mark, so that the next part begins at a place that does not depend on
//! it: 0x00 in the text becomes 0x00 0xff, and 0x00 0x00 is the end. The last part has no mark and
//! no escapes: one string alone is its bytes.
//!
//! | type | bytes |
//! |---|---|
//! | `u8` to `u128` | big-endian |
//! | `i8` to `i128` | big-endian, the sign bit inverted |
//! | `bool` | 0x00 or 0x01 |
//! | `char` | as `u32` |
//! | `String`, `Vec<u8>` | the bytes, in a tuple but at its end with escapes and mark |
//! | `[u8; N]` | the bytes |
//! | `Option<T>` | 0x00, or 0x01 and the value |
//! | tuples of two to four | the parts, one after the other |
//! | `()` | nothing |
//!
//! Persisted: an encoding is never changed. Thread safety: pure functions.

/// A type of keys, whose bytes are in the order of its values. Integers are big-endian (the sign
/// bit of signed ones inverted), strings and byte strings are their bytes, a tuple is its parts one
/// after the other; inside a tuple, but for its last part, a string's 0x00 is written as 0x00 0xff,
/// and 0x00 0x00 ends it.
///
/// Types of a program implement it by what they are made of:
///
/// ```
/// use pumice::Key;
///
/// #[derive(Debug, PartialEq)]
/// struct Seconds(i64);
///
/// impl Key for Seconds {
///     fn encode(&self, out: &mut Vec<u8>, is_last: bool) {
///         self.0.encode(out, is_last);
///     }
///     fn decode(from: &mut &[u8], is_last: bool) -> Option<Self> {
///         i64::decode(from, is_last).map(Seconds)
///     }
/// }
///
/// let mut bytes = Vec::new();
/// Seconds(-1).encode(&mut bytes, true);
/// assert_eq!(bytes, [0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
/// assert_eq!(Seconds::decode(&mut &bytes[..], true), Some(Seconds(-1)));
/// ```
pub trait Key: Sized {
    /// Appends the bytes; nothing follows them if `is_last`.
    fn encode(&self, out: &mut Vec<u8>, is_last: bool);
    /// Takes the value from the start of `from`, all of it if `is_last`; None if the bytes are not
    /// those of a value.
    fn decode(from: &mut &[u8], is_last: bool) -> Option<Self>;
}

/// A type of values. Every [`Key`] is one; other types, such as those of a serialisation, implement
/// it themselves.
///
/// ```
/// use pumice::Value;
///
/// struct Point { x: u32, y: u32 }
///
/// impl Value for Point {
///     fn encode_value(&self, out: &mut Vec<u8>) {
///         (self.x, self.y).encode_value(out);
///     }
///     fn decode_value(bytes: &[u8]) -> Option<Self> {
///         <(u32, u32)>::decode_value(bytes).map(|(x, y)| Point { x, y })
///     }
/// }
///
/// let mut bytes = Vec::new();
/// Point { x: 1, y: 2 }.encode_value(&mut bytes);
/// assert_eq!(bytes, [0, 0, 0, 1, 0, 0, 0, 2]);
/// assert!(Point::decode_value(&bytes[1..]).is_none());
/// ```
pub trait Value: Sized {
    /// Appends the bytes.
    fn encode_value(&self, out: &mut Vec<u8>);
    /// The value; None if the bytes are not those of one.
    fn decode_value(bytes: &[u8]) -> Option<Self>;
}

impl<T: Key> Value for T {
    fn encode_value(&self, out: &mut Vec<u8>) {
        self.encode(out, true);
    }
    fn decode_value(mut bytes: &[u8]) -> Option<Self> {
        T::decode(&mut bytes, true).filter(|_| bytes.is_empty())
    }
}

/// Takes `N` bytes.
fn take<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
    let (bytes, rest) = from.split_first_chunk::<N>()?;
    *from = rest;
    Some(*bytes)
}

macro_rules! integers {
    ($($unsigned:ty, $signed:ty;)*) => {$(
        impl Key for $unsigned {
            fn encode(&self, out: &mut Vec<u8>, _is_last: bool) {
                out.extend_from_slice(&self.to_be_bytes());
            }
            fn decode(from: &mut &[u8], _is_last: bool) -> Option<Self> {
                take(from).map(<$unsigned>::from_be_bytes)
            }
        }
        impl Key for $signed {
            fn encode(&self, out: &mut Vec<u8>, is_last: bool) {
                (self.cast_unsigned() ^ (1 << (<$unsigned>::BITS - 1))).encode(out, is_last);
            }
            fn decode(from: &mut &[u8], is_last: bool) -> Option<Self> {
                let bits = <$unsigned>::decode(from, is_last)?;
                Some((bits ^ (1 << (<$unsigned>::BITS - 1))).cast_signed())
            }
        }
    )*};
}
integers! { u8, i8; u16, i16; u32, i32; u64, i64; u128, i128; }

impl Key for bool {
    fn encode(&self, out: &mut Vec<u8>, _is_last: bool) {
        out.push(u8::from(*self));
    }
    fn decode(from: &mut &[u8], _is_last: bool) -> Option<Self> {
        match take(from)? {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        }
    }
}

impl Key for char {
    fn encode(&self, out: &mut Vec<u8>, is_last: bool) {
        u32::from(*self).encode(out, is_last);
    }
    fn decode(from: &mut &[u8], is_last: bool) -> Option<Self> {
        char::from_u32(u32::decode(from, is_last)?)
    }
}

impl Key for () {
    fn encode(&self, _out: &mut Vec<u8>, _is_last: bool) {}
    fn decode(_from: &mut &[u8], _is_last: bool) -> Option<Self> {
        Some(())
    }
}

impl<const N: usize> Key for [u8; N] {
    fn encode(&self, out: &mut Vec<u8>, _is_last: bool) {
        out.extend_from_slice(self);
    }
    fn decode(from: &mut &[u8], _is_last: bool) -> Option<Self> {
        take(from)
    }
}

/// In a text: the byte after 0x00.
const ESCAPED: u8 = 0xff;
/// After a text: the byte after 0x00.
const END: u8 = 0x00;

impl Key for Vec<u8> {
    fn encode(&self, out: &mut Vec<u8>, is_last: bool) {
        if is_last {
            return out.extend_from_slice(self);
        }
        for &byte in self {
            out.push(byte);
            if byte == 0 {
                out.push(ESCAPED);
            }
        }
        out.extend_from_slice(&[0, END]);
    }
    fn decode(from: &mut &[u8], is_last: bool) -> Option<Self> {
        if is_last {
            return Some(std::mem::take(from).to_vec());
        }
        let mut bytes = Vec::new();
        loop {
            match take(from)? {
                [0] => match take(from)? {
                    [ESCAPED] => bytes.push(0),
                    [END] => return Some(bytes),
                    _ => return None,
                },
                [byte] => bytes.push(byte),
            }
        }
    }
}

impl Key for String {
    fn encode(&self, out: &mut Vec<u8>, is_last: bool) {
        if is_last {
            return out.extend_from_slice(self.as_bytes());
        }
        self.as_bytes().to_vec().encode(out, is_last);
    }
    fn decode(from: &mut &[u8], is_last: bool) -> Option<Self> {
        String::from_utf8(Vec::decode(from, is_last)?).ok()
    }
}

impl<T: Key> Key for Option<T> {
    fn encode(&self, out: &mut Vec<u8>, is_last: bool) {
        self.is_some().encode(out, false);
        if let Some(value) = self {
            value.encode(out, is_last);
        }
    }
    fn decode(from: &mut &[u8], is_last: bool) -> Option<Self> {
        match bool::decode(from, false)? {
            false => Some(None),
            true => T::decode(from, is_last).map(Some),
        }
    }
}

macro_rules! tuples {
    ($(($($part:ident),*; $last:ident))*) => {$(
        impl<$($part: Key,)* $last: Key> Key for ($($part,)* $last) {
            #[allow(non_snake_case)] // The parts have the names of their types.
            fn encode(&self, out: &mut Vec<u8>, is_last: bool) {
                let ($($part,)* $last) = self;
                $($part.encode(out, false);)*
                $last.encode(out, is_last);
            }
            fn decode(from: &mut &[u8], is_last: bool) -> Option<Self> {
                Some(($($part::decode(from, false)?,)* $last::decode(from, is_last)?))
            }
        }
    )*};
}
tuples! { (A; B) (A, B; C) (A, B, C; D) }

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use pumice_base::random::Rng;

    fn bytes<K: Key>(key: &K) -> Vec<u8> {
        let mut out = Vec::new();
        key.encode(&mut out, true);
        out
    }

    /// What is encoded comes back, and bytes compare as the values.
    fn check<K: Key + Ord + std::fmt::Debug>(values: &[K]) {
        for a in values {
            assert_eq!(K::decode_value(&bytes(a)).as_ref(), Some(a));
            for b in values {
                assert_eq!(bytes(a).cmp(&bytes(b)), a.cmp(b), "{a:?} {b:?}");
            }
        }
    }

    #[pumice_test_macros::test]
    fn bytes_are_as_documented() {
        assert_eq!(bytes(&0x0102_u16), [1, 2]);
        assert_eq!(bytes(&-1_i16), [0x7f, 0xff]);
        assert_eq!(bytes(&"a\0".to_string()), b"a\0");
        assert_eq!(bytes(&("a\0".to_string(), 7_u8)), [b'a', 0, 0xff, 0, 0, 7]);
        assert_eq!(bytes(&(7_u8, "a\0".to_string())), [7, b'a', 0]);
        assert_eq!(bytes(&Some(true)), [1, 1]);
        assert_eq!(bytes(&None::<u8>), [0]);
        assert_eq!(bytes(&('a', ())), [0, 0, 0, 0x61]);
    }

    #[pumice_test_macros::test]
    fn encoded_keys_are_in_order() {
        check(&[i64::MIN, -256, -255, -1, 0, 1, 255, 256, i64::MAX]);
        check(&[0_u128, 1, u128::from(u64::MAX), u128::MAX]);
        check(&['a', 'é', '\u{10ffff}']);
        let texts = ["", "\0", "\0\0", "\0a", "\u{1}", "a", "a\0", "a\0b", "aa", "b", "\u{ff}"];
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_string()).collect();
        check(&texts);
        let mut parts = Vec::new();
        for text in &texts {
            for number in [-1_i8, 0, 1] {
                parts.push((text.clone(), number));
            }
        }
        check(&parts);
        let seed = 46;
        let mut random = Rng::new(seed);
        let mut word = || -> Vec<u8> {
            let len = random.uniform(4);
            (0..len).map(|_| [0, 1, 254, 255][random.uniform(4) as usize]).collect()
        };
        let tuples: Vec<_> = (0..120).map(|_| (word(), Some(word()), 1_u8)).collect();
        check(&tuples);
    }

    #[pumice_test_macros::test]
    fn other_bytes_are_no_values() {
        assert_eq!(u32::decode_value(&[1, 2, 3]), None);
        assert_eq!(u32::decode_value(&[1, 2, 3, 4, 5]), None);
        assert_eq!(bool::decode_value(&[2]), None);
        assert_eq!(char::decode_value(&[0, 0, 0xd8, 0]), None);
        assert_eq!(String::decode_value(&[0xff]), None);
        for bytes in [&b"a"[..], b"a\0", b"a\0\x01\x07", b"a\0\0"] {
            assert_eq!(<(String, u8)>::decode_value(bytes), None, "{bytes:?}");
        }
    }
}
