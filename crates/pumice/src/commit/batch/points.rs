//! Points in a batch: save points, to which it can be rolled back, and the point where its part for
//! the log ends.
//!
//! Thread safety: part of a batch, a plain value.

use pumice_base::{Error, Result};

use super::stamps::Stamps;
use super::{HEADER_LEN, WriteBatch};

/// A state to roll back to.
#[derive(Clone, Debug)]
pub(super) struct SavePoint {
    bytes: usize,
    count: u32,
    range_bytes: usize,
    refused: Option<Error>,
    stamps: Stamps,
}

/// Records behind it are not logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogEnd {
    /// Bytes of the wire form before it.
    pub bytes: usize,
    /// Updates before it.
    pub count: u32,
}

impl WriteBatch {
    /// Remembers the present state, for [`WriteBatch::rollback_to_save_point`].
    pub fn set_save_point(&mut self) {
        self.save_points.push(SavePoint {
            bytes: self.rep.len(),
            count: self.count(),
            range_bytes: self.range_bytes,
            refused: self.refused.clone(),
            stamps: self.stamps.clone(),
        });
    }

    /// Removes what was added since the newest save point, and the save point.
    ///
    /// # Errors
    /// NotFound if there is none.
    pub fn rollback_to_save_point(&mut self) -> Result<()> {
        let point = self.save_points.pop().ok_or_else(|| Error::not_found("no save point"))?;
        self.rep.truncate(point.bytes);
        self.set_count(point.count);
        self.range_bytes = point.range_bytes;
        self.refused = point.refused;
        self.stamps = point.stamps;
        self.log_end = self.log_end.filter(|end| end.bytes <= point.bytes);
        if self.sums.is_some() {
            self.truncate_sums(point.count);
        }
        Ok(())
    }

    /// Forgets the newest save point; what was added since stays.
    ///
    /// # Errors
    /// NotFound if there is none.
    pub fn pop_save_point(&mut self) -> Result<()> {
        self.save_points.pop().map(drop).ok_or_else(|| Error::not_found("no save point"))
    }

    /// What is added from now on is written to the database and not to its log: it is gone if the
    /// database ends or closes before a flush. A later call moves the point. Transactions log all
    /// of a batch.
    ///
    /// The log has a gap there: [`Db::get_updates_since`](crate::Db::get_updates_since) ends at it
    /// with NotFound, and when it begins behind it the updates that were not logged are missing.
    pub fn mark_wal_termination_point(&mut self) {
        self.log_end = Some(LogEnd { bytes: self.rep.len(), count: self.count() });
    }
    /// Bytes and updates that are logged; None if nothing is left out by
    /// [`WriteBatch::mark_wal_termination_point`].
    pub fn wal_termination_point(&self) -> Option<(usize, u32)> {
        self.log_end.map(|end| (end.bytes, end.count))
    }

    /// Where the part for the log ends, if something is behind it.
    #[inline]
    pub(crate) fn log_end(&self) -> Option<LogEnd> {
        self.log_end.filter(|end| end.bytes < self.rep.len())
    }

    /// The part for the log alone.
    pub(crate) fn logged_part(&self, end: LogEnd) -> WriteBatch {
        let mut rep = self.rep.get(..end.bytes).unwrap_or(&self.rep).to_vec();
        debug_assert!(rep.len() >= HEADER_LEN);
        super::set_count(&mut rep, end.count);
        WriteBatch::from_parts(rep, self.limits)
    }
}
