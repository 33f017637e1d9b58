//! The table files of a database: listing them, checking them, estimating what a range takes.
//!
//! Thread safety: from any thread; works on the version that is current when the call starts,
//! which keeps its files. Reads files and so suspends.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pumice_base::key::{self, MAX_SEQUENCE};
use pumice_base::{Error, ErrorKind, InternalKey, Result, SequenceNumber, UserKey};
use pumice_env::filename;
use pumice_env::rate_limiter::reads::{LimitedFile, read_priority};
use pumice_manifest::{FileMetaData, Version};
use pumice_port::time;
use pumice_table::TableReadOptions;

use crate::blob::references::may_refer;
use crate::engine::DbInner;
use crate::options::FileChecksumGenFactory;
use crate::options::requests::ReadOptions;
use crate::read::elsewhere::{BlobReads, BlobSource};
use crate::state::CfMap;
use crate::state::parts::Directory;
use crate::table_output::file_checksum::{self, hex};
use crate::version::family::CfData;

/// A table file of a current version.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// # let dir = std::env::temp_dir().join(format!("pumice-livefile-{}", std::process::id()));
/// # let db = pumice::Db::builder(&dir).create(true).open()?;
/// db.put("a", "1")?;
/// db.flush()?;
/// let files = db.live_files_metadata();
/// assert_eq!((files.len(), files[0].level, files[0].num_entries), (1, 0, 1));
/// # db.close()?;
/// # pumice::Db::destroy(&Default::default(), &dir)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveFile {
    /// Column family it belongs to.
    pub column_family_name: String,
    /// Level it is on.
    pub level: usize,
    /// Name inside the directory, with a leading slash as RocksDB has it: `/000012.sst`.
    pub name: String,
    /// Directory it is in.
    pub directory: PathBuf,
    /// Its number.
    pub file_number: u64,
    /// Its bytes.
    pub size: u64,
    /// A user key not after any in the file.
    pub smallest_key: Vec<u8>,
    /// A user key not before any in the file.
    pub largest_key: Vec<u8>,
    /// Smallest sequence number in the file.
    pub smallest_seq: SequenceNumber,
    /// Largest sequence number in the file.
    pub largest_seq: SequenceNumber,
    /// Entries, 0 while they are unknown: until the file is opened.
    pub num_entries: u64,
    /// Deletions among them.
    pub num_deletions: u64,
    /// Whether it is input of a running compaction.
    pub being_compacted: bool,
    /// Age of an L0 file: larger is newer.
    pub epoch_number: u64,
    /// Unix time of the oldest file its data came from, 0 unknown.
    pub oldest_ancester_time: u64,
    /// Unix time of its creation, 0 unknown.
    pub file_creation_time: u64,
    /// RocksDB's number of its temperature; 0 is unknown.
    pub temperature: u8,
    /// Checksum of the whole file, empty if unknown: see `file_checksum_gen_factory`.
    pub file_checksum: Vec<u8>,
    /// Name of the function of `file_checksum`, empty if unknown.
    pub file_checksum_func_name: String,
    /// The internal key that bounds the file from below: only in the description of an exported
    /// column family, else empty.
    pub smallest: Vec<u8>,
    /// The same from above.
    pub largest: Vec<u8>,
}

/// Reads every block of every table and checks it, and every blob that a table refers to.
///
/// # Errors
/// Corruption naming the file and the place; I/O.
pub(crate) fn verify_checksums(families: &CfMap) -> Result<()> {
    for cf in families.all() {
        let view = cf.super_version.load_full();
        for (_, file) in view.version.all_files() {
            cf.tables().table(file)?.verify_checksums()?;
            if file.oldest_blob_file_number != 0 {
                verify_blobs(cf, &view.version, file)?;
            }
        }
    }
    Ok(())
}

/// Reads every blob that the table `file` refers to, and checks it.
fn verify_blobs(cf: &CfData, version: &Version, file: &FileMetaData) -> Result<()> {
    let options = TableReadOptions { fill_cache: false, ..TableReadOptions::default() };
    let tables = cf.tables();
    let reads = BlobReads::of(&options);
    let source = BlobSource { tables: &tables, version, family: cf.id, reads };
    let mut entries = tables.table(file)?.share()?.iter(&options);
    entries.seek_to_first();
    while entries.valid() {
        let key = entries.key();
        let tag = key.sequence_and_type().1;
        if may_refer(tag, entries.value()) {
            source.verify(key.user_key(), tag, entries.value())?;
        }
        entries.next();
    }
    entries.status()
}

