//! A logger of the user's, whose panics stay with it.
//!
//! Lines are written between the steps of state changes and under locks: a panic there would leave
//! the change half done. A line that panicked is dropped, as one that a full disk refused.
//!
//! Thread safety: as the user's logger. What it does not do: make a logger that waits for the
//! database safe; it must not call back.

use std::fmt;
use std::sync::Arc;

use pumice_port::thread;

use crate::options::InfoLogLevel;
use crate::stats::Logger;

/// See the module head.
pub(crate) struct ContainedLogger(pub Arc<dyn Logger>);

impl Logger for ContainedLogger {
    fn log(&self, level: InfoLogLevel, message: fmt::Arguments<'_>) {
        let _dropped = thread::contain("The logger", || self.0.log(level, message));
    }
    fn level(&self) -> InfoLogLevel {
        thread::contain("The logger", || self.0.level()).unwrap_or_default()
    }
}
