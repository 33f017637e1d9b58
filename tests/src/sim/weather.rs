//! Faults that come and go while a database works.

use pumice_base::random::Rng;
use pumice_env::mem::{Fault, FaultOp, FaultRule, FsyncFailure};

use super::session::Session;
use super::world::trace;

const FILES: [&str; 8] =
    ["/db*", "/db*", "/db*", "*.log", "*.log", "*.sst", "*MANIFEST-*", "*CURRENT*"];

/// In seconds.
const YEAR: i64 = 365 * 86_400;

/// A fault on some kind of operation.
fn some_fault(rng: &mut Rng) -> (Option<FaultOp>, Fault) {
    let syncs = [FsyncFailure::ReadableThenLost, FsyncFailure::OldData, FsyncFailure::Durable];
    match rng.uniform(14) {
        0 => (Some(FaultOp::Create), Fault::Eio),
        1 => (Some(FaultOp::Create), Fault::Emfile),
        2 => (Some(FaultOp::Open), Fault::Emfile),
        3 => (Some(FaultOp::Read), Fault::Eio),
        4 => (Some(FaultOp::Write), Fault::Eio),
        5 => (Some(FaultOp::Write), Fault::Enospc),
        6 => (Some(FaultOp::Write), Fault::ShortWrite),
        7..10 => (Some(FaultOp::Sync), Fault::Fsync(syncs[rng.uniform(3) as usize])),
        10 => (Some(FaultOp::SyncDir), Fault::Eio),
        11 => (Some(FaultOp::Rename), Fault::Eio),
        12 => (Some(FaultOp::Remove), Fault::Eio),
        _ => (None, Fault::Eio),
    }
}

/// Starts a fault: once, a few times, or until it is ended; or the disk runs full.
pub fn strike(session: &Session, rng: &mut Rng) {
    if rng.one_in(6) {
        session.fill_disk(rng.uniform(3000));
        return;
    }
    if rng.uniform(8) < 2 {
        // Nothing that the engine does may depend on the time of day.
        let years = if rng.one_in(2) { -10 } else { 10 };
        let rule =
            FaultRule::once(FaultOp::Write, "/db*", rng.uniform(4), Fault::WallJump(years * YEAR));
        session.fs.add_fault(rule);
    }
    let (op, fault) = some_fault(rng);
    let path_glob = FILES[rng.uniform(FILES.len() as u64) as usize].to_string();
    let count = match rng.uniform(3) {
        0 => 1,
        1 => 1 + rng.uniform(4),
        _ => u64::MAX,
    };
    let rule = FaultRule { op, path_glob, skip: rng.skewed(4), count, fault };
    trace(format_args!("weather: {rule:?}"));
    session.fs.add_fault(rule);
}
