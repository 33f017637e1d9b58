//! Reads the contents of a table file as far as possible.
//!
//! Thread safety: plain data and free functions. Every block is read once. Suspends on I/O.

use std::path::PathBuf;
use std::sync::Arc;

use pumice_base::key::{MAX_SEQUENCE, U64_TS_SUFFIX, internal_key, parse_internal_key};
use pumice_base::range_tombstone::RangeTombstone;
use pumice_base::{
    Comparator, Error, ErrorKind, FileNumber, InternalKey, InternalKeyComparator, Result,
    SequenceNumber, ValueType,
};
use pumice_manifest::FileMetaData;
use pumice_table::properties::UNKNOWN_COLUMN_FAMILY;
use pumice_table::{Table, TableOptions, TableProperties, TableReadContext, unique_id_of};

use crate::blob::references::{References, may_refer};
use crate::callbacks::key_forms::KeyForms;
use crate::repair::blobs::{BlobFiles, Holder, Owner, Settled};
use crate::repair::context::RepairContext;
use crate::table_output::table_collectors::{TIMESTAMP_MAX, TIMESTAMP_MIN};

/// The property of tables that a repair wrote. Persisted.
pub(super) const MARK: &str = "pumice.repair";

/// A table file of the directory.
pub(super) struct FoundTable {
    pub number: FileNumber,
    pub name: String,
    pub path: PathBuf,
    pub bytes: u64,
    /// What the table contains, or why it cannot be opened.
    pub contents: std::result::Result<Contents, Error>,
}

/// What is in a table.
pub(super) struct Contents {
    /// From the table itself, for level 0.
    pub meta: Arc<FileMetaData>,
    pub family: u32,
    pub family_name: String,
    /// The order that the table names.
    pub comparator: String,
    /// Its keys have lost the timestamps of that order.
    pub stripped: bool,
    /// Entries that could be read, range tombstones included.
    pub entries: u64,
    /// Entries that could not, by the table's properties.
    pub entries_lost: Option<u64>,
    /// What could not be read.
    pub damage: Vec<Error>,
    /// A repair wrote it.
    pub marked: bool,
    /// The table was ingested, and only a MANIFEST has the sequence number of its entries.
    pub lacks_sequence: bool,
    /// Blobs that stay where they are.
    pub references: References,
}

/// The name of the order that keys have in tables of this one, which are `stripped` of timestamps.
pub(super) fn order_in_table(name: &str, stripped: bool) -> &str {
    name.strip_suffix(U64_TS_SUFFIX).filter(|_| stripped).unwrap_or(name)
}

impl FoundTable {
    /// The table can be read from end to end.
    pub fn is_sound(&self) -> bool {
        self.contents.as_ref().is_ok_and(|contents| contents.damage.is_empty())
    }

    /// The first thing that is wrong with it.
    pub fn defect(&self) -> String {
        match &self.contents {
            Ok(contents) => contents.damage.first().map(Error::to_string).unwrap_or_default(),
            Err(error) => error.to_string(),
        }
    }
}

/// Opens a table without caches and filters. `known` is what a MANIFEST says of it.
///
/// # Errors
/// The errors of the table.
pub(super) fn open(
    context: &RepairContext<'_>,
    path: &std::path::Path,
    number: FileNumber,
    comparator: &Comparator,
    known: Option<&FileMetaData>,
) -> Result<Arc<Table>> {
    let file = context.fs.open_random(path)?;
    let bytes = file.len();
    let id = known.map(|file| file.unique_id).filter(|id| *id != [0, 0]);
    let options = TableOptions { no_block_cache: true, block_cache: None, ..Default::default() };
    let context = TableReadContext {
        options: Arc::new(options),
        comparator: InternalKeyComparator::new(comparator.clone()),
        file_number: number,
        expected_unique_id: id,
        largest_seqno: known.map_or(u64::MAX, |file| file.largest_seq),
        skip_filters: true,
        ..TableReadContext::default()
    };
    Table::open(context, file, bytes)
}

fn properties(context: &RepairContext<'_>, path: &std::path::Path) -> Result<TableProperties> {
    let file = context.fs.open_random(path)?;
    let bytes = file.len();
    Table::read_properties(file, bytes)
}

/// What a MANIFEST says of a table: the id and the name of its column family, and its metadata.
pub(super) type Known<'a> = (u32, &'a str, &'a FileMetaData);

