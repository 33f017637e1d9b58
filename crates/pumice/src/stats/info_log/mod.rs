//! The info log: the file LOG, for people.
//!
//! ```text
//! 2026/11/21-19:55:02.123456 1234 [engine/open.rs:120] message
//! time of the wall clock     thread  [WARN] before the rest above level info
//! ```
//!
//! At open, and when it exceeds `max_log_file_size` or `log_file_time_to_roll`, an existing LOG
//! becomes `LOG.old.<micros>`; the oldest are removed so that `keep_log_file_num` remain.
//!
//! Thread safety: any thread may log; lines do not mix. Writing a line may suspend.
//!
//! Invariants:
//! 1. A failure to write the info log is never an error of the database: the line is dropped and
//!    counted.
//! 2. Every line reaches the operating system before `log` returns, so that a killed process
//!    loses none.

use std::fmt;
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pumice_base::Result;
use pumice_env::{FileOptions, FileSystem, WritableFile};
use pumice_port::sync::Mutex;
use pumice_port::{thread, time};

use super::InfoLogLevel;
use crate::lock_order;

/// Receiver of info-log lines.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// # let dir = std::env::temp_dir().join(format!("pumice-logger-{}", std::process::id()));
/// use std::fmt::Arguments;
/// use std::sync::{Arc, Mutex};
///
/// use pumice::{Logger, stats::InfoLogLevel};
///
/// /// Keeps lines in memory, in place of the file `LOG`.
/// struct Lines(Mutex<Vec<String>>);
///
/// impl Logger for Lines {
///     fn log(&self, level: InfoLogLevel, message: Arguments<'_>) {
///         self.0.lock().expect("no panics").push(format!("{level:?} {message}"));
///     }
///     fn level(&self) -> InfoLogLevel {
///         InfoLogLevel::Info
///     }
/// }
///
/// let lines = Arc::new(Lines(Mutex::new(Vec::new())));
/// let log = lines.clone();
/// let db = pumice::Db::builder(&dir)
///     .create(true)
///     .configure(|options| options.db.info_log = Some(log))
///     .open()?;
/// db.close()?;
/// assert!(!lines.0.lock().expect("no panics").is_empty());
/// # pumice::Db::destroy(&Default::default(), &dir)?;
/// # Ok(())
/// # }
/// ```
pub trait Logger: Send + Sync {
    /// Writes one line (or several: `message` may contain line ends).
    fn log(&self, level: InfoLogLevel, message: fmt::Arguments<'_>);
    /// Lines below this level need not be formatted. Called when the database is opened and after
    /// lines.
    fn level(&self) -> InfoLogLevel;
    /// Whether the logger is fast and calls no database. Then the threads that make lines call it,
    /// under any lock and concurrently. Any other logger is called by a thread of its own, a little
    /// later, one line at a time.
    fn is_plain(&self) -> bool {
        false
    }
    /// Waits, at most a second, until all lines so far are written; must not be called in the
    /// logger itself.
    fn settle(&self) {}
}

impl dyn Logger {
    /// Writes a line for developers.
    #[track_caller]
    pub fn debug(&self, message: fmt::Arguments<'_>) {
        self.located(InfoLogLevel::Debug, message);
    }
    /// Writes a line about normal operation.
    #[track_caller]
    pub fn info(&self, message: fmt::Arguments<'_>) {
        self.located(InfoLogLevel::Info, message);
    }
    /// Writes a warning.
    #[track_caller]
    pub fn warn(&self, message: fmt::Arguments<'_>) {
        self.located(InfoLogLevel::Warn, message);
    }
    /// Writes an error.
    #[track_caller]
    pub fn error(&self, message: fmt::Arguments<'_>) {
        self.located(InfoLogLevel::Error, message);
    }
    /// Writes a line that no level hides, without its place in the source.
    pub fn header(&self, message: fmt::Arguments<'_>) {
        self.log(InfoLogLevel::Header, message);
    }

