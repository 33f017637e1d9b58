//! Session ids, table unique ids and block cache keys (docs/format/table.md#unique-ids).
//!
//! A database makes one random session id per open; with the database id and the number that a file
//! had when it was made it identifies the file uniquely. Pure functions.

use pumice_base::hash::hash64_seeded;
use pumice_base::narrow::{len_u32, low_u64};
use xxhash_rust::xxh3::{xxh3_128, xxh3_128_with_seed};

use crate::properties::TableProperties;

/// Characters of a session id. Persisted.
pub const SESSION_ID_LEN: usize = 20;
const LOW_CHARS: u32 = 12;
const LOW_BITS: u32 = 62;

/// A session id made from 128 random bits.
pub fn session_id(random: [u64; 2]) -> String {
    let low_mask = (1u64 << LOW_BITS) - 1;
    // Zero is reserved: the lower word of the decoded id must not be 0.
    let low = (random[1] & low_mask).max(1);
    let high = random[0] % 36u64.pow(len_u32(SESSION_ID_LEN) - LOW_CHARS);
    let mut text = String::with_capacity(SESSION_ID_LEN);
    push_base36(&mut text, high, len_u32(SESSION_ID_LEN) - LOW_CHARS);
    push_base36(&mut text, low, LOW_CHARS);
    text
}

fn push_base36(text: &mut String, value: u64, chars: u32) {
    for place in (0..chars).rev() {
        let digit = (value / 36u64.pow(place) % 36) as u32;
        text.push(char::from_digit(digit, 36).expect("a digit below 36").to_ascii_uppercase());
    }
}

/// The two words (upper, lower) of a session id; `None` if it is not 13 to 24 base-36 digits.
fn decode_session_id(text: &str) -> Option<(u64, u64)> {
    let split = text.len().checked_sub(LOW_CHARS as usize)?;
    if !(1..=LOW_CHARS as usize).contains(&split) {
        return None;
    }
    if !text.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_uppercase()) {
        return None;
    }
    let high = u64::from_str_radix(&text[..split], 36).ok()?;
    let low = u64::from_str_radix(&text[split..], 36).ok()?;
    let lower = (low & ((1 << LOW_BITS) - 1)) | (high << LOW_BITS);
    Some((high >> (64 - LOW_BITS), lower))
}

/// The unique id of a table as the MANIFEST stores it: two words, in the order of the bytes.
/// `None` if the table does not name its origin.
pub fn unique_id(db_id: &str, session_id: &str, file_number: u64) -> Option<[u64; 2]> {
    if db_id.is_empty() || session_id.is_empty() || file_number == 0 {
        return None;
    }
    let (upper, lower) = decode_session_id(session_id).unwrap_or_else(|| {
        let hash = xxh3_128(session_id.as_bytes());
        let (upper, lower) = (low_u64(hash >> 64), low_u64(hash));
        (upper, if lower == 0 { upper | 1 } else { lower })
    });
    let db = xxh3_128_with_seed(db_id.as_bytes(), upper);
    Some([lower, (db >> 64) as u64 ^ file_number])
}

/// The unique id from the properties of a table.
pub fn unique_id_of(properties: &TableProperties) -> Option<[u64; 2]> {
    unique_id(&properties.db_id, &properties.db_session_id, properties.original_file_number)
}

/// Added to the words before hashing, so that zero stays zero. Persisted by RocksDB's tools.
const EXTERNAL_OFFSETS: [u64; 2] = [6417269962128484497, 17391078804906429400];

/// The unique id in the scrambled form that RocksDB shows to users.
pub fn external_unique_id(properties: &TableProperties) -> Option<[u64; 2]> {
    let internal = unique_id_of(properties)?;
    let mut bytes = [0u8; 16];
    for (chunk, (word, offset)) in
        bytes.chunks_exact_mut(8).zip(internal.iter().zip(EXTERNAL_OFFSETS))
    {
        chunk.copy_from_slice(&word.wrapping_add(offset).to_le_bytes());
    }
    let hash = xxh3_128(&bytes);
    Some([low_u64(hash), low_u64(hash >> 64)])
}

/// The cache base of the table with these properties. `None` as [`unique_id`].
pub(crate) fn cache_base(properties: &TableProperties) -> Option<[u64; 2]> {
    cache_base_of(&properties.db_id, &properties.db_session_id, properties.original_file_number)
}

/// 128 hashed bits unique to a file; keys of caches are made from them by xoring the offset of what
/// is cached into the second word. The unique id itself does not serve: its words differ between
/// files where offsets differ too, so that two files would share keys. `None` as [`unique_id`].
pub fn cache_base_of(db_id: &str, db_session_id: &str, file_number: u64) -> Option<[u64; 2]> {
    let [lower, upper] = unique_id(db_id, db_session_id, file_number)?;
    let mut bytes = [0u8; 16];
    bytes[..8].copy_from_slice(&lower.to_le_bytes());
    bytes[8..].copy_from_slice(&upper.to_le_bytes());
    Some([hash64_seeded(&bytes, 1), hash64_seeded(&bytes, 2)])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[pumice_test_macros::test]
    fn session_ids_have_their_form_and_decode() {
        for random in [[0, 0], [u64::MAX, u64::MAX], [12345, 1 << 61]] {
            let id = session_id(random);
            assert_eq!(id.len(), SESSION_ID_LEN, "{id}");
            let (_, lower) = decode_session_id(&id).unwrap();
            assert_ne!(lower, 0);
        }
        assert_eq!(decode_session_id("SHORT"), None);
        assert_eq!(decode_session_id("abcdefghijklmnopqrst"), None);
    }

    #[pumice_test_macros::test]
    fn unique_ids_differ_by_every_part() {
        let id = unique_id("db", "W2SARK6PR3YBJ7A4OXXH", 13).unwrap();
        for other in [
            unique_id("db2", "W2SARK6PR3YBJ7A4OXXH", 13),
            unique_id("db", "W2SARK6PR3YBJ7A4OXXI", 13),
            unique_id("db", "W2SARK6PR3YBJ7A4OXXH", 14),
        ] {
            assert_ne!(other.unwrap(), id);
        }
        assert_eq!(unique_id("", "W2SARK6PR3YBJ7A4OXXH", 13), None);
        assert_eq!(unique_id("db", "W2SARK6PR3YBJ7A4OXXH", 0), None);
    }
}
