//! Bugs that are planted on purpose, to test the tests.
//!
//! A suite that has never failed proves nothing. Each bug here is a mistake that some storage
//! engine has made, written as a wrong branch at the place where it would be made here:
//! `if planted::is(Bug::X) { wrong } else { right }`. `cargo xtask sim --planted` turns them on one
//! after another and requires that the suites find each; `docs/planted.md` lists origin, place and
//! effect of each.
//!
//! Without `--cfg pumice_planted`, which is no feature so that no user meets it, [`is`] is a
//! constant false and the wrong branches are not compiled in. With it, a branch costs one relaxed
//! load of a static.
//!
//! Thread safety: all functions may be called from anywhere, but there is one switch for the whole
//! process: a test that turns a bug on runs alone. It does not record where a bug was reached.

macro_rules! bugs {
    ($($(#[$doc:meta])* $bug:ident,)+) => {
        /// A planted bug.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Bug {
            $($(#[$doc])* $bug,)+
        }

        impl Bug {
            /// All of them.
            pub const ALL: &[Bug] = &[$(Bug::$bug,)+];

            /// The name, as `docs/planted.md` lists it.
            pub fn name(self) -> &'static str {
                match self {
                    $(Bug::$bug => stringify!($bug),)+
                }
            }
        }
    };
}

bugs! {
    /// A failed sync of a file is retried on the same file, which then reports success.
    FsyncRetried,
    /// CURRENT is renamed, its directory not synced.
    CurrentDirNotSynced,
    /// The temporary file that becomes CURRENT is not synced before it is renamed.
    CurrentNotSynced,
    /// A flushed table is in the MANIFEST before its name is durable.
    FlushDirNotSynced,
    /// A compacted table is in the MANIFEST before its name is durable.
    CompactionDirNotSynced,
    /// The name of a new log is never made durable.
    LogDirNotSynced,
    /// After a failed MANIFEST write files are deleted anyway.
    ManifestErrorDeletes,
    /// A MANIFEST whose last change was torn so that some of its later bytes are there is refused.
    TornManifestRefused,
    /// Any damage at the end of a MANIFEST is treated as a torn append.
    DamagedManifestCut,
    /// Recovery makes its findings durable one column family after the other.
    RecoveryNotAtomic,
    /// With `atomic_flush` each family's table is installed by an edit of its own.
    FlushNotAtomic,
    /// A disk that was full is never found to have room again.
    NoSpaceForGood,
    /// A writer that waits in a stall does not notice that flushes have failed.
    StallIgnoresError,
    /// An error of closing a file is dropped.
    CloseErrorIgnored,
    /// A sync write is acknowledged when it is in the page cache.
    AckBeforeSync,
    /// A sync write is written by a group leader that does not sync.
    SyncFollowerNotSynced,
    /// The last record of a log is not replayed.
    LastRecordSkipped,
    /// A record that the end of the log cuts off is applied as far as it goes.
    TornBatchAccepted,
    /// A search of an index skips the block whose separator is the target.
    IndexSeekOffByOne,
    /// A search of a block starts after the restart point that it should start at.
    BlockSeekOffByOne,
    /// A deletion is dropped while older versions lie below.
    TombstoneDropped,
    /// A compaction keeps only what the newest readers see.
    SnapshotIgnored,
    /// A range deletion that a snapshot does not see yet is applied for it too.
    RangeTombstoneIgnoresSnapshot,
    /// Readers may see a sequence number before its entry is in the memtable.
    PublishedBeforeInsert,
    /// With several column families, a log is left unsynced when the next one starts.
    LogNotSyncedAtSwitch,
    /// A log does not say how long the one before it must be, although that one is not durable.
    LogWithoutPredecessor,
    /// A log that overwrites an older one has records without its number.
    LogReusedWithoutNumber,
    /// A sync leaves out logs that came before the current one.
    CompleteLogNotSynced,
    /// A flush releases logs that newer memtables still need.
    FlushReleasesLiveLog,
    /// An obsolete table is deleted while an iterator may still open it.
    DeletedWhileRead,
    /// The leader's batch stays in the memtable when its group could not be logged.
    GroupPartlyInserted,
    /// Sequence numbers of a failed write are used again while its log may still be replayed.
    SequencesReused,
    /// Closing a read-only handle deletes files that it does not know.
    ReadOnlyCloseDeletes,
    /// An attempt to recover waits for a time of day.
    ClockJumpStopsResume,
    /// A scan takes a table that could not be read for one that has ended.
    ScanIgnoresReadError,
    /// Blocks are used without verifying their checksum.
    ChecksumIgnored,
    /// The leader of a group leaves without naming the next one.
    HandoffForgotten,
    /// A writer whose write failed returns without leaving the queue.
    ErrorKeepsLeadership,
    /// A log is synced at the same time as it is written.
    FsyncBesideWrite,
    /// A task that begins to wait on a condvar misses a notification.
    CondvarLosesWakeup,
    /// A late completion of an ended operation is treated as one of its slot's next operation.
    StaleCompletion,
    /// A cancelled operation ends before the kernel is done with its buffer.
    BufferFreedEarly,
    /// A request that finds the ring's queue full is dropped.
    FullRingDropsRequest,
    /// A filter partition lacks the prefix of the first key after it.
    ClosingPrefixDropped,
    /// A filter partition lacks the prefix of the last key before it.
    OpeningPrefixDropped,
    /// A key after the last separator of a partitioned filter is taken to be absent.
    LastFilterPartitionMissed,
    /// A file is ingested while memtables hold older entries in its range.
    IngestSkipsFlush,
    /// The sequence number that the MANIFEST gives an ingested file is not used on reading.
    IngestSequenceUnread,
    /// The search for an ingested file's level continues below a level that holds its keys.
    IngestLevelTooDeep,
    /// An ingested file gets sequence number 0 although there are snapshots.
    IngestIgnoresSnapshots,
    /// An ingested file goes to where a running compaction is about to write.
    IngestIgnoresCompactions,
    /// An ingested file is in the MANIFEST before its name is durable.
    IngestDirNotSynced,
    /// A file that was linked into the database is taken to be durable.
    IngestLinkNotSynced,
    /// The column families of one ingestion become durable one after the other.
    IngestNotAtomic,
    /// Ingested files are durable before what was written before them.
    IngestLogNotSynced,
    /// Files change level by an edit that was made of an older version.
    StaleMove,
    /// Compactions stay held back when files could not change level.
    FailedMoveHolds,
    /// Nothing lies below, so compactions drop deletions, although files may be ingested behind.
    ReservedLevelForgotten,
    /// A blob file is in the MANIFEST before it is durable.
    BlobFileNotSynced,
    /// A compaction counts blobs as garbage that its output still refers to.
    BlobGarbageOvercounted,
    /// A commit releases its locks before readers see its writes.
    LockReleasedBeforePublish,
    /// A check of conflicts does not look at flushed memtables, and takes a key for unchanged.
    HistoryNotChecked,
    /// A log is released while a prepared transaction is in it alone.
    PreparedLogReleased,
    /// The commit of a prepared transaction is logged without its updates.
    CommitWithoutUpdates,
    /// A transaction commits although another one has taken its locks.
    StolenLockUsed,
    /// A filter partition that is cut inside a data block ends one key too early.
    FilterCutOffByOne,
    /// A filter partition that takes over keys lacks the hash that was not added twice.
    SharedCutForgetsHash,
    /// A filter of prefixes is queried for whole keys.
    PrefixesAskedForKeys,
    /// A filter is queried for prefixes of another extractor.
    ForeignPrefixAsked,
    /// A filter of the older kind is read with one line too few.
    LegacyLinesOffByOne,
    /// A Ribbon filter that took several attempts names the seed of the first.
    RibbonFirstSeed,
    /// The index records the first key of the next block as a block's own.
    FirstKeyOfNextBlock,
    /// A handle is stored as the difference to that of the last restart point.
    HandleDeltaFromRestart,
    /// The hash index lacks the last block of a prefix that has several.
    HashIndexLosesLastBlock,
    /// A bucket with keys of several restart intervals names only the last of these.
    BucketCollisionLost,
    /// The index is compressed with the dictionary of the data, and read so.
    DictionaryForIndex,
    /// Blocks are checked regardless of their place in the file, and written so.
    ChecksumWithoutPlace,
    /// Lookups compare the stored sequence number of an ingested file.
    GlobalSeqnoNotCompared,
    /// A codec does not return the bytes it was given.
    CodecDamagesBlock,
}

impl Bug {
    /// Bugs inside tables that no simulation reaches; `crates/table/tests/mutation.rs` and the
    /// matrix of tables find them.
    pub const IN_TABLES: &[Bug] = &[
        Bug::ClosingPrefixDropped,
        Bug::OpeningPrefixDropped,
        Bug::LastFilterPartitionMissed,
        Bug::FilterCutOffByOne,
        Bug::SharedCutForgetsHash,
        Bug::PrefixesAskedForKeys,
        Bug::ForeignPrefixAsked,
        Bug::LegacyLinesOffByOne,
        Bug::RibbonFirstSeed,
        Bug::FirstKeyOfNextBlock,
        Bug::HandleDeltaFromRestart,
        Bug::HashIndexLosesLastBlock,
        Bug::BucketCollisionLost,
        Bug::DictionaryForIndex,
        Bug::ChecksumWithoutPlace,
        Bug::GlobalSeqnoNotCompared,
        Bug::CodecDamagesBlock,
    ];

    /// The bug with that name.
    pub fn by_name(name: &str) -> Option<Bug> {
        Bug::ALL.iter().copied().find(|bug| bug.name() == name)
    }
}

/// Whether the bugs are compiled in.
pub const ENABLED: bool = cfg!(pumice_planted);

#[cfg(pumice_planted)]
mod switch {
    use super::Bug;
    use std::sync::atomic::{AtomicU8, Ordering};

    /// 0: none; else one more than the bug.
    static ACTIVE: AtomicU8 = AtomicU8::new(0);

    /// Whether `bug` is turned on.
    #[inline(always)]
    pub fn is(bug: Bug) -> bool {
        ACTIVE.load(Ordering::Relaxed) == bug as u8 + 1
    }

    /// Turns on `bug` alone, or none.
    pub fn activate(bug: Option<Bug>) {
        ACTIVE.store(bug.map_or(0, |bug| bug as u8 + 1), Ordering::Relaxed);
    }
}

#[cfg(not(pumice_planted))]
mod switch {
    use super::Bug;

    /// Whether `bug` is turned on: never, in this build.
    #[inline(always)]
    pub const fn is(_bug: Bug) -> bool {
        false
    }

    /// Turns on no bug.
    ///
    /// # Panics
    /// If a bug is requested: this build has none.
    pub fn activate(bug: Option<Bug>) {
        assert!(bug.is_none(), "built without `--cfg pumice_planted`");
    }
}

pub use switch::{activate, is};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_find_their_bugs() {
        for bug in Bug::ALL {
            assert_eq!(Bug::by_name(bug.name()), Some(*bug));
        }
        assert_eq!(Bug::by_name("NoSuchBug"), None);
    }

    #[test]
    fn at_most_one_is_on() {
        assert!(Bug::ALL.iter().all(|bug| !is(*bug)));
        if ENABLED {
            for on in Bug::ALL {
                activate(Some(*on));
                let found: Vec<_> = Bug::ALL.iter().filter(|bug| is(**bug)).collect();
                assert_eq!(found, [on]);
            }
            activate(None);
        }
    }
}
