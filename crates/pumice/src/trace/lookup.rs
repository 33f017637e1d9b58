//! The point read that a task is making, for the trace of the block cache: its number, its key,
//! and whether it reads a snapshot.
//!
//! Thread safety: each task has its own. Nothing here suspends.

use std::cell::RefCell;

/// See the head of this file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lookup {
    pub number: u64,
    pub user_key: Vec<u8>,
    pub at_snapshot: bool,
}

pumice_port::task_local! {
    static CURRENT: RefCell<Option<Lookup>> = const { RefCell::new(None) };
}

struct Restore(Option<Lookup>);

impl Drop for Restore {
    fn drop(&mut self) {
        CURRENT.with(|current| *current.borrow_mut() = self.0.take());
    }
}

/// Runs `read`, which is `lookup`.
pub(crate) fn during<R>(lookup: Lookup, read: impl FnOnce() -> R) -> R {
    let before = CURRENT.with(|current| current.borrow_mut().replace(lookup));
    let _restore = Restore(before);
    read()
}

/// What the calling task reads, if that is known.
pub(crate) fn current() -> Option<Lookup> {
    CURRENT.with(|current| current.borrow().clone())
}
