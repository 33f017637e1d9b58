//! Resolves merges as they are written, so that a key's operands in the memtable do not accumulate
//! without bound (`max_successive_merges`).
//!
//! The log still has the operand: replaying it gives the same value, unresolved. If a merge cannot
//! be resolved (something is not in memory and must not be read, the operator fails or panics), the
//! memtable gets the operand, as without the option.
//!
//! Thread safety: needs leadership of the write queue, which makes the leader the only one who
//! adds to memtables: no entry of the key comes between the reading and the writing. A memtable
//! that was made before the option was set may have other adders, and resolves nothing.
//! With `strict_max_successive_merges` it reads tables, and so may suspend.

use std::sync::Arc;

use pumice_base::{SequenceNumber, UserKey, ValueType};
use pumice_port::thread;

use crate::engine::DbInner;
use crate::engine::read_api::point_options;
use crate::options::requests::ReadOptions;
use crate::read::get;
use crate::read::merge::full_merge;
use crate::read::value::{plain, stored_merge};
use crate::stats::Ticker;
use crate::version::family::CfData;
use crate::version::super_version::SuperVersion;

impl DbInner {
    /// The value of `key` with `operand` merged in at `sequence`, if the memtable of `view` holds
    /// enough operands of it that this one should be resolved, and if it can be.
    #[inline(never)] // The calling loop handles other entries too.
    pub(super) fn merged(
        &self,
        cf: &Arc<CfData>,
        view: &SuperVersion,
        sequence: SequenceNumber,
        update: (&[u8], &[u8]),
    ) -> Option<(ValueType, Vec<u8>)> {
        if view.mem.takes_concurrent_adds() {
            return None;
        }
        let limit = cf.options().max_successive_merges;
        if limit == 0 || view.mem.count_successive_merges(update.0, sequence, limit) < limit {
            return None;
        }
        self.resolve(cf, view, sequence, update)
    }

    #[cold]
    fn resolve(
        &self,
        cf: &Arc<CfData>,
        view: &SuperVersion,
        sequence: SequenceNumber,
        (key, operand): (&[u8], &[u8]),
    ) -> Option<(ValueType, Vec<u8>)> {
        let cache_only = !cf.options().strict_max_successive_merges;
        let options = point_options(&ReadOptions { cache_only, ..ReadOptions::default() });
        // Errors are left to readers: a write does not fail because of data it does not need. A
        // panic of the operator would lose leadership, and all writers would hang.
        let _marked = self.life.mark.enter_locked(); // It runs while its writer leads.
        let merged = thread::contain("A merge operator", || {
            // Everything up to here, including earlier entries of this group that no reader may see
            // yet.
            let found = get::get_for_merge(cf, view, &options, sequence, key);
            self.reports.tick(Ticker::NumberKeysRead, 1);
            let found = found.ok().flatten()?;
            let (value_type, stored) = found.stored();
            self.reports.tick(Ticker::BytesRead, stored.len() as u64);
            let tag = value_type as u8;
            let value = plain(tag, stored).ok()?;
            let operator = cf.merge_operator();
            let order = cf.comparator();
            let bare = order.without_timestamp(UserKey::new(key)).as_bytes();
            let key = &cf.key_forms().timeless_of_bare(bare);
            let merged = full_merge(operator.as_deref(), key, Some(value), &[operand]).ok()?;
            stored_merge(Some((tag, stored)), merged).ok()
        });
        let merged = merged.ok().flatten();
        merged.filter(|(_, merged)| self.settings.limits.check_entry(key, merged).is_ok())
    }
}

#[cfg(test)]
mod tests;
