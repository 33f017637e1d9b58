//! Decompresses a Snappy block from its beginning, only as far as requested.
//!
//! For readers that look for something in a block in order and stop where they find it. The codec's
//! library decompresses only whole blocks; this is a second decoder of its format, for this use
//! only. Format: <https://github.com/google/snappy/blob/main/format_description.txt>.
//!
//! Thread safety: used by one thread. Every element is checked against `size` and `made` before it
//! is executed. Does not verify what follows the requested part.
//!
//! Invariants:
//! 1. `made <= size <= out.len()`. All of `out` is initialised; its bytes after `made` are
//!    arbitrary and never exposed, so a whole chunk may be copied to `made` where it fits.
//! 2. `usual_elements` begins a round only with `ROUND_IN` bytes of the stream and `ROUND_OUT` of
//!    the block to go. A round takes a literal of at most [`CHUNK`] bytes and then a copy of as
//!    many, or either alone, so it reads below the one and writes below the other.
#![allow(unsafe_code)]

use pumice_base::Result;
use pumice_base::coding::get_varint64;

use crate::decompressor::{check_size, make_room, malformed};
use crate::options::CompressionType;

/// Bytes that one copy of a usual element writes.
const CHUNK: usize = 16;
/// What a round of usual elements may read: two tags, a literal, a distance.
const ROUND_IN: usize = 1 + CHUNK + 3;
/// What it may write.
const ROUND_OUT: usize = 2 * CHUNK;
/// By how much a literal at the end may exceed the requested length.
const END_SLACK: usize = 32;
/// Longest element whose length is in its tag.
const SHORT_LITERAL_MAX: usize = 60;

/// A Snappy block that is decompressed step by step.
pub struct SnappyPrefix<'a> {
    /// What is left of the stream.
    stream: &'a [u8],
    out: Vec<u8>,
    made: usize,
    size: usize,
}

impl<'a> SnappyPrefix<'a> {
    /// Begins with a stored payload of type Snappy. `buffer` is memory for the block; its contents
    /// do not matter.
    ///
    /// # Errors
    /// `Corruption` for a size above `limit` or beyond what the stream can expand to; `Aborted` if
    /// there is no memory for it.
    pub fn new(framed: &'a [u8], mut buffer: Vec<u8>, limit: usize) -> Result<Self> {
        let kind = CompressionType::Snappy;
        let (size, skip) = get_varint64(framed).ok_or_else(|| malformed(kind, "truncated size"))?;
        let stream = &framed[skip..];
        let size = check_size(kind, size, stream.len(), limit)?;
        if buffer.len() < size {
            make_room(&mut buffer, size)?;
            buffer.resize(size, 0);
        }
        Ok(SnappyPrefix { stream, out: buffer, made: 0, size })
    }

    /// The size of the whole block.
    #[inline]
    pub fn size(&self) -> usize {
        self.size
    }

    /// The part that is decompressed.
    #[inline]
    pub fn made(&self) -> &[u8] {
        &self.out[..self.made]
    }

    /// The buffer, for the next block.
    pub fn into_buffer(self) -> Vec<u8> {
        self.out
    }

    /// Decompresses at least the first `wanted` bytes, or the whole block if it is smaller.
    ///
    /// # Errors
    /// `Corruption` for a malformed stream; the part decompressed by then stays.
    #[inline]
    pub fn extend(&mut self, wanted: usize) -> Result<()> {
        let wanted = wanted.min(self.size);
        if self.made < wanted { self.extend_to(wanted) } else { Ok(()) }
    }

    /// [`SnappyPrefix::extend`] beyond what is decompressed.
    fn extend_to(&mut self, wanted: usize) -> Result<()> {
        while self.made < wanted {
            self.usual_elements(wanted);
            if self.made < wanted && self.element().is_none() {
                let what = "corrupted compressed block contents";
                return Err(malformed(CompressionType::Snappy, what));
            }
        }
        Ok(())
    }

