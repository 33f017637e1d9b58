//! Lookups as of a timestamp.
//!
//! Thread safety: as `get`. May read files and so suspend.

use std::cell::RefCell;

use pumice_base::{Result, SequenceNumber, UserKey};
use pumice_table::TableReadOptions;

use super::{Hits, Lookup, search};
use crate::read::answer::PointAnswer;
use crate::version::family::CfData;
use crate::version::super_version::SuperVersion;

impl Lookup<'_> {
    /// A version is found in an observed search; whether it is seen. Below a newer timestamp there
    /// may be newer sequence numbers than the one that is read at.
    #[inline]
    pub(super) fn sees(&mut self, found: UserKey<'_>, sequence: SequenceNumber) -> bool {
        if sequence > self.sequence {
            return false;
        }
        if let Some(found_at) = self.found_at.take() {
            let mut found_at = found_at.borrow_mut();
            match self.stripped {
                true => found_at.resize(self.cf.timestamp_size, 0),
                false => found_at.extend_from_slice(self.cf.icmp.user.timestamp_of(found)),
            }
        }
        true
    }

    /// From now on tables are searched whose keys have lost their timestamps.
    #[cold]
    pub(super) fn strip(&mut self) {
        self.key = self.cf.in_tables(self.key);
        self.stripped = true;
    }
}

/// As [`get_observed`]; the timestamp of what was found goes to `found_at`, also if that is a
/// deletion.
pub(crate) fn get_at<W: PointAnswer>(
    cf: &CfData,
    super_version: &SuperVersion,
    options: &TableReadOptions,
    (sequence, key): (SequenceNumber, &[u8]),
    found_at: &RefCell<Vec<u8>>,
    hits: &mut Hits,
) -> Result<Option<W>> {
    let mut lookup = Lookup::new::<W>(cf, super_version, options, UserKey::new(key), sequence);
    lookup.found_at = Some(found_at);
    let searched = search::<true>(&mut lookup, &cf.tables(), options);
    hits.count(&lookup);
    searched.and_then(|()| lookup.answer())
}
