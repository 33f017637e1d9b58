//! One limit for the memory of all memtables, of one database or several.
//!
//! Follows RocksDB's `WriteBufferManager`: memory is *active* while its memtable takes writes,
//! then being flushed, then freed. A flush is due when active memory passes 7/8 of the limit, or
//! when all memory passes the limit and at least half of it is active. With an account (a block
//! cache) all memory is also charged there, in steps of 256 KiB.
//!
//! Where we differ: a stalled writer waits for flushes only. Memory whose memtable has been flushed
//! (or whose family or database is gone) and that readers still hold counts as used, but no writer
//! waits for it; RocksDB waits forever when the reader is the writer. And a stalled writer may ask
//! the other databases for a flush ([`BufferUser`]), which may have no writers of their own.
//!
//! Thread safety: atomics; the lists of charges, of stalled writers and of users have a lock each.

use std::sync::atomic::{
    AtomicBool, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
    fence,
};
use std::sync::{Arc, Weak};

use pumice_cache::MemoryAccount;
use pumice_port::sync::Mutex;

/// Step in which memory is charged to the account.
const CHARGE_STEP_BYTES: usize = 256 << 10;

/// Called when stalled writers may continue.
pub trait StallWaiter: Send + Sync {
    /// Memory is below the limit again.
    fn resume(&self);
}

/// A database whose memtables count.
pub trait BufferUser: Send + Sync {
    /// Another database waits for memory: flushes sealed memtables, and seals more if that does not
    /// suffice. Must not wait for other writers. Returns whether memory is going to be freed.
    fn relieve(&self) -> bool;
}

/// See the head of the module.
///
/// ```
/// # use pumice_memtable::WriteBufferManager;
/// // The memtables of all databases that are opened with it take 256 MiB together.
/// let manager = WriteBufferManager::new(256 << 20, None, false);
/// assert!(manager.enabled() && manager.memory_usage() == 0);
/// manager.set_buffer_bytes(128 << 20);
/// assert_eq!(manager.buffer_bytes(), 128 << 20);
/// ```
pub struct WriteBufferManager {
    /// 0: no limit.
    buffer_bytes: AtomicUsize,
    used: AtomicUsize,
    active: AtomicUsize,
    /// The part of `used` that no flush is going to free.
    read_only: AtomicUsize,
    account: Option<Arc<dyn MemoryAccount>>,
    /// Bytes charged to `account`.
    charged: Mutex<usize>,
    allow_stall: AtomicBool,
    stall_active: AtomicBool,
    waiters: Mutex<Vec<Arc<dyn StallWaiter>>>,
    users: Mutex<Vec<Weak<dyn BufferUser>>>,
}

impl std::fmt::Debug for WriteBufferManager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("WriteBufferManager");
        shown.field("buffer_bytes", &self.buffer_bytes).field("used", &self.used);
        shown.finish_non_exhaustive()
    }
}

impl WriteBufferManager {
    /// A limit of `buffer_bytes` (0: none), charged to `account`; with `allow_stall` writers are
    /// asked to wait at the limit.
    pub fn new(
        buffer_bytes: usize,
        account: Option<Arc<dyn MemoryAccount>>,
        allow_stall: bool,
    ) -> Arc<Self> {
        Arc::new(WriteBufferManager {
            buffer_bytes: AtomicUsize::new(buffer_bytes),
            used: AtomicUsize::new(0),
            active: AtomicUsize::new(0),
            read_only: AtomicUsize::new(0),
            account,
            charged: Mutex::foreground(0),
            allow_stall: AtomicBool::new(allow_stall),
            stall_active: AtomicBool::new(false),
            waiters: Mutex::foreground(Vec::new()),
            users: Mutex::foreground(Vec::new()),
        })
    }

    /// There is a limit.
    pub fn enabled(&self) -> bool {
        self.buffer_bytes() > 0
    }
    /// Memory is charged to a cache.
    pub fn cost_to_cache(&self) -> bool {
        self.account.is_some()
    }
    /// The limit, bytes; 0: none.
    pub fn buffer_bytes(&self) -> usize {
        self.buffer_bytes.load(Relaxed)
    }
    /// Changes the limit.
    pub fn set_buffer_bytes(&self, bytes: usize) {
        self.buffer_bytes.store(bytes, Relaxed);
        self.maybe_end_stall();
    }
    /// Changes whether writers may be stalled.
    pub fn set_allow_stall(&self, allow: bool) {
        self.allow_stall.store(allow, Relaxed);
        self.maybe_end_stall();
    }
    /// Memory of all memtables, bytes.
    pub fn memory_usage(&self) -> usize {
        self.used.load(Relaxed)
    }
    /// Memory of the memtables that take writes, bytes.
    pub fn mutable_memtable_memory_usage(&self) -> usize {
        self.active.load(Relaxed)
    }
    /// Active memory alone is over the limit: running flushes do not suffice.
    pub fn must_flush(&self) -> bool {
        self.enabled() && self.mutable_memtable_memory_usage() >= self.buffer_bytes()
    }
    /// Bytes charged to the cache.
    pub fn charged_to_cache(&self) -> usize {
        *self.charged.lock()
    }

