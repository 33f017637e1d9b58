//! Write-ahead logs: finds those that an open would not accept as they are, and turns their entries
//! into tables.
//!
//! A log that a crash tore is not damaged: an open handles that. It is damaged if sound records
//! follow unreadable bytes: an open would leave them out.
//!
//! Thread safety: plain data and free functions. Suspends on I/O.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pumice_base::key::LAST_SEQUENCE_MAX;
use pumice_base::order;
use pumice_base::{
    Error, FileNumber, InternalIterator, InternalKeyComparator, Result, SequenceNumber, ValueType,
};
use pumice_env::filename::{self, FileType};
use pumice_manifest::FileMetaData;
use pumice_memtable::MemTable;
use pumice_wal::{LogEnd, LogReader, LogReaderOptions, WalRecoveryMode};

use crate::commit::batch::{self, BatchRecord};
use crate::commit::predecessor::Predecessor;
use crate::commit::two_phase::{PreparedSections, refused};
use crate::engine::replay_keys::Conversion;
use crate::flush::stripping::{low_after, without_timestamp};
use crate::read::guarded::memtable_source;
use crate::read::source::Source;
use crate::repair::context::{Family, RepairContext};
use crate::repair::repaired_tables::{Entries, Outputs};
use crate::repair::report::RepairReport;
use crate::version::family::new_memtable;

/// A log of the directory.
pub(super) struct FoundLog {
    pub number: FileNumber,
    pub name: String,
    pub path: PathBuf,
    /// Entries in sound records, by column family.
    pub entries: BTreeMap<u32, u64>,
    /// Column families and lengths of their timestamps, each pair once; None where the log does not
    /// say them any more.
    pub timestamp_sizes: Vec<(u32, Option<usize>)>,
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

    /// How long the timestamps of a column family's keys are, if a part of the log says it: a
    /// family gets or loses them between two logs.
    fn timestamp_size(&self, family: u32) -> Option<usize> {
        let mut sizes = self.timestamp_sizes.iter().filter(|(id, _)| *id == family);
        sizes.find_map(|(_, size)| *size)
    }

    /// The largest sequence number of a sound record, 0 if there is none.
    pub fn last_sequence(&self) -> SequenceNumber {
        self.runs.iter().map(|(_, last)| *last).max().unwrap_or(0)
    }
}

