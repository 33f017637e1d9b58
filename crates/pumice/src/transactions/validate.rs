//! Whether a key has changed since a transaction saw it.
//!
//! Thread safety: from any task; may read tables and so suspend.

use pumice_base::{Error, ErrorKind, Result, SequenceNumber};

use crate::engine::read_api::point_options;
use crate::options::requests::ReadOptions;
use crate::read::newest::{Newer, newer_than, newest_time};
use crate::version::family::CfData;
use crate::version::super_version::SuperVersion;

/// Checks that `key` was not written after `since`, nor as of a time after `read_time`. Only a
/// caller that may wait for tables has `read_tables`; with a time it is one.
///
/// # Errors
/// Busy if it was; TryAgain if memory does not say; those of reading tables.
pub(super) fn check_unchanged(
    cf: &CfData,
    key: &[u8],
    since: SequenceNumber,
    read_time: Option<u64>,
    read_tables: bool,
) -> Result<()> {
    let view = cf.super_version.load();
    let options = read_tables.then(|| point_options(&ReadOptions::DEFAULT));
    let whole = (cf.timestamp_size > 0).then(|| cf.comparator().at_newest(key));
    let key = whole.as_deref().unwrap_or(key);
    if let Some(time) = read_time.filter(|_| cf.table_keys.stripped) {
        check_times_are_kept(cf, &view, time)?;
    }
    if let (Some(time), Some(options)) = (read_time, &options)
        && let Some(newest) = newest_time(cf, &view, key, options)?
        && cf.comparator().compare_timestamp(&newest, &time.to_le_bytes()).is_gt()
    {
        return Err(Error::busy(""));
    }
    match newer_than(cf, &view, key, since, options.as_ref())? {
        Newer::No => Ok(()),
        Newer::Yes => Err(Error::busy("")),
        Newer::Unknown(earliest) => Err(Error::new(
            ErrorKind::TryAgain,
            // RocksDB's text, with both its spaces.
            format!(
                "Transaction could not check for conflicts for operation at SequenceNumber \
                 {since} as the MemTable only contains changes newer than SequenceNumber \
                 {earliest}.  Increasing the value of the max_write_buffer_size_to_maintain \
                 option could reduce the frequency of this error."
            ),
        )),
    }
}

/// What was written after a time below the low may be in a table, where it has lost its time.
///
/// # Errors
/// TryAgain for such a `time`.
fn check_times_are_kept(cf: &CfData, view: &SuperVersion, time: u64) -> Result<()> {
    let low = view.version.full_history_ts_low();
    match low.filter(|low| cf.comparator().compare_timestamp(&time.to_le_bytes(), low).is_lt()) {
        None => Ok(()),
        Some(_) => Err(Error::new(
            ErrorKind::TryAgain,
            format!(
                "Transaction could not check for conflicts after timestamp {time}, which is below \
                 full_history_ts_low: what is in tables has lost its timestamps."
            ),
        )),
    }
}
