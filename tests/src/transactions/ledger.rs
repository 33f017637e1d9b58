//! What transactions did, and what a crash may leave of it.
//!
//! | stage at the crash | afterwards |
//! |---|---|
//! | working | gone |
//! | committing | all of it or nothing |
//! | preparing | prepared or gone |
//! | prepared | prepared; gone only if it was not synced and the power failed |
//! | committing a prepared one | prepared or committed |
//! | rolling a prepared one back | prepared or gone |
//! | rolled back | gone; prepared again only if it was not synced and the power failed |
//! | committed | all of it; if it was not synced and the power failed perhaps nothing |
//!
//! Where a commit is gone nothing later is there either, and what was prepared is prepared again.
//! What a commit writes beside the transaction is there if and only if the transaction is; it is
//! not part of what was prepared.
//!
//! Thread safety: shared by all tasks of a run. Invariant: a transaction is in one stage or
//! committed, never both.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

use pumice_port::sync::Mutex;
use pumice_testkit::oracle::Crash;
use pumice_testkit::serial::{self, Anomaly, Found, Level, Stamp, Transaction, Version};

/// How far a transaction that has not ended has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Its commit was called.
    Committing,
    /// Its prepare was called.
    Preparing,
    /// Its prepare has returned.
    Prepared {
        /// Synced.
        durable: bool,
    },
    /// It is prepared, and its commit was called.
    CommittingPrepared {
        /// Its prepare was synced.
        durable: bool,
    },
    /// It is prepared, and its rollback was called.
    RollingBack,
}

/// A commit that has returned.
#[derive(Clone, Debug)]
struct Commit {
    transaction: Transaction,
    durable: bool,
    /// Whether its prepare was durable, if it was prepared.
    prepared: Option<bool>,
}

#[derive(Default)]
struct State {
    committed: Vec<Commit>,
    open: BTreeMap<u64, (Transaction, Stage)>,
    /// Prepared ones whose rollback has returned and was not synced.
    rolled_back: BTreeMap<u64, Transaction>,
    refused: u64,
    /// Those whose commit writes something beside them.
    beside: BTreeSet<u64>,
}

/// See the module head.
#[derive(Default)]
pub struct Ledger {
    clock: AtomicU64,
    ids: AtomicU64,
    state: Mutex<State>,
}

/// What a database holds after an open.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    /// The value of each key that is there.
    pub values: BTreeMap<u32, Vec<u8>>,
    /// The names of the prepared transactions.
    pub prepared: Vec<Vec<u8>>,
    /// The transactions of which something is there that their commits wrote beside them.
    pub beside: BTreeSet<u64>,
}

impl Ledger {
    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// A transaction that begins now.
    pub fn begin(&self) -> Transaction {
        let id = self.ids.fetch_add(1, Ordering::SeqCst) + 1;
        Transaction { id, began: self.tick(), ended: u64::MAX, ..Transaction::default() }
    }

    /// It has come this far.
    pub fn at(&self, transaction: &Transaction, stage: Stage) {
        self.state.lock().open.insert(transaction.id, (transaction.clone(), stage));
    }

    /// It ended without effect.
    pub fn refused(&self, id: u64) {
        let mut state = self.state.lock();
        state.open.remove(&id);
        state.refused += 1;
    }

    /// It was prepared, and its rollback has returned.
    pub fn rolled_back(&self, transaction: &Transaction, durable: bool) {
        self.refused(transaction.id);
        if !durable {
            self.state.lock().rolled_back.insert(transaction.id, transaction.clone());
        }
    }

    /// Its commit has returned.
    pub fn committed(&self, mut transaction: Transaction, durable: bool) {
        transaction.ended = self.tick();
        let mut state = self.state.lock();
        let prepared = match state.open.remove(&transaction.id) {
            Some((_, Stage::CommittingPrepared { durable })) => Some(durable),
            _ => None,
        };
        state.committed.push(Commit { transaction, durable, prepared });
    }

