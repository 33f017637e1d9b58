//! The seam between Pumice and the system that runs it: locks, threads, clocks, pools, system
//! calls.
//!
//! Everything that can block, sleep, start a task or ask the operating system goes through this
//! crate, so the engine above is written once and runs on operating-system threads, on fibers over
//! io_uring and in a deterministic simulation. How a call waits follows from the calling task
//! (`task`), and is determined only when it must wait.
//!
//! Thread safety: every public type says its own; the free functions may be called from anywhere.
//! It knows nothing of databases.
#![deny(unsafe_op_in_unsafe_fn)]
#![warn(missing_docs)]
#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // The seam itself.

mod atomic;
#[cfg(not(loom))]
pub mod fiber;
#[cfg(loom)]
mod fiber {
    //! The parts of the loops that loom's models drive.
    pub(crate) mod kick;
}
#[cfg(not(loom))]
pub mod future;
#[cfg(not(loom))]
pub mod helpers;
#[cfg(not(loom))]
pub mod io;
#[cfg(not(loom))]
pub mod lane;
mod local;
#[cfg(not(loom))]
#[doc(hidden)]
pub mod machine;
#[cfg(all(loom, test))]
mod models;
#[cfg(not(loom))]
pub mod net;
#[cfg(not(loom))]
pub mod os;
#[cfg(not(loom))]
pub mod pool;
pub mod ring;
#[cfg(not(loom))]
pub mod sim;
#[cfg(loom)]
pub mod sim {
    //! The simulation's interface when loom's models run: empty.

    /// A place where a simulation may let another task run; loom tries all orders anyway.
    #[inline]
    pub fn point() {}
}
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
/// A copy is made at its task's first use and dropped when the task ends. Inside `with` the task
/// may suspend. On a fiber a use costs an array lookup; private scratch space is cheaper in a
/// [`worker_local!`].
///
/// ```
/// # use pumice_port::{TaskLocal, task_local};
/// # use std::cell::Cell;
/// task_local! {
///     static HITS: Cell<u64> = const { Cell::new(0) };
/// }
///
/// fn hit(counter: &'static TaskLocal<Cell<u64>>) -> u64 {
///     counter.set(counter.get() + 1);
///     counter.get()
/// }
///
/// assert_eq!((hit(&HITS), hit(&HITS)), (1, 2));
/// // Another task has its own.
/// std::thread::spawn(|| assert_eq!(HITS.with(|hits| hits.get()), 0)).join().expect("no panic");
/// ```
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
/// A borrow must not live across anything that may suspend, because the next fiber would find it
/// borrowed.
#[macro_export]
macro_rules! worker_local {
    ($($tokens:tt)*) => {
        ::std::thread_local! { $($tokens)* }
    };
}
