//! Short workloads: a plan and a few calls, the same every time.

use std::sync::Arc;

use pumice_base::random::Rng;
use pumice_port::thread;
use pumice_testkit::oracle::Logging;
use pumice_testkit::{OpGenerator, Shape};

use super::external::Packer;
use super::life;
use super::plan;
use super::session::{Session, Stop};
use super::side;
use super::verdict::{Failure, Kind};
use super::world::{Plan, World};

/// One call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// A random batch.
    Write {
        /// Synced.
        sync: bool,
    },
    /// Several batches from three tasks at once.
    WriteTogether,
    /// This many batches, enough to fill memtables.
    Fill(u32),
    /// Flush of a family (modulo those there are).
    Flush(usize),
    /// `flush_wal`.
    FlushWal {
        /// Synced.
        sync: bool,
    },
    /// Full compaction of a family.
    Compact(usize),
    /// Creating, writing or dropping a family.
    Ddl,
    /// Clean close; the next call opens.
    Reopen,
    /// The process dies; the next call opens the database again.
    Die,
    /// `resume`.
    Resume,
    /// Random files made outside.
    Ingest,
    /// A file for a family that the judge does not follow.
    IngestBeside,
    /// The same, behind all that the family holds.
    IngestBehind,
}

/// See the module head.
#[derive(Clone, Debug)]
pub struct Script {
    /// The database.
    pub plan: Plan,
    /// Done before anything is counted or fails.
    pub before: Vec<Call>,
    /// The workload.
    pub calls: Vec<Call>,
    /// The batches follow from it.
    pub seed: u64,
}

/// Workloads of T2.
pub const WORKLOADS: u64 = 320;
/// From this one on they ingest.
const INGESTING_WORKLOADS: u64 = 200;
/// From this one on all have long keys, too; of those that ingest every other one.
const LONG_WORKLOADS: u64 = 250;
/// From this one on several logs hold data that is in no table.
const PILING_WORKLOADS: u64 = 280;

/// The T2 workload that a seed runs: of five, two with long keys, two that ingest, one (half the
/// time) with several logs.
pub fn workload_of(seed: u64, rng: &mut Rng) -> u64 {
    let range = match seed / 16 % 5 {
        1 | 3 => LONG_WORKLOADS..PILING_WORKLOADS,
        _ if life::ingests(seed) => INGESTING_WORKLOADS..LONG_WORKLOADS,
        _ if seed.is_multiple_of(2) => PILING_WORKLOADS..WORKLOADS,
        _ => 0..INGESTING_WORKLOADS,
    };
    range.start + rng.uniform(range.end - range.start)
}

/// The T3 scenario that a seed runs.
pub fn scenario_of(seed: u64, rng: &mut Rng) -> u64 {
    match life::ingests(seed) {
        true => INGESTING_SCENARIOS + rng.uniform(SCENARIO_COUNT - INGESTING_SCENARIOS),
        false => rng.uniform(INGESTING_SCENARIOS),
    }
}

/// A T2 workload with several logs: little is synced, and flushes wait for three memtables.
fn piling_workload(number: u64) -> Script {
    let mut rng = Rng::new(number ^ 0x77_0000);
    let mut plan = plan::small(1 + rng.uniform(4) as usize / 3, Logging::Wal);
    plan.keys = 20;
    plan.pile_up_logs();
    plan.settings.table.push_str(";no_block_cache=true");
    let mut calls = vec![Call::Fill(20 + rng.uniform(30) as u32)];
    for _ in 0..1 + rng.uniform(2) {
        calls.push(match rng.uniform(6) {
            0 | 1 => Call::Write { sync: true },
            2 => Call::WriteTogether,
            3 => Call::Flush(0),
            4 => Call::FlushWal { sync: rng.one_in(2) },
            _ => Call::Reopen,
        });
        calls.push(Call::Fill(1 + rng.uniform(10) as u32));
    }
    Script { plan, before: Vec::new(), calls, seed: number }
}

