//! What a transaction is going to write, in the order of the engine's keys.
//!
//! Most commands write one key: that one is stored inline, and takes no allocation besides its own
//! bytes.
//!
//! Invariant: `one` is None when there are others.
//!
//! Thread safety: plain data.

use std::collections::BTreeMap;
use std::collections::btree_map::Range;
use std::iter::Chain;
use std::ops::Bound;
use std::option;

/// A key's new value; None deletes it.
pub(super) type Value = Option<Vec<u8>>;

/// A part of the writes, from either end.
pub(super) type Part<'w> =
    Chain<option::IntoIter<(&'w Vec<u8>, &'w Value)>, Range<'w, Vec<u8>, Value>>;

/// See the module's head.
#[derive(Default)]
pub(super) struct Writes {
    one: Option<(Vec<u8>, Value)>,
    more: BTreeMap<Vec<u8>, Value>,
}

/// Bytes of a write.
pub(super) fn bytes_of(key: &[u8], value: &Value) -> usize {
    key.len() + value.as_ref().map_or(0, Vec::len)
}

impl Writes {
    /// Whether there is nothing to write.
    pub(super) fn is_empty(&self) -> bool {
        self.one.is_none() && self.more.is_empty()
    }

    /// The pending write of a key.
    pub(super) fn get(&self, key: &[u8]) -> Option<&Value> {
        match &self.one {
            Some((own, value)) => (own == key).then_some(value),
            None => self.more.get(key),
        }
    }

    /// Sets the pending write of a key, and returns the one that it replaces.
    pub(super) fn insert(&mut self, key: Vec<u8>, value: Value) -> Option<Value> {
        match &mut self.one {
            Some((own, old)) if *own == key => Some(std::mem::replace(old, value)),
            None if self.more.is_empty() => {
                self.one = Some((key, value));
                None
            }
            _ => {
                self.more.extend(self.one.take());
                self.more.insert(key, value)
            }
        }
    }

    /// Drops the pending write of a key, and returns it.
    pub(super) fn remove(&mut self, key: &[u8]) -> Option<Value> {
        match self.one.take_if(|(own, _)| own == key) {
            Some((_, value)) => Some(value),
            None => self.more.remove(key),
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.one = None;
        self.more.clear();
    }

    /// Everything, in order.
    pub(super) fn iter(&self) -> Part<'_> {
        let one = self.one.as_ref().map(|(key, value)| (key, value));
        one.into_iter().chain(self.more.range::<[u8], _>(..))
    }

    /// What lies from `first` up to `end`, which is not before it, in order.
    pub(super) fn range(&self, first: &[u8], end: &[u8]) -> Part<'_> {
        let one = self.one.as_ref().map(|(key, value)| (key, value));
        let one = one.filter(|(key, _)| first <= key.as_slice() && key.as_slice() < end);
        let inside = (Bound::Included(first), Bound::Excluded(end));
        one.into_iter().chain(self.more.range::<[u8], _>(inside))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Few keys, so that each is written, overwritten and removed among any number of others.
    #[pumice_test_macros::test]
    fn one_or_more_are_as_a_map() {
        let (mut writes, mut model) = (Writes::default(), BTreeMap::new());
        let mut random = 1_u64;
        let mut below = |n: u64| {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (random >> 40) % n
        };
        for step in 0..20_000_u64 {
            let key = vec![below(4) as u8];
            match below(5) {
                0 | 1 => assert_eq!(writes.remove(&key), model.remove(&key)),
                2 => {
                    assert_eq!(writes.insert(key.clone(), None), model.insert(key, None));
                }
                3 if below(20) == 0 => {
                    writes.clear();
                    model.clear();
                }
                _ => {
                    let value = Some(step.to_be_bytes().to_vec());
                    assert_eq!(writes.insert(key.clone(), value.clone()), model.insert(key, value));
                }
            }
            let (first, end) = (vec![below(4) as u8], vec![4]);
            assert_eq!(writes.is_empty(), model.is_empty());
            assert_eq!(writes.get(&first), model.get(&first));
            assert!(writes.iter().eq(&model));
            assert!(writes.range(&first, &end).eq(model.range(first.clone()..end.clone())));
            assert!(writes.range(&first, &end).rev().eq(model.range(first..end).rev()));
        }
    }
}
