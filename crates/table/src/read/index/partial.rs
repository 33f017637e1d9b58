//! Searches an index block while it is decompressed, for a lookup that is not expected to be
//! followed by another: what lies behind the entry it looks for is not decompressed.
//!
//! For the usual form alone: whole user keys in the order of bytes, whole handles, Snappy. Anything
//! else, and whatever looks odd, is left to [`super::RawIndex`], which also finds the words for an
//! error.
//!
//! Thread safety: borrows the block. Invariant: an entry is found only if the block can have as
//! many restart points as it had entries up to there, so the restart array is never taken for
//! entries.

use pumice_base::Result;
use pumice_compress::SnappyPrefix;

use super::decode::parse_plain;
use crate::handle::BlockHandle;
use crate::prefix::{prefix_word, word_at};

/// Bytes that are decompressed at a time.
const STEP: usize = 256;
/// Longest key that is looked at here.
const KEY_MAX: usize = 64;
/// An entry is looked at when so many bytes from its start are there: two lengths, the key, and
/// eight bytes of the handle. The last few of a small block never have so many behind them.
const WINDOW: usize = 2 + KEY_MAX + 8;

/// The handle of the first entry whose separator is at or after user key `target`. `None`: the
/// block has to be searched as a whole.
///
/// # Errors
/// `Corruption` for a malformed stream.
pub(crate) fn find(block: &mut SnappyPrefix<'_>, target: &[u8]) -> Result<Option<BlockHandle>> {
    let target = (prefix_word(target), target);
    let mut place = Place::default();
    loop {
        match place.pass(block.made(), target) {
            Passed::All if block.made().len() == block.size() => return Ok(None),
            Passed::All => block.extend(block.made().len() + STEP)?,
            Passed::Odd => return Ok(None),
            Passed::UpTo(handle, next) => {
                // One restart point for each entry up to here, and their number.
                let behind = size_of::<u32>() * (place.entries + 2);
                return Ok((next + behind <= block.size()).then_some(handle));
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

/// What a search met.
enum Passed {
    /// The end of what is decompressed, or nearly.
    All,
    /// An entry of another form.
    Odd,
    /// An entry that is not before the target: its handle and its end.
    UpTo(BlockHandle, usize),
}

impl Place {
    /// Passes the entries before `target`, whose first bytes are a word.
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
