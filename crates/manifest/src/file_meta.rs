//! The MANIFEST's metadata of a table file, and what the process learns about it later.
//!
//! Thread safety: shared as `Arc<FileMetaData>`; the persisted fields never change once the file
//! is in a version. The runtime fields are atomics or set-once cells.
//!
//! Invariants: (1) `smallest` and `largest` are internal keys of at least 8 bytes; (2) the
//! compensated size is fixed by the builder that puts the file into its first version, so that
//! sums over a level stay true while the level is shared.

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use pumice_base::{InternalKey, UserKey};

/// Weight of a surplus tombstone, in average values, when a file's size is compensated.
const DELETION_WEIGHT: u64 = 2;

/// Name of the checksum function of a file whose checksum is not known.
pub const UNKNOWN_CHECKSUM_FUNC: &str = "Unknown";

/// Entry counts of a table, from its properties.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileStats {
    /// Entries of any kind, range tombstones included.
    pub num_entries: u64,
    /// Tombstones of any kind, range tombstones included.
    pub num_deletions: u64,
    /// Range tombstones.
    pub num_range_deletions: u64,
    /// Bytes of the keys before encoding.
    pub raw_key_size: u64,
    /// Bytes of the values before encoding.
    pub raw_value_size: u64,
    /// No entry was written after this, seconds since 1970; 0 if unknown.
    pub newest_key_time: u64,
}

/// Least number of tombstones of a file that is compacted because it has little else.
const DENSE_DELETIONS_MIN: u64 = 1024;

impl FileStats {
    /// Half of the entries or more are tombstones of single keys, and they are many: reads of that
    /// range pay for them.
    pub(crate) fn is_dense(&self) -> bool {
        let deletions = self.num_deletions.saturating_sub(self.num_range_deletions);
        deletions >= DENSE_DELETIONS_MIN && deletions.saturating_mul(2) >= self.num_entries
    }
}

/// An action to run when the last reference to a file's metadata is dropped; none unless set.
///
/// The action runs on that holder's thread, after the reference count has become zero, and must not
/// wait.
#[derive(Default)]
pub struct OnRelease(OnceLock<Box<dyn Fn() + Send + Sync>>);

impl OnRelease {
    /// Sets it; only the first call has an effect.
    pub fn set(&self, act: Box<dyn Fn() + Send + Sync>) {
        self.0.get_or_init(|| act);
    }
}

impl Drop for OnRelease {
    fn drop(&mut self) {
        if let Some(act) = self.0.get() {
            act();
        }
    }
}

/// Epochs count flushes and ingestions: beyond this they are nonsense, and would overflow.
pub const MAX_EPOCH: u64 = 1 << 62;

/// A place for one value of the floor above, which knows its type: the open table of a file.
#[derive(Default)]
pub struct TableSlot(OnceLock<Arc<dyn Any + Send + Sync>>);

impl TableSlot {
    /// What is there, if it is a `T`. One pointer away: the type is compared, not searched for.
    #[inline]
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.0.get()?.downcast_ref::<T>()
    }

    /// A share of what [`Self::get`] returns.
    pub fn share<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        Arc::clone(self.0.get()?).downcast::<T>().ok()
    }

    /// Fills the slot with what `make` returns, unless it is full. None if it holds another type.
    pub fn get_or_init<T: Any + Send + Sync>(&self, make: impl FnOnce() -> Arc<T>) -> Option<&T> {
        self.0.get_or_init(|| make()).downcast_ref::<T>()
    }

    /// Whether the slot is full.
    pub fn is_full(&self) -> bool {
        self.0.get().is_some()
    }
}

/// A place for what the floor above holds for as long as the metadata: the charge of its memory.
#[derive(Default)]
pub struct ChargeSlot(OnceLock<Box<dyn Any + Send + Sync>>);

