//! A task that runs one drawn transaction after the other.
//!
//! Thread safety: each task has its own. What it does not do: judge; all it sees goes into the
//! ledger.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pumice::{
    ColumnFamily, Cursor, Error, ReadOptions, Result, Store, Transaction, TransactionOptions,
    WriteBatch, WriteOptions,
};
use pumice_base::random::Rng;
use pumice_port::thread;
use pumice_testkit::serial::{self, Stamp, Version, Write};

use super::ledger::{Ledger, Stage};
use super::{Base, Manner, PATIENT, Reads, beside_id, beside_key, family_of, key_bytes};

/// See the module head.
pub struct Actor {
    /// The database.
    pub base: Base,
    /// Its families.
    pub families: Vec<ColumnFamily>,
    /// What its transactions are like.
    pub manner: Manner,
    /// Where what it does is written down.
    pub ledger: Arc<Ledger>,
    /// What it draws from.
    pub rng: Rng,
    /// Whether it sleeps inside of transactions.
    pub sleeps: bool,
}

/// A transaction that others were in the way of, or that took too long.
pub fn is_refused(error: &Error) -> bool {
    error.is_busy() || error.is_try_again() || error.is_timed_out() || error.is_expired()
}

/// A transaction under way.
struct Work<'a> {
    transaction: &'a Transaction,
    read: ReadOptions,
    record: serial::Transaction,
    /// The keys it has written, by their last version.
    own: BTreeMap<u32, Version>,
}

impl Actor {
    /// Runs so many transactions; those that are refused count.
    ///
    /// # Errors
    /// The first error that is no refusal.
    pub fn run(&mut self, transactions: u64) -> Result<()> {
        (0..transactions).try_for_each(|_| self.one())
    }

    fn one(&mut self) -> Result<()> {
        let record = self.ledger.begin();
        let id = record.id;
        match self.attempt(record) {
            Err(error) if is_refused(&error) => {
                self.ledger.refused(id);
                Ok(())
            }
            result => result,
        }
    }

    fn attempt(&mut self, record: serial::Transaction) -> Result<()> {
        let sync = draws(&mut self.rng, self.manner.one_sync_in);
        let write = WriteOptions { sync, ..WriteOptions::default() };
        let expiring = draws(&mut self.rng, self.manner.one_expiring_in);
        let options = TransactionOptions {
            set_snapshot: self.manner.reads == Reads::Snapshot,
            deadlock_detect: self.manner.lock_timeout == PATIENT,
            expiration: if expiring { self.manner.expiration } else { -1 },
            ..TransactionOptions::default()
        };
        let transaction = self.base.begin(&write, &options);
        transaction.set_lock_timeout(self.manner.lock_timeout);
        let two_phases = draws(&mut self.rng, self.manner.one_prepared_in);
        if two_phases {
            // Later its locks may have been taken, and then it gets no name.
            transaction.set_name(Ledger::name(record.id))?;
        }
        let snapshot = transaction.snapshot();
        let read = ReadOptions { snapshot, ..ReadOptions::default() };
        let mut work = Work { transaction: &transaction, read, record, own: BTreeMap::new() };
        for _ in 0..1 + self.rng.uniform(self.manner.steps_max) {
            self.step(&mut work)?;
            self.pause();
        }
        let record = work.record;
        match two_phases && !record.writes.is_empty() {
            true => self.end_in_two_phases(&transaction, record, sync),
            false => {
                self.ledger.at(&record, Stage::Committing);
                transaction.commit()?;
                self.ledger.committed(record, sync);
                Ok(())
            }
        }
    }

    fn step(&mut self, work: &mut Work<'_>) -> Result<()> {
        let key = self.rng.uniform(u64::from(self.manner.keys)) as u32;
        match self.rng.uniform(8) {
            0..3 => self.read(work, key, self.manner.reads).map(drop),
            3 if self.manner.reads == Reads::Snapshot => self.scan(work),
            _ => self.update(work, key),
        }
    }

    /// Reads a key; the version that it had before the transaction.
    fn read(&mut self, work: &mut Work<'_>, key: u32, how: Reads) -> Result<Version> {
        let (cf, bytes) = (family_of(&self.families, key), key_bytes(key));
        let value = match how {
            Reads::ForUpdate => {
                let exclusive = self.rng.one_in(2);
                work.transaction.get_for_update_cf_opt(&work.read, cf, bytes, exclusive)?
            }
            _ => Store::get(work.transaction, &work.read, cf, &bytes)?,
        };
        saw(work, key, value.as_deref())
    }

