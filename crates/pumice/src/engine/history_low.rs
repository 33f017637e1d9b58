//! The low of a column family's history: how far back in time its keys can be read.
//!
//! It is part of the version, so that the MANIFEST has it, flushes and compactions take the one of
//! the version that they read, and readers that of their super version. It never goes down.
//!
//! Thread safety: from any thread. Raising it waits for the MANIFEST and so suspends.

use pumice_base::{Error, Result};
use pumice_manifest::VersionEdit;

use crate::engine::DbInner;
use crate::version::family::CfData;

/// Refuses a family whose keys have no timestamps.
fn check_enabled(cf: &CfData) -> Result<()> {
    match cf.timestamp_size {
        0 => Err(Error::invalid_argument("Timestamp is not enabled in this column family")),
        _ => Ok(()),
    }
}

impl DbInner {
    /// The low of `cf`.
    ///
    /// # Errors
    /// InvalidArgument without timestamps.
    pub(crate) fn full_history_ts_low(&self, cf: &CfData) -> Result<Option<Vec<u8>>> {
        check_enabled(cf)?;
        self.life.check_caller()?;
        Ok(cf.super_version.load().version.full_history_ts_low().map(|low| low.to_vec()))
    }

    /// Raises the low of `cf`; nothing happens if it is `low` already.
    ///
    /// # Errors
    /// InvalidArgument without timestamps, for one of another length and for a lower one;
    /// ColumnFamilyDropped; I/O of the MANIFEST.
    pub(crate) fn increase_full_history_ts_low(&self, cf: &CfData, low: &[u8]) -> Result<()> {
        check_enabled(cf)?;
        if low.len() != cf.timestamp_size {
            return Err(Error::invalid_argument("ts_low size mismatch"));
        }
        self.check_writable()?;
        self.versions().change_versions(
            |state| {
                let family = state.cfs.get(&cf.id);
                let dropped = || Error::column_family_dropped(cf.name.clone());
                let now = family.ok_or_else(dropped)?.version.full_history_ts_low();
                let order = cf.comparator();
                let compared = now.map(|now| order.compare_timestamp(low, now));
                if let Some(now) = now.filter(|_| compared.is_some_and(|c| c.is_lt())) {
                    return Err(Error::invalid_argument(format!(
                        "Current full_history_ts_low: {} is higher than provided ts: {}\n",
                        order.timestamp_to_string(now),
                        order.timestamp_to_string(low)
                    )));
                }
                if compared.is_some_and(|c| c.is_eq()) {
                    return Ok(Vec::new().into());
                }
                Ok(VersionEdit {
                    column_family: cf.id,
                    full_history_ts_low: Some(low.to_vec()),
                    ..VersionEdit::default()
                }
                .into())
            },
            // Flushes may have waited for it.
            |state| {
                state.queue_flush(cf.id);
                self.scheduler().schedule_background(state);
            },
        )
    }
}
