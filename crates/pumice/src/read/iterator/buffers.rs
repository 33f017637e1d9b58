//! What a cursor keeps from one move to the next: the entry that it shows, if it is not that of its
//! sources, and where the sources are to seek to.
//!
//! Thread safety: one owner. Invariant: `entity` is valid whenever `saved_value` is.

use pumice_base::key::{self, InternalKey, VALUE_TYPE_FOR_SEEK};
use pumice_base::{Result, SequenceNumber, UserKey};

use crate::blob::references::may_refer;
use crate::read::elsewhere::{BlobReads, Fetched};
use crate::read::iterator::IteratorLimits;
use crate::read::operand_list::OperandList;
use crate::read::timed::Look;
use crate::read::value::{Values, is_entity, plain};
use crate::version::family::CfData;
use crate::version::super_version::SuperVersion;

/// How values are fetched that are not where their entries are.
#[derive(Clone, Copy)]
pub(super) struct Fetch<'a> {
    values: Values<'a>,
    reads: &'a BlobReads,
    /// What is seen of keys with timestamps.
    look: Option<&'a Look>,
}

impl<'a> Fetch<'a> {
    /// As a cursor with these limits does.
    pub fn of(cf: &'a CfData, view: &'a SuperVersion, limits: &'a IteratorLimits) -> Self {
        let (reads, look) = (&limits.blob_reads, limits.look.as_deref());
        Fetch { values: Values::of(cf, view), reads, look }
    }

    /// The value of the entry that is shown with `key` and has the timestamp `time`, if keys have
    /// some; None if it is at hand.
    pub fn fetch(
        self,
        key: UserKey<'_>,
        time: &[u8],
        tag: u8,
        stored: &[u8],
    ) -> Result<Option<Fetched>> {
        match self.look.filter(|_| may_refer(tag, stored)) {
            None => self.values.fetch(self.reads, key, tag, stored),
            Some(look) => {
                let stripped = self.values.view().version.is_stripped();
                let key = look.stored_key(key.as_bytes(), time, stripped);
                self.values.fetch(self.reads, UserKey::new(&key), tag, stored)
            }
        }
    }
}

/// Buffers kept from one move to the next.
#[derive(Default)]
pub(super) struct Buffers {
    pub saved_key: Vec<u8>,
    pub saved_value: Vec<u8>,
    /// The entity of which `saved_value` is the default column, as it is stored; empty for a plain
    /// value. Valid whenever `saved_value` is.
    pub entity: Vec<u8>,
    pub seek_target: Vec<u8>,
    pub start_prefix: Vec<u8>,
    pub operands: OperandList,
    /// The timestamp of `saved_value`, if keys have some.
    pub saved_timestamp: Vec<u8>,
    /// The same of a value that is to be fetched.
    pub blob_timestamp: Vec<u8>,
}

impl Buffers {
    #[inline]
    pub fn saved_key(&self) -> UserKey<'_> {
        UserKey::new(&self.saved_key)
    }

    /// Where `inner` is to seek to.
    #[inline]
    pub fn target(&self) -> InternalKey<'_> {
        InternalKey::new(&self.seek_target)
    }

    /// The target is the newest version of `key` that is visible at `sequence`.
    #[inline]
    pub fn aim_at(&mut self, key: UserKey<'_>, sequence: SequenceNumber) {
        self.seek_target.clear();
        key::append_internal_key(&mut self.seek_target, key, sequence, VALUE_TYPE_FOR_SEEK);
    }

    pub fn aim_at_saved(&mut self, sequence: SequenceNumber) {
        self.seek_target.clear();
        let key = UserKey::new(&self.saved_key);
        key::append_internal_key(&mut self.seek_target, key, sequence, VALUE_TYPE_FOR_SEEK);
    }

    /// The target is before all versions of `key`.
    pub fn aim_before(&mut self, key: UserKey<'_>) {
        self.seek_target.clear();
        key::append_before_versions(&mut self.seek_target, key);
    }

    /// The target is at or after all versions of `key`.
    pub fn aim_after(&mut self, key: UserKey<'_>) {
        self.seek_target.clear();
        key::append_after_versions(&mut self.seek_target, key);
    }

    pub fn aim_after_saved(&mut self) {
        self.seek_target.clear();
        key::append_after_versions(&mut self.seek_target, UserKey::new(&self.saved_key));
    }

    /// Takes over a value of `key` that is stored as type `tag`.
    pub fn save(
        &mut self,
        fetch: Fetch<'_>,
        key: UserKey<'_>,
        tag: u8,
        stored: &[u8],
    ) -> Result<()> {
        match fetch.fetch(key, &self.blob_timestamp, tag, stored)? {
            None => self.save_stored(tag, stored),
            Some(found) if found.is_entity() => {
                let (tag, stored) = found.stored();
                self.save_stored(tag, stored)
            }
            Some(found) => {
                self.saved_value = found.value.into_vec();
                self.entity.clear();
                Ok(())
            }
        }
    }

    /// As `save`, but a value that may be in a blob file is kept as it is stored, in `saved_value`,
    /// and its type is returned.
    #[inline]
    pub fn keep(&mut self, tag: u8, stored: &[u8]) -> Result<Option<u8>> {
        if !may_refer(tag, stored) {
            return self.save_stored(tag, stored).map(|()| None);
        }
        self.saved_value.clear();
        self.saved_value.extend_from_slice(stored);
        self.entity.clear();
        Ok(Some(tag))
    }

    /// Takes over a value that is at hand.
    pub fn save_stored(&mut self, tag: u8, stored: &[u8]) -> Result<()> {
        let value = plain(tag, stored)?;
        self.saved_value.clear();
        self.saved_value.extend_from_slice(value);
        self.entity.clear();
        if is_entity(tag) {
            self.entity.extend_from_slice(stored);
        }
        Ok(())
    }
}
