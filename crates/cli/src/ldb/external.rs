//! Commands about external table files: making one from lines, taking one in.
//!
//! RocksDB's ldb reports success on stderr, so this does too.

use std::io::BufRead;
use std::path::Path;

use super::open::text as failure;
use super::opened::Opened;
use super::{Failure, Invocation};
use crate::arguments;
use crate::output::Output;
use crate::text::parse;
use pumice::{
    CompactRangeOptions, Db, FlushOptions, IngestExternalFileOptions, Options, SstFileWriter,
    WriteBatch, WriteOptions,
};
use pumice_port::os;

/// Between key and value in a line.
const DELIMITER: &[u8] = b" ==> ";
/// Beginnings of lines that `dump` prints besides the pairs.
const NO_PAIRS: &[&[u8]] = &[b"Keys in range:", b"Created bg thread 0x"];

/// Calls `take` with key and value of each line on standard input, which are bytes up to a line
/// feed, and counts the lines that are no pairs.
fn for_each_pair(
    it: &Invocation,
    mut take: impl FnMut(&[u8], &[u8]) -> Result<(), Failure>,
) -> Result<u64, Failure> {
    let mut bad_lines = 0;
    let meter = it.progress.meter();
    // Pipes have no length.
    meter.expect(os::stat(Path::new("/proc/self/fd/0")).map_or(0, |stat| stat.bytes));
    for line in std::io::stdin().lock().split(b'\n') {
        let line = line.map_err(|error| format!("reading standard input: {error}"))?;
        meter.add(line.len() as u64 + 1);
        match line.windows(DELIMITER.len()).position(|window| window == DELIMITER) {
            Some(at) => {
                let (key, value) = (&line[..at], &line[at + DELIMITER.len()..]);
                take(&parse(key, it.key_hex)?, &parse(value, it.value_hex)?)?;
            }
            None if NO_PAIRS.iter().any(|start| line.starts_with(start)) => {}
            None => bad_lines += 1,
        }
    }
    Ok(bad_lines)
}

/// `write_extern_sst <path>`: the pairs on standard input, `key ==> value` lines in ascending
/// order, become a table file.
pub fn write_extern_sst(it: &Invocation, _out: &mut Output) -> Result<(), Failure> {
    let [path] = it.arguments.words.as_slice() else {
        return Err("output SST file path must be specified".into());
    };
    let opened = it.open::<Db>()?;
    let options = Options {
        db: (*opened.db.options()).clone(),
        cf: (*opened.db.column_family_options(&opened.cf).map_err(failure)?).clone(),
    };
    let mut writer = SstFileWriter::for_column_family(&options, &opened.cf).map_err(failure)?;
    let path = arguments::path(path);
    let opening = writer.open(path);
    opening.map_err(|error| format!("failed to open SST file: {error}"))?;
    let bad_lines = for_each_pair(it, |key, value| {
        let added = writer.put(key, value);
        added.map_err(|error| format!("failed to write record to file: {error}"))
    })?;
    let finished = writer.finish();
    finished.map_err(|error| format!("Failed to finish writing to file: {error}"))?;
    opened.db.close().map_err(failure)?;
    if bad_lines > 0 {
        eprintln!("Warning: {bad_lines} bad lines ignored.");
    }
    eprintln!("external SST file written to {}", path.display());
    Ok(())
}

/// `ingest_extern_sst <path>`
pub fn ingest_extern_sst(it: &Invocation, _out: &mut Output) -> Result<(), Failure> {
    let [path] = it.arguments.words.as_slice() else {
        return Err("input SST path must be specified".into());
    };
    let flag = |name: &str, default: bool| it.arguments.switch(name).unwrap_or(default);
    let options = IngestExternalFileOptions {
        move_files: flag("move_files", false),
        snapshot_consistency: flag("snapshot_consistency", true),
        allow_global_seqno: flag("allow_global_seqno", true),
        allow_blocking_flush: flag("allow_blocking_flush", true),
        ingest_behind: flag("ingest_behind", false),
        write_global_seqno: flag("write_global_seqno", true),
        ..IngestExternalFileOptions::default()
    };
    if options.write_global_seqno && !options.allow_global_seqno {
        return Err("ldb cannot write global_seqno to the ingested SST when global_seqno is not \
                    allowed"
            .into());
    }
    if !options.write_global_seqno {
        eprintln!(
            "Warning: not writing global_seqno to the ingested SST can\nprevent older versions of \
             RocksDB from being able to open it"
        );
    }
    let opened = it.open::<Db>()?;
    let ingested =
        opened.db.ingest_external_file_cf(&options, &opened.cf, &[arguments::path(path)]);
    ingested.map_err(|error| format!("failed to ingest external SST: {error}"))?;
    opened.db.close().map_err(failure)?;
    eprintln!("external SST files ingested");
    Ok(())
}

/// Pairs that `load` writes at once.
const LOAD_BATCH: u32 = 1000;

/// `load`: the pairs on standard input, `key ==> value` lines as `dump` prints them, are put.
pub fn load(it: &Invocation, out: &mut Output) -> Result<(), Failure> {
    let opened = it.open::<Db>()?;
    let (db, cf) = (&opened.db, &opened.cf);
    let manual = db.column_family_options(cf).map_err(failure)?.disable_auto_compactions;
    let set_manual = |on: bool| {
        db.set_options_cf(cf, &[("disable_auto_compactions", &on.to_string())]).map_err(failure)
    };
    let bulk = it.arguments.flag("bulk_load");
    if bulk {
        set_manual(true)?;
    }
    let loaded = load_lines(it, &opened).and_then(|bad_lines| {
        if it.arguments.flag("compact") {
            let options = CompactRangeOptions::default();
            db.compact_range_cf(&options, cf, None, None).map_err(failure)?;
        }
        Ok(bad_lines)
    });
    if bulk {
        set_manual(manual)?;
    }
    let bad_lines = loaded?;
    if it.arguments.flag("disable_wal") {
        db.flush_cfs_opt(&FlushOptions::default(), &[cf]).map_err(failure)?;
    }
    db.close().map_err(failure)?;
    if bad_lines > 0 {
        out.text(&format!("Warning: {bad_lines} bad lines ignored.\n"));
    }
    Ok(())
}

/// Puts the lines, and counts those that are not pairs.
fn load_lines(it: &Invocation, opened: &Opened<Db>) -> Result<u64, Failure> {
    let options =
        WriteOptions { disable_wal: it.arguments.flag("disable_wal"), ..WriteOptions::default() };
    let mut batch = WriteBatch::new();
    let bad_lines = for_each_pair(it, |key, value| {
        batch.put_cf(opened.cf.id(), key, value);
        if batch.count() >= LOAD_BATCH {
            opened.db.write_opt(&options, &mut batch).map_err(failure)?;
            batch.clear();
        }
        Ok(())
    })?;
    opened.db.write_opt(&options, &mut batch).map_err(failure)?;
    Ok(bad_lines)
}
