//! One command's, or one transaction's, reads and writes: an overlay over the engine that becomes
//! one write batch.
//!
//! Reads see the transaction's own writes. Nothing reaches the engine before [`Txn::commit`], and
//! then all of it or nothing. The caller holds the locks of the keys that are written.
//!
//! Invariants:
//! 1. `cleared` ranges come before `writes` in the batch: a write in a cleared range was made after
//!    it.
//! 2. The counts of keys change with the batch, by what the overlay did to records.
//!
//! Thread safety: belongs to its task. Reads suspend.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::Ordering;

use pumice::{ReadOptions, WriteBatch};

use super::counts::{Changes, Tally};
use super::database::{self, Stored};
use super::databases::Map;
use super::encoding::{Collection, Head, Kind, record_key, record_value};
use super::undo::{Step, Undo};
use super::writes::{Writes, bytes_of};
use super::{Failure, Keyspace, Outcome};

/// The class of an event, by its letter in `notify-keyspace-events`.
pub type Class = u8;

/// A key was changed: for watchers, blocked clients and subscribers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The database.
    pub db: u8,
    /// Letter of the class: `g$lshzxe`; 0 if only clients blocked on the key are notified.
    pub class: Class,
    /// What happened.
    pub name: &'static str,
    /// The key.
    pub key: Vec<u8>,
}

/// A key's record.
pub struct Found {
    value: Stored,
    /// Type and expiry.
    pub head: Head,
}

impl Found {
    /// The bytes of a string.
    pub fn string(&self) -> &[u8] {
        &self.value[self.head.body..]
    }
    /// Bytes of the record's value.
    pub fn bytes(&self) -> usize {
        self.value.len()
    }
    /// The type.
    pub fn kind(&self) -> Kind {
        self.head.kind
    }
}

/// See the module's head.
pub struct Txn<'k> {
    keyspace: &'k Keyspace,
    /// The selected database, and the one in which its keys are stored.
    db: u8,
    stored: u8,
    /// The mapping of database numbers, where it differs from the keyspace's: because of a swap in
    /// this transaction, or because its snapshot is older than one.
    map: Option<Box<Map>>,
    has_swapped: bool,
    /// Milliseconds since 1970.
    pub now: u64,
    pub(super) reads: ReadOptions,
    may_write: bool,
    pub(super) writes: Writes,
    /// Ranges by their first key: its end. They do not overlap.
    pub(super) cleared: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(super) events: Vec<Event>,
    /// Databases of which all keys were changed; None: all databases.
    flushed: Vec<Option<u8>>,
    /// Changes of the numbers of keys.
    pub(super) counted: Changes,
    /// What the command has changed, where that can be taken back.
    pub(super) undo: Option<Undo>,
    /// Bytes of `writes`, and their limit; once exceeded, nothing is written at all.
    pub(super) bytes: usize,
    is_too_large: bool,
    pub(super) bytes_max: usize,
    /// Bytes that iterations of the current command have kept.
    pub(super) kept: Cell<usize>,
}

