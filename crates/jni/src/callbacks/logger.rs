//! Loggers: of Java, and to standard error.

use std::fmt;
use std::io::Write;
use std::sync::atomic::{AtomicI8, Ordering};

use jni_sys::jvalue;
use pumice::Logger;
use pumice::options::InfoLogLevel;

use super::told;
use crate::ffi::call::Result;
use crate::ffi::env::{Env, Method, Object};
use crate::ffi::vm::Global;

/// The level with Java's number.
pub fn level_of(number: i8) -> InfoLogLevel {
    match number {
        ..=0 => InfoLogLevel::Debug,
        1 => InfoLogLevel::Info,
        2 => InfoLogLevel::Warn,
        3 => InfoLogLevel::Error,
        4 => InfoLogLevel::Fatal,
        5.. => InfoLogLevel::Header,
    }
}

const LEVELS: [&str; 6] =
    ["DEBUG_LEVEL", "INFO_LEVEL", "WARN_LEVEL", "ERROR_LEVEL", "FATAL_LEVEL", "HEADER_LEVEL"];

/// A logger of Java.
#[derive(Debug)]
pub struct JavaLogger {
    object: Global,
    log: Method,
    level: AtomicI8,
    levels: Vec<Global>,
}

impl JavaLogger {
    /// The logger `object`, for lines of `level` and above.
    ///
    /// # Errors
    /// A Java exception.
    pub fn new(env: Env<'_>, object: Object<'_>, level: i8) -> Result<JavaLogger> {
        let class = env.class_of(object);
        let signature = "(Lorg/rocksdb/InfoLogLevel;Ljava/lang/String;)V";
        let level_type = "Lorg/rocksdb/InfoLogLevel;";
        let mut levels = Vec::new();
        for name in LEVELS {
            let level = env.static_object("org/rocksdb/InfoLogLevel", name, level_type)?;
            levels.push(Global::new(env, level));
        }
        Ok(JavaLogger {
            object: Global::new(env, object),
            log: env.method(class, "log", signature)?,
            level: AtomicI8::new(level),
            levels,
        })
    }

    /// Its level, as Java's number.
    pub fn number(&self) -> i8 {
        self.level.load(Ordering::Relaxed)
    }

    /// Sets it.
    pub fn set_number(&self, level: i8) {
        self.level.store(level, Ordering::Relaxed);
    }
}

impl Logger for JavaLogger {
    fn log(&self, level: InfoLogLevel, message: fmt::Arguments<'_>) {
        if level < self.level() {
            return;
        }
        told(|env| {
            let text = env.new_text(&message.to_string())?;
            let level = self.levels.get(level as usize).map_or(Object::NULL, Global::object);
            let arguments = [jvalue { l: level.raw() }, jvalue { l: text.raw() }];
            env.call_void(self.object.object(), self.log, &arguments)
        });
    }
    fn level(&self) -> InfoLogLevel {
        level_of(self.number())
    }
}

/// `util.StdErrLogger`.
#[derive(Debug)]
pub struct StdErrLogger {
    level: AtomicI8,
    prefix: String,
}

impl StdErrLogger {
    /// A logger that writes each line behind `prefix`.
    pub fn new(level: i8, prefix: String) -> StdErrLogger {
        StdErrLogger { level: AtomicI8::new(level), prefix }
    }

    /// Its level, as Java's number.
    pub fn number(&self) -> i8 {
        self.level.load(Ordering::Relaxed)
    }

    /// Sets it.
    pub fn set_number(&self, level: i8) {
        self.level.store(level, Ordering::Relaxed);
    }
}

impl Logger for StdErrLogger {
    fn log(&self, level: InfoLogLevel, message: fmt::Arguments<'_>) {
        if level >= self.level() {
            // Nobody hears of a closed standard error.
            writeln!(std::io::stderr(), "{}{message}", self.prefix).ok();
        }
    }
    fn level(&self) -> InfoLogLevel {
        level_of(self.number())
    }
}
