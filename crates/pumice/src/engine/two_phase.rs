//! Two-phase commit: what of it needs leadership of the write queue, or the moment of an open.
//!
//! | step | log record | then |
//! |---|---|---|
//! | prepare | the section, RocksDB's | the log is held |
//! | commit | the end of the section and all updates again | that is durable: the log is not held |
//! | rollback | the end of the section | the log is not held |
//! | open | the sections that are left, once more in the first log | that log is held |
//!
//! A commit repeats the updates so that from then on they are like any others: in the log of their
//! memtable, released with it, read by whoever follows the log. RocksDB's commit record names the
//! section instead; its recovery reads both. The log of the section is released once the commit is
//! durable: right after it if it was synced, else when the memtables of its log are in tables.
//!
//! Thread safety: from any task. Every call may suspend. Lock order: the engine's.

use std::cell::Cell;

use pumice_base::planted::{self, Bug};
use pumice_base::{FileNumber, Result};

use crate::commit::batch::{self, HEADER_LEN, WriteBatch};
use crate::commit::queue::QueuedBatch;
use crate::commit::two_phase::{self, PreparedSections, Section, Taken};
use crate::engine::DbInner;
use crate::options::requests::WriteOptions;
use crate::state::log_holders::LogHolder;

/// Logs the updates of the transaction `name`, which take effect by [`commit`]. Returns the log,
/// which stays until [`commit`] or [`rollback`].
///
/// # Errors
/// As `DbInner::write`; nothing is prepared then, unless the device failed while syncing.
pub(crate) fn prepare(
    db: &DbInner,
    options: &WriteOptions,
    name: &[u8],
    updates: &WriteBatch,
) -> Result<FileNumber> {
    let options = WriteOptions { disable_wal: false, ..*options };
    updates.status()?;
    db.check_write(&options)?;
    let rep = two_phase::section(name, updates.data());
    let logged = HEADER_LEN..rep.len();
    let taken = Taken { sequences: 0, logged, updates: batch::count(&rep) };
    let sums = updates.sums().cloned();
    let batch = QueuedBatch { rep, taken, sums, options, exclusive: true };
    let log = Cell::new(0);
    db.write_exclusive(batch, &|| Ok(()), &|leader| {
        log.set(db.logs.wal.lock().number());
        db.hold_log(leader, log.get(), LogHolder::PreparedSection);
    })?;
    Ok(log.get())
}

/// Makes the updates of the transaction `name`, prepared in `log`, part of the database, after
/// those that are committed beside them.
///
/// # Errors
/// As `DbInner::write`; it is then still prepared.
pub(crate) fn commit(
    db: &DbInner,
    options: &WriteOptions,
    (name, log): (&[u8], FileNumber),
    (beside, updates): (Option<&WriteBatch>, &WriteBatch),
) -> Result<()> {
    let bytes = beside.map_or(0, WriteBatch::data_bytes) + updates.data_bytes();
    let mut batch = WriteBatch::with_capacity(bytes + name.len() + 16);
    batch.put_section_end(name);
    beside.into_iter().for_each(|beside| batch.append(beside));
    let options = WriteOptions { disable_wal: false, ..*options };
    if planted::is(Bug::CommitWithoutUpdates) {
        db.write(&options, &mut batch)?;
        batch.clear();
        batch.append(updates);
        db.write(&WriteOptions { sync: false, disable_wal: true, ..options }, &mut batch)?;
    } else {
        batch.append(updates);
        db.write(&options, &mut batch)?;
    }
    match options.sync {
        true => db.release_log(log, LogHolder::PreparedSection),
        false => db.release_log_after_commit(log, LogHolder::PreparedSection),
    }
    Ok(())
}

/// Takes back the transaction `name`, prepared in `log`.
///
/// # Errors
/// As `DbInner::write`; it is then still prepared.
pub(crate) fn rollback(
    db: &DbInner,
    options: &WriteOptions,
    (name, log): (&[u8], FileNumber),
) -> Result<()> {
    let mut batch = WriteBatch::new();
    batch.put_section_end(name);
    db.write(&WriteOptions { disable_wal: false, ..*options }, &mut batch)?;
    db.release_log(log, LogHolder::PreparedSection);
    Ok(())
}

/// Repeats the sections that recovery found in the first log of this open, `log`, so that the logs
/// that had them can go. Called before the MANIFEST releases these.
///
/// # Errors
/// I/O of the log.
pub(super) fn keep_sections(
    db: &DbInner,
    log: FileNumber,
    sections: &PreparedSections,
) -> Result<()> {
    let first = db.last_sequence.load(std::sync::atomic::Ordering::Acquire) + 1;
    for (name, updates) in sections.iter() {
        let mut record = two_phase::section(name, updates);
        let header = batch::header(first, batch::count(updates));
        record[..HEADER_LEN].copy_from_slice(&header);
        let appended = db.logs.at_rest().append(&[&record], true);
        appended?;
        let mut state = db.state.lock();
        state.files.log_holders.hold(log, LogHolder::PreparedSection);
        let (name, updates) = (name.to_vec(), updates.to_vec());
        state.files.recovered_sections.push(Section { name, updates, log });
    }
    Ok(())
}

/// The prepared transactions that the open found; a second call gets none.
pub(crate) fn take_recovered(db: &DbInner) -> Vec<Section> {
    std::mem::take(&mut db.state.lock().files.recovered_sections)
}
