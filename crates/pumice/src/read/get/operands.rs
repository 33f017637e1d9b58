//! Reads of one key that do not merge: its operands, and the value below them.
//!
//! The search is that of every point read (`get`), which is told to keep what it finds. It does not
//! use the row cache: a row must have all that a table knows of its key, and this search may end
//! before that.
//!
//! Thread safety: reads take no lock. May read files and so suspend.

use std::cell::RefCell;

use pumice_base::{Result, SequenceNumber, UserKey};
use pumice_table::TableReadOptions;

use super::{Hits, Lookup, search};
use crate::options::requests::ContinueCallback;
use crate::read::merge::no_operator;
use crate::read::pinned::PinnedSlice;
use crate::version::family::CfData;
use crate::version::super_version::SuperVersion;

/// The operands of `key` at `sequence`, oldest first, with the value that they are to be merged
/// into in front; none if there is no such key. What is older than the first operand that `go_on`
/// rejects is left out.
///
/// # Errors
/// As those of a point read; InvalidArgument for operands without a merge operator, as in RocksDB.
pub(crate) fn get_operands(
    cf: &CfData,
    super_version: &SuperVersion,
    options: &TableReadOptions,
    (sequence, key): (SequenceNumber, &[u8]),
    go_on: ContinueCallback<'_>,
    hits: &mut Hits,
) -> Result<Vec<PinnedSlice>> {
    let key = UserKey::new(key);
    let times = RefCell::default();
    let mut lookup = Lookup::new::<PinnedSlice>(cf, super_version, options, key, sequence);
    lookup.observers.times = (cf.timestamp_size > 0).then_some(&times);
    lookup.unmerged = Some(go_on);
    let searched = search::<true>(&mut lookup, &cf.tables(), options);
    hits.count(&lookup);
    searched?;
    if lookup.is_open() {
        lookup.finish(None);
    }
    let mut operands = std::mem::take(&mut lookup.operands);
    if !operands.is_empty() && cf.merge_operator().is_none() {
        return Err(no_operator());
    }
    operands.reverse();
    let mut found: Vec<_> = operands.slices().into_iter().map(PinnedSlice::copied).collect();
    // A value without operands.
    found.extend(lookup.answer::<PinnedSlice>()?);
    Ok(found)
}