impl ChargeSlot {
    /// Fills the slot with what `make` returns, unless it is full.
    ///
    /// # Errors
    /// Of `make`.
    pub fn try_fill<T: Any + Send + Sync, E>(
        &self,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<(), E> {
        if self.0.get().is_none() {
            // If another was faster, this one is dropped.
            self.0.set(Box::new(make()?)).ok();
        }
        Ok(())
    }
}

/// One table file.
#[derive(Default)]
pub struct FileMetaData {
    /// File number; names the file and is unique in the database.
    pub number: u64,
    /// Index into `db_paths`.
    pub path_id: u32,
    /// Length of the file in bytes.
    pub file_size: u64,
    /// Internal key not after any key in the file.
    pub smallest: Vec<u8>,
    /// Internal key not before any key in the file.
    pub largest: Vec<u8>,
    /// Smallest sequence number in the file.
    pub smallest_seq: u64,
    /// Largest sequence number in the file.
    pub largest_seq: u64,
    /// Age of an L0 file: larger is newer; 0 is unknown.
    pub epoch_number: u64,
    /// Unix time of the oldest file this data came from; 0 is unknown.
    pub oldest_ancester_time: u64,
    /// Unix time of creation; 0 is unknown.
    pub file_creation_time: u64,
    /// Oldest blob file the table refers to; 0 is none.
    pub oldest_blob_file_number: u64,
    /// RocksDB's temperature byte; 0 is unknown.
    pub temperature: u8,
    /// SST unique id, zero if unknown.
    pub unique_id: [u64; 2],
    /// Bytes after the data blocks; 0 is unknown.
    pub tail_size: u64,
    /// A table property collector asked for compaction.
    pub marked_for_compaction: bool,
    /// Checksum of the whole file, empty if unknown.
    pub file_checksum: Vec<u8>,
    /// Name of the function of `file_checksum`, empty if unknown.
    pub file_checksum_func_name: String,
    /// Estimated bytes that the file's range tombstones cover.
    pub compensated_range_deletion_size: u64,
    /// Smallest user-defined timestamp, empty if none.
    pub min_timestamp: Vec<u8>,
    /// Largest user-defined timestamp, empty if none.
    pub max_timestamp: Vec<u8>,
    /// The keys were stored without their user-defined timestamps.
    pub timestamps_stripped: bool,

    /// The file is input of a running compaction.
    pub being_compacted: AtomicBool,
    /// Estimated reads that found no value in the file, since it was made or the database opened.
    pub collapsible_reads: AtomicU64,
    /// Entry counts, once the table was built or opened.
    pub stats: OnceLock<FileStats>,
    /// Slot for the open table, so that a read needs no table-cache lookup.
    pub table: TableSlot,
    /// See invariant 2 and [`Self::compensated_size`]; 0 until the builder fixes it.
    pub compensated: AtomicU64,
    /// Runs when the file can no longer be read. A copy starts without an action.
    pub on_release: OnRelease,
    /// What the memory of this metadata is charged to. A copy starts uncharged.
    pub charge: ChargeSlot,
}

impl FileMetaData {
    /// Bytes of memory that the metadata takes.
    pub fn memory_bytes(&self) -> usize {
        let keys = self.smallest.capacity() + self.largest.capacity();
        let times = self.min_timestamp.capacity() + self.max_timestamp.capacity();
        let checksum = self.file_checksum.capacity() + self.file_checksum_func_name.capacity();
        size_of::<Self>() + keys + times + checksum
    }

    /// `smallest` as a key.
    #[inline]
    pub fn smallest_key(&self) -> InternalKey<'_> {
        InternalKey::new(&self.smallest)
    }

