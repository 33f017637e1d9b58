//! Rows of plain tables: decoding, and encoding of keys.
//!
//! ```text
//! key, plain:   (varint32 bytes of the user key, unless all have one length) ‖ internal key
//! key, prefix:  full(bytes) ‖ internal key
//!            |  prefix(bytes) ‖ suffix(bytes) ‖ rest of the internal key
//!            |  suffix(bytes) ‖ rest of the internal key
//! full, prefix, suffix: (0, 1, 2) << 6 | bytes, or 63 and then varint32 bytes - 63
//! internal key: user key ‖ trailer(8), or user key ‖ ff for a value of sequence 0
//! ```
//!
//! A prefix has that many bytes of the user key before; a suffix without one continues the last
//! one since the last full key.
//!
//! Thread safety: values. Nothing is read beyond the bytes given, whatever they are.

use pumice_base::coding::{Decoder, put_varint32};
use pumice_base::key::{TRAILER_LEN, ValueType, pack};
use pumice_base::narrow::len_u32;

use crate::Extractor;
use crate::formats::PlainEncoding;
use crate::plain::VARIABLE_LENGTH;

/// In place of the trailer of a value of sequence 0.
const VALUE_OF_SEQUENCE_0: u8 = 0xff;
/// The largest number of bytes in the byte of a mark; it stands for more.
const INLINE_MAX: u32 = 0x3f;

const FULL: u8 = 0;
const PREFIX: u8 = 1;
const SUFFIX: u8 = 2;

/// Why a row could not be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BadRow {
    /// It continues after the bytes.
    Short,
    Damaged(&'static str),
}

/// A decoded row; its key is in the decoder.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row<'a> {
    pub value: &'a [u8],
    /// Its key is stored in full.
    pub is_whole: bool,
}

/// Decodes rows one after another, beginning with one whose key is stored in full.
#[derive(Clone, Debug)]
pub(super) struct RowDecoder {
    encoding: PlainEncoding,
    user_key_len: u32,
    /// The internal key of the last row.
    key: Vec<u8>,
    /// How many bytes of it a suffix follows, if it may.
    prefix_len: Option<usize>,
}

impl RowDecoder {
    /// `user_key_len` as in [`PlainFormat`](crate::PlainFormat).
    pub fn new(encoding: PlainEncoding, user_key_len: u32) -> Self {
        RowDecoder { encoding, user_key_len, key: Vec::new(), prefix_len: None }
    }

    /// The internal key of the last row.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Takes a row off `src`. After an error the decoder is as before, and `src` anywhere.
    pub fn next<'a>(&mut self, src: &mut Decoder<'a>) -> Result<Row<'a>, BadRow> {
        let (kept, user_rest, prefix_len) = match self.encoding {
            PlainEncoding::Plain if self.user_key_len != VARIABLE_LENGTH => {
                (0, self.user_key_len, None)
            }
            PlainEncoding::Plain => (0, varint(src)?, None),
            PlainEncoding::Prefix => self.marks(src)?,
        };
        let user = src.bytes(user_rest as usize).ok_or(BadRow::Short)?;
        let trailer = match src.rest().first() {
            None => return Err(BadRow::Short),
            Some(&VALUE_OF_SEQUENCE_0) => {
                src.u8();
                pack(0, ValueType::Value as u8)
            }
            Some(_) => src.fixed64().ok_or(BadRow::Short)?,
        };
        let value_len = varint(src)?;
        let value = src.bytes(value_len as usize).ok_or(BadRow::Short)?;
        self.key.truncate(kept);
        self.key.extend_from_slice(user);
        self.key.extend_from_slice(&trailer.to_le_bytes());
        self.prefix_len = prefix_len;
        Ok(Row { value, is_whole: kept == 0 && prefix_len.is_none() })
    }

    /// The marks of a key: how many bytes of the last key it keeps, how many of its user key
    /// follow, and the prefix from then on.
    fn marks(&self, src: &mut Decoder<'_>) -> Result<(usize, u32, Option<usize>), BadRow> {
        let (mut kind, mut bytes) = mark(src)?;
        let mut prefix_len = self.prefix_len;
        if kind == PREFIX {
            if bytes as usize + TRAILER_LEN > self.key.len() {
                return Err(BadRow::Damaged("prefix that is longer than the key before"));
            }
            prefix_len = Some(bytes as usize);
            (kind, bytes) = mark(src)?;
            if kind != SUFFIX {
                return Err(BadRow::Damaged("prefix without a suffix"));
            }
        }
        match (kind, prefix_len) {
            (FULL, _) => Ok((0, bytes, None)),
            (SUFFIX, Some(len)) => Ok((len, bytes, prefix_len)),
            (SUFFIX, None) => Err(BadRow::Damaged("suffix without a prefix")),
            _ => Err(BadRow::Damaged("Un-identified size flag.")),
        }
    }
}