/// Reads the table `path`.
///
/// # Errors
/// InvalidArgument or NotSupported for what a repair cannot keep, as another order. Damage is no
/// error; a value whose blob file is damaged is damage of the table.
pub(super) fn examine(
    context: &RepairContext<'_>,
    blobs: &BlobFiles,
    path: PathBuf,
    number: FileNumber,
    known: Option<Known<'_>>,
) -> Result<FoundTable> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let bytes = context.fs.file_size(&path).unwrap_or(0);
    let contents = match read(context, blobs, &path, number, known) {
        Ok(contents) => Ok(contents),
        Err(Refusal::Damaged(error)) => Err(error),
        Err(Refusal::Foreign(error)) => return Err(error.with_context(path.display())),
    };
    Ok(FoundTable { number, name, path, bytes, contents })
}

enum Refusal {
    Damaged(Error),
    Foreign(Error),
}

impl From<Error> for Refusal {
    /// A table of a newer format, or with an unknown codec, may be intact: that is not damage.
    fn from(error: Error) -> Self {
        match error.kind() {
            ErrorKind::NotSupported => Refusal::Foreign(error),
            _ => Refusal::Damaged(error),
        }
    }
}

fn read(
    context: &RepairContext<'_>,
    blobs: &BlobFiles,
    path: &std::path::Path,
    number: FileNumber,
    known: Option<Known<'_>>,
) -> std::result::Result<Contents, Refusal> {
    let meta = known.map(|(_, _, meta)| meta);
    // The properties name the key order for reading the rest.
    let properties = properties(context, path)?;
    let (family, name) =
        known.map_or_else(|| family_of(&properties), |(id, name, _)| (id, name.to_string()));
    let stripped = properties.user_timestamps_persisted == 0;
    let found = Some((properties.comparator.as_str(), stripped));
    let (order, lacks_times) = context.order_of(&name, found).map_err(Refusal::Foreign)?;
    let keys = KeyForms::of(&order, lacks_times);
    let in_table = if lacks_times { order.without_timestamps() } else { order };
    let table = open(context, path, number, &in_table, meta)?;
    let owner = Owner { family, keys };
    let mut found = Bounds::new(table.comparator().clone(), keys);
    let mut settled = None;
    let mut iter = table.salvage();
    while iter.valid() {
        let key = parse_internal_key(iter.key())?;
        let holder = Holder { table: &table, stays: true };
        match blobs.settle(owner, holder, iter.key(), iter.value()).map_err(Refusal::Foreign)? {
            Settled::Stays => found.add(iter.key(), key.sequence, iter.value()),
            Settled::Moved(ikey, value) => {
                found.add(&ikey, key.sequence, &value);
                settled.get_or_insert_with(|| {
                    Error::corruption("it refers to a blob file that is not whole")
                });
            }
            Settled::Lost(error) => drop(settled.insert(error)),
        }
        iter.next();
    }
    let mut damage = iter.damage().to_vec();
    damage.extend(settled);
    if let Some(error) = damage.iter().find(|e| e.kind() == ErrorKind::NotSupported) {
        return Err(Refusal::Foreign(error.clone()));
    }
    for tombstone in tombstones(&table) {
        found.add_tombstone(&tombstone);
    }
    damage.extend(table.verify_meta().err());
    let recorded = properties.num_entries.checked_sub(properties.num_range_deletions);
    let entries_lost = match recorded.and_then(|recorded| recorded.checked_sub(found.points)) {
        None | Some(0) if !damage.is_empty() && found.points == 0 => None,
        Some(lost) => Some(lost),
        None => damage.is_empty().then_some(0),
    };
    let stored = properties.global_seqno(u64::MAX)?;
    Ok(Contents {
        family,
        family_name: name,
        comparator: properties.comparator.clone(),
        stripped,
        entries: found.points + found.tombstones,
        entries_lost,
        damage,
        marked: properties.collected(MARK).is_some(),
        lacks_sequence: known.is_none() && stored == Some(0),
        references: found.references.clone(),
        meta: Arc::new(found.meta(number, table.file_size(), &properties)),
    })
}

/// The column family named in a table; the default one if it names none.
fn family_of(properties: &TableProperties) -> (u32, String) {
    let id = properties.column_family_id;
    match u32::try_from(id) {
        Ok(id) if u64::from(id) != UNKNOWN_COLUMN_FAMILY && id != 0 => {
            (id, properties.column_family_name.clone())
        }
        _ => (0, crate::engine::open::DEFAULT_COLUMN_FAMILY_NAME.to_string()),
    }
}

/// The range tombstones of a table, in order and cut where they overlap.
pub(super) fn tombstones(table: &Table) -> Vec<RangeTombstone> {
    table.range_tombstones_ref().into_iter().flat_map(|list| list.tombstones()).collect()
}

