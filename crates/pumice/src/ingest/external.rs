//! One external file: opened, checked, its bounds found.
//!
//! Nothing here touches the database's directory. Checks do not use the block cache, which might
//! hold blocks of another file under this one's id; it may be filled only afterwards. Suspends on
//! I/O.
//!
//! Invariant of [`ExternalFile`]: `smallest` and `largest` bound every entry and every range
//! tombstone of the file; their sequence is 0, except in the sentinel that ends a tombstone, and in
//! files that keep their sequence numbers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pumice_base::coding::{get_fixed32, get_fixed64};
use pumice_base::key::{
    InternalKey, MAX_SEQUENCE, ParsedInternalKey, append_internal_key, internal_key,
};
use pumice_base::{Error, FileNumber, Result, SequenceNumber, ValueType};
use pumice_env::FileSystem;
use pumice_manifest::UserRange;
use pumice_table::properties::{
    EXTERNAL_VERSION, GLOBAL_SEQNO, UNKNOWN_COLUMN_FAMILY, UNKNOWN_SEQNO,
};
use pumice_table::{
    RowTable, Table, TableProperties, TableReadContext, TableReadOptions, unique_id_of,
};

use crate::blob::references::{References, is_embedded, may_refer};
use crate::ingest::IngestExternalFileOptions;
use crate::ingest::writer::VERSION;
use crate::options::check_order_change;
use crate::table_output::table_collectors::{TIMESTAMP_MAX, TIMESTAMP_MIN};
use crate::version::family::CfData;

/// A file to be ingested.
pub(crate) struct ExternalFile {
    pub path: PathBuf,
    /// The file's number in the database.
    pub number: FileNumber,
    pub bytes: u64,
    pub smallest: Vec<u8>,
    pub largest: Vec<u8>,
    /// The sequence number stored in it.
    pub stored_seqno: SequenceNumber,
    /// Smallest and largest sequence number of the entries, which they keep.
    pub own_sequences: Option<(SequenceNumber, SequenceNumber)>,
    pub properties: TableProperties,
}

impl ExternalFile {
    /// The user keys it covers.
    pub fn range(&self) -> UserRange<'_> {
        UserRange {
            begin: Some(InternalKey::new(&self.smallest).user_key()),
            end: Some(InternalKey::new(&self.largest).user_key()),
            end_open: InternalKey::new(&self.largest).is_range_end(),
        }
    }

    /// The newest sequence number that its entries keep, 0 if they are given one.
    pub fn largest_sequence(&self) -> SequenceNumber {
        self.own_sequences.map_or(0, |(_, largest)| largest)
    }

    /// Its boundaries once all its entries have `sequence`.
    pub fn bounds_at(&self, sequence: SequenceNumber) -> (Vec<u8>, Vec<u8>) {
        (at_sequence(&self.smallest, sequence), at_sequence(&self.largest, sequence))
    }
}

impl ExternalFile {
    /// Its oldest and its newest timestamp, empty without.
    pub fn timestamps(&self) -> (Vec<u8>, Vec<u8>) {
        let found = |name| self.properties.collected(name).map(<[u8]>::to_vec);
        let [oldest, newest] = [TIMESTAMP_MIN, TIMESTAMP_MAX].map(found);
        (oldest.unwrap_or_default(), newest.unwrap_or_default())
    }
}

fn at_sequence(ikey: &[u8], sequence: SequenceNumber) -> Vec<u8> {
    let ikey = InternalKey::new(ikey);
    let (stored, tag) = ikey.sequence_and_type();
    let mut key = Vec::with_capacity(ikey.len());
    let sequence = if stored == 0 { sequence } else { stored };
    append_internal_key(&mut key, ikey.user_key(), sequence, tag);
    key
}