impl<'k> Txn<'k> {
    fn new(keyspace: &'k Keyspace, db: u8, now: u64) -> Txn<'k> {
        keyspace.expired.saw(now);
        Txn {
            keyspace,
            db,
            stored: keyspace.databases.stored(db),
            map: None,
            has_swapped: false,
            now,
            reads: ReadOptions::default(),
            may_write: false,
            writes: Writes::default(),
            cleared: BTreeMap::new(),
            events: Vec::new(),
            flushed: Vec::new(),
            counted: Changes::default(),
            undo: None,
            bytes: 0,
            is_too_large: false,
            bytes_max: keyspace.room(),
            kept: Cell::new(0),
        }
    }

    /// For a command that reads once, or tolerates changes between its reads.
    pub fn glance(keyspace: &'k Keyspace, db: u8, now: u64) -> Txn<'k> {
        Self::new(keyspace, db, now)
    }

    /// For a command that reads several times and needs one consistent state.
    ///
    /// # Errors
    /// The engine's.
    pub fn view(keyspace: &'k Keyspace, db: u8, now: u64) -> Outcome<Txn<'k>> {
        Self::of_moment(keyspace, db, now, |_| None)
    }

    /// Reads a snapshot of the current state. `map_kept` may keep the map for databases other than
    /// `db`.
    fn of_moment(
        keyspace: &'k Keyspace,
        db: u8,
        now: u64,
        map_kept: impl FnOnce(&Keyspace) -> Option<Box<Map>>,
    ) -> Outcome<Txn<'k>> {
        let before = keyspace.databases.version();
        let mut txn = Self::new(keyspace, db, now);
        txn.map = map_kept(keyspace);
        txn.reads = database::of_this_moment(&keyspace.db);
        if before.is_none() || before != keyspace.databases.version() {
            // The state of the snapshot has a map of its own.
            txn.map = Some(Box::new(super::map_of(&keyspace.db, &txn.reads)?));
            txn.select(db);
        }
        Ok(txn)
    }

    /// As [`Txn::view`], for several commands, which may select other databases.
    ///
    /// # Errors
    /// The engine's.
    pub fn view_all(keyspace: &'k Keyspace, db: u8, now: u64) -> Outcome<Txn<'k>> {
        Self::of_moment(keyspace, db, now, |keyspace| Some(Box::new(keyspace.databases.map())))
    }

    /// From now on it reads a snapshot of the current state.
    pub fn hold_moment(&mut self) {
        if self.reads.snapshot.is_none() {
            self.reads = database::of_this_moment(&self.keyspace.db);
        }
    }

    /// For commands that write; the locks of their keys are held.
    pub fn write(keyspace: &'k Keyspace, db: u8, now: u64) -> Txn<'k> {
        Txn { may_write: true, ..Self::new(keyspace, db, now) }
    }

    /// As [`Txn::write`], for several commands that also read unlocked keys: those too come from
    /// one consistent state.
    ///
    /// # Errors
    /// The engine's.
    pub fn write_at_one_moment(keyspace: &'k Keyspace, db: u8, now: u64) -> Outcome<Txn<'k>> {
        Ok(Txn { may_write: true, ..Self::view_all(keyspace, db, now)? })
    }

    /// The selected database.
    pub fn db(&self) -> u8 {
        self.db
    }

    /// Selects this database.
    pub fn select(&mut self, db: u8) {
        let stored = |map: &Map| map[usize::from(db)];
        self.db = db;
        self.stored = match &self.map {
            Some(map) => stored(map),
            None => self.keyspace.databases.stored(db),
        };
    }

    /// Swaps two databases.
    pub fn swap_databases(&mut self, one: u8, other: u8) {
        let databases = &self.keyspace.databases;
        let mut map = self.map.take().unwrap_or_else(|| Box::new(databases.map()));
        map.swap(usize::from(one), usize::from(other));
        self.put(super::DATABASES.to_vec(), map.to_vec());
        self.map = Some(map);
        self.has_swapped = true;
        self.select(self.db);
    }

    /// The engine key of a key's record.
    pub fn record_key(&self, key: &[u8]) -> Vec<u8> {
        record_key(self.stored, key)
    }

    /// The database as keys of the engine name it.
    pub fn stored(&self) -> u8 {
        self.stored
    }

    /// The collection that `found` is the record of.
    pub fn collection_of(&self, key: &[u8], found: &Found) -> Collection {
        Collection::read(self.stored, key, &found.head, &found.value)
    }

    /// Another command begins: its read limit is reset.
    pub fn begin_command(&self) {
        self.kept.set(0);
    }

    /// Bytes that a command may keep of what it reads.
    pub fn room(&self) -> usize {
        self.bytes_max
    }

    /// The transaction was made for commands that write.
    pub fn may_write(&self) -> bool {
        self.may_write
    }

    /// The keyspace it belongs to.
    pub fn keyspace(&self) -> &'k Keyspace {
        self.keyspace
    }

    /// Nothing would be written.
    pub fn is_clean(&self) -> bool {
        self.writes.is_empty() && self.cleared.is_empty()
    }

    /// The end of the cleared range that `key` lies in.
    pub(super) fn cleared_upto(&self, key: &[u8]) -> Option<&[u8]> {
        let upto = (Bound::Unbounded, Bound::Included(key));
        let (_, end) = self.cleared.range::<[u8], _>(upto).next_back()?;
        (key < end.as_slice()).then_some(end)
    }

    /// The value of an engine key.
    ///
    /// # Errors
    /// The engine's.
    pub fn get(&self, key: &[u8]) -> Outcome<Option<Stored>> {
        if let Some(written) = self.writes.get(key) {
            return Ok(written.clone().map(Stored::Own));
        }
        if self.cleared_upto(key).is_some() {
            return Ok(None);
        }
        Ok(self.keyspace.db.get_opt(&self.reads, key)?.map(Stored::Pinned))
    }

    /// The values of engine keys, all from one consistent state.
    ///
    /// # Errors
    /// The engine's.
    pub fn get_many(&self, keys: &[Vec<u8>]) -> Outcome<Vec<Option<Stored>>> {
        if !self.is_clean() {
            return keys.iter().map(|key| self.get(key)).collect();
        }
        Ok(database::get_many(&self.keyspace.db, &self.reads, keys)?)
    }

    /// Sets an engine key.
    pub fn put(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.write_one(key, Some(value));
    }

    /// Deletes an engine key.
    pub fn delete(&mut self, key: Vec<u8>) {
        self.write_one(key, None);
    }

    fn write_one(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) {
        debug_assert!(self.may_write, "a command that only reads");
        if self.is_too_large {
            return;
        }
        let old = self.writes.get(&key).map_or(0, |old| bytes_of(&key, old));
        self.bytes = (self.bytes - old).saturating_add(bytes_of(&key, &value));
        // Writes beyond the limit are not kept, as they will not be written.
        self.is_too_large |= self.bytes > self.bytes_max;
        if self.is_too_large {
            return;
        }
        let noted = self.undo.is_some().then(|| key.clone());
        let old = self.writes.insert(key, value);
        if let Some(key) = noted {
            self.note(|| Step::Wrote(key, old));
        }
    }

    /// Deletes all engine keys from `first` up to `end`.
    pub fn clear(&mut self, first: Vec<u8>, end: Vec<u8>) {
        debug_assert!(self.may_write && first < end, "a range that is written");
        self.drop_writes(&first, &end);
        // Merges it with all ranges that touch it.
        let (mut first, mut end) = (first, end);
        let mut merged = Vec::new();
        while let Some((from, upto)) = self.cleared.range(..=end.clone()).next_back()
            && *upto >= first
        {
            (first, end) = (first.min(from.clone()), end.max(upto.clone()));
            let from = from.clone();
            merged.extend(self.cleared.remove_entry(&from));
        }
        self.note(|| Step::Cleared(first.clone(), merged));
        self.cleared.insert(first, end);
    }

    /// Forgets what was written from `first` up to `end` and is not committed.
    pub(super) fn drop_writes(&mut self, first: &[u8], end: &[u8]) {
        let gone: Vec<_> = self.writes.range(first, end).map(|(key, _)| key.clone()).collect();
        for key in gone {
            if let Some(value) = self.writes.remove(&key) {
                self.bytes = self.bytes.saturating_sub(bytes_of(&key, &value));
                self.note(|| Step::Wrote(key, Some(value)));
            }
        }
    }

    /// The record of `key`, if it is not expired. A command that writes deletes an expired one.
    ///
    /// # Errors
    /// The engine's; a record that cannot be read.
    pub fn find(&mut self, key: &[u8]) -> Outcome<Option<Found>> {
        let Some(value) = self.get(&record_key(self.stored, key))? else { return Ok(None) };
        let head = Head::read(&value)?;
        let found = Found { value, head };
        if !head.is_expired(self.now) {
            return Ok(Some(found));
        }
        if self.may_write {
            self.remove(key, &found)?;
            self.event(key, b'x', "expired");
        } else {
            self.keyspace.expired.report(self.stored, key);
        }
        Ok(None)
    }

    /// As [`Txn::find`], without any effect: for keys whose locks are not held.
    ///
    /// # Errors
    /// The engine's; a record that cannot be read.
    pub fn peek(&self, key: &[u8]) -> Outcome<Option<Found>> {
        let Some(value) = self.get(&record_key(self.stored, key))? else { return Ok(None) };
        let head = Head::read(&value)?;
        Ok((!head.is_expired(self.now)).then_some(Found { value, head }))
    }

    /// As [`Txn::find`], of this type.
    ///
    /// # Errors
    /// Also when the key holds another type.
    pub fn find_kind(&mut self, key: &[u8], kind: Kind) -> Outcome<Option<Found>> {
        match self.find(key)? {
            Some(found) if found.kind() != kind => Err(Failure::WRONG_TYPE),
            found => Ok(found),
        }
    }

    /// The collection at `key`, if there is one.
    ///
    /// # Errors
    /// As [`Txn::find_kind`].
    pub fn collection(&mut self, key: &[u8], kind: Kind) -> Outcome<Option<Collection>> {
        Ok(self.find_kind(key, kind)?.map(|found| self.collection_of(key, &found)))
    }

    /// The collection at `key`, or a new one, which exists once it is saved.
    ///
    /// # Errors
    /// As [`Txn::find_kind`]; no generation can be reserved.
    pub fn collection_or_new(&mut self, key: &[u8], kind: Kind) -> Outcome<Collection> {
        match self.collection(key, kind)? {
            Some(collection) => Ok(collection),
            None => self.new_collection(key, kind),
        }
    }

    /// A new collection for `key`, which holds nothing (any more).
    ///
    /// # Errors
    /// No generation can be reserved.
    pub fn new_collection(&self, key: &[u8], kind: Kind) -> Outcome<Collection> {
        Ok(Collection::new(self.stored, key, kind, self.keyspace.new_generation()?))
    }

    /// Sets an element of a collection whose record is saved afterwards.
    pub fn put_element(&mut self, collection: &mut Collection, element: Vec<u8>, value: Vec<u8>) {
        collection.include(&element);
        self.put(element, value);
    }

    /// Writes the record of a collection whose elements have changed; an empty one is deleted. The
    /// collection may have another generation then: what is written to it comes before.
    pub fn save(&mut self, key: &[u8], collection: &mut Collection) {
        self.tidy(collection);
        let record = record_key(self.stored, key);
        match (collection.count, collection.stored) {
            (0, false) => {}
            (0, true) => {
                self.delete(record);
                self.count(-Tally::key(collection.expires));
                collection.stored = false;
            }
            (_, stored) => {
                self.put(record, collection.value());
                if !stored {
                    self.count(Tally::key(collection.expires));
                    self.counted.expires(key, collection.expires);
                }
                collection.stored = true;
            }
        }
    }

    /// Writes a string in place of `old`, which [`Txn::find`] returned.
    ///
    /// # Errors
    /// The engine's.
    pub fn put_string(
        &mut self,
        key: &[u8],
        old: Option<&Found>,
        value: &[u8],
        expires: u64,
    ) -> Outcome<()> {
        let mut change = Tally::key(expires);
        if let Some(old) = old {
            self.clear_elements(key, old)?;
            change += -Tally::key(old.head.expires);
        }
        self.count(change);
        self.counted.expires(key, expires);
        let value = record_value(Kind::String, expires, &[value]);
        self.put(record_key(self.stored, key), value);
        Ok(())
    }

    /// Sets when the key of `found` expires; 0 for never.
    pub fn set_expiry(&mut self, key: &[u8], found: &Found, expires: u64) {
        self.count(Tally::key(expires) - Tally::key(found.head.expires));
        let value = found.head.with_expiry(&found.value, expires);
        self.put(record_key(self.stored, key), value);
        self.counted.expires(key, expires);
    }

    /// Deletes a key with all its elements.
    ///
    /// # Errors
    /// The engine's.
    pub fn remove(&mut self, key: &[u8], found: &Found) -> Outcome<()> {
        self.clear_elements(key, found)?;
        self.delete(record_key(self.stored, key));
        self.count(-Tally::key(found.head.expires));
        Ok(())
    }

    fn clear_elements(&mut self, key: &[u8], found: &Found) -> Outcome<()> {
        if found.kind() == Kind::String {
            return Ok(());
        }
        self.clear_collection(&self.collection_of(key, found))
    }

    /// Records that `key` was changed.
    pub fn event(&mut self, key: &[u8], class: Class, name: &'static str) {
        self.events.push(Event { db: self.db, class, name, key: key.to_vec() });
    }

    /// Records that all keys of a database were changed, or of all databases: for watchers.
    pub fn flushed(&mut self, only: Option<u8>) {
        self.flushed.push(only);
    }

    /// Takes out what [`Txn::flushed`] has recorded, for watchers once it is written.
    pub fn take_flushed(&mut self) -> Vec<Option<u8>> {
        std::mem::take(&mut self.flushed)
    }

    /// The event at `index` of those so far.
    pub fn event_at(&self, index: usize) -> Option<&Event> {
        self.events.get(index)
    }

    /// Changes the number of keys in the database by this much.
    pub fn count(&mut self, change: Tally) {
        self.counted.add(self.stored, change);
    }

    /// Keys in the database, with the changes of this transaction.
    pub fn keys(&self) -> Tally {
        let mut all = self.keyspace.counts.of(self.stored);
        all += self.counted.of(self.stored);
        all
    }

    /// Forgets everything that was to be written.
    pub fn forget(&mut self) {
        self.writes.clear();
        self.cleared.clear();
        self.events.clear();
        self.flushed.clear();
        self.counted.clear();
        self.undo = None;
        self.bytes = 0;
        self.is_too_large = false;
        self.has_swapped = false;
    }

    /// It writes something, at most this many bytes, as single keys and nothing else.
    pub(super) fn is_small(&self, bytes_max: usize) -> bool {
        let is_plain = self.cleared.is_empty() && !self.has_swapped && !self.is_too_large;
        is_plain && !self.writes.is_empty() && self.bytes <= bytes_max
    }

    /// Hands over what it would write, count and publish, to a task that does that for others.
    pub(super) fn give(
        &mut self,
        batch: &mut WriteBatch,
        counted: &mut Changes,
        events: &mut Vec<Event>,
    ) {
        self.fill(batch);
        counted.append(&mut self.counted);
        events.append(&mut self.events);
        self.forget();
    }

    fn fill(&self, batch: &mut WriteBatch) {
        self.cleared.iter().for_each(|(first, end)| batch.delete_range(first, end));
        for (key, value) in self.writes.iter() {
            match value {
                Some(value) => batch.put(key, value),
                None => batch.delete(key),
            }
        }
    }

    /// Writes everything at once. Returns what happened to which keys, and whether it wrote
    /// anything. Suspends.
    ///
    /// # Errors
    /// The engine's, or too much was to be written; then nothing was.
    pub fn commit(&mut self) -> Outcome<Vec<Event>> {
        if self.is_too_large {
            return Err(Failure::TOO_LARGE);
        }
        if !self.is_clean() {
            let bytes: usize = self.writes.iter().map(|(k, v)| bytes_of(k, v) + 12).sum();
            let mut batch = WriteBatch::with_capacity(bytes + 32);
            self.fill(&mut batch);
            let keyspace = self.keyspace;
            let mut write = || keyspace.db.write(&mut batch);
            match &self.map {
                Some(map) if self.has_swapped => keyspace.databases.swap(map, write)?,
                _ => write()?,
            }
            let ranges = self.cleared.len() as u64;
            keyspace.ranges_deleted.fetch_add(ranges, Ordering::Relaxed);
        }
        self.keyspace.written(&mut self.counted);
        let events = std::mem::take(&mut self.events);
        self.forget();
        Ok(events)
    }
}
