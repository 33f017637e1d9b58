//! Reads a MANIFEST edit by edit, and decides what to do with an unusable end.
//!
//! Whole edits are returned up to the first thing that is not one: the end of the file, damage, or
//! a hole that the log format would accept. What follows the last whole change is dropped if it can
//! only be an append that a crash tore (`pumice_wal::is_torn_append`), and refused otherwise.
//! Decision 0016 says why that is safe and what the caller must check besides.
//!
//! Thread safety: plain functions; nothing is written. Suspends.

use pumice_base::narrow::to_usize;
use std::path::{Path, PathBuf};

use pumice_base::planted::{self, Bug};
use pumice_base::{Error, Result};
use pumice_env::FileSystem;
use pumice_manifest::VersionEdit;
use pumice_wal::{BLOCK_BYTES, LogEnd, LogReader, LogReaderOptions, RecordInfo, is_torn_append};

/// The largest end that is examined. An edit has some 150 bytes plus the keys for each file.
const TAIL_BYTES_MAX: u64 = 64 << 20;
/// Of the last record, so many bytes are kept to see that the file is still the same.
const COMPARED_BYTES_MAX: usize = 4096;
/// Of a record, or a part of one, in a MANIFEST.
const HEADER_BYTES: usize = 7;
/// A block's last bytes that cannot hold a header stay empty.
const TRAILER_BYTES_MAX: u64 = 6;

/// The end of a MANIFEST that a crash tore, which was not used.
#[derive(Debug, Clone)]
pub(crate) struct DroppedTail {
    pub manifest: PathBuf,
    /// Where it begins.
    pub offset: u64,
    pub bytes: u64,
    /// Bytes of it exist after missing ones. Otherwise the file is only too short or ends in zeros,
    /// which any reader of the format skips.
    pub holed: bool,
}

/// How far a MANIFEST has been read.
#[derive(Default)]
struct Progress {
    /// After the last record.
    read: u64,
    /// After the last record that ends a change.
    whole: u64,
}

impl Progress {
    /// Processes the record at `info`: returns its edit, unless it is empty.
    ///
    /// # Errors
    /// Corruption if it is no edit.
    fn take(&mut self, info: RecordInfo, record: &[u8]) -> Result<Option<VersionEdit>> {
        self.read = info.end;
        let edit = match record.is_empty() {
            true => VersionEdit::default(),
            false => VersionEdit::decode(record)?,
        };
        if edit.atomic_group_remaining.unwrap_or(0) == 0 {
            self.whole = info.end;
        }
        Ok((!record.is_empty()).then_some(edit))
    }
}

/// Calls `each` for every edit of a MANIFEST, including the first members of a torn atomic group.
/// Returns what was dropped after the last whole change.
///
/// # Errors
/// Corruption unless what follows the last whole change was torn by a crash; I/O errors; those of
/// `each`.
pub(crate) fn for_each_edit(
    fs: &dyn FileSystem,
    path: &Path,
    each: &mut dyn FnMut(VersionEdit) -> Result<()>,
) -> Result<Option<DroppedTail>> {
    let mut reader = LogReader::new(fs.open_sequential(path)?, LogReaderOptions::manifest(), None);
    let mut progress = Progress::default();
    let mut record = Vec::new();
    let defect = loop {
        match reader.read_record(&mut record) {
            Ok(Some(info)) if info.offset != next_record(progress.read) => {
                break Some(Error::corruption("records are missing"));
            }
            Ok(Some(info)) => progress.take(info, &record)?.map_or(Ok(()), &mut *each)?,
            Ok(None) => break None,
            Err(error) if error.is_corruption() => break Some(error),
            Err(error) => return Err(error),
        }
    };
    let cut = matches!(reader.end(), LogEnd::TornTail(_));
    drop_tail(fs, path, &progress, defect, cut)
}

/// A MANIFEST that is read while its owner appends to it.
///
/// Each call of `read_on` continues where the previous one stopped. It stops at an append that is
/// not complete yet. It also stops, for good, at damage that a crash explains: the owner creates
/// another MANIFEST when it opens again.
pub(crate) struct GrowingManifest {
    path: PathBuf,
    reader: LogReader,
    progress: Progress,
    /// Where the last record is, and how it begins.
    last: (u64, Vec<u8>),
    /// The end that a crash tore; nothing is read after it.
    dropped: Option<DroppedTail>,
}

impl GrowingManifest {
    /// Opens it, to be read from its beginning.
    ///
    /// # Errors
    /// I/O.
    pub fn open(fs: &dyn FileSystem, path: &Path) -> Result<Self> {
        let reader =
            LogReader::new(fs.open_sequential(path)?, LogReaderOptions::growing_manifest(), None);
        let (path, progress) = (path.to_path_buf(), Progress::default());
        Ok(GrowingManifest { path, reader, progress, last: (0, Vec::new()), dropped: None })
    }

