//! The locks of a database, in the order in which a task takes them.
//!
//! A debug build checks the order (`port::sync::LockRank`). A task that holds a lock takes only
//! those of later places; what has the same place is never held together. Readers take none of the
//! engine's first ten: they load a super version and the last sequence.
//!
//! A leader calls code of the program's (operators, comparators), which may call another database:
//! those before the directory's may be taken under those of another one. Calls to the same database
//! are refused there.
//!
//! "I/O": it is held over reads and writes of files.
//!
//! Not here: locks of other crates (files, caches, the pools), which call nothing above them; those
//! of the counts in `stats`, which are leaves; the turn of a backup engine, which comes before all
//! of these; the map of a database with TTL and that of the families' key locks, under which none
//! of these is taken.
//!
//! Thread safety: constants.

use std::ops::Range;

use pumice_port::sync::LockRank;

/// The prepared transactions that an open found. I/O: no.
pub(crate) static RECOVERED_TRANSACTIONS: LockRank =
    LockRank::foreground(1, "TransactionDb::recovered").under_all_before(DIRECTORY_PLACE);
/// What a transaction has done; held over all that a call of it does. I/O: yes.
pub(crate) static TRANSACTION: LockRank =
    LockRank::foreground(2, "Inner::content").under_all_before(DIRECTORY_PLACE);
/// A batch with index; held over reads of it, which call operators and comparators, and over its
/// write. I/O: yes.
pub(crate) static SHARED_BATCH: LockRank =
    LockRank::foreground(3, "SharedBatch").under_all_before(DIRECTORY_PLACE);
/// Serializes changes of options, from reading to storing them. I/O: no.
pub(crate) static OPTIONS_CHANGE: LockRank =
    LockRank::foreground(10, "Settings::change").under_all_before(DIRECTORY_PLACE);
/// Of the write queue; no mutex, but as exclusive: sequence numbers, inserts into memtables, the
/// switch of memtables and logs. I/O: yes.
pub(crate) static LEADERSHIP: LockRank =
    LockRank::foreground(20, "leadership").under_all_before(DIRECTORY_PLACE);
/// What a task that waits for leadership must not hold. The queue's own lock is a leaf.
pub(crate) const UNDER_LEADERSHIP: Range<u16> = DIRECTORY_PLACE..LEAF_PLACE;
const DIRECTORY_PLACE: u16 = 30;
const LEAF_PLACE: u16 = 100;
/// The leader's buffer for an update that is written alone, held until it is published: over log
/// writes and stalls. I/O: yes.
pub(crate) static SCRATCH: LockRank =
    LockRank::foreground(25, "Writes::scratch").under_all_before(DIRECTORY_PLACE);
/// The lock of the directory; held while files are deleted, so that a close waits. I/O: yes.
pub(crate) static DIRECTORY: LockRank = LockRank::foreground(DIRECTORY_PLACE, "Directory::lock");
/// The MANIFEST's writer, and the order of version changes. I/O: yes.
pub(crate) static MANIFEST: LockRank = LockRank::foreground(40, "DbInner::manifest");
/// How far a secondary has read. I/O: yes.
pub(crate) static FOLLOWING: LockRank = LockRank::foreground(50, "Life::following");
/// Column families, versions, job queues, errors. I/O: no.
pub(crate) static STATE: LockRank = LockRank::foreground(60, "DbInner::state");
/// The live logs. I/O: yes.
pub(crate) static LOGS: LockRank = LockRank::foreground(70, "Logs::wal");
/// The state of the adaptive policy between two ticks. I/O: no.
pub(crate) static POLICY: LockRank = LockRank::background(80, "Regulator::law");
/// Compaction counts of a column family. I/O: no.
pub(crate) static FAMILY_STATS: LockRank = LockRank::foreground(90, "CfCounters::stats");
/// The locks of a part of the keys; never two. I/O: no.
pub(crate) static KEY_LOCKS: LockRank = LockRank::foreground(95, "FamilyLocks::stripes");
/// Ranges of keys that are locked. I/O: no.
pub(crate) static KEY_RANGES: LockRank = LockRank::foreground(96, "RangeLocks::ranges");

// Leaves: nothing else of the table is taken under them, and none is held over I/O, except the
// logger's and the traces', which come last.

/// The entries of the write queue.
pub(crate) static WRITE_QUEUE: LockRank = LockRank::foreground(LEAF_PLACE, "WriteQueue::state");
/// Which transaction waits for which.
pub(crate) static KEY_WAITS: LockRank = LockRank::foreground(LEAF_PLACE, "LockTables::waits");
/// The named transactions.
pub(crate) static TRANSACTION_NAMES: LockRank = LockRank::foreground(LEAF_PLACE, "Names");
/// How many members a leader asks for help.
pub(crate) static HELPERS: LockRank = LockRank::foreground(LEAF_PLACE, "Writes::helpers");
/// Column families with a full memtable.
pub(crate) static FULL_MEMTABLES: LockRank =
    LockRank::foreground(LEAF_PLACE, "Writes::full_memtables");
/// Where logs begin and end.
pub(crate) static LOG_HISTORY: LockRank = LockRank::foreground(LEAF_PLACE, "LogHistory::facts");
/// Events that wait for their delivery.
pub(crate) static EVENTS: LockRank = LockRank::foreground(LEAF_PLACE, "EventState::deferred");
/// Errors that their tasks still have to report.
pub(crate) static UNREPORTED: LockRank = LockRank::background(LEAF_PLACE, "EventState::unreported");
/// Snapshots in use.
pub(crate) static SNAPSHOTS: LockRank = LockRank::foreground(LEAF_PLACE, "SnapshotList::live");
/// Versions of a column family that are in use.
pub(crate) static VERSIONS: LockRank = LockRank::foreground(LEAF_PLACE, "CfData::history");
/// Open tables by their last use.
pub(crate) static OPEN_TABLES: LockRank = LockRank::foreground(LEAF_PLACE, "OpenTables::recent");
/// What compactions out of L0 cost.
pub(crate) static LEVEL0_COST: LockRank = LockRank::background(LEAF_PLACE, "Lanes::level0");
/// How fast the debt of compaction is drained.
pub(crate) static DRAIN_WATCH: LockRank = LockRank::background(LEAF_PLACE, "Tuner::watch");
/// Numbers of the tables of one compaction.
pub(crate) static JOB_OUTPUTS: LockRank = LockRank::background(LEAF_PLACE, "JobContext::outputs");
/// What jobs say of themselves.
pub(crate) static RUNNING_JOBS: LockRank =
    LockRank::background(LEAF_PLACE, "thread_status::RUNNING");
/// Who waits for a place under a limit.
pub(crate) static LIMITER_BELLS: LockRank =
    LockRank::background(LEAF_PLACE, "ConcurrentTaskLimiter::bells");
/// A place under a limit may be free.
pub(crate) static PLACE_BELL: LockRank = LockRank::background(LEAF_PLACE, "Bell::rung");
/// Lines for a user's logger.
pub(crate) static LOG_LINES: LockRank = LockRank::background(120, "ContainedLogger::queue");
/// The file of the info log. I/O: yes.
pub(crate) static INFO_LOG: LockRank = LockRank::foreground(130, "InfoLog::open");
/// The writer of a trace. I/O: yes.
pub(crate) static TRACE: LockRank = LockRank::foreground(140, "Switch::running");
/// The options of the trace of queries. I/O: no.
pub(crate) static TRACE_OPTIONS: LockRank = LockRank::foreground(150, "QueryTrace::options");

#[cfg(test)]
mod tests;
