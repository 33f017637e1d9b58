//! T1: random lives. A database is opened, worked on by several tasks, hit by faults, crashes
//! (in the middle of anything, recovery included) or closes, and is opened again, a few times.
//!
//! The tasks of one stage: writers with keys in common; readers that judge what they see; upkeep
//! (flushes, compactions, families that come and go); the weather, which starts faults, ends them
//! and checks that the database works again; in some lives tasks that ingest external files, in
//! some operators that call everything else a database offers (`operate`).

use std::sync::Arc;

use pumice_base::random::Rng;
use pumice_port::sync::Mutex;
use pumice_port::thread;
use pumice_testkit::{OpGenerator, Shape, op};

use super::external::Packer;
use super::operate;
use super::plan;
use super::reads::Reader;
use super::session::{Session, Stop};
use super::side;
use super::verdict::{Count, Failure, Kind, Tally};
use super::weather;
use super::world::World;

struct Life {
    rng: Rng,
    world: World,
    /// Numbers generators, so that no two make equal values or touch each other's `s` keys.
    generators: u64,
    /// Decides what ingestions do; None in lives without. Separate from `rng`, so that lives
    /// without ingestions are what they were before ingestions were added.
    ingestion: Option<Rng>,
    /// The same for what operators do.
    operation: Option<Rng>,
}

/// Whether `seed` has ingestions: two in five have, in neighbours that differ in all else.
pub fn ingests(seed: u64) -> bool {
    matches!(seed / 16 % 5, 2 | 4)
}

/// Whether `seed` has operators: two in five have, every other one with ingestions as well.
fn operates(seed: u64) -> bool {
    matches!(seed / 16 % 5, 1 | 4)
}

/// Lives the life of `seed`.
///
/// # Errors
/// The first thing that was wrong.
pub fn run(seed: u64, tally: &Arc<Tally>) -> Result<(), Failure> {
    let mut rng = Rng::new(seed ^ 0x11fe);
    let mut plan = plan::random(&mut rng);
    if seed % 11 == 4 {
        plan::lengthen_keys(&mut plan);
    }
    plan.behind = ingests(seed) && seed.is_multiple_of(2);
    let world = World::new(rng.next_u64(), plan, Arc::clone(tally));
    let ingestion = ingests(seed).then(|| Rng::new(seed ^ 0x1de57));
    let operation = operates(seed).then(|| Rng::new(seed ^ 0x0be7a7e));
    let mut life = Life { rng, world, generators: 0, ingestion, operation };
    let lived = life.live();
    lived.map_err(|failure| {
        let text = format!("{}\nplan {:?}", failure.text, life.world.plan);
        Failure { text, ..failure }
    })
}

/// What a task of a stage does.
type Body = Box<dyn FnOnce(&Session) -> Result<(), Failure> + Send>;

impl Life {
    fn live(&mut self) -> Result<(), Failure> {
        for _ in 0..1 + self.rng.uniform(3) {
            let session = Arc::new(self.open_through_crashes()?);
            self.work(&session)?;
            self.end(session)?;
        }
        let session = self.world.open_and_judge()?;
        session.judge_reads_under_faults(&mut self.rng)?;
        session.close().map_err(|e| Failure::new(Kind::Wrong, format!("last close: {e}")))?;
        drop(session);
        let session = self.world.open_and_judge()?;
        session.check_files()?;
        session.close().map_err(|e| Failure::new(Kind::Wrong, format!("very last close: {e}")))
    }

    /// Opens; some of the attempts crash.
    fn open_through_crashes(&mut self) -> Result<Session, Failure> {
        for _ in 0..self.rng.uniform(3) {
            self.world.fs.halt_after(self.rng.uniform(25));
            // The disk may have died at the very end. Data read from it then cannot be
            // distinguished from data in memory, so the crash comes before anything is judged.
            let opened = self.world.open().ok().map(Arc::new);
            if opened.is_none() {
                self.world.tally.add(Count::InRecovery, 1);
            }
            self.world.crash(opened, &mut self.rng);
        }
        self.world.open_and_judge()
    }