/// The logs from `oldest` on, ascending.
///
/// # Errors
/// NotSupported for prepared transactions; I/O of the directory.
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
        sound_records(context, file, WalRecoveryMode::TolerateCorruptedTail, &mut |_| Ok(()))?;
    let (entries, runs) = (BTreeMap::new(), Vec::new());
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let (damage, timestamp_sizes) = (Vec::new(), Vec::new());
    let mut log =
        FoundLog { number, name, path: path.clone(), entries, timestamp_sizes, runs, damage };
    if let Some(defect) = opened.defect.as_ref().filter(|_| !opened.torn) {
        note(&mut log.damage, defect.clone());
    }
    let mut seen = 0;
    sound_records(context, file, WalRecoveryMode::SkipAnyCorrupted, &mut |sound| {
        seen += 1;
        if seen > opened.records
            && let Some(defect) = &opened.defect
        {
            note(&mut log.damage, defect.clone());
        }
        place.follow(&sound, oldest, &mut log)
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
        sound: &SoundRecord<'_>,
        oldest: FileNumber,
        log: &mut FoundLog,
    ) -> Result<()> {
        let (record, end, number) = (sound.record, sound.end, log.number);
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
        count(sound, log)?;
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
fn count(sound: &SoundRecord<'_>, log: &mut FoundLog) -> Result<()> {
    for entry in batch::records(sound.record) {
        match entry? {
            BatchRecord::Entry { value_type: ValueType::BlobIndex, .. } => {
                return Err(Error::not_supported("the WAL holds values in blob files"));
            }
            BatchRecord::Entry { column_family, .. } => {
                *log.entries.entry(column_family).or_default() += 1;
                let size = (column_family, sound.timestamp_size(column_family));
                if !log.timestamp_sizes.contains(&size) {
                    log.timestamp_sizes.push(size);
                }
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

/// A record that can be read.
struct SoundRecord<'r> {
    record: &'r [u8],
    /// Where it ends.
    end: u64,
    /// The lengths of timestamps of the column families that have some in the log.
    timestamp_sizes: &'r [(u32, u16)],
    /// Something before it in the log cannot be read.
    follows_damage: bool,
}

impl SoundRecord<'_> {
    /// How long the timestamps of a column family's keys are; None if what says it may be what
    /// cannot be read.
    fn timestamp_size(&self, family: u32) -> Option<usize> {
        let said = self.timestamp_sizes.iter().find(|(id, _)| *id == family);
        said.map(|(_, size)| usize::from(*size)).or((!self.follows_damage).then_some(0))
    }
}

/// Calls `each` with every sound record.
fn sound_records(
    context: &RepairContext<'_>,
    (number, path): (FileNumber, &Path),
    mode: WalRecoveryMode,
    each: &mut dyn FnMut(SoundRecord<'_>) -> Result<()>,
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
                    let (end, timestamp_sizes) = (info.end, reader.timestamp_sizes());
                    let follows_damage = reader.dropped_bytes() > 0;
                    each(SoundRecord { record: &record, end, timestamp_sizes, follows_damage })?;
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

/// What became of the entries of a column family in logs.
#[derive(Default)]
pub(super) struct Converted {
    /// Tables of level 0, oldest first.
    pub tables: Vec<Arc<FileMetaData>>,
    /// The low of the history, if they have lost timestamps.
    pub low: Option<Vec<u8>>,
    /// Entries whose keys are shorter than a timestamp.
    left_out: u64,
}

impl Converted {
    /// Reports the entries that have no place in the family.
    pub fn note_left_out(&self, family: &str, report: &mut RepairReport) {
        if self.left_out > 0 {
            report.note(format!(
                "column family {family}: {} entries of logs are left out, whose keys are shorter \
                 than a timestamp",
                self.left_out
            ));
        }
    }
}

/// Refuses logs whose keys cannot be told, or made, to be those of their families.
///
/// # Errors
/// InvalidArgument or NotSupported.
pub(super) fn check(logs: &[FoundLog], families: &BTreeMap<u32, Family>) -> Result<()> {
    for log in logs {
        for (id, size) in &log.timestamp_sizes {
            let family = families.get(id).filter(|family| family.log_number <= log.number);
            let Some(family) = family else { continue };
            let checked = match size {
                Some(size) => family.conversion(*size).map(drop),
                None if family.has_changed && log.timestamp_size(*id).is_none() => {
                    Err(Error::not_supported(format!(
                        "repair of a damaged log that does not say whether its keys of column \
                         family {}, which were written with timestamps and without, have some",
                        family.name
                    )))
                }
                None => Ok(()),
            };
            checked.map_err(|error| error.with_context(log.path.display()))?;
        }
    }
    Ok(())
}

/// Writes every sound entry of the logs that is in no table yet into new tables of level 0, by
/// column family. Entries of unknown column families are left out.
///
/// # Errors
/// I/O; InvalidArgument or NotSupported for keys with other timestamps than those of their family.
pub(super) fn convert(
    context: &RepairContext<'_>,
    outputs: &mut Outputs<'_>,
    logs: &[FoundLog],
    families: &BTreeMap<u32, Family>,
) -> Result<BTreeMap<u32, Converted>> {
    let fresh = |family: &Family| {
        let order = InternalKeyComparator::new(family.options.comparator.clone());
        new_memtable(&family.options, &order, 1, 0, None)
    };
    let mut mems: BTreeMap<u32, Arc<MemTable>> =
        families.iter().map(|(id, family)| (*id, fresh(family))).collect();
    let mut tables: BTreeMap<u32, Converted> = BTreeMap::new();
    for log in logs {
        let file = (log.number, log.path.as_path());
        sound_records(context, file, WalRecoveryMode::SkipAnyCorrupted, &mut |sound| {
            apply(&sound, log, families, (&mems, &mut tables))?;
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
    sound: &SoundRecord<'_>,
    log: &FoundLog,
    families: &BTreeMap<u32, Family>,
    (mems, converted): (&BTreeMap<u32, Arc<MemTable>>, &mut BTreeMap<u32, Converted>),
) -> Result<()> {
    let mut sequence = batch::sequence(sound.record);
    for entry in batch::records(sound.record) {
        let BatchRecord::Entry { column_family, value_type, key, value } = entry? else { continue };
        let at = sequence;
        sequence += 1;
        let Some(mem) = mems.get(&column_family) else { continue };
        let family = &families[&column_family];
        if family.log_number > log.number {
            continue;
        }
        let is_range = value_type == ValueType::RangeDeletion;
        let size = sound.timestamp_size(column_family).or(log.timestamp_size(column_family));
        let size = size.unwrap_or(family.options.comparator.timestamp_size());
        let is_short = |key: &[u8]| key.len() < size;
        if is_short(key) || is_range && is_short(value) {
            converted.entry(column_family).or_default().left_out += 1;
            continue;
        }
        let key = &family.key_of_log(key, size)?;
        let value = &if is_range { family.key_of_log(value, size)? } else { value.into() };
        match mem.add(at, value_type, key, value) {
            // The same update in two logs.
            Err(error) if error.kind() == pumice_base::ErrorKind::TryAgain => {}
            added => added?,
        }
    }
    Ok(())
}

impl Family {
    /// What is done to keys of a log that have timestamps of `size` bytes there.
    fn conversion(&self, size: usize) -> Result<Option<Conversion>> {
        let order = &self.options.comparator;
        if order.timestamp_size() == size {
            return Ok(None);
        }
        if size > 0 && !self.is_recorded {
            let (name, order) = (&self.name, order.name());
            return Err(Error::invalid_argument(format!(
                "a log has keys of column family {name} with timestamps of {size} bytes, and \
                 nothing but the options names its order: {order} has none of that length"
            )));
        }
        let now = (order, self.options.strips_timestamps());
        Conversion::between(self.id, size, now).map(Some)
    }

    /// A key of a log that has `size` bytes of a timestamp there, as the family has it.
    fn key_of_log<'k>(&self, key: &'k [u8], size: usize) -> Result<Cow<'k, [u8]>> {
        match self.conversion(size)? {
            None => Ok(Cow::Borrowed(key)),
            Some(conversion) => conversion.of(key).map(Cow::Owned),
        }
    }
}

fn flush(
    outputs: &mut Outputs<'_>,
    family: &Family,
    mem: Option<&Arc<MemTable>>,
    converted: &mut BTreeMap<u32, Converted>,
) -> Result<()> {
    let Some(mem) = mem.filter(|mem| !mem.is_empty()) else { return Ok(()) };
    mem.mark_immutable();
    let converted = converted.entry(family.id).or_default();
    let raised = low_after(&family.options, std::iter::once(mem), converted.low.as_deref());
    converted.low = raised.or(converted.low.take());
    let stripped = family.options.strips_timestamps();
    let stripped = stripped.then(|| without_timestamp(&family.options, mem)).transpose()?;
    let mem = stripped.as_ref().unwrap_or(mem);
    let tombstones = mem.range_tombstones().iter().flat_map(|list| list.tombstones()).collect();
    let mut entries = MemEntries(memtable_source(mem));
    entries.0.seek_to_first();
    entries.0.status()?;
    let written = outputs.write(family, 0, None, &mut entries, tombstones)?;
    converted.tables.extend(written);
    Ok(())
}

struct MemEntries(Source);

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
        self.0.status()
    }
}
