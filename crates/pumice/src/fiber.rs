//! Replacements for std in programs on fibers: every wait here suspends only the calling fiber, or
//! blocks a calling thread, so the same code runs on both.
//!
//! A fiber that waits for one of std's locks, or sleeps with std, stops its loop and all fibers on
//! it; if it waits for one of those, forever. This happens easily: one fiber holds a
//! `std::sync::Mutex` during a [`Db::get`](crate::Db::get), which may suspend, and another fiber
//! needs it.
//!
//! | std | here |
//! |---|---|
//! | `sync::Mutex`, `RwLock`, `Condvar` | [`Mutex`], [`RwLock`], [`Condvar`]; none is poisoned |
//! | `thread::sleep`, `yield_now` | [`sleep`], [`yield_now`] |
//! | `thread::spawn` | [`Runtime::spawn`], [`spawn_here`] |
//! | `thread::scope` | [`scope_here`] |
//! | `thread_local!` | [`task_local!`]: a thread's variables are those of all its fibers |
//! | anything else that blocks: files, DNS, other libraries | [`offload`] |
//! | a long computation | [`maybe_yield`] now and then |
//!
//! [`scope_here`] on a plain thread needs three descriptors where more than sixteen threads have
//! such a scope at one time; if the operating system refuses them, each child runs in the call that
//! starts it, and must not wait for a later one.
//!
//! ```
//! # fn main() -> Result<(), pumice::Error> {
//! use pumice::fiber::{self, Mutex, Semaphore};
//! use pumice::{Db, Options, ReadOptions, Runtime, WriteOptions};
//! use std::sync::Arc;
//!
//! # let dir = std::env::temp_dir().join(format!("pumice-fiber-doc-{}", std::process::id()));
//! let mut options = Options::default();
//! options.db.create_if_missing = true;
//! let db = Db::open(&options, &dir)?;
//! let runtime = Runtime::builder().loops(2).build().expect("the system starts the loops");
//!
//! // At most two of these at a time; the counter is read and written under one lock.
//! let (few, turn) = (Arc::new(Semaphore::new(2)), Arc::new(Mutex::new(0)));
//! let clients: Vec<_> = (0..10)
//!     .map(|_| {
//!         let (db, few, turn) = (db.clone(), Arc::clone(&few), Arc::clone(&turn));
//!         runtime.spawn("client", move || -> Result<(), pumice::Error> {
//!             few.acquire(1);
//!             let mut turns = turn.lock();
//!             let found = db.get_opt(&ReadOptions::default(), b"count")?;
//!             let count = found.map_or(0, |bytes| bytes[0]) + 1;
//!             fiber::sleep(std::time::Duration::from_micros(10));
//!             db.put_opt(&WriteOptions::default(), b"count", &[count])?;
//!             *turns += 1;
//!             drop(turns);
//!             few.release(1);
//!             // Blocks another thread, not the loop.
//!             fiber::offload(|| std::fs::metadata("/").is_ok());
//!             Ok(())
//!         })
//!     })
//!     .collect();
//! for client in clients {
//!     client.join()??;
//! }
//! assert_eq!(db.get_opt(&ReadOptions::default(), b"count")?.as_deref(), Some(&[10][..]));
//! assert_eq!(*turn.lock(), 10);
//! drop(runtime);
//! db.close()?;
//! # Db::destroy(&options, &dir)?;
//! # Ok(())
//! # }
//! ```
//!
//! Thread safety: everything may be used by threads and fibers at once, [`spawn_here`] and
//! [`scope_here`] for the caller's own loop.

pub use pumice_port::fiber::{
    Builder, FiberInfo, IoMode, Runtime, RuntimeStats, Scope, ScopedJoinHandle, Stall, is_fiber,
    maybe_yield, offload, scope_here, spawn_here,
};
pub use pumice_port::sync::{
    Condvar, Event, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, Semaphore,
};
pub use pumice_port::thread::{JoinHandle, NotStarted, sleep, yield_now};
pub use pumice_port::{TaskLocal, task_local};
