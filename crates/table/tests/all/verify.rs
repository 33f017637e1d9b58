//! Verifying whole tables: every block is checked, whatever the read size.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::support;
use pumice_base::key::internal_key;
use pumice_base::{Result, ValueType};
use pumice_compress::CompressionType;
use pumice_env::{RandomAccessFile, ReadRequest, read_one_by_one};
use pumice_table::{IndexShortening, IndexType, Table, TableBuildContext, TableOptions};

/// A file in memory that counts its reads.
struct Counted {
    bytes: Vec<u8>,
    reads: AtomicU64,
    largest: AtomicU64,
}

impl RandomAccessFile for Counted {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.largest.fetch_max(buf.len() as u64, Ordering::Relaxed);
        let rest = &self.bytes[(offset as usize).min(self.bytes.len())..];
        let len = rest.len().min(buf.len());
        buf[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }
    fn read_batch(&self, requests: &mut [ReadRequest<'_>]) {
        read_one_by_one(self, requests);
    }
    fn needs_little_stack(&self) -> bool {
        false
    }
    fn prefetch(&self, _: u64, _: u64) {}
    fn prefetches(&self) -> bool {
        false
    }
    fn read_unit(&self) -> usize {
        1
    }
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }
    fn path(&self) -> &Path {
        Path::new("/counted.sst")
    }
}

fn context(index_type: IndexType) -> TableBuildContext {
    let options = TableOptions { block_size: 1000, index_type, ..Default::default() };
    let compression = CompressionType::None;
    TableBuildContext { table: Arc::new(options), compression, ..Default::default() }
}

/// 400 blocks of about 1 KiB, and one of 50 KiB among them.
fn built(context: &TableBuildContext) -> support::Built {
    let entries: Vec<(Vec<u8>, Vec<u8>)> = (0..400u64)
        .map(|n| {
            let bytes = if n == 200 { 50_000 } else { 1000 };
            let key = internal_key(format!("{n:05}").as_bytes(), 1, ValueType::Value);
            (key, vec![n as u8; bytes])
        })
        .collect();
    support::build(context.clone(), entries.iter().map(|(k, v)| (&k[..], &v[..])))
}

/// Reads, and bytes of the largest one, of verifying with that readahead.
fn verify(context: &TableBuildContext, bytes: Vec<u8>, readahead: usize) -> (u64, u64) {
    let (reads, largest) = (AtomicU64::new(0), AtomicU64::new(0));
    let file = Arc::new(Counted { bytes, reads, largest });
    let len = file.len();
    let table = Table::open(support::read_context(context), file.clone(), len).unwrap();
    file.reads.store(0, Ordering::Relaxed);
    file.largest.store(0, Ordering::Relaxed);
    table.verify_checksums_ahead(readahead).unwrap();
    (file.reads.load(Ordering::Relaxed), file.largest.load(Ordering::Relaxed))
}

#[pumice_test_macros::test]
fn readahead_says_how_much_is_read_at_a_time() {
    for index_type in [IndexType::BinarySearch, IndexType::TwoLevel] {
        let context = context(index_type);
        let bytes = built(&context).bytes;
        let (one_by_one, largest) = verify(&context, bytes.clone(), 1);
        assert!(one_by_one >= 400, "{one_by_one}");
        assert!((50_000..51_000).contains(&largest), "the large block by itself: {largest}");
        let (some, largest) = verify(&context, bytes.clone(), 20_000);
        assert!((400 / 20..60).contains(&some), "{some}");
        assert!((50_000..51_000).contains(&largest), "{largest}");
        let (unsaid, largest) = verify(&context, bytes.clone(), 0);
        assert!(unsaid < 15, "{unsaid}");
        assert_eq!(largest, 256 << 10);
        let (all, largest) = verify(&context, bytes.clone(), usize::MAX);
        assert!(all <= unsaid && largest <= bytes.len() as u64, "{all} {largest}");
    }
}

#[pumice_test_macros::test]
fn damage_in_any_block_is_found() {
    let context = context(IndexType::BinarySearch);
    let built = built(&context);
    let data_end = built.bytes.len() - built.tail_size as usize;
    for readahead in [0, 1, 5000] {
        for at in (0..data_end).step_by(997).chain([data_end - 1]) {
            let mut bytes = built.bytes.clone();
            bytes[at] ^= 1;
            let table = support::open(support::read_context(&context), &bytes).unwrap();
            let error = table.verify_checksums_ahead(readahead).unwrap_err();
            assert!(error.is_corruption(), "{readahead}, {at}: {error}");
        }
    }
}

/// Blocks are compressed however large they are, and read whatever the limit for blocks of unknown
/// size: also an index that has each key twice.
#[pumice_test_macros::test]
fn blocks_above_the_limit_are_compressed_and_read() {
    for index_type in
        [IndexType::BinarySearch, IndexType::TwoLevel, IndexType::BinarySearchWithFirstKey]
    {
        let options = TableOptions {
            block_size: 1,
            index_type,
            index_shortening: IndexShortening::None,
            max_block_bytes: 100,
            verify_compression: true,
            ..Default::default()
        };
        let compression = CompressionType::Lz4;
        let context =
            TableBuildContext { table: Arc::new(options), compression, ..Default::default() };
        let keys: Vec<Vec<u8>> = (0..100u64)
            .map(|n| {
                let user = format!("{n:05}{}", "key".repeat(300));
                internal_key(user.as_bytes(), 1, ValueType::Value)
            })
            .collect();
        let entries = keys.iter().map(|key| (&key[..], &b""[..]));
        let built = support::build(context.clone(), entries);
        let raw: usize = keys.iter().map(Vec::len).sum();
        assert!(built.bytes.len() < raw / 2, "{index_type:?}: data and index are compressed");
        let table = support::open(support::read_context(&context), &built.bytes).unwrap();
        table.verify_checksums().unwrap();
        let mut iter = table.iter(&Default::default());
        iter.seek_to_first();
        for key in &keys {
            assert_eq!(iter.key().as_bytes(), key);
            iter.next();
        }
        assert!(!iter.valid());
        iter.status().unwrap();
    }
}
