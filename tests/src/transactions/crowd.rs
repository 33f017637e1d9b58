//! Many actors on one database, on threads or on fibers: a history long enough to be worth
//! checking.
//!
//! Thread safety: one crowd a call; it starts its tasks itself and waits for them.

use std::sync::Arc;

use pumice::{
    Db, MemFs, OptimisticTransactionDb, OptimisticTransactionDbOptions, TransactionDb,
    TransactionDbOptions,
};
use pumice_base::random::Rng;
use pumice_env::FileSystem;
use pumice_port::thread;
use pumice_testkit::serial::Found;

use super::actor::Actor;
use super::ledger::Ledger;
use super::{Base, Manner, PATIENT, Reads};
use crate::stores::Settings;
use crate::stores::pumice::options;

/// Which kind of database a crowd works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Keys are locked.
    Locks,
    /// Keys are checked at the commit.
    Checks,
}

impl Kind {
    /// Opens the database of `settings` in `directory`.
    ///
    /// # Errors
    /// Pumice's, in words.
    pub fn open(
        self,
        settings: &Settings,
        file_system: Arc<dyn FileSystem>,
        directory: &str,
    ) -> Result<(Base, Vec<pumice::ColumnFamily>), String> {
        let (base, families) = options(settings, file_system)?;
        let text = |error: pumice::Error| error.to_string();
        match self {
            Kind::Locks => {
                let transactions = TransactionDbOptions::default();
                let opened = TransactionDb::open_cf(&base.db, &transactions, directory, &families);
                opened.map(|(db, handles)| (Base::Locks(db), handles)).map_err(text)
            }
            Kind::Checks => {
                let transactions = OptimisticTransactionDbOptions::default();
                let opened =
                    OptimisticTransactionDb::open_cf(&base.db, &transactions, directory, &families);
                opened.map(|(db, handles)| (Base::Checks(db), handles)).map_err(text)
            }
        }
    }
}

/// What a crowd came to.
#[derive(Clone, Copy, Debug)]
pub struct Summary {
    /// Transactions that were committed.
    pub committed: u64,
    /// Transactions that ended without effect.
    pub refused: u64,
    /// What the checker found that the level permits.
    pub found: Found,
}

/// Lets `tasks` actors run `transactions` in all on a database of its own, in memory, and checks
/// what they saw.
///
/// # Errors
/// An error that is no refusal, or an anomaly, in words.
pub fn run(
    kind: Kind,
    reads: Reads,
    tasks: u64,
    transactions: u64,
    seed: u64,
) -> Result<Summary, String> {
    let mut settings = Settings::small(2).with("ttl", "0");
    settings.info_log = false;
    let (base, families) = kind.open(&settings, MemFs::new(seed).shared(), "/db")?;
    let manner = Manner {
        reads,
        locked_updates: false,
        keys: 64,
        steps_max: 4,
        value_bytes_max: 200,
        one_sync_in: 50,
        one_prepared_in: if kind == Kind::Locks { 10 } else { 0 },
        one_beside_in: 3,
        one_expiring_in: 0,
        expiration: 0,
        lock_timeout: PATIENT,
    };
    let ledger = Arc::new(Ledger::default());
    let mut rng = Rng::new(seed);
    let mut actors: Vec<Actor> = (0..tasks)
        .map(|_| Actor {
            base: base.clone(),
            families: families.clone(),
            manner: manner.clone(),
            ledger: Arc::clone(&ledger),
            rng: rng.fork(),
            sleeps: false,
        })
        .collect();
    let share = transactions.div_ceil(tasks);
    let results: Vec<Result<(), String>> = thread::scope(|scope| {
        let work = |actor: &mut Actor| actor.run(share).map_err(|error| error.to_string());
        let started: Vec<_> =
            actors.iter_mut().map(|actor| scope.spawn(move || work(actor))).collect();
        let joined = started.into_iter().map(|task| task.join());
        joined.map(|ended| ended.unwrap_or_else(|_| Err("a task panicked".to_string()))).collect()
    });
    results.into_iter().collect::<Result<(), String>>()?;
    close(base.db())?;
    let found = ledger.check(reads.level()).map_err(|anomaly| anomaly.to_string())?;
    let (committed, refused) = ledger.counts();
    Ok(Summary { committed, refused, found })
}

fn close(db: &Db) -> Result<(), String> {
    db.close().map_err(|error| error.to_string())
}
