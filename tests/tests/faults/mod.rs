//! One I/O operation fails, each in turn, until a run meets no failure.
//!
//! A short script (writes, flushes, a compaction, a clean reopen) runs on the in-memory file
//! system; the i-th operation of a kind fails in a given way. A call that returned Ok must hold
//! what it promises all the same; after the first error the database is opened again without
//! faults, once as it is and once after a power cut, must hold a state that the write options
//! allow, and must take writes. The operations of the info log fail in the first way of each kind
//! only; in the others there is none. The suite runs in a child process: a hang fails it.

use std::path::Path;

use pumice::WriteOptions;
use pumice_env::MemFs;
use pumice_env::mem::{CrashMode, Fault, FaultOp, FaultRule, FsyncFailure};
use pumice_testkit::oracle::{Crash, CrashOracle, Logging};
use pumice_testkit::{Model, OpGenerator, Shape, Store, contents, seed};

use crate::child;
use crate::stores::pumice::Pumice;
use crate::stores::{Settings, temp_folder};

const FAMILIES: usize = 2;
/// More operations of one kind than the script does.
const OPERATIONS_MAX: u64 = 2000;
/// Room for all blocks.
const CACHE_BYTES: usize = 1 << 20;

const FAULTS: &[(FaultOp, Fault)] = &[
    (FaultOp::Create, Fault::Eio),
    (FaultOp::Create, Fault::Emfile),
    (FaultOp::Open, Fault::Eio),
    (FaultOp::Read, Fault::Eio),
    (FaultOp::Write, Fault::Eio),
    (FaultOp::Write, Fault::Enospc),
    (FaultOp::Write, Fault::ShortWrite),
    (FaultOp::Sync, Fault::Fsync(FsyncFailure::ReadableThenLost)),
    (FaultOp::Sync, Fault::Fsync(FsyncFailure::OldData)),
    (FaultOp::Sync, Fault::Fsync(FsyncFailure::Durable)),
    (FaultOp::SyncDir, Fault::Eio),
    (FaultOp::Rename, Fault::Eio),
    (FaultOp::Remove, Fault::Eio),
    (FaultOp::Close, Fault::Eio),
    (FaultOp::Stat, Fault::Eio),
    (FaultOp::List, Fault::Eio),
];

#[pumice_test_macros::test]
fn any_single_failure_keeps_the_promises() {
    let folder = temp_folder();
    child::run("faults", folder.path(), "").unwrap();
    println!("{}", std::fs::read_to_string(folder.path().join("report")).unwrap());
}

/// The child job.
pub fn run(folder: &Path, _argument: &str) -> Result<(), String> {
    let mut report = String::new();
    for (way, (op, fault)) in FAULTS.iter().enumerate() {
        let info_log = !FAULTS[..way].iter().any(|(earlier, _)| earlier == op);
        let (mut runs, mut errors, mut ended) = (0, 0, false);
        for skip in (0..OPERATIONS_MAX).step_by(seed::one_in() as usize) {
            let rule = FaultRule::once(*op, "/db*", skip, *fault);
            let outcome = [None, Some(Crash::Power)].map(|crash| one_run(&rule, crash, info_log));
            let [calm, power] = outcome;
            let what = format!("operation {skip} of kind {op:?} fails with {fault:?}");
            let calm = calm.map_err(|e| format!("{what}: {e}"))?;
            power.map_err(|e| format!("{what}, then a power cut: {e}"))?;
            if calm == Outcome::NotReached {
                ended = true;
                break;
            }
            runs += 1;
            errors += u64::from(calm == Outcome::Surfaced);
        }
        if runs == 0 || !ended {
            return Err(format!("{op:?}: {runs} runs show nothing"));
        }
        report += &format!("FAULT {op:?} {fault:?} runs={runs} surfaced={errors} lost=0\n");
    }
    std::fs::write(folder.join("report"), report).map_err(|e| e.to_string())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// The script ended before the operation that was to fail.
    NotReached,
    /// The failure happened and no call reported it.
    Hidden,
    /// A call reported it.
    Surfaced,
}

fn one_run(rule: &FaultRule, crash: Option<Crash>, info_log: bool) -> Result<Outcome, String> {
    let mut fs = MemFs::new(rule.skip);
    let mut oracle = CrashOracle::new(FAMILIES, Logging::Wal);
    fs.add_fault(rule.clone());
    let failed = script(&fs, info_log, &mut oracle);
    let reached = !fs.fault_log().is_empty();
    if let (Err(error), false) = (&failed, reached) {
        return Err(format!("an error without a fault: {error}"));
    }
    fs.clear_faults();
    // A failed sync may lose what was not durable, as a power cut does.
    let loses = matches!(rule.fault, Fault::Fsync(how) if how != FsyncFailure::Durable);
    oracle.crash(crash.unwrap_or(if loses { Crash::Power } else { Crash::Process }));
    if crash.is_some() {
        fs = fs.crashed_copy(rule.skip, CrashMode::MIXED);
    }
    let mut store = open(&fs, false).map_err(|e| format!("open without faults: {e}"))?;
    let found = Model::from_entries(contents::read(&mut store, FAMILIES)?);
    oracle.recovered(&found).map_err(|e| format!("{e}; the script: {failed:?}"))?;
    work(&mut store, &mut oracle, 99).map_err(|e| format!("work without faults: {e}"))?;
    store.close().map_err(|e| format!("close without faults: {e}"))?;
    let mut store = open(&fs, false).map_err(|e| format!("second open without faults: {e}"))?;
    oracle.recovered(&Model::from_entries(contents::read(&mut store, FAMILIES)?))?;
    Ok(match (reached, failed) {
        (false, _) => Outcome::NotReached,
        (true, Ok(())) => Outcome::Hidden,
        (true, Err(_)) => Outcome::Surfaced,
    })
}

fn open(fs: &MemFs, info_log: bool) -> Result<Pumice, String> {
    let mut settings = Settings::small(FAMILIES)
        .with("level0_file_num_compaction_trigger", "2")
        .with("max_bgerror_resume_count", "0");
    settings.cache_bytes = Some(CACHE_BYTES);
    settings.info_log = info_log;
    Pumice::open_on(fs.shared(), Path::new("/db"), &settings)
}

/// Writes, flushes, compacts, reopens; ends at the first error.
fn script(fs: &MemFs, info_log: bool, oracle: &mut CrashOracle) -> Result<(), String> {
    let mut store = open(fs, info_log)?;
    work(&mut store, oracle, 1)?;
    store.reopen()?;
    work(&mut store, oracle, 2)?;
    store.close()
}

fn work(store: &mut Pumice, oracle: &mut CrashOracle, seed: u64) -> Result<(), String> {
    let shape = Shape {
        families: FAMILIES,
        prefix: format!("{seed:02}"),
        keys: 10,
        value_bytes_max: 50,
        batch_ops_max: 4,
        range_deletions_per_mille: 50,
    };
    let mut generator = OpGenerator::new(shape, seed);
    for n in 0..18 {
        let batch = generator.batch();
        let options = WriteOptions { sync: n % 5 == 4, ..WriteOptions::default() };
        oracle.issue(&batch);
        store.write_with(&batch, &options)?;
        oracle.acknowledge(options.sync);
        if n % 6 == 5 {
            let cf = n / 6 % FAMILIES;
            store.flush(cf)?;
            oracle.flushed(cf);
        }
    }
    store.db().flush_wal(true).map_err(|e| e.to_string())?;
    oracle.wal_flushed(true);
    (0..FAMILIES).try_for_each(|cf| store.compact(cf, None, None))
}
