//! T2: a crash at every boundary between two changes of the disk, in 320 short workloads, and of
//! each crash several images: what each leaves must be recovered, written to, and recovered again.
//!
//! Which boundaries and images a seed takes is chosen for what they can show: half of the
//! boundaries lie right after a write, which is where images differ most, with an equal share for
//! logs, MANIFESTs, tables and the rest; a quarter where a call has returned and nothing is under
//! way, so that only promises count; the rest anywhere. After a write two images leave any of its
//! sectors; after a call one leaves nothing that was not synced.
//!
//! Where only the process died, the MANIFEST is whole; then a copy with a damaged byte in it must
//! be refused, since no crash damages a byte, and a recovery must not drop what was acknowledged.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pumice_base::random::Rng;
use pumice_env::FileSystem;
use pumice_env::mem::{CrashMode, FaultOp, FileLoss, NameLoss};
use pumice_testkit::oracle::Crash;

use super::host::Host;
use super::script::{self, Performer, Script};
use super::session::Session;
use super::verdict::{Count, Failure, Kind, Tally};
use super::world::{DIR, World, some_crash};

/// What a crash may leave of the same moment.
pub const IMAGES: [(Crash, CrashMode); 8] = [
    (Crash::Process, CrashMode::PROCESS),
    (Crash::Power, CrashMode::UNSYNCED),
    (Crash::Power, CrashMode { files: FileLoss::Nothing, names: NameLoss::Unsynced }),
    (Crash::Power, CrashMode { files: FileLoss::Prefix, names: NameLoss::Journal }),
    (Crash::Power, CrashMode { files: FileLoss::Torn, names: NameLoss::Strict }),
    (Crash::Power, CrashMode { files: FileLoss::Sectors, names: NameLoss::Strict }),
    (Crash::Power, CrashMode { files: FileLoss::SizeFirst, names: NameLoss::Journal }),
    (Crash::Power, CrashMode::MIXED),
];

/// The number of the image that leaves what was synced.
const UNSYNCED: usize = 1;
/// The number of the one that leaves any sectors of a write.
const SECTORS: usize = 5;
/// Boundaries per seed.
const BOUNDARIES: usize = 8;

/// Where a workload may be cut off.
struct Boundaries {
    /// Changes of the disk.
    changes: u64,
    /// The boundaries right after writes, by kind of file.
    writes: Vec<Vec<u64>>,
    /// Boundaries at which a call has returned.
    returns: Vec<u64>,
}

impl Boundaries {
    fn new(ops: &[(FaultOp, PathBuf)], returns: Vec<u64>) -> Self {
        let mut kinds: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
        for (behind, (op, path)) in (1..).zip(ops) {
            if *op == FaultOp::Write {
                kinds.entry(kind_of(path)).or_default().push(behind);
            }
        }
        let (changes, writes) = (ops.len() as u64, kinds.into_values().collect());
        Boundaries { changes, writes, returns }
    }

    /// A boundary, and the numbers of images to examine.
    fn choose(&self, rng: &mut Rng) -> (u64, Vec<usize>) {
        fn one_of<'a, T>(rng: &mut Rng, list: &'a [T]) -> Option<&'a T> {
            list.get(rng.uniform(list.len().max(1) as u64) as usize)
        }
        let way = rng.uniform(4);
        let chosen = match way {
            0 | 1 => one_of(rng, &self.writes).and_then(|list| one_of(rng, list)),
            2 => one_of(rng, &self.returns),
            _ => None,
        };
        let boundary = chosen.copied().unwrap_or_else(|| rng.uniform(self.changes + 1));
        let mut any = || rng.uniform(IMAGES.len() as u64) as usize;
        let images = match way {
            0 | 1 => vec![SECTORS, SECTORS, any()],
            2 => vec![UNSYNCED, any(), any()],
            _ => vec![any(), any(), any()],
        };
        (boundary, images)
    }
}

fn kind_of(path: &Path) -> usize {
    let path = path.to_string_lossy();
    let kinds = [".log", "MANIFEST-", ".sst"];
    kinds.iter().position(|kind| path.contains(kind)).unwrap_or(kinds.len())
}

/// Some boundaries and images of one workload.
///
/// # Errors
/// The first thing that was wrong.
pub fn run(seed: u64, host: &mut Host, tally: &Arc<Tally>) -> Result<(), Failure> {
    let mut rng = Rng::new(seed ^ 0x72);
    let number = script::workload_of(seed, &mut rng);
    let case = Case { number, schedule: rng.next_u64() };
    let boundaries = find_boundaries(case, host, tally)?;
    for _ in 0..BOUNDARIES {
        let (boundary, images) = boundaries.choose(&mut rng);
        crash_at(case, boundary, &images, host, tally)?;
    }
    Ok(())
}

/// Every boundary and image of one workload; how many boundaries there were.
///
/// # Errors
/// The first thing that was wrong.
pub fn run_all(number: u64, host: &mut Host, tally: &Arc<Tally>) -> Result<u64, Failure> {
    let case = Case { number, schedule: number };
    let changes = find_boundaries(case, host, tally)?.changes;
    let images: Vec<usize> = (0..IMAGES.len()).collect();
    for boundary in 0..=changes {
        crash_at(case, boundary, &images, host, tally)?;
    }
    Ok(changes + 1)
}

fn prepare(number: u64, tally: &Arc<Tally>) -> (World, Script) {
    let script = script::workload(number);
    (World::new(number, script.plan.clone(), Arc::clone(tally)), script)
}

/// A workload under a schedule: every run of it makes the same changes of the disk up to its crash.
#[derive(Clone, Copy)]
struct Case {
    number: u64,
    schedule: u64,
}

