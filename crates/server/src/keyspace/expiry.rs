//! Expired keys: found on access, by looking for them and by compactions, deleted through the
//! ordinary path.
//!
//! [`Keyspace::expire`] looks for them. Keys are not in the order in which they expire, and an
//! index of them would cost each write of one; instead there is a time for each slot before which
//! none of its keys expires. A slot that is due is scanned, at most as many keys at a time as the
//! caller allows. If a slot has had few expired keys it is left alone for a time that grows with
//! its keys, so that keys without an expiry do not cost more than a share of a processor.
//!
//! A compaction sees every record that it rewrites. It reports expired records but keeps them:
//! their deletion has to delete their elements, be counted and be published to subscribers, which
//! only the ordinary path does ([`super::Keyspace::reap`]). The queue is bounded; a key that finds
//! no room is found later.
//!
//! Invariant: the time of a slot is noted once the write of the key is readable, and a scan forgets
//! it before it begins to read: so no key is between the two.
//!
//! Thread safety: everything may be shared. Callers pass the time in.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pumice::{
    CompactionFilter, CompactionFilterContext, CompactionFilterFactory, DbIterator, FilterDecision,
    ReadOptions,
};
use pumice_port::sync::Mutex;

use super::database::cursor_between;
use super::encoding::{self, Head, Place, place};
use super::generations::{Graves, Marked};
use super::slot::SLOTS;
use super::txn::{Event, Txn};
use super::{Failure, Keyspace, Outcome, data_end};

/// Maximum number of reports, and their bytes.
const QUEUE_KEYS: usize = 100_000;
const QUEUE_BYTES: usize = 16 << 20;

/// Keys that were seen to be expired.
#[derive(Default)]
pub struct ExpiredKeys {
    /// The latest time passed in, milliseconds since 1970.
    now: AtomicU64,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    keys: VecDeque<(u8, Vec<u8>)>,
    bytes: usize,
}

impl ExpiredKeys {
    /// None yet.
    pub fn new() -> Arc<ExpiredKeys> {
        Arc::default()
    }
    /// Records that the time is `now`.
    pub fn saw(&self, now: u64) {
        if self.now.load(Ordering::Relaxed) < now {
            self.now.store(now, Ordering::Relaxed);
        }
    }
    /// Reports that this key of a stored database is expired.
    pub fn report(&self, db: u8, key: &[u8]) {
        let mut queue = self.queue.lock();
        if queue.keys.len() < QUEUE_KEYS && queue.bytes + key.len() <= QUEUE_BYTES {
            queue.keys.push_back((db, key.to_vec()));
            queue.bytes += key.len();
        }
    }
    /// One of the reported keys.
    pub fn take(&self) -> Option<(u8, Vec<u8>)> {
        let mut queue = self.queue.lock();
        let taken = queue.keys.pop_front()?;
        queue.bytes -= taken.1.len();
        Some(taken)
    }
}

/// Makes what compactions call. Flushes are not filtered: they would write deletions.
pub(super) struct Filters {
    pub(super) expired: Arc<ExpiredKeys>,
    pub(super) graves: Arc<Graves>,
}

impl CompactionFilterFactory for Filters {
    fn name(&self) -> &str {
        "pumice.ExpiryFilter"
    }
    fn create_compaction_filter(
        &self,
        _: &CompactionFilterContext,
    ) -> Option<Arc<dyn CompactionFilter>> {
        let (expired, marked) = (Arc::clone(&self.expired), Marked::of(&self.graves));
        Some(Arc::new(Filter { expired, marked }))
    }
}

struct Filter {
    expired: Arc<ExpiredKeys>,
    marked: Marked,
}

impl CompactionFilter for Filter {
    fn name(&self) -> &str {
        "pumice.ExpiryFilter"
    }
    fn filter(&self, _level: i32, key: &[u8], value: &[u8]) -> FilterDecision {
        match place(key) {
            Place::Element(..) if self.marked.has(key) => return FilterDecision::Remove,
            Place::Record(_, db, name) if value.first().is_some_and(|tag| tag & 0x80 != 0) => {
                let now = self.expired.now.load(Ordering::Relaxed);
                if Head::read(value).is_ok_and(|head| head.is_expired(now)) {
                    self.expired.report(db, name);
                }
            }
            _ => {}
        }
        FilterDecision::Keep
    }
}

/// Keys that are found, and slots that are scanned, until deletions begin.
const FOUND_MAX: usize = 1000;
const SLOTS_AT_ONCE: usize = 256;
/// Keys that are deleted by one write, and bytes of them.
const TOGETHER: usize = 64;
const TOGETHER_BYTES: usize = 64 << 10;
/// How long a slot is left alone for each of its keys, and at most.
const REST_MILLIS: u64 = 20;
const REST_MILLIS_MAX: u64 = 30_000;
const NEVER: u64 = u64::MAX;

