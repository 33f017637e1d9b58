//! Round trips, blocks written by RocksDB, dictionaries and hostile input, over all codecs.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use pumice_base::ErrorKind;
use pumice_base::coding::put_varint64;
use pumice_base::random::Rng;

use crate::{CompressionOptions, CompressionType, Compressor, Decompressor, Dictionary};
use CompressionType::{Bzip2, Disable, Lz4, Lz4hc, None as Raw, Snappy, Xpress, Zlib, Zstd};

const CODECS: [CompressionType; 6] = [Snappy, Zlib, Bzip2, Lz4, Lz4hc, Zstd];
const LIMIT: usize = 64 << 20;

fn compressor(kind: CompressionType) -> Compressor {
    Compressor::new(kind, &CompressionOptions::default()).unwrap()
}

/// Text that every codec shrinks by far more than an eighth.
fn compressible(n: usize, seed: u64) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    let mut text = Vec::with_capacity(n + 32);
    while text.len() < n {
        text.extend_from_slice(
            format!("key{:04}=value-{};", rng.uniform(50), "ab".repeat(9)).as_bytes(),
        );
    }
    text.truncate(n);
    text
}

#[test]
fn contexts_are_reused_across_sizes() {
    for kind in CODECS {
        let (mut compressor, mut decompressor) = (compressor(kind), Decompressor::new());
        assert_eq!(compressor.kind(), kind);
        let mut block = vec![9; 3];
        for (round, n) in [4096, 100, 300_000, 5000, 1 << 20, 4096].into_iter().enumerate() {
            let raw = compressible(n, round as u64);
            let mut out = b"before".to_vec();
            let used = compressor.compress(&raw, &mut out).unwrap();
            // A hundred bytes are not enough for every codec's overhead.
            assert!(used || n == 100, "{kind:?} {n}");
            if !used {
                assert_eq!(out, b"before");
                continue;
            }
            assert_eq!(&out[..6], b"before");
            assert!(out.len() - 6 <= n * 7 / 8, "{kind:?} {n}");
            decompressor.decompress(kind, &out[6..], &mut block, n).unwrap();
            assert!(block == raw, "{kind:?} {n}");
            let error = decompressor.decompress(kind, &out[6..], &mut block, n - 1).unwrap_err();
            assert!(error.is_corruption() && block.is_empty(), "{kind:?} {error}");
        }
    }
}

#[test]
fn incompressible_and_empty_blocks_stay_raw() {
    let noise = Rng::new(3).bytes(10_000);
    for kind in CODECS {
        let mut compressor = compressor(kind);
        let mut out = vec![1];
        for raw in [&noise[..], &noise[..1], &[]] {
            assert!(!compressor.compress(raw, &mut out).unwrap(), "{kind:?} {}", raw.len());
            assert_eq!(out, [1]);
        }
        // A failed attempt leaves the context usable.
        let raw = compressible(4096, 1);
        assert!(compressor.compress(&raw, &mut out).unwrap(), "{kind:?}");
        let mut block = Vec::new();
        Decompressor::new().decompress(kind, &out[1..], &mut block, LIMIT).unwrap();
        assert_eq!(block, raw);
    }
    let mut out = Vec::new();
    assert!(!compressor(Raw).compress(&compressible(4096, 1), &mut out).unwrap());
}

/// `max_compressed_bytes_per_kb` decides which blocks are worth compressing.
#[test]
fn blocks_are_compressed_if_they_get_as_small_as_asked() {
    // Half of it cannot be compressed.
    let mut raw = Rng::new(4).bytes(2048);
    raw.resize(4096, 0);
    for kind in CODECS {
        let compressed = |max_compressed_bytes_per_kb| {
            let options = CompressionOptions { max_compressed_bytes_per_kb, ..Default::default() };
            let mut out = Vec::new();
            let used = Compressor::new(kind, &options).unwrap().compress(&raw, &mut out).unwrap();
            assert!(out.len() <= 4 * max_compressed_bytes_per_kb.max(0) as usize, "{kind:?}");
            used
        };
        let asked = [-1, 0, 100, 480, 700, 896, 1024, 5000];
        let expected = [false, false, false, false, true, true, true, true];
        assert_eq!(asked.map(compressed), expected, "{kind:?}");
    }
}

