//! How Redis's data is encoded in the engine's keys and values. The page docs/server_encoding.md is
//! the contract; the encoding can never change, only be extended under a new layout number.
//!
//! ```text
//! record   slot:2 db:1 01 key                       -> tag:1 [expires:8] body
//! element  slot:2 db:1 02 generation:8 part:1 name  -> value
//! system   ff ff name                               -> value
//! ```
//!
//! All numbers are big-endian. Tag: bits 0-3 the type, bits 4-6 the layout, bit 7 that the time of
//! expiry (milliseconds since 1970) follows. A collection's body is `generation:8 count:8`, a
//! list's also `head:8`. A generation is never reused for another collection, so a deleted
//! collection's elements can stay until later, and nothing can reappear.
//!
//! In layout 1 a hash, set or sorted set has `removed:4 len:1 front len:1 back` after these: how
//! many of its generation's elements were removed, and bounds of the names of those that are left
//! (see [`Collection::part`]), so that nothing walks over what was removed at its ends.
//!
//! Thread safety: pure functions and plain values.

use super::Failure;
use super::slot::slot_of;

/// Marks records and elements, after slot and database.
const RECORD: u8 = 1;
const ELEMENT: u8 = 2;
/// Every data key sorts below it, every system key begins with it.
pub const SYSTEM: [u8; 2] = [0xff, 0xff];
/// What marks of dead generations begin with.
pub const DEAD: &[u8] = b"\xff\xffdead:";

const HAS_EXPIRY: u8 = 0x80;
const LAYOUT_BITS: u8 = 0x70;
const LAYOUT_SHIFT: u32 = 4;
/// The layout of collections with bounds.
const BOUNDED: u8 = 1;
/// The most bytes of a bound.
const BOUND_BYTES: usize = 64;

/// The part of a collection's elements: by name (member, field, place), or by score.
pub const BY_NAME: u8 = 1;
/// See [`BY_NAME`].
pub const BY_SCORE: u8 = 2;

/// Bytes in front of the user's key in a record's key.
pub const RECORD_PREFIX_BYTES: usize = 4;
/// Bytes in front of the part of an element's key.
const ELEMENT_PREFIX_BYTES: usize = 12;

/// The types of Redis's values. The numbers are on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A string.
    String = 0,
    /// A hash: fields with values.
    Hash = 1,
    /// A set.
    Set = 2,
    /// A list.
    List = 3,
    /// A sorted set.
    SortedSet = 4,
}

impl Kind {
    /// The reply of TYPE.
    pub fn name(self) -> &'static str {
        match self {
            Kind::String => "string",
            Kind::Hash => "hash",
            Kind::Set => "set",
            Kind::List => "list",
            Kind::SortedSet => "zset",
        }
    }
}

/// The key of a record.
pub fn record_key(db: u8, key: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::with_capacity(RECORD_PREFIX_BYTES + key.len());
    push_record_key(&mut encoded, db, key);
    encoded
}

/// Appends [`record_key`] to `encoded`.
pub(super) fn push_record_key(encoded: &mut Vec<u8>, db: u8, key: &[u8]) {
    encoded.extend_from_slice(&slot_of(key).to_be_bytes());
    encoded.extend_from_slice(&[db, RECORD]);
    encoded.extend_from_slice(key);
}

/// The first key a record of `slot` in `db` can have.
pub fn records_of(slot: u16, db: u8) -> Vec<u8> {
    let mut encoded = slot.to_be_bytes().to_vec();
    encoded.extend_from_slice(&[db, RECORD]);
    encoded
}

/// All keys of `slot` in `db`: the first, and the end after the last.
pub fn slot_range(slot: u16, db: u8) -> (Vec<u8>, Vec<u8>) {
    let first = [&slot.to_be_bytes()[..], &[db]].concat();
    let mut end = first.clone();
    match db.checked_add(1) {
        Some(next) => end[2] = next,
        None => end = (slot + 1).to_be_bytes().to_vec(),
    }
    (first, end)
}

/// The mark of a generation of `slot` in `db` whose elements can go.
pub fn dead_key(dead: &Dead) -> Vec<u8> {
    let mut encoded = DEAD.to_vec();
    encoded.extend_from_slice(&dead.slot.to_be_bytes());
    encoded.push(dead.db);
    encoded.extend_from_slice(&dead.generation.to_be_bytes());
    encoded
}

