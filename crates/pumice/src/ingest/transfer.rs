//! Bringing a file into the database's directory, durably, and writing into it.
//!
//! Nothing refers to the new file yet: a crash on the way leaves a file that the next open deletes.
//! A linked file shares its bytes with the caller's, so it is never written to.
//!
//! Thread safety: plain functions over a file system. Suspends on I/O.

use std::path::Path;

use pumice_base::planted::{self, Bug};
use pumice_base::{Error, ErrorKind, Result, SequenceNumber};
use pumice_env::{FileOptions, FileSystem, Temperature};

use crate::ingest::IngestExternalFileOptions;

/// Bytes copied at a time.
const CHUNK: usize = 1 << 20;
const SEQNO_BYTES: usize = 8;

/// "Cross-device link": the target is on another file system.
const EXDEV: i32 = 18;
/// "Operation not permitted": the file system of the target has no hard links.
const EPERM: i32 = 1;
/// "Operation not supported".
const EOPNOTSUPP: i32 = 95;

/// How a file came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transferred {
    Linked,
    Copied,
}

/// Gives the file `from` of `bytes` bytes the name `to`, or makes a copy of that name and
/// temperature. Its bytes are then durable; its name is not. `stop` is called from time to time;
/// its error ends the copy.
///
/// # Errors
/// I/O; Corruption if the file is not as long as it was.
pub(crate) fn transfer(
    fs: &dyn FileSystem,
    options: &IngestExternalFileOptions,
    use_fsync: bool,
    (from, bytes): (&Path, u64),
    (to, temperature): (&Path, Temperature),
    stop: &dyn Fn() -> Result<()>,
) -> Result<Transferred> {
    // A file that will be written to must be the database's own.
    let link = (options.move_files || options.link_files) && !options.write_global_seqno;
    if link {
        match fs.link(from, to) {
            Ok(()) if planted::is(Bug::IngestLinkNotSynced) => return Ok(Transferred::Linked),
            Ok(()) => {
                // The caller may not have synced it.
                let mut file = fs.reopen_append(to)?;
                if use_fsync {
                    file.fsync()?
                } else {
                    file.sync()?
                }
                file.close()?;
                return Ok(Transferred::Linked);
            }
            Err(error) if options.failed_move_fall_back_to_copy && is_unlinkable(&error) => {}
            Err(error) => return Err(error),
        }
    }
    copy(fs, use_fsync, (from, bytes), (to, temperature), stop)?;
    Ok(Transferred::Copied)
}

/// Copies the first `bytes` bytes of the file `from`, durably. `stop` is called from time to time.
///
/// # Errors
/// I/O; Corruption if the file is shorter; that of `stop`.
pub(crate) fn copy(
    fs: &dyn FileSystem,
    use_fsync: bool,
    (from, bytes): (&Path, u64),
    (to, temperature): (&Path, Temperature),
    stop: &dyn Fn() -> Result<()>,
) -> Result<()> {
    let mut source = fs.open_sequential(from)?;
    let how = FileOptions { temperature, ..FileOptions::default() };
    let mut target = fs.create(to, &how)?;
    let mut buffer = vec![0u8; CHUNK.min(usize::try_from(bytes).unwrap_or(CHUNK))];
    let mut left = bytes;
    while left > 0 {
        stop()?;
        let want = buffer.len().min(usize::try_from(left).unwrap_or(CHUNK));
        let read = source.read(&mut buffer[..want])?;
        if read == 0 {
            return Err(Error::corruption(format!(
                "{}: shorter than the expected {bytes} bytes",
                from.display()
            )));
        }
        target.append(&buffer[..read])?;
        left -= read as u64;
    }
    if use_fsync {
        target.fsync()?
    } else {
        target.sync()?
    }
    target.close()
}

/// Stores `sequence` in the copied table `path`, whose property for it is at `offset`, durably. The
/// checksum of the properties is left as it was, which readers know
/// (docs/format/table.md#ingested-files).
///
/// # Errors
/// I/O; the file is then useless.
pub(crate) fn store_seqno(
    fs: &dyn FileSystem,
    use_fsync: bool,
    path: &Path,
    offset: u64,
    sequence: SequenceNumber,
) -> Result<()> {
    let file = fs.open_random(path)?;
    let mut tail = vec![0; usize::try_from(file.len().saturating_sub(offset)).unwrap_or(0)];
    let read = file.read_at(offset, &mut tail)?;
    if read != tail.len() || tail.len() < SEQNO_BYTES {
        return Err(Error::corruption(format!("{}: too short", path.display())));
    }
    drop(file);
    tail[..SEQNO_BYTES].copy_from_slice(&sequence.to_le_bytes());
    let mut file = fs.reopen_append(path)?;
    file.truncate(offset)?;
    file.append(&tail)?;
    if use_fsync {
        file.fsync()?
    } else {
        file.sync()?
    }
    file.close()
}

/// The two names are on different file systems, or their file system has no hard links.
pub(crate) fn is_unlinkable(error: &Error) -> bool {
    error.kind() == ErrorKind::NotSupported
        || matches!(error.os_error(), Some(EXDEV | EPERM | EOPNOTSUPP))
}