/// Bytes read at a time for the checksum of a file, if the options say nothing: RocksDB's.
const FILE_CHECKSUM_READAHEAD_BYTES: usize = 256 << 10;

/// Reads every table file for which the MANIFEST has a checksum, and compares the checksums.
///
/// # Errors
/// InvalidArgument without a function for checksums, or for a file whose checksum is another
/// function's; Corruption naming the file; TimedOut after the deadline; I/O.
pub(crate) fn verify_file_checksums(db: &DbInner, options: &ReadOptions) -> Result<()> {
    db.check_snapshot(options)?;
    db.life.check_caller()?;
    if db.options().file_checksum_gen_factory == FileChecksumGenFactory::None {
        return Err(Error::invalid_argument(
            "Cannot verify file checksum if options.file_checksum_gen_factory is null",
        ));
    }
    for cf in db.cfs.load_full().all() {
        let view = cf.super_version.load_full();
        for (_, file) in view.version.all_files() {
            let recorded =
                (&file.file_checksum_func_name[..], &file.file_checksum[..], file.file_size);
            verify_file_checksum(db, options, &cf.table_of(file), recorded)?;
        }
        for blob in view.version.blob_files().values().map(|blob| &blob.shared) {
            let added = &blob.addition;
            let recorded =
                (&added.checksum_method[..], &added.checksum_value[..], blob.file_size());
            verify_file_checksum(db, options, &cf.blob(added.number), recorded)?;
        }
    }
    Ok(())
}

/// Compares the checksum of the file at `path` with the recorded function, checksum and bytes.
fn verify_file_checksum(
    db: &DbInner,
    options: &ReadOptions,
    path: &Path,
    (function, expected, file_size): (&str, &[u8], u64),
) -> Result<()> {
    if expected.is_empty() {
        return Ok(());
    }
    let settings = db.options();
    let factory = &settings.file_checksum_gen_factory;
    let generator = file_checksum::generator(factory, path, function)?;
    let opened = db.dir.fs.open_random(path)?;
    let events = settings.rate_events();
    let opened = LimitedFile::wrap(opened, settings.rate_limiter.as_ref(), events.as_ref());
    let mut offset = 0;
    let read = |buffer: &mut [u8]| {
        let deadline = options.deadline_micros;
        if deadline != 0 && time::wall_micros() >= deadline {
            return Err(Error::new(ErrorKind::TimedOut, "Deadline exceeded"));
        }
        let read = opened.read_at(offset, buffer)?;
        offset += read as u64;
        Ok(read)
    };
    let bytes = match options.readahead_size {
        0 => FILE_CHECKSUM_READAHEAD_BYTES,
        bytes => bytes.min(usize::try_from(file_size).unwrap_or(usize::MAX)),
    };
    let priority = options.rate_limiter_priority;
    let computed = read_priority(priority, || file_checksum::of_all(generator, bytes, read))?.value;
    if computed == expected {
        return Ok(());
    }
    Err(Error::corruption(format!(
        "{} file checksum mismatch, expecting {}, but actual {}",
        path.display(),
        hex(expected),
        hex(&computed)
    )))
}

/// Roughly the bytes of table files that each of the key ranges `[start, end)` takes.
///
/// # Errors
/// Of reading indexes.
pub(crate) fn approximate_sizes(cf: &Arc<CfData>, ranges: &[(&[u8], &[u8])]) -> Result<Vec<u64>> {
    let view = cf.super_version.load_full();
    let files: Vec<_> = view.version.all_files().map(|(_, file)| file).collect();
    let mut sizes = Vec::with_capacity(ranges.len());
    for (start, end) in ranges {
        // Before all versions of the two keys.
        let (start, end) = (cf.table_order().at_newest(start), cf.table_order().at_newest(end));
        let mut bytes = 0;
        for file in &files {
            bytes += bytes_within(cf, file, &start, &end)?;
        }
        sizes.push(bytes);
    }
    Ok(sizes)
}

/// Estimates how many point entries of `[start, end)` are in memtables, and their bytes.
pub(crate) fn approximate_memtable_stats(cf: &CfData, start: &[u8], end: &[u8]) -> (u64, u64) {
    let view = cf.super_version.load_full();
    let (start, end) = (cf.comparator().at_newest(start), cf.comparator().at_newest(end));
    let memtables = std::iter::once(&view.mem).chain(&view.imm);
    memtables.fold((0, 0), |(count, bytes), memtable| {
        let (more, their_bytes) = memtable.approximate_count_and_bytes(&start, &end);
        (count + more, bytes + their_bytes)
    })
}