/// Keys of stored databases.
type Keys = Vec<(u8, Vec<u8>)>;

/// When keys expire.
pub(super) struct Due {
    /// For each slot, a time before which no key expires; 0: unknown.
    slots: Vec<AtomicU64>,
    /// None while somebody looks.
    scan: Mutex<Option<Scan>>,
}

/// Where looking for expired keys is.
struct Scan {
    /// The next slot.
    slot: u16,
    /// When each slot may be scanned again.
    rests: Vec<u64>,
    /// Within a slot: the slot, the key to go on with, what is known of those before.
    within: Option<(u16, Vec<u8>, Seen)>,
}

/// What a scan has seen of a slot.
#[derive(Clone, Copy)]
struct Seen {
    keys: u64,
    expired: u64,
    /// The first time at which another expires.
    next: u64,
}

impl Default for Due {
    /// No key expires.
    fn default() -> Due {
        let slots = usize::from(SLOTS);
        Due {
            slots: (0..slots).map(|_| AtomicU64::new(NEVER)).collect(),
            scan: Mutex::new(Some(Scan { slot: 0, rests: vec![0; slots], within: None })),
        }
    }
}

impl Due {
    /// A key of the slot expires then, unless it is 0.
    pub(super) fn note(&self, slot: u16, expires: u64) {
        if expires != 0 {
            self.slots[usize::from(slot)].fetch_min(expires, Ordering::SeqCst);
        }
    }

    /// Keys expire, and nobody knows where.
    pub(super) fn forget(&self) {
        self.slots.iter().for_each(|slot| slot.store(0, Ordering::SeqCst));
    }

    /// Slots in which keys may have expired; from now on they count as scanned.
    fn take(&self, scan: &mut Scan, now: u64) -> Vec<u16> {
        let mut taken = Vec::new();
        for _ in 0..SLOTS {
            let slot = scan.slot;
            scan.slot = (slot + 1) % SLOTS;
            let at = usize::from(slot);
            if scan.rests[at] <= now && self.slots[at].load(Ordering::SeqCst) <= now {
                self.slots[at].store(NEVER, Ordering::SeqCst);
                taken.push(slot);
                if taken.len() == SLOTS_AT_ONCE {
                    break;
                }
            }
        }
        taken.sort_unstable();
        taken
    }
}

/// What a round of [`Keyspace::expire`] has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// Keys that it deleted.
    pub deleted: usize,
    /// There may be more.
    pub is_behind: bool,
}

impl Keyspace {
    /// Looks for keys that have expired, at about `keys_max` keys, deletes them, and calls `notify`
    /// with what happened under the locks of the keys. Suspends.
    ///
    /// # Errors
    /// The engine's; then it looks at the same slots again.
    pub fn expire(&self, now: u64, keys_max: usize, notify: impl Fn(&[Event])) -> Outcome<Round> {
        self.expired.saw(now);
        let taken = self.due.scan.lock().take();
        // Somebody else is at it.
        let Some(mut scan) = taken else { return Ok(Round::default()) };
        let looked = self.look_around(&mut scan, now, keys_max);
        *self.due.scan.lock() = Some(scan);
        let (found, is_behind) = looked?;
        let deleted = self.delete_expired(found, now, notify)?;
        Ok(Round { deleted, is_behind })
    }

    /// Looks at slots that are due. Returns the keys that have expired, and whether there may be
    /// more.
    fn look_around(
        &self,
        scan: &mut Scan,
        now: u64,
        keys_max: usize,
    ) -> pumice::Result<(Keys, bool)> {
        let (mut found, mut seen) = (Keys::new(), 0);
        let mut slots = VecDeque::from(self.due.take(scan, now));
        let mut part = scan.within.take();
        if slots.is_empty() && part.is_none() {
            return Ok((found, false));
        }
        let begun: Vec<u16> = slots.iter().copied().chain(part.as_ref().map(|at| at.0)).collect();
        let again = |error: pumice::Error| {
            begun.iter().for_each(|slot| self.due.note(*slot, now));
            error
        };
        let cursor = cursor_between(&self.db, &ReadOptions::DEFAULT, b"", &data_end());
        let mut cursor = cursor.map_err(again)?;
        while seen < keys_max && found.len() < FOUND_MAX {
            let (slot, from, before) = match part.take() {
                Some(part) => part,
                None => {
                    let Some(slot) = slots.pop_front() else { break };
                    let first = encoding::slot_range(slot, 0).0;
                    (slot, first, Seen { keys: 0, expired: 0, next: NEVER })
                }
            };
            let most = (keys_max - seen) as u64;
            let (after, rest) = look(&mut cursor, (slot, from), before, (now, most), &mut found);
            seen += (after.keys - before.keys) as usize + 1;
            match rest {
                Some(key) => part = Some((slot, key, after)),
                None => self.rest(scan, slot, after, now),
            }
        }
        cursor.status().map_err(again)?;
        slots.iter().for_each(|slot| self.due.note(*slot, now));
        let is_behind = part.is_some() || !slots.is_empty() || found.len() >= FOUND_MAX;
        scan.within = part;
        Ok((found, is_behind))
    }

