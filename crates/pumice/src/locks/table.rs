//! The locks of keys, by column family, in stripes.
//!
//! A stripe is a part of the keys, by their hash: one mutex and the locks of those keys. A lock is
//! held by one holder for itself alone or by several together. Who cannot have it waits in the
//! lock's own queue, so a release wakes only tasks that want this key, and of those one that can
//! have it now (or all, if they can have it together). A task that comes while others wait may get
//! the lock before them.
//!
//! Thread safety: from any task; [`LockTables::lock`] may suspend. Invariants: (1) a lock in a
//! stripe has a holder or a waiter; (2) whenever a lock becomes free for one of its waiters, one
//! that can have it is woken; a woken waiter that leaves without the lock wakes the next; (3) a
//! holder is once in a lock's list; (4) no key in a range has another holder than the range. Lock
//! order: a stripe, then the ranges, then the waits; never two stripes.
//!
//! Ranges of keys can be locked too, by transactions that lock keys beside them: [`RangeLocks`]. A
//! key in another one's range is waited for there, and a range waits in the queue of each key in it
//! that another one holds.
//!
//! Differences from RocksDB's: ranges need no other kind of database, in which keys are ranges too;
//! no time limit for the mutex of a stripe, which is never held while waiting; all locks of an
//! expired holder can be taken, not only the first; a lock shared with a holder that never expires
//! does not expire.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pumice_base::hash::hash64;
use pumice_base::narrow::to_usize;
use pumice_base::order;
use pumice_base::{Comparator, Error, Result, SubCode};
use pumice_port::sync::{Condvar, Mutex, MutexGuard, RwLock};
use pumice_port::time::now_micros;

use crate::lock_order;
use crate::locks::holder::Holder;
use crate::locks::pause::{Blocked, Pause, blocked_by};
use crate::locks::ranges::{Claim, KeyRange, RangeLocks};
use crate::locks::waits::{DeadlockPath, Wait, Waits};

/// The measures of the tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LockOptions {
    /// Most keys locked at a time in a column family.
    pub locks_max: Option<usize>,
    /// Stripes of a column family; 0 is 1.
    pub stripes: usize,
    /// Deadlocks that are remembered.
    pub deadlocks_max: usize,
}

/// A lock that somebody wants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub column_family: u32,
    pub key: &'a [u8],
    /// For itself alone.
    pub exclusive: bool,
    /// How long to wait for it; None for ever.
    pub timeout: Option<Duration>,
    /// Search for deadlocks before waiting, over so many transactions.
    pub deadlock_depth: Option<usize>,
}

/// A lock that is held.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// # let dir = std::env::temp_dir().join(format!("pumice-heldlock-{}", std::process::id()));
/// # let db = pumice::TransactionDb::builder(&dir).create(true).open()?;
/// use pumice::{DeadlockPath, HeldLock, TransactionState, Wait};
/// let transaction = db.transaction();
/// transaction.put("a", "1")?;
/// let locks: Vec<HeldLock> = db.held_locks();
/// assert_eq!((locks[0].key.as_slice(), locks[0].exclusive), (&b"a"[..], true));
/// assert_eq!(locks[0].holders, [transaction.id()]);
/// // Who waits for whom, and who waited in a circle; nobody here.
/// let waits: Vec<Wait> = db.waiting();
/// let circles: Vec<DeadlockPath> = db.deadlocks();
/// assert!(waits.is_empty() && circles.is_empty());
/// transaction.commit()?;
/// assert_eq!(transaction.state(), TransactionState::Committed);
/// assert!(db.held_locks().is_empty());
/// # drop(transaction);
/// # db.db().close()?;
/// # pumice::Db::destroy(&Default::default(), &dir)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldLock {
    /// Column family of the key.
    pub column_family: u32,
    /// The key, or the first one of a range.
    pub key: Vec<u8>,
    /// A range is locked, from `key` to before this one.
    pub end: Option<Vec<u8>>,
    /// Ids of the transactions that hold it.
    pub holders: Vec<u64>,
    /// It is held by one for itself alone.
    pub exclusive: bool,
}

