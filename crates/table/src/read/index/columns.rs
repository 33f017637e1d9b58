//! Columns of small integers and strings in one buffer.
//!
//! An index block keeps all its arrays in one allocation. The elements of a column are as wide as
//! its largest element needs; a column of strings of equal length has no ends.
//!
//! Pure functions over bytes; integers are in the machine's own byte order. A column made by its
//! writer never reads outside its own buffer.

use pumice_base::narrow::{low_u8, low_u16, low_u32, to_usize};

/// Columns of words up to this length are searched from front to back: their cache lines load at
/// once.
const LINEAR_BYTES_MAX: usize = 256;

/// Unsigned integers of one width.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Numbers {
    at: u32,
    /// Bytes per number: 1, 2, 4 or 8. 0: none are stored, and all read as 0.
    width: u8,
}

impl Numbers {
    /// Appends `count` values, none of which is above `max`.
    pub(super) fn write(
        out: &mut Vec<u8>,
        (count, max): (usize, u64),
        values: impl Iterator<Item = u64>,
    ) -> Result<Self, &'static str> {
        let at = position(out)?;
        let width = match max {
            0..=0xff => 1,
            0x100..=0xffff => 2,
            0x1_0000..=0xffff_ffff => 4,
            _ => 8,
        };
        match width {
            1 => out.extend(values.map(low_u8)),
            2 => {
                out.resize(out.len() + 2 * count, 0);
                let column = out[at as usize..].as_chunks_mut().0;
                column.iter_mut().zip(values).for_each(|(to, v)| *to = low_u16(v).to_ne_bytes());
            }
            4 => values.for_each(|value| out.extend_from_slice(&low_u32(value).to_ne_bytes())),
            _ => values.for_each(|value| out.extend_from_slice(&value.to_ne_bytes())),
        }
        Ok(Numbers { at, width })
    }

    /// There is no such column.
    #[inline]
    pub(super) fn is_none(self) -> bool {
        self.width == 0
    }

    /// Numbers are two bytes wide.
    #[inline]
    pub(super) fn is_short(self) -> bool {
        self.width == 2
    }

    /// Numbers `i` and `i + 1` of a column of two bytes' width.
    #[inline]
    pub(super) fn short_pair(self, bytes: &[u8], i: usize) -> (u16, u16) {
        let [a, b, c, d] = array(bytes, self.at as usize + 2 * i);
        (u16::from_ne_bytes([a, b]), u16::from_ne_bytes([c, d]))
    }

    /// Number `i`.
    #[inline]
    pub(super) fn get(self, bytes: &[u8], i: usize) -> u64 {
        let at = self.at as usize + i * usize::from(self.width);
        match self.width {
            2 => u64::from(u16::from_ne_bytes(array(bytes, at))),
            4 => u64::from(u32::from_ne_bytes(array(bytes, at))),
            1 => u64::from(bytes[at]),
            8 => u64::from_ne_bytes(array(bytes, at)),
            _ => 0,
        }
    }
}

/// Strings back to back.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Strings {
    at: u32,
    /// The length of every string if there are no ends.
    len: u32,
    ends: Numbers,
}

impl Strings {
    /// Appends `strings`.
    pub(super) fn write<'a>(
        out: &mut Vec<u8>,
        strings: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> Result<Self, &'static str> {
        let first = strings.clone().next().map_or(0, <[u8]>::len);
        let (mut total, mut uniform) = (0u64, true);
        for string in strings.clone() {
            total += string.len() as u64;
            uniform &= string.len() == first;
        }
        if total > u64::from(u32::MAX) {
            return Err("index keys too long");
        }
        let (mut len, mut ends) = (low_u32(first as u64), Numbers::default());
        if !uniform {
            let count = strings.clone().count();
            let steps = strings.clone().scan(0, |end, string| {
                *end += string.len() as u64;
                Some(*end)
            });
            (len, ends) = (0, Numbers::write(out, (count, total), steps)?);
        }
        let at = position(out)?;
        if total > 0 {
            out.reserve(to_usize(total));
            strings.for_each(|string| out.extend_from_slice(string));
        }
        Ok(Strings { at, len, ends })
    }

    /// String `i`.
    #[inline]
    pub(super) fn get(self, bytes: &[u8], i: usize) -> &[u8] {
        let (from, to) = if self.ends.is_none() {
            (i * self.len as usize, (i + 1) * self.len as usize)
        } else {
            let from = if i == 0 { 0 } else { self.ends.get(bytes, i - 1) };
            (to_usize(from), to_usize(self.ends.get(bytes, i)))
        };
        &bytes[self.at as usize + from..self.at as usize + to]
    }
}

/// Where the next byte of `out` lies.
pub(super) fn position(out: &[u8]) -> Result<u32, &'static str> {
    u32::try_from(out.len()).map_err(|_| "index block too large")
}

#[inline]
fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].first_chunk().copied().unwrap_or([0; N])
}

/// How many words of an ascending column are below `word`.
#[inline]
pub(super) fn count_below_narrow(words: &[[u8; 4]], word: u32) -> usize {
    let is_below = |bytes: &[u8; 4]| u32::from_ne_bytes(*bytes) < word;
    if words.len() <= LINEAR_BYTES_MAX / 4 {
        return words.iter().map(|bytes| u32::from(is_below(bytes))).sum::<u32>() as usize;
    }
    words.partition_point(is_below)
}

/// As [`count_below_narrow`].
#[inline]
pub(super) fn count_below_wide(words: &[[u8; 8]], word: u64) -> usize {
    let is_below = |bytes: &[u8; 8]| u64::from_ne_bytes(*bytes) < word;
    if words.len() <= LINEAR_BYTES_MAX / 8 {
        return to_usize(words.iter().map(|bytes| u64::from(is_below(bytes))).sum());
    }
    words.partition_point(is_below)
}
