//! How far a database's life has come, from its open to its close.
//!
//! Thread safety: as the fields say; what is neither behind a lock nor atomic never changes after
//! the open. The order of the locks is in `engine`.

use std::sync::atomic::AtomicBool;
use std::sync::{OnceLock, Weak};

use crate::callbacks::Mark;
use crate::engine::DbInner;

/// See the module head.
pub(crate) struct Life {
    /// A close has begun: nothing is written any more.
    pub closing: AtomicBool,
    /// What was to be saved is, and background work ends.
    pub shutting_down: AtomicBool,
    /// For tasks that work for it.
    pub mark: Mark,
    /// Code of the user's runs under its locks: calls look whether they come from there.
    pub runs_code: AtomicBool,
    /// Itself, for jobs.
    pub me: OnceLock<Weak<DbInner>>,
}
