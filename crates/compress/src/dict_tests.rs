//! Dictionaries as writers make and use them: their gain, when there is none, and that blocks do
//! not depend on a context's earlier work.
#![allow(clippy::unwrap_used)]
#![allow(clippy::disallowed_methods)] // Plain threads, below the port seam's users.

use std::sync::Arc;

use pumice_base::random::Rng;

use crate::{
    CompressionDict, CompressionOptions, CompressionType, Compressor, Decompressor, Dictionary,
};
use CompressionType::{Bzip2, Lz4, Lz4hc, None as Raw, Snappy, Zlib, Zstd};

const WITH_DICTIONARIES: [CompressionType; 4] = [Zlib, Lz4, Lz4hc, Zstd];
const LIMIT: usize = 64 << 20;

/// Records that share boilerplate and little else.
fn records(n: usize, rng: &mut Rng) -> Vec<u8> {
    let mut text = Vec::with_capacity(n + 120);
    while text.len() < n {
        let (user, amount) = (rng.uniform(1 << 40), rng.uniform(1 << 30));
        let record = format!(
            "{{\"customer\":\"{user:016x}\",\"balance\":{amount},\"currency\":\"SEK\",\"state\":\
             \"active\",\"country\":\"Norway\"}}"
        );
        text.extend_from_slice(record.as_bytes());
    }
    text.truncate(n);
    text
}

struct Samples {
    bytes: Vec<u8>,
    sizes: Vec<usize>,
}

fn samples(count: usize, size: usize, seed: u64) -> Samples {
    let mut rng = Rng::new(seed);
    let bytes = (0..count).flat_map(|_| records(size, &mut rng)).collect();
    Samples { bytes, sizes: vec![size; count] }
}

/// The three ways of making a dictionary, which for all codecs but zstd are one.
fn ways(max_dict_bytes: u32) -> [CompressionOptions; 3] {
    let raw = CompressionOptions { max_dict_bytes, ..CompressionOptions::default() };
    let trained = CompressionOptions { zstd_max_train_bytes: 1 << 20, ..raw.clone() };
    let finalized = CompressionOptions { use_zstd_dict_trainer: false, ..trained.clone() };
    [raw, trained, finalized]
}

fn build(
    kind: CompressionType,
    options: &CompressionOptions,
    of: &Samples,
) -> Option<Arc<CompressionDict>> {
    CompressionDict::build(kind, options, &of.bytes, &of.sizes).unwrap().map(Arc::new)
}

#[test]
fn small_blocks_get_smaller_and_read_back() {
    let of = samples(100, 1000, 1);
    let mut rng = Rng::new(2);
    for kind in WITH_DICTIONARIES {
        for options in ways(4096) {
            let dict = build(kind, &options, &of).unwrap();
            assert_eq!(dict.kind(), kind);
            assert!((256..=4096).contains(&dict.bytes().len()), "{kind:?} {options:?}");
            assert!(dict.memory_bytes() >= dict.bytes().len());
            let again = build(kind, &options, &of).unwrap();
            assert_eq!(dict.bytes(), again.bytes(), "{kind:?}: made of the same samples");
            let reader = Dictionary::new(kind, dict.bytes()).unwrap();
            let mut with = Compressor::with_dictionary(kind, &options, dict).unwrap();
            let mut without = Compressor::new(kind, &options).unwrap();
            let mut decompressor = Decompressor::new();
            for n in [300, 1000, 4096, 20_000, 100_000] {
                let raw = records(n, &mut rng);
                let (mut small, mut plain, mut back) = (Vec::new(), Vec::new(), Vec::new());
                assert!(with.compress(&raw, &mut small).unwrap(), "{kind:?} {n}");
                decompressor
                    .decompress_with(kind, &small, Some(&reader), &mut back, LIMIT)
                    .unwrap();
                assert!(back == raw, "{kind:?} {n} {options:?}");
                if without.compress(&raw, &mut plain).unwrap() && n <= 1000 {
                    assert!(small.len() < plain.len(), "{kind:?} {n} {options:?}");
                }
                // Without the dictionary the block is rejected or wrong.
                if n <= 4096 && decompressor.decompress(kind, &small, &mut back, LIMIT).is_ok() {
                    assert!(back != raw, "{kind:?} {n}: the dictionary was not used");
                }
            }
        }
    }
}

