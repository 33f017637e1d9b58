//! A data block's index entry, prepared where the block is made.
//!
//! A separator lies in `[last key of the block, first key of the next)`; it is shortened where the
//! options allow. Nothing is allocated once the buffers of an entry have grown.
//!
//! [`Separators`] is immutable; an [`IndexEntry`] has one owner at a time and is reused from block
//! to block. Not here: block handles, which the writer knows.

use std::sync::Arc;

use pumice_base::InternalKeyComparator;
use pumice_base::extension::SliceTransform;
use pumice_base::key::{
    InternalKey, MAX_SEQUENCE, TRAILER_LEN, UserKey, VALUE_TYPE_FOR_SEEK, pack,
};

use crate::build::context::TableBuildContext;
use crate::build::index_builder::hash::PrefixRuns;
use crate::options::{IndexShortening, IndexType};
use crate::prefix::common_prefix;
use crate::trie::TrieEntry;

/// The trailer of a separator that is not a key of the table.
fn separator_trailer() -> [u8; TRAILER_LEN] {
    pack(MAX_SEQUENCE, VALUE_TYPE_FOR_SEEK).to_le_bytes()
}

/// Prepares index entries.
#[derive(Clone)]
pub(crate) struct Separators {
    comparator: InternalKeyComparator,
    shortening: IndexShortening,
    keeps_first_keys: bool,
    /// Set for a hash index.
    extractor: Option<Arc<dyn SliceTransform>>,
    /// There is a trie index too.
    trie: bool,
}

/// The index entry of one block, without its handle.
#[derive(Debug, Default)]
pub(crate) struct IndexEntry {
    /// The separator, an internal key.
    pub(super) separator: Vec<u8>,
    /// The user key continues in the next block, so user keys do not separate the two.
    pub(super) needs_sequences: bool,
    /// First internal key of the block; empty unless the index stores it.
    pub(super) first_key: Vec<u8>,
    /// Prefixes of the block's keys; empty unless the index hashes them.
    pub(super) prefixes: PrefixRuns,
    /// The index partition ends after this entry. Used with coupled partitions only.
    pub cut_after: bool,
    /// The entry in the trie index, if there is one.
    pub(super) trie: TrieEntry,
}

impl IndexEntry {
    /// Approximate bytes of the entry in the index.
    pub fn estimated_bytes(&self) -> usize {
        self.separator.len() + self.first_key.len() + self.prefixes.estimated_bytes() + 8
    }
}

impl Separators {
    /// Separators as configured.
    pub fn new(context: &TableBuildContext) -> Self {
        let kind = context.table.index_type;
        let hashes = kind == IndexType::HashSearch;
        Separators {
            comparator: context.comparator.clone(),
            shortening: context.table.index_shortening,
            keeps_first_keys: kind == IndexType::BinarySearchWithFirstKey,
            extractor: context.prefix_extractor.clone().filter(|_| hashes),
            trie: context.table.user_defined_index_factory.is_some(),
        }
    }

