//! Table properties: the facts about a table that its properties block stores
//! (docs/format/table.md#properties).
//!
//! Numbers are varint64 unless noted, strings are raw; names sort bytewise in the block. Names not
//! known here are kept in `user_collected`, together with the ones that RocksDB writes through
//! property collectors. The names are persisted: never change them.

use std::collections::BTreeMap;

use pumice_base::coding::{get_fixed32, get_fixed64, get_varint64, put_varint64};
use pumice_base::{Error, Result, names};

use crate::options::IndexType;

/// Column family id of a table made outside a database.
pub const UNKNOWN_COLUMN_FAMILY: u64 = 0x7fff_ffff;
/// "Not recorded" in [`TableProperties::key_largest_seqno`] and its twin.
pub const UNKNOWN_SEQNO: u64 = u64::MAX;

/// Name of the index type property (fixed32).
pub const INDEX_TYPE: &str = "rocksdb.block.based.table.index.type";
/// Name of the whole-key filtering property ("0" or "1").
pub const WHOLE_KEY_FILTERING: &str = "rocksdb.block.based.table.whole.key.filtering";
/// Name of the prefix filtering property ("0" or "1").
pub const PREFIX_FILTERING: &str = "rocksdb.block.based.table.prefix.filtering";
/// Name of the property of tables with decoupled filter partitions ("1").
pub const DECOUPLED_FILTERS: &str = "rocksdb.block.based.table.decoupled.partitioned.filters";
/// Name of the version of an ingested file (fixed32).
pub const EXTERNAL_VERSION: &str = "rocksdb.external_sst_file.version";
/// Name of the global sequence number of an ingested file (fixed64).
pub const GLOBAL_SEQNO: &str = "rocksdb.external_sst_file.global_seqno";
/// Name of the marker of values stored inside the table.
pub const EMBEDDED_BLOBS: &str = "rocksdb.embedded.blob.stats";

/// When a number is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Write {
    Always,
    /// Only if it differs from the value a reader assumes.
    Unless(u64),
}

struct Number {
    name: &'static str,
    write: Write,
    get: fn(&TableProperties) -> u64,
    slot: fn(&mut TableProperties) -> &mut u64,
}

struct Text {
    name: &'static str,
    get: fn(&TableProperties) -> &[u8],
    set: fn(&mut TableProperties, &[u8]),
}

macro_rules! numbers {
    ($($name:literal $field:ident $write:expr;)*) => {
        const NUMBERS: &[Number] = &[$(Number {
            name: $name,
            write: $write,
            get: |p| p.$field,
            slot: |p| &mut p.$field,
        }),*];
    };
}

macro_rules! texts {
    ($($name:literal $field:ident;)*) => {
        const TEXTS: &[Text] = &[$(Text {
            name: $name,
            get: |p| p.$field.as_bytes(),
            set: |p, bytes| p.$field = String::from_utf8_lossy(bytes).into_owned(),
        }),*];
    };
}

numbers! {
    "rocksdb.column.family.id" column_family_id Write::Always;
    "rocksdb.creation.time" creation_time Write::Always;
    "rocksdb.data.block.restart.interval" data_block_restart_interval Write::Unless(0);
    "rocksdb.data.size" data_size Write::Always;
    "rocksdb.deleted.keys" num_deletions Write::Always;
    "rocksdb.file.creation.time" file_creation_time Write::Unless(0);
    "rocksdb.filter.size" filter_size Write::Always;
    "rocksdb.fixed.key.length" fixed_key_len Write::Always;
    "rocksdb.format.version" format_version Write::Always;
    "rocksdb.index.block.restart.interval" index_block_restart_interval Write::Unless(0);
    "rocksdb.index.key.is.user.key" index_key_is_user_key Write::Always;
    "rocksdb.index.partitions" index_partitions Write::Unless(0);
    "rocksdb.index.size" index_size Write::Always;
    "rocksdb.index.value.is.delta.encoded" index_value_is_delta_encoded Write::Always;
    "rocksdb.key.largest.seqno" key_largest_seqno Write::Unless(UNKNOWN_SEQNO);
    "rocksdb.key.smallest.seqno" key_smallest_seqno Write::Unless(UNKNOWN_SEQNO);
    "rocksdb.merge.operands" num_merge_operands Write::Always;
    "rocksdb.newest.key.time" newest_key_time Write::Unless(0);
    "rocksdb.num.data.blocks" num_data_blocks Write::Always;
    "rocksdb.num.entries" num_entries Write::Always;
    "rocksdb.num.filter_entries" num_filter_entries Write::Always;
    "rocksdb.num.range-deletions" num_range_deletions Write::Always;
    "rocksdb.num.uniform.blocks" num_uniform_blocks Write::Unless(0);
    "rocksdb.oldest.key.time" oldest_key_time Write::Always;
    "rocksdb.original.file.number" original_file_number Write::Always;
    "rocksdb.raw.key.size" raw_key_size Write::Always;
    "rocksdb.raw.value.size" raw_value_size Write::Always;
    "rocksdb.sample_for_compression.fast.data.size" fast_compression_size Write::Unless(0);
    "rocksdb.sample_for_compression.slow.data.size" slow_compression_size Write::Unless(0);
    "rocksdb.separate.key.value.in.data.block" separate_key_value_in_data_block Write::Unless(0);
    "rocksdb.tail.start.offset" tail_start_offset Write::Always;
    "rocksdb.top-level.index.size" top_level_index_size Write::Unless(0);
    "rocksdb.udi.is.primary.index" udi_is_primary_index Write::Unless(0);
    "rocksdb.user.defined.timestamps.persisted" user_timestamps_persisted Write::Unless(1);
}