/// Opens and checks the file `path`, to become file `number` of `cf`.
///
/// # Errors
/// RocksDB's, with its texts: Corruption, InvalidArgument, NotSupported, I/O. Beyond RocksDB, keys
/// out of order: the first and the last are always compared, all of them where every block is
/// checked.
pub(crate) fn examine(
    fs: &dyn FileSystem,
    cf: &CfData,
    options: &IngestExternalFileOptions,
    path: &Path,
    number: FileNumber,
) -> Result<ExternalFile> {
    let table = open(fs, cf, path, (number, 0), false)?;
    let properties = table.properties();
    let stored_seqno =
        check_properties(cf, options, properties).map_err(|e| e.with_context(path.display()))?;
    let own_sequences = match options.allow_db_generated_files {
        true => {
            refuse_blobs(&table)?;
            Some(sequences(&table)?)
        }
        false => None,
    };
    if options.verify_checksums_before_ingest {
        table.verify_checksums_ahead(options.verify_checksums_readahead_size)?;
    }
    let among = own_sequences.unwrap_or((0, 0));
    let Some((smallest, largest)) = bounds(cf, &table, among, false)? else {
        return Err(Error::corruption("Generated table have corrupted keys"));
    };
    for key in [&smallest, &largest] {
        if InternalKey::new(key).user_key().len() < cf.table_order().timestamp_size() {
            return Err(Error::corruption("External file has a key without a timestamp"));
        }
    }
    if cf.table_keys.icmp.compare(InternalKey::new(&smallest), InternalKey::new(&largest)).is_gt() {
        // Every open would refuse such boundaries in a MANIFEST.
        return Err(out_of_order(&table));
    }
    if options.verify_checksums_before_ingest {
        verify_entries(cf, &table, own_sequences)?;
    }
    if options.fill_cache && unique_id_of(properties).is_some() {
        // Blocks are cached as stored, without the sequence number the file will get.
        bounds(cf, &open(fs, cf, path, (number, 0), true)?, among, true)?;
    }
    let (path, mut properties) = (path.to_path_buf(), properties.clone());
    let found = table.range_tombstones_ref().map_or(0, |list| list.num_tombstones());
    properties.num_range_deletions = properties.num_range_deletions.max(found as u64);
    let bytes = table.file_size();
    Ok(ExternalFile {
        path,
        number,
        bytes,
        smallest,
        largest,
        stored_seqno,
        own_sequences,
        properties,
    })
}

/// Opens the table under a number and with the largest sequence number that its entries may have;
/// `cached` puts what that reads into the block cache, and needs an id of its own.
pub(crate) fn open(
    fs: &dyn FileSystem,
    cf: &CfData,
    path: &Path,
    (number, largest_seqno): (FileNumber, SequenceNumber),
    cached: bool,
) -> Result<Arc<Table>> {
    refuse_other_formats(cf)?;
    let handle = fs.open_random(path)?;
    let bytes = handle.len();
    if cf.timestamp_size > 0 {
        let properties = Table::read_properties(Arc::clone(&handle), bytes)?;
        let recorded = (&*properties.comparator, properties.user_timestamps_persisted == 0);
        check_order_change(cf.comparator(), cf.table_keys.stripped, recorded)?;
    }
    let mut table_options = (*cf.table_options()).clone();
    if !cached {
        table_options.block_cache = None;
        table_options.no_block_cache = true;
    }
    let context = TableReadContext {
        options: Arc::new(table_options),
        comparator: cf.table_keys.icmp.clone(),
        file_number: number,
        largest_seqno,
        prefix_extractor: cf.options().prefix_extractor.clone(),
        skip_filters: !cached,
        max_file_size_for_l0_meta_pin: 0,
        ..TableReadContext::default()
    };
    let table = Table::open(context, handle, bytes)?;
    table.check_has_blocks()?;
    Ok(table)
}

/// Refuses families whose tables have no blocks: RocksDB's readers of other formats take no
/// sequence numbers from outside of a table.
fn refuse_other_formats(cf: &CfData) -> Result<()> {
    match cf.table_options().row_table {
        None => Ok(()),
        Some(RowTable::Plain(_)) => {
            Err(Error::not_supported("SeekToLast() is not supported in PlainTable"))
        }
        Some(RowTable::Cuckoo(_)) => {
            Err(Error::not_supported("CuckooTable does not support files from outside"))
        }
    }
}

