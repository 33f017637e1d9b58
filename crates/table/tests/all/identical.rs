//! The bytes of a table are a function of its entries and settings.
//!
//! Pinned: hashes of tables that the first, serial builder wrote, by seed. A deliberate change of
//! the bytes updates the hashes (the failure shows the new ones) and says so in the commit.

use std::sync::Arc;

use crate::builds::entries;
use crate::support;
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
        optimize_filters_for_memory: false,
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
    0x91c04a15ca9d5335,
    0x1ba7356fe7b3500,
    0xfc79d1346ae2ae31,
    0xdf3b961c0188677b,
    0xce6d73429dce9321,
    0xe2218d5240f5f16e,
    0x335ada9e146956e3,
    0x55dadf0ced641335,
    0x4f47640550debc49,
    0x8414a4b93bbf3157,
    0x9fb01d95496286a2,
    0xd9f270400d982269,
    0x6c523c4b8fe78bb3,
    0x27e9a2e576d042da,
    0x4470d9b48a460ad,
    0x885b6e6a3e25a944,
    0x6dd0b7aa7c32260b,
    0xebb906b8b416ff6f,
    0x3f321ab43415b0eb,
    0xe4637ab015cc8eec,
    0x577069fb3a689aba,
    0x2f02b8f5ff100105,
    0xc697c1eb3ef262b6,
    0xdb4d77db65deb47a,
    0x2b044f1ef86d1e75,
    0x6c8ba3043b3d753b,
    0xadd5d7579dfa836d,
    0x4cbe990aece958,
    0xec2211d4cb4b20d3,
    0xaa04cc810e3e9162,
    0xea90e4b97fc4d798,
    0x411ec3d49cd10878,
    0x72b6609bf69d7e9f,
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
