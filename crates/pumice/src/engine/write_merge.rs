//! Merges that are resolved as they are written, so that a key's operands in the memtable do not
//! pile up without bound (`max_successive_merges`).
//!
//! The log has the operand all the same: replaying it gives the same value, unresolved. What keeps
//! a merge from being resolved (something is not in memory and must not be read, the operator
//! fails or panics) costs no more than that: the memtable gets the operand, as without the option.
//!
//! Thread safety: needs leadership of the write queue, which makes the leader the only one who
//! adds to memtables: no entry of the key comes between the reading and the writing.
//! With `strict_max_successive_merges` it reads tables, and so may suspend.

use std::sync::Arc;

use pumice_base::{SequenceNumber, ValueType};
use pumice_port::thread;

use crate::engine::DbInner;
use crate::engine::read_api::point_options;
use crate::options::requests::ReadOptions;
use crate::read::get;
use crate::read::merge::{full_merge, plain_value, stored_merge};
use crate::stats::Ticker;
use crate::version::family::CfData;
use crate::version::super_version::SuperVersion;

impl DbInner {
    /// What `key` has with `operand` merged in at `sequence`, if the memtable of `view` holds so
    /// many operands of it that this one is to be resolved, and can be.
    #[inline(never)] // The loop that asks is for other entries, too.
    pub(super) fn merged(
        &self,
        cf: &Arc<CfData>,
        view: &SuperVersion,
        sequence: SequenceNumber,
        update: (&[u8], &[u8]),
    ) -> Option<(ValueType, Vec<u8>)> {
        let limit = view.mem.max_successive_merges();
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
        let cache_only = !view.mem.strict_max_successive_merges();
        let options = point_options(&ReadOptions { cache_only, ..ReadOptions::default() });
        // Errors are for readers: a write does not fail for what it does not need. A panic of
        // the operator would take leadership with it, and all writers would hang.
        let _marked = self.life.mark.enter_locked(); // It runs while its writer leads.
        let merged = thread::contain("A merge operator", || {
            // Everything up to here, what this group has written before included, though nobody
            // else may see that yet.
            let found = get::get_for_merge(cf, view, &options, sequence, key);
            self.reports.tick(Ticker::NumberKeysRead, 1);
            let found = found.ok().flatten()?;
            let (value_type, stored) = found.stored();
            self.reports.tick(Ticker::BytesRead, stored.len() as u64);
            let tag = value_type as u8;
            let value = plain_value(tag, stored).ok()?;
            let operator = cf.merge_operator();
            let operands = [operand.to_vec()];
            let merged = full_merge(operator.as_deref(), key, Some(value), &operands).ok()?;
            stored_merge(Some((tag, stored)), merged).ok()
        });
        let merged = merged.ok().flatten();
        merged.filter(|(_, merged)| self.settings.limits.check_entry(key, merged).is_ok())
    }
}

#[cfg(test)]
mod tests;