#[test]
fn raw_blocks_and_foreign_types() {
    let (mut decompressor, mut block) = (Decompressor::new(), vec![1]);
    decompressor.decompress(Raw, b"abc", &mut block, 3).unwrap();
    assert_eq!(block, b"abc");
    assert!(decompressor.decompress(Raw, b"abc", &mut block, 2).unwrap_err().is_corruption());
    for kind in [Xpress, Disable] {
        assert!(decompressor.decompress(kind, b"abc", &mut block, 10).is_err());
        assert!(Compressor::new(kind, &CompressionOptions::default()).is_err());
    }
    let error = Compressor::new(Xpress, &CompressionOptions::default()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::NotSupported);
}

#[test]
fn levels_and_parameters() {
    let raw = compressible(50_000, 4);
    let size = |kind, options: &CompressionOptions| {
        let (mut out, mut block) = (Vec::new(), Vec::new());
        let mut compressor = Compressor::new(kind, options).unwrap();
        assert!(compressor.compress(&raw, &mut out).unwrap(), "{kind:?} {options:?}");
        Decompressor::new().decompress(kind, &out, &mut block, LIMIT).unwrap();
        assert!(block == raw, "{kind:?} {options:?}");
        out.len()
    };
    let at = |level| CompressionOptions { level, ..CompressionOptions::default() };
    let default = CompressionOptions::default();
    assert_eq!(size(Zstd, &default), size(Zstd, &at(3)));
    assert!(size(Zstd, &at(19)) < size(Zstd, &at(-5)));
    assert_eq!(size(Zlib, &default), size(Zlib, &at(6)));
    assert_eq!(size(Zlib, &default), size(Zlib, &at(-1)));
    assert!(size(Zlib, &at(9)) < size(Zlib, &at(1)));
    assert_eq!(size(Lz4, &default), size(Lz4, &at(0)));
    assert_eq!(size(Lz4, &default), size(Lz4, &at(7)));
    assert!(size(Lz4, &default) < size(Lz4, &at(-60)));
    assert_eq!(size(Lz4hc, &default), size(Lz4hc, &at(9)));
    assert!(size(Lz4hc, &default) < size(Lz4, &default));
    let checked = CompressionOptions { checksum: true, ..default.clone() };
    assert_eq!(size(Zstd, &checked), size(Zstd, &default) + 4);
    let window = CompressionOptions { window_bits: -15, ..default.clone() };
    assert!(size(Zlib, &window) <= size(Zlib, &default));
    let strategy = CompressionOptions { strategy: 1, ..default.clone() };
    assert_eq!(size(Zlib, &strategy), size(Zlib, &default), "a hint");
    let window = CompressionOptions { window_bits: 14, ..default };
    assert!(Compressor::new(Zlib, &window).is_err() && Compressor::new(Snappy, &window).is_ok());
}

/// Where zlib refuses its parameters RocksDB stores blocks as they are.
#[test]
fn parameters_that_zlib_refuses_leave_blocks_raw() {
    let default = CompressionOptions::default();
    let raw = compressible(50_000, 4);
    for refused in [
        CompressionOptions { level: 10, ..default.clone() },
        CompressionOptions { level: -2, ..default.clone() },
        CompressionOptions { strategy: 5, ..default.clone() },
        CompressionOptions { window_bits: 0, ..default.clone() },
        CompressionOptions { window_bits: -8, ..default.clone() },
        CompressionOptions { window_bits: i32::MIN, ..default },
    ] {
        let mut out = vec![1];
        let mut compressor = Compressor::new(Zlib, &refused).unwrap();
        assert!(!compressor.compress(&raw, &mut out).unwrap(), "{refused:?}");
        assert_eq!((compressor.kind(), out), (Zlib, vec![1]));
    }
}

