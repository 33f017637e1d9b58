//! Every byte of small files flipped in turn.
//!
//! A small database on the in-memory file system (two column families, tables, an unflushed WAL) is
//! copied for every case with one byte changed, opened, read forward, backward and key by key, and
//! sometimes compacted. Allowed results:
//!
//! | file | allowed |
//! |---|---|
//! | table, MANIFEST, CURRENT | an error, or the same data |
//! | WAL, absolute consistency | an error, or the same data |
//! | WAL, point in time or tolerate tail | the same, or P(k), k at least what was flushed |
//! | WAL, skip any corrupted | the same, or any batches whole |
//!
//! Forbidden everywhere: wrong data, a panic, a hang, a request for more than 64 MiB of memory.
//! The suite runs in a child process, which is where allocations are watched and hangs end.

mod image;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pumice_base::random::Rng;
use pumice_testkit::{Model, Store, contents, seed};

use crate::child;
use crate::stores::pumice::Pumice;
use crate::stores::temp_folder;
use image::Image;

const ALLOCATION_MAX: usize = 64 << 20;
const SECONDS_MAX: u64 = 10;

static PANICS: AtomicU64 = AtomicU64::new(0);

/// The result of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Error,
    Same,
    TailDrop,
    Skipped,
}

#[pumice_test_macros::test]
fn flipped_bytes_are_errors_or_harmless() {
    let folder = temp_folder();
    child::run("corruption", folder.path(), "").unwrap();
    println!("{}", std::fs::read_to_string(folder.path().join("report")).unwrap());
}

/// The child job.
pub fn run(folder: &Path, _argument: &str) -> Result<(), String> {
    std::panic::set_hook(Box::new(|info| {
        PANICS.fetch_add(1, Ordering::SeqCst);
        eprintln!("{info}");
    }));
    let image = Image::build()?;
    check_intact(&image)?;
    crate::ALLOCATOR.take_largest();
    let mut report = String::new();
    for (kind, modes) in image::KINDS {
        for mode in *modes {
            report += &flip_all(&image, kind, mode)?;
        }
    }
    let largest = crate::ALLOCATOR.take_largest();
    if largest > ALLOCATION_MAX {
        return Err(format!("a request for {largest} bytes of memory"));
    }
    report += &format!("FLIP largest allocation {largest}");
    std::fs::write(folder.join("report"), report).map_err(|e| e.to_string())
}

/// The undamaged image must open and have the right contents; the other checks would also pass on
/// one that never opens.
fn check_intact(image: &Image) -> Result<(), String> {
    match judge(image, &image.files, "kPointInTimeRecovery", true)? {
        Outcome::Same => Ok(()),
        other => Err(format!("the intact database gives {other:?}")),
    }
}

/// Flips every byte of the files of one kind; returns a line for the report.
fn flip_all(image: &Image, kind: &str, mode: &str) -> Result<String, String> {
    let mut outcomes: BTreeMap<Outcome, u64> = BTreeMap::new();
    let (mut rng, mut bytes) = (Rng::new(17), 0);
    for (name, original) in image.files.iter().filter(|(name, _)| image::is_kind(name, kind)) {
        for at in (0..original.len()).step_by(seed::one_in() as usize) {
            bytes += 1;
            for mask in [1 + rng.uniform(254) as u8, 0xff] {
                let mut files = image.files.clone();
                files.get_mut(name).expect("iterated")[at] ^= mask;
                let started = Instant::now();
                let what = format!("{name} at {at} ^ {mask:#04x}, {mode}");
                let outcome =
                    judge(image, &files, mode, at % 16 == 0).map_err(|e| format!("{what}: {e}"))?;
                if PANICS.load(Ordering::SeqCst) > 0 {
                    return Err(format!("{what}: a panic (see above)"));
                }
                if started.elapsed() > Duration::from_secs(SECONDS_MAX) {
                    return Err(format!("{what}: took {:?}", started.elapsed()));
                }
                *outcomes.entry(outcome).or_default() += 1;
            }
        }
    }
    if bytes == 0 || !outcomes.contains_key(&Outcome::Error) && kind != ".log" {
        return Err(format!("{kind}: {bytes} bytes, {outcomes:?}: nothing was noticed"));
    }
    Ok(format!("FLIP {kind} {mode} bytes={bytes} {outcomes:?} WRONG=0 PANIC=0\n"))
}

/// Opens and reads a damaged copy.
fn judge(
    image: &Image,
    files: &BTreeMap<String, Vec<u8>>,
    mode: &str,
    compact: bool,
) -> Result<Outcome, String> {
    let fs = image::file_system(files);
    let settings = image::settings().with("wal_recovery_mode", mode);
    let opened = Pumice::open_on(fs.shared(), Path::new(image::PATH), &settings);
    let Ok(mut store) = opened else { return Ok(Outcome::Error) };
    let mut found = match contents::read(&mut store, image::FAMILIES) {
        Ok(found) => found,
        // The engine's errors name a kind; the comparison's do not, and are wrong data.
        Err(error) if is_engine_error(&error) => return Ok(Outcome::Error),
        Err(error) => return Err(error),
    };
    if compact && (0..image::FAMILIES).all(|cf| store.compact(cf, None, None).is_ok()) {
        found = contents::read(&mut store, image::FAMILIES)?;
    }
    image.classify(&Model::from_entries(found), mode)
}

fn is_engine_error(text: &str) -> bool {
    ["Corruption: ", "IO error: ", "Not implemented: ", "Invalid argument: "]
        .iter()
        .any(|kind| text.starts_with(kind))
}
