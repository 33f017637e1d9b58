//! T-txn: lives of databases with transactions. Actors work, flushes and compactions run beside
//! them, the process dies or the power fails, in the middle of a commit too; the database is opened
//! again and what was prepared is committed or rolled back. A life has transactions that lock or
//! transactions that are checked, all of which read in the same way.
//!
//! Judged are the answers of all reads together, by the isolation that docs/transactions.md
//! promises for that way (`testkit::serial`), and what is there after each crash
//! (`transactions::ledger`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use pumice::{ColumnFamily, MemFs, ReadOptions, Store, TransactionDb};
use pumice_base::random::Rng;
use pumice_port::sync::Mutex;
use pumice_port::thread;
use pumice_testkit::oracle::Crash;

use super::verdict::{Count, Failure, Kind, Tally};
use super::world::{some_crash, trace};
use crate::stores::Settings;
use crate::transactions::actor::{Actor, write_beside};
use crate::transactions::crowd;
use crate::transactions::ledger::{Contents, Ledger, Stage};
use crate::transactions::{Base, Manner, PATIENT, Reads, beside_id, family_of, key_bytes};

struct Life {
    rng: Rng,
    fs: MemFs,
    kind: crowd::Kind,
    settings: Settings,
    manner: Manner,
    ledger: Arc<Ledger>,
    tally: Arc<Tally>,
}

/// An open database.
struct Open {
    base: Base,
    families: Vec<ColumnFamily>,
}

fn wrong(text: impl Into<String>) -> Failure {
    Failure::new(Kind::Wrong, text)
}

/// Lives the life of `seed`.
///
/// # Errors
/// The first thing that was wrong.
pub fn run(seed: u64, tally: &Arc<Tally>) -> Result<(), Failure> {
    let mut rng = Rng::new(seed ^ 0x7478_6e73);
    let kind = if rng.one_in(3) { crowd::Kind::Checks } else { crowd::Kind::Locks };
    let (settings, manner) = (settings(&mut rng), manner(kind, &mut rng));
    let fs = MemFs::new(rng.next_u64());
    let (ledger, tally) = (Arc::default(), Arc::clone(tally));
    let mut life = Life { rng, fs, kind, settings, manner, ledger, tally };
    let lived = life.live();
    let (committed, refused) = life.ledger.counts();
    life.tally.add(Count::Transactions, committed);
    life.tally.add(Count::TransactionsRefused, refused);
    life.tally.add(Count::CommittedBeside, life.ledger.committed_beside());
    lived.map_err(|failure| {
        let text = format!("{}\n{kind:?} {:?}", failure.text, life.manner);
        Failure { text, ..failure }
    })
}

fn settings(rng: &mut Rng) -> Settings {
    let mut settings = Settings::small(1 + rng.uniform(3) as usize)
        .with("arena_block_size", "4096")
        .with("level0_file_num_compaction_trigger", "2")
        .with("ttl", "0");
    settings.info_log = false;
    settings.table.push_str(";no_block_cache=true");
    let mut maybe = |one_in: u64, name: &'static str, value: &str| {
        if rng.one_in(one_in) {
            settings = settings.clone().with(name, value);
        }
    };
    maybe(2, "max_total_wal_size", "20000");
    maybe(3, "avoid_flush_during_recovery", "true");
    maybe(3, "max_write_buffer_size_to_maintain", "20000");
    maybe(4, "max_manifest_file_size", "500");
    maybe(6, "atomic_flush", "true");
    settings
}

fn manner(kind: crowd::Kind, rng: &mut Rng) -> Manner {
    let reads = [Reads::ForUpdate, Reads::ForUpdate, Reads::Snapshot, Reads::Plain];
    let locks = kind == crowd::Kind::Locks;
    let reads = reads[rng.uniform(4) as usize];
    Manner {
        reads,
        // What a crash leaves is judged by the versions that each key has had.
        locked_updates: reads == Reads::Plain,
        keys: 2 + rng.uniform(12) as u32,
        steps_max: 1 + rng.uniform(5),
        value_bytes_max: if rng.one_in(2) { 3000 } else { 60 },
        one_sync_in: 1 + rng.uniform(6),
        one_prepared_in: if locks { rng.uniform(4) } else { 0 },
        one_beside_in: 3,
        one_expiring_in: if locks { rng.uniform(5) } else { 0 },
        expiration: 1 + rng.uniform(4) as i64,
        lock_timeout: if rng.one_in(3) { 1 + rng.uniform(20) as i64 } else { PATIENT },
    }
}

