//! What the machine can do without an engine: the hidden subcommand that measures it.
//!
//! It prints a line for each of [`BASELINES`], `name microseconds`. Each is the median of
//! [`ROUNDS`] runs, not the best of them. What the file system refuses (direct reads on some) has
//! no line.
//!
//! Thread safety: one thread.

use super::plan::BASELINES;
use crate::arguments::Arguments;
use crate::folder;
use pumice::{CompressionOptions, CompressionType};
use pumice_base::random::Rng;
use pumice_compress::{Compressor, Decompressor};
use pumice_port::os::{self, AlignedBuffer, File, OpenFlags};
use pumice_port::time::now_micros;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::hint::black_box;
use std::io;
use std::path::Path;
use std::process::ExitCode;

/// The hidden subcommand.
pub const CHILD: &str = "report-baselines";

const ROUNDS: usize = 5;
const MIB: usize = 1 << 20;
/// Bytes of memory and of files that are measured on: about the database of the core rows.
const BYTES: usize = 32 * MIB;
/// Bytes of a filter of the core rows.
const NEAR_BYTES: usize = MIB / 4;
/// Bytes of a cache line.
const LINE: usize = 64;
/// Numbers from one line to the next.
const STEP: usize = LINE / size_of::<u32>();
const BLOCK: usize = 4096;
/// Bytes of a block on disk.
const PACKED: usize = BLOCK / 2;
/// A record of the log with a key of 16 and a value of 100 bytes.
const RECORD: usize = 136;
/// Syncs and reads of the device in a run.
const SYNCS: usize = 40;
const DEVICE_READS: usize = 400;