texts! {
    "rocksdb.comparator" comparator;
    "rocksdb.compression" compression;
    "rocksdb.compression_options" compression_options;
    "rocksdb.creating.db.identity" db_id;
    "rocksdb.creating.host.identity" db_host_id;
    "rocksdb.creating.session.identity" db_session_id;
    "rocksdb.filter.policy" filter_policy;
    "rocksdb.merge.operator" merge_operator;
    "rocksdb.prefix.extractor.name" prefix_extractor;
    "rocksdb.property.collectors" property_collectors;
}

const COLUMN_FAMILY_NAME: &str = "rocksdb.column.family.name";
const SEQNO_TIME_MAP: &str = "rocksdb.seqno.time.map";

/// The properties of one table. Times are Unix seconds, 0 unknown; sizes are bytes.
///
/// ```
/// let mut properties = pumice_table::TableProperties::default();
/// properties.collect("of my collector", b"7");
/// assert_eq!(properties.collected("of my collector"), Some(&b"7"[..]));
/// assert_eq!(properties.num_entries, 0);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The meaning of each field is in docs/format/table.md#properties.
pub struct TableProperties {
    pub column_family_id: u64,
    pub column_family_name: String,
    pub comparator: String,
    pub compression: String,
    pub compression_options: String,
    pub creation_time: u64,
    pub data_block_restart_interval: u64,
    pub data_size: u64,
    pub db_host_id: String,
    pub db_id: String,
    pub db_session_id: String,
    pub fast_compression_size: u64,
    pub file_creation_time: u64,
    pub filter_policy: String,
    pub filter_size: u64,
    pub fixed_key_len: u64,
    pub format_version: u64,
    pub index_block_restart_interval: u64,
    pub index_key_is_user_key: u64,
    pub index_partitions: u64,
    pub index_size: u64,
    pub index_value_is_delta_encoded: u64,
    pub key_largest_seqno: u64,
    pub key_smallest_seqno: u64,
    pub merge_operator: String,
    pub newest_key_time: u64,
    pub num_data_blocks: u64,
    /// Deletions of every kind, range tombstones included.
    pub num_deletions: u64,
    /// All entries, range tombstones included.
    pub num_entries: u64,
    pub num_filter_entries: u64,
    pub num_merge_operands: u64,
    pub num_range_deletions: u64,
    pub num_uniform_blocks: u64,
    pub udi_is_primary_index: u64,
    pub oldest_key_time: u64,
    pub original_file_number: u64,
    pub prefix_extractor: String,
    pub property_collectors: String,
    pub raw_key_size: u64,
    pub raw_value_size: u64,
    pub separate_key_value_in_data_block: u64,
    pub seqno_time_map: Vec<u8>,
    pub slow_compression_size: u64,
    pub tail_start_offset: u64,
    pub top_level_index_size: u64,
    pub user_timestamps_persisted: u64,
    /// Where in the file the eight bytes of [`GLOBAL_SEQNO`] are; 0 unknown. Not stored.
    pub global_seqno_offset: u64,
    /// Properties by collectors and of unknown name; the constants of this module name some.
    pub user_collected: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Default for TableProperties {
    fn default() -> Self {
        TableProperties {
            column_family_id: UNKNOWN_COLUMN_FAMILY,
            column_family_name: String::new(),
            comparator: String::new(),
            compression: String::new(),
            compression_options: String::new(),
            creation_time: 0,
            data_block_restart_interval: 0,
            data_size: 0,
            db_host_id: String::new(),
            db_id: String::new(),
            db_session_id: String::new(),
            fast_compression_size: 0,
            file_creation_time: 0,
            filter_policy: String::new(),
            filter_size: 0,
            fixed_key_len: 0,
            format_version: 0,
            index_block_restart_interval: 0,
            index_key_is_user_key: 0,
            index_partitions: 0,
            index_size: 0,
            index_value_is_delta_encoded: 0,
            key_largest_seqno: UNKNOWN_SEQNO,
            key_smallest_seqno: UNKNOWN_SEQNO,
            merge_operator: String::new(),
            newest_key_time: 0,
            num_data_blocks: 0,
            num_deletions: 0,
            num_entries: 0,
            num_filter_entries: 0,
            num_merge_operands: 0,
            num_range_deletions: 0,
            num_uniform_blocks: 0,
            udi_is_primary_index: 0,
            oldest_key_time: 0,
            original_file_number: 0,
            prefix_extractor: String::new(),
            property_collectors: String::new(),
            raw_key_size: 0,
            raw_value_size: 0,
            separate_key_value_in_data_block: 0,
            seqno_time_map: Vec::new(),
            slow_compression_size: 0,
            tail_start_offset: 0,
            top_level_index_size: 0,
            user_timestamps_persisted: 1,
            global_seqno_offset: 0,
            user_collected: BTreeMap::new(),
        }
    }
}

impl TableProperties {
    /// Every property to be stored, by name.
    pub fn encode(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let mut all = self.user_collected.clone();
        for number in NUMBERS {
            let value = (number.get)(self);
            if number.write != Write::Unless(value) {
                let mut bytes = Vec::new();
                put_varint64(&mut bytes, value);
                all.insert(number.name.as_bytes().to_vec(), bytes);
            }
        }
        for text in TEXTS {
            let value = (text.get)(self);
            if !value.is_empty() {
                all.insert(text.name.as_bytes().to_vec(), value.to_vec());
            }
        }
        if !self.column_family_name.is_empty() {
            let name = names::bytes_of(&self.column_family_name).into_owned();
            all.insert(COLUMN_FAMILY_NAME.as_bytes().to_vec(), name);
        }
        if !self.seqno_time_map.is_empty() {
            all.insert(SEQNO_TIME_MAP.as_bytes().to_vec(), self.seqno_time_map.clone());
        }
        all
    }