    /// Whether some memtable should be flushed.
    pub fn should_flush(&self) -> bool {
        let limit = self.buffer_bytes();
        if limit == 0 {
            return false;
        }
        let active = self.mutable_memtable_memory_usage();
        active > limit / 8 * 7 || (self.memory_usage() >= limit && active >= limit / 2)
    }

    /// Writers should wait.
    pub fn should_stall(&self) -> bool {
        self.allow_stall.load(Relaxed)
            && self.enabled()
            && (self.stall_active.load(Acquire) || self.over_limit())
    }
    fn over_limit(&self) -> bool {
        let used = self.memory_usage().saturating_sub(self.read_only.load(Relaxed));
        used >= self.buffer_bytes()
    }

    /// Adds a database that others may ask for a flush while it exists.
    pub fn add_user(&self, user: Weak<dyn BufferUser>) {
        let mut users = self.users.lock();
        users.retain(|user| user.strong_count() > 0);
        users.push(user);
    }

    /// Asks all databases except `asking` for memory; returns whether any is going to be freed.
    /// Suspends.
    pub fn relieve_others(&self, asking: &Weak<dyn BufferUser>) -> bool {
        let users: Vec<_> = self.users.lock().iter().filter_map(Weak::upgrade).collect();
        let mut any = false;
        for user in users {
            // All of them: one flush may not suffice.
            if !std::ptr::addr_eq(Arc::as_ptr(&user), asking.as_ptr()) {
                any |= user.relieve();
            }
        }
        any
    }

    /// Registers a writer that is about to wait; it is resumed at once if memory has gone below
    /// the limit meanwhile.
    pub fn begin_stall(&self, waiter: Arc<dyn StallWaiter>) {
        let mut waiters = self.waiters.lock();
        if self.should_stall() {
            self.stall_active.store(true, Release);
            waiters.push(waiter);
            drop(waiters);
            // Memory may have been freed between the check and the push.
            self.maybe_end_stall();
        } else {
            drop(waiters);
            waiter.resume();
        }
    }

    /// Resumes the waiting writers if memory is below the limit.
    fn maybe_end_stall(&self) {
        // A task that frees memory and then checks for a stall, and one that begins a stall and
        // then checks the memory: at least one of them sees what the other has done.
        fence(SeqCst);
        if !self.stall_active.load(Acquire) {
            return;
        }
        let stalls = self.allow_stall.load(Relaxed) && self.enabled() && self.over_limit();
        if stalls {
            return;
        }
        let resumed = {
            let mut waiters = self.waiters.lock();
            self.stall_active.store(false, Release);
            std::mem::take(&mut *waiters)
        };
        for waiter in resumed {
            waiter.resume();
        }
    }

    /// `bytes` more are held by a memtable that takes writes.
    pub fn reserve(&self, bytes: usize) {
        self.active.fetch_add(bytes, Relaxed);
        self.used.fetch_add(bytes, Relaxed);
        self.update_charge();
    }
    /// `bytes` of active memory no longer take writes.
    pub fn schedule_free(&self, bytes: usize) {
        self.active.fetch_sub(bytes, Relaxed);
    }
    /// `bytes` that take no writes no longer need a flush.
    pub fn flushed(&self, bytes: usize) {
        self.read_only.fetch_add(bytes, Relaxed);
        self.maybe_end_stall();
    }
    /// `bytes` that take no writes are freed, of which `flushed` no longer needed a flush.
    pub fn free(&self, bytes: usize, flushed: usize) {
        self.used.fetch_sub(bytes, Relaxed);
        self.read_only.fetch_sub(flushed, Relaxed);
        self.update_charge();
        self.maybe_end_stall();
    }

    /// Brings the charge in line with the use: up at once, down when a quarter of it is unused, so
    /// that a short-lived memtable does not change it each time.
    fn update_charge(&self) {
        let Some(account) = &self.account else { return };
        let mut charged = self.charged.lock();
        let wanted = self.used.load(Relaxed).next_multiple_of(CHARGE_STEP_BYTES);
        if wanted > *charged {
            account.charge(wanted - *charged);
            *charged = wanted;
        } else if wanted < *charged / 4 * 3 {
            account.discharge(*charged - wanted);
            *charged = wanted;
        }
    }
}

impl Drop for WriteBufferManager {
    fn drop(&mut self) {
        if let Some(account) = &self.account {
            account.discharge(*self.charged.get_mut());
        }
    }
}