impl Life {
    fn live(&mut self) -> Result<(), Failure> {
        let mut crash = Crash::Process;
        for _ in 0..1 + self.rng.uniform(3) {
            let dies_at = self.draw_death(3);
            let Some(open) = self.open(crash, dies_at)? else {
                // Nobody has looked at what the crash before left.
                let next = self.crash(None);
                crash = if crash == Crash::Power { crash } else { next };
                continue;
            };
            self.resolve(&open, dies_at)?;
            if !self.is_dead(dies_at) {
                self.work(&open, dies_at)?;
            }
            if dies_at != u64::MAX || self.rng.one_in(3) {
                crash = self.crash(Some(open));
                continue;
            }
            open.base.db().close().map_err(|e| wrong(format!("close: {e}")))?;
            crash = Crash::Process;
        }
        let Some(open) = self.open(crash, u64::MAX)? else { return Err(wrong("not opened")) };
        self.resolve(&open, u64::MAX)?;
        open.base.db().close().map_err(|e| wrong(format!("last close: {e}")))?;
        drop(open);
        self.open(Crash::Process, u64::MAX)?.map_or_else(
            || Err(wrong("not opened again")),
            |open| open.base.db().close().map_err(|e| wrong(format!("very last close: {e}"))),
        )
    }

    /// Lets the disk die after some changes, in most cases.
    fn draw_death(&mut self, in_four: u64) -> u64 {
        if self.rng.uniform(4) >= in_four {
            return u64::MAX;
        }
        let changes = match self.rng.one_in(6) {
            true => self.rng.uniform(30),
            false => 20 + self.rng.uniform(400),
        };
        self.fs.halt_after(changes);
        self.fs.change_count() + changes
    }

    fn is_dead(&self, dies_at: u64) -> bool {
        self.fs.change_count() >= dies_at
    }

    /// Takes an error that the death of the disk explains for none.
    fn excuse(&self, dies_at: u64, what: &str, error: impl ToString) -> Result<(), Failure> {
        match self.is_dead(dies_at) {
            true => Ok(()),
            false => Err(wrong(format!("{what}: {}", error.to_string()))),
        }
    }

    fn crash(&mut self, open: Option<Open>) -> Crash {
        self.fs.halt_after(0);
        let (crash, mode) = some_crash(&mut self.rng);
        trace(format_args!("crash {crash:?} {mode:?}"));
        self.fs = self.fs.crashed_copy(self.rng.next_u64(), mode);
        self.tally.add(Count::Crashes, 1);
        drop(open);
        crash
    }

    /// Opens and judges what is there; None if the disk died meanwhile.
    fn open(&mut self, crash: Crash, dies_at: u64) -> Result<Option<Open>, Failure> {
        let opened = self.kind.open(&self.settings, self.fs.shared(), "/db");
        let (base, families) = match opened {
            Ok(opened) => opened,
            Err(error) => return self.excuse(dies_at, "open", error).map(|()| None),
        };
        // Data that is read from a disk that has died since is in memory only.
        if self.is_dead(dies_at) {
            self.tally.add(Count::InRecovery, 1);
            return Ok(None);
        }
        let open = Open { base, families };
        let found = match self.contents(&open) {
            Ok(found) => found,
            Err(error) => return self.excuse(dies_at, "read", error).map(|()| None),
        };
        self.tally.add(Count::Prepared, found.prepared.len() as u64);
        let recovered = self.ledger.recover(crash, &found);
        recovered.map_err(|text| Failure::new(Kind::Lost, text).before("after opening"))?;
        self.check()?;
        Ok(Some(open))
    }

    fn check(&self) -> Result<(), Failure> {
        let checked = self.ledger.check(self.manner.reads.level());
        checked.map(drop).map_err(|anomaly| wrong(anomaly.to_string()))
    }