/// The changes of the disk that a workload makes.
fn find_boundaries(case: Case, host: &mut Host, tally: &Arc<Tally>) -> Result<Boundaries, Failure> {
    let Case { number, schedule } = case;
    host.run(schedule, || {
        let (mut world, script) = prepare(number, tally);
        world.fs.note_changes();
        let (mut returns, mut session) = (Vec::new(), None);
        let mut performer = Performer::new(&mut world, &script);
        for call in script.before.iter().chain(&script.calls) {
            session = performer.perform(session, std::slice::from_ref(call), false)?;
            returns.push(performer.world.changes_ever());
        }
        let ops = world.fs.noted_changes();
        drop(session);
        Ok(Boundaries::new(&ops, returns))
    })
    .map_err(|failure| failure.before(&format!("workload {number}, no crash")))
}

fn crash_at(
    case: Case,
    boundary: u64,
    images: &[usize],
    host: &mut Host,
    tally: &Arc<Tally>,
) -> Result<(), Failure> {
    let Case { number, schedule } = case;
    let ran = host.run(schedule, || {
        let (mut world, script) = prepare(number, tally);
        // As when the boundaries were searched for: taking notes is a step of the schedule.
        world.fs.note_changes();
        world.die_after(boundary);
        let session = {
            let mut performer = Performer::new(&mut world, &script);
            let session = performer.perform(None, &script.before, false)?;
            performer.perform(session, &script.calls, false)?
        };
        world.fs.halt_after(0);
        for (number, image) in images.iter().enumerate() {
            recover(&world, boundary, *image, number as u64)
                .map_err(|failure| failure.before(&format!("image {:?}", IMAGES[*image])))?;
        }
        // The dead process was alive all the time, and tried to go on.
        drop(session);
        Ok(())
    });
    ran.map_err(|failure| {
        let words = format!("workload {number}, crash after change {boundary}");
        let text = format!("{}\n{:?}", failure.text, script::workload(number));
        Failure { text, ..failure }.before(&words)
    })
}

/// Recovers one image; some crash again in the middle of that. `salt` distinguishes images of one
/// kind.
fn recover(dead: &World, boundary: u64, image: usize, salt: u64) -> Result<(), Failure> {
    let (mut crash, mut mode) = IMAGES[image];
    let mut rng = Rng::new((salt << 40) ^ (boundary * IMAGES.len() as u64 + image as u64));
    let mut world = dead.fork(dead.fs.crashed_copy(rng.next_u64(), mode));
    world.history.lock().crash(if dead.lost_a_sync() { Crash::Power } else { crash });
    world.side.lock().crash();
    world.tally.add(Count::Crashes, 1);
    if rng.one_in(2) {
        world.fs.halt_after(rng.uniform(16));
        let opened = world.open().ok().map(Arc::new);
        world.tally.add(Count::InRecovery, u64::from(opened.is_none()));
        if rng.one_in(2) {
            (crash, mode) = some_crash(&mut rng);
        }
        world.crash_as(opened, crash, mode, rng.next_u64());
    }
    if image == 0 && crash == Crash::Process {
        refuse_damage(&world, boundary)?;
    }
    let session = world.open_and_judge()?;
    go_on(&session, &mut rng)?;
    if rng.one_in(2) {
        world.crash(Some(Arc::new(session)), &mut rng);
        let again = world.open_and_judge().map_err(|f| f.before("the second time"))?;
        again.must(again.close().map_err(Into::into), "close")?;
    } else {
        session.must(session.close().map_err(Into::into), "close")?;
        drop(session);
        let again = world.open_and_judge().map_err(|f| f.before("after a clean close"))?;
        again.check_files()?;
    }
    Ok(())
}

/// Checks that a recovered database takes writes and flushes.
fn go_on(session: &Session, rng: &mut Rng) -> Result<(), Failure> {
    session.must(session.probe(true), "write")?;
    if rng.one_in(2) {
        session.must(session.flush(0), "flush")?;
    }
    session.must(session.probe(rng.one_in(2)), "write")
}

/// A MANIFEST with a damaged byte in one of its last records is refused.
fn refuse_damage(world: &World, boundary: u64) -> Result<(), Failure> {
    let mut rng = Rng::new(boundary ^ 0xda_0000);
    let failed = |e: pumice::Error| Failure::new(Kind::Wrong, format!("damaging a copy: {e}"));
    let current = Path::new(DIR).join("CURRENT");
    if !world.fs.exists(&current).map_err(failed)? {
        return Ok(());
    }
    let copy = world.fork(world.fs.crashed_copy(0, CrashMode::PROCESS));
    let name = copy.fs.read_file(&current).map_err(failed)?;
    let manifest = Path::new(DIR).join(String::from_utf8_lossy(&name).trim_end());
    let mut place = 0;
    let damage = |bytes: &mut Vec<u8>| {
        place = bytes.len() - 1 - rng.uniform(bytes.len().min(400) as u64) as usize;
        // Not to zero: a byte that is alone in its sector may have been torn off.
        bytes[place] ^= if bytes[place] == 0x40 { 0x41 } else { 0x40 };
    };
    copy.fs.damage(&manifest, damage).map_err(failed)?;
    match copy.open() {
        Err(e) if e.is_corruption() => Ok(()),
        Err(e) => Err(Failure::new(Kind::Wrong, format!("a damaged MANIFEST: {e}"))),
        Ok(_) => {
            let text = format!("{} was damaged at {place} and used", manifest.display());
            Err(Failure::new(Kind::Wrong, text))
        }
    }
}