/// Refuses a table of a database that refers to blob files: here its indexes would be those of
/// other files, or of none. Nothing but the entries says it.
pub(super) fn refuse_blobs(table: &Arc<Table>) -> Result<()> {
    let options = TableReadOptions { fill_cache: false, ..TableReadOptions::default() };
    let (mut iter, mut references) = (table.iter(&options), References::default());
    iter.seek_to_first();
    while iter.valid() {
        let (key, tag) = (iter.key().user_key(), iter.key().tag());
        if may_refer(tag, iter.value()) {
            if !table.has_embedded_blobs() && is_embedded(tag, iter.value())? {
                return Err(Error::corruption(format!(
                    "External file {:06}: same-file blob index found without embedded blob records",
                    table.file_number()
                )));
            }
            references.add(key.len(), tag, iter.value())?;
        }
        if references.oldest() != 0 {
            return Err(Error::not_supported(format!(
                "External file {:06} refers to values in blob files",
                table.file_number()
            )));
        }
        iter.next();
    }
    iter.status()
}

/// Smallest and largest sequence number of all entries in the table: from the properties, or from
/// the entries.
fn sequences(table: &Arc<Table>) -> Result<(SequenceNumber, SequenceNumber)> {
    let properties = table.properties();
    let (smallest, largest) = (properties.key_smallest_seqno, properties.key_largest_seqno);
    if largest == 0 {
        return Ok((0, 0));
    }
    if largest != UNKNOWN_SEQNO && smallest != UNKNOWN_SEQNO {
        return check_sequences(smallest, largest);
    }
    let (mut smallest, mut largest) = (MAX_SEQUENCE, 0);
    let mut note = |sequence: SequenceNumber| {
        smallest = smallest.min(sequence);
        largest = largest.max(sequence);
    };
    let options = TableReadOptions { fill_cache: false, ..TableReadOptions::default() };
    let mut iter = table.iter(&options);
    iter.seek_to_first();
    while iter.valid() {
        note(parse(iter.key().as_bytes())?.sequence);
        iter.next();
    }
    iter.status()?;
    for fragment in table.range_tombstones_ref().into_iter().flat_map(|list| list.fragments()) {
        fragment.seqs.iter().for_each(|&sequence| note(sequence));
    }
    if largest < smallest {
        return Ok((0, 0)); // No entries, which is refused elsewhere.
    }
    check_sequences(smallest, largest)
}

fn check_sequences(
    smallest: SequenceNumber,
    largest: SequenceNumber,
) -> Result<(SequenceNumber, SequenceNumber)> {
    if largest >= MAX_SEQUENCE {
        return Err(Error::invalid_argument("Unknown largest seqno for db generated file."));
    }
    if smallest > largest {
        return Err(Error::corruption(format!(
            "External file has smallest sequence number {smallest} and largest {largest}"
        )));
    }
    Ok((smallest, largest))
}

/// Checks what the properties say; returns the stored sequence number.
fn check_properties(
    cf: &CfData,
    options: &IngestExternalFileOptions,
    properties: &TableProperties,
) -> Result<SequenceNumber> {
    let version = properties.collected(EXTERNAL_VERSION).and_then(get_fixed32);
    let stored = properties.collected(GLOBAL_SEQNO).and_then(get_fixed64);
    let foreign = options.allow_db_generated_files;
    let stored = match version {
        None if foreign => 0,
        None => return Err(Error::corruption("External file version not found")),
        Some(VERSION) => stored
            .ok_or_else(|| Error::corruption("External file global sequence number not found"))?,
        Some(1) if options.allow_blocking_flush || options.allow_global_seqno => {
            return Err(Error::invalid_argument(
                "External SST file V1 does not support global seqno",
            ));
        }
        Some(1) => 0,
        Some(other) => {
            return Err(Error::invalid_argument(format!(
                "External file version {other} is not supported"
            )));
        }
    };
    if !foreign && !matches!(properties.key_largest_seqno, 0 | UNKNOWN_SEQNO) {
        return Err(Error::corruption(format!(
            "External file has non zero largest sequence number {}",
            properties.key_largest_seqno
        )));
    }
    let family = properties.column_family_id;
    if !foreign && family != UNKNOWN_COLUMN_FAMILY && family != u64::from(cf.id) {
        return Err(Error::invalid_argument("External file column family id don't match"));
    }
    if properties.num_entries == 0 && properties.num_range_deletions == 0 {
        return Err(Error::invalid_argument("File contain no entries"));
    }
    Ok(stored)
}