/// The generation that a mark names.
pub fn dead_of(encoded: &[u8]) -> Option<Dead> {
    let rest = encoded.strip_prefix(DEAD)?;
    let [high, low, db, generation @ ..] = rest else { return None };
    let generation = u64::from_be_bytes(generation.try_into().ok()?);
    Some(Dead { slot: u16::from_be_bytes([*high, *low]), db: *db, generation })
}

/// A generation whose collection is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dead {
    /// The slot of its key.
    pub slot: u16,
    /// The stored database.
    pub db: u8,
    /// The collection's number.
    pub generation: u64,
}

impl Dead {
    /// Where its elements begin, and where those of any later generation do.
    pub fn range(&self) -> (Vec<u8>, Vec<u8>) {
        let of = |generation: u64| {
            let (slot, generation) = (self.slot.to_be_bytes(), generation.to_be_bytes());
            [&slot[..], &[self.db, ELEMENT], &generation].concat()
        };
        (of(self.generation), of(self.generation + 1))
    }
}

/// The generation of an element.
pub fn generation_of(element: &[u8]) -> Option<u64> {
    number(element, ELEMENT_PREFIX_BYTES - 8)
}

/// What an engine key is.
#[derive(Debug, PartialEq, Eq)]
pub enum Place<'a> {
    /// A record of this slot and database.
    Record(u16, u8, &'a [u8]),
    /// An element of a collection in this slot and database.
    Element(u16, u8),
    /// Neither.
    Other,
}

/// Splits an engine key into its parts.
pub fn place(encoded: &[u8]) -> Place<'_> {
    let [high, low, db, mark, rest @ ..] = encoded else { return Place::Other };
    let slot = u16::from_be_bytes([*high, *low]);
    match *mark {
        _ if slot >= super::slot::SLOTS => Place::Other,
        RECORD => Place::Record(slot, *db, rest),
        ELEMENT => Place::Element(slot, *db),
        _ => Place::Other,
    }
}

/// A record's value without its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The type.
    pub kind: Kind,
    /// Milliseconds since 1970, or 0 for never.
    pub expires: u64,
    /// Where the body begins.
    pub body: usize,
    /// The layout of the body.
    layout: u8,
}

impl Head {
    /// Decodes the header of a record's value.
    ///
    /// # Errors
    /// A type or layout that this version does not know, or damage.
    pub fn read(value: &[u8]) -> Result<Head, Failure> {
        let bad = |what: &str| {
            Failure::Error(format!("ERR unreadable record: {what}").into_bytes().into())
        };
        let &tag = value.first().ok_or_else(|| bad("empty"))?;
        let layout = (tag & LAYOUT_BITS) >> LAYOUT_SHIFT;
        if layout > BOUNDED {
            return Err(bad("written in a newer layout"));
        }
        let kind = match tag & 0x0f {
            0 => Kind::String,
            1 => Kind::Hash,
            2 => Kind::Set,
            3 => Kind::List,
            4 => Kind::SortedSet,
            _ => return Err(bad("its type is from a newer version")),
        };
        let has_expiry = tag & HAS_EXPIRY != 0;
        let expires = if has_expiry { number(value, 1).ok_or_else(|| bad("cut off"))? } else { 0 };
        let body = if has_expiry { 9 } else { 1 };
        let least = match (kind, layout) {
            (Kind::String, 0) => 0,
            (Kind::List, 0) => 24,
            (Kind::String | Kind::List, _) => return Err(bad("written in a newer layout")),
            (_, 0) => 16,
            (_, _) => 22,
        };
        if value.len() < body + least {
            return Err(bad("cut off"));
        }
        if layout == BOUNDED && bounds(&value[body + 20..]).is_none() {
            return Err(bad("its bounds are damaged"));
        }
        Ok(Head { kind, expires, body, layout })
    }

    /// The record's value with another time of expiry.
    pub fn with_expiry(&self, value: &[u8], expires: u64) -> Vec<u8> {
        let mut changed = record_value(self.kind, expires, &[&value[self.body..]]);
        changed[0] |= self.layout << LAYOUT_SHIFT;
        changed
    }