/// The T2 workload of a number: at most three calls that change state, and the calls around them.
pub fn workload(number: u64) -> Script {
    if number >= PILING_WORKLOADS {
        return piling_workload(number);
    }
    let mut rng = Rng::new(number ^ 0x77_0000);
    let logging = match number % 5 {
        0 if number.is_multiple_of(2) => Logging::AtomicFlush,
        0 => Logging::Off,
        1 => Logging::ManualFlush,
        _ => Logging::Wal,
    };
    let mut plan = plan::small(1 + rng.uniform(2) as usize, logging);
    plan.keys = 6;
    let mut option = |one_in: u64, name: &'static str, value: &str| {
        if rng.one_in(one_in) {
            plan.settings = plan.settings.clone().with(name, value);
        }
    };
    option(3, "max_manifest_file_size", "200");
    option(4, "avoid_flush_during_recovery", "true");
    if rng.one_in(4) {
        plan.value_bytes_max = plan::LARGE_VALUE_BYTES;
    }
    plan.settings.table.push_str(";no_block_cache=true");
    if number >= LONG_WORKLOADS || (number >= INGESTING_WORKLOADS && number.is_multiple_of(2)) {
        plan::lengthen_keys(&mut plan);
    }
    let before = match rng.uniform(4) {
        0 => vec![],
        1 => vec![Call::Write { sync: false }, Call::Flush(0), Call::Write { sync: true }],
        2 => vec![Call::Write { sync: true }, Call::Ddl, Call::Reopen],
        _ => vec![Call::Fill(8), Call::Flush(0), Call::Fill(8), Call::Flush(0)],
    };
    let mut calls = Vec::new();
    for _ in 0..1 + rng.uniform(3) {
        calls.push(match rng.uniform(8) {
            0..3 => Call::Write { sync: false },
            3..5 => Call::Write { sync: true },
            5 => Call::WriteTogether,
            6 => Call::Fill(6),
            _ => Call::Ddl,
        });
        for _ in 0..rng.uniform(3) {
            calls.push(match rng.uniform(7) {
                0 | 1 => Call::Flush(rng.uniform(2) as usize),
                2 => Call::Compact(rng.uniform(2) as usize),
                3 => Call::FlushWal { sync: true },
                4 => Call::FlushWal { sync: false },
                5 => Call::Reopen,
                _ => Call::Die,
            });
        }
    }
    if number >= INGESTING_WORKLOADS {
        plan.behind = number.is_multiple_of(3);
        for _ in 0..1 + rng.uniform(2) {
            let call = match rng.uniform(3) {
                0 => Call::Ingest,
                1 if plan.behind => Call::IngestBehind,
                _ => Call::IngestBeside,
            };
            calls.insert(rng.uniform(calls.len() as u64 + 1) as usize, call);
        }
    }
    Script { plan, before, calls, seed: number }
}

