//! Write-ahead logs: finds those that an open would not accept as they are, and turns their entries
//! into tables.
//!
//! A log that a crash tore is not damaged: an open handles that. It is damaged if sound records
//! follow unreadable bytes: an open would leave them out.
//!
//! Thread safety: plain data and free functions. Suspends on I/O.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pumice_base::key::LAST_SEQUENCE_MAX;
use pumice_base::order;
use pumice_base::{Error, FileNumber, InternalIterator, Result, SequenceNumber, ValueType};
use pumice_env::filename::{self, FileType};
use pumice_manifest::FileMetaData;
use pumice_memtable::{MemTable, MemTableIter};
use pumice_wal::{LogEnd, LogReader, LogReaderOptions, WalRecoveryMode};

use crate::commit::batch::{self, BatchRecord};
use crate::commit::predecessor::Predecessor;
use crate::commit::two_phase::{PreparedSections, refused};
use crate::repair::context::{Family, RepairContext};
use crate::repair::repaired_tables::{Entries, Outputs};
use crate::version::family::new_memtable;

/// A log of the directory.
pub(super) struct FoundLog {
    pub number: FileNumber,
    pub name: String,
    pub path: PathBuf,
    /// Entries in sound records, by column family.
    pub entries: BTreeMap<u32, u64>,
    /// First and last sequence numbers of records that follow each other.
    pub runs: Vec<(SequenceNumber, SequenceNumber)>,
    /// Why an open would not accept all sound records in it and after it.
    pub damage: Vec<String>,
}

impl FoundLog {
    /// All its entries.
    pub fn count(&self) -> u64 {
        self.entries.values().sum()
    }

    /// Whether a sound record holds it.
    pub fn covers(&self, sequence: SequenceNumber) -> bool {
        self.runs.iter().any(|(first, last)| (*first..=*last).contains(&sequence))
    }

    /// The largest sequence number of a sound record, 0 if there is none.
    pub fn last_sequence(&self) -> SequenceNumber {
        self.runs.iter().map(|(_, last)| *last).max().unwrap_or(0)
    }
}

/// The logs from `oldest` on, ascending.
///
/// # Errors
/// NotSupported for prepared transactions and user-defined timestamps; I/O of the directory.
pub(super) fn find(context: &RepairContext<'_>, oldest: FileNumber) -> Result<Vec<FoundLog>> {
    let mut logs = Vec::new();
    let names = match context.fs.list(&context.wal_dir) {
        Err(error) if error.is_not_found() => Vec::new(),
        names => names?,
    };
    for name in names {
        if let Some((number, FileType::Wal)) = filename::parse(&name)
            && number >= oldest
        {
            logs.push((number, context.wal_dir.join(name)));
        }
    }
    order::sort(&mut logs);
    let mut found: Vec<FoundLog> = Vec::new();
    let mut place = Place::default();
    for (number, path) in logs {
        found.push(look(context, number, path, oldest, &mut place)?);
    }
    Ok(found)
}

/// How far an open that reads the logs in their order would have come.
#[derive(Default)]
struct Place {
    next: Option<SequenceNumber>,
    /// It found a false end, and no record has continued from there.
    stopped: Option<String>,
    /// The last log and where its last sound record ended.
    before: Option<(FileNumber, u64)>,
}

fn look(
    context: &RepairContext<'_>,
    number: FileNumber,
    path: PathBuf,
    oldest: FileNumber,
    place: &mut Place,
) -> Result<FoundLog> {
    let file = (number, path.as_path());
    // What an open would accept of it; in this mode a torn end is distinguished from damage.
    let opened =
        sound_records(context, file, WalRecoveryMode::TolerateCorruptedTail, &mut |_, _| Ok(()))?;
    let (entries, runs) = (BTreeMap::new(), Vec::new());
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut log = FoundLog { number, name, path: path.clone(), entries, runs, damage: Vec::new() };
    if let Some(defect) = opened.defect.as_ref().filter(|_| !opened.torn) {
        note(&mut log.damage, defect.clone());
    }
    let mut seen = 0;
    sound_records(context, file, WalRecoveryMode::SkipAnyCorrupted, &mut |record, end| {
        seen += 1;
        if seen > opened.records
            && let Some(defect) = &opened.defect
        {
            note(&mut log.damage, defect.clone());
        }
        place.follow(record, end, oldest, &mut log)
    })?;
    if let Some(defect) = opened.defect {
        place.stopped.get_or_insert(format!("{}: {defect}", filename::log_file_name(number)));
    }
    if place.before.is_none_or(|(log, _)| log != number) {
        place.before = Some((number, 0));
    }
    Ok(log)
}

