//! Keys and values of the stress test: an id determines the whole value.
//!
//! Families 0 and 2 hold blobs: the id, then bytes that follow from it, of a length that follows
//! from it. Merging a blob replaces it (merge operator `put`). Family 1 holds counters: the id
//! alone, eight little-endian bytes, and merging adds (`uint64add`).

use super::expected::Place;
use pumice_base::random::Rng;

/// The family whose values are counters.
pub const COUNTERS: usize = 1;

/// The key of `place`: thread and index, big endian, so that a thread's keys lie together.
pub fn key(place: Place) -> [u8; 12] {
    let mut key = [0; 12];
    key[..4].copy_from_slice(&(place.thread as u32).to_be_bytes());
    key[4..].copy_from_slice(&place.key.to_be_bytes());
    key
}

/// The value of `id` in `family`, in `out`.
pub fn value(family: usize, id: u64, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&id.to_le_bytes());
    if family == COUNTERS {
        return;
    }
    let mut rng = Rng::new(id);
    let longest = if rng.one_in(64) { 20_000 } else { 400 };
    let len = rng.uniform(longest) as usize;
    out.resize(8 + len, 0);
    rng.fill(&mut out[8..]);
}

/// The id in `bytes`, if they are a value that this program makes; `None` is "absent", id 0.
/// `Err` carries the reason why no id can have given these bytes.
pub fn id_of(family: usize, bytes: Option<&[u8]>, scratch: &mut Vec<u8>) -> Result<u64, String> {
    let Some(bytes) = bytes else { return Ok(0) };
    let Some(id) = bytes.first_chunk().map(|first: &[u8; 8]| u64::from_le_bytes(*first)) else {
        return Err(format!("a value of {} bytes", bytes.len()));
    };
    value(family, id, scratch);
    if scratch.as_slice() == bytes {
        Ok(id)
    } else {
        Err(format!("{} bytes that do not follow from their id {id}", bytes.len()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[pumice_test_macros::test]
    fn values_tell_their_id_and_damage_shows() {
        let (mut bytes, mut scratch) = (Vec::new(), Vec::new());
        for id in 1..300 {
            for family in 0..3 {
                value(family, id, &mut bytes);
                assert_eq!(id_of(family, Some(&bytes), &mut scratch), Ok(id));
                bytes.push(0);
                assert!(id_of(family, Some(&bytes), &mut scratch).is_err());
            }
        }
        assert_eq!(id_of(0, None, &mut scratch), Ok(0));
        assert!(id_of(0, Some(b"short"), &mut scratch).is_err());
        let place = |thread, key| super::key(Place { family: 0, thread, key });
        assert!(place(0, u64::MAX) < place(1, 0) && place(1, 255) < place(1, 256));
    }
}
