//! The bytes of a table are a function of its entries and settings.
//!
//! Pinned: hashes of tables that the first, serial builder wrote, by seed. Whoever changes bytes on
//! purpose prints the new hashes (the failure shows them) and says so in the commit.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "support/builds.rs"]
mod builds;
mod support;

use std::sync::Arc;

use builds::entries;
use pumice_base::checksum::ChecksumType;
use pumice_base::extension::FixedPrefix;
use pumice_base::hash::hash64;
use pumice_base::random::Rng;
use pumice_base::{Comparator, InternalKeyComparator};
use pumice_compress::CompressionType;
use pumice_filter::FilterPolicy;
use pumice_table::{IndexShortening, TableBuildContext, TableOptions};

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

/// The first of the pinned seeds.
const FIRST_SEED: u64 = 7;
/// Tables of the first builder.
const PINNED: [u64; 33] = [
    0xffde82fc3bae658b,
    0x8650196a0b6be990,
    0x19e299eea840b4f1,
    0x77e94423ff2d8a48,
    0xf620c2e1fbbecb49,
    0x72e93b4db739e5fe,
    0xa57f3a2021b4ecc2,
    0x86a2ddc0e2074406,
    0x4ed29881b33d6e16,
    0xf604db7bcdbdbcad,
    0x7ef8ef47e2da0233,
    0xea01e727fdbc7ecc,
    0xadc75549d48a5aeb,
    0xc8d39fce713e89c,
    0xd14aa8f8a55bee1a,
    0x8665855b144c734a,
    0xb790e64d6d8ec978,
    0xe8a6404bfb69bd78,
    0xe1f4e1d161f168d,
    0xde4adfb34688101b,
    0xfeaa76737a6a6ef4,
    0x65e5f48140f72ed6,
    0x2fece7a27fb21132,
    0x9db0ce065775634,
    0xd85afb48d30251de,
    0xad902b21d1b88d23,
    0x112842436f9945e0,
    0xe90b4165a65b59a4,
    0xf3f44150a334d3e0,
    0x8f455faca410ed98,
    0x2e9e25db33953a03,
    0xc45ea682f80af862,
    0xea8545bd9b3e17fb,
];

#[pumice_test_macros::test]
fn serial_tables_have_the_bytes_they_always_had() {
    let mut found = Vec::new();
    for seed in (FIRST_SEED..).take(PINNED.len()) {
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