    /// The key has expired at `now`.
    pub fn is_expired(&self, now: u64) -> bool {
        self.expires != 0 && self.expires <= now
    }
}

/// The value of a record.
pub fn record_value(kind: Kind, expires: u64, body: &[&[u8]]) -> Vec<u8> {
    let mut value = Vec::with_capacity(9 + body.iter().map(|part| part.len()).sum::<usize>());
    push_record_value(&mut value, kind, expires, body);
    value
}

/// Appends [`record_value`] to `value`.
pub(super) fn push_record_value(value: &mut Vec<u8>, kind: Kind, expires: u64, body: &[&[u8]]) {
    if expires == 0 {
        value.push(kind as u8);
    } else {
        value.push(kind as u8 | HAS_EXPIRY);
        value.extend_from_slice(&expires.to_be_bytes());
    }
    body.iter().for_each(|part| value.extend_from_slice(part));
}

/// The two bounds of a collection in layout 1.
fn bounds(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&len, rest) = bytes.split_first()?;
    let (front, rest) = rest.split_at_checked(usize::from(len))?;
    let (&len, rest) = rest.split_first()?;
    let (back, rest) = rest.split_at_checked(usize::from(len))?;
    rest.is_empty().then_some((front, back))
}

/// Eight bytes at `at`.
fn number(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// A collection, as stored in its record and changed by a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collection {
    /// The collection's type.
    pub kind: Kind,
    /// As [`Head::expires`].
    pub expires: u64,
    /// The generation, the prefix of its elements' keys.
    pub generation: u64,
    /// Elements.
    pub count: u64,
    /// Position of a list's first element; the others follow it one by one.
    pub head: i64,
    /// The collection has a record.
    pub stored: bool,
    /// How many elements were removed from this generation, or written anew under another name.
    pub removed: u32,
    /// What `removed` was in the record.
    removed_before: u32,
    /// No element of the [ordered part](Collection::ordered) has a name before it.
    front: Vec<u8>,
    /// Such elements have names before it; empty: any names.
    back: Vec<u8>,
    /// The prefix of its elements' keys.
    prefix: [u8; ELEMENT_PREFIX_BYTES],
}

impl Collection {
    /// A new one, empty.
    pub fn new(db: u8, key: &[u8], kind: Kind, generation: u64) -> Collection {
        let mut prefix = [0; ELEMENT_PREFIX_BYTES];
        prefix[..2].copy_from_slice(&slot_of(key).to_be_bytes());
        prefix[2..4].copy_from_slice(&[db, ELEMENT]);
        prefix[4..].copy_from_slice(&generation.to_be_bytes());
        Collection {
            kind,
            expires: 0,
            generation,
            count: 0,
            head: 0,
            stored: false,
            removed: 0,
            removed_before: 0,
            front: Vec::new(),
            back: Vec::new(),
            prefix,
        }
    }

    /// The one that a record describes.
    pub fn read(db: u8, key: &[u8], head: &Head, value: &[u8]) -> Collection {
        let part = |i: usize| number(value, head.body + 8 * i).unwrap_or(0);
        let mut collection = Collection::new(db, key, head.kind, part(0));
        collection.count = part(1);
        collection.expires = head.expires;
        collection.stored = true;
        if head.kind == Kind::List {
            collection.head = place_from(part(2));
        }
        if head.layout == BOUNDED
            && let Some((removed, rest)) = value[head.body + 16..].split_first_chunk()
            && let Some((front, back)) = bounds(rest)
        {
            collection.removed = u32::from_be_bytes(*removed);
            collection.removed_before = collection.removed;
            (collection.front, collection.back) = (front.to_vec(), back.to_vec());
        }
        collection
    }

    /// The value of its record.
    pub fn value(&self) -> Vec<u8> {
        let (generation, count) = (self.generation.to_be_bytes(), self.count.to_be_bytes());
        let head = place_number(self.head).to_be_bytes();
        if self.kind == Kind::List || self.removed == 0 {
            let parts = [&generation[..], &count, &head];
            let len = if self.kind == Kind::List { 3 } else { 2 };
            return record_value(self.kind, self.expires, &parts[..len]);
        }
        let lens = [&self.front, &self.back].map(|bound| [bound.len() as u8]);
        let removed = self.removed.to_be_bytes();
        let parts =
            [&generation[..], &count, &removed, &lens[0], &self.front, &lens[1], &self.back];
        let mut value = record_value(self.kind, self.expires, &parts);
        value[0] |= BOUNDED << LAYOUT_SHIFT;
        value
    }

