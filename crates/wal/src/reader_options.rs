//! How a log is read.
//!
//! Thread safety: values.

use crate::record::WalRecoveryMode;

/// How a log is read.
#[derive(Clone, Copy, Debug)]
pub struct LogReaderOptions {
    /// The file's number, which recyclable records carry.
    pub log_number: u64,
    /// What to make of damage.
    pub recovery_mode: WalRecoveryMode,
    /// Checksums are verified.
    pub checksum: bool,
    /// Only the plain types are legal, as in a MANIFEST.
    pub is_manifest: bool,
    /// The file is still being written: its end does not end the log, see the head of `reader`.
    pub is_growing: bool,
}

impl LogReaderOptions {
    /// For the log with that number.
    pub fn wal(log_number: u64, recovery_mode: WalRecoveryMode) -> Self {
        LogReaderOptions {
            log_number,
            recovery_mode,
            checksum: true,
            is_manifest: false,
            is_growing: false,
        }
    }
    /// For the log with that number while it is being written. Damage is skipped.
    pub fn growing_wal(log_number: u64) -> Self {
        let mode = WalRecoveryMode::SkipAnyCorrupted;
        LogReaderOptions { is_growing: true, ..Self::wal(log_number, mode) }
    }
    /// For a MANIFEST: an incomplete record at the end is dropped, other damage is an error.
    pub fn manifest() -> Self {
        let recovery_mode = WalRecoveryMode::TolerateCorruptedTail;
        LogReaderOptions { is_manifest: true, ..Self::wal(0, recovery_mode) }
    }
    /// For a MANIFEST while its owner appends to it.
    pub fn growing_manifest() -> Self {
        LogReaderOptions { is_growing: true, ..Self::manifest() }
    }
    /// For the log with that number while its owner appends to it: damage ends it as the mode says,
    /// its end does not.
    pub fn followed_wal(log_number: u64, recovery_mode: WalRecoveryMode) -> Self {
        LogReaderOptions { is_growing: true, ..Self::wal(log_number, recovery_mode) }
    }
}