    /// What is left of the stream.
    #[inline]
    pub fn stream(&self) -> &'a [u8] {
        self.stream
    }

    /// The last `len` bytes of the block, if they are inside one literal at the end of the stream.
    /// Nothing is decompressed for it, so it is a guess: a literal's header of the right length
    /// stands at the right distance from the end, but whether an element begins there is only known
    /// once everything before it is decompressed.
    pub fn stored_end(&self, len: usize) -> Option<&'a [u8]> {
        let end = self.stream.len();
        let is_literal = |long: usize| match u16::try_from(long - 1) {
            Ok(less) if long > 256 => {
                let at = end.checked_sub(long + 3)?;
                let [low, high] = less.to_le_bytes();
                (self.stream[at..at + 3] == [61 << 2, low, high]).then_some(long)
            }
            Ok(less) if long > SHORT_LITERAL_MAX => {
                let at = end.checked_sub(long + 2)?;
                (self.stream[at..at + 2] == [60 << 2, less as u8]).then_some(long)
            }
            _ => None,
        };
        let _long = (len.max(1)..len.checked_add(END_SLACK)?).find_map(is_literal)?;
        self.stream.get(end - len..)
    }

    /// Does literals and copies of at most [`CHUNK`] bytes, each with one copy of that size, until
    /// `wanted` bytes are made or one is not of this kind or too near to an end. Surplus bytes are
    /// overwritten by the next element.
    fn usual_elements(&mut self, wanted: usize) {
        let Some(last_in) = self.stream.len().checked_sub(ROUND_IN) else { return };
        let Some(last_out) = self.size.checked_sub(ROUND_OUT) else { return };
        let (stream, out) = (self.stream.as_ptr(), self.out.as_mut_ptr());
        let (mut at, mut made) = (0, self.made);
        let wanted = wanted.min(last_out + 1);
        while made < wanted && at <= last_in {
            // SAFETY: invariant 2: of `ROUND_IN` bytes this is the first.
            let mut tag = usize::from(unsafe { *stream.add(at) });
            if tag & 3 == 0 {
                let less = tag >> 2;
                if less >= CHUNK {
                    break;
                }
                // SAFETY: invariant 2: `1 + CHUNK` bytes of the round's input, the first `CHUNK` of
                // its output, which is inside of `out` by invariant 1; stream and `out` are apart.
                unsafe { copy_chunk(stream.add(at + 1), out.add(made)) };
                made += less + 1;
                at += less + 2;
                // SAFETY: invariant 2: at most `1 + CHUNK` after the round's first byte.
                tag = usize::from(unsafe { *stream.add(at) });
            }
            // SAFETY: invariant 2: at most two more after that one.
            let [low, high] = unsafe { stream.add(at + 1).cast::<[u8; 2]>().read() };
            let (len, back, used) = match tag & 3 {
                1 => (4 + (tag >> 2 & 7), (tag & 0xe0) << 3 | usize::from(low), 2),
                2 => ((tag >> 2) + 1, usize::from(u16::from_le_bytes([low, high])), 3),
                0 => continue,
                _ => break,
            };
            // A copy that overlaps itself has to be done byte by byte.
            if back > made || len > back || len > CHUNK {
                break;
            }
            // SAFETY: `back` is at most `made`; the chunk there and the one at `made` end within
            // the round's output (invariant 2) and so within `out` (invariant 1).
            unsafe { copy_chunk(out.add(made - back), out.add(made)) };
            made += len;
            at += used;
        }
        self.stream = &self.stream[at..];
        self.made = made;
    }

    /// Does one element of the stream, of any kind.
    fn element(&mut self) -> Option<()> {
        let (&tag, rest) = self.stream.split_first()?;
        let long = usize::from(tag >> 2) + 1;
        match tag & 3 {
            0 if long <= SHORT_LITERAL_MAX => self.literal(rest, long),
            0 => self.long_literal(rest, long - SHORT_LITERAL_MAX),
            1 => {
                let (&low, rest) = rest.split_first()?;
                let back = usize::from(tag >> 5) << 8 | usize::from(low);
                self.copy(rest, back, 4 + usize::from(tag >> 2 & 7))
            }
            2 => {
                let (back, rest) = rest.split_first_chunk::<2>()?;
                self.copy(rest, usize::from(u16::from_le_bytes(*back)), long)
            }
            _ => {
                let (back, rest) = rest.split_first_chunk::<4>()?;
                self.copy(rest, u32::from_le_bytes(*back) as usize, long)
            }
        }
    }

    /// `len` literal bytes at the beginning of `rest`.
    fn literal(&mut self, rest: &'a [u8], len: usize) -> Option<()> {
        if len > self.size - self.made {
            return None;
        }
        self.out[self.made..][..len].copy_from_slice(rest.get(..len)?);
        self.stream = rest.get(len..)?;
        self.made += len;
        Some(())
    }

    /// A literal whose length minus one is in the next `bytes` bytes.
    fn long_literal(&mut self, rest: &'a [u8], bytes: usize) -> Option<()> {
        let (len, rest) = rest.split_at_checked(bytes)?;
        let len = len.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte)) + 1;
        self.literal(rest, len)
    }

    /// `len` bytes that were made `back` before; they may overlap themselves.
    fn copy(&mut self, rest: &'a [u8], back: usize, len: usize) -> Option<()> {
        if len > self.size - self.made || back == 0 {
            return None;
        }
        let from = self.made.checked_sub(back)?;
        if len <= back {
            self.out.copy_within(from..from + len, self.made);
        } else {
            for at in from..from + len {
                self.out[at + back] = self.out[at];
            }
        }
        self.stream = rest;
        self.made += len;
        Some(())
    }
}

