//! The key in the record of a blob: that of the table's entry, with its timestamp, or with one of
//! zeros where tables lack the timestamps of keys.
//!
//! RocksDB takes the timestamp off an entry of old history and leaves its blob, whose record then
//! still has one. So of an entry with the oldest timestamp any is accepted; here such entries keep
//! theirs.
//!
//! Thread safety: plain data.

use std::borrow::Cow;

use pumice_base::UserKey;

use crate::callbacks::key_forms::KeyForms;

/// See the module head.
#[derive(Debug)]
pub(crate) struct RecordKey<'k> {
    bytes: Cow<'k, [u8]>,
    /// Bytes at its end that may be any.
    free: usize,
}

impl<'k> RecordKey<'k> {
    /// The key of the record of an entry with `key`.
    pub fn of(forms: KeyForms, key: UserKey<'k>) -> Self {
        let key = key.as_bytes();
        let time = &key[key.len().saturating_sub(forms.time_bytes())..];
        let is_oldest = !forms.is_stripped() && time.iter().all(|byte| *byte == 0);
        RecordKey { bytes: forms.whole(key), free: if is_oldest { time.len() } else { 0 } }
    }

    /// The bytes to write.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// A record with the key `found` may be meant.
    pub fn fits(&self, found: &[u8]) -> bool {
        let fixed = self.len() - self.free;
        found.len() == self.len() && found[..fixed] == self.bytes[..fixed]
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use pumice_base::Comparator;
    use pumice_base::key::BYTEWISE_U64_TS;

    #[pumice_test_macros::test]
    fn records_have_keys_with_their_times() {
        let timed = Comparator::builtin(BYTEWISE_U64_TS).unwrap();
        let (old, new) = ([&b"key"[..], &[0; 8]].concat(), [&b"key"[..], &[7; 8]].concat());
        let plain = KeyForms::of(&Comparator::Bytewise, false);
        let kept = KeyForms::of(&timed, false);
        let stripped = KeyForms::of(&timed, true);
        for (forms, key, written, any_time) in [
            (plain, &b"key"[..], &b"key"[..], false),
            (kept, &new, &new, false),
            (kept, &old, &old, true),
            (stripped, b"key", &old, false),
        ] {
            let made = RecordKey::of(forms, UserKey::new(key));
            assert_eq!((made.as_bytes(), made.len()), (written, written.len()), "{forms:?}");
            assert!(made.fits(written) && !made.fits(&written[1..]));
            let mut other = written.to_vec();
            *other.last_mut().unwrap() ^= 1;
            assert_eq!(made.fits(&other), any_time, "{forms:?} {key:?}");
            other[0] ^= 1;
            assert!(!made.fits(&other));
        }
        assert_eq!(RecordKey::of(kept, UserKey::new(b"ab")).len(), 2, "a damaged key");
    }
}
