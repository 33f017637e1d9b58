//! Failures on command.
//!
//! A rule names an operation and a path pattern, lets some calls pass, then fails some. The table
//! also counts changing operations and can stop the world at a chosen one, so that a test can reach
//! every crash point; it can record the changes, so that a test can choose them.
//!
//! Thread safety: without rules a check is two atomic operations; with rules it takes a mutex.

use super::errors::{halted, os_error};
use pumice_base::random::Rng;
use pumice_base::{Error, Result};
use pumice_port::sim;
use pumice_port::sync::Mutex;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const EIO: i32 = 5;
const EXDEV: i32 = 18;
const EMFILE: i32 = 24;
const ENOSPC: i32 = 28;

/// A kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultOp {
    /// Opening for reading.
    Open,
    /// Opening for writing, with or without making the file.
    Create,
    /// Reading.
    Read,
    /// Appending.
    Write,
    /// Syncing a file.
    Sync,
    /// Syncing a directory.
    SyncDir,
    /// Renaming.
    Rename,
    /// Linking.
    Link,
    /// Removing a name or a directory.
    Remove,
    /// Setting a length.
    Truncate,
    /// Making a directory.
    MakeDir,
    /// Asking for existence, length, time or free space.
    Stat,
    /// Listing a directory.
    List,
    /// Taking a lock.
    Lock,
    /// Closing a written file.
    Close,
}

impl FaultOp {
    /// Whether the operation changes what a crash can leave.
    fn changes(self) -> bool {
        use FaultOp::*;
        matches!(
            self,
            Create | Write | Sync | SyncDir | Rename | Link | Remove | Truncate | MakeDir
        )
    }
}

/// The state of a file whose sync failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FsyncFailure {
    /// The new bytes are read until the crash and gone after it; a second sync reports success.
    ReadableThenLost,
    /// The bytes are durable nevertheless.
    Durable,
    /// The bytes are gone at once; reads give what was durable.
    OldData,
}

/// How an operation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// EIO; nothing happens.
    Eio,
    /// ENOSPC; nothing happens.
    Enospc,
    /// EMFILE: no descriptor is left; nothing happens.
    Emfile,
    /// EXDEV: the two names would be on different devices; nothing happens.
    Exdev,
    /// NotSupported: the file system lacks the operation, links say; nothing happens.
    Unsupported,
    /// A write stops at some byte and reports EIO. Elsewhere the same as `Eio`.
    ShortWrite,
    /// A sync reports EIO and does this to the file. Elsewhere the same as `Eio`.
    Fsync(FsyncFailure),
    /// A read gives only some of the bytes and says so; the device breaks its promise. Elsewhere
    /// the same as `Eio`.
    ShortRead,
    /// A read gives one wrong bit and reports nothing. Elsewhere the same as `Eio`.
    BitFlip,
    /// A write succeeds, and its sectors cannot be read from then on (EIO), until they are written
    /// again. Elsewhere the same as `Eio`.
    BadRange,
    /// A write reports success, and its bytes went to another place of the file; where they should
    /// be is what was there, or zeros. Elsewhere the same as `Eio`.
    Misdirected,
    /// The operation takes this many nanoseconds longer; only in a simulation.
    Stall(u64),
    /// The wall clock moves by this many seconds during the operation; only in a simulation.
    WallJump(i64),
}

/// When to fail, and how.
#[derive(Clone, Debug)]
pub struct FaultRule {
    /// The operation; `None` for any.
    pub op: Option<FaultOp>,
    /// The path; `*` stands for any text, `?` for one character.
    pub path_glob: String,
    /// This many matching calls pass first.
    pub skip: u64,
    /// This many then fail; `u64::MAX` for all.
    pub count: u64,
    /// How they fail.
    pub fault: Fault,
}

impl FaultRule {
    /// Fails every `op` on paths like `path_glob`, from the first.
    pub fn always(op: FaultOp, path_glob: &str, fault: Fault) -> Self {
        let path_glob = path_glob.to_string();
        FaultRule { op: Some(op), path_glob, skip: 0, count: u64::MAX, fault }
    }
    /// Fails `op` on paths like `path_glob` once, after `skip` passed.
    pub fn once(op: FaultOp, path_glob: &str, skip: u64, fault: Fault) -> Self {
        FaultRule { skip, count: 1, ..FaultRule::always(op, path_glob, fault) }
    }

    /// Counts a matching call; returns whether it fails.
    fn hit(&mut self, op: FaultOp, path: &str) -> bool {
        if self.op.is_some_and(|own| own != op) || !glob_matches(&self.path_glob, path) {
            return false;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        let fails = self.count > 0;
        if fails && self.count != u64::MAX {
            self.count -= 1;
        }
        fails
    }
}

/// Whether `text` is like `pattern`, where `*` is any text and `?` any one byte.
fn glob_matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    // The position of the last star, and how far it is assumed to reach.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(&c) if c == b'?' || c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((at, reach)) => {
                    star = Some((at, reach + 1));
                    p = at + 1;
                    t = reach + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}

/// What a caller that can fail in its own way must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Go on.
    Go,
    /// Write only this many 1024ths, then report EIO.
    WritePart(u64),
    /// Do this to the file, then report EIO.
    FailSync(FsyncFailure),
    /// Read only this many 1024ths, report success.
    ReadPart(u64),
    /// Change the bit with this number (modulo all there are), report success.
    FlipBit(u64),
    /// Write, then make the written range unreadable.
    SpoilRange,
    /// Write this many sectors before the right place (modulo the existing ones).
    Misdirect(u64),
}