    #[track_caller]
    fn located(&self, level: InfoLogLevel, message: fmt::Arguments<'_>) {
        if level < self.level() {
            return;
        }
        let place = Location::caller();
        self.log(level, format_args!("[{}:{}] {message}", last_two(place.file()), place.line()));
    }
}

/// `engine/open.rs` of a longer path.
fn last_two(path: &str) -> &str {
    let mut slashes = path.rmatch_indices('/').map(|(at, _)| at);
    match slashes.nth(1) {
        Some(at) => &path[at + 1..],
        None => path,
    }
}

/// Drops every line.
///
/// ```
/// use std::sync::Arc;
/// use pumice::stats::NullLogger;
/// let mut options = pumice::Options::default();
/// options.db.info_log = Some(Arc::new(NullLogger)); // No file `LOG`.
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct NullLogger;

impl Logger for NullLogger {
    fn log(&self, _level: InfoLogLevel, _message: fmt::Arguments<'_>) {}
    fn level(&self) -> InfoLogLevel {
        InfoLogLevel::Header
    }
    fn is_plain(&self) -> bool {
        true
    }
}

struct OpenFile {
    file: Option<Box<dyn WritableFile>>,
    bytes: u64,
    opened_micros: u64,
    dropped_lines: u64,
}

/// The file LOG of a database.
pub struct InfoLog {
    fs: Arc<dyn FileSystem>,
    /// Directory of the file.
    dir: PathBuf,
    /// Name of the file: `LOG`, or `<flattened database path>_LOG` in a foreign directory.
    name: String,
    level: InfoLogLevel,
    max_bytes: u64,
    roll_micros: u64,
    keep: usize,
    open: Mutex<OpenFile>,
}

impl std::fmt::Debug for InfoLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("InfoLog");
        shown.field("dir", &self.dir).field("name", &self.name).finish_non_exhaustive()
    }
}

/// The options of the info log.
#[derive(Clone, Debug)]
pub struct InfoLogSettings {
    /// `db_log_dir`.
    pub dir: String,
    /// `info_log_level`.
    pub level: InfoLogLevel,
    /// `max_log_file_size`, bytes.
    pub max_bytes: u64,
    /// `log_file_time_to_roll`, seconds.
    pub roll_seconds: u64,
    /// `keep_log_file_num`.
    pub keep: usize,
}