/// Options, codecs and samples that give no dictionary are not an error.
#[test]
fn no_dictionary_rather_than_an_error() {
    let of = samples(100, 1000, 3);
    let nothing = Samples { bytes: Vec::new(), sizes: Vec::new() };
    let empty_ones = Samples { bytes: Vec::new(), sizes: vec![0; 3] };
    let tiny = Samples { bytes: b"abc".to_vec(), sizes: vec![1, 2] };
    for options in ways(4096) {
        for kind in [Raw, Snappy, Bzip2] {
            assert!(!CompressionDict::wanted(kind, &options));
            assert_eq!(CompressionDict::sample_bytes(kind, &options), 0);
            assert!(build(kind, &options, &of).is_none(), "{kind:?}");
        }
        for kind in WITH_DICTIONARIES {
            for few in [&nothing, &empty_ones, &tiny] {
                assert!(build(kind, &options, few).is_none(), "{kind:?} {options:?}");
            }
        }
    }
    for kind in WITH_DICTIONARIES {
        assert!(build(kind, &CompressionOptions::default(), &of).is_none(), "{kind:?}");
        // Every size: none, or one that is not empty, fits and reads back.
        for max in [1, 7, 8, 9, 100, 255, 256, 257, 1000] {
            for options in ways(max) {
                let Some(dict) = build(kind, &options, &of) else { continue };
                assert!((8..=max as usize).contains(&dict.bytes().len()), "{kind:?} {max}");
                round_trip(kind, &options, dict);
            }
        }
    }
    // The trainers need 256 bytes.
    let [raw, trained, finalized] = ways(255);
    assert!(build(Zstd, &raw, &of).is_some());
    assert!(build(Zstd, &trained, &of).is_none());
    assert!(build(Zstd, &finalized, &of).is_none());
    // One sample teaches nothing.
    let one = Samples { bytes: of.bytes[..1000].to_vec(), sizes: vec![1000] };
    assert!(build(Zstd, &ways(4096)[1], &one).is_none());
    // Bytes that look like a trained dictionary and are not.
    let mut fake = vec![0x37, 0xa4, 0x30, 0xec];
    fake.extend_from_slice(&[0xff; 100]);
    assert!(build(Zstd, &raw, &Samples { sizes: vec![104], bytes: fake }).is_none());
    let wrong = CompressionDict::build(Zstd, &raw, &of.bytes, &[1]);
    assert!(wrong.is_err());
}

fn round_trip(kind: CompressionType, options: &CompressionOptions, dict: Arc<CompressionDict>) {
    let reader = Dictionary::new(kind, dict.bytes()).unwrap();
    let mut compressor = Compressor::with_dictionary(kind, options, dict).unwrap();
    let raw = records(5000, &mut Rng::new(9));
    let (mut out, mut back) = (Vec::new(), Vec::new());
    assert!(compressor.compress(&raw, &mut out).unwrap());
    Decompressor::new().decompress_with(kind, &out, Some(&reader), &mut back, LIMIT).unwrap();
    assert!(back == raw);
}

#[test]
fn sizes_of_samples() {
    let options = CompressionOptions {
        max_dict_bytes: 100,
        zstd_max_train_bytes: 10_000,
        ..CompressionOptions::default()
    };
    assert_eq!(CompressionDict::sample_bytes(Zstd, &options), 10_000);
    assert_eq!(CompressionDict::sample_bytes(Lz4, &options), 100);
    let of = samples(3, 100, 4);
    // A raw dictionary never outgrows the option.
    assert_eq!(build(Lz4, &options, &of).unwrap().bytes(), &of.bytes[..100]);
    // LZ4 reaches 64 KiB back, zlib's window 16 KiB: more neither helps nor harms.
    let of = samples(300, 1000, 5);
    for kind in WITH_DICTIONARIES {
        let options = CompressionOptions { max_dict_bytes: 300_000, ..options.clone() };
        let options = CompressionOptions { zstd_max_train_bytes: 0, ..options };
        let dict = build(kind, &options, &of).unwrap();
        assert_eq!(dict.bytes().len(), 300_000);
        round_trip(kind, &options, dict);
    }
}

