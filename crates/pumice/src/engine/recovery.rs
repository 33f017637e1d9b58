//! Replaying the write-ahead logs when a database is opened.
//!
//! Rules: docs/format/log.md#recovery. Records are applied to fresh memtables of the column
//! families that have not flushed them; full memtables become L0 files during replay, the rest at
//! the end (`replay_tables`). Nothing of this is visible or durable until the caller applies the
//! resulting edits, so a crash during recovery leaves the database as it was.
//!
//! Invariants: (1) sequence numbers never go backwards; (2) after damage under PointInTime, and
//! after the lost end of a log that the next one records (`Predecessor`), only a record that
//! continues exactly where the intact ones ended is applied, so the result is a prefix of the
//! history. Keys whose timestamps came or went: `replay_keys`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pumice_base::key::LAST_SEQUENCE_MAX;
use pumice_base::order;
use pumice_base::planted::{self, Bug};
use pumice_base::{Error, ErrorKind, FileNumber, Result, SequenceNumber, ValueType};
use pumice_env::SequentialFile;
use pumice_env::filename::{self, FileType};
use pumice_manifest::VersionEdit;
use pumice_memtable::MemTable;
use pumice_wal::{LogEnd, LogReader, LogReaderOptions, WalRecoveryMode};

use crate::commit::batch::{self, BatchRecord};
use crate::commit::predecessor::Predecessor;
use crate::commit::two_phase::{self, PreparedSections, Recorded};
use crate::engine::DbInner;
use crate::engine::replay_keys::{Conversion, check_timed};
use crate::engine::replay_tables::TableJobs;
use crate::recovery::consistent_read::Stamp;
use crate::recovery::version_recovery::check_found;
use crate::recovery::wal_filter::{Filtered, Filtering};
use crate::state::DbState;
use crate::state::parts::Directory;
use crate::stats::event_log;
use crate::version::family::CfData;

/// What replay found.
#[derive(Default)]
pub(crate) struct Recovered {
    /// New L0 files, by column family.
    pub edits: BTreeMap<u32, VersionEdit>,
    /// Logs that exist, ascending, with their bytes.
    pub logs: Vec<(FileNumber, u64)>,
    /// Logs that hold intact records which were not applied; they are archived, not deleted.
    pub set_aside: Vec<FileNumber>,
    /// Transactions that are prepared and neither committed nor rolled back.
    pub sections: PreparedSections,
    /// Some column family still has unflushed data in its memtable.
    pub in_memory: bool,
}

/// How far the records of the logs are contiguous.
#[derive(Clone)]
pub(crate) struct Order {
    /// Sequence the next record must have to continue without a gap; None before the first.
    pub(super) next: Option<SequenceNumber>,
    /// Batches that end beyond it are not applied.
    until: SequenceNumber,
    /// The last one that was applied.
    pub last: SequenceNumber,
    /// No log before this one is needed.
    oldest: FileNumber,
    /// The log before the one that is read, and where its last intact record ended.
    pub before: Option<(FileNumber, u64)>,
    /// There was damage, and no record has continued the sequence since.
    stopped: bool,
    damaged_log: Option<FileNumber>,
    /// The damage is no more than where the reader of that log ended.
    only_its_end: bool,
    /// Transactions that are not committed yet.
    pub sections: PreparedSections,
}

impl Order {
    /// Before the first record of the logs from `oldest` on.
    pub fn new(oldest: FileNumber, until: SequenceNumber) -> Self {
        Order {
            next: None,
            until,
            last: 0,
            oldest,
            before: None,
            stopped: false,
            damaged_log: None,
            only_its_end: false,
            sections: PreparedSections::default(),
        }
    }

    /// A record of log `number` is damaged, or the log ended before the end that it should have.
    fn stop(&mut self, number: FileNumber) {
        self.only_its_end = false;
        self.stopped = true;
        self.damaged_log.get_or_insert(number);
    }

    /// Log `number` ended in damage.
    fn stop_at_end(&mut self, number: FileNumber) {
        self.only_its_end |= self.damaged_log.is_none();
        self.stopped = true;
        self.damaged_log.get_or_insert(number);
    }

    /// Log `number` has all that it should have: what looked like damage at its end came after
    /// that, as what is left of an older use of its file does after a power cut. A damaged record
    /// before its end stays one.
    fn ended_whole(&mut self, number: FileNumber) {
        if self.damaged_log == Some(number) && self.only_its_end {
            (self.stopped, self.damaged_log) = (false, None);
        }
    }