/// Name, logging, options, calls.
type Scenario = (&'static str, Logging, &'static [(&'static str, &'static str)], &'static [Call]);

/// What T3 makes fail.
const SCENARIOS: [Scenario; 16] = [
    ("sync writes", Logging::Wal, &[], &[Call::Write { sync: true }; 4]),
    (
        "unsynced writes and a log sync",
        Logging::Wal,
        &[],
        &[Call::Write { sync: false }, Call::FlushWal { sync: true }, Call::Write { sync: false }],
    ),
    (
        "manual log flush",
        Logging::ManualFlush,
        &[],
        &[
            Call::Fill(4),
            Call::FlushWal { sync: false },
            Call::Fill(3),
            Call::FlushWal { sync: true },
        ],
    ),
    ("no log", Logging::Off, &[], &[Call::Fill(5), Call::Flush(0), Call::Fill(3), Call::Flush(1)]),
    (
        "flushes of two families",
        Logging::Wal,
        &[],
        &[Call::Fill(6), Call::Flush(0), Call::Flush(1), Call::Write { sync: true }],
    ),
    (
        "compaction",
        Logging::Wal,
        &[],
        &[Call::Fill(8), Call::Flush(0), Call::Fill(8), Call::Flush(0), Call::Compact(0)],
    ),
    (
        "full memtables",
        Logging::Wal,
        &[],
        &[Call::Fill(FILL_OF_MEMTABLES), Call::Write { sync: true }],
    ),
    (
        "several memtables for one flush",
        Logging::Wal,
        &[("max_write_buffer_number", "6"), ("min_write_buffer_number_to_merge", "3")],
        &[Call::Fill(FILL_OF_MEMTABLES), Call::Write { sync: true }, Call::Fill(4), Call::Flush(0)],
    ),
    (
        "recovery",
        Logging::Wal,
        &[],
        &[Call::Fill(6), Call::FlushWal { sync: true }, Call::Die, Call::Write { sync: true }],
    ),
    (
        "recovery into memory",
        Logging::Wal,
        &[("avoid_flush_during_recovery", "true")],
        &[Call::Fill(6), Call::Reopen, Call::Fill(2), Call::Die, Call::Write { sync: true }],
    ),
    ("families come and go", Logging::Wal, &[], &[Call::Ddl, Call::Ddl, Call::Reopen, Call::Ddl]),
    (
        "new manifests",
        Logging::Wal,
        &[("max_manifest_file_size", "200")],
        &[Call::Fill(3), Call::Flush(0), Call::Fill(3), Call::Flush(1), Call::Ddl, Call::Reopen],
    ),
    (
        "several writers",
        Logging::Wal,
        &[],
        &[Call::WriteTogether, Call::WriteTogether, Call::Flush(0), Call::WriteTogether],
    ),
    (
        "ingestion",
        Logging::Wal,
        &[],
        &[Call::Write { sync: false }, Call::Ingest, Call::Write { sync: true }, Call::Ingest],
    ),
    (
        "ingestion without a log",
        Logging::Off,
        &[],
        &[Call::Fill(3), Call::Ingest, Call::Ingest, Call::Fill(2), Call::Flush(1)],
    ),
    (
        "ingestion behind",
        Logging::Wal,
        &[],
        &[
            Call::IngestBehind,
            Call::Write { sync: false },
            Call::IngestBehind,
            Call::IngestBeside,
            Call::IngestBehind,
        ],
    ),
];

/// Scenarios of T3.
pub const SCENARIO_COUNT: u64 = SCENARIOS.len() as u64;
/// From this one on they ingest.
const INGESTING_SCENARIOS: u64 = 13;
/// Batches that fill a few memtables; the values of a scenario with them are large.
const FILL_OF_MEMTABLES: u32 = 60;

/// The T3 scenario of a number, and its name.
pub fn scenario(number: u64) -> (&'static str, Script) {
    let (name, logging, options, calls) = SCENARIOS[(number % SCENARIO_COUNT) as usize];
    let mut plan = plan::small(2, logging);
    plan.keys = 8;
    plan.behind = calls.contains(&Call::IngestBehind);
    if calls.contains(&Call::Fill(FILL_OF_MEMTABLES)) {
        plan.value_bytes_max = plan::LARGE_VALUE_BYTES;
    }
    for (option, value) in options {
        plan.settings = plan.settings.clone().with(option, value);
    }
    plan.settings.table.push_str(";no_block_cache=true");
    let mut before = vec![Call::Write { sync: true }, Call::Flush(0)];
    // What comes before a death prepares the recovery that is to fail.
    let split = calls.iter().position(|call| *call == Call::Die).map_or(0, |at| at + 1);
    before.extend(&calls[..split]);
    (name, Script { plan, before, calls: calls[split..].to_vec(), seed: number })
}

/// Performs scripts.
pub struct Performer<'a> {
    /// Where.
    pub world: &'a mut World,
    rng: Rng,
    generators: u64,
    generator: OpGenerator,
}

fn generator(plan: &Plan, rng: &mut Rng, number: u64) -> OpGenerator {
    let shape = Shape {
        families: plan.families,
        prefix: plan.key_prefix.clone(),
        keys: plan.keys,
        value_bytes_max: plan.value_bytes_max.max(300),
        batch_ops_max: 4,
        range_deletions_per_mille: 60,
    };
    OpGenerator::new(shape, rng.next_u64())
        .with_single_mark(number)
        .with_values_from(number * 100_000)
}

impl<'a> Performer<'a> {
    /// A performer of `script` in `world`.
    pub fn new(world: &'a mut World, script: &Script) -> Self {
        let mut rng = Rng::new(script.seed ^ 0x5c);
        let generator = generator(&script.plan, &mut rng, 1);
        Performer { world, rng, generators: 1, generator }
    }