/// The data block of one table of db_bench 7.8.3, written with every codec (`fillseq --num=40
/// --value_size=80 --compression_ratio=0.4 --block_size=100000`).
#[test]
fn reads_blocks_of_rocksdb() {
    let expected = include_bytes!("../testdata/none.block");
    let mut decompressor = Decompressor::new();
    let mut block = Vec::new();
    for (kind, payload) in [
        (Snappy, &include_bytes!("../testdata/snappy.block")[..]),
        (Zlib, include_bytes!("../testdata/zlib.block")),
        (Bzip2, include_bytes!("../testdata/bzip2.block")),
        (Lz4, include_bytes!("../testdata/lz4.block")),
        (Lz4hc, include_bytes!("../testdata/lz4hc.block")),
        (Zstd, include_bytes!("../testdata/zstd.block")),
    ] {
        decompressor.decompress(kind, payload, &mut block, LIMIT).unwrap();
        assert!(block == expected, "{kind:?}");
        let mut out = Vec::new();
        assert!(compressor(kind).compress(expected, &mut out).unwrap());
        let ratio = out.len() as f64 / payload.len() as f64;
        assert!((0.97..1.03).contains(&ratio), "{kind:?}: {} not {}", out.len(), payload.len());
    }
}

/// The same table compacted with `--compression_max_dict_bytes=600`, and its dictionaries.
#[test]
fn reads_blocks_with_dictionaries_of_rocksdb() {
    let mut decompressor = Decompressor::new();
    let mut blocks = Vec::new();
    for (kind, payload, dict) in [
        (
            Zlib,
            &include_bytes!("../testdata/zlib_dict.block")[..],
            include_bytes!("../testdata/zlib_dict.dict"),
        ),
        (
            Lz4,
            include_bytes!("../testdata/lz4_dict.block"),
            include_bytes!("../testdata/lz4_dict.dict"),
        ),
        (
            Zstd,
            include_bytes!("../testdata/zstd_dict.block"),
            include_bytes!("../testdata/zstd_dict.dict"),
        ),
    ] {
        let dictionary = Dictionary::new(kind, dict).unwrap();
        assert!(dictionary.memory_bytes() >= 600);
        let mut block = Vec::new();
        decompressor.decompress_with(kind, payload, Some(&dictionary), &mut block, LIMIT).unwrap();
        // Without its dictionary the block is refused or wrong, never accepted as right.
        let mut other = Vec::new();
        if decompressor.decompress(kind, payload, &mut other, LIMIT).is_ok() {
            assert_ne!(other, block);
        }
        // And the context is not left with the dictionary of the previous block.
        let mut plain = Vec::new();
        assert!(compressor(kind).compress(&block, &mut plain).unwrap());
        decompressor.decompress(kind, &plain, &mut other, LIMIT).unwrap();
        assert_eq!(other, block);
        blocks.push(block);
    }
    assert!(blocks.windows(2).all(|pair| pair[0] == pair[1]));
    assert_eq!(blocks[0].len(), include_bytes!("../testdata/none.block").len());
}

/// False sizes are rejected before memory is allocated for them.
#[test]
fn lying_sizes() {
    let mut decompressor = Decompressor::new();
    for kind in CODECS {
        let mut good = Vec::new();
        let raw = compressible(4096, 2);
        assert!(compressor(kind).compress(&raw, &mut good).unwrap());
        let skip = 2; // 4096 takes two bytes as a varint, also in the Snappy stream.
        for size in [0, 1, 4095, 4097, 1 << 20, 1 << 26, 1 << 31, 1 << 40, u64::MAX] {
            let mut lie = Vec::new();
            put_varint64(&mut lie, size);
            lie.extend_from_slice(&good[skip..]);
            let mut block = Vec::new();
            let error = decompressor.decompress(kind, &lie, &mut block, LIMIT).unwrap_err();
            assert!(error.is_corruption() && block.is_empty(), "{kind:?} {size}: {error}");
            assert!(block.capacity() <= LIMIT);
        }
        let mut block = Vec::new();
        decompressor.decompress(kind, &good, &mut block, LIMIT).unwrap();
        assert_eq!(block, raw);
    }
}