#[test]
fn a_dictionary_of_another_codec_or_level_is_refused() {
    let of = samples(100, 1000, 6);
    let options = &ways(4096)[0];
    let dict = build(Lz4, options, &of).unwrap();
    let other = CompressionOptions { level: -7, ..options.clone() };
    assert!(Compressor::with_dictionary(Lz4, options, dict.clone()).is_ok());
    assert!(Compressor::with_dictionary(Lz4hc, options, dict.clone()).is_err());
    assert!(Compressor::with_dictionary(Lz4, &other, dict).is_err());
}

/// One dictionary, several threads: all make the same bytes.
#[test]
fn threads_share_a_dictionary() {
    let of = samples(100, 1000, 7);
    for kind in WITH_DICTIONARIES {
        let options = &ways(4096)[1];
        let dict = build(kind, options, &of).unwrap();
        let outputs: Vec<Vec<Vec<u8>>> = std::thread::scope(|scope| {
            let work = || {
                let mut compressor =
                    Compressor::with_dictionary(kind, options, dict.clone()).unwrap();
                let mut rng = Rng::new(8);
                (0..200)
                    .map(|_| {
                        let mut out = Vec::new();
                        let n = 100 + rng.uniform(9000) as usize;
                        compressor.compress(&records(n, &mut rng), &mut out).unwrap();
                        out
                    })
                    .collect()
            };
            let threads = [(); 3].map(|()| scope.spawn(work));
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(outputs.windows(2).all(|pair| pair[0] == pair[1]), "{kind:?}");
    }
}

/// A block compressed by a context that did anything else before equals the block that a new
/// context makes: tables must not depend on which thread compressed what.
#[test]
fn blocks_do_not_depend_on_what_came_before() {
    let of = samples(100, 1000, 10);
    let plain = [Snappy, Bzip2, Zlib, Lz4, Lz4hc, Zstd].map(|kind| (kind, false));
    let with = WITH_DICTIONARIES.map(|kind| (kind, true));
    for (kind, dictionary) in plain.into_iter().chain(with) {
        for level in levels(kind) {
            let options = CompressionOptions { level: *level, ..ways(4096)[0].clone() };
            let dict = dictionary.then(|| build(kind, &options, &of).unwrap());
            let make = || match &dict {
                Some(dict) => Compressor::with_dictionary(kind, &options, dict.clone()).unwrap(),
                None => Compressor::new(kind, &options).unwrap(),
            };
            let mut used = make();
            let mut rng = Rng::new(11);
            for round in 0..60 {
                let n = [300, 3000, 4096, 4097, 20_000, 70_000][rng.uniform(6) as usize];
                let mut raw = records(n, &mut rng);
                let noise = n * [0, 0, 30, 60, 100][rng.uniform(5) as usize] / 100;
                rng.fill(&mut raw[..noise]);
                let (mut ours, mut fresh) = (Vec::new(), Vec::new());
                let kept = used.compress(&raw, &mut ours).unwrap();
                assert_eq!(make().compress(&raw, &mut fresh).unwrap(), kept);
                assert!(ours == fresh, "{kind:?} level {level} dict {dictionary} round {round}");
            }
        }
    }
}

fn levels(kind: CompressionType) -> &'static [i32] {
    const DEFAULT: i32 = crate::DEFAULT_LEVEL;
    match kind {
        Zstd => &[DEFAULT, -3, 1, 6, 9, 13],
        Lz4 => &[DEFAULT, -4],
        Lz4hc => &[DEFAULT, 2, 4, 11],
        Zlib => &[DEFAULT, 1, 4, 9],
        _ => &[DEFAULT],
    }
}