    /// Sets one stored property.
    ///
    /// # Errors
    /// `Corruption` if a number is malformed.
    pub fn decode_entry(&mut self, name: &[u8], value: &[u8]) -> Result<()> {
        if let Some(number) = NUMBERS.iter().find(|n| n.name.as_bytes() == name) {
            let (decoded, _) = get_varint64(value).ok_or_else(|| {
                Error::corruption(format!("property {} is not a varint", number.name))
            })?;
            *(number.slot)(self) = decoded;
        } else if let Some(text) = TEXTS.iter().find(|t| t.name.as_bytes() == name) {
            (text.set)(self, value);
        } else if name == COLUMN_FAMILY_NAME.as_bytes() {
            self.column_family_name = names::text_of(value);
        } else if name == SEQNO_TIME_MAP.as_bytes() {
            self.seqno_time_map = value.to_vec();
        } else {
            self.user_collected.insert(name.to_vec(), value.to_vec());
        }
        Ok(())
    }

    /// The collected property of that name.
    pub fn collected(&self, name: &str) -> Option<&[u8]> {
        self.user_collected.get(name.as_bytes()).map(Vec::as_slice)
    }

    /// Bytes that the texts and the collected properties take.
    pub fn heap_bytes(&self) -> usize {
        let texts = TEXTS.iter().map(|text| (text.get)(self).len()).sum::<usize>();
        let collected = self
            .user_collected
            .iter()
            .map(|(name, value)| name.len() + value.len() + size_of::<(Vec<u8>, Vec<u8>)>());
        let rest = self.column_family_name.len() + self.seqno_time_map.len();
        texts + collected.sum::<usize>() + rest
    }

    /// Records a collected property.
    pub fn collect(&mut self, name: &str, value: &[u8]) {
        self.user_collected.insert(name.as_bytes().to_vec(), value.to_vec());
    }