/// Copies [`CHUNK`] bytes, all of them read before one is written.
///
/// # Safety
/// That many can be read at `from` and written at `to`.
#[inline(always)]
unsafe fn copy_chunk(from: *const u8, to: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe { to.cast::<[u8; CHUNK]>().write(from.cast::<[u8; CHUNK]>().read()) };
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use pumice_base::random::Rng;

    use super::*;
    use crate::Decompressor;

    /// Bytes with matches at all distances and of all lengths.
    fn compressible(rng: &mut Rng, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len);
        while bytes.len() < len {
            if bytes.is_empty() || rng.one_in(3) {
                let longest = 1 + rng.uniform(90);
                let run = rng.uniform(longest) as usize + 1;
                bytes.extend(rng.bytes(run));
            } else {
                let back = 1 + rng.uniform(bytes.len() as u64) as usize;
                let back =
                    if rng.one_in(2) { back.min(1 + rng.uniform(20) as usize) } else { back };
                let longest = 1 + rng.uniform(80);
                for _ in 0..4 + rng.uniform(longest) {
                    bytes.push(bytes[bytes.len() - back]);
                }
            }
        }
        bytes.truncate(len);
        bytes
    }

    fn compress(bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut codec = snap::raw::Encoder::new();
        out.resize(snap::raw::max_compress_len(bytes.len()), 0);
        let len = codec.compress(bytes, &mut out).unwrap();
        out.truncate(len);
        out
    }

    #[test]
    fn every_prefix_is_that_of_the_block() {
        let mut rng = Rng::new(11);
        let mut buffer = Vec::new();
        for round in 0..400 {
            let longest = 1 + rng.uniform(9000);
            let len = rng.uniform(longest) as usize;
            let bytes = compressible(&mut rng, len);
            let framed = compress(&bytes);
            let mut prefix = SnappyPrefix::new(&framed, buffer, 1 << 20).unwrap();
            assert_eq!(prefix.size(), len, "round {round}");
            let mut wanted = 0;
            while wanted < len {
                wanted += 1 + rng.uniform(700) as usize;
                prefix.extend(wanted).unwrap();
                let made = prefix.made();
                assert!(made.len() >= wanted.min(len), "round {round}");
                assert!(made == &bytes[..made.len()], "round {round} at {wanted}");
            }
            buffer = prefix.into_buffer();
        }
    }

    /// Appends a random element to `stream`, and its expansion to `bytes`: of any kind, mostly with
    /// a length or distance at which the decoder switches paths.
    fn push_element(rng: &mut Rng, stream: &mut Vec<u8>, bytes: &mut Vec<u8>) {
        let border =
            [1, 4, 11, 12, CHUNK - 1, CHUNK, CHUNK + 1, 60, 61, 64][rng.uniform(10) as usize];
        let len = if rng.one_in(2) { border } else { 1 + rng.uniform(64) as usize };
        if bytes.is_empty() || rng.one_in(2) {
            let less = len - 1;
            match rng.uniform(4) {
                0 => stream.extend([60 << 2, less as u8]),
                1 => stream.extend([61 << 2, less as u8, 0]),
                _ if len > SHORT_LITERAL_MAX => stream.extend([60 << 2, less as u8]),
                _ => stream.push((less << 2) as u8),
            }
            let literal = rng.bytes(len);
            stream.extend(&literal);
            bytes.extend(&literal);
            return;
        }
        let made = bytes.len();
        let near = [1, len - 1, len, len + 1, CHUNK - 1, CHUNK, CHUNK + 1, made];
        let back = if rng.one_in(4) {
            1 + rng.uniform(made as u64) as usize
        } else {
            near[rng.uniform(8) as usize]
        };
        let back = back.clamp(1, made);
        match rng.uniform(4) {
            0 => {
                stream.push(((len - 1) << 2 | 3) as u8);
                stream.extend((back as u32).to_le_bytes());
            }
            1 | 2 if (4..12).contains(&len) && back < 2048 => {
                stream.extend([(back >> 8 << 5 | (len - 4) << 2 | 1) as u8, back as u8]);
            }
            _ => {
                stream.push(((len - 1) << 2 | 2) as u8);
                stream.extend((back as u16).to_le_bytes());
            }
        }
        for _ in 0..len {
            bytes.push(bytes[bytes.len() - back]);
        }
    }

    /// Elements of all kinds and borders, in blocks from a few bytes on, cut at every length; and
    /// the same with damage: the library's result or an error.
    #[test]
    fn elements_of_all_kinds_are_read_to_any_length() {
        let mut rng = Rng::new(13);
        let mut buffer = Vec::new();
        for round in 0..600 {
            let (mut stream, mut bytes) = (Vec::new(), Vec::new());
            for _ in 0..=rng.uniform(12) {
                push_element(&mut rng, &mut stream, &mut bytes);
            }
            let mut framed = Vec::new();
            pumice_base::coding::put_varint32(&mut framed, bytes.len() as u32);
            framed.extend(&stream);
            for wanted in 0..=bytes.len() {
                let mut prefix = SnappyPrefix::new(&framed, buffer, 1 << 20).unwrap();
                prefix.extend(wanted).unwrap();
                let made = prefix.made();
                assert!(
                    made.len() >= wanted && made == &bytes[..made.len()],
                    "round {round}: {wanted}"
                );
                buffer = prefix.into_buffer();
            }
            let at = rng.uniform(framed.len() as u64) as usize;
            framed[at] ^= 1 << rng.uniform(8);
            if rng.one_in(3) {
                framed.truncate(at);
            }
            check_against_library(&framed, round);
        }
    }

    /// The end of a block is found without decompressing if it is a literal long enough to rule out
    /// chance, and never wrongly.
    #[test]
    fn literals_at_the_end_are_found() {
        let mut rng = Rng::new(14);
        let mut found = 0;
        for round in 0..500 {
            let front = compressible(&mut rng, 400);
            let long = 1 + rng.uniform(700) as usize;
            let bytes = [front, vec![7; 300], rng.bytes(long)].concat();
            let framed = compress(&bytes);
            let prefix = SnappyPrefix::new(&framed, Vec::new(), 1 << 20).unwrap();
            for len in [0, 1, 4, long / 2, long - 1, long, long + 1, long + 40, 5000] {
                let Some(end) = prefix.stored_end(len) else {
                    let in_reach = len + 4 <= long && len + 20 > long && long > 80;
                    assert!(!in_reach, "round {round}: {len} of {long}");
                    continue;
                };
                found += 1;
                assert!(end == &bytes[bytes.len() - len..], "round {round}: {len} of {long}");
            }
        }
        assert!(found > 600, "{found}");
        let whole = compress(&Rng::new(3).bytes(70_000));
        let prefix = SnappyPrefix::new(&whole, Vec::new(), 1 << 20).unwrap();
        assert!(prefix.stored_end(usize::MAX).is_none() && prefix.stored_end(69_999).is_none());
    }

    /// A literal of more than 64 KiB, whose length takes more than two bytes.
    #[test]
    fn long_literals_are_read() {
        let bytes = Rng::new(3).bytes(200_000);
        let mut framed = vec![0xc0, 0x9a, 0x0c, 62 << 2];
        framed.extend(&(bytes.len() as u32 - 1).to_le_bytes()[..3]);
        framed.extend(&bytes);
        let mut prefix = SnappyPrefix::new(&framed, Vec::new(), 1 << 20).unwrap();
        prefix.extend(usize::MAX).unwrap();
        assert!(prefix.made() == bytes);
    }

    /// Reads a stream that may be damaged: an error, or the library's result. True if it could be
    /// read.
    fn check_against_library(framed: &[u8], round: usize) -> bool {
        let whole = || -> Result<Vec<u8>> {
            let mut prefix = SnappyPrefix::new(framed, Vec::new(), 1 << 20)?;
            prefix.stored_end(8);
            prefix.extend(usize::MAX)?;
            Ok(prefix.made().to_vec())
        };
        let mut expected = Vec::new();
        let decoded =
            Decompressor::new().decompress(CompressionType::Snappy, framed, &mut expected, 1 << 20);
        match (whole(), decoded) {
            (Ok(made), Ok(())) => assert!(made == expected, "round {round}"),
            // The library also checks what follows the last byte.
            (Ok(_), Err(_)) => {}
            (Err(error), Err(_)) => {
                assert!(error.is_corruption(), "round {round}: {error}");
                return false;
            }
            (Err(error), Ok(())) => panic!("round {round}: {error}"),
        }
        true
    }

    /// Damaged streams end in an error or in the library's bytes.
    #[test]
    fn damage_is_an_error_or_what_the_library_reads() {
        let mut rng = Rng::new(12);
        let (mut refused, mut read) = (0, 0);
        for round in 0..3000 {
            let len = 1 + rng.uniform(300) as usize;
            let mut framed = compress(&compressible(&mut rng, len));
            let at = rng.uniform(framed.len() as u64) as usize;
            match rng.uniform(3) {
                0 => framed.truncate(at),
                1 => framed[at] ^= 1 << rng.uniform(8),
                _ => framed[at] = rng.next_u64() as u8,
            }
            *(if check_against_library(&framed, round) { &mut read } else { &mut refused }) += 1;
        }
        assert!(refused > 500 && read > 500, "{refused} refused, {read} read");
    }

    /// Sizes are limited as everywhere.
    #[test]
    fn sizes_beyond_the_limit_are_refused() {
        let framed = compress(&[7; 1000]);
        assert!(SnappyPrefix::new(&framed, Vec::new(), 999).is_err());
        assert!(SnappyPrefix::new(&[], Vec::new(), 999).is_err());
        assert!(SnappyPrefix::new(&[0xff, 0xff, 0x7f, 0], Vec::new(), 1 << 30).is_err());
    }
}