    /// Reads all keys of a family with a cursor.
    fn scan(&mut self, work: &mut Work<'_>) -> Result<()> {
        let first = self.rng.uniform(self.families.len() as u64) as u32;
        let cf = &self.families[first as usize];
        let mut found: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
        let mut cursor = Store::cursor(work.transaction, &work.read, cf)?;
        cursor.seek_to_first();
        while let Some(key) = cursor.key() {
            if beside_id(key).is_some() {
                cursor.next();
                continue;
            }
            let key = <[u8; 4]>::try_from(key)
                .map_err(|_| Error::corruption("a key that nobody wrote"))?;
            let value =
                cursor.value().ok_or_else(|| Error::corruption("a key without value"))??;
            found.insert(u32::from_be_bytes(key), value.to_vec());
            cursor.next();
        }
        cursor.status()?;
        for key in (first..self.manner.keys).step_by(self.families.len()) {
            saw(work, key, found.get(&key).map(Vec::as_slice))?;
        }
        Ok(())
    }

    fn update(&mut self, work: &mut Work<'_>, key: u32) -> Result<()> {
        let how = match self.manner.locked_updates {
            true => Reads::ForUpdate,
            false => self.manner.reads,
        };
        let previous = self.read(work, key, how)?;
        self.pause();
        let nth = work.own.get(&key).map_or(1, |own| own.nth + 1);
        let version = Version { writer: work.record.id, nth };
        let bytes = self.rng.uniform(self.manner.value_bytes_max + 1) as usize;
        let value = Stamp { version, previous }.encode(bytes);
        work.transaction.put_cf(family_of(&self.families, key), key_bytes(key), &value)?;
        work.own.insert(key, version);
        work.record.writes.retain(|write| write.key != key);
        work.record.writes.push(Write { key, version, previous });
        Ok(())
    }

    fn end_in_two_phases(
        &mut self,
        transaction: &Transaction,
        record: serial::Transaction,
        sync: bool,
    ) -> Result<()> {
        self.ledger.at(&record, Stage::Preparing);
        transaction.prepare()?;
        self.ledger.at(&record, Stage::Prepared { durable: sync });
        match self.sleeps && self.rng.one_in(4) {
            true => self.outlive_flushes()?,
            false => (0..self.rng.uniform(8)).for_each(|_| self.pause()),
        }
        if self.rng.one_in(4) {
            self.ledger.at(&record, Stage::RollingBack);
            transaction.rollback()?;
            self.ledger.rolled_back(&record, sync);
        } else {
            // From a copy, so that it does not change what else is drawn.
            if draws(&mut self.rng.clone().fork(), self.manner.one_beside_in) {
                write_beside(&self.ledger, &self.families, transaction, record.id)?;
            }
            self.ledger.at(&record, Stage::CommittingPrepared { durable: sync });
            transaction.commit()?;
            self.ledger.committed(record, sync);
        }
        Ok(())
    }

    /// Lets others write, and flushes what they wrote: logs are switched and released meanwhile.
    fn outlive_flushes(&mut self) -> Result<()> {
        for _ in 0..2 + self.rng.uniform(4) {
            thread::sleep(Duration::from_micros(1 + self.rng.uniform(6000)));
            self.families.iter().try_for_each(|cf| self.base.db().flush_cf(cf))?;
        }
        Ok(())
    }

    fn pause(&mut self) {
        match self.rng.uniform(4) {
            0 if self.sleeps => {
                thread::sleep(Duration::from_micros(1 + self.rng.uniform(3000)));
            }
            0 | 1 => thread::yield_now(),
            _ => {}
        }
    }
}

/// Has the commit of a prepared transaction write a key of its own with it.
///
/// # Errors
/// As [`Transaction::set_commit_time_batch`].
pub fn write_beside(
    ledger: &Ledger,
    families: &[ColumnFamily],
    transaction: &Transaction,
    id: u64,
) -> Result<()> {
    let mut batch = WriteBatch::new();
    batch.put_cf(family_of(families, id as u32), beside_key(id), b"beside");
    transaction.set_commit_time_batch(&batch)?;
    ledger.commits_beside(id);
    Ok(())
}

fn draws(rng: &mut Rng, one_in: u64) -> bool {
    one_in > 0 && rng.one_in(one_in)
}

/// Notes what a read saw, unless it was the transaction's own write; the version that the key had
/// before the transaction.
fn saw(work: &mut Work<'_>, key: u32, value: Option<&[u8]>) -> Result<Version> {
    let stamp = match value {
        None => Stamp { version: Version::NONE, previous: Version::NONE },
        Some(value) => {
            Stamp::decode(value).ok_or_else(|| Error::corruption("a value that nobody wrote"))?
        }
    };
    match work.own.get(&key) {
        Some(own) if *own == stamp.version => Ok(stamp.previous),
        Some(own) => Err(Error::corruption(format!(
            "{own:?} was written and {:?} is read in the same transaction",
            stamp.version
        ))),
        None => {
            work.record.reads.push((key, stamp.version));
            Ok(stamp.version)
        }
    }
}
