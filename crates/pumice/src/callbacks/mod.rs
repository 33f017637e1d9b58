//! Records which tasks work for which database, and so must not wait for it.
//!
//! Jobs call user code: listeners, filters, merge operators, comparators. A close waits for jobs,
//! as flushes and compactions wait for theirs, so that a call of this kind from such code would
//! wait for itself. Tasks are marked while they work for a database. Such calls check the mark and
//! are refused, and a last handle dropped there is closed by a task of its own.
//!
//! Comparators, prefix extractors and file systems are called with locks held as well, by any
//! caller: they cannot call the database ([`Mark::is_locked`]).
//!
//! A child process that `fork` made of a process with open databases has none of the threads that
//! work for them, and finds their locks in the state in which those threads left them: in the child
//! every task counts as one that must not wait, and no database is used. Its files belong to the
//! parent.
//!
//! Thread safety: a mark belongs to the task that made it. Invariant: marks are dropped in reverse
//! order (`Entered`). Where more than `DEPTH_MAX` databases are nested, every database counts as
//! entered: calls are refused that might have worked.

mod code;
pub(crate) mod key_forms;
mod user_files;

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use pumice_base::{Error, Result};
use pumice_port::os::is_forked;
use pumice_port::sync::HeldAside;

pub(crate) use code::{has_code, has_db_code, mark_code, mark_db_code};
pub(crate) use user_files::mark_files;

/// Largest number of distinct marks of one task.
const DEPTH_MAX: usize = 8;

static NEXT: AtomicU64 = AtomicU64::new(1);

/// Without a destructor: a handle may be dropped while a thread's variables are destroyed.
struct Marks {
    depth: Cell<usize>,
    entered: [Cell<u64>; DEPTH_MAX],
}

pumice_port::task_local! {
    static MARKS: Marks =
        const { Marks { depth: Cell::new(0), entered: [const { Cell::new(0) }; DEPTH_MAX] } };
}

/// One open database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark(u64);

/// The task works for a database until this is dropped.
#[must_use]
pub(crate) struct Entered(Option<HeldAside>);

impl Drop for Entered {
    fn drop(&mut self) {
        MARKS.with(|marks| marks.depth.set(marks.depth.get() - 1));
    }
}

fn enter(entry: u64) -> Entered {
    MARKS.with(|marks| {
        let depth = marks.depth.get();
        if let Some(slot) = marks.entered.get(depth) {
            slot.set(entry);
        }
        marks.depth.set(depth + 1);
    });
    Entered(None)
}

fn any(is: impl Fn(u64) -> bool) -> bool {
    MARKS.with(|marks| {
        let depth = marks.depth.get();
        depth > DEPTH_MAX || marks.entered[..depth].iter().any(|entry| is(entry.get()))
    })
}

impl Mark {
    /// The mark of a database that is being opened.
    pub fn new() -> Self {
        Mark(NEXT.fetch_add(1, Ordering::Relaxed))
    }
    fn job_entry(self) -> u64 {
        self.0 * 2
    }
    fn locked_entry(self) -> u64 {
        self.0 * 2 + 1
    }
    /// This task does something that others wait for.
    pub fn enter_job(self) -> Entered {
        enter(self.job_entry())
    }
    /// This task calls code that runs under locks.
    pub fn enter_locked(self) -> Entered {
        let mut entered = enter(self.locked_entry());
        // The code may call another database.
        entered.0 = Some(HeldAside::begin());
        entered
    }
    /// The database waits for this task.
    pub fn is_inside(self) -> bool {
        is_forked() || any(|entry| entry == self.job_entry() || entry == self.locked_entry())
    }
    /// This task may hold any lock of the database.
    pub fn is_locked(self) -> bool {
        is_forked() || any(|entry| entry == self.locked_entry())
    }
    /// For calls that wait for jobs.
    ///
    /// # Errors
    /// Aborted where the database waits for this task.
    pub fn check_may_wait(self) -> Result<()> {
        if self.is_inside() { Err(refused()) } else { Ok(()) }
    }
    /// For calls that take locks.
    ///
    /// # Errors
    /// Aborted where this task may hold them.
    pub fn check_may_lock(self) -> Result<()> {
        if self.is_locked() { Err(refused()) } else { Ok(()) }
    }
    /// As `check_may_lock`, for calls that cannot return an error.
    ///
    /// # Panics
    /// Where the other checks return an error.
    pub fn assert_may_lock(self) {
        assert!(!self.is_locked(), "{}", refused());
    }
}

/// For calls that belong to no open database.
///
/// # Errors
/// NotSupported in a child that `fork` made.
#[inline]
pub(crate) fn check_not_forked() -> Result<()> {
    if is_forked() { Err(forked()) } else { Ok(()) }
}

#[cold]
fn forked() -> Error {
    Error::not_supported(
        "this process was made by fork of one that has opened databases: it cannot use any \
         before exec",
    )
}

#[cold]
fn refused() -> Error {
    if is_forked() {
        return forked();
    }
    Error::aborted("called from code that the database itself called and waits for")
}

#[cfg(test)]
mod tests;