    /// Lets the tasks of one stage work; returns when all have ended.
    fn work(&mut self, session: &Arc<Session>) -> Result<(), Failure> {
        if self.rng.uniform(3) > 0 {
            session.die_after(self.rng.uniform(300));
        }
        let failure = Arc::new(Mutex::new(None));
        let mut tasks = Vec::new();
        let mut start = |name: &str, body: Body| {
            let (session, failure) = (Arc::clone(session), Arc::clone(&failure));
            tasks.push(thread::spawn(name, move || {
                if let Err(found) = body(&session) {
                    failure.lock().get_or_insert(found);
                }
            }));
        };
        for _ in 0..1 + self.rng.uniform(3) {
            self.generators += 1;
            let (rng, number) = (self.rng.fork(), self.generators);
            start("writer", Box::new(move |session| write(session, rng, number)));
        }
        // Ingestion concerns snapshots, too.
        let readers = self.rng.uniform(3).max(u64::from(self.ingestion.is_some()));
        for _ in 0..readers {
            let rng = self.rng.fork();
            start("reader", Box::new(move |session| read(session, rng)));
        }
        for _ in 0..self.rng.uniform(3) {
            let rng = self.rng.fork();
            start("upkeep", Box::new(move |session| keep_up(session, rng)));
        }
        if self.rng.one_in(2) {
            let rng = self.rng.fork();
            start("weather", Box::new(move |session| make_weather(session, rng)));
        }
        if let Some(choices) = &mut self.ingestion {
            for _ in 0..1 + choices.uniform(2) {
                self.generators += 1;
                let (rng, number) = (choices.fork(), self.generators);
                start("ingester", Box::new(move |session| ingest(session, rng, number)));
            }
        }
        if let Some(choices) = &mut self.operation {
            for _ in 0..1 + choices.uniform(2) {
                let rng = choices.fork();
                start("operator", Box::new(move |session| operate(session, rng)));
            }
        }
        for task in tasks {
            task.join().map_err(|e| Failure::new(Kind::Wrong, e.to_string()))?;
        }
        let found = failure.lock().take();
        found.map_or(Ok(()), Err)
    }

    /// Crashes, or closes cleanly.
    fn end(&mut self, session: Arc<Session>) -> Result<(), Failure> {
        if session.is_dead() || self.rng.one_in(3) {
            self.world.crash(Some(session), &mut self.rng);
            return Ok(());
        }
        if session.had_faults() && !session.is_closing() {
            session.heal()?;
        }
        let dropped = self.operation.as_mut().is_some_and(|choices| choices.one_in(4));
        if dropped && !session.had_faults() && !session.is_closing() {
            // Drops the last handle, which saves what is to be saved and reports no result.
            self.world.tally.add(Count::Closes, 1);
            let dies_at = session.dies_at();
            drop(session);
            if self.world.changes_ever() >= dies_at {
                // The disk has died before all was saved.
                self.world.crash(None, &mut self.rng);
            }
            return Ok(());
        }
        if let Err(error) = session.close() {
            // After faults: what was under way when they ended may still have failed.
            if !session.is_dead() && !session.had_faults() {
                return Err(Failure::new(Kind::Wrong, format!("clean close: {error}")));
            }
            self.world.crash(Some(session), &mut self.rng);
            return Ok(());
        }
        drop(session);
        self.world.tally.add(Count::Upkeep, 1);
        Ok(())
    }
}

fn generator(session: &Session, rng: &mut Rng, number: u64) -> OpGenerator {
    let shape = Shape {
        families: session.plan.families,
        prefix: session.plan.key_prefix.clone(),
        keys: session.plan.keys,
        value_bytes_max: session.plan.value_bytes_max,
        batch_ops_max: 6,
        range_deletions_per_mille: 20,
    };
    OpGenerator::new(shape, rng.next_u64())
        .with_single_mark(number * 1000)
        .with_values_from(number * 1_000_000)
}

fn write(session: &Session, mut rng: Rng, number: u64) -> Result<(), Failure> {
    let mut generator = generator(session, &mut rng, number);
    let mut failures = 0;
    for _ in 0..5 + rng.uniform(50) {
        let sync = rng.one_in(session.plan.one_sync_in);
        match session.write(generator.batch(), sync) {
            Ok(_) => {}
            Err(stop) => {
                session.excuse(stop)?;
                failures += 1;
                if session.is_dead() || failures > 20 {
                    return Ok(());
                }
                generator.forget_singles(number * 1000 + failures);
                pause(&mut rng);
            }
        }
    }
    Ok(())
}