    /// Calls `each` for every new edit, as [`for_each_edit`].
    ///
    /// # Errors
    /// As [`for_each_edit`]; it must not be used afterwards.
    pub fn read_on(
        &mut self,
        fs: &dyn FileSystem,
        each: &mut dyn FnMut(VersionEdit) -> Result<()>,
    ) -> Result<()> {
        let mut record = Vec::new();
        while self.dropped.is_none() {
            let defect = match self.reader.read_record(&mut record) {
                Ok(Some(info)) if info.offset == next_record(self.progress.read) => {
                    self.progress.take(info, &record)?.map_or(Ok(()), &mut *each)?;
                    self.last.0 = info.offset;
                    self.last.1.clear();
                    self.last.1.extend_from_slice(beginning(&record, info.offset));
                    continue;
                }
                Ok(None) => return Ok(()),
                Ok(Some(_)) => Error::corruption("records are missing"),
                Err(error) if error.is_corruption() => error,
                Err(error) => return Err(error),
            };
            self.dropped = drop_tail(fs, &self.path, &self.progress, Some(defect), false)?;
        }
        Ok(())
    }

    /// The file of that name still has the last record that was read: nobody has put another one in
    /// its place, that of a database that was restored for instance.
    pub fn is_in_place(&self, fs: &dyn FileSystem) -> bool {
        let (offset, record) = &self.last;
        let found = read_from(fs, &self.path, offset + HEADER_BYTES as u64, record.len());
        found.is_ok_and(|found| found == *record)
    }

    /// The end that a crash tore, if any.
    pub fn dropped(&self) -> Option<&DroppedTail> {
        self.dropped.as_ref()
    }
}

/// What the file has behind the first header of a record, which is at `offset`: some of the record.
fn beginning(record: &[u8], offset: u64) -> &[u8] {
    let in_block = to_usize(offset % BLOCK_BYTES as u64) + HEADER_BYTES;
    let bytes = BLOCK_BYTES.saturating_sub(in_block).min(COMPARED_BYTES_MAX);
    &record[..record.len().min(bytes)]
}

/// Where a record after `end` begins.
fn next_record(end: u64) -> u64 {
    let left = BLOCK_BYTES as u64 - end % BLOCK_BYTES as u64;
    if left <= TRAILER_BYTES_MAX { end + left } else { end }
}

/// Decides about what follows the last whole change. `defect` is the error that the reader found,
/// `cut` whether the file ends inside a record.
fn drop_tail(
    fs: &dyn FileSystem,
    path: &Path,
    progress: &Progress,
    defect: Option<Error>,
    cut: bool,
) -> Result<Option<DroppedTail>> {
    let bytes = fs.file_size(path)?.saturating_sub(progress.whole);
    if bytes == 0 {
        return Ok(None);
    }
    let refused = |why: &str| {
        let defect = defect.clone().unwrap_or_else(|| Error::corruption("records are missing"));
        let after = format!("the part after offset {}", progress.whole);
        Err(defect.with_context(format!("{after} is damaged, not torn by a crash ({why})")))
    };
    if bytes > TAIL_BYTES_MAX {
        return refused("it is too long");
    }
    let tail = read_from(fs, path, progress.whole, to_usize(bytes))?;
    let holed = defect.is_some() || !cut && tail.iter().any(|byte| *byte != 0);
    if holed && planted::is(Bug::TornManifestRefused) {
        return refused("planted");
    }
    if !planted::is(Bug::DamagedManifestCut)
        && let Err(why) = is_torn_append(&tail, progress.whole, &members_left)
    {
        return refused(why);
    }
    let manifest = path.to_path_buf();
    Ok(Some(DroppedTail { manifest, offset: progress.whole, bytes: tail.len() as u64, holed }))
}

/// How many members of its atomic group follow an edit.
fn members_left(record: &[u8]) -> Option<u32> {
    VersionEdit::decode(record).ok()?.atomic_group_remaining
}

fn read_from(fs: &dyn FileSystem, path: &Path, offset: u64, bytes: usize) -> Result<Vec<u8>> {
    let file = fs.open_random(path)?;
    let mut tail = vec![0; bytes];
    let mut read = 0;
    while let Some(rest) = tail.get_mut(read..).filter(|rest| !rest.is_empty()) {
        match file.read_at(offset + read as u64, rest)? {
            0 => break,
            n => read += n,
        }
    }
    tail.truncate(read);
    Ok(tail)
}