    /// `largest` as a key.
    #[inline]
    pub fn largest_key(&self) -> InternalKey<'_> {
        InternalKey::new(&self.largest)
    }

    /// The user key of `smallest`.
    #[inline]
    pub fn smallest_user_key(&self) -> UserKey<'_> {
        self.smallest_key().user_key()
    }

    /// The user key of `largest`.
    #[inline]
    pub fn largest_user_key(&self) -> UserKey<'_> {
        self.largest_key().user_key()
    }

    /// The file is input of a running compaction.
    #[inline]
    pub fn is_being_compacted(&self) -> bool {
        self.being_compacted.load(Ordering::Acquire)
    }

    /// Marks or unmarks the file as input of a running compaction.
    pub fn set_being_compacted(&self, on: bool) {
        self.being_compacted.store(on, Ordering::Release);
    }

    /// Entry counts, zero while they are unknown.
    pub fn stats(&self) -> FileStats {
        self.stats.get().copied().unwrap_or_default()
    }

    /// Whether the file is known to have no range tombstones.
    #[inline]
    pub fn has_no_range_deletions(&self) -> bool {
        self.stats.get().is_some_and(|stats| stats.num_range_deletions == 0)
    }

    /// Whether the file is known to have tombstones of any kind.
    pub fn has_tombstones(&self) -> bool {
        self.stats.get().is_some_and(|stats| stats.num_deletions > 0)
    }

    /// Whether a rewrite with nothing older below would leave little of the file, as far as is
    /// known: most of it are tombstones.
    pub fn is_mostly_deletions(&self) -> bool {
        self.stats.get().is_some_and(|stats| {
            stats.is_dense()
                || (stats.num_entries > 0 && stats.num_range_deletions * 2 >= stats.num_entries)
        })
    }

    /// Estimated reads that found no value in the file, for each of its bytes.
    pub fn collapsible_reads_per_byte(&self) -> f64 {
        let reads = self.collapsible_reads.load(Ordering::Relaxed);
        if self.file_size == 0 { 0.0 } else { reads as f64 / self.file_size as f64 }
    }

    /// File size plus a bonus for tombstones: what level scores count.
    pub fn compensated_size(&self) -> u64 {
        match self.compensated.load(Ordering::Relaxed) {
            0 => self.file_size,
            known => known,
        }
    }

    /// Fixes the compensated size (invariant 2) unless it is fixed already.
    pub(crate) fn fix_compensated_size(&self, average_value_size: u64) {
        if self.compensated.load(Ordering::Relaxed) != 0 {
            return;
        }
        let stats = self.stats();
        let mut size = self.file_size.saturating_add(self.compensated_range_deletion_size);
        let deletions = stats.num_deletions.saturating_sub(stats.num_range_deletions);
        let surplus = deletions.saturating_mul(2).saturating_sub(stats.num_entries);
        size = size.saturating_add(
            surplus.saturating_mul(average_value_size).saturating_mul(DELETION_WEIGHT),
        );
        self.compensated.store(size, Ordering::Relaxed);
    }

    /// The same file under another epoch number.
    pub(crate) fn with_epoch(&self, epoch_number: u64) -> Self {
        FileMetaData { epoch_number, ..self.clone() }
    }

    /// `L0` order: the newer file of two, by epoch, then sequence numbers, then file number.
    #[inline]
    pub fn age_key(&self) -> (u64, u64, u64, u64) {
        (self.epoch_number, self.largest_seq, self.smallest_seq, self.number)
    }
}

/// Copies the persisted fields and the counts; the copy is not being compacted and not open.
impl Clone for FileMetaData {
    fn clone(&self) -> Self {
        FileMetaData {
            number: self.number,
            path_id: self.path_id,
            file_size: self.file_size,
            smallest: self.smallest.clone(),
            largest: self.largest.clone(),
            smallest_seq: self.smallest_seq,
            largest_seq: self.largest_seq,
            epoch_number: self.epoch_number,
            oldest_ancester_time: self.oldest_ancester_time,
            file_creation_time: self.file_creation_time,
            oldest_blob_file_number: self.oldest_blob_file_number,
            temperature: self.temperature,
            unique_id: self.unique_id,
            tail_size: self.tail_size,
            marked_for_compaction: self.marked_for_compaction,
            file_checksum: self.file_checksum.clone(),
            file_checksum_func_name: self.file_checksum_func_name.clone(),
            compensated_range_deletion_size: self.compensated_range_deletion_size,
            min_timestamp: self.min_timestamp.clone(),
            max_timestamp: self.max_timestamp.clone(),
            timestamps_stripped: self.timestamps_stripped,
            being_compacted: AtomicBool::new(false),
            collapsible_reads: AtomicU64::new(self.collapsible_reads.load(Ordering::Relaxed)),
            stats: self.stats.clone(),
            table: TableSlot::default(),
            compensated: AtomicU64::new(self.compensated.load(Ordering::Relaxed)),
            on_release: OnRelease::default(),
            charge: ChargeSlot::default(),
        }
    }
}

impl fmt::Debug for FileMetaData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{} {} bytes ", self.number, self.file_size)?;
        write!(f, "{} .. {}", debug_key(&self.smallest, false), debug_key(&self.largest, false))?;
        write!(f, " seq {}..{}", self.smallest_seq, self.largest_seq)?;
        write!(f, " epoch {}", self.epoch_number)
    }
}

/// An internal key as RocksDB's tools print it: `'abc' seq:7, type:1`.
pub fn debug_key(ikey: &[u8], hex: bool) -> String {
    let Some(key) = InternalKey::checked(ikey) else {
        return format!("(bad){}", debug_bytes(ikey, true));
    };
    let (seq, tag) = key.sequence_and_type();
    format!("'{}' seq:{seq}, type:{tag}", debug_bytes(key.user_key().as_bytes(), hex))
}

/// Bytes as text, or as upper-case hexadecimal digits.
pub fn debug_bytes(bytes: &[u8], hex: bool) -> String {
    if !hex {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    use fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
        write!(out, "{byte:02X}").expect("writing to a String cannot fail");
        out
    })
}
