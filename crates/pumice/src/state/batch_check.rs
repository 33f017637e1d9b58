//! Whether a batch can be applied to the column families that there are.
//!
//! Thread safety: plain functions.

use pumice_base::{Comparator, Error, Result, UserKey, ValueType};

use crate::commit::batch::{BatchRecord, WriteBatch};
use crate::state::CfMap;

/// What a batch has.
#[derive(Default)]
pub(crate) struct Found {
    /// Records of column families that do not exist, which have to be left out.
    pub missing: bool,
    pub range_deletions: bool,
}

/// Refuses a batch that could not be applied completely.
pub(crate) fn check_batch(
    key_space: &CfMap,
    updates: &WriteBatch,
    ignore_missing: bool,
) -> Result<Found> {
    let mut found = Found::default();
    for record in updates.iter() {
        let BatchRecord::Entry { column_family, value_type, key, value } = record? else {
            continue;
        };
        let Some(cf) = key_space.by_id(column_family) else {
            if ignore_missing {
                found.missing = true;
                continue;
            }
            return Err(Error::invalid_argument("Invalid column family specified in write batch"));
        };
        match value_type {
            ValueType::Value | ValueType::Deletion | ValueType::SingleDeletion => {}
            ValueType::WideColumnEntity => {}
            ValueType::Merge if cf.merge_operator().is_some() => {}
            ValueType::Merge => {
                return Err(Error::not_supported("Provide a merge_operator when opening DB"));
            }
            ValueType::RangeDeletion => {
                check_range(cf.comparator(), key, value)?;
                found.range_deletions = true;
            }
            other => return Err(Error::not_supported(format!("{other:?} in a WriteBatch"))),
        }
    }
    Ok(found)
}

/// A range must not end before it begins.
pub(crate) fn check_range(comparator: &Comparator, begin: &[u8], end: &[u8]) -> Result<()> {
    if comparator.compare(UserKey::new(begin), UserKey::new(end)) == std::cmp::Ordering::Greater {
        return Err(Error::invalid_argument("end key comes before start key"));
    }
    Ok(())
}