    /// The index type; a table without the property has a binary-search index.
    ///
    /// # Errors
    /// `Corruption` if the type is unknown.
    pub fn index_type(&self) -> Result<IndexType> {
        let Some(bytes) = self.collected(INDEX_TYPE) else { return Ok(IndexType::BinarySearch) };
        get_fixed32(bytes)
            .and_then(IndexType::from_u32)
            .ok_or_else(|| Error::corruption(format!("unknown index type {bytes:02x?}")))
    }

    /// Whether the filter holds whole keys.
    pub fn whole_key_filtering(&self) -> bool {
        self.collected(WHOLE_KEY_FILTERING) != Some(b"0")
    }

    /// The filter holds prefixes.
    pub fn prefix_filtering(&self) -> bool {
        self.collected(PREFIX_FILTERING) != Some(b"0")
    }

    /// The sequence number that every entry of an ingested file takes, `None` for other files
    /// (docs/format/table.md#ingested-files). `largest_seqno` is the file's in the MANIFEST, or at
    /// least `MAX_SEQUENCE` if unknown.
    ///
    /// # Errors
    /// `Corruption` if the two contradict each other or the version is unknown.
    pub fn global_seqno(&self, largest_seqno: u64) -> Result<Option<u64>> {
        let stored = self.collected(GLOBAL_SEQNO).and_then(get_fixed64).unwrap_or(0);
        let version = self.collected(EXTERNAL_VERSION).and_then(get_fixed32);
        match version {
            None | Some(0 | 1) if stored != 0 => Err(Error::corruption(format!(
                "external file of version {version:?} has global seqno {stored}"
            ))),
            None | Some(0 | 1) => Ok(None),
            Some(2) => {
                let known = largest_seqno < pumice_base::key::MAX_SEQUENCE;
                if known && stored != 0 && stored != largest_seqno {
                    return Err(Error::corruption(format!(
                        "external file of version 2 has global seqno {stored} \
                         but largest seqno {largest_seqno}"
                    )));
                }
                Ok(Some(if stored == 0 && known { largest_seqno } else { stored }))
            }
            Some(v) => Err(Error::corruption(format!("unknown external file version {v}"))),
        }
    }

    /// Average bytes of a key, 0 for an empty table.
    pub fn average_key_bytes(&self) -> f64 {
        average(self.raw_key_size, self.num_entries)
    }

    /// Average bytes of a value, 0 for an empty table.
    pub fn average_value_bytes(&self) -> f64 {
        average(self.raw_value_size, self.num_entries)
    }
}

fn average(total: u64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { total as f64 / count as f64 }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[pumice_test_macros::test]
    fn round_trips_by_name() {
        let mut properties = TableProperties {
            num_entries: 300,
            raw_key_size: 1 << 40,
            comparator: "leveldb.BytewiseComparator".into(),
            seqno_time_map: vec![1, 2, 3],
            key_smallest_seqno: 7,
            user_timestamps_persisted: 0,
            ..Default::default()
        };
        properties.collect(INDEX_TYPE, &[0, 0, 0, 0]);
        properties.collect("my.own", b"\0x");
        let mut back = TableProperties::default();
        for (name, value) in properties.encode() {
            back.decode_entry(&name, &value).unwrap();
        }
        assert_eq!(back, properties);
    }

    #[pumice_test_macros::test]
    fn omits_what_rocksdb_omits() {
        let all = TableProperties::default().encode();
        for absent in ["rocksdb.file.creation.time", "rocksdb.key.largest.seqno"] {
            assert!(!all.contains_key(absent.as_bytes()), "{absent}");
        }
        assert!(all.contains_key(&b"rocksdb.filter.size"[..]));
    }

    #[pumice_test_macros::test]
    fn global_seqno_rules() {
        let mut properties = TableProperties::default();
        assert_eq!(properties.global_seqno(9).unwrap(), None);
        properties.collect(EXTERNAL_VERSION, &2u32.to_le_bytes());
        properties.collect(GLOBAL_SEQNO, &0u64.to_le_bytes());
        assert_eq!(properties.global_seqno(9).unwrap(), Some(9));
        assert_eq!(properties.global_seqno(u64::MAX).unwrap(), Some(0));
        properties.collect(GLOBAL_SEQNO, &8u64.to_le_bytes());
        assert!(properties.global_seqno(9).is_err());
        assert_eq!(properties.global_seqno(8).unwrap(), Some(8));
        properties.collect(EXTERNAL_VERSION, &1u32.to_le_bytes());
        assert!(properties.global_seqno(8).is_err());
    }
}
