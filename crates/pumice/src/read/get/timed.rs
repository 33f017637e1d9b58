//! Lookups as of a timestamp.
//!
//! Thread safety: as `get`. May read files and so suspend.

use std::borrow::Cow;
use std::cell::RefCell;

use pumice_base::{Result, SequenceNumber, UserKey, ValueType};
use pumice_table::TableReadOptions;

use super::{Hits, Lookup, search};
use crate::blob::references::may_refer;
use crate::read::answer::PointAnswer;
use crate::read::sampling::Fruitless;
use crate::version::family::CfData;
use crate::version::super_version::SuperVersion;

/// The timestamps that a search meets.
#[derive(Clone, Debug, Default)]
pub(crate) struct FoundTimes {
    newest: Vec<u8>,
    of_blob: Vec<u8>,
}

impl FoundTimes {
    /// That of the newest version, of whatever type; empty if there was none.
    pub fn into_newest(self) -> Vec<u8> {
        self.newest
    }

    /// Before another search.
    pub fn clear(&mut self) {
        self.newest.clear();
    }
}

impl Lookup<'_> {
    /// A version is found in an observed search; whether it is seen. Below a newer timestamp there
    /// may be newer sequence numbers than the one that is read at.
    #[inline]
    pub(super) fn sees(
        &mut self,
        found: UserKey<'_>,
        sequence: SequenceNumber,
        value: (ValueType, &[u8]),
    ) -> bool {
        if sequence > self.sequence {
            return false;
        }
        if let Some(times) = self.observers.times {
            self.note_time(&mut times.borrow_mut(), found, value);
        }
        true
    }

    fn note_time(
        &self,
        times: &mut FoundTimes,
        found: UserKey<'_>,
        (value_type, value): (ValueType, &[u8]),
    ) {
        if self.stripped {
            if times.newest.is_empty() {
                times.newest.resize(self.cf.timestamp_size, 0);
            }
            return;
        }
        let refers = may_refer(value_type as u8, value);
        if !refers && !times.newest.is_empty() {
            return;
        }
        let time = self.cf.icmp.user.timestamp_of(found);
        if times.newest.is_empty() {
            times.newest.extend_from_slice(time);
        }
        if refers {
            times.of_blob.clear();
            times.of_blob.extend_from_slice(time);
        }
    }

    /// From now on tables are searched whose keys have lost their timestamps.
    #[cold]
    pub(super) fn strip(&mut self) {
        self.key = self.cf.in_tables(self.key);
        self.stripped = true;
    }

    /// The key that the table has of the entry found last, which may refer to blobs.
    pub(super) fn key_of_blob(&self) -> Vec<u8> {
        match self.observers.times.filter(|_| !self.stripped) {
            None => self.key.as_bytes().to_vec(),
            Some(times) => {
                let bare = self.cf.icmp.user.without_timestamp(self.key).as_bytes();
                [bare, &times.borrow().of_blob].concat()
            }
        }
    }
}

impl<'a> Lookup<'a> {
    /// The key for the merge operator.
    pub(super) fn key_of_operator(&self) -> Cow<'a, [u8]> {
        let bare = match self.stripped || self.cf.timestamp_size == 0 {
            true => self.key,
            false => self.cf.icmp.user.without_timestamp(self.key),
        };
        self.cf.key_forms().timeless_of_bare(bare.as_bytes())
    }
}

/// As [`get_observed`](super::get_observed); the timestamps of what was found go to `times`.
pub(crate) fn get_at<W: PointAnswer>(
    cf: &CfData,
    super_version: &SuperVersion,
    options: &TableReadOptions,
    (sequence, key): (SequenceNumber, &[u8]),
    times: &RefCell<FoundTimes>,
    hits: &mut Hits,
) -> Result<Option<W>> {
    let fruitless = Fruitless::default();
    let mut lookup = Lookup::new::<W>(cf, super_version, options, UserKey::new(key), sequence);
    lookup.observers.times = Some(times);
    lookup.observers.sampled = hits.sampled.wants().then_some(&fruitless);
    let searched = search::<true>(&mut lookup, &cf.tables(), options);
    hits.count(&lookup);
    hits.count_sampled(cf, super_version, &fruitless);
    searched.and_then(|()| lookup.answer())
}