/// See the head of this file.
pub(crate) struct LockTables {
    options: LockOptions,
    /// By id. One that was dropped stays: its locks may still be held and waited for, and ids are
    /// not given out again.
    families: RwLock<BTreeMap<u32, Arc<FamilyLocks>>>,
    waits: Mutex<Waits>,
}

struct FamilyLocks {
    stripes: Box<[Mutex<Stripe>]>,
    ranges: RangeLocks,
    /// Keys with a holder.
    held: AtomicUsize,
}

type Stripe = BTreeMap<Box<[u8]>, Lock>;

#[derive(Default)]
struct Lock {
    exclusive: bool,
    holders: Vec<Arc<Holder>>,
    /// In the order in which they came.
    waiters: Vec<Waiter>,
}

struct Waiter {
    id: u64,
    exclusive: bool,
    /// It searches for deadlocks.
    searches: bool,
    woken: Arc<Condvar>,
}

impl Lock {
    /// Gives the lock to `asker`, or says who is in the way.
    fn grant(&mut self, asker: &Arc<Holder>, exclusive: bool, now: u64) -> Option<Blocked> {
        let id = asker.id();
        if (self.exclusive || exclusive)
            && let Some(blocked) = self.others_in_the_way(id, now)
        {
            return Some(blocked);
        }
        if !self.holders.iter().any(|holder| holder.id() == id) {
            self.holders.push(Arc::clone(asker));
        }
        self.exclusive = exclusive;
        None
    }

    /// The other holders than `id`; if all of them have expired the lock is taken from them
    /// instead.
    fn others_in_the_way(&mut self, id: u64, now: u64) -> Option<Blocked> {
        if self.holders.iter().all(|holder| holder.id() == id) {
            return None;
        }
        let blocked = blocked_by(&self.holders, id, now);
        if blocked.is_none() {
            self.holders.retain(|holder| holder.id() == id);
        }
        blocked
    }

    /// Whether `waiter` could have the lock now.
    fn is_free_for(&self, waiter: &Waiter) -> bool {
        let mut others = self.holders.iter().filter(|holder| holder.id() != waiter.id);
        others.next().is_none() || !(self.exclusive || waiter.exclusive)
    }

    /// Wakes the first waiter that could have the lock; if it would share it, the others too that
    /// would.
    fn wake(&self) {
        let mut free = self.waiters.iter().filter(|waiter| self.is_free_for(waiter));
        let Some(first) = free.next() else { return };
        first.woken.notify_all();
        if !first.exclusive {
            free.filter(|waiter| !waiter.exclusive).for_each(|waiter| waiter.woken.notify_all());
        }
    }

    /// Has waiters look again whom they wait for: there is one more holder.
    fn holders_changed(&self) {
        let searching = self.waiters.iter().filter(|waiter| waiter.searches);
        searching.for_each(|waiter| waiter.woken.notify_all());
    }
}

impl FamilyLocks {
    fn stripe(&self, key: &[u8]) -> &Mutex<Stripe> {
        // The high half of the product spreads all hashes evenly over the stripes.
        let product = u128::from(hash64(key)) * self.stripes.len() as u128;
        let index = u64::try_from(product >> 64).unwrap_or_default();
        &self.stripes[to_usize(index)]
    }

