//! `--use_stderr_info_logger`: the info log on stderr, its lines as in LOG.
//!
//! Thread safety: any thread may log; a line is written in one piece.

use std::fmt;

use pumice::Logger;
use pumice::stats::{InfoLogLevel, info_log_line};

/// Writes lines of `level` and above to stderr.
pub struct StderrLogger {
    /// The option `info_log_level`.
    pub level: InfoLogLevel,
}

impl Logger for StderrLogger {
    fn log(&self, level: InfoLogLevel, message: fmt::Arguments<'_>) {
        if level >= self.level {
            eprint!("{}", info_log_line(level, message));
        }
    }

    fn level(&self) -> InfoLogLevel {
        self.level
    }
}