    /// Logs before `oldest` are no longer needed, so damage in them does not matter; `read` was
    /// read last.
    pub fn forget_before(&mut self, oldest: FileNumber, read: FileNumber) {
        self.oldest = self.oldest.max(oldest);
        if read < oldest || self.damaged_log.is_some_and(|log| log < oldest) {
            (self.next, self.stopped, self.damaged_log) = (None, false, None);
        }
    }

    /// A column family whose tables already reach beyond the damage cannot be brought to the same
    /// point as the others. The tables do not if the MANIFEST, at its last change, knew of no write
    /// that replay lacks (`known`): this is the case after a crash while `resume` replaced a failed
    /// log. Takes log number and name of each family that has tables.
    pub fn check_consistency<'n>(
        &self,
        known: SequenceNumber,
        mut families: impl Iterator<Item = (FileNumber, &'n str)>,
    ) -> Result<()> {
        let Some(damaged) = self.damaged_log.filter(|_| self.stopped) else { return Ok(()) };
        if self.next.is_some_and(|next| known < next) {
            return Ok(());
        }
        match families.find(|(log_number, _)| *log_number > damaged) {
            None => Ok(()),
            Some((_, name)) => Err(Error::corruption(format!(
                "Column family inconsistency: SST file contains data beyond the point of \
                 corruption in log #{damaged}, column family {name}"
            ))),
        }
    }
}

/// Applies records to memtables. See the module head.
pub(crate) struct Replay<'a> {
    pub db: &'a DbInner,
    pub mode: WalRecoveryMode,
    pub mems: BTreeMap<u32, Arc<MemTable>>,
    /// Logs below this number hold nothing unflushed of the column family.
    pub log_numbers: BTreeMap<u32, FileNumber>,
    pub order: Order,
    /// What had to be done to keys, by their family and the bytes of timestamps that logs say.
    conversions: BTreeMap<(u32, usize), Conversion>,
    /// The user's.
    filter: Filtering,
    pub(super) found: Recovered,
    /// The tables that are written beside the replay. None: data may stay in memtables.
    pub(super) jobs: Option<TableJobs>,
    /// Column families whose memtables are full.
    pub(super) full: Vec<u32>,
}

impl DbInner {
    /// Replays the logs into memtables and L0 files. When a database is opened for reading only,
    /// all logs are opened first: if CURRENT and the MANIFEST then still match `stamp`, none is
    /// missing, and a writer may delete them from then on. It may also clear one to use its file
    /// again: if some log may be such a file, `stamp` must still match when all are read. Batches
    /// that end beyond `until` are skipped.
    ///
    /// # Errors
    /// Corruption as the recovery mode demands; I/O errors; TryAgain if `stamp` is out of date.
    pub(crate) fn replay_logs(
        self: &Arc<Self>,
        mode: WalRecoveryMode,
        stamp: Option<Stamp>,
        until: Option<SequenceNumber>,
    ) -> Result<Recovered> {
        let mut replay = Replay::new(self, mode, Order::new(0, until.unwrap_or(LAST_SEQUENCE_MAX)));
        let oldest = {
            let state = self.state.lock();
            let live = state.cfs.values().map(|cf| cf.log_number).min().unwrap_or(0);
            for (id, cf) in &state.cfs {
                replay.mems.insert(*id, Arc::clone(&cf.mem));
                replay.log_numbers.insert(*id, cf.log_number);
            }
            live.max(state.files.min_log_to_keep)
        };
        replay.order.forget_before(oldest, 0);
        replay.filter = {
            let families = self.cfs.load_full();
            let number = |cf: &CfData| replay.log_numbers.get(&cf.id).copied().unwrap_or(0);
            let families = families.all().map(|cf| (cf.id, number(cf), &cf.name[..]));
            Filtering::begin(&self.options(), families)
        };
        let mut logs = Vec::new();
        let log_dir = self.logs.dir();
        let kept = self.state.lock().files.min_log_to_keep..oldest;
        replay.order.sections = PreparedSections::find(&*self.dir.fs, &log_dir, kept)?;
        for (number, path) in self.dir.logs_from(&log_dir, oldest)? {
            let file = stamp.map(|_| self.dir.fs.open_sequential(&path)).transpose()?;
            let bytes = self.dir.fs.file_size(&path)?;
            logs.push((number, bytes, path, file));
        }
        if !replay.may_keep() && logs.iter().any(|(_, bytes, ..)| *bytes > 0) {
            replay.write_tables_beside(self);
        }
        let listed: Vec<_> = logs.iter().map(|(number, ..)| *number).collect();
        if let Some(stamp) = stamp {
            stamp.check(&*self.dir.fs, &self.dir.path)?;
            self.dir.check_no_log_between(&log_dir, oldest, &listed)?;
        }
        let read = move || {
            let mut reused = false;
            for (number, bytes, path, file) in logs {
                check_found(number, &path)?;
                self.file_numbers.skip_to(number + 1);
                replay.found.logs.push((number, bytes));
                reused |= replay.log(number, path, file)? && bytes > 0;
            }
            if let Some(stamp) = stamp.filter(|_| reused) {
                stamp.check(&*self.dir.fs, &self.dir.path)?;
            }
            replay.finish()
        };
        if listed.is_empty() {
            return read();
        }
        self.reports.log_event(|log| event_log::recovery_started(log, &listed));
        let recovered = read();
        let error = recovered.as_ref().err();
        self.reports.log_event(|log| event_log::recovery_finished(log, error));
        recovered
    }
}