    /// Gives the lock of `wanted` to `asker`, or says who is in the way.
    fn grant(
        &self,
        stripe: &mut Stripe,
        asker: &Arc<Holder>,
        wanted: &Wanted<'_>,
        locks_max: Option<usize>,
    ) -> Result<Option<Blocked>> {
        if self.ranges.count() > 0
            && let Some(blocked) = self.range_in_the_way(stripe, asker.id(), wanted.key)
        {
            return Ok(Some(blocked));
        }
        let held = stripe.get_mut(wanted.key).filter(|lock| !lock.holders.is_empty());
        if let Some(lock) = held {
            let before = lock.holders.len();
            let blocked = lock.grant(asker, wanted.exclusive, now_micros());
            if blocked.is_none() && !lock.waiters.is_empty() {
                if lock.holders.len() > before {
                    lock.holders_changed();
                }
                lock.wake();
            }
            return Ok(blocked);
        }
        let counted = self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| {
            let room = |most| held + self.ranges.count() < most;
            locks_max.is_none_or(room).then_some(held + 1)
        });
        if counted.is_err() {
            return Err(Error::aborted("").with_subcode(SubCode::LockLimit));
        }
        let lock = stripe.entry(wanted.key.into()).or_default();
        lock.grant(asker, wanted.exclusive, 0);
        if !lock.waiters.is_empty() {
            lock.holders_changed();
            lock.wake();
        }
        Ok(None)
    }

    /// Who holds a range with the key, unless `id` holds the key itself.
    #[cold]
    fn range_in_the_way(&self, stripe: &Stripe, id: u64, key: &[u8]) -> Option<Blocked> {
        let mut holders = stripe.get(key).into_iter().flat_map(|lock| &lock.holders);
        match holders.any(|holder| holder.id() == id) {
            true => None,
            false => self.ranges.in_the_way(id, key, now_micros()),
        }
    }

    /// A key of the range that another one holds than `id`. Locks of expired holders are taken from
    /// them.
    fn key_in_the_way(
        &self,
        id: u64,
        order: &Comparator,
        range: &KeyRange<'_>,
    ) -> Option<Box<[u8]>> {
        let now = now_micros();
        for stripe in &self.stripes {
            let mut stripe = stripe.lock();
            let mut taken = Vec::new();
            for (key, lock) in stripe.iter_mut().filter(|(key, _)| range.contains(order, key)) {
                if lock.holders.iter().all(|holder| holder.id() == id) {
                    continue;
                }
                if lock.others_in_the_way(id, now).is_some() {
                    return Some(key.clone());
                }
                taken.push(key.clone());
            }
            taken.iter().for_each(|key| self.settle(&mut stripe, key));
        }
        None
    }

    /// Forgets a lock that nobody holds or waits for; or wakes those who wait.
    fn settle(&self, stripe: &mut Stripe, key: &[u8]) {
        let Some(lock) = stripe.get_mut(key) else { return };
        if lock.holders.is_empty() {
            self.held.fetch_sub(1, Ordering::Relaxed);
        }
        match lock.holders.is_empty() && lock.waiters.is_empty() {
            true => drop(stripe.remove(key)),
            false => lock.wake(),
        }
    }

    /// Waits until others no longer hold `key`. Suspends.
    fn wait_for_key(&self, pause: &Pause<'_>, key: &[u8]) -> Result<()> {
        let mut stripe = self.stripe(key).lock();
        let others = |lock: &&mut Lock| lock.holders.iter().any(|holder| holder.id() != pause.id());
        let Some(lock) = stripe.get_mut(key).filter(others) else { return Ok(()) };
        let Some(blocked) = lock.others_in_the_way(pause.id(), now_micros()) else {
            self.settle(&mut stripe, key);
            return Ok(());
        };
        let queued = Queued::enter(&mut stripe, key, pause);
        let (mut stripe, result) = pause.pause(stripe, &queued.woken, &blocked);
        queued.leave(&mut stripe);
        result
    }

    /// Makes the claim of `id` its range, if there may be so many locks.
    ///
    /// # Errors
    /// Aborted (LockLimit).
    fn keep_range(&self, id: u64, locks_max: Option<usize>) -> Result<()> {
        let locks = self.held.load(Ordering::Relaxed) + self.ranges.count();
        if locks_max.is_some_and(|most| locks > most) {
            self.ranges.withdraw(id);
            return Err(Error::aborted("").with_subcode(SubCode::LockLimit));
        }
        self.ranges.keep(id);
        Ok(())
    }

    /// `id` holds `key` no more, if it did.
    fn release(&self, key: &[u8], id: u64) {
        let mut stripe = self.stripe(key).lock();
        let Some(lock) = stripe.get_mut(key) else { return };
        let Some(at) = lock.holders.iter().position(|holder| holder.id() == id) else { return };
        lock.holders.swap_remove(at);
        self.settle(&mut stripe, key);
    }
}