fn note(damage: &mut Vec<String>, text: String) {
    if !damage.contains(&text) {
        damage.push(text);
    }
}

impl Place {
    /// Processes a sound record.
    fn follow(
        &mut self,
        record: &[u8],
        end: u64,
        oldest: FileNumber,
        log: &mut FoundLog,
    ) -> Result<()> {
        let number = log.number;
        if let Some(predecessor) = Predecessor::parse(record) {
            let whole = self
                .before
                .is_some_and(|(log, to)| log == predecessor.number && to >= predecessor.bytes);
            if !whole && predecessor.number >= oldest {
                self.stopped = Some(format!(
                    "the end of log {} is lost",
                    filename::log_file_name(predecessor.number)
                ));
            }
            self.before = Some((number, end));
            return Ok(());
        }
        self.before = Some((number, end));
        count(record, &mut log.entries)?;
        let first = batch::sequence(record);
        let next = first + taken(record);
        match (&self.stopped, self.next) {
            (Some(_), Some(expected)) if first == expected => self.stopped = None,
            (Some(why), _) => note(&mut log.damage, why.clone()),
            (None, _) => {}
        }
        self.next = Some(next);
        match log.runs.last_mut() {
            Some((_, last)) if *last + 1 == first => *last = (*last).max(next.saturating_sub(1)),
            _ if next > first => log.runs.push((first, next - 1)),
            _ => {}
        }
        Ok(())
    }
}

/// Counts the entries of a record; refuses what a repair cannot keep.
fn count(record: &[u8], entries: &mut BTreeMap<u32, u64>) -> Result<()> {
    for entry in batch::records(record) {
        match entry? {
            BatchRecord::Entry { value_type: ValueType::BlobIndex, .. } => {
                return Err(Error::not_supported("the WAL holds values in blob files"));
            }
            BatchRecord::Entry { column_family, .. } => {
                *entries.entry(column_family).or_default() += 1;
            }
            BatchRecord::LogData(_)
            | BatchRecord::Marker(
                ValueType::Noop | ValueType::CommitXid | ValueType::RollbackXid,
                _,
            ) => {}
            BatchRecord::Marker(..) => {
                return Err(refused());
            }
        }
    }
    Ok(())
}

/// The result of reading a log to its end in some mode.
struct Reading {
    records: u64,
    /// Why it did not reach the end.
    defect: Option<String>,
    /// The only defect is that the log ends early.
    torn: bool,
}

/// Calls `each` with every sound record and where it ends.
fn sound_records(
    context: &RepairContext<'_>,
    (number, path): (FileNumber, &Path),
    mode: WalRecoveryMode,
    each: &mut dyn FnMut(&[u8], u64) -> Result<()>,
) -> Result<Reading> {
    let mut reading = Reading { records: 0, defect: None, torn: false };
    let file = match context.fs.open_sequential(path) {
        Ok(file) => file,
        Err(error) => {
            reading.defect = Some(error.to_string());
            return Ok(reading);
        }
    };
    let mut reader = LogReader::new(file, LogReaderOptions::wal(number, mode), None);
    let mut record = Vec::new();
    loop {
        pumice_port::fiber::maybe_yield();
        match reader.read_record(&mut record) {
            Ok(None) => break,
            Ok(Some(info)) => match sound(&record) {
                Ok(()) => {
                    reading.records += 1;
                    each(&record, info.end)?;
                }
                Err(_) if mode == WalRecoveryMode::SkipAnyCorrupted => {}
                Err(error) => {
                    reading.defect = Some(error.to_string());
                    break;
                }
            },
            Err(error) => {
                reading.defect = Some(error.to_string());
                break;
            }
        }
    }
    if !reader.timestamp_sizes().is_empty() {
        return Err(Error::not_supported("the WAL has user-defined timestamps"));
    }
    if reading.defect.is_none() && reader.end() != LogEnd::EndOfFile {
        reading.defect = Some("its end is incomplete".to_string());
        reading.torn = true;
    }
    Ok(reading)
}

