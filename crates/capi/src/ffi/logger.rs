//! Loggers: of the program, and to stderr.

use std::ffi::{c_char, c_uint, c_void};
use std::fmt;
use std::sync::Arc;

use pumice::Logger;
use pumice::options::InfoLogLevel;

use crate::ffi::call::say;
use crate::ffi::from::State;
use crate::ffi::types::{InfoLogger, with_zero};

/// `void (*log)(void* state, unsigned level, char* message, size_t length)`.
pub type LogFn = Option<unsafe extern "C" fn(*mut c_void, c_uint, *mut c_char, usize)>;

struct CLogger {
    state: State,
    log: LogFn,
    level: InfoLogLevel,
}

impl Logger for CLogger {
    fn log(&self, level: InfoLogLevel, message: fmt::Arguments<'_>) {
        let Some(log) = self.log.filter(|_| level >= self.level) else { return };
        let mut text = with_zero(message.to_string().as_bytes());
        let length = text.len() - 1;
        // SAFETY: invariant 4 of ffi.
        unsafe { log(self.state.0, level as c_uint, text.as_mut_ptr().cast(), length) };
    }
    fn level(&self) -> InfoLogLevel {
        self.level
    }
}

struct StderrLogger {
    level: InfoLogLevel,
    prefix: String,
}

impl Logger for StderrLogger {
    fn log(&self, level: InfoLogLevel, message: fmt::Arguments<'_>) {
        if level >= self.level {
            say(&format!("{}{message}", self.prefix));
        }
    }
    fn level(&self) -> InfoLogLevel {
        self.level
    }
}

fn level_of(number: i32) -> InfoLogLevel {
    match number {
        ..=0 => InfoLogLevel::Debug,
        1 => InfoLogLevel::Info,
        2 => InfoLogLevel::Warn,
        3 => InfoLogLevel::Error,
        4 => InfoLogLevel::Fatal,
        5.. => InfoLogLevel::Header,
    }
}

/// A logger of C's, for lines of RocksDB's level `level` and above.
pub fn c_logger(level: i32, log: LogFn, state: State) -> InfoLogger {
    InfoLogger(Arc::new(CLogger { state, log, level: level_of(level) }))
}

/// A logger that writes to stderr, each line behind `prefix`.
pub fn stderr_logger(level: i32, prefix: String) -> InfoLogger {
    InfoLogger(Arc::new(StderrLogger { level: level_of(level), prefix }))
}
