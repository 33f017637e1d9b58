//! The forms of a column family's keys: as tables have them, and as blob files and user code do.
//!
//! | keys | tables | blob files, filters, collectors | merge operators |
//! |---|---|---|---|
//! | without timestamps | key | key | key |
//! | with | key ‖ time | key ‖ time | key ‖ zeros |
//! | with, which tables lack | key | key ‖ zeros | key ‖ zeros |
//!
//! A merge operator is given the oldest timestamp whatever the operands' are: so the same operands
//! make the same value before and after a flush. In RocksDB it is now that of the read, now that of
//! some operand.
//!
//! Thread safety: plain data.

use std::borrow::Cow;

use pumice_base::{Comparator, UserKey};
use pumice_manifest::Version;

/// See the module head.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KeyForms {
    /// Bytes of a timestamp; 0 if keys have none.
    time_bytes: usize,
    /// Tables have none.
    stripped: bool,
}

impl KeyForms {
    /// Those of keys in `order`, with timestamps or without, which tables lack if they are
    /// `stripped`.
    pub fn of(order: &Comparator, stripped: bool) -> Self {
        KeyForms { time_bytes: order.timestamp_size(), stripped }
    }

    /// Those of the family of `version`.
    pub fn of_version(version: &Version) -> Self {
        KeyForms::of(version.time_order(), version.is_stripped())
    }

    /// Bytes of a timestamp; 0 if keys have none.
    pub fn time_bytes(self) -> usize {
        self.time_bytes
    }

    /// Tables lack the timestamps of keys.
    pub fn is_stripped(self) -> bool {
        self.stripped
    }

    /// `key` of a table with its timestamp.
    pub fn whole(self, key: &[u8]) -> Cow<'_, [u8]> {
        match self.stripped {
            true => Cow::Owned(self.padded(key)),
            false => Cow::Borrowed(key),
        }
    }

    /// Bytes of [`KeyForms::whole`].
    pub fn whole_len(self, key: UserKey<'_>) -> usize {
        key.len() + if self.stripped { self.time_bytes } else { 0 }
    }

    /// `key` of a table for a merge operator.
    pub fn timeless(self, key: &[u8]) -> Cow<'_, [u8]> {
        if self.time_bytes == 0 {
            return Cow::Borrowed(key);
        }
        let time = if self.stripped { 0 } else { self.time_bytes };
        Cow::Owned(self.padded(&key[..key.len().saturating_sub(time)]))
    }

    /// A key without its timestamp, if it has one, for a merge operator.
    pub fn timeless_of_bare(self, key: &[u8]) -> Cow<'_, [u8]> {
        match self.time_bytes {
            0 => Cow::Borrowed(key),
            _ => Cow::Owned(self.padded(key)),
        }
    }

    fn padded(self, bare: &[u8]) -> Vec<u8> {
        let mut padded = Vec::with_capacity(bare.len() + self.time_bytes);
        padded.extend_from_slice(bare);
        padded.resize(bare.len() + self.time_bytes, 0);
        padded
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use pumice_base::key::BYTEWISE_U64_TS;

    #[pumice_test_macros::test]
    fn keys_have_the_forms_of_the_table() {
        let timed = Comparator::builtin(BYTEWISE_U64_TS).unwrap();
        let (zeros, time) = ([&b"key"[..], &[0; 8]].concat(), [&b"key"[..], &[7; 8]].concat());
        for (order, stripped, key, whole, timeless) in [
            (&Comparator::Bytewise, false, &b"key"[..], &b"key"[..], &b"key"[..]),
            (&timed, false, &time, &time, &zeros),
            (&timed, true, b"key", &zeros, &zeros),
        ] {
            let forms = KeyForms::of(order, stripped);
            assert_eq!(*forms.whole(key), *whole, "{forms:?}");
            assert_eq!(forms.whole_len(UserKey::new(key)), whole.len());
            assert_eq!(*forms.timeless(key), *timeless, "{forms:?}");
            assert_eq!(*forms.timeless_of_bare(b"key"), *timeless, "{forms:?}");
        }
        assert_eq!(*KeyForms::of(&timed, false).timeless(b"ab"), [0; 8], "a damaged key");
    }
}
