//! `openandcompact`: all tables of the default column family, compacted as a worker of a compaction
//! service does it, beside the database. The database stays as it is.
//!
//! Thread safety: one at a time, in the directory `openandcompact_0` of `--secondary_path`.

use super::engine::{BenchDb, CompactionInput, OpenAndCompact, Result};
use super::secondary::secondary_dir;
use super::worker::{Worker, during};
use super::{directory, pumice_engine::text};
use pumice::options::CompactionServiceOptionsOverride;
use pumice::{
    CancelFlag, CompactionServiceInput, Db, ErrorKind, FileSystem, OpenAndCompactOptions,
};
use pumice_env::filename::{FileType, parse};
use pumice_port::thread;
use pumice_port::time::now_micros;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Runs of the process so far: with `--openandcompact_test_cancel_on_odd` odd ones are cancelled.
static RUNS: AtomicU64 = AtomicU64::new(0);

/// One run.
///
/// # Errors
/// It failed, or could not begin.
pub fn run<D: BenchDb>(worker: &mut Worker<'_, D>) -> Result<()> {
    let run = RUNS.fetch_add(1, Ordering::Relaxed) + 1;
    let flags = &worker.shared.flags;
    let cancelled = flags.openandcompact_test_cancel_on_odd && run % 2 == 1;
    if flags.openandcompact_test_cancel_on_odd {
        let kind = if cancelled { "odd - will cancel" } else { "even - normal" };
        println!("\n--- Run {run} ({kind}) ---");
    }
    let level = usize::try_from(flags.num_levels - 1).unwrap_or(0);
    let output = secondary_dir(flags, &directory(&flags.db, "dbbench")).join("openandcompact_0");
    let after = u64::from(flags.openandcompact_cancel_after_millseconds);
    let cancel = cancelled.then(|| Duration::from_millis(after));
    let db = &worker.shared.db;
    let input = during("openandcompact", db.compaction_input(level))?;
    println!("\nInput files: {} files, {} keys", input.files, input.keys);
    let start = now_micros();
    let done = during("openandcompact", db.open_and_compact(&output, &input, cancel))?;
    let micros = (now_micros() - start) as f64;
    let seconds = micros / 1e6;
    println!("OpenAndCompact() API call : {micros:.3} micros/op {seconds:.3} seconds/op");
    match &done {
        OpenAndCompact::Done(..) => println!("OpenAndCompact status: OK"),
        OpenAndCompact::Canceled(words) => println!("OpenAndCompact status: {words}"),
    }
    match done {
        OpenAndCompact::Done(..) if cancelled => println!("Fail to cancel compaction"),
        OpenAndCompact::Done(files, bytes) => {
            let mean = bytes.checked_div(files).unwrap_or(0);
            let mib = mean as f64 / 1_048_576.0;
            println!("Output: {files} files, average size: {mean} bytes ({mib:.2} MB)");
        }
        OpenAndCompact::Canceled(_) => {}
    }
    Ok(())
}

/// What a worker is given to compact all tables of `db` into `level`.
///
/// # Errors
/// The directory cannot be listed.
pub fn input(db: &Db, fs: &dyn FileSystem, level: usize) -> Result<CompactionInput> {
    let files = db.live_files_metadata();
    let files: Vec<_> =
        files.into_iter().filter(|file| file.column_family_name == "default").collect();
    let names = fs.list(db.path()).map_err(text)?;
    let options = names.iter().filter_map(|name| match parse(name) {
        Some((number, FileType::Options)) => Some(number),
        _ => None,
    });
    let input = CompactionServiceInput {
        cf_name: "default".into(),
        input_files: files.iter().map(|file| file.file_number).collect(),
        output_level: i32::try_from(level).map_err(|error| error.to_string())?,
        db_id: db.db_identity().into(),
        options_file_number: options.max().unwrap_or(0),
        ..CompactionServiceInput::default()
    };
    Ok(CompactionInput {
        files: files.len(),
        keys: files.iter().map(|file| file.num_entries).sum(),
        text: input.write(),
    })
}

/// The compaction, into the emptied directory `output`.
///
/// # Errors
/// It failed for another reason than that it was cancelled.
pub fn compact(
    db: &Db,
    over: &CompactionServiceOptionsOverride,
    output: &Path,
    input: &CompactionInput,
    cancel: Option<Duration>,
) -> Result<OpenAndCompact> {
    let fs = &over.options.db.file_system;
    for name in fs.list(output).unwrap_or_default() {
        fs.remove(&output.join(name)).map_err(text)?;
    }
    let canceled = CancelFlag::default();
    let timer = cancel.map(|after| {
        let canceled = canceled.clone();
        thread::spawn("cancellation", move || {
            thread::sleep(after);
            canceled.set(true);
        })
    });
    let options = OpenAndCompactOptions { canceled: Some(canceled) };
    let done = pumice::open_and_compact(&options, db.path(), output, &input.text, over);
    if let Some(timer) = timer {
        timer.join().map_err(|_| "the timer panicked".to_string())?;
    }
    match done {
        Ok(_) => {}
        Err(error) if cancel.is_some() && error.kind() == ErrorKind::Incomplete => {
            return Ok(OpenAndCompact::Canceled(text(error)));
        }
        Err(error) => return Err(text(error)),
    }
    let (mut files, mut bytes) = (0, 0);
    for name in fs.list(output).map_err(text)? {
        if matches!(parse(&name), Some((_, FileType::Table))) {
            files += 1;
            bytes += fs.file_size(&output.join(name)).map_err(text)?;
        }
    }
    Ok(OpenAndCompact::Done(files, bytes))
}