/// A place in the queue of a lock; leaving it wakes the next waiter if the lock is free.
struct Queued<'a> {
    key: &'a [u8],
    woken: Arc<Condvar>,
}

impl<'a> Queued<'a> {
    fn enter(stripe: &mut Stripe, key: &'a [u8], pause: &Pause<'_>) -> Self {
        let woken = Arc::new(Condvar::new());
        stripe.entry(key.into()).or_default().waiters.push(Waiter {
            id: pause.id(),
            exclusive: pause.wanted().exclusive,
            searches: pause.searches(),
            woken: Arc::clone(&woken),
        });
        Queued { key, woken }
    }

    fn leave(self, stripe: &mut Stripe) {
        let Some(lock) = stripe.get_mut(self.key) else { return };
        lock.waiters.retain(|waiter| !Arc::ptr_eq(&waiter.woken, &self.woken));
        match lock.holders.is_empty() && lock.waiters.is_empty() {
            true => drop(stripe.remove(self.key)),
            false => lock.wake(),
        }
    }
}

impl LockTables {
    pub fn new(options: LockOptions) -> Self {
        LockTables {
            options,
            families: RwLock::new(BTreeMap::new()),
            waits: Mutex::ranked(&lock_order::KEY_WAITS, Waits::new(options.deadlocks_max)),
        }
    }

    fn family(&self, id: u32) -> Arc<FamilyLocks> {
        if let Some(found) = self.families.read().get(&id) {
            return Arc::clone(found);
        }
        let made = || {
            let stripe = |_| Mutex::ranked(&lock_order::KEY_LOCKS, Stripe::new());
            let stripes = (0..self.options.stripes.max(1)).map(stripe);
            let (ranges, held) = (RangeLocks::new(), AtomicUsize::new(0));
            Arc::new(FamilyLocks { stripes: stripes.collect(), ranges, held })
        };
        Arc::clone(self.families.write().entry(id).or_insert_with(made))
    }

    /// Locks a key, or changes how `asker` holds it. Suspends while others are in the way.
    ///
    /// # Errors
    /// TimedOut (LockTimeout); Busy (Deadlock); Aborted (LockLimit). The asker then holds what it
    /// held before.
    pub fn lock(&self, asker: &Arc<Holder>, wanted: &Wanted<'_>) -> Result<()> {
        let family = self.family(wanted.column_family);
        let mut stripe = family.stripe(wanted.key).lock();
        let blocked = family.grant(&mut stripe, asker, wanted, self.options.locks_max)?;
        match blocked {
            None => Ok(()),
            Some(blocked) => self.wait(&family, stripe, asker, wanted, blocked),
        }
    }

