//! Decompresses a Snappy block from its beginning, only as far as it is asked to.
//!
//! For readers that look for something in a block in order and stop where they find it. The codec's
//! library has whole blocks only; this is its stream format read a second time, for that use alone.
//! Format: <https://github.com/google/snappy/blob/main/format_description.txt>.
//!
//! Thread safety: used by one thread. Invariants: `made <= size`, and `out` is at least `size +
//! CHUNK` long, so that a whole chunk may be copied to `made`; bytes of `out` behind `made` mean
//! nothing. What a stream says is held against `size` and `made` before
//! it is done. Does not verify what follows the part that was asked for.

use pumice_base::Result;
use pumice_base::coding::get_varint64;

use crate::decompressor::{check_size, make_room, malformed};
use crate::options::CompressionType;

/// Bytes that one copy of a usual element writes.
const CHUNK: usize = 16;
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
    /// Begins with a payload of type Snappy as it lies in the table. `buffer` is memory for the
    /// block; what is in it does not matter.
    ///
    /// # Errors
    /// `Corruption` for a size above `limit` or beyond what the stream can expand to; `Aborted` if
    /// there is no memory for it.
    pub fn new(framed: &'a [u8], mut buffer: Vec<u8>, limit: usize) -> Result<Self> {
        let kind = CompressionType::Snappy;
        let (size, skip) = get_varint64(framed).ok_or_else(|| malformed(kind, "truncated size"))?;
        let stream = &framed[skip..];
        let size = check_size(kind, size, stream.len(), limit)?;
        if buffer.len() < size + CHUNK {
            make_room(&mut buffer, size + CHUNK)?;
            buffer.resize(size + CHUNK, 0);
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
    /// `Corruption` for a malformed stream; what is made by then stays.
    pub fn extend(&mut self, wanted: usize) -> Result<()> {
        let wanted = wanted.min(self.size);
        while self.made < wanted {
            self.usual_elements(wanted);
            if self.made < wanted && self.element().is_none() {
                let what = "corrupted compressed block contents";
                return Err(malformed(CompressionType::Snappy, what));
            }
        }
        Ok(())
    }

    /// Does elements of at most [`CHUNK`] bytes, each with one copy of that size, until `wanted`
    /// bytes are made or one is not of this kind. What is copied too much, the next overwrites.
    #[inline]
    fn usual_elements(&mut self, wanted: usize) {
        let (mut stream, mut made) = (self.stream, self.made);
        let out = self.out.as_mut_slice();
        while made < wanted
            && let Some(&[tag, a, b, ..]) = stream.first_chunk::<{ CHUNK + 1 }>()
        {
            let long = usize::from(tag >> 2) + 1;
            let (len, used, chunk) = if tag & 3 == 0 {
                let Some(chunk) = stream[1..].first_chunk::<CHUNK>() else { break };
                (long, 1 + long, *chunk)
            } else {
                let (len, back, used) = match tag & 3 {
                    1 => (4 + ((long - 1) & 7), usize::from(tag >> 5) << 8 | usize::from(a), 2),
                    2 => (long, usize::from(a) | usize::from(b) << 8, 3),
                    _ => break,
                };
                let Some(from) = made.checked_sub(back) else { break };
                let Some(chunk) = out.get(from..).and_then(|from| from.first_chunk()) else {
                    break;
                };
                // Its own bytes are not there yet.
                if len > back {
                    break;
                }
                (len, used, *chunk)
            };
            let Some(to) = out.get_mut(made..).and_then(|to| to.first_chunk_mut()) else { break };
            if len > CHUNK || len > self.size - made {
                break;
            }
            *to = chunk;
            made += len;
            stream = &stream[used..];
        }
        (self.stream, self.made) = (stream, made);
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

    /// `len` bytes as they stand at the beginning of `rest`.
    fn literal(&mut self, rest: &'a [u8], len: usize) -> Option<()> {
        if len > self.size - self.made {
            return None;
        }
        self.out[self.made..][..len].copy_from_slice(rest.get(..len)?);
        self.stream = rest.get(len..)?;
        self.made += len;
        Some(())
    }

    /// A literal whose length less one is in the next `bytes` bytes.
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
        for at in from..from + len {
            self.out[at + back] = self.out[at];
        }
        self.stream = rest;
        self.made += len;
        Some(())
    }
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

    /// Damaged streams end in an error or in the bytes that the library makes of them.
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
            let whole = |framed: &[u8]| -> Result<Vec<u8>> {
                let mut prefix = SnappyPrefix::new(framed, Vec::new(), 1 << 20)?;
                prefix.extend(usize::MAX)?;
                Ok(prefix.made().to_vec())
            };
            let mut expected = Vec::new();
            let decoded = Decompressor::new().decompress(
                CompressionType::Snappy,
                &framed,
                &mut expected,
                1 << 20,
            );
            match (whole(&framed), decoded) {
                (Ok(made), Ok(())) => {
                    read += 1;
                    assert!(made == expected, "round {round}");
                }
                // The library also sees what stands behind the last byte.
                (Ok(_), Err(_)) => read += 1,
                (Err(error), Err(_)) => {
                    refused += 1;
                    assert!(error.is_corruption(), "round {round}: {error}");
                }
                (Err(error), Ok(())) => panic!("round {round}: {error}"),
            }
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
