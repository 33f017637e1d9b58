//! Searches an index block while it is decompressed, for a lookup that is not expected to be
//! followed by another: what lies after the target entry is not decompressed.
//!
//! Only for the usual form: whole user keys in bytewise order, whole handles, Snappy. Anything
//! else, and anything suspicious, is left to [`super::RawIndex`], which also reports the error.
//!
//! Where the stream holds the restart points as literals, as it mostly does, they tell where
//! entries begin; otherwise the entries are walked.
//!
//! Thread safety: borrows the block. Invariants: the restart array is never read as entries: a walk
//! finds an entry only if the block still has room for as many restart points as there are entries
//! up to it, a search by restart points only before the place that their number gives. Restart
//! points are trusted where the entries on both sides of the target confirm them.

use pumice_base::Result;
use pumice_compress::SnappyPrefix;

use super::decode::{Parsed, parse_plain};
use crate::handle::BlockHandle;
use crate::prefix::{prefix_word, word_at};

/// Bytes that are decompressed at a time where restart points are not known.
const STEP: usize = 256;
/// Entries skipped at a time where they are known: each costs its decompression, each step a
/// comparison.
const STRIDE: usize = 16;
/// With this many readable bytes, a usual handle can be read.
const HANDLE_WINDOW: usize = 16;
/// Longest key that is handled here.
const KEY_MAX: usize = 64;
/// An entry is examined once this many bytes from its start are decompressed: two lengths, the key,
/// and eight bytes of the handle. The last few of a small block never have that many after them.
const WINDOW: usize = 2 + KEY_MAX + 8;

/// The handle of the first entry whose separator is at or after user key `target`. `None`: the
/// whole block must be searched.
///
/// # Errors
/// `Corruption` for a malformed stream.
pub(crate) fn find(block: &mut SnappyPrefix<'_>, target: &[u8]) -> Result<Option<BlockHandle>> {
    let target = (prefix_word(target), target);
    match Points::of(block) {
        Some(points) => points.find(block, target),
        None => walk(block, target),
    }
}

/// Restart points as stored at the end of the stream. That they belong to the block is a guess
/// ([`SnappyPrefix::stored_end`]).
struct Points<'a> {
    /// All but the first, which is 0, and their number.
    places: &'a [[u8; 4]],
    /// Where the entries end.
    end: usize,
}

impl<'a> Points<'a> {
    fn of(block: &SnappyPrefix<'a>) -> Option<Self> {
        let last = *block.stream().last_chunk()?;
        let len = (u32::from_le_bytes(last) as usize).checked_mul(size_of::<u32>())?;
        let end = block.size().checked_sub(len)?.checked_sub(size_of::<u32>())?;
        let places = block.stored_end(len)?.as_chunks().0;
        Some(Points { places, end })
    }

    fn len(&self) -> usize {
        self.places.len()
    }

    fn place(&self, i: usize) -> usize {
        let behind_first = i.checked_sub(1).and_then(|i| self.places.get(i));
        behind_first.map_or(0, |place| u32::from_le_bytes(*place) as usize)
    }

    /// The entry at point `i`, and where the next one begins; decompresses up to there.
    fn entry(&self, block: &mut SnappyPrefix<'_>, i: usize) -> Result<Option<(Parsed, usize)>> {
        let at = self.place(i);
        if at >= self.end {
            return Ok(None);
        }
        block.extend(at + 2)?;
        let key_len = block.made().get(at + 1).copied().unwrap_or(0);
        block.extend(at + 2 + usize::from(key_len) + HANDLE_WINDOW)?;
        Ok(parse_plain(block.made(), at, self.end))
    }

    /// As [`find`]. The result is checked against the decompressed bytes: the entry before it is
    /// before the target and ends where it begins.
    fn find(
        &self,
        block: &mut SnappyPrefix<'_>,
        (word, target): (u64, &[u8]),
    ) -> Result<Option<BlockHandle>> {
        let is_below = |made: &[u8], entry: &Parsed| {
            let first = word_at(made, entry.key_at as usize, entry.key_len as usize);
            first < word || first == word && entry.key(made) < target
        };
        let first = self.entry(block, 0)?;
        if self.len() > 1 && first.is_none_or(|(_, next)| next != self.place(1)) {
            return Ok(None);
        }
        // Entries before `low` are below the target.
        let (mut low, mut high) = (0, 0);
        while low < self.len() {
            high = (low + STRIDE).min(self.len()) - 1;
            let Some((entry, _)) = self.entry(block, high)? else { return Ok(None) };
            if !is_below(block.made(), &entry) {
                break;
            }
            low = high + 1;
        }
        if low == self.len() {
            return Ok(None);
        }
        while low < high {
            let mid = low + (high - low) / 2;
            let Some((entry, _)) = self.entry(block, mid)? else { return Ok(None) };
            if is_below(block.made(), &entry) { low = mid + 1 } else { high = mid }
        }
        if let Some(before) = low.checked_sub(1) {
            let before = self.entry(block, before)?;
            if before.is_none_or(|(_, next)| next != self.place(low)) {
                return Ok(None);
            }
        }
        Ok(self.entry(block, low)?.map(|(entry, _)| entry.handle))
    }
}

/// As [`find`], one entry after another.
fn walk(block: &mut SnappyPrefix<'_>, target: (u64, &[u8])) -> Result<Option<BlockHandle>> {
    let mut place = Place::default();
    loop {
        match place.pass(block.made(), target) {
            Passed::All if block.made().len() == block.size() => return Ok(None),
            Passed::All => block.extend(block.made().len() + STEP)?,
            Passed::Odd => return Ok(None),
            Passed::UpTo(handle, next) => {
                // One restart point for each entry up to here, and their number.
                let rest = size_of::<u32>() * (place.entries + 2);
                return Ok((next + rest <= block.size()).then_some(handle));
            }
        }
    }
}

/// How far a search is.
#[derive(Default)]
struct Place {
    /// Where the next entry begins.
    at: usize,
    /// Entries before it.
    entries: usize,
}

/// Where a search stopped.
enum Passed {
    /// The end of the decompressed bytes, or nearly.
    All,
    /// An entry of another form.
    Odd,
    /// An entry that is not before the target: its handle and its end.
    UpTo(BlockHandle, usize),
}

impl Place {
    /// Skips the entries before `target`, whose first bytes are a word.
    fn pass(&mut self, block: &[u8], (word, target): (u64, &[u8])) -> Passed {
        while let Some(window) = block.get(self.at..).and_then(|rest| rest.first_chunk::<WINDOW>())
        {
            let (shared, key_len) = (window[0], usize::from(window[1]));
            if shared != 0 || key_len > KEY_MAX {
                return Passed::Odd;
            }
            let (key, value) = window[2..].split_at(key_len);
            let Some(value_len) = value.first_chunk().and_then(|value| handle_len(*value)) else {
                return Passed::Odd;
            };
            let first = word_at(&window[2..], 0, key_len);
            if first > word || first == word && key >= target {
                return match parse_plain(block, self.at, block.len()) {
                    Some((entry, next)) => Passed::UpTo(entry.handle, next),
                    None => Passed::Odd,
                };
            }
            self.at += 2 + key_len + value_len;
            self.entries += 1;
        }
        Passed::All
    }
}

/// The length of two varints that begin with these bytes, if they end in them.
#[inline]
fn handle_len(bytes: [u8; 8]) -> Option<usize> {
    let ends = !u64::from_le_bytes(bytes) & 0x8080_8080_8080_8080;
    let second = ends & ends.wrapping_sub(1);
    (second != 0).then(|| second.trailing_zeros() as usize / 8 + 1)
}
