//! `randomtransaction`: the same amount is added to one key of each of `--transaction_sets` sets.
//! With transactions, or one worker, the values of each set add up to the same number.
//!
//! Thread safety: a worker has its own.
//!
//! As in RocksDB's db_bench every other read is for update, one transaction in twenty is rolled
//! back, and one that locks reads with a snapshot. Its release builds name no transaction, and so
//! prepare none; nor is any prepared here.

use super::engine::{BenchDb, Reader, Refusal, Result, TransactionSettings, Transactions, Writer};
use super::flags::Flags;
use super::stats::Operation;
use super::worker::{Worker, during};

/// See the module head.
///
/// # Errors
/// An operation failed, or a value is not a number.
pub fn add_to_sets<D: BenchDb>(worker: &mut Worker<'_, D>) -> Result<()> {
    let flags = &worker.shared.flags;
    match (flags.optimistic_transaction_db, flags.transaction_db) {
        (false, false) => in_batches(worker),
        (optimistic, _) => in_transactions(worker, !optimistic),
    }
}

fn keys_and_sets(flags: &Flags) -> (u64, Vec<u64>) {
    let sets = u64::try_from(flags.transaction_sets).unwrap_or(0);
    (u64::try_from(flags.num).unwrap_or(0).max(1), (1..=sets).collect())
}

fn in_transactions<D: BenchDb>(worker: &mut Worker<'_, D>, locks: bool) -> Result<()> {
    let (plan, flags) = (&worker.shared.plan, &worker.shared.flags);
    let mut limit = worker.limit(plan.readwrites);
    let settings = TransactionSettings {
        // RocksDB's sets one that is not there.
        snapshot: locks || flags.transaction_set_snapshot,
        lock_timeout: i64::try_from(flags.transaction_lock_timeout).unwrap_or(i64::MAX),
    };
    let mut transactions = worker.shared.db.transactions(plan.write, settings)?;
    let mut sets = Sets::new(flags);
    let (mut done, mut aborts) = (0u64, 0u64);
    while !limit.reached(1) {
        transactions.begin();
        match sets.add(worker, &mut *transactions) {
            Ok(()) => {}
            Err(Refusal::Conflict) => {
                aborts += 1;
                // An optimistic one that failed at its commit has its writes still.
                transactions.rollback().map_err(|refusal| in_words(&refusal))?;
            }
            Err(failed) => return Err(in_words(&failed)),
        }
        done += 1;
        worker.finished(1, Operation::Other);
    }
    worker.stats.add_bytes(sets.bytes);
    worker.stats.set_message(format!("( transactions:{done} aborts:{aborts})"));
    Ok(())
}

fn in_words(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Conflict => "Unexpected error: a conflict where none can be".into(),
        Refusal::Failed(text) => format!("Unexpected error: {text}"),
    }
}

/// What the transactions of a worker have in common.
struct Sets {
    keys: u64,
    order: Vec<u64>,
    value: Vec<u8>,
    bytes: u64,
}

impl Sets {
    fn new(flags: &Flags) -> Self {
        let (keys, order) = keys_and_sets(flags);
        Sets { keys, order, value: Vec::new(), bytes: 0 }
    }

    /// Adds an amount to a key of each set, in a transaction that has begun, and ends that.
    fn add<D: BenchDb>(
        &mut self,
        worker: &mut Worker<'_, D>,
        transaction: &mut dyn Transactions,
    ) -> std::result::Result<(), Refusal> {
        let amount = 1 + worker.rng.uniform(100);
        worker.rng.shuffle(&mut self.order);
        for set in &self.order {
            let key = format!("{set:04}{}", worker.rng.uniform(self.keys));
            let for_update = worker.rng.one_in(2);
            let before = match transaction.read(key.as_bytes(), for_update, &mut self.value)? {
                true => number(&self.value).ok_or_else(|| {
                    Refusal::Failed(format!("the value of {key} is not a number"))
                })?,
                false => 0,
            };
            let after = before.wrapping_add(amount).to_string();
            transaction.put(key.as_bytes(), after.as_bytes())?;
            self.bytes += (key.len() + after.len()) as u64;
        }
        match worker.rng.one_in(20) {
            true => transaction.rollback(),
            false => transaction.commit(),
        }
    }
}

/// `randomtransaction` without a transaction database: the same amount is added to one key of each
/// of `--transaction_sets` sets, in one batch. With one thread the values of each set add up to the
/// same number.
///
/// # Errors
/// An operation failed, or a value is not a number.
fn in_batches<D: BenchDb>(worker: &mut Worker<'_, D>) -> Result<()> {
    let (plan, flags) = (&worker.shared.plan, &worker.shared.flags);
    let mut limit = worker.limit(plan.readwrites);
    let db = worker.pick();
    let (mut readers, mut writers) = (worker.readers(), worker.writers());
    let (reader, writer) = (&mut readers[db], &mut writers[db]);
    let (keys, mut order) = keys_and_sets(flags);
    let (mut batches, mut bytes, mut value) = (0u64, 0u64, Vec::new());
    while !limit.reached(1) {
        let amount = 1 + worker.rng.uniform(100);
        worker.rng.shuffle(&mut order);
        for set in &order {
            let key = format!("{set:04}{}", worker.rng.uniform(keys));
            let before = match during("get", reader.read(key.as_bytes(), &mut value))? {
                true => {
                    number(&value).ok_or_else(|| format!("the value of {key} is not a number"))?
                }
                false => 0,
            };
            let after = before.wrapping_add(amount).to_string();
            writer.batch_put(key.as_bytes(), after.as_bytes());
            bytes += (key.len() + after.len()) as u64;
        }
        during("write", writer.commit())?;
        batches += 1;
        worker.finished(1, Operation::Other);
    }
    worker.stats.add_bytes(bytes);
    worker.stats.set_message(format!("( batches:{batches} )"));
    Ok(())
}

fn number(value: &[u8]) -> Option<u64> {
    std::str::from_utf8(value).ok()?.parse().ok()
}
