//! `idump`: every version of every key, deletions too, from logs and table files.
//!
//! Reads the files themselves and not through the database, so that no older version is hidden: the
//! entries of the logs are sorted in memory, tables are walked, and the smallest key comes first.
//! Entries that a newer range deletion covers are left out, as RocksDB's merging iterator does.
//! Of keys with timestamps they stay, since earlier times see them.
//! Where tables lack the timestamps of keys their entries have the oldest one.

use super::data::no_words;
use super::manifest::{Family, ManifestState, current_manifest};
use super::open::text as failure;
use super::{Failure, Invocation};
use crate::output::Output;
use crate::text::{show_stored, show_timed_key};
use pumice::{BatchRecord, Db, WriteBatch};
use pumice_base::coding::get_fixed64;
use pumice_base::key::{InternalKey, MAX_SEQUENCE, UserKey, internal_key, seek_key};
use pumice_base::range_tombstone::{FragmentedTombstones, RangeTombstone};
use pumice_base::{Comparator, Error, InternalKeyComparator, Result, ValueType};
use pumice_env::filename::{self, FileType};
use pumice_env::{FileSystem, PosixFs};
use pumice_manifest::FileMetaData;
use pumice_table::{Table, TableIter, TableReadContext, TableReadOptions};
use pumice_wal::{LogReader, LogReaderOptions, WalRecoveryMode};
use std::cmp::Ordering;
use std::path::Path;
use std::sync::Arc;

/// `idump`
pub fn idump(it: &Invocation, out: &mut Output) -> std::result::Result<(), Failure> {
    no_words(it, "idump")?;
    let key_hex_in = it.key_hex || it.arguments.flag("input_key_hex");
    let (from, mut to) = (it.bound("from", key_hex_in)?, it.bound("to", key_hex_in)?);
    // RocksDB's texts of this flag end with a stop here; it checks the limit after an entry.
    let limit = it.arguments.int("max_keys", ".")?.unwrap_or(-1);
    let limit = u64::try_from(limit).map_or(u64::MAX, |limit| limit.max(1));
    let count_only = it.arguments.flag("count_only");
    let mut groups = it.groups();
    if it.arguments.flag("stats") {
        it.print_stats(&it.open_read_only::<Db>()?, out);
    }
    let fs = PosixFs::shared();
    let manifest = current_manifest(&*fs, it.source()).map_err(failure)?;
    let state = ManifestState::read(&*fs, &manifest, it.may_overlap()).map_err(failure)?;
    let Some((id, family)) = state.families.iter().find(|(_, family)| family.name == it.family)
    else {
        return Err(format!("Non-existing column family {}", it.family));
    };
    let mut sources = Sources::open(&*fs, it, *id, family).map_err(failure)?;
    let order = InternalKeyComparator::new(family.version.time_order().clone());
    let from = from.map(|key| order.user.at_newest(&key));
    to = to.map(|key| order.user.at_newest(&key));
    sources.start(from.as_deref(), &order);
    let mut count = 0u64;
    while count < limit {
        let Some((key, value)) = sources.smallest(&order).map_err(failure)? else { break };
        if let Some(end) = &to
            && order.user.compare(key.user_key(), UserKey::new(end)) != Ordering::Less
        {
            break;
        }
        if sources.deleted(key, &order) {
            sources.advance(&order);
            continue;
        }
        count += 1;
        if let Some(groups) = &mut groups {
            groups.add_internal(key.as_bytes(), value, out);
        } else if !count_only {
            let value = show_stored(key.as_bytes(), value, it.format());
            let key = show_timed_key(key.as_bytes(), it.key_hex, &order.user);
            if let Some(value) = value
                && !out.line(&[&key, b" => ", &value])
            {
                return Ok(());
            }
        }
        sources.advance(&order);
    }
    match groups {
        Some(groups) => groups.print(out),
        None => out.text(&format!("Internal keys in range: {count}\n")),
    }
    Ok(())
}

/// The entries of a table, with the keys of their column family.
struct TableEntries {
    table: TableIter,
    /// Bytes of the timestamp that the table's keys lack.
    lacking: usize,
    /// The present key with it.
    padded: Vec<u8>,
}

