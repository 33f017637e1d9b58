//! Two-phase commit of transactions that lock: names, prepare, and what becomes of prepared ones.
//!
//! A prepared transaction is in the log. It takes effect by its commit and goes by its rollback; if
//! the database closes or crashes before, the next open finds it. One that an open found has no
//! locks, as in RocksDB.
//!
//! Thread safety: as transactions. Lock order: a transaction's content, the names.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use pumice_base::{Error, Result};
use pumice_port::sync::Mutex;
use pumice_port::time::now_micros;

use crate::commit::batch::{BatchRecord, records};
use crate::commit::two_phase::Section;
use crate::db::api::Db;
use crate::engine::two_phase;
use crate::lock_order;
use crate::locks::TransactionState;
use crate::options::requests::WriteOptions;
use crate::transactions::content::{Content, Control, Inner};
use crate::transactions::options::TransactionOptions;
use crate::transactions::pessimistic::{Pessimistic, cannot_commit, expired};

/// Longest name of a transaction in bytes.
const NAME_BYTES_MAX: usize = 512;

/// The named transactions of a database. The name of one that was dropped after its prepare stays
/// taken: its section is in the log.
pub(super) struct Names(Mutex<BTreeMap<Vec<u8>, Weak<Inner>>>);

impl Default for Names {
    fn default() -> Self {
        Names(Mutex::ranked(&lock_order::TRANSACTION_NAMES, BTreeMap::new()))
    }
}

impl Names {
    /// Gives `transaction` its name.
    ///
    /// # Errors
    /// InvalidArgument if the name is not possible or taken, or it is too late for one.
    pub fn set(&self, transaction: &Arc<Inner>, content: &mut Content, name: &[u8]) -> Result<()> {
        if content.holder.state() != TransactionState::Started {
            return Err(Error::invalid_argument("Transaction is beyond state for naming."));
        }
        let mut names = self.0.lock();
        let text = if !content.name.is_empty() {
            "Transaction has already been named.".to_string()
        } else if names.contains_key(name) {
            format!("Duplicate txn name {}", String::from_utf8_lossy(name))
        } else if name.is_empty() || name.len() > NAME_BYTES_MAX {
            "Transaction name length must be between 1 and 512 chars.".to_string()
        } else {
            names.insert(name.to_vec(), Arc::downgrade(transaction));
            content.name = name.to_vec();
            return Ok(());
        };
        Err(Error::invalid_argument(text))
    }

    /// The name is free again.
    pub fn forget(&self, name: &[u8]) {
        self.0.lock().remove(name);
    }

    /// The transaction with that name.
    pub fn get(&self, name: &[u8]) -> Option<Arc<Inner>> {
        self.0.lock().get(name)?.upgrade()
    }

    /// Those that are prepared, by name.
    pub fn prepared(&self) -> Vec<Arc<Inner>> {
        let named: Vec<_> = self.0.lock().values().filter_map(Weak::upgrade).collect();
        let is_prepared =
            |inner: &Arc<Inner>| inner.content.lock().holder.state() == TransactionState::Prepared;
        named.into_iter().filter(is_prepared).collect()
    }
}

impl Pessimistic {
    /// Writes the transaction to the log, so that it can be committed after a crash, too.
    pub fn prepare(&self, inner: &Inner, content: &mut Content) -> Result<()> {
        let holder = Arc::clone(&content.holder);
        if content.name.is_empty() {
            let text = "Cannot prepare a transaction that has not been named.";
            return Err(Error::invalid_argument(text));
        }
        if holder.is_expired(now_micros()) {
            return Err(expired());
        }
        match holder.state() {
            TransactionState::Started => {}
            TransactionState::Prepared => {
                return Err(Error::invalid_argument("Transaction has already been prepared."));
            }
            state => return Err(cannot_commit(state)),
        }
        if !holder.change(TransactionState::Started, TransactionState::AwaitingPrepare) {
            return Err(expired());
        }
        let logged = inner.batch.with_mut(|batch| {
            let updates = batch.write_batch();
            two_phase::prepare(inner.db.inner(), &content.write_options, &content.name, updates)
        });
        match logged {
            Ok(log) => {
                // Nobody takes its locks any more.
                holder.keep();
                content.prepared.log = log;
                holder.change(TransactionState::AwaitingPrepare, TransactionState::Prepared);
                Ok(())
            }
            Err(error) => {
                holder.change(TransactionState::AwaitingPrepare, TransactionState::Started);
                Err(error)
            }
        }
    }

    /// Commits a prepared transaction.
    pub fn commit_prepared(&self, inner: &Inner, content: &mut Content) -> Result<()> {
        inner.stamp(content)?;
        self.end(inner, content, TransactionState::AwaitingCommit, TransactionState::Committed)
    }

    /// Takes a prepared transaction back.
    pub fn rollback_prepared(&self, inner: &Inner, content: &mut Content) -> Result<()> {
        self.end(inner, content, TransactionState::AwaitingRollback, TransactionState::RolledBack)
    }

    fn end(
        &self,
        inner: &Inner,
        content: &mut Content,
        during: TransactionState,
        after: TransactionState,
    ) -> Result<()> {
        let holder = Arc::clone(&content.holder);
        if !holder.change(TransactionState::Prepared, during) {
            return Err(cannot_commit(holder.state()));
        }
        let (db, prepared) = (inner.db.inner(), (&*content.name, content.prepared.log));
        let ended = match after {
            TransactionState::Committed => inner.batch.with_mut(|batch| {
                let updates = (content.prepared.beside.as_ref(), batch.write_batch());
                two_phase::commit(db, &content.write_options, prepared, updates)
            }),
            _ => two_phase::rollback(db, &content.write_options, prepared),
        };
        if let Err(error) = ended {
            holder.change(during, TransactionState::Prepared);
            return Err(error);
        }
        if after == TransactionState::Committed {
            content.committed_at = Some(inner.db.latest_sequence_number());
        }
        self.names.forget(&content.name);
        inner.clear(content);
        holder.change(during, after);
        Ok(())
    }
}

/// The transaction of a section that the open found.
///
/// # Errors
/// Corruption of the section.
pub(super) fn recovered(
    db: &Db,
    locks: &Arc<Pessimistic>,
    section: &Section,
) -> Result<Arc<Inner>> {
    let write = WriteOptions { sync: true, ..WriteOptions::default() };
    let options =
        TransactionOptions { skip_concurrency_control: true, ..TransactionOptions::default() };
    let content = Content::new(db, &write, &options);
    let inner = Arc::new(Inner::new(db.clone(), Control::Locks(Arc::clone(locks)), content));
    for record in records(&section.updates) {
        let BatchRecord::Entry { column_family, value_type, key, value } = record? else {
            continue;
        };
        let family = db.column_family_of(column_family).ok();
        // Keys that have no timestamp yet end with zeros.
        let size = family.as_ref().map_or(0, |cf| cf.data.timestamp_size);
        let key = &key[..key.len().saturating_sub(size)];
        inner.batch.with_mut(|batch| match &family {
            Some(cf) => batch.add_record(cf, value_type, key, value),
            None => batch.add_record(column_family, value_type, key, value),
        })?;
    }
    let mut content = inner.content.lock();
    locks.names.set(&inner, &mut content, &section.name)?;
    content.prepared.log = section.log;
    content.holder.change(TransactionState::Started, TransactionState::AwaitingPrepare);
    content.holder.change(TransactionState::AwaitingPrepare, TransactionState::Prepared);
    drop(content);
    Ok(inner)
}