/// Checks every entry: keys ascend, each occurs once and can take the file's sequence number or has
/// one among `own`, and their number is that of the properties, against which compactions check
/// their input.
fn verify_entries(
    cf: &CfData,
    table: &Arc<Table>,
    own: Option<(SequenceNumber, SequenceNumber)>,
) -> Result<()> {
    let options = TableReadOptions { fill_cache: false, ..TableReadOptions::default() };
    let mut iter = table.iter(&options);
    let (mut last, mut entries) = (None::<Vec<u8>>, 0u64);
    iter.seek_to_first();
    while iter.valid() {
        sequenced(iter.key(), own.unwrap_or((0, 0)))?;
        let descends = |last: &Vec<u8>| match own {
            Some(_) => cf.table_keys.icmp.compare(InternalKey::new(last), iter.key()).is_ge(),
            None => cf
                .table_order()
                .compare(InternalKey::new(last).user_key(), iter.key().user_key())
                .is_ge(),
        };
        match &mut last {
            Some(last) if descends(last) => return Err(out_of_order(table)),
            Some(last) => {
                last.clear();
                last.extend_from_slice(iter.key().as_bytes());
            }
            None => last = Some(iter.key().to_vec()),
        }
        entries += 1;
        iter.next();
    }
    iter.status()?;
    let properties = table.properties();
    let recorded = properties.num_entries.checked_sub(properties.num_range_deletions);
    if recorded == Some(entries) {
        return Ok(());
    }
    Err(Error::corruption(format!(
        "External file has {entries} entries, its properties say {} and {} range deletions",
        properties.num_entries, properties.num_range_deletions
    )))
}

#[cold]
fn out_of_order(table: &Table) -> Error {
    Error::corruption(format!("External file {:06} has keys out of order", table.file_number()))
}

/// Smallest and largest internal key of all that is in the table. Sequence numbers must lie in
/// `among`.
pub(crate) fn bounds(
    cf: &CfData,
    table: &Arc<Table>,
    among: (SequenceNumber, SequenceNumber),
    fill_cache: bool,
) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
    let options = TableReadOptions { fill_cache, ..TableReadOptions::default() };
    let mut iter = table.iter(&options);
    let mut found: Option<(Vec<u8>, Vec<u8>)> = None;
    iter.seek_to_first();
    if iter.valid() {
        let smallest = sequenced(iter.key(), among)?.to_vec();
        iter.seek_to_last();
        if !iter.valid() {
            iter.status()?;
            return Err(Error::corruption("Can not find largest key in sst file"));
        }
        found = Some((smallest, sequenced(iter.key(), among)?.to_vec()));
    }
    iter.status()?;
    let Some(tombstones) = table.range_tombstones() else { return Ok(found) };
    let order =
        |a: &[u8], b: &[u8]| cf.table_keys.icmp.compare(InternalKey::new(a), InternalKey::new(b));
    for fragment in tombstones.fragments() {
        let newest = fragment.seqs.first().copied().unwrap_or(0);
        if fragment.seqs.iter().any(|sequence| !(among.0..=among.1).contains(sequence)) {
            return Err(Error::corruption(
                "External file has a range deletion with non zero sequence number.",
            ));
        }
        let first = internal_key(&fragment.start, newest, ValueType::RangeDeletion);
        let last = internal_key(&fragment.end, MAX_SEQUENCE, ValueType::RangeDeletion);
        found = Some(match found {
            None => (first, last),
            Some((low, high)) => (
                if order(&first, &low).is_lt() { first } else { low },
                if order(&last, &high).is_gt() { last } else { high },
            ),
        });
    }
    Ok(found)
}

fn parse(ikey: &[u8]) -> Result<ParsedInternalKey<'_>> {
    pumice_base::key::parse_internal_key(ikey)
        .map_err(|error| error.with_context("Corrupted key in external file. "))
}

/// Checks that the key's sequence number is in the file's range: 0 in files that get one.
fn sequenced(
    ikey: InternalKey<'_>,
    among: (SequenceNumber, SequenceNumber),
) -> Result<InternalKey<'_>> {
    let sequence = parse(ikey.as_bytes())?.sequence;
    if (among.0..=among.1).contains(&sequence) {
        return Ok(ikey);
    }
    Err(Error::corruption(match among {
        (0, 0) => "External file has non zero sequence number".to_string(),
        (smallest, largest) => format!(
            "External file has sequence number {sequence}, its properties say {smallest} to \
             {largest}"
        ),
    }))
}