impl TableEntries {
    fn new(table: TableIter, lacking: usize) -> Self {
        TableEntries { table, lacking, padded: Vec::new() }
    }
    fn valid(&self) -> bool {
        self.table.valid()
    }
    fn status(&self) -> Result<()> {
        self.table.status()
    }
    fn key(&self) -> InternalKey<'_> {
        match self.lacking {
            0 => self.table.key(),
            _ => InternalKey::new(&self.padded),
        }
    }
    fn value(&self) -> &[u8] {
        self.table.value()
    }
    /// Moves to the first entry, or to the first one of the key `from` or after it.
    fn start(&mut self, from: Option<UserKey<'_>>) {
        match from {
            None => self.table.seek_to_first(),
            Some(from) => {
                let bare = &from.as_bytes()[..from.len().saturating_sub(self.lacking)];
                self.table.seek(InternalKey::new(&seek_key(bare, MAX_SEQUENCE)));
            }
        }
        self.pad();
    }
    fn next(&mut self) {
        self.table.next();
        self.pad();
    }
    fn pad(&mut self) {
        if self.lacking == 0 || !self.table.valid() {
            return;
        }
        let key = self.table.key();
        self.padded.clear();
        self.padded.extend_from_slice(key.user_key().as_bytes());
        self.padded.resize(self.padded.len() + self.lacking, 0);
        self.padded.extend_from_slice(&key.trailer().to_le_bytes());
    }
}

/// Everything that has entries of one column family.
struct Sources {
    tables: Vec<TableEntries>,
    /// The order of the keys in tables.
    table_order: Comparator,
    /// Entries of the logs, in order, and the place in them.
    logged: Vec<(Vec<u8>, Vec<u8>)>,
    next_logged: usize,
    /// Range deletions, and the table file inside whose bounds they count; None for those of logs.
    tombstones: Vec<(Option<Arc<FileMetaData>>, Arc<FragmentedTombstones>)>,
}

/// Where the smallest key was found.
enum Found {
    Table(usize),
    Logged,
}

impl Sources {
    fn open(fs: &dyn FileSystem, it: &Invocation, id: u32, family: &Family) -> Result<Sources> {
        let db = it.source();
        let in_tables = family.version.comparator().clone();
        let order = InternalKeyComparator::new(family.version.time_order().clone());
        let lacking = match family.version.is_stripped() {
            true => order.user.timestamp_size(),
            false => 0,
        };
        let (mut tables, mut tombstones) = (Vec::new(), Vec::new());
        for (level, meta) in family.version.all_files() {
            let file =
                fs.open_random(&filename::TableDirs::of(db).table(meta.path_id, meta.number))?;
            let context = TableReadContext {
                comparator: in_tables.clone(),
                file_number: meta.number,
                level: level as i32,
                largest_seqno: meta.largest_seq,
                skip_filters: true,
                ..TableReadContext::default()
            };
            let table: Arc<Table> = Table::open(context, file, meta.file_size)?;
            tombstones.extend(table.range_tombstones().map(|list| (Some(Arc::clone(meta)), list)));
            tables.push(TableEntries::new(table.iter(&TableReadOptions::default()), lacking));
        }
        let (mut logged, mut deleted) = (Vec::new(), Vec::new());
        // A follower shows no logs.
        let names = if it.leads_itself() { fs.list(db)? } else { Vec::new() };
        for name in names {
            if let Some((number, FileType::Wal)) = filename::parse(&name)
                && number >= family.log_number
            {
                read_log(fs, db, number, (id, &order.user), &mut logged, &mut deleted)?;
            }
        }
        logged.sort_by(|a, b| order.compare(InternalKey::new(&a.0), InternalKey::new(&b.0)));
        tombstones.push((None, Arc::new(FragmentedTombstones::build(deleted, &order.user))));
        Ok(Sources { tables, table_order: in_tables.user, logged, next_logged: 0, tombstones })
    }

    /// A newer range deletion covers the entry `key`.
    fn deleted(&self, key: InternalKey<'_>, order: &InternalKeyComparator) -> bool {
        let (sequence, user) = (key.sequence(), key.user_key());
        let in_tables = match self.table_order.timestamp_size() {
            0 => order.user.without_timestamp(user),
            _ => user,
        };
        self.tombstones.iter().any(|(file, list)| match file {
            None => list.max_covering_seq(&order.user, user, MAX_SEQUENCE) > sequence,
            Some(file) => {
                list.max_covering_seq(&self.table_order, in_tables, MAX_SEQUENCE) > sequence
                    && inside_file(&self.table_order, in_tables, file)
            }
        })
    }

