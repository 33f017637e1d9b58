//! Copies of files, with their checksums: at a rate, with reports, until they are stopped.
//!
//! Thread safety: as the engine's. Suspends.

use std::path::Path;
use std::sync::atomic::Ordering;

use pumice_base::checksum::crc32c_extend;
use pumice_base::{Error, Result};
use pumice_env::{FileOptions, IoKind, IoPriority, RateLimiter};

use super::BackupEngine;
use super::meta::FileEntry;

/// Bytes copied at a time.
const CHUNK: usize = 1 << 20;

/// How files are copied.
pub(super) struct How<'a> {
    limiter: Option<&'a RateLimiter>,
    /// Called once for so many bytes of a file.
    progress: Option<(&'a dyn Fn(), u64)>,
    /// `stop_backup` ends it.
    stops: bool,
}

impl<'a> How<'a> {
    /// At a rate, to the end.
    pub fn at(limiter: Option<&'a RateLimiter>) -> Self {
        How { limiter, progress: None, stops: false }
    }
}

impl BackupEngine {
    /// How files of a backup are copied.
    pub(super) fn how_to_save<'a>(&'a self, progress: Option<&'a dyn Fn()>) -> How<'a> {
        let interval = self.options.callback_trigger_interval_size.max(1);
        How {
            limiter: self.limits.backup.as_deref(),
            progress: progress.map(|call| (call, interval)),
            stops: true,
        }
    }

    /// # Errors
    /// Incomplete after `stop_backup`.
    pub(super) fn check_not_stopped(&self) -> Result<()> {
        match self.stopped.load(Ordering::Acquire) {
            true => Err(Error::incomplete("Backup stopped")),
            false => Ok(()),
        }
    }

    /// Reads the first `bytes` of a file, or all, and copies them durably if there is a target;
    /// returns their CRC-32C.
    pub(super) fn copy(
        &self,
        from: &Path,
        bytes: Option<u64>,
        to: Option<&Path>,
        how: &How<'_>,
    ) -> Result<u32> {
        let mut source = self.fs.open_sequential(from)?;
        let mut target = match to {
            Some(to) => Some(self.fs.create(to, &FileOptions::default())?),
            None => None,
        };
        let chunk = |left: Option<u64>| {
            left.and_then(|left| usize::try_from(left).ok()).map_or(CHUNK, |left| left.min(CHUNK))
        };
        let mut buffer = vec![0; chunk(bytes)];
        let (mut done, mut crc, mut reported) = (0u64, 0, 0);
        while bytes.is_none_or(|bytes| done < bytes) {
            if how.stops {
                self.check_not_stopped()?;
            }
            let want = chunk(bytes.map(|bytes| bytes - done));
            let read = source.read(&mut buffer[..want])?;
            if read == 0 {
                break;
            }
            crc = crc32c_extend(crc, &buffer[..read]);
            // Only now is it known how many were read, as in RocksDB's engine.
            wait_for(how.limiter, read as u64, IoKind::Read);
            if let Some(target) = &mut target {
                wait_for(how.limiter, read as u64, IoKind::Write);
                target.append(&buffer[..read])?;
            }
            done += read as u64;
            if let Some((call, interval)) = how.progress {
                (reported..done / interval).for_each(|_| call());
                reported = done / interval;
            }
        }
        if bytes.is_some_and(|bytes| done < bytes) {
            return Err(Error::corruption(format!("{}: shorter than expected", from.display())));
        }
        if let Some(target) = &mut target {
            target.sync()?;
            target.close()?;
        }
        Ok(crc)
    }
}

/// Takes `bytes` from the limiter, a burst at a time.
fn wait_for(limiter: Option<&RateLimiter>, bytes: u64, kind: IoKind) {
    let Some(limiter) = limiter else { return };
    let mut left = bytes;
    while left > 0 {
        left -= limiter.request_token(left, 0, IoPriority::Low, kind, None);
    }
}

/// # Errors
/// Corruption if the file has another checksum than the backup says.
pub(super) fn check_crc(file: &FileEntry, computed: u32, from: &Path, to: &Path) -> Result<()> {
    match file.crc {
        Some(expected) if expected != computed => Err(Error::corruption(format!(
            "While restoring {} -> {}: expected checksum is {expected} while computed checksum is \
             {computed}",
            from.display(),
            to.display()
        ))),
        _ => Ok(()),
    }
}
