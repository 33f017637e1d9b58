//! Whether a batch can be applied to the column families that there are.
//!
//! Thread safety: plain functions.

use pumice_base::{Error, Result, UserKey, ValueType};

use crate::commit::batch::{BatchRecord, WriteBatch};
use crate::state::CfMap;
use crate::version::family::CfData;

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
    let mut timed: Vec<(&CfData, u32)> = Vec::new();
    updates.stamps().check_set()?;
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
        if cf.timestamp_size > 0 || !updates.stamps().is_empty() {
            let end = (value_type == ValueType::RangeDeletion).then_some(value);
            check_timed(&mut timed, cf, key, end)?;
        }
        match value_type {
            ValueType::Value | ValueType::Deletion | ValueType::SingleDeletion => {}
            ValueType::WideColumnEntity => {}
            ValueType::BlobIndex if cf.tables().index_owner.is_some() => {}
            ValueType::Merge if cf.merge_operator().is_some() => {}
            ValueType::Merge => {
                return Err(Error::not_supported("Provide a merge_operator when opening DB"));
            }
            ValueType::RangeDeletion => {
                check_range(cf, key, value)?;
                found.range_deletions = true;
            }
            other => return Err(Error::not_supported(format!("{other:?} in a WriteBatch"))),
        }
    }
    timed.iter().try_for_each(|(cf, keys)| updates.stamps().check(cf, *keys))?;
    Ok(found)
}

/// Counts an update of a batch with timestamps, of `cf` with or without; a range has an end.
#[cold]
fn check_timed<'c>(
    timed: &mut Vec<(&'c CfData, u32)>,
    cf: &'c CfData,
    key: &[u8],
    end: Option<&[u8]>,
) -> Result<()> {
    if key.len().min(end.map_or(key.len(), <[u8]>::len)) < cf.timestamp_size {
        return Err(Error::invalid_argument("a key of the batch is shorter than its timestamp"));
    }
    match timed.iter_mut().find(|(known, _)| std::ptr::eq(*known, cf)) {
        Some((_, keys)) => *keys += 1,
        None => timed.push((cf, 1)),
    }
    Ok(())
}

/// A range must not end before it begins, and tables without blocks cannot hold any.
pub(crate) fn check_range(cf: &CfData, begin: &[u8], end: &[u8]) -> Result<()> {
    if !cf.options().table_factory.format.is_block_based() {
        let text = format!("CF {} reports it does not support DeleteRange", cf.name);
        return Err(Error::not_supported(text));
    }
    let (begin, end) = (UserKey::new(begin), UserKey::new(end));
    if cf.comparator().compare_without_timestamp(begin, end).is_gt() {
        return Err(Error::invalid_argument("end key comes before start key"));
    }
    Ok(())
}