    /// Places every source at `from`, or at its beginning.
    fn start(&mut self, from: Option<&[u8]>, order: &InternalKeyComparator) {
        let from = from.map(UserKey::new);
        self.tables.iter_mut().for_each(|table| table.start(from));
        if let Some(from) = from {
            self.next_logged = self.logged.partition_point(|(key, _)| {
                order.user.compare(InternalKey::new(key).user_key(), from) == Ordering::Less
            });
        }
    }

    fn find(&self, order: &InternalKeyComparator) -> Option<Found> {
        let logged = self.logged.get(self.next_logged).map(|(key, _)| InternalKey::new(key));
        let mut best = logged.map(|key| (key, Found::Logged));
        for (index, table) in self.tables.iter().enumerate() {
            if table.valid()
                && best
                    .as_ref()
                    .is_none_or(|(key, _)| order.compare(table.key(), *key) == Ordering::Less)
            {
                best = Some((table.key(), Found::Table(index)));
            }
        }
        best.map(|(_, found)| found)
    }

    /// The smallest entry of all.
    fn smallest(&self, order: &InternalKeyComparator) -> Result<Option<(InternalKey<'_>, &[u8])>> {
        for table in &self.tables {
            table.status()?;
        }
        Ok(self.find(order).map(|found| match found {
            Found::Table(index) => (self.tables[index].key(), self.tables[index].value()),
            Found::Logged => {
                let (key, value) = &self.logged[self.next_logged];
                (InternalKey::new(key), value.as_slice())
            }
        }))
    }

    fn advance(&mut self, order: &InternalKeyComparator) {
        match self.find(order) {
            Some(Found::Table(index)) => self.tables[index].next(),
            Some(Found::Logged) => self.next_logged += 1,
            None => {}
        }
    }
}

/// `key` is inside the bounds of `file`. Compaction splits range deletions there, and entries
/// outside may have had their sequence zeroed (docs/format/table.md#range-deletions).
fn inside_file(order: &Comparator, key: UserKey<'_>, file: &FileMetaData) -> bool {
    order.compare(key, file.smallest_user_key()) != Ordering::Less
        && match order.compare(key, file.largest_user_key()) {
            Ordering::Less => true,
            Ordering::Equal => !file.largest_key().is_range_end(),
            Ordering::Greater => false,
        }
}

/// Adds the entries of log `number` that belong to column family `id`, and its range deletions.
fn read_log(
    fs: &dyn FileSystem,
    db: &Path,
    number: u64,
    (id, order): (u32, &Comparator),
    out: &mut Vec<(Vec<u8>, Vec<u8>)>,
    deleted: &mut Vec<RangeTombstone>,
) -> Result<()> {
    let file = fs.open_sequential(&filename::log_file(db, number))?;
    let options = LogReaderOptions::wal(number, WalRecoveryMode::PointInTime);
    let mut reader = LogReader::new(file, options, None);
    let mut record = Vec::new();
    while reader.read_record(&mut record)?.is_some() {
        let batch = WriteBatch::from_data(&record)?;
        let mut sequence = get_fixed64(&record).unwrap_or(0);
        for entry in batch.iter() {
            let BatchRecord::Entry { column_family, value_type, key, value } = entry? else {
                continue;
            };
            let sizes = reader.timestamp_sizes().iter().find(|(family, _)| *family == id);
            let size = sizes.map_or(0, |(_, size)| usize::from(*size));
            if column_family == id && size != order.timestamp_size() {
                return Err(Error::not_supported(format!(
                    "log {number} has keys with timestamps of {size} bytes, of a column family \
                     that now has {} bytes: open the database first",
                    order.timestamp_size()
                )));
            }
            if column_family == id && value_type == ValueType::RangeDeletion {
                let (start, end) = (UserKey::new(key), UserKey::new(value));
                deleted.push(RangeTombstone::of_stored(order, start, end, sequence));
            } else if column_family == id {
                let stored = match value_type {
                    ValueType::Deletion if order.timestamp_size() > 0 => {
                        ValueType::DeletionWithTimestamp
                    }
                    other => other,
                };
                out.push((internal_key(key, sequence, stored), value.to_vec()));
            }
            sequence += 1;
        }
    }
    Ok(())
}
