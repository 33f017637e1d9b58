//! Damaged tables: every flipped byte and every truncation ends in an error or in the same data,
//! never in a panic or in other data.

use std::sync::Arc;

use crate::support;
use pumice_base::checksum::ChecksumType;
use pumice_base::key::{InternalKey, MAX_SEQUENCE, internal_key, seek_key};
use pumice_base::random::Rng;
use pumice_base::{Result, ValueType};
use pumice_compress::CompressionType;
use pumice_filter::FilterPolicy;
use pumice_table::{TableBuildContext, TableOptions, TableReadOptions};

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

fn entries() -> Entries {
    (0..60u64)
        .map(|i| {
            let key = format!("key{:05}", i / 2 * 2);
            let value = vec![b'a' + (i % 26) as u8; 10 + i as usize % 7];
            (internal_key(key.as_bytes(), 1000 - i, ValueType::Value), value)
        })
        .collect()
}

fn context(version: u32, checksum: ChecksumType, codec: CompressionType) -> TableBuildContext {
    let options = TableOptions {
        format_version: version,
        checksum,
        block_size: 300,
        filter_policy: Some(FilterPolicy::bloom(10.0)),
        ..Default::default()
    };
    TableBuildContext { table: Arc::new(options), compression: codec, ..Default::default() }
}

/// Everything that can be read from the table.
fn read_all(context: &TableBuildContext, bytes: &[u8], list: &Entries) -> Result<Entries> {
    let table = support::open(support::read_context(context), bytes)?;
    let ro = TableReadOptions::default();
    let mut found = Entries::new();
    let mut iter = table.iter(&ro);
    iter.seek_to_first();
    while iter.valid() {
        found.push((iter.key().to_vec(), iter.value().to_vec()));
        assert!(found.len() < 100_000, "an endless table");
        iter.next();
    }
    iter.status()?;
    let mut count = 0;
    iter.seek_to_last();
    while iter.valid() {
        count += 1;
        assert!(count < 100_000, "an endless table");
        iter.prev();
    }
    iter.status()?;
    for (key, _) in list.iter().step_by(5) {
        iter.seek(InternalKey::new(key));
        iter.status()?;
        let mut versions = 0;
        let target = seek_key(InternalKey::new(key).user_key(), MAX_SEQUENCE);
        table.get(&ro, InternalKey::new(&target), &mut |_, _, _| {
            versions += 1;
            versions < 1000
        })?;
    }
    table.approximate_offset_of(InternalKey::new(&list[3].0))?;
    table.verify_checksums()?;
    if let Some(tombstones) = table.range_tombstones() {
        assert!(tombstones.num_tombstones() < 1000);
    }
    Ok(found)
}

#[pumice_test_macros::test]
fn flipped_bytes_are_found() {
    let list = entries();
    for (version, checksum, codec) in [
        (5, ChecksumType::Xxh3, CompressionType::None),
        (7, ChecksumType::Xxh3, CompressionType::Lz4),
        (6, ChecksumType::Crc32c, CompressionType::Snappy),
    ] {
        let context = context(version, checksum, codec);
        let mut all = list.clone();
        all.push((internal_key(b"r", 5, ValueType::RangeDeletion), b"s".to_vec()));
        let built = support::build(context.clone(), all.iter().map(|(k, v)| (&k[..], &v[..])));
        assert_eq!(read_all(&context, &built.bytes, &list).unwrap(), list);
        for at in 0..built.bytes.len() {
            for mask in [0x01, 0x80, 0xff] {
                let mut bad = built.bytes.clone();
                bad[at] ^= mask;
                if let Ok(found) = read_all(&context, &bad, &list) {
                    assert_eq!(found, list, "v{version} byte {at} ^ {mask:#x}");
                }
            }
        }
    }
}

/// Without checksums damage may change the data, but nothing may panic or loop forever.
#[pumice_test_macros::test]
fn damage_behind_the_checksums_is_survived() {
    let list = entries();
    for codec in [CompressionType::None, CompressionType::Lz4, CompressionType::Zstd] {
        let context = context(5, ChecksumType::None, codec);
        let mut all = list.clone();
        all.push((internal_key(b"r", 5, ValueType::RangeDeletion), b"s".to_vec()));
        let built = support::build(context.clone(), all.iter().map(|(k, v)| (&k[..], &v[..])));
        let mut failures = 0;
        for at in 0..built.bytes.len() {
            for mask in [0x01, 0x10, 0x80, 0xff] {
                let mut bad = built.bytes.clone();
                bad[at] ^= mask;
                failures += u32::from(read_all(&context, &bad, &list).is_err());
            }
        }
        assert!(failures > 0, "{codec:?}: no damage was noticed at all");
        for seed in 0..3000 {
            let mut rng = Rng::new(seed);
            let mut bad = built.bytes.clone();
            for _ in 0..1 + rng.uniform(8) {
                let at = rng.uniform(bad.len() as u64) as usize;
                bad[at] = rng.next_u64() as u8;
            }
            // Either outcome is fine; a panic fails the test and prints the seed.
            let outcome = read_all(&context, &bad, &list);
            assert!(outcome.is_ok() || outcome.is_err(), "seed {seed}");
        }
    }
}

#[pumice_test_macros::test]
fn truncated_files_are_refused() {
    let list = entries();
    let context = context(6, ChecksumType::Xxh3, CompressionType::None);
    let built = support::build(context.clone(), list.iter().map(|(k, v)| (&k[..], &v[..])));
    for len in 0..built.bytes.len() {
        let outcome = read_all(&context, &built.bytes[..len], &list);
        assert!(outcome.is_err(), "{len} of {} bytes", built.bytes.len());
    }
}

#[pumice_test_macros::test]
fn errors_name_file_and_offset() {
    let list = entries();
    let context = context(6, ChecksumType::Xxh3, CompressionType::None);
    let built = support::build(context.clone(), list.iter().map(|(k, v)| (&k[..], &v[..])));
    let mut bad = built.bytes.clone();
    bad[400] ^= 1;
    let error = read_all(&context, &bad, &list).unwrap_err();
    assert!(error.is_corruption());
    let text = error.to_string();
    assert!(text.contains("/t.sst") && text.contains("offset"), "{text}");
}
