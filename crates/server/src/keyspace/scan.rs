//! Iterates over all keys of a database, or all elements of a collection, in steps.
//!
//! A client holds a cursor, a number, between steps. It encodes the key after which to continue:
//! the key's slot and a hash of its name, so it stays valid across restarts. The server also
//! remembers where recent cursors continue and seeks straight there; for an unknown cursor it scans
//! the slot (or the collection) for a name with that hash, and restarts it if that name is gone. So
//! a key that exists throughout is seen at least once, as Redis promises.
//!
//! What is remembered is the shortest name after the last one that was returned which is not after
//! the next one: short also where names are long, unless they begin alike.
//!
//! Thread safety: [`Places`] may be shared. Steps suspend.

use std::collections::{BTreeMap, VecDeque};

use pumice_port::sync::Mutex;

use super::encoding::{self, Collection, Head, Place, name_of, place, records_of};
use super::slot::SLOTS;
use super::txn::Txn;
use super::walk::Flow;
use super::{Failure, Outcome, data_end};

/// Places that are remembered, and bytes of them; the newest one is, whatever its length.
const PLACES: usize = 10_000;
const PLACES_BYTES: usize = 16 << 20;
/// Bits of a number that are the hash, for keys; the slot is above.
const HASH_BITS: u32 = 48;

/// Called for each key with its slot, its name, and its header unless it is expired. Returns
/// whether to continue.
type EachKey<'f> = dyn FnMut(u16, &[u8], Option<&Head>) -> bool + 'f;
/// What is iterated: a database or a collection.
type Space = (u8, u64);

/// Where recent cursors continue.
#[derive(Default)]
pub struct Places(Mutex<Remembered>);

#[derive(Default)]
struct Remembered {
    names: BTreeMap<(Space, u64), Vec<u8>>,
    oldest: VecDeque<(Space, u64)>,
    bytes: usize,
}

impl Places {
    /// Forgets all places: cursors stay valid.
    pub fn forget(&self) {
        *self.0.lock() = Remembered::default();
    }

    fn remember(&self, space: Space, number: u64, name: Vec<u8>) {
        let mut places = self.0.lock();
        places.bytes += name.len();
        match places.names.insert((space, number), name) {
            Some(old) => places.bytes -= old.len(),
            None => places.oldest.push_back((space, number)),
        }
        while places.oldest.len() > PLACES || places.bytes > PLACES_BYTES && places.oldest.len() > 1
        {
            let Some(oldest) = places.oldest.pop_front() else { break };
            places.bytes -= places.names.remove(&oldest).map_or(0, |name| name.len());
        }
    }

    /// The elements of one generation are going to be in another: walks go on there.
    pub(super) fn follow(&self, db: u8, from: u64, to: u64) {
        let (first, last) = (((db, from), 0), ((db, from), u64::MAX));
        let places = self.0.lock();
        let found: Vec<_> = places.names.range(first..=last).collect();
        let found: Vec<_> = found.iter().map(|(at, name)| (at.1, name.to_vec())).collect();
        drop(places);
        found.into_iter().for_each(|(number, name)| self.remember((db, to), number, name));
    }

    fn recall(&self, space: Space, number: u64) -> Option<Vec<u8>> {
        self.0.lock().names.get(&(space, number)).cloned()
    }
}

/// The shortest name that is after `last` and not after `next`.
fn between(last: &[u8], next: &[u8]) -> Vec<u8> {
    let same = last.iter().zip(next).take_while(|(one, two)| one == two).count();
    next[..next.len().min(same + 1)].to_vec()
}