impl Directory {
    /// A directory that changes while it is listed may show a new log and not the previous one.
    pub(crate) fn check_no_log_between(
        &self,
        dir: &Path,
        oldest: FileNumber,
        listed: &[FileNumber],
    ) -> Result<()> {
        let Some(newest) = listed.last() else { return Ok(()) };
        for (number, path) in self.logs_from(dir, oldest)? {
            if number < *newest && !listed.contains(&number) {
                let text = format!("{} has appeared while logs are read", path.display());
                return Err(Error::new(ErrorKind::TryAgain, text));
            }
        }
        Ok(())
    }

    /// The logs with at least that number, ascending.
    pub(crate) fn logs_from(
        &self,
        dir: &Path,
        oldest: FileNumber,
    ) -> Result<Vec<(FileNumber, PathBuf)>> {
        let mut logs = Vec::new();
        for name in self.fs.list(dir)? {
            if let Some((number, FileType::Wal)) = filename::parse(&name)
                && number >= oldest
            {
                logs.push((number, dir.join(name)));
            }
        }
        order::sort(&mut logs);
        Ok(logs)
    }
}

impl<'a> Replay<'a> {
    /// With no memtables yet.
    pub fn new(db: &'a DbInner, mode: WalRecoveryMode, order: Order) -> Self {
        let (mems, log_numbers) = (BTreeMap::new(), BTreeMap::new());
        let (filter, found) = (Filtering::default(), Recovered::default());
        let (conversions, jobs, full) = (BTreeMap::new(), None, Vec::new());
        Replay { db, mode, mems, log_numbers, order, conversions, filter, found, jobs, full }
    }

    /// Applies log `number`; whether it is one whose file is used again, or has no record.
    fn log(
        &mut self,
        number: FileNumber,
        path: PathBuf,
        file: Option<Box<dyn SequentialFile>>,
    ) -> Result<bool> {
        self.db.reports.info(format_args!("Recovering log #{number} mode {:?}", self.mode));
        self.filter.log_begins(&path);
        let file = file.map_or_else(|| self.db.dir.fs.open_sequential(&path), Ok)?;
        let mut reader = LogReader::new(file, LogReaderOptions::wal(number, self.mode), None);
        let mut record = Vec::new();
        let (mut set_aside, mut intact) = (false, 0);
        self.order.sections.set_timestamp_sizes(&[]);
        loop {
            pumice_port::fiber::maybe_yield();
            match reader.read_record(&mut record) {
                Ok(Some(info)) => {
                    intact = info.end;
                    self.order.sections.set_timestamp_sizes(reader.timestamp_sizes());
                    if let Some(predecessor) = Predecessor::parse(&record) {
                        self.check_predecessor(predecessor).map_err(|e| in_log(&e, &path))?;
                        continue;
                    }
                    let applied = self.record(number, &record);
                    set_aside |= !applied.map_err(|e| in_log(&e, &path))?;
                }
                Ok(None) => break,
                Err(e) if e.is_corruption() && self.mode == WalRecoveryMode::PointInTime => {
                    self.db.reports.info(format_args!("{}: {e}", path.display()));
                    set_aside = true;
                    break;
                }
                Err(e) => return Err(in_log(&e, &path)),
            }
        }
        if reader.end() != LogEnd::EndOfFile && self.mode == WalRecoveryMode::PointInTime {
            self.db.reports.info(format_args!(
                "{}: stopped at offset {} ({:?})",
                path.display(),
                reader.last_record_offset(),
                reader.end()
            ));
            self.order.stop_at_end(number);
        }
        if set_aside {
            self.found.set_aside.push(number);
        }
        self.order.before = Some((number, intact));
        Ok(reader.is_recycled() || intact == 0)
    }