    /// The collection's generation, to be marked when it is gone.
    pub fn as_dead(&self) -> Dead {
        let slot = u16::from_be_bytes([self.prefix[0], self.prefix[1]]);
        Dead { slot, db: self.prefix[2], generation: self.generation }
    }

    /// The part whose names have bounds: the one in the order of which elements are taken.
    pub fn ordered(&self) -> u8 {
        if self.kind == Kind::SortedSet { BY_SCORE } else { BY_NAME }
    }

    /// An element is going to be written: the bounds include it.
    pub(super) fn include(&mut self, element: &[u8]) {
        if self.removed == 0 || element.get(ELEMENT_PREFIX_BYTES) != Some(&self.ordered()) {
            return;
        }
        let name = name_of(element);
        if name < self.front.as_slice() {
            self.front = name[..name.len().min(BOUND_BYTES)].to_vec();
        }
        if name >= self.back.as_slice() {
            self.back.clear();
        }
    }

    /// The first and the last element of the [ordered part](Collection::ordered): the bounds
    /// exclude what lies before and after them.
    pub(super) fn bound(&mut self, first: &[u8], last: &[u8]) {
        let (first, last) = (name_of(first), name_of(last));
        self.front = first[..first.len().min(BOUND_BYTES)].to_vec();
        self.back = last[..last.len().min(BOUND_BYTES - 1)].to_vec();
        if self.back.len() == last.len() {
            self.back.push(0);
            return;
        }
        // The next one that does not begin alike.
        while self.back.pop_if(|byte| *byte == u8::MAX).is_some() {}
        if let Some(byte) = self.back.last_mut() {
            *byte += 1;
        }
    }

    /// Counts elements as removed.
    pub fn remove(&mut self, elements: u64) {
        self.count -= elements;
        self.note_removed(elements);
    }

    /// Counts elements as removed that others replace.
    pub fn note_removed(&mut self, elements: u64) {
        let elements = u32::try_from(elements).unwrap_or(u32::MAX);
        self.removed = self.removed.saturating_add(elements);
    }

    /// How many have been removed since multiples of `step` were last reached: at least that many.
    pub(super) fn has_removed(&self, step: u32) -> bool {
        self.removed / step != self.removed_before / step
    }

    /// All elements are about to be written under another generation.
    pub(super) fn renew(&mut self, generation: u64) {
        self.generation = generation;
        self.prefix[4..].copy_from_slice(&generation.to_be_bytes());
        (self.removed, self.removed_before) = (0, 0);
        self.front.clear();
        self.back.clear();
    }

    /// The key of an element.
    pub fn element(&self, part: u8, name: &[u8]) -> Vec<u8> {
        let mut key = Vec::with_capacity(ELEMENT_PREFIX_BYTES + 1 + name.len());
        key.extend_from_slice(&self.prefix);
        key.push(part);
        key.extend_from_slice(name);
        key
    }

    /// The key of a list's element at `index` from its beginning.
    pub fn at(&self, index: u64) -> Vec<u8> {
        let place = self.head.wrapping_add(index as i64);
        self.element(BY_NAME, &place_number(place).to_be_bytes())
    }

    /// The key of a sorted set's element by score.
    pub fn scored(&self, score: f64, member: &[u8]) -> Vec<u8> {
        let mut key = self.element(BY_SCORE, &score_bytes(score));
        key.extend_from_slice(member);
        key
    }

    /// All elements of a part: a key that is not after the first, and one after the last.
    pub fn part(&self, part: u8) -> (Vec<u8>, Vec<u8>) {
        if part != self.ordered() {
            return (self.element(part, b""), self.element(part + 1, b""));
        }
        let end = if self.back.is_empty() { part + 1 } else { part };
        (self.element(part, &self.front), self.element(end, &self.back))
    }