    /// Its commit, if there is one, writes something beside it.
    pub fn commits_beside(&self, id: u64) {
        self.state.lock().beside.insert(id);
    }

    /// How many were committed with something beside them.
    pub fn committed_beside(&self) -> u64 {
        let state = self.state.lock();
        let committed = state.committed.iter().map(|commit| commit.transaction.id);
        committed.filter(|id| state.beside.contains(id)).count() as u64
    }

    /// How many were committed, and how many ended without effect.
    pub fn counts(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.committed.len() as u64, state.refused)
    }

    /// The name of a transaction.
    pub fn name(id: u64) -> Vec<u8> {
        format!("t{id}").into_bytes()
    }

    /// The transaction of a name, prepared before a crash.
    pub fn prepared(&self, name: &[u8]) -> Option<Transaction> {
        let state = self.state.lock();
        state.open.values().map(|(open, _)| open).find(|open| Self::name(open.id) == name).cloned()
    }

    /// Checks all that was committed.
    ///
    /// # Errors
    /// The first anomaly.
    pub fn check(&self, level: Level) -> Result<Found, Anomaly> {
        let state = self.state.lock();
        let history: Vec<Transaction> =
            state.committed.iter().map(|commit| commit.transaction.clone()).collect();
        serial::check(&history, level)
    }

    /// Compares what a crash left with what it may leave, and goes on from there.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn recover(&self, crash: Crash, found: &Contents) -> Result<(), String> {
        let now = self.tick();
        let mut state = self.state.lock();
        let survivors = state.survivors(found)?;
        state.check_prepared(crash, found, &survivors)?;
        state.check_committed(crash, found, &survivors)?;
        state.check_beside(found, &survivors)?;
        state.forget_lost(found, &survivors);
        let open = std::mem::take(&mut state.open);
        for (id, (mut transaction, stage)) in open {
            if survivors.contains(&id) {
                transaction.ended = now;
                let prepared = match stage {
                    Stage::CommittingPrepared { durable } => Some(durable),
                    _ => None,
                };
                state.committed.push(Commit { transaction, durable: false, prepared });
            } else if found.prepared.contains(&Self::name(id)) {
                // The open has written it to its first log, and synced that.
                state.open.insert(id, (transaction, Stage::Prepared { durable: true }));
            }
        }
        Ok(())
    }
}

impl State {
    /// The transactions whose writes are there, each with all of them.
    fn survivors(&self, found: &Contents) -> Result<BTreeSet<u64>, String> {
        let mut writers: BTreeMap<u64, &Transaction> =
            self.committed.iter().map(|c| (c.transaction.id, &c.transaction)).collect();
        for (id, (transaction, stage)) in &self.open {
            if matches!(stage, Stage::Committing | Stage::CommittingPrepared { .. }) {
                writers.insert(*id, transaction);
            }
        }
        let mut there: BTreeMap<u64, BTreeSet<u32>> = BTreeMap::new();
        for (key, value) in &found.values {
            let stamp = Stamp::decode(value).ok_or(format!("key {key} has a strange value"))?;
            let mut version = stamp.version;
            while version != Version::NONE {
                let write = writers.get(&version.writer).and_then(|writer| {
                    writer.writes.iter().find(|w| w.key == *key && w.version == version)
                });
                let Some(write) = write else {
                    return Err(format!("key {key} has {version:?}, which was never committed"));
                };
                if !there.entry(version.writer).or_default().insert(*key) {
                    return Err(format!("the versions of key {key} go round at {version:?}"));
                }
                version = write.previous;
            }
        }
        for (id, keys) in &there {
            let written: BTreeSet<u32> = writers[id].writes.iter().map(|w| w.key).collect();
            if written != *keys {
                return Err(format!("{id} wrote {written:?}, of which {keys:?} are there"));
            }
        }
        Ok(there.into_keys().collect())
    }