/// Runs it with the words after its name.
pub fn run(args: &[OsString]) -> ExitCode {
    let arguments = Arguments::parse(args);
    let path = |name: &str| arguments.path(name).unwrap_or(Path::new(".")).to_path_buf();
    match measure(&path("memory"), &path("disk")) {
        Ok(found) => {
            found.iter().for_each(|(name, micros)| println!("{name} {micros}"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{CHILD}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What was printed, by name.
///
/// # Errors
/// A line is not one of them.
pub fn parse(text: &str) -> Result<BTreeMap<String, f64>, String> {
    let one = |line: &str| {
        let (name, number) = line.split_once(' ')?;
        let known = BASELINES.iter().any(|column| column.value == name);
        Some((name.to_string(), number.parse().ok().filter(|_| known)?))
    };
    text.lines().map(|line| one(line).ok_or_else(|| format!("no baseline: {line}"))).collect()
}

type Found = Vec<(&'static str, f64)>;

fn measure(memory: &Path, disk: &Path) -> Result<Found, String> {
    let mut found = in_memory();
    found.extend(codecs()?);
    for (path, part) in [(memory, in_files as fn(&Path) -> io::Result<Found>), (disk, on_device)] {
        let with_path = |error: io::Error| format!("{}: {error}", path.display());
        os::create_dir_all(path).map_err(with_path)?;
        let measured = part(path);
        folder::remove(path);
        found.extend(measured.map_err(with_path)?);
    }
    Ok(found)
}

/// Microseconds of one of `count` things that `go` does at once.
fn median<E>(count: usize, mut go: impl FnMut() -> Result<(), E>) -> Result<f64, E> {
    let mut all = Vec::new();
    for _ in 0..ROUNDS {
        let start = now_micros();
        go()?;
        all.push((now_micros() - start) as f64 / count as f64);
    }
    all.sort_by(f64::total_cmp);
    Ok(all[ROUNDS / 2])
}

/// As [`median`] of what cannot fail.
fn median_of(count: usize, mut go: impl FnMut()) -> f64 {
    let measured: Result<f64, std::convert::Infallible> = median(count, || {
        go();
        Ok(())
    });
    match measured {
        Ok(micros) => micros,
    }
}

/// One cycle through all lines of some memory (Sattolo): each says which is next. With the lines
/// in their order.
fn cycle(bytes: usize) -> (Vec<u32>, Vec<u32>) {
    let (lines, mut rng) = (bytes / LINE, Rng::new(301));
    let mut order: Vec<u32> = (0..lines as u32).collect();
    for place in (1..lines).rev() {
        order.swap(place, rng.uniform(place as u64) as usize);
    }
    let mut chain = vec![0u32; lines * STEP];
    for place in 0..lines {
        chain[order[place] as usize * STEP] = order[(place + 1) % lines];
    }
    (chain, order)
}

/// Microseconds of a load that waits for the one before.
fn chase(chain: &[u32]) -> f64 {
    const LOADS: usize = 100_000;
    let mut at = 0usize;
    median_of(LOADS, || {
        for _ in 0..LOADS {
            at = chain[at * STEP] as usize;
        }
        at = black_box(at);
    })
}

fn in_memory() -> Found {
    let near = chase(&cycle(NEAR_BYTES).0);
    let (chain, order) = cycle(BYTES);
    let miss = chase(&chain);
    let at_once = median_of(order.len(), || {
        let load = |sum: u32, line: &u32| sum.wrapping_add(chain[*line as usize * STEP]);
        black_box(order.iter().fold(0, load));
    });
    let mut to = vec![1u8; BYTES];
    let from = vec![2u8; MIB];
    let copy = median_of(BYTES / MIB, || {
        to.chunks_exact_mut(MIB).for_each(|piece| piece.copy_from_slice(black_box(&from)));
        black_box(&to);
    });
    vec![("near_us", near), ("miss_us", miss), ("overlapped_us", at_once), ("copy_us", copy)]
}

fn codecs() -> Result<Found, String> {
    let text = |error: pumice_base::Error| error.to_string();
    let values = crate::db_bench::sample_values();
    let raw = &values[..MIB];
    let mut found = Vec::new();
    for (kind, there, back) in [
        (CompressionType::Lz4, "lz4_us", "lz4_back_us"),
        (CompressionType::Zstd, "zstd_us", "zstd_back_us"),
    ] {
        let mut compressor = Compressor::new(kind, &CompressionOptions::default()).map_err(text)?;
        let mut packed: Vec<Vec<u8>> = vec![Vec::new(); MIB / BLOCK];
        let pack = median(1, || {
            raw.chunks_exact(BLOCK).zip(&mut packed).try_for_each(|(block, packed)| {
                packed.clear();
                compressor.compress(black_box(block), packed).map(drop)
            })
        });
        found.push((there, pack.map_err(text)?));
        let (mut decompressor, mut out) = (Decompressor::new(), Vec::with_capacity(BLOCK));
        let unpack = median(1, || {
            packed.iter().try_for_each(|packed| {
                decompressor.decompress(kind, black_box(packed), &mut out, BLOCK).map(drop)
            })
        });
        found.push((back, unpack.map_err(text)?));
    }
    Ok(found)
}

const APPENDING: OpenFlags = OpenFlags { read: true, ..OpenFlags::CREATE };

fn in_files(folder: &Path) -> io::Result<Found> {
    const APPENDS: usize = 20_000;
    let mut log = File::open(&folder.join("log"), APPENDING)?;
    let record = [3u8; RECORD];
    let append = median(APPENDS, || (0..APPENDS).try_for_each(|_| log.write_all(&record)))?;
    let piece = vec![4u8; MIB];
    let mut table = File::open(&folder.join("table"), APPENDING)?;
    let pieces = BYTES / ROUNDS / MIB;
    let write = median(pieces, || (0..pieces).try_for_each(|_| table.write_all(&piece)))?;
    let reads = 5000;
    let blocks = (pieces * ROUNDS * MIB / PACKED) as u64;
    let (mut rng, mut block) = (Rng::new(301), vec![0u8; PACKED]);
    let read = median(reads, || {
        (0..reads).try_for_each(|_| {
            table.read_at(&mut block, rng.uniform(blocks) * PACKED as u64).map(drop)
        })
    })?;
    Ok(vec![("append_us", append), ("write_us", write), ("block_read_us", read)])
}

fn on_device(folder: &Path) -> io::Result<Found> {
    let mut log = File::open(&folder.join("log"), APPENDING)?;
    let record = [5u8; RECORD];
    let sync = median(SYNCS, || {
        (0..SYNCS).try_for_each(|_| log.write_all(&record).and_then(|()| log.sync_data()))
    })?;
    let mut found = vec![("device_sync_us", sync)];
    let path = folder.join("table");
    let mut table = File::open(&path, APPENDING)?;
    let piece = vec![6u8; MIB];
    (0..BYTES / MIB).try_for_each(|_| table.write_all(&piece))?;
    table.sync_data()?;
    // Some file systems have no direct reads.
    let Ok(table) = File::open(&path, OpenFlags { direct: true, ..OpenFlags::READ }) else {
        return Ok(found);
    };
    let (mut rng, mut block) = (Rng::new(301), AlignedBuffer::new(BLOCK));
    let read = median(DEVICE_READS, || {
        (0..DEVICE_READS).try_for_each(|_| {
            let offset = rng.uniform((BYTES / BLOCK) as u64) * BLOCK as u64;
            table.read_at(&mut block, offset).map(drop)
        })
    })?;
    found.push(("device_read_us", read));
    Ok(found)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    // Plain #[test]: nothing in it can wait.
    #[test]
    fn what_is_printed_is_read_back() {
        let found = parse("miss_us 0.085\ncopy_us 100\n").unwrap();
        assert_eq!((found["miss_us"], found["copy_us"]), (0.085, 100.0));
        assert_eq!(parse("what 1").unwrap_err(), "no baseline: what 1");
        assert!(parse("miss_us x").is_err());
    }
}