    fn contents(&self, open: &Open) -> pumice::Result<Contents> {
        let mut values = BTreeMap::new();
        for key in 0..self.manner.keys {
            let cf = family_of(&open.families, key);
            let value = Store::get(open.base.db(), &ReadOptions::default(), cf, &key_bytes(key))?;
            values.extend(value.map(|value| (key, value.to_vec())));
        }
        let prepared = match &open.base {
            Base::Locks(db) => db.prepared_transactions().iter().map(|t| t.name()).collect(),
            Base::Checks(_) => Vec::new(),
        };
        let mut beside = BTreeSet::new();
        for cf in &open.families {
            let found = super::reads::scan(open.base.db(), cf, &ReadOptions::default(), false)?;
            beside.extend(found.iter().filter_map(|(key, _)| beside_id(key)));
        }
        Ok(Contents { values, prepared, beside })
    }

    /// Ends what was prepared before.
    fn resolve(&mut self, open: &Open, dies_at: u64) -> Result<(), Failure> {
        let Base::Locks(db) = &open.base else { return Ok(()) };
        for transaction in db.prepared_transactions() {
            let Some(record) = self.ledger.prepared(&transaction.name()) else {
                return Err(wrong("a prepared transaction that is not known"));
            };
            let ended = if self.rng.one_in(3) {
                self.ledger.at(&record, Stage::RollingBack);
                transaction.rollback().map(|()| self.ledger.refused(record.id))
            } else {
                // From a copy, so that it does not change what else is drawn.
                if self.rng.clone().fork().one_in(3) {
                    let set = write_beside(&self.ledger, &open.families, &transaction, record.id);
                    set.map_err(|error| wrong(format!("a batch of the commit: {error}")))?;
                }
                self.ledger.at(&record, Stage::CommittingPrepared { durable: true });
                // One that an open found is synced at its end.
                transaction.commit().map(|()| self.ledger.committed(record, true))
            };
            if let Err(error) = ended {
                return self.excuse(dies_at, "end of a prepared one", error);
            }
        }
        Ok(())
    }

    /// Lets actors and upkeep work until all have ended.
    fn work(&mut self, open: &Open, dies_at: u64) -> Result<(), Failure> {
        let failure = Arc::new(Mutex::new(None));
        let mut tasks = Vec::new();
        for _ in 0..2 + self.rng.uniform(4) {
            let mut actor = Actor {
                base: open.base.clone(),
                families: open.families.clone(),
                manner: self.manner.clone(),
                ledger: Arc::clone(&self.ledger),
                rng: self.rng.fork(),
                sleeps: true,
            };
            let (failure, count) = (Arc::clone(&failure), 5 + self.rng.uniform(30));
            tasks.push(thread::spawn("actor", move || {
                if let Err(error) = actor.run(count) {
                    failure.lock().get_or_insert(error);
                }
            }));
        }
        for _ in 0..self.rng.uniform(3) {
            let (base, families) = (open.base.clone(), open.families.clone());
            let rng = self.rng.fork();
            tasks.push(thread::spawn("upkeep", move || keep_up(&base, &families, rng)));
        }
        for task in tasks {
            task.join().map_err(|e| wrong(e.to_string()))?;
        }
        let found = failure.lock().take();
        if let Some(error) = found {
            self.excuse(dies_at, "transaction", error)?;
        }
        if let Base::Locks(db) = &open.base {
            self.check_nothing_held(db, dies_at)?;
        }
        self.check()
    }

    fn check_nothing_held(&self, db: &TransactionDb, dies_at: u64) -> Result<(), Failure> {
        // A prepared one that could not be ended keeps its locks until it is dropped.
        let held = db.held_locks();
        match held.is_empty() {
            true => Ok(()),
            false => self.excuse(dies_at, "locks that nobody holds", format!("{held:?}")),
        }
    }
}

/// Flushes and compactions. Their errors are those of the disk, which the actors meet too.
fn keep_up(base: &Base, families: &[ColumnFamily], mut rng: Rng) {
    let db = base.db();
    for _ in 0..1 + rng.uniform(12) {
        thread::sleep(Duration::from_micros(1 + rng.uniform(6000)));
        let cf = &families[rng.uniform(families.len() as u64) as usize];
        let done = match rng.uniform(5) {
            0..3 => db.flush_cf(cf),
            3 => db.compact_range_cf(&Default::default(), cf, None, None),
            _ => db.flush_wal(rng.one_in(2)),
        };
        if done.is_err() {
            return;
        }
    }
}