fn read(session: &Session, mut rng: Rng) -> Result<(), Failure> {
    let steps = 5 + rng.uniform(30);
    let mut reader = Reader::new(session, rng.fork());
    for _ in 0..steps {
        if let Err(stop) = reader.step() {
            session.excuse(stop)?;
            if session.is_dead() {
                return Ok(());
            }
        }
        if rng.one_in(4) {
            pause(&mut rng);
        }
    }
    Ok(())
}

fn keep_up(session: &Session, mut rng: Rng) -> Result<(), Failure> {
    for _ in 0..rng.uniform(6) {
        pause(&mut rng);
        let cf = rng.uniform(session.plan.families as u64) as usize;
        let done = match rng.uniform(9) {
            0..3 => session.flush(cf),
            3 | 4 => {
                let (a, b) = (rng.uniform(session.plan.keys), rng.uniform(session.plan.keys));
                let prefix = &session.plan.key_prefix;
                let (begin, end) = (op::key(prefix, a.min(b)), op::key(prefix, a.max(b)));
                match rng.one_in(2) {
                    true => session.compact(cf, Some(&begin), Some(&end)),
                    false => session.compact(cf, None, None),
                }
            }
            5 | 6 => session.flush_wal(rng.one_in(2)),
            7 => side::come_and_go(session, &mut rng),
            _ => session.visit(),
        };
        if let Err(stop) = done {
            session.excuse(stop)?;
            if session.is_dead() {
                return Ok(());
            }
        }
    }
    Ok(())
}

fn ingest(session: &Session, mut rng: Rng, number: u64) -> Result<(), Failure> {
    let mut packer = Packer::new(session, rng.fork(), &format!("i{number}."), number);
    for _ in 0..1 + rng.uniform(6) {
        pause(&mut rng);
        let done = ingest_once(session, &mut packer, &mut rng);
        match done {
            // What was just promised is all there is to go by when the power fails now.
            Ok(()) if rng.one_in(5) && !session.is_dead() => session.die_after(rng.uniform(3)),
            Ok(()) => {}
            Err(stop) => session.excuse(stop)?,
        }
        if session.is_dead() {
            return Ok(());
        }
    }
    Ok(())
}

/// One ingestion of some kind; half of them with a concurrent reader, which must see nothing of it
/// in an earlier snapshot.
fn ingest_once(session: &Session, packer: &mut Packer, rng: &mut Rng) -> Result<(), Stop> {
    let mut onlooker = rng.one_in(2).then(|| Reader::new(session, rng.fork()));
    if let Some(onlooker) = &mut onlooker {
        onlooker.snapshot()?;
    }
    match rng.uniform(3) {
        0 if !session.plan.behind || rng.one_in(3) => session.ingest_beside(rng),
        0 | 1 if session.plan.behind => session.ingest_behind(rng),
        _ => session.ingest(packer).map(drop),
    }?;
    for _ in 0..2 {
        onlooker.as_mut().map_or(Ok(()), Reader::read_again)?;
    }
    Ok(())
}

fn operate(session: &Session, mut rng: Rng) -> Result<(), Failure> {
    for _ in 0..1 + rng.uniform(6) {
        pause(&mut rng);
        if let Err(stop) = operate::once(session, &mut rng) {
            session.excuse(stop)?;
        }
        if session.is_dead() || session.is_closing() {
            return Ok(());
        }
    }
    Ok(())
}

fn make_weather(session: &Session, mut rng: Rng) -> Result<(), Failure> {
    for _ in 0..1 + rng.uniform(2) {
        pause(&mut rng);
        for _ in 0..1 + rng.uniform(2) {
            weather::strike(session, &mut rng);
        }
        // Other tasks may have ended already; this gives the faults something to hit.
        for _ in 0..rng.uniform(6) {
            pause(&mut rng);
            let done = match rng.uniform(4) {
                0 => session.flush(rng.uniform(session.plan.families as u64) as usize),
                1 => session.flush_wal(true),
                _ => session.probe(rng.one_in(2)),
            };
            done.or_else(|stop| session.excuse(stop))?;
        }
        if session.is_dead() {
            return Ok(());
        }
        session.heal()?;
    }
    Ok(())
}

/// Lets others work for a while.
fn pause(rng: &mut Rng) {
    match rng.one_in(3) {
        true => thread::sleep(std::time::Duration::from_micros(1 + rng.uniform(2000))),
        false => thread::yield_now(),
    }
}