struct Rules {
    rules: Vec<FaultRule>,
    log: Vec<String>,
    rng: Rng,
    /// What changed, if changes are recorded.
    changes: Option<Vec<(FaultOp, PathBuf)>>,
}

/// See the head of this file.
pub(super) struct FaultTable {
    armed: AtomicBool,
    changes: AtomicU64,
    /// The first change that does not happen any more.
    halt_at: AtomicU64,
    rules: Mutex<Rules>,
}

impl FaultTable {
    pub(super) fn new(seed: u64) -> Self {
        let rng = Rng::new(seed);
        let rules = Rules { rules: Vec::new(), log: Vec::new(), rng, changes: None };
        FaultTable {
            armed: AtomicBool::new(false),
            changes: AtomicU64::new(0),
            halt_at: AtomicU64::new(u64::MAX),
            rules: Mutex::new(rules),
        }
    }

    pub(super) fn add(&self, rule: FaultRule) {
        self.rules.lock().rules.push(rule);
        self.armed.store(true, Ordering::Release);
    }
    pub(super) fn clear(&self) {
        let mut state = self.rules.lock();
        state.rules.clear();
        self.armed.store(state.changes.is_some(), Ordering::Release);
        drop(state);
        self.halt_at.store(u64::MAX, Ordering::Release);
    }
    pub(super) fn note_changes(&self) {
        self.rules.lock().changes.get_or_insert_default();
        self.armed.store(true, Ordering::Release);
    }
    pub(super) fn noted_changes(&self) -> Vec<(FaultOp, PathBuf)> {
        self.rules.lock().changes.clone().unwrap_or_default()
    }
    pub(super) fn log(&self) -> Vec<String> {
        self.rules.lock().log.clone()
    }
    pub(super) fn change_count(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }
    pub(super) fn halt_after(&self, changes: u64) {
        self.halt_at.store(self.change_count().saturating_add(changes), Ordering::Release);
    }

    /// For operations that fail whole.
    pub(super) fn check(&self, op: FaultOp, operation: &str, path: &Path) -> Result<()> {
        match self.judge(op, operation, path)? {
            Verdict::Go => Ok(()),
            _ => Err(os_error(operation, path, EIO)),
        }
    }

    /// For writes and syncs, which can also fail in their own ways.
    #[inline]
    pub(super) fn judge(&self, op: FaultOp, operation: &str, path: &Path) -> Result<Verdict> {
        let change = match op.changes() {
            true => self.changes.fetch_add(1, Ordering::AcqRel),
            false => self.changes.load(Ordering::Acquire),
        };
        // A halted world fails every call: later changes, and reads after them.
        if change >= self.halt_at.load(Ordering::Acquire) {
            return Err(halted(operation, path));
        }
        if !self.armed.load(Ordering::Acquire) {
            return Ok(Verdict::Go);
        }
        self.ask_rules(op, operation, path)
    }

    #[cold]
    fn ask_rules(&self, op: FaultOp, operation: &str, path: &Path) -> Result<Verdict> {
        let (fault, number) = {
            let state = &mut *self.rules.lock();
            if let Some(changes) = state.changes.as_mut().filter(|_| op.changes()) {
                changes.push((op, path.to_path_buf()));
            }
            let name = path.to_string_lossy();
            let hit = state.rules.iter_mut().find_map(|r| r.hit(op, &name).then_some(r.fault));
            let Some(fault) = hit else { return Ok(Verdict::Go) };
            state.log.push(format!("{fault:?} at {op:?} {name}"));
            (fault, state.rng.next_u64() >> 1)
        };
        let errno = match fault {
            Fault::Stall(nanos) => {
                sim::device_wait(nanos);
                return Ok(Verdict::Go);
            }
            Fault::WallJump(seconds) => {
                sim::jump_wall_clock(seconds.saturating_mul(1_000_000_000));
                return Ok(Verdict::Go);
            }
            Fault::ShortWrite if op == FaultOp::Write => {
                return Ok(Verdict::WritePart(number % 1024));
            }
            Fault::BadRange if op == FaultOp::Write => return Ok(Verdict::SpoilRange),
            Fault::Misdirected if op == FaultOp::Write => return Ok(Verdict::Misdirect(number)),
            Fault::Fsync(failure) if op == FaultOp::Sync => return Ok(Verdict::FailSync(failure)),
            Fault::ShortRead if op == FaultOp::Read => return Ok(Verdict::ReadPart(number % 1024)),
            Fault::BitFlip if op == FaultOp::Read => return Ok(Verdict::FlipBit(number)),
            Fault::Enospc => ENOSPC,
            Fault::Emfile => EMFILE,
            Fault::Exdev => EXDEV,
            Fault::Unsupported => {
                let text = format!("{operation}: {}", path.display());
                return Err(Error::not_supported(text));
            }
            _ => EIO,
        };
        Err(os_error(operation, path, errno))
    }
}

#[cfg(test)]
mod tests {
    use super::glob_matches;

    #[pumice_test_macros::test]
    fn globs() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("*", "/db/000001.log", true),
            ("*.log", "/db/000001.log", true),
            ("*.log", "/db/000001.logs", false),
            ("/db/*", "/dbx/1", false),
            ("*MANIFEST-*", "/db/MANIFEST-000005", true),
            ("*0?.sst", "/db/00001.sst", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("", "", true),
            ("", "x", false),
        ] {
            assert_eq!(glob_matches(pattern, text), expected, "{pattern} {text}");
        }
    }
}