/// The part of a file that lies in `[start, end)`.
fn bytes_within(cf: &CfData, file: &FileMetaData, start: &[u8], end: &[u8]) -> Result<u64> {
    let order = cf.table_order();
    let (start, end) = (UserKey::new(start), UserKey::new(end));
    let after_start = order.compare(file.smallest_user_key(), start).is_ge();
    let before_end = order.compare(file.largest_user_key(), end).is_lt();
    if after_start && before_end {
        return Ok(file.file_size);
    }
    let disjoint = order.compare(file.largest_user_key(), start).is_lt()
        || order.compare(file.smallest_user_key(), end).is_ge()
        || order.compare(start, end).is_ge();
    if disjoint {
        return Ok(0);
    }
    let tables = cf.tables();
    let table = tables.table(file)?;
    let offset = |key: UserKey<'_>| {
        let target = key::seek_key(key, MAX_SEQUENCE);
        table.approximate_offset_of(InternalKey::new(&target))
    };
    let from = if after_start { 0 } else { offset(start)? };
    let to = if before_end { file.file_size } else { offset(end)? };
    Ok(to.saturating_sub(from))
}

impl Directory {
    /// The files of all column families, by column family, level and place in the level.
    pub(crate) fn live_files(&self, families: &CfMap) -> Vec<LiveFile> {
        let mut list = Vec::new();
        for cf in families.all() {
            let view = cf.super_version.load_full();
            list.extend(
                view.version.all_files().map(|(level, file)| self.describe(cf, level, file)),
            );
        }
        list
    }

    pub(crate) fn describe(&self, cf: &CfData, level: usize, file: &FileMetaData) -> LiveFile {
        let stats = file.stats();
        LiveFile {
            column_family_name: cf.name.clone(),
            level,
            name: format!("/{}", filename::table_file_name(file.number)),
            directory: cf.dirs.dir(file.path_id).to_path_buf(),
            file_number: file.number,
            size: file.file_size,
            smallest_key: cf.key_forms().whole(file.smallest_user_key().as_bytes()).into_owned(),
            largest_key: largest_key(cf, file),
            smallest_seq: file.smallest_seq,
            largest_seq: file.largest_seq,
            num_entries: stats.num_entries,
            num_deletions: stats.num_deletions,
            being_compacted: file.is_being_compacted(),
            epoch_number: file.epoch_number,
            oldest_ancester_time: file.oldest_ancester_time,
            file_creation_time: file.file_creation_time,
            temperature: file.temperature,
            file_checksum: file.file_checksum.clone(),
            file_checksum_func_name: file.file_checksum_func_name.clone(),
            smallest: Vec::new(),
            largest: Vec::new(),
        }
    }
}

/// The bound of `file` from above; the end of a range is before all versions of its key.
fn largest_key(cf: &CfData, file: &FileMetaData) -> Vec<u8> {
    let largest = file.largest_user_key().as_bytes();
    match cf.table_keys.stripped && file.largest_key().is_range_end() {
        true => cf.comparator().at_newest(largest),
        false => cf.key_forms().whole(largest).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::{ColumnFamilyOptions, Db, MemFs, Options};

    #[pumice_test_macros::test]
    fn memtables_are_estimated_by_family() {
        let mut options = Options::default();
        options.db.create_if_missing = true;
        options.db.file_system = MemFs::new(1).shared();
        let db = Db::open(&options, "/db").unwrap();
        let cf = db.create_column_family(&ColumnFamilyOptions::default(), "cf").unwrap();
        for n in 0..2000 {
            db.put_cf(&cf, format!("{n:05}"), "12345678").unwrap();
        }
        assert_eq!(db.approximate_memtable_stats("", "9").unwrap(), (0, 0));
        let all = db.approximate_memtable_stats_cf(&cf, "", "9").unwrap();
        assert!((1000..=2000).contains(&all.0) && all.1 >= all.0 * 8, "{all:?}");
        let part = db.approximate_memtable_stats_cf(&cf, "00500", "00600").unwrap();
        assert!(part.0 < all.0 && part.1 < all.1, "{part:?}");
        db.flush_cf(&cf).unwrap();
        assert_eq!(db.approximate_memtable_stats_cf(&cf, "", "9").unwrap(), (0, 0));
        let other = Db::open(&options, "/other").unwrap();
        assert!(other.approximate_memtable_stats_cf(&cf, "", "9").is_err());
    }
}
