//! T3: the i-th I/O operation of a scenario fails, for every i until a run meets no failure, in
//! each of several ways. A call reports the failure or it does no harm; the state stays some P(k);
//! when the fault is over, the database takes writes without being reopened; what was promised
//! exists after a crash and after a clean close.

use std::sync::Arc;

use pumice_base::random::Rng;
use pumice_env::mem::{Fault, FaultOp, FaultRule, FsyncFailure};

use super::host::Host;
use super::script::{self, Call, Performer};
use super::verdict::{Count, Failure, Tally};
use super::world::{World, some_crash};

const SECOND: u64 = 1_000_000_000;

/// How operations fail: which kind, and how.
pub const WAYS: [(Option<FaultOp>, Fault); 8] = [
    (None, Fault::Eio),
    (Some(FaultOp::Write), Fault::Enospc),
    (Some(FaultOp::Sync), Fault::Fsync(FsyncFailure::ReadableThenLost)),
    (Some(FaultOp::Sync), Fault::Fsync(FsyncFailure::OldData)),
    (Some(FaultOp::Sync), Fault::Fsync(FsyncFailure::Durable)),
    (Some(FaultOp::Write), Fault::ShortWrite),
    (None, Fault::Stall(20 * SECOND)),
    (Some(FaultOp::Close), Fault::Eio),
];

/// Operations that a seed makes fail, one a run.
const TRIES: usize = 6;
/// The number of the way in which closing fails.
const CLOSING: usize = 7;
/// More operations than any scenario does.
const OPERATIONS_MAX: u64 = 3000;

/// Some operations of one scenario, failing in one way.
///
/// # Errors
/// The first thing that was wrong.
pub fn run(seed: u64, host: &mut Host, tally: &Arc<Tally>) -> Result<(), Failure> {
    let mut rng = Rng::new(seed ^ 0x73);
    let number = script::scenario_of(seed, &mut rng);
    let way = match script::scenario(number).1.calls.contains(&Call::Reopen) && rng.one_in(2) {
        // What closes should meet failing closes.
        true => CLOSING,
        false => rng.uniform(WAYS.len() as u64) as usize,
    };
    // About as many operations as a scenario has of the kind.
    let mut range = match WAYS[way].0 {
        None => 150,
        Some(FaultOp::Close) => 12,
        Some(_) => 40,
    };
    for _ in 0..TRIES {
        let i = rng.uniform(range);
        let seed = rng.next_u64();
        if !fail(number, way, i, (seed, seed), host, tally)? {
            range = i.max(1);
        }
    }
    Ok(())
}

/// Every operation of one scenario, failing in one way; how many there were.
///
/// # Errors
/// The first thing that was wrong, or nothing that could fail.
pub fn run_all(
    number: u64,
    way: usize,
    host: &mut Host,
    tally: &Arc<Tally>,
) -> Result<u64, Failure> {
    let mut i = 0;
    while i < OPERATIONS_MAX && fail(number, way, i, (i, number), host, tally)? {
        i += 1;
    }
    Ok(i)
}

/// Lets operation `i` fail under a schedule; whether there was one.
fn fail(
    number: u64,
    way: usize,
    i: u64,
    (seed, schedule): (u64, u64),
    host: &mut Host,
    tally: &Arc<Tally>,
) -> Result<bool, Failure> {
    let (name, _) = script::scenario(number);
    let (op, fault) = WAYS[way];
    let ran = host.run(schedule, || one_run(number, way, i, seed, tally));
    ran.map_err(|f| f.before(&format!("{name}: operation {i} of {op:?} fails with {fault:?}")))
}

fn one_run(
    number: u64,
    way: usize,
    i: u64,
    seed: u64,
    tally: &Arc<Tally>,
) -> Result<bool, Failure> {
    let mut rng = Rng::new(seed);
    let (_, script) = script::scenario(number);
    let (op, fault) = WAYS[way];
    let mut world = World::new(number, script.plan.clone(), Arc::clone(tally));
    let count = if rng.one_in(3) { 3 } else { 1 };
    let session = {
        let mut performer = Performer::new(&mut world, &script);
        let session = performer.perform(None, &script.before, false)?;
        let path_glob = "/db*".to_string();
        performer.world.fs.add_fault(FaultRule { op, path_glob, skip: i, count, fault });
        performer.perform(session, &script.calls, true)?
    };
    let reached = world.may_fail();
    tally.add(Count::Faults, world.fs.fault_log().len() as u64);
    let session = match session {
        Some(session) => session,
        None => Arc::new(world.open_after_faults()?),
    };
    // A third crashes with the fault still there; the others must get over it.
    if reached && rng.one_in(3) {
        world.crash(Some(session), &mut rng);
    } else {
        session.heal()?;
        session.judge_live()?;
        if rng.one_in(2) {
            let (crash, mode) = some_crash(&mut rng);
            world.crash_as(Some(session), crash, mode, rng.next_u64());
        } else if let Err(error) = session.close() {
            // What was under way when the fault ended has failed after all.
            session.excuse(error.into())?;
            world.process_ended();
        }
    }
    let session = world.open_and_judge()?;
    session.must(session.probe(true), "write")?;
    session.must(session.close().map_err(Into::into), "close")?;
    drop(session);
    let session = world.open_and_judge()?;
    session.check_files()?;
    Ok(reached)
}