    /// A followed log is complete: nothing more comes from it.
    pub fn log_ends(&mut self, number: FileNumber, end: u64, damaged: Option<Error>) -> Result<()> {
        self.order.before = Some((number, end));
        let Some(error) = damaged else { return Ok(()) };
        self.db.reports.info(format_args!("log #{number}: {error}"));
        match self.mode {
            WalRecoveryMode::PointInTime => self.order.stop_at_end(number),
            _ => return Err(error.with_context(format!("log #{number}"))),
        }
        Ok(())
    }

    /// A log begins: checks whether the previous one was read to its end, if it is needed at all.
    pub fn check_predecessor(&mut self, predecessor: Predecessor) -> Result<()> {
        let Predecessor { number, bytes } = predecessor;
        let whole = self.order.before.is_some_and(|(log, end)| log == number && end >= bytes);
        if whole {
            self.order.ended_whole(number);
            return Ok(());
        }
        if number < self.order.oldest {
            return Ok(());
        }
        let text = format!("the end of log #{number}, which had {bytes} bytes, is lost");
        match self.mode {
            WalRecoveryMode::SkipAnyCorrupted => return Ok(()),
            WalRecoveryMode::AbsoluteConsistency => return Err(Error::corruption(text)),
            WalRecoveryMode::PointInTime | WalRecoveryMode::TolerateCorruptedTail => {}
        }
        self.db.reports.info(format_args!("{text}: later records are not applied"));
        self.order.stop(number);
        Ok(())
    }

    /// Applies one record; false if it was skipped.
    pub fn record(&mut self, log: FileNumber, record: &[u8]) -> Result<bool> {
        if record.len() < batch::HEADER_LEN {
            return self.bad_record(log, Error::corruption("log record too small"));
        }
        let markers = match batch::check(record) {
            Ok(markers) => markers,
            Err(_) if planted::is(Bug::TornBatchAccepted) => false,
            Err(error) => return self.bad_record(log, error),
        };
        let taken = match markers {
            true => self.order.sections.taken(record),
            false => u64::from(batch::count(record)),
        };
        let first = batch::sequence(record);
        let next = first.checked_add(taken);
        let Some(next) = next.filter(|next| *next <= LAST_SEQUENCE_MAX + 1) else {
            // No crash produces a record with a correct checksum and such a number.
            return match self.mode {
                WalRecoveryMode::SkipAnyCorrupted => Ok(false),
                _ => Err(Error::corruption(format!("sequence number {first} is out of range"))),
            };
        };
        if self.order.stopped {
            if self.order.next != Some(first) {
                return Ok(false);
            }
            self.order.stopped = false;
        }
        if let Some(expected) = self.order.next
            && first < expected
        {
            return Err(Error::corruption(format!(
                "Sequence number is being set backwards in recovery: {first} after {expected}"
            )));
        }
        if next <= self.order.until + 1 {
            match self.filter.of(log, record)? {
                Filtered::Keep => {
                    self.apply(log, first, record)?;
                    self.order.last = next.saturating_sub(1);
                }
                Filtered::Replace(record) => {
                    self.apply(log, first, &record)?;
                    let taken = u64::from(batch::count(&record));
                    self.order.last = (first + taken).saturating_sub(1);
                }
                Filtered::Skip => {}
                Filtered::Damaged(error) => return self.bad_record(log, error),
            }
        }
        self.order.next = Some(next);
        self.flush_full()?;
        Ok(true)
    }

    /// A record with a good checksum that is no batch.
    fn bad_record(&mut self, log: FileNumber, error: Error) -> Result<bool> {
        match self.mode {
            WalRecoveryMode::SkipAnyCorrupted => Ok(false),
            WalRecoveryMode::PointInTime => {
                self.db.reports.info(format_args!("{error}"));
                self.order.stop(log);
                Ok(false)
            }
            _ => Err(error),
        }
    }

    /// A prepared section only waits for its commit.
    fn apply(&mut self, log: FileNumber, first: SequenceNumber, record: &[u8]) -> Result<()> {
        let mut sequence = first;
        let mut sections = std::mem::take(&mut self.order.sections);
        let insert = |recorded: Recorded<'_>, update: BatchRecord<'_>| {
            self.insert(log, &mut sequence, recorded, update)
        };
        let read = sections.read(record, insert);
        self.order.sections = sections;
        read
    }

