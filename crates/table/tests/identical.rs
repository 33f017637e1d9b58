//! The bytes of a table are a function of its entries and settings.
//!
//! Pinned: hashes of tables that the first, serial builder wrote, by seed. Whoever changes bytes on
//! purpose prints the new hashes (the failure shows them) and says so in the commit.
#![allow(clippy::unwrap_used, missing_docs)]

mod support;

use std::sync::Arc;

use pumice_base::checksum::ChecksumType;
use pumice_base::dbformat::internal_key;
use pumice_base::extension::FixedPrefix;
use pumice_base::hash::hash64;
use pumice_base::random::Rng;
use pumice_base::{Comparator, InternalKeyComparator, ValueType};
use pumice_compress::CompressionType;
use pumice_filter::FilterPolicy;
use pumice_table::{IndexShortening, TableBuildContext, TableOptions};

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// Entries with shared prefixes, versions, deletions, and values that compress more or less.
fn entries(rng: &mut Rng, order: &Comparator, count: usize) -> Entries {
    let order = InternalKeyComparator::new(order.clone());
    let mut list = Entries::new();
    while list.len() < count {
        let mut user = format!("{:02}/{:08}", rng.uniform(30), rng.uniform(100_000)).into_bytes();
        user.truncate(3 + rng.uniform(9) as usize);
        for _ in 0..=rng.uniform(2) {
            let kind = match rng.uniform(9) {
                0 => ValueType::Deletion,
                1 => ValueType::SingleDeletion,
                2 => ValueType::Merge,
                _ => ValueType::Value,
            };
            let key = internal_key(&user, 1 + rng.uniform(1 << 24), kind);
            let len = if rng.one_in(60) { rng.uniform(9000) } else { rng.uniform(150) } as usize;
            let mut value = rng.bytes(len);
            if rng.one_in(2) {
                value.iter_mut().for_each(|byte| *byte = b'a' + *byte % 4);
            }
            list.push((key, value));
        }
    }
    list.sort_by(|a, b| order.compare(&a.0, &b.0));
    list.dedup_by(|a, b| a.0 == b.0);
    list
}

fn context(rng: &mut Rng) -> TableBuildContext {
    let pick = |rng: &mut Rng, list: &[u64]| list[rng.uniform(list.len() as u64) as usize];
    let codecs = [
        CompressionType::None,
        CompressionType::None,
        CompressionType::Snappy,
        CompressionType::Zlib,
        CompressionType::Lz4,
        CompressionType::Zstd,
    ];
    let compression = codecs[rng.uniform(6) as usize];
    let checksums = [ChecksumType::Crc32c, ChecksumType::XxHash64, ChecksumType::Xxh3];
    let options = TableOptions {
        block_size: pick(rng, &[256, 1024, 4096, 4096]) as usize,
        block_size_deviation: pick(rng, &[0, 10, 10, 60]) as u32,
        block_restart_interval: pick(rng, &[1, 3, 16]) as u32,
        index_block_restart_interval: pick(rng, &[1, 4]) as u32,
        checksum: checksums[rng.uniform(3) as usize],
        format_version: pick(rng, &[2, 4, 5, 6, 7]) as u32,
        filter_policy: rng.one_in(2).then(|| FilterPolicy::bloom(10.0)),
        whole_key_filtering: !rng.one_in(3),
        enable_index_compression: rng.one_in(2),
        index_shortening: if rng.one_in(3) {
            IndexShortening::SeparatorsAndSuccessor
        } else {
            IndexShortening::Separators
        },
        use_delta_encoding: !rng.one_in(4),
        verify_compression: rng.one_in(2),
        block_align: compression == CompressionType::None && rng.one_in(3),
        ..TableOptions::default()
    };
    TableBuildContext {
        table: Arc::new(options),
        comparator: InternalKeyComparator::new(match rng.one_in(3) {
            true => Comparator::ReverseBytewise,
            false => Comparator::Bytewise,
        }),
        compression,
        db_id: "db".into(),
        db_session_id: "session".into(),
        original_file_number: 9,
        prefix_extractor: rng.one_in(2).then(|| Arc::new(FixedPrefix(3)) as _),
        ..TableBuildContext::default()
    }
}

/// Tables of the first builder.
const PINNED: [u64; 40] = [0; 40];

#[pumice_test_macros::test]
fn serial_tables_have_the_bytes_they_always_had() {
    let mut found = Vec::new();
    for seed in 0..PINNED.len() as u64 {
        let rng = &mut Rng::new(seed);
        let context = context(rng);
        let count = [0, 1, 30, 2000][rng.uniform(4) as usize];
        let list = entries(rng, &context.comparator.user, count);
        let built = support::build(context, list.iter().map(|(k, v)| (&k[..], &v[..])));
        found.push(hash64(&built.bytes));
    }
    let wrong: Vec<usize> = (0..PINNED.len()).filter(|&i| PINNED[i] != found[i]).collect();
    assert!(wrong.is_empty(), "seeds {wrong:?} differ; all hashes: {found:#x?}");
}