    fn check_prepared(
        &self,
        crash: Crash,
        found: &Contents,
        survivors: &BTreeSet<u64>,
    ) -> Result<(), String> {
        let stays = |durable: bool| durable || crash == Crash::Process;
        for (id, (_, stage)) in &self.open {
            let listed = found.prepared.contains(&Ledger::name(*id));
            let committed = survivors.contains(id);
            let well = match stage {
                Stage::Committing => !listed,
                Stage::Preparing | Stage::RollingBack => true,
                Stage::Prepared { durable } => listed || !stays(*durable),
                Stage::CommittingPrepared { durable } => {
                    listed != committed || (!listed && !stays(*durable))
                }
            };
            if !well {
                return Err(format!("{id}: {stage:?}, listed: {listed}, committed: {committed}"));
            }
        }
        let open = self.open.keys().copied();
        let power = crash == Crash::Power;
        let rolled_back = self.rolled_back.keys().filter(|_| power).copied();
        let committed = self.committed.iter().filter(|c| c.prepared.is_some());
        let committed = committed.map(|c| c.transaction.id).filter(|id| !survivors.contains(id));
        let known: BTreeSet<Vec<u8>> =
            open.chain(rolled_back).chain(committed).map(Ledger::name).collect();
        match found.prepared.iter().find(|name| !known.contains(*name)) {
            Some(name) => Err(format!("{} is prepared again", String::from_utf8_lossy(name))),
            None => Ok(()),
        }
    }

    fn check_committed(
        &self,
        crash: Crash,
        found: &Contents,
        survivors: &BTreeSet<u64>,
    ) -> Result<(), String> {
        let of = |there: bool| {
            let wrote = self.committed.iter().filter(|c| !c.transaction.writes.is_empty());
            wrote.filter(move |c| survivors.contains(&c.transaction.id) == there)
        };
        for lost in of(false) {
            let id = lost.transaction.id;
            if lost.durable || crash == Crash::Process {
                return Err(format!("lost {lost:?}"));
            }
            if lost.prepared == Some(true) && !found.prepared.contains(&Ledger::name(id)) {
                return Err(format!("neither committed nor prepared: {lost:?}"));
            }
            let later = of(true).find(|c| c.transaction.began > lost.transaction.ended);
            if let Some(later) = later {
                return Err(format!("{} is there, {id} before it is not", later.transaction.id));
            }
        }
        Ok(())
    }

    /// What commits wrote beside transactions is there with them. Those that are gone begin anew.
    fn check_beside(&mut self, found: &Contents, survivors: &BTreeSet<u64>) -> Result<(), String> {
        self.beside.retain(|id| survivors.contains(id));
        match self.beside.symmetric_difference(&found.beside).next() {
            Some(id) => Err(format!(
                "{id}: something beside it: {}, committed: {}",
                found.beside.contains(id),
                survivors.contains(id)
            )),
            None => Ok(()),
        }
    }

    /// Forgets what is gone, and who only read of it. What is prepared again is open again.
    fn forget_lost(&mut self, found: &Contents, survivors: &BTreeSet<u64>) {
        let of_survivors =
            |(_, seen): &(u32, Version)| *seen == Version::NONE || survivors.contains(&seen.writer);
        let all = std::mem::take(&mut self.committed);
        let (kept, lost): (Vec<Commit>, Vec<Commit>) =
            all.into_iter().partition(|c| match c.transaction.writes.is_empty() {
                true => c.transaction.reads.iter().all(of_survivors),
                false => survivors.contains(&c.transaction.id),
            });
        self.committed = kept;
        let again = |id: u64| found.prepared.contains(&Ledger::name(id));
        let rolled_back = self.rolled_back.extract_if(.., |id, _| again(*id));
        let rolled_back: Vec<Transaction> = rolled_back.map(|(_, t)| t).collect();
        let lost = lost.into_iter().map(|c| c.transaction).filter(|t| again(t.id));
        for mut transaction in lost.chain(rolled_back) {
            transaction.ended = u64::MAX;
            let stage = Stage::Prepared { durable: true };
            self.open.insert(transaction.id, (transaction, stage));
        }
    }
}