    /// Inserts an update, whose sequence number is `next`; other records of a batch are none.
    fn insert(
        &mut self,
        log: FileNumber,
        next: &mut SequenceNumber,
        Recorded { time, timestamp_size: recorded }: Recorded<'_>,
        entry: BatchRecord<'_>,
    ) -> Result<()> {
        let BatchRecord::Entry { column_family: id, value_type, key, value } = entry else {
            return Ok(());
        };
        let at = *next;
        *next += 1;
        // Unknown ids are those of dropped column families.
        let Some(mem) = self.mems.get(&id) else {
            return check_family_was_known(id, &self.db.state.lock(), log);
        };
        let full = || {
            let full = mem.should_flush() && !self.db.dir.read_only && !self.full.contains(&id);
            full.then_some(id)
        };
        if self.log_numbers.get(&id).is_none_or(|number| *number <= log) {
            if recorded != mem.timestamp_size() {
                let conversion = match self.conversions.get(&(id, recorded)) {
                    Some(known) => *known,
                    None => Conversion::find(self.db, id, (recorded, mem.timestamp_size()))?,
                };
                self.conversions.insert((id, recorded), conversion);
                let is_end = value_type == ValueType::RangeDeletion;
                let key = conversion.of(key)?;
                let end = if is_end { conversion.of(value)? } else { Vec::new() };
                let key = &two_phase::at_time(&key, time, mem.timestamp_size())?;
                mem.add(at, value_type, key, if is_end { &end } else { value })?;
                let full = full();
                self.full.extend(full);
                return Ok(());
            }
            let end = (value_type == ValueType::RangeDeletion).then_some(value);
            check_timed(mem, key, end)?;
            let key = &two_phase::at_time(key, time, mem.timestamp_size())?;
            mem.add(at, value_type, key, value)?;
            let full = full();
            self.full.extend(full);
        }
        Ok(())
    }

    /// What the logs have may stay in memtables when all are read.
    fn may_keep(&self) -> bool {
        self.db.dir.read_only
            || (self.db.options().avoid_flush_during_recovery && !self.db.dir.two_phase)
    }

    fn finish(mut self) -> Result<Recovered> {
        {
            let known = self.db.last_sequence.load(Ordering::Acquire);
            let state = self.db.state.lock();
            let written = state.cfs.values().filter(|cf| cf.version.num_files() > 0);
            let families = written.map(|cf| (cf.log_number, cf.data.name.as_str()));
            self.order.check_consistency(known, families)?;
        }
        self.db.last_sequence.fetch_max(self.order.last, Ordering::AcqRel);
        self.found.sections = std::mem::take(&mut self.order.sections);
        // A writer without transactions cannot keep what has no end.
        let keeps = self.db.dir.read_only || self.db.dir.two_phase;
        if !keeps && !self.found.sections.is_empty() {
            return Err(two_phase::refused());
        }
        if !self.db.dir.read_only {
            let now = |id| self.mems.get(&id).map(|mem| mem.timestamp_size());
            self.found.sections.check_timestamp_sizes(now)?;
        }
        // A log that is set aside is not read by the next recovery: the data it gave must be in
        // files by then. The same holds for a damaged one: the next log is accepted only if it
        // continues without a gap, and an ingestion may take the next sequence number.
        // What was committed may need a log of its section that the next recovery does not read.
        // What the user's filter left out would come back. Of keys whose timestamps came or went
        // between two logs, the last written ones would not be the newest.
        let keep = self.may_keep()
            && (self.db.dir.read_only
                || self.found.edits.is_empty()
                    && self.found.set_aside.is_empty()
                    && !self.filter.changed
                    && self.conversions.is_empty()
                    && self.order.damaged_log.is_none());
        if keep {
            self.found.in_memory = self.mems.values().any(|mem| !mem.is_empty());
            return Ok(self.found);
        }
        self.flush_rest()?;
        Ok(self.found)
    }
}

/// A column family is not written to before its creation is durable in the MANIFEST.
fn check_family_was_known(id: u32, state: &DbState, log: FileNumber) -> Result<()> {
    if !state.took_change_back() || id <= state.max_column_family {
        return Ok(());
    }
    Err(Error::corruption(format!(
        "log #{log} has writes to column family {id}, which was created in the last change of the \
         MANIFEST: that is damaged, not torn by a crash"
    )))
}

/// Names the log in a corruption.
fn in_log(error: &Error, path: &Path) -> Error {
    if error.is_corruption() { error.with_context(path.display()) } else { error.clone() }
}

pub(super) fn unknown_family(id: u32) -> Error {
    Error::corruption(format!("column family {id} disappeared during recovery"))
}
