//! Reads at a timestamp: what is asked of families whose keys have timestamps, and the source that
//! shows a cursor what one time sees.
//!
//! ```text
//! stored    key ‖ timestamp ‖ trailer
//! Newest    key ‖ trailer                    versions up to the time, without their timestamps
//! Versions  (key ‖ timestamp ‖ trailer) ‖ 0  each version is a key of its own; deletions are shown
//! ```
//!
//! So the cursor above knows nothing of timestamps: it compares, bounds and folds keys as those of
//! any other family, in the order that [`Look::order`] gives. Only seeks to keys of the user and
//! the timestamp of what is shown pass through here.
//!
//! Thread safety: one owner at a time (`Send`). Invariant: a valid source is on an entry that the
//! sequence number and the time see, and `key` is its key as it is shown.

use pumice_base::key::{self, InternalKey, VALUE_TYPE_FOR_SEEK};
use pumice_base::{
    Comparator, Error, InternalIterator, Result, SequenceNumber, UserKey, ValueType,
};

use crate::options::requests::ReadOptions;
use crate::read::merging_iterator::MergingIterator;
use crate::read::pinned::PinnedSlice;
use crate::read::range_del::RangeDels;
use crate::read::source::Source;
use crate::read::value::EntryKind;
use crate::version::family::CfData;
use crate::version::super_version::SuperVersion;

/// A value and the timestamp of its version.
///
/// Example: that of [`At`](crate::At).
pub type TimedValue<W = PinnedSlice> = (W, Vec<u8>);

/// The text for a timestamp that has to be there, or not to be.
#[cold]
pub(crate) fn wrong_method(cf: &CfData) -> Error {
    let does = if cf.timestamp_size > 0 { "enables" } else { "does not enable" };
    Error::invalid_argument(format!(
        "cannot call this method on column family {} that {does} timestamp",
        cf.name
    ))
}

/// Refuses timestamps of `bytes` if the family's have another length.
pub(crate) fn check_length(cf: &CfData, bytes: usize) -> Result<()> {
    match (cf.timestamp_size, bytes) {
        (0, _) => Err(wrong_method(cf)),
        (expected, given) if expected != given => Err(Error::invalid_argument(format!(
            "Timestamp sizes mismatch: expect {expected}, {given} given"
        ))),
        _ => Ok(()),
    }
}

/// The time that a read of `cf` is at; None if the family has no timestamps.
///
/// # Errors
/// InvalidArgument if there is none and should be, or the other way round, or it has the wrong
/// length.
pub(crate) fn read_time<'o>(cf: &CfData, options: &'o ReadOptions) -> Result<Option<&'o [u8]>> {
    match (&options.timestamp, cf.timestamp_size) {
        (None, 0) if options.iter_start_ts.is_none() => Ok(None),
        (Some(time), 1..) => check_length(cf, time.len()).map(|()| Some(&time[..])),
        _ => Err(wrong_method(cf)),
    }
}

/// Refuses a time whose history may be gone from `view`.
///
/// # Errors
/// InvalidArgument.
pub(crate) fn check_history(cf: &CfData, view: &SuperVersion, time: &[u8]) -> Result<()> {
    let Some(low) = view.version.full_history_ts_low() else { return Ok(()) };
    let order = cf.comparator();
    if order.compare_timestamp(time, low).is_ge() {
        return Ok(());
    }
    Err(Error::invalid_argument(format!(
        "Read timestamp: {} is smaller than full_history_ts_low: {}\n",
        order.timestamp_to_string(time),
        order.timestamp_to_string(low)
    )))
}

/// `key` as of `time`.
pub(crate) fn stamped(key: &[u8], time: &[u8]) -> Vec<u8> {
    [key, time].concat()
}

/// What a cursor is to see.
#[derive(Clone)]
pub(crate) struct Look {
    /// Of the stored keys.
    stored: Comparator,
    /// Nothing newer.
    time: Vec<u8>,
    /// Every version is shown that is no older.
    from: Option<Vec<u8>>,
}

impl Look {
    /// What `options` ask for; None if the family has no timestamps.
    ///
    /// # Errors
    /// As [`read_time`]; NotSupported for a prefix of keys that are versions.
    pub fn of(cf: &CfData, options: &ReadOptions) -> Result<Option<Box<Self>>> {
        let Some(time) = read_time(cf, options)? else { return Ok(None) };
        let from = options.iter_start_ts.clone();
        if let Some(from) = &from {
            check_length(cf, from.len())?;
            if options.prefix_same_as_start {
                let text = "prefix_same_as_start with iter_start_ts";
                return Err(Error::not_supported(text));
            }
        }
        let (stored, time) = (cf.comparator().clone(), time.to_vec());
        Ok(Some(Box::new(Look { stored, time, from })))
    }

    /// The time.
    pub fn time(&self) -> &[u8] {
        &self.time
    }

    /// The order of the keys as they are shown.
    pub fn order(&self) -> Comparator {
        match self.from {
            None => self.stored.without_timestamps(),
            Some(_) => self.stored.of_versions(),
        }
    }