/// A number, which ends within 5 bytes.
fn varint(src: &mut Decoder<'_>) -> Result<u32, BadRow> {
    let left = src.rest().len();
    src.varint32().ok_or(match left {
        0..5 => BadRow::Short,
        _ => BadRow::Damaged("number of more than 32 bits"),
    })
}

fn mark(src: &mut Decoder<'_>) -> Result<(u8, u32), BadRow> {
    let byte = src.u8().ok_or(BadRow::Short)?;
    let bytes = u32::from(byte) & INLINE_MAX;
    if bytes < INLINE_MAX {
        return Ok((byte >> 6, bytes));
    }
    let more = varint(src)?;
    match more.checked_add(INLINE_MAX) {
        Some(bytes) => Ok((byte >> 6, bytes)),
        None => Err(BadRow::Damaged("key of more than 4 GiB")),
    }
}

fn put_mark(dst: &mut Vec<u8>, kind: u8, bytes: u32) {
    match bytes < INLINE_MAX {
        true => dst.push(kind << 6 | bytes.to_le_bytes()[0]),
        false => {
            dst.push(kind << 6 | INLINE_MAX.to_le_bytes()[0]);
            put_varint32(dst, bytes - INLINE_MAX);
        }
    }
}

/// Encodes the keys of rows one after another, as RocksDB does.
pub(super) struct KeyEncoder {
    encoding: PlainEncoding,
    user_key_len: u32,
    extractor: Option<Extractor>,
    sparseness: usize,
    prefix: Vec<u8>,
    /// Keys with that prefix since the last one that was stored in full, that one included.
    keys_of_prefix: usize,
}

impl KeyEncoder {
    pub fn new(
        encoding: PlainEncoding,
        user_key_len: u32,
        extractor: Option<Extractor>,
        sparseness: usize,
    ) -> Self {
        // Without prefixes keys are stored as they are.
        let encoding = if extractor.is_some() { encoding } else { PlainEncoding::Plain };
        KeyEncoder {
            encoding,
            user_key_len,
            extractor,
            sparseness: sparseness.max(1),
            prefix: Vec::new(),
            keys_of_prefix: 0,
        }
    }

    pub fn encoding(&self) -> PlainEncoding {
        self.encoding
    }

    /// There is an extractor.
    pub fn is_hashed(&self) -> bool {
        self.extractor.is_some()
    }

    /// The prefix of a user key: all of a key that has none, and nothing without an extractor.
    pub fn prefix<'k>(&self, user_key: &'k [u8]) -> &'k [u8] {
        match &self.extractor {
            None => &[],
            Some(extractor) => extractor.prefix(user_key).unwrap_or(user_key),
        }
    }

    /// Appends the encoding of a key.
    pub fn encode(&mut self, dst: &mut Vec<u8>, user_key: &[u8], trailer: u64) {
        let len = len_u32(user_key.len());
        let mut from = 0;
        match self.encoding {
            PlainEncoding::Plain if self.user_key_len != VARIABLE_LENGTH => {}
            PlainEncoding::Plain => put_varint32(dst, len),
            PlainEncoding::Prefix => from = self.put_marks(dst, user_key, len),
        }
        dst.extend_from_slice(&user_key[from..]);
        match trailer == pack(0, ValueType::Value as u8) {
            true => dst.push(VALUE_OF_SEQUENCE_0),
            false => dst.extend_from_slice(&trailer.to_le_bytes()),
        }
    }

    /// Where in the user key the part that is stored begins.
    fn put_marks(&mut self, dst: &mut Vec<u8>, user_key: &[u8], len: u32) -> usize {
        let prefix = self.prefix(user_key);
        let count = self.keys_of_prefix;
        if count.is_multiple_of(self.sparseness) || prefix != self.prefix {
            let prefix = prefix.to_vec();
            self.prefix = prefix;
            self.keys_of_prefix = 1;
            put_mark(dst, FULL, len);
            return 0;
        }
        self.keys_of_prefix += 1;
        let shared = len_u32(self.prefix.len());
        if self.keys_of_prefix == 2 {
            put_mark(dst, PREFIX, shared);
        }
        put_mark(dst, SUFFIX, len - shared);
        self.prefix.len()
    }
}