/// A hash that never changes and is never zero.
fn hash(name: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for &byte in name {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash ^= hash >> 29;
    hash = hash.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (hash ^ hash >> 32) | 1
}

fn number_of_key(slot: u16, key: &[u8]) -> u64 {
    u64::from(slot) << HASH_BITS | (hash(key) & ((1 << HASH_BITS) - 1))
}

/// The smallest key that sorts after `key`.
fn after(mut key: Vec<u8>) -> Vec<u8> {
    key.push(0);
    key
}

impl Txn<'_> {
    /// Calls `f` with all keys of the database that are not expired, until it returns false.
    /// Suspends.
    ///
    /// # Errors
    /// The engine's.
    pub fn each_key(&self, f: &mut dyn FnMut(&[u8], &Head) -> bool) -> Outcome<()> {
        self.keys_from(records_of(0, self.stored()), &mut |_, key, head| match head {
            Some(head) => f(key, head),
            None => true,
        })
    }

    /// Calls `f` with every slot in which the database has anything. Suspends.
    ///
    /// # Errors
    /// The engine's.
    pub fn each_slot(&self, f: &mut dyn FnMut(u16)) -> Outcome<()> {
        let db = self.stored();
        let start = |slot: u16| encoding::slot_range(slot, db).0;
        self.roam(&(start(0), data_end()), false, &mut |encoded, _| match place(encoded) {
            Place::Record(slot, own, _) | Place::Element(slot, own) if own < db => {
                Flow::Leap(start(slot))
            }
            Place::Record(slot, own, _) | Place::Element(slot, own) => {
                if own == db {
                    f(slot);
                }
                if slot + 1 == SLOTS { Flow::Stop } else { Flow::Leap(start(slot + 1)) }
            }
            Place::Other => Flow::Stop,
        })
    }

    fn keys_from(&self, from: Vec<u8>, f: &mut EachKey<'_>) -> Outcome<()> {
        let (db, now) = (self.stored(), self.now);
        self.roam(&(from, data_end()), false, &mut |encoded, value| {
            let next_slot = |slot: u16| match slot + 1 {
                SLOTS => Flow::Stop,
                next => Flow::Leap(records_of(next, db)),
            };
            match place(encoded) {
                Place::Record(slot, own, key) if own == db => {
                    let head = Head::read(value).ok().filter(|head| !head.is_expired(now));
                    if f(slot, key, head.as_ref()) { Flow::Next } else { Flow::Stop }
                }
                Place::Record(slot, own, _) if own < db => Flow::Leap(records_of(slot, db)),
                Place::Element(slot, own) if own < db => Flow::Leap(records_of(slot, db)),
                Place::Record(slot, ..) | Place::Element(slot, _) => next_slot(slot),
                Place::Other => Flow::Stop,
            }
        })
    }

    /// One step of an iteration over the database: up to `count` keys are examined, including
    /// expired ones, and the live ones go to `f` until it returns that it cannot take one. Returns
    /// the cursor to continue with, 0 at the end. Suspends.
    ///
    /// # Errors
    /// The engine's; `f` cannot take the first one.
    pub fn scan_keys(
        &self,
        number: u64,
        count: usize,
        f: &mut dyn FnMut(&[u8], &Head) -> bool,
    ) -> Outcome<u64> {
        let from = self.resume_keys(number)?;
        let (mut seen, mut last, mut more) = (0, (0, Vec::new()), false);
        let mut place = None;
        self.keys_from(from, &mut |slot, key, head| {
            more = seen == count || head.is_some_and(|head| !f(key, head));
            if more {
                // In a later slot any name may come first.
                place = (slot == last.0).then(|| between(&last.1, key));
                return false;
            }
            seen += 1;
            last.0 = slot;
            last.1.clear();
            last.1.extend_from_slice(key);
            true
        })?;
        if more && seen == 0 {
            return Err(Failure::TOO_LARGE);
        }
        let Some((slot, key)) = more.then_some(last) else { return Ok(0) };
        let number = number_of_key(slot, &key);
        let place = match place {
            Some(name) => records_of(slot, self.stored()).into_iter().chain(name).collect(),
            None => records_of(slot + 1, self.stored()),
        };
        self.keyspace().places.remember((self.stored(), 0), number, place);
        Ok(number)
    }

    /// The engine key at which the iteration continues.
    fn resume_keys(&self, number: u64) -> Outcome<Vec<u8>> {
        let first = (number >> HASH_BITS) as u16;
        if number == 0 || first >= SLOTS {
            return Ok(records_of(0, self.stored()));
        }
        if let Some(place) = self.keyspace().places.recall((self.stored(), 0), number) {
            return Ok(place);
        }
        let mut found = None;
        self.keys_from(records_of(first, self.stored()), &mut |slot, key, _| {
            if slot == first && number_of_key(slot, key) == number {
                found = Some(encoding::record_key(self.stored(), key));
            }
            slot == first && found.is_none()
        })?;
        Ok(found.map_or_else(|| records_of(first, self.stored()), after))
    }

    /// As [`Txn::scan_keys`], over the elements of a collection by name; `f` gets name and value.
    ///
    /// # Errors
    /// The engine's.
    pub fn scan_elements(
        &self,
        collection: &Collection,
        number: u64,
        count: usize,
        f: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Outcome<u64> {
        let space = (self.stored(), collection.generation);
        let (mut from, end) = collection.part(encoding::BY_NAME);
        if number != 0 {
            match self.keyspace().places.recall(space, number) {
                Some(name) => from = collection.element(encoding::BY_NAME, &name),
                None => {
                    let mut found = None;
                    self.pass(&(from.clone(), end.clone()), false, &mut |key, _| {
                        if hash(name_of(key)) == number {
                            found = Some(key.to_vec());
                        }
                        found.is_none()
                    })?;
                    from = found.map_or(from, after);
                }
            }
        }
        let (mut seen, mut last, mut place) = (0, None::<Vec<u8>>, None);
        self.walk(&(from, end), false, &mut |key, value| {
            let name = name_of(key);
            if let Some(last) = &last {
                place = Some(between(last, name));
                return false;
            }
            f(name, value);
            seen += 1;
            if seen == count {
                last = Some(name.to_vec());
            }
            true
        })?;
        let (Some(name), Some(place)) = (last, place) else { return Ok(0) };
        let number = hash(&name);
        self.keyspace().places.remember(space, number, place);
        Ok(number)
    }

    /// A random key of the database, determined by `seed`. Suspends.
    ///
    /// # Errors
    /// The engine's.
    pub fn any_key(&self, seed: u64) -> Outcome<Option<Vec<u8>>> {
        const NEIGHBOURS: u64 = 16;
        let start = (seed >> 32) as u16 % SLOTS;
        let mut found = Vec::new();
        for from in [start, 0] {
            self.keys_from(records_of(from, self.stored()), &mut |_, key, head| {
                found.extend(head.map(|_| key.to_vec()));
                (found.len() as u64) < NEIGHBOURS
            })?;
            if !found.is_empty() {
                break;
            }
        }
        let at = (seed & 0xffff_ffff) as usize % found.len().max(1);
        Ok(found.into_iter().nth(at))
    }
}
