//! What a dictionary costs and gains per block: nanoseconds and stored bytes with and without one,
//! of every codec that has them, compressing and decompressing.
//!
//! `cargo bench -p pumice-table --bench dictionary [-- callgrind CODEC plain|dict BLOCK]`. Each
//! figure is the median over interleaved rounds, so that noise hits both sides alike. `load` is a
//! new compressor per block: the cost of not sharing the prepared dictionary. `callgrind`
//! compresses 1000 blocks of BLOCK bytes and nothing else, for counting instructions.
#![allow(missing_docs)]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, clippy::unwrap_used)]

use std::hint::black_box;
use std::sync::Arc;

use pumice_base::random::Rng;
use pumice_compress::{
    CompressionDict, CompressionOptions, CompressionType, Compressor, Decompressor, Dictionary,
};
use pumice_port::time::now_nanos;

const BLOCKS: usize = 64;
const ROUNDS: usize = 21;
const DICT_BYTES: u32 = 16 << 10;

/// Records that share boilerplate and little else, as blocks of about `size` bytes.
fn blocks(size: usize, count: usize, seed: u64) -> Vec<Vec<u8>> {
    let mut rng = Rng::new(seed);
    let block = |_| {
        let mut text = Vec::with_capacity(size + 120);
        while text.len() < size {
            let (user, amount) = (rng.uniform(1 << 40), rng.uniform(1 << 30));
            let record = format!(
                "{{\"customer\":\"{user:016x}\",\"balance\":{amount},\"currency\":\"SEK\",\
                 \"state\":\"active\",\"country\":\"Norway\"}}"
            );
            text.extend_from_slice(record.as_bytes());
        }
        text.truncate(size);
        text
    };
    (0..count).map(block).collect()
}

fn options(train: bool) -> CompressionOptions {
    CompressionOptions {
        max_dict_bytes: DICT_BYTES,
        zstd_max_train_bytes: if train { 100 * DICT_BYTES } else { 0 },
        ..CompressionOptions::default()
    }
}

fn dictionary(kind: CompressionType, options: &CompressionOptions) -> Arc<CompressionDict> {
    let samples = blocks(4096, 400, 1);
    let want = CompressionDict::sample_bytes(kind, options) / 4096;
    let samples = &samples[..want.min(samples.len())];
    let sizes = vec![4096; samples.len()];
    Arc::new(CompressionDict::build(kind, options, &samples.concat(), &sizes).unwrap().unwrap())
}

/// Nanoseconds per block.
fn time(blocks: &[Vec<u8>], mut work: impl FnMut(&[u8])) -> f64 {
    let start = now_nanos();
    for block in blocks {
        work(black_box(block));
    }
    (now_nanos() - start) as f64 / blocks.len() as f64
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn compressed(compressor: &mut Compressor, blocks: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let payload = |block: &Vec<u8>| {
        let mut out = Vec::new();
        assert!(compressor.compress(block, &mut out).unwrap(), "a block stayed raw");
        out
    };
    blocks.iter().map(payload).collect()
}

fn line(name: &str, kind: CompressionType, size: usize, train: bool) {
    let options = options(train);
    let raw = blocks(size, BLOCKS, 2);
    let dict = dictionary(kind, &options);
    let reader = Dictionary::new(kind, dict.bytes()).unwrap();
    let mut plain = Compressor::new(kind, &options).unwrap();
    let mut with = Compressor::with_dictionary(kind, &options, dict.clone()).unwrap();
    let (plain_payloads, payloads) = (compressed(&mut plain, &raw), compressed(&mut with, &raw));
    let (mut decompressor, mut out) = (Decompressor::new(), Vec::new());
    let mut figures: [Vec<f64>; 5] = Default::default();
    for _ in 0..ROUNDS {
        let mut pack = |compressor: &mut Compressor| {
            time(&raw, |block| {
                out.clear();
                compressor.compress(block, &mut out).unwrap();
            })
        };
        figures[0].push(pack(&mut plain));
        figures[1].push(pack(&mut with));
        figures[2].push(time(&raw[..8], |block| {
            out.clear();
            let dict = CompressionDict::from_bytes(kind, &options, dict.bytes()).unwrap();
            let mut fresh = Compressor::with_dictionary(kind, &options, Arc::new(dict)).unwrap();
            fresh.compress(block, &mut out).unwrap();
        }));
        figures[3].push(time(&plain_payloads, |payload| {
            decompressor.decompress(kind, payload, &mut out, size).unwrap();
        }));
        figures[4].push(time(&payloads, |payload| {
            decompressor.decompress_with(kind, payload, Some(&reader), &mut out, size).unwrap();
        }));
    }
    let [plain, with, load, read, read_with] = figures.map(median);
    let bytes = |payloads: &[Vec<u8>]| payloads.iter().map(Vec::len).sum::<usize>() / BLOCKS;
    println!(
        "{name:13} {size:6} B | compress {plain:8.0} ns, dict {with:8.0}, load {load:8.0} | \
         decompress {read:6.0} ns, dict {read_with:6.0} | {:5} B, dict {:5} B",
        bytes(&plain_payloads),
        bytes(&payloads),
    );
}

fn callgrind(codec: &str, with: bool, size: usize) {
    let kind = CompressionType::from_flag(codec).unwrap();
    let options = options(true);
    let mut compressor = match with {
        true => Compressor::with_dictionary(kind, &options, dictionary(kind, &options)).unwrap(),
        false => Compressor::new(kind, &options).unwrap(),
    };
    let raw = blocks(size, 10, 2);
    let mut out = Vec::new();
    for round in 0..1000 {
        out.clear();
        black_box(compressor.compress(&raw[round % raw.len()], &mut out).unwrap());
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    if let ["callgrind", codec, with, size] = args[..] {
        callgrind(codec, with == "dict", size.parse().unwrap());
        return;
    }
    for size in [1 << 10, 4 << 10, 16 << 10, 64 << 10] {
        line("lz4", CompressionType::Lz4, size, false);
        line("lz4hc", CompressionType::Lz4hc, size, false);
        line("zlib", CompressionType::Zlib, size, false);
        line("zstd raw", CompressionType::Zstd, size, false);
        line("zstd trained", CompressionType::Zstd, size, true);
    }
    let start = now_nanos();
    let dict = dictionary(CompressionType::Zstd, &options(true));
    println!(
        "zstd: {} bytes trained on 1.6 MB, {:.0} ms",
        dict.bytes().len(),
        (now_nanos() - start) as f64 / 1e6
    );
}
