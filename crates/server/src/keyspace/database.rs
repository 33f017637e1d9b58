//! What the keyspace asks of the database below it in more than one call.
//!
//! Generic over [`Store`] where keys and values are enough.
//!
//! Thread safety: functions and plain values. Calls suspend.

use std::ops::Deref;
use std::time::Duration;

use pumice::{Db, ErrorKind, PinnedSlice, ReadOptions, Result, Store, WriteBatch, WriteOptions};
use pumice_port::thread;

/// How often a recovery that waits for one of the engine looks whether that is over.
const OWN_ATTEMPT: Duration = Duration::from_millis(10);

/// Bytes that were read.
pub enum Stored {
    /// In the engine's memory.
    Pinned(PinnedSlice),
    /// In ours.
    Own(Vec<u8>),
}

impl Deref for Stored {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Stored::Pinned(bytes) => bytes,
            Stored::Own(bytes) => bytes,
        }
    }
}

/// Reads of the state that the database has now.
pub(super) fn of_this_moment(db: &Db) -> ReadOptions {
    ReadOptions { snapshot: Some(db.snapshot()), ..ReadOptions::default() }
}

/// The values of keys, all from one consistent state.
///
/// # Errors
/// The first that there is.
pub(super) fn get_many<S: Store>(
    store: &S,
    reads: &ReadOptions,
    keys: &[Vec<u8>],
) -> Result<Vec<Option<Stored>>> {
    let family = store.default_column_family();
    let keys: Vec<_> = keys.iter().map(|key| (family, key.as_slice())).collect();
    let values = store.multi_get(reads, &keys).into_iter();
    values.map(|value| Ok(value?.map(Stored::Pinned))).collect()
}

/// A cursor from `first` up to `end`.
///
/// # Errors
/// The engine's.
pub(super) fn cursor_between<S: Store>(
    store: &S,
    reads: &ReadOptions,
    first: &[u8],
    end: &[u8],
) -> Result<S::Cursor> {
    let reads = ReadOptions {
        iterate_lower_bound: Some(first.to_vec()),
        iterate_upper_bound: Some(end.to_vec()),
        ..reads.clone()
    };
    store.cursor(&reads, store.default_column_family())
}

/// Tries to recover from a background error, and then whether a durable write works: a new log
/// shows only then whether its device does. Suspends.
///
/// # Errors
/// The failure because of which writes are still refused.
pub fn recover(db: &Db) -> Result<()> {
    while let Err(error) = db.resume() {
        if error.kind() != ErrorKind::Busy {
            return Err(error);
        }
        // The engine itself is at it, as after a failed flush.
        thread::sleep(OWN_ATTEMPT);
    }
    let mut probe = WriteBatch::new();
    // It is in the log alone, and no reader or sequence number knows it.
    probe.put_log_data(b"recovered");
    db.write_opt(&WriteOptions { sync: true, ..WriteOptions::default() }, &mut probe)
}