impl InfoLog {
    /// Opens the info log of the database at `db_path` after putting the previous one aside.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn open(
        fs: Arc<dyn FileSystem>,
        db_path: &Path,
        settings: &InfoLogSettings,
    ) -> Result<Self> {
        let (dir, name) = location(db_path, &settings.dir);
        fs.create_dir_all(&dir)?;
        let log = InfoLog {
            fs,
            dir,
            name,
            level: settings.level,
            max_bytes: settings.max_bytes,
            roll_micros: settings.roll_seconds.saturating_mul(1_000_000),
            keep: settings.keep.max(1),
            open: Mutex::ranked(
                &lock_order::INFO_LOG,
                OpenFile { file: None, bytes: 0, opened_micros: 0, dropped_lines: 0 },
            ),
        };
        log.roll(&mut log.open.lock())?;
        Ok(log)
    }

    /// The info logs of the database at `db_path`, present and old.
    ///
    /// # Errors
    /// The errors of listing the directory, unless it does not exist.
    pub fn files(fs: &dyn FileSystem, db_path: &Path, log_dir: &str) -> Result<Vec<PathBuf>> {
        let (dir, name) = location(db_path, log_dir);
        let names = match fs.list(&dir) {
            Err(error) if error.is_not_found() => return Ok(Vec::new()),
            names => names?,
        };
        let old = format!("{name}.old.");
        let is_ours = |found: &String| {
            let micros = found.strip_prefix(&old);
            *found == name || micros.is_some_and(|m| m.parse::<u64>().is_ok())
        };
        Ok(names.into_iter().filter(is_ours).map(|found| dir.join(found)).collect())
    }

    /// Lines that could not be written.
    #[cfg(test)]
    pub fn dropped_lines(&self) -> u64 {
        self.open.lock().dropped_lines
    }

    fn old_prefix(&self) -> String {
        format!("{}.old.", self.name)
    }

    /// Puts the present file aside and starts an empty one.
    fn roll(&self, open: &mut OpenFile) -> Result<()> {
        if let Some(mut file) = open.file.take() {
            file.close()?;
        }
        let path = self.dir.join(&self.name);
        if self.fs.exists(&path)? {
            let mut micros = time::wall_micros();
            let mut old = self.dir.join(format!("{}{micros}", self.old_prefix()));
            while self.fs.exists(&old)? {
                micros += 1;
                old = self.dir.join(format!("{}{micros}", self.old_prefix()));
            }
            self.fs.rename(&path, &old)?;
        }
        self.remove_oldest()?;
        open.file = Some(self.fs.create(&path, &FileOptions::default())?);
        open.bytes = 0;
        open.opened_micros = time::wall_micros();
        Ok(())
    }

    /// Removes old logs so that `keep` remain with the one about to be created.
    fn remove_oldest(&self) -> Result<()> {
        let prefix = self.old_prefix();
        let mut old: Vec<u64> = self
            .fs
            .list(&self.dir)?
            .iter()
            .filter_map(|name| name.strip_prefix(&prefix)?.parse().ok())
            .collect();
        old.sort_unstable();
        let excess = (old.len() + 1).saturating_sub(self.keep);
        for micros in &old[..excess.min(old.len())] {
            self.fs.remove(&self.dir.join(format!("{prefix}{micros}")))?;
        }
        Ok(())
    }

    fn write(&self, open: &mut OpenFile, line: &[u8], now_micros: u64) -> Result<()> {
        let full = self.max_bytes > 0 && open.bytes >= self.max_bytes;
        let aged = self.roll_micros > 0
            && now_micros.saturating_sub(open.opened_micros) >= self.roll_micros;
        if full || aged || open.file.is_none() {
            self.roll(open)?;
        }
        if let Some(file) = &mut open.file {
            file.append(line)?;
            file.flush()?;
        }
        open.bytes += line.len() as u64;
        Ok(())
    }
}

/// The line of LOG for a message of now and this thread, with its line end.
pub fn line(level: InfoLogLevel, message: fmt::Arguments<'_>) -> String {
    let mark = match level {
        InfoLogLevel::Info | InfoLogLevel::Header => "",
        InfoLogLevel::Debug => "[DEBUG] ",
        InfoLogLevel::Warn => "[WARN] ",
        InfoLogLevel::Error => "[ERROR] ",
        InfoLogLevel::Fatal => "[FATAL] ",
    };
    let time = time::local_time_string(time::wall_micros());
    let mut line = format!("{time} {} {mark}{message}", thread::current_id());
    if !line.ends_with('\n') {
        line.push('\n');
    }
    line
}

impl Logger for InfoLog {
    fn log(&self, level: InfoLogLevel, message: fmt::Arguments<'_>) {
        if level < self.level {
            return;
        }
        let line = line(level, message);
        let now = time::wall_micros();
        let mut open = self.open.lock();
        if self.write(&mut open, line.as_bytes(), now).is_err() {
            open.file = None;
            open.dropped_lines += 1;
        }
    }

    fn level(&self) -> InfoLogLevel {
        self.level
    }
}

/// Directory and name of the info log of the database at `db_path`.
fn location(db_path: &Path, log_dir: &str) -> (PathBuf, String) {
    if log_dir.is_empty() {
        return (db_path.to_path_buf(), "LOG".to_string());
    }
    let path = db_path.to_string_lossy();
    let flat: String = path
        .trim_start_matches('/')
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "-._".contains(c) { c } else { '_' })
        .collect();
    (PathBuf::from(log_dir), format!("{flat}_LOG"))
}

#[cfg(test)]
mod tests;
