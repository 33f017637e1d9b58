//! Everything that touches pointers of C: the only place of the crate with unsafe code.
//!
//! | module | role |
//! |---|---|
//! | `macros` | `c_api!`, which makes a C function of a safe one |
//! | `from`, `lists` | arguments of C as values; several arguments as one |
//! | `into` | values as results of C |
//! | `call` | errors, panics, null pointers at the boundary |
//! | `handle` | objects that C holds: made, checked, destroyed |
//! | `flag` | switches that C holds |
//! | `spare` | handles of values, whose memory is used again |
//! | `accessor`, `stub` | what generated functions do |
//! | `callback` | what functions of C have in common that the engine calls, which are in |
//! | `order`, `merge`, `filter`, `prefix`, `walk`, `logger`, `listener` | a file for each kind |
//! | `table_filter`, `wal_filter`, `progress`, `service` | the same |
//! | `types` | which Rust type stands for which C type |
//! | `generated` | the generated functions and types |
//!
//! Thread safety: as the engine's objects behind the pointers.
//!
//! Invariants, which unsafe blocks cite:
//! 1. The caller keeps the promises of RocksDB's header: a pointer to a handle was given out by
//!    this library for that type and is not destroyed; other pointers are to as many readable, or
//!    where the function writes, writable elements as the arguments say; texts without a length end
//!    with a zero byte. A null pointer is checked for in every case.
//! 2. `errptr` is null or points to a pointer that is null or to a block of malloc.
//! 3. References made from pointers of C live no longer than the call, unless the object behind
//!    them is a handle whose owner must keep it longer (children of reports).
//! 4. A call-back gets the state that was given with it; it may be called from any thread, several
//!    at once, until its destructor has been called, which happens once.
//! 5. No panic leaves a function: it becomes an error, or ends the process, naming the function.

#![allow(unsafe_code)]

pub mod accessor;
pub mod call;
pub mod callback;
pub mod filter;
pub mod flag;
pub mod from;
pub mod generated;
pub mod handle;
pub mod into;
pub mod listener;
pub mod lists;
pub mod logger;
pub mod macros;
pub mod merge;
pub mod order;
pub mod prefix;
pub mod progress;
pub mod service;
pub mod spare;
pub mod stub;
pub mod table_filter;
pub mod types;
pub mod wal_filter;
pub mod walk;
