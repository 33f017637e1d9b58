//! Costs of indexes: building each kind, point reads with and without hash indexes of data blocks.
//!
//! `cargo run --release -p pumice-table --example index_bench [entries] [rounds]`
//! Prints nanoseconds per entry built and per lookup (best of the rounds), and a checksum of what
//! was read. Blocks without cache are read from memory-backed files each time.

use std::path::Path;
use std::sync::Arc;

use pumice_base::extension::FixedPrefix;
use pumice_base::key::{MAX_SEQUENCE, append_internal_key, seek_key};
use pumice_base::random::Rng;
use pumice_base::{InternalKey, Result, ValueType};
use pumice_cache::{Cache, CacheOptions};
use pumice_env::{BufferedWriter, FileOptions, PosixFs, WriterOptions};
use pumice_table::{
    DataBlockIndexType, IndexType, Table, TableBuildContext, TableBuilder, TableOptions,
    TableReadContext, TableReadOptions,
};

/// The 16-byte user key of entry `i`, as db_bench makes it.
fn user_key(i: u64) -> [u8; 16] {
    let mut key = [b'0'; 16];
    key[..8].copy_from_slice(&i.to_be_bytes());
    key
}

fn best(rounds: u64, count: u64, mut work: impl FnMut() -> u64) -> (f64, u64) {
    let (mut nanos, mut sum) = (f64::MAX, 0);
    for _ in 0..rounds {
        let start = pumice_port::time::now_nanos();
        sum = work();
        nanos = nanos.min((pumice_port::time::now_nanos() - start) as f64 / count as f64);
    }
    (nanos, sum)
}

fn build(path: &Path, options: &TableOptions, n: u64) -> Result<(u64, u64)> {
    let context = TableBuildContext {
        table: Arc::new(options.clone()),
        prefix_extractor: Some(Arc::new(FixedPrefix(8))),
        ..Default::default()
    };
    let file = PosixFs::shared().create(path, &FileOptions::default())?;
    let writer = BufferedWriter::new(file, WriterOptions::new(1 << 20));
    let mut builder = TableBuilder::new(context, writer)?;
    let (mut ikey, value) = (Vec::new(), [b'v'; 50]);
    for i in 0..n {
        ikey.clear();
        append_internal_key(&mut ikey, &user_key(i * 3), i + 1, ValueType::Value as u8);
        builder.add(&ikey, &value)?;
    }
    builder.finish_file(false, false)?;
    Ok((builder.file_size(), builder.properties().num_data_blocks))
}

fn get(table: &Table, n: u64, step: u64, count: u64) -> u64 {
    let ro = TableReadOptions::default();
    let mut rng = Rng::new(7);
    let mut sum = 0;
    let mut target = seek_key(&user_key(0), MAX_SEQUENCE);
    for _ in 0..count {
        target[..8].copy_from_slice(&(rng.uniform(n) * 3 + step).to_be_bytes());
        let mut found = |_: pumice_base::key::ParsedInternalKey<'_>, value: &[u8], _: &_| {
            sum += value.len() as u64;
            false
        };
        table.get(&ro, InternalKey::new(&target), &mut found).expect("a good table");
    }
    sum
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let n: u64 = args.next().and_then(|a| a.parse().ok()).unwrap_or(300_000);
    let rounds: u64 = args.next().and_then(|a| a.parse().ok()).unwrap_or(5);
    let dir = Path::new("/dev/shm/index-bench");
    let fs = PosixFs::shared();
    fs.create_dir_all(dir)?;
    let path = dir.join("000001.sst");
    let cache = Cache::new(CacheOptions::new(1 << 30));
    let kinds = [
        IndexType::BinarySearch,
        IndexType::HashSearch,
        IndexType::TwoLevel,
        IndexType::BinarySearchWithFirstKey,
    ];
    for kind in kinds {
        for hash in [DataBlockIndexType::BinarySearch, DataBlockIndexType::BinaryAndHash] {
            let options = TableOptions {
                index_type: kind,
                data_block_index_type: hash,
                block_cache: Some(Arc::clone(&cache)),
                ..Default::default()
            };
            let (nanos, _) = best(rounds, n, || build(&path, &options, n).map_or(0, |b| b.0));
            let (size, blocks) = build(&path, &options, n)?;
            println!("--- {kind:?} {hash:?}: {size} bytes, {blocks} blocks");
            println!("build          {nanos:8.1} ns");
            for cached in [true, false] {
                let options = TableOptions { no_block_cache: !cached, ..options.clone() };
                let context = TableReadContext { options: Arc::new(options), ..Default::default() };
                let table = Table::open(context, fs.open_random(&path)?, size)?;
                let count = if cached { n } else { n / 10 };
                for (name, step) in [("hit", 0), ("absent", 1)] {
                    let (nanos, sum) = best(rounds, count, || get(&table, n, step, count));
                    let from = if cached { "cache" } else { "file" };
                    println!("{name:<7}{from:<7} {nanos:8.1} ns  ({sum})");
                }
            }
        }
    }
    fs.remove(&path)
}