#[test]
fn truncation_is_detected() {
    let mut decompressor = Decompressor::new();
    for kind in CODECS {
        let mut good = Vec::new();
        assert!(compressor(kind).compress(&compressible(2000, 2), &mut good).unwrap());
        let mut block = Vec::new();
        // The last bytes of a bzip2 stream are padding and of LZ4 literals: all but none matter.
        for n in 0..good.len() {
            let result = decompressor.decompress(kind, &good[..n], &mut block, LIMIT);
            assert!(result.is_err() && block.is_empty(), "{kind:?} {n} of {}", good.len());
        }
    }
}

#[test]
fn flipped_bits_never_panic() {
    let mut decompressor = Decompressor::new();
    for kind in CODECS {
        let mut good = Vec::new();
        assert!(compressor(kind).compress(&compressible(3000, 5), &mut good).unwrap());
        let mut block = Vec::new();
        for at in 0..good.len() * 8 {
            good[at / 8] ^= 1 << (at % 8);
            if decompressor.decompress(kind, &good, &mut block, 1 << 20).is_err() {
                assert!(block.is_empty());
            }
            good[at / 8] ^= 1 << (at % 8);
        }
        decompressor.decompress(kind, &good, &mut block, LIMIT).unwrap();
        assert_eq!(block, compressible(3000, 5));
    }
}

#[test]
fn garbage_is_an_error() {
    let mut rng = Rng::new(77);
    let mut decompressor = Decompressor::new();
    let mut block = Vec::new();
    let mut accepted = 0;
    for _ in 0..20_000 {
        let n = rng.uniform(200) as usize + 8;
        let garbage = rng.bytes(n);
        let kind = CODECS[rng.uniform(6) as usize];
        accepted += u32::from(decompressor.decompress(kind, &garbage, &mut block, LIMIT).is_ok());
    }
    // LZ4 and Snappy have no checksum: a short stream may happen to be one.
    assert!(accepted < 200, "{accepted} accepted");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn round_trip(
        pieces in prop::collection::vec(
            (prop::collection::vec(any::<u8>(), 1..40), 1usize..60),
            1..30,
        ),
        codec in 0usize..6,
    ) {
        let raw: Vec<u8> = pieces.iter().flat_map(|(p, times)| p.repeat(*times)).collect();
        let kind = CODECS[codec];
        let (mut out, mut block) = (Vec::new(), Vec::new());
        if compressor(kind).compress(&raw, &mut out).unwrap() {
            prop_assert!(out.len() <= CompressionOptions::default().size_limit(raw.len()));
            Decompressor::new().decompress(kind, &out, &mut block, raw.len()).unwrap();
            prop_assert_eq!(block, raw);
        } else {
            prop_assert!(out.is_empty());
        }
    }
}

/// A block that does not fit its limit must not disturb the ones after it: zlib-rs 0.6.8 keeps
/// unwritten output over a reset.
#[test]
fn blocks_that_do_not_fit_leave_no_trace() {
    for kind in CODECS {
        let (mut compressor, mut decompressor) = (compressor(kind), Decompressor::new());
        let mut rng = Rng::new(5);
        for round in 0..60 {
            let n = 1000 + rng.uniform(60_000) as usize;
            let mut raw = compressible(n, round);
            let noise = n * rng.uniform(101) as usize / 100;
            rng.fill(&mut raw[..noise]);
            let (mut out, mut back) = (Vec::new(), Vec::new());
            if compressor.compress(&raw, &mut out).unwrap() {
                decompressor.decompress(kind, &out, &mut back, n).unwrap();
                assert!(back == raw, "{kind:?} round {round}");
            }
        }
    }
}

/// A size that the limit and the codec allow but memory does not: an error, not an abort.
#[test]
fn a_block_for_which_there_is_no_memory_is_an_error() {
    let mut framed = Vec::new();
    put_varint64(&mut framed, 1 << 62);
    framed.extend_from_slice(b"BZh9");
    let mut out = Vec::new();
    let error = Decompressor::new()
        .decompress(CompressionType::Bzip2, &framed, &mut out, usize::MAX)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Aborted, "{error}");
    assert!(out.is_empty());
}
