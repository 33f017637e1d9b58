//! The tables that are damaged: one of every kind that the builder makes, small, but with several
//! blocks, partitions and versions.

use std::sync::Arc;

use pumice_base::checksum::ChecksumType;
use pumice_base::extension::FixedPrefix;
use pumice_base::key::internal_key;
use pumice_base::random::Rng;
use pumice_base::{Comparator, InternalKey, InternalKeyComparator, ValueType};
use pumice_compress::{CompressionOptions, CompressionType};
use pumice_filter::FilterPolicy;
use pumice_table::{
    DataBlockIndexType, IndexType, TableBuildContext, TableOptions, TableReadContext, properties,
};

use crate::support;

pub type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// A built table, and the settings for reading it.
pub struct Honest {
    pub name: String,
    pub bytes: Vec<u8>,
    pub read: TableReadContext,
    /// Without range tombstones.
    pub entries: Entries,
}

/// How the tables differ.
#[derive(Clone, Copy)]
struct Shape {
    index: IndexType,
    format: u32,
    filter: Filter,
    codec: CompressionType,
    hash: bool,
    dictionary: bool,
    global: bool,
    tombstones: bool,
    reverse: bool,
    checksum: ChecksumType,
    index_restarts: u32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Filter {
    None,
    Bloom,
    Ribbon,
    Coupled,
    Decoupled,
}

/// Tables in which every dimension has every value.
pub fn all() -> Vec<Honest> {
    use CompressionType as C;
    use IndexType::{BinarySearch, BinarySearchWithFirstKey as FirstKey, HashSearch, TwoLevel};
    let plain = Shape {
        index: BinarySearch,
        format: 6,
        filter: Filter::None,
        codec: C::None,
        hash: false,
        dictionary: false,
        global: false,
        tombstones: true,
        reverse: false,
        checksum: ChecksumType::Xxh3,
        index_restarts: 1,
    };
    let shapes = [
        Shape { filter: Filter::Bloom, ..plain },
        Shape { filter: Filter::Bloom, format: 4, index_restarts: 5, ..plain },
        Shape { filter: Filter::Ribbon, format: 5, hash: true, ..plain },
        Shape { index: HashSearch, format: 2, filter: Filter::Bloom, ..plain },
        Shape { index: TwoLevel, format: 7, ..plain },
        Shape { index: TwoLevel, format: 3, filter: Filter::Coupled, hash: true, ..plain },
        Shape { index: TwoLevel, filter: Filter::Decoupled, index_restarts: 4, ..plain },
        Shape { index: TwoLevel, format: 5, filter: Filter::Decoupled, codec: C::Lz4, ..plain },
        Shape { index: FirstKey, filter: Filter::Ribbon, ..plain },
        Shape { index: FirstKey, format: 4, index_restarts: 3, global: true, ..plain },
        Shape { global: true, filter: Filter::Bloom, hash: true, ..plain },
        Shape { global: true, index: TwoLevel, format: 7, codec: C::Snappy, ..plain },
        Shape { reverse: true, index_restarts: 7, ..plain },
        Shape { reverse: true, index: TwoLevel, filter: Filter::Coupled, ..plain },
        Shape { codec: C::Snappy, checksum: ChecksumType::Crc32c, ..plain },
        Shape { codec: C::Zlib, checksum: ChecksumType::XxHash64, dictionary: true, ..plain },
        Shape { codec: C::Lz4, checksum: ChecksumType::XxHash, dictionary: true, ..plain },
        Shape { codec: C::Lz4hc, format: 7, hash: true, ..plain },
        Shape { codec: C::Zstd, dictionary: true, index: TwoLevel, ..plain },
        Shape { codec: C::Zstd, format: 7, dictionary: true, filter: Filter::Bloom, ..plain },
        Shape { codec: C::Bzip2, format: 3, checksum: ChecksumType::None, ..plain },
        Shape { checksum: ChecksumType::None, hash: true, tombstones: false, ..plain },
    ];
    shapes.iter().enumerate().map(|(number, shape)| build(number, shape)).collect()
}

fn build(number: usize, shape: &Shape) -> Honest {
    let order = if shape.reverse { Comparator::ReverseBytewise } else { Comparator::Bytewise };
    let comparator = InternalKeyComparator::new(order);
    let policy = match shape.filter {
        Filter::None => None,
        Filter::Ribbon => Some(FilterPolicy::ribbon(10.0, -1)),
        _ => Some(FilterPolicy::bloom(10.0)),
    };
    let options = TableOptions {
        format_version: shape.format,
        checksum: shape.checksum,
        index_type: shape.index,
        filter_policy: policy,
        partition_filters: matches!(shape.filter, Filter::Coupled | Filter::Decoupled),
        decouple_partitioned_filters: shape.filter == Filter::Decoupled,
        data_block_index_type: match shape.hash {
            true => DataBlockIndexType::BinaryAndHash,
            false => DataBlockIndexType::BinarySearch,
        },
        block_size: 400,
        metadata_block_size: 200,
        block_restart_interval: 1 + number as u32 % 8,
        index_block_restart_interval: shape.index_restarts,
        enable_index_compression: number % 2 == 1,
        ..TableOptions::default()
    };
    let mut user_collected = Vec::new();
    if shape.global {
        let version = (properties::EXTERNAL_VERSION.to_string(), vec![2, 0, 0, 0]);
        user_collected.extend([version, (properties::GLOBAL_SEQNO.to_string(), vec![0; 8])]);
    }
    let context = TableBuildContext {
        table: Arc::new(options),
        comparator: comparator.clone(),
        compression: shape.codec,
        compression_opts: CompressionOptions {
            max_dict_bytes: if shape.dictionary { 500 } else { 0 },
            ..CompressionOptions::default()
        },
        prefix_extractor: Some(Arc::new(FixedPrefix(4))),
        db_id: "db".into(),
        db_session_id: "ABCDEFGHIJKLMNOPQRST".into(),
        original_file_number: 7,
        user_collected,
        ..TableBuildContext::default()
    };
    let entries = entries(number as u64, &comparator, shape.global);
    let mut all = entries.clone();
    if shape.tombstones {
        all.extend(tombstones(shape));
    }
    let built = support::build(context.clone(), all.iter().map(|(k, v)| (&k[..], &v[..])));
    let mut read = support::read_context(&context);
    read.tail_size = if number.is_multiple_of(3) { built.tail_size } else { 0 };
    if shape.global {
        read.largest_seqno = 77;
    }
    let Shape { index, format, filter, codec, .. } = shape;
    let name = format!("{number}: {index:?} v{format} {filter:?} {codec:?}");
    Honest { name, bytes: built.bytes, read, entries }
}

fn entries(seed: u64, order: &InternalKeyComparator, global: bool) -> Entries {
    let mut rng = Rng::new(seed);
    let mut list = Entries::new();
    for i in 0..120u64 {
        let user = format!("key{:03}{}", i * 2, "x".repeat(rng.uniform(6) as usize));
        let versions = if global { 1 } else { 1 + rng.skewed(3) };
        for version in 0..versions {
            let sequence = if global { 0 } else { 900 - 10 * version - rng.uniform(9) };
            let kind = match rng.uniform(8) {
                0 => ValueType::Deletion,
                1 => ValueType::Merge,
                _ => ValueType::Value,
            };
            let value = vec![b'a' + (i % 26) as u8; rng.uniform(40) as usize];
            list.push((internal_key(user.as_bytes(), sequence, kind), value));
        }
    }
    list.sort_by(|a, b| order.compare(InternalKey::new(&a.0), InternalKey::new(&b.0)));
    list.dedup_by(|a, b| a.0 == b.0);
    list
}

fn tombstones(shape: &Shape) -> Entries {
    let ranges: [(&str, &str, u64); 4] =
        [("key010", "key030", 40), ("key020", "key025", 50), ("key1", "key2", 45), ("t", "u", 9)];
    ranges
        .iter()
        .map(|&(low, high, sequence)| {
            let (start, end) = if shape.reverse { (high, low) } else { (low, high) };
            let sequence = if shape.global { 0 } else { sequence };
            let key = internal_key(start.as_bytes(), sequence, ValueType::RangeDeletion);
            (key, end.as_bytes().to_vec())
        })
        .collect()
}