    /// Performs calls one after the other; after an expected error it continues with the next if
    /// `go_on`, else ends. Returns the session that is open then; None when opening failed.
    ///
    /// # Errors
    /// What is wrong.
    pub fn perform(
        &mut self,
        session: Option<Arc<Session>>,
        calls: &[Call],
        go_on: bool,
    ) -> Result<Option<Arc<Session>>, Failure> {
        let mut session = session;
        for call in calls {
            let open = match session.take() {
                Some(open) => open,
                None => match self.open()? {
                    Some(open) => open,
                    None => return Ok(None),
                },
            };
            let done = match call {
                Call::Reopen => {
                    self.close(open)?;
                    continue;
                }
                Call::Die => {
                    self.world.die_and_live(open);
                    continue;
                }
                _ => self.call(&open, *call),
            };
            if let Err(stop) = done {
                open.excuse(stop)?;
                self.generators += 1;
                self.generator.forget_singles(self.generators);
                if !go_on {
                    return Ok(Some(open));
                }
            }
            session = Some(open);
        }
        Ok(session)
    }

    /// Opens and judges; None when faults or death keep it from that.
    fn open(&mut self) -> Result<Option<Arc<Session>>, Failure> {
        let opened = match self.world.open() {
            Ok(opened) => opened,
            Err(_) if self.world.may_fail() => return Ok(None),
            Err(error) => return Err(Failure::new(Kind::Wrong, format!("cannot open: {error}"))),
        };
        let judged = opened.judge_recovery_if_readable()?;
        Ok(judged.then(|| Arc::new(opened)))
    }

    fn close(&mut self, session: Arc<Session>) -> Result<(), Failure> {
        let healthy = !session.had_faults();
        let before = session.failed_closes();
        match session.close() {
            Ok(()) if session.failed_closes() > before => {
                let text = "a log or MANIFEST failed to close, and the close said OK";
                return Err(Failure::new(Kind::Wrong, text));
            }
            Ok(()) if healthy && !session.is_dead() => {}
            Err(error) if !self.world.may_fail() => {
                return Err(Failure::new(Kind::Wrong, format!("clean close: {error}")));
            }
            // What a process leaves that closed with an error.
            _ => self.world.process_ended(),
        }
        Ok(())
    }

    fn call(&mut self, session: &Arc<Session>, call: Call) -> Result<(), Stop> {
        let families = session.plan.families;
        match call {
            Call::Write { sync } => session.write(self.generator.batch(), sync).map(drop),
            Call::Fill(batches) => {
                for _ in 0..batches {
                    session.write(self.generator.batch(), false)?;
                }
                Ok(())
            }
            Call::WriteTogether => self.write_together(session),
            Call::Flush(cf) => session.flush(cf % families),
            Call::FlushWal { sync } => session.flush_wal(sync),
            Call::Compact(cf) => session.compact(cf % families, None, None),
            Call::Ddl => side::come_and_go(session, &mut self.rng),
            Call::Resume => Ok(session.db.resume()?),
            Call::Ingest => {
                self.generators += 1;
                let mark = format!("p{}.", self.generators);
                let mut packer = Packer::new(session, self.rng.fork(), &mark, self.generators);
                session.ingest(&mut packer).map(drop)
            }
            Call::IngestBeside => session.ingest_beside(&mut self.rng),
            Call::IngestBehind => session.ingest_behind(&mut self.rng),
            Call::Reopen | Call::Die => Ok(()),
        }
    }

    fn write_together(&mut self, session: &Arc<Session>) -> Result<(), Stop> {
        let mut tasks = Vec::new();
        for _ in 0..3 {
            self.generators += 1;
            let mut generator = generator(&session.plan, &mut self.rng, self.generators);
            let (session, sync) = (Arc::clone(session), self.rng.one_in(2));
            tasks.push(thread::spawn("together", move || {
                for n in 0..3 {
                    session.write(generator.batch(), sync && n == 1)?;
                }
                Ok(())
            }));
        }
        let ended: Vec<Result<(), Stop>> =
            tasks.into_iter().map(|task| task.join().unwrap_or_else(|e| Err(e.into()))).collect();
        ended.into_iter().collect()
    }
}
