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
pub mod fiber;
#[cfg(not(loom))]
pub mod future;
#[cfg(not(loom))]
pub mod io;
mod local;
#[cfg(not(loom))]
pub mod net;
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
pub mod testing;
#[cfg(not(loom))]
pub mod thread;
#[cfg(not(loom))]
pub mod time;

pub use local::TaskLocal;

/// Declares variables of which each task, thread or fiber, has its own copy.
///
/// `task_local! { static HITS: Cell<u64> = const { Cell::new(0) }; }`, then `HITS.with(|h| ..)`.
/// A copy is made at its task's first use and dropped when the task ends. Inside `with` the task
/// may suspend. On a fiber a use costs a look into an array; scratch space that nobody else can
/// see is cheaper in a [`worker_local!`].
#[macro_export]
macro_rules! task_local {
    ($($(#[$meta:meta])* $vis:vis static $name:ident : $ty:ty = const $init:block);+ $(;)?) => {$(
        $(#[$meta])* $vis static $name: $crate::TaskLocal<$ty> = {
            ::std::thread_local! { static THREAD: $ty = const $init; }
            $crate::TaskLocal::new(&THREAD, || $init)
        };
    )+};
    ($($(#[$meta:meta])* $vis:vis static $name:ident : $ty:ty = $init:expr);+ $(;)?) => {$(
        $(#[$meta])* $vis static $name: $crate::TaskLocal<$ty> = {
            fn initial() -> $ty {
                $init
            }
            ::std::thread_local! { static THREAD: $ty = initial(); }
            $crate::TaskLocal::new(&THREAD, initial)
        };
    )+};
}

/// Declares variables of which each operating-system thread has its own copy, shared by all fibers
/// that run there: for scratch space.
///
/// A borrow must not live across anything that may suspend, because the next fiber finds it.
#[macro_export]
macro_rules! worker_local {
    ($($tokens:tt)*) => {
        ::std::thread_local! { $($tokens)* }
    };
}
