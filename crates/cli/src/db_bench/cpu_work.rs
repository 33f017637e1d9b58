//! Benchmarks without a database: checksums, codecs, loads from memory.

use super::engine::{BenchDb, Result};
use super::engine_options;
use super::stats::Operation;
use super::worker::Worker;
use pumice::{CompressionOptions, CompressionType};
use pumice_base::checksum::{ChecksumType, block_checksum, crc32c};
use pumice_compress::{Compressor, Decompressor};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that go through a checksum. RocksDB's.
const CHECKSUM_BYTES: u64 = 5000 << 20;
/// Bytes that go through a codec. RocksDB's.
const CODEC_BYTES: u64 = 1 << 30;
/// Groups of 1000 loads. RocksDB's.
const LOADS: u64 = 100_000;

/// The checksum of `--block_size` bytes, again and again; of `--num` bytes at most if that is
/// given, which RocksDB's db_bench ignores here.
pub fn checksum<D: BenchDb>(worker: &mut Worker<'_, D>, kind: ChecksumType) -> Result<()> {
    let block = block_size(worker)?;
    let data = vec![b'x'; block];
    let operation = if kind == ChecksumType::Crc32c { Operation::Crc } else { Operation::Hash };
    let (mut bytes, mut sum) = (0u64, 0u32);
    while bytes < amount(worker, CHECKSUM_BYTES) {
        let data = black_box(&data);
        let value = match kind {
            ChecksumType::Crc32c => crc32c(data),
            kind => block_checksum(kind, &data[..block - 1], data[block - 1]),
        };
        sum = sum.wrapping_add(value);
        bytes += block as u64;
        worker.finished(1, operation);
    }
    eprint!("... val={sum:#x}\r");
    worker.stats.add_bytes(bytes);
    worker.stats.set_message(format!("({block} per op)"));
    Ok(())
}

/// Loads of a word that other threads could change.
pub fn load<D: BenchDb>(worker: &mut Worker<'_, D>) -> Result<()> {
    let word = AtomicU64::new(1);
    for _ in 0..amount(worker, LOADS) {
        for _ in 0..1000 {
            black_box(black_box(&word).load(Ordering::Acquire));
        }
        worker.finished(1, Operation::Other);
    }
    worker.stats.set_message("(each op is 1000 loads)".into());
    Ok(())
}

/// Compression (or with `back` decompression) of a block of values with the codec of the flags.
pub fn codec<D: BenchDb>(worker: &mut Worker<'_, D>, back: bool) -> Result<()> {
    let block = block_size(worker)?;
    let flags = &worker.shared.flags;
    let raw = &worker.shared.values[..block];
    let kind = codec_of(engine_options::codec(&flags.compression_type)?);
    let options = CompressionOptions { level: flags.compression_level, ..Default::default() };
    let Ok(mut compressor) = Compressor::new(kind, &options) else {
        worker.stats.set_message("(compression type not supported)".into());
        return Ok(());
    };
    let mut packed = Vec::new();
    if !compressor.compress(raw, &mut packed).map_err(|error| error.to_string())? {
        worker.stats.set_message("(failed to compress smaller than input)".into());
        return Ok(());
    }
    let (mut decompressor, mut out) = (Decompressor::new(), Vec::with_capacity(block));
    let percent = packed.len() as f64 * 100.0 / block as f64;
    let mut bytes = 0u64;
    while bytes < amount(worker, CODEC_BYTES) {
        if back {
            let done = decompressor.decompress(kind, black_box(&packed), &mut out, block);
            done.map_err(|error| error.to_string())?;
            worker.finished(1, Operation::Uncompress);
        } else {
            packed.clear();
            let done = compressor.compress(black_box(raw), &mut packed);
            done.map_err(|error| error.to_string())?;
            worker.finished(1, Operation::Compress);
        }
        bytes += block as u64;
    }
    worker.stats.add_bytes(bytes);
    if !back {
        worker.stats.set_message(format!("(output: {percent:.1}%)"));
    }
    Ok(())
}

fn block_size<D: BenchDb>(worker: &Worker<'_, D>) -> Result<usize> {
    let block = usize::try_from(worker.shared.flags.block_size).unwrap_or(0);
    match block {
        1..=1_048_576 => Ok(block),
        _ => Err(format!("block_size {block}: must be between 1 and 1048576 for this benchmark")),
    }
}

/// `usual`, or with `--num` given that many operations' worth if it is less.
fn amount<D: BenchDb>(worker: &Worker<'_, D>, usual: u64) -> u64 {
    match worker.shared.flags.is_given("num") {
        true => usual.min(worker.shared.plan.num.saturating_mul(match usual {
            LOADS => 1,
            _ => worker.shared.flags.block_size.unsigned_abs().into(),
        })),
        false => usual,
    }
}

fn codec_of(name: &str) -> CompressionType {
    match name {
        "kSnappyCompression" => CompressionType::Snappy,
        "kZlibCompression" => CompressionType::Zlib,
        "kBZip2Compression" => CompressionType::Bzip2,
        "kLZ4Compression" => CompressionType::Lz4,
        "kLZ4HCCompression" => CompressionType::Lz4hc,
        "kXpressCompression" => CompressionType::Xpress,
        "kZSTD" => CompressionType::Zstd,
        _ => CompressionType::None,
    }
}
