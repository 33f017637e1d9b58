//! Tables of every kind between the engines: what either writes with some options, the other opens
//! with the same option text and reads in every way.
//!
//! | file | holds |
//! |---|---|
//! | `variant` | the dimensions, which combinations are valid, their option text |
//! | `sample` | which variants run: all pairs of values, or those of `PUMICE_MATRIX` |
//! | `full` | the whole matrix, by number |
//! | `content` | what is written: files on two levels, versions, deletions, range deletions |
//! | `check` | gets, absent keys, scans, prefix seeks, all against the model |
//! | `planted` | which planted bugs the sample finds, on demand |
//! | `rates` | false positives of filters, counted on both engines over the same content |
//!
//! A variant passes four times: RocksDB reads what Pumice wrote, compacts it and reads it again;
//! and the other way round. Options that Pumice refuses fail the test: nothing is skipped.

mod check;
mod content;
mod full;
#[cfg(pumice_planted)]
mod planted;
mod rates;
mod sample;
mod variant;

use std::path::{Path, PathBuf};
use std::process::Command;

use pumice_testkit::Store;

use crate::child;
use crate::stores::pumice::Pumice;
use crate::stores::rocksdb::{self, RocksDb};
use crate::stores::temp_folder;
use variant::Variant;

pub use rates::run as run_rates;

/// Variants whose databases are on disk at a time.
const BATCH: usize = 16;
const LIST: &str = "variants";
const REPORT: &str = "report";

fn of_pumice(folder: &Path, variant: &Variant) -> PathBuf {
    folder.join(variant.name()).join("pumice")
}

fn of_rocksdb(folder: &Path, variant: &Variant) -> PathBuf {
    folder.join(variant.name()).join("rocksdb")
}

fn text(error: impl ToString) -> String {
    error.to_string()
}

/// Table files of a database.
fn tables(path: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = std::fs::read_dir(path).map_err(text)?;
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(text)?.path();
        if path.extension().is_some_and(|ending| ending == "sst") {
            paths.push(path);
        }
    }
    Ok(paths)
}

/// The options were honoured, not silently dropped: every table has the index and the meta blocks
/// they ask for, and the largest has a dictionary.
fn witness(variant: &Variant, path: &Path) -> Result<(), String> {
    const DICTIONARY: &str = "rocksdb.compression_dict";
    let tables = tables(path)?;
    if tables.len() < 3 {
        return Err(format!("{} table files", tables.len()));
    }
    let mut with_dictionary = 0;
    for table in tables {
        let bytes = std::fs::read(&table).map_err(text)?;
        let holds = |name: &str| bytes.windows(name.len()).any(|some| some == name.as_bytes());
        for name in variant.meta_blocks() {
            if !holds(name) {
                return Err(format!("{} has no {name}", table.display()));
            }
        }
        with_dictionary += usize::from(holds(DICTIONARY));
        // The property's value follows its name, of which the end is stored.
        let kind = [b"index.type", &variant.index_number().to_le_bytes()[..]].concat();
        if !bytes.windows(kind.len()).any(|some| some == kind) {
            return Err(format!("{} has another index", table.display()));
        }
    }
    match variant.has_dictionary() {
        Some(wanted) if wanted != (with_dictionary > 0) => {
            Err(format!("{with_dictionary} tables have a dictionary"))
        }
        _ => Ok(()),
    }
}

/// Debian's `sst_dump` verifies tables of formats it knows.
fn sst_dump(path: &Path) -> Result<(), String> {
    for table in tables(path)? {
        let file = format!("--file={}", table.display());
        let output = Command::new("sst_dump")
            .args([file.as_str(), "--command=verify"])
            .output()
            .map_err(|e| format!("sst_dump: {e}; run `cargo xtask peers`"))?;
        let (out, err) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let ok = output.status.success() && out.contains("The file is ok");
        if !ok || err.contains("Corruption") {
            return Err(format!("sst_dump {}: {out}\n{err}", table.display()));
        }
    }
    Ok(())
}

/// Pumice writes and reads its own.
fn pumice_writes(folder: &Path, variant: &Variant) -> Result<(), String> {
    let path = of_pumice(folder, variant);
    std::fs::create_dir_all(path.parent().expect("below the folder")).map_err(text)?;
    let mut store = Pumice::open(&path, &variant.settings())?;
    let mut model = pumice_testkit::Model::new(1);
    content::write(variant, &mut store, &mut model)?;
    check::check(variant, &mut store, model.family(0))?;
    store.close()?;
    witness(variant, &path)?;
    if variant.format() == "5" { sst_dump(&path) } else { Ok(()) }
}