    /// A slot has been scanned.
    fn rest(&self, scan: &mut Scan, slot: u16, seen: Seen, now: u64) {
        self.due.note(slot, seen.next);
        let millis = (seen.keys * REST_MILLIS).min(REST_MILLIS_MAX);
        let had_many = seen.expired * 4 >= seen.keys;
        scan.rests[usize::from(slot)] = if had_many { now } else { now + millis };
    }

    /// Deletes up to `keys_max` keys that were reported as expired, and calls `notify` with what
    /// happened under the locks of the keys. Returns how many it deleted. Suspends.
    ///
    /// # Errors
    /// The engine's.
    pub fn reap(&self, now: u64, keys_max: usize, notify: impl Fn(&[Event])) -> Outcome<usize> {
        let reported = std::iter::from_fn(|| self.expired.take()).take(keys_max).collect();
        self.delete_expired(reported, now, notify)
    }

    /// Deletes those of these keys that have expired.
    fn delete_expired(&self, keys: Keys, now: u64, notify: impl Fn(&[Event])) -> Outcome<usize> {
        let (mut deleted, mut rest) = (0, &keys[..]);
        while let Some((db, _)) = rest.first() {
            let mut bytes = 0;
            let fits = |(own, key): &&(u8, Vec<u8>)| {
                bytes += key.len();
                own == db && (bytes <= TOGETHER_BYTES || bytes == key.len())
            };
            let count = rest.iter().take(TOGETHER).take_while(fits).count().max(1);
            let (some, others) = rest.split_at(count);
            rest = others;
            deleted += match self.delete_together(some, now, &notify) {
                // More elements than may be written at once.
                Err(Failure::Error(_)) if count > 1 => {
                    let one = |key| self.delete_together(std::slice::from_ref(key), now, &notify);
                    // One that cannot be deleted keeps nobody from deleting the others.
                    let each = some.iter().map(|key| match one(key) {
                        Err(Failure::Error(_)) => Ok(0),
                        deleted => deleted,
                    });
                    each.sum::<Outcome<usize>>()?
                }
                Err(Failure::Error(_)) => 0,
                Err(failure) => {
                    keys.iter().for_each(|(_, key)| {
                        self.due.note(super::slot::slot_of(key), now);
                    });
                    return Err(failure);
                }
                Ok(deleted) => deleted,
            };
        }
        Ok(deleted)
    }

    /// Deletes those of these keys of one stored database that have expired.
    fn delete_together(
        &self,
        keys: &[(u8, Vec<u8>)],
        now: u64,
        notify: impl Fn(&[Event]),
    ) -> Outcome<usize> {
        let held = self.locks.many(keys.iter().map(|(_, key)| key.as_slice()));
        let mut txn = Txn::write(self, self.databases.number_of(keys[0].0), now);
        for (_, key) in keys {
            txn.find(key)?;
        }
        let events = txn.commit()?;
        notify(&events);
        drop(held);
        Ok(events.len())
    }
}

/// Scans a slot from a key on, at most `most` keys of it, and adds those that have expired to
/// `found`. Returns what is known of the slot then, and the key to go on with, if it has more.
fn look(
    cursor: &mut DbIterator,
    (slot, from): (u16, Vec<u8>),
    mut seen: Seen,
    (now, most): (u64, u64),
    found: &mut Keys,
) -> (Seen, Option<Vec<u8>>) {
    let keys_max = seen.keys + most;
    cursor.seek(&from);
    while cursor.valid() {
        match place(cursor.key().unwrap_or_default()) {
            Place::Record(own, db, key) if own == slot => {
                if seen.keys >= keys_max || found.len() >= FOUND_MAX {
                    return (seen, Some(cursor.key().unwrap_or_default().to_vec()));
                }
                seen.keys += 1;
                // What cannot be read has no time.
                match Head::read(cursor.value().unwrap_or_default()).map_or(0, |head| head.expires)
                {
                    0 => {}
                    expires if expires <= now => {
                        seen.expired += 1;
                        found.push((db, key.to_vec()));
                    }
                    expires => seen.next = seen.next.min(expires),
                }
                cursor.next();
            }
            // The end after all elements of this slot and database.
            Place::Element(own, db) if own == slot => {
                let end = encoding::slot_range(slot, db).1;
                cursor.seek(&end);
            }
            _ => break,
        }
    }
    (seen, None)
}
