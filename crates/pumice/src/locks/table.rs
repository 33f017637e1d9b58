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
//! holder is once in a lock's list. Lock order: a stripe, then the waits; never two stripes.
//!
//! Differences from RocksDB's: no time limit for the mutex of a stripe, which is never held while
//! waiting; all locks of an expired holder can be taken, not only the first; a lock shared with a
//! holder that never expires does not expire.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pumice_base::hash::hash64;
use pumice_base::narrow::to_usize;
use pumice_base::order;
use pumice_base::{Error, ErrorKind, Result, SubCode};
use pumice_port::sync::{Condvar, Mutex, MutexGuard, RwLock};
use pumice_port::time::{now_micros, wall_seconds};

use crate::lock_order;
use crate::locks::holder::{Holder, NEVER};
use crate::locks::waits::{DeadlockPath, Wait, Waits};

/// How soon a waiter looks again at an expired holder whose locks it could not take.
const RECHECK_MICROS: u64 = 10_000;

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
    /// The key.
    pub key: Vec<u8>,
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

/// Why a lock was not granted.
struct Blocked {
    by: Vec<u64>,
    /// When the present holders expire.
    until: u64,
}

impl Lock {
    /// Gives the lock to `asker`, or says who is in the way.
    fn grant(&mut self, asker: &Arc<Holder>, exclusive: bool, now: u64) -> Option<Blocked> {
        let id = asker.id();
        let mine = self.holders.iter().any(|holder| holder.id() == id);
        let others = self.holders.len() - usize::from(mine);
        if others > 0 && (self.exclusive || exclusive) {
            let until = self.holders.iter().map(|holder| holder.expires_at()).max();
            let until = until.unwrap_or(NEVER);
            let stolen = until <= now
                && self.holders.iter().all(|holder| holder.id() == id || holder.steal(now));
            if !stolen {
                let by = self.holders.iter().map(|holder| holder.id()).filter(|by| *by != id);
                // It has expired, but its commit is under way, and may fail.
                let until = if until <= now { now.saturating_add(RECHECK_MICROS) } else { until };
                return Some(Blocked { by: by.collect(), until });
            }
            self.holders.retain(|holder| holder.id() == id);
        }
        if !self.holders.iter().any(|holder| holder.id() == id) {
            self.holders.push(Arc::clone(asker));
        }
        self.exclusive = exclusive;
        None
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
            locks_max.is_none_or(|most| held < most).then_some(held + 1)
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

    /// `id` holds `key` no more, if it did.
    fn release(&self, key: &[u8], id: u64) {
        let mut stripe = self.stripe(key).lock();
        let Some(lock) = stripe.get_mut(key) else { return };
        let Some(at) = lock.holders.iter().position(|holder| holder.id() == id) else { return };
        lock.holders.swap_remove(at);
        if lock.holders.is_empty() {
            self.held.fetch_sub(1, Ordering::Relaxed);
        }
        match lock.holders.is_empty() && lock.waiters.is_empty() {
            true => drop(stripe.remove(key)),
            false => lock.wake(),
        }
    }
}

/// A place in the queue of a lock; leaving it wakes the next waiter if the lock is free.
struct Queued<'a> {
    key: &'a [u8],
    id: u64,
    woken: Arc<Condvar>,
}

impl Queued<'_> {
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
            Arc::new(FamilyLocks { stripes: stripes.collect(), held: AtomicUsize::new(0) })
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
        let timed_out =
            || Err(Error::new(ErrorKind::TimedOut, "").with_subcode(SubCode::LockTimeout));
        let limit = wanted.timeout.map(|timeout| u64::try_from(timeout.as_micros()));
        let limit = limit.map_or(NEVER, |micros| micros.unwrap_or(NEVER));
        if limit == 0 {
            return timed_out();
        }
        let deadline = now_micros().saturating_add(limit);
        let queued = Queued { key: wanted.key, id: asker.id(), woken: Arc::new(Condvar::new()) };
        let Some(lock) = stripe.get_mut(wanted.key) else { return timed_out() };
        lock.waiters.push(Waiter {
            id: asker.id(),
            exclusive: wanted.exclusive,
            searches: wanted.deadlock_depth.is_some(),
            woken: Arc::clone(&queued.woken),
        });
        let result = loop {
            let now = now_micros();
            if now >= deadline {
                break timed_out();
            }
            if !self.wait_begins(queued.id, wanted, &blocked.by) {
                break Err(Error::busy("").with_subcode(SubCode::Deadlock));
            }
            let until = deadline.min(blocked.until);
            stripe = match until {
                NEVER => queued.woken.wait(stripe),
                until => {
                    let limit = Duration::from_micros(until.saturating_sub(now));
                    queued.woken.wait_timeout(stripe, limit).0
                }
            };
            if wanted.deadlock_depth.is_some() {
                self.waits.lock().end(queued.id);
            }
            blocked = match family.grant(&mut stripe, asker, wanted, self.options.locks_max) {
                Ok(Some(blocked)) => blocked,
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            };
        };
        queued.leave(&mut stripe);
        result
    }

    /// False if it would never end.
    fn wait_begins(&self, id: u64, wanted: &Wanted<'_>, holders: &[u64]) -> bool {
        let Some(depth) = wanted.deadlock_depth else { return true };
        let wait = Wait {
            id,
            holders: holders.to_vec(),
            column_family: wanted.column_family,
            key: wanted.key.to_vec(),
            exclusive: wanted.exclusive,
        };
        self.waits.lock().begin(wait, depth, wall_seconds())
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
                    holders: lock.holders.iter().map(|holder| holder.id()).collect(),
                    exclusive: lock.exclusive,
                }));
            }
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