/// Pumice reads what RocksDB wrote, compacts it and reads it again.
fn pumice_reads(folder: &Path, variant: &Variant) -> Result<(), String> {
    let path = of_rocksdb(folder, variant);
    let model = content::expected(variant)?;
    let mut store = Pumice::open(&path, &variant.settings())?;
    check::check(variant, &mut store, model.family(0))?;
    store.compact(0, None, None)?;
    check::check(variant, &mut store, model.family(0)).map_err(|e| format!("compacted: {e}"))?;
    store.close()
}

/// RocksDB reads what Pumice wrote, compacts it and reads it again; then it writes its own.
fn rocksdb_reads_and_writes(
    peer: &pumice_peer::Peer,
    folder: &Path,
    variant: &Variant,
) -> Result<(), String> {
    let model = content::expected(variant)?;
    let (ours, theirs) = (of_pumice(folder, variant), of_rocksdb(folder, variant));
    let mut store = RocksDb::open(peer, &ours, &variant.settings())?;
    check::check(variant, &mut store, model.family(0)).map_err(|e| format!("RocksDB: {e}"))?;
    store.compact(0, None, None)?;
    check::check(variant, &mut store, model.family(0))
        .map_err(|e| format!("RocksDB, compacted: {e}"))?;
    drop(store);
    let mut store = RocksDb::open(peer, &theirs, &variant.settings())?;
    content::write(variant, &mut store, &mut pumice_testkit::Model::new(1))?;
    check::check(variant, &mut store, model.family(0))
        .map_err(|e| format!("RocksDB reads its own: {e}"))?;
    drop(store);
    witness(variant, &theirs).map_err(|e| format!("written by RocksDB: {e}"))
}

/// Child job: RocksDB's part for the variants listed in the folder. One line each goes into the
/// report; RocksDB may abort, so the line of a variant is written before it is tried.
pub fn run(folder: &Path, _argument: &str) -> Result<(), String> {
    let peer = rocksdb::load()?;
    let list = std::fs::read_to_string(folder.join(LIST)).map_err(text)?;
    for name in list.lines() {
        let variant = Variant::parse(name).ok_or_else(|| format!("no variant {name}"))?;
        std::fs::write(folder.join(REPORT), format!("while at {variant}")).map_err(text)?;
        rocksdb_reads_and_writes(&peer, folder, &variant)
            .map_err(|e| format!("{e}\n  {variant}"))?;
    }
    Ok(())
}

fn at(variant: &Variant, error: &str) -> String {
    format!("{error}\n  replay: PUMICE_MATRIX={} {variant}", variant.name())
}

fn run_batch(variants: &[Variant]) -> Result<(), String> {
    let folder = temp_folder();
    for variant in variants {
        pumice_writes(folder.path(), variant).map_err(|e| at(variant, &e))?;
    }
    let names: Vec<String> = variants.iter().map(Variant::name).collect();
    std::fs::write(folder.path().join(LIST), names.join("\n")).map_err(text)?;
    child::run("matrix", folder.path(), "").map_err(|e| {
        let report = std::fs::read_to_string(folder.path().join(REPORT)).unwrap_or_default();
        format!("{e}\n  {report}")
    })?;
    for variant in variants {
        pumice_reads(folder.path(), variant).map_err(|e| at(variant, &e))?;
    }
    Ok(())
}

/// The failures of a batch; if there are any, its variants are run one by one.
fn failures_of(variants: &[Variant]) -> Vec<String> {
    let Err(error) = run_batch(variants) else { return Vec::new() };
    let alone = variants.iter().filter_map(|one| run_batch(std::slice::from_ref(one)).err());
    let mut all: Vec<String> = alone.collect();
    if all.is_empty() {
        all.push(format!("only together with others: {error}"));
    }
    all
}

#[pumice_test_macros::test]
fn tables_of_every_kind_go_both_ways() {
    let plan = sample::plan();
    let started = std::time::Instant::now();
    let (mut done, mut failures) = (0, Vec::new());
    for batch in plan.variants.chunks(BATCH) {
        failures.extend(failures_of(batch));
        done += batch.len();
        if !plan.list.is_empty() {
            let each = started.elapsed().as_secs_f64() / done as f64;
            let (list, at, total) = (plan.list, plan.first + done, plan.total);
            println!("{list}: up to {at} of {total}, {} failed, {each:.2} s each", failures.len());
        }
    }
    let count = failures.len();
    assert!(failures.is_empty(), "{count} failures\n{}", failures.join("\n"));
    println!("{done} variants, each both ways");
}
