//! One file of an exported column family: opened, checked, its bounds found.
//!
//! Nothing here touches the database's directory, and nothing enters the block cache. Suspends on
//! I/O.
//!
//! Invariant of [`ImportedFile`]: `smallest` and `largest` are internal keys in order, and all
//! point entries of the file lie between them. Range tombstones may reach further: readers cut them
//! at the bounds, as in the database that wrote the file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pumice_base::key::{LAST_SEQUENCE_MAX, MAX_SEQUENCE, parse_internal_key};
use pumice_base::order;
use pumice_base::{Error, FileNumber, InternalKey, Result, SequenceNumber};
use pumice_env::FileSystem;
use pumice_manifest::FileMetaData;
use pumice_manifest::file_meta::MAX_EPOCH;
use pumice_port::time;
use pumice_table::properties::UNKNOWN_SEQNO;
use pumice_table::{Table, TableProperties, TableReadOptions, unique_id_of};

use crate::ingest::external;
use crate::version::family::CfData;
use crate::version::table_cache::file_stats;

/// What the description of an exported file says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Description<'a> {
    pub level: usize,
    /// 0 if unknown.
    pub epoch: u64,
    pub smallest_seq: SequenceNumber,
    pub largest_seq: SequenceNumber,
    /// Internal keys, empty if they are to be read from the file.
    pub bounds: (&'a [u8], &'a [u8]),
    /// RocksDB's number; 0 is unknown.
    pub temperature: u8,
}

/// No database has had so many flushes. The family's own files count on from here, and a MANIFEST
/// must be able to name them.
const EPOCH_MAX: u64 = MAX_EPOCH / 2;

/// A file to be imported.
pub(crate) struct ImportedFile {
    pub path: PathBuf,
    /// The file's number in the database.
    pub number: FileNumber,
    pub level: usize,
    pub epoch: u64,
    pub bytes: u64,
    pub smallest: Vec<u8>,
    pub largest: Vec<u8>,
    pub smallest_seq: SequenceNumber,
    pub largest_seq: SequenceNumber,
    /// RocksDB's number; 0 is unknown.
    pub temperature: u8,
    /// Its keys have lost their timestamps.
    stripped: bool,
    properties: TableProperties,
}

/// Opens and checks the file `path`, to become file `number` of `cf`.
///
/// # Errors
/// RocksDB's, with its texts: InvalidArgument for a file without entries; Corruption for one with
/// other keys or sequence numbers than described; those of opening a table; I/O. NotSupported for
/// one that refers to blob files.
pub(crate) fn examine(
    fs: &dyn FileSystem,
    cf: &CfData,
    path: &Path,
    number: FileNumber,
    described: &Description<'_>,
) -> Result<ImportedFile> {
    if described.epoch > EPOCH_MAX {
        let text = format!("no file has the epoch number {}", described.epoch);
        return Err(Error::invalid_argument(text).with_context(path.display()));
    }
    let table = external::open(fs, cf, path, (number, described.largest_seq), false)?;
    external::refuse_blobs(&table)?;
    let properties = table.properties();
    if properties.num_entries == 0 && properties.num_range_deletions == 0 {
        return Err(Error::invalid_argument("File contain no entries"));
    }
    let stored = properties.key_largest_seqno;
    let largest_seq = match stored {
        UNKNOWN_SEQNO => described.largest_seq,
        stored => described.largest_seq.max(stored),
    };
    if described.smallest_seq > largest_seq || largest_seq > LAST_SEQUENCE_MAX {
        return Err(corrupted(path));
    }
    let bounds = match described.bounds {
        (&[], _) | (_, &[]) => external::bounds(cf, &table, (0, MAX_SEQUENCE), false)?,
        (smallest, largest) => Some((smallest.to_vec(), largest.to_vec())),
    };
    let Some((smallest, largest)) = bounds else { return Err(corrupted(path)) };
    if !encloses(cf, &table, &smallest, &largest)? {
        return Err(corrupted(path));
    }
    Ok(ImportedFile {
        path: path.to_path_buf(),
        number,
        level: described.level,
        epoch: described.epoch,
        bytes: table.file_size(),
        smallest,
        largest,
        smallest_seq: described.smallest_seq,
        largest_seq,
        temperature: described.temperature,
        stripped: cf.table_keys.stripped,
        properties: properties.clone(),
    })
}

