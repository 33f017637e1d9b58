//! The seam between Pumice and whatever runs it: locks, threads, clocks, pools, system calls.
//!
//! Everything that can block, sleep, start a thread or ask the operating system goes through this
//! crate, so that a later backend (fibers over io_uring, deterministic simulation) replaces one
//! crate and not the engine. This backend is operating-system threads.
//!
//! Thread safety: every public type says its own; the free functions may be called from anywhere.
//! It knows nothing of databases.
#![deny(unsafe_op_in_unsafe_fn)]
#![warn(missing_docs)]
#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // The seam itself.

mod atomic;
#[cfg(not(loom))]
pub mod fiber;
#[cfg(not(loom))]
pub mod io;
#[cfg(not(loom))]
pub mod os;
#[cfg(not(loom))]
pub mod pool;
#[cfg(not(loom))]
pub mod sim;
#[cfg(loom)]
#[path = "sim/loom.rs"]
pub mod sim;
pub mod sync;
pub mod task;
#[cfg(not(loom))]
pub mod thread;
#[cfg(not(loom))]
pub mod time;

/// Declares variables of which each task (here: thread) has its own copy.
///
/// `task_local! { static HITS: Cell<u64> = const { Cell::new(0) }; }`, then `HITS.with(|h| ..)`.
/// A borrow must not live across anything that may suspend.
#[macro_export]
macro_rules! task_local {
    ($($(#[$meta:meta])* $vis:vis static $name:ident : $ty:ty = const $init:block);+ $(;)?) => {
        ::std::thread_local! { $($(#[$meta])* $vis static $name: $ty = const $init;)+ }
    };
    ($($(#[$meta:meta])* $vis:vis static $name:ident : $ty:ty = $init:expr);+ $(;)?) => {
        ::std::thread_local! { $($(#[$meta])* $vis static $name: $ty = $init;)+ }
    };
}