    /// All elements: the first key, and the end after the last.
    pub fn all(&self) -> (Vec<u8>, Vec<u8>) {
        (self.element(0, b""), self.element(0xff, b""))
    }
}

/// The name in an element's key.
pub fn name_of(element: &[u8]) -> &[u8] {
    element.get(ELEMENT_PREFIX_BYTES + 1..).unwrap_or_default()
}

/// Score and member of a key by score.
pub fn scored_of(element: &[u8]) -> (f64, &[u8]) {
    let name = name_of(element);
    let (score, member) = name.split_at(name.len().min(8));
    let score = f64::from_bits(match u64::from_be_bytes(score.try_into().unwrap_or_default()) {
        bits if bits >> 63 == 1 => bits ^ 1 << 63,
        bits => !bits,
    });
    (score, member)
}

/// A score as bytes that sort as numbers do. Both zeros are encoded alike.
pub fn score_bytes(score: f64) -> [u8; 8] {
    let bits = if score == 0.0 { 0 } else { score.to_bits() };
    (if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }).to_be_bytes()
}

/// A list position as a number that sorts.
fn place_number(place: i64) -> u64 {
    (place as u64) ^ 1 << 63
}

fn place_from(number: u64) -> i64 {
    (number ^ 1 << 63) as i64
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    // Plain #[test]: nothing here can suspend.
    #[test]
    fn the_bytes_are_those_of_the_page() {
        // The slot of "foo" is 12182 = 0x2f96.
        assert_eq!(record_key(3, b"foo"), b"\x2f\x96\x03\x01foo");
        assert_eq!(record_value(Kind::String, 0, &[b"v"]), b"\x00v");
        let with_expiry = record_value(Kind::String, 0x0102, &[b"v"]);
        assert_eq!(with_expiry, b"\x80\0\0\0\0\0\0\x01\x02v");
        let mut list = Collection::new(0, b"foo", Kind::List, 7);
        (list.count, list.head) = (2, -1);
        let value = b"\x03\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\x02\x7f\xff\xff\xff\xff\xff\xff\xff";
        assert_eq!(list.value(), value);
        assert_eq!(list.at(1), b"\x2f\x96\0\x02\0\0\0\0\0\0\0\x07\x01\x80\0\0\0\0\0\0\0");
        let head = Head::read(&list.value()).unwrap();
        list.stored = true;
        assert_eq!(Collection::read(0, b"foo", &head, &list.value()), list);
        assert_eq!(place(&record_key(3, b"foo")), Place::Record(12182, 3, b"foo"));
        assert_eq!(place(&list.at(0)), Place::Element(12182, 0));
        assert_eq!(place(b"\xff\xffformat"), Place::Other);
    }

    // Plain #[test]: nothing here can suspend.
    #[test]
    fn scores_sort_as_numbers() {
        let infinity = f64::INFINITY;
        let scores = [-infinity, -1e300, -1.5, -1e-300, 0.0, 1e-300, 1.0, 1.5, 1e300, infinity];
        let set = Collection::new(0, b"k", Kind::SortedSet, 1);
        for pair in scores.windows(2) {
            assert!(score_bytes(pair[0]) < score_bytes(pair[1]), "{pair:?}");
            let key = set.scored(pair[0], b"m");
            assert_eq!(scored_of(&key), (pair[0], &b"m"[..]));
        }
        assert_eq!(score_bytes(0.0), score_bytes(-0.0));
    }

    // Plain #[test]: nothing here can suspend.
    #[test]
    fn damaged_and_newer_records_are_refused() {
        let bounded = [&b"\x12"[..], &[0; 20], b"\x01"].concat();
        for bad in [
            &b""[..],
            b"\x05",
            b"\x10",
            b"\x21",
            b"\x80\0\0",
            b"\x01\0\0",
            b"\x03\0\0\0\0\0\0\0\0",
            &bounded,
            &[&bounded[..], b"a\x02b"].concat(),
            &[&bounded[..], b"a\x01bc"].concat(),
        ] {
            assert!(Head::read(bad).is_err(), "{bad:?}");
        }
        assert!(Head::read(b"\x00").is_ok());
        assert!(Head::read(&[&bounded[..], b"a\x01b"].concat()).is_ok());
    }
}