/// Whether the bounds are internal keys in order, with all point entries of the table between them.
fn encloses(cf: &CfData, table: &Arc<Table>, smallest: &[u8], largest: &[u8]) -> Result<bool> {
    if parse_internal_key(smallest).is_err() || parse_internal_key(largest).is_err() {
        return Ok(false);
    }
    let (smallest, largest) = (InternalKey::new(smallest), InternalKey::new(largest));
    if cf.table_keys.icmp.compare(smallest, largest).is_gt() {
        return Ok(false);
    }
    let options = TableReadOptions { fill_cache: false, ..TableReadOptions::default() };
    let mut iter = table.iter(&options);
    iter.seek_to_first();
    if !iter.valid() {
        return iter.status().map(|()| true);
    }
    if cf.table_keys.icmp.compare(smallest, iter.key()).is_gt() {
        return Ok(false);
    }
    iter.seek_to_last();
    iter.status()?;
    Ok(iter.valid() && cf.table_keys.icmp.compare(iter.key(), largest).is_le())
}

#[cold]
fn corrupted(path: &Path) -> Error {
    Error::corruption("File has corrupted keys").with_context(path.display())
}

impl ImportedFile {
    /// What the MANIFEST says of it: as in RocksDB its times are those of the import, and the
    /// checksum of the whole file is unknown.
    pub fn metadata(&self) -> Arc<FileMetaData> {
        let properties = &self.properties;
        let now = time::wall_seconds();
        let tail_start = properties.tail_start_offset;
        let meta = FileMetaData {
            number: self.number,
            file_size: self.bytes,
            smallest: self.smallest.clone(),
            largest: self.largest.clone(),
            smallest_seq: self.smallest_seq,
            largest_seq: self.largest_seq,
            epoch_number: self.epoch,
            temperature: self.temperature,
            oldest_ancester_time: now,
            file_creation_time: now,
            unique_id: unique_id_of(properties).unwrap_or([0, 0]),
            timestamps_stripped: self.stripped,
            tail_size: if tail_start > 0 { self.bytes.saturating_sub(tail_start) } else { 0 },
            ..FileMetaData::default()
        };
        meta.stats.get_or_init(|| file_stats(properties));
        Arc::new(meta)
    }
}

/// Gives all files epochs, as RocksDB does (`RecoverEpochNumbers`): if one has none, one for each
/// level from the deepest up, then one for each file of level 0 from the oldest. Returns the
/// largest.
pub(crate) fn assign_epochs(files: &mut [ImportedFile]) -> u64 {
    if files.iter().any(|file| file.epoch == 0) {
        order::sort_by_key(files, |f| {
            (std::cmp::Reverse(f.level), f.largest_seq, f.smallest_seq, f.number)
        });
        let mut next = 0;
        let mut before = None;
        for file in files.iter_mut() {
            next += u64::from(file.level == 0 || before != Some(file.level));
            before = Some(file.level);
            file.epoch = next;
        }
    }
    files.iter().map(|file| file.epoch).max().unwrap_or(0)
}

/// Checks that the files of each level below the first do not overlap, and that there are so many
/// levels.
///
/// # Errors
/// InvalidArgument; Corruption.
pub(crate) fn check_levels(cf: &CfData, levels: usize, files: &[ImportedFile]) -> Result<()> {
    if let Some(file) = files.iter().find(|file| file.level >= levels) {
        let text = format!("a file of level {} in a family of {levels} levels", file.level);
        return Err(Error::invalid_argument(text));
    }
    for level in 1..levels {
        let mut here: Vec<_> = files.iter().filter(|file| file.level == level).collect();
        let key = |bytes: &Vec<u8>| InternalKey::new(bytes).to_vec();
        order::sort_by(&mut here, |a, b| {
            cf.table_keys.icmp.compare(InternalKey::new(&a.smallest), InternalKey::new(&b.smallest))
        });
        for pair in here.windows(2) {
            let (end, start) = (key(&pair[0].largest), key(&pair[1].smallest));
            if cf.table_keys.icmp.compare(InternalKey::new(&end), InternalKey::new(&start)).is_ge()
            {
                let text = format!("files of level {level} overlap");
                return Err(Error::corruption(text).with_context(pair[1].path.display()));
            }
        }
    }
    Ok(())
}