    /// Fills `entry` for the block from internal key `first_key` to `last_key`; `next_key` begins
    /// the next block, if there is one. Clears `cut_after`.
    pub fn prepare(
        &self,
        last_key: &[u8],
        next_key: Option<&[u8]>,
        first_key: &[u8],
        entry: &mut IndexEntry,
    ) {
        entry.needs_sequences = false;
        entry.cut_after = false;
        entry.prefixes.clear();
        entry.first_key.clear();
        if self.keeps_first_keys {
            entry.first_key.extend_from_slice(first_key);
        }
        if self.trie {
            entry.trie.prepare(last_key, next_key);
        }
        entry.separator.clear();
        if let Some(next) = next_key
            && self.shortening != IndexShortening::None
            && self.comparator.user.is_bytewise()
            && let Some(at) = one_byte_more(
                InternalKey::new(last_key).user_key().as_bytes(),
                InternalKey::new(next).user_key().as_bytes(),
            )
        {
            entry.separator.extend_from_slice(&last_key[..=at]);
            entry.separator[at] += 1;
            entry.separator.extend_from_slice(&separator_trailer());
            return;
        }
        let shortened = match next_key {
            Some(next)
                if self
                    .comparator
                    .same_entry_key(InternalKey::new(last_key), InternalKey::new(next)) =>
            {
                entry.needs_sequences = true;
                false
            }
            Some(next) if self.shortening != IndexShortening::None => {
                let shorten = |key: &mut Vec<u8>| {
                    self.comparator
                        .user
                        .find_shortest_separator(key, InternalKey::new(next).user_key());
                };
                self.shorten(last_key, &mut entry.separator, shorten)
            }
            None if self.shortening == IndexShortening::SeparatorsAndSuccessor => {
                let shorten = |key: &mut Vec<u8>| self.comparator.user.find_short_successor(key);
                self.shorten(last_key, &mut entry.separator, shorten)
            }
            _ => false,
        };
        if !shortened {
            entry.separator.clear();
            entry.separator.extend_from_slice(last_key);
        }
    }

    /// Puts into `out` an internal key with the last key as shortened by `shorten`; false if that
    /// is of no use.
    fn shorten(
        &self,
        last_key: &[u8],
        out: &mut Vec<u8>,
        shorten: impl FnOnce(&mut Vec<u8>),
    ) -> bool {
        let last = InternalKey::new(last_key).user_key();
        out.extend_from_slice(last.as_bytes());
        shorten(out);
        let useful = out.len() <= last.len()
            && self.comparator.user.compare(last, UserKey::new(out)).is_lt();
        out.extend_from_slice(&separator_trailer());
        useful
    }

    /// Whether the entries of this index need [`Separators::note_prefixes`].
    pub fn wants_prefixes(&self) -> bool {
        self.extractor.is_some()
    }

    /// Notes the prefixes of the block's user keys, which come in order. Called after `prepare`
    /// for a hash index; does nothing for others.
    pub fn note_prefixes<'a>(
        &self,
        user_keys: impl Iterator<Item = &'a [u8]>,
        entry: &mut IndexEntry,
    ) {
        let Some(extractor) = &self.extractor else { return };
        for key in user_keys {
            // RocksDB cannot look up keys without prefix by hash either.
            if extractor.in_domain(key) {
                entry.prefixes.push(extractor.transform(key));
            }
        }
    }
}

/// Where the separator of two user keys in byte order usually ends: incrementing the byte of `last`
/// there still sorts before `next`. As in [`pumice_base::Comparator::find_shortest_separator`],
/// without building it and comparing again; `None` where it is not that simple.
fn one_byte_more(last: &[u8], next: &[u8]) -> Option<usize> {
    let at = common_prefix(last, next);
    let (&a, &b) = (last.get(at)?, next.get(at)?);
    (a < b && (at + 1 < next.len() || a + 1 < b)).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pumice_base::Comparator;
    use pumice_base::random::Rng;

    /// The fast path and the comparator agree wherever the fast path has an answer.
    #[pumice_test_macros::test]
    fn the_short_way_is_the_comparators() {
        let mut rng = Rng::new(0x5e9);
        let mut known = 0;
        for _ in 0..20_000 {
            let [last, next] = [(); 2].map(|()| -> Vec<u8> {
                (0..rng.uniform(12)).map(|_| [0, 1, 0xfe, 0xff][rng.uniform(4) as usize]).collect()
            });
            let Some(at) = one_byte_more(&last, &next) else { continue };
            let mut short = last[..=at].to_vec();
            short[at] += 1;
            let mut theirs = last.clone();
            Comparator::Bytewise.find_shortest_separator(&mut theirs, UserKey::new(&next));
            assert_eq!(short, theirs, "{last:x?} {next:x?}");
            assert!(last < short && short <= next, "{last:x?} {next:x?}");
            known += 1;
        }
        assert!(known > 2000, "{known}");
    }
}
