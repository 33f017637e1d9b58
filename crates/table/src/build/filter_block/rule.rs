//! Which parts of a user key go into a filter: the key, its prefix, or both.
//!
//! Pure: says which hashes there are, in batches; the caller decides what is done with them.

use std::ops::Range;

use pumice_filter::{FilterBuilder, KeyHashes};

use crate::Extractor;
use crate::build::block_keys::BlockKeys;
use crate::build::context::TableBuildContext;

/// Which parts of keys are filtered.
pub(crate) struct KeyRule {
    whole: bool,
    extractor: Option<Extractor>,
}

impl KeyRule {
    /// The rule of the settings; `None` if nothing is filtered.
    pub fn new(context: &TableBuildContext) -> Option<Self> {
        let whole = context.table.whole_key_filtering;
        let extractor = context.prefix_extractor.as_ref().map(Extractor::new);
        (whole || extractor.is_some()).then_some(KeyRule { whole, extractor })
    }

    /// Prefixes are filtered.
    pub fn has_prefixes(&self) -> bool {
        self.extractor.is_some()
    }

    /// Most entries that one key adds.
    pub fn entries_per_key(&self) -> usize {
        usize::from(self.whole) + usize::from(self.has_prefixes())
    }

    /// The prefix of a user key, if prefixes are filtered and it has one.
    #[inline]
    pub fn prefix<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        self.extractor.as_ref()?.prefix(key)
    }

    /// Adds all of `keys` to a filter.
    pub fn add(&self, keys: &BlockKeys, builder: &mut FilterBuilder) {
        let users = keys.user_keys();
        match &self.extractor {
            None => builder.add_keys(users),
            Some(extractor) if self.whole => {
                builder.add_keys_and_alts(users.map(|key| (key, extractor.prefix(key))));
            }
            Some(extractor) => builder.add_keys(users.filter_map(|key| extractor.prefix(key))),
        }
    }

    /// Adds the hashes of a range of `keys` to `hashes`.
    pub fn collect<H>(
        &self,
        keys: &BlockKeys,
        range: Range<usize>,
        hash: H,
        hashes: &mut KeyHashes<u64>,
    ) where
        H: Fn(&[u8]) -> u64,
    {
        let users = keys.user_keys_in(range);
        match &self.extractor {
            None => hashes.add_all(users.map(hash)),
            Some(extractor) if self.whole => hashes
                .add_all_with_alts(users.map(|key| (hash(key), extractor.prefix(key).map(&hash)))),
            Some(extractor) => {
                hashes.add_all(users.filter_map(|key| extractor.prefix(key)).map(hash));
            }
        }
    }
}