/// The sequence numbers that a record takes: `count` refuses prepared sections, so those that a
/// commit ends are unknown.
fn taken(record: &[u8]) -> u64 {
    PreparedSections::default().taken(record)
}

fn sound(record: &[u8]) -> Result<()> {
    batch::check(record)?;
    let next = batch::sequence(record).checked_add(taken(record));
    match next {
        Some(next) if next <= LAST_SEQUENCE_MAX + 1 => Ok(()),
        _ => Err(Error::corruption("sequence number is out of range")),
    }
}

/// Writes every sound entry of the logs that is in no table yet into new tables of level 0, by
/// column family. Entries of unknown column families are left out.
///
/// # Errors
/// I/O.
pub(super) fn convert(
    context: &RepairContext<'_>,
    outputs: &mut Outputs<'_>,
    logs: &[FoundLog],
    families: &BTreeMap<u32, Family>,
) -> Result<BTreeMap<u32, Vec<Arc<FileMetaData>>>> {
    let fresh = |family: &Family| new_memtable(&family.options, &family.icmp, 1, 0, None);
    let mut mems: BTreeMap<u32, Arc<MemTable>> =
        families.iter().map(|(id, family)| (*id, fresh(family))).collect();
    let mut tables: BTreeMap<u32, Vec<Arc<FileMetaData>>> = BTreeMap::new();
    for log in logs {
        let file = (log.number, log.path.as_path());
        sound_records(context, file, WalRecoveryMode::SkipAnyCorrupted, &mut |record, _| {
            apply(record, log.number, families, &mems)?;
            for (id, family) in families {
                if mems[id].should_flush() {
                    let full = mems.insert(*id, fresh(family));
                    flush(outputs, family, full.as_ref(), &mut tables)?;
                }
            }
            Ok(())
        })?;
    }
    for (id, family) in families {
        flush(outputs, family, mems.get(id), &mut tables)?;
    }
    Ok(tables)
}

fn apply(
    record: &[u8],
    log: FileNumber,
    families: &BTreeMap<u32, Family>,
    mems: &BTreeMap<u32, Arc<MemTable>>,
) -> Result<()> {
    let mut sequence = batch::sequence(record);
    for entry in batch::records(record) {
        let BatchRecord::Entry { column_family, value_type, key, value } = entry? else { continue };
        let at = sequence;
        sequence += 1;
        let Some(mem) = mems.get(&column_family) else { continue };
        if families[&column_family].log_number > log {
            continue;
        }
        match mem.add(at, value_type, key, value) {
            // The same update in two logs.
            Err(error) if error.kind() == pumice_base::ErrorKind::TryAgain => {}
            added => added?,
        }
    }
    Ok(())
}

fn flush(
    outputs: &mut Outputs<'_>,
    family: &Family,
    mem: Option<&Arc<MemTable>>,
    tables: &mut BTreeMap<u32, Vec<Arc<FileMetaData>>>,
) -> Result<()> {
    let Some(mem) = mem.filter(|mem| !mem.is_empty()) else { return Ok(()) };
    mem.mark_immutable();
    let tombstones = mem.range_tombstones().iter().flat_map(|list| list.tombstones()).collect();
    let mut entries = MemEntries(mem.iter());
    entries.0.seek_to_first();
    let written = outputs.write(family, 0, None, &mut entries, tombstones)?;
    tables.entry(family.id).or_default().extend(written);
    Ok(())
}

struct MemEntries(MemTableIter);

impl Entries for MemEntries {
    fn valid(&self) -> bool {
        self.0.valid()
    }
    fn key(&self) -> &[u8] {
        self.0.key().as_bytes()
    }
    fn value(&self) -> &[u8] {
        self.0.value()
    }
    fn next(&mut self) -> Result<()> {
        self.0.next();
        Ok(())
    }
}
