//! One command's, or one transaction's, reads and writes: an overlay over the engine that becomes
//! one write batch.
//!
//! Reads see the transaction's own writes. Nothing reaches the engine before [`Txn::commit`], and
//! then all of it or nothing. The caller holds the locks of the keys that are written.
//!
//! Invariants:
//! 1. `cleared` ranges come before `writes` in the batch: a write in a cleared range was made after
//!    it.
//! 2. The counts of keys change with the batch, and by what the overlay did to records.
//!
//! Thread safety: belongs to its task. Reads suspend.

use std::collections::BTreeMap;
use std::collections::btree_map::Range;
use std::ops::{Bound, Deref};

use pumice::{DbIterator, PinnedSlice, ReadOptions, WriteBatch, WriteOptions};

use super::encoding::{Collection, Head, Kind, record_key, record_value};
use super::{Failure, Keyspace, Outcome};

/// Elements that are deleted one by one; more are deleted as a range.
const SINGLY: u64 = 32;

/// The class of an event, by its letter in `notify-keyspace-events`.
pub type Class = u8;

/// A key was changed: for watchers, blocked clients and subscribers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The database.
    pub db: u8,
    /// Letter of the class: `g$lshzxe`.
    pub class: Class,
    /// What happened.
    pub name: &'static str,
    /// The key.
    pub key: Vec<u8>,
}

/// Bytes that were read.
pub enum Stored {
    /// In the engine's memory.
    Pinned(PinnedSlice),
    /// In ours.
    Own(Vec<u8>),
}

impl Deref for Stored {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Stored::Pinned(bytes) => bytes,
            Stored::Own(bytes) => bytes,
        }
    }
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
    /// The type.
    pub fn kind(&self) -> Kind {
        self.head.kind
    }
    /// The collection it is the record of.
    pub fn collection(&self, db: u8, key: &[u8]) -> Collection {
        Collection::read(db, key, &self.head, &self.value)
    }
}

/// See the module's head.
pub struct Txn<'k> {
    keyspace: &'k Keyspace,
    /// The database that keys are meant to be in.
    pub db: u8,
    /// Milliseconds since 1970.
    pub now: u64,
    reads: ReadOptions,
    may_write: bool,
    writes: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    cleared: Vec<(Vec<u8>, Vec<u8>)>,
    events: Vec<Event>,
    counted: Vec<(u8, i64)>,
}