    #[cold]
    fn wait<'s>(
        &self,
        family: &'s FamilyLocks,
        mut stripe: MutexGuard<'s, Stripe>,
        asker: &Arc<Holder>,
        wanted: &Wanted<'_>,
        mut blocked: Blocked,
    ) -> Result<()> {
        let pause = Pause::new(&self.waits, asker.id(), wanted, None)?;
        loop {
            let granted = if blocked.by_range {
                drop(stripe);
                family.ranges.wait(&pause, (wanted.key, None), now_micros())?;
                stripe = family.stripe(wanted.key).lock();
                family.grant(&mut stripe, asker, wanted, self.options.locks_max)
            } else {
                let (after, granted) = self.wait_in_queue(family, stripe, asker, &pause, blocked);
                stripe = after;
                granted
            };
            match granted? {
                Some(still) => blocked = still,
                None => return Ok(()),
            }
        }
    }

    /// Waits in the queue of a key's lock until it is granted or a range is in the way.
    fn wait_in_queue<'s>(
        &self,
        family: &FamilyLocks,
        mut stripe: MutexGuard<'s, Stripe>,
        asker: &Arc<Holder>,
        pause: &Pause<'_>,
        mut blocked: Blocked,
    ) -> (MutexGuard<'s, Stripe>, Result<Option<Blocked>>) {
        let wanted = pause.wanted();
        let queued = Queued::enter(&mut stripe, wanted.key, pause);
        let result = loop {
            let (after, result) = pause.pause(stripe, &queued.woken, &blocked);
            stripe = after;
            if let Err(error) = result {
                break Err(error);
            }
            match family.grant(&mut stripe, asker, wanted, self.options.locks_max) {
                Ok(Some(still)) if !still.by_range => blocked = still,
                other => break other,
            }
        };
        queued.leave(&mut stripe);
        (stripe, result)
    }

    /// Locks a range of keys for `asker` alone, from `wanted.key` to before `end` in the order of
    /// its column family. Suspends while others hold keys or ranges in it.
    ///
    /// # Errors
    /// As [`LockTables::lock`].
    pub fn lock_range(
        &self,
        asker: &Arc<Holder>,
        order: &Comparator,
        wanted: &Wanted<'_>,
        end: &[u8],
    ) -> Result<()> {
        let family = self.family(wanted.column_family);
        let range = KeyRange { start: wanted.key, end };
        let mut begun = None;
        loop {
            let claim = family.ranges.claim(asker, order, &range, now_micros());
            let key = match claim {
                Claim::Held => return Ok(()),
                Claim::Blocked => None,
                Claim::Made => match family.key_in_the_way(asker.id(), order, &range) {
                    None => return family.keep_range(asker.id(), self.options.locks_max),
                    Some(key) => {
                        family.ranges.withdraw(asker.id());
                        Some(key)
                    }
                },
            };
            let pause = match begun.take() {
                Some(pause) => pause,
                None => Pause::new(&self.waits, asker.id(), wanted, Some(end))?,
            };
            match key {
                Some(key) => family.wait_for_key(&pause, &key)?,
                None => family.ranges.wait(&pause, (wanted.key, Some(end)), now_micros())?,
            }
            begun = Some(pause);
        }
    }

    /// Releases the locks of `holder` on `keys`. A lock that was taken from it stays as it is.
    pub fn unlock<'k>(
        &self,
        holder: &Holder,
        column_family: u32,
        keys: impl IntoIterator<Item = &'k [u8]>,
    ) {
        let family = self.families.read().get(&column_family).map(Arc::clone);
        let Some(family) = family else { return };
        keys.into_iter().for_each(|key| family.release(key, holder.id()));
    }

    /// Releases the ranges of `holder` in a column family.
    pub fn unlock_ranges(&self, holder: &Holder, column_family: u32) {
        let family = self.families.read().get(&column_family).map(Arc::clone);
        let Some(family) = family else { return };
        family.ranges.release(holder.id());
    }

    /// The locks that are held, by column family and key.
    pub fn held(&self) -> Vec<HeldLock> {
        let families: Vec<_> =
            self.families.read().iter().map(|(id, family)| (*id, Arc::clone(family))).collect();
        let mut found = Vec::new();
        for (column_family, family) in families {
            for stripe in &family.stripes {
                let stripe = stripe.lock();
                let held = stripe.iter().filter(|(_, lock)| !lock.holders.is_empty());
                found.extend(held.map(|(key, lock)| HeldLock {
                    column_family,
                    key: key.to_vec(),
                    end: None,
                    holders: lock.holders.iter().map(|holder| holder.id()).collect(),
                    exclusive: lock.exclusive,
                }));
            }
            found.extend(family.ranges.held().into_iter().map(|range| HeldLock {
                column_family,
                key: range.start,
                end: Some(range.end),
                holders: vec![range.holder],
                exclusive: true,
            }));
        }
        order::sort_by(&mut found, |a, b| {
            (a.column_family, &a.key).cmp(&(b.column_family, &b.key))
        });
        found
    }

    /// The waits that search for deadlocks, by transaction.
    pub fn waiting(&self) -> Vec<Wait> {
        self.waits.lock().waiting().cloned().collect()
    }

    /// The last deadlocks, the oldest first.
    pub fn deadlocks(&self) -> Vec<DeadlockPath> {
        self.waits.lock().deadlocks()
    }

    /// Remembers so many deadlocks from now on.
    pub fn remember_deadlocks(&self, most: usize) {
        self.waits.lock().keep_at_most(most);
    }
}