    /// What has the oldest timestamp that there can be is shown.
    pub fn sees_oldest(&self) -> bool {
        self.from.as_ref().is_none_or(|from| from.iter().all(|byte| *byte == 0))
    }

    /// The keys are versions.
    pub fn shows_versions(&self) -> bool {
        self.from.is_some()
    }

    /// Where the keys from the user's `key` on begin.
    pub fn bound(&self, key: &[u8]) -> Vec<u8> {
        match self.from {
            None => key.to_vec(),
            Some(_) => key::before_versions(&self.stored.at_newest(key)),
        }
    }

    /// The last place of the user's `key`.
    pub fn end_of(&self, key: &[u8]) -> Vec<u8> {
        match &self.from {
            None => key.to_vec(),
            Some(_) => {
                let mut end = Vec::new();
                key::append_after_versions(&mut end, &self.stored.at_oldest(key));
                end
            }
        }
    }

    /// The key, as tables have it, of an entry that is shown with `shown` and has the timestamp
    /// `time`; tables that are `stripped` have keys without.
    pub fn stored_key(&self, shown: &[u8], time: &[u8], stripped: bool) -> Vec<u8> {
        let mut key = match self.from {
            None => stamped(shown, time),
            Some(_) => {
                let version = InternalKey::checked(shown).map(InternalKey::user_key);
                version.map_or(shown, UserKey::as_bytes).to_vec()
            }
        };
        if stripped {
            key.truncate(key.len().saturating_sub(self.stored.timestamp_size()));
        }
        key
    }

    /// The timestamp in a key of a version.
    pub fn timestamp_of_version<'k>(&self, key: &'k [u8]) -> &'k [u8] {
        let version = InternalKey::checked(key).map(InternalKey::user_key);
        version.map_or(&[], |key| self.stored.timestamp_of(key))
    }

    fn sees(&self, key: UserKey<'_>) -> bool {
        let time = self.stored.timestamp_of(key);
        self.stored.compare_timestamp(time, &self.time).is_le()
            && self
                .from
                .as_ref()
                .is_none_or(|from| self.stored.compare_timestamp(time, from).is_ge())
    }
}

/// See the module head.
pub(crate) struct TimedSource {
    inner: MergingIterator<Source>,
    look: Look,
    sequence: SequenceNumber,
    /// Tombstones that the time sees hide older entries, also where versions are shown.
    range_dels: RangeDels,
    /// The same of tables that have lost their timestamps, in the order of keys without.
    table_dels: Option<Box<(Comparator, RangeDels)>>,
    key: Vec<u8>,
    target: Vec<u8>,
    /// The user key of an entry at the time.
    asked: Vec<u8>,
    status: Result<()>,
}

impl TimedSource {
    /// What `look` sees of `inner`, of which `range_dels` hide entries, at `sequence`.
    pub fn new(
        inner: MergingIterator<Source>,
        look: Look,
        sequence: SequenceNumber,
        range_dels: RangeDels,
    ) -> Self {
        let (key, target, asked) = (Vec::new(), Vec::new(), Vec::new());
        let (table_dels, status) = (None, Ok(()));
        TimedSource { inner, look, sequence, range_dels, table_dels, key, target, asked, status }
    }

    /// Tombstones of tables that have lost their timestamps, in `order`, hide entries too.
    pub fn with_table_dels(self, order: Comparator, dels: RangeDels) -> Self {
        let dels = (!dels.is_none()).then(|| Box::new((order, dels)));
        TimedSource { table_dels: dels, ..self }
    }

    /// The timestamp of the entry that it is on. Requires `valid`.
    pub fn timestamp(&self) -> &[u8] {
        self.look.stored.timestamp_of(self.inner.key().user_key())
    }

    /// The value is returned to a user. Requires `valid`.
    pub fn note_use(&self) {
        self.inner.note_use();
    }

    /// The present source below is a memtable.
    pub fn is_memtable(&self) -> bool {
        self.inner.current_source().is_some_and(Source::is_memtable)
    }

    fn sees_entry(&mut self) -> bool {
        let ikey = self.inner.key();
        ikey.sequence() <= self.sequence
            && self.look.sees(ikey.user_key())
            && (self.range_dels.is_none() && self.table_dels.is_none() || !self.is_covered())
    }

    /// The entry is deleted by a tombstone over its key, or that cannot be told.
    #[cold]
    fn is_covered(&mut self) -> bool {
        let ikey = self.inner.key();
        let (order, sequence) = (&self.look.stored, ikey.sequence());
        self.asked.clear();
        self.asked.extend_from_slice(order.without_timestamp(ikey.user_key()).as_bytes());
        self.asked.extend_from_slice(&self.look.time);
        let mut covered = self.range_dels.covers(order, UserKey::new(&self.asked), sequence);
        if let (Ok(false), Some(list)) = (&covered, &mut self.table_dels) {
            let (bare, dels) = &mut **list;
            covered = dels.covers(bare, order.without_timestamp(ikey.user_key()), sequence);
        }
        match covered {
            Ok(covered) => covered,
            Err(error) => {
                self.status = Err(error);
                true
            }
        }
    }