/// The part of a tombstone that applies in a file with these bounds in the MANIFEST; the table may
/// hold more of it.
pub(super) fn within_bounds(
    mut tombstone: RangeTombstone,
    file: &FileMetaData,
    cmp: &Comparator,
) -> Option<RangeTombstone> {
    // Those of a tombstone have the newest timestamp that there can be.
    let (low, high) = (file.smallest_user_key(), file.largest_user_key());
    let whole = |key| cmp.at_newest(cmp.without_timestamp(key).as_bytes());
    if cmp.compare_without_timestamp(tombstone.start(), low).is_lt() {
        tombstone.start = whole(low);
    }
    if cmp.compare_without_timestamp(tombstone.end(), high).is_gt() {
        tombstone.end = whole(high);
    }
    cmp.compare(tombstone.start(), tombstone.end()).is_lt().then_some(tombstone)
}

/// Collects the bounds of a table's entries.
pub(super) struct Bounds {
    icmp: InternalKeyComparator,
    keys: KeyForms,
    smallest: Vec<u8>,
    largest: Vec<u8>,
    seqs: (SequenceNumber, SequenceNumber),
    pub points: u64,
    pub tombstones: u64,
    pub references: References,
}

impl Bounds {
    pub fn new(icmp: InternalKeyComparator, keys: KeyForms) -> Self {
        let seqs = (MAX_SEQUENCE, 0);
        let references = References::default();
        let (smallest, largest, points, tombstones) = (Vec::new(), Vec::new(), 0, 0);
        Bounds { icmp, keys, smallest, largest, seqs, points, tombstones, references }
    }

    /// Adds a point entry; they come in order.
    pub fn add(&mut self, ikey: &[u8], sequence: SequenceNumber, value: &[u8]) {
        let key = InternalKey::new(ikey);
        if may_refer(key.tag(), value) {
            // What cannot be decoded refers to nothing.
            drop(self.references.add(self.keys.whole_len(key.user_key()), key.tag(), value));
        }
        if self.smallest.is_empty() {
            self.smallest.extend_from_slice(ikey);
        }
        self.largest.clear();
        self.largest.extend_from_slice(ikey);
        self.seqs = (self.seqs.0.min(sequence), self.seqs.1.max(sequence));
        self.points += 1;
    }

    /// Adds a tombstone, after the last point entry.
    pub fn add_tombstone(&mut self, tombstone: &RangeTombstone) {
        let seq = tombstone.seq;
        let first = internal_key(&tombstone.stored_start(), seq, ValueType::RangeDeletion);
        let last = internal_key(&tombstone.end, MAX_SEQUENCE, ValueType::RangeDeletion);
        if self.smallest.is_empty()
            || self.icmp.compare(InternalKey::new(&first), InternalKey::new(&self.smallest)).is_lt()
        {
            self.smallest = first;
        }
        if self.largest.is_empty()
            || self.icmp.compare(InternalKey::new(&last), InternalKey::new(&self.largest)).is_gt()
        {
            self.largest = last;
        }
        self.seqs = (self.seqs.0.min(seq), self.seqs.1.max(seq));
        self.tombstones += 1;
    }

    /// Nothing was added.
    pub fn is_empty(&self) -> bool {
        self.smallest.is_empty()
    }

    /// The metadata of such a table for a MANIFEST.
    pub fn meta(
        self,
        number: FileNumber,
        file_size: u64,
        properties: &TableProperties,
    ) -> FileMetaData {
        let tail = match properties.tail_start_offset {
            0 => 0,
            start => file_size.saturating_sub(start),
        };
        let time = |name| properties.collected(name).unwrap_or_default().to_vec();
        let meta = FileMetaData {
            number,
            file_size,
            timestamps_stripped: properties.user_timestamps_persisted == 0,
            min_timestamp: time(TIMESTAMP_MIN),
            max_timestamp: time(TIMESTAMP_MAX),
            smallest: self.smallest,
            largest: self.largest,
            smallest_seq: if self.points + self.tombstones == 0 { 0 } else { self.seqs.0 },
            largest_seq: self.seqs.1,
            oldest_ancester_time: properties.creation_time,
            file_creation_time: properties.file_creation_time,
            unique_id: unique_id_of(properties).unwrap_or([0, 0]),
            tail_size: tail,
            oldest_blob_file_number: self.references.oldest(),
            ..FileMetaData::default()
        };
        meta.stats.get_or_init(|| crate::version::table_cache::file_stats(properties));
        meta
    }
}