impl<'k> Txn<'k> {
    fn new(keyspace: &'k Keyspace, db: u8, now: u64) -> Txn<'k> {
        keyspace.expired.saw(now);
        Txn {
            keyspace,
            db,
            now,
            reads: ReadOptions::default(),
            may_write: false,
            writes: BTreeMap::new(),
            cleared: Vec::new(),
            events: Vec::new(),
            counted: Vec::new(),
        }
    }

    /// For a command that reads once, or does not care what happens between its reads.
    pub fn glance(keyspace: &'k Keyspace, db: u8, now: u64) -> Txn<'k> {
        Self::new(keyspace, db, now)
    }

    /// For a command that reads several times and wants one state.
    pub fn view(keyspace: &'k Keyspace, db: u8, now: u64) -> Txn<'k> {
        let mut txn = Self::new(keyspace, db, now);
        txn.reads.snapshot = Some(keyspace.db.snapshot());
        txn
    }

    /// For commands that write; the locks of their keys are held.
    pub fn write(keyspace: &'k Keyspace, db: u8, now: u64) -> Txn<'k> {
        Txn { may_write: true, ..Self::new(keyspace, db, now) }
    }

    /// Whose it is.
    pub fn keyspace(&self) -> &'k Keyspace {
        self.keyspace
    }

    /// Nothing would be written.
    pub fn is_clean(&self) -> bool {
        self.writes.is_empty() && self.cleared.is_empty()
    }

    fn is_cleared(&self, key: &[u8]) -> bool {
        self.cleared.iter().any(|(first, end)| (&first[..]..&end[..]).contains(&key))
    }

    /// The value of an engine key.
    ///
    /// # Errors
    /// Of the engine.
    pub fn get(&self, key: &[u8]) -> Outcome<Option<Stored>> {
        if let Some(written) = self.writes.get(key) {
            return Ok(written.clone().map(Stored::Own));
        }
        if self.is_cleared(key) {
            return Ok(None);
        }
        Ok(self.keyspace.db.get(&self.reads, key)?.map(Stored::Pinned))
    }

    /// The values of engine keys, all of one moment.
    ///
    /// # Errors
    /// Of the engine.
    pub fn get_many(&self, keys: &[Vec<u8>]) -> Outcome<Vec<Option<Stored>>> {
        if !self.is_clean() {
            return keys.iter().map(|key| self.get(key)).collect();
        }
        let values = self.keyspace.db.multi_get(&self.reads, keys).into_iter();
        values.map(|value| Ok(value?.map(Stored::Pinned))).collect()
    }

    /// Sets an engine key.
    pub fn put(&mut self, key: Vec<u8>, value: Vec<u8>) {
        debug_assert!(self.may_write, "a command that only reads");
        self.writes.insert(key, Some(value));
    }

    /// Deletes an engine key.
    pub fn delete(&mut self, key: Vec<u8>) {
        debug_assert!(self.may_write, "a command that only reads");
        self.writes.insert(key, None);
    }

    /// Deletes all engine keys from `first` up to `end`.
    pub fn clear(&mut self, first: Vec<u8>, end: Vec<u8>) {
        debug_assert!(self.may_write && first < end, "a range that is written");
        let inside = (Bound::Included(first.clone()), Bound::Excluded(end.clone()));
        let gone: Vec<_> = self.writes.range(inside).map(|(key, _)| key.clone()).collect();
        gone.iter().for_each(|key| drop(self.writes.remove(key)));
        self.cleared.push((first, end));
    }

    /// Calls `f` with the engine keys of `range` (from the first, up to the end) and their values,
    /// forwards or backwards, until it says false. Suspends.
    ///
    /// # Errors
    /// Of the engine.
    pub fn walk(
        &self,
        range: &(Vec<u8>, Vec<u8>),
        backwards: bool,
        f: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Outcome<()> {
        self.roam(range, backwards, &mut |key, value| {
            if f(key, value) { Flow::Next } else { Flow::Stop }
        })
    }

    /// As [`Txn::walk`]; forwards, `f` may also leap to a key further on. Suspends.
    ///
    /// # Errors
    /// Of the engine.
    pub fn roam(
        &self,
        range: &(Vec<u8>, Vec<u8>),
        backwards: bool,
        f: &mut dyn FnMut(&[u8], &[u8]) -> Flow,
    ) -> Outcome<()> {
        let (first, end) = range;
        if first >= end {
            return Ok(());
        }
        let reads = ReadOptions {
            iterate_lower_bound: Some(first.clone()),
            iterate_upper_bound: Some(end.clone()),
            ..self.reads.clone()
        };
        let mut cursor = self.keyspace.db.iter(&reads)?;
        if backwards {
            cursor.seek_to_last();
        } else {
            cursor.seek(first);
        }
        let mut own = Own::new(&self.writes, first, end, backwards);
        loop {
            while cursor.valid() && self.is_cleared(cursor.key()) {
                step(&mut cursor, backwards);
            }
            let own_first = match (cursor.valid(), own.next) {
                (false, None) => break,
                (true, None) => false,
                (false, Some(_)) => true,
                (true, Some((key, _))) if key == cursor.key() => {
                    step(&mut cursor, backwards);
                    true
                }
                (true, Some((key, _))) => (key < cursor.key()) != backwards,
            };
            let flow = match own.next {
                Some((key, value)) if own_first => {
                    own.advance();
                    value.map_or(Flow::Next, |value| f(key, value))
                }
                _ => {
                    let flow = f(cursor.key(), cursor.value());
                    if matches!(flow, Flow::Next) {
                        step(&mut cursor, backwards);
                    }
                    flow
                }
            };
            match flow {
                Flow::Next => {}
                Flow::Stop => return Ok(()),
                Flow::Leap(to) if &to >= end => return Ok(()),
                Flow::Leap(to) => {
                    cursor.seek(&to);
                    own = Own::new(&self.writes, &to, end, false);
                }
            }
        }
        Ok(cursor.status()?)
    }

    /// The record of `key`, if its time is not over. A command that writes deletes one that is.
    ///
    /// # Errors
    /// Of the engine; a record that cannot be read.
    pub fn find(&mut self, key: &[u8]) -> Outcome<Option<Found>> {
        let Some(value) = self.get(&record_key(self.db, key))? else { return Ok(None) };
        let head = Head::read(&value)?;
        let found = Found { value, head };
        if !head.is_expired(self.now) {
            return Ok(Some(found));
        }
        if self.may_write {
            self.remove(key, &found)?;
            self.event(key, b'x', "expired");
        } else {
            self.keyspace.expired.report(self.db, key);
        }
        Ok(None)
    }

    /// As [`Txn::find`], without any effect: for keys whose locks are not held.
    ///
    /// # Errors
    /// Of the engine; a record that cannot be read.
    pub fn peek(&self, key: &[u8]) -> Outcome<Option<Found>> {
        let Some(value) = self.get(&record_key(self.db, key))? else { return Ok(None) };
        let head = Head::read(&value)?;
        Ok((!head.is_expired(self.now)).then_some(Found { value, head }))
    }

    /// As [`Txn::find`], of this type.
    ///
    /// # Errors
    /// Also that the key holds another type.
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
        let db = self.db;
        Ok(self.find_kind(key, kind)?.map(|found| found.collection(db, key)))
    }

    /// The collection at `key`, or a new one, which exists once it is saved.
    ///
    /// # Errors
    /// As [`Txn::find_kind`]; of reserving a generation.
    pub fn collection_or_new(&mut self, key: &[u8], kind: Kind) -> Outcome<Collection> {
        match self.collection(key, kind)? {
            Some(collection) => Ok(collection),
            None => self.new_collection(key, kind),
        }
    }

    /// A new collection for `key`, which holds nothing (any more).
    ///
    /// # Errors
    /// Of reserving a generation.
    pub fn new_collection(&self, key: &[u8], kind: Kind) -> Outcome<Collection> {
        Ok(Collection::new(self.db, key, kind, self.keyspace.new_generation()?))
    }

    /// Writes the record of a collection whose elements have changed; an empty one is gone.
    pub fn save(&mut self, key: &[u8], collection: &mut Collection) {
        let record = record_key(self.db, key);
        match (collection.count, collection.stored) {
            (0, false) => {}
            (0, true) => {
                self.delete(record);
                self.count(-1);
                collection.stored = false;
            }
            (_, stored) => {
                self.put(record, collection.value());
                self.count(i64::from(!stored));
                collection.stored = true;
            }
        }
    }

    /// Writes a string in place of `old`, which is what [`Txn::find`] gave.
    ///
    /// # Errors
    /// Of the engine.
    pub fn put_string(
        &mut self,
        key: &[u8],
        old: Option<&Found>,
        value: &[u8],
        expires: u64,
    ) -> Outcome<()> {
        match old {
            Some(old) => self.clear_elements(key, old)?,
            None => self.count(1),
        }
        let value = record_value(Kind::String, expires, &[value]);
        self.put(record_key(self.db, key), value);
        Ok(())
    }

    /// Sets when the key of `found` is over; 0 for never.
    pub fn set_expiry(&mut self, key: &[u8], found: &Found, expires: u64) {
        let value = record_value(found.kind(), expires, &[found.string()]);
        self.put(record_key(self.db, key), value);
    }

    /// Deletes a key with all its elements.
    ///
    /// # Errors
    /// Of the engine.
    pub fn remove(&mut self, key: &[u8], found: &Found) -> Outcome<()> {
        self.clear_elements(key, found)?;
        self.delete(record_key(self.db, key));
        self.count(-1);
        Ok(())
    }

    fn clear_elements(&mut self, key: &[u8], found: &Found) -> Outcome<()> {
        if found.kind() == Kind::String {
            return Ok(());
        }
        self.clear_collection(&found.collection(self.db, key))
    }

    /// Deletes all elements; the record stays as it is.
    ///
    /// # Errors
    /// Of the engine.
    pub fn clear_collection(&mut self, collection: &Collection) -> Outcome<()> {
        let (first, end) = collection.all();
        if collection.count > SINGLY {
            self.clear(first, end);
            return Ok(());
        }
        let mut keys = Vec::new();
        self.walk(&(first, end), false, &mut |key, _| {
            keys.push(key.to_vec());
            true
        })?;
        keys.into_iter().for_each(|key| self.delete(key));
        Ok(())
    }

    /// Tells that `key` was changed.
    pub fn event(&mut self, key: &[u8], class: Class, name: &'static str) {
        self.events.push(Event { db: self.db, class, name, key: key.to_vec() });
    }

    /// `change` keys more in the database.
    pub fn count(&mut self, change: i64) {
        if change == 0 {
            return;
        }
        match self.counted.iter_mut().find(|(db, _)| *db == self.db) {
            Some((_, sum)) => *sum += change,
            None => self.counted.push((self.db, change)),
        }
    }

    /// Keys in the database, with the changes of this transaction.
    pub fn keys(&self) -> i64 {
        let own = self.counted.iter().find(|(db, _)| *db == self.db);
        self.keyspace.count_of(self.db) + own.map_or(0, |(_, sum)| *sum)
    }

    /// Forgets everything that was to be written.
    pub fn forget(&mut self) {
        self.writes.clear();
        self.cleared.clear();
        self.events.clear();
        self.counted.clear();
    }

    /// Writes everything at once. Returns what happened to which keys, and whether anything was
    /// written. Suspends.
    ///
    /// # Errors
    /// Of the engine; then nothing was written.
    pub fn commit(&mut self) -> Outcome<Vec<Event>> {
        if !self.is_clean() {
            let bytes: usize = self
                .writes
                .iter()
                .map(|(k, v)| k.len() + v.as_ref().map_or(0, Vec::len) + 12)
                .sum();
            let mut batch = WriteBatch::with_capacity(bytes + 32);
            self.cleared.iter().for_each(|(first, end)| batch.delete_range(first, end));
            for (key, value) in &self.writes {
                match value {
                    Some(value) => batch.put(key, value),
                    None => batch.delete(key),
                }
            }
            self.keyspace.db.write(&WriteOptions::default(), &mut batch)?;
            self.keyspace.wrote();
        }
        self.counted.iter().for_each(|&(db, sum)| self.keyspace.add_count(db, sum));
        let events = std::mem::take(&mut self.events);
        self.forget();
        Ok(events)
    }
}

fn step(cursor: &mut DbIterator, backwards: bool) {
    if backwards { cursor.prev() } else { cursor.next() }
}

/// How a walk goes on.
pub enum Flow {
    /// With the next key.
    Next,
    /// Not at all.
    Stop,
    /// With this key, or the next one there is.
    Leap(Vec<u8>),
}

/// The overlay's part of a walk.
struct Own<'t> {
    rest: Range<'t, Vec<u8>, Option<Vec<u8>>>,
    backwards: bool,
    next: Option<(&'t [u8], Option<&'t [u8]>)>,
}

impl<'t> Own<'t> {
    fn new(
        writes: &'t BTreeMap<Vec<u8>, Option<Vec<u8>>>,
        first: &[u8],
        end: &[u8],
        backwards: bool,
    ) -> Own<'t> {
        let inside = (Bound::Included(first), Bound::Excluded(end));
        let mut own = Own { rest: writes.range::<[u8], _>(inside), backwards, next: None };
        own.advance();
        own
    }

    fn advance(&mut self) {
        let next = if self.backwards { self.rest.next_back() } else { self.rest.next() };
        self.next = next.map(|(key, value)| (key.as_slice(), value.as_deref()));
    }
}