    fn settle_forward(&mut self) {
        while self.inner.valid() && self.status.is_ok() && !self.sees_entry() {
            self.inner.next();
        }
        self.show();
    }

    fn settle_backward(&mut self) {
        while self.inner.valid() && self.status.is_ok() && !self.sees_entry() {
            self.inner.prev();
        }
        if self.look.from.is_some() && self.inner.valid() {
            self.climb();
        }
        self.show();
    }

    /// From a version to the one that was written last at its time, among those that are seen.
    fn climb(&mut self) {
        let mut newest = self.inner.key().to_vec();
        loop {
            self.inner.prev();
            if !self.inner.valid() || !self.is_of(&newest) || !self.sees_entry() {
                break;
            }
            newest = self.inner.key().to_vec();
        }
        if self.inner.status().is_ok() {
            self.inner.seek(InternalKey::new(&newest));
        }
    }

    /// The entry has the key and the timestamp of the stored key `ikey`.
    fn is_of(&self, ikey: &[u8]) -> bool {
        let key = InternalKey::new(ikey).user_key();
        self.look.stored.same_entry_key(self.inner.key().user_key(), key)
    }

    /// Passes what was written before at the time of `ikey`.
    fn pass(&mut self, ikey: &[u8]) {
        while self.inner.valid() && self.is_of(ikey) {
            self.inner.next();
        }
    }

    /// Makes the key that is shown.
    fn show(&mut self) {
        self.key.clear();
        if !self.inner.valid() || self.status.is_err() {
            return;
        }
        let ikey = self.inner.key();
        if self.look.from.is_none() {
            let bare = self.look.stored.without_timestamp(ikey.user_key());
            let (sequence, tag) = ikey.sequence_and_type();
            return key::append_internal_key(&mut self.key, bare, sequence, tag);
        }
        let tag = match EntryKind::of_tag(ikey.tag()) {
            EntryKind::Tombstone => ValueType::Value as u8,
            _ => ikey.tag(),
        };
        key::append_internal_key(&mut self.key, ikey.as_bytes(), 0, tag);
    }

    /// Makes the stored target of a seek to `shown`, a key as it is shown; whether that is after
    /// all that is shown with its user key.
    fn aim(&mut self, shown: InternalKey<'_>) -> bool {
        let after = shown.trailer() == 0;
        self.target.clear();
        let user = shown.user_key();
        if self.look.from.is_some() {
            // The bytes are those of a stored key.
            self.target.extend_from_slice(user.as_bytes());
            return after;
        }
        if after {
            key::append_after_versions(
                &mut self.target,
                &self.look.stored.at_oldest(user.as_bytes()),
            );
        } else {
            let key = stamped(user.as_bytes(), &self.look.time);
            key::append_internal_key(&mut self.target, &key, self.sequence, VALUE_TYPE_FOR_SEEK);
        }
        after
    }

    fn is_at_target(&self) -> bool {
        let target = InternalKey::new(&self.target);
        let order = &self.look.stored;
        self.inner.valid()
            && order.same_entry_key(self.inner.key().user_key(), target.user_key())
            && self.inner.key().trailer() == target.trailer()
    }
}

impl InternalIterator for TimedSource {
    fn valid(&self) -> bool {
        !self.key.is_empty()
    }
    fn seek_to_first(&mut self) {
        self.status = Ok(());
        self.inner.seek_to_first();
        self.settle_forward();
    }
    fn seek_to_last(&mut self) {
        self.status = Ok(());
        self.inner.seek_to_last();
        self.settle_backward();
    }
    fn seek(&mut self, target: InternalKey<'_>) {
        self.status = Ok(());
        let after = self.aim(target);
        self.inner.seek(InternalKey::new(&self.target));
        // What is after all of a version's key is after this version.
        if after && self.look.from.is_some() {
            let target = std::mem::take(&mut self.target);
            self.pass(&target);
            self.target = target;
        }
        self.settle_forward();
    }
    fn seek_for_prev(&mut self, target: InternalKey<'_>) {
        self.status = Ok(());
        if self.look.from.is_some() {
            let after = self.aim(target);
            self.inner.seek_for_prev(InternalKey::new(&self.target));
            if !after && self.is_at_target() {
                self.inner.prev();
            }
        } else {
            if !self.aim(target) {
                // Before all versions, also those that the time does not see.
                let newest = self.look.stored.at_newest(target.user_key().as_bytes());
                self.target = key::before_versions(&newest);
            }
            self.inner.seek_for_prev(InternalKey::new(&self.target));
        }
        self.settle_backward();
    }
    fn next(&mut self) {
        if self.look.from.is_some() {
            let shown = std::mem::take(&mut self.key);
            self.pass(InternalKey::new(&shown).user_key().as_bytes());
        } else {
            self.inner.next();
        }
        self.settle_forward();
    }
    fn prev(&mut self) {
        self.inner.prev();
        self.settle_backward();
    }
    fn key(&self) -> InternalKey<'_> {
        InternalKey::new(&self.key)
    }
    fn value(&self) -> &[u8] {
        self.inner.value()
    }
    fn status(&self) -> Result<()> {
        self.status.clone()?;
        self.inner.status()
    }
}
